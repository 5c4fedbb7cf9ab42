package pgtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

func TestEachTestHasADatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	a, b := pgtest.New(t), pgtest.New(t)
	if _, err := pgtest.OwnerPool(t, a).Exec(t.Context(), `CREATE TABLE only_here (n int)`); err != nil {
		t.Fatal(err)
	}
	var there bool
	if err := pgtest.OwnerPool(t, b).QueryRow(
		t.Context(), `SELECT to_regclass('only_here') IS NOT NULL`,
	).Scan(&there); err != nil || there {
		t.Errorf("got the table in the other database %v, %v, want it in one", there, err)
	}
}

func TestADatabaseGoesWithItsTest(t *testing.T) {
	t.Parallel()
	admin := connect(t, pgtest.NewDatabase(t).SuperURL)
	var name string
	t.Run("test", func(t *testing.T) {
		db := pgtest.New(t)
		name = pgtest.DatabaseOf(t, db).Name
		// A connection that the test forgets does not keep its database.
		if _, err := pgx.Connect(t.Context(), pgtest.LoginURL(t, db)); err != nil {
			t.Fatal(err)
		}
	})
	var there bool
	if err := admin.QueryRow(
		t.Context(), `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name,
	).Scan(&there); err != nil || there {
		t.Errorf("got the database %v, %v, want it gone", there, err)
	}
}

func TestADatabaseIsQuick(t *testing.T) {
	t.Parallel()
	pgtest.NewDatabase(t) // The first one starts the server.
	start := time.Now()
	const databases = 10
	for range databases {
		pgtest.NewDatabase(t)
	}
	t.Logf("a database in %v", time.Since(start)/databases)
}

func TestTheClockIsTheTests(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	db := pgtest.NewWithClock(t, func() time.Time { return at })
	if err := db.InSystem(t.Context(), func(_ context.Context, tx pg.Tx) error {
		if tx.Now != at {
			t.Errorf("got %v, want %v", tx.Now, at)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestAKilledServerComesBackWithWhatItAcknowledged(t *testing.T) {
	t.Parallel()
	cluster := pgtest.StartCluster(t, nil)
	db, err := pg.Open(t.Context(), pg.Config{URL: cluster.URL("")}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if _, err := connect(t, cluster.OwnerURL("")).Exec(t.Context(), `
		CREATE TABLE kept (org_id text NOT NULL, n int NOT NULL);
		SELECT coffer_tenant('kept', 'SELECT, INSERT', 'SELECT')`); err != nil {
		t.Fatal(err)
	}
	if err := db.InOrg(t.Context(), "org_a", func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO kept VALUES ('org_a', 42)`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The pool's connections are dead, and the caller does not notice.
	var n int
	if err := db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT n FROM kept`).Scan(&n)
	}); err != nil || n != 42 {
		t.Errorf("got %d, %v, want 42", n, err)
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}
