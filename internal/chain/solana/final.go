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

const finalHashesCached = 64

// Final finds the block that enough providers call final, sees that it stands on the
// one before, and takes what is in it from as many of them.
func (c *Client) Final(ctx context.Context, height uint64) (chain.Contents, error) {
	agreed, voters, err := several.AgreeOnHash(ctx, c.providers, c.Quorum, func(ctx context.Context, p *provider) (several.Vote[vote], error) {
		return p.readVote(ctx, height)
	})
	if err == nil {
		err = c.checkParent(ctx, agreed, voters)
	}
	var got chain.Contents
	if err == nil {
		got, err = several.AgreeOnContents(ctx, c.providers, voters, c.Quorum, func(ctx context.Context, p *provider) (chain.Contents, error) {
			return p.readContents(ctx, agreed, finalized)
		})
	}
	if err != nil {
		return chain.Contents{}, fmt.Errorf("final block %d of %s: %w", height, chain.Solana, err)
	}
	c.finalHashes.Put(agreed.slot, agreed.hash, finalHashesCached)
	got.Verified = verified
	return got, nil
}

// readVote asks a provider for its finality first and then for the block, so that
// a block which it calls final was so when it was given.
func (p *provider) readVote(ctx context.Context, height uint64) (several.Vote[vote], error) {
	var zero several.Vote[vote]
	final, err := p.newestSlot(ctx, finalized)
	if err != nil || height > final {
		return zero, err
	}
	found, err := p.firstBlock(ctx, height, finalized)
	if errors.Is(err, errNoBlock) {
		return zero, fmt.Errorf("%s: calls block %d final and has none at or above %d: %s", p.name, final, height, several.TruncateAnswer(err.Error()))
	}
	if err != nil {
		return zero, err
	}
	return several.Vote[vote]{Final: true, Hash: found.toVote()}, nil
}

// checkParent sees that the block before has the hash that a block names for it. Mostly it
// was read a moment ago; else it is fetched.
func (c *Client) checkParent(ctx context.Context, block vote, voters []*provider) error {
	parentSlot := block.parentSlot
	if parentSlot >= block.slot {
		// surfpool 1.5.0 names the block itself. It leaves no slot out.
		parentSlot = block.slot - 1
	}
	hash, isCached := c.finalHashes.Get(parentSlot)
	if !isCached {
		h, err := several.FirstAnswer(ctx, voters, func(ctx context.Context, p *provider) (header, error) {
			return p.readHeader(ctx, parentSlot, finalized)
		})
		if err != nil {
			return fmt.Errorf("the block before, %d: %w", parentSlot, err)
		}
		hash = h.hash
	}
	if hash != block.parent {
		return fmt.Errorf("block %d stands on %.44q, and block %d is %.44q: %w", block.slot, block.parent, parentSlot, hash, chain.ErrDisagreement)
	}
	return nil
}
