package delivery

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

func (w *world) retire() string {
	w.t.Helper()
	var logs bytes.Buffer
	if err := Prune(w.t.Context(), w.db, slog.New(slog.NewTextHandler(&logs, nil))); err != nil {
		w.t.Fatal(err)
	}
	return logs.String()
}

func (w *world) feed() []string {
	w.t.Helper()
	var got event.Page
	err := w.db.ReadOrg(w.t.Context(), org, func(ctx context.Context, tx pg.Tx) (err error) {
		got, err = event.ReadFeed(ctx, tx, org, 0, nil, 200)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	var bodies []string
	for _, b := range got.Bodies {
		bodies = append(bodies, string(b))
	}
	return bodies
}

// Rule EVT-15.
func TestTheFeedKeepsNinetyDaysAndTheLogThirty(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rc := newReceiver(t, w.clock.now, nil)
	e, _ := w.endpoint(rc.URL)
	d := w.dispatcher()
	const day = 24 * time.Hour
	start := w.clock.now()
	for i := range 10 { // one every ten days
		w.clock.set(start.Add(time.Duration(i) * 10 * day))
		w.events(fmt.Sprint("dep_", i), 1)
		w.sequence()
		w.drain(d)
	}
	if _, _, err := w.rotate(e.ID); err != nil {
		t.Fatal(err)
	}
	w.clock.set(start.Add(95 * day))
	w.retire()
	if got := w.feed(); len(got) != 9 || !strings.Contains(got[0], `"sequence":2,`) {
		t.Errorf("got %v events from %v on, want 9 from the second on", len(got), got[0])
	}
	if got := len(w.log(e.ID, AttemptFilter{}, pagination.Page{}).Items); got != 3 {
		t.Errorf("got %v attempts in the log, want those of 30 days", got)
	}
	if got := len(w.deliveries()); got != 9 {
		t.Errorf("got %v deliveries, want those of the feed", got)
	}
	var rows, secrets int
	err := w.owner.QueryRow(
		t.Context(),
		`SELECT (SELECT count(*) FROM events WHERE sequence IS NOT NULL), (SELECT count(*) FROM webhook_secrets)`,
	).Scan(&rows, &secrets)
	if err != nil || rows != 10 || secrets != 1 {
		t.Errorf("got %v events and %v secrets, %v, want every row kept and the retired secret gone", rows, secrets,
			err)
	}
	job, err := w.recover(e.ID, start, false)
	if err != nil {
		t.Fatal(err)
	}
	w.drain(d)
	if got := w.job(job.ID); got.Queued != 9 || got.Delivered != 9 {
		t.Errorf("got %+v, want what the feed has", got)
	}
	pgtest.ExpectLockException(t, w.db, "delivery.pruneEvents")
}

// Pending deliveries of a live endpoint are never deleted, and neither are young ones; pending
// deliveries of a deleted endpoint are. Rule EVT-15.
func TestWhatWaitsForAPausedEndpointIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rc := newReceiver(t, w.clock.now, nil)
	paused, _ := w.endpoint(rc.URL)
	dead, _ := w.endpoint(rc.URL)
	other := newReceiver(t, w.clock.now, nil)
	w.endpoint(other.URL)
	d := w.dispatcher()
	w.exec(`UPDATE webhook_endpoints SET status = 'DISABLED_GONE' WHERE endpoint_id = $1`, dead.ID)
	w.events("dep_0", 1)
	w.sequence()
	w.drain(d)
	w.exec(`UPDATE webhook_endpoints SET status = 'ENABLED' WHERE endpoint_id = $1`, dead.ID)
	w.change(paused.ID, Change{Status: pointer(Paused)})
	w.change(dead.ID, Change{Status: pointer(Paused)})
	for i := range 3 {
		w.events(fmt.Sprint("dep_", i+1), 1)
	}
	w.sequence()
	w.drain(d)
	w.exec(`UPDATE webhook_endpoints SET status = 'DISABLED_BY_FAILURE' WHERE endpoint_id = $1`, dead.ID)
	w.clock.move(event.RetentionPeriod + time.Hour)
	if logs := w.retire(); !strings.Contains(logs, "waits for a webhook endpoint") {
		t.Errorf("got the log %q, want a warning", logs)
	}
	if got := w.feed(); len(got) != 3 {
		t.Errorf("got %v events, want the three that wait", len(got))
	}
	w.change(paused.ID, Change{Status: pointer(Enabled)})
	before := len(rc.requests())
	w.drain(d)
	if got := len(rc.requests()) - before; got != 3 {
		t.Errorf("got %v posts, want the three that waited", got)
	}
	w.retire()
	if got := w.feed(); len(got) != 0 || len(w.deliveries()) != 0 {
		t.Errorf("got %v events and %v deliveries, want none", len(got), len(w.deliveries()))
	}
}

// Rule EVT-15.
func TestTheTableKeepsTheBytesOfAnEventForNinetyDays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.events("dep_1", 1)
	w.sequence()
	w.clock.move(event.RetentionPeriod - time.Minute)
	for name, sql := range map[string]string{
		"early":           `UPDATE events SET data = '', body = '', expired_at = $1`,
		"with its number": `UPDATE events SET data = '', body = '', expired_at = $1::timestamptz + interval '1 day', sequence = 7`,
		"changed":         `UPDATE events SET data = '', body = '{}', expired_at = $1::timestamptz + interval '1 day'`,
		"without a time":  `UPDATE events SET data = '', body = '' WHERE $1::timestamptz IS NOT NULL`,
	} {
		if _, err := w.owner.Exec(t.Context(), sql, w.clock.now()); !pg.ViolatesConstraint(err, "events_kept") &&
			!pg.ViolatesConstraint(err, "events_fixed") {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
}
