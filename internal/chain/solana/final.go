package solana

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/several"
)

// verified is how what is in a block was checked.
const verified = "blockhash-chain,contents-agreed"

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
		got, err = c.agreedContents(ctx, at, by)
	}
	if err != nil {
		return chain.Contents{}, fmt.Errorf("final block %d of %s: %w", height, chain.Solana, err)
	}
	c.final.keep(at)
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
		return none, fmt.Errorf("%s: calls block %d final and has none at or above %d: %s", p.name, final, height, short(err.Error()))
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
	hash, known := c.final.hash(before)
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

// agreedContents are what Agree providers say is in a block. As many are asked at once;
// the others only when those do not say the same, and those who were not heard about
// its hash after them: who gives the contents gives the hash again.
func (c *Client) agreedContents(ctx context.Context, at vote, by []*provider) (chain.Contents, error) {
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
			return p.contents(ctx, at, finalized)
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
		err = errors.Join(fmt.Errorf("of %s there are %d accounts of what is in it: %w", at.hash, len(said), chain.ErrDisagreement), err)
	}
	return chain.Contents{}, err
}

// same tells whether two providers say the same of what moved in a block.
func same(a, b chain.Contents) bool {
	return slices.Equal(a.Transfers, b.Transfers) && slices.Equal(a.Fees, b.Fees)
}

const finalKept = 64

// recently are the hashes of blocks that were agreed on last.
type recently struct {
	mu   sync.Mutex
	kept []vote // oldest first
}

func (r *recently) hash(slot uint64) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.kept {
		if s.slot == slot {
			return s.hash, true
		}
	}
	return "", false
}

func (r *recently) keep(at vote) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = slices.DeleteFunc(r.kept, func(s vote) bool { return s.slot == at.slot })
	if len(r.kept) == finalKept {
		r.kept = slices.Delete(r.kept, 0, 1)
	}
	r.kept = append(r.kept, at)
}
