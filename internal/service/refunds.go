package service

import (
	"context"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// refundPayouts pays refunds of checkouts, as withdrawals out of what is owed to payers.
type refundPayouts struct{ withdrawals *withdrawal.Service }

var _ checkout.RefundPayouts = refundPayouts{}

// RequestPayout implements checkout.RefundPayouts.
func (p refundPayouts) RequestPayout(ctx context.Context, r checkout.RefundPayout) (string, error) {
	w, err := p.withdrawals.RequestRefund(ctx, r.OrgID, withdrawal.RefundRequest{
		RefundID: r.RefundID, CheckoutID: r.CheckoutID, Attempt: r.Attempt, MintID: r.MintID, Amount: r.Amount,
		ToAddress: r.ToAddress, DeductsFee: r.DeductsFee, Requester: r.Requester,
	})
	return w.ID, err
}

// PayoutState implements checkout.RefundPayouts.
func (p refundPayouts) PayoutState(
	ctx context.Context, orgID, withdrawalID string,
) (state checkout.PayoutState, problem string, err error) {
	w, err := p.withdrawals.ByID(ctx, orgID, withdrawalID)
	if err != nil {
		return "", "", err
	}
	switch w.Status {
	case withdrawal.Completed:
		return checkout.PayoutPaid, "", nil
	case withdrawal.Failed:
		return checkout.PayoutEnded, checkout.PaymentFailed, nil
	case withdrawal.Blocked:
		return checkout.PayoutEnded, checkout.RiskRefuses, nil
	case withdrawal.Rejected, withdrawal.Cancelled:
		return checkout.PayoutEnded, checkout.PaymentEnded, nil
	}
	return checkout.PayoutOpen, "", nil
}

// refundRestorer finds the refunds of payments that a restored database lacks.
type refundRestorer struct{ checkouts *checkout.Service }

var _ withdrawal.RefundRestorer = refundRestorer{}

// RestoreRefund implements withdrawal.RefundRestorer.
func (p refundRestorer) RestoreRefund(ctx context.Context, tx pg.Tx, r withdrawal.RestoredRefund) (bool, error) {
	total, err := r.Amount.Add(r.FeeDeducted)
	if err != nil {
		return false, err
	}
	return p.checkouts.RestoreRefund(ctx, tx, checkout.RestoredRefund{
		RefundID: r.RefundID, MintID: r.MintID, Amount: total, ToAddress: r.ToAddress,
		HasKey: func(attempt int) bool { return withdrawal.RefundKeyHash(r.RefundID, attempt) == r.KeyHash },
	})
}
