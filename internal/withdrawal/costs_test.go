package withdrawal

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
)

const elsewhere = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"

// revertOrder makes a withdrawal fail on the chain.
func (h *testEnv) revertOrder(w Withdrawal) {
	h.t.Helper()
	h.setOrderStatus(w.ID, "BROADCAST")
	h.inSystem(func(ctx context.Context, tx pg.Tx) error { return h.OnBroadcast(ctx, tx, h.loadOrder(w), "0xaa") })
	if err := h.endOrder(h.loadOrder(w), dispatch.End{Hash: "0xaa"}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *testEnv) payOrder(w Withdrawal) {
	h.t.Helper()
	if err := h.endOrder(h.loadOrder(w), dispatch.End{Paid: true, Hash: "0xbb"}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *testEnv) mustApprove(w Withdrawal) Withdrawal {
	h.t.Helper()
	w, err := h.Approve(h.t.Context(), h.org, w.ID, audit.Operator("ann"))
	if err != nil {
		h.t.Fatal(err)
	}
	return w
}

func (h *testEnv) wantReasons(w Withdrawal, want ...string) {
	h.t.Helper()
	status := "PROCESSING"
	if len(want) > 0 {
		status = "AWAITING_APPROVAL"
	}
	if string(w.Status) != status || !slices.Equal(reasonTexts(w.ApprovalReasons), want) {
		h.t.Errorf("got %s %v, want %s %v", w.Status, w.ApprovalReasons, status, want)
	}
}

// Rule WD-51.
func TestADestinationThatMadeAPaymentFailIsHeldUntilAnApprovedOneIsPaid(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	other := h.newRequest()
	other.ToAddress = elsewhere

	early := h.mustRequest(h.newRequest()) // accepted before the failure, paid after it, and without an approval
	h.revertOrder(h.mustRequest(h.newRequest()))
	held := h.mustRequest(h.newRequest())
	h.wantReasons(held, "DESTINATION_ADDRESS")
	h.wantReasons(h.mustRequest(other))
	h.payOrder(early)
	h.wantReasons(h.mustRequest(h.newRequest()), "DESTINATION_ADDRESS")

	h.mustApprove(held)
	h.wantReasons(h.mustRequest(h.newRequest()), "DESTINATION_ADDRESS") // approved and not paid yet
	h.payOrder(held)
	again := h.mustRequest(h.newRequest())
	h.wantReasons(again)

	h.revertOrder(again)
	h.wantReasons(h.mustRequest(h.newRequest()), "DESTINATION_ADDRESS")
}

// Rule WD-51.
func TestAPaymentThatWasCancelledHoldsNoOther(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	if err := h.endOrder(
		h.loadOrder(h.mustRequest(h.newRequest())), dispatch.End{Hash: "0xaa", Cancelled: true},
	); err != nil {
		t.Fatal(err)
	}
	h.wantReasons(h.mustRequest(h.newRequest()))
}

// Rules WD-32, WD-51.
func TestAFailureSinceTheRequestIsShownBeforeAnApproval(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	held, going := h.requestHeld(), h.mustRequest(h.newRequest())
	h.revertOrder(going)
	_, err := h.Approve(t.Context(), h.org, held.ID, audit.Operator("ann"))
	wantFault(t, err, fault.ApprovalRefused)
	got, err := h.ByID(t.Context(), h.org, held.ID)
	if err != nil {
		t.Fatal(err)
	}
	h.wantReasons(got, "REQUIRE_APPROVAL", "DESTINATION_ADDRESS")
	if w := h.mustApprove(held); w.Status != "PROCESSING" {
		t.Errorf("approved again: got %s, want PROCESSING", w.Status)
	}
}

// Rule WD-51.
func TestPaymentsThatWereOrderedBeforeAFailureGoBackToPeople(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	first, second := h.mustRequest(h.newRequest()), h.mustRequest(h.newRequest())
	review := func(w Withdrawal) (r *signer.Refusal) {
		o := h.loadOrder(w)
		o.Chain, o.To = chain.Ethereum, stranger
		h.inSystem(func(ctx context.Context, tx pg.Tx) (err error) {
			r, err = h.ReviewOrder(ctx, tx, o)
			return err
		})
		return r
	}
	if r := review(second); r != nil {
		t.Fatalf("before a failure: got %v, want nothing against it", r)
	}
	h.revertOrder(first)
	r := review(second)
	if r == nil || r.Code != dispatch.PayeeFailed {
		t.Fatalf("after it: got %v, want a refusal", r)
	}
	h.setOrderStatus(second.ID, "REFUSED")
	h.inSystem(func(ctx context.Context, tx pg.Tx) error { return h.OnRefused(ctx, tx, h.loadOrder(second), r) })
	got, err := h.ByID(t.Context(), h.org, second.ID)
	if err != nil {
		t.Fatal(err)
	}
	h.wantReasons(got, "DESTINATION_ADDRESS")
	h.mustApprove(second)
	if r := review(second); r != nil {
		t.Errorf("once a person has approved it: got %v, want nothing against it", r)
	}
}

// fakeCosts is a chain that quotes fixed fees, or none.
type fakeCosts struct {
	chain.Sender
	mu   sync.Mutex
	fees *chain.Fees
}

func (c *fakeCosts) Quote(context.Context, ...chain.Payment) (chain.Fees, error) {
	return c.TransferFees(context.Background())
}

func (c *fakeCosts) TransferFees(context.Context) (chain.Fees, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fees == nil {
		return chain.Fees{}, errors.New("no provider answers")
	}
	return *c.fees, nil
}

// milli is a thousandth of an ether, which is 3 dollars in these tests.
const milli = 1_000_000_000_000_000

// newCostEnv returns an environment in which a payment may cost 20 thousandths of an ether (60
// dollars), and the payments of one customer 100 dollars a day.
func newCostEnv(t *testing.T) (*testEnv, *fakeCosts) {
	t.Helper()
	h := newTestEnv(t)
	c := &fakeCosts{fees: &chain.Fees{GasLimit: 1, NonGas: money.Units(20 * milli)}}
	ch := h.Chains[chain.Ethereum]
	ch.Sender = c
	h.Chains = chain.Chains{chain.Ethereum: ch}
	h.Prices = price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1"), eth: money.MustParseUSD("3000")}}
	h.HasPriceSource = func(int) bool { return true }
	h.setSetting("customerFeeDayUsd", `"100"`)
	h.creditDeposit("bob", usdc, 1_000_000)
	return h, c
}

// Rule WD-53.
func TestWhatACustomersWithdrawalsCostInADayIsLimited(t *testing.T) {
	t.Parallel()
	h, chainCharges := newCostEnv(t)
	bobs := h.newRequest()
	bobs.CustomerID = "bob"
	first := h.mustRequest(h.newRequest())
	h.wantReasons(first)
	second := h.mustRequest(h.newRequest())
	h.wantReasons(second, "POLICY_LIMIT")
	h.wantReasons(h.mustRequest(bobs))

	// The fee that the network took replaces the estimate, paid or not.
	if err := h.endOrder(
		h.loadOrder(first), dispatch.End{Hash: "0xaa", Cancelled: true, Fee: money.Units(10 * milli)},
	); err != nil {
		t.Fatal(err)
	}
	third := h.mustRequest(h.newRequest()) // 30 and 60
	h.wantReasons(third)
	h.wantReasons(h.mustRequest(h.newRequest()), "POLICY_LIMIT")
	if err := h.endOrder(
		h.loadOrder(third), dispatch.End{Paid: true, Hash: "0xbb", Fee: money.Units(20 * milli)},
	); err != nil {
		t.Fatal(err)
	}
	chainCharges.mu.Lock()
	chainCharges.fees.NonGas = money.Units(4 * milli)
	chainCharges.mu.Unlock()
	h.wantReasons(h.mustRequest(h.newRequest()), "POLICY_LIMIT") // 90 and 12

	// A withdrawal counts from its approval on; a held one does not count.
	h.mustApprove(second)
	h.wantReasons(h.mustRequest(h.newRequest()), "POLICY_LIMIT")

	// A day later none of it counts.
	h.execAsOwner(
		`UPDATE withdrawals SET created_at = created_at - interval '1 day', approved_at = approved_at - interval '1 day'`,
	)
	h.wantReasons(h.mustRequest(h.newRequest()))
	h.setSetting("customerFeeDayUsd", `"0"`)
	h.wantReasons(h.mustRequest(h.newRequest()), "POLICY_LIMIT")
	h.setSetting("customerFeeDayUsd", `null`)
	h.wantReasons(h.mustRequest(h.newRequest()))
}

// Rule WD-53.
func TestOfRequestsAtOnceNoneTakesTheCostsAboveTheLimit(t *testing.T) {
	t.Parallel()
	h, _ := newCostEnv(t)
	h.mustRequest(func() Request { r := h.newRequest(); r.CustomerID = "bob"; return r }()) // creates the treasury
	const at = 6
	made := make([]Withdrawal, at)
	errs := make([]error, at)
	// No request inserts its row before every request has summed up the costs or waits for its turn
	// to do so.
	holder := pgtest.BeginOwner(t, h.DB)
	if _, err := holder.Exec(t.Context(), `LOCK TABLE withdrawals IN SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	var requests sync.WaitGroup
	requests.Go(func() {
		runParallel(at, func(i int) { made[i], _, errs[i] = h.Request(t.Context(), h.org, h.newRequest()) })
	})
	owner := pgtest.OwnerPool(t, h.DB)
	pgtest.Eventually(t, func() bool {
		var waiting int
		err := owner.QueryRow(t.Context(), `
			SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event IN ('relation', 'advisory')`,
		).Scan(&waiting)
		return err == nil && waiting == at
	}, "all %d requests wait", at)
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	requests.Wait()
	going := 0
	for i, w := range made {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if w.Status == "PROCESSING" {
			going++
		} else {
			h.wantReasons(w, "POLICY_LIMIT")
		}
	}
	if going != 1 {
		t.Errorf("got %d that go out at 60 dollars each, want 1 within 100", going)
	}
}

// Rule WD-53.
func TestCostsWithoutAPriceAreAboveTheLimit(t *testing.T) {
	t.Parallel()
	h, _ := newCostEnv(t)
	fixed := h.Prices
	h.Prices = price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1")}}
	h.wantReasons(h.mustRequest(h.newRequest()), "POLICY_LIMIT")
	h.Prices = agedPrice{fixed, priceAgeMax * 2}
	held := h.mustRequest(h.newRequest())
	h.wantReasons(held, "POLICY_LIMIT")
	h.HasPriceSource = nil // no source is configured
	h.wantReasons(h.mustRequest(h.newRequest()))
	h.HasPriceSource, h.Prices = func(int) bool { return true }, fixed
	h.mustApprove(held) // counted at the price of the approval
	h.wantReasons(h.mustRequest(h.newRequest()), "POLICY_LIMIT")
}

// Rules WD-32, WD-53.
func TestCostsSinceTheRequestAreShownBeforeAnApproval(t *testing.T) {
	t.Parallel()
	h, _ := newCostEnv(t)
	held := h.requestHeld()
	h.mustRequest(h.newRequest())
	_, err := h.Approve(t.Context(), h.org, held.ID, audit.Operator("ann"))
	wantFault(t, err, fault.ApprovalRefused)
	got, err := h.ByID(t.Context(), h.org, held.ID)
	if err != nil {
		t.Fatal(err)
	}
	h.wantReasons(got, "REQUIRE_APPROVAL", "POLICY_LIMIT")
	if w := h.mustApprove(held); w.Status != "PROCESSING" {
		t.Errorf("approved again: got %s, want PROCESSING", w.Status)
	}
}

// Rule WD-53. A transaction of many payments divides its fee among them, and not the rent.
func TestAnAccountThatIsMadeForAPayeeCountsWhole(t *testing.T) {
	t.Parallel()
	h, c := newCostEnv(t)
	c.fees.Rent = money.Units(19 * milli)
	if err := h.endOrder(
		h.loadOrder(h.mustRequest(h.newRequest())), dispatch.End{Paid: true, Hash: "0xaa", Fee: money.Units(milli)},
	); err != nil {
		t.Fatal(err)
	}
	h.wantReasons(h.mustRequest(h.newRequest()), "POLICY_LIMIT") // 57 and 60
}

// Rule WD-53. The process that accepts requests may have no endpoint of the chain.
func TestCostsThatNobodyKnewAreCountedBeforeAPaymentIsSigned(t *testing.T) {
	t.Parallel()
	h, c := newCostEnv(t)
	c.fees = nil
	first, second := h.mustRequest(h.newRequest()), h.mustRequest(h.newRequest())
	h.wantReasons(second)
	review := func(w Withdrawal) (r *signer.Refusal) {
		o := h.loadOrder(w)
		o.Chain, o.To, o.CustomerID = chain.Ethereum, stranger, alice
		h.inSystem(func(ctx context.Context, tx pg.Tx) (err error) {
			r, err = h.ReviewOrder(ctx, tx, o)
			return err
		})
		return r
	}
	if r := review(second); r != nil {
		t.Errorf("nothing is reserved: got %v, want nothing against it", r)
	}
	h.setOrderStatus(first.ID, "SIGNED")
	h.execAsOwner(`INSERT INTO dispatch_slots (wallet_id, chain, nonce, org_id, order_id, gas_reserved, created_at)
		SELECT wallet_id, chain, 0, org_id, order_id, 40000000000000000, created_at FROM dispatch_orders WHERE order_id = '` + first.ID + `'`)
	r := review(second)
	if r == nil || r.Code != dispatch.CustomerCostLimit {
		t.Fatalf("120 dollars are reserved: got %v, want a refusal", r)
	}
	h.setOrderStatus(second.ID, "REFUSED")
	h.inSystem(func(ctx context.Context, tx pg.Tx) error { return h.OnRefused(ctx, tx, h.loadOrder(second), r) })
	got, err := h.ByID(t.Context(), h.org, second.ID)
	if err != nil {
		t.Fatal(err)
	}
	h.wantReasons(got, "POLICY_LIMIT")
	h.mustApprove(second)
	if r := review(second); r != nil {
		t.Errorf("once a person has approved it: got %v, want nothing against it", r)
	}
}

// Rule WD-53. A withdrawal that waited for days and is approved today is a cost of today.
func TestWhatWasRequestedEarlierCountsFromItsApproval(t *testing.T) {
	t.Parallel()
	h, _ := newCostEnv(t)
	held := h.requestHeld()
	h.execAsOwner(`UPDATE withdrawals SET created_at = created_at - interval '3 days'`)
	h.mustApprove(held)
	h.wantReasons(h.mustRequest(h.newRequest()), "POLICY_LIMIT") // 60 and 60
}
