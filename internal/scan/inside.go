package scan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/wallet"
)

const (
	// tracesWithin is how long a final block may wait for the calls of its transactions.
	tracesWithin = 10 * time.Second
	// hastyMax is how often that is halved while blocks use it up.
	hastyMax = 4
	// blindMax is how many transactions of a block are noted one by one when nothing is
	// known about them; more are noted as the whole block.
	blindMax = 32
	// untoldMax is how often the walk tries a block about which no provider answers
	// before it takes it in without.
	untoldMax = 5
	// exactAttempts are those in which the calls have to move exactly what the balances rose by.
	// Afterwards less is taken too, as where a block's maker is paid: the rest is a finding.
	exactAttempts = 6
	// glanceWithin is how long a recent block may wait, and glanceRest for how long recent blocks
	// go without after one that took longer or failed.
	glanceWithin = 5 * time.Second
	glanceRest   = time.Minute
)

// due is a transaction whose calls are not known yet.
type due struct {
	tx      chain.TxHash    // "" for all of a block
	touched []chain.Address // of ours; meaningless where that is unknown
	unknown bool            // which addresses it touched
	why     string
}

// explains tells whether what is due may have raised a balance.
func explains(all []due, h chain.Holding) bool {
	return h.Contract == "" && slices.ContainsFunc(all, func(d due) bool { return d.unknown || slices.Contains(d.touched, h.Address) })
}

// haste is how the walk bounds what it waits for.
type haste struct {
	mu     sync.Mutex
	halved int
	hash   string // the block that no provider told about
	failed int    // how often in a row
	given  bool   // a block was taken in without, and none was told about since
	glance time.Time
}

func (h *haste) within() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return tracesWithin >> h.halved
}

func (h *haste) used(up bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if up {
		h.halved = min(h.halved+1, hastyMax)
	} else {
		h.halved = max(h.halved-1, 0)
	}
}

// told notes that a block was told about.
func (h *haste) told() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hash, h.failed, h.given = "", 0, false
}

// enough tells whether a block has been tried often enough. Once one was, those after it are
// tried once each until one is told about: the next outage is waited for again.
func (h *haste) enough(hash string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hash != hash {
		h.hash, h.failed = hash, 0
	}
	h.failed++
	h.given = h.given || h.failed >= untoldMax
	return h.given
}

// balances are native balances before and after a block that enough providers agree on.
type balances struct {
	before, after map[chain.Holding]money.Amount
}

// inside completes a final block with what moved inside its transactions to addresses of ours,
// and gives what is not known yet. It is an error when that may be an outage and the block can wait.
func (w *Walker) inside(ctx context.Context, c *chain.Contents) (have balances, left []due, err error) {
	if w.tracer == nil {
		return have, nil, nil
	}
	within := w.haste.within()
	moved, have, left, slow, err := w.explain(ctx, *c, 0, within)
	switch {
	case errors.Is(err, errNoTracer):
		return balances{}, nil, nil
	case err == nil:
		w.haste.told()
		if slow || len(moved) > 0 {
			w.haste.used(slow)
		}
	case ctx.Err() != nil || errors.Is(err, chain.ErrStateGone) || !errors.Is(err, errUntold) || !w.haste.enough(c.Hash):
		return have, nil, err
	default:
		left = []due{{unknown: true, why: err.Error()}}
	}
	c.Transfers = append(slices.Clip(c.Transfers), moved...)
	return have, left, nil
}

// errNoTracer says that there is no provider that traces, or none is to be asked.
var errNoTracer = errors.New("no provider traces, or trace is off")

// errUntold says that no provider could be asked which balances a block changed.
var errUntold = errors.New("no provider tells which balances changed")

// explain finds the native coin that calls moved to addresses of ours in a final block.
//
// Which addresses those are says the word of providers, and it is believed of any that says
// so: that a balance rose by more than the block shows is agreed upon, and only then calls are
// traced. What they move has to fit that rise; of a provider that says otherwise nothing is
// taken, and another is asked. slow says that the time was used up.
func (w *Walker) explain(ctx context.Context, c chain.Contents, attempt int, within time.Duration) (moved []chain.Transfer, have balances, left []due, slow bool, err error) {
	have = balances{map[chain.Holding]money.Amount{}, map[chain.Holding]money.Amount{}}
	hurried, end := context.WithTimeout(ctx, within)
	defer end()
	for _, by := range []chain.Opinions{chain.Enough, chain.All} {
		told, err := w.tracer.Touched(ctx, c.Block, by)
		if err != nil {
			return nil, have, nil, false, fmt.Errorf("%w: %w", errUntold, err)
		}
		if !told.Traced {
			return nil, have, nil, false, errNoTracer
		}
		x, err := w.unexplained(ctx, c, told, &have)
		if err != nil {
			return nil, have, nil, false, err
		}
		if err := x.trace(ctx, hurried, w, attempt); err != nil {
			return nil, have, nil, false, err
		}
		moved, left, slow = x.moved, x.left, hurried.Err() != nil
		if !x.contradicted() || slow {
			break
		}
	}
	return moved, have, left, slow, nil
}

