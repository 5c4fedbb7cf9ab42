package pg_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

func write(ctx context.Context, db *pg.DB, sql string) error {
	return db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, sql)
		return err
	})
}

func raise(state string) string {
	return "DO $$ BEGIN RAISE EXCEPTION 'on purpose' USING ERRCODE = '" + state + "'; END $$"
}

// Rule REQ-14.
func TestWhatPassesHasItsReason(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for state, want := range map[string]string{
		"53100": "no space left", "53200": "memory", "53400": "lacks a resource", "58030": "read or write its disk",
		"55P03": "conflicting " +
			"transaction", "57014": "too long", "57P01": "stopping or starting", "25006": "accepts no writes",
		"23505": "", "42501": "", "P0001": "", "XX001": "",
	} {
		if got := pg.UnavailableReason(write(t.Context(), db, raise(state))); want == "" && got != "" ||
			!strings.Contains(got, want) {
			t.Errorf("%s: got the reason %q, want %q in it", state, got, want)
		}
	}
	trip := db.InOrgPipelined(t.Context(), "org_a", func(b *pgx.Batch) { b.Queue(raise("53100")) },
		func(context.Context, pg.Tx, *pgx.Batch) error { return nil })
	if pg.UnavailableReason(trip) == "" {
		t.Errorf("in two trips: got %v, want a reason", trip)
	}
	look := db.ReadSystemBatch(t.Context(), func(b *pgx.Batch) { b.Queue(raise("53100")) })
	if pg.UnavailableReason(look) == "" {
		t.Errorf("a look: got %v, want a reason", look)
	}
	// A write in a read-only transaction is a programming error, and a retry does not help.
	err := db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE organizations SET name = 'x'`)
		return err
	})
	if err == nil || pg.UnavailableReason(err) != "" {
		t.Errorf("a write where nothing is written: got %v with a reason, want none", err)
	}
}

func TestAnUnknownCommitIsNotUnavailable(t *testing.T) {
	t.Parallel()
	p := &pgtest.Proxy{}
	db, err := pg.Open(t.Context(), pg.Config{URL: p.Start(t, pgtest.NewDatabase(t).URL)}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	p.CommitAction.Store(pgtest.AnswerLost)
	if err := db.CheckWrites(t.Context()); !errors.Is(err, pg.ErrCommitUnknown) || pg.UnavailableReason(err) != "" {
		t.Errorf("got %v and the reason %q, want ErrCommitUnknown and none", err, pg.UnavailableReason(err))
	}
}

func TestAPoolInUseIsUnavailable(t *testing.T) {
	t.Parallel()
	d := pgtest.NewDatabase(t)
	db, err := pg.Open(t.Context(), pg.Config{URL: d.URL, MaxConns: 1}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	nothing := func(context.Context, pg.Tx) error { return nil }
	err = db.InSystem(t.Context(), func(context.Context, pg.Tx) error {
		// The time of another request ends while this one has the only connection.
		soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		for name, err := range map[string]error{
			"a write": db.InSystem(soon, nothing),
			"a read":  db.ReadSystem(soon, nothing),
			"two trips": db.InOrgPipelined(soon, "org_a", func(b *pgx.Batch) { b.Queue(`SELECT 1`) },
				func(context.Context, pg.Tx, *pgx.Batch) error { return nil }),
			"a look": db.ReadSystemBatch(soon, func(b *pgx.Batch) { b.Queue(`SELECT 1`) }),
		} {
			if pg.UnavailableReason(err) == "" {
				t.Errorf("%s: got %v, want a reason", name, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAServerThatTakesNoMoreConnectionsIsUnavailable(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	owner := pgtest.OwnerPool(t, db)
	for _, sql := range []string{
		"ALTER DATABASE " + pgtest.DatabaseOf(t, db).Name + " CONNECTION LIMIT 0",
		`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'coffer' AND datname = current_database()`,
	} {
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(t.Context(), db, `SELECT 1`); !strings.Contains(pg.UnavailableReason(err), "no more connections") {
		t.Errorf("got %v and the reason %q, want that of the connections", err, pg.UnavailableReason(err))
	}
}

func TestCheckWritesNeedsSpaceOnTheDisk(t *testing.T) {
	t.Parallel()
	d := pgtest.NewDatabase(t)
	db := pgtest.Open(t, d, time.Now)
	if err := db.CheckWrites(t.Context()); err != nil {
		t.Fatalf("got %v, want a database that takes writes", err)
	}
	// The server can write its tables and nothing else, as on a full disk.
	if _, err := pgtest.OwnerPool(t, db).Exec(
		t.Context(), "ALTER DATABASE "+d.Name+" SET temp_file_limit = 0",
	); err != nil {
		t.Fatal(err)
	}
	full := pgtest.Open(t, d, time.Now)
	if err := full.CheckWrites(t.Context()); pg.UnavailableReason(err) == "" {
		t.Errorf("got %v, want an error with its reason", err)
	}
}

// standby is a server that has lost its primary: it answers reads and refuses writes.
func standby(t *testing.T) *local.Cluster {
	t.Helper()
	cluster := pgtest.StartCluster(t, map[string]string{"wal_level": "replica"})
	if err := cluster.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cluster.Dir(), "data", "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	return cluster
}

// Rule REQ-14. A standby answers every read.
func TestAStandbyIsUnavailableForWrites(t *testing.T) {
	t.Parallel()
	db, err := pg.Open(t.Context(), pg.Config{URL: standby(t).URL(local.Database)}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.ReadSystem(t.Context(), func(context.Context, pg.Tx) error { return nil }); err != nil {
		t.Errorf("a read: got %v, want an answer", err)
	}
	for name, err := range map[string]error{
		"a write": write(t.Context(), db, `SELECT 1`), "the check": db.CheckWrites(t.Context()),
	} {
		if !strings.Contains(pg.UnavailableReason(err), "accepts no writes") {
			t.Errorf("%s: got %v and the reason %q, want that it takes no writes", name, err, pg.UnavailableReason(err))
		}
	}
}

// A URL with two servers leads to the one that accepts writes, and to the other one after its
// promotion: pools and locks find it by themselves.
func TestOfTwoServersTheOneThatTakesWritesIsUsed(t *testing.T) {
	t.Parallel()
	second, first := standby(t), pgtest.StartCluster(t, nil)
	both, err := url.Parse(first.URL(local.Database))
	if err != nil {
		t.Fatal(err)
	}
	q := both.Query()
	q.Set("host", "127.0.0.1,127.0.0.1")
	q.Set("port", fmt.Sprintf("%d,%d", second.Port(), first.Port()))
	q.Set("target_session_attrs", "read-write")
	both.Host, both.RawQuery = "", q.Encode()
	db, err := pg.Open(t.Context(), pg.Config{URL: both.String()}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	takes := func(server *local.Cluster) bool {
		var port int
		err := db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			return tx.QueryRow(ctx, `SELECT current_setting('port')::int`).Scan(&port)
		})
		return err == nil && port == server.Port()
	}
	if !takes(first) {
		t.Fatal("got another server than the one that takes writes")
	}
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := write(t.Context(), db, `SELECT 1`); pg.UnavailableReason(err) == "" {
		t.Errorf("without a primary: got %v, want a reason", err)
	}
	super, err := pgx.Connect(t.Context(), second.SuperURL(local.Database))
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close(t.Context())
	if _, err := super.Exec(t.Context(), `SELECT pg_promote()`); err != nil {
		t.Fatal(err)
	}
	pgtest.Eventually(t, func() bool { return takes(second) }, "the promoted server is used")
	lock, ok, err := db.AdvisoryLock(t.Context(), "test")
	if err != nil || !ok {
		t.Fatalf("got %v %v, want the lock at the promoted server", ok, err)
	}
	lock.Release()
}
