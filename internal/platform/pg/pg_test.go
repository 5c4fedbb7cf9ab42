package pg_test

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

func TestOpenRefusesAServerThatForgets(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			cluster := pgtest.StartCluster(t, map[string]string{setting: "off"})
			_, err := pg.Open(t.Context(), pg.Config{URL: cluster.URL("")}, time.Now)
			if err == nil || !strings.Contains(err.Error(), setting+" = on") {
				t.Errorf("got %v, want an error that says to set %s = on", err, setting)
			}
		})
	}
	t.Run("for this database", func(t *testing.T) {
		t.Parallel()
		d := pgtest.NewDatabase(t)
		if _, err := connect(t, d.SuperURL).Exec(
			t.Context(), `ALTER DATABASE `+d.Name+` SET synchronous_commit = off`,
		); err != nil {
			t.Fatal(err)
		}
		_, err := pg.Open(t.Context(), pg.Config{URL: d.URL}, time.Now)
		if err == nil || !strings.Contains(err.Error(), "synchronous_commit = on") {
			t.Errorf("got %v, want an error that says to set synchronous_commit = on", err)
		}
	})
}

func TestOpenRefusesAPooler(t *testing.T) {
	t.Parallel()
	d := pgtest.NewDatabase(t)
	_, err := pg.Open(t.Context(), pg.Config{URL: (&pgtest.Proxy{FakePID: true}).Start(t, d.URL)}, time.Now)
	if err == nil || !strings.Contains(err.Error(), "pooler") {
		t.Errorf("got %v, want a refusal of the pooler", err)
	}
	db, err := pg.Open(t.Context(), pg.Config{URL: (&pgtest.Proxy{}).Start(t, d.URL)}, time.Now)
	if err != nil {
		t.Fatalf("through a proxy that only forwards: %v", err)
	}
	db.Close()
}

func TestOpenRefusesALoginThatCouldSeeEverything(t *testing.T) {
	t.Parallel()
	d := pgtest.NewDatabase(t)
	super := connect(t, d.SuperURL)
	for _, sql := range []string{
		`CREATE ROLE heir LOGIN INHERIT PASSWORD 'x'`,
		`GRANT coffer_app, coffer_system, coffer_reader TO heir`,
		`CREATE ROLE stranger LOGIN PASSWORD 'x'`,
	} {
		if _, err := super.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // Roles belong to the server, which other tests share.
		if _, err := super.Exec(context.Background(), `DROP ROLE heir, stranger`); err != nil {
			t.Error(err)
		}
	})
	as := func(name string) string {
		u, err := url.Parse(d.URL)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(name, "x")
		return u.String()
	}
	for _, c := range []struct{ name, url, want string }{
		{"superuser", d.SuperURL, "bypasses"},
		{"owner", d.OwnerURL, "not a member"},
		{"heir", as("heir"), "inherits"},
		{"stranger", as("stranger"), "not a member"},
	} {
		_, err := pg.Open(t.Context(), pg.Config{URL: c.url}, time.Now)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
}

func TestOpenRefusesAnOlderSchemaAndAcceptsANewerOne(t *testing.T) {
	t.Parallel()
	d := pgtest.NewDatabase(t)
	super := connect(t, d.SuperURL)
	if _, err := super.Exec(
		t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)`,
	); err != nil {
		t.Fatal(err)
	}
	pgtest.Open(t, d, time.Now)
	if _, err := super.Exec(t.Context(), `DELETE FROM goose_db_version WHERE version_id > 1`); err != nil {
		t.Fatal(err)
	}
	_, err := pg.Open(t.Context(), pg.Config{URL: d.URL}, time.Now)
	if err == nil || !strings.Contains(err.Error(), "lacks steps that this program needs ([2") {
		t.Errorf("got %v, want it to name the steps from 2 on", err)
	}
	if _, err := super.Exec(t.Context(), `DROP TABLE goose_db_version`); err != nil {
		t.Fatal(err)
	}
	_, err = pg.Open(t.Context(), pg.Config{URL: d.URL}, time.Now)
	if err == nil || !strings.Contains(err.Error(), "not migrated") {
		t.Errorf("got %v, want that it is not migrated", err)
	}
}

func TestMigrateMayRunAnywhereAtOnce(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cluster := private(t)
	super := connect(t, cluster.SuperURL(""))
	if _, err := super.Exec(ctx, `CREATE DATABASE second OWNER `+local.Owner); err != nil {
		t.Fatal(err)
	}
	if _, err := pg.Open(ctx, pg.Config{URL: cluster.URL("")}, time.Now); err == nil ||
		!strings.Contains(err.Error(), "not migrated") {
		t.Errorf("before: got %v, want that it is not migrated", err)
	}
	// Two databases of one cluster share its roles; two processes share a database.
	var group sync.WaitGroup
	var errs [4]error
	for i := range errs {
		name := []string{local.Database, "second"}[i%2]
		group.Go(func() {
			errs[i] = pg.Migrate(ctx, pg.Config{URL: cluster.URL(name), OwnerURL: cluster.OwnerURL(name)})
		})
	}
	group.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{local.Database, "second"} {
		conf := pg.Config{URL: cluster.URL(name), OwnerURL: cluster.OwnerURL(name)}
		if err := pg.Migrate(ctx, conf); err != nil {
			t.Errorf("again: %v", err)
		}
		db, err := pg.Open(ctx, conf, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		db.Close()
	}
}

// Step 1 was made of steps 3 to 80, which no longer exist: a database with some of them would pass
// for a new one.
func TestMigrateRefusesADatabaseThatStepsOfThePastMadeInPart(t *testing.T) {
	t.Parallel()
	d := pgtest.NewDatabase(t)
	super := connect(t, d.SuperURL)
	for _, c := range []struct {
		step    int
		refused bool
	}{{62, true}, {80, false}} {
		if _, err := super.Exec(
			t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, true)`, c.step,
		); err != nil {
			t.Fatal(err)
		}
		err := pg.Migrate(t.Context(), pg.Config{URL: d.URL, OwnerURL: d.OwnerURL})
		if refused := err != nil && strings.Contains(err.Error(), "unreleased version"); refused != c.refused ||
			!c.refused && err != nil {
			t.Errorf("with step %d: got %v, want refused %v", c.step, err, c.refused)
		}
	}
}

