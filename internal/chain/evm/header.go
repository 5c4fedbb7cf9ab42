package evm

import (
	"encoding/json"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/cofferpay/coffer/internal/chain"
)

// readHeader reads a block's header and recomputes its hash. A header that does not give its
// claimed hash was altered, or has fields that this code does not know yet: in both cases the block
// cannot be decoded.
func (st stack) readHeader(raw json.RawMessage) (*types.Header, common.Hash, error) {
	var h types.Header
	if err := json.Unmarshal(raw, &h); err != nil {
		return nil, common.Hash{}, fmt.Errorf("%w: header: %w", chain.ErrUndecodable, err)
	}
	var claim struct {
		Hash common.Hash `json:"hash"`
	}
	if err := json.Unmarshal(raw, &claim); err != nil {
		return nil, common.Hash{}, fmt.Errorf("%w: hash of the header: %w", chain.ErrUndecodable, err)
	}
	if !h.Number.IsUint64() {
		return nil, common.Hash{}, fmt.Errorf("%w: block number %v", chain.ErrUndecodable, h.Number)
	}
	got := h.Hash()
	if st == avalanche {
		f, err := readAvalanche(raw)
		if err == nil {
			got, err = f.computeHash(&h)
		}
		if err != nil {
			return nil, common.Hash{}, err
		}
	}
	if got != claim.Hash {
		return nil, common.Hash{}, fmt.Errorf("%w: header of block %d gives the hash %s, not %s", chain.ErrUndecodable,
			h.Number, got, claim.Hash)
	}
	return &h, claim.Hash, nil
}

// isNull reports whether a provider answered with null.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
