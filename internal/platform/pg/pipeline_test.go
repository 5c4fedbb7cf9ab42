package pg_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

const insertNote = `INSERT INTO notes (org_id, id, body) VALUES ($1, $2, $3)`

// both runs a transaction of two round trips for org_a that finds notes and writes one.
func both(
	ctx context.Context, db *pg.DB, write func(ctx context.Context, tx pg.Tx, b *pgx.Batch) error,
) (found []string, err error) {
	err = db.InOrgPipelined(ctx, "org_a", func(b *pgx.Batch) {
		b.Queue(`SELECT id FROM notes ORDER BY id`).Query(func(rows pgx.Rows) (err error) {
			found, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
	}, write)
	return found, err
}

func TestTwoRoundTripsAreOneTransactionOfOneOrganization(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	notes(t, db)
	insert(t, db, "org_a", "1")
	insert(t, db, "org_b", "2")
	for _, c := range []struct {
		name  string
		write func(ctx context.Context, tx pg.Tx, b *pgx.Batch) error
		err   bool
		want  string // what org_a has afterwards
	}{
		{"nothing is written", func(context.Context, pg.Tx, *pgx.Batch) error { return nil }, false, "[1]"},
		{"the function refuses", func(_ context.Context, _ pg.Tx, b *pgx.Batch) error {
			b.Queue(insertNote, "org_a", "3", "x")
			return errors.New("no")
		}, true, "[1]"},
		{"another organization's row", func(_ context.Context, _ pg.Tx, b *pgx.Batch) error {
			b.Queue(insertNote, "org_a", "3", "x")
			b.Queue(insertNote, "org_b", "4", "x")
			return nil
		}, true, "[1]"},
		{"a value that cannot be sent", func(_ context.Context, _ pg.Tx, b *pgx.Batch) error {
			b.Queue(insertNote, "org_a", "3", "x")
			b.Queue(insertNote, "org_a", "4", struct{}{})
			return nil
		}, true, "[1]"},
		{"written between the two as well", func(ctx context.Context, tx pg.Tx, b *pgx.Batch) error {
			b.Queue(insertNote, "org_a", "4", "x")
			_, err := tx.Exec(ctx, insertNote, "org_a", "3", "x")
			return err
		}, false, "[1 3 4]"},
	} {
		found, err := both(t.Context(), db, c.write)
		if fmt.Sprint(found) != "[1]" || (err != nil) != c.err || errors.Is(err, pg.ErrCommitUnknown) {
			t.Errorf("%s: got %v and %v, want [1] found, an error: %v", c.name, found, err, c.err)
		}
		after, err := both(t.Context(), db, func(context.Context, pg.Tx, *pgx.Batch) error { return nil })
		if err != nil || fmt.Sprint(after) != c.want {
			t.Errorf("%s: got %v (%v) afterwards, want %v", c.name, after, err, c.want)
		}
	}
	if got := db.Counts().CommitsUnknown; got != 0 {
		t.Errorf("got %d unknown commits, want none", got)
	}
}

func TestALostAnswerToRowsWithTheirCommitIsUnknownAndNotRunAgain(t *testing.T) {
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

			runs := 0
			_, err := both(t.Context(), db, func(_ context.Context, _ pg.Tx, b *pgx.Batch) error {
				runs++
				p.CommitAction.Store(lost)
				b.Queue(insertNote, "org_a", "1", "kept")
				return nil
			})
			if !errors.Is(err, pg.ErrCommitUnknown) {
				t.Errorf("got %v, want ErrCommitUnknown", err)
			}
			if runs != 1 || db.Counts().CommitsUnknown != 1 {
				t.Errorf("got %d runs, %d counted, want 1 and 1", runs, db.Counts().CommitsUnknown)
			}
			p.CommitAction.Store(pgtest.CommitPasses)
			// The server may still be processing what it received.
			pgtest.Eventually(t, func() bool { return bodies(t, direct) == committed }, "the row is %q", committed)
		})
	}
}

func TestARefusalOfRowsOrOfTheirCommitIsKnownToHaveRolledBack(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	notes(t, db)
	if _, err := pgtest.OwnerPool(t, db).Exec(t.Context(),
		`ALTER TABLE notes ADD CONSTRAINT notes_body_once UNIQUE (body) DEFERRABLE INITIALLY DEFERRED`); err != nil {
		t.Fatal(err)
	}
	insert(t, db, "org_a", "1")
	runs := 0
	_, err := both(t.Context(), db, func(_ context.Context, _ pg.Tx, b *pgx.Batch) error {
		runs++
		b.Queue(`INSERT INTO notes (org_id, id) VALUES ('org_a', '2')`)
		return nil
	})
	if !pg.ViolatesConstraint(err, "notes_body_once") || errors.Is(err, pg.ErrCommitUnknown) || runs != 1 {
		t.Errorf("got %v after %d runs, want a violation of notes_body_once after 1", err, runs)
	}

	// A transaction that the server asks to repeat is repeated: it has rolled back.
	runs = 0
	_, err = both(t.Context(), db, func(_ context.Context, _ pg.Tx, b *pgx.Batch) error {
		if runs++; runs == 1 {
			b.Queue(`DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = 'serialization_failure'; END $$`)
		}
		b.Queue(insertNote, "org_a", "3", "again")
		return nil
	})
	if err != nil || runs != 2 || db.Counts().Serializations != 1 {
		t.Errorf("got %v after %d runs, %d counted, want it written by the second", err, runs,
			db.Counts().Serializations)
	}
}

