package withdrawal

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/price"
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

// Rule WD-51.
func TestADestinationThatMadeAPaymentFailIsHeldUntilAnApprovedOneIsPaid(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	other := h.want()
	other.ToAddress = elsewhere

	early := h.request(h.want()) // accepted before the failure, paid after it, and not approved by a person
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

// Rule WD-51.
func TestAPaymentThatWasCancelledHoldsNoOther(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	if err := h.ended(h.order(h.request(h.want())), dispatch.End{Hash: "0xaa", Cancelled: true}); err != nil {
		t.Fatal(err)
	}
	h.reasons(h.request(h.want()))
}

// Rules WD-32, WD-51.
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

// Rule WD-51.
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

// charges is a chain that says what it would charge, or nothing.
type charges struct {
	chain.Sender
	mu   sync.Mutex
	fees *chain.Fees
}

func (c *charges) Quote(context.Context, ...chain.Payment) (chain.Fees, error) {
	return c.TransferFees(context.Background())
}

func (c *charges) TransferFees(context.Context) (chain.Fees, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fees == nil {
		return chain.Fees{}, errors.New("no provider answers")
	}
	return *c.fees, nil
}

// milli is a thousandth of an ether, which is 3 dollars in these tests.
const milli = 1_000_000_000_000_000

// newCostlyHouse is a house in which a payment may cost 20 thousandths of an ether, 60
// dollars, and one customer's may cost 100 dollars a day.
func newCostlyHouse(t *testing.T) (*house, *charges) {
	t.Helper()
	h := newHouse(t)
	c := &charges{fees: &chain.Fees{GasLimit: 1, Beside: money.Units(20 * milli)}}
	ch := h.Chains[chain.Ethereum]
	ch.Sender = c
	h.Chains = chain.Chains{chain.Ethereum: ch}
	h.Prices = price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1"), eth: money.MustParseUSD("3000")}}
	h.Priced = func(int) bool { return true }
	h.set("customerFeeDayUsd", `"100"`)
	h.deposit("bob", usdc, 1_000_000)
	return h, c
}

// Rule WD-53.
func TestWhatACustomersWithdrawalsCostInADayIsLimited(t *testing.T) {
	t.Parallel()
	h, chainCharges := newCostlyHouse(t)
	bobs := h.want()
	bobs.CustomerID = "bob"
	first := h.request(h.want())
	h.reasons(first)
	second := h.request(h.want())
	h.reasons(second, "POLICY_LIMIT")
	h.reasons(h.request(bobs))

	// What the network took counts, paid or not, in the place of what it might have taken.
	if err := h.ended(h.order(first), dispatch.End{Hash: "0xaa", Cancelled: true, Fee: money.Units(10 * milli)}); err != nil {
		t.Fatal(err)
	}
	third := h.request(h.want()) // 30 and 60
	h.reasons(third)
	h.reasons(h.request(h.want()), "POLICY_LIMIT")
	if err := h.ended(h.order(third), dispatch.End{Paid: true, Hash: "0xbb", Fee: money.Units(20 * milli)}); err != nil {
		t.Fatal(err)
	}
	chainCharges.mu.Lock()
	chainCharges.fees.Beside = money.Units(4 * milli)
	chainCharges.mu.Unlock()
	h.reasons(h.request(h.want()), "POLICY_LIMIT") // 90 and 12

	// What a person lets go counts from then on; what is held does not.
	h.approve(second)
	h.reasons(h.request(h.want()), "POLICY_LIMIT")

	// A day later nothing of it counts.
	h.tamper(`UPDATE withdrawals SET created_at = created_at - interval '1 day', approved_at = approved_at - interval '1 day'`)
	h.reasons(h.request(h.want()))
	h.set("customerFeeDayUsd", `"0"`)
	h.reasons(h.request(h.want()), "POLICY_LIMIT")
	h.set("customerFeeDayUsd", `null`)
	h.reasons(h.request(h.want()))
}

// Rule WD-53.
func TestOfRequestsAtOnceNoneTakesTheCostsAboveTheLimit(t *testing.T) {
	t.Parallel()
	h, _ := newCostlyHouse(t)
	h.request(func() Request { r := h.want(); r.CustomerID = "bob"; return r }()) // the treasury is there
	const at = 6
	made := make([]webhook.Withdrawal, at)
	errs := make([]error, at)
	crowd(at, func(i int) { made[i], _, errs[i] = h.Request(t.Context(), h.org, h.want()) })
	going := 0
	for i, w := range made {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if w.Status == "PROCESSING" {
			going++
		} else {
			h.reasons(w, "POLICY_LIMIT")
		}
	}
	if going != 1 {
		t.Errorf("got %d that go out at 60 dollars each, want 1 within 100", going)
	}
}

// Rule WD-53.
func TestCostsWithoutAPriceAreAboveTheLimit(t *testing.T) {
	t.Parallel()
	h, _ := newCostlyHouse(t)
	fixed := h.Prices
	h.Prices = price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1")}}
	h.reasons(h.request(h.want()), "POLICY_LIMIT")
	h.Prices = agedPrice{fixed, priceAgeMax * 2}
	held := h.request(h.want())
	h.reasons(held, "POLICY_LIMIT")
	h.Priced = nil // no source is configured
	h.reasons(h.request(h.want()))
	h.Priced, h.Prices = func(int) bool { return true }, fixed
	h.approve(held) // counted at the price of the approval
	h.reasons(h.request(h.want()), "POLICY_LIMIT")
}

// Rules WD-32, WD-53.
func TestCostsSinceTheRequestAreShownBeforeAnApproval(t *testing.T) {
	t.Parallel()
	h, _ := newCostlyHouse(t)
	held := h.held()
	h.request(h.want())
	_, err := h.Approve(t.Context(), h.org, held.WithdrawalID, audit.Operator("ann"))
	refused(t, err, fault.ApprovalRefused)
	got, err := h.ByID(t.Context(), h.org, held.WithdrawalID)
	if err != nil {
		t.Fatal(err)
	}
	h.reasons(got, "REQUIRE_APPROVAL", "POLICY_LIMIT")
	if w := h.approve(held); w.Status != "PROCESSING" {
		t.Errorf("approved again: got %s, want PROCESSING", w.Status)
	}
}

// Rule WD-53. A transaction of many payments divides its fee among them.
func TestAnAccountThatIsMadeForAPayeeCountsWhole(t *testing.T) {
	t.Parallel()
	h, c := newCostlyHouse(t)
	c.fees.Rent = money.Units(19 * milli)
	if err := h.ended(h.order(h.request(h.want())), dispatch.End{Paid: true, Hash: "0xaa", Fee: money.Units(milli)}); err != nil {
		t.Fatal(err)
	}
	h.reasons(h.request(h.want()), "POLICY_LIMIT") // 57 and 60
}

// Rule WD-53. The process that takes requests in may have no endpoint of the chain.
func TestCostsThatNobodyKnewAreCountedBeforeAPaymentIsSigned(t *testing.T) {
	t.Parallel()
	h, c := newCostlyHouse(t)
	c.fees = nil
	first, second := h.request(h.want()), h.request(h.want())
	h.reasons(second)
	review := func(w webhook.Withdrawal) (r *signer.Refusal) {
		o := h.order(w)
		o.Chain, o.To, o.CustomerID = chain.Ethereum, stranger, alice
		h.system(func(ctx context.Context, tx pg.Tx) (err error) {
			r, err = h.Review(ctx, tx, o)
			return err
		})
		return r
	}
	if r := review(second); r != nil {
		t.Errorf("nothing is reserved: got %v, want nothing against it", r)
	}
	h.dispatched(first.WithdrawalID, "SIGNED")
	h.tamper(`INSERT INTO dispatch_slots (wallet_id, chain, nonce, org_id, order_id, gas_reserved, created_at)
		SELECT wallet_id, chain, 0, org_id, order_id, 40000000000000000, created_at FROM dispatch_orders WHERE order_id = '` + first.WithdrawalID + `'`)
	r := review(second)
	if r == nil || r.Code != dispatch.CustomerCosts {
		t.Fatalf("120 dollars are reserved: got %v, want a refusal", r)
	}
	h.dispatched(second.WithdrawalID, "REFUSED")
	h.system(func(ctx context.Context, tx pg.Tx) error { return h.Refused(ctx, tx, h.order(second), r) })
	got, err := h.ByID(t.Context(), h.org, second.WithdrawalID)
	if err != nil {
		t.Fatal(err)
	}
	h.reasons(got, "POLICY_LIMIT")
	h.approve(second)
	if r := review(second); r != nil {
		t.Errorf("once a person has approved it: got %v, want nothing against it", r)
	}
}

// Rule WD-53. What waited for days and is let go today is a cost of today.
func TestWhatWasRequestedEarlierCountsFromItsApproval(t *testing.T) {
	t.Parallel()
	h, _ := newCostlyHouse(t)
	held := h.held()
	h.tamper(`UPDATE withdrawals SET created_at = created_at - interval '3 days'`)
	h.approve(held)
	h.reasons(h.request(h.want()), "POLICY_LIMIT") // 60 and 60
}
