package swaps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/signedquote/quotetest"
)

// The books while a swap is held, and while its value is with the provider.
var (
	held   = books{"CUSTOMER 1": funded - amountIn, "IN_SWAP 1": amountIn}
	atDesk = books{"CUSTOMER 1": funded - amountIn, "IN_SWAP 1": amountIn, "AT_PROVIDER 1": amountIn}
	whole  = books{"CUSTOMER 1": funded}
)

// Rules SWAP-6, SWAP-10 and SWAP-14: the final delivery alone completes a swap, with its fee.
func TestADeliveryCompletesASwap(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.begin()
	e.wantBooks(held)
	e.pay(w.ID)
	e.want(w.ID, swap.Processing, swap.RefundNone)
	e.wantBooks(atDesk)
	e.deliver(w, amountOut)
	done := e.want(w.ID, swap.Completed, swap.RefundNone)
	if done.AmountOut == nil || done.AmountOut.String() != "298500000" || done.DepositID == nil {
		t.Errorf("got %v in %v, want 298500000", deref(done.AmountOut), deref(done.DepositID))
	}
	e.wantBooks(books{"CUSTOMER 1": funded - amountIn, "CUSTOMER 3": amountOut, "SWAP_FEES_DUE 1": 750_000})
	e.wantEvents(w.ID, "CUSTOMER_DEPOSIT")
	e.wantStrays()
	e.lookWithChain("the end")
	if e.suspension() != "" {
		t.Errorf("the desk is suspended: %s", e.suspension())
	}
}

// A native coin is delivered like a token.
func TestANativeCoinIsDelivered(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	const out = 99_500_000_000_000_000
	e.desk.price = func(provider.Ask) uint64 { return out }
	r := request("key")
	r.ToMintID = ether
	w, _, err := e.Swaps.Request(e.ctx, e.org, r)
	e.must(err)
	e.pay(w.ID)
	e.arrive(w.DeliveryWalletID, ether, out)
	e.want(w.ID, swap.Completed, swap.RefundNone)
	e.wantBooks(books{"CUSTOMER 1": funded - amountIn, "CUSTOMER 2": out, "SWAP_FEES_DUE 1": 750_000})
}

// Rules SWAP-10 and SWAP-13: the parts of a delivery are credited together, and the last one carries the swap.
func TestPartsOfADeliveryAreCreditedTogether(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.paid()
	e.deliver(w, 100*million)
	e.want(w.ID, swap.Processing, swap.RefundNone)
	e.wantBooks(atDesk)
	e.wantEvents(w.ID)
	e.deliver(w, 198*million)
	e.want(w.ID, swap.Completed, swap.RefundNone)
	e.wantBooks(books{"CUSTOMER 1": funded - amountIn, "CUSTOMER 3": 298 * million, "SWAP_FEES_DUE 1": 750_000})
	e.wantEvents(w.ID, "CUSTOMER_DEPOSIT", "CUSTOMER_DEPOSIT")
	if n := e.number(`SELECT count(*) FROM deposits WHERE swap_id = $1 AND completes_swap AND amount = 198000000`,
		w.ID); n != 1 {
		t.Errorf("the last part completes %d swaps, want 1", n)
	}
}

// Rule SWAP-13: a delivery below the minimum is final half an hour after the provider reported success, and a
// person looks at the provider.
func TestADeliveryBelowTheMinimumCompletesHalfAnHourAfterTheSuccess(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.paid()
	e.deliver(w, 200*million)
	e.wait(31 * time.Minute)
	e.want(w.ID, swap.Processing, swap.RefundNone) // the provider says PROCESSING
	e.desk.says(provider.Success, provider.RefundNone)
	e.wait(20 * time.Minute)
	e.wait(29 * time.Minute)
	e.want(w.ID, swap.Processing, swap.RefundNone)
	e.wait(2 * time.Minute)
	done := e.want(w.ID, swap.Completed, swap.RefundNone)
	if done.AmountOut.String() != "200000000" {
		t.Errorf("got %v out, want 200000000", done.AmountOut)
	}
	e.wantBooks(books{"CUSTOMER 1": funded - amountIn, "CUSTOMER 3": 200 * million, "SWAP_FEES_DUE 1": 750_000})
	if e.suspension() == "" {
		t.Error("a provider that delivered below the minimum gets new swaps")
	}
}

// Rules SWAP-12 and SWAP-20: refunds that are final fail a swap, whatever the provider says.
func TestAWholeRefundFailsASwap(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.paid()
	e.refund(w, 100*million)
	e.want(w.ID, swap.Processing, swap.RefundPartial)
	e.wantBooks(books{"CUSTOMER 1": funded - amountIn, "IN_SWAP 1": amountIn, "AT_PROVIDER 1": 200 * million})
	e.wantEvents(w.ID)
	e.refund(w, 200*million)
	e.want(w.ID, swap.FailedStatus, swap.RefundComplete)
	e.wantReason(w.ID, swap.ProviderRefunded)
	e.wantBooks(held)
	e.wantEvents(w.ID, "CUSTOMER_SWAP_FAILED")
	restored, err := e.Swaps.Restore(e.ctx, e.org, w.ID, audit.APIKey("key"))
	e.must(err)
	if restored.RefundStatus() != swap.RefundRestored {
		t.Errorf("got %s, want RESTORED", restored.RefundStatus())
	}
	e.wantBooks(whole)
	e.lookWithChain("the restore")
	if n := e.number(`SELECT count(*) FROM fee_lines WHERE kind = 'SWAP_FEE'`); n != 0 {
		t.Errorf("a failed swap has %d fees, want none", n)
	}
}

// Rule SWAP-12: what the provider signed to keep of a refund is short at once, also in the event.
func TestARefundLessItsSignedFeeIsWhole(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.desk.change = func(_ provider.Ask, q *quotetest.OneClick) { q.RefundFee = units(2 * million) }
	w := e.paid()
	e.refund(w, 298*million)
	failed := e.want(w.ID, swap.FailedStatus, swap.RefundComplete)
	if failed.Short.String() != "2000000" || failed.Refunded.String() != "298000000" {
		t.Errorf("got %v short of %v, want 2000000 of 298000000", failed.Short, failed.Refunded)
	}
	e.wantBooks(books{"CUSTOMER 1": funded - amountIn, "IN_SWAP 1": 298 * million})
	e.wantEvents(w.ID, "CUSTOMER_SWAP_FAILED")
	if told := e.texts(`SELECT convert_from(data, 'UTF8')::jsonb->>'refundedAmount' FROM events
		WHERE resource_id = $1`, w.ID); len(told) != 1 ||
		told[0] != "298000000" {
		t.Errorf("the organization was told of %q, want 298000000", told)
	}
	_, err := e.Swaps.Restore(e.ctx, e.org, w.ID, audit.APIKey("key"))
	e.must(err)
	e.wantBooks(books{"CUSTOMER 1": funded - 2*million})
	e.refund(w, million) // more than the claim has left
	e.wantStrays("TOO_MUCH")
}

