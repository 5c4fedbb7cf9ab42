package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/outbound"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/webhook"
)

func (w *world) change(endpointID string, c Change) Endpoint {
	w.t.Helper()
	var e Endpoint
	err := w.db.InOrg(w.t.Context(), org, func(ctx context.Context, tx pg.Tx) (err error) {
		e, err = w.endpoints.Update(ctx, tx, org, audit.APIKey(org), endpointID, c)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

func (w *world) rotate(endpointID string) (secret string, until time.Time, err error) {
	err = w.db.InOrg(w.t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
		_, s, at, err := w.endpoints.Rotate(ctx, tx, org, audit.APIKey(org), endpointID)
		if err == nil {
			secret, until = s.Reveal(), at
		}
		return err
	})
	return secret, until, err
}

// concerning records an event of a customer on a chain.
func (w *world) concerning(t event.Type, resource, customerID string, ch chain.Name) (eventID string) {
	w.t.Helper()
	err := w.db.InOrg(w.t.Context(), org, func(ctx context.Context, tx pg.Tx) (err error) {
		eventID, err = recorder.Record(ctx, tx, event.Event{
			OrgID: org, Type: t, ResourceKind: "deposit", ResourceID: resource, CustomerID: customerID,
			Chain: string(ch),
			Data:  webhook.Deposit{DepositID: resource, CustomerID: &customerID},
		})
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return eventID
}

func pointer[T any](v T) *T { return &v }

// Rule EVT-8.
func TestFiltersLeaveOutWhatConcernsOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	filtered := func(f Filters) string {
		var e Endpoint
		err := w.db.InOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) (err error) {
			e, _, err = w.endpoints.Create(ctx, tx, org, audit.APIKey(org),
				NewEndpoint{URL: "http://127.0.0.1:1", Filters: f})
			return err
		})
		if err != nil || e.Filters != f {
			t.Fatalf("got %v, %v, want the filters %v", e.Filters, err, f)
		}
		return e.ID
	}
	endpoints := []string{
		filtered(Filters{}), filtered(Filters{CustomerID: "alice"}), filtered(Filters{Chain: chain.Base}),
		filtered(Filters{CustomerID: "alice", Chain: chain.Base}), filtered(Filters{CustomerID: "Alice"}),
	}
	events := []struct {
		customer string
		chain    chain.Name
		to       []int
	}{
		{"alice", chain.Base, []int{0, 1, 2, 3}},
		{"alice", chain.Ethereum, []int{0, 1}},
		{"bob", chain.Base, []int{0, 2}},
		{"bob", chain.Ethereum, []int{0}},
		{"", chain.Base, []int{0, 2}},
		{"", "", []int{0}},
	}
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i] = w.concerning(event.CustomerDeposit, fmt.Sprint("dep_", i), e.customer, e.chain)
	}
	w.sequence()
	got := map[string][]int{}
	for _, d := range w.deliveries() {
		got[d.EventID] = append(got[d.EventID], slices.Index(endpoints, d.EndpointID))
	}
	for i, e := range events {
		slices.Sort(got[ids[i]])
		if !slices.Equal(got[ids[i]], e.to) {
			t.Errorf("event of %q on %q: got it sent to %v, want %v", e.customer, e.chain, got[ids[i]], e.to)
		}
	}
}

// Rule EVT-8.
func TestAChangedSubscriptionDecidesAboutWhatIsNumberedAfterIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rc := newReceiver(t, w.clock.now, nil)
	e, _ := w.endpoint(rc.URL)
	before := w.concerning(event.CustomerDeposit, "dep_1", "bob", chain.Base)
	w.sequence()
	changed := w.change(e.ID, Change{
		Events: &[]event.Type{event.CustomerWithdraw, event.CustomerDeposit}, Filters: &Filters{CustomerID: "alice"},
	})
	if changed.Filters.CustomerID != "alice" || len(changed.Events) != 2 || changed.URL != e.URL ||
		changed.Status != Enabled {
		t.Errorf("got %+v, want what was changed and nothing else", changed)
	}
	w.concerning(event.CustomerDeposit, "dep_2", "bob", chain.Base)
	after := w.concerning(event.CustomerDeposit, "dep_3", "alice", chain.Base)
	w.sequence()
	w.drain(w.dispatcher())
	var got []string
	for _, r := range rc.requests() {
		got = append(got, r.eventID)
	}
	slices.Sort(got) // different resources have no order
	want := []string{before, after}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if again := w.change(e.ID, Change{Filters: &Filters{}}); again.Filters != (Filters{}) || len(again.Events) != 2 {
		t.Errorf("got %+v, want the filters gone and the events kept", again)
	}
}

