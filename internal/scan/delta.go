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

// finding is something in a block that a person has to look at.
type finding struct {
	kind     string
	holding  chain.Holding
	mint     int
	detail   string
	doubtful bool // less arrived than was said
}

const (
	unattributed   = "UNATTRIBUTED"
	finalityBroken = "FINALITY_BROKEN"
)

// flow is what a block says went into and out of a holding.
type flow struct {
	mint    int
	in, out *big.Int
}

// flows sums up, for every address of ours that received something of the
// catalogue in this block, all that the block says about its balance.
func flows(c chain.Contents, found []Found) map[chain.Holding]*flow {
	all := map[chain.Holding]*flow{}
	for _, f := range found {
		h := chain.Holding{Address: f.To, Contract: f.Contract}
		if f.Mint != nil && all[h] == nil {
			all[h] = &flow{mint: f.Mint.ID, in: new(big.Int), out: new(big.Int)}
		}
	}
	sum(c, all)
	return all
}

// sum adds what a block says went into and out of holdings.
func sum(c chain.Contents, all map[chain.Holding]*flow) {
	for _, t := range c.Transfers {
		if f := all[chain.Holding{Address: t.To, Contract: t.Contract}]; f != nil {
			f.in.Add(f.in, t.Amount.Big())
		}
		if f := all[chain.Holding{Address: t.From, Contract: t.Contract}]; f != nil {
			f.out.Add(f.out, t.Amount.Big())
		}
	}
	for _, fee := range c.Fees {
		if f := all[chain.Holding{Address: fee.Payer}]; f != nil {
			f.out.Add(f.out, fee.Amount.Big())
		}
	}
}

// judge compares what a block says with how the balance changed over it.
func judge(h chain.Holding, f flow, before, after money.Amount) *finding {
	changed := new(big.Int).Sub(after.Big(), before.Big())
	said := new(big.Int).Sub(f.in, f.out)
	switch changed.Cmp(said) {
	case 0:
		return nil
	case -1:
		return &finding{
			kind: BalanceDelta, holding: h, mint: f.mint, doubtful: true,
			detail: fmt.Sprintf("the block says %v in and %v out, the balance went from %v to %v", f.in, f.out, before, after),
		}
	default:
		return &finding{
			kind: unattributed, holding: h, mint: f.mint,
			detail: fmt.Sprintf("the block says %v in and %v out, the balance rose from %v to %v", f.in, f.out, before, after),
		}
	}
}

// unweighed says what to do about balances that nobody gives. The block is not taken
// in without them: what a token says would then be credited on its word.
func (w *Walker) unweighed(when string, height uint64, err error) error {
	if errors.Is(err, chain.ErrStateGone) {
		return fmt.Errorf("balances %s block %d are no longer kept by as many providers as have to agree; "+
			"name endpoints that keep them in chains.%s.archives, which are asked for nothing else: %w", when, height, w.conf.Chain, err)
	}
	return fmt.Errorf("balances %s block %d: %w", when, height, err)
}

// weigh compares balances before and after a final block with its movements and
// marks what must not be credited. A provider that no longer has the state is
// an error: the walk waits for one that has it. have are balances that are known already. What
// rose in an address that left explains is no finding before that is traced.
func (w *Walker) weigh(ctx context.Context, c chain.Contents, found []Found, have balances, left []due) ([]finding, error) {
	all := flows(c, found)
	if len(all) == 0 {
		return nil, nil
	}
	holdings := make([]chain.Holding, 0, len(all))
	for h := range all {
		holdings = append(holdings, h)
	}
	slices.SortFunc(holdings, func(a, b chain.Holding) int {
		return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.Contract, b.Contract))
	})
	unknown := slices.DeleteFunc(slices.Clone(holdings), func(h chain.Holding) bool { _, ok := have.after[h]; return ok })
	before, mute, err := chain.Balances(ctx, w.conf.Reader, chain.Block{Height: c.Height - 1, Hash: c.Parent}, unknown)
	if err != nil {
		return nil, w.unweighed("before", c.Height, err)
	}
	after, muteAfter, err := chain.Balances(ctx, w.conf.Reader, c.Block, unknown)
	if err != nil {
		return nil, w.unweighed("after", c.Height, err)
	}
	maps.Copy(mute, muteAfter)
	maps.Copy(before, have.before)
	maps.Copy(after, have.after)
	var findings []finding
	for _, h := range holdings {
		problem := judge(h, *all[h], before[h], after[h])
		if why, ok := mute[h]; ok {
			// The token's own defect: nothing of it is credited and the walk goes on.
			problem = &finding{
				kind: BalanceDelta, holding: h, mint: all[h].mint, doubtful: true,
				detail: "the token gives no balance: " + why,
			}
		}
		if problem == nil || !problem.doubtful && explains(left, h) {
			continue
		}
		findings = append(findings, *problem)
		if !problem.doubtful {
			continue
		}
		for j := range found {
			if found[j].To == h.Address && found[j].Contract == h.Contract {
				found[j].Doubt = BalanceDelta
			}
		}
	}
	return findings, nil
}
