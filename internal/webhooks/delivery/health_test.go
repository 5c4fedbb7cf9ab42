package delivery

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// Days of a receiver, with an event at regular intervals.
func (w *world) days(d *Dispatcher, n int, every time.Duration) {
	w.t.Helper()
	for end := w.clock.now().Add(time.Duration(n) * 24 * time.Hour); w.clock.now().Before(end); w.clock.move(every) {
		w.event(org, event.CustomerDeposit, fmt.Sprint("dep_", w.clock.now().Unix()))
		w.sequence()
		w.drain(d)
	}
}

func (w *world) statusOf(endpointID string) string {
	w.t.Helper()
	var s string
	if err := w.owner.QueryRow(
		w.t.Context(), `SELECT status FROM webhook_endpoints WHERE endpoint_id = $1`, endpointID,
	).Scan(&s); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// Rule EVT-11.
func TestAnEndpointThatFailsForFiveDaysIsDisabledAndCanBeEnabledAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	var answers atomic.Int32
	answers.Store(http.StatusBadGateway)
	rc := newReceiver(t, w.clock.now, func(rw http.ResponseWriter, _ request) { rw.WriteHeader(int(answers.Load())) })
	e, _ := w.endpoint(rc.URL)
	var logs bytes.Buffer
	d := w.dispatcher()
	d.Log = slog.New(slog.NewTextHandler(&logs, nil))
	start := w.clock.now()
	w.days(d, 5, 6*time.Hour)
	if got := w.statusOf(e.ID); got != Enabled {
		t.Errorf("before five days have passed: got %v, want %v", got, Enabled)
	}
	w.days(w.restarted(d), 1, 6*time.Hour) // without stored state
	if got := w.statusOf(e.ID); got != DisabledByFailure {
		t.Fatalf("after five days: got %v, want %v", got, DisabledByFailure)
	}
	if !strings.Contains(logs.String(), "has failed for five days") || !strings.Contains(logs.String(), e.ID) {
		t.Errorf("got the log %q, want a line for whoever runs the service", logs.String())
	}
	var acts int
	var since time.Time
	err := w.owner.QueryRow(t.Context(), `SELECT count(*), min((detail->>'failingSince')::timestamptz) FROM audit_log
		WHERE action = 'webhook_endpoint.disabled' AND resource_id = $1 AND actor_kind = 'SYSTEM'`,
		e.ID).Scan(&acts, &since)
	if err != nil || acts != 1 || !since.Equal(start) {
		t.Errorf("got %v acts since %v, %v, want one, failing since %v", acts, since, err, start)
	}

	// Nothing is sent, and no delivery that was on its way is lost.
	before := len(rc.requests())
	waiting := 0
	for _, d := range w.deliveries() {
		if d.Status == "PENDING" {
			waiting++
		}
	}
	w.days(d, 2, 6*time.Hour)
	if got := len(rc.requests()); got != before || waiting == 0 {
		t.Errorf("got %v posts to a disabled endpoint and %v waiting, want none and some", got-before, waiting)
	}
	answers.Store(http.StatusNoContent)
	if got := w.change(e.ID, Change{Status: pointer(Enabled)}); got.FailingSince != nil {
		t.Errorf("got it failing since %v, want it innocent", got.FailingSince)
	}
	w.drain(d)
	if got := len(rc.requests()) - before; got != waiting {
		t.Errorf("got %v posts when it was enabled, want the %v that waited", got, waiting)
	}
}

func (w *world) restarted(d *Dispatcher) *Dispatcher {
	fresh := w.dispatcher()
	fresh.Log = d.Log
	return fresh
}

// Rule EVT-11.
func TestAnEndpointThatSometimesAnswersIsNeverDisabled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	var took atomic.Int32
	rc := newReceiver(t, w.clock.now, func(rw http.ResponseWriter, _ request) {
		if took.Add(1)%20 != 0 {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	e, _ := w.endpoint(rc.URL)
	w.days(w.dispatcher(), 12, 12*time.Hour)
	if got := w.statusOf(e.ID); got != Enabled {
		t.Errorf("got %v, want %v: something succeeded every few days", got, Enabled)
	}
}

// A failure long ago and one now are not five days of failures. Rule EVT-11.
func TestAnEndpointWithoutEventsIsNotDisabled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rc := newReceiver(t, w.clock.now, status(http.StatusInternalServerError))
	e, _ := w.endpoint(rc.URL)
	d := w.dispatcher()
	w.events("dep_1", 1)
	w.sequence()
	for hasMore := true; hasMore; hasMore = w.advance() {
		w.drain(d)
	}
	w.clock.move(10 * 24 * time.Hour)
	w.events("dep_2", 1)
	w.sequence()
	w.drain(d)
	if got := w.statusOf(e.ID); got != Enabled {
		t.Errorf("got %v, want %v", got, Enabled)
	}
}

// Two processes record in another order than they posted. Rule EVT-11.
func TestASuccessThatWasRecordedFirstStillCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rc := newReceiver(t, w.clock.now, status(500))
	e, _ := w.endpoint(rc.URL)
	w.events("dep_1", 1)
	w.events("dep_2", 1)
	w.sequence()
	d := w.dispatcher()
	d.ensureOpen()
	batch, err := d.claimDue(t.Context())
	if err != nil || len(batch) != 2 {
		t.Fatalf("got %v, %v, want two", len(batch), err)
	}
	failed := outcome{claimedDelivery: batch[0], sentAt: w.clock.now(), status: 500}
	w.clock.move(time.Second)
	if err := d.recordOutcomes(
		t.Context(), []outcome{{claimedDelivery: batch[1], sentAt: w.clock.now(), status: 200}},
	); err != nil {
		t.Fatal(err)
	}
	if err := d.recordOutcomes(t.Context(), []outcome{failed}); err != nil {
		t.Fatal(err)
	}
	// Further failures, up to now.
	w.exec(`UPDATE webhook_endpoints SET failed_at = $1`, w.clock.now().Add(failingMax-time.Hour))
	w.clock.move(failingMax)
	d = w.dispatcher()
	w.drain(d)
	if got := w.statusOf(e.ID); got != Enabled || len(rc.requests()) != 1 {
		t.Errorf("got %v after %v further failures, want %v: something succeeded after the first", got,
			len(rc.requests()), Enabled)
	}
}