// Rules SWAP-20 and SWAP-21: the word of a provider counts when it stands by it, its time is over and no
// refund came; what comes later is counted.
func TestAFailureThatTheProviderStandsByFailsASwap(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.paid()
	e.desk.says(provider.Failed, provider.RefundPending)
	e.wait(time.Minute)
	e.want(w.ID, swap.Processing, swap.RefundPending)
	e.wait(2 * time.Minute) // the grace for a refund lasts five minutes
	e.want(w.ID, swap.Processing, swap.RefundPending)
	e.wait(4 * time.Minute)
	e.turn()
	failed := e.want(w.ID, swap.FailedStatus, swap.RefundPending)
	if failed.RefundedAmount() != nil {
		t.Errorf("%v came back, want nothing", failed.Refunded)
	}
	e.wantReason(w.ID, swap.ProviderFailed)
	e.wantBooks(atDesk)
	e.wantEvents(w.ID, "CUSTOMER_SWAP_FAILED")
	_, err := e.Swaps.Restore(e.ctx, e.org, w.ID, audit.APIKey("key"))
	e.wantFault(err, fault.RefundNotReceived)
	e.refund(w, 100*million)
	e.want(w.ID, swap.FailedStatus, swap.RefundPartial)
	e.refund(w, 200*million)
	e.want(w.ID, swap.FailedStatus, swap.RefundComplete)
	e.wantBooks(held)
	e.wantEvents(w.ID, "CUSTOMER_SWAP_FAILED", "CUSTOMER_SWAP_REFUNDED", "CUSTOMER_SWAP_REFUNDED")
}

// Rule SWAP-21: with a part of the refund, the word counts after a minute.
func TestAFailureWithARefundFailsASwapAfterAMinute(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.paid()
	e.desk.says(provider.Refunded, provider.RefundPending)
	e.wait(20 * time.Second)
	e.refund(w, 250*million)
	e.want(w.ID, swap.Processing, swap.RefundPartial)
	e.wait(70 * time.Second)
	e.turn()
	e.want(w.ID, swap.FailedStatus, swap.RefundPartial)
	e.wantReason(w.ID, swap.ProviderRefunded)
	_, err := e.Swaps.Restore(e.ctx, e.org, w.ID, audit.APIKey("key"))
	e.must(err)
	e.wantBooks(books{"CUSTOMER 1": funded - 50*million, "IN_SWAP 1": 50 * million, "AT_PROVIDER 1": 50 * million})
	e.refund(w, 50*million)
	e.want(w.ID, swap.FailedStatus, swap.RefundComplete)
	_, err = e.Swaps.Restore(e.ctx, e.org, w.ID, audit.APIKey("key"))
	e.must(err)
	e.wantBooks(whole)
}

// Rule SWAP-21: a failure that the provider takes back counts nothing.
func TestAFailureThatTheProviderTakesBackFailsNothing(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.paid()
	e.desk.says(provider.Failed, provider.RefundNone)
	e.wait(4 * time.Minute)
	e.desk.says(provider.Processing, provider.RefundNone)
	e.wait(4 * time.Minute)
	e.desk.says(provider.Failed, provider.RefundNone)
	e.wait(4 * time.Minute)
	e.want(w.ID, swap.Processing, swap.RefundNone)
	e.desk.set(func() {
		e.desk.status = func(provider.Ref) (provider.Report, error) { return provider.Report{}, errDeskDown }
	})
	e.wait(20 * time.Minute)
	e.want(w.ID, swap.Processing, swap.RefundNone)
	e.deliver(w, amountOut)
	e.want(w.ID, swap.Completed, swap.RefundNone)
	if n := e.number(`SELECT count(*) FROM swap_reports`); n < 3 {
		t.Errorf("got %d reports, want each that differs from the one before", n)
	}
}

// Rules SWAP-22 and SWAP-23: a reported success credits nothing. The organization hears of the delay once, and
// the provider is suspended after an hour.
func TestASuccessWithoutADeliveryCreditsNothing(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.paid()
	e.desk.says(provider.Success, provider.RefundNone)
	e.wait(25 * time.Minute)
	e.wantEvents(w.ID)
	e.wait(10 * time.Minute)
	e.wantEvents(w.ID, "CUSTOMER_SWAP_DELAYED")
	e.wait(10 * time.Minute)
	if e.suspension() != "" {
		t.Fatal("the provider is suspended before an hour is over")
	}
	e.wait(45 * time.Minute)
	e.want(w.ID, swap.Processing, swap.RefundNone)
	e.wantBooks(atDesk)
	e.wantEvents(w.ID, "CUSTOMER_SWAP_DELAYED")
	if e.suspension() == "" {
		t.Error("the provider is not suspended after an hour")
	}
	_, _, err := e.Swaps.Request(e.ctx, e.org, request("other"))
	e.wantFault(err, fault.QuoteRejected)
	// A person lifts it, and the old reason does not suspend it again.
	e.must(e.Swaps.ResumeProvider(e.ctx, e.desk.name, "they paid the others", audit.Operator("op")))
	e.wait(15 * time.Minute)
	if e.suspension() != "" {
		t.Errorf("suspended again for what a person had seen: %s", e.suspension())
	}
	e.deliver(w, amountOut)
	e.want(w.ID, swap.Completed, swap.RefundNone)
}

// Three delayed swaps suspend their provider, until a person lifts it.
func TestThreeDelayedSwapsSuspendTheirProvider(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	var last swap.Swap
	for i := range 3 {
		r := request(fmt.Sprint("key", i))
		r.AmountIn = "100000000"
		w, _, err := e.Swaps.Request(e.ctx, e.org, r)
		e.must(err)
		last = w
	}
	e.pay(last.ID)
	e.pass(2)
	e.wait(31 * time.Minute)
	e.wait(time.Minute)
	if e.suspension() == "" {
		t.Fatal("three delayed swaps do not suspend their provider")
	}
	e.must(e.Swaps.ResumeProvider(e.ctx, e.desk.name, "seen", audit.Operator("op")))
	e.wait(15 * time.Minute)
	if e.suspension() != "" {
		t.Errorf("suspended again: %s", e.suspension())
	}
}

