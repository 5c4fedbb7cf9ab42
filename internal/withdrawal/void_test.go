package withdrawal

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// flakyVoidSigner is a signer that can be unavailable, before or after it journals.
type flakyVoidSigner struct {
	signer.Signer
	away, lost atomic.Bool
}

func (f *flakyVoidSigner) VoidIntent(ctx context.Context, v signer.Void) (signer.Entry, error) {
	if f.away.Load() {
		return signer.Entry{}, errors.New("no connection")
	}
	e, err := f.Signer.VoidIntent(ctx, v)
	if f.lost.Load() {
		return signer.Entry{}, errors.New("the answer was lost")
	}
	return e, err
}

// newVoidEnv returns an environment whose signer requires grants and can be unavailable.
func newVoidEnv(t *testing.T) (*testEnv, *flakyVoidSigner) {
	t.Helper()
	h, s := newGrantedEnv(t)
	f := &flakyVoidSigner{Signer: s}
	h.Voider.Signer = f
	return h, f
}

// wantAdmitted asks the signer for a payment with the grant of its order.
func (h *testEnv) wantAdmitted(s signer.Signer, id, want string) {
	h.t.Helper()
	_, err := s.AdmitIntent(h.t.Context(), h.newIntent(id))
	var no *signer.Refusal
	if got := ""; errors.As(err, &no) {
		got = no.Code
		if got != want {
			h.t.Errorf("admit: got %v, want %q", err, want)
		}
	} else if err != nil || want != "" {
		h.t.Errorf("admit: got %v, want %q", err, want)
	}
}

// However a person ends it, the signer never pays it afterwards with its old grant, also when the
// owner of the database restores the order. Rule WD-50.
func TestWhatPeopleTakeBackIsVoidAtTheSigner(t *testing.T) {
	t.Parallel()
	h, f := newVoidEnv(t)
	for status, end := range map[string]func(id string) (Withdrawal, error){
		"REJECTED": func(id string) (Withdrawal, error) {
			return h.Remove(t.Context(), h.org, id, person, "no")
		},
		"CANCELLED": func(id string) (Withdrawal, error) {
			return h.Cancel(t.Context(), h.org, id, audit.APIKey(h.org))
		},
	} {
		w := h.requestReturned(h.newRequest(), &signer.Refusal{Code: signer.PolicyLimit, Message: "too much today"})
		got, err := end(w.ID)
		if err != nil || string(got.Status) != status {
			t.Fatalf("got %+v %v, want %s", got, err, status)
		}
		h.wantBalances("1000000", "0")
		h.wantRefusedChange(
			`UPDATE dispatch_orders SET status = 'QUEUED', ended_at = NULL WHERE order_id = $1`, w.ID,
		)
		h.wantAdmitted(f, w.ID, signer.RefusedVoid)
		h.wantRefusedChange(
			`UPDATE dispatch_orders SET status = 'WITHDRAWN', ended_at = now() WHERE order_id = $1`,
			w.ID,
		)
		if all := h.loadDecisions(w.ID); len(all) != 3 || string(all[2].Status) != status {
			t.Errorf("decisions: got %+v, want the request, the signer's no and the end", all)
		}
	}
	// A withdrawal that was never let go has no grant and needs no void.
	f.away.Store(true)
	if _, err := h.Cancel(t.Context(), h.org, h.requestHeld().ID, audit.APIKey(h.org)); err != nil {
		t.Errorf("one that was never let go, while the signer is away: got %v", err)
	}
	if err := mirror.ImportJournal(t.Context(), h.DB, f, h.wallets); err != nil {
		t.Errorf("the journal and the database: got %v, want one story", err)
	}
}

