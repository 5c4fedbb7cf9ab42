package withdrawal

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
)

// Rule WD-24.
func TestCancelGivesTheMoneyBackOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	held := h.requestHeld()
	key := audit.APIKey(h.org)
	w, err := h.Cancel(t.Context(), h.org, held.ID, key)
	if err != nil || w.Status != "CANCELLED" || w.ChainStatus != "NONE" || w.RejectedReason != nil {
		t.Fatalf("got %+v %v, want it cancelled", w, err)
	}
	h.wantBalances("1000000", "0")
	_, err = h.Cancel(t.Context(), h.org, held.ID, key)
	wantFault(t, err, fault.InvalidState)
	if fault.Find(err).Extra["currentStatus"] != "CANCELLED" {
		t.Errorf("again: got %v, want the current status", fault.Find(err).Extra)
	}
	h.wantBalances("1000000", "0")
	h.wantEvents(
		w.ID, "CUSTOMER_WITHDRAW_AWAITING_APPROVAL AWAITING_APPROVAL",
		"CUSTOMER_WITHDRAW_CANCELLED CANCELLED",
	)

	out := h.mustRequest(h.newRequest())
	_, err = h.Cancel(t.Context(), h.org, out.ID, key)
	wantFault(t, err, fault.InvalidState)
	if fault.Find(err).Extra["currentStatus"] != "PROCESSING" {
		t.Errorf("under way: got %v, want the current status", fault.Find(err).Extra)
	}
	if got := h.orderStatus(out.ID); got != "QUEUED" {
		t.Errorf("order: got %v, want QUEUED", got)
	}
	h.wantBalances("999000", "1000")
}

// A withdrawal that the signer returned has an order, which ends with it. A frozen customer still
// gets the amount back.
func TestCancelEndsWhatTheSignerSentBack(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	w := h.requestReturned(h.newRequest(), &signer.Refusal{Code: signer.PolicyLimit, Message: "too much"})
	h.inSystem(func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeCustomer, OrgID: h.org, CustomerID: alice, Source: freeze.SourceOperator,
			Reason: "test", Actor: audit.Operator("op"),
		})
	})
	if _, err := h.Cancel(t.Context(), h.org, w.ID, audit.APIKey(h.org)); err != nil {
		t.Fatal(err)
	}
	if got := h.orderStatus(w.ID); got != "WITHDRAWN" {
		t.Errorf("order: got %v, want WITHDRAWN", got)
	}
	h.wantBalances("1000000", "0")
	pgtest.ExpectLockException(t, h.DB, "withdrawal.Service.endWaiting")
}