func TestMigrateSaysWhichLoginIsMissing(t *testing.T) {
	t.Parallel()
	d := pgtest.NewDatabase(t)
	err := pg.Migrate(t.Context(), pg.Config{URL: "postgres://nobody_here@127.0.0.1/x", OwnerURL: d.OwnerURL})
	if err == nil || !strings.Contains(err.Error(), `CREATE ROLE "nobody_here" LOGIN NOINHERIT`) {
		t.Errorf("got %v, want how to create the role", err)
	}
}

func TestEveryTableOfAnOrganizationIsBehindItsPolicies(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	rows, err := pgtest.OwnerPool(t, db).Query(t.Context(), `
		SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity,
			(SELECT coalesce(bool_and(pg_get_expr(p.polqual, p.polrelid) LIKE '%app.org%'), false)
				FROM pg_policy AS p
				WHERE p.polrelid = c.oid AND p.polpermissive AND p.polcmd IN ('r', '*')
					AND p.polroles && ARRAY[0, 'coffer_app'::regrole::oid])
		FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
		WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace
			AND a.attname = 'org_id' AND NOT a.attisdropped`)
	if err != nil {
		t.Fatal(err)
	}
	tables := 0
	for rows.Next() {
		var name string
		var forced, fenced bool
		if err := rows.Scan(&name, &forced, &fenced); err != nil {
			t.Fatal(err)
		}
		tables++
		if !forced || !fenced {
			t.Errorf("%s: got row level security %v, reading by app.org %v, want both: call coffer_tenant", name,
				forced, fenced)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if tables == 0 {
		t.Error("got no table with org_id, want some")
	}
}

func TestNoRoleOwnsOrMayReshapeATable(t *testing.T) {
	t.Parallel()
	d := pgtest.NewDatabase(t)
	conn := connect(t, d.URL)
	for _, role := range []string{"coffer_app", "coffer_system", "coffer_reader"} {
		if _, err := conn.Exec(t.Context(), `SET ROLE `+role); err != nil {
			t.Fatal(err)
		}
		for _, sql := range []string{
			`CREATE TABLE mine (x int)`,
			`ALTER TABLE events DISABLE ROW LEVEL SECURITY`,
			`TRUNCATE events`,
			`SELECT coffer_shared('events', 'ALL', 'ALL')`,
			`UPDATE goose_db_version SET is_applied = false`,
		} {
			if _, err := conn.Exec(t.Context(), sql); code(err) != "42501" {
				t.Errorf("%s: %s: got %v, want no privilege", role, sql, err)
			}
		}
	}
}

func TestALockHasOneHolder(t *testing.T) {
	t.Parallel()
	d := pgtest.NewDatabase(t)
	first, second := pgtest.Open(t, d, time.Now), pgtest.Open(t, d, time.Now)
	ctx := t.Context()
	take := func(db *pg.DB, name string) (*pg.Lock, bool) {
		t.Helper()
		lock, ok, err := db.AdvisoryLock(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			t.Cleanup(lock.Release)
		}
		return lock, ok
	}
	lock, ok := take(first, "scan")
	if !ok {
		t.Fatal("got no lock, want it")
	}
	if _, ok := take(second, "scan"); ok {
		t.Error("second holder: got the lock, want none")
	}
	if _, ok := take(first, "scan"); ok {
		t.Error("same process again: got the lock, want none")
	}
	if _, ok := take(second, "dispatch"); !ok {
		t.Error("other name: got none, want the lock")
	}
	lock.Release()
	lock.Release()
	if lock.Context().Err() == nil {
		t.Error("after Release: got a living context, want it ended")
	}
	pgtest.Eventually(t, func() bool { _, ok := take(second, "scan"); return ok }, "the lock is free")
}

func TestALockEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	lock, ok, err := db.AdvisoryLock(t.Context(), "scan")
	if err != nil || !ok {
		t.Fatalf("got %v, %v, want the lock", ok, err)
	}
	defer lock.Release()
	if _, err := pgtest.OwnerPool(t, db).Exec(t.Context(), `
		SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'coffer lock scan'`); err != nil {
		t.Fatal(err)
	}
	<-lock.Context().Done()
	if cause := context.Cause(lock.Context()); !errors.Is(cause, pg.ErrLockLost) {
		t.Errorf("got cause %v, want ErrLockLost", cause)
	}
	pgtest.Eventually(t, func() bool {
		again, ok, err := db.AdvisoryLock(t.Context(), "scan")
		if ok {
			again.Release()
		}
		return ok && err == nil
	}, "somebody else has it")
}

func TestALockEndsWithTheContextItWasTakenUnder(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, ok, err := db.AdvisoryLock(ctx, "scan")
	if err != nil || !ok {
		t.Fatalf("got %v, %v, want the lock", ok, err)
	}
	cancel()
	pgtest.Eventually(t, func() bool {
		again, ok, err := db.AdvisoryLock(t.Context(), "scan")
		if ok {
			again.Release()
		}
		return ok && err == nil
	}, "the lock is free without Release")
}

func TestALockOutlastsItsProbes(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	lock, ok, err := db.AdvisoryLock(t.Context(), "scan")
	if err != nil || !ok {
		t.Fatalf("got %v, %v, want the lock", ok, err)
	}
	defer lock.Release()
	owner := pgtest.OwnerPool(t, db)
	pgtest.Eventually(t, func() bool { return probes(t, owner) }, "the connection was probed")
	if err := lock.Context().Err(); err != nil {
		t.Errorf("after a probe: got %v, want a living lock", context.Cause(lock.Context()))
	}
}

// probes reports that the lock's connection ran a statement after the one that took it.
func probes(t *testing.T, owner *pgxpool.Pool) (seen bool) {
	t.Helper()
	if err := owner.QueryRow(t.Context(), `
		SELECT coalesce(bool_or(query NOT LIKE '%advisory%' AND query_start > backend_start), false)
		FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'coffer lock scan'`).Scan(&seen); err != nil {
		t.Fatal(err)
	}
	return seen
}

func TestTheSystemPoolActsAsTheSystem(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool, err := db.SystemPool(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var role string
	if err := pool.QueryRow(t.Context(), `SELECT current_user`).Scan(&role); err != nil || role != "coffer_system" {
		t.Errorf("got %s, %v, want coffer_system", role, err)
	}
}

// A server compiles expensive statements by default.
func TestNoStatementOfTheProgramIsCompiledFirst(t *testing.T) {
	t.Parallel()
	cluster := pgtest.StartCluster(t, map[string]string{"jit": "on", "jit_above_cost": "0"})
	db, err := pg.Open(t.Context(), pg.Config{URL: cluster.URL("")}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	pool, err := db.SystemPool(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	var got [2]string
	if err := db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SHOW jit`).Scan(&got[0])
	}); err != nil {
		t.Fatal(err)
	}
	if err := pool.QueryRow(t.Context(), `SHOW jit`).Scan(&got[1]); err != nil {
		t.Fatal(err)
	}
	if want := [2]string{"off", "off"}; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func BenchmarkFreshDatabase(b *testing.B) {
	for b.Loop() {
		pgtest.NewDatabase(b)
	}
}

func BenchmarkTransaction(b *testing.B) {
	db := pgtest.New(b)
	for b.Loop() {
		if err := db.InOrg(b.Context(), "org_a", func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, `SELECT`)
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
}

// private starts a cluster that was never migrated.
func private(t *testing.T) *local.Cluster {
	t.Helper()
	cluster, err := local.Start(t.Context(), local.Options{
		Dir: filepath.Join(t.TempDir(), "pg"), TCP: true, Ephemeral: true,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cluster
}
