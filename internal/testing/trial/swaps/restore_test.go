package swaps

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/swap/provider"
)

// Rule SWAP-30: what came back is restored once, for all callers.
func TestARefundIsRestoredOnce(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.begin()
	_, err := e.Swaps.Restore(e.ctx, e.org, w.ID, audit.APIKey("key"))
	if f := e.wantFault(err, fault.InvalidState); f.Extra["currentStatus"] != "PENDING" {
		t.Errorf("got the status %v, want PENDING", f.Extra["currentStatus"])
	}
	e.pay(w.ID)
	e.desk.says(provider.Failed, provider.RefundPending)
	e.wait(time.Minute)
	e.wait(6 * time.Minute)
	e.turn()
	e.want(w.ID, swap.FailedStatus, swap.RefundPending)
	_, err = e.Swaps.Restore(e.ctx, e.org, w.ID, audit.APIKey("key"))
	e.wantFault(err, fault.RefundNotReceived)
	_, err = e.Swaps.Restore(e.ctx, "org_other", w.ID, audit.APIKey("key"))
	e.wantFault(err, fault.CodeNotFound)
	e.wantBooks(atDesk)
	e.refund(w, 100*million)

	// Nothing leaves a balance: it works while swaps are switched off and the organization is frozen.
	e.setting("customerSwapsEnabled", "false")
	e.inSystem(func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeOrganization, OrgID: e.org, Source: freeze.SourceOperator, Reason: "test",
			Actor: audit.Operator("op"),
		})
	})
	other := e.open(e.db)
	restoreAll := func(want uint64) {
		t.Helper()
		const callers = 16
		errs := make([]error, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				s := e.Swaps
				if i%2 == 1 {
					s = other.Swaps
				}
				var restored swap.Swap
				restored, errs[i] = s.Restore(e.ctx, e.org, w.ID, audit.APIKey("key"))
				if errs[i] == nil && restored.Restored != units(want) {
					errs[i] = fmt.Errorf("restored %v, want %d", restored.Restored, want)
				}
			})
		}
		wg.Wait()
		for i, err := range errs {
			if err != nil {
				t.Errorf("caller %d: %v", i, err)
			}
		}
		e.look("the restores")
	}
	restoreAll(100 * million)
	e.want(w.ID, swap.FailedStatus, swap.RefundRestored)
	e.wantBooks(books{"CUSTOMER 1": funded - 200*million, "IN_SWAP 1": 200 * million, "AT_PROVIDER 1": 200 * million})
	e.refund(w, 200*million)
	e.want(w.ID, swap.FailedStatus, swap.RefundComplete)
	restoreAll(amountIn)
	e.wantBooks(whole)
	if n := e.number(`SELECT count(*) FROM ledger_transfers WHERE cause_kind = 'SWAP_RESTORE'`); n != 2 {
		t.Errorf("got %d postings of restores, want 2", n)
	}
	if n := e.number(`SELECT count(*) FROM audit_log WHERE action = 'swap.restored'`); n != 2 {
		t.Errorf("got %d audit rows of restores, want 2", n)
	}
}

// Rule SWAP-30: where the organization wants that, what comes back is restored at once.
func TestWhatComesBackIsRestoredAtOnceWhereThatIsSet(t *testing.T) {
	t.Parallel()
	t.Run("with the failure", func(t *testing.T) {
		t.Parallel()
		e := newTestEnv(t)
		e.setting("autoRestoreFailedSwaps", "true")
		w := e.paid()
		e.refund(w, 100*million)
		e.wantBooks(books{"CUSTOMER 1": funded - amountIn, "IN_SWAP 1": amountIn, "AT_PROVIDER 1": 200 * million})
		e.refund(w, 200*million)
		e.want(w.ID, swap.FailedStatus, swap.RefundRestored)
		e.wantBooks(whole)
		e.wantEvents(w.ID, "CUSTOMER_SWAP_FAILED")
	})
	t.Run("after the failure", func(t *testing.T) {
		t.Parallel()
		e := newTestEnv(t)
		e.setting("autoRestoreFailedSwaps", "true")
		w := e.failed()
		e.wantBooks(atDesk)
		e.refund(w, 100*million)
		e.want(w.ID, swap.FailedStatus, swap.RefundRestored)
		e.refund(w, 200*million)
		e.wantBooks(whole)
		e.wantEvents(w.ID, "CUSTOMER_SWAP_FAILED", "CUSTOMER_SWAP_REFUNDED", "CUSTOMER_SWAP_REFUNDED")
	})
	t.Run("without a payment", func(t *testing.T) {
		t.Parallel()
		e := newTestEnv(t)
		e.setting("autoRestoreFailedSwaps", "true")
		w := e.begin()
		_, err := e.DispatchWorker.CancelOrder(e.ctx, w.ID, audit.Operator("op"))
		e.must(err)
		e.turn()
		e.want(w.ID, swap.FailedStatus, swap.RefundRestored)
		e.wantBooks(whole)
		e.look("the end")
	})
}

