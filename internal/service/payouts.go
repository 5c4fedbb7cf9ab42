package service

import (
	"context"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// batchPayments pays rows of batches, as withdrawals out of what is held for batches.
type batchPayments struct{ withdrawals *withdrawal.Service }

var _ payout.Payments = batchPayments{}

func newBatchRequest(p payout.RowPayment) withdrawal.BatchRequest {
	return withdrawal.BatchRequest{
		Row: p.Row, MintID: p.MintID, Amount: p.Amount, ToAddress: string(p.ToAddress), Reference: p.Reference,
	}
}

// CheckRow implements payout.Payments.
func (p batchPayments) CheckRow(ctx context.Context, row payout.RowPayment) (refused string, err error) {
	return p.withdrawals.CheckBatchRow(ctx, row.OrgID, newBatchRequest(row))
}

// neverPaid are the refusals that no time changes. Every other one leaves the row waiting: a freeze ends, and a
// provider answers again.
var neverPaid = []fault.Code{
	fault.WithdrawalRiskBlocked, fault.DestinationNotAllowed, fault.InvalidAddress, fault.AmountBelowMinimum,
	fault.MintNotFound,
}

// RequestRow implements payout.Payments.
func (p batchPayments) RequestRow(ctx context.Context, row payout.RowPayment) (refused string, err error) {
	w, err := p.withdrawals.RequestBatchRow(ctx, row.OrgID, newBatchRequest(row))
	for _, code := range neverPaid {
		if fault.HasCode(err, code) {
			return fault.Find(err).Reason, nil
		}
	}
	if err != nil {
		return "", err
	}
	if w.BatchID != row.Row.BatchID {
		return "It was paid by withdrawal " + w.ID + " before this database was restored.", nil
	}
	return "", nil
}

// RecallRow implements payout.Payments.
func (p batchPayments) RecallRow(ctx context.Context, row payout.RowPayment, actor audit.Actor) error {
	_, err := p.withdrawals.Cancel(ctx, row.OrgID, signer.BatchWithdrawalID(row.OrgID, row.Row.BatchID, row.Row.Row),
		actor)
	if fault.HasCode(err, fault.InvalidState) {
		return nil // it has a slot, or it has ended
	}
	return err
}

// batchBook proves the rows of batches to withdrawals.
type batchBook struct{ payouts *payout.Service }

var _ withdrawal.BatchBook = batchBook{}

// LoadProof implements withdrawal.BatchBook.
func (b batchBook) LoadProof(
	ctx context.Context, tx pg.Tx, org string, row signer.BatchRow,
) (withdrawal.BatchProof, error) {
	p, err := b.payouts.LoadProof(ctx, tx, org, row.BatchID, row.Row)
	return withdrawal.BatchProof(p), err
}
