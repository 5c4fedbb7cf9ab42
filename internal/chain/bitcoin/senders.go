package bitcoin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/chain/endpoint"
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

// Senders returns the addresses of all outputs that the transaction of a transfer spends. Each
// spent output is looked up in the transaction that created it, which the spent hash proves. The
// data of an input are no evidence: a person who gets a miner to include a transaction that no node
// relays can make an input look like a spend of another key. A miner's reward has no sender.
//
// One node is enough: the block is proven, and so is everything that it spends.
func (a *adapter) Senders(
	ctx context.Context, block chain.Block, transfers []chain.Transfer,
) ([][]chain.Address, error) {
	if len(transfers) == 0 {
		return nil, nil
	}
	wrap := func(err error) ([][]chain.Address, error) {
		return nil, fmt.Errorf("senders in block %d of %s: %w", block.Height, chain.Bitcoin, err)
	}
	hash, err := parseHash(block.Hash)
	if err != nil {
		return wrap(err)
	}
	s, err := a.loadBlock(ctx, a.providersByTrust(), block.Height, hash)
	if err != nil {
		return wrap(err)
	}
	var ids []chainhash.Hash
	for _, t := range transfers {
		id, err := parseHash(string(t.Tx))
		if err != nil {
			return wrap(err)
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	senders, err := quorum.FirstAnswer(ctx, a.providersByTrust(),
		func(ctx context.Context, p *provider) (map[chain.TxHash][]chain.Address, error) {
			senders, err := p.readSenders(ctx, s, ids)
			if err != nil {
				err = fmt.Errorf("%s: %w", p.name, err)
			}
			return senders, err
		})
	if err != nil {
		return wrap(err)
	}
	result := make([][]chain.Address, len(transfers))
	for i, t := range transfers {
		result[i] = slices.Clone(senders[t.Tx])
	}
	return result, nil
}

// readSenders asks a node for what transactions of a block spend.
func (p *provider) readSenders(
	ctx context.Context, s *verifiedBlock, ids []chainhash.Hash,
) (map[chain.TxHash][]chain.Address, error) {
	positions := make(map[chainhash.Hash]int, len(s.ids))
	for i, id := range s.ids {
		positions[id] = i
	}
	spends := map[chainhash.Hash][]wire.OutPoint{} // by the spending transaction
	wanted := map[chainhash.Hash][]uint32{}        // output numbers, by the transaction that created them
	var elsewhere []chainhash.Hash
	for _, id := range ids {
		i, isInBlock := positions[id]
		if !isInBlock {
			elsewhere = append(elsewhere, id)
		} else if i > 0 {
			spends[id] = s.spentOutpoints(i)
		}
	}
	// A transaction outside of the block is an older coinbase: rewards are reported when they can
	// be spent.
	err := p.fetchTxs(ctx, elsewhere, func(id chainhash.Hash, tx *wire.MsgTx) error {
		if !isCoinbaseTx(tx) {
			return fmt.Errorf("transaction %s is not in block %s", id, s.hash)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	scripts := map[wire.OutPoint][]byte{}
	read := func(id chainhash.Hash, made [][]byte) error {
		for _, n := range wanted[id] {
			if int64(n) >= int64(len(made)) {
				return fmt.Errorf("block %s spends output %d of %s, which has %d", s.hash, n, id, len(made))
			}
			scripts[wire.OutPoint{Hash: id, Index: n}] = made[n]
		}
		return nil
	}
	var missing []chainhash.Hash
	for _, id := range ids {
		for _, out := range spends[id] {
			if wanted[out.Hash] == nil {
				missing = append(missing, out.Hash)
			}
			wanted[out.Hash] = append(wanted[out.Hash], out.Index)
		}
	}
	missing = slices.DeleteFunc(missing, func(id chainhash.Hash) bool {
		i, isInBlock := positions[id]
		if isInBlock {
			err = errors.Join(err, read(id, s.outputScripts(i)))
		}
		return isInBlock
	})
	if err != nil {
		return nil, err
	}
	err = p.fetchTxs(ctx, missing, func(id chainhash.Hash, tx *wire.MsgTx) error {
		made := make([][]byte, len(tx.TxOut))
		for i, out := range tx.TxOut {
			made[i] = out.PkScript
		}
		return read(id, made)
	})
	if err != nil {
		return nil, err
	}
	byTx := map[chain.TxHash][]chain.Address{}
	for id, outs := range spends {
		var senders []chain.Address
		for _, out := range outs {
			address, ok := bitcointx.AddressOf(p.params, scripts[out])
			if !ok {
				senders = nil
				break
			}
			senders = append(senders, address)
		}
		slices.Sort(senders)
		byTx[chain.TxHash(id.String())] = slices.Compact(senders)
	}
	return byTx, nil
}

// fetchTxs fetches transactions by their hashes, as many at once as the bound on an answer allows:
// transactions may be long.
func (p *provider) fetchTxs(
	ctx context.Context, ids []chainhash.Hash, visit func(chainhash.Hash, *wire.MsgTx) error,
) error {
	for batchSize := batchItemsMax; len(ids) > 0; {
		n := min(batchSize, len(ids))
		raws := make([]rawHex, n)
		calls := make([]*rpcCall, n)
		for i, id := range ids[:n] {
			calls[i] = newCall(&raws[i], "getrawtransaction", id.String())
		}
		err := p.callBatch(ctx, calls...)
		switch {
		case errors.Is(err, endpoint.ErrTooLong) && n > 1:
			batchSize = n / 2
			continue
		case hasErrorCode(err, codeNotFound):
			return fmt.Errorf("%w: a transaction that a block spends was not found: run the node with the index of "+
				"all transactions (txindex) and without pruning",
				err)
		case err != nil:
			return err
		}
		for i, raw := range raws {
			tx, err := readTx(raw)
			if err != nil {
				return fmt.Errorf("transaction %s: %w", ids[i], err)
			}
			if got := tx.TxHash(); got != ids[i] {
				return fmt.Errorf("gave transaction %s for %s", got, ids[i])
			}
			if err := visit(ids[i], tx); err != nil {
				return err
			}
		}
		ids = ids[n:]
	}
	return nil
}

// isCoinbaseTx reports whether a transaction is a coinbase.
func isCoinbaseTx(tx *wire.MsgTx) bool {
	return len(tx.TxIn) == 1 && tx.TxIn[0].PreviousOutPoint.Index == wire.MaxPrevOutIndex &&
		tx.TxIn[0].PreviousOutPoint.Hash == chainhash.Hash{}
}

func readTx(raw []byte) (*wire.MsgTx, error) {
	tx := new(wire.MsgTx)
	body := bytes.NewReader(raw)
	if err := tx.Deserialize(body); err != nil {
		return nil, err
	}
	if body.Len() > 0 {
		return nil, fmt.Errorf("%d bytes follow it", body.Len())
	}
	return tx, nil
}