// A reported refund that does not arrive fails the swap with nothing refunded.
func TestARefundThatIsOnlyReportedRefundsNothing(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.paid()
	e.desk.says(provider.Refunded, provider.RefundPending)
	e.wait(time.Minute)
	e.wait(6 * time.Minute)
	e.turn()
	failed := e.want(w.ID, swap.FailedStatus, swap.RefundPending)
	if failed.RefundedAmount() != nil {
		t.Error("something counts as refunded")
	}
	e.wantReason(w.ID, swap.ProviderRefunded)
	e.wantBooks(atDesk)
	e.desk.says(provider.Failed, provider.RefundManual)
	e.wait(15 * time.Minute)
	e.want(w.ID, swap.FailedStatus, swap.RefundManual)
	e.refund(w, amountIn)
	e.want(w.ID, swap.FailedStatus, swap.RefundComplete)
	e.wantEvents(w.ID, "CUSTOMER_SWAP_FAILED", "CUSTOMER_SWAP_REFUNDED")
}

// failed makes a swap that the provider failed, and of which nothing came back.
func (e *testEnv) failed() swap.Swap {
	e.Helper()
	w := e.paid()
	e.desk.says(provider.Failed, provider.RefundNone)
	e.wait(time.Minute)
	e.wait(6 * time.Minute)
	e.turn()
	e.want(w.ID, swap.FailedStatus, swap.RefundNone)
	return w
}

// Rule SWAP-26: the late delivery of a failed swap is a stray, until a person decides. Its credit ends the claim.
func TestALateDeliveryWaitsForAPerson(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.failed()
	e.deliver(w, amountOut)
	e.wantStrays("AFTER_END")
	strayed := books{
		"CUSTOMER 1": funded - amountIn, "IN_SWAP 1": amountIn, "AT_PROVIDER 1": amountIn,
		"SUSPENSE 3": amountOut,
	}
	e.wantBooks(strayed)
	e.wantEvents(w.ID, "CUSTOMER_SWAP_FAILED")
	stray := e.texts(`SELECT deposit_id FROM swap_arrivals`)[0]
	op := audit.Operator("op")
	_, err := e.Swaps.DecideArrival(e.ctx, stray, "ELSEWHERE", "why", op)
	e.wantFault(err, fault.InvalidRequest)
	_, err = e.Swaps.DecideArrival(e.ctx, stray, swap.CreditArrival, "", op)
	e.wantFault(err, fault.InvalidRequest)
	_, err = e.Swaps.DecideArrival(e.ctx, "dep_unknown", swap.CreditArrival, "why", op)
	e.wantFault(err, fault.CodeNotFound)
	e.wantBooks(strayed)
	a, err := e.Swaps.DecideArrival(e.ctx, stray, swap.CreditArrival, "late", op)
	e.must(err)
	if deref(a.Decision) != "CREDITED" {
		t.Errorf("got the decision %v, want CREDITED", deref(a.Decision))
	}
	e.look("the decision")
	e.wantBooks(books{"CUSTOMER 1": funded - amountIn, "CUSTOMER 3": amountOut})
	e.wantEvents(w.ID, "CUSTOMER_SWAP_FAILED", "CUSTOMER_DEPOSIT")
	_, err = e.Swaps.DecideArrival(e.ctx, stray, swap.KeepArrival, "again", op)
	e.wantFault(err, fault.InvalidState)
	_, err = e.Swaps.Restore(e.ctx, e.org, w.ID, audit.APIKey("key"))
	e.wantFault(err, fault.RefundNotReceived)
	e.lookWithChain("the end")
}

// Rule SWAP-26: what a person keeps stays in suspense.
func TestAStrayThatIsKeptStaysInSuspense(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.paid()
	e.deliver(w, amountOut)
	e.deliver(w, amountOut) // a second delivery
	e.wantStrays("AFTER_END")
	completed := books{
		"CUSTOMER 1": funded - amountIn, "CUSTOMER 3": amountOut, "SUSPENSE 3": amountOut, "SWAP_FEES_DUE 1": 750_000,
	}
	e.wantBooks(completed)
	stray := e.texts(`SELECT deposit_id FROM swap_arrivals WHERE role = 'STRAY'`)[0]
	_, err := e.Swaps.DecideArrival(e.ctx, stray, swap.KeepArrival, "theirs", audit.Operator("op"))
	e.must(err)
	e.look("the decision")
	e.wantBooks(completed)
	e.wantEvents(w.ID, "CUSTOMER_DEPOSIT")
	delivered := e.texts(`SELECT deposit_id FROM swap_arrivals WHERE role = 'DELIVERY'`)[0]
	_, err = e.Swaps.DecideArrival(e.ctx, delivered, swap.CreditArrival, "again", audit.Operator("op"))
	e.wantFault(err, fault.InvalidState)
}

// The second delivery of a completed swap can be credited: it leaves the claim alone.
func TestASecondDeliveryCanBeCredited(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.paid()
	e.deliver(w, amountOut, 10*million)
	e.want(w.ID, swap.Completed, swap.RefundNone)
	stray := e.texts(`SELECT deposit_id FROM swap_arrivals WHERE role = 'STRAY'`)
	if len(stray) == 0 {
		// Both became final at once, the small one first: they are parts.
		e.wantBooks(books{
			"CUSTOMER 1": funded - amountIn, "CUSTOMER 3": amountOut + 10*million,
			"SWAP_FEES_DUE 1": 750_000,
		})
		e.deliver(w, 10*million)
		stray = e.texts(`SELECT deposit_id FROM swap_arrivals WHERE role = 'STRAY'`)
	}
	before := e.number(`SELECT sum(amount)::bigint FROM deposits WHERE swap_id = $1`, w.ID)
	_, err := e.Swaps.DecideArrival(e.ctx, stray[0], swap.CreditArrival, "a gift", audit.Operator("op"))
	e.must(err)
	e.look("the decision")
	e.wantBooks(books{"CUSTOMER 1": funded - amountIn, "CUSTOMER 3": before, "SWAP_FEES_DUE 1": 750_000})
}

// strayLeast is a hundred dollars: less of another asset suspends no provider.
const strayLeast = 100 * million

