package evm

import (
	"context"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/several"
)

// Final finds the hash that enough providers call final, and then takes the
// block from whichever of them gives all of it.
func (a *adapter) Final(ctx context.Context, height uint64) (chain.Contents, error) {
	hash, by, err := a.agreed(ctx, height)
	if err != nil {
		return chain.Contents{}, fmt.Errorf("final block %d of %s: %w", height, a.Name, err)
	}
	s, err := several.First(ctx, by, func(ctx context.Context, p *provider) (*sealed, error) { return a.sealed(ctx, p, hash) })
	if err != nil {
		return chain.Contents{}, fmt.Errorf("final block %d of %s: %w", height, a.Name, err)
	}
	return s.contents(len(a.offering()) > 0, len(by))
}

type headline struct {
	Number *hexutil.Uint64 `json:"number"`
	Hash   common.Hash     `json:"hash"`
}

// sight asks a provider for its finality first and then for the block, so that
// a block which it calls final was so when it was given.
func (a *adapter) sight(ctx context.Context, p *provider, height uint64) (several.Sighting[common.Hash], error) {
	var head, at, latest *headline
	questions := []rpc.BatchElem{
		{Method: "eth_getBlockByNumber", Args: []any{a.Finality.tag(), false}, Result: &head},
		{Method: "eth_getBlockByNumber", Args: []any{hexutil.Uint64(height), false}, Result: &at},
	}
	if a.Finality.Depth == 0 {
		questions = append(questions, rpc.BatchElem{Method: "eth_getBlockByNumber", Args: []any{"latest", false}, Result: &latest})
	}
	err := p.batch(ctx, questions)
	if err != nil {
		return several.Sighting[common.Hash]{}, err
	}
	if head == nil || head.Number == nil {
		return several.Sighting[common.Hash]{}, fmt.Errorf("%s: has no %s block", p.name, a.Finality.tag())
	}
	final := uint64(*head.Number)
	switch {
	case a.Finality.Depth > 0:
		final = a.Finality.below(final)
	case latest == nil || latest.Number == nil:
		return several.Sighting[common.Hash]{}, fmt.Errorf("%s: has no latest block", p.name)
	case final > uint64(*latest.Number):
		return several.Sighting[common.Hash]{}, p.beyond(final, uint64(*latest.Number))
	}
	if height > final {
		return several.Sighting[common.Hash]{}, nil
	}
	if at == nil || at.Number == nil || uint64(*at.Number) != height {
		return several.Sighting[common.Hash]{}, fmt.Errorf("%s: calls block %d final and does not have block %d", p.name, final, height)
	}
	return several.Sighting[common.Hash]{Final: true, Hash: at.Hash}, nil
}

// agreed is the final hash at a height, with the providers that have it.
func (a *adapter) agreed(ctx context.Context, height uint64) (common.Hash, []*provider, error) {
	return several.Agreed(ctx, a.providers, a.Agree, func(ctx context.Context, p *provider) (several.Sighting[common.Hash], error) {
		return a.sight(ctx, p, height)
	})
}