// wantRefusedChange writes as the owner of the database, past every trigger.
func (h *testEnv) wantRefusedChange(sql string, args ...any) {
	h.t.Helper()
	tx, err := pgtest.OwnerPool(h.t, h.DB).Begin(h.t.Context())
	if err == nil {
		defer tx.Rollback(context.Background())
		if _, err = tx.Exec(h.t.Context(), `SET LOCAL session_replication_role = replica`); err == nil {
			_, err = tx.Exec(h.t.Context(), sql, args...)
		}
	}
	if err == nil {
		err = tx.Commit(h.t.Context())
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// While the signer is unavailable, nothing is released and nothing is paid. Once it answers, the
// withdrawal ends as decided, without another call. Rule WD-50.
func TestWhatIsTakenBackKeepsItsHoldUntilTheSignerHasVoidedIt(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]func(f *flakyVoidSigner) *atomic.Bool{
		"the signer is away":             func(f *flakyVoidSigner) *atomic.Bool { return &f.away },
		"its answer is lost, or we died": func(f *flakyVoidSigner) *atomic.Bool { return &f.lost },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, f := newVoidEnv(t)
			w := h.requestReturned(h.newRequest(), &signer.Refusal{Code: signer.PolicyLimit})
			id := w.ID
			broken(f).Store(true)
			_, err := h.Remove(t.Context(), h.org, id, person, "no")
			wantFault(t, err, fault.CodeUnavailable)
			h.wantBalances("999000", "1000")
			if got := h.orderStatus(id); got != "WITHDRAWN" {
				t.Errorf("order: got %s, want WITHDRAWN", got)
			}
			if got, err := h.ByID(t.Context(), h.org, id); err != nil || got.Status != "AWAITING_APPROVAL" {
				t.Errorf("got %+v %v, want it to wait", got, err)
			}
			_, err = h.Approve(t.Context(), h.org, id, person)
			wantFault(t, err, fault.InvalidState)
			_, err = h.Cancel(t.Context(), h.org, id, audit.APIKey(h.org)) // and the first one stands
			wantFault(t, err, fault.CodeUnavailable)
			h.wantEvents(id, "CUSTOMER_WITHDRAW_AWAITING_APPROVAL AWAITING_APPROVAL")
			if err := h.Voider.RunPass(t.Context()); !errors.Is(err, dispatch.ErrVoidPending) {
				t.Errorf("a pass: got %v, want %v", err, dispatch.ErrVoidPending)
			}

			broken(f).Store(false)
			// Two processes at once.
			second := *h.Voider
			runParallel(2, func(i int) {
				if err := []*dispatch.Voider{h.Voider, &second}[i].RunPass(t.Context()); err != nil {
					t.Error(err)
				}
			})
			got, err := h.ByID(t.Context(), h.org, id)
			if err != nil || got.Status != "REJECTED" || got.RejectedReason == nil || *got.RejectedReason != "no" {
				t.Errorf("got %+v %v, want it removed as it was decided", got, err)
			}
			h.wantBalances("1000000", "0")
			h.wantEvents(
				id, "CUSTOMER_WITHDRAW_AWAITING_APPROVAL AWAITING_APPROVAL", "CUSTOMER_WITHDRAW_REJECTED REJECTED",
			)
			_, err = h.Cancel(t.Context(), h.org, id, audit.APIKey(h.org))
			wantFault(t, err, fault.InvalidState)
			if fault.Find(err).Extra["currentStatus"] != "REJECTED" {
				t.Errorf("got %v, want the state that won", fault.Find(err).Extra)
			}
			h.wantAdmitted(f, id, signer.RefusedVoid)
		})
	}
}

// Of several concurrent calls that end it while the signer is asked, one wins. The hold ends once.
// Rule WD-50.
func TestOneOfSeveralWhoTakeBackWhatWasLetGoWins(t *testing.T) {
	t.Parallel()
	h, _ := newVoidEnv(t)
	w := h.requestReturned(h.newRequest(), &signer.Refusal{Code: signer.PolicyLimit})
	var won atomic.Int64
	runParallel(16, func(i int) {
		var err error
		if i%2 == 0 {
			_, err = h.Remove(t.Context(), h.org, w.ID, person, "")
		} else {
			_, err = h.Cancel(t.Context(), h.org, w.ID, audit.APIKey(h.org))
		}
		if err == nil {
			won.Add(1)
		} else if !fault.HasCode(err, fault.InvalidState) ||
			fault.Find(err).Extra["currentStatus"] == "AWAITING_APPROVAL" {
			t.Errorf("loser: got %v, want the state that won", err)
		}
	})
	if won.Load() != 1 {
		t.Errorf("got %d winners, want one", won.Load())
	}
	h.wantBalances("1000000", "0")
	if n := h.DB.Counts().Deadlocks; n != 0 {
		t.Errorf("deadlocks: got %v, want 0", n)
	}
}

