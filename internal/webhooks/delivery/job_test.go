package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/outbound"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/webhook"
)

func (w *world) asked(ask func(ctx context.Context, tx pg.Tx) (Job, error)) (j Job, err error) {
	err = w.db.InOrg(w.t.Context(), org, func(ctx context.Context, tx pg.Tx) (err error) {
		j, err = ask(ctx, tx)
		return err
	})
	return j, err
}

func (w *world) resend(eventID, endpointID string) (Job, error) {
	return w.asked(func(ctx context.Context, tx pg.Tx) (Job, error) {
		return w.endpoints.Resend(ctx, tx, org, audit.APIKey(org), eventID, endpointID)
	})
}

func (w *world) recover(endpointID string, since time.Time, onlyFailed bool) (Job, error) {
	return w.asked(func(ctx context.Context, tx pg.Tx) (Job, error) {
		return w.endpoints.Recover(ctx, tx, org, audit.APIKey(org), endpointID, since, nil, onlyFailed)
	})
}

func (w *world) job(jobID string) Job {
	w.t.Helper()
	j, err := w.asked(func(ctx context.Context, tx pg.Tx) (Job, error) {
		return w.endpoints.JobByID(ctx, tx, org, jobID)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

func (w *world) log(endpointID string, which AttemptFilter, p pagination.Page) pagination.Result[Attempt] {
	w.t.Helper()
	var got pagination.Result[Attempt]
	err := w.db.ReadOrg(w.t.Context(), org, func(ctx context.Context, tx pg.Tx) (err error) {
		got, err = w.endpoints.Log(ctx, tx, org, endpointID, which, p)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// Rule EVT-14.
func TestAResentEventIsTheSameMessageOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	one, two := newReceiver(t, w.clock.now, nil), newReceiver(t, w.clock.now, nil)
	e, secret := w.endpoint(one.URL)
	w.endpoint(two.URL)
	w.endpoint("http://127.0.0.1:1/", event.CustomerWithdraw)
	id := w.events("dep_1", 1)[0]
	w.sequence()
	d := w.dispatcher()
	w.drain(d)

	var group sync.WaitGroup
	jobs := make([]Job, 20)
	for i := range jobs {
		group.Go(func() {
			var err error
			if jobs[i], err = w.resend(id, e.ID); err != nil {
				t.Errorf("got %v, want a job", err)
			}
		})
	}
	group.Wait()
	w.drain(d)
	again, err := w.resend(id, e.ID) // a slow second click
	if err != nil || again.ID != jobs[0].ID || again.Status != Completed || again.Queued != 1 || again.Delivered != 1 ||
		again.Pending != 0 {
		t.Errorf("got %+v, %v, want the same job, completed", again, err)
	}
	w.drain(d)
	got := one.requests()
	if len(got) != 2 || got[0].body != got[1].body || got[1].attempt != 2 || len(two.requests()) != 1 {
		t.Fatalf("got %v posts to one endpoint and %v to the other, want the same message once more to one alone",
			len(got), len(two.requests()))
	}
	verify(t, got[1], secret, w.key.Public())

	w.clock.move(resendDedupPeriod)
	all, err := w.resend(id, "")
	if err != nil || all.ID == again.ID {
		t.Fatalf("got %v, %v, want another job", all.ID, err)
	}
	w.drain(d)
	if got := w.job(all.ID); got.Examined != 2 || got.Queued != 2 || got.Delivered != 2 || len(one.requests()) != 3 ||
		len(two.requests()) != 2 {
		t.Errorf("got %+v, want both endpoints that want it", got)
	}
}

// Rule EVT-14.
func TestWhatCannotBeResentIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rc := newReceiver(t, w.clock.now, nil)
	e, _ := w.endpoint(rc.URL)
	narrow, _ := w.endpoint(rc.URL, event.CustomerWithdraw)
	off, _ := w.endpoint(rc.URL)
	w.exec(`UPDATE webhook_endpoints SET status = 'DISABLED_BY_FAILURE' WHERE endpoint_id = $1`, off.ID)
	id := w.events("dep_1", 1)[0]
	theirs := w.event("org_2", event.CustomerDeposit, "dep_2")
	if _, err := w.resend(id, e.ID); !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("not sent yet: got %v, want %v", err, fault.InvalidState)
	}
	w.sequence()
	for name, c := range map[string]struct {
		event, endpoint string
		code            fault.Code
	}{
		"another organization's": {theirs, e.ID, fault.CodeNotFound},
		"no id":                  {"x", e.ID, fault.CodeNotFound},
		"no endpoint":            {id, "we_x", fault.CodeNotFound},
		"not wanted":             {id, narrow.ID, fault.InvalidRequest},
		"disabled":               {id, off.ID, fault.InvalidState},
	} {
		if _, err := w.resend(c.event, c.endpoint); !fault.HasCode(err, c.code) {
			t.Errorf("%s: got %v, want %v", name, err, c.code)
		}
	}
	for name, err := range map[string]error{
		"in the future": second(w.recover(e.ID, w.clock.now().Add(time.Hour), true)),
		"disabled":      second(w.recover(off.ID, w.clock.now(), true)),
		"unknown":       second(w.recover("we_x", w.clock.now(), true)),
	} {
		if fault.Find(err) == nil {
			t.Errorf("recovery, %s: got %v, want a refusal", name, err)
		}
	}
	var jobs int
	if err := w.owner.QueryRow(t.Context(), `SELECT count(*) FROM webhook_jobs`).Scan(&jobs); err != nil || jobs != 0 {
		t.Errorf("got %v jobs, %v, want none", jobs, err)
	}
}

func second[T any](_ T, err error) error { return err }

// Events that failed for good, that were cancelled and that happened while the endpoint was
// disabled are sent in the order of each resource. Delivered events are not sent again. Rules
// EVT-3, EVT-11, EVT-14.
func TestARecoveryBringsWhatWasMissedInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	var failing atomic.Bool
	rc := newReceiver(t, w.clock.now, func(rw http.ResponseWriter, r request) {
		if failing.Load() {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	e, _ := w.endpoint(rc.URL)
	start := w.clock.now()
	resources := []string{"dep_1", "dep_2", "dep_3"}
	events := map[string][]string{}
	tell := func() {
		for _, r := range resources {
			events[r] = append(events[r], w.events(r, 2)...)
		}
		w.sequence()
	}
	d := w.dispatcher()
	tell()
	w.drain(d) // delivered
	failing.Store(true)
	tell()
	for hasMore := true; hasMore; hasMore = w.advance() { // failed for good
		w.drain(d)
	}
	w.exec(`UPDATE webhook_endpoints SET status = 'DISABLED_BY_FAILURE' WHERE endpoint_id = $1`, e.ID)
	tell() // no delivery is made
	failing.Store(false)
	w.change(e.ID, Change{Status: pointer(Enabled)})
	w.drain(d)
	before := len(rc.requests())

	job, err := w.recover(e.ID, start, true)
	if err != nil || job.Status != Running {
		t.Fatalf("got %+v, %v, want a running job", job, err)
	}
	tell() // further events meanwhile
	same, err := w.recover(e.ID, start, true)
	if err != nil || same.ID != job.ID {
		t.Errorf("a second click: got %v, %v, want %v", same.ID, err, job.ID)
	}
	if _, err := w.recover(e.ID, start, false); !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("another one while it runs: got %v, want %v", err, fault.InvalidState)
	}
	w.drain(d)
	if again, err := w.recover(e.ID, start, true); err != nil || again.ID != job.ID || again.Status != Completed ||
		again.Queued != 12 || again.Delivered != 12 || again.Examined != 18 {
		t.Errorf("got %+v, %v, want the same job with 12 of 18 queued and delivered", again, err)
	}
	got := map[string][]string{}
	for _, r := range rc.requests()[before:] {
		for resource, ids := range events {
			if slices.Contains(ids, r.eventID) {
				got[resource] = append(got[resource], r.eventID)
			}
		}
	}
	for _, r := range resources {
		if want := events[r][2:]; !slices.Equal(got[r], want) {
			t.Errorf("%s: got %v, want what was missed, in order: %v", r, got[r], want)
		}
	}

	w.clock.move(recoverDedupPeriod)
	all, err := w.recover(e.ID, start, false)
	if err != nil || all.ID == job.ID {
		t.Fatalf("got %v, %v, want another job", all.ID, err)
	}
	before = len(rc.requests())
	w.drain(d)
	if got := w.job(all.ID); got.Queued != 24 || got.Delivered != 24 || len(rc.requests()) != before+24 {
		t.Errorf("got %+v and %v posts, want everything once more", got, len(rc.requests())-before)
	}
}

// More events than one transaction reads, some of them outside of the requested time, and a process
// that stops between two windows. Rule EVT-14.
func TestARecoveryOfManyEventsGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	e, _ := w.endpoint("http://127.0.0.1:1/")
	const many = 3*jobWindowMax + 17
	start := w.clock.now()
	w.exec(`INSERT INTO events (event_id, org_id, type, resource_kind, resource_id, resource_seq, data, created_at, sequence, body)
		SELECT 'evt_' || n, 'org_1', CASE WHEN n % 2 = 0 THEN 'CUSTOMER_DEPOSIT' ELSE 'TRANSFER_COMPLETED' END, 'deposit', 'dep_' || n, 1, '{}',
		       $2::timestamptz + make_interval(secs => n), n, '{}' FROM generate_series(1, $1::int) n`, many, start)
	w.exec(`INSERT INTO event_sequences (org_id, last) VALUES ('org_1', $1)`, many)
	w.clock.move(2 * many * time.Second)
	since, until := start.Add(500*time.Second), start.Add(2600*time.Second)
	job, err := w.asked(func(ctx context.Context, tx pg.Tx) (Job, error) {
		return w.endpoints.Recover(ctx, tx, org, audit.APIKey(org), e.ID, since, &until, true)
	})
	if err != nil {
		t.Fatal(err)
	}
	for steps := 0; ; steps++ {
		d := w.dispatcher() // a new process each time
		d.ensureOpen()
		hasMore, err := d.advanceJob(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !hasMore {
			break
		}
		if steps > 10 {
			t.Fatal("got no end after 10 steps, want one")
		}
	}
	var wrong, made int
	err = w.owner.QueryRow(t.Context(), `
		SELECT count(*) FILTER (WHERE NOT (v.sequence % 2 = 0 AND v.created_at >= $1 AND v.created_at < $2)), count(*)
		FROM deliveries JOIN events v USING (event_id)`, since, until).Scan(&wrong, &made)
	if got := w.job(job.ID); err != nil || wrong != 0 || made != 1050 || got.Status != Completed ||
		got.Queued != 1050 || got.Pending != 1050 {
		t.Errorf("got %v deliveries, %v of them outside, %+v, %v, want 1050 and none", made, wrong, got, err)
	}
}

// The beginning of a recovery is found without walking the feed, with gaps or without.
func TestTheStretchOfARecoveryBeginsBeforeItsFirstEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	start := w.clock.now()
	w.exec(`INSERT INTO events (event_id, org_id, type, resource_kind, resource_id, resource_seq, data, created_at, sequence, body)
		SELECT 'evt_' || n, 'org_1', 'CUSTOMER_DEPOSIT', 'deposit', 'dep_' || n, 1, '{}', $1::timestamptz + make_interval(mins => n),
		       CASE WHEN n > 150 THEN n + 1000000 ELSE n END, '{}' FROM generate_series(1, 400) n`, start)
	w.exec(`INSERT INTO event_sequences (org_id, last) VALUES ('org_1', 1000400)`)
	for _, minutes := range []int{-1000, 0, 1, 59, 60, 61, 149, 150, 151, 210, 211, 212, 399, 400, 401, 500, 10_000} {
		since := start.Add(time.Duration(minutes) * time.Minute)
		var place, through, before, missed int64
		err := w.db.ReadOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) (err error) {
			if place, through, err = findRange(ctx, tx, org, since); err != nil {
				return err
			}
			return tx.QueryRow(ctx,
				`SELECT count(*) FILTER (WHERE sequence > $1 AND created_at < $2), count(*) FILTER (WHERE sequence <= $1 AND created_at >= $3) FROM events`,
				place, since.Add(-skewMax), since).Scan(&before, &missed)
		})
		if err != nil || through != 1000400 || before != 0 || missed != 0 {
			t.Errorf("%d minutes: got the place %v of %v with %v too many and %v missed, %v, want neither", minutes,
				place, through, before, missed, err)
		}
	}
}

// Rule EVT-13.
func TestTheLogHasEveryAttemptAndPagesThroughThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rc := newReceiver(t, w.clock.now, func(rw http.ResponseWriter, r request) {
		switch r.attempt {
		case 1:
			rw.Header().Set("Location", "/else")
			rw.WriteHeader(302)
		case 2:
			rw.WriteHeader(503)
			_, _ = rw.Write([]byte(strings.Repeat("é", 4000)))
		default:
			rw.WriteHeader(201)
		}
	})
	w.endpoints.Posts = w.dispatcher()
	e, secret := w.endpoint(rc.URL + "/hook")
	other, _ := w.endpoint(rc.URL + "/other")
	for i := range 4 {
		w.events(fmt.Sprint("dep_", i), 1)
	}
	w.sequence()
	d := w.dispatcher()
	w.drain(d)
	for w.advance() {
		w.drain(d)
	}
	sample, err := w.endpoints.Test(t.Context(), w.db, org, audit.APIKey(org), e.ID, event.CustomerDeposit)
	if err != nil {
		t.Fatal(err)
	}
	whole := w.log(e.ID, AttemptFilter{}, pagination.Page{Limit: 200}).Items
	if len(whole) != 13 {
		t.Fatalf("got %v attempts, want 3 for each of 4 events and a sample", len(whole))
	}
	for _, a := range whole {
		if strings.Contains(fmt.Sprint(a), strings.TrimPrefix(secret, "whsec_")) ||
			a.Headers[webhook.HeaderSignature] != "" {
			t.Errorf("got a secret or a signature in %+v, want none", a)
		}
		var body webhook.Envelope
		if err := json.Unmarshal(a.Body, &body); err != nil || body.ID != a.EventID ||
			a.Headers[webhook.HeaderID] != a.EventID || a.URL != rc.URL+"/hook" {
			t.Errorf("got %+v, %v, want what was sent", a, err)
		}
		if a.Test {
			continue
		}
		want := map[int]struct {
			outcome, says string
			status        int
		}{
			1: {Failed, "redirects are not followed", 302}, 2: {Failed, "503 service unavailable", 503},
			3: {Delivered, "", 201},
		}[a.Number]
		if a.Outcome() != want.outcome || a.Status != want.status || !strings.Contains(a.Error, want.says) ||
			(a.Error == "") != (want.says == "") || len(a.Response) > responseKeptBytesMax ||
			a.Delivery != "DELIVERED" || a.NextAt != nil {
			t.Errorf("attempt %d: got %v %q, %v bytes, %v, %v, want %+v", a.Number, a.Status, a.Error, len(a.Response),
				a.Delivery, a.NextAt, want)
		}
	}
	for name, c := range map[string]struct {
		which AttemptFilter
		want  int
	}{
		"failed":     {AttemptFilter{Outcome: Failed}, 9 - 1 + boolInt(sample.Outcome() == Failed)},
		"delivered":  {AttemptFilter{Outcome: Delivered}, 4 + boolInt(sample.Outcome() == Delivered)},
		"an event":   {AttemptFilter{EventID: whole[0].EventID}, countOf(whole, whole[0].EventID)},
		"the sample": {AttemptFilter{EventID: sample.EventID}, 1},
		"a type":     {AttemptFilter{Type: event.CustomerWithdraw}, 0},
		"since":      {AttemptFilter{MadeSince: pointer(w.clock.now())}, countSince(whole, w.clock.now())},
		"later":      {AttemptFilter{MadeSince: pointer(w.clock.now().Add(time.Hour))}, 0},
	} {
		if got := len(w.log(e.ID, c.which, pagination.Page{Limit: 200}).Items); got != c.want {
			t.Errorf("%s: got %v attempts, want %v", name, got, c.want)
		}
	}
	for _, desc := range []bool{false, true} {
		var walked []string
		for p := (pagination.Page{Limit: 4, Desc: desc}); ; {
			got := w.log(e.ID, AttemptFilter{}, p)
			for _, a := range got.Items {
				walked = append(walked, fmt.Sprint(a.EventID, " ", a.Number))
			}
			if got.NextCursor == nil {
				break
			}
			p.Cursor = got.NextCursor
		}
		var want []string
		for _, a := range whole {
			want = append(want, fmt.Sprint(a.EventID, " ", a.Number))
		}
		if desc {
			slices.Reverse(want)
		}
		if !slices.Equal(walked, want) {
			t.Errorf("descending %v: got %v, want %v", desc, walked, want)
		}
	}
	if got := len(w.log(other.ID, AttemptFilter{}, pagination.Page{Limit: 200}).Items); got != 12 {
		t.Errorf("the other endpoint: got %v attempts, want its own 12", got)
	}
	err = w.db.ReadOrg(t.Context(), "org_2", func(ctx context.Context, tx pg.Tx) error {
		_, err := w.endpoints.Log(ctx, tx, "org_2", e.ID, AttemptFilter{}, pagination.Page{})
		return err
	})
	if !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("another organization: got %v, want %v", err, fault.CodeNotFound)
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func countOf(all []Attempt, eventID string) (n int) {
	for _, a := range all {
		n += boolInt(a.EventID == eventID)
	}
	return n
}

func countSince(all []Attempt, at time.Time) (n int) {
	for _, a := range all {
		n += boolInt(!a.SentAt.Before(at))
	}
	return n
}

// A sample of every type, also to an endpoint that is paused or names other events. Rule EVT-12.
func TestASampleOfEveryTypeIsSentToOneEndpointAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rc := newReceiver(t, w.clock.now, nil)
	others := newReceiver(t, w.clock.now, nil)
	e, secret := w.endpoint(rc.URL, event.CustomerWithdraw)
	w.endpoint(others.URL)
	w.change(e.ID, Change{Status: pointer(Paused)})
	w.endpoints.Posts = w.dispatcher()
	for _, typ := range event.AllTypes() {
		got, err := w.endpoints.Test(t.Context(), w.db, org, audit.APIKey(org), e.ID, typ)
		if err != nil || got.Outcome() != Delivered || !got.Test || got.Type != typ || got.Status != 200 {
			t.Errorf("%s: got %+v, %v, want it delivered", typ, got, err)
		}
	}
	got := rc.requests()
	if len(got) != len(event.AllTypes()) || len(others.requests()) != 0 {
		t.Fatalf("got %v requests and %v at another endpoint, want one of each type and none", len(got),
			len(others.requests()))
	}
	for _, r := range got {
		verify(t, r, secret, w.key.Public())
		var body map[string]any
		if err := json.Unmarshal([]byte(r.body), &body); err != nil {
			t.Fatal(err)
		}
		if _, numbered := body["sequence"]; numbered || body["environment"] != webhook.Test ||
			body["organizationId"] != org || body["data"] == nil {
			t.Errorf("got %s, want environment TEST, its organization, and no sequence", r.body)
		}
	}
	var events, deliveries int
	err := w.owner.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM deliveries)`).
		Scan(&events, &deliveries)
	if err != nil || events != 0 || deliveries != 0 {
		t.Errorf("got %v events and %v deliveries, %v, want none: a sample tells of nothing", events, deliveries, err)
	}
	if _, err := w.endpoints.Test(
		t.Context(), w.db, org, audit.APIKey(org), e.ID, "NOTHING",
	); !fault.HasCode(err, fault.InvalidRequest) {
		t.Errorf("an unknown type: got %v, want %v", err, fault.InvalidRequest)
	}
	if _, err := w.endpoints.Test(
		t.Context(), w.db, "org_2", audit.APIKey("org_2"), e.ID, event.CustomerDeposit,
	); !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("another organization's: got %v, want %v", err, fault.CodeNotFound)
	}
}

// The rules of every attempt hold for a sample, and a sample changes nothing about the endpoint's
// health. Rules EVT-6, EVT-12.
func TestASampleIsGuardedAndDoesNotCount(t *testing.T) {
	t.Parallel()
	port, hits, resolver := trap(t)
	w := newWorld(t, true)
	e, _ := w.endpoint("https://receiver.example.com:" + port + "/")
	gone := newReceiver(t, w.clock.now, status(http.StatusGone))
	dead, _ := w.endpoint(gone.URL)
	d := w.dispatcher()
	d.resolver, d.answerMax = resolver, 5*time.Second
	w.endpoints.Posts = d
	got, err := w.endpoints.Test(t.Context(), w.db, org, audit.APIKey(org), e.ID, event.CustomerDeposit)
	if err != nil || got.Outcome() != Failed || got.Error != outbound.ErrForbidden.Error() || got.Status != 0 ||
		hits.Load() != 0 {
		t.Errorf("got %+v, %v and %v connections, want it refused by the guard", got, err, hits.Load())
	}
	if got, err := w.endpoints.Test(
		t.Context(), w.db, org, audit.APIKey(org), dead.ID, event.CustomerDeposit,
	); err != nil || got.Status != 410 {
		t.Errorf("got %+v, %v, want the 410 shown", got, err)
	}
	for _, id := range []string{e.ID, dead.ID} {
		if got := w.change(id, Change{}); got.Status != Enabled || got.FailingSince != nil {
			t.Errorf("got %+v, want samples not to count", got)
		}
	}
}
