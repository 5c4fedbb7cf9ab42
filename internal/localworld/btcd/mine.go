package btcd

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"
)

// Mine makes blocks, with the transactions that wait in the first: those first that
// pay more for their size.
func (n *Node) Mine(ctx context.Context, blocks int) ([]chainhash.Hash, error) {
	var texts []string
	if err := n.Call(ctx, &texts, "generate", blocks); err != nil {
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

// restsAfter is how many blocks without transactions the clock makes after one that has
// some, so that it is deep.
const restsAfter = 8

// tick makes blocks as Config.BlockTime says, until ctx ends.
func (n *Node) tick(ctx context.Context, every time.Duration) {
	clock := time.NewTicker(every)
	defer clock.Stop()
	for owed := restsAfter; ; {
		select {
		case <-ctx.Done():
			return
		case <-clock.C:
		}
		// What does not answer now is asked at the next tick, or its own end tells why.
		waiting, err := n.waiting(ctx)
		if err != nil {
			continue
		}
		if len(waiting) > 0 {
			owed = restsAfter + 1
		}
		if owed == 0 {
			continue
		}
		if _, err := n.Mine(ctx, 1); err == nil {
			owed--
		}
	}
}

// waiting are the transactions that wait for a block.
func (n *Node) waiting(ctx context.Context) (ids []string, err error) {
	return ids, n.Call(ctx, &ids, "getrawmempool")
}

// MineOnly makes one block with these transactions, in this order, and no others.
func (n *Node) MineOnly(ctx context.Context, txs ...*wire.MsgTx) (chainhash.Hash, error) {
	height, err := n.Height(ctx)
	if err != nil {
		return chainhash.Hash{}, err
	}
	parent, err := n.Hash(ctx, height)
	if err != nil {
		return chainhash.Hash{}, err
	}
	before, err := n.Block(ctx, parent)
	if err != nil {
		return chainhash.Hash{}, err
	}
	b, err := n.assemble(&before.Header, height+1, txs)
	if err != nil {
		return chainhash.Hash{}, err
	}
	var raw bytes.Buffer
	if err := b.Serialize(&raw); err != nil {
		return chainhash.Hash{}, fmt.Errorf("encode a block: %w", err)
	}
	var refused *string
	if err := n.Call(ctx, &refused, "submitblock", hex.EncodeToString(raw.Bytes())); err != nil {
		return chainhash.Hash{}, err
	}
	if refused != nil {
		return chainhash.Hash{}, fmt.Errorf("submitblock: %s", *refused)
	}
	return b.BlockHash(), nil
}

// Fork takes the last depth blocks away and puts as many others in their place. Of the
// transactions that went, those in keep are in the last of the new blocks; in place of
// each other one the faucet takes its own coin back, so that it can never return. Only
// transactions of the faucet can be taken away like that: one of anybody else waits for
// a block again.
func (n *Node) Fork(ctx context.Context, depth int, keep ...chainhash.Hash) error {
	if depth < 1 {
		return fmt.Errorf("fork of %d blocks: at least one has to go", depth)
	}
	height, err := n.Height(ctx)
	if err != nil {
		return err
	}
	var kept, taken []*wire.MsgTx
	first := chainhash.Hash{}
	for h := height - depth + 1; h <= height; h++ {
		hash, err := n.Hash(ctx, h)
		if err != nil {
			return err
		}
		if first == (chainhash.Hash{}) {
			first = hash
		}
		b, err := n.Block(ctx, hash)
		if err != nil {
			return err
		}
		for _, tx := range b.Transactions[1:] {
			if slices.Contains(keep, tx.TxHash()) {
				kept = append(kept, tx)
				continue
			}
			back, err := n.takeBack(ctx, tx)
			if errors.Is(err, errNotFaucets) {
				continue
			}
			if err != nil {
				return err
			}
			taken = append(taken, back)
		}
	}
	if err := n.Invalidate(ctx, first); err != nil {
		return err
	}
	for i := range depth {
		var txs []*wire.MsgTx
		if i == 0 {
			txs = append(txs, taken...)
		}
		if i == depth-1 {
			txs = append(txs, kept...)
		}
		if _, err := n.MineOnly(ctx, txs...); err != nil {
			return err
		}
	}
	return nil
}

// Invalidate makes the node take a block, and all that follow it, for invalid. Their
// transactions wait for a block again.
func (n *Node) Invalidate(ctx context.Context, block chainhash.Hash) error {
	n.faucet.forget()
	return n.Call(ctx, nil, "invalidateblock", block.String())
}

// Reconsider undoes Invalidate. The branch with more work is the chain then.
func (n *Node) Reconsider(ctx context.Context, block chainhash.Hash) error {
	n.faucet.forget()
	return n.Call(ctx, nil, "reconsiderblock", block.String())
}

// commitmentMagic begins the output that commits to the witnesses of a block (BIP-141).
var commitmentMagic = []byte{txscript.OP_RETURN, txscript.OP_DATA_36, 0xaa, 0x21, 0xa9, 0xed}

// assemble makes a block with its proof of work, which on this network is two tries.
func (n *Node) assemble(parent *wire.BlockHeader, height int, txs []*wire.MsgTx) (*wire.MsgBlock, error) {
	script, err := txscript.NewScriptBuilder().AddInt64(int64(height)).AddInt64(n.faucet.number()).Script()
	if err != nil {
		return nil, fmt.Errorf("script of a coinbase: %w", err)
	}
	coinbase := wire.NewMsgTx(2)
	in := wire.NewTxIn(wire.NewOutPoint(&chainhash.Hash{}, wire.MaxPrevOutIndex), script, [][]byte{make([]byte, chainhash.HashSize)})
	coinbase.AddTxIn(in)
	reward := int64(50_0000_0000) >> (uint(height) / uint(chaincfg.RegressionNetParams.SubsidyReductionInterval))
	coinbase.AddTxOut(wire.NewTxOut(reward, faucetScript()))
	witnesses := []chainhash.Hash{{}}
	for _, tx := range txs {
		witnesses = append(witnesses, tx.WitnessHash())
	}
	root := merkleRoot(witnesses)
	commitment := chainhash.DoubleHashB(append(root[:], in.Witness[0]...))
	coinbase.AddTxOut(wire.NewTxOut(0, append(bytes.Clone(commitmentMagic), commitment...)))

	hash := parent.BlockHash()
	b := wire.NewMsgBlock(&wire.BlockHeader{Version: parent.Version, PrevBlock: hash, Bits: chaincfg.RegressionNetParams.PowLimitBits})
	// Later than the median of those before, whatever the clock says.
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
		var up []chainhash.Hash
		for i := 0; i < len(level); i += 2 {
			up = append(up, chainhash.DoubleHashH(append(level[i][:], level[i+1][:]...)))
		}
		level = up
	}
	return level[0]
}
