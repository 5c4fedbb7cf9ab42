package delivery

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/webhook"
)

func TestTwoDispatchersDeliverEachEventOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	rc := newReceiver(t, time.Now, nil)
	e, _ := w.endpoint(rc.URL)
	for i := range 100 {
		w.events(fmt.Sprint("dep_", i), 3)
	}
	for range 2 {
		w.run(w.dispatcher().Run)
		w.run((&event.Sequencer{DB: w.db, Environment: webhook.Test, Listener: FanOut{}}).Run)
	}
	until(t, "300 deliveries", func() bool {
		var done int
		if err := w.owner.QueryRow(
			t.Context(), `SELECT count(*) FROM deliveries WHERE endpoint_id = $1 AND status = 'DELIVERED'`, e.ID,
		).Scan(&done); err != nil {
			t.Fatal(err)
		}
		return done == 300
	})
	w.want("DELIVERED", 300)
	seen := map[string]int{}
	for _, r := range rc.requests() {
		seen[r.eventID]++
		if seen[r.eventID] > 1 {
			t.Errorf("%s: got it %v times, want once", r.eventID, seen[r.eventID])
		}
	}
	if len(seen) != 300 {
		t.Errorf("got %v events, want 300", len(seen))
	}
}

func TestALeaseThatRunsOutIsTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rc := newReceiver(t, w.clock.now, nil)
	w.endpoint(rc.URL)
	w.events("dep_1", 1)
	w.sequence()
	crashed, alive := w.dispatcher(), w.dispatcher()
	crashed.ensureOpen()
	batch, err := crashed.claimDue(t.Context())
	if err != nil || len(batch) != 1 {
		t.Fatalf("got %v, %v, want one delivery", batch, err)
	}
	w.clock.move(leaseLength - time.Second)
	if n := w.step(alive); n != 0 {
		t.Errorf("within the lease: got %v posts, want none", n)
	}
	w.clock.move(time.Second)
	if n := w.step(alive); n != 1 {
		t.Errorf("after the lease: got %v posts, want one", n)
	}
	w.want("DELIVERED", 1)
	// The stopped process wakes up: it neither posts nor overwrites.
	o := crashed.postDelivery(t.Context(), batch[0])
	if !o.abandoned || len(rc.requests()) != 1 {
		t.Errorf("after its lease: got %v requests, want the one of the other process", len(rc.requests()))
	}
	o.abandoned, o.status = false, 500
	if err := crashed.recordOutcomes(t.Context(), []outcome{o}); err != nil {
		t.Fatal(err)
	}
	w.want("DELIVERED", 1)
	if got := w.deliveries()[0]; got.Recorded != 1 || got.Attempts != 1 {
		t.Errorf("got %v attempts, %v recorded, want 1", got.Attempts, got.Recorded)
	}
}

func TestACrashBetweenPostAndCommitSendsTheSameMessageAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rc := newReceiver(t, w.clock.now, nil)
	_, secret := w.endpoint(rc.URL)
	w.events("dep_1", 2)
	w.sequence()
	crashed, alive := w.dispatcher(), w.dispatcher()
	crashed.ensureOpen()
	batch, err := crashed.claimDue(t.Context())
	if err != nil || len(batch) != 1 {
		t.Fatalf("got %v, %v, want one delivery", batch, err)
	}
	if o := crashed.postDelivery(t.Context(), batch[0]); !o.isDelivered() {
		t.Fatalf("got %v, want it delivered", o)
	}
	w.clock.move(leaseLength)
	w.drain(alive)
	w.want("DELIVERED", 2)
	got := rc.requests()
	if len(got) != 3 || got[0].body != got[1].body || got[0].eventID != got[1].eventID ||
		got[0].attempt != got[1].attempt {
		t.Fatalf("got %v requests, want the first message twice and then the second", len(got))
	}
	for _, r := range got {
		verify(t, r, secret, w.key.Public())
	}
}

// Rule EVT-5.
func TestAnEndpointThatIsGoneIsDisabled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rc := newReceiver(t, w.clock.now, status(http.StatusGone))
	e, _ := w.endpoint(rc.URL)
	w.events("dep_1", 3)
	w.sequence()
	d := w.dispatcher()
	w.drain(d)
	w.want("CANCELLED", 3)
	var got Endpoint
	err := w.db.InOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) (err error) {
		got, err = w.endpoints.ByID(ctx, tx, org, e.ID)
		return err
	})
	if err != nil || got.Status != DisabledGone {
		t.Errorf("got %v, %v, want %v", got.Status, err, DisabledGone)
	}
	w.events("dep_2", 1)
	w.sequence()
	if n := w.step(d); n != 0 || len(w.deliveries()) != 3 || len(rc.requests()) != 1 {
		t.Errorf("got %v posts, %v deliveries and %v requests, want nothing more", n, len(w.deliveries()),
			len(rc.requests()))
	}
}