// Rules SWAP-11 and SWAP-12: what no open swap expects is in suspense, and no organization hears of it.
func TestWhatNoSwapExpectsIsAStray(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		act       func(e *testEnv, w swap.Swap)
		status    swap.Status
		strays    []string
		books     books
		suspended bool
		events    []string
	}{
		"another asset at the delivery wallet": {
			func(e *testEnv, w swap.Swap) { e.arrive(w.DeliveryWalletID, dollars, strayLeast) }, swap.Processing,
			[]string{"OTHER_ASSET"},
			sum(atDesk, books{"SUSPENSE 1": strayLeast}), true, nil,
		},
		"less than a hundred dollars of another asset at the delivery wallet": {
			func(e *testEnv, w swap.Swap) { e.arrive(w.DeliveryWalletID, dollars, strayLeast-1) }, swap.Processing,
			[]string{"OTHER_ASSET"},
			sum(atDesk, books{"SUSPENSE 1": strayLeast - 1}), false, nil,
		},
		"a hundred dollars in the native coin": {
			func(e *testEnv, w swap.Swap) { e.arrive(w.DeliveryWalletID, ether, coin/30+1) }, swap.Processing,
			[]string{"OTHER_ASSET"},
			sum(atDesk, books{"SUSPENSE 2": coin/30 + 1}), true, nil,
		},
		"less than a hundred dollars in the native coin": {
			func(e *testEnv, w swap.Swap) { e.arrive(w.DeliveryWalletID, ether, coin/30) }, swap.Processing,
			[]string{"OTHER_ASSET"},
			sum(atDesk, books{"SUSPENSE 2": coin / 30}), false, nil,
		},
		"dust of another asset at the refund wallet": {
			func(e *testEnv, w swap.Swap) { e.arrive(w.RefundWalletID, euros, 1) }, swap.Processing,
			[]string{"OTHER_ASSET"},
			sum(atDesk, books{"SUSPENSE 3": 1}), false, nil,
		},
		"another asset without a price": {
			func(e *testEnv, w swap.Swap) {
				e.prices.forget(euros)
				e.arrive(w.RefundWalletID, euros, amountOut)
			}, swap.Processing, []string{"OTHER_ASSET"}, sum(atDesk, books{"SUSPENSE 3": amountOut}), false, nil,
		},
		"another asset together with the delivery": {
			func(e *testEnv, w swap.Swap) {
				e.net.Pay(solver, e.address(w.DeliveryWalletID), signertest.Token, strayLeast)
				e.deliver(w, amountOut)
			}, swap.Completed, []string{"OTHER_ASSET"}, books{
				"CUSTOMER 1": funded - amountIn, "CUSTOMER 3": amountOut, "SUSPENSE 1": strayLeast,
				"SWAP_FEES_DUE 1": 750_000,
			}, true, []string{"CUSTOMER_DEPOSIT"},
		},
		"another asset after the delivery": {
			func(e *testEnv, w swap.Swap) {
				e.deliver(w, amountOut)
				e.wait(time.Minute)
				e.arrive(w.DeliveryWalletID, dollars, amountIn)
			}, swap.Completed, []string{"OTHER_ASSET"}, books{
				"CUSTOMER 1": funded - amountIn, "CUSTOMER 3": amountOut, "SUSPENSE 1": amountIn,
				"SWAP_FEES_DUE 1": 750_000,
			}, false, []string{"CUSTOMER_DEPOSIT"},
		},
		"more than a tenth above the offer": {
			func(e *testEnv, w swap.Swap) { e.deliver(w, amountOut/10*11+1) }, swap.Processing,
			[]string{"TOO_MUCH"},
			sum(atDesk, books{"SUSPENSE 3": amountOut/10*11 + 1}), false, nil,
		},
		"more than a tenth above the offer, then the offer": {
			func(e *testEnv, w swap.Swap) { e.deliver(w, amountOut/10*11+1); e.deliver(w, amountOut) }, swap.Completed,
			[]string{"TOO_MUCH"},
			books{
				"CUSTOMER 1": funded - amountIn, "CUSTOMER 3": amountOut, "SUSPENSE " +
					"3": amountOut/10*11 + 1, "SWAP_FEES_DUE 1": 750_000,
			},
			false,
			[]string{"CUSTOMER_DEPOSIT"},
		},
		"a part, then too much": {
			func(e *testEnv, w swap.Swap) { e.deliver(w, 100*million); e.deliver(w, amountOut) }, swap.Processing,
			[]string{"TOO_MUCH"},
			sum(atDesk, books{"SUSPENSE 3": amountOut}), false, nil,
		},
		"the output at the refund wallet": {
			func(e *testEnv, w swap.Swap) { e.arrive(w.RefundWalletID, euros, amountOut) }, swap.Processing,
			[]string{"OTHER_ASSET"},
			sum(atDesk, books{"SUSPENSE 3": amountOut}), true, nil,
		},
		"a refund of more than was paid": {
			func(e *testEnv, w swap.Swap) { e.refund(w, amountIn+1) }, swap.Processing,
			[]string{"TOO_MUCH"},
			sum(atDesk, books{"SUSPENSE 1": amountIn + 1}), false, nil,
		},
		"a refund after the delivery": {
			func(e *testEnv, w swap.Swap) { e.deliver(w, amountOut); e.refund(w, amountIn) }, swap.Completed,
			[]string{"AFTER_END"},
			books{
				"CUSTOMER 1": funded - amountIn, "CUSTOMER 3": amountOut, "SUSPENSE 1": amountIn, "SWAP_FEES_DUE " +
					"1": 750_000,
			},
			false,
			[]string{"CUSTOMER_DEPOSIT"},
		},
		"a tenth above the offer is no stray": {
			func(e *testEnv, w swap.Swap) { e.deliver(w, amountOut/10*11) }, swap.Completed, nil, books{
				"CUSTOMER 1": funded - amountIn, "CUSTOMER 3": amountOut / 10 * 11, "SWAP_FEES_DUE 1": 750_000,
			}, false, []string{"CUSTOMER_DEPOSIT"},
		},
		"a part of a refund, then the delivery": {
			func(e *testEnv, w swap.Swap) { e.refund(w, million); e.deliver(w, amountOut) }, swap.Completed, nil, books{
				"CUSTOMER 1": funded - amountIn, "CUSTOMER 3": amountOut, "AT_PROVIDER 1": -million, "SWAP_FEES_DUE " +
					"1": 750_000,
			}, false, []string{"CUSTOMER_DEPOSIT"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t)
			w := e.paid()
			c.act(e, w)
			if got := e.load(w.ID); got.Status != c.status {
				t.Errorf("got %s, want %s", got.Status, c.status)
			}
			e.wantStrays(c.strays...)
			e.wantBooks(c.books)
			e.wantEvents(w.ID, c.events...)
			if isSuspended := e.suspension() != ""; isSuspended != c.suspended {
				t.Errorf("suspended: %q, want %v", e.suspension(), c.suspended)
			}
			e.lookWithChain("the end")
		})
	}
}

// A person who resumes a provider has seen what arrived before. Rule SWAP-28.
func TestAStrayThatAPersonHasSeenSuspendsNoOne(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.paid()
	e.arrive(w.DeliveryWalletID, dollars, strayLeast)
	if e.suspension() == "" {
		t.Fatal("a hundred dollars in another asset do not suspend its provider")
	}
	e.wait(time.Minute)
	e.must(e.Swaps.ResumeProvider(e.ctx, e.desk.name, "it was a mistake", audit.Operator("op")))
	e.turn()
	if e.suspension() != "" {
		t.Errorf("suspended again: %s", e.suspension())
	}
	e.arrive(w.DeliveryWalletID, dollars, strayLeast)
	if e.suspension() == "" {
		t.Error("a further one does not suspend its provider")
	}
}

