package audit_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// follow runs a sealer and a follower until the test ends.
func follow(t *testing.T, db *pg.DB) *audit.Follower {
	t.Helper()
	f := audit.NewFollower(db, nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- f.Run(ctx) }()
	go func() { ended <- (&audit.Sealer{DB: db}).Run(ctx) }()
	t.Cleanup(func() {
		stop()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	return f
}

// newOrganization makes an organization and returns its id.
func newOrganization(t *testing.T, db *pg.DB) string {
	t.Helper()
	made, _, err := org.Create(t.Context(), db, "Example Marketplace")
	if err != nil {
		t.Fatal(err)
	}
	return made.ID
}

// recordFor records one act of an organization on each resource. "" stands for no organization.
func recordFor(t *testing.T, db *pg.DB, orgID string, resources ...string) {
	t.Helper()
	err := db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		var entries []audit.Entry
		for _, r := range resources {
			entries = append(entries, audit.Entry{
				OrgID: orgID, Actor: audit.System("test"), Action: "thing.done", ResourceKind: "THING", ResourceID: r,
			})
		}
		return audit.Record(ctx, tx, entries...)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// waitKnown waits until the follower knows a position.
func waitKnown(t *testing.T, f *audit.Follower) int64 {
	t.Helper()
	pgtest.Eventually(t, func() bool { return f.Position() > 0 }, "the follower reads")
	return f.Position()
}

// waitResources collects the resources of a watch until it has as many as wanted.
func waitResources(t *testing.T, w *audit.Watch, n int) []string {
	t.Helper()
	var got []string
	for len(got) < n {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		news := w.Wait(ctx)
		cancel()
		if news.HasGap || news.IsOver || len(news.Changes) == 0 {
			t.Fatalf("got %+v after %q, want %d changes", news, got, n)
		}
		for _, c := range news.Changes {
			got = append(got, c.ResourceID)
		}
	}
	return got
}

// Rule PAGE-8.
func TestAWatchHearsOfItsOrganizationAlone(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	org1, org2 := newOrganization(t, db), newOrganization(t, db)
	recordFor(t, db, org1, "before")
	f := follow(t, db)
	at := waitKnown(t, f)
	one, all := f.StartWatch(org1, at), f.StartWatch("", at)
	defer one.Close()
	defer all.Close()
	recordFor(t, db, org2, "strange")
	recordFor(t, db, "", "shared")
	recordFor(t, db, org1, "first", "second")
	if got, want := waitResources(t, one, 2), []string{"first", "second"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	got := waitResources(t, all, 4)
	if slices.Sort(got); !slices.Equal(got, []string{"first", "second", "shared", "strange"}) {
		t.Errorf("got %q, want the changes of all organizations", got)
	}
}

// What happens between the loading of a page and its stream is not lost.
func TestAWatchBeginsWhereThePageWasLoaded(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	org1 := newOrganization(t, db)
	recordFor(t, db, org1, "before")
	f := follow(t, db)
	at := waitKnown(t, f)
	recordFor(t, db, org1, "between")
	pgtest.Eventually(t, func() bool { return f.Position() > at }, "the change is known")
	w := f.StartWatch(org1, at)
	defer w.Close()
	if got := waitResources(t, w, 1); got[0] != "between" {
		t.Errorf("got %q, want the change since the page was loaded", got)
	}
}

// A watch hears that it may have missed something: when its page was loaded before the follower began,
// when more happened than stays in memory, and when another database stands behind it.
func TestAWatchHearsOfAGap(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	org1, org2 := newOrganization(t, db), newOrganization(t, db)
	recordFor(t, db, org1, "before")
	f := follow(t, db)
	at := waitKnown(t, f)
	for _, after := range []int64{0, at - 1, at + 1000} {
		w := f.StartWatch(org1, after)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if news := w.Wait(ctx); !news.HasGap {
			t.Errorf("after %d: got %+v, want a gap", after, news)
		}
		cancel()
		w.Close()
	}
	var many []string
	for i := range 9000 {
		many = append(many, fmt.Sprint("r", i))
	}
	recordFor(t, db, org2, many...)
	pgtest.Eventually(t, func() bool { return f.Position() >= at+9000 }, "all changes are known")
	w := f.StartWatch(org1, at)
	defer w.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if news := w.Wait(ctx); !news.HasGap {
		t.Errorf("got %+v, want a gap after 9000 changes", news)
	}
}

// A burst of more changes than the follower reads at once is heard whole.
func TestAWatchHearsOfEachChangeOfABurst(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	org1 := newOrganization(t, db)
	recordFor(t, db, org1, "before")
	f := follow(t, db)
	w := f.StartWatch(org1, waitKnown(t, f))
	defer w.Close()
	var many []string
	for i := range 2500 {
		many = append(many, fmt.Sprint("r", i))
	}
	recordFor(t, db, org1, many...)
	if got := waitResources(t, w, len(many)); !slices.Equal(got, many) {
		t.Errorf("got %d changes, want all %d in their order", len(got), len(many))
	}
}

// A server that stops does not wait for its streams.
func TestTheEndOfAFollowerEndsItsWatches(t *testing.T) {
	t.Parallel()
	f := audit.NewFollower(pgtest.New(t), nil)
	w := f.StartWatch("", 1)
	defer w.Close()
	f.End()
	f.End()
	if news := w.Wait(t.Context()); !news.IsOver {
		t.Errorf("got %+v, want the end", news)
	}
}
