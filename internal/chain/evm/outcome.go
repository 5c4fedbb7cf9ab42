package evm

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

// Outcome asks all providers where the transactions are and then reads the block itself, checked
// like any other. A provider that invents a failure would otherwise cause a refund of a payment
// that arrived. The answer "in no block" needs a quorum that has searched.
func (a *adapter) Outcome(ctx context.Context, txs []chain.TxHash, ps ...chain.Payment) (*chain.Outcome, error) {
	if len(txs) == 0 {
		return nil, nil
	}
	found, missing, err := quorum.SearchAll(ctx, a.providers,
		func(ctx context.Context, node *provider) (*chain.Outcome, error) {
			return a.readOutcome(ctx, node, txs, ps)
		})
	rooted := a.stack != optimism && a.stack != avalanche // the roots cover its whole cost
	o, votes := majorityOutcome(found, rooted)
	switch {
	case o == nil:
	case rooted || votes >= a.Quorum:
		return o, nil
	case errors.Is(err, chain.ErrNotYet):
		return nil, fmt.Errorf("outcome of %s on %s: %w", o.Tx, a.Name, err)
	default:
		return nil, fmt.Errorf("outcome of %s on %s: too few providers of the quorum agree about its fee: %w", o.Tx,
			a.Name,
			errors.Join(err, chain.ErrDisagreement))
	}
	// A transaction in a block whose results are not known yet is not missing.
	if missing >= a.Quorum && !errors.Is(err, chain.ErrNotYet) {
		return nil, nil
	}
	return nil, fmt.Errorf("outcome of %s on %s: %w", txs[0], a.Name, err)
}

// majorityOutcome returns the outcome that most providers give, with their number, and the first of
// several such: one provider alone can invent a block. In a block whose roots cover the whole
// outcome, the same block means the same outcome; otherwise the providers have to give equal
// outcomes. It returns nil if nothing is found. It is pure.
func majorityOutcome(found []*chain.Outcome, rooted bool) (best *chain.Outcome, votes int) {
	for _, o := range found {
		count := 0
		for _, x := range found {
			if rooted && x.Block.Hash == o.Block.Hash || *x == *o {
				count++
			}
		}
		if count > votes {
			best, votes = o, count
		}
	}
	return best, votes
}

// txLocation is where a provider says that a transaction is.
type txLocation struct {
	Tx    common.Hash `json:"transactionHash"`
	Block common.Hash `json:"blockHash"`
	stackFields
}

func (a *adapter) readOutcome(
	ctx context.Context, node *provider, txs []chain.TxHash, ps []chain.Payment,
) (*chain.Outcome, error) {
	locations := make([]*txLocation, len(txs))
	elems := make([]rpc.BatchElem, len(txs))
	for i, h := range txs {
		elems[i] = rpc.BatchElem{
			Method: "eth_getTransactionReceipt", Args: []any{common.HexToHash(string(h))},
			Result: &locations[i],
		}
	}
	if err := node.callBatch(ctx, elems); err != nil {
		return nil, err
	}
	for i, location := range locations {
		if location == nil {
			continue
		}
		s, err := a.loadBlock(ctx, node, location.Block)
		if err != nil {
			return nil, err
		}
		return s.buildOutcome(txs[i], ps, location.stackFields)
	}
	return nil, nil
}

// buildOutcome returns the result of a transaction in the block. reported is the cost in addition
// to its gas, as the provider says.
func (s *verifiedBlock) buildOutcome(
	hash chain.TxHash, ps []chain.Payment, reported stackFields,
) (*chain.Outcome, error) {
	for i, tx := range s.txs {
		if txHash(tx.hash) != hash {
			continue
		}
		fee, err := s.txFeeWith(i, reported)
		if err != nil {
			return nil, err
		}
		o := &chain.Outcome{
			Tx: hash, Block: s.chainBlock(), Fee: fee,
			Succeeded: s.receipts[i].Status == types.ReceiptStatusSuccessful,
		}
		o.Paid = o.Succeeded && s.makesPayments(i, ps)
		return o, nil
	}
	return nil, fmt.Errorf("transaction %s is not in block %s, although its receipt says so", hash, s.hash)
}

// makesPayments reports whether all payments are among the effects of a successful transaction.
func (s *verifiedBlock) makesPayments(i int, ps []chain.Payment) bool {
	if len(ps) == 1 && ps[0].Contract == "" {
		tr, err := s.nativeTransfer(i)
		return err == nil && tr.From == ps[0].From && tr.To == ps[0].To && tr.Amount == ps[0].Amount
	}
	if len(ps) == 1 && ps[0].SetsAllowance() {
		return true // it moves nothing, and the allowance is read before it is used
	}
	var effects []chain.Transfer
	for _, l := range s.receipts[i].transfers {
		effects = append(effects, l.chainTransfer(txHash(s.txs[i].hash), s.receipts[i].firstLog))
	}
	return chain.MakesPayments(effects, ps, func(tr chain.Transfer, p chain.Payment) bool {
		return tr.Contract == p.Contract && tr.From == p.From && tr.To == p.To && tr.Amount == p.Amount
	})
}
