// Package scan walks each chain block by block and reports to a Listener what arrives at our
// addresses.
//
// There are two walks:
//   - The head walk follows the newest blocks as one provider shows them, for people to look
//     at. Forks rewind it.
//   - The final walk reads blocks that a quorum of providers agrees on and that were checked
//     against their
//
// header. Only its arrivals may be credited, in the transaction that moves its cursor.
//
// The package never
//   - skips a block that could not be fetched or decoded
//   - moves a cursor without the arrivals of its block
//   - calls the network inside a transaction
//   - credits a deposit
//
// A crash leaves the cursor on the last block that was written completely. The next start reads the
// block after it again.
package scan

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Arrival is a movement of value to one of our addresses.
type Arrival struct {
	chain.Transfer
	Wallet wallet.Wallet // the wallet that received it
	Mint   *mint.Mint    // nil if the token is not in the catalogue
	// Senders are all senders, sorted. It is empty if one of them cannot be named. From is set if
	// there is a single sender.
	Senders []chain.Address
	// References are the accounts that the transaction only names, if the wallet is one that checkouts share.
	References     []chain.Address
	FromOwnWallets bool   // only wallets of ours sent it: a sweep, a top-up or change, never a deposit
	Doubt          string // "" or why it must not be credited: DoubtBalanceDelta, DoubtTokenAccount
}

// DoubtBalanceDelta marks a movement that the balance does not show.
const DoubtBalanceDelta = "BALANCE_DELTA"

// DoubtTokenAccount marks a token in an account from which no payment of ours is made. The account
// is ours, but its tokens could neither be swept nor sent back. Rule DEP-41.
const DoubtTokenAccount = "TOKEN_ACCOUNT"

// Proof identifies the row that proves that a block is final, with the block.
type Proof struct {
	ID    int64
	Chain chain.Name
	chain.Block
}

// Listener receives what the walks find. A method with a transaction writes in it and may run
// twice. The same block may come again after a fork, a rewound cursor or a commit with an unknown
// result. The chain's cursor row is locked during each call, so the calls for one chain never
// overlap.
type Listener interface {
	// OnRecent reports a recent block, which a fork can remove again.
	OnRecent(ctx context.Context, tx pg.Tx, ch chain.Name, b chain.Block, f []Arrival) error
	// OnOrphaned reports that the recent blocks at this height and above are no longer on the
	// chain.
	OnOrphaned(ctx context.Context, tx pg.Tx, ch chain.Name, from uint64) error
	// OnFinal reports a final block before it is written, outside any transaction. The listener
	// asks other services here. The Apply that it returns writes the block. What was seen at this
	// height or below and is in no final block is not on the chain. A block whose transaction
	// failed is reported again.
	OnFinal(ctx context.Context, ch chain.Name, b chain.Block, f []Arrival) Apply
}

// Apply writes a final block, in the transaction that moves the cursor.
type Apply func(ctx context.Context, tx pg.Tx, p Proof) error

// ErrFinalityBroken says that the chain has other final blocks than those that were walked.
// Outgoing payments of the chain are frozen until a person decides.
var ErrFinalityBroken = errors.New("finality broken")

// errCursorMoved says that another process moved the cursor meanwhile.
var errCursorMoved = errors.New("another process moved the scan")

// Config configures the walks of a chain. A zero value means the default named below.
type Config struct {
	Chain  chain.Name
	Reader chain.Reader
	// Matcher finds our wallets; the walks of all chains share one. The default is one without a filter.
	Matcher *wallet.Matcher
	// Start is the block after which the first start begins. Nil means the final block of that
	// moment. Later starts continue at the cursor.
	Start *uint64
	// PollInterval is the pause when there is no new block; the default is 1 s.
	PollInterval time.Duration
	// FinalityListeners are notified when finality breaks, in this order.
	FinalityListeners []finality.Listener
	// OnError receives the error of every failed step, with the walk: "final" or "head". Nil
	// ignores errors.
	OnError func(walk string, err error)
	// HeadDepth is how many recent blocks are kept. This is also the depth of the deepest fork that
	// is followed block by block. The default is 128.
	HeadDepth uint64
	// TraceTimeout is how long a final block may wait for the calls of its transactions; the default
	// is 10 s.
	TraceTimeout time.Duration
}

const (
	pollDefault       = time.Second
	headDepthDefault  = 128
	standbyPolls      = 5           // pauses between attempts to take over the walks from another process
	logRepeatInterval = time.Minute // how often an unchanged problem is logged again
	progressInterval  = 10 * time.Second
	progressBlocks    = 100 // a walk that is further behind logs its progress
)

