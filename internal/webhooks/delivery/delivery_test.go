package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/webhook"
)

const org = "org_1"

// clock stands still until a test moves it.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) move(d time.Duration) { c.set(c.now().Add(d)) }

func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = t
}

// world is an installation with one organization, in development mode.
type world struct {
	t         testing.TB
	db        *pg.DB
	clock     *clock // nil: the system's
	owner     *pgxpool.Pool
	keyset    *seal.Keyset
	key       webhook.Key
	endpoints *Endpoints
}

func newWorld(t testing.TB, still bool) *world {
	t.Helper()
	w := &world{t: t}
	dir := t.TempDir()
	if err := seal.CreateKeyset(filepath.Join(dir, "seal.key")); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.keyset, err = seal.OpenKeyset(filepath.Join(dir, "seal.key")); err != nil {
		t.Fatal(err)
	}
	if w.key, err = OpenOrCreateKey(filepath.Join(dir, "webhook.key")); err != nil {
		t.Fatal(err)
	}
	w.endpoints = &Endpoints{Seal: w.keyset, Development: true}
	if still {
		w.clock = &clock{at: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}
		w.db = pgtest.NewWithClock(t, w.clock.now)
	} else {
		w.db = pgtest.New(t)
	}
	w.owner = pgtest.OwnerPool(t, w.db)
	w.exec(
		`INSERT INTO organizations (org_id, name, created_at) VALUES ('org_1', 'one', now()), ('org_2', 'two', now())`,
	)
	return w
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.owner.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) dispatcher() *Dispatcher {
	return &Dispatcher{DB: w.db, Seal: w.keyset, Key: w.key, Development: true, Log: slog.New(slog.DiscardHandler)}
}

