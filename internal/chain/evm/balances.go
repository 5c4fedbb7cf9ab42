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
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/money"
)

// blockByHash names a block by its hash (EIP-1898), so that a fork cannot answer for another one. A
// block that is no longer on the chain is refused.
type blockByHash struct {
	Hash      common.Hash `json:"blockHash"`
	Canonical bool        `json:"requireCanonical"`
}

// callArgs is a transaction to simulate.
type callArgs struct {
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

func balanceOfCall(contract, holder common.Address) callArgs {
	return callArgs{To: contract, Data: append(append([]byte(nil), balanceOfSelector...),
		common.BytesToHash(holder[:]).Bytes()...)}
}

// revertPhrases are the texts, in small letters, of nodes that ran a call which the contract ended.
// Texts about the node itself (pruned, busy, timed out) are not among them.
var revertPhrases = []string{
	"revert", "invalid opcode", "bad instruction", "out of gas", "outofgas", "invalid jump", "bad jump",
	"stack underflow", "stack limit", "write protection", "return data out of bounds", "evm error",
	"vm execution error",
}

// isExecutionError reports whether an error is the contract's and not the node's.
func isExecutionError(err error) bool {
	var rpcErr rpc.Error
	if !errors.As(err, &rpcErr) {
		return false
	}
	text := strings.ToLower(rpcErr.Error())
	return rpcErr.ErrorCode() == codeReverted || slices.ContainsFunc(revertPhrases, func(w string) bool {
		return strings.Contains(text, w)
	})
}

// prunedPhrases are the texts of nodes that no longer have the state of a block.
var prunedPhrases = []string{
	"missing trie node", "historical state", "state not available", "state is not available", "state unavailable",
	"state is pruned",
	"state at block", "pruned", "distance to target block exceeds", "archive",
}

// isStateGone reports whether an error means that a provider no longer keeps the state.
func isStateGone(err error) bool {
	var rpcErr rpc.Error
	if !errors.As(err, &rpcErr) {
		return false
	}
	text := strings.ToLower(rpcErr.Error())
	return slices.ContainsFunc(prunedPhrases, func(w string) bool { return strings.Contains(text, w) })
}

// Balances asks one provider after the other until a quorum gives the same balances. Balances
// verify traces and events, so one provider's word for both would let it invent a deposit.
func (a *adapter) Balances(ctx context.Context, block chain.Block, holdings []chain.Holding) ([]money.Amount, error) {
	if len(holdings) == 0 {
		return nil, nil
	}
	blockRef := blockByHash{common.HexToHash(block.Hash), true}
	amounts, err := quorum.AgreeOnBalances(ctx, a.withArchives(), a.Quorum, holdings,
		func(ctx context.Context, p *provider) ([]money.Amount, error) {
			amounts, err := p.readBalances(ctx, blockRef, holdings)
			if isStateGone(err) {
				err = fmt.Errorf("%w: %w", chain.ErrStateGone, err)
			}
			return amounts, err
		})
	if err != nil {
		return nil, fmt.Errorf("balances in block %d of %s: %w", block.Height, a.Name, err)
	}
	return amounts, nil
}

// readBalances returns all requested balances. Error: *chain.NoBalanceError if the provider
// answered and contracts gave no balance.
func (p *provider) readBalances(ctx context.Context, blockRef any, holdings []chain.Holding) ([]money.Amount, error) {
	elems := make([]rpc.BatchElem, len(holdings))
	natives := make([]*hexutil.Big, len(holdings))
	words := make([]hexutil.Bytes, len(holdings))
	for i, h := range holdings {
		holder, err := evmtx.Bytes(h.Address)
		if err != nil {
			return nil, err
		}
		if h.Contract == "" {
			elems[i] = rpc.BatchElem{Method: "eth_getBalance", Args: []any{holder, blockRef}, Result: &natives[i]}
			continue
		}
		contract, err := evmtx.Bytes(h.Contract)
		if err != nil {
			return nil, err
		}
		elems[i] = rpc.BatchElem{
			Method: "eth_call", Args: []any{balanceOfCall(contract, holder), blockRef},
			Result: &words[i],
		}
	}
	if err := p.callBatchEach(ctx, elems); err != nil {
		return nil, err
	}
	amounts := make([]money.Amount, len(holdings))
	var silent chain.NoBalanceError
	for i, h := range holdings {
		var err error
		switch {
		case h.Contract != "" && isExecutionError(elems[i].Error):
			silent.Holdings, silent.Reason = append(silent.Holdings, h), quorum.TruncateAnswer(elems[i].Error.Error())
		case elems[i].Error != nil:
			return nil, p.WrapError(elems[i].Method, elems[i].Error)
		case h.Contract != "" && len(words[i]) != common.HashLength:
			silent.Holdings, silent.Reason =
				append(silent.Holdings, h), fmt.Sprintf("answer of %d bytes is not a balance", len(words[i]))
		case h.Contract != "":
			amounts[i] = money.FromUint256(new(uint256.Int).SetBytes(words[i]))
		case natives[i] != nil:
			amounts[i], err = money.FromBig(natives[i].ToInt())
		default:
			err = errors.New("no answer")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: balance of %s in %q: %w", p.name, h.Address, h.Contract, err)
		}
	}
	if len(silent.Holdings) > 0 {
		return nil, fmt.Errorf("%s: %w", p.name, &silent)
	}
	return amounts, nil
}
