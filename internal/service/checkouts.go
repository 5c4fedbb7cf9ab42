package service

import (
	"context"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// checkoutOwner hands what arrives at the wallets of checkouts to the checkouts.
type checkoutOwner struct {
	deposit.CheckoutOwner
	checkouts *checkout.Service
}

var _ deposit.Owner = checkoutOwner{}

// OnUpdates implements deposit.Owner.
func (o checkoutOwner) OnUpdates(ctx context.Context, tx pg.Tx, updates []deposit.Update) error {
	arrivals := make([]checkout.Arrival, len(updates))
	for i, u := range updates {
		arrivals[i] = checkout.Arrival{
			DepositID: u.DepositID, OrgID: u.OrgID, CheckoutID: u.CheckoutID, IsShared: o.IsShared,
			MintID: u.MintID, Chain: u.Chain, Amount: u.Amount, Tx: u.Tx, From: paymentStatuses[u.From],
			To: paymentStatuses[u.To], BlockTime: u.BlockTime,
		}
		for _, r := range u.References {
			arrivals[i].References = append(arrivals[i].References, string(r))
		}
	}
	return o.checkouts.OnArrivals(ctx, tx, arrivals)
}

// paymentStatuses are the statuses of payments by those of their deposits. A credit whose finality is in question
// stays one until it is reversed.
var paymentStatuses = map[deposit.Status]checkout.PaymentStatus{
	deposit.Confirming: checkout.PaymentSeen, deposit.Screening: checkout.PaymentSeen,
	deposit.Credited: checkout.PaymentCredited,
	deposit.Flagged:  checkout.PaymentFlagged, deposit.Rejecting: checkout.PaymentFlagged,
	deposit.Redirecting: checkout.PaymentFlagged, deposit.ResolutionStuck: checkout.PaymentFlagged,
	deposit.Rejected: checkout.PaymentReturned, deposit.Redirected: checkout.PaymentReturned,
	deposit.Orphaned: checkout.PaymentOrphaned, deposit.Reversed: checkout.PaymentReversed,
	deposit.Unsupported: checkout.PaymentUnusable, deposit.BelowMinimum: checkout.PaymentUnusable,
}
