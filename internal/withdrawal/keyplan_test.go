package withdrawal

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/wallet"
)

// rowsPerLook is the most rows of withdrawals that a look-up by key reads.
const rowsPerLook = 4

// A session keeps the plans that it made on empty tables while they fill.
func TestALookUpByKeyReadsFewRowsWithThePlansOfEmptyTables(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	key := "key"
	template := h.newRequest()
	template.IdempotencyKey = &key
	conn, err := pgx.Connect(t.Context(), pgtest.LoginURL(t, h.DB))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	var writtenID string
	looks := map[string]func(b *pgx.Batch){
		"a key":   func(b *pgx.Batch) { queueKeys(b, h.org, []string{keyHash(&key)}) },
		"a payee": func(b *pgx.Batch) { wallet.QueueOwned(b, chain.EVM, stranger) },
		"payees":  func(b *pgx.Batch) { queueSpecial(b, h.org, []payee{{chain.Ethereum, stranger}}) },
		"rows just written": func(b *pgx.Batch) {
			b.Queue(selectWritten, h.org, []string{writtenID}).Query(func(rows pgx.Rows) error {
				_, err := pgx.CollectRows(rows, scanWithdrawal)
				return err
			})
		},
		"what is owed": func(b *pgx.Batch) {
			b.Queue(selectOwed, h.org, []string{alice})
		},
	}
	const counted = `
		SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0)::bigint FROM pg_stat_xact_user_tables
		WHERE relname IN ('withdrawals', 'wallets')`
	look := func(queue func(b *pgx.Batch)) int64 {
		t.Helper()
		var before, after int64
		b := &pgx.Batch{}
		b.Queue(`begin read only`)
		b.Queue(`set local role coffer_app`)
		b.Queue(`SELECT set_config('app.org', $1, true)`, h.org)
		pg.QueueKeyPlans(b)
		b.Queue(counted).QueryRow(func(row pgx.Row) error { return row.Scan(&before) })
		queue(b)
		b.Queue(counted).QueryRow(func(row pgx.Row) error { return row.Scan(&after) })
		b.Queue(`commit`)
		if err := conn.SendBatch(t.Context(), b).Close(); err != nil {
			t.Fatal(err)
		}
		return after - before
	}
	_, err = pgtest.OwnerPool(t, h.DB).Exec(t.Context(), `ALTER TABLE withdrawals SET (autovacuum_enabled = off)`)
	if err != nil {
		t.Fatal(err)
	}
	for _, queue := range looks {
		for range 8 {
			look(queue)
		}
	}
	writtenID = h.mustRequest(template).ID
	columns := pgtest.WrittenColumns(t, h.DB, "withdrawals")
	// Half of the payments go to one address.
	_, err = pgtest.Superuser(t, h.DB).Exec(t.Context(), fmt.Sprintf(`
		INSERT INTO withdrawals (%s) SELECT %s FROM (
			SELECT (jsonb_populate_record(w, jsonb_build_object('withdrawal_id', 'wd_' || n,
				'idempotency_key', 'key-' || n, 'to_address',
				CASE WHEN n %% 2 = 0 THEN w.to_address
					ELSE '0x' || md5(n::text) || '00000000' END))).*
			FROM withdrawals w, generate_series(1, 700) n) made`, columns, columns))
	if err != nil {
		t.Fatal(err)
	}
	for name, queue := range looks {
		if n := look(queue); n > rowsPerLook {
			t.Errorf("%s: the look-up read %d of 701 withdrawals, want %d at most", name, n, rowsPerLook)
		}
	}
}

// The checks at the end of the transaction keep the plans of empty tables as well.
func TestTheChecksOfANewWithdrawalReadFewRowsWithThePlansOfEmptyTables(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	d := pgtest.DatabaseOf(t, h.DB)
	session, err := pg.Open(t.Context(), pg.Config{URL: d.URL, OwnerURL: d.OwnerURL, MaxConns: 1}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	s := *h.Service
	s.DB = session
	const counted = `
		SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0)::bigint FROM pg_stat_xact_user_tables
		WHERE relname IN ('withdrawals', 'ledger_transfers')`
	write := func() (read int64) {
		t.Helper()
		p := h.pend(h.newRequest())
		err := session.InOrg(t.Context(), h.org, func(ctx context.Context, tx pg.Tx) error {
			var before, after int64
			p.decided = p.facts
			err := s.loadFacts(ctx, tx, h.org, &p.decided)
			if err == nil {
				err = tx.QueryRow(ctx, counted).Scan(&before)
			}
			if err != nil {
				return err
			}
			p.plan, _ = Decide(p.decided)
			b := &pgx.Batch{}
			if err := s.writeAccepted(ctx, tx, b, h.org, nil, []*pendingRequest{p}); err != nil {
				return err
			}
			b.Queue(`SET CONSTRAINTS ALL IMMEDIATE`)
			if err := tx.SendBatch(ctx, b).Close(); err != nil {
				return err
			}
			err = tx.QueryRow(ctx, counted).Scan(&after)
			read = after - before
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return read
	}
	h.execAsOwner(`ALTER TABLE withdrawals SET (autovacuum_enabled = off)`,
		`ALTER TABLE ledger_transfers SET (autovacuum_enabled = off)`)
	for range 8 {
		write()
	}
	fill := func(table, sets string) {
		t.Helper()
		columns := pgtest.WrittenColumns(t, h.DB, table)
		_, err := pgtest.Superuser(t, h.DB).Exec(t.Context(), fmt.Sprintf(`
			SET session_replication_role = replica;
			INSERT INTO %[1]s (%[2]s) OVERRIDING SYSTEM VALUE SELECT %[2]s FROM (
				SELECT (jsonb_populate_record(w, jsonb_build_object(%[3]s))).*
				FROM %[1]s w, generate_series(1, 700) n WHERE w.ctid = (SELECT ctid FROM %[1]s LIMIT 1)) made`,
			table, columns, sets))
		if err != nil {
			t.Fatal(err)
		}
	}
	fill("withdrawals", `'withdrawal_id', 'wd_' || n`)
	fill("ledger_transfers", `'transfer_id', 1000000 + n, 'cause_id', 'wd_' || n`)
	const most = 40
	if n := write(); n > most {
		t.Errorf("the checks of one withdrawal read %d of 708 withdrawals and their postings, want %d at most", n, most)
	}
}
