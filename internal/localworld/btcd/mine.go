package btcd

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sync"
	"time"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"
)

// MineBlocks makes blocks. The first contains the waiting transactions, in the order of their fee
// rates.
func (n *Node) MineBlocks(ctx context.Context, blocks int) ([]chainhash.Hash, error) {
	var texts []string
	if err := n.CallRPC(ctx, &texts, "generate", blocks); err != nil {
		return nil, err
	}
	hashes := make([]chainhash.Hash, len(texts))
	for i, text := range texts {
		h, err := chainhash.NewHashFromStr(text)
		if err != nil {
			return nil, fmt.Errorf("generate: %w", err)
		}
		hashes[i] = *h
	}
	return hashes, nil
}

// emptyBlocksAfter is how many blocks without transactions the clock makes after one that has some,
// so that it gets enough confirmations.
const emptyBlocksAfter = 8

// runClock makes blocks as Config.BlockTime says, until ctx ends.
func (n *Node) runClock(ctx context.Context, interval time.Duration) {
	clock := time.NewTicker(interval)
	defer clock.Stop()
	for owed := emptyBlocksAfter; ; {
		select {
		case <-ctx.Done():
			return
		case <-clock.C:
		}
		// A node that does not answer now is asked again at the next tick, or its own end reports
		// the reason.
		waiting, err := n.mempoolTxs(ctx)
		if err != nil {
			continue
		}
		if len(waiting) > 0 {
			owed = emptyBlocksAfter + 1
		}
		if owed == 0 {
			continue
		}
		n.ticking.Lock()
		_, err = n.MineBlocks(ctx, 1)
		n.ticking.Unlock()
		if err == nil {
			owed--
		}
	}
}

// HoldClock keeps the clock from making blocks until release is called: a block of it would contain what a fork has
// just taken out of one.
func (n *Node) HoldClock() (release func()) {
	n.ticking.Lock()
	return sync.OnceFunc(n.ticking.Unlock)
}

// mempoolTxs returns the transactions that wait for a block.
func (n *Node) mempoolTxs(ctx context.Context) (ids []string, err error) {
	return ids, n.CallRPC(ctx, &ids, "getrawmempool")
}

// MineOnly makes one block with these transactions, in this order, and no others.
func (n *Node) MineOnly(ctx context.Context, txs ...*wire.MsgTx) (chainhash.Hash, error) {
	height, err := n.TipHeight(ctx)
	if err != nil {
		return chainhash.Hash{}, err
	}
	parent, err := n.BlockHash(ctx, height)
	if err != nil {
		return chainhash.Hash{}, err
	}
	parentBlock, err := n.ReadBlock(ctx, parent)
	if err != nil {
		return chainhash.Hash{}, err
	}
	b, err := n.assembleBlock(&parentBlock.Header, height+1, txs)
	if err != nil {
		return chainhash.Hash{}, err
	}
	var raw bytes.Buffer
	if err := b.Serialize(&raw); err != nil {
		return chainhash.Hash{}, fmt.Errorf("encode a block: %w", err)
	}
	var refused *string
	if err := n.CallRPC(ctx, &refused, "submitblock", hex.EncodeToString(raw.Bytes())); err != nil {
		return chainhash.Hash{}, err
	}
	if refused != nil {
		return chainhash.Hash{}, fmt.Errorf("submitblock: %s", *refused)
	}
	return b.BlockHash(), nil
}

// ForkChain replaces the last depth blocks by as many others. Of the transactions in the replaced
// blocks, those in keep are in the last of the new blocks. The faucet double-spends the inputs of
// each other one, so that it can never return. That works only for transactions of the faucet:
// other transactions wait for a block again.
func (n *Node) ForkChain(ctx context.Context, depth int, keep ...chainhash.Hash) error {
	if depth < 1 {
		return fmt.Errorf("fork of %d blocks: at least one has to go", depth)
	}
	height, err := n.TipHeight(ctx)
	if err != nil {
		return err
	}
	var keptTxs, takeBackTxs []*wire.MsgTx
	first := chainhash.Hash{}
	for h := height - depth + 1; h <= height; h++ {
		hash, err := n.BlockHash(ctx, h)
		if err != nil {
			return err
		}
		if first == (chainhash.Hash{}) {
			first = hash
		}
		b, err := n.ReadBlock(ctx, hash)
		if err != nil {
			return err
		}
		for _, tx := range b.Transactions[1:] {
			if slices.Contains(keep, tx.TxHash()) {
				keptTxs = append(keptTxs, tx)
				continue
			}
			takeBackTx, err := n.takeBack(ctx, tx)
			if errors.Is(err, errNotFaucets) {
				continue
			}
			if err != nil {
				return err
			}
			takeBackTxs = append(takeBackTxs, takeBackTx)
		}
	}
	if err := n.InvalidateBlock(ctx, first); err != nil {
		return err
	}
	for i := range depth {
		var txs []*wire.MsgTx
		if i == 0 {
			txs = append(txs, takeBackTxs...)
		}
		if i == depth-1 {
			txs = append(txs, keptTxs...)
		}
		if _, err := n.MineOnly(ctx, txs...); err != nil {
			return err
		}
	}
	return nil
}

