package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/rowfile"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// approvedList returns an approved batch that pays 1000, 2000, 3000 and so on to addresses; look-alikes are ticked.
func (h *payoutEnv) approvedList(addresses ...string) payout.Batch {
	h.Helper()
	var rows []string
	for i, to := range addresses {
		rows = append(rows, fmt.Sprintf(`{"mintId":1,"toAddress":%q,"amount":"%d"}`, to, 1000*(i+1)))
	}
	return h.approvedRows(rows)
}

// approvedRows returns an approved batch of these rows.
func (h *payoutEnv) approvedRows(rows []string) payout.Batch {
	h.Helper()
	lines, err := rowfile.ReadJSON([]byte("[" + strings.Join(rows, ",") + "]"))
	if err != nil {
		h.Fatal(err)
	}
	b := h.must(h.Create(h.Context(), h.org, payout.CreateRequest{Lines: lines, Actor: batchMaker}))
	warnings, err := h.Warnings(h.Context(), h.org, b.ID)
	if err != nil {
		h.Fatal(err)
	}
	r := payout.SubmitRequest{ContentHash: b.ContentHash, Actor: batchMaker}
	for _, w := range warnings {
		if w.NeedsTick {
			r.Ticked = append(r.Ticked, w.Row)
		}
	}
	b = h.must(h.Submit(h.Context(), h.org, b.ID, r))
	if err := h.Validate(h.Context(), h.org, b.ID); err != nil {
		h.Fatal(err)
	}
	return h.must(h.Approve(h.Context(), h.org, b.ID, b.ContentHash, firstApprover))
}

// wantWithdrawals checks what the rows of a batch became: the status of each, and how many transactions made those that
// are paid at once.
func (h *payoutEnv) wantWithdrawals(name string, b payout.Batch, transactions int, want ...string) {
	h.Helper()
	rows, err := pgtest.OwnerPool(h.T, h.DB).Query(h.Context(), `
		SELECT coalesce(w.status || ' ' || array_to_string(w.approval_reasons, ' '), ''),
			CASE w.status WHEN 'PROCESSING' THEN w.xmin::text ELSE '' END
		FROM payout_items i LEFT JOIN withdrawals w ON w.batch_id = i.batch_id AND w.batch_row = i.row_no
		WHERE i.batch_id = $1 ORDER BY i.row_no`, b.ID)
	if err != nil {
		h.Fatal(err)
	}
	var got, made []string
	var status, transaction string
	_, err = pgx.ForEachRow(rows, []any{&status, &transaction}, func() error {
		got = append(got, strings.TrimSpace(status))
		if transaction != "" && !slices.Contains(made, transaction) {
			made = append(made, transaction)
		}
		return nil
	})
	if err != nil || !slices.Equal(got, want) || len(made) != transactions {
		h.Errorf("%s: got %q in %d transactions, %v, want %q in %d", name, got, len(made), err, want, transactions)
	}
}

// Rows that pass all gates become withdrawals in one transaction. A row that a person has to look at is left out of it,
// and keeps none of the others from being paid. Rule BP-31.
func TestARowDoesNotSpoilTheRowsBesideIt(t *testing.T) {
	t.Parallel()
	twin := common.HexToAddress(string(payees[0]))
	twin[9] ^= 0xff

	h := newPayoutEnv(t)
	b := h.approvedList(string(payees[0]), string(payees[1]), string(payees[2]))
	if err := h.Expand(t.Context(), h.org, b.ID); err != nil {
		t.Fatal(err)
	}
	h.wantWithdrawals("nothing is special", b, 1, "PROCESSING", "PROCESSING", "PROCESSING")

	h = newPayoutEnv(t)
	b = h.approvedList(string(payees[1]), string(payees[0]), twin.Hex(), string(payees[2]))
	if err := h.Expand(t.Context(), h.org, b.ID); err != nil {
		t.Fatal(err)
	}
	h.wantWithdrawals("two that look alike", b, 2, "PROCESSING", "PROCESSING",
		"AWAITING_APPROVAL DESTINATION_ADDRESS", "PROCESSING")

	h = newPayoutEnv(t)
	b = h.approvedList(string(payees[0]), string(payees[1]), string(payees[2]))
	tamper(h, `UPDATE address_funds SET credited = 3500 WHERE org_id = $1`, h.org)
	if err := h.Expand(t.Context(), h.org, b.ID); err != nil {
		t.Fatal(err)
	}
	h.wantWithdrawals("the treasury has the money of two", b, 1, "PROCESSING", "PROCESSING",
		"AWAITING_APPROVAL LOW_LIQUIDITY")
}

// statementCount counts what a connection sends.
type statementCount struct{ statements, roundTrips atomic.Int64 }

func (c *statementCount) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.statements.Add(1)
	c.roundTrips.Add(1)
	return ctx
}

