package tron

import (
	"context"
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/several"
)

// Outcome asks all providers where the transactions are and reads the blocks with the
// decoder that reads all blocks. As many as have to agree have to give the same, since no
// header proves what a call did; where fewer have it so far it is ErrNotYet. Nowhere is
// only said when as many have looked and nobody has it, and is no word about whether it
// still comes: that is Lapsed's.
func (c *Client) Outcome(ctx context.Context, txs []chain.TxHash, ps ...chain.Payment) (*chain.Outcome, error) {
	if len(txs) == 0 {
		return nil, nil
	}
	var errs []error
	var found []*chain.Outcome
	none := 0
	for _, o := range several.Ask(ctx, c.providers, len(c.providers), func(ctx context.Context, from *provider) (*chain.Outcome, error) {
		return from.outcome(ctx, txs, ps, c.Internal)
	}) {
		switch {
		case o.Err != nil:
			errs = append(errs, o.Err)
		case o.Value != nil:
			found = append(found, o.Value)
		default:
			none++
		}
	}
	fail := func(tx chain.TxHash, err error) (*chain.Outcome, error) {
		return nil, fmt.Errorf("outcome of %s on %s: %w", tx, chain.Tron, err)
	}
	differ := false
	for _, o := range found {
		votes := 0
		for _, other := range found {
			if *o == *other {
				votes++
			}
		}
		if votes >= c.Agree {
			return o, nil
		}
		differ = differ || votes < len(found)
	}
	switch err := errors.Join(errs...); {
	case differ:
		return fail(found[0].Tx, errors.Join(chain.ErrDisagreement, err))
	case len(found) > 0:
		return fail(found[0].Tx, errors.Join(fmt.Errorf("%d of the %d providers that have to agree have it: %w", len(found), c.Agree, chain.ErrNotYet), err))
	case none >= c.Agree && !errors.Is(err, chain.ErrNotYet):
		return nil, nil
	default:
		return fail(txs[0], err)
	}
}

func (p *provider) outcome(ctx context.Context, txs []chain.TxHash, ps []chain.Payment, internals bool) (*chain.Outcome, error) {
	for _, hash := range txs {
		var where result
		if err := p.ask(ctx, &where, newest, "gettransactioninfobyid", args{"value": hash}); err != nil {
			return nil, err
		}
		if where.ID == "" {
			continue
		}
		if where.ID != string(hash) {
			return nil, &saidError{p.name, "gettransactioninfobyid", fmt.Errorf("the result of %.70q for %s", where.ID, hash)}
		}
		return p.outcomeAt(ctx, where.Height, hash, ps, internals)
	}
	return nil, nil
}

// outcomeAt reads a transaction in the block that a provider says it is in.
func (p *provider) outcomeAt(ctx context.Context, height uint64, hash chain.TxHash, ps []chain.Payment, internals bool) (*chain.Outcome, error) {
	h, txs, err := p.block(ctx, newest, heightText(height))
	if errors.Is(err, errNoBlock) {
		return nil, fmt.Errorf("%w: %w", chain.ErrNotYet, err)
	}
	if err != nil {
		return nil, err
	}
	all, err := p.effects(ctx, newest, h, txs, internals)
	if errors.Is(err, errNoResults) {
		return nil, fmt.Errorf("%w: %w", chain.ErrNotYet, err)
	}
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if e.Hash == hash {
			return &chain.Outcome{
				Tx: hash, Block: h.block(), Succeeded: e.succeeded, Paid: e.succeeded && chain.Makes(e.transfers, ps, pays), Fee: e.fee,
			}, nil
		}
	}
	return nil, fmt.Errorf("%s: %s is not in block %d, where it says", p.name, hash, height)
}

// pays tells whether a movement is exactly a payment.
func pays(tr chain.Transfer, p chain.Payment) bool {
	kind := chain.Native
	if p.Contract != "" {
		kind = chain.Token
	}
	return tr.Kind == kind && tr.Contract == p.Contract && tr.From == p.From && tr.To == p.To && tr.Amount == p.Amount
}
