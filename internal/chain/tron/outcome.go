package tron

import (
	"context"
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

// Outcome asks all providers for the block of the transactions. It reads the blocks with the
// decoder of all blocks. The quorum has to give the same outcome, since no header proves what a
// call did. If fewer providers have the transaction so far, the error is ErrNotYet.
//
// The result is nil if the quorum has looked and no provider has any of them. That does not say
// whether one is mined later: ProveExpired does.
func (c *Client) Outcome(ctx context.Context, txs []chain.TxHash, ps ...chain.Payment) (*chain.Outcome, error) {
	if len(txs) == 0 {
		return nil, nil
	}
	o, err := quorum.AgreeOnOutcome(ctx, c.providers, c.Quorum, func(a, b *chain.Outcome) bool { return *a == *b },
		func(ctx context.Context, node *provider) (*chain.Outcome, error) {
			return node.readOutcome(ctx, txs, ps, c.Internal)
		})
	if err != nil {
		return nil, fmt.Errorf("outcome of %s on %s: %w", txs[0], chain.Tron, err)
	}
	return o, nil
}

func (p *provider) readOutcome(
	ctx context.Context, txs []chain.TxHash, ps []chain.Payment, internals bool,
) (*chain.Outcome, error) {
	for _, hash := range txs {
		var info result
		if err := p.callMethod(ctx, &info, newest, "gettransactioninfobyid", requestParams{"value": hash}); err != nil {
			return nil, err
		}
		if info.ID == "" {
			continue
		}
		if info.ID != string(hash) {
			return nil, p.WrapError("gettransactioninfobyid", fmt.Errorf("the result of %.70q for %s", info.ID, hash))
		}
		return p.readOutcomeAt(ctx, info.Height, hash, ps, internals)
	}
	return nil, nil
}

// readOutcomeAt reads a transaction in the block that a provider names for it.
func (p *provider) readOutcomeAt(
	ctx context.Context, height uint64, hash chain.TxHash, ps []chain.Payment, internals bool,
) (*chain.Outcome, error) {
	h, txs, err := p.readBlock(ctx, newest, heightText(height))
	if errors.Is(err, errNoBlock) {
		return nil, fmt.Errorf("%w: %w", chain.ErrNotYet, err)
	}
	if err != nil {
		return nil, err
	}
	effects, err := p.readEffects(ctx, newest, h, txs, internals)
	if errors.Is(err, errNoResults) {
		return nil, fmt.Errorf("%w: %w", chain.ErrNotYet, err)
	}
	if err != nil {
		return nil, err
	}
	for _, e := range effects {
		if e.Hash == hash {
			return &chain.Outcome{
				Tx: hash, Block: h.toChainBlock(), Succeeded: e.succeeded,
				Paid: e.succeeded && chain.MakesPayments(e.transfers, ps, isPayment), Fee: e.fee,
			}, nil
		}
	}
	return nil, fmt.Errorf("%s: %s is not in block %d, although it says so", p.name, hash, height)
}

// isPayment reports whether a transfer is exactly the payment.
func isPayment(tr chain.Transfer, p chain.Payment) bool {
	kind := chain.Native
	if p.Contract != "" {
		kind = chain.Token
	}
	return tr.Kind == kind && tr.Contract == p.Contract && tr.From == p.From && tr.To == p.To && tr.Amount == p.Amount
}
