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
	"github.com/cofferpay/coffer/internal/chain/several"
)

// Senders are the addresses of all that the transaction of a movement spends. Every output
// that it spends is looked up in the transaction that made it, which the hash that is spent
// proves. What an input shows of itself is not taken for it: whoever gets a miner to take
// a transaction that no node passes on can make one look like a spend of somebody else's
// key. A miner's coins have no sender.
//
// One node is enough: the block is proven, and so is everything that it spends.
func (a *adapter) Senders(ctx context.Context, at chain.Block, of []chain.Transfer) ([][]chain.Address, error) {
	if len(of) == 0 {
		return nil, nil
	}
	wrap := func(err error) ([][]chain.Address, error) {
		return nil, fmt.Errorf("senders in block %d of %s: %w", at.Height, chain.Bitcoin, err)
	}
	hash, err := hashText(at.Hash)
	if err != nil {
		return wrap(err)
	}
	s, err := a.sealed(ctx, a.showing(), at.Height, hash)
	if err != nil {
		return wrap(err)
	}
	var ids []chainhash.Hash
	for _, t := range of {
		id, err := hashText(string(t.Tx))
		if err != nil {
			return wrap(err)
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	senders, err := several.First(ctx, a.showing(), func(ctx context.Context, p *provider) (map[chain.TxHash][]chain.Address, error) {
		senders, err := p.senders(ctx, s, ids)
		if err != nil {
			err = fmt.Errorf("%s: %w", p.name, err)
		}
		return senders, err
	})
	if err != nil {
		return wrap(err)
	}
	all := make([][]chain.Address, len(of))
	for i, t := range of {
		all[i] = slices.Clone(senders[t.Tx])
	}
	return all, nil
}

// senders asks a node for what transactions of a block spend.
func (p *provider) senders(ctx context.Context, s *sealed, ids []chainhash.Hash) (map[chain.TxHash][]chain.Address, error) {
	place := make(map[chainhash.Hash]int, len(s.ids))
	for i, id := range s.ids {
		place[id] = i
	}
	spends := map[chainhash.Hash][]wire.OutPoint{} // by the transaction that spends
	wanted := map[chainhash.Hash][]uint32{}        // outputs, by the transaction that made them
	var elsewhere []chainhash.Hash
	for _, id := range ids {
		i, here := place[id]
		if !here {
			elsewhere = append(elsewhere, id)
		} else if i > 0 {
			spends[id] = s.spends(i)
		}
	}
	// What is not in the block is of a miner, and older: his coins are told of when they
	// can be spent.
	err := p.transactions(ctx, elsewhere, func(id chainhash.Hash, tx *wire.MsgTx) error {
		if !makesCoins(tx) {
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
		i, here := place[id]
		if here {
			err = errors.Join(err, read(id, s.scripts(i)))
		}
		return here
	})
	if err != nil {
		return nil, err
	}
	err = p.transactions(ctx, missing, func(id chainhash.Hash, tx *wire.MsgTx) error {
		made := make([][]byte, len(tx.TxOut))
		for i, out := range tx.TxOut {
			made[i] = out.PkScript
		}
		return read(id, made)
	})
	if err != nil {
		return nil, err
	}
	all := map[chain.TxHash][]chain.Address{}
	for id, outs := range spends {
		var senders []chain.Address
		for _, out := range outs {
			from, ok := bitcointx.AddressOf(p.params, scripts[out])
			if !ok {
				senders = nil
				break
			}
			senders = append(senders, from)
		}
		slices.Sort(senders)
		all[chain.TxHash(id.String())] = slices.Compact(senders)
	}
	return all, nil
}

// transactions fetches transactions by their hashes, as many at once as the length of an
// answer allows: somebody may have made them long.
func (p *provider) transactions(ctx context.Context, ids []chainhash.Hash, each func(chainhash.Hash, *wire.MsgTx) error) error {
	for most := batchItemsMax; len(ids) > 0; {
		n := min(most, len(ids))
		raws := make([]rawHex, n)
		questions := make([]*question, n)
		for i, id := range ids[:n] {
			questions[i] = ask(&raws[i], "getrawtransaction", id.String())
		}
		err := p.call(ctx, questions...)
		switch {
		case errors.Is(err, endpoint.ErrTooLong) && n > 1:
			most = n / 2
			continue
		case refused(err, codeNotFound):
			return fmt.Errorf("%w: a transaction that a block spends is not found: run the node with the index of all transactions (txindex) and without pruning", err)
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
			if err := each(ids[i], tx); err != nil {
				return err
			}
		}
		ids = ids[n:]
	}
	return nil
}

// makesCoins tells whether a transaction is a coinbase.
func makesCoins(tx *wire.MsgTx) bool {
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