// run starts a loop and returns what stops it and waits for it.
func (w *world) run(loop func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := loop(ctx); err != nil {
			w.t.Errorf("run: got %v, want nil", err)
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	w.t.Cleanup(stop)
	return stop
}

func (w *world) endpoint(url string, events ...event.Type) (Endpoint, string) {
	w.t.Helper()
	var e Endpoint
	var secret seal.Secret
	err := w.db.InOrg(w.t.Context(), org, func(ctx context.Context, tx pg.Tx) (err error) {
		e, secret, err = w.endpoints.Create(ctx, tx, org, audit.APIKey(org), NewEndpoint{URL: url, Events: events})
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return e, secret.Reveal()
}

// events records n events of a resource, one transaction each.
func (w *world) events(resource string, n int) []string {
	w.t.Helper()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = w.event(org, event.CustomerDeposit, resource)
	}
	return ids
}

// recorder records objects as they are.
var recorder = event.Recorder{ObjectOf: func(_ event.Type, data any) (any, error) { return data, nil }}

func (w *world) event(org string, t event.Type, resource string) (eventID string) {
	w.t.Helper()
	err := w.db.InOrg(w.t.Context(), org, func(ctx context.Context, tx pg.Tx) (err error) {
		eventID, err = recorder.Record(ctx, tx, event.Event{
			OrgID: org, Type: t, ResourceKind: "deposit", ResourceID: resource,
			Data: webhook.Deposit{DepositID: resource, Amount: "5000000"},
		})
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return eventID
}

func (w *world) sequence() {
	w.t.Helper()
	s := &event.Sequencer{DB: w.db, Environment: webhook.Test, Listener: FanOut{}}
	for n := 1; n > 0; {
		var err error
		if n, err = s.Step(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) step(d *Dispatcher) int {
	w.t.Helper()
	n, err := d.Step(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// drain steps until nothing is due at this moment.
func (w *world) drain(d *Dispatcher) {
	w.t.Helper()
	for w.step(d) > 0 {
	}
}

// advance moves the clock to the time of the next due delivery, and reports whether any is pending.
func (w *world) advance() bool {
	w.t.Helper()
	var next *time.Time
	if err := w.owner.QueryRow(
		w.t.Context(), `SELECT min(attempt_after) FROM deliveries WHERE status = 'PENDING'`,
	).Scan(&next); err != nil {
		w.t.Fatal(err)
	}
	if next == nil {
		return false
	}
	if next.After(w.clock.now()) {
		w.clock.set(*next)
	} else {
		w.clock.move(time.Second) // something waits for its turn
	}
	return true
}

type delivery struct {
	EventID      string
	EndpointID   string
	Status       string
	Attempts     int
	AttemptAfter time.Time
	Leased       bool
	Recorded     int // attempts that were recorded
	Code         *int
	Error        *string
	Response     *string // of the last
}

func (w *world) deliveries() []delivery {
	w.t.Helper()
	rows, err := w.owner.Query(w.t.Context(), `
		SELECT d.event_id, d.endpoint_id, d.status, d.attempts, d.attempt_after, d.lease IS NOT NULL,
		       (SELECT count(*) FROM delivery_attempts a WHERE a.delivery_id = d.delivery_id),
		       l.status_code, l.error, l.response
		FROM deliveries d LEFT JOIN delivery_attempts l ON l.delivery_id = d.delivery_id AND l.attempt = d.attempts
		ORDER BY d.delivery_id`)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	var all []delivery
	for rows.Next() {
		var d delivery
		if err := rows.Scan(
			&d.EventID, &d.EndpointID, &d.Status, &d.Attempts, &d.AttemptAfter, &d.Leased, &d.Recorded, &d.Code,
			&d.Error, &d.Response,
		); err != nil {
			w.t.Fatal(err)
		}
		all = append(all, d)
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	return all
}

// want fails unless every delivery has that status.
func (w *world) want(status string, count int) {
	w.t.Helper()
	all := w.deliveries()
	if len(all) != count {
		w.t.Errorf("got %v deliveries, want %v", len(all), count)
	}
	for _, d := range all {
		if d.Status != status {
			w.t.Errorf("delivery of %s: got %v, want %v", d.EventID, d.Status, status)
		}
	}
}

// until polls for a fact.
func until(t testing.TB, what string, fact func() bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !fact() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("got nothing within 20 s, want %s", what)
		}
	}
}

// request is what a receiver got.
type request struct {
	at      time.Time
	header  http.Header
	body    string
	eventID string
	attempt int
}

// receiver records every request and gives the answer that the test sets.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []request
	answer func(w http.ResponseWriter, r request)
}

func newReceiver(t testing.TB, now func() time.Time, answer func(w http.ResponseWriter, r request)) *receiver {
	t.Helper()
	rc := &receiver{answer: answer}
	rc.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read the request: %v", err)
		}
		attempt, err := strconv.Atoi(r.Header.Get(webhook.HeaderAttempt))
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" ||
			r.UserAgent() != userAgent {
			t.Errorf("got %s, %v, want a POST of JSON with its attempt and our name", r.Method, r.Header)
		}
		var e webhook.Envelope
		if err := json.Unmarshal(body, &e); err != nil || e.ID != r.Header.Get(webhook.HeaderID) {
			t.Errorf("got id %v in the header and %v in the body, %v, want one", r.Header.Get(webhook.HeaderID), e.ID,
				err)
		}
		q := request{now(), r.Header.Clone(), string(body), e.ID, attempt}
		rc.mu.Lock()
		rc.got = append(rc.got, q)
		rc.mu.Unlock()
		if rc.answer != nil {
			rc.answer(w, q)
		}
	}))
	t.Cleanup(rc.Close)
	return rc
}

func (rc *receiver) requests() []request {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return append([]request(nil), rc.got...)
}

func status(code int) func(http.ResponseWriter, request) {
	return func(w http.ResponseWriter, _ request) { w.WriteHeader(code) }
}

// verify fails unless the request verifies with every key at the time it arrived.
func verify(t testing.TB, r request, keys ...string) {
	t.Helper()
	for _, k := range keys {
		if err := webhook.VerifyAt(r.at, []byte(r.body), r.header, k, time.Second); err != nil {
			t.Errorf("event %s, attempt %d: got %v, want it verified", r.eventID, r.attempt, err)
		}
	}
}

// Rule EVT-4. The sent and signed bytes are the stored ones, even if the same JSON could be written
// differently.
func TestTheStoredBytesAreSentAndSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rc := newReceiver(t, w.clock.now, status(204))
	_, secret := w.endpoint(rc.URL)
	stored := map[string]string{}
	for resource, form := range map[string]string{
		"dep_1": "{\"reference\": \"a & b <c> \u2028 \u2029 \u00e9\",\n \"id\":%q,\"amount\":1.0,\"amount\":\"1\" }",
		"dep_2": `{"reference":"a\u0026b \u003cc\u003e \u2028 \u00e9 \/","z":1,"id":%q,"a":1e2}`,
	} {
		id := w.event(org, event.CustomerDeposit, resource)
		stored[id] = fmt.Sprintf(form, id)
	}
	stored[w.event(org, event.CustomerDeposit, "a & <b>")] = "" // as the service writes it
	w.sequence()
	if _, err := w.owner.Exec(t.Context(), `ALTER TABLE events DISABLE TRIGGER USER`); err != nil {
		t.Fatal(err)
	}
	for id, body := range stored {
		var kept []byte
		if err := w.owner.QueryRow(
			t.Context(),
			`UPDATE events SET body = coalesce(nullif($2, ''::bytea), body) WHERE event_id = $1 RETURNING body`, id,
			[]byte(body),
		).Scan(&kept); err != nil {
			t.Fatal(err)
		}
		stored[id] = string(kept)
	}
	w.drain(w.dispatcher())
	w.want("DELIVERED", len(stored))
	for _, r := range rc.requests() {
		if r.body != stored[r.eventID] {
			t.Errorf("sent: got %q, want %q", r.body, stored[r.eventID])
		}
		verify(t, r, secret, w.key.Public())
	}
}

// Rule EVT-4.
func TestAnEventArrivesSignedAndIsTheFeedsBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rc := newReceiver(t, w.clock.now, status(204))
	_, secret := w.endpoint(rc.URL + "/hook?a=b")
	for i := range 5 {
		w.events(fmt.Sprint("dep_", i), 2)
	}
	w.sequence()
	d := w.dispatcher()
	w.drain(d)
	w.want("DELIVERED", 10)
	var page event.Page
	err := w.db.ReadOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) (err error) {
		page, err = event.ReadFeed(ctx, tx, org, 0, nil, 100)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	feed := map[string]bool{}
	for _, body := range page.Bodies {
		feed[string(body)] = true
	}
	got := rc.requests()
	if len(got) != 10 || len(feed) != 10 {
		t.Fatalf("got %v requests and %v events in the feed, want 10", len(got), len(feed))
	}
	for _, r := range got {
		verify(t, r, secret, w.key.Public())
		if !feed[r.body] {
			t.Errorf("got %s, want the bytes of the feed", r.body)
		}
		if r.attempt != 1 || !strings.HasPrefix(r.header.Get(webhook.HeaderSignature), "v1,") ||
			!strings.Contains(r.header.Get(webhook.HeaderSignature), " v1a,") {
			t.Errorf("got attempt %v and signature %v, want the first, with v1 and v1a", r.attempt,
				r.header.Get(webhook.HeaderSignature))
		}
	}
}

