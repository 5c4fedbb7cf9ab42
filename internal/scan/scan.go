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

// Found is a movement of value to an address of ours.
type Found struct {
	chain.Transfer
	Wallet wallet.Wallet // who it came to
	Mint   *mint.Mint    // nil: the token is not in the catalogue
	// Senders are all who sent it, sorted; none where one of them cannot be named. From is
	// the one where there is no other.
	Senders  []chain.Address
	FromOurs bool   // wallets of ours alone sent it: a sweep, a top-up, change, never a deposit
	Doubt    string // "" or why it must not be credited: BalanceDelta, TokenAccount
}

// BalanceDelta is the doubt about a movement that the balance does not show.
const BalanceDelta = "BALANCE_DELTA"

// TokenAccount is the doubt about a token in an account that no payment of ours comes out
// of: it is ours, and nothing of it could be swept or sent back.
const TokenAccount = "TOKEN_ACCOUNT"

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
	// Seen tells of a recent block that any fork may take away again.
	Seen(ctx context.Context, tx pg.Tx, ch chain.Name, b chain.Block, f []Found) error
	// Orphaned tells that what was seen at this height and above is forked away.
	Orphaned(ctx context.Context, tx pg.Tx, ch chain.Name, from uint64) error
	// Observe tells of a final block before it is taken in, outside any transaction:
	// what has to be asked of others is asked here. What it returns takes the block
	// in; what was seen at its height or below and never observed is not on the chain.
	// A block that could not be taken in is told again.
	Observe(ctx context.Context, ch chain.Name, b chain.Block, f []Found) Taking
}

// Taking takes a final block in, in the transaction that moves the cursor.
type Taking func(ctx context.Context, tx pg.Tx, p Proof) error

// ErrFinalityBroken says that the chain has other final blocks than those that
// were walked. Outgoing payments of the chain are frozen; a person decides.
var ErrFinalityBroken = errors.New("finality broken")

// errMoved says that another process moved the walk meanwhile.
var errMoved = errors.New("the walk was moved by somebody else")

// Config says which chain is walked and how. Zero values mean the defaults
// named below.
type Config struct {
	Chain  chain.Name
	Reader chain.Reader
	// Start is the block after which the first start begins; nil means the
	// final head of that moment. Later starts continue where the walk stood.
	Start *uint64
	// Poll is the pause when nothing is new; 1 s.
	Poll time.Duration
	// Concerned are told when finality breaks, in this order.
	Concerned []finality.Concerned
	// Trouble hears of every step of a walk, "final" or "head", that did not come
	// about; nil means that nobody does.
	Trouble func(walk string, err error)
	// HeadDepth is how many recent blocks are remembered, and so the deepest
	// fork that is followed block by block; 128.
	HeadDepth uint64
}

const (
	pollDefault      = time.Second
	headDepthDefault = 128
	standbyPolls     = 5           // pauses between attempts to take over a walk from another process
	complainEvery    = time.Minute // how often a problem that stays is logged again
	progressEvery    = 10 * time.Second
	progressBlocks   = 100 // a walk that is further behind tells how it gets on
)

// Walker walks one chain. Any number of them may walk the same chain: what one
// has done the others find done.
type Walker struct {
	db       *pg.DB
	conf     Config
	listener Listener
	log      *slog.Logger
	final    atomic.Uint64 // the final head as last heard
	forked   atomic.Bool   // the head walk has just followed a fork
	tokens   chain.Tokens  // nil where the chain has no such
	tracer   chain.Tracer  // nil where blocks themselves tell what moved
	haste    haste
	review   atomic.Int64           // when the catalogue is looked at next, in Unix seconds
	told     atomic.Pointer[string] // of what parting this process has told
}

// New makes a walker; Run or its steps make it walk.
func New(db *pg.DB, conf Config, listener Listener, log *slog.Logger) *Walker {
	if conf.Poll == 0 {
		conf.Poll = pollDefault
	}
	if conf.HeadDepth == 0 {
		conf.HeadDepth = headDepthDefault
	}
	w := &Walker{db: db, conf: conf, listener: listener, log: log.With("chain", string(conf.Chain))}
	w.tokens, _ = conf.Reader.(chain.Tokens)
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
			w.walk(lock.Context())
			lock.Release()
			if ctx.Err() == nil {
				w.log.Warn("scan: lock lost, standing by")
			}
		}
		pause(ctx, standbyPolls*w.conf.Poll)
	}
	return nil
}

func (w *Walker) walk(ctx context.Context) {
	final, head := &complaint{log: w.log, what: "scan: the final walk stands"}, &complaint{log: w.log, what: "scan: the head walk stands"}
	progress := &progress{w: w}
	var rest time.Time // until then the head walk rests
	ahead := &ahead{}
	defer ahead.wait()
	if w.tracer != nil {
		var tracing sync.WaitGroup
		tracing.Go(func() { w.traceDue(ctx) })
		defer tracing.Wait()
	}
	for ctx.Err() == nil {
		finalMoved, err := w.step(ctx, ahead)
		final.about(ctx, err)
		w.trouble(ctx, "final", err)
		if finalMoved {
			progress.report(ctx)
		}
		headMoved := false
		if !time.Now().Before(rest) {
			headMoved, err = w.Head(ctx)
			head.about(ctx, err)
			w.trouble(ctx, "head", err)
		}
		if w.forked.Swap(false) {
			// Providers that take turns in showing two branches would have it go to
			// and fro without a pause. The final walk waits for nobody.
			rest = time.Now().Add(w.conf.Poll)
		}
		if !finalMoved && !headMoved {
			pause(ctx, w.conf.Poll)
		}
	}
}

