package bitcoin

import (
	"context"
	"fmt"
	"slices"

	"github.com/btcsuite/btcd/chainhash/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/several"
)

// Heads asks all nodes at once. The final head is the highest that Agree of them have
// reached; the latest is of the first one that answers.
func (a *adapter) Heads(ctx context.Context) (chain.Heads, error) {
	h, err := several.Heads(ctx, a.showing(), a.Agree, a.headsOf)
	if err != nil {
		return chain.Heads{}, fmt.Errorf("heads of %s: %w", chain.Bitcoin, err)
	}
	return h, nil
}

func (a *adapter) headsOf(ctx context.Context, p *provider) (chain.Heads, error) {
	height, err := p.height(ctx)
	if err != nil {
		return chain.Heads{}, err
	}
	latest, err := p.head(ctx, height)
	if err != nil {
		return chain.Heads{}, err
	}
	final, err := p.head(ctx, a.below(height))
	return chain.Heads{Latest: latest, Final: final}, err
}

// head is the block at a height, with its header checked.
func (p *provider) head(ctx context.Context, height uint64) (chain.Block, error) {
	hash, ok, err := p.hashAt(ctx, height)
	if err == nil && !ok {
		err = fmt.Errorf("%s: has no block %d any more", p.name, height)
	}
	if err != nil {
		return chain.Block{}, err
	}
	var raw rawHex
	if err := p.call(ctx, ask(&raw, "getblockheader", hash.String(), false)); err != nil {
		return chain.Block{}, err
	}
	h, err := readHeader(p.params, raw, hash)
	if err == nil && len(raw) != headerBytes {
		err = fmt.Errorf("%w: header of %d bytes", chain.ErrUndecodable, len(raw))
	}
	if err != nil {
		return chain.Block{}, fmt.Errorf("%s: block %d: %w", p.name, height, err)
	}
	return (&sealed{hash: hash, header: h}).block(height), nil
}

// Final finds the hash that enough nodes call final, and then takes the block from
// whichever of them gives all of it.
func (a *adapter) Final(ctx context.Context, height uint64) (chain.Contents, error) {
	wrap := func(err error) (chain.Contents, error) {
		return chain.Contents{}, fmt.Errorf("final block %d of %s: %w", height, chain.Bitcoin, err)
	}
	hash, by, err := a.agreed(ctx, height)
	if err != nil {
		return wrap(err)
	}
	s, err := a.sealed(ctx, by, height, hash)
	if err != nil {
		return wrap(err)
	}
	matured, err := a.matured(ctx, by, height, func() (chainhash.Hash, error) {
		hash, _, err := a.agreed(ctx, height-maturity)
		return hash, err
	})
	if err != nil {
		return wrap(err)
	}
	c := s.contents(height, matured, len(by))
	if height > 0 { // the first block is final whatever stands on it
		c.Depth = a.Confirmations
	}
	return c, nil
}

// Recent takes the block from the first node that answers. A fork between its requests
// is an error: the next call sees the new block whole.
func (a *adapter) Recent(ctx context.Context, height uint64) (chain.Contents, error) {
	beyond := false
	c, err := several.First(ctx, a.showing(), func(ctx context.Context, p *provider) (chain.Contents, error) {
		hash, ok, err := p.hashAt(ctx, height)
		if err != nil {
			return chain.Contents{}, err
		}
		if beyond = !ok; beyond {
			return chain.Contents{}, nil
		}
		only := []*provider{p}
		s, err := a.sealed(ctx, only, height, hash)
		if err != nil {
			return chain.Contents{}, err
		}
		matured, err := a.matured(ctx, only, height, func() (chainhash.Hash, error) {
			hash, ok, err := p.hashAt(ctx, height-maturity)
			if err == nil && !ok {
				err = fmt.Errorf("%s: has no block %d any more", p.name, height-maturity)
			}
			return hash, err
		})
		if err != nil {
			return chain.Contents{}, err
		}
		return s.contents(height, matured, 1), nil
	})
	if err == nil && beyond {
		err = chain.ErrNotYet
	}
	if err != nil {
		return chain.Contents{}, fmt.Errorf("block %d of %s: %w", height, chain.Bitcoin, err)
	}
	return c, nil
}

