package event

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/webhook"
)

// recorder records objects as they are.
var recorder = Recorder{ObjectOf: func(_ Type, data any) (any, error) { return data, nil }}

// seed creates organizations with a few customers, whose rows stand for the resources that a writer
// locks.
func seed(t *testing.T, db *pg.DB, orgs ...string) {
	t.Helper()
	owner := pgtest.OwnerPool(t, db)
	for _, org := range orgs {
		if _, err := owner.Exec(
			t.Context(), `INSERT INTO organizations (org_id, name, created_at) VALUES ($1, $1, now())`, org,
		); err != nil {
			t.Fatal(err)
		}
		if _, err := owner.Exec(t.Context(), `
			INSERT INTO customers (org_id, customer_id, created_at, updated_at)
			SELECT $1, 'res_' || n, now(), now() FROM generate_series(0, 9) n`, org); err != nil {
			t.Fatal(err)
		}
	}
}

func record(ctx context.Context, db *pg.DB, org, resource string, data any) error {
	return db.InOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		if _, err := tx.Exec(
			ctx, `SELECT FROM customers WHERE org_id = $1 AND customer_id = $2 FOR UPDATE`, org, resource,
		); err != nil {
			return err
		}
		_, err := recorder.Record(ctx, tx, Event{
			OrgID: org, Type: CustomerDeposit, ResourceKind: "deposit", ResourceID: resource,
			CustomerID: "user_42", Chain: "ETHEREUM", Data: data,
		})
		return err
	})
}

// ear records the events that it receives, and fails on request.
type ear struct {
	mu     sync.Mutex
	heard  []Sequenced
	refuse error
}

func (e *ear) QueueSequenced(_ context.Context, _ pg.Tx, _ *pgx.Batch, events []Sequenced) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refuse != nil {
		return e.refuse
	}
	e.heard = append(e.heard, events...)
	return nil
}

type row struct {
	EventID     string
	OrgID       string
	ResourceID  string
	ResourceSeq int
	Sequence    *int64
	Body        []byte
	Data        []byte
}