func TestA410FromAFormerURLDisablesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rc := newReceiver(t, w.clock.now, status(http.StatusGone))
	e, _ := w.endpoint(rc.URL)
	w.events("dep_1", 1)
	w.sequence()
	d := w.dispatcher()
	d.ensureOpen()
	batch, err := d.claimDue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o := d.postDelivery(t.Context(), batch[0])
	w.exec(`UPDATE webhook_endpoints SET url = $2 WHERE endpoint_id = $1`, e.ID, rc.URL+"/new")
	if err := d.recordOutcomes(t.Context(), []outcome{o}); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := w.owner.QueryRow(
		t.Context(), `SELECT status FROM webhook_endpoints WHERE endpoint_id = $1`, e.ID,
	).Scan(&got); err != nil || got != Enabled {
		t.Errorf("got %v, %v, want %v", got, err, Enabled)
	}
}

// Rule EVT-5.
func TestARedirectIsAFailureAndNotFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	target := newReceiver(t, w.clock.now, nil)
	for _, code := range []int{301, 302, 303, 307, 308} {
		rc := newReceiver(t, w.clock.now, func(rw http.ResponseWriter, _ request) {
			rw.Header().Set("Location", target.URL)
			rw.WriteHeader(code)
		})
		w.endpoint(rc.URL)
	}
	w.events("dep_1", 1)
	w.sequence()
	w.drain(w.dispatcher())
	w.want("PENDING", 5)
	for _, got := range w.deliveries() {
		if got.Attempts != 1 || got.Code == nil || *got.Code/100 != 3 {
			t.Errorf("got %+v, want one attempt with a 3xx", got)
		}
	}
	if got := len(target.requests()); got != 0 {
		t.Errorf("got %v requests where the redirects lead, want none", got)
	}
}

func TestEveryPostIsCountedByWhatCameOfIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	for _, code := range []int{204, 302, 404, 503, 999} {
		w.endpoint(newReceiver(t, w.clock.now, status(code)).URL)
	}
	closed := newReceiver(t, w.clock.now, nil)
	w.endpoint(closed.URL)
	closed.Close()
	hangs := make(chan struct{})
	w.endpoint(newReceiver(t, w.clock.now, func(http.ResponseWriter, request) { <-hangs }).URL)
	t.Cleanup(func() { close(hangs) }) // before the receiver is closed, which waits for it
	unopened, _ := w.endpoint(newReceiver(t, w.clock.now, nil).URL)
	w.exec(`UPDATE webhook_secrets SET sealed = 'x' WHERE endpoint_id = $1`, unopened.ID)
	inside, _ := w.endpoint("http://127.0.0.1:1")
	w.exec(`UPDATE webhook_endpoints SET url = 'http://10.0.0.1' WHERE endpoint_id = $1`, inside.ID)
	w.events("dep_1", 1)
	w.sequence()
	var mu sync.Mutex
	got := map[string]int{}
	d := w.dispatcher()
	d.answerMax = time.Second
	d.Observe = func(result string) {
		mu.Lock()
		defer mu.Unlock()
		got[result]++
	}
	w.step(d)
	want := map[string]int{
		"2xx": 1, "3xx": 1, "4xx": 1, "5xx": 1, "other": 1, "refused": 1, "timeout": 1, "ours": 1, "forbidden": 1,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestASlowReceiverHoldsUpNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	release := make(chan struct{})
	var held atomic.Int32
	slow := newReceiver(t, time.Now, func(http.ResponseWriter, request) { held.Add(1); <-release })
	free := sync.OnceFunc(func() { close(release) })
	t.Cleanup(free)
	fast := newReceiver(t, time.Now, nil)
	slowEndpoint, _ := w.endpoint(slow.URL)
	fastEndpoint, _ := w.endpoint(fast.URL)
	for i := range 200 {
		w.events(fmt.Sprint("dep_", i), 1)
	}
	w.run(w.dispatcher().Run)
	w.sequence()
	until(t, "the fast receiver to have everything", func() bool { return len(fast.requests()) == 200 })
	if got := held.Load(); got < 1 || got > windowSizeStart {
		t.Errorf("got %v posts held by the slow receiver, want 1 to %v", got, windowSizeStart)
	}
	free()
	until(t, "the slow receiver to have everything", func() bool { return len(slow.requests()) == 200 })
	until(t, "everything to be recorded", func() bool {
		var pending int
		if err := w.owner.QueryRow(t.Context(),
			`SELECT count(*) FROM deliveries WHERE endpoint_id IN ($1, $2) AND status = 'PENDING'`,
			slowEndpoint.ID, fastEndpoint.ID).Scan(&pending); err != nil {
			t.Fatal(err)
		}
		return pending == 0
	})
}

