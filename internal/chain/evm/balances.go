package evm

import (
	"context"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/holiman/uint256"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/money"
)

// inBlock names a block by its hash (EIP-1898), so that a fork cannot answer
// for another one. A block that is no longer part of the chain is refused.
type inBlock struct {
	Hash      common.Hash `json:"blockHash"`
	Canonical bool        `json:"requireCanonical"`
}

// call is a transaction to be tried out.
type call struct {
	From  *common.Address `json:"from,omitempty"`
	To    common.Address  `json:"to"`
	Value *hexutil.Big    `json:"value,omitempty"`
	Data  hexutil.Bytes   `json:"data,omitempty"`
}

// balanceOfSelector begins every call of balanceOf(address).
var balanceOfSelector = []byte{0x70, 0xa0, 0x82, 0x31}

func balanceOf(contract, holder common.Address) call {
	return call{To: contract, Data: append(append([]byte(nil), balanceOfSelector...), common.BytesToHash(holder[:]).Bytes()...)}
}

// Balances asks one provider for all, and the next one for all of them when it
// does not answer each.
func (a *adapter) Balances(ctx context.Context, at chain.Block, of []chain.Holding) ([]money.Amount, error) {
	if len(of) == 0 {
		return nil, nil
	}
	where := inBlock{common.HexToHash(at.Hash), true}
	amounts, err := first(ctx, a.providers, func(ctx context.Context, p *provider) ([]money.Amount, error) {
		return p.balances(ctx, where, of)
	})
	if err != nil {
		return nil, fmt.Errorf("balances in block %d of %s: %w", at.Height, a.Name, err)
	}
	return amounts, nil
}

func (p *provider) balances(ctx context.Context, where any, of []chain.Holding) ([]money.Amount, error) {
	elems := make([]rpc.BatchElem, len(of))
	coins := make([]*hexutil.Big, len(of))
	words := make([]hexutil.Bytes, len(of))
	for i, h := range of {
		holder, err := evmtx.Bytes(h.Address)
		if err != nil {
			return nil, err
		}
		if h.Contract == "" {
			elems[i] = rpc.BatchElem{Method: "eth_getBalance", Args: []any{holder, where}, Result: &coins[i]}
			continue
		}
		contract, err := evmtx.Bytes(h.Contract)
		if err != nil {
			return nil, err
		}
		elems[i] = rpc.BatchElem{Method: "eth_call", Args: []any{balanceOf(contract, holder), where}, Result: &words[i]}
	}
	if err := p.batch(ctx, elems); err != nil {
		return nil, err
	}
	amounts := make([]money.Amount, len(of))
	for i, h := range of {
		var err error
		switch {
		case h.Contract != "" && len(words[i]) == common.HashLength:
			amounts[i] = money.FromUint256(new(uint256.Int).SetBytes(words[i]))
		case h.Contract == "" && coins[i] != nil:
			amounts[i], err = money.FromBig(coins[i].ToInt())
		default:
			err = fmt.Errorf("answer of %d bytes is not a balance", len(words[i]))
		}
		if err != nil {
			return nil, fmt.Errorf("%s: balance of %s in %q: %w", p.name, h.Address, h.Contract, err)
		}
	}
	return amounts, nil
}
