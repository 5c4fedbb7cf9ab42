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
	"github.com/cofferpay/coffer/internal/wallet"
)

const (
	traceTimeoutDefault = 10 * time.Second
	// timeoutHalvingsMax is how often a walk's TraceTimeout is halved while blocks exhaust it.
	timeoutHalvingsMax = 4
	// untraceableMax is how many unknown transactions of a block are recorded one by one. If there
	// are more, the whole block is recorded.
	untraceableMax = 32
	// outageAttemptsMax is how often the walk tries a block about which no provider answers before
	// it writes the block without its internal transfers.
	outageAttemptsMax = 5
	// exactAttempts is the number of attempts in which the calls must move exactly the rise of the
	// balances. Later attempts accept less, as for an address that also receives the block reward.
	// The rest is a finding.
	exactAttempts = 6
	// recentTraceTimeout is how long a recent block may wait for traces. After an attempt that took
	// longer or failed, recent blocks are not traced for recentTracePause.
	recentTraceTimeout = 5 * time.Second
	recentTracePause   = time.Minute
)

// pendingTrace is a transaction whose calls are not known yet.
type pendingTrace struct {
	tx      chain.TxHash    // "" for all transactions of a block
	touched []chain.Address // our addresses; meaningless if unknown is set
	unknown bool            // it is unknown which addresses it touched
	reason  string
}

// mayExplain reports whether a pending trace may explain the rise of a balance.
func mayExplain(traces []pendingTrace, h chain.Holding) bool {
	return h.Contract == "" && slices.ContainsFunc(traces, func(d pendingTrace) bool {
		return d.unknown || slices.Contains(d.touched, h.Address)
	})
}

// traceBudget bounds how long the walk waits for traces.
type traceBudget struct {
	mu              sync.Mutex
	halvings        int
	failedHash      string // the last block about which no provider answered
	failures        int    // consecutive failures for that block
	gaveUp          bool   // a block was written without an answer, and there was none since
	recentResumesAt time.Time
}

// finalTimeout returns how long the next final block may wait, of the configured longest time.
func (h *traceBudget) finalTimeout(longest time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return longest >> h.halvings
}

func (h *traceBudget) adjustTimeout(exhausted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if exhausted {
		h.halvings = min(h.halvings+1, timeoutHalvingsMax)
	} else {
		h.halvings = max(h.halvings-1, 0)
	}
}

// recordAnswer records that the providers answered about a block.
func (h *traceBudget) recordAnswer() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failedHash, h.failures, h.gaveUp = "", 0, false
}

// shouldGiveUp reports whether a block has been tried often enough. After the walk has given up on
// one block, it tries each following block once, until the providers answer again. Then it waits
// for the next outage again.
func (h *traceBudget) shouldGiveUp(hash string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failedHash != hash {
		h.failedHash, h.failures = hash, 0
	}
	h.failures++
	h.gaveUp = h.gaveUp || h.failures >= outageAttemptsMax
	return h.gaveUp
}

// blockBalances holds native balances before and after a block, as a quorum of providers agrees on
// them.
type blockBalances struct {
	before, after map[chain.Holding]money.Amount
}

// addInternalTransfers adds to a final block what its transactions moved internally to our
// addresses. It returns what is not known yet as pending. It returns an error if that may be an
// outage and the block can wait.
func (w *Walker) addInternalTransfers(
	ctx context.Context, c *chain.Contents,
) (balances blockBalances, pending []pendingTrace, err error) {
	if w.tracer == nil {
		return balances, nil, nil
	}
	timeout := w.traceBudget.finalTimeout(cmp.Or(w.conf.TraceTimeout, traceTimeoutDefault))
	transfers, balances, pending, timedOut, err := w.findInternalTransfers(ctx, *c, 0, timeout)
	switch {
	case errors.Is(err, errNoTracer):
		return blockBalances{}, nil, nil
	case err == nil:
		w.traceBudget.recordAnswer()
		if timedOut || len(transfers) > 0 {
			w.traceBudget.adjustTimeout(timedOut)
		}
	case ctx.Err() != nil || errors.Is(err, chain.ErrStateGone) || !errors.Is(err, errNoBalanceChanges) ||
		!w.traceBudget.shouldGiveUp(c.Hash):
		return balances, nil, err
	default:
		pending = []pendingTrace{{unknown: true, reason: err.Error()}}
	}
	c.Transfers = append(slices.Clip(c.Transfers), transfers...)
	return balances, pending, nil
}

