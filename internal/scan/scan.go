// Package scan walks each chain, block by block, and tells a Listener what
// arrived at the addresses that we control.
//
// There are two walks. The head walk follows the newest blocks as one provider
// shows them, for people to look at; forks rewind it. The final walk reads
// blocks that enough providers agree on and that were checked against their
// header; only what it observes may be credited, and in the transaction that
// moves its cursor.
//
// What never happens here: a block left out because it could not be fetched or
// decoded, a cursor that moves without its block's arrivals, a network call
// inside a transaction, a credit. What a crash leaves: the cursor on the last
// block that is wholly in; the next start reads the block after it again.
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
	"github.com/cofferpay/coffer/internal/finality"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Arrival is a movement of value to an address of ours.
type Arrival struct {
	chain.Transfer
	Wallet wallet.Wallet // who it came to
	Mint   *mint.Mint    // nil: the token is not in the catalogue
	// Senders are all who sent it, sorted; none where one of them cannot be named. From is
	// the one where there is no other.
	Senders        []chain.Address
	FromOwnWallets bool   // wallets of ours alone sent it: a sweep, a top-up, change, never a deposit
	Doubt          string // "" or why it must not be credited: DoubtBalanceDelta, DoubtTokenAccount
}

// DoubtBalanceDelta is the doubt about a movement that the balance does not show.
const DoubtBalanceDelta = "BALANCE_DELTA"

// DoubtTokenAccount is the doubt about a token in an account that no payment of ours comes out
// of: it is ours, and nothing of it could be swept or sent back.
const DoubtTokenAccount = "TOKEN_ACCOUNT"

// Proof is the row that says that a block is final, and the block.
type Proof struct {
	ID    int64
	Chain chain.Name
	chain.Block
}

// Listener hears what the walks find. What has a transaction writes in it and may be
// run twice; the same block may be told again after a fork, a rewound cursor or a
// commit whose answer was lost. The chain's cursor row is locked meanwhile, so that
// for one chain they are called one at a time.
type Listener interface {
	// OnRecent tells of a recent block that any fork may take away again.
	OnRecent(ctx context.Context, tx pg.Tx, ch chain.Name, b chain.Block, f []Arrival) error
	// OnOrphaned tells that what was seen at this height and above is forked away.
	OnOrphaned(ctx context.Context, tx pg.Tx, ch chain.Name, from uint64) error
	// OnFinal tells of a final block before it is taken in, outside any transaction:
	// what has to be asked of others is asked here. What it returns takes the block
	// in; what was seen at its height or below and never observed is not on the chain.
	// A block that could not be taken in is told again.
	OnFinal(ctx context.Context, ch chain.Name, b chain.Block, f []Arrival) Apply
}

// Apply takes a final block in, in the transaction that moves the cursor.
type Apply func(ctx context.Context, tx pg.Tx, p Proof) error

// ErrFinalityBroken says that the chain has other final blocks than those that
// were walked. Outgoing payments of the chain are frozen; a person decides.
var ErrFinalityBroken = errors.New("finality broken")

// errCursorMoved says that another process moved the walk meanwhile.
var errCursorMoved = errors.New("the walk was moved by somebody else")

// Config says which chain is walked and how. Zero values mean the defaults
// named below.
type Config struct {
	Chain  chain.Name
	Reader chain.Reader
	// Start is the block after which the first start begins; nil means the
	// final head of that moment. Later starts continue where the walk stood.
	Start *uint64
	// PollInterval is the pause when nothing is new; 1 s.
	PollInterval time.Duration
	// FinalityListeners are told when finality breaks, in this order.
	FinalityListeners []finality.Listener
	// OnError hears of every step of a walk, "final" or "head", that did not come
	// about; nil means that nobody does.
	OnError func(walk string, err error)
	// HeadDepth is how many recent blocks are remembered, and so the deepest
	// fork that is followed block by block; 128.
	HeadDepth uint64
}

const (
	pollDefault       = time.Second
	headDepthDefault  = 128
	standbyPolls      = 5           // pauses between attempts to take over a walk from another process
	logRepeatInterval = time.Minute // how often a problem that stays is logged again
	progressInterval  = 10 * time.Second
	progressBlocks    = 100 // a walk that is further behind tells how it gets on
)

// Walker walks one chain. Any number of them may walk the same chain: what one
// has done the others find done.
type Walker struct {
	db           *pg.DB
	conf         Config
	listener     Listener
	log          *slog.Logger
	final        atomic.Uint64        // the final head as last heard
	forked       atomic.Bool          // the head walk has just followed a fork
	tokens       chain.TokenInspector // nil where the chain has no such
	tracer       chain.Tracer         // nil where blocks themselves tell what moved
	traceBudget  traceBudget
	nextReview   atomic.Int64           // when the catalogue is looked at next, in Unix seconds
	reportedFork atomic.Pointer[string] // of what parting this process has told
}

