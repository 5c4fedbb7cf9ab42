package tron

import (
	"cmp"
	"context"
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
	h, err := several.Heads(ctx, c.showing(), c.Agree, func(ctx context.Context, p *provider) (chain.Heads, error) {
		h, err := p.tips(ctx)
		return chain.Heads{Latest: h.latest.block(), Final: h.final.block()}, err
	})
	if err != nil {
		return chain.Heads{}, fmt.Errorf("heads of %s: %w", chain.Tron, err)
	}
	return h, nil
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
		got, err = several.Contents(ctx, c.providers, by, c.Agree, func(ctx context.Context, p *provider) (chain.Contents, error) {
			return p.contents(ctx, solid, id, c.Internal)
		})
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
