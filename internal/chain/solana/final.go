package solana

import (
	"context"
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

// verified says how the contents of a block were checked.
const verified = "blockhash-chain,contents-agreed"

const finalHashesCached = 64

// Final returns the block that a quorum of providers calls final. It checks that its parent is the
// block before it, and takes its contents from a quorum.
func (c *Client) Final(ctx context.Context, height uint64) (chain.Contents, error) {
	agreed, voters, err := quorum.AgreeOnHash(ctx, c.providers, c.Quorum,
		func(ctx context.Context, p *provider) (quorum.Vote[vote], error) {
			return p.readVote(ctx, height)
		})
	if err == nil {
		err = c.checkParent(ctx, agreed, voters)
	}
	var got chain.Contents
	if err == nil {
		got, err = quorum.AgreeOnContents(ctx, c.providers, voters, c.Quorum,
			func(ctx context.Context, p *provider) (chain.Contents, error) {
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

// readVote asks a provider for its final slot first and then for the block, so that a block which
// it calls final was final when it was given.
func (p *provider) readVote(ctx context.Context, height uint64) (quorum.Vote[vote], error) {
	var zero quorum.Vote[vote]
	final, err := p.newestSlot(ctx, finalized)
	if err != nil || height > final {
		return zero, err
	}
	found, err := p.firstBlock(ctx, height, finalized)
	if errors.Is(err, errNoBlock) {
		return zero, fmt.Errorf("%s: says that block %d is final and has none at or above %d: %s",
			p.name, final, height, quorum.TruncateAnswer(err.Error()))
	}
	if err != nil {
		return zero, err
	}
	return quorum.Vote[vote]{Final: true, Hash: found.toVote()}, nil
}

// checkParent checks that the block before has the hash that a block names as its parent. Usually
// that hash is cached from a moment ago; otherwise the block before is fetched.
func (c *Client) checkParent(ctx context.Context, block vote, voters []*provider) error {
	parentSlot := block.parentSlot
	if parentSlot >= block.slot {
		// surfpool 1.5.0 names the block itself as its parent. It skips no slot.
		parentSlot = block.slot - 1
	}
	hash, isCached := c.finalHashes.Get(parentSlot)
	if !isCached {
		h, err := quorum.FirstAnswer(ctx, voters, func(ctx context.Context, p *provider) (header, error) {
			return p.readHeader(ctx, parentSlot, finalized)
		})
		if err != nil {
			return fmt.Errorf("the block before, %d: %w", parentSlot, err)
		}
		hash = h.hash
	}
	if hash != block.parent {
		return fmt.Errorf("block %d has the parent %.44q, and block %d is %.44q: %w",
			block.slot, block.parent, parentSlot, hash, chain.ErrDisagreement)
	}
	return nil
}