// errNoTracer says that no provider traces, or that tracing is off.
var errNoTracer = errors.New("no provider traces, or trace is off")

// errNoBalanceChanges says that no provider could tell which balances a block changed.
var errNoBalanceChanges = errors.New("no provider says which balances changed")

// findInternalTransfers finds the native coin that calls moved to our addresses in a final block.
//
// The word of a single provider is enough for which addresses those may be. A quorum agrees on
// their balances, and calls are traced only if a balance rose by more than the block shows. The
// calls must match that rise. If they do not, the walk takes nothing from that provider and asks
// another. timedOut says that the timeout was used up.
func (w *Walker) findInternalTransfers(
	ctx context.Context, c chain.Contents, attempt int, timeout time.Duration,
) (transfers []chain.Transfer, balances blockBalances, pending []pendingTrace, timedOut bool, err error) {
	balances = blockBalances{map[chain.Holding]money.Amount{}, map[chain.Holding]money.Amount{}}
	traceCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, providers := range []chain.ProviderCount{chain.QuorumOfProviders, chain.AllProviders} {
		changes, err := w.tracer.BalanceChanges(ctx, c.Block, providers)
		if err != nil {
			return nil, balances, nil, false, fmt.Errorf("%w: %w", errNoBalanceChanges, err)
		}
		if !changes.Traced {
			return nil, balances, nil, false, errNoTracer
		}
		gains, err := w.findUnexplained(ctx, c, changes, &balances)
		if err != nil {
			return nil, balances, nil, false, err
		}
		if err := gains.traceCalls(ctx, traceCtx, w, attempt); err != nil {
			return nil, balances, nil, false, err
		}
		transfers, pending, timedOut = gains.transfers, gains.pending, traceCtx.Err() != nil
		if !gains.needsAllProviders() || timedOut {
			break
		}
	}
	return transfers, balances, pending, timedOut, nil
}

// unexplainedGains holds the rises of agreed balances that the block does not explain yet.
type unexplainedGains struct {
	contents    chain.Contents
	wallets     map[chain.Address]wallet.Wallet
	remaining   map[chain.Address]*big.Int       // unexplained rise by address
	receivers   map[chain.TxHash][]chain.Address // addresses whose balance a transaction may have raised
	order       []chain.TxHash
	unread      map[chain.Address]int // by address: transactions whose calls are not read
	transfers   []chain.Transfer
	pending     []pendingTrace
	sawMismatch bool // a trace did not match
}