// A stray that had no price is judged once it has one.
func TestAStrayIsJudgedOnceItHasAPrice(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.paid()
	known := e.prices.forget(dollars)
	e.arrive(w.DeliveryWalletID, dollars, strayLeast)
	if e.suspension() != "" {
		t.Fatalf("suspended without a price: %s", e.suspension())
	}
	e.prices.set(dollars, known)
	e.must(e.Swaps.JudgeStrays(e.ctx))
	if e.suspension() == "" {
		t.Error("a hundred dollars in another asset do not suspend its provider")
	}
}

// Strays count together: parts are no way around the tenth. Nine percent of a swap are no tenth, of whatever value.
func TestStraysOfASwapCountTogether(t *testing.T) {
	t.Parallel()
	e := newUnfunded(t, service.SwapConfig{})
	e.fund("ann", 2_000*million)
	r := request("key")
	r.AmountIn = fmt.Sprint(1_500 * million)
	w, _, err := e.Swaps.Request(e.ctx, e.org, r)
	e.must(err)
	e.pay(w.ID)
	w = e.load(w.ID)
	e.arrive(w.DeliveryWalletID, dollars, 135*million)
	if e.suspension() != "" {
		t.Fatalf("nine percent of the swap suspend its provider: %s", e.suspension())
	}
	e.arrive(w.DeliveryWalletID, dollars, 15*million-1)
	if e.suspension() != "" {
		t.Fatalf("one unit less than a tenth of the swap suspends its provider: %s", e.suspension())
	}
	e.arrive(w.DeliveryWalletID, ether, coin/25)
	if e.suspension() != "" {
		t.Fatalf("149 dollars of one mint and 120 of another suspend the provider: %s", e.suspension())
	}
	e.wait(10 * time.Minute)
	e.arrive(w.DeliveryWalletID, dollars, 1)
	if e.suspension() == "" {
		t.Error("a tenth of the swap in parts does not suspend its provider")
	}
}

// Eleven parts of nine percent are worth nearly a hundred dollars and suspend no one. With the twelfth they do.
func TestManyStraysOfNinePercentSuspendAtAHundredDollars(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	r := request("key")
	r.AmountIn = fmt.Sprint(100 * million)
	w, _, err := e.Swaps.Request(e.ctx, e.org, r)
	e.must(err)
	e.pay(w.ID)
	w = e.load(w.ID)
	e.arrive(w.DeliveryWalletID, dollars, slices.Repeat([]uint64{9 * million}, 11)...)
	if e.suspension() != "" {
		t.Fatalf("99 dollars suspend a provider: %s", e.suspension())
	}
	e.arrive(w.DeliveryWalletID, dollars, 9*million)
	if e.suspension() == "" {
		t.Error("108 dollars in another asset do not suspend the provider of a swap of a hundred")
	}
}

// A tiny swap suspends no one: a stranger could send a multiple of it for a dollar.
func TestStraysOfATinySwapSuspendNoOne(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	r := request("key")
	r.AmountIn = fmt.Sprint(million)
	w, _, err := e.Swaps.Request(e.ctx, e.org, r)
	e.must(err)
	e.pay(w.ID)
	w = e.load(w.ID)
	e.arrive(w.DeliveryWalletID, dollars, million/10, 50*million)
	if e.suspension() != "" {
		t.Errorf("strays of a swap of one dollar suspend its provider: %s", e.suspension())
	}
	e.wantStrays("OTHER_ASSET", "OTHER_ASSET")
}

func sum(a, b books) books {
	both := books{}
	for name, n := range a {
		both[name] += n
	}
	for name, n := range b {
		both[name] += n
	}
	return both
}

// Arrivals at wallets of a swap that this database does not have wait for a person, who can only keep them.
func TestArrivalsOfAnUnknownSwapAreKept(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	delivery, _ := signertest.SwapWallets(e.org, swap.ID(e.org, "lost"), chain.EVM, chain.EVM)
	w, err := e.Wallets.Address(e.ctx, delivery)
	e.must(err)
	e.arrive(w.ID, euros, amountOut)
	e.wantStrays("NO_SWAP")
	e.wantBooks(sum(whole, books{"SUSPENSE 3": amountOut}))
	stray := e.texts(`SELECT deposit_id FROM swap_arrivals`)[0]
	_, err = e.Swaps.DecideArrival(e.ctx, stray, swap.CreditArrival, "whose?", audit.Operator("op"))
	e.wantFault(err, fault.InvalidState)
	_, err = e.Swaps.DecideArrival(e.ctx, stray, swap.KeepArrival, "whose?", audit.Operator("op"))
	e.must(err)
	e.look("the decision")
}

// A provider may deliver before our payment is final: it has credit with us until then.
func TestADeliveryBeforeThePaymentIsFinalCompletesASwap(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.desk.says(provider.Waiting, provider.RefundNone)
	w := e.begin()
	e.turn() // the payment is in the pool
	payment := e.net.Mempool()
	if len(payment) != 1 {
		t.Fatalf("the pool has %d transactions, want the payment", len(payment))
	}
	e.want(w.ID, swap.Depositing, swap.RefundNone)
	delivery := e.net.Pay(solver, e.address(w.DeliveryWalletID), contractOf(euros), amountOut)
	e.net.MineOnly(delivery)
	e.net.MineEmpty(2)
	e.turn()
	e.look("the delivery")
	done := e.want(w.ID, swap.Completed, swap.RefundNone)
	if done.PaidAt != nil || done.OriginTxHash == nil || *done.OriginTxHash != payment[0] {
		t.Errorf("got paid %v by %v, want by %s and not yet final", deref(done.PaidAt), deref(done.OriginTxHash),
			payment[0])
	}
	e.wantBooks(books{
		"CUSTOMER 1": funded - amountIn, "CUSTOMER 3": amountOut, "AT_PROVIDER 1": -amountIn, "SWAP_FEES_DUE " +
			"1": 750_000,
	})
	e.pay(w.ID)
	e.want(w.ID, swap.Completed, swap.RefundNone)
	e.wantBooks(books{"CUSTOMER 1": funded - amountIn, "CUSTOMER 3": amountOut, "SWAP_FEES_DUE 1": 750_000})
	e.wantEvents(w.ID, "CUSTOMER_DEPOSIT")
	e.lookWithChain("the end")
}