func (*statementCount) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *statementCount) TraceBatchStart(ctx context.Context, _ *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	c.statements.Add(int64(b.Batch.Len()))
	c.roundTrips.Add(1)
	return ctx
}

func (*statementCount) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*statementCount) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// Rule BP-31.
func TestTheStatementsOfAChunkDoNotGrowWithItsRows(t *testing.T) {
	t.Parallel()
	expand := func(rows int) (statements, roundTrips int64) {
		h := newPayoutEnv(t)
		var list []string
		for i := range rows {
			list = append(list, fmt.Sprintf(`{"mintId":1,"toAddress":%q,"amount":"1000"}`,
				common.BytesToAddress(crypto.Keccak256([]byte{byte(i)})).Hex()))
		}
		b := h.approvedRows(list)
		count := &statementCount{}
		h.withdrawals.DB = pgtest.OpenTraced(t, pgtest.DatabaseOf(t, h.DB), time.Now, count)
		if err := h.Expand(t.Context(), h.org, b.ID); err != nil {
			t.Fatal(err)
		}
		var paid int
		err := pgtest.OwnerPool(t, h.DB).QueryRow(t.Context(),
			`SELECT count(*) FROM withdrawals WHERE batch_id = $1 AND status = 'PROCESSING'`, b.ID).Scan(&paid)
		if err != nil || paid != rows {
			t.Fatalf("%d of %d rows are paid, %v", paid, rows, err)
		}
		return count.statements.Load(), count.roundTrips.Load()
	}
	statements, roundTrips := expand(10)
	if more, moreTrips := expand(60); more != statements || moreTrips != roundTrips {
		t.Errorf("10 rows took %d statements in %d round trips and 60 took %d in %d, want as many",
			statements, roundTrips, more, moreTrips)
	}
}

// While a batch becomes withdrawals, the statistics of their tables say that they are empty. Rule BP-31.
func TestTheRowsOfABatchAreReadWithTheirPaymentsByKey(t *testing.T) {
	t.Parallel()
	const rows = 60
	h := newPayoutEnv(t)
	owner := pgtest.OwnerPool(t, h.DB)
	for _, table := range []string{"withdrawals", "dispatch_orders"} {
		_, err := owner.Exec(t.Context(), `ALTER TABLE `+table+` SET (autovacuum_enabled = off)`)
		if err == nil {
			_, err = owner.Exec(t.Context(), `ANALYZE `+table)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var list []string
	for i := range rows {
		list = append(list, fmt.Sprintf(`{"mintId":1,"toAddress":%q,"amount":"1000"}`,
			common.BytesToAddress(crypto.Keccak256([]byte{byte(i)})).Hex()))
	}
	b := h.approvedRows(list)
	if err := h.Expand(t.Context(), h.org, b.ID); err != nil {
		t.Fatal(err)
	}
	d := pgtest.DatabaseOf(t, h.DB)
	read := func(look func(s *payout.Service)) (n int64) {
		t.Helper()
		// A session that ends reports what it has read.
		session, err := pg.Open(t.Context(), pg.Config{URL: d.URL, OwnerURL: d.OwnerURL, MaxConns: 1}, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		s := *h.Service
		s.DB = session
		look(&s)
		session.Close()
		if err := owner.QueryRow(t.Context(), `
			SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0)::bigint FROM pg_stat_user_tables
			WHERE relname IN ('withdrawals', 'dispatch_orders')`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := read(func(*payout.Service) {})
	after := read(func(s *payout.Service) {
		if _, err := s.Items(t.Context(), h.org, b.ID); err != nil {
			t.Fatal(err)
		}
	})
	if n := after - before; n > 4*rows {
		t.Errorf("a look at %d rows read %d rows of withdrawals and orders, want %d at most", rows, n, 4*rows)
	}
}

// A row that cannot be paid any more, and one that the database refuses, leave the others of their chunk alone.
func TestAChunkThatTheDatabaseRefusesIsPaidRowByRow(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	b := h.approvedList(string(payees[0]), string(payees[1]), string(payees[2]))
	_, err := pgtest.OwnerPool(t, h.DB).Exec(t.Context(), `
		CREATE FUNCTION refuse_row() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			RAISE EXCEPTION 'no' USING ERRCODE = 'check_violation', CONSTRAINT = 'test_refuses_row_2';
		END $$;
		CREATE TRIGGER test_refuses AFTER INSERT ON withdrawals FOR EACH ROW WHEN (NEW.batch_row = 2)
			EXECUTE FUNCTION refuse_row()`)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Expand(t.Context(), h.org, b.ID); err == nil || !strings.Contains(err.Error(), "row 2") {
		t.Errorf("got %v, want an error about row 2", err)
	}
	h.wantWithdrawals("row 2 is refused", b, 2, "PROCESSING", "", "PROCESSING")
}
