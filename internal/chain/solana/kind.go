package solana

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/several"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
)

// Senders answers from the movements where one sent it. Of what came from several, as a
// sweep of several addresses does, everybody has sent it who has less of the same after
// the transaction: the block is read again until as many providers as have to agree say
// the same of it. Nobody has sent what was made out of nothing.
func (c *Client) Senders(ctx context.Context, at chain.Block, of []chain.Transfer) ([][]chain.Address, error) {
	if !slices.ContainsFunc(of, func(t chain.Transfer) bool { return t.From == "" }) {
		return chain.Senders(of), nil
	}
	senders, err := several.Same(ctx, c.providers, c.Agree, 1, func(a, b [][]chain.Address) bool {
		return slices.EqualFunc(a, b, slices.Equal[[]chain.Address])
	}, func(ctx context.Context, p *provider) ([][]chain.Address, error) {
		return p.senders(ctx, at, of)
	})
	if err != nil {
		return nil, fmt.Errorf("senders in block %d of %s: %w", at.Height, chain.Solana, err)
	}
	return senders, nil
}

func (p *provider) senders(ctx context.Context, at chain.Block, of []chain.Transfer) ([][]chain.Address, error) {
	raw, err := p.raw(ctx, at.Height, "accounts", confirmed)
	if err != nil {
		return nil, err
	}
	m := newMovements()
	m.several = map[where][]chain.Address{}
	h, err := decode(raw, m.see)
	if err != nil {
		return nil, fmt.Errorf("%s: block %d: %w", p.name, at.Height, err)
	}
	if h.hash != at.Hash {
		return nil, fmt.Errorf("%s: gives block %.44q in slot %d, want %.44q", p.name, h.hash, at.Height, at.Hash)
	}
	all := chain.Senders(of)
	for i, t := range of {
		if t.From != "" {
			continue
		}
		if !slices.Contains(m.transfers, t) {
			return nil, fmt.Errorf("%s: block %d has no movement %s of %s", p.name, at.Height, t.Position, t.Tx)
		}
		all[i] = m.several[whereIs(t)]
	}
	return all, nil
}

// Kind asks one provider after the other until as many as have to agree say Keyed; the
// first that says Programmed decides.
//
// An address off the curve has no key. One on it is Keyed as long as nobody but the
// System program owns it and it holds nothing but lamports: others than its key decide
// over what a program owns, and over a nonce account its authority does. The account is
// looked at as it is now, by a provider that has the block on its chain; what somebody
// gave to a program since is Programmed, which is what it is.
func (c *Client) Kind(ctx context.Context, at chain.Block, of chain.Address) (chain.AccountKind, error) {
	if _, err := solanatx.Bytes(of); err != nil {
		return "", err
	}
	votes := 0
	var errs []error
	for _, p := range c.providers {
		kind, err := p.kind(ctx, at, of)
		switch {
		case err != nil:
			errs = append(errs, err)
		case kind == chain.Programmed:
			return kind, nil
		default:
			if votes++; votes >= c.Agree {
				return chain.Keyed, nil
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	return "", fmt.Errorf("kind of %s in block %d of %s: %d of the %d providers that have to agree said: %w",
		of, at.Height, chain.Solana, votes, c.Agree, errors.Join(errs...))
}

func (p *provider) kind(ctx context.Context, at chain.Block, of chain.Address) (chain.AccountKind, error) {
	if _, err := p.onChain(ctx, at); err != nil {
		return "", err
	}
	if !solanatx.OnCurve(of) {
		return chain.Programmed, nil
	}
	var got weighed[*account]
	if err := p.call(ctx, &got, "getAccountInfo", of, since(at.Height, confirmed, 1)); err != nil {
		return "", err
	}
	if got.Context.Slot < at.Height {
		return "", fmt.Errorf("%s: tells of slot %d, want %d or later", p.name, got.Context.Slot, at.Height)
	}
	a := got.Value
	if a == nil {
		return chain.Keyed, nil
	}
	data, err := a.bytes()
	if err != nil {
		return "", p.Said("getAccountInfo", err)
	}
	if a.Owner != string(solanatx.SystemProgram) || a.Executable || len(data) > 0 {
		return chain.Programmed, nil
	}
	return chain.Keyed, nil
}