// A delivery whose payment is never made: the completion stands, and we owe the provider.
func TestADeliveryWhosePaymentIsCancelledLeavesADebt(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.begin()
	e.turn()
	e.net.DropTx(e.net.Mempool()[0])
	e.deliver(w, amountOut)
	e.want(w.ID, swap.Completed, swap.RefundNone)
	e.cancel(w)
	e.want(w.ID, swap.Completed, swap.RefundNone)
	e.wantBooks(books{
		"CUSTOMER 1": funded - amountIn, "CUSTOMER 3": amountOut, "AT_PROVIDER 1": -amountIn, "SWAP_FEES_DUE " +
			"1": 750_000,
	})
	e.wantEvents(w.ID, "CUSTOMER_DEPOSIT")
}

// cancel lets time pass until dispatch cancels the payment of a swap, and lets the cancel become final.
func (e *testEnv) cancel(w swap.Swap) {
	e.Helper()
	for _, hash := range e.net.Mempool() {
		e.net.DropTx(hash)
	}
	e.wait(w.PayBy.Sub(e.clock()))
	for _, hash := range e.net.Mempool() {
		if _, isPayment := e.findPayment(w.ID, hash); isPayment {
			e.net.DropTx(hash)
		}
	}
	e.pass(6)
}

// findPayment reports whether a transaction pays for a swap.
func (e *testEnv) findPayment(swapID string, hash chain.TxHash) (chain.TxHash, bool) {
	e.Helper()
	return hash, e.number(
		`SELECT count(*) FROM dispatch_attempts WHERE order_id = $1 AND act = 'PAY'
			AND tx_hash = $2`, swapID, string(hash)) == 1
}

// Rule SWAP-20: a payment whose slot is used without paying leaves the whole amount here.
func TestASwapWhosePaymentIsCancelledFailsWithItsAmount(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.desk.says(provider.Waiting, provider.RefundNone)
	w := e.begin()
	e.turn()
	e.want(w.ID, swap.Depositing, swap.RefundNone)
	e.net.DropTx(e.net.Mempool()[0])
	e.deliver(w, million) // a part, which is no delivery
	e.want(w.ID, swap.Processing, swap.RefundNone)
	e.cancel(w)
	e.want(w.ID, swap.FailedStatus, swap.RefundComplete)
	e.wantReason(w.ID, swap.DeadlineExpired)
	e.wantBooks(sum(held, books{"SUSPENSE 3": million}))
	e.wantEvents(w.ID, "CUSTOMER_SWAP_FAILED")
	_, err := e.Swaps.Restore(e.ctx, e.org, w.ID, audit.APIKey("key"))
	e.must(err)
	e.wantBooks(sum(whole, books{"SUSPENSE 3": million}))
	e.refund(w, million) // of a payment that was never made
	e.wantStrays("AFTER_END", "WITHOUT_PAID")
	e.lookWithChain("the end")
}

// Rule SWAP-20: a payment that is never signed leaves the whole amount here, once the signer has journaled it.
func TestASwapWhosePaymentIsNotSignedFailsWithItsAmount(t *testing.T) {
	t.Parallel()
	refuse := func(e *testEnv) {
		e.signer.admit = func(i signer.Intent) error {
			if i.Purpose == signer.SwapPayment {
				return signer.Refuse(signer.PolicyLimit, "nothing is left for today")
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		before, after func(e *testEnv, w swap.Swap)
		reason        swap.FailureReason
		books         books
		strays        []string
	}{
		"the signer refuses": {func(e *testEnv, _ swap.Swap) { refuse(e) }, nil, swap.OriginTxFailed, held, nil},
		"the signer refuses, and a part of the output is here": {func(e *testEnv, w swap.Swap) {
			e.signer.admit = func(signer.Intent) error { return errDeskDown }
			e.net.Pay(solver, e.address(w.DeliveryWalletID), contractOf(euros), million)
			e.net.Mine(2)
			e.turn()
			e.want(w.ID, swap.Processing, swap.RefundNone)
			e.look("a part")
			refuse(e)
		}, func(e *testEnv, _ swap.Swap) { e.settle() }, swap.OriginTxFailed, sum(held, books{"SUSPENSE " +
			"3": million}), []string{"AFTER_END"}},
		"the signer refuses, and the whole output is here": {func(e *testEnv, w swap.Swap) {
			e.signer.admit = func(signer.Intent) error { return errDeskDown }
			e.net.Pay(solver, e.address(w.DeliveryWalletID), contractOf(euros), amountOut)
			e.net.Mine(2)
			e.turn()
			e.want(w.ID, swap.Pending, swap.RefundNone)
			e.look("an output")
			refuse(e)
		}, func(e *testEnv, _ swap.Swap) { e.settle() }, swap.OriginTxFailed, sum(held, books{"SUSPENSE " +
			"3": amountOut}), []string{"AFTER_END"}},
		"the signer refuses, and something is at the refund wallet": {func(e *testEnv, w swap.Swap) {
			e.signer.admit = func(signer.Intent) error { return errDeskDown }
			e.net.Pay(solver, e.address(w.RefundWalletID), contractOf(dollars), 1)
			e.net.Mine(2)
			e.turn()
			e.want(w.ID, swap.Pending, swap.RefundNone)
			e.look("dust")
			refuse(e)
		}, func(e *testEnv, _ swap.Swap) { e.settle() }, swap.OriginTxFailed, sum(held, books{"SUSPENSE " +
			"1": 1}), []string{"WITHOUT_PAID"}},
		"its time is over in the queue": {func(e *testEnv, w swap.Swap) {
			e.signer.admit = func(signer.Intent) error { return errDeskDown }
			e.turn()
			e.mu.Lock()
			e.now = w.PayBy
			e.mu.Unlock()
		}, nil, swap.DeadlineExpired, held, nil},
		"a person recalls it": {func(e *testEnv, w swap.Swap) {
			_, err := e.DispatchWorker.CancelOrder(e.ctx, w.ID, audit.Operator("op"))
			e.must(err)
		}, nil, swap.OriginTxFailed, held, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t)
			w := e.begin()
			c.before(e, w)
			e.pass(4)
			if c.after != nil {
				c.after(e, w)
			}
			e.want(w.ID, swap.FailedStatus, swap.RefundComplete)
			e.wantReason(w.ID, c.reason)
			e.wantBooks(c.books)
			e.wantStrays(c.strays...)
			e.wantEvents(w.ID, "CUSTOMER_SWAP_FAILED")
			e.signer.admit = nil
			e.pass(4)
			if got := e.net.Received(chain.Address(w.DepositAddress), signertest.Token); !got.IsZero() {
				t.Errorf("the provider received %v, want nothing", got)
			}
			_, err := e.Swaps.Restore(e.ctx, e.org, w.ID, audit.APIKey("key"))
			e.must(err)
			e.look("the restore")
			e.lookWithChain("the end")
		})
	}
}

