package evm

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

// Demote makes another provider the first one from now on.
func (a *adapter) Demote() { a.firstProvider.Add(1) }

// providersByTrust returns the providers in the order in which they are asked about what is not
// final.
func (a *adapter) providersByTrust() []*provider {
	return quorum.Rotate(a.providers, a.firstProvider.Load())
}

// Recent takes the block from the first provider that answers. A reorg between its requests is an
// error: the next call reads the new block as a whole.
func (a *adapter) Recent(ctx context.Context, height uint64) (chain.Contents, error) {
	s, err := quorum.FirstAnswer(ctx, a.providersByTrust(),
		func(ctx context.Context, p *provider) (*verifiedBlock, error) {
			return a.blockAtHeight(ctx, p, height)
		})
	if err == nil && s == nil {
		err = chain.ErrNotYet
	}
	if err != nil {
		return chain.Contents{}, fmt.Errorf("block %d of %s: %w", height, a.Name, err)
	}
	return s.chainContents(len(a.tracingProviders()) > 0, 1)
}

// blockAtHeight returns the block of a provider at a height; nil beyond its head.
func (a *adapter) blockAtHeight(ctx context.Context, p *provider, height uint64) (*verifiedBlock, error) {
	s, err := a.fetchBlock(ctx, p, "eth_getBlockByNumber", hexutil.Uint64(height), common.Hash{})
	if errors.Is(err, errAbsent) {
		return nil, nil
	}
	if err == nil && s.header.Number.Uint64() != height {
		return nil, fmt.Errorf("%s: gave block %d for %d", p.name, s.header.Number, height)
	}
	return s, err
}
