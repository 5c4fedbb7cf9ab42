package anvil

import (
	"context"
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
)

func (n *Node) callRPC(ctx context.Context, result any, method string, args ...any) error {
	if err := n.RPC.CallContext(ctx, result, method, args...); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// MineBlocks makes blocks at once; the first contains the waiting transactions.
func (n *Node) MineBlocks(ctx context.Context, blocks int) error {
	return n.callRPC(ctx, nil, "anvil_mine", hexutil.Uint64(blocks))
}

// PendingCount returns how many transactions wait for a block that can contain them.
func (n *Node) PendingCount(ctx context.Context) (int, error) {
	var pool struct{ Pending hexutil.Uint }
	return int(pool.Pending), n.callRPC(ctx, &pool, "txpool_status")
}

// ReorgTx is a signed and encoded transaction of the new branch of a reorganization. Offset is the
// number of its block in the branch, from zero.
type ReorgTx struct {
	Raw    []byte
	Offset int
}

// ReplaceBlocks replaces the last depth blocks by as many others, which contain txs and nothing
// else. Transactions of the replaced blocks do not return to the pool.
func (n *Node) ReplaceBlocks(ctx context.Context, depth int, txs ...ReorgTx) error {
	pairs := make([][2]any, 0, len(txs))
	for _, tx := range txs {
		pairs = append(pairs, [2]any{hexutil.Bytes(tx.Raw), tx.Offset})
	}
	return n.callRPC(ctx, nil, "anvil_reorg", depth, pairs)
}

// SetAutomine switches to a block for each transaction, or to blocks of MineBlocks alone.
func (n *Node) SetAutomine(ctx context.Context, enabled bool) error {
	return n.callRPC(ctx, nil, "evm_setAutomine", enabled)
}

// SetIntervalMining makes blocks on a clock of whole seconds. Zero stops it.
func (n *Node) SetIntervalMining(ctx context.Context, interval time.Duration) error {
	return n.callRPC(ctx, nil, "evm_setIntervalMining", int64(interval/time.Second))
}

// IntervalMining returns the interval of the clock that makes blocks, in whole seconds and at least
// one.
func (n *Node) IntervalMining(ctx context.Context) (time.Duration, error) {
	var seconds *int64
	if err := n.callRPC(ctx, &seconds, "anvil_getIntervalMining"); err != nil {
		return 0, err
	}
	if seconds == nil {
		return time.Second, nil
	}
	return time.Duration(max(*seconds, 1)) * time.Second, nil
}

// SetBalance sets the balance of an account in wei, without a transaction.
func (n *Node) SetBalance(ctx context.Context, account common.Address, wei *big.Int) error {
	return n.callRPC(ctx, nil, "anvil_setBalance", account, (*hexutil.Big)(wei))
}

// SetCode sets the code at an address, without a transaction.
func (n *Node) SetCode(ctx context.Context, account common.Address, code []byte) error {
	return n.callRPC(ctx, nil, "anvil_setCode", account, hexutil.Bytes(code))
}

// SetNextBlockBaseFee sets the base fee of the next block, in wei per gas.
func (n *Node) SetNextBlockBaseFee(ctx context.Context, wei *big.Int) error {
	return n.callRPC(ctx, nil, "anvil_setNextBlockBaseFeePerGas", (*hexutil.Big)(wei))
}

// DropTransaction removes a waiting transaction from the pool.
func (n *Node) DropTransaction(ctx context.Context, hash common.Hash) error {
	var dropped *common.Hash
	if err := n.callRPC(ctx, &dropped, "anvil_dropTransaction", hash); err != nil {
		return err
	}
	if dropped == nil {
		return fmt.Errorf("drop transaction %v: it does not wait in the pool", hash)
	}
	return nil
}

// Snapshot identifies a state of the chain to which it can return once.
type Snapshot string

// TakeSnapshot saves the state of the chain.
func (n *Node) TakeSnapshot(ctx context.Context) (Snapshot, error) {
	var id Snapshot
	return id, n.callRPC(ctx, &id, "evm_snapshot")
}

// RevertTo returns to a snapshot, which cannot be used again.
func (n *Node) RevertTo(ctx context.Context, snapshot Snapshot) error {
	var ok bool
	if err := n.callRPC(ctx, &ok, "evm_revert", snapshot); err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("evm_revert: there is no snapshot %s", snapshot)
	}
	return nil
}

// RawTransaction returns the signed, encoded form of a transaction that the chain knows, as
// ReplaceBlocks takes it.
func (n *Node) RawTransaction(ctx context.Context, hash common.Hash) ([]byte, error) {
	tx, _, err := n.Eth.TransactionByHash(ctx, hash)
	if err != nil {
		return nil, fmt.Errorf("read transaction %v: %w", hash, err)
	}
	return tx.MarshalBinary()
}

// HeaderAt returns the header of a block: rpc.LatestBlockNumber, rpc.SafeBlockNumber,
// rpc.FinalizedBlockNumber or a number.
func (n *Node) HeaderAt(ctx context.Context, number int64) (*types.Header, error) {
	return n.Eth.HeaderByNumber(ctx, big.NewInt(number))
}
