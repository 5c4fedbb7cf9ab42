package swaps

import (
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/swap"
)

// on returns the environment with an older database, which the signer's journal has completed.
func (e *testEnv) on(backup pgtest.Database) *testEnv {
	e.Helper()
	e.db.Close()
	r := &testEnv{
		T: e.T, ctx: e.ctx, net: e.net, now: e.clock(), conf: e.conf, grants: e.grants, signer: e.signer,
		attest: e.attest,
		desk:   e.desk, prices: e.prices, org: e.org, database: backup,
	}
	r.desk.set(func() { r.desk.clock = r.clock })
	r.prices.clock = r.clock
	r.db = pgtest.Open(e, backup, r.clock)
	r.Harness = r.open(r.db)
	by := audit.Operator("op")
	_, err := journal.RestoreDatabase(r.ctx, r.db, r.signer, r.Wallets, r.NewRestorer(by), false)
	r.must(err)
	r.must(journal.Check(r.ctx, r.db, r.signer, r.Wallets))
	r.look("the import")
	return r
}

// A backup lacks swaps that were made later: the journal brings back their terms, holds and payments.
func TestASwapThatABackupLacksIsRestored(t *testing.T) {
	t.Parallel()
	completed := books{"CUSTOMER 1": funded - amountIn, "CUSTOMER 3": amountOut, "SWAP_FEES_DUE 1": 750_000}
	for name, c := range map[string]struct {
		lost   func(e *testEnv) swap.Swap // what happened after the backup
		after  func(e *testEnv, w swap.Swap)
		status swap.Status
		books  books
		events []string
	}{
		"its payment was final": {
			func(e *testEnv) swap.Swap { return e.paid() }, func(e *testEnv, w swap.Swap) { e.deliver(w, amountOut) },
			swap.Completed, completed,
			[]string{"CUSTOMER_DEPOSIT"},
		},
		"its output had arrived": {
			func(e *testEnv) swap.Swap {
				w := e.paid()
				e.deliver(w,
					amountOut)
				return w
			}, nil, swap.Completed, completed,
			[]string{"CUSTOMER_DEPOSIT"},
		},
		"its payment was sent": {
			func(e *testEnv) swap.Swap { w := e.begin(); e.turn(); return w },
			func(e *testEnv, w swap.Swap) { e.deliver(w, amountOut) }, swap.Completed, completed,
			[]string{"CUSTOMER_DEPOSIT"},
		},
		"it was refunded and restored": {
			func(e *testEnv) swap.Swap {
				w := e.paid()
				e.refund(w, amountIn)
				_, err := e.Swaps.Restore(e.ctx, e.org, w.ID, audit.APIKey("key"))
				e.must(err)
				return w
			}, nil, swap.FailedStatus, held, []string{"CUSTOMER_SWAP_FAILED"},
		},
		"its payment was admitted and recalled": {
			func(e *testEnv) swap.Swap {
				w := e.begin()
				e.signer.late = func(signer.Intent) { e.setClock(w.PayBy) }
				e.turn()
				e.signer.late = nil
				e.want(w.ID, swap.FailedStatus, swap.RefundComplete)
				return w
			}, nil, swap.FailedStatus, held, []string{"CUSTOMER_SWAP_FAILED"},
		},
		"its payment was admitted and not signed": {
			func(e *testEnv) swap.Swap {
				w := e.begin()
				e.signer.sign = func(signer.SignRequest) error { return errDeskDown }
				_, _ = e.DispatchWorker.RunRound(e.ctx)
				e.signer.sign = nil
				return w
			}, nil, swap.FailedStatus, held, []string{"CUSTOMER_SWAP_FAILED"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t)
			backup := pgtest.CopyDatabase(t, e.database)
			w := c.lost(e)
			r := e.on(backup)
			for _, approval := range []string{"300000000", "17"} {
				request := request("key")
				request.AmountIn = approval
				again, isReplayed, err := r.Swaps.Request(r.ctx, r.org, request)
				if err != nil || !isReplayed || again.ID != w.ID || again.IdempotencyKey != "" ||
					again.Differs(request) {
					t.Errorf("the key returns %s replayed %v %v, want %s", again.ID, isReplayed, err, w.ID)
				}
			}
			restored := r.load(w.ID)
			if restored.AmountIn != w.AmountIn || restored.MinOut != w.MinOut ||
				restored.EstimatedOut != w.EstimatedOut ||
				restored.DepositAddress != w.DepositAddress || restored.DeliveryWalletID == "" ||
				restored.Provider != w.Provider ||
				!restored.PayBy.Equal(w.PayBy) || restored.FeeAmount != w.FeeAmount {
				t.Errorf("restored %+v, want the terms of %+v", restored, w)
			}
			r.pass(8)
			if c.after != nil {
				c.after(r, restored)
			}
			if got := r.load(w.ID); got.Status != c.status {
				t.Fatalf("got %s, want %s", got.Status, c.status)
			}
			r.wantBooks(c.books)
			r.wantEvents(w.ID, c.events...)
			r.lookWithChain("the end")
		})
	}
}

// A backup lacks the deposit that paid for a swap: the hold is whole, and the customer owes what it lacks until the
// walk finds the deposit again.
func TestWhatARestoredSwapLacksIsOwedAndCollected(t *testing.T) {
	t.Parallel()
	e := newUnfunded(t, noSwaps)
	e.pass(2)
	backup := pgtest.CopyDatabase(t, e.database)
	e.fund("ann", funded)
	w := e.begin()
	e.turn()
	r := e.on(backup)
	if n := r.number(`SELECT owed::bigint FROM swaps`); n != amountIn {
		t.Errorf("owed %d, want the whole amount", n)
	}
	r.pass(12)
	if n := r.number(`SELECT owed::bigint FROM swaps`); n != 0 {
		t.Errorf("owed %d at the end, want nothing", n)
	}
	r.want(w.ID, swap.Processing, swap.RefundNone)
	r.wantBooks(atDesk)
	r.deliver(r.load(w.ID), amountOut)
	r.want(w.ID, swap.Completed, swap.RefundNone)
	r.lookWithChain("the end")
}

// A backup has a swap that the database goes on with: the journal's payment is its payment.
func TestASwapThatABackupHasIsFollowed(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.begin()
	backup := pgtest.CopyDatabase(t, e.database)
	e.pay(w.ID)
	r := e.on(backup)
	r.pass(8)
	r.want(w.ID, swap.Processing, swap.RefundNone)
	r.wantBooks(atDesk)
	r.refund(w, amountIn)
	r.want(w.ID, swap.FailedStatus, swap.RefundComplete)
	r.wantEvents(w.ID, "CUSTOMER_SWAP_FAILED")
}

// A backup from before a payment was voided never pays it.
func TestABackupFromBeforeASwapEndedPaysItNever(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	w := e.begin()
	backup := pgtest.CopyDatabase(t, e.database)
	_, err := e.DispatchWorker.CancelOrder(e.ctx, w.ID, audit.Operator("op"))
	e.must(err)
	e.must(e.Voider.RunPass(e.ctx))
	e.want(w.ID, swap.FailedStatus, swap.RefundComplete)
	r := e.on(backup)
	r.pass(4)
	r.want(w.ID, swap.FailedStatus, swap.RefundComplete)
	r.wantBooks(held)
	if n := r.number(`SELECT count(*) FROM dispatch_slots WHERE order_id = $1`, w.ID); n != 0 {
		t.Errorf("the payment has %d slots, want none", n)
	}
}
