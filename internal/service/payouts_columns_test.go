package service

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
)

// approvedColumns are the columns that say what people approved, who did, and what the signer is told of it. A change
// of any of them pays nothing. The contract of a row is not among them: an order has that of the mint.
var approvedColumns = []string{
	"payout_items.row_no", "payout_items.salt", "payout_items.mint_id", "payout_items.chain",
	"payout_items.to_address", "payout_items.amount", "payout_items.customer_id", "payout_items.reference",
	"payout_items.batch_id", "payout_items.org_id", "payout_items.included",
	"payout_batches.batch_id", "payout_batches.org_id", "payout_batches.content_hash", "payout_batches.header",
	"payout_approvals.batch_id", "payout_approvals.approver_kind", "payout_approvals.approver_id",
	"payout_approvals.mac",
}

// batchesOfFunds is how many batches of three rows the money of an organization of these tests holds.
const batchesOfFunds = 12

// changeOf returns an expression that differs from a column's value and that its type allows, or "" for a type that no
// column had when this was written.
func changeOf(table, column, kind string) string {
	switch table + "." + column {
	case "payout_items.to_address":
		return `'0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb'`
	case "payout_items.chain":
		return `'BASE'`
	case "payout_items.contract":
		return `'0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb'`
	case "payout_items.mint_id":
		return `2`
	case "payout_items.salt":
		return `substring(sha256(salt) FOR 16)`
	case "payout_items.row_no":
		return `row_no + 100`
	case "payout_items.included":
		return `false, refused = 'r', checked_at = NULL`
	case "payout_batches.header":
		return `jsonb_set(header, '{root}', to_jsonb('sha256:' || repeat('0', 64)))`
	case "payout_batches.status":
		return `'COMPLETED', ended_at = now(), look_at = NULL`
	case "payout_approvals.approver_kind":
		return `'OPERATOR'`
	}
	switch kind {
	case "text":
		return fmt.Sprintf(`coalesce(%s, '') || 'x'`, column)
	case "bytea":
		return fmt.Sprintf(`sha256(coalesce(%s, ''))`, column)
	case "integer", "bigint", "smallint", "numeric":
		return fmt.Sprintf(`coalesce(%s, 0) + 1`, column)
	case "boolean":
		return "NOT " + column
	case "timestamp with time zone":
		return fmt.Sprintf(`coalesce(%s, now()) + interval '1 hour'`, column)
	case "ARRAY":
		return fmt.Sprintf(`array_append(%s, 'x')`, column)
	case "jsonb":
		return `'{}'`
	}
	return ""
}

// Whatever column of a batch, of its rows or of its approvals is changed in the database after the approval, the signer
// pays what people approved or nothing. What they approved is covered by every column that says it. Rule BP-33.
func TestAChangeOfAnyColumnPaysNothingElse(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	pool := pgtest.OwnerPool(t, h.DB)
	rows, err := pool.Query(t.Context(), `
		SELECT table_name, column_name, data_type FROM information_schema.columns
		WHERE table_schema = 'public' AND table_name IN ('payout_items', 'payout_batches', 'payout_approvals')
		ORDER BY table_name, ordinal_position`)
	if err != nil {
		t.Fatal(err)
	}
	type named struct{ Table, Column, Kind string }
	columns, err := pgx.CollectRows(rows, pgx.RowToStructByPos[named])
	if err != nil || len(columns) < len(approvedColumns) {
		t.Fatalf("got %d columns, %v", len(columns), err)
	}
	seen := 0
	for n, c := range columns {
		if n > 0 && n%batchesOfFunds == 0 { // the money of the other one is held
			h = newPayoutEnv(t)
		}
		name := c.Table + "." + c.Column
		change := changeOf(c.Table, c.Column, c.Kind)
		if change == "" {
			t.Errorf("%s is %s: say how it is changed", name, c.Kind)
			continue
		}
		mustRefuse := slices.Contains(approvedColumns, name)
		if mustRefuse {
			seen++
		}
		b := h.approved()
		where := ` WHERE batch_id = $1`
		if c.Table == "payout_items" {
			where += ` AND row_no = 2`
		}
		if !h.tryTamper(`UPDATE `+c.Table+` SET `+c.Column+` = `+change+where, b.ID) {
			if mustRefuse {
				t.Errorf("%s: the change %s was not made", name, change)
			}
			continue
		}
		_ = h.Expand(t.Context(), h.org, b.ID) // a batch that no longer makes sense pays nothing
		if err := h.admitRow(b, 2); err == nil && mustRefuse {
			t.Errorf("%s: the signer admits row 2", name)
		} else if err != nil && !mustRefuse && !strings.Contains(err.Error(), "no order") {
			t.Logf("%s: %v", name, err)
		}
		h.endBatch(b)
	}
	if seen != len(approvedColumns) {
		t.Errorf("%d of %d columns that say what was approved exist", seen, len(approvedColumns))
	}
}

// tryTamper changes rows like tamper, and reports whether a constraint of the table let it.
func (h *payoutEnv) tryTamper(sql, batchID string) bool {
	h.Helper()
	tx, err := pgtest.OwnerPool(h.T, h.DB).Begin(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	defer func() { _ = tx.Rollback(h.Context()) }()
	if _, err := tx.Exec(h.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
		h.Fatal(err)
	}
	tag, err := tx.Exec(h.Context(), sql, batchID)
	if err != nil || tag.RowsAffected() == 0 {
		return false
	}
	if err := tx.Commit(h.Context()); err != nil {
		h.Fatal(err)
	}
	return true
}

// admitRow asks the signer for the payment of a row as dispatch would, and fails the test if it admits anything but
// what people approved. It returns the refusal.
func (h *payoutEnv) admitRow(b payout.Batch, row int) error {
	h.Helper()
	i := signer.Intent{Purpose: signer.Payment, From: h.treasury.Ref()}
	err := pgtest.OwnerPool(h.T, h.DB).QueryRow(h.Context(), `
		SELECT order_id, chain, to_address, contract, amount, mint_id, coalesce(product, ''), key_hash, authority, batch
		FROM dispatch_orders WHERE order_id = $1`, signer.BatchWithdrawalID(h.org, b.ID, row)).
		Scan(&i.ID, &i.Chain, &i.To, &i.Contract, &i.Amount, &i.MintID, &i.Product, &i.IdempotencyKeyHash, &i.Grant,
			&i.Batch)
	if err != nil {
		return fmt.Errorf("no order: %w", err)
	}
	if _, err := h.signer.AdmitIntent(h.Context(), i); err != nil {
		return err
	}
	wanted := list(h.T)[row-1]
	if want := fmt.Sprint(1000 * row); i.To != payees[row-1] || i.Amount.String() != want || i.MintID != payoutUSDC ||
		i.Batch.ContentHash == (contenthash.Hash{}) {
		h.Errorf("the signer admits %v to %s, want %s of the list %+v", i.Amount, i.To, want, wanted)
	}
	return nil
}

// endBatch takes a batch out of the way of the next one, which has the same list.
func (h *payoutEnv) endBatch(b payout.Batch) {
	h.Helper()
	tamper(h, `UPDATE payout_batches SET status = 'FAILED', ended_at = now(), look_at = NULL, paused_at = NULL,
		pause_reason = NULL WHERE batch_id = $1 AND status = 'PROCESSING'`, b.ID)
}