// New makes a walker; Run or its steps make it walk.
func New(db *pg.DB, conf Config, listener Listener, log *slog.Logger) *Walker {
	if conf.PollInterval == 0 {
		conf.PollInterval = pollDefault
	}
	if conf.HeadDepth == 0 {
		conf.HeadDepth = headDepthDefault
	}
	w := &Walker{db: db, conf: conf, listener: listener, log: log.With("chain", string(conf.Chain))}
	w.tokens, _ = conf.Reader.(chain.TokenInspector)
	w.tracer, _ = conf.Reader.(chain.Tracer)
	return w
}

// Run walks until ctx ends, while this process holds the chain's lock; without
// it, it stands by. It returns nil.
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
	final, head := &problemLog{log: w.log, message: "scan: the final walk stands"}, &problemLog{log: w.log, message: "scan: the head walk stands"}
	progress := &progressLog{walker: w}
	var headResumesAt time.Time // until then the head walk rests
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
			// Providers that take turns in showing two branches would have it go to
			// and fro without a pause. The final walk waits for nobody.
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

// problemLog logs a problem when it comes, now and then while it stays, and its end.
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

// isPermanent tells of an error that no waiting mends.
func isPermanent(err error) bool {
	return errors.Is(err, chain.ErrUndecodable) || errors.Is(err, chain.ErrStateGone) || errors.Is(err, ErrFinalityBroken)
}

// progressLog tells how a walk that is far behind gets on.
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

// readCursor is the last block that the final walk has taken in; ok is false before
// the first start.
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

// matchArrivals picks the movements to addresses of ours out of a block, and asks who sent those:
// of the others that is nobody's business, and asking may be dear.
func (w *Walker) matchArrivals(ctx context.Context, c chain.Contents) ([]Arrival, error) {
	arrivals, err := w.findArrivals(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("look up who received in block %d: %w", c.Height, err)
	}
	if len(arrivals) == 0 {
		return nil, nil
	}
	transfers := make([]chain.Transfer, len(arrivals))
	for i, f := range arrivals {
		transfers[i] = f.Transfer
	}
	senders, err := w.conf.Reader.Senders(ctx, c.Block, transfers)
	if err == nil && len(senders) != len(arrivals) {
		err = fmt.Errorf("asked about %d movements, got the senders of %d", len(arrivals), len(senders))
	}
	if err == nil {
		err = w.fillSenders(ctx, arrivals, senders)
	}
	if err != nil {
		return nil, fmt.Errorf("look up who sent in block %d: %w", c.Height, err)
	}
	return arrivals, nil
}

// findWallets are those addresses that are wallets of ours.
func (w *Walker) findWallets(ctx context.Context, tx pg.Tx, addresses iter.Seq[chain.Address]) (map[chain.Address]wallet.Wallet, error) {
	var distinct []chain.Address
	isDuplicate := map[chain.Address]bool{}
	for a := range addresses {
		if a != "" && !isDuplicate[a] {
			isDuplicate[a] = true
			distinct = append(distinct, a)
		}
	}
	return wallet.ByAddresses(ctx, tx, w.conf.Chain.Family(), distinct)
}

// fillSenders fills in who sent what reached us.
func (w *Walker) fillSenders(ctx context.Context, arrivals []Arrival, senders [][]chain.Address) error {
	var wallets map[chain.Address]wallet.Wallet
	err := w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		wallets, err = w.findWallets(ctx, tx, slices.Values(slices.Concat(senders...)))
		return err
	})
	if err != nil {
		return err
	}
	for i, addresses := range senders {
		f := &arrivals[i]
		if f.Senders, f.From = addresses, ""; len(addresses) == 1 {
			f.From = addresses[0]
		}
		// What accounts for tokens held is in no book of ours, so it comes as from a stranger.
		f.FromOwnWallets = !f.Freed && len(addresses) > 0 && !slices.ContainsFunc(addresses, func(a chain.Address) bool {
			_, isOwn := wallets[a]
			return !isOwn
		})
	}
	return nil
}

// findArrivals are the movements of a block to addresses of ours, with whose they are.
func (w *Walker) findArrivals(ctx context.Context, c chain.Contents) (arrivals []Arrival, err error) {
	err = w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		arrivals = nil
		wallets, err := w.findWallets(ctx, tx, func(yield func(chain.Address) bool) {
			for _, t := range c.Transfers {
				if !yield(t.To) {
					return
				}
			}
		})
		if err != nil || len(wallets) == 0 {
			return err
		}
		catalogue, err := mint.LoadCatalogue(ctx, tx)
		if err != nil {
			return err
		}
		for _, t := range c.Transfers {
			receiver, ok := wallets[t.To]
			if !ok || t.Amount.IsZero() {
				continue
			}
			f := Arrival{Transfer: t, Wallet: receiver}
			if m, ok := catalogue.ByContract(w.conf.Chain, t.Contract); ok {
				f.Mint = &m
			}
			if w.tokens != nil && w.tokens.IsAuxiliaryAccount(t) {
				f.Doubt = DoubtTokenAccount
			}
			arrivals = append(arrivals, f)
		}
		return nil
	})
	return arrivals, err
}
