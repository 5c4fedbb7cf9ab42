package delivery

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/webhook"
)

// BenchmarkSequencedAndDelivered measures one event: numbered, posted to a receiver on loopback,
// and recorded with its attempt.
func BenchmarkSequencedAndDelivered(b *testing.B) {
	w := newWorld(b, false)
	received := make(chan struct{}, 1<<20)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { received <- struct{}{} }))
	b.Cleanup(server.Close)
	for range 4 {
		w.endpoint(server.URL)
	}
	// A real process has run its queries many times, and cached its plans, before there are many
	// rows.
	s := &event.Sequencer{DB: w.db, Environment: webhook.Test, Listener: FanOut{}}
	d := w.dispatcher()
	for i := range 10 {
		w.events(fmt.Sprint("early_", i), 2)
		if _, err := s.Step(b.Context()); err != nil {
			b.Fatal(err)
		}
		w.step(d)
		w.step(d)
		for range 2 * 4 {
			<-received
		}
	}
	// As Record writes them, in one statement; a payload has about 1.5 kB. Each event goes to four
	// endpoints.
	events := (b.N + 3) / 4
	w.exec(`
		INSERT INTO events (event_id, org_id, type, resource_kind, resource_id, resource_seq, data, created_at)
		SELECT 'evt_' || lpad(n::text, 26, '0'), 'org_1', 'CUSTOMER_DEPOSIT', 'deposit', 'dep_' || n, 1,
		       convert_to('{"note":"' || repeat('x', 1500) || '"}', 'UTF8'), now()
		FROM generate_series(1, $1) n`, events)
	b.ResetTimer()
	started := time.Now()
	for n := 1; n > 0; {
		var err error
		if n, err = s.Step(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	sequenced := time.Since(started)
	stop := w.run(d.Run)
	for range events * 4 {
		<-received
	}
	stop()
	b.StopTimer()
	b.ReportMetric(float64(events)/sequenced.Seconds(), "sequenced/s")
	b.ReportMetric(float64(events*4)/(time.Since(started)-sequenced).Seconds(), "delivered/s")
	var left int
	if err := w.owner.QueryRow(
		b.Context(), `SELECT count(*) FROM deliveries WHERE status <> 'DELIVERED'`,
	).Scan(&left); err != nil || left != 0 {
		b.Fatalf("got %v not delivered, %v, want none", left, err)
	}
}
