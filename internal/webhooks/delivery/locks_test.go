package delivery

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// Two processes record opposite outcomes of two endpoints. Each changes the endpoint that recovered
// before the one that fails. The second process waits for the first endpoint, so that it would hold
// the other one when the first process asks for it.
func TestOppositeOutcomesOfTwoEndpointsNeverWaitInACircle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rc := newReceiver(t, w.clock.now, status(500))
	a, _ := w.endpoint(rc.URL + "/a")
	b, _ := w.endpoint(rc.URL + "/b")
	endpoints := []Endpoint{a, b}
	slices.SortFunc(endpoints, func(a, b Endpoint) int { return strings.Compare(a.ID, b.ID) })
	low, high := endpoints[0], endpoints[1]
	w.exec(`UPDATE webhook_endpoints SET failing_since = $1, failed_at = $1`, w.clock.now().Add(-2*failedAtStep))

	outcomeOf := func(e Endpoint, status int) outcome {
		return outcome{
			claimedDelivery: claimedDelivery{orgID: org, endpoint: e.ID, target: target{url: e.URL, failing: true}},
			sentAt:          w.clock.now(), status: status, took: time.Second,
		}
	}
	holder := pgtest.BeginOwner(t, w.db)
	if _, err := holder.Exec(
		t.Context(), `SELECT FROM webhook_endpoints WHERE endpoint_id = $1 FOR UPDATE`, low.ID,
	); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i, batch := range [][]outcome{
		{outcomeOf(low, 200), outcomeOf(high, 500)},
		{outcomeOf(high, 200), outcomeOf(low, 500)},
	} {
		d := w.dispatcher()
		d.ensureOpen()
		group.Go(func() {
			if err := d.recordOutcomes(t.Context(), batch); err != nil {
				t.Errorf("record: %v", err)
			}
		})
		pgtest.Eventually(t, func() bool {
			var waiting int
			err := w.owner.QueryRow(t.Context(), `
				SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event IN ('transactionid', 'tuple')`).Scan(&waiting)
			return err == nil && waiting == i+1
		}, "process %d does not wait for the endpoint", i+1)
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	if n := w.db.Counts().Deadlocks; n != 0 {
		t.Errorf("got %d deadlocks, want none", n)
	}
}
