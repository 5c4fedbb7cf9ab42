package service

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
)

// wantRefusedBy checks that the database refuses a statement about a batch, by the constraint.
func (h *payoutEnv) wantRefusedBy(constraint, sql string, b payout.Batch) {
	h.Helper()
	_, err := pgtest.OwnerPool(h.T, h.DB).Exec(h.Context(), sql, b.ID)
	if !pg.ViolatesConstraint(err, constraint) {
		h.Errorf("%.80s: got %v, want %s", sql, err, constraint)
	}
}

// rowPayment returns the payment of a row as the worker asks for it.
func (h *payoutEnv) rowPayment(b payout.Batch, row int) payout.RowPayment {
	h.Helper()
	items, err := h.Items(h.Context(), h.org, b.ID)
	if err != nil {
		h.Fatal(err)
	}
	i := items[row-1]
	p := payout.RowPayment{
		OrgID: h.org, MintID: i.MintID, Amount: i.Amount, ToAddress: i.ToAddress, Reference: i.Reference,
	}
	p.Row.BatchID, p.Row.Row, p.Row.ContentHash = b.ID, row, b.ContentHash
	return p
}

// The database holds the rules of a batch against every statement, not only against those of the service. Rules BP-5,
// BP-6 and BP-12.
func TestTheTablesKeepTheApprovalAndTheEndOfABatch(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	submitter := audit.Actor{Kind: "USER", ID: "usr_submitter"}
	b := h.create()
	b = h.must(h.submit(b.ID, b.ContentHash, submitter))
	h.validate(b)
	_, err := h.Approve(t.Context(), h.org, b.ID, b.ContentHash, submitter)
	h.wantCode("who submitted it", err, fault.ApprovalRefused)
	h.wantRefusedBy("payout_batches_approved_by_enough", `UPDATE payout_batches SET status = 'PROCESSING',
		approved_at = now(), look_at = now(), version = version + 1, updated_at = now() WHERE batch_id = $1`, b)

	b = h.must(h.Approve(t.Context(), h.org, b.ID, b.ContentHash, firstApprover))
	elsewhere := h.rowPayment(b, 1)
	elsewhere.ToAddress = payees[2]
	_, err = h.withdrawals.RequestBatchRow(t.Context(), h.org, newBatchRequest(elsewhere))
	if !pg.ViolatesConstraint(err, "withdrawals_batch_approved") {
		t.Errorf("a payment of row 1 to another address: got %v", err)
	}
	err = h.DB.InOrg(t.Context(), h.org, func(ctx context.Context, tx pg.Tx) error {
		return ledger.Post(ctx, tx, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.BatchRelease, ID: b.ID + "/row/1"},
			Legs: []ledger.Leg{{
				Debit:  ledger.BatchOwner().SpendingAccount(h.org, payoutUSDC),
				Credit: ledger.BatchOwner().ReturnAccount(h.org, payoutUSDC), Amount: money.Units(1000),
			}},
		})
	})
	if !pg.ViolatesConstraint(err, "ledger_transfers_of_batch") {
		t.Errorf("the amount of an open row is given back: got %v", err)
	}
	h.withdrawals.Risk = risk.Policy{Providers: severeScreener{payees[1]}, UnknownAs: risk.TreatUnknownAsHold}
	h.expand(b)
	h.wantStatus(b.ID, payout.Processing)
	h.wantRefusedBy("payout_items_fixed",
		`UPDATE payout_items SET refused = NULL WHERE batch_id = $1 AND refused IS NOT NULL`, b)

	h.withdrawals.Risk = risk.Policy{}

	stopped := h.approved()
	stopped = h.must(h.Cancel(t.Context(), h.org, stopped.ID, firstApprover))
	_, err = h.withdrawals.RequestBatchRow(t.Context(), h.org, newBatchRequest(h.rowPayment(stopped, 1)))
	if !pg.ViolatesConstraint(err, "withdrawals_batch_approved") {
		t.Errorf("a payment of a cancelled batch: got %v", err)
	}
	h.wantRefusedBy("payout_batches_pausable", `UPDATE payout_batches SET stopped_at = NULL, stopper_kind = NULL,
		stopper_id = NULL, version = version + 1, updated_at = now() WHERE batch_id = $1`, stopped)
}

// errUndone ends a transaction that is not to be committed.
var errUndone = errors.New("undone")

// tryStatement runs a statement as a process of the service does, and undoes it.
func (h *payoutEnv) tryStatement(sql string, args ...any) error {
	h.Helper()
	err := h.DB.InSystem(h.Context(), func(ctx context.Context, tx pg.Tx) error {
		if _, err := tx.Exec(ctx, sql, args...); err != nil {
			return err
		}
		return errUndone
	})
	if errors.Is(err, errUndone) {
		return nil
	}
	return err
}

