package evm

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/several"
)

var _ chain.Caller = (*adapter)(nil)

// Call asks every provider in its own latest block, named by its hash, so that the
// block that is told is the one that was asked in.
func (a *adapter) Call(ctx context.Context, to chain.Address, data []byte) ([]chain.Called, error) {
	contract, err := evmtx.Bytes(to)
	if err != nil {
		return nil, fmt.Errorf("contract %s on %s: %w", to, a.Name, err)
	}
	said := several.Ask(ctx, a.providers, a.Agree, func(ctx context.Context, p *provider) (chain.Called, error) {
		at, err := p.head(ctx, "latest")
		if err != nil {
			return chain.Called{}, err
		}
		var out hexutil.Bytes
		err = p.call(ctx, &out, "eth_call", call{To: contract, Data: data}, inBlock{common.HexToHash(at.Hash), true})
		return chain.Called{At: at, Data: out}, err
	})
	var all []chain.Called
	var errs []error
	for _, s := range said {
		if s.Err != nil {
			errs = append(errs, s.Err)
			continue
		}
		all = append(all, s.Value)
	}
	if len(all) < a.Agree {
		return nil, fmt.Errorf("contract %s on %s: %w", to, a.Name, errors.Join(errs...))
	}
	return all, nil
}
