package evm

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/cofferpay/coffer/internal/chain"
)

// Recent takes the block from the first provider. A fork between its requests
// is an error: the next call sees the new block whole.
func (a *adapter) Recent(ctx context.Context, height uint64) (chain.Contents, error) {
	p := a.providers[0]
	var raw json.RawMessage
	if err := p.call(ctx, &raw, "eth_getBlockByNumber", hexutil.Uint64(height), true); err != nil {
		return chain.Contents{}, fmt.Errorf("block %d of %s: %w", height, a.Name, err)
	}
	if absent(raw) {
		return chain.Contents{}, fmt.Errorf("block %d of %s: %w", height, a.Name, chain.ErrNotYet)
	}
	s, err := a.seal(ctx, p, raw, common.Hash{})
	if err != nil {
		return chain.Contents{}, fmt.Errorf("block %d of %s: %w", height, a.Name, err)
	}
	if got := s.block().Height; got != height {
		return chain.Contents{}, fmt.Errorf("block %d of %s: %s gave block %d", height, a.Name, p.name, got)
	}
	return a.open(ctx, s, 1)
}
