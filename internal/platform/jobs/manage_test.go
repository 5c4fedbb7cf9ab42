package jobs_test

import (
	"context"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/platform/jobs"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// Jobs are listed with each state, the newest first, page by page, and counted up to a bound, however many
// there are. Rule PAGE-73.
func TestJobsAreListedAndCountedHoweverManyThereAre(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if _, err := pgtest.Superuser(t, db).Exec(t.Context(), `
		INSERT INTO river_job (id, state, kind, attempt, max_attempts, args, created_at, scheduled_at, finalized_at,
			errors)
		SELECT n, s.state, 'test_greet', 1, 3, '{"name":"alice"}', '2026-01-01Z', '2026-01-01Z',
			CASE WHEN s.state IN ('completed', 'discarded',
				'cancelled') THEN '2026-01-01Z'::timestamptz + n * interval '1 second' END,
			CASE s.state WHEN 'discarded' THEN ARRAY['{"error":"first"}', '{"error":"last"}']::jsonb[] END
		FROM generate_series(1, 12000) n,
			LATERAL (SELECT (CASE WHEN n % 4000 = 0 THEN 'discarded' WHEN n % 3000 = 1 THEN 'running'
			ELSE 'completed' END)::river_job_state AS state) s`); err != nil {
		t.Fatal(err)
	}
	if _, err := pgtest.OwnerPool(t, db).Exec(t.Context(), `ANALYZE river_job`); err != nil {
		t.Fatal(err)
	}
	list := func(state jobs.State, before int64, limit, rowsMax int) (found []jobs.Job) {
		err := db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
			tx, reads := pgtest.WatchReads(tx)
			found, err = jobs.List(ctx, tx, state, before, limit)
			reads.CheckRows(t, "jobs "+string(state), rowsMax)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	discarded := list(jobs.Discarded, 0, 51, 3)
	if len(discarded) != 3 || discarded[0].ID != 12000 || discarded[2].ID != 4000 || discarded[0].LastError != "last" ||
		discarded[0].FinalizedAt == nil || discarded[0].Kind != "test_greet" || discarded[0].AttemptsMax != 3 {
		t.Errorf("got %+v, want the three that failed too often, the newest first, with their last error", discarded)
	}
	if next := list(jobs.Discarded, 12000, 1, 3); len(next) != 1 || next[0].ID != 8000 {
		t.Errorf("got %+v, want the one before", next)
	}
	all := list("", 0, 51, 51)
	if len(all) != 51 || all[0].ID != 12000 || all[50].ID != 11950 {
		t.Errorf("got %d jobs from %d, want the newest 51", len(all), all[0].ID)
	}
	if next := list("", 11950, 2, 2); len(next) != 2 || next[0].ID != 11949 {
		t.Errorf("got %+v, want the next page", next)
	}
	if none := list(jobs.Retryable, 0, 51, 0); len(none) != 0 {
		t.Errorf("got %+v, want none", none)
	}
	if completed := list(jobs.Completed, 0, 51, 60); len(completed) != 51 || completed[0].ID != 11999 {
		t.Errorf("got %+v, want the newest that ended", completed)
	}
	err := db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		counts, err := jobs.CountByState(ctx, tx)
		if err != nil {
			return err
		}
		for state, want := range map[jobs.State]int{
			jobs.Discarded: 3, jobs.Running: 4, jobs.Completed: jobs.CountMax, jobs.Available: 0,
		} {
			if counts[state] != want {
				t.Errorf("got %d %s jobs, want %d", counts[state], state, want)
			}
		}
		watched, reads := pgtest.WatchReads(tx)
		ended, err := jobs.LastCompleted(ctx, watched, "test_greet")
		reads.CheckRows(t, "the last completed job", 5)
		if want := time.Date(2026, 1, 1, 0, 0, 11999, 0, time.UTC); err == nil && (ended == nil || !ended.Equal(want)) {
			t.Errorf("got %v, want the newest completed job at %v", ended, want)
		}
		if unknown, err := jobs.LastCompleted(ctx, tx, "unknown"); err != nil || unknown != nil {
			t.Errorf("got %v and %v of an unknown kind, want nothing", unknown, err)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
