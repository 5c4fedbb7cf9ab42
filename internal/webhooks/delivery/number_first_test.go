package delivery

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/webhook"
)

// recordFirst writes the first events of resources, with or without their numbers.
func (w *world) recordFirst(numbered bool, events ...event.Event) {
	w.t.Helper()
	r := recorder
	r.Environment = webhook.Test
	err := w.db.InOrgAtOnce(w.t.Context(), org, func(now time.Time, b *pgx.Batch) error {
		if !numbered {
			return r.QueueFirst(b, now, events...)
		}
		return r.QueueNumberedFirst(b, now, org, events...)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// The database chooses the deliveries of a group, and FanOut those of the sequencer. Rules EVT-8 and EVT-17.
func TestAGroupHasTheDeliveriesThatTheSequencerWouldMake(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	for i, c := range []string{
		``, `status = 'PAUSED'`, `deleted_at = now()`,
		`status = 'DISABLED_BY_FAILURE', failing_since = now(), failed_at = now()`,
		`events = '{TRANSFER_COMPLETED}'`, `events = '{CUSTOMER_DEPOSIT,TRANSFER_COMPLETED}'`, `events = '{*}'`,
		`filter_customer_id = 'alice'`, `filter_customer_id = 'Alice', events = '{*}'`,
		`filter_chain = 'BASE', events = '{*}'`,
		`filter_customer_id = 'alice', filter_chain = 'BASE', events = '{TRANSFER_COMPLETED}'`,
	} {
		e, _ := w.endpoint(fmt.Sprint("http://127.0.0.1:1/", i))
		if c != "" {
			w.exec(`UPDATE webhook_endpoints SET `+c+` WHERE endpoint_id = $1`, e.ID)
		}
	}
	if err := w.db.InOrg(t.Context(), "org_2", func(ctx context.Context, tx pg.Tx) error {
		_, _, err := w.endpoints.Create(ctx, tx, "org_2", audit.APIKey("org_2"), NewEndpoint{URL: "http://127.0.0.1:1"})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var events []event.Event
	for _, typ := range []event.Type{event.TransferCompleted, event.CustomerDeposit, event.CustomerWithdrawCompleted} {
		for _, customer := range []string{"alice", "bob", ""} {
			for _, on := range []string{"BASE", "ETHEREUM", ""} {
				events = append(events, event.Event{
					OrgID: org, Type: typ, ResourceKind: "TRANSFER", CustomerID: customer, Chain: on, Data: 1,
					ResourceID: fmt.Sprintf("%s/%s/%s", typ, customer, on),
				})
			}
		}
	}
	group := func(of string) []event.Event {
		var renamed []event.Event
		for _, e := range events {
			e.ResourceID = of + e.ResourceID
			renamed = append(renamed, e)
		}
		return renamed
	}
	w.recordFirst(false, group("s:")...)
	w.sequence()
	w.recordFirst(true, group("g:")...)
	deliveries := func(of string) (all string) {
		err := w.owner.QueryRow(t.Context(), `
			SELECT coalesce(string_agg(concat_ws(' ', endpoint_id, substr(resource_id, 3), resource_seq, status,
				attempts, created_at, attempt_after),
				E'\n' ORDER BY endpoint_id, resource_id), '')
			FROM deliveries WHERE resource_id LIKE $1 || '%'`, of).Scan(&all)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	want, got := deliveries("s:"), deliveries("g:")
	if want == "" || got != want {
		t.Errorf("got the deliveries\n%s\nwant those of the sequencer\n%s", got, want)
	}
	var numbers, last int
	err := w.owner.QueryRow(t.Context(), `SELECT count(DISTINCT sequence), max(sequence) FROM events`).
		Scan(&numbers, &last)
	if err != nil || numbers != 2*len(events) || last != numbers {
		t.Errorf("got %d numbers up to %d (%v), want %d", numbers, last, err, 2*len(events))
	}
}

// A delivery is there as soon as its event is, and the receiver gets the bytes of the feed.
func TestAnEventOfAGroupIsSentWithoutTheSequencer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rc := newReceiver(t, w.clock.now, status(200))
	w.endpoint(rc.URL, event.EveryType)
	w.recordFirst(true, event.Event{
		OrgID: org, Type: event.TransferCompleted, ResourceKind: "TRANSFER", ResourceID: "tr_1", Data: 1,
	})
	w.drain(w.dispatcher())
	sent := rc.requests()
	if len(sent) != 1 {
		t.Fatalf("got %d posts, want 1", len(sent))
	}
	err := w.db.ReadOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
		page, err := event.ReadFeed(ctx, tx, org, 0, nil, 10)
		if err == nil && (len(page.Bodies) != 1 || string(page.Bodies[0]) != string(sent[0].body)) {
			t.Errorf("got %s sent, want the feed's %s", sent[0].body, page.Bodies)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