// Rule EVT-9.
func TestAPausedEndpointKeepsItsDeliveriesAndResumesInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	var failing atomic.Bool
	failing.Store(true)
	var stumbles atomic.Pointer[string] // over this event, once
	rc := newReceiver(t, w.clock.now, func(rw http.ResponseWriter, r request) {
		if id := stumbles.Load(); failing.Load() || id != nil && *id == r.eventID && stumbles.CompareAndSwap(id, nil) {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	e, _ := w.endpoint(rc.URL)
	first := w.events("dep_1", 3)
	w.sequence()
	d := w.dispatcher()
	// Far into the schedule, so that the next attempt is hours away.
	for range 7 {
		w.drain(d)
		w.advance()
	}
	w.change(e.ID, Change{Status: pointer(Paused)})
	second := w.events("dep_2", 3)
	w.sequence()
	before := len(rc.requests())
	w.clock.move(100 * time.Hour)
	w.drain(d)
	w.want("PENDING", 6)
	if got := len(rc.requests()); got != before {
		t.Errorf("got %v requests while paused, want none", got-before)
	}

	// All were tried for hours, and still the next waits for the one before.
	failing.Store(false)
	stumbles.Store(&first[0])
	w.change(e.ID, Change{Status: pointer(Enabled)})
	d = w.dispatcher() // with room for several at once
	w.drain(d)
	w.clock.move(delays[1] * 2)
	w.drain(d)
	w.want("DELIVERED", 6)
	var order [2][]string
	for _, r := range rc.requests()[before:] {
		if slices.Contains(first, r.eventID) {
			order[0] = append(order[0], r.eventID)
		} else {
			order[1] = append(order[1], r.eventID)
		}
	}
	if !slices.Equal(order[0], append(first[:1:1], first...)) || !slices.Equal(order[1], second) {
		t.Errorf("got %v, want the events of each resource in order: %v, %v", order, first, second)
	}
}

// A delivery that failed in its last attempt has the whole schedule again. Rule EVT-9.
func TestEnablingStartsTheScheduleAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rc := newReceiver(t, w.clock.now, status(http.StatusNotFound))
	e, _ := w.endpoint(rc.URL)
	w.events("dep_1", 1)
	w.sequence()
	d := w.dispatcher()
	for range attemptsMax - 2 {
		w.drain(d)
		w.advance()
	}
	w.drain(d)
	before := w.deliveries()[0]
	if before.Attempts != attemptsMax-1 {
		t.Fatalf("got %v attempts, want all but the last", before.Attempts)
	}
	w.change(e.ID, Change{Status: pointer(Paused)})
	w.change(e.ID, Change{Status: pointer(Enabled)})
	restarted := w.clock.now()
	w.drain(d)
	for w.deliveries()[0].Status == "PENDING" && w.advance() {
		w.drain(d)
	}
	got := w.deliveries()[0]
	if got.Status != "FAILED" || got.Attempts != 2*attemptsMax-1 {
		t.Errorf("got %v after %v attempts, want it failed after %v", got.Status, got.Attempts, 2*attemptsMax-1)
	}
	if lasted := w.clock.now().Sub(restarted); lasted < 71*time.Hour {
		t.Errorf("got the end %v after it was enabled, want a whole schedule", lasted)
	}
	seen := map[int]bool{}
	for _, r := range rc.requests() {
		if seen[r.attempt] {
			t.Errorf("got attempt %v twice, want every number once", r.attempt)
		}
		seen[r.attempt] = true
	}
}

// Rule EVT-9.
func TestAnotherURLGetsAllThatWaitsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	old := newReceiver(t, w.clock.now, status(http.StatusBadGateway))
	fresh := newReceiver(t, w.clock.now, nil)
	e, secret := w.endpoint(old.URL)
	for i := range 30 {
		w.events(fmt.Sprint("dep_", i), 2)
	}
	w.sequence()
	d := w.dispatcher()
	for range 6 {
		w.drain(d)
		w.advance()
	}
	w.drain(d)
	d.ensureOpen()
	w.advance()
	inFlight, err := d.claimDue(t.Context())
	if err != nil || len(inFlight) == 0 {
		t.Fatalf("got %v, %v, want something in flight", inFlight, err)
	}
	o := d.postDelivery(t.Context(), inFlight[0])
	for _, c := range inFlight {
		d.windows.finishPost(c.endpoint, o)
	}
	before := len(old.requests())
	w.change(e.ID, Change{URL: pointer(fresh.URL)})
	if err := d.recordOutcomes(t.Context(), []outcome{o}); err != nil {
		t.Fatal(err)
	}
	w.clock.move(leaseLength) // for deliveries that were claimed and never posted
	w.drain(d)
	w.clock.move(delays[attemptsMax-1]) // for the delivery that was in flight when the URL changed
	w.drain(d)
	w.want("DELIVERED", 60)
	if got := len(old.requests()); got != before {
		t.Errorf("got %v posts to the former URL, want none", got-before)
	}
	for _, r := range fresh.requests() {
		verify(t, r, secret)
	}
	if got := w.change(e.ID, Change{}); got.FailingSince != nil {
		t.Errorf("got it failing since %v, want the new URL innocent", got.FailingSince)
	}
}

