package solana

import (
	"context"
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/several"
)

// verified is how what is in a block was checked.
const verified = "blockhash-chain,contents-agreed"

const finalKept = 64

// Final finds the block that enough providers call final, sees that it stands on the
// one before, and takes what is in it from as many of them.
func (c *Client) Final(ctx context.Context, height uint64) (chain.Contents, error) {
	at, by, err := several.Agreed(ctx, c.providers, c.Agree, func(ctx context.Context, p *provider) (several.Sighting[vote], error) {
		return p.sight(ctx, height)
	})
	if err == nil {
		err = c.standsOn(ctx, at, by)
	}
	var got chain.Contents
	if err == nil {
		got, err = several.Contents(ctx, c.providers, by, c.Agree, func(ctx context.Context, p *provider) (chain.Contents, error) {
			return p.contents(ctx, at, finalized)
		})
	}
	if err != nil {
		return chain.Contents{}, fmt.Errorf("final block %d of %s: %w", height, chain.Solana, err)
	}
	c.final.Keep(at.slot, at.hash, finalKept)
	got.Verified = verified
	return got, nil
}

// sight asks a provider for its finality first and then for the block, so that
// a block which it calls final was so when it was given.
func (p *provider) sight(ctx context.Context, height uint64) (several.Sighting[vote], error) {
	var none several.Sighting[vote]
	final, err := p.slot(ctx, finalized)
	if err != nil || height > final {
		return none, err
	}
	at, err := p.first(ctx, height, finalized)
	if errors.Is(err, errNoBlock) {
		return none, fmt.Errorf("%s: calls block %d final and has none at or above %d: %s", p.name, final, height, several.Short(err.Error()))
	}
	if err != nil {
		return none, err
	}
	return several.Sighting[vote]{Final: true, Hash: at.vote()}, nil
}

// standsOn sees that the block before has the hash that a block names for it. Mostly it
// was read a moment ago; else it is fetched.
func (c *Client) standsOn(ctx context.Context, at vote, by []*provider) error {
	before := at.parentSlot
	if before >= at.slot {
		// surfpool 1.5.0 names the block itself. It leaves no slot out.
		before = at.slot - 1
	}
	hash, known := c.final.Find(before)
	if !known {
		h, err := several.First(ctx, by, func(ctx context.Context, p *provider) (header, error) {
			return p.header(ctx, before, finalized)
		})
		if err != nil {
			return fmt.Errorf("the block before, %d: %w", before, err)
		}
		hash = h.hash
	}
	if hash != at.parent {
		return fmt.Errorf("block %d stands on %.44q, and block %d is %.44q: %w", at.slot, at.parent, before, hash, chain.ErrDisagreement)
	}
	return nil
}
