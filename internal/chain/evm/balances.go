package evm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/holiman/uint256"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/several"
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

	Gas    hexutil.Uint64 `json:"gas,omitempty"`
	FeeCap *hexutil.Big   `json:"maxFeePerGas,omitempty"`
	TipCap *hexutil.Big   `json:"maxPriorityFeePerGas,omitempty"`
}

// balanceOfSelector begins every call of balanceOf(address).
var balanceOfSelector = []byte{0x70, 0xa0, 0x82, 0x31}

func balanceOf(contract, holder common.Address) call {
	return call{To: contract, Data: append(append([]byte(nil), balanceOfSelector...), common.BytesToHash(holder[:]).Bytes()...)}
}

// ranWords are how nodes say that they ran a call and the contract ended it, in
// small letters. What they say of themselves (pruned, busy, timed out) is not here.
var ranWords = []string{
	"revert", "invalid opcode", "bad instruction", "out of gas", "outofgas", "invalid jump", "bad jump",
	"stack underflow", "stack limit", "write protection", "return data out of bounds", "evm error", "vm execution error",
}

// ran tells whether an error is the contract's and not the node's.
func ran(err error) bool {
	var said rpc.Error
	if !errors.As(err, &said) {
		return false
	}
	text := strings.ToLower(said.Error())
	return said.ErrorCode() == codeVM || slices.ContainsFunc(ranWords, func(w string) bool { return strings.Contains(text, w) })
}

// goneWords are how nodes say that they no longer have the state of a block.
var goneWords = []string{
	"missing trie node", "historical state", "state not available", "state is not available", "state unavailable", "state is pruned",
	"state at block", "pruned", "distance to target block exceeds", "archive",
}

// gone tells whether an error means that a provider does not keep the state any more.
func gone(err error) bool {
	var said rpc.Error
	if !errors.As(err, &said) {
		return false
	}
	text := strings.ToLower(said.Error())
	return slices.ContainsFunc(goneWords, func(w string) bool { return strings.Contains(text, w) })
}

// Balances asks one provider after the other until as many as have to agree on a
// final block give the same balances. They check what traces and events say, so one
// provider's word for both would let it make up a deposit.
func (a *adapter) Balances(ctx context.Context, at chain.Block, of []chain.Holding) ([]money.Amount, error) {
	if len(of) == 0 {
		return nil, nil
	}
	where := inBlock{common.HexToHash(at.Hash), true}
	amounts, err := several.Balances(ctx, a.withArchives(), a.Agree, of, func(ctx context.Context, p *provider) ([]money.Amount, error) {
		amounts, err := p.balances(ctx, where, of)
		if gone(err) {
			err = fmt.Errorf("%w: %w", chain.ErrStateGone, err)
		}
		return amounts, err
	})
	if err != nil {
		return nil, fmt.Errorf("balances in block %d of %s: %w", at.Height, a.Name, err)
	}
	return amounts, nil
}

// balances are all that were asked for. Error: *chain.SilentError when the provider
// answered, and contracts gave no balance.
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
	if err := p.batchEach(ctx, elems); err != nil {
		return nil, err
	}
	amounts := make([]money.Amount, len(of))
	var silent chain.SilentError
	for i, h := range of {
		var err error
		switch {
		case h.Contract != "" && ran(elems[i].Error):
			silent.Of, silent.Reason = append(silent.Of, h), several.Short(elems[i].Error.Error())
		case elems[i].Error != nil:
			return nil, p.Said(elems[i].Method, elems[i].Error)
		case h.Contract != "" && len(words[i]) != common.HashLength:
			silent.Of, silent.Reason = append(silent.Of, h), fmt.Sprintf("answer of %d bytes is not a balance", len(words[i]))
		case h.Contract != "":
			amounts[i] = money.FromUint256(new(uint256.Int).SetBytes(words[i]))
		case coins[i] != nil:
			amounts[i], err = money.FromBig(coins[i].ToInt())
		default:
			err = errors.New("no answer")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: balance of %s in %q: %w", p.name, h.Address, h.Contract, err)
		}
	}
	if len(silent.Of) > 0 {
		return nil, fmt.Errorf("%s: %w", p.name, &silent)
	}
	return amounts, nil
}
