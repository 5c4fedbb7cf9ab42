package service

import (
	"context"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/risk"
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
