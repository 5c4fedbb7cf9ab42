package withdrawal

import (
	"context"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/webhook"
)

const elsewhere = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"

// reverts has a withdrawal fail on the chain.
func (h *house) reverts(w webhook.Withdrawal) {
	h.t.Helper()
	h.dispatched(w.WithdrawalID, "BROADCAST")
	h.system(func(ctx context.Context, tx pg.Tx) error { return h.Broadcast(ctx, tx, h.order(w), "0xaa") })
	if err := h.ended(h.order(w), dispatch.End{Hash: "0xaa"}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) pays(w webhook.Withdrawal) {
	h.t.Helper()
	if err := h.ended(h.order(w), dispatch.End{Paid: true, Hash: "0xbb"}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) approve(w webhook.Withdrawal) webhook.Withdrawal {
	h.t.Helper()
	w, err := h.Approve(h.t.Context(), h.org, w.WithdrawalID, audit.Operator("ann"))
	if err != nil {
		h.t.Fatal(err)
	}
	return w
}

func (h *house) reasons(w webhook.Withdrawal, want ...string) {
	h.t.Helper()
	status := "PROCESSING"
	if len(want) > 0 {
		status = "AWAITING_APPROVAL"
	}
	if w.Status != status || !slices.Equal(w.ApprovalReasons, want) {
		h.t.Errorf("got %s %v, want %s %v", w.Status, w.ApprovalReasons, status, want)
	}
}

// Rule WD-41.
func TestADestinationThatMadeAPaymentFailIsHeldUntilAnApprovedOneIsPaid(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	other := h.want()
	other.ToAddress = elsewhere

	early := h.request(h.want()) // accepted before the failure, paid after it, and approved by nobody
	h.reverts(h.request(h.want()))
	held := h.request(h.want())
	h.reasons(held, "DESTINATION_ADDRESS")
	h.reasons(h.request(other))
	h.pays(early)
	h.reasons(h.request(h.want()), "DESTINATION_ADDRESS")

	h.approve(held)
	h.reasons(h.request(h.want()), "DESTINATION_ADDRESS") // approved and not paid yet
	h.pays(held)
	again := h.request(h.want())
	h.reasons(again)

	h.reverts(again)
	h.reasons(h.request(h.want()), "DESTINATION_ADDRESS")
}

// Rule WD-41.
func TestAPaymentThatWasCancelledHoldsNoOther(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	if err := h.ended(h.order(h.request(h.want())), dispatch.End{Hash: "0xaa", Cancelled: true}); err != nil {
		t.Fatal(err)
	}
	h.reasons(h.request(h.want()))
}

// Rules WD-32, WD-41.
func TestAFailureSinceTheRequestIsShownBeforeAnApproval(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	held, going := h.held(), h.request(h.want())
	h.reverts(going)
	_, err := h.Approve(t.Context(), h.org, held.WithdrawalID, audit.Operator("ann"))
	refused(t, err, fault.ApprovalRefused)
	got, err := h.ByID(t.Context(), h.org, held.WithdrawalID)
	if err != nil {
		t.Fatal(err)
	}
	h.reasons(got, "REQUIRE_APPROVAL", "DESTINATION_ADDRESS")
	if w := h.approve(held); w.Status != "PROCESSING" {
		t.Errorf("approved again: got %s, want PROCESSING", w.Status)
	}
}

// Rule WD-41.
func TestPaymentsThatWereOrderedBeforeAFailureGoBackToPeople(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	first, second := h.request(h.want()), h.request(h.want())
	review := func(w webhook.Withdrawal) (r *signer.Refusal) {
		o := h.order(w)
		o.Chain, o.To = chain.Ethereum, stranger
		h.system(func(ctx context.Context, tx pg.Tx) (err error) {
			r, err = h.Review(ctx, tx, o)
			return err
		})
		return r
	}
	if r := review(second); r != nil {
		t.Fatalf("before a failure: got %v, want nothing against it", r)
	}
	h.reverts(first)
	r := review(second)
	if r == nil || r.Code != dispatch.PayeeFailed {
		t.Fatalf("after it: got %v, want a refusal", r)
	}
	h.dispatched(second.WithdrawalID, "REFUSED")
	h.system(func(ctx context.Context, tx pg.Tx) error { return h.Refused(ctx, tx, h.order(second), r) })
	got, err := h.ByID(t.Context(), h.org, second.WithdrawalID)
	if err != nil {
		t.Fatal(err)
	}
	h.reasons(got, "DESTINATION_ADDRESS")
	h.approve(second)
	if r := review(second); r != nil {
		t.Errorf("once a person has approved it: got %v, want nothing against it", r)
	}
}
