package solana

import (
	"context"
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
)

// Senders answers from the movements: whose accounts paid is seen in the block.
func (c *Client) Senders(_ context.Context, _ chain.Block, of []chain.Transfer) ([][]chain.Address, error) {
	return chain.Senders(of), nil
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
		return "", &saidError{p.name, "getAccountInfo", err}
	}
	if a.Owner != string(solanatx.SystemProgram) || a.Executable || len(data) > 0 {
		return chain.Programmed, nil
	}
	return chain.Keyed, nil
}