// Rule EVT-7.
func TestEndpointsGetTheEventsTheyWant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	plain, _ := w.endpoint("http://127.0.0.1:1/plain")
	named, _ := w.endpoint("http://127.0.0.1:1/named", event.CustomerWithdrawCompleted, event.CustomerDeposit)
	paused, _ := w.endpoint("http://127.0.0.1:1/paused")
	gone, _ := w.endpoint("http://127.0.0.1:1/gone")
	deleted, _ := w.endpoint("http://127.0.0.1:1/deleted")
	w.exec(`UPDATE webhook_endpoints SET status = 'PAUSED' WHERE endpoint_id = $1`, paused.ID)
	w.exec(`UPDATE webhook_endpoints SET status = 'DISABLED_GONE' WHERE endpoint_id = $1`, gone.ID)
	w.exec(`UPDATE webhook_endpoints SET deleted_at = now() WHERE endpoint_id = $1`, deleted.ID)
	deposit := w.event(org, event.CustomerDeposit, "dep_1")
	withdraw := w.event(org, event.CustomerWithdraw, "wd_1")
	completed := w.event(org, event.CustomerWithdrawCompleted, "wd_1")
	w.event("org_2", event.CustomerDeposit, "dep_2")
	w.sequence()
	got := map[string]bool{}
	for _, d := range w.deliveries() {
		got[d.EndpointID+" "+d.EventID] = true
	}
	want := []string{
		plain.ID + " " + deposit, plain.ID + " " + withdraw, paused.ID + " " + deposit, paused.ID + " " + withdraw,
		named.ID + " " + deposit, named.ID + " " + completed,
	}
	for _, one := range want {
		if !got[one] {
			t.Errorf("got no delivery %s, want it", one)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %v deliveries, want %v", len(got), len(want))
	}
}