// Walker walks one chain. Any number of them may walk the same chain: each finds what another one
// has done.
type Walker struct {
	db           *pg.DB
	conf         Config
	listener     Listener
	log          *slog.Logger
	final        atomic.Uint64        // height of the newest known final block
	forked       atomic.Bool          // the head walk has just followed a fork
	tokens       chain.TokenInspector // nil if the chain has none
	tracer       chain.Tracer         // nil if the blocks themselves show all transfers
	traceBudget  traceBudget
	nextReview   atomic.Int64           // when the catalogue is reviewed next, in Unix seconds
	caughtUpAt   atomic.Int64           // when storeCaughtUp last stored a time, in Unix milliseconds
	reportedFork atomic.Pointer[string] // the fork that this process has reported
}

// New returns a Walker. Run or the Step methods make it walk.
func New(db *pg.DB, conf Config, listener Listener, log *slog.Logger) *Walker {
	if conf.PollInterval == 0 {
		conf.PollInterval = pollDefault
	}
	if conf.HeadDepth == 0 {
		conf.HeadDepth = headDepthDefault
	}
	if conf.Matcher == nil {
		conf.Matcher = wallet.NewMatcher(db, log)
	}
	w := &Walker{db: db, conf: conf, listener: listener, log: log.With("chain", string(conf.Chain))}
	w.tokens, _ = conf.Reader.(chain.TokenInspector)
	w.tracer, _ = conf.Reader.(chain.Tracer)
	return w
}

// Run walks until ctx ends, while this process holds the chain's advisory lock. Without the lock it
// stands by. It returns nil.
func (w *Walker) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		lock, ok, err := w.db.AdvisoryLock(ctx, "scan "+string(w.conf.Chain))
		switch {
		case err != nil && ctx.Err() == nil:
			w.log.Warn("scan: lock not taken", "error", err)
		case ok:
			w.log.Info("scan: walking")
			w.runWalks(lock.Context())
			lock.Release()
			if ctx.Err() == nil {
				w.log.Warn("scan: lock lost, standing by")
			}
		}
		waitFor(ctx, standbyPolls*w.conf.PollInterval)
	}
	return nil
}

func (w *Walker) runWalks(ctx context.Context) {
	final, head := &problemLog{log: w.log, message: "scan: the final scan has stopped"},
		&problemLog{log: w.log, message: "scan: the head scan has stopped"}
	progress := &progressLog{walker: w}
	var headResumesAt time.Time // the head walk pauses until then
	prefetch := &prefetcher{}
	defer prefetch.takeResult()
	if w.tracer != nil {
		var tracing sync.WaitGroup
		tracing.Go(func() { w.runTraces(ctx) })
		defer tracing.Wait()
	}
	for ctx.Err() == nil {
		finalMoved, err := w.stepFinalAhead(ctx, prefetch)
		final.logProblem(ctx, err)
		w.reportError(ctx, "final", err)
		if finalMoved {
			progress.logProgress(ctx)
		}
		headMoved := false
		if !time.Now().Before(headResumesAt) {
			headMoved, err = w.StepHead(ctx)
			head.logProblem(ctx, err)
			w.reportError(ctx, "head", err)
		}
		if w.forked.Swap(false) {
			// Providers that alternate between two branches would rewind the head walk without a
			// pause. The final walk does not pause.
			headResumesAt = time.Now().Add(w.conf.PollInterval)
		}
		if !finalMoved && !headMoved {
			waitFor(ctx, w.conf.PollInterval)
		}
	}
}

func (w *Walker) reportError(ctx context.Context, walk string, err error) {
	if err != nil && ctx.Err() == nil && w.conf.OnError != nil {
		w.conf.OnError(walk, err)
	}
}

func waitFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// problemLog logs a problem when it starts, at intervals while it lasts, and when it ends.
type problemLog struct {
	log       *slog.Logger
	message   string
	lastError string
	loggedAt  time.Time
}

func (c *problemLog) logProblem(ctx context.Context, err error) {
	if err == nil {
		if c.lastError != "" {
			c.log.Info(c.message+" no more", "error", c.lastError)
			c.lastError = ""
		}
		return
	}
	if ctx.Err() != nil || err.Error() == c.lastError && time.Since(c.loggedAt) < logRepeatInterval {
		return
	}
	c.lastError, c.loggedAt = err.Error(), time.Now()
	level := slog.LevelWarn
	if isPermanent(err) {
		level = slog.LevelError
	}
	c.log.Log(ctx, level, c.message, "error", err)
}

// isPermanent reports whether waiting cannot repair the error.
func isPermanent(err error) bool {
	return errors.Is(err, chain.ErrUndecodable) || errors.Is(err, chain.ErrStateGone) ||
		errors.Is(err, ErrFinalityBroken)
}

// progressLog logs the progress of a walk that is far behind.
type progressLog struct {
	walker    *Walker
	startedAt time.Time
	steps     uint64
}

func (p *progressLog) logProgress(ctx context.Context) {
	if p.startedAt.IsZero() {
		p.startedAt = time.Now()
	}
	p.steps++
	took := time.Since(p.startedAt)
	if took < progressInterval {
		return
	}
	steps := p.steps
	p.startedAt, p.steps = time.Now(), 0
	cursor, ok, err := p.walker.readCursor(ctx)
	final := p.walker.final.Load()
	if err != nil || !ok || final < cursor.Height+progressBlocks {
		return
	}
	blocksLeft := final - cursor.Height
	p.walker.log.Info("scan: catching up", "height", cursor.Height, "final", final, "behind", blocksLeft,
		"expected", (took * time.Duration(blocksLeft) / time.Duration(steps)).Round(time.Second))
}

