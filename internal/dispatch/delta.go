package dispatch

import (
	"context"
	"fmt"
	"math/big"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// contradictions tell of each payment what speaks against it in a transaction that the
// chain calls successful, or "". A token's event is the token's word: that the amount left
// our address and reached the other one is shown by the balances in its final block
// alone. Coin needs none of this, the chain itself moves it. A provider that no
// longer has the state of the block is an error: the order waits for one that has.
func (d *Desk) contradictions(ctx context.Context, ps []chain.Payment, out chain.Outcome) ([]string, error) {
	whys := make([]string, len(ps))
	if !out.Paid {
		for i := range whys {
			whys[i] = "its effects do not show the transfer"
		}
		return whys, nil
	}
	if !slices.ContainsFunc(ps, func(p chain.Payment) bool { return p.Contract != "" }) {
		return whys, nil
	}
	c, err := d.chain.Reader.Final(ctx, out.Block.Height)
	if err != nil {
		return nil, fmt.Errorf("read its block %d again: %w", out.Block.Height, err)
	}
	if c.Hash != out.Block.Hash {
		return nil, fmt.Errorf("its block %d is %s and is now %s: %w", out.Block.Height, out.Block.Hash, c.Hash, chain.ErrDisagreement)
	}
	if c.Weighed {
		return whys, nil // what it shows are balances
	}
	var all []chain.Holding
	for _, p := range ps {
		for _, of := range []chain.Address{p.From, p.To} {
			if h := (chain.Holding{Address: of, Contract: p.Contract}); p.Contract != "" && !slices.Contains(all, h) {
				all = append(all, h)
			}
		}
	}
	before, mute, err := chain.Balances(ctx, d.chain.Reader, chain.Block{Height: c.Height - 1, Hash: c.Parent}, all)
	if err != nil {
		return nil, fmt.Errorf("balances before its block (a provider that keeps old state is needed): %w", err)
	}
	after, muteAfter, err := chain.Balances(ctx, d.chain.Reader, c.Block, all)
	if err != nil {
		return nil, fmt.Errorf("balances after its block (a provider that keeps old state is needed): %w", err)
	}
	for i, p := range ps {
		if p.Contract == "" {
			continue
		}
		from, to := chain.Holding{Address: p.From, Contract: p.Contract}, chain.Holding{Address: p.To, Contract: p.Contract}
		for _, said := range []string{mute[from], muteAfter[from], mute[to], muteAfter[to]} {
			if said != "" && whys[i] == "" {
				whys[i] = "the token gives no balance: " + said
			}
		}
		if whys[i] == "" {
			whys[i] = weigh(c.Transfers, from, to, [2]money.Amount{before[from], after[from]}, [2]money.Amount{before[to], after[to]})
		}
	}
	return whys, nil
}

// weigh compares what a block says of both ends of a payment with how their
// balances changed over it. Ours must have changed by exactly that, or the books
// would be wrong whoever has the rest; the other may have got more. It is pure.
func weigh(transfers []chain.Transfer, from, to chain.Holding, ours, theirs [2]money.Amount) string {
	said := func(h chain.Holding) *big.Int {
		sum := new(big.Int)
		for _, t := range transfers {
			if t.Contract != h.Contract {
				continue
			}
			if t.To == h.Address {
				sum.Add(sum, t.Amount.Big())
			}
			if t.From == h.Address {
				sum.Sub(sum, t.Amount.Big())
			}
		}
		return sum
	}
	changed := func(b [2]money.Amount) *big.Int { return new(big.Int).Sub(b[1].Big(), b[0].Big()) }
	switch {
	case changed(ours).Cmp(said(from)) != 0:
		return fmt.Sprintf("by its block our balance changed by %v, and it went from %v to %v", said(from), ours[0], ours[1])
	case changed(theirs).Cmp(said(to)) < 0:
		return fmt.Sprintf("by its block the payee's balance changed by %v, and it went from %v to %v", said(to), theirs[0], theirs[1])
	}
	return ""
}