func TestAServerThatWasRestartedIsNoReasonToFailWhatOnlyLooked(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	notes(t, db)
	look := func() error {
		_, err := both(t.Context(), db, func(_ context.Context, _ pg.Tx, b *pgx.Batch) error { return nil })
		return err
	}
	if err := look(); err != nil {
		t.Fatal(err)
	}
	if _, err := pgtest.OwnerPool(t, db).Exec(t.Context(), `
		SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND usename <> current_user`); err != nil {
		t.Fatal(err)
	}
	if err := look(); err != nil {
		t.Errorf("got %v, want another connection", err)
	}
}

// atOnce writes one note in one round trip, behind statements that may refuse it.
func atOnce(ctx context.Context, db *pg.DB, id string, before ...string) error {
	return db.InOrgAtOnce(ctx, "org_a", func(_ time.Time, b *pgx.Batch) error {
		for _, sql := range before {
			b.Queue(sql)
		}
		b.Queue(insertNote, "org_a", id, "body "+id)
		return nil
	})
}

func TestOneRoundTripIsOneTransactionOfOneOrganization(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	notes(t, db)
	insert(t, db, "org_b", "2")
	if err := atOnce(t.Context(), db, "1"); err != nil {
		t.Fatal(err)
	}
	err := atOnce(t.Context(), db, "3", `DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'check_violation'; END $$`)
	if err == nil || errors.Is(err, pg.ErrCommitUnknown) {
		t.Errorf("got %v, want a refusal that proves that nothing was written", err)
	}
	err = atOnce(t.Context(), db, "4", `INSERT INTO notes (org_id, id) VALUES ('org_b', '5')`)
	if err == nil || errors.Is(err, pg.ErrCommitUnknown) {
		t.Errorf("got %v, want a refusal of another organization's row", err)
	}
	wanted := errors.New("not this one")
	if err := db.InOrgAtOnce(
		t.Context(), "org_a", func(time.Time, *pgx.Batch) error { return wanted },
	); !errors.Is(err, wanted) {
		t.Errorf("got %v, want %v", err, wanted)
	}
	found, err := both(t.Context(), db, func(context.Context, pg.Tx, *pgx.Batch) error { return nil })
	if err != nil || fmt.Sprint(found) != "[1]" {
		t.Errorf("got %v (%v), want [1]", found, err)
	}

	// A transaction that the server asks to repeat is repeated.
	runs := 0
	err = db.InOrgAtOnce(t.Context(), "org_a", func(_ time.Time, b *pgx.Batch) error {
		if runs++; runs == 1 {
			b.Queue(`DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = 'serialization_failure'; END $$`)
		}
		b.Queue(insertNote, "org_a", "6", "again")
		return nil
	})
	if err != nil || runs != 2 {
		t.Errorf("got %v after %d runs, want it written by the second", err, runs)
	}
}

func TestALostAnswerToOneRoundTripIsUnknownAndNotRunAgain(t *testing.T) {
	t.Parallel()
	for name, lost := range pgtest.CommitLosses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := pgtest.New(t)
			notes(t, direct)
			p := &pgtest.Proxy{}
			d := pgtest.DatabaseOf(t, direct)
			d.URL = p.Start(t, d.URL)
			db := pgtest.Open(t, d, time.Now)
			p.LoseNext(pgtest.Loss{Action: lost, Nth: 1})
			if err := atOnce(t.Context(), db, "1"); !errors.Is(err, pg.ErrCommitUnknown) {
				t.Errorf("got %v, want an unknown outcome", err)
			}
			if got := db.Counts().CommitsUnknown; got != 1 {
				t.Errorf("got %d unknown commits, want 1", got)
			}
		})
	}
}

// A COMMIT that is sent on a connection that the server has closed would have an unknown outcome. It is sent on another
// one.
func TestNothingIsSentAtOnceOnAConnectionThatDiedWhileIdle(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	notes(t, db)
	if err := atOnce(t.Context(), db, "1"); err != nil {
		t.Fatal(err)
	}
	if _, err := pgtest.OwnerPool(t, db).Exec(t.Context(), `
		SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'coffer'`); err != nil {
		t.Fatal(err)
	}
	if err := atOnce(t.Context(), db, "2"); err != nil {
		t.Errorf("got %v, want a new connection", err)
	}
	if got := db.Counts().CommitsUnknown; got != 0 {
		t.Errorf("got %d unknown commits, want none", got)
	}
}