func (w *Walker) trouble(ctx context.Context, walk string, err error) {
	if err != nil && ctx.Err() == nil && w.conf.Trouble != nil {
		w.conf.Trouble(walk, err)
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// complaint logs a problem when it comes, now and then while it stays, and its end.
type complaint struct {
	log  *slog.Logger
	what string
	said string
	at   time.Time
}

func (c *complaint) about(ctx context.Context, err error) {
	if err == nil {
		if c.said != "" {
			c.log.Info(c.what+" no more", "error", c.said)
			c.said = ""
		}
		return
	}
	if ctx.Err() != nil || err.Error() == c.said && time.Since(c.at) < complainEvery {
		return
	}
	c.said, c.at = err.Error(), time.Now()
	level := slog.LevelWarn
	if hopeless(err) {
		level = slog.LevelError
	}
	c.log.Log(ctx, level, c.what, "error", err)
}

// hopeless tells of an error that no waiting mends.
func hopeless(err error) bool {
	return errors.Is(err, chain.ErrUndecodable) || errors.Is(err, chain.ErrStateGone) || errors.Is(err, ErrFinalityBroken)
}

// progress tells how a walk that is far behind gets on.
type progress struct {
	w     *Walker
	since time.Time
	steps uint64
}

func (p *progress) report(ctx context.Context) {
	if p.since.IsZero() {
		p.since = time.Now()
	}
	p.steps++
	took := time.Since(p.since)
	if took < progressEvery {
		return
	}
	steps := p.steps
	p.since, p.steps = time.Now(), 0
	at, ok, err := p.w.cursor(ctx)
	final := p.w.final.Load()
	if err != nil || !ok || final < at.Height+progressBlocks {
		return
	}
	left := final - at.Height
	p.w.log.Info("scan: catching up", "height", at.Height, "final", final, "behind", left,
		"expected", (took * time.Duration(left) / time.Duration(steps)).Round(time.Second))
}

// cursor is the last block that the final walk has taken in; ok is false before
// the first start.
func (w *Walker) cursor(ctx context.Context) (at chain.Block, ok bool, err error) {
	err = w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		err := tx.QueryRow(ctx, `SELECT height, hash FROM scan_cursors WHERE chain = $1`, w.conf.Chain).
			Scan(&at.Height, &at.Hash)
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
	return at, ok, nil
}

// match picks the movements to addresses of ours out of a block, and asks who sent those:
// of the others that is nobody's business, and asking may be dear.
func (w *Walker) match(ctx context.Context, c chain.Contents) ([]Found, error) {
	found, err := w.received(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("look up who received in block %d: %w", c.Height, err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	moved := make([]chain.Transfer, len(found))
	for i, f := range found {
		moved[i] = f.Transfer
	}
	senders, err := w.conf.Reader.Senders(ctx, c.Block, moved)
	if err == nil && len(senders) != len(found) {
		err = fmt.Errorf("asked about %d movements, got the senders of %d", len(found), len(senders))
	}
	if err == nil {
		err = w.sent(ctx, found, senders)
	}
	if err != nil {
		return nil, fmt.Errorf("look up who sent in block %d: %w", c.Height, err)
	}
	return found, nil
}

// known are those addresses that are wallets of ours.
func (w *Walker) known(ctx context.Context, tx pg.Tx, addresses iter.Seq[chain.Address]) (map[chain.Address]wallet.Wallet, error) {
	var asked []chain.Address
	met := map[chain.Address]bool{}
	for a := range addresses {
		if a != "" && !met[a] {
			met[a] = true
			asked = append(asked, a)
		}
	}
	return wallet.Known(ctx, tx, w.conf.Chain.Family(), asked)
}

// sent fills in who sent what reached us.
func (w *Walker) sent(ctx context.Context, found []Found, senders [][]chain.Address) error {
	var ours map[chain.Address]wallet.Wallet
	err := w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		ours, err = w.known(ctx, tx, slices.Values(slices.Concat(senders...)))
		return err
	})
	if err != nil {
		return err
	}
	for i, of := range senders {
		f := &found[i]
		if f.Senders, f.From = of, ""; len(of) == 1 {
			f.From = of[0]
		}
		// What accounts for tokens held is in no book of ours, so it comes as from a stranger.
		f.FromOurs = !f.Freed && len(of) > 0 && !slices.ContainsFunc(of, func(a chain.Address) bool {
			_, is := ours[a]
			return !is
		})
	}
	return nil
}

// received are the movements of a block to addresses of ours, with whose they are.
func (w *Walker) received(ctx context.Context, c chain.Contents) (found []Found, err error) {
	err = w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		found = nil
		ours, err := w.known(ctx, tx, func(yield func(chain.Address) bool) {
			for _, t := range c.Transfers {
				if !yield(t.To) {
					return
				}
			}
		})
		if err != nil || len(ours) == 0 {
			return err
		}
		catalogue, err := mint.All(ctx, tx)
		if err != nil {
			return err
		}
		for _, t := range c.Transfers {
			to, ok := ours[t.To]
			if !ok || t.Amount.IsZero() {
				continue
			}
			f := Found{Transfer: t, Wallet: to}
			if m, ok := catalogue.ByContract(w.conf.Chain, t.Contract); ok {
				f.Mint = &m
			}
			if w.tokens != nil && w.tokens.Aside(t) {
				f.Doubt = TokenAccount
			}
			found = append(found, f)
		}
		return nil
	})
	return found, err
}
