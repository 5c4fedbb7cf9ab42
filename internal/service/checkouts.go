package service

import (
	"context"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
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
			MintID: u.MintID, Chain: u.Chain, Amount: u.Amount, Tx: u.Tx, IsNew: u.From == "",
			IsRecent: u.To == deposit.Confirming, Status: paymentStatuses[u.To], BlockTime: u.BlockTime,
			References: u.References,
		}
	}
	return o.checkouts.OnArrivals(ctx, tx, arrivals)
}

// paymentStatuses are the statuses of payments by those of their deposits. A credit whose finality is in question
// stays one until it is reversed.
var paymentStatuses = map[deposit.Status]outcome.PaymentStatus{
	deposit.Confirming: outcome.PaymentSeen, deposit.Screening: outcome.PaymentSeen,
	deposit.Credited: outcome.PaymentCredited,
	deposit.Flagged:  outcome.PaymentFlagged, deposit.Rejecting: outcome.PaymentFlagged,
	deposit.Redirecting: outcome.PaymentFlagged, deposit.ResolutionStuck: outcome.PaymentFlagged,
	deposit.Rejected: outcome.PaymentReturned, deposit.Redirected: outcome.PaymentReturned,
	deposit.Orphaned: outcome.PaymentOrphaned, deposit.Reversed: outcome.PaymentReversed,
	deposit.Unsupported: outcome.PaymentUnusable, deposit.BelowMinimum: outcome.PaymentUnusable,
}

// paymentStatusTexts are paymentStatuses by the words in the rows of deposits, which package checkout reads.
func paymentStatusTexts() map[string]outcome.PaymentStatus {
	texts := map[string]outcome.PaymentStatus{}
	for status, payment := range paymentStatuses {
		texts[string(status)] = payment
	}
	return texts
}
