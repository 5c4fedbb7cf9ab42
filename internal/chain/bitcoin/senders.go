package bitcoin

import (
	"bytes"
	"context"
	"fmt"

	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
)

// name fills in who sent what is in a block: the address of all that a transaction
// spends, and nobody where that is several or one of them has none.
//
// Most inputs show whose they are. The others, taproot's keys above all, are looked up:
// the transaction that made the output, checked by its hash. Where the inputs that show
// theirs are of several already, nothing is looked up.
func (a *adapter) name(ctx context.Context, p *provider, s *sealed) error {
	senders := make([]chain.Address, len(s.txs))
	opens := make([][]wire.OutPoint, len(s.txs)) // what has to be looked up
	spread(len(s.txs)-1, func(from, to int) {
		for i := from + 1; i <= to; i++ {
			senders[i], opens[i] = senderOf(p, s.txs[i])
		}
	})
	type open struct {
		tx   int
		outs []wire.OutPoint
	}
	var ask []open
	for i, outs := range opens {
		if len(outs) > 0 {
			ask = append(ask, open{i, outs})
		}
	}
	if len(ask) > 0 {
		before := map[chainhash.Hash]*wire.MsgTx{}
		for i, id := range s.ids {
			before[id] = s.txs[i]
		}
		var missing []chainhash.Hash
		for _, o := range ask {
			for _, out := range o.outs {
				if _, ok := before[out.Hash]; !ok {
					before[out.Hash] = nil
					missing = append(missing, out.Hash)
				}
			}
		}
		if err := p.transactions(ctx, missing, before); err != nil {
			return err
		}
		for _, o := range ask {
			for n, out := range o.outs {
				made := before[out.Hash]
				if int(out.Index) >= len(made.TxOut) {
					return fmt.Errorf("block %s spends output %d of %s, which has %d", s.hash, out.Index, out.Hash, len(made.TxOut))
				}
				from, ok := bitcointx.AddressOf(p.params, made.TxOut[out.Index].PkScript)
				if first := n == 0 && senders[o.tx] == ""; first && ok {
					senders[o.tx] = from
				} else if !ok || from != senders[o.tx] {
					senders[o.tx] = ""
					break
				}
			}
		}
	}
	for i := range s.movements {
		s.movements[i].From = senders[s.by[i]]
	}
	return nil
}

// senderOf is the one address that those inputs of a transaction spend from which show
// theirs, with the outputs that the others spend. Where they show several, nobody sent it
// and nothing is left to look up.
func senderOf(p *provider, tx *wire.MsgTx) (sender chain.Address, others []wire.OutPoint) {
	for _, in := range tx.TxIn {
		from, told := bitcointx.SpenderOf(p.params, in)
		switch {
		case !told:
			others = append(others, in.PreviousOutPoint)
		case sender == "":
			sender = from
		case from != sender:
			return "", nil
		}
	}
	return sender, others
}

// transactions fetches transactions by their hashes.
func (p *provider) transactions(ctx context.Context, ids []chainhash.Hash, to map[chainhash.Hash]*wire.MsgTx) error {
	raws := make([]rawHex, len(ids))
	questions := make([]*question, len(ids))
	for i, id := range ids {
		questions[i] = ask(&raws[i], "getrawtransaction", id.String())
	}
	err := p.call(ctx, questions...)
	if refused(err, codeNotFound) {
		return fmt.Errorf("%w: a transaction that a block spends is not found: run the node with the index of all transactions (txindex) and without pruning", err)
	}
	if err != nil {
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
		to[ids[i]] = tx
	}
	return nil
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
