package pg_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

func TestEachKindOfTransactionActsAsItsRole(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	inOrg := func(run func(context.Context, string, func(context.Context, pg.Tx) error) error) func(context.Context,
		func(context.Context, pg.Tx) error) error {
		return func(ctx context.Context, fn func(context.Context, pg.Tx) error) error { return run(ctx, "org_1", fn) }
	}
	for _, c := range []struct {
		name                string
		run                 func(context.Context, func(context.Context, pg.Tx) error) error
		role, org           string
		readOnly, isolation string
	}{
		{"InOrg", inOrg(db.InOrg), "coffer_app", "org_1", "off", "read committed"},
		{"ReadOrg", inOrg(db.ReadOrg), "coffer_app", "org_1", "on", "read committed"},
		{"InSystem", db.InSystem, "coffer_system", "", "off", "read committed"},
		{"ReadSystem", db.ReadSystem, "coffer_system", "", "on", "read committed"},
		{"SnapshotOrg", inOrg(db.SnapshotOrg), "coffer_app", "org_1", "on", "repeatable read"},
		{"Snapshot", db.Snapshot, "coffer_reader", "", "on", "repeatable read"},
	} {
		var role, org, readOnly, isolation string
		err := c.run(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			return tx.QueryRow(ctx, `
				SELECT current_user, coalesce(current_setting('app.org', true), ''),
					current_setting('transaction_read_only'), current_setting('transaction_isolation')`).
				Scan(&role, &org, &readOnly, &isolation)
		})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if role != c.role || org != c.org || readOnly != c.readOnly || isolation != c.isolation {
			t.Errorf("%s: got %v, want %v", c.name,
				[]string{role, org, readOnly, isolation}, []string{c.role, c.org, c.readOnly, c.isolation})
		}
	}
}

func TestATransactionSeesOneOrganizationOnly(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	notes(t, db)
	ctx := t.Context()
	write := func(ctx context.Context, tx pg.Tx, org, id string) error {
		_, err := tx.Exec(ctx, `INSERT INTO notes (org_id, id) VALUES ($1, $2)`, org, id)
		return err
	}
	count := func(ctx context.Context, tx pg.Tx) (n int, err error) {
		err = tx.QueryRow(ctx, `SELECT count(*) FROM notes`).Scan(&n)
		return n, err
	}
	for _, org := range []string{"org_a", "org_b"} {
		if err := db.InOrg(
			ctx, org, func(ctx context.Context, tx pg.Tx) error { return write(ctx, tx, org, "1") },
		); err != nil {
			t.Fatalf("write as %s: %v", org, err)
		}
	}

	t.Run("it cannot write for another", func(t *testing.T) {
		err := db.InOrg(ctx, "org_a", func(ctx context.Context, tx pg.Tx) error { return write(ctx, tx, "org_b", "2") })
		if code(err) != "42501" {
			t.Errorf("got %v, want a refusal by row level security", err)
		}
	})
	t.Run("it cannot change or hand over rows", func(t *testing.T) {
		err := db.InOrg(ctx, "org_a", func(ctx context.Context, tx pg.Tx) error {
			tag, err := tx.Exec(ctx, `UPDATE notes SET body = 'x' WHERE org_id = 'org_b'`)
			if err == nil && tag.RowsAffected() != 0 {
				t.Errorf("got %d rows of another changed, want 0", tag.RowsAffected())
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		err = db.InOrg(ctx, "org_a", func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE notes SET org_id = 'org_b', id = '3'`)
			return err
		})
		if code(err) != "42501" {
			t.Errorf("got %v, want a refusal by row level security", err)
		}
	})
	t.Run("it sees its own", func(t *testing.T) {
		err := db.ReadOrg(ctx, "org_a", func(ctx context.Context, tx pg.Tx) error {
			if n, err := count(ctx, tx); n != 1 || err != nil {
				t.Errorf("got %d, %v, want 1", n, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("without an organization it sees nothing", func(t *testing.T) {
		err := db.InOrg(ctx, "org_a", func(ctx context.Context, tx pg.Tx) error {
			if _, err := tx.Exec(ctx, `SET LOCAL app.org = ''`); err != nil {
				return err
			}
			if n, err := count(ctx, tx); n != 0 || err != nil {
				t.Errorf("got %d, %v, want 0", n, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		conn := connect(t, pgtest.LoginURL(t, db))
		if _, err := conn.Exec(ctx, `SET ROLE coffer_app`); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := conn.QueryRow(ctx, `SELECT count(*) FROM notes`).Scan(&n); n != 0 || err != nil {
			t.Errorf("never set: got %d, %v, want 0", n, err)
		}
	})
	t.Run("the system and the reader see all", func(t *testing.T) {
		for _, run := range []func(context.Context, func(context.Context, pg.Tx) error) error{
			db.InSystem, db.ReadSystem, db.Snapshot,
		} {
			err := run(ctx, func(ctx context.Context, tx pg.Tx) error {
				if n, err := count(ctx, tx); n != 2 || err != nil {
					t.Errorf("got %d, %v, want 2", n, err)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("the login role and the owner see nothing by themselves", func(t *testing.T) {
		login := connect(t, pgtest.LoginURL(t, db))
		if _, err := login.Exec(ctx, `SELECT FROM notes`); code(err) != "42501" {
			t.Errorf("login: got %v, want no privilege", err)
		}
		owner := connect(t, pgtest.DatabaseOf(t, db).OwnerURL)
		var n int
		if err := owner.QueryRow(ctx, `SELECT count(*) FROM notes`).Scan(&n); n != 0 || err != nil {
			t.Errorf("owner: got %d, %v, want 0", n, err)
		}
	})
	t.Run("the next transaction on the connection is clean", func(t *testing.T) {
		err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			var org string
			if err := tx.QueryRow(ctx, `SELECT coalesce(current_setting('app.org', true), '')`).Scan(&org); org != "" ||
				err != nil {
				t.Errorf("got app.org %q, %v, want none", org, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestReadingTransactionsCannotWrite(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	notes(t, db)
	inOrg := func(ctx context.Context, fn func(context.Context, pg.Tx) error) error {
		return db.ReadOrg(ctx, "org_a", fn)
	}
	for name, run := range map[string]func(context.Context, func(context.Context, pg.Tx) error) error{
		"ReadOrg": inOrg, "ReadSystem": db.ReadSystem, "Snapshot": db.Snapshot,
	} {
		err := run(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO notes (org_id, id) VALUES ('org_a', '1')`)
			return err
		})
		if got := code(err); got != "25006" && got != "42501" {
			t.Errorf("%s: got %v, want a refusal to write", name, err)
		}
	}
}

func TestAnImpossibleOrganizationNeverReachesTheServer(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, org := range []string{"", "a'; drop table x; --", "a\x00", "ä", "a b", string(make([]byte, 65))} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q: got no panic, want one", org)
				}
			}()
			_ = db.InOrg(t.Context(), org, func(context.Context, pg.Tx) error { return nil })
		}()
	}
}