// The tables release no hold of a withdrawal that was let go before its void is journaled.
func TestTheTablesKeepTheHoldOfWhatIsNotVoid(t *testing.T) {
	t.Parallel()
	h, f := newVoidEnv(t)
	w := h.requestReturned(h.newRequest(), &signer.Refusal{Code: signer.PolicyLimit})
	f.away.Store(true)
	_, err := h.Remove(t.Context(), h.org, w.ID, person, "")
	wantFault(t, err, fault.CodeUnavailable)
	err = h.DB.InSystem(
		t.Context(), func(ctx context.Context, tx pg.Tx) error { return h.OnVoided(ctx, tx, h.org, w.ID) },
	)
	if !pg.ViolatesConstraint(err, "withdrawals_void_first") {
		t.Errorf("an end without a void: got %v, want it refused", err)
	}
	for sql, rule := range map[string]string{
		`UPDATE withdrawals SET end_status = 'CANCELLED' WHERE withdrawal_id = $1`:                                                                        "withdrawals_end_fixed",
		`UPDATE dispatch_voids SET asked_at = now() WHERE order_id = $1`:                                                                                  "dispatch_voids_fixed",
		`UPDATE dispatch_voids SET journal_id = j.journal_id, journal_seq = 1, voided_at = now() FROM signer_journal j WHERE j.seq = 1 AND order_id = $1`: "dispatch_voids_by_entry",
	} {
		err := h.DB.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, sql, w.ID)
			return err
		})
		if !pg.ViolatesConstraint(err, rule) {
			t.Errorf("%s: got %v, want %s", sql, err, rule)
		}
	}
	h.wantBalances("999000", "1000")
}

// A signer that has a slot for a withdrawal that was taken back knows more than the database:
// nothing is released, and everything stops.
func TestWhatTheSignerHasASlotOfIsNotGivenBack(t *testing.T) {
	t.Parallel()
	h, f := newVoidEnv(t)
	w := h.requestReturned(h.newRequest(), &signer.Refusal{Code: signer.PolicyLimit})
	h.wantAdmitted(f, w.ID, "")
	i := h.newIntent(w.ID)
	payload := signertest.IntentPayload(t, i, signertest.IssueAddress(t, f, i.From), 0, signertest.UsualFees())
	if _, err := f.Sign(
		t.Context(), signer.SignRequest{IntentID: i.ID, Act: signer.Pay, Payload: payload},
	); err != nil {
		t.Fatal(err)
	}
	_, err := h.Remove(t.Context(), h.org, w.ID, person, "")
	wantFault(t, err, fault.CodeUnavailable)
	h.wantBalances("999000", "1000")
	var frozen int
	if err := pgtest.OwnerPool(t, h.DB).QueryRow(
		t.Context(), `SELECT count(*) FROM freezes WHERE scope = 'ALL' AND lifted_at IS NULL`,
	).Scan(&frozen); err != nil || frozen != 1 {
		t.Errorf("freezes: got %d %v, want everything stopped", frozen, err)
	}
}

// A withdrawal that waits without a slot keeps its hold, too, while the signer is unavailable. It
// is neither approved nor given a slot, and ends once the signer answers. Rules WD-43 and WD-50.
func TestWhatIsTakenBackWhileItWaitsKeepsItsHoldUntilTheSignerHasVoidedIt(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]func(f *flakyVoidSigner) *atomic.Bool{
		"the signer is away":             func(f *flakyVoidSigner) *atomic.Bool { return &f.away },
		"its answer is lost, or we died": func(f *flakyVoidSigner) *atomic.Bool { return &f.lost },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, f := newVoidEnv(t)
			id := h.requestWaiting(dispatch.WaitProviders).ID
			broken(f).Store(true)
			_, err := h.Cancel(t.Context(), h.org, id, audit.APIKey(h.org))
			wantFault(t, err, fault.CodeUnavailable)
			h.wantBalances("999000", "1000")
			h.wantEvents(id)
			if got := h.orderStatus(id); got != "WITHDRAWN" {
				t.Errorf("order: got %s, want WITHDRAWN", got)
			}
			if got, err := h.ByID(t.Context(), h.org, id); err != nil || got.Status != "PROCESSING" {
				t.Errorf("got %+v %v, want it to wait", got, err)
			}
			_, err = h.Approve(t.Context(), h.org, id, person)
			wantFault(t, err, fault.InvalidState)
			_, err = h.Remove(t.Context(), h.org, id, person, "") // and the first one stands
			wantFault(t, err, fault.CodeUnavailable)
			for sql, rule := range map[string]string{
				`UPDATE withdrawals SET status = 'BROADCAST', broadcast_at = now(), tx_hash = 'x' WHERE withdrawal_id = $1`:  "withdrawals_end_as_decided",
				`UPDATE withdrawals SET status = 'CANCELLED' WHERE withdrawal_id = $1`:                                       "withdrawals_void_first",
				`UPDATE dispatch_orders SET status = 'SLOTTED', ended_at = NULL WHERE order_id = $1`:                         "",
				`UPDATE dispatch_orders SET status = 'QUEUED', ended_at = NULL WHERE order_id = $1`:                          "",
				`UPDATE withdrawals SET end_status = NULL, end_actor_kind = NULL, end_actor = NULL WHERE withdrawal_id = $1`: "withdrawals_end_fixed",
			} {
				err := h.DB.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
					_, err := tx.Exec(ctx, sql, id)
					return err
				})
				if err == nil || rule != "" && !pg.ViolatesConstraint(err, rule) {
					t.Errorf("%s: got %v, want %s", sql, err, rule)
				}
			}
			if err := h.Voider.RunPass(t.Context()); !errors.Is(err, dispatch.ErrVoidPending) {
				t.Errorf("a pass: got %v, want %v", err, dispatch.ErrVoidPending)
			}
			h.wantBalances("999000", "1000")

			broken(f).Store(false)
			// Two processes at once.
			second := *h.Voider
			runParallel(2, func(i int) {
				if err := []*dispatch.Voider{h.Voider, &second}[i].RunPass(t.Context()); err != nil {
					t.Error(err)
				}
			})
			if got, err := h.ByID(t.Context(), h.org, id); err != nil || got.Status != "CANCELLED" {
				t.Errorf("got %+v %v, want it cancelled as it was decided", got, err)
			}
			h.wantBalances("1000000", "0")
			h.wantEvents(id, "CUSTOMER_WITHDRAW_CANCELLED CANCELLED")
			if all := h.loadDecisions(id); len(all) != 2 || all[1].Status != Cancelled ||
				all[1].Actor != audit.APIKey(h.org) {
				t.Errorf("decisions: got %+v, want the request and the end", all)
			}
			_, err = h.Cancel(t.Context(), h.org, id, audit.APIKey(h.org))
			wantFault(t, err, fault.InvalidState)
			if fault.Find(err).Extra["currentStatus"] != "CANCELLED" {
				t.Errorf("got %v, want the state that it has", fault.Find(err).Extra)
			}
			h.wantAdmitted(f, id, signer.RefusedVoid)
		})
	}
}

