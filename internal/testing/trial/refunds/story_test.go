package refunds

import (
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
)

// A full refund to an address that the organization gives reaches the payer to the last unit. Rules CO-80, CO-84, CO-89.
func TestAFullRefundReachesItsPayerToTheLastUnit(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.paid(100 * million)
	e.books(dollars, 100*million, 0)
	r, key := e.refund(request(id, to(home)))
	if key != "" || r.Status != checkout.RefundRequested || r.IsClaimable {
		t.Errorf("got %+v with the key %q, want a refund without a key", r, key)
	}
	e.books(dollars, 0, 100*million)
	done := e.until(r.ID, checkout.RefundCompleted)
	if done.Tx == "" || done.CompletedAt == nil || done.WithdrawalID == "" {
		t.Errorf("got %+v, want the payment of a completed refund", done)
	}
	e.has(home, dollars, 100*million)
	e.books(dollars, 0, 0)
	e.exceptions(id, outcome.Refunded)
	if got := e.events(id); !slices.Equal(got, []string{"CHECKOUT_COMPLETED", "CHECKOUT_REFUNDED"}) &&
		!slices.Equal(got, []string{"CHECKOUT_PROCESSING", "CHECKOUT_COMPLETED", "CHECKOUT_REFUNDED"}) {
		t.Errorf("got the events %v, want one of the refund", got)
	}
	e.pass(2) // and nothing more happens
	e.has(home, dollars, 100*million)
}
