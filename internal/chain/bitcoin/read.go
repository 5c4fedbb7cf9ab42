package bitcoin

import (
	"context"
	"fmt"
	"slices"

	"github.com/btcsuite/btcd/chainhash/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

// Heads asks all nodes at once. The final head is the highest that a quorum of them has reached.
// The latest head is that of the first node that answers.
func (a *adapter) Heads(ctx context.Context) (chain.Heads, error) {
	h, err := quorum.AgreeOnHeads(ctx, a.providersByTrust(), a.Quorum, a.readHeads)
	if err != nil {
		return chain.Heads{}, fmt.Errorf("heads of %s: %w", chain.Bitcoin, err)
	}
	return h, nil
}

func (a *adapter) readHeads(ctx context.Context, p *provider) (chain.Heads, error) {
	height, err := p.readHeight(ctx)
	if err != nil {
		return chain.Heads{}, err
	}
	latest, err := p.readHead(ctx, height)
	if err != nil {
		return chain.Heads{}, err
	}
	final, err := p.readHead(ctx, a.finalHeight(height))
	return chain.Heads{Latest: latest, Final: final}, err
}

// readHead returns the block at a height, with its header checked.
func (p *provider) readHead(ctx context.Context, height uint64) (chain.Block, error) {
	hash, ok, err := p.readHashAt(ctx, height)
	if err == nil && !ok {
		err = fmt.Errorf("%s: has no block %d any more", p.name, height)
	}
	if err != nil {
		return chain.Block{}, err
	}
	var raw rawHex
	if err := p.callBatch(ctx, newCall(&raw, "getblockheader", hash.String(), false)); err != nil {
		return chain.Block{}, err
	}
	h, err := readHeader(p.params, raw, hash)
	if err == nil && len(raw) != headerBytes {
		err = fmt.Errorf("%w: header of %d bytes", chain.ErrUndecodable, len(raw))
	}
	if err != nil {
		return chain.Block{}, fmt.Errorf("%s: block %d: %w", p.name, height, err)
	}
	return (&verifiedBlock{hash: hash, header: h}).toChainBlock(height), nil
}

// Final finds the hash that a quorum of nodes calls final, and then takes the block from the first
// of them that gives all of it.
func (a *adapter) Final(ctx context.Context, height uint64) (chain.Contents, error) {
	wrap := func(err error) (chain.Contents, error) {
		return chain.Contents{}, fmt.Errorf("final block %d of %s: %w", height, chain.Bitcoin, err)
	}
	hash, voters, err := a.agreeOnHash(ctx, height)
	if err != nil {
		return wrap(err)
	}
	s, err := a.loadBlock(ctx, voters, height, hash)
	if err != nil {
		return wrap(err)
	}
	matured, err := a.loadMaturedReward(ctx, voters, height, func() (chainhash.Hash, error) {
		hash, _, err := a.agreeOnHash(ctx, height-coinbaseMaturity)
		return hash, err
	})
	if err != nil {
		return wrap(err)
	}
	c := s.chainContents(height, matured, len(voters))
	if height > 0 { // the first block is final independently of its depth
		c.Depth = a.Confirmations
	}
	return c, nil
}

// Recent takes the block from the first node that answers. A reorg between its requests is an
// error: the next call reads the new block as a whole.
func (a *adapter) Recent(ctx context.Context, height uint64) (chain.Contents, error) {
	isPastTip := false
	c, err := quorum.FirstAnswer(ctx, a.providersByTrust(),
		func(ctx context.Context, p *provider) (chain.Contents, error) {
			hash, ok, err := p.readHashAt(ctx, height)
			if err != nil {
				return chain.Contents{}, err
			}
			if isPastTip = !ok; isPastTip {
				return chain.Contents{}, nil
			}
			single := []*provider{p}
			s, err := a.loadBlock(ctx, single, height, hash)
			if err != nil {
				return chain.Contents{}, err
			}
			matured, err := a.loadMaturedReward(ctx, single, height, func() (chainhash.Hash, error) {
				hash, ok, err := p.readHashAt(ctx, height-coinbaseMaturity)
				if err == nil && !ok {
					err = fmt.Errorf("%s: has no block %d any more", p.name, height-coinbaseMaturity)
				}
				return hash, err
			})
			if err != nil {
				return chain.Contents{}, err
			}
			return s.chainContents(height, matured, 1), nil
		})
	if err == nil && isPastTip {
		err = chain.ErrNotYet
	}
	if err != nil {
		return chain.Contents{}, fmt.Errorf("block %d of %s: %w", height, chain.Bitcoin, err)
	}
	return c, nil
}

// agreeOnHash returns the final hash at a height, with the nodes that have it.
func (a *adapter) agreeOnHash(ctx context.Context, height uint64) (chainhash.Hash, []*provider, error) {
	return quorum.AgreeOnHash(ctx, a.providers, a.Quorum,
		func(ctx context.Context, p *provider) (quorum.Vote[chainhash.Hash], error) {
			return a.readVote(ctx, p, height)
		})
}

// readVote asks a node for its newest block first and then for the one at a height, so that a block
// which it calls final was final when it was given.
func (a *adapter) readVote(ctx context.Context, p *provider, height uint64) (quorum.Vote[chainhash.Hash], error) {
	var zero quorum.Vote[chainhash.Hash]
	latest, err := p.readHeight(ctx)
	if err != nil || height > a.finalHeight(latest) {
		return zero, err
	}
	hash, ok, err := p.readHashAt(ctx, height)
	if err == nil && !ok {
		err = fmt.Errorf("%s: says that block %d is its newest and does not have block %d", p.name, latest, height)
	}
	if err != nil {
		return zero, err
	}
	return quorum.Vote[chainhash.Hash]{Final: true, Hash: hash}, nil
}

// loadBlock returns the block with a hash at a height, from the first of some nodes that gives all
// of it.
func (a *adapter) loadBlock(
	ctx context.Context, providers []*provider, height uint64, hash chainhash.Hash,
) (*verifiedBlock, error) {
	s, isCached := a.blocks.Get(hash)
	if !isCached {
		var err error
		s, err = quorum.FirstAnswer(ctx, providers, func(ctx context.Context, p *provider) (*verifiedBlock, error) {
			var raw rawHex
			if err := p.callBatch(ctx, newCall(&raw, "getblock", hash.String(), 0)); err != nil {
				return nil, err
			}
			s, err := verifyBlock(p.params, raw, hash)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			return s, nil
		})
		if err != nil {
			return nil, err
		}
		a.blocks.Put(s.hash, s, blocksCached)
	}
	if s.hasHeight && s.height != height && (height >= uint64(a.params.BIP0034Height) || a.Network == chain.Local) {
		return nil, fmt.Errorf("block %s says that it is block %d, and was given for %d", hash, s.height, height)
	}
	return s, nil
}

// chainContents returns all transfers of a block, with the reward that matures in it.
//
// There are no fees of accounts on Bitcoin: the fee of a transaction is what its outputs lack to
// its inputs, and no account is charged for it.
func (s *verifiedBlock) chainContents(height uint64, matured []chain.Transfer, providers int) chain.Contents {
	return chain.Contents{
		Block: s.toChainBlock(height), Transfers: slices.Concat(s.movements, matured),
		BalancesProven: true, Providers: providers, Verified: verified,
	}
}

// coinbaseMaturity is the age of the reward that becomes spendable after a block. A reorg of less
// than a hundred blocks can take a miner's reward away permanently. So a coinbase's outputs are
// reported in the block with which they become spendable, and not in the one that contains them.
const coinbaseMaturity = 99

// loadMaturedReward returns what a block's coinbase paid; hash finds the hash of that block.
func (a *adapter) loadMaturedReward(
	ctx context.Context, providers []*provider, height uint64, hash func() (chainhash.Hash, error),
) ([]chain.Transfer, error) {
	if height <= coinbaseMaturity {
		return nil, nil // the first block's reward can never be spent
	}
	h, err := hash()
	if err != nil {
		return nil, fmt.Errorf("outputs of block %d: %w", height-coinbaseMaturity, err)
	}
	if reward, ok := a.rewards.Get(h); ok {
		return reward, nil
	}
	s, isCached := a.blocks.Get(h)
	if !isCached {
		s, err = quorum.FirstAnswer(ctx, providers, func(ctx context.Context, p *provider) (*verifiedBlock, error) {
			var raw rawHex
			if err := p.callBatch(ctx, newCall(&raw, "getblock", h.String(), 0)); err != nil {
				return nil, err
			}
			return verifyBlock(p.params, raw, h)
		})
		if err != nil {
			return nil, fmt.Errorf("outputs of block %d: %w", height-coinbaseMaturity, err)
		}
	}
	a.rewards.Put(h, s.reward, rewardsCached)
	return s.reward, nil
}