func (w *Walker) findUnexplained(
	ctx context.Context, c chain.Contents, changes chain.BalanceChanges, balances *blockBalances,
) (*unexplainedGains, error) {
	x := &unexplainedGains{
		contents: c, remaining: map[chain.Address]*big.Int{}, receivers: map[chain.TxHash][]chain.Address{},
		unread: map[chain.Address]int{},
	}
	if len(changes.Untraceable) > untraceableMax {
		x.pending = []pendingTrace{
			{
				unknown: true,
				reason: fmt.Sprintf(
					"no provider says which balances %d transactions changed", len(changes.Untraceable),
				),
			},
		}
	} else {
		for _, tx := range changes.Untraceable {
			x.pending = append(
				x.pending, pendingTrace{tx: tx, unknown: true, reason: "no provider says which balances it changed"},
			)
		}
	}
	match, err := w.findWallets(ctx, func(yield func(chain.Address) bool) {
		for _, b := range changes.Changes {
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
	if err != nil {
		return nil, fmt.Errorf("look up the balances that block %d changed: %w", c.Height, err)
	}
	x.wallets = match.Wallets
	var raised []chain.BalanceChange
	addresses := map[chain.Address]bool{}
	for _, b := range changes.Changes {
		if _, ok := x.wallets[b.Address]; ok && mayHaveReceived(c, b) {
			raised = append(raised, b)
			addresses[b.Address] = true
		}
	}
	for _, t := range c.Transfers {
		if _, ok := x.wallets[t.To]; ok && t.Contract == "" {
			addresses[t.To] = true
		}
	}
	var holdings []chain.Holding
	for _, a := range slices.Sorted(maps.Keys(addresses)) {
		holdings = append(holdings, chain.Holding{Address: a})
	}
	if err := w.loadBalances(ctx, c, holdings, balances); err != nil {
		return nil, err
	}
	flows := map[chain.Holding]*flow{}
	for _, h := range holdings {
		flows[h] = &flow{received: new(big.Int), sent: new(big.Int)}
	}
	addFlows(c, flows)
	for _, h := range holdings {
		remaining := new(big.Int).Sub(balances.after[h].Big(), balances.before[h].Big())
		remaining.Sub(remaining, flows[h].received).Add(remaining, flows[h].sent)
		if remaining.Sign() > 0 {
			x.remaining[h.Address] = remaining
		}
	}
	for _, b := range raised {
		if x.remaining[b.Address] == nil || slices.Contains(x.receivers[b.Tx], b.Address) {
			continue
		}
		if x.receivers[b.Tx] == nil {
			x.order = append(x.order, b.Tx)
		}
		x.receivers[b.Tx] = append(x.receivers[b.Tx], b.Address)
		x.unread[b.Address]++
	}
	return x, nil
}

// mayHaveReceived reports whether calls of a transaction can have moved coin to an address, by a
// provider's word about its balance. They can if the balance rose by more than the transaction
// itself and all fees that the address paid in the block explain.
func mayHaveReceived(c chain.Contents, b chain.BalanceChange) bool {
	if b.Change == nil {
		return true
	}
	gain := new(big.Int).Set(b.Change)
	for _, t := range c.Transfers {
		if t.Tx != b.Tx || t.Contract != "" {
			continue
		}
		if t.From == b.Address {
			gain.Add(gain, t.Amount.Big())
		}
		if t.To == b.Address {
			gain.Sub(gain, t.Amount.Big())
		}
	}
	for _, fee := range c.Fees {
		if fee.Payer == b.Address {
			gain.Add(gain, fee.Amount.Big())
		}
	}
	return gain.Sign() > 0
}

// traceCalls reads the calls of the transactions that can explain the remaining gains. It returns
// an error if ctx ends. traceCtx ends earlier and leaves the other transactions pending.
func (x *unexplainedGains) traceCalls(ctx, traceCtx context.Context, w *Walker, attempt int) error {
	n := len(x.order)
	for i := range x.order {
		tx := x.order[(i+attempt)%n] // the same transactions must not always come last
		receivers := x.receivers[tx]
		if !slices.ContainsFunc(receivers, func(a chain.Address) bool { return x.remaining[a].Sign() > 0 }) {
			x.markRead(receivers)
			continue
		}
		transfers, err := w.tracer.InternalTransfers(traceCtx, chain.InternalTransfersQuery{
			Block: x.contents.Block, Tx: tx, Recipients: receivers, Providers: chain.QuorumOfProviders,
			Attempt: attempt,
			Check: func(transfers []chain.Transfer) error {
				err := x.checkTrace(ctx, w, receivers, transfers, attempt)
				x.sawMismatch = x.sawMismatch || err != nil
				return err
			},
		})
		if err := ctx.Err(); err != nil {
			return err
		}
		if err != nil {
			x.pending = append(x.pending, pendingTrace{tx: tx, touched: receivers, reason: err.Error()})
			continue
		}
		for _, m := range transfers {
			x.remaining[m.To].Sub(x.remaining[m.To], m.Amount.Big())
		}
		x.transfers = append(x.transfers, transfers...)
		x.markRead(receivers)
	}
	return nil
}

func (x *unexplainedGains) markRead(addresses []chain.Address) {
	for _, a := range addresses {
		x.unread[a]--
	}
}

// checkTrace compares the transfers of a trace with the unexplained gains. It refuses calls from
// our addresses, because those have no code.
func (x *unexplainedGains) checkTrace(
	ctx context.Context, w *Walker, receivers []chain.Address, transfers []chain.Transfer, attempt int,
) error {
	sums := map[chain.Address]*big.Int{}
	for _, a := range receivers {
		sums[a] = new(big.Int)
	}
	for _, m := range transfers {
		if sums[m.To] == nil {
			return fmt.Errorf("a transfer to %s was not in the question", m.To)
		}
		sums[m.To].Add(sums[m.To], m.Amount.Big())
	}
	for _, a := range receivers {
		order := sums[a].Cmp(x.remaining[a])
		exact := x.unread[a] == 1 && attempt < exactAttempts && !mayExplain(x.pending, chain.Holding{Address: a})
		if order > 0 || order < 0 && exact {
			return fmt.Errorf(
				"calls move %v to %s, and %v of its balance stays unexplained: %w", sums[a], a, x.remaining[a],
				errTraceMismatch,
			)
		}
	}
	if len(transfers) == 0 {
		return nil
	}
	match, err := w.findWallets(ctx, func(yield func(chain.Address) bool) {
		for _, m := range transfers {
			if !yield(m.From) {
				return
			}
		}
	})
	if err == nil && len(match.Wallets) > 0 {
		err = fmt.Errorf("calls come from an address of this installation, which has no code: %w", errTraceMismatch)
	}
	return err
}

var errTraceMismatch = errors.New("the trace contradicts the quorum")

// needsAllProviders reports whether a provider may have given a wrong or an incomplete answer. Then
// all providers are asked.
func (x *unexplainedGains) needsAllProviders() bool {
	if x.sawMismatch {
		return true
	}
	for a, remaining := range x.remaining {
		if remaining.Sign() > 0 && !mayExplain(x.pending, chain.Holding{Address: a}) {
			return true
		}
	}
	return false
}

// loadBalances loads the native balances before and after a block that are not loaded yet.
func (w *Walker) loadBalances(
	ctx context.Context, c chain.Contents, holdings []chain.Holding, balances *blockBalances,
) error {
	holdings = slices.DeleteFunc(
		slices.Clone(holdings), func(h chain.Holding) bool { _, ok := balances.after[h]; return ok },
	)
	if len(holdings) == 0 {
		return nil
	}
	before, _, err := chain.Balances(ctx, w.conf.Reader, chain.Block{Height: c.Height - 1, Hash: c.Parent}, holdings)
	if err != nil {
		return w.wrapBalanceError("before", c.Height, err)
	}
	after, _, err := chain.Balances(ctx, w.conf.Reader, c.Block, holdings)
	if err != nil {
		return w.wrapBalanceError("after", c.Height, err)
	}
	maps.Copy(balances.before, before)
	maps.Copy(balances.after, after)
	return nil
}

// addRecentTransfers adds to a recent block what its transactions moved internally to our
// addresses, on the word of the first provider that answers. The result is for people to look at.
// The walk does not wait: it leaves out what fails or takes too long.
func (w *Walker) addRecentTransfers(ctx context.Context, c *chain.Contents) {
	if w.tracer == nil || time.Now().Before(w.traceBudget.recentResumesAt) {
		return
	}
	traceCtx, cancel := context.WithTimeout(ctx, recentTraceTimeout)
	defer cancel()
	transfers, err := w.traceRecent(traceCtx, *c)
	if err != nil {
		w.traceBudget.recentResumesAt = time.Now().Add(recentTracePause)
		if ctx.Err() == nil {
			w.log.Debug(
				"scan: a recent block is shown without its internal transfers", "height", c.Height,
				"error", err,
			)
		}
	}
	c.Transfers = append(slices.Clip(c.Transfers), transfers...)
}

func (w *Walker) traceRecent(ctx context.Context, c chain.Contents) (transfers []chain.Transfer, err error) {
	changes, err := w.tracer.BalanceChanges(ctx, c.Block, chain.FirstProvider)
	if err != nil {
		return nil, err
	}
	receivers := map[chain.TxHash][]chain.Address{}
	match, err := w.findWallets(ctx, func(yield func(chain.Address) bool) {
		for _, b := range changes.Changes {
			if !yield(b.Address) {
				return
			}
		}
	})
	if err != nil {
		return nil, err
	}
	for _, b := range changes.Changes {
		if _, ok := match.Wallets[b.Address]; ok && mayHaveReceived(c, b) {
			receivers[b.Tx] = append(receivers[b.Tx], b.Address)
		}
	}
	for _, tx := range slices.SortedFunc(
		maps.Keys(receivers), func(a, b chain.TxHash) int { return cmp.Compare(a, b) },
	) {
		txTransfers, err := w.tracer.InternalTransfers(
			ctx,
			chain.InternalTransfersQuery{
				Block: c.Block, Tx: tx, Recipients: receivers[tx], Providers: chain.FirstProvider,
			},
		)
		if err != nil {
			return transfers, err
		}
		transfers = append(transfers, txTransfers...)
	}
	return transfers, nil
}