func TestADeadlockIsRunAgain(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	notes(t, db)
	insert(t, db, "org_a", "1", "2")
	ctx := t.Context()

	// Each transaction locks one row and, in its first run, waits until the other has locked its
	// own; then each tries to lock the other's.
	var runs atomic.Int32
	var both sync.WaitGroup
	both.Add(2)
	cross := func(first, second string) error {
		waited := false
		return db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			runs.Add(1)
			if _, err := tx.Exec(ctx, `UPDATE notes SET body = body || 'x' WHERE id = $1`, first); err != nil {
				return err
			}
			if !waited {
				waited = true
				both.Done()
				both.Wait()
			}
			_, err := tx.Exec(ctx, `UPDATE notes SET body = body || 'x' WHERE id = $1`, second)
			return err
		})
	}
	var group sync.WaitGroup
	errs := make([]error, 2)
	group.Go(func() { errs[0] = cross("1", "2") })
	group.Go(func() { errs[1] = cross("2", "1") })
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	// PostgreSQL looks for a deadlock in each waiter when its own timeout ends. If two timeouts end
	// together, both may find it and both give up. So one victim is usual and not promised.
	deadlocks := db.Counts().Deadlocks
	if deadlocks < 1 {
		t.Errorf("deadlocks counted: got %d, want at least 1", deadlocks)
	}
	if got := int64(runs.Load()); got != 2+int64(deadlocks) {
		t.Errorf("runs: got %d, want 2 and one for each of %d deadlocks", got, deadlocks)
	}
	if got := bodies(t, db); got != "xx,xx" {
		t.Errorf("rows: got %s, want xx,xx", got)
	}
}

func TestRetriesAreBounded(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	runs := 0
	err := db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		runs++
		_, err := tx.Exec(ctx, `DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$`)
		return err
	})
	if code(err) != "40001" || runs != 6 {
		t.Errorf("got %v after %d runs, want 40001 after 6", err, runs)
	}
	if got := db.Counts().Serializations; got != 6 {
		t.Errorf("serialization failures counted: got %d, want 6", got)
	}
}

func TestOtherErrorsAreNotRunAgain(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	mine := errors.New("mine")
	runs := 0
	err := db.InSystem(t.Context(), func(context.Context, pg.Tx) error { runs++; return mine })
	if !errors.Is(err, mine) || runs != 1 {
		t.Errorf("got %v after %d runs, want mine after 1", err, runs)
	}
}