// The tables accept no end of a withdrawal whose order was not recalled.
func TestTheTablesEndNothingThatIsStillOrdered(t *testing.T) {
	t.Parallel()
	h, _ := newVoidEnv(t)
	id := h.requestWaiting(dispatch.WaitProviders).ID
	for what, do := range map[string]func(ctx context.Context, tx pg.Tx) error{
		"withdrawals_end_recalled": func(ctx context.Context, tx pg.Tx) error {
			return setEndIntent(ctx, tx, h.org, id, Processing, endIntent{status: Cancelled, actor: person})
		},
		"dispatch_orders_caused": func(ctx context.Context, tx pg.Tx) error {
			_, err := dispatch.Recall(ctx, tx, id)
			return err
		},
	} {
		if err := h.DB.InSystem(t.Context(), do); !pg.ViolatesConstraint(err, what) {
			t.Errorf("got %v, want %s", err, what)
		}
	}
	h.wantBalances("999000", "1000")
}

// refusingVoidSigner is a signer that voids all payments but one.
type refusingVoidSigner struct {
	signer.Signer
	not string
}

func (p refusingVoidSigner) VoidIntent(ctx context.Context, v signer.Void) (signer.Entry, error) {
	if v.ID == p.not {
		return signer.Entry{}, &signer.Refusal{Code: signer.RefusedGrant, Message: "another key"}
	}
	return p.Signer.VoidIntent(ctx, v)
}

// A withdrawal that the signer does not void keeps its hold, and no other does. Rule WD-50.
func TestOneThatTheSignerDoesNotVoidHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	h, f := newVoidEnv(t)
	var ids []string
	f.away.Store(true)
	for range 3 {
		w := h.requestReturned(h.newRequest(), &signer.Refusal{Code: signer.PolicyLimit})
		_, err := h.Remove(t.Context(), h.org, w.ID, person, "no")
		wantFault(t, err, fault.CodeUnavailable)
		ids = append(ids, w.ID)
	}
	f.away.Store(false)
	slices.Sort(ids)
	h.Voider.Signer = refusingVoidSigner{f, ids[0]} // the first one that a pass asks about
	if err := h.Voider.RunPass(t.Context()); !errors.Is(err, dispatch.ErrVoidPending) {
		t.Errorf("a pass: got %v, want %v", err, dispatch.ErrVoidPending)
	}
	h.wantBalances("999000", "1000")
	for i, want := range []string{"AWAITING_APPROVAL", "REJECTED", "REJECTED"} {
		if got, err := h.ByID(t.Context(), h.org, ids[i]); err != nil || string(got.Status) != want {
			t.Errorf("withdrawal %d: got %s %v, want %s", i, got.Status, err, want)
		}
	}
}