// unexplained is what of agreed balances nothing explains yet that a block shows.
type unexplained struct {
	c      chain.Contents
	ours   map[chain.Address]wallet.Wallet
	rest   map[chain.Address]*big.Int       // by how much a balance rose and nothing says why
	in     map[chain.TxHash][]chain.Address // those whose balance a transaction may have raised
	order  []chain.TxHash
	open   map[chain.Address]int // transactions whose calls are not read
	moved  []chain.Transfer
	left   []due
	untrue bool // a trace did not fit
}

func (w *Walker) unexplained(ctx context.Context, c chain.Contents, told chain.Touched, have *balances) (*unexplained, error) {
	x := &unexplained{c: c, rest: map[chain.Address]*big.Int{}, in: map[chain.TxHash][]chain.Address{}, open: map[chain.Address]int{}}
	if len(told.Blind) > blindMax {
		x.left = []due{{unknown: true, why: fmt.Sprintf("no provider tells which balances %d transactions changed", len(told.Blind))}}
	} else {
		for _, tx := range told.Blind {
			x.left = append(x.left, due{tx: tx, unknown: true, why: "no provider tells which balances it changed"})
		}
	}
	err := w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		x.ours, err = w.known(ctx, tx, func(yield func(chain.Address) bool) {
			for _, b := range told.Balances {
				if !yield(b.Address) {
					return
				}
			}
			for _, t := range c.Transfers {
				if t.Contract == "" && !yield(t.To) {
					return
				}
			}
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look up whose balances block %d changed: %w", c.Height, err)
	}
	var raised []chain.TouchedBalance
	asked := map[chain.Address]bool{}
	for _, b := range told.Balances {
		if _, ok := x.ours[b.Address]; ok && rose(c, b) {
			raised = append(raised, b)
			asked[b.Address] = true
		}
	}
	for _, t := range c.Transfers {
		if _, ok := x.ours[t.To]; ok && t.Contract == "" {
			asked[t.To] = true
		}
	}
	var of []chain.Holding
	for _, a := range slices.Sorted(maps.Keys(asked)) {
		of = append(of, chain.Holding{Address: a})
	}
	if err := w.balances(ctx, c, of, have); err != nil {
		return nil, err
	}
	all := map[chain.Holding]*flow{}
	for _, h := range of {
		all[h] = &flow{in: new(big.Int), out: new(big.Int)}
	}
	sum(c, all)
	for _, h := range of {
		rest := new(big.Int).Sub(have.after[h].Big(), have.before[h].Big())
		rest.Sub(rest, all[h].in).Add(rest, all[h].out)
		if rest.Sign() > 0 {
			x.rest[h.Address] = rest
		}
	}
	for _, b := range raised {
		if x.rest[b.Address] == nil || slices.Contains(x.in[b.Tx], b.Address) {
			continue
		}
		if x.in[b.Tx] == nil {
			x.order = append(x.order, b.Tx)
		}
		x.in[b.Tx] = append(x.in[b.Tx], b.Address)
		x.open[b.Address]++
	}
	return x, nil
}

// rose tells whether calls of a transaction can have moved something to an address, by what
// a provider says of its balance: it has more than the transaction itself and all fees
// that it paid in the block leave it.
func rose(c chain.Contents, b chain.TouchedBalance) bool {
	if b.Change == nil {
		return true
	}
	inside := new(big.Int).Set(b.Change)
	for _, t := range c.Transfers {
		if t.Tx != b.Tx || t.Contract != "" {
			continue
		}
		if t.From == b.Address {
			inside.Add(inside, t.Amount.Big())
		}
		if t.To == b.Address {
			inside.Sub(inside, t.Amount.Big())
		}
	}
	for _, fee := range c.Fees {
		if fee.Payer == b.Address {
			inside.Add(inside, fee.Amount.Big())
		}
	}
	return inside.Sign() > 0
}

// trace reads the calls of those transactions that can explain what is left. It is an error
// when ctx ends; hurried ends before and leaves the others due.
func (x *unexplained) trace(ctx, hurried context.Context, w *Walker, attempt int) error {
	n := len(x.order)
	for i := range x.order {
		tx := x.order[(i+attempt)%n] // the same ones must not always come last
		to := x.in[tx]
		if !slices.ContainsFunc(to, func(a chain.Address) bool { return x.rest[a].Sign() > 0 }) {
			x.read(to)
			continue
		}
		moved, err := w.tracer.Moved(hurried, chain.MovedQuestion{
			At: x.c.Block, Tx: tx, To: to, By: chain.Enough, Attempt: attempt,
			Fits: func(moved []chain.Transfer) error {
				err := x.fits(ctx, w, to, moved, attempt)
				x.untrue = x.untrue || err != nil
				return err
			},
		})
		if err := ctx.Err(); err != nil {
			return err
		}
		if err != nil {
			x.left = append(x.left, due{tx: tx, touched: to, why: err.Error()})
			continue
		}
		for _, m := range moved {
			x.rest[m.To].Sub(x.rest[m.To], m.Amount.Big())
		}
		x.moved = append(x.moved, moved...)
		x.read(to)
	}
	return nil
}

func (x *unexplained) read(of []chain.Address) {
	for _, a := range of {
		x.open[a]--
	}
}

// fits compares what a trace says with what the balances leave to be explained. No call comes
// from an address of ours: those have no code.
func (x *unexplained) fits(ctx context.Context, w *Walker, to []chain.Address, moved []chain.Transfer, attempt int) error {
	sums := map[chain.Address]*big.Int{}
	for _, a := range to {
		sums[a] = new(big.Int)
	}
	for _, m := range moved {
		if sums[m.To] == nil {
			return fmt.Errorf("a movement to %s was not asked about", m.To)
		}
		sums[m.To].Add(sums[m.To], m.Amount.Big())
	}
	for _, a := range to {
		over := sums[a].Cmp(x.rest[a])
		exact := x.open[a] == 1 && attempt < exactAttempts && !explains(x.left, chain.Holding{Address: a})
		if over > 0 || over < 0 && exact {
			return fmt.Errorf("calls move %v to %s and its balance leaves %v to be explained: %w", sums[a], a, x.rest[a], errUnfit)
		}
	}
	if len(moved) == 0 {
		return nil
	}
	var ours map[chain.Address]wallet.Wallet
	err := w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		ours, err = w.known(ctx, tx, func(yield func(chain.Address) bool) {
			for _, m := range moved {
				if !yield(m.From) {
					return
				}
			}
		})
		return err
	})
	if err == nil && len(ours) > 0 {
		err = fmt.Errorf("calls come from an address of ours, which has no code: %w", errUnfit)
	}
	return err
}

