package pg_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/migrations"
)

// An installation is upgraded while its service runs. A step that cannot lock a table gives way,
// lets other transactions pass, and tries again.
func TestAMigrationThatHasToWaitStandsAsideAndComesBack(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cluster := private(t)
	conf := pg.Config{URL: cluster.URL(local.Database), OwnerURL: cluster.OwnerURL(local.Database)}
	if err := pg.MigrateTo(ctx, conf, migrations.Latest()-1); err != nil {
		t.Fatal(err)
	}
	if _, err := pg.Open(ctx, conf, time.Now); err == nil || !strings.Contains(err.Error(), "run the migrations") {
		t.Errorf("the new program on the old schema: got %v, want it to say what to do", err)
	}
	reader, watcher := connect(t, cluster.SuperURL(local.Database)), connect(t, cluster.SuperURL(local.Database))
	// Every step writes into this table, in addition to what the newest one does.
	if _, err := reader.Exec(ctx, `BEGIN; LOCK TABLE goose_db_version IN SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	migrated := make(chan error, 1)
	go func() { migrated <- pg.Migrate(context.WithoutCancel(ctx), conf) }()
	waits := func() (waits bool) {
		err := watcher.QueryRow(
			ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'goose_db_version'::regclass AND NOT granted)`,
		).Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
		return waits
	}
	pgtest.Eventually(t, waits, "the migration waits for the table")
	pgtest.Eventually(t, func() bool { return !waits() }, "the migration gives up waiting")
	select {
	case err := <-migrated:
		t.Fatalf("the migration ended: %v", err)
	default:
	}
	if _, err := reader.Exec(ctx, `COMMIT`); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Fatalf("once the table is free: got %v, want it migrated", err)
	}
	db, err := pg.Open(ctx, conf, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	db.Close()

	// Migrations only add, so a program works with a newer schema than its own: that is the state
	// of an upgrade between its first and its last process.
	if _, err := reader.Exec(
		ctx, `INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, true)`, migrations.Latest()+1,
	); err != nil {
		t.Fatal(err)
	}
	if db, err = pg.Open(ctx, conf, time.Now); err != nil {
		t.Fatalf("the old program on a newer schema: got %v, want it to work", err)
	}
	db.Close()
}

// Two branches may use numbers in another order. A step with a lower number than the newest applied
// one is reported as missing, and applied.
func TestAStepThatCameLateIsMissedAndBrought(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cluster := private(t)
	conf := pg.Config{URL: cluster.URL(local.Database), OwnerURL: cluster.OwnerURL(local.Database)}
	if err := pg.Migrate(ctx, conf); err != nil {
		t.Fatal(err)
	}
	// Like an installation that lacks an old step: the one that creates the tables, which cannot be
	// applied twice.
	const late = 1
	super := connect(t, cluster.SuperURL(local.Database))
	if _, err := super.Exec(ctx, `DELETE FROM goose_db_version WHERE version_id = $1`, late); err != nil {
		t.Fatal(err)
	}
	if _, err := pg.Open(ctx, conf, time.Now); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprintf("([%d])", late)) {
		t.Errorf("got %v, want it to miss step %d", err, late)
	}
	// The step's changes exist already, so the test can only see that it is tried.
	if err := pg.Migrate(ctx, conf); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("version:%d)", late)) {
		t.Errorf("got %v, want step %d to be tried", err, late)
	}
}

// A step that sets its own lock timeout and fails leaves the setting on its connection. The next
// step on it has the migration's timeout again.
func TestNoStepInheritsThePatienceOfAnother(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cluster := private(t)
	conf := pg.Config{URL: cluster.URL(local.Database), OwnerURL: cluster.OwnerURL(local.Database)}
	pool, err := pg.OwnerPool(ctx, conf)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	ask := func(conn *pgxpool.Conn) (patience string, backend uint32) {
		t.Helper()
		if err := conn.QueryRow(ctx, `SHOW lock_timeout`).Scan(&patience); err != nil {
			t.Fatal(err)
		}
		return patience, conn.Conn().PgConn().PID()
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	usual, first := ask(conn)
	if _, err := conn.Exec(ctx, `SET lock_timeout = '20min'`); err != nil {
		t.Fatal(err)
	}
	conn.Release()
	if conn, err = pool.Acquire(ctx); err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if got, again := ask(conn); got != usual || again != first || usual == "0" {
		t.Errorf("got %s on connection %d, want %s on %d", got, again, usual, first)
	}
}

// Every step has a connection of the pool to itself.
func TestEveryStepTakesAConnectionOfThePool(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cluster := private(t)
	conf, err := pgxpool.ParseConfig(cluster.OwnerURL(local.Database))
	if err != nil {
		t.Fatal(err)
	}
	var taken atomic.Int32
	conf.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { taken.Add(1); return true, nil }
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := migrations.Up(ctx, pool); err != nil {
		t.Fatal(err)
	}
	if got, steps := int(taken.Load()), len(migrations.Versions()); got < steps {
		t.Errorf("got %d connections taken, want one for each of %d steps", got, steps)
	}
	taken.Store(0)
	if err := migrations.Up(ctx, pool); err != nil {
		t.Fatal(err)
	}
	if got := taken.Load(); got > 4 {
		t.Errorf("with nothing to do: got %d connections taken, want a few", got)
	}
}
