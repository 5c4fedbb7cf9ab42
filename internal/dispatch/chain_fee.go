package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// ErrInNoBlock says that the providers show none of an order's transactions in a block. A provider that does not keep
// old blocks says the same.
var ErrInNoBlock = errors.New("the providers show none of its transactions in a block")

// ChainFee is what the chain says that the transaction of an order cost.
type ChainFee struct {
	OrderID string
	Hash    chain.TxHash
	Amount  money.Amount // the order's share, in native units
}

// ReadFees reads from the providers what the transaction of an order cost, and returns the share of each order that
// shares it. It computes shares as the end of an order does, and changes nothing. Errors: ErrInNoBlock; faults
// NOT_FOUND, INVALID_STATE for an order without a slot.
func (d *Worker) ReadFees(ctx context.Context, orderID string) ([]ChainFee, error) {
	_, s, payer, err := d.loadOrderSlot(ctx, orderID)
	if err != nil {
		return nil, err
	}
	outcome, err := d.chain.Sender.Outcome(ctx, s.signedHashes(), s.chainPayments(payer.Address)...)
	if err != nil {
		return nil, fmt.Errorf("read the fee of order %s: %w", orderID, err)
	}
	if outcome == nil {
		return nil, fmt.Errorf("read the fee of order %s: %w", orderID, ErrInNoBlock)
	}
	orders := s.allOrders()
	fees := make([]ChainFee, len(orders))
	for i, o := range orders {
		share, err := equalShare(outcome.Fee, len(orders), i == 0)
		if err != nil {
			return nil, fmt.Errorf("share the fee of order %s: %w", s.ID, err)
		}
		fees[i] = ChainFee{o.ID, outcome.Tx, share}
	}
	return fees, nil
}