// More deliveries than one transaction moves, while they fail as fast as possible. Rule EVT-9.
func TestARestartOfManyDeliveriesEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rc := newReceiver(t, w.clock.now, status(http.StatusInternalServerError))
	e, _ := w.endpoint(rc.URL)
	w.events("dep_1", 1)
	w.sequence()
	const many = 2*restartMax + 7
	w.exec(`INSERT INTO events (event_id, org_id, type, resource_kind, resource_id, resource_seq, data, created_at, sequence, body)
		SELECT 'evt_' || n, 'org_1', 'CUSTOMER_DEPOSIT', 'deposit', 'dep_' || n, 1, '{}', $2, n, '{}' FROM generate_series(2, $1::int) n`,
		many, w.clock.now())
	w.exec(`INSERT INTO deliveries (org_id, endpoint_id, event_id, resource_id, resource_seq, status, attempts, created_at, attempt_after, first_attempt_at)
		SELECT 'org_1', $1, event_id, resource_id, 1, 'PENDING', 5, $2, $2::timestamptz + interval '9 hours', $2 FROM events WHERE sequence > 1`,
		e.ID, w.clock.now())
	w.clock.move(time.Second)
	w.change(e.ID, Change{Status: pointer(Paused)})
	w.change(e.ID, Change{Status: pointer(Enabled)})
	d := w.dispatcher()
	d.ensureOpen()
	for steps := 0; ; steps++ {
		hasMore, err := d.runMaintenance(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !hasMore {
			break
		}
		if steps > 10 {
			t.Fatalf("got no end after %v steps, want one", steps)
		}
		batch, err := d.claimDue(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var outcomes []outcome
		for _, c := range batch {
			outcomes = append(outcomes, outcome{claimedDelivery: c, sentAt: w.clock.now(), status: 500})
			d.windows.finishPost(c.endpoint, outcomes[len(outcomes)-1])
		}
		if err := d.recordOutcomes(t.Context(), outcomes); err != nil {
			t.Fatal(err)
		}
	}
	var late int
	if err := w.owner.QueryRow(
		t.Context(), `SELECT count(*) FROM deliveries WHERE attempt_after > $1::timestamptz + interval '1 minute'`,
		w.clock.now(),
	).Scan(&late); err != nil || late != 0 {
		t.Errorf("got %v deliveries that wait for hours, %v, want none", late, err)
	}
}

// The guard checks every attempt, for every earlier URL. Rule EVT-6.
func TestAChangedURLIsGuardedToo(t *testing.T) {
	t.Parallel()
	port, hits, resolver := trap(t)
	w := newWorld(t, true)
	e, _ := w.endpoint("https://receiver.example.com/")
	w.endpoints.Development = false
	for _, url := range []string{
		"http://example.com",
		"https://127.0.0.1/", "https://localhost/", "https://169.254.169.254/latest", "https://u:p@example.com",
		"ftp://example.com", "",
	} {
		err := w.db.InOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
			_, err := w.endpoints.Update(ctx, tx, org, audit.APIKey(org), e.ID, Change{URL: &url})
			return err
		})
		if f := fault.Find(err); f == nil || f.Code != fault.InvalidRequest || f.Param != "url" {
			t.Errorf("%s: got %v, want it refused", url, err)
		}
	}
	w.change(e.ID, Change{URL: pointer("https://other.example.com:" + port + "/")}) // which resolves to loopback
	w.events("dep_1", 1)
	w.sequence()
	d := w.dispatcher()
	d.Development, d.resolver, d.answerMax = false, resolver, 5*time.Second
	w.step(d)
	if got := w.deliveries()[0]; got.Attempts != 1 || got.Error == nil || *got.Error != outbound.ErrForbidden.Error() ||
		hits.Load() != 0 {
		t.Errorf("got %+v and %v connections, want it refused and none", got, hits.Load())
	}
}

