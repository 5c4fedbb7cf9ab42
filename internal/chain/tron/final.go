package tron

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/several"
)

// verified is how what is in a block was checked.
const verified = "block-id,transactions-root,results-agreed"

// heads are the tips of a provider.
type heads struct{ latest, final header }

// Heads asks all providers at once. The final head is the highest that Agree of them have
// reached; the latest is of the first one that answers.
func (c *Client) Heads(ctx context.Context) (chain.Heads, error) {
	h, err := c.heads(ctx)
	if err != nil {
		return chain.Heads{}, fmt.Errorf("heads of %s: %w", chain.Tron, err)
	}
	return chain.Heads{Latest: h.latest.block(), Final: h.final.block()}, nil
}

func (c *Client) heads(ctx context.Context) (heads, error) {
	var seen []heads
	var errs []error
	for _, a := range several.Ask(ctx, c.showing(), c.Agree, func(ctx context.Context, p *provider) (heads, error) {
		return p.tips(ctx)
	}) {
		if a.Err != nil {
			errs = append(errs, a.Err)
			continue
		}
		seen = append(seen, a.Value)
	}
	if len(seen) < c.Agree {
		return heads{}, errors.Join(errs...)
	}
	latest := seen[0].latest
	return heads{latest, reached(seen, c.Agree)}, nil
}

// reached is the highest final head that so many have come to.
func reached(seen []heads, agree int) header {
	seen = slices.Clone(seen)
	slices.SortStableFunc(seen, func(x, y heads) int { return cmp.Compare(y.final.height, x.final.height) })
	return seen[agree-1].final
}

// tips asks for the final head first, so that it is never above the newest.
func (p *provider) tips(ctx context.Context) (h heads, err error) {
	if h.final, err = p.header(ctx, solid, ""); err != nil {
		return h, err
	}
	h.latest, err = p.header(ctx, newest, "")
	return h, err
}

// Final finds the identifier that enough providers call final, and takes what is in the
// block from as many of them.
func (c *Client) Final(ctx context.Context, height uint64) (chain.Contents, error) {
	id, by, err := several.Agreed(ctx, c.providers, c.Agree, func(ctx context.Context, p *provider) (several.Sighting[string], error) {
		return p.sight(ctx, height)
	})
	var got chain.Contents
	if err == nil {
		got, err = c.agreedContents(ctx, id, by)
	}
	if err != nil {
		return chain.Contents{}, fmt.Errorf("final block %d of %s: %w", height, chain.Tron, err)
	}
	return got, nil
}

// sight asks a provider for its finality first and then for the block, so that a block
// which it calls final was so when it was given.
func (p *provider) sight(ctx context.Context, height uint64) (several.Sighting[string], error) {
	var none several.Sighting[string]
	final, err := p.header(ctx, solid, "")
	if err != nil || height > final.height {
		return none, err
	}
	h, err := p.header(ctx, solid, heightText(height))
	if err != nil {
		return none, err
	}
	return several.Sighting[string]{Final: true, Hash: h.hash()}, nil
}

// agreedContents are what Agree providers say is in a block. As many are asked at once,
// and the others only when those do not say the same.
func (c *Client) agreedContents(ctx context.Context, id string, by []*provider) (chain.Contents, error) {
	for _, p := range c.providers {
		if !slices.Contains(by, p) {
			by = append(by, p)
		}
	}
	var said []chain.Contents
	var votes []int
	var errs []error
	for first := c.Agree; len(by) > 0; first = 1 {
		asked := by[:min(first, len(by))]
		by = by[len(asked):]
		for _, a := range several.Ask(ctx, asked, len(asked), func(ctx context.Context, p *provider) (chain.Contents, error) {
			return p.contents(ctx, solid, id, c.Internal)
		}) {
			if a.Err != nil {
				errs = append(errs, a.Err)
				continue
			}
			i := slices.IndexFunc(said, func(s chain.Contents) bool { return same(s, a.Value) })
			if i < 0 {
				i, said, votes = len(said), append(said, a.Value), append(votes, 0)
			}
			if votes[i]++; votes[i] >= c.Agree {
				said[i].Providers = votes[i]
				return said[i], nil
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	err := errors.Join(errs...)
	if len(said) > 1 {
		err = errors.Join(fmt.Errorf("of %s there are %d accounts of what is in it: %w", id, len(said), chain.ErrDisagreement), err)
	}
	if err == nil {
		err = fmt.Errorf("%d of the %d providers that have to agree gave it: %w", len(said), c.Agree, chain.ErrNotYet)
	}
	return chain.Contents{}, err
}

// same tells whether two providers say the same of what moved in a block.
func same(a, b chain.Contents) bool {
	return slices.Equal(a.Transfers, b.Transfers) && slices.Equal(a.Fees, b.Fees)
}

// Recent takes the block from the first provider that answers. A fork between its
// requests is an error: the next call sees the new block whole.
func (c *Client) Recent(ctx context.Context, height uint64) (chain.Contents, error) {
	beyond := false
	got, err := several.First(ctx, c.showing(), func(ctx context.Context, p *provider) (chain.Contents, error) {
		head, err := p.header(ctx, newest, "")
		if err != nil {
			return chain.Contents{}, err
		}
		if beyond = height > head.height; beyond {
			return chain.Contents{}, nil
		}
		return p.contents(ctx, newest, heightText(height), c.Internal)
	})
	if err == nil && beyond {
		err = chain.ErrNotYet
	}
	if err != nil {
		return chain.Contents{}, fmt.Errorf("block %d of %s: %w", height, chain.Tron, err)
	}
	return got, nil
}
