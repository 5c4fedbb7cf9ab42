package scan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// finding is a fact about a block that a person has to look at.
type finding struct {
	kind       string
	holding    chain.Holding
	mint       int
	detail     string
	isDoubtful bool // less arrived than the block says
}

const (
	findingUnattributed   = "UNATTRIBUTED"
	findingFinalityBroken = "FINALITY_BROKEN"
)

// flow sums what a block says went into and out of a holding.
type flow struct {
	mint           int
	received, sent *big.Int
}

// computeFlows sums, for each of our addresses that received a mint of the catalogue in this block,
// all that the block says about its balance.
func computeFlows(c chain.Contents, arrivals []Arrival) map[chain.Holding]*flow {
	flows := map[chain.Holding]*flow{}
	for _, f := range arrivals {
		h := chain.Holding{Address: f.To, Contract: f.Contract}
		if f.Mint != nil && flows[h] == nil {
			flows[h] = &flow{mint: f.Mint.ID, received: new(big.Int), sent: new(big.Int)}
		}
	}
	addFlows(c, flows)
	return flows
}

// addFlows adds the transfers and fees of a block to the flows.
func addFlows(c chain.Contents, flows map[chain.Holding]*flow) {
	for _, t := range c.Transfers {
		if f := flows[chain.Holding{Address: t.To, Contract: t.Contract}]; f != nil {
			f.received.Add(f.received, t.Amount.Big())
		}
		if f := flows[chain.Holding{Address: t.From, Contract: t.Contract}]; f != nil {
			f.sent.Add(f.sent, t.Amount.Big())
		}
	}
	for _, fee := range c.Fees {
		if f := flows[chain.Holding{Address: fee.Payer}]; f != nil {
			f.sent.Add(f.sent, fee.Amount.Big())
		}
	}
}

// compareBalance compares the flow of a block with the change of the balance. It returns nil if
// they match. Rule DEP-5.
func compareBalance(h chain.Holding, f flow, before, after money.Amount) *finding {
	actual := new(big.Int).Sub(after.Big(), before.Big())
	reported := new(big.Int).Sub(f.received, f.sent)
	switch actual.Cmp(reported) {
	case 0:
		return nil
	case -1:
		return &finding{
			kind: DoubtBalanceDelta, holding: h, mint: f.mint, isDoubtful: true,
			detail: fmt.Sprintf(
				"the block says %v in and %v out, the balance went from %v to %v", f.received, f.sent, before, after,
			),
		}
	default:
		return &finding{
			kind: findingUnattributed, holding: h, mint: f.mint,
			detail: fmt.Sprintf(
				"the block says %v in and %v out, the balance rose from %v to %v", f.received, f.sent, before, after,
			),
		}
	}
}

// wrapBalanceError wraps the error of balances that no quorum gives. The block is not written
// without them: otherwise a transfer would be credited on the word of its token.
func (w *Walker) wrapBalanceError(moment string, height uint64, err error) error {
	if errors.Is(err, chain.ErrStateGone) {
		return fmt.Errorf("too few providers keep balances %s block %d; add archive endpoints to chains.%s.archives, "+
			"which the service asks for nothing else: %w", moment, height,
			w.conf.Chain, err)
	}
	return fmt.Errorf("balances %s block %d: %w", moment, height, err)
}

// reconcileBalances compares the balances before and after a final block with its movements. It
// marks arrivals that must not be credited. If a provider no longer has the state, that is an
// error, and the walk waits for a provider that has it. balances holds the balances that are known
// already. A rise of an address that pending may explain is no finding until it is traced.
// Rule DEP-5.
func (w *Walker) reconcileBalances(
	ctx context.Context, c chain.Contents, arrivals []Arrival, balances blockBalances, pending []pendingTrace,
) ([]finding, error) {
	flows := computeFlows(c, arrivals)
	if len(flows) == 0 {
		return nil, nil
	}
	holdings := make([]chain.Holding, 0, len(flows))
	for h := range flows {
		holdings = append(holdings, h)
	}
	slices.SortFunc(holdings, func(a, b chain.Holding) int {
		return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.Contract, b.Contract))
	})
	unknown := slices.DeleteFunc(
		slices.Clone(holdings), func(h chain.Holding) bool { _, ok := balances.after[h]; return ok },
	)
	before, silentBefore, err := chain.Balances(
		ctx, w.conf.Reader, chain.Block{Height: c.Height - 1, Hash: c.Parent}, unknown,
	)
	if err != nil {
		return nil, w.wrapBalanceError("before", c.Height, err)
	}
	after, silentAfter, err := chain.Balances(ctx, w.conf.Reader, c.Block, unknown)
	if err != nil {
		return nil, w.wrapBalanceError("after", c.Height, err)
	}
	maps.Copy(silentBefore, silentAfter)
	maps.Copy(before, balances.before)
	maps.Copy(after, balances.after)
	var findings []finding
	for _, h := range holdings {
		problem := compareBalance(h, *flows[h], before[h], after[h])
		if reason, ok := silentBefore[h]; ok {
			// This is a defect of the token. None of it is credited, and the walk continues.
			problem = &finding{
				kind: DoubtBalanceDelta, holding: h, mint: flows[h].mint, isDoubtful: true,
				detail: "the token returns no balance: " + reason,
			}
		}
		if problem == nil || !problem.isDoubtful && mayExplain(pending, h) {
			continue
		}
		findings = append(findings, *problem)
		if !problem.isDoubtful {
			continue
		}
		for j := range arrivals {
			if arrivals[j].To == h.Address && arrivals[j].Contract == h.Contract {
				arrivals[j].Doubt = DoubtBalanceDelta
			}
		}
	}
	return findings, nil
}