// Rule SWAP-24: an operator ends a swap once its time is over, and its claim stays open.
func TestAnOperatorEndsASwapOnceItsTimeIsOver(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	op := audit.Operator("op")
	w := e.begin()
	_, err := e.Swaps.Fail(e.ctx, w.ID, "stuck", op)
	e.wantFault(err, fault.InvalidState)
	e.pay(w.ID)
	_, err = e.Swaps.Fail(e.ctx, w.ID, "", op)
	e.wantFault(err, fault.InvalidRequest)
	_, err = e.Swaps.Fail(e.ctx, "cs_nothing", "stuck", op)
	e.wantFault(err, fault.CodeNotFound)
	for _, early := range []time.Duration{0, 23 * time.Hour} { // before the deadline, and before it is stuck
		e.wait(early)
		_, err = e.Swaps.Fail(e.ctx, w.ID, "stuck", op)
		e.wantFault(err, fault.InvalidState)
	}
	e.inSystem(func(ctx context.Context, tx pg.Tx) error {
		_, err := e.Swaps.WriteOff(ctx, tx, w.ID, "gone", op)
		e.wantFault(err, fault.InvalidState)
		return nil
	})
	e.wait(90 * time.Minute)
	failed, err := e.Swaps.Fail(e.ctx, w.ID, "stuck", op)
	e.must(err)
	e.look("the end")
	if failed.Status != swap.FailedStatus || deref(failed.FailureReason) != "UNKNOWN" {
		t.Errorf("got %s for %v, want FAILED for UNKNOWN", failed.Status, deref(failed.FailureReason))
	}
	_, err = e.Swaps.Fail(e.ctx, w.ID, "again", op)
	e.wantFault(err, fault.InvalidState)
	e.wantBooks(atDesk)
	e.refund(w, 100*million)
	claims, err := e.Swaps.ListAll(e.ctx, swap.OperatorFilter{OpenClaims: true, Provider: e.desk.name, OrgID: e.org},
		pagination.Page{Limit: 10})
	e.must(err)
	if len(claims.Items) != 1 || claims.Items[0].ID != w.ID {
		t.Errorf("got %d open claims, want that of the swap", len(claims.Items))
	}

	// Rule SWAP-25: what never comes is written off, and the customer's held amount with it.
	e.inSystem(func(ctx context.Context, tx pg.Tx) error {
		_, err := e.Swaps.WriteOff(ctx, tx, w.ID, "gone", op)
		return err
	})
	e.look("the write-off")
	e.want(w.ID, swap.FailedStatus, swap.RefundComplete)
	e.wantBooks(books{"CUSTOMER 1": funded - amountIn, "IN_SWAP 1": 100 * million})
	e.inSystem(func(ctx context.Context, tx pg.Tx) error {
		_, err := e.Swaps.WriteOff(ctx, tx, w.ID, "gone", op)
		e.wantFault(err, fault.InvalidState)
		return nil
	})
	_, err = e.Swaps.Restore(e.ctx, e.org, w.ID, audit.APIKey("key"))
	e.must(err)
	e.wantBooks(books{"CUSTOMER 1": funded - 200*million})
	e.refund(w, 200*million) // it comes after all
	e.wantStrays("TOO_MUCH")
	e.wantEvents(w.ID, "CUSTOMER_SWAP_DELAYED", "CUSTOMER_SWAP_FAILED", "CUSTOMER_SWAP_REFUNDED")
	claims, err = e.Swaps.ListAll(e.ctx, swap.OperatorFilter{OpenClaims: true}, pagination.Page{Limit: 10})
	e.must(err)
	if len(claims.Items) != 0 {
		t.Errorf("got %d open claims, want none", len(claims.Items))
	}
	strays, err := e.Swaps.ListStrays(e.ctx, true, pagination.Page{Limit: 10})
	e.must(err)
	if len(strays.Items) != 1 || strays.Items[0].SwapID != w.ID || strays.Items[0].CustomerID != "ann" {
		t.Errorf("got the strays %+v, want the late refund", strays.Items)
	}
	detail, err := e.Swaps.ByIDForOperator(e.ctx, w.ID)
	e.must(err)
	if len(detail.Arrivals) != 2 || len(detail.Reports) == 0 || detail.ProviderAddress != w.DepositAddress {
		t.Errorf("got %d arrivals and %d reports of %s", len(detail.Arrivals), len(detail.Reports),
			detail.ProviderAddress)
	}
}