func stored(t *testing.T, db *pg.DB) []row {
	t.Helper()
	rows, err := pgtest.OwnerPool(t, db).Query(t.Context(), `
		SELECT event_id, org_id, resource_id, resource_seq, sequence, body, data FROM events ORDER BY org_id, sequence, event_id`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []row
	for rows.Next() {
		var r row
		if err := rows.Scan(
			&r.EventID, &r.OrgID, &r.ResourceID, &r.ResourceSeq, &r.Sequence, &r.Body, &r.Data,
		); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// checkWhole fails unless every event has a number, the numbers of each organization
// are 1, 2, … and those of each resource follow its order.
func checkWhole(t *testing.T, all []row) {
	t.Helper()
	next, place := map[string]int64{}, map[string]int{}
	for _, r := range all {
		next[r.OrgID]++
		place[r.OrgID+r.ResourceID]++
		if r.Sequence == nil || *r.Sequence != next[r.OrgID] {
			t.Fatalf("event %s of %s: got sequence %v, want %v", r.EventID, r.OrgID, r.Sequence, next[r.OrgID])
		}
		if r.ResourceSeq != place[r.OrgID+r.ResourceID] {
			t.Fatalf("event %s: got number %v of its resource at sequence %v, want number %v", r.EventID, r.ResourceSeq,
				*r.Sequence, place[r.OrgID+r.ResourceID])
		}
	}
}

func TestEveryTypeIsKnownToBeOfTheInterfaceOrAnExtension(t *testing.T) {
	t.Parallel()
	interfaceEvents := 0
	for _, typ := range AllTypes() {
		if !IsKnown(typ) {
			t.Errorf("%s: got unknown, want known", typ)
		}
		if !IsExtension(typ) {
			interfaceEvents++
		}
		if got, want := IsWanted(nil, typ), !IsExtension(typ); got != want {
			t.Errorf("%s for a receiver that names nothing: got %v, want %v", typ, got, want)
		}
		if !IsWanted([]Type{EveryType}, typ) {
			t.Errorf("%s: a receiver that named all of them does not get it", typ)
		}
		if !IsWanted([]Type{typ}, typ) || IsWanted([]Type{"OTHER"}, typ) {
			t.Errorf("%s: got another answer than the named types", typ)
		}
	}
	if IsKnown(EveryType) || !IsWanted([]Type{EveryType}, "ADDED_LATER") {
		t.Error("all is itself a type, or leaves out what is added later")
	}
	if interfaceEvents != 7 {
		t.Errorf("got %v events of the interface, want 7", interfaceEvents)
	}
}

func TestRecordGivesEachEventItsPlaceInTheResource(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	seed(t, db, "org_1")
	var writers errgroup.Group
	for range 8 {
		writers.Go(func() error {
			for i := range 5 {
				if err := record(t.Context(), db, "org_1", fmt.Sprintf("res_%d", i%2), webhook.Deposit{}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	places := map[string][]int{}
	for _, r := range stored(t, db) {
		places[r.ResourceID] = append(places[r.ResourceID], r.ResourceSeq)
		if r.Sequence != nil || r.Body != nil {
			t.Errorf("%s: got a sequence before the sequencer, want none", r.EventID)
		}
	}
	for resource, got := range places {
		slices.Sort(got)
		for i := range got {
			if got[i] != i+1 {
				t.Fatalf("%s: got %v, want 1 to %d", resource, got, len(got))
			}
		}
	}
}

func TestRecordRefusesATypeNobodyKnows(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	seed(t, db, "org_1")
	err := db.InOrg(t.Context(), "org_1", func(ctx context.Context, tx pg.Tx) error {
		_, err := recorder.Record(
			ctx, tx, Event{OrgID: "org_1", Type: "CUSTOMER_DEPOSITS", ResourceID: "res_1", Data: webhook.Deposit{}},
		)
		return err
	})
	if err == nil {
		t.Errorf("got %v, want an error", err)
	}
	if got := len(stored(t, db)); got != 0 {
		t.Errorf("got %v events, want 0", got)
	}
}

// Rule EVT-4.
func TestSequencersOfTwoProcessesLeaveNoGap(t *testing.T) {
	t.Parallel()
	for name, unlocked := range map[string]bool{"with the lock": false, "without the lock": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			orgs := []string{"org_1", "org_2", "org_3"}
			seed(t, db, orgs...)
			listener := &ear{}
			writing, done := context.WithCancel(t.Context())
			var writers, sequencers errgroup.Group
			for i, org := range orgs {
				writers.Go(func() error {
					for n := range 60 {
						if err := record(
							t.Context(), db, org, fmt.Sprintf("res_%d", (i+n)%7), map[string]int{"n": n},
						); err != nil {
							return err
						}
					}
					return nil
				})
			}
			for range 2 {
				s := &Sequencer{DB: db, Environment: webhook.Test, Listener: listener, skipLock: unlocked, batch: 7}
				sequencers.Go(func() error {
					for {
						stopping := writing.Err() != nil
						n, err := s.Step(t.Context())
						if err != nil || stopping && n == 0 {
							return err
						}
					}
				})
			}
			if err := writers.Wait(); err != nil {
				t.Fatal(err)
			}
			done()
			if err := sequencers.Wait(); err != nil {
				t.Fatal(err)
			}
			// Both may have given way to each other at the end.
			for range 100 {
				if _, err := (&Sequencer{DB: db, Environment: webhook.Test, Listener: listener}).Step(
					t.Context(),
				); err != nil {
					t.Fatal(err)
				}
			}
			all := stored(t, db)
			if got, want := len(all), 180; got != want {
				t.Fatalf("got %v events, want %v", got, want)
			}
			checkWhole(t, all)
		})
	}
}

func TestAnEventThatIsCommittedLaterWithASmallerIDIsNumbered(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	seed(t, db, "org_1")
	early, late := make(chan struct{}), make(chan struct{})
	var slow errgroup.Group
	slow.Go(func() error {
		return db.InOrg(t.Context(), "org_1", func(ctx context.Context, tx pg.Tx) error {
			tx.Now = tx.Now.Add(-time.Hour)
			if _, err := recorder.Record(ctx, tx, Event{
				OrgID: "org_1", Type: CustomerDeposit, ResourceKind: "deposit", ResourceID: "res_1",
				Data: webhook.Deposit{},
			}); err != nil {
				return err
			}
			close(early)
			<-late
			return nil
		})
	})
	<-early
	if err := record(t.Context(), db, "org_1", "res_2", webhook.Deposit{}); err != nil {
		t.Fatal(err)
	}
	s := &Sequencer{DB: db, Environment: webhook.Test, Listener: &ear{}}
	if n, err := s.Step(t.Context()); n != 1 || err != nil {
		t.Fatalf("got %v, %v, want 1 event", n, err)
	}
	close(late)
	if err := slow.Wait(); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Step(t.Context()); n != 1 || err != nil {
		t.Fatalf("got %v, %v, want 1 event", n, err)
	}
	all := stored(t, db)
	checkWhole(t, all)
	if all[0].ResourceID != "res_2" || all[1].EventID > all[0].EventID {
		t.Errorf("got %v before %v, want the one committed first before the one with the smaller id", all[0], all[1])
	}
}

// A writer whose clock is behind gives a later event of a resource the smaller id. With batches of
// one the sequencer reads the later one first.
func TestEventsOfAResourceAreNumberedInItsOrderWhateverTheirIDs(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	seed(t, db, "org_1")
	for n := range 6 {
		err := db.InOrg(t.Context(), "org_1", func(ctx context.Context, tx pg.Tx) error {
			tx.Now = tx.Now.Add(-time.Duration(n) * time.Hour)
			_, err := recorder.Record(ctx, tx, Event{
				OrgID: "org_1", Type: CustomerDeposit, ResourceKind: "deposit", ResourceID: "res_1",
				Data: map[string]int{"n": n},
			})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	listener := &ear{}
	s := &Sequencer{DB: db, Environment: webhook.Test, Listener: listener, batch: 1}
	for n := 1; n > 0; {
		var err error
		if n, err = s.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	checkWhole(t, stored(t, db))
	for i, e := range listener.heard {
		if e.ResourceSeq != i+1 {
			t.Errorf("event %d that the listener heard: got number %v of its resource, want %v", i, e.ResourceSeq, i+1)
		}
	}
}

func TestAStepThatFailsNumbersNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	seed(t, db, "org_1")
	for range 3 {
		if err := record(t.Context(), db, "org_1", "res_1", webhook.Deposit{}); err != nil {
			t.Fatal(err)
		}
	}
	listener := &ear{refuse: errors.New("no")}
	s := &Sequencer{DB: db, Environment: webhook.Test, Listener: listener}
	if _, err := s.Step(t.Context()); !errors.Is(err, listener.refuse) {
		t.Fatalf("got %v, want %v", err, listener.refuse)
	}
	for _, r := range stored(t, db) {
		if r.Sequence != nil {
			t.Errorf("%s: got sequence %v, want none", r.EventID, *r.Sequence)
		}
	}
	listener.refuse = nil
	if n, err := s.Step(t.Context()); n != 3 || err != nil {
		t.Fatalf("got %v, %v, want 3 events", n, err)
	}
	checkWhole(t, stored(t, db))
}

func TestTheBodyIsTheEnvelopeAroundTheFrozenData(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 12, 0, 9, 412_345_000, time.UTC)
	db := pgtest.NewWithClock(t, func() time.Time { return at })
	seed(t, db, "org_1")
	huge, _ := new(big.Int).SetString("115792089237316195423570985008687907853269984665640564039457584007913129639935",
		10)
	if err := record(t.Context(), db, "org_1", "res_1", map[string]any{"amount": huge, "note": "a<b&c é"}); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Sequencer{DB: db, Environment: webhook.Live, Listener: &ear{}}).Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := stored(t, db)[0]
	want := `{"id":"` + r.EventID + `","type":"CUSTOMER_DEPOSIT","timestamp":"2026-01-31T12:00:09.412Z","apiVersion":"2026-01-31",` +
		`"environment":"LIVE","organizationId":"org_1","sequence":1,"data":` + string(r.Data) + `}`
	if string(r.Body) != want {
		t.Errorf("got %s, want %s", r.Body, want)
	}
	var envelope webhook.Envelope
	if err := json.Unmarshal(r.Body, &envelope); err != nil || string(envelope.Data) != string(r.Data) {
		t.Errorf("got %s, %v, want the data as it was frozen", envelope.Data, err)
	}
}

// Rule EVT-4.
func TestFeedPagesThroughEverythingInOrder(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	seed(t, db, "org_1", "org_2")
	types := []Type{CustomerDeposit, CustomerWithdrawCompleted, CustomerWithdraw}
	for i := range 11 {
		for _, org := range []string{"org_1", "org_2"} {
			err := db.InOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
				_, err := recorder.Record(ctx, tx, Event{
					OrgID: org, Type: types[i%3], ResourceKind: "deposit", ResourceID: fmt.Sprint("res_", i),
					Data: map[string]int{"n": i},
				})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	read := func(after int64, types []Type, limit int) Page {
		t.Helper()
		var page Page
		err := db.ReadOrg(t.Context(), "org_1", func(ctx context.Context, tx pg.Tx) (err error) {
			page, err = ReadFeed(ctx, tx, "org_1", after, types, limit)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return page
	}
	if page := read(0, nil, 10); len(page.Bodies) != 0 || page.HasMore || page.NextAfter != 0 {
		t.Errorf("before the sequencer: got %v, want an empty page", page)
	}
	if _, err := (&Sequencer{DB: db, Environment: webhook.Live, Listener: &ear{}}).Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	bodies := map[string]bool{}
	for _, r := range stored(t, db) {
		if r.OrgID == "org_1" {
			bodies[string(r.Body)] = true
		}
	}
	var after int64
	pages := 0
	for {
		page := read(after, nil, 4)
		pages++
		for i, body := range page.Bodies {
			var e webhook.Envelope
			if err := json.Unmarshal(body, &e); err != nil || e.Sequence != after+int64(i)+1 {
				t.Fatalf("got sequence %v, %v, want %v", e.Sequence, err, after+int64(i)+1)
			}
			if !bodies[string(body)] {
				t.Errorf("got %s, want the bytes that were frozen", body)
			}
			delete(bodies, string(body))
		}
		after = page.NextAfter
		if !page.HasMore {
			break
		}
	}
	if len(bodies) != 0 || pages != 3 {
		t.Errorf("got %v pages and missed %v, want 3 and nothing", pages, slices.Collect(maps.Keys(bodies)))
	}
	if page := read(0, []Type{CustomerWithdrawCompleted}, 2); len(page.Bodies) != 2 || !page.HasMore {
		t.Errorf("of one type: got %v, want 2 of 4", page)
	}
}