// requestWaiting makes a withdrawal whose order dispatch could not give a slot, for a wait reason.
func (h *testEnv) requestWaiting(want dispatch.WaitReason) Withdrawal {
	h.t.Helper()
	w := h.mustRequest(h.newRequest())
	h.inSystem(func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE dispatch_orders SET waiting_for = $2 WHERE order_id = $1`, w.ID, want)
		return err
	})
	return w
}

// Members of the organization and the operator can end a withdrawal without a slot, for every wait
// reason. The hold is released once. Rule WD-43.
func TestPeopleEndAWithdrawalWhateverItWaitsFor(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for _, want := range dispatch.WaitReasons {
		if want == dispatch.WaitNone {
			continue // it gets its slot soon, or a reason to wait
		}
		for _, c := range []struct {
			status, event, action string
			by                    audit.Actor
			do                    func(id string) error
		}{
			{
				"CANCELLED", "CUSTOMER_WITHDRAW_CANCELLED", "withdrawal.cancelled", audit.APIKey(h.org),
				func(id string) error {
					_, err := h.Cancel(t.Context(), h.org, id, audit.APIKey(h.org))
					return err
				},
			},
			{"REJECTED", "CUSTOMER_WITHDRAW_REJECTED", "withdrawal.removed", person, func(id string) error {
				_, err := h.Remove(t.Context(), h.org, id, person, "why")
				return err
			}},
			{
				"REJECTED", "CUSTOMER_WITHDRAW_REJECTED", "withdrawal.removed", audit.Operator("op"),
				func(id string) error {
					err := h.DB.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
						taken, err := dispatch.Recall(ctx, tx, id)
						if err != nil || !taken {
							return errors.Join(err, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
								"it is not in the queue"))
						}
						return h.OnRecalled(ctx, tx, dispatch.Order{ID: id, OrgID: h.org}, audit.Operator("op"))
					})
					if err != nil {
						return err
					}
					return h.Voider.FinishVoid(t.Context(), id)
				},
			},
		} {
			w := h.requestWaiting(want)
			h.wantBalances("999000", "1000")
			if err := c.do(w.ID); err != nil {
				t.Fatalf("%s while it waits for %s: %v", c.action, want, err)
			}
			if err := c.do(w.ID); !fault.HasCode(err, fault.InvalidState) {
				t.Errorf("%s again: got %v, want INVALID_STATE", c.action, err)
			}
			h.wantBalances("1000000", "0")
			h.wantEvents(w.ID, c.event+" "+c.status)
			if got := h.orderStatus(w.ID); got != "WITHDRAWN" {
				t.Errorf("%s while it waits for %s: the order is %s, want WITHDRAWN", c.action, want, got)
			}
			if all := h.loadDecisions(w.ID); len(all) != 2 || string(all[1].Status) != c.status ||
				all[1].Actor != c.by {
				t.Errorf("decisions: got %+v, want the request and the end by %v", all, c.by)
			}
		}
	}
	pgtest.ExpectLockException(t, h.DB, "dispatch.Voider.tryFinishVoid")
}

// Rule WD-43. A withdrawal that has its slot, or is about to get it, cannot be ended.
func TestNobodyEndsAWithdrawalThatDoesNotWait(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	w := h.mustRequest(h.newRequest())
	for _, act := range []func() error{
		func() error { _, err := h.Cancel(t.Context(), h.org, w.ID, audit.APIKey(h.org)); return err },
		func() error { _, err := h.Remove(t.Context(), h.org, w.ID, person, ""); return err },
	} {
		err := act()
		wantFault(t, err, fault.InvalidState)
		if fault.Find(err).Extra["currentStatus"] != "PROCESSING" {
			t.Errorf("got %v, want the current status", fault.Find(err).Extra)
		}
	}
	h.wantBalances("999000", "1000")
}

// Rule WD-43. A withdrawal that waits for others of its wallet can be ended like one that lacks
// funds.
func TestPeopleEndAWithdrawalThatWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	w := h.mustRequest(h.newRequest())
	h.inSystem(func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(
			ctx,
			`UPDATE dispatch_orders SET attempt_after = attempt_after - interval '11 seconds' WHERE order_id = $1 AND waiting_for IS NULL`,
			w.ID,
		)
		return err
	})
	if _, err := h.Cancel(t.Context(), h.org, w.ID, audit.APIKey(h.org)); err != nil {
		t.Fatal(err)
	}
	if got := h.orderStatus(w.ID); got != "WITHDRAWN" {
		t.Errorf("order: got %v, want WITHDRAWN", got)
	}
	h.wantBalances("1000000", "0")
}

// Rules WD-6 and WD-43. The hold is released once, however many end the withdrawal at once.
func TestOfManyWhoEndAWaitingWithdrawalOneDoes(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for range 4 {
		w := h.requestWaiting(dispatch.WaitProviders)
		done := make([]bool, 16)
		runParallel(len(done), func(i int) {
			var err error
			if i%2 == 0 {
				_, err = h.Cancel(t.Context(), h.org, w.ID, audit.APIKey(h.org))
			} else {
				_, err = h.Remove(t.Context(), h.org, w.ID, person, "")
			}
			if done[i] = err == nil; !done[i] && !fault.HasCode(err, fault.InvalidState) {
				t.Errorf("loser: got %v, want %v", err, fault.InvalidState)
			}
		})
		if n := len(slices.DeleteFunc(done, func(b bool) bool { return !b })); n != 1 {
			t.Errorf("got %d winners, want one", n)
		}
		h.wantBalances("1000000", "0")
	}
	if n := h.DB.Counts().Deadlocks; n != 0 {
		t.Errorf("deadlocks: got %v, want 0", n)
	}
}

// requestReturned makes a request and has the signer return its order.
func (h *testEnv) requestReturned(r Request, why *signer.Refusal) Withdrawal {
	h.t.Helper()
	w := h.mustRequest(r)
	h.returnOrder(w, why)
	return w
}

// returnOrder acts as dispatch: it refuses a queued order.
func (h *testEnv) returnOrder(w Withdrawal, why *signer.Refusal) {
	h.t.Helper()
	h.inSystem(func(ctx context.Context, tx pg.Tx) error {
		if _, err := tx.Exec(
			ctx, `UPDATE dispatch_orders SET status = 'REFUSED' WHERE order_id = $1`, w.ID,
		); err != nil {
			return err
		}
		return h.OnRefused(ctx, tx, h.loadOrder(w), why)
	})
}

// Rules WD-6, WD-24.
func TestApproveRemoveAndCancelHaveOneWinner(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	acts := []struct {
		status string
		do     func(id string) error
	}{
		{"PROCESSING", func(id string) error { _, err := h.Approve(t.Context(), h.org, id, person); return err }},
		{"REJECTED", func(id string) error { _, err := h.Remove(t.Context(), h.org, id, person, ""); return err }},
		{
			"CANCELLED",
			func(id string) error { _, err := h.Cancel(t.Context(), h.org, id, audit.APIKey(h.org)); return err },
		},
	}
	for range 8 {
		held := h.requestHeld()
		won := make([]string, 24)
		runParallel(len(won), func(i int) {
			act := acts[i%len(acts)]
			err := act.do(held.ID)
			switch {
			case err == nil:
				won[i] = act.status
			case !fault.HasCode(err, fault.InvalidState):
				t.Errorf("loser: got %v, want %v", err, fault.InvalidState)
			case !slices.Contains([]any{"PROCESSING", "REJECTED", "CANCELLED"}, fault.Find(err).Extra["currentStatus"]):
				t.Errorf("loser: got %v, want the state that won", fault.Find(err).Extra)
			}
		})
		winners := slices.DeleteFunc(won, func(s string) bool { return s == "" })
		if len(winners) != 1 {
			t.Fatalf("winners: got %v, want one", winners)
		}
		w, err := h.ByID(t.Context(), h.org, held.ID)
		if err != nil || string(w.Status) != winners[0] {
			t.Fatalf("got %v %v, want %v", w.Status, err, winners[0])
		}
		if n := len(h.eventTypes(w.ID)); n != 2 {
			t.Errorf("got %d events, want 2", n)
		}
		if all := h.loadDecisions(w.ID); len(all) != 2 || string(all[1].Status) != winners[0] {
			t.Errorf("decisions: got %+v, want the request and what won", all)
		}
		if w.Status == "PROCESSING" { // out of the way of the next round
			h.returnOrder(w, &signer.Refusal{Code: signer.PolicyLimit})
			if _, err := h.Cancel(t.Context(), h.org, w.ID, audit.APIKey(h.org)); err != nil {
				t.Fatal(err)
			}
		}
		h.wantBalances("1000000", "0")
	}
	if n := h.DB.Counts().Deadlocks; n != 0 {
		t.Errorf("deadlocks: got %v, want 0", n)
	}
}

// Rule AUTH-2.
func TestNobodyElseCancelsOrReadsDecisions(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	held := h.requestHeld()
	other, _, err := org.Create(t.Context(), h.DB, "other")
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Cancel(t.Context(), other.ID, held.ID, audit.APIKey(other.ID))
	wantFault(t, err, fault.CodeNotFound)
	_, err = h.ListDecisions(t.Context(), other.ID, held.ID)
	wantFault(t, err, fault.CodeNotFound)
	h.wantBalances("999000", "1000")
}