// A treasury without funds lets the payment wait until its time is over.
func TestASwapThatTheTreasuryCannotPayEndsAtItsTime(t *testing.T) {
	t.Parallel()
	e := newUnswept(t)
	w := e.begin()
	e.dispatchOnly(4)
	e.want(w.ID, swap.Pending, swap.RefundNone)
	e.mu.Lock()
	e.now = w.PayBy
	e.mu.Unlock()
	e.dispatchOnly(2)
	e.must(e.Voider.RunPass(e.ctx))
	e.want(w.ID, swap.FailedStatus, swap.RefundComplete)
	e.wantReason(w.ID, swap.DeadlineExpired)
	e.wantBooks(held)
	e.look("the end")
}

// Each handler may be called again after a crash, and changes nothing then.
func TestHandlersThatAreRepeatedChangeNothing(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.paid()
	again := func() {
		e.Helper()
		e.turn()
		e.must(e.Swaps.Look(e.ctx, w.ID))
		e.must(e.Swaps.Look(e.ctx, w.ID))
		e.must(e.Voider.RunPass(e.ctx))
		_, err := e.open(e.db).Deposits.SettleArrivals(e.ctx)
		e.must(err)
		e.look("a repetition")
	}
	again()
	e.wantBooks(atDesk)
	if n := e.number(`SELECT count(*) FROM swap_reports`); n != 1 {
		t.Errorf("the same report is stored %d times, want once", n)
	}
	e.deliver(w, amountOut)
	again()
	e.wantBooks(books{"CUSTOMER 1": funded - amountIn, "CUSTOMER 3": amountOut, "SWAP_FEES_DUE 1": 750_000})
	e.wantEvents(w.ID, "CUSTOMER_DEPOSIT")
	// An answer of the void that comes again finds a swap that has ended.
	e.inSystem(func(ctx context.Context, tx pg.Tx) error { return e.Swaps.OnVoided(ctx, tx, e.org, w.ID) })
	e.want(w.ID, swap.Completed, swap.RefundNone)
	if _, err := e.Swaps.LookNow(e.ctx, w.ID, audit.Operator("op")); err != nil {
		t.Error(err)
	}
	again()
	e.want(w.ID, swap.Completed, swap.RefundNone)
}

// Deliveries and failures that meet: whichever commits first decides, and the books agree.
func TestADeliveryAndAFailureThatMeetHaveOneEnd(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.paid()
	e.desk.says(provider.Failed, provider.RefundNone)
	e.wait(time.Minute)
	e.wait(4*time.Minute + 30*time.Second)
	e.net.Pay(solver, e.address(w.DeliveryWalletID), contractOf(euros), amountOut)
	e.mu.Lock()
	e.now = e.now.Add(time.Minute)
	e.mu.Unlock()
	e.net.SkipTime(time.Minute)
	e.net.Mine(2)
	for _, step := range e.ListSteps(nil)[:4] {
		e.must(step.Run(e.ctx))
	}
	other := e.open(e.db)
	errs := make(chan error, 2)
	go func() { errs <- e.Swaps.Look(e.ctx, w.ID) }()
	go func() { _, err := other.Deposits.SettleArrivals(e.ctx); errs <- err }()
	e.must(errors.Join(<-errs, <-errs))
	e.turn()
	e.look("both")
	switch got := e.load(w.ID); got.Status {
	case swap.Completed:
		e.wantEvents(w.ID, "CUSTOMER_DEPOSIT")
	case swap.FailedStatus:
		e.wantEvents(w.ID, "CUSTOMER_SWAP_FAILED")
		e.wantStrays("AFTER_END")
	default:
		t.Errorf("the swap is %s, want an end", got.Status)
	}
}

// Rule SWAP-21: neither the word of the provider nor an operator fails a swap whose delivery is final and waits.
func TestADeliveryThatWaitsIsNotAFailure(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.paid()
	e.inSystem(func(ctx context.Context, tx pg.Tx) error { return mint.Quarantine(ctx, tx, euros, "a test") })
	e.deliver(w, amountOut)
	e.desk.says(provider.Failed, provider.RefundNone)
	e.wait(time.Minute)
	e.wait(10 * time.Minute)
	e.turn()
	e.want(w.ID, swap.Processing, swap.RefundNone)
	e.wait(25 * time.Hour)
	_, err := e.Swaps.Fail(e.ctx, w.ID, "it takes long", audit.Operator("op"))
	e.wantFault(err, fault.InvalidState)
	e.inSystem(func(ctx context.Context, tx pg.Tx) error {
		return mint.ReleaseQuarantine(ctx, tx, euros, audit.Operator("op"), "a test")
	})
	e.turn()
	e.want(w.ID, swap.Completed, swap.RefundNone)
	e.wantEvents(w.ID, "CUSTOMER_SWAP_DELAYED", "CUSTOMER_DEPOSIT")
}

// Rule SWAP-12: anyone can send dust to a refund wallet, and the refund counts nevertheless.
func TestDustLeavesTheRefundWhole(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.paid()
	e.refund(w, amountIn/1000-1)
	e.wantStrays("TOO_SMALL")
	e.want(w.ID, swap.Processing, swap.RefundNone)
	e.refund(w, amountIn/1000)
	e.want(w.ID, swap.Processing, swap.RefundPartial)
	e.refund(w, amountIn-amountIn/1000)
	e.want(w.ID, swap.FailedStatus, swap.RefundComplete)
	e.wantBooks(books{"CUSTOMER 1": funded - amountIn, "IN_SWAP 1": amountIn, "SUSPENSE 1": amountIn/1000 - 1})
	e.wantStrays("TOO_SMALL")
}

// Rules SWAP-25 and SWAP-26: late deliveries end the claim when they reach the minimum, and not before.
func TestALittleLateDeliveryEndsNoClaim(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.failed()
	credit := func() {
		e.Helper()
		stray := e.texts(`SELECT deposit_id FROM swap_arrivals WHERE decision IS NULL`)[0]
		_, err := e.Swaps.DecideArrival(e.ctx, stray, swap.CreditArrival, "late", audit.Operator("op"))
		e.must(err)
		e.look("a decision")
	}
	e.deliver(w, million)
	credit()
	e.wantBooks(books{
		"CUSTOMER 1": funded - amountIn, "CUSTOMER 3": million, "IN_SWAP 1": amountIn, "AT_PROVIDER 1": amountIn,
	})
	e.deliver(w, amountOut-million)
	credit()
	e.wantBooks(books{"CUSTOMER 1": funded - amountIn, "CUSTOMER 3": amountOut})
}