func TestAChangeThatCannotBeIsRefusedAndChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	e, _ := w.endpoint("http://127.0.0.1:1/")
	for param, c := range map[string]Change{
		"status":             {Status: pointer(DisabledGone)},
		"events":             {Events: &[]event.Type{"NOTHING"}},
		"description":        {Description: pointer(strings.Repeat("a", descriptionBytesMax+1))},
		"filters.customerId": {Filters: &Filters{CustomerID: "a\x00"}},
		"filters.chain":      {Filters: &Filters{Chain: "ETHERIUM"}},
		"url":                {URL: pointer("http://example.com")},
	} {
		c.Description = cmpOr(c.Description, pointer("changed"))
		err := w.db.InOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
			_, err := w.endpoints.Update(ctx, tx, org, audit.APIKey(org), e.ID, c)
			return err
		})
		if f := fault.Find(err); f == nil || f.Code != fault.InvalidRequest || f.Param != param {
			t.Errorf("%s: got %v, want %v on it", param, err, fault.InvalidRequest)
		}
	}
	err := w.db.InOrg(t.Context(), "org_2", func(ctx context.Context, tx pg.Tx) error {
		_, err := w.endpoints.Update(ctx, tx, "org_2", audit.APIKey("org_2"), e.ID, Change{Status: pointer(Paused)})
		return err
	})
	if !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("another organization's: got %v, want %v", err, fault.CodeNotFound)
	}
	if got := w.change(e.ID, Change{}); !got.UpdatedAt.Equal(e.UpdatedAt) || got.Description != "" ||
		got.Status != Enabled {
		t.Errorf("got %+v, want it as it was", got)
	}
}