// agreed is the final hash at a height, with the nodes that have it.
func (a *adapter) agreed(ctx context.Context, height uint64) (chainhash.Hash, []*provider, error) {
	return several.Agreed(ctx, a.providers, a.Agree, func(ctx context.Context, p *provider) (several.Sighting[chainhash.Hash], error) {
		return a.sight(ctx, p, height)
	})
}

// sight asks a node for its newest block first and then for the one at a height, so that
// a block which it calls final was so when it was given.
func (a *adapter) sight(ctx context.Context, p *provider, height uint64) (several.Sighting[chainhash.Hash], error) {
	var none several.Sighting[chainhash.Hash]
	latest, err := p.height(ctx)
	if err != nil || height > a.below(latest) {
		return none, err
	}
	hash, ok, err := p.hashAt(ctx, height)
	if err == nil && !ok {
		err = fmt.Errorf("%s: calls block %d its newest and does not have block %d", p.name, latest, height)
	}
	if err != nil {
		return none, err
	}
	return several.Sighting[chainhash.Hash]{Final: true, Hash: hash}, nil
}

// sealed is the block with a hash at a height, from the first of some nodes that gives
// it whole.
func (a *adapter) sealed(ctx context.Context, of []*provider, height uint64, hash chainhash.Hash) (*sealed, error) {
	s, known := a.blocks.Find(hash)
	if !known {
		var err error
		s, err = several.First(ctx, of, func(ctx context.Context, p *provider) (*sealed, error) {
			var raw rawHex
			if err := p.call(ctx, ask(&raw, "getblock", hash.String(), 0)); err != nil {
				return nil, err
			}
			s, err := seal(p.params, raw, hash)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			return s, nil
		})
		if err != nil {
			return nil, err
		}
		a.blocks.Keep(s.hash, s, blocksKept)
	}
	if s.told && s.height != height && (height >= uint64(a.params.BIP0034Height) || a.Network == chain.Local) {
		return nil, fmt.Errorf("block %s says that it is block %d, and was given for %d", hash, s.height, height)
	}
	return s, nil
}

// contents are all that moved in a block, with the coins that mature in it.
//
// Nobody pays a fee here: what a transaction costs is what its outputs lack to its
// inputs, and no account is charged for it.
func (s *sealed) contents(height uint64, matured []chain.Transfer, providers int) chain.Contents {
	return chain.Contents{
		Block: s.block(height), Transfers: slices.Concat(s.movements, matured),
		Weighed: true, Providers: providers, Verified: verified,
	}
}

// maturity is how far back the coins were made that a block lets the next one spend. The
// coins of a miner are not his while a fork of less than a hundred blocks can take them
// away for good, so what a coinbase pays is reported in the block with which it can be
// spent, and not in the one that holds it.
const maturity = 99

// matured is what the coinbase of the block paid whose hash is found by hash.
func (a *adapter) matured(ctx context.Context, of []*provider, height uint64, hash func() (chainhash.Hash, error)) ([]chain.Transfer, error) {
	if height <= maturity {
		return nil, nil // the first block's coins can never be spent
	}
	h, err := hash()
	if err != nil {
		return nil, fmt.Errorf("coins of block %d: %w", height-maturity, err)
	}
	if reward, ok := a.rewards.Find(h); ok {
		return reward, nil
	}
	s, known := a.blocks.Find(h)
	if !known {
		s, err = several.First(ctx, of, func(ctx context.Context, p *provider) (*sealed, error) {
			var raw rawHex
			if err := p.call(ctx, ask(&raw, "getblock", h.String(), 0)); err != nil {
				return nil, err
			}
			return seal(p.params, raw, h)
		})
		if err != nil {
			return nil, fmt.Errorf("coins of block %d: %w", height-maturity, err)
		}
	}
	a.rewards.Keep(h, s.reward, rewardsKept)
	return s.reward, nil
}