// A second process that gives payments a slot together gets past no rule of dispatch and the signer: on a chain with
// accounts they are rows of one batch, under one hash, and of one mint. Rule BP-53.
func TestTheTablesLetOnlyRowsOfOneBatchShareASlot(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	rows := func() (ids []string) {
		t.Helper()
		b := h.approved()
		h.expand(b)
		for row := 1; row <= 3; row++ {
			ids = append(ids, signer.BatchWithdrawalID(h.org, b.ID, row))
		}
		slices.Sort(ids)
		return ids
	}
	own, others := rows(), rows()
	const customers = `UPDATE dispatch_orders SET batch = NULL, product = NULL, customer_id = 'payer'
		WHERE order_id = $1`
	const join = `UPDATE dispatch_orders SET status = 'SLOTTED', tx_lead_id = $1 WHERE order_id = $2`
	const restored = `INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, to_address, mint_id,
			contract, amount, customer_id, product, status, attempt_after, created_at, batch, tx_lead_id)
		SELECT 'wd_zzz', org_id, purpose, chain, wallet_id, to_address, mint_id, contract, amount, customer_id, product,
			'SLOTTED', attempt_after, created_at, batch, $1 FROM dispatch_orders WHERE order_id = $2`
	want := func(name, lead, member string, may bool) {
		t.Helper()
		if member < lead {
			lead, member = member, lead
		}
		for _, sql := range []string{join, restored} {
			err := h.tryStatement(sql, lead, member)
			if may && err != nil || !may && !pg.ViolatesConstraint(err, "dispatch_orders_tx_of_batch") {
				t.Errorf("%s: %.30s: got %v, want that they may: %v", name, sql, err, may)
			}
		}
	}
	want("two rows of a batch", own[0], own[1], true)
	want("rows of two batches", own[0], others[0], false)
	tamper(h, `UPDATE dispatch_orders SET batch = jsonb_set(batch, '{contentHash}', '"sha256:00"') WHERE order_id = $1`,
		own[1])
	want("rows under two hashes", own[0], own[1], false)
	tamper(h, `UPDATE dispatch_orders SET mint_id = 2, contract = '' WHERE order_id = $1`, own[2])
	want("rows of two mints", own[0], own[2], false)
	tamper(h, customers, others[2])
	want("a row and a payment of no batch", others[0], others[2], false)
	tamper(h, customers, others[1])
	want("two payments of no batch", others[1], others[2], false)
	for _, id := range others[1:] {
		tamper(h, `UPDATE dispatch_orders SET chain = 'BITCOIN' WHERE order_id = $1`, id)
	}
	if err := h.tryStatement(join, others[1], others[2]); err != nil {
		t.Errorf("two payments of no batch on Bitcoin: got %v, want that they may", err)
	}
}

// waitForLock waits until a session of the database waits for another one. It is an error if what should wait is done.
func (h *payoutEnv) waitForLock(name string, done <-chan struct{}) {
	h.Helper()
	pgtest.Eventually(h.T, func() bool {
		select {
		case <-done:
			h.Errorf("%s: it did not wait", name)
			return true
		default:
		}
		var waiting int
		err := pgtest.OwnerPool(h.T, h.DB).QueryRow(h.Context(), `
			SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (
				SELECT pid FROM pg_stat_activity WHERE datname = current_database())`).Scan(&waiting)
		return err == nil && waiting > 0
	}, name+": it waits for the batch")
}

// A pause or a cancellation and the payment of a row never pass one another: who comes second waits for the other and
// sees what it did. Rule BP-57.
func TestAPauseAndThePaymentOfARowWaitForOneAnother(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]string{
		"pause": `UPDATE payout_batches SET paused_at = now(), pause_reason = 'test', version = version + 1,
			updated_at = now() WHERE batch_id = $1`,
		"cancellation": `UPDATE payout_batches SET stopped_at = now(), stopper_kind = 'USER', stopper_id = 'usr_first',
			version = version + 1, updated_at = now() WHERE batch_id = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newPayoutEnv(t)

			// The stop comes first, and its transaction is open when the payment is written.
			b := h.approved()
			payment := newBatchRequest(h.rowPayment(b, 1))
			holder := pgtest.BeginOwner(t, h.DB)
			if _, err := holder.Exec(t.Context(), stop, b.ID); err != nil {
				t.Fatal(err)
			}
			var paid error
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, paid = h.withdrawals.RequestBatchRow(t.Context(), h.org, payment)
			}()
			h.waitForLock("the payment behind the stop", done)
			if err := holder.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-done
			if !pg.ViolatesConstraint(paid, "withdrawals_batch_approved") {
				t.Errorf("the payment behind the stop: got %v, want a refusal", paid)
			}
			h.wantWithdrawals("nothing is paid", b, 0, "", "", "")

			// The payment comes first, and its transaction is open when the stop is written.
			b = h.approved()
			holder = pgtest.BeginOwner(t, h.DB)
			_, err := holder.Exec(t.Context(), `
				INSERT INTO withdrawals (withdrawal_id, org_id, product, mint_id, chain, amount, to_address,
					idempotency_key, request_digest, status, requires_approval, approval_reasons, created_at, fee_mode,
					approvals_required, request_mac, batch_id, batch_row)
				SELECT $2, org_id, 'BATCH_PAYOUT', mint_id, chain, amount, to_address,
					'batch ' || batch_id || ':' || row_no, '', 'PROCESSING', false, '{}', now(), 'ORGANIZATION', 0,
					'mac', batch_id, row_no FROM payout_items WHERE batch_id = $1 AND row_no = 1`,
				b.ID, signer.BatchWithdrawalID(h.org, b.ID, 1))
			if err != nil {
				t.Fatal(err)
			}
			var stopped error
			done = make(chan struct{})
			go func() {
				defer close(done)
				_, stopped = pgtest.OwnerPool(t, h.DB).Exec(t.Context(), stop, b.ID)
			}()
			h.waitForLock("the stop behind the payment", done)
			if err := holder.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-done
			if stopped != nil {
				t.Errorf("the stop behind the payment: got %v, want that it comes through", stopped)
			}
		})
	}
}