var errUnfit = errors.New("the trace contradicts what is agreed upon")

// contradicted tells whether a provider may have said something that is not true, or has left
// something out: then all are asked.
func (x *unexplained) contradicted() bool {
	if x.untrue {
		return true
	}
	for a, rest := range x.rest {
		if rest.Sign() > 0 && !explains(x.left, chain.Holding{Address: a}) {
			return true
		}
	}
	return false
}

// balances asks for native balances before and after a block, of those that are not there yet.
func (w *Walker) balances(ctx context.Context, c chain.Contents, of []chain.Holding, have *balances) error {
	of = slices.DeleteFunc(slices.Clone(of), func(h chain.Holding) bool { _, ok := have.after[h]; return ok })
	if len(of) == 0 {
		return nil
	}
	before, _, err := chain.Balances(ctx, w.conf.Reader, chain.Block{Height: c.Height - 1, Hash: c.Parent}, of)
	if err != nil {
		return w.unweighed("before", c.Height, err)
	}
	after, _, err := chain.Balances(ctx, w.conf.Reader, c.Block, of)
	if err != nil {
		return w.unweighed("after", c.Height, err)
	}
	maps.Copy(have.before, before)
	maps.Copy(have.after, after)
	return nil
}

// glance completes a recent block with what moved inside its transactions to addresses of
// ours, as the first provider that answers says. It is for people to look at: what fails or takes
// long is left out, and the walk does not wait for it.
func (w *Walker) glance(ctx context.Context, c *chain.Contents) {
	if w.tracer == nil || time.Now().Before(w.haste.glance) {
		return
	}
	hurried, end := context.WithTimeout(ctx, glanceWithin)
	defer end()
	moved, err := w.glimpse(hurried, *c)
	if err != nil {
		w.haste.glance = time.Now().Add(glanceRest)
		if ctx.Err() == nil {
			w.log.Debug("scan: a recent block is shown without what moved inside its transactions", "height", c.Height, "error", err)
		}
	}
	c.Transfers = append(slices.Clip(c.Transfers), moved...)
}

func (w *Walker) glimpse(ctx context.Context, c chain.Contents) (moved []chain.Transfer, err error) {
	told, err := w.tracer.Touched(ctx, c.Block, chain.One)
	if err != nil {
		return nil, err
	}
	to := map[chain.TxHash][]chain.Address{}
	err = w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		ours, err := w.known(ctx, tx, func(yield func(chain.Address) bool) {
			for _, b := range told.Balances {
				if !yield(b.Address) {
					return
				}
			}
		})
		for _, b := range told.Balances {
			if _, ok := ours[b.Address]; ok && rose(c, b) {
				to[b.Tx] = append(to[b.Tx], b.Address)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, tx := range slices.SortedFunc(maps.Keys(to), func(a, b chain.TxHash) int { return cmp.Compare(a, b) }) {
		of, err := w.tracer.Moved(ctx, chain.MovedQuestion{At: c.Block, Tx: tx, To: to[tx], By: chain.One})
		if err != nil {
			return moved, err
		}
		moved = append(moved, of...)
	}
	return moved, nil
}