// Rule SWAP-8: a provider that may keep more than a tenth of a refund gets no payment.
func TestAnOfferThatKeepsTheRefundIsNotTaken(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.desk.change = func(_ provider.Ask, q *quotetest.OneClick) { q.RefundFee = units(amountIn/10 + 1) }
	_, _, err := e.Swaps.Request(e.ctx, e.org, request("key"))
	e.wantFault(err, fault.QuoteRejected)
	e.wantNothing()
	e.desk.change = func(_ provider.Ask, q *quotetest.OneClick) { q.RefundFee = units(amountIn / 10) }
	_, _, err = e.Swaps.Request(e.ctx, e.org, request("key"))
	e.must(err)
}

// Rule SWAP-12: what comes to the refund wallet before our payment is final waits for it.
func TestARefundBeforeThePaymentIsFinalWaits(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.desk.says(provider.Waiting, provider.RefundNone)
	w := e.begin()
	e.turn() // the payment is in the pool
	refund := e.net.Pay(solver, e.address(w.RefundWalletID), contractOf(dollars), amountIn)
	e.net.MineOnly(refund)
	e.net.MineEmpty(2)
	e.turn()
	e.look("the early refund")
	e.want(w.ID, swap.Depositing, swap.RefundNone)
	e.wantStrays()
	e.pay(w.ID)
	e.turn()
	e.want(w.ID, swap.FailedStatus, swap.RefundComplete)
	e.wantBooks(held)
	e.lookWithChain("the end")
}

// Rule SWAP-13: parts that do not reach the minimum together wait, and the half hour is that of the last one.
func TestPartsBelowTheMinimumWaitForTheLastOne(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.paid()
	e.desk.says(provider.Success, provider.RefundNone)
	e.deliver(w, 100*million, 50*million)
	e.want(w.ID, swap.Processing, swap.RefundNone)
	e.wantBooks(atDesk)
	e.wait(29 * time.Minute)
	e.deliver(w, 50*million)
	e.wait(2 * time.Minute)
	e.want(w.ID, swap.Processing, swap.RefundNone)
	e.wait(29 * time.Minute)
	done := e.want(w.ID, swap.Completed, swap.RefundNone)
	if done.AmountOut.String() != "200000000" {
		t.Errorf("got %v out, want 200000000", done.AmountOut)
	}
}

// Rule SWAP-20: a refund that is counted while the provider is asked is a part of what its failure shows.
func TestARefundWhileTheProviderIsAskedCounts(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.paid()
	e.desk.says(provider.Failed, provider.RefundPending)
	e.wait(time.Minute)
	e.want(w.ID, swap.Processing, swap.RefundPending)
	isAsked, hasRefund := make(chan struct{}), make(chan struct{})
	e.desk.set(func() {
		report := e.desk.report(provider.Failed, provider.RefundPending)
		e.desk.status = func(provider.Ref) (provider.Report, error) {
			close(isAsked)
			<-hasRefund
			return report, nil
		}
	})
	e.setClock(e.clock().Add(7 * time.Minute))
	e.net.SkipTime(7 * time.Minute)
	looked := make(chan error, 1)
	go func() { looked <- e.Swaps.Look(e.ctx, w.ID) }()
	<-isAsked
	e.net.Pay(solver, e.address(w.RefundWalletID), contractOf(dollars), 100*million)
	e.net.Mine(2)
	e.runSteps("swaps")
	close(hasRefund)
	e.must(<-looked)
	e.desk.says(provider.Failed, provider.RefundPending)
	e.turn()
	e.want(w.ID, swap.FailedStatus, swap.RefundPartial)
	e.wantBooks(books{"CUSTOMER 1": funded - amountIn, "IN_SWAP 1": amountIn, "AT_PROVIDER 1": 200 * million})
	e.look("the end")
}

// Rule SWAP-12: where refunds are restored at once, the signed fee of a whole refund ends with the claim, too.
func TestTheFeeOfARefundEndsAlsoWhereItIsRestoredAtOnce(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.setting("autoRestoreFailedSwaps", "true")
	e.desk.change = func(_ provider.Ask, q *quotetest.OneClick) { q.RefundFee = units(2 * million) }
	w := e.paid()
	e.refund(w, amountIn-2*million)
	e.want(w.ID, swap.FailedStatus, swap.RefundRestored)
	e.wantBooks(books{"CUSTOMER 1": funded - 2*million})
	e.lookWithChain("the end")
}

// Rule SWAP-4: a freeze that commits while the provider makes its offer stops the swap.
func TestAFreezeDuringTheOfferStopsTheSwap(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	r := request("key")
	e.desk.firm = func(provider.Ask) error {
		return e.db.InSystem(e.ctx, func(ctx context.Context, tx pg.Tx) error {
			return freeze.Create(ctx, tx, freeze.Freeze{
				OrgID: e.org, Scope: freeze.ScopeCustomer, CustomerID: r.CustomerID, Reason: "a test",
				Source: freeze.SourceOperator,
				Actor:  audit.Operator("op"),
			})
		})
	}
	_, _, err := e.Swaps.Request(e.ctx, e.org, r)
	e.wantFault(err, fault.CustomerFrozen)
	e.wantNothing()
}

// Rule SWAP-4: a freeze or a switch whose change is not committed yet stops the swap that waits for it.
func TestAChangeDuringTheOfferIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(ctx context.Context, tx pg.Tx, e *testEnv) error
		want   fault.Code
	}{
		"the swaps are switched off": {func(ctx context.Context, tx pg.Tx, e *testEnv) error {
			_, err := org.ChangeSettings(ctx, tx, audit.Operator("op"), e.org,
				org.Changes{"customerSwapsEnabled": []byte("false")})
			return err
		}, fault.SwapsDisabled},
		"the customer is frozen": {func(ctx context.Context, tx pg.Tx, e *testEnv) error {
			return freeze.Create(ctx, tx, freeze.Freeze{
				OrgID: e.org, Scope: freeze.ScopeCustomer, CustomerID: "ann", Reason: "a test",
				Source: freeze.SourceOperator, Actor: audit.Operator("op"),
			})
		}, fault.CustomerFrozen},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newUnswept(t)
			owner := pgtest.OwnerPool(t, e.db)
			asked, end := e.holdFirm(nil, nil)
			making := e.start(e.Swaps, request("key"))
			<-asked
			var once sync.Once
			e.inSystem(func(ctx context.Context, tx pg.Tx) error {
				if err := c.change(ctx, tx, e); err != nil {
					return err
				}
				once.Do(end)
				pgtest.Eventually(t, func() bool {
					var n int
					e.must(owner.QueryRow(e.ctx, `SELECT count(*) FROM pg_stat_activity
						WHERE datname = current_database() AND wait_event = 'advisory'`).Scan(&n))
					return n > 0 || len(making) > 0
				}, "the swap waits for the change")
				return nil
			})
			e.wantFault((<-making).err, c.want)
			e.wantNothing()
		})
	}
}