// readCursor returns the last block that the final walk has written. ok is false before the first
// start.
func (w *Walker) readCursor(ctx context.Context) (block chain.Block, ok bool, err error) {
	err = w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		err := tx.QueryRow(ctx, `SELECT height, hash FROM scan_cursors WHERE chain = $1`, w.conf.Chain).
			Scan(&block.Height, &block.Hash)
		if errors.Is(err, pgx.ErrNoRows) {
			ok = false
			return nil
		}
		ok = err == nil
		return err
	})
	if err != nil {
		return chain.Block{}, false, fmt.Errorf("read the cursor of %s: %w", w.conf.Chain, err)
	}
	return block, ok, nil
}

// matchArrivals returns the movements of a block to our addresses, with their senders, and what was
// matched. It asks only for the senders of those, because the question can be expensive.
func (w *Walker) matchArrivals(ctx context.Context, c chain.Contents) ([]Arrival, wallet.Match, error) {
	arrivals, match, err := w.findArrivals(ctx, c)
	if err != nil {
		return nil, match, fmt.Errorf("look up the receivers in block %d: %w", c.Height, err)
	}
	if len(arrivals) == 0 {
		return nil, match, nil
	}
	transfers := make([]chain.Transfer, len(arrivals))
	for i, f := range arrivals {
		transfers[i] = f.Transfer
	}
	senders, err := w.conf.Reader.Senders(ctx, c.Block, transfers)
	if err == nil && len(senders) != len(arrivals) {
		err = fmt.Errorf("asked about %d transfers, got the senders of %d", len(arrivals), len(senders))
	}
	if err == nil {
		err = w.fillSenders(ctx, arrivals, senders)
	}
	if err != nil {
		return nil, match, fmt.Errorf("look up the senders in block %d: %w", c.Height, err)
	}
	return arrivals, match, nil
}

// findWallets finds our wallets among the addresses. A block was read before, so an address that it pays
// was handed out, and committed, before.
func (w *Walker) findWallets(ctx context.Context, addresses iter.Seq[chain.Address]) (wallet.Match, error) {
	var distinct []chain.Address
	isDuplicate := map[chain.Address]bool{}
	for a := range addresses {
		if a != "" && !isDuplicate[a] {
			isDuplicate[a] = true
			distinct = append(distinct, a)
		}
	}
	return w.conf.Matcher.Match(ctx, w.conf.Chain.Family(), distinct)
}

// fillSenders sets Senders, From and FromOwnWallets of the arrivals. Rule DEP-8.
func (w *Walker) fillSenders(ctx context.Context, arrivals []Arrival, senders [][]chain.Address) error {
	match, err := w.findWallets(ctx, slices.Values(slices.Concat(senders...)))
	if err != nil {
		return err
	}
	for i, addresses := range senders {
		f := &arrivals[i]
		if f.Senders, f.From = addresses, ""; len(addresses) == 1 {
			f.From = addresses[0]
		}
		// Coin that token accounts held is in no account of our ledger, so it counts as sent by a
		// stranger.
		f.FromOwnWallets = !f.Freed && len(addresses) > 0 &&
			!slices.ContainsFunc(addresses, func(a chain.Address) bool {
				_, isOwn := match.Wallets[a]
				return !isOwn
			})
	}
	return nil
}

// findArrivals returns the movements of a block to our addresses, with wallet and mint, without
// senders, and what was matched.
func (w *Walker) findArrivals(
	ctx context.Context, c chain.Contents,
) (arrivals []Arrival, match wallet.Match, err error) {
	match, err = w.findWallets(ctx, func(yield func(chain.Address) bool) {
		for _, t := range c.Transfers {
			if !yield(t.To) {
				return
			}
		}
	})
	if err != nil || len(match.Wallets) == 0 {
		return nil, match, err
	}
	err = w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		arrivals = nil
		catalogue, err := mint.LoadCatalogue(ctx, tx)
		if err != nil {
			return err
		}
		for _, t := range c.Transfers {
			receiver, ok := match.Wallets[t.To]
			if !ok || t.Amount.IsZero() {
				continue
			}
			f := Arrival{Transfer: t, Wallet: receiver}
			if m, ok := catalogue.ByContract(w.conf.Chain, t.Contract); ok {
				f.Mint = &m
			}
			if receiver.Purpose == wallet.CheckoutShared {
				f.References = c.Mentioned[t.Tx].Addresses()
			}
			if w.tokens != nil && w.tokens.IsAuxiliaryAccount(t) {
				f.Doubt = DoubtTokenAccount
			}
			arrivals = append(arrivals, f)
		}
		return nil
	})
	return arrivals, match, err
}