// A person suspends and resumes a provider. A suspended one gets no new swaps, and its open ones
// are followed.
func TestAPersonSuspendsAndResumesAProvider(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	op := audit.Operator("op")
	e.wantFault(e.Swaps.SuspendProvider(e.ctx, e.desk.name, "", op), fault.InvalidRequest)
	e.wantFault(e.Swaps.SuspendProvider(e.ctx, "UNKNOWN", "why", op), fault.CodeNotFound)
	e.wantFault(e.Swaps.ResumeProvider(e.ctx, "UNKNOWN", "why", op), fault.CodeNotFound)
	e.must(e.Swaps.ResumeProvider(e.ctx, e.desk.name, "nothing to lift", op))
	r := request("one")
	r.AmountIn = "100000000"
	w, _, err := e.Swaps.Request(e.ctx, e.org, r)
	e.must(err)
	e.must(e.Swaps.SuspendProvider(e.ctx, e.desk.name, "first", op))
	e.must(e.Swaps.SuspendProvider(e.ctx, e.desk.name, "second", op))
	if e.suspension() != "first" {
		t.Errorf("suspended for %q, want the first reason", e.suspension())
	}
	r.IdempotencyKey = "two"
	_, _, err = e.Swaps.Request(e.ctx, e.org, r)
	e.wantFault(err, fault.QuoteRejected)
	e.pay(w.ID)
	e.deliver(w, 99_500_000)
	e.want(w.ID, swap.Completed, swap.RefundNone)
	states, err := e.Swaps.ListProviders(e.ctx)
	e.must(err)
	if len(states) != 1 || !states[0].IsSuspended || states[0].OpenSwaps != 0 || states[0].ChangedBy != "OPERATOR op" {
		t.Errorf("got the providers %+v", states)
	}
	e.must(e.Swaps.ResumeProvider(e.ctx, e.desk.name, "seen", op))
	if _, _, err := e.Swaps.Request(e.ctx, e.org, r); err != nil {
		t.Errorf("after the suspension: %v", err)
	}
	if n := e.number(`SELECT count(*) FROM audit_log WHERE resource_kind = 'SWAP_PROVIDER'`); n != 2 {
		t.Errorf("got %d audit rows of the provider, want 2", n)
	}
}

func TestSwapsAreListedAsAskedFor(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	first := e.begin()
	e.pass(1)
	r := request("second")
	r.Metadata = map[string]string{"order": "7"}
	second, _, err := e.Swaps.Request(e.ctx, e.org, r)
	e.must(err)
	for name, c := range map[string]struct {
		filter swap.Filter
		want   []string
	}{
		"all":            {swap.Filter{}, []string{first.ID, second.ID}},
		"a customer":     {swap.Filter{CustomerID: "ann"}, []string{first.ID, second.ID}},
		"another one":    {swap.Filter{CustomerID: "bob"}, nil},
		"a key":          {swap.Filter{IdempotencyKey: "second"}, []string{second.ID}},
		"a status":       {swap.Filter{Status: "COMPLETED"}, nil},
		"to be restored": {swap.Filter{ToRestore: true}, nil},
		"a time":         {swap.Filter{CreatedAfter: first.CreatedAt}, []string{second.ID}},
		"an earlier one": {swap.Filter{CreatedBefore: second.CreatedAt}, []string{first.ID}},
	} {
		page, err := e.Swaps.List(e.ctx, e.org, c.filter, pagination.Page{Limit: 10})
		e.must(err)
		var got, all []string
		for _, w := range page.Items {
			got = append(got, w.ID)
		}
		e.must(e.Swaps.ForEach(e.ctx, e.org, c.filter, false, func(w swap.Swap) error {
			all = append(all, w.ID)
			return nil
		}))
		if fmt.Sprint(got) != fmt.Sprint(c.want) || fmt.Sprint(all) != fmt.Sprint(c.want) {
			t.Errorf("%s: got %v and %v, want %v", name, got, all, c.want)
		}
	}
	if got := e.load(second.ID).Metadata["order"]; got != "7" {
		t.Errorf("got the metadata %q, want 7", got)
	}
}
