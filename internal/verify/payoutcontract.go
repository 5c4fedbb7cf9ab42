package verify

import (
	"context"
	"fmt"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// examinePayoutContract asks a chain what its payout contract holds, in the highest block that the final walk has
// processed: of the coin, and of each token of the catalogue. Invariant I-89, rule BP-54.
//
// What it holds is a remark and no breach. Anyone can send it something, and a breach freezes all payments: a stranger
// could stop them for the price of a transfer. Only the sender has lost it. The contract moves what its caller
// owns and never what it holds, so it cannot pay it out, and no payment depends on it.
//
// Without an answer of a quorum it is not known what the contract holds: the outcome says so, and the error why.
func examinePayoutContract(ctx context.Context, db *pg.DB, c chain.Chain) (o Outcome, remarks []Breach, err error) {
	o = Outcome{
		ID:      "I-89-" + string(c.Name),
		Promise: fmt.Sprintf("the payout contract on %s holds nothing", c.Name),
	}
	unknown := func(note string, err error) (Outcome, []Breach, error) {
		o.NotChecked, o.Note = true, note
		return o, nil, err
	}
	const silence = "not checked: the chain or the database did not answer"
	isDeployed, err := c.PayoutContract.IsDeployed(ctx)
	if err != nil {
		return unknown(silence, err)
	}
	if !isDeployed {
		o.Note = "it is not deployed"
		return o, nil, nil
	}
	var block *chain.Block
	var mints []mint.Mint
	var unsettled string
	err = db.Snapshot(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if unsettled, err = finality.UnsettledReason(ctx, tx, c.Name); err != nil || unsettled != "" {
			return err
		}
		if block, err = lastWalkedBlock(ctx, tx, c.Name); err != nil {
			return err
		}
		catalogue, err := mint.LoadCatalogue(ctx, tx)
		mints = catalogue.List(mint.Filter{Chain: c.Name})
		return err
	})
	switch {
	case err != nil:
		return unknown(silence, err)
	case unsettled != "":
		return unknown("not checked: "+unsettled, nil)
	case block == nil:
		return unknown("not checked: no block was read yet", nil)
	}
	contract := c.PayoutContract.Address()
	queries := []chain.Holding{{Address: contract}}
	tokens := map[chain.Holding]string{queries[0]: "of the coin"}
	for _, m := range mints {
		if m.Contract == "" {
			continue
		}
		q := chain.Holding{Address: contract, Contract: m.Contract}
		queries, tokens[q] = append(queries, q), fmt.Sprintf("of mint %d, %s", m.ID, m.Symbol)
	}
	var silent []string
	for len(queries) > 0 {
		page := queries[:min(len(queries), holdingsMax)]
		queries = queries[len(page):]
		balances, noBalance, err := chain.Balances(ctx, c.Reader, *block, page)
		if err != nil {
			return unknown(silence, fmt.Errorf("ask for balances in block %d: %w", block.Height, err))
		}
		for _, q := range page {
			if _, isSilent := noBalance[q]; isSilent {
				silent = append(silent, tokens[q])
				continue
			}
			if balances[q].IsZero() {
				continue
			}
			o.Remarks++
			remarks = append(remarks, Breach{
				Check: o.ID, Subject: fmt.Sprintf("payout contract %s", contract),
				Detail: fmt.Sprintf("holds %v %s in block %d: someone sent it there, and it stays there, because "+
					"the contract moves only what its caller owns. Nothing of ours is missing, and no payment "+
					"depends on it",
					balances[q], tokens[q], block.Height),
			})
		}
	}
	o.Note = fmt.Sprintf("%d balances in block %d", len(tokens)-len(silent), block.Height)
	if len(silent) > 0 {
		o.Note += "; not checked, because the token gives no balance: " + strings.Join(silent, "; ")
	}
	return o, remarks, nil
}