func TestAReceiverThatDoesNotAnswerFailsInTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	release := make(chan struct{})
	rc := newReceiver(t, w.clock.now, func(http.ResponseWriter, request) { <-release })
	t.Cleanup(func() { close(release) })
	w.endpoint(rc.URL)
	w.events("dep_1", 1)
	w.sequence()
	d := w.dispatcher()
	d.answerMax = 50 * time.Millisecond
	w.step(d)
	got := w.deliveries()[0]
	if got.Status != "PENDING" || got.Attempts != 1 || got.Code != nil || got.Error == nil ||
		!strings.Contains(*got.Error, "no answer") {
		t.Errorf("got %+v, want one attempt without an answer", got)
	}
}

func TestAnAnswerIsReadWithinBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	release := make(chan struct{})
	endless := newReceiver(t, w.clock.now, func(rw http.ResponseWriter, r request) {
		block := []byte(strings.Repeat("\x00é\xff", 1<<14))
		for {
			if _, err := rw.Write(block); err != nil {
				return
			}
		}
	})
	stalled := newReceiver(t, w.clock.now, func(rw http.ResponseWriter, r request) {
		rw.Header().Set("Content-Length", "1000")
		_, _ = rw.Write([]byte("half"))
		rw.(http.Flusher).Flush()
		<-release
	})
	t.Cleanup(func() { close(release) })
	w.endpoint(endless.URL)
	w.endpoint(stalled.URL)
	w.events("dep_1", 1)
	w.sequence()
	d := w.dispatcher()
	d.answerMax = 3 * time.Second // A busy machine needs a part of it for the status.
	w.drain(d)
	// The status arrived in time: the remaining answer changes nothing.
	w.want("DELIVERED", 2)
	for _, got := range w.deliveries() {
		if got.Response == nil || len(*got.Response) == 0 || len(*got.Response) > 3*responseKeptBytesMax ||
			strings.ContainsRune(*got.Response, 0) {
			t.Errorf("got a response of %v, want its beginning", got.Response)
		}
	}
}

// Rule EVT-16.
func TestRetryAfterIsHonouredWithinBounds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status    int
		header    string
		low, high time.Duration
	}{
		"seconds with 429":   {429, "120", 120 * time.Second, 120 * time.Second},
		"seconds with 503":   {503, "120", 120 * time.Second, 120 * time.Second},
		"a date":             {503, "Sat, 31 Jan 2026 12:10:00 GMT", 10 * time.Minute, 10 * time.Minute},
		"a past date":        {503, "Sat, 31 Jan 2026 11:00:00 GMT", 4 * time.Second, 6 * time.Second},
		"less than schedule": {429, "1", 4 * time.Second, 6 * time.Second},
		"more than a day":    {429, "31536000", 24 * time.Hour, 24 * time.Hour},
		"nonsense":           {429, "-5", 4 * time.Second, 6 * time.Second},
		"with another code":  {500, "120", 4 * time.Second, 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, true)
			rc := newReceiver(t, w.clock.now, func(rw http.ResponseWriter, _ request) {
				rw.Header().Set("Retry-After", c.header)
				rw.WriteHeader(c.status)
			})
			w.endpoint(rc.URL)
			w.events("dep_1", 1)
			w.sequence()
			w.step(w.dispatcher())
			if got := w.deliveries()[0].AttemptAfter.Sub(w.clock.now()); got < c.low || got > c.high {
				t.Errorf("got the next attempt in %v, want it in %v to %v", got, c.low, c.high)
			}
		})
	}
}

func TestADeletedEndpointGetsNothingMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rc := newReceiver(t, w.clock.now, status(500))
	e, _ := w.endpoint(rc.URL)
	w.events("dep_1", 2)
	w.sequence()
	d := w.dispatcher()
	w.step(d)
	err := w.db.InOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
		return w.endpoints.Delete(ctx, tx, org, audit.APIKey(org), e.ID)
	})
	if err != nil {
		t.Fatal(err)
	}
	w.clock.move(time.Hour)
	w.drain(d)
	w.want("CANCELLED", 2)
	if got := len(rc.requests()); got != 1 {
		t.Errorf("got %v requests, want the one before", got)
	}
}

func TestASecretThatDoesNotOpenIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	rc := newReceiver(t, w.clock.now, nil)
	e, _ := w.endpoint(rc.URL)
	w.exec(`UPDATE webhook_secrets SET sealed = '\x00' WHERE endpoint_id = $1`, e.ID)
	w.events("dep_1", 1)
	w.sequence()
	w.step(w.dispatcher())
	if got := w.deliveries()[0]; got.Status != "PENDING" || got.Attempts != 1 || got.Error == nil ||
		len(rc.requests()) != 0 {
		t.Errorf("got %+v, want a failed attempt that sent nothing", got)
	}
}

func TestStoppingWaitsForWhatIsInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	release := make(chan struct{})
	rc := newReceiver(t, time.Now, func(http.ResponseWriter, request) { <-release })
	free := sync.OnceFunc(func() { close(release) })
	t.Cleanup(free)
	w.endpoint(rc.URL)
	w.events("dep_1", 2)
	stop := w.run(w.dispatcher().Run)
	w.sequence()
	until(t, "a post in flight", func() bool { return len(rc.requests()) == 1 })
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	select {
	case <-stopped:
		t.Fatal("got a dispatcher that stopped with a post in flight, want it to wait")
	case <-time.After(50 * time.Millisecond):
	}
	free()
	<-stopped
	all := w.deliveries()
	if all[0].Status != "DELIVERED" || all[1].Status != "PENDING" || all[1].Leased {
		t.Errorf("got %+v, want the first delivered and the second pending without a lease", all)
	}
}

func TestStoppingGivesBackWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	release := make(chan struct{})
	rc := newReceiver(t, time.Now, func(http.ResponseWriter, request) { <-release })
	t.Cleanup(func() { close(release) })
	w.endpoint(rc.URL)
	w.events("dep_1", 1)
	d := w.dispatcher()
	d.stopMax = 50 * time.Millisecond
	stop := w.run(d.Run)
	w.sequence()
	until(t, "a post in flight", func() bool { return len(rc.requests()) == 1 })
	stop()
	got := w.deliveries()[0]
	if got.Status != "PENDING" || got.Leased || got.Attempts != 0 || got.AttemptAfter.After(time.Now()) {
		t.Errorf("got %+v, want it due again at once", got)
	}
}

func TestADeadReceiverKeepsOnePlace(t *testing.T) {
	t.Parallel()
	f := &windows{}
	dead, quickly, slowly := outcome{status: 500}, outcome{status: 200}, outcome{status: 200, took: 2 * quickAnswerMax}
	room := func() int {
		endpoints, rooms, left := f.freeSlots()
		if left != inFlightMax {
			t.Errorf("got %v places left in all, want %v", left, inFlightMax)
		}
		for i, e := range endpoints {
			if e == "we_1" {
				return int(rooms[i])
			}
		}
		return windowSizeStart
	}
	for _, c := range []struct {
		o     outcome
		times int
		want  int
	}{
		{dead, 1, 2},
		{dead, 1, 1},
		{dead, 5, 1},
		{quickly, 9, 10},
		{outcome{abandoned: true}, 3, 10},
		{slowly, 2, 8},
		{slowly, 20, windowSizeStart},
		{quickly, 1000, windowSizeMax},
		{dead, 3, windowSizeMax / 8},
	} {
		for range c.times {
			f.addInFlight("we_1")
			f.finishPost("we_1", c.o)
		}
		if got := room(); got != c.want {
			t.Errorf("after %d of %+v: got %v places, want %v", c.times, c.o, got, c.want)
		}
	}
}

// Rule EVT-16.
func TestTheScheduleOutlivesThreeDays(t *testing.T) {
	t.Parallel()
	for range 20_000 {
		elapsed := time.Duration(0)
		for attempts := 1; ; attempts++ {
			d, again := retryDelay(attempts, elapsed, 0)
			if !again {
				break
			}
			if low, high := delays[attempts]*8/10, delays[attempts]*12/10; d < low || d > high {
				t.Fatalf("after %d attempts: got %v, want %v to %v", attempts, d, low, high)
			}
			elapsed += d
		}
		if elapsed < 71*time.Hour || elapsed > 91*time.Hour {
			t.Fatalf("got the last attempt after %v, want it after more than 71 h and less than 91 h", elapsed)
		}
	}
}