func cmpOr[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

// Rule EVT-10.
func TestAReplacedSecretSignsBesideItsSuccessorForADay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rc := newReceiver(t, w.clock.now, func(rw http.ResponseWriter, r request) { rw.WriteHeader(500) })
	e, first := w.endpoint(rc.URL)
	w.events("dep_1", 1)
	w.sequence()
	d := w.dispatcher()
	w.step(d)
	second, until, err := w.rotate(e.ID)
	if err != nil || second == first || !until.Equal(w.clock.now().Add(24*time.Hour)) {
		t.Fatalf("got %v, %v, want another secret and the former one for a day", until, err)
	}
	for w.clock.now().Before(until.Add(20 * time.Hour)) {
		w.advance()
		w.drain(d)
	}
	for _, r := range rc.requests() {
		signatures := strings.Fields(r.header.Get(webhook.HeaderSignature))
		want := []string{second, w.key.Public()}
		switch {
		case r.attempt == 1:
			want = []string{first, w.key.Public()}
		case r.at.Before(until):
			want = []string{second, first, w.key.Public()}
		}
		if len(signatures) != len(want) {
			t.Errorf("attempt %d at %v: got %v signatures, want %v", r.attempt, r.at, len(signatures), len(want))
		}
		verify(t, r, want...)
		for _, old := range []string{first, second} {
			err := webhook.VerifyAt(r.at, []byte(r.body), r.header, old, time.Second)
			if known := slices.Contains(want, old); (err == nil) != known ||
				err != nil && !errors.Is(err, webhook.ErrSignature) {
				t.Errorf("attempt %d: got %v for a secret that signs: %v", r.attempt, err, known)
			}
		}
	}
	if n := len(rc.requests()); n < 9 || !rc.requests()[n-1].at.After(until) {
		t.Errorf("got %v attempts, want some after the former secret had retired", n)
	}
}

// A rotation whose answer was lost is repeated, and no secret ends before its day is over. Rule
// EVT-10.
func TestRotationsWithinADayEndNoSecretEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rc := newReceiver(t, w.clock.now, nil)
	e, first := w.endpoint(rc.URL)
	secrets := []string{first}
	for range secretsMax - 1 {
		w.clock.move(time.Minute)
		s, _, err := w.rotate(e.ID)
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, s)
	}
	_, _, err := w.rotate(e.ID)
	if f := fault.Find(err); f == nil || f.Code != fault.InvalidState ||
		!strings.Contains(f.Advice, "2026-02-01T12:01:00Z") {
		t.Errorf("a fifth secret: got %v, want %v with the time when the oldest retires", err, fault.InvalidState)
	}
	w.events("dep_1", 1)
	w.sequence()
	d := w.dispatcher()
	d.FormerKeys = []webhook.Key{anotherKey(t)}
	w.drain(d)
	got := rc.requests()
	if len(got) != 1 {
		t.Fatalf("got %v requests, want 1", len(got))
	}
	verify(t, got[0], append(secrets, w.key.Public(), d.FormerKeys[0].Public())...)
	w.clock.move(24*time.Hour - time.Minute)
	if _, _, err := w.rotate(e.ID); err != nil {
		t.Errorf("when the oldest has retired: got %v, want another secret", err)
	}
	var sealed int
	if err := w.owner.QueryRow(
		t.Context(), `SELECT count(DISTINCT sealed) FROM webhook_secrets WHERE NOT sealed LIKE '%whsec%'`,
	).Scan(&sealed); err != nil || sealed != secretsMax+1 {
		t.Errorf("got %v sealed secrets, %v, want %v", sealed, err, secretsMax+1)
	}
}

func anotherKey(t *testing.T) webhook.Key {
	t.Helper()
	key, err := OpenOrCreateKey(t.TempDir() + "/former.key")
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Rule EVT-10.
func TestRotationsThatRaceMakeOnePresentSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	e, _ := w.endpoint("http://127.0.0.1:1/")
	var group sync.WaitGroup
	var made, refused atomic.Int32
	for range 12 {
		group.Go(func() {
			switch _, _, err := w.rotate(e.ID); {
			case err == nil:
				made.Add(1)
			case fault.HasCode(err, fault.InvalidState):
				refused.Add(1)
			default:
				t.Errorf("got %v, want a secret or a refusal", err)
			}
		})
	}
	group.Wait()
	var present, all int
	err := w.owner.QueryRow(
		t.Context(), `SELECT count(*) FILTER (WHERE retires_at IS NULL), count(*) FROM webhook_secrets`,
	).Scan(&present, &all)
	if err != nil || made.Load() != secretsMax-1 || refused.Load() != 12-(secretsMax-1) || present != 1 ||
		all != secretsMax {
		t.Errorf("got %v made and %v refused, %v present of %v, %v, want %v made and one present", made.Load(),
			refused.Load(), present, all, err, secretsMax-1)
	}
}
