package jobs_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/platform/jobs"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

type greet struct {
	Name string `json:"name"`
}

func (greet) Kind() string { return "greet" }

type sweep struct{}

func (sweep) Kind() string { return "test_sweep" }

func TestAChoreIsDoneIfItsTransactionCommits(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var got record
	r := jobs.New(db, quiet)
	jobs.Handle(r, func(_ context.Context, g greet) error { got.add(g.Name); return nil })
	run(t, r)

	no := errors.New("no")
	err := db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return errors.Join(jobs.Insert(ctx, tx, greet{"rolled back"}), no)
	})
	if !errors.Is(err, no) {
		t.Fatal(err)
	}
	if err := db.InOrg(t.Context(), "org_a", func(ctx context.Context, tx pg.Tx) error {
		if err := jobs.Insert(ctx, tx, greet{"from an organization"}); err != nil {
			return err
		}
		var role, org string
		if err := tx.QueryRow(ctx, `SELECT current_user, current_setting('app.org')`).Scan(&role, &org); err != nil {
			return err
		}
		if role != "coffer_app" || org != "org_a" {
			t.Errorf("after Insert: got role %s and organization %s, want coffer_app and org_a", role, org)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return jobs.Insert(ctx, tx, greet{"from the system"})
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{"from an organization", "from the system"}
	pgtest.Eventually(t, func() bool { return slices.Equal(got.sorted(), want) }, "both chores are done")
}

func TestAChoreThatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var got record
	r := jobs.New(db, quiet)
	jobs.Handle(r, func(_ context.Context, g greet) error {
		got.add(g.Name)
		switch len(got.sorted()) {
		case 1:
			return errors.New("not yet")
		case 2:
			panic("not like this")
		}
		return nil
	})
	run(t, r)
	if err := db.InSystem(
		t.Context(), func(ctx context.Context, tx pg.Tx) error { return jobs.Insert(ctx, tx, greet{"a"}) },
	); err != nil {
		t.Fatal(err)
	}
	owner := pgtest.OwnerPool(t, db)
	pgtest.Eventually(t, func() bool {
		// River waits one second and then sixteen; the test only needs the retry itself.
		if _, err := owner.Exec(
			t.Context(), `UPDATE river_job SET scheduled_at = now() WHERE state = 'retryable'`,
		); err != nil {
			t.Fatal(err)
		}
		var state string
		if err := owner.QueryRow(t.Context(), `SELECT state FROM river_job`).Scan(&state); err != nil {
			t.Fatal(err)
		}
		return state == "completed"
	}, "the chore is completed")
	if n := len(got.sorted()); n != 3 {
		t.Errorf("got %d runs, want 3", n)
	}
}

func TestAPeriodicChoreComesBackAfterAFailure(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var got record
	r := jobs.New(db, quiet)
	jobs.HandlePeriodic(r, time.Second, sweep{}, func(context.Context) error {
		got.add("run")
		return errors.New("failed")
	})
	run(t, r)
	pgtest.Eventually(t, func() bool { return len(got.sorted()) >= 2 }, "it ran twice")
}

func TestAStopWaitsForTheChore(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	r := jobs.New(db, quiet)
	started, finish := make(chan struct{}), make(chan struct{})
	var got record
	jobs.Handle(r, func(ctx context.Context, _ greet) error {
		close(started)
		<-finish
		if ctx.Err() == nil {
			got.add("finished")
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	if err := db.InSystem(
		t.Context(), func(ctx context.Context, tx pg.Tx) error { return jobs.Insert(ctx, tx, greet{"a"}) },
	); err != nil {
		t.Fatal(err)
	}
	<-started
	cancel()
	select {
	case err := <-done:
		t.Fatalf("got Run back (%v) before the chore was done", err)
	default:
	}
	close(finish)
	if err := <-done; err != nil {
		t.Errorf("got %v, want nil", err)
	}
	if n := len(got.sorted()); n != 1 {
		t.Errorf("got %d chores finished with a living context, want 1", n)
	}
	var state string
	if err := pgtest.OwnerPool(t, db).QueryRow(t.Context(), `SELECT state FROM river_job`).Scan(&state); err != nil ||
		state != "completed" {
		t.Errorf("got %s, %v, want completed", state, err)
	}
}

func TestNobodyButTheSystemTouchesTheQueue(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	err := db.InOrg(t.Context(), "org_a", func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `SELECT args FROM river_job`)
		return err
	})
	if err == nil {
		t.Error("got the arguments of all organizations, want a refusal")
	}
}

var quiet = slog.New(slog.DiscardHandler)

// run runs until the end of the test.
func run(t *testing.T, r *jobs.Runner) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

type record struct {
	mu   sync.Mutex
	list []string
}

func (r *record) add(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, s)
}

func (r *record) sorted() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(slices.Values(r.list))
}