// A receiver fails k times and then accepts the event, for every k that the schedule allows and the
// first that it does not. Rules EVT-2, EVT-5, EVT-16.
func TestEveryAttemptIsTheSameMessageOnTheSchedule(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	receivers := make([]*receiver, attemptsMax+1)
	secrets := make([]string, len(receivers))
	// The API does not let an organization create as many as thirteen endpoints.
	w.exec(
		`INSERT INTO organizations (org_id, name, created_at) SELECT 'org_k' || n, 'k', now() FROM generate_series(0, 12) n`,
	)
	for k := range receivers {
		receivers[k] = newReceiver(t, w.clock.now, func(rw http.ResponseWriter, r request) {
			if r.attempt <= k {
				rw.WriteHeader([]int{500, 404, 302, 400, 503}[r.attempt%5])
			}
		})
		tenant := fmt.Sprint("org_k", k)
		err := w.db.InOrg(t.Context(), tenant, func(ctx context.Context, tx pg.Tx) error {
			_, secret, err := w.endpoints.Create(ctx, tx, tenant, audit.APIKey(tenant),
				NewEndpoint{URL: receivers[k].URL})
			secrets[k] = secret.Reveal()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		w.event(tenant, event.CustomerDeposit, fmt.Sprint("dep_", k))
	}
	w.sequence()
	d := w.dispatcher()
	start := w.clock.now()
	for hasMore := true; hasMore; hasMore = w.advance() {
		w.drain(d)
	}
	for _, delivered := range w.deliveries() {
		if delivered.Leased || delivered.Attempts != delivered.Recorded {
			t.Errorf("%v: got a lease or %v of %v attempts recorded, want none and all", delivered.EventID,
				delivered.Recorded, delivered.Attempts)
		}
	}
	for k, rc := range receivers {
		var got string
		if err := w.owner.QueryRow(
			t.Context(), `SELECT status FROM deliveries WHERE org_id = $1`, fmt.Sprint("org_k", k),
		).Scan(&got); err != nil {
			t.Fatal(err)
		}
		want, count := "DELIVERED", k+1
		if k == attemptsMax {
			want, count = "FAILED", attemptsMax
		}
		all := rc.requests()
		if got != want || len(all) != count {
			t.Errorf("%d failures: got %v after %v attempts, want %v after %v", k, got, len(all), want, count)
		}
		before := start
		for i, r := range all {
			verify(t, r, secrets[k], w.key.Public())
			if r.body != all[0].body || r.eventID != all[0].eventID || r.attempt != i+1 {
				t.Errorf("%d failures, attempt %d: got another message, want the same", k, r.attempt)
			}
			low, high := delays[i]*8/10, delays[i]*12/10+2*time.Second
			if waited := r.at.Sub(before); waited < low || waited > high {
				t.Errorf("%d failures, attempt %d: got %v after the one before, want %v to %v", k, r.attempt, waited,
					low, high)
			}
			before = r.at
		}
	}
}

func TestAnEndpointThatIsDown71HoursGetsItsEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	up := w.clock.now().Add(71 * time.Hour)
	rc := newReceiver(t, w.clock.now, func(rw http.ResponseWriter, r request) {
		if r.at.Before(up) {
			rw.WriteHeader(http.StatusBadGateway)
		}
	})
	w.endpoint(rc.URL)
	for i := range 3 {
		w.events(fmt.Sprint("dep_", i), 2)
	}
	w.sequence()
	d := w.dispatcher()
	for hasMore := true; hasMore; hasMore = w.advance() {
		w.drain(d)
	}
	w.want("DELIVERED", 6)
}

// Rule EVT-3.
func TestTheNextEventOfAResourceWaitsForTheOneBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	var stuck string
	rc := newReceiver(t, w.clock.now, func(rw http.ResponseWriter, r request) {
		if r.eventID == stuck {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	w.endpoint(rc.URL)
	ids := w.events("dep_1", 3)
	stuck = ids[0]
	other := w.events("dep_2", 1)[0]
	w.sequence()
	d := w.dispatcher()
	start := w.clock.now()
	first := map[string]time.Time{}
	w.drain(d)
	due := map[string]delivery{}
	for _, d := range w.deliveries() {
		due[d.EventID] = d
	}
	for _, id := range ids[1:] {
		if got, want := due[id].AttemptAfter, due[stuck].AttemptAfter; !got.Equal(want) || due[id].Attempts != 0 {
			t.Errorf(
				"event after one that failed: got it due at %v, want it put off until the one before is due, at %v",
				got, want,
			)
		}
	}
	for len(first) < 4 && w.advance() {
		w.drain(d)
		for _, r := range rc.requests() {
			if _, ok := first[r.eventID]; !ok {
				first[r.eventID] = r.at
			}
		}
	}
	firstTry := first[stuck]
	for _, d := range w.deliveries() {
		if d.Status == "PENDING" && d.EventID != stuck {
			t.Errorf("%s: got %v, want it delivered", d.EventID, d.Status)
		}
	}
	if got := first[other].Sub(start); got > 2*time.Second {
		t.Errorf("another resource: got it after %v, want it at once", got)
	}
	for _, id := range ids[1:] {
		if got := first[id].Sub(firstTry); got < orderWaitMax || got > orderWaitMax+time.Minute {
			t.Errorf("event after one that fails: got it %v after that one's first attempt, want %v", got, orderWaitMax)
		}
	}
}

// Every resource's events arrive in order, also after failures. This tests the property itself,
// over many resources and a receiver that fails every third time. Rule EVT-3.
func TestOrderWithinAResourceHoldsWhateverFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rc := newReceiver(t, w.clock.now, func(rw http.ResponseWriter, r request) {
		if (int(r.eventID[len(r.eventID)-1])+r.attempt)%3 == 0 {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	w.endpoint(rc.URL)
	place := map[string]int{}
	resource := map[string]string{}
	for i := range 12 {
		name := fmt.Sprint("dep_", i)
		for n, id := range w.events(name, 4) {
			place[id], resource[id] = n, name
		}
	}
	w.sequence()
	dispatchers := []*Dispatcher{w.dispatcher(), w.dispatcher()}
	for hasMore := true; hasMore; hasMore = w.advance() {
		for _, d := range dispatchers {
			w.drain(d)
		}
	}
	w.want("DELIVERED", 48)
	type key struct {
		resource string
		place    int
	}
	tried, taken := map[key]time.Time{}, map[key]bool{}
	for _, r := range rc.requests() {
		k := key{resource[r.eventID], place[r.eventID]}
		if before := (key{k.resource, k.place - 1}); k.place > 0 && !taken[before] &&
			(tried[before].IsZero() || r.at.Sub(tried[before]) < orderWaitMax) {
			t.Errorf("%s: got event %d before event %d was delivered", k.resource, k.place, before.place)
		}
		if tried[k].IsZero() {
			tried[k] = r.at
		}
		if (int(r.eventID[len(r.eventID)-1])+r.attempt)%3 != 0 {
			taken[k] = true
		}
	}
}