// InvalidateBlock makes the node treat a block and all that follow it as invalid. Their
// transactions wait for a block again.
func (n *Node) InvalidateBlock(ctx context.Context, block chainhash.Hash) error {
	n.faucet.resetScan()
	return n.CallRPC(ctx, nil, "invalidateblock", block.String())
}

// ReconsiderBlock undoes InvalidateBlock. The branch with more work is then the chain.
func (n *Node) ReconsiderBlock(ctx context.Context, block chainhash.Hash) error {
	n.faucet.resetScan()
	return n.CallRPC(ctx, nil, "reconsiderblock", block.String())
}

// commitmentMagic begins the output that commits to the witnesses of a block (BIP-141).
var commitmentMagic = []byte{txscript.OP_RETURN, txscript.OP_DATA_36, 0xaa, 0x21, 0xa9, 0xed}

// assembleBlock makes a block with its proof of work, which takes two tries on this network.
func (n *Node) assembleBlock(parent *wire.BlockHeader, height int, txs []*wire.MsgTx) (*wire.MsgBlock, error) {
	script, err := txscript.NewScriptBuilder().AddInt64(int64(height)).AddInt64(n.faucet.nextNumber()).Script()
	if err != nil {
		return nil, fmt.Errorf("script of a coinbase: %w", err)
	}
	coinbase := wire.NewMsgTx(2)
	input := wire.NewTxIn(wire.NewOutPoint(&chainhash.Hash{}, wire.MaxPrevOutIndex), script, [][]byte{make(
		[]byte, chainhash.HashSize,
	)})
	coinbase.AddTxIn(input)
	reward := int64(50_0000_0000) >> (uint(height) / uint(chaincfg.RegressionNetParams.SubsidyReductionInterval))
	coinbase.AddTxOut(wire.NewTxOut(reward, faucetScript()))
	witnesses := []chainhash.Hash{{}}
	for _, tx := range txs {
		witnesses = append(witnesses, tx.WitnessHash())
	}
	root := merkleRoot(witnesses)
	commitment := chainhash.DoubleHashB(append(root[:], input.Witness[0]...))
	coinbase.AddTxOut(wire.NewTxOut(0, append(bytes.Clone(commitmentMagic), commitment...)))

	hash := parent.BlockHash()
	b := wire.NewMsgBlock(&wire.BlockHeader{
		Version: parent.Version, PrevBlock: hash, Bits: chaincfg.RegressionNetParams.PowLimitBits,
	})
	// The time is later than the median of the blocks before, whatever the clock says.
	b.Header.Timestamp = time.Unix(max(time.Now().Unix(), parent.Timestamp.Unix()+1), 0)
	var ids []chainhash.Hash
	for _, tx := range append([]*wire.MsgTx{coinbase}, txs...) {
		if err := b.AddTransaction(tx); err != nil {
			return nil, fmt.Errorf("put a transaction into a block: %w", err)
		}
		ids = append(ids, tx.TxHash())
	}
	b.Header.MerkleRoot = merkleRoot(ids)
	for {
		sum := b.BlockHash()
		slices.Reverse(sum[:])
		if new(big.Int).SetBytes(sum[:]).Cmp(chaincfg.RegressionNetParams.PowLimit) <= 0 {
			return b, nil
		}
		if b.Header.Nonce++; b.Header.Nonce == 0 {
			return nil, errors.New("no nonce gives a block")
		}
	}
}

func merkleRoot(level []chainhash.Hash) chainhash.Hash {
	for len(level) > 1 {
		if len(level)%2 == 1 {
			level = append(level, level[len(level)-1])
		}
		var parents []chainhash.Hash
		for i := 0; i < len(level); i += 2 {
			parents = append(parents, chainhash.DoubleHashH(append(level[i][:], level[i+1][:]...)))
		}
		level = parents
	}
	return level[0]
}
