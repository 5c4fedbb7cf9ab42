package pg_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

func TestALookReadsAndNothingElse(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var role, mode string
	look := func(sql string, into ...any) error {
		return db.ReadSystemBatch(t.Context(), func(b *pgx.Batch) {
			b.Queue(sql).QueryRow(func(row pgx.Row) error { return row.Scan(into...) })
		})
	}
	for range 3 { // also with the plans of the first time
		if err := look(
			`SELECT current_user::text, current_setting('transaction_read_only')`, &role, &mode,
		); err != nil || role != "coffer_system" || mode != "on" {
			t.Errorf("got %s, %s, %v, want coffer_system and on", role, mode, err)
		}
	}
	if err := look(`SELECT nextval('audit_log_audit_id_seq')`, new(int64)); err == nil {
		t.Error("a write was taken")
	}
	if err := look(`SELECT 1 / 0`, new(int)); err == nil {
		t.Error("got no error of the statement")
	}
	// A failed batch leaves nothing behind for the next user of the connection.
	err := db.ReadOrg(t.Context(), "org_a", func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT current_user::text`).Scan(&role)
	})
	if err != nil || role != "coffer_app" {
		t.Errorf("got %s, %v, want coffer_app", role, err)
	}
}

func TestALookOfAnOrganizationReadsItsRowsAlone(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	notes(t, db)
	insert(t, db, "org_a", "1")
	insert(t, db, "org_b", "2")
	var role, mode string
	var found []string
	for range 3 { // also with the plans of the first time
		err := db.ReadOrgBatch(t.Context(), "org_b", func(b *pgx.Batch) {
			b.Queue(`SELECT current_user::text, current_setting('transaction_read_only')`).
				QueryRow(func(row pgx.Row) error { return row.Scan(&role, &mode) })
			b.Queue(`SELECT id FROM notes`).Query(func(rows pgx.Rows) (err error) {
				found, err = pgx.CollectRows(rows, pgx.RowTo[string])
				return err
			})
		})
		if err != nil || role != "coffer_app" || mode != "on" || len(found) != 1 || found[0] != "2" {
			t.Errorf("got %s, %s, %v, %v, want coffer_app, on and the note 2", role, mode, found, err)
		}
	}
	err := db.ReadOrgBatch(t.Context(), "org_b", func(b *pgx.Batch) { b.Queue(insertNote, "org_b", "3", "x") })
	if err == nil {
		t.Error("a write was taken")
	}
}

func TestALookOutlivesTheConnectionsThatAreGone(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	one := func() error {
		return db.ReadSystemBatch(t.Context(), func(b *pgx.Batch) {
			b.Queue(`SELECT 1`).QueryRow(func(row pgx.Row) error { return row.Scan(new(int)) })
		})
	}
	if err := one(); err != nil {
		t.Fatal(err)
	}
	_, err := pgtest.OwnerPool(t, db).Exec(t.Context(), `
		SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'coffer' AND datname = current_database()`)
	if err != nil {
		t.Fatal(err)
	}
	if err := one(); err != nil {
		t.Errorf("got %v, want another connection", err)
	}
}
