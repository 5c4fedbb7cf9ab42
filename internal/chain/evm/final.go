package evm

import (
	"context"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

// Final finds the hash that a quorum of providers calls final, and then takes the block from the
// first of them that gives all of it.
func (a *adapter) Final(ctx context.Context, height uint64) (chain.Contents, error) {
	hash, voters, err := a.agreeOnHash(ctx, height)
	if err != nil {
		return chain.Contents{}, fmt.Errorf("final block %d of %s: %w", height, a.Name, err)
	}
	s, err := quorum.FirstAnswer(ctx, voters, func(ctx context.Context, p *provider) (*verifiedBlock, error) {
		return a.loadBlock(ctx, p, hash)
	})
	if err != nil {
		return chain.Contents{}, fmt.Errorf("final block %d of %s: %w", height, a.Name, err)
	}
	return s.chainContents(len(a.tracingProviders()) > 0, len(voters))
}

type blockHead struct {
	Number *hexutil.Uint64 `json:"number"`
	Hash   common.Hash     `json:"hash"`
}

// readVote asks a provider for its final block first and then for the block at a height, so that a
// block which it calls final was final when it was given.
func (a *adapter) readVote(ctx context.Context, p *provider, height uint64) (quorum.Vote[common.Hash], error) {
	var head, block, latest *blockHead
	elems := []rpc.BatchElem{
		{Method: "eth_getBlockByNumber", Args: []any{a.Finality.blockTag(), false}, Result: &head},
		{Method: "eth_getBlockByNumber", Args: []any{hexutil.Uint64(height), false}, Result: &block},
	}
	if a.Finality.Depth == 0 {
		elems = append(elems, rpc.BatchElem{
			Method: "eth_getBlockByNumber", Args: []any{"latest", false},
			Result: &latest,
		})
	}
	err := p.callBatch(ctx, elems)
	if err != nil {
		return quorum.Vote[common.Hash]{}, err
	}
	if head == nil || head.Number == nil {
		return quorum.Vote[common.Hash]{}, fmt.Errorf("%s: has no %s block", p.name, a.Finality.blockTag())
	}
	final := uint64(*head.Number)
	switch {
	case a.Finality.Depth > 0:
		final = a.Finality.finalHeight(final)
	case latest == nil || latest.Number == nil:
		return quorum.Vote[common.Hash]{}, fmt.Errorf("%s: has no latest block", p.name)
	case final > uint64(*latest.Number):
		return quorum.Vote[common.Hash]{}, p.finalAheadError(final, uint64(*latest.Number))
	}
	if height > final {
		return quorum.Vote[common.Hash]{}, nil
	}
	if block == nil || block.Number == nil || uint64(*block.Number) != height {
		return quorum.Vote[common.Hash]{}, fmt.Errorf("%s: says that block %d is final and does not have block %d",
			p.name, final, height)
	}
	return quorum.Vote[common.Hash]{Final: true, Hash: block.Hash}, nil
}

// agreeOnHash returns the final hash at a height, with the providers that have it.
func (a *adapter) agreeOnHash(ctx context.Context, height uint64) (common.Hash, []*provider, error) {
	return quorum.AgreeOnHash(ctx, a.providers, a.Quorum,
		func(ctx context.Context, p *provider) (quorum.Vote[common.Hash], error) {
			return a.readVote(ctx, p, height)
		})
}