func TestAnErrorAPanicAndACancelledContextRollBack(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	notes(t, db)
	write := func(ctx context.Context, tx pg.Tx) {
		if _, err := tx.Exec(ctx, `INSERT INTO notes (org_id, id) VALUES ('org_a', '1')`); err != nil {
			t.Error(err)
		}
	}
	if err := db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		write(ctx, tx)
		return errors.New("no")
	}); err == nil {
		t.Error("got no error, want one")
	}
	func() {
		defer func() {
			if got := recover(); got != "boom" {
				t.Errorf("got panic %v, want boom", got)
			}
		}()
		_ = db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			write(ctx, tx)
			panic("boom")
		})
	}()
	left := make(chan struct{})
	go func() {
		defer close(left)
		_ = db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			write(ctx, tx)
			runtime.Goexit()
			return nil
		})
	}()
	<-left
	ctx, cancel := context.WithCancel(t.Context())
	if err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		write(ctx, tx)
		cancel()
		return nil
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if got := bodies(t, db); got != "" {
		t.Errorf("got rows %q, want none", got)
	}
	if got := db.PoolStat().AcquiredConns(); got != 0 {
		t.Errorf("connections still out: got %d, want 0", got)
	}
}

func TestALostCommitIsUnknownAndNeverRunAgain(t *testing.T) {
	t.Parallel()
	for name, lost := range pgtest.CommitLosses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			committed := map[int32]string{pgtest.AnswerLost: "kept"}[lost]
			direct := pgtest.New(t)
			notes(t, direct)
			p := &pgtest.Proxy{}
			through := pgtest.DatabaseOf(t, direct)
			through.URL = p.Start(t, through.URL)
			db := pgtest.Open(t, through, time.Now)

			p.CommitAction.Store(lost)
			runs := 0
			err := db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
				runs++
				_, err := tx.Exec(ctx, `INSERT INTO notes (org_id, id, body) VALUES ('org_a', '1', 'kept')`)
				return err
			})
			if !errors.Is(err, pg.ErrCommitUnknown) {
				t.Errorf("got %v, want ErrCommitUnknown", err)
			}
			if runs != 1 || db.Counts().CommitsUnknown != 1 {
				t.Errorf("got %d runs, %d counted, want 1 and 1", runs, db.Counts().CommitsUnknown)
			}
			p.CommitAction.Store(pgtest.CommitPasses)
			// The server may still be at work on the commit it received.
			pgtest.Eventually(t, func() bool { return bodies(t, direct) == committed }, "the row is %q", committed)
		})
	}
}

func TestARefusedCommitIsKnownToHaveRolledBack(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	notes(t, db)
	if _, err := pgtest.OwnerPool(t, db).Exec(t.Context(),
		`ALTER TABLE notes ADD CONSTRAINT notes_body_once UNIQUE (body) DEFERRABLE INITIALLY DEFERRED`); err != nil {
		t.Fatal(err)
	}
	insert(t, db, "org_a", "1")
	runs := 0
	err := db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		runs++
		_, err := tx.Exec(ctx, `INSERT INTO notes (org_id, id) VALUES ('org_a', '2')`)
		return err
	})
	if !pg.ViolatesConstraint(err, "notes_body_once") || errors.Is(err, pg.ErrCommitUnknown) || runs != 1 {
		t.Errorf("got %v after %d runs, want a violation of notes_body_once after 1", err, runs)
	}

	// An error that fn hides still aborts: COMMIT then answers ROLLBACK.
	err = db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, _ = tx.Exec(ctx, `SELECT 1/0`)
		return nil
	})
	if !errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, pg.ErrCommitUnknown) {
		t.Errorf("got %v, want ErrTxCommitRollback", err)
	}
}

func TestNowIsWhatIsReadBack(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("somewhere", 5*60*60)
	db := pgtest.NewWithClock(t, func() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 123456789, zone) })
	want := time.Date(2026, 3, 4, 0, 6, 7, 123456000, time.UTC)
	err := db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		if tx.Now != want {
			t.Errorf("Now: got %v, want %v", tx.Now, want)
		}
		var back time.Time
		var all []time.Time
		if err := tx.QueryRow(
			ctx, `SELECT $1::timestamptz, ARRAY[$1::timestamptz]`, tx.Now,
		).Scan(&back, &all); err != nil {
			return err
		}
		if back != want || len(all) != 1 || all[0] != want {
			t.Errorf("read back: got %v, %v, want %v", back, all, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestOnlyTheOpenerEndsATransaction(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for name, misuse := range map[string]func(context.Context, pg.Tx) error{
		"commit":   func(ctx context.Context, tx pg.Tx) error { return tx.Commit(ctx) },
		"rollback": func(ctx context.Context, tx pg.Tx) error { return tx.Rollback(ctx) },
		"nested": func(ctx context.Context, _ pg.Tx) error {
			return db.InSystem(ctx, func(context.Context, pg.Tx) error { return nil })
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: got no panic, want one", name)
				}
			}()
			_ = db.InSystem(t.Context(), misuse)
		}()
	}
}

