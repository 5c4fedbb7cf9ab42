package evm

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

var _ chain.ContractCaller = (*adapter)(nil)

// Call asks every provider in its own latest block, named by its hash, so that the reported block
// is the one of the answer.
func (a *adapter) Call(ctx context.Context, to chain.Address, data []byte) ([]chain.CallResult, error) {
	contract, err := evmtx.Bytes(to)
	if err != nil {
		return nil, fmt.Errorf("contract %s on %s: %w", to, a.Name, err)
	}
	answers := quorum.AskAll(ctx, a.providers, a.Quorum,
		func(ctx context.Context, p *provider) (chain.CallResult, error) {
			head, err := p.readHead(ctx, "latest")
			if err != nil {
				return chain.CallResult{}, err
			}
			var out hexutil.Bytes
			err = p.callMethod(ctx, &out, "eth_call", callArgs{To: contract, Data: data},
				blockByHash{common.HexToHash(head.Hash), true})
			return chain.CallResult{At: head, Data: out}, err
		})
	results, err := collectQuorum(answers, a.Quorum)
	if err != nil {
		return nil, fmt.Errorf("contract %s on %s: %w", to, a.Name, err)
	}
	return results, nil
}

// collectQuorum returns the values of those providers that answered. Error: fewer than a quorum did.
func collectQuorum[T any](answers []quorum.Answer[*provider, T], quorumSize int) (values []T, err error) {
	var errs []error
	for _, s := range answers {
		if s.Err != nil {
			errs = append(errs, s.Err)
			continue
		}
		values = append(values, s.Value)
	}
	if len(values) < quorumSize {
		return nil, errors.Join(errs...)
	}
	return values, nil
}
