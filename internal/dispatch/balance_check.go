package dispatch

import (
	"context"
	"fmt"
	"math/big"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// findContradictions returns for each payment what contradicts it in a transaction that the chain
// calls successful, or "". A token's event is only the token's claim. Only the balances in the
// final block show that the amount left Coffer's address and reached the payee. Native coin needs
// no such check, because the chain itself moves it. A provider that no longer has the state of the
// block causes an error; the order waits for one that has. Rule WD-15.
func (d *Worker) findContradictions(ctx context.Context, ps []chain.Payment, outcome chain.Outcome) ([]string, error) {
	reasons := make([]string, len(ps))
	if !outcome.Paid {
		for i := range reasons {
			reasons[i] = "its effects do not show the transfer"
		}
		return reasons, nil
	}
	movesToken := func(p chain.Payment) bool { return p.Contract != "" && !p.SetsAllowance() }
	if !slices.ContainsFunc(ps, movesToken) {
		return reasons, nil
	}
	c, err := d.chain.Reader.Final(ctx, outcome.Block.Height)
	if err != nil {
		return nil, fmt.Errorf("read its block %d again: %w", outcome.Block.Height, err)
	}
	if c.Hash != outcome.Block.Hash {
		return nil, fmt.Errorf(
			"its block %d was %s and is %s now: %w", outcome.Block.Height, outcome.Block.Hash, c.Hash,
			chain.ErrDisagreement,
		)
	}
	if c.BalancesProven {
		return reasons, nil // the block's transfers are taken from balances
	}
	var holdings []chain.Holding
	for _, p := range ps {
		for _, address := range []chain.Address{p.From, p.To} {
			if h := (chain.Holding{Address: address, Contract: p.Contract}); movesToken(p) &&
				!slices.Contains(holdings, h) {
				holdings = append(holdings, h)
			}
		}
	}
	before, errorsBefore, err := chain.Balances(
		ctx, d.chain.Reader, chain.Block{Height: c.Height - 1, Hash: c.Parent}, holdings,
	)
	if err != nil {
		return nil, fmt.Errorf("balances before its block (this needs a provider that keeps old state): %w", err)
	}
	after, errorsAfter, err := chain.Balances(ctx, d.chain.Reader, c.Block, holdings)
	if err != nil {
		return nil, fmt.Errorf("balances after its block (this needs a provider that keeps old state): %w", err)
	}
	for i, p := range ps {
		if !movesToken(p) {
			continue
		}
		from, to := chain.Holding{
			Address: p.From, Contract: p.Contract,
		}, chain.Holding{Address: p.To, Contract: p.Contract}
		for _, tokenError := range []string{errorsBefore[from], errorsAfter[from], errorsBefore[to], errorsAfter[to]} {
			if tokenError != "" && reasons[i] == "" {
				reasons[i] = "the token returns no balance: " + tokenError
			}
		}
		if reasons[i] == "" {
			reasons[i] = compareBalances(
				c.Transfers, from, to, [2]money.Amount{before[from], after[from]},
				[2]money.Amount{before[to], after[to]},
			)
		}
	}
	return reasons, nil
}

// compareBalances compares the transfers of a block with the balance changes of payer and payee
// over it. The payer's balance, Coffer's, must change by exactly that much, or the books would be
// wrong. The payee's may grow by more. compareBalances is pure.
func compareBalances(
	transfers []chain.Transfer, from, to chain.Holding, payerBalances, payeeBalances [2]money.Amount,
) string {
	reportedChange := func(h chain.Holding) *big.Int {
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
	balanceChange := func(b [2]money.Amount) *big.Int { return new(big.Int).Sub(b[1].Big(), b[0].Big()) }
	switch {
	case balanceChange(payerBalances).Cmp(reportedChange(from)) != 0:
		return fmt.Sprintf(
			"by its block the wallet's balance changed by %v, and it went from %v to %v",
			reportedChange(from), payerBalances[0],
			payerBalances[1],
		)
	case balanceChange(payeeBalances).Cmp(reportedChange(to)) < 0:
		return fmt.Sprintf(
			"by its block the payee's balance changed by %v, and it went from %v to %v", reportedChange(to),
			payeeBalances[0], payeeBalances[1],
		)
	}
	return ""
}
