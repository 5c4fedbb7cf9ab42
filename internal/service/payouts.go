package service

import (
	"context"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
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
		IsUnapproved: p.IsUnapproved,
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

// RequestRows implements payout.Payments.
func (p batchPayments) RequestRows(ctx context.Context, rows []payout.RowPayment) (accepted []int, err error) {
	return p.withdrawals.RequestBatchRows(ctx, rows[0].OrgID, newBatchRequests(rows))
}

// CheckRows implements payout.Payments.
func (p batchPayments) CheckRows(ctx context.Context, rows []payout.RowPayment) (passed []int, err error) {
	return p.withdrawals.CheckBatchRows(ctx, rows[0].OrgID, newBatchRequests(rows))
}

func newBatchRequests(rows []payout.RowPayment) []withdrawal.BatchRequest {
	requests := make([]withdrawal.BatchRequest, 0, len(rows))
	for _, row := range rows {
		requests = append(requests, newBatchRequest(row))
	}
	return requests
}

// FreshPrice implements payout.Payments.
func (p batchPayments) FreshPrice(ctx context.Context, mintID int) (price money.USD, isFresh bool) {
	return p.withdrawals.FreshPrice(ctx, mintID)
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

// LoadProofs implements withdrawal.BatchBook.
func (b batchBook) LoadProofs(
	ctx context.Context, tx pg.Tx, org, batchID string, rows ...int,
) (proofs []withdrawal.BatchProof, err error) {
	loaded, err := b.payouts.LoadProofs(ctx, tx, org, batchID, rows...)
	for _, p := range loaded {
		proofs = append(proofs, withdrawal.BatchProof(p))
	}
	return proofs, err
}