func TestASavepointKeepsTheRest(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	notes(t, db)
	insert(t, db, "org_a", "1")
	err := db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		err := pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
			_, err := inner.Exec(ctx, `INSERT INTO notes (org_id, id) VALUES ('org_a', '1')`)
			return err
		})
		if !pg.ViolatesConstraint(err, "notes_pkey") || pg.ViolatesConstraint(err, "another") ||
			pg.ViolatesConstraint(nil, "notes_pkey") {
			t.Errorf("got %v, want a violation of notes_pkey", err)
		}
		_, err = tx.Exec(ctx, `INSERT INTO notes (org_id, id) VALUES ('org_a', '2')`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := bodies(t, db); got != "," {
		t.Errorf("got %q, want two rows", got)
	}
}

func TestAConnectionThatDiedWhileIdleIsNotTheCallersProblem(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	nothing := func(context.Context, pg.Tx) error { return nil }
	if err := db.InSystem(t.Context(), nothing); err != nil {
		t.Fatal(err)
	}
	if _, err := pgtest.OwnerPool(t, db).Exec(t.Context(), `
		SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'coffer'`); err != nil {
		t.Fatal(err)
	}
	if err := db.InSystem(t.Context(), nothing); err != nil {
		t.Errorf("got %v, want a new connection", err)
	}
}

// notes makes a table of the organizations', as the owner, the way a migration would.
func notes(t *testing.T, db *pg.DB) {
	t.Helper()
	if _, err := connect(t, pgtest.DatabaseOf(t, db).OwnerURL).Exec(t.Context(), `
		CREATE TABLE notes (
			org_id text NOT NULL,
			id     text NOT NULL,
			body   text NOT NULL DEFAULT '',
			CONSTRAINT notes_pkey PRIMARY KEY (org_id, id)
		);
		SELECT coffer_tenant('notes', 'SELECT, INSERT, UPDATE', 'SELECT, INSERT, UPDATE (body)')`); err != nil {
		t.Fatalf("create notes: %v", err)
	}
}

func insert(t *testing.T, db *pg.DB, org string, ids ...string) {
	t.Helper()
	err := db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO notes (org_id, id) SELECT $1, unnest($2::text[])`, org, ids)
		return err
	})
	if err != nil {
		t.Fatalf("insert notes: %v", err)
	}
}

// bodies returns the bodies of all notes, comma separated.
func bodies(t *testing.T, db *pg.DB) (all string) {
	t.Helper()
	err := db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT coalesce(string_agg(body, ',' ORDER BY org_id, id), '') FROM notes`).Scan(&all)
	})
	if err != nil {
		t.Fatalf("read notes: %v", err)
	}
	return all
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func code(err error) string {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return refused.Code
	}
	return ""
}

// A row that was handed on cannot be taken back, so none is handed on twice.
func TestASnapshotOfAnOrganizationIsReadOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	times := 0
	err := db.SnapshotOrg(t.Context(), "org_1", func(context.Context, pg.Tx) error {
		times++
		return &pgconn.PgError{Code: "40001"}
	})
	if err == nil || times != 1 {
		t.Errorf("got %v after %d runs, want an error after one", err, times)
	}
}

func TestRowsAreHandedOnUntilSomebodyHasEnough(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	enough := errors.New("enough")
	sum, most := 0, 0
	for _, stop := range []int{0, 1, 3} {
		err := db.SnapshotOrg(ctx, "org_1", func(ctx context.Context, tx pg.Tx) error {
			// Too long to read to its end; the server generates it while sending.
			return pg.ForEachRow(ctx, tx, `SELECT generate_series(1, CASE WHEN $1 = 0 THEN 1000 ELSE 1000000000 END)`,
				[]any{stop}, pgx.RowTo[int], func(n int) error {
					if sum, most = sum+n, max(most, n); stop != 0 && n == stop {
						return enough
					}
					return nil
				})
		})
		if want := map[bool]error{true: nil, false: enough}[stop == 0]; !errors.Is(err, want) {
			t.Errorf("until %d: got %v, want %v", stop, err, want)
		}
	}
	if sum != 500_500+1+6 || most != 1000 {
		t.Errorf("got the sum %d and no more than %d, want 500507 and 1000", sum, most)
	}
	if err := db.Ping(ctx); err != nil {
		t.Errorf("afterwards: got %v, want a database", err)
	}
}
