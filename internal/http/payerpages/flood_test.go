package payerpages

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/platform/id"
)

// newFloodEnv is the pages with the limits that apply unless an operator sets others, at a moment that does not pass.
func newFloodEnv(t *testing.T) *testEnv {
	t.Helper()
	moment := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	return newTestEnv(t, func(c *Config) {
		c.Limits = UsualLimits
		c.Clock = func() time.Time { return moment }
	})
}

// flood sends requests at the same time, each from an address, and counts the answers by their status.
func (h *testEnv) flood(requests int, make func(i int) *http.Request) map[int]int {
	h.t.Helper()
	statuses := map[int]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range requests {
		wg.Go(func() {
			w := httptest.NewRecorder()
			h.handler.ServeHTTP(w, make(i))
			mu.Lock()
			defer mu.Unlock()
			statuses[w.Code]++
		})
	}
	wg.Wait()
	return statuses
}

func newForm(path, client string, values string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(values))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.RemoteAddr = client
	return r
}

// A flood of openings, of searches or of wallets reaches the feature no more often than the limits say: by one client,
// by a /64 of IPv6, and by any number of clients at one checkout. Other checkouts and other clients are served. Rules
// CO-46 and CO-122.
func TestAFloodReachesTheFeatureAsOftenAsTheLimitsSay(t *testing.T) {
	t.Parallel()
	const requests = 300
	one := func(int) string { return "192.0.2.1:9" }
	network := func(i int) string { return fmt.Sprintf("[2001:db8::%x]:9", i+1) }
	many := func(i int) string { return fmt.Sprintf("198.51.%d.%d:9", i/200, i%200) }
	reached := map[string]func(*fakeCheckouts) int{
		"/options": func(f *fakeCheckouts) int { return len(f.opened) },
		"/find":    func(f *fakeCheckouts) int { return len(f.searches) },
		solanaPath: func(f *fakeCheckouts) int { return len(f.requests) },
	}
	for _, c := range []struct {
		name, path, body string
		client           func(int) string
		want             int
	}{
		{"openings of one client", "/options", "mint=1", one, 20},
		{"openings of a network", "/options", "mint=1", network, 20},
		{"openings of many clients", "/options", "mint=1", many, 30},
		{"searches of one client", "/find", "hash=" + evmHash, one, 6},
		{"searches of a network", "/find", "hash=" + evmHash, network, 6},
		{"searches of many clients", "/find", "hash=" + evmHash, many, 30},
		{"wallets of one client", solanaPath, `{"account":"` + solanaPayer + `"}`, one, 20},
		{"wallets of many clients", solanaPath, `{"account":"` + solanaPayer + `"}`, many, 30},
	} {
		h := newFloodEnv(t)
		statuses := h.flood(requests, func(i int) *http.Request {
			return newForm(prefix+checkoutID+c.path, c.client(i), c.body)
		})
		if got := reached[c.path](h.checkouts); got != c.want ||
			statuses[http.StatusTooManyRequests] != requests-c.want {
			t.Errorf("%s: got %d through and the answers %v, want %d through", c.name, got, statuses, c.want)
		}
		// A client that did nothing still reads the page, and says so for another checkout.
		r := httptest.NewRequest(http.MethodGet, prefix+checkoutID, nil)
		r.RemoteAddr = "203.0.113.9:9"
		if got := h.do(r); got.status != http.StatusOK {
			t.Errorf("%s: got %d for the page of another client", c.name, got.status)
		}
		if got := h.do(newForm(prefix+otherID+c.path, "203.0.113.9:9", c.body)); got.status != http.StatusNotFound {
			t.Errorf("%s: got %d for another checkout, want its own answer", c.name, got.status)
		}
	}
}

// A refusal is read by a person: it says in the language of the payer what happened to the money, that a payment which
// was sent is noticed, and when to come back. That holds for the limit of a client, of a checkout and of an
// organization, and for a wallet. Rules CO-46 and CO-123.
func TestARefusalSaysWhatHappenedToTheMoney(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, func(c *Config) {
		c.Limits.Actions = kernel.Rate{Count: 1, Period: time.Hour, Burst: 1}
		c.Limits.Finds = kernel.Rate{Count: 1, Period: time.Minute, Burst: 1}
	})
	wantRefused := func(name string, got answer, l *translation) {
		t.Helper()
		seconds := got.header.Get("Retry-After")
		text := l.text("error.tooMany.text", "seconds", seconds)
		said := strings.ReplaceAll(readText(got.body), `\u2068`, "\u2068")
		if n, err := strconv.Atoi(seconds); err != nil || n < 1 || got.status != http.StatusTooManyRequests ||
			!strings.Contains(said, strings.ReplaceAll(text, "\u00a0", " ")) {
			t.Errorf("%s, %s: got %d, Retry-After %q: %s", name, l.tag, got.status, seconds, said)
		}
	}
	h.checkouts.openErr = fault.New(fault.Limited, fault.RateLimited, fault.NothingWritten, "Too many.")
	limited := newTestEnv(t)
	limited.checkouts.openErr = h.checkouts.openErr
	for _, l := range languages {
		query := "?lang=" + l.tag
		h.post(prefix+checkoutID+"/find"+query, "hash", evmHash)
		wantRefused("client", h.post(prefix+checkoutID+"/find"+query, "hash", evmHash), l)
		wantRefused("checkout", h.post(prefix+checkoutID+"/options"+query, "mint", "1"), l)
		wantRefused("wallet", h.request(http.MethodPost, query, "{}"), l)
		wantRefused("organization", limited.post(prefix+checkoutID+"/options"+query, "mint", "1"), l)
	}
}

// A flood of streams of one client leaves room for others, and all clients together have a bound. A stream that ended
// takes no room. Rule CO-46.
func TestAFloodOfStreamsIsBounded(t *testing.T) {
	t.Parallel()
	const requests = 100
	h := newFloodEnv(t)
	ctx, leave := context.WithCancel(t.Context())
	var open, refused atomic.Int32
	var wg sync.WaitGroup
	for i := range requests {
		wg.Go(func() {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, prefix+checkoutID+"/live", nil)
			r.RemoteAddr = fmt.Sprintf("[2001:db8::%x]:9", i+1)
			w := &countingWriter{header: http.Header{}, onStatus: func(status int) {
				if status == http.StatusTooManyRequests {
					refused.Add(1)
				} else {
					open.Add(1)
				}
			}}
			h.handler.ServeHTTP(w, r)
		})
	}
	h.waitFor("every request is answered", func() bool { return open.Load()+refused.Load() == requests })
	if got := open.Load(); got != int32(UsualLimits.Streams) {
		t.Errorf("got %d streams of one client, want %d", got, UsualLimits.Streams)
	}
	leave()
	wg.Wait()

	all := streams{byClient: map[string]int{}, ofClientMax: UsualLimits.Streams}
	var leaves []func()
	for i := range streamsMax {
		leave, ok := all.enter("client " + strconv.Itoa(i))
		if !ok {
			t.Fatalf("got stream %d refused, want %d", i, streamsMax)
		}
		leaves = append(leaves, leave)
	}
	if _, ok := all.enter("one more"); ok {
		t.Errorf("got more than %d streams", streamsMax)
	}
	for _, leave := range leaves {
		leave()
	}
	if _, ok := all.enter("one more"); !ok || all.total != 1 || len(all.byClient) != 1 {
		t.Errorf("got %d streams of %d clients after all but one ended", all.total, len(all.byClient))
	}
}

// countingWriter reports the status of an answer, and takes what is written.
type countingWriter struct {
	header   http.Header
	once     sync.Once
	onStatus func(status int)
}

// Header implements http.ResponseWriter.
func (w *countingWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *countingWriter) WriteHeader(status int) { w.once.Do(func() { w.onStatus(status) }) }

// Write implements http.ResponseWriter.
func (w *countingWriter) Write(content []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return len(content), nil
}

// Flush implements http.Flusher.
func (*countingWriter) Flush() {}

// slowReader is a connection whose other end reads nothing: a write ends at its deadline.
type slowReader struct {
	countingWriter
	deadline time.Time
	waits    []time.Duration
}

// SetWriteDeadline is what http.ResponseController calls.
func (s *slowReader) SetWriteDeadline(deadline time.Time) error {
	s.deadline = deadline
	return nil
}

// Write implements http.ResponseWriter.
func (s *slowReader) Write([]byte) (int, error) {
	wait := 24 * time.Hour // without a deadline it would never end
	if !s.deadline.IsZero() {
		wait = time.Until(s.deadline)
	}
	s.waits = append(s.waits, wait)
	s.deadline = time.Time{}
	return 0, os.ErrDeadlineExceeded
}

// A client that reads its stream slowly, or not at all, keeps it for seconds: each write has a deadline of its own, and
// the first one that is missed ends the stream and makes room. Rule CO-46.
func TestASlowReaderKeepsNoStream(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, func(c *Config) { c.Limits.Streams = 1 })
	for range 5 {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, prefix+checkoutID+"/live", nil)
		slow := &slowReader{countingWriter: countingWriter{header: http.Header{}, onStatus: func(int) {}}}
		h.handler.ServeHTTP(slow, r) // It returns, so the next one has room.
		if len(slow.waits) != 1 || slow.waits[0] > streamWriteMax {
			t.Errorf("got the waits %v, want one of at most %v", slow.waits, streamWriteMax)
		}
		if slow.header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("got %v, want a stream", slow.header)
		}
	}
}

// A flood of ids that do not exist fills no memory, is refused like every other flood, and learns nothing: a malformed
// id, an absent one and one behind the limit are answered without a difference. Rules CO-44 and CO-46.
func TestAFloodOfIdsLearnsNothing(t *testing.T) {
	t.Parallel()
	h := newFloodEnv(t)
	// The answers differ in the path of the links to languages alone.
	plain := func(got answer, id string) string { return strings.ReplaceAll(got.body, id, "ID") }
	absent := plain(h.get(prefix+otherID), otherID)
	for i := 1; i < UsualLimits.Views.Count; i++ {
		guess := id.New(idPrefix, time.Now())
		if got := h.get(prefix + guess); got.status != http.StatusNotFound || plain(got, guess) != absent {
			t.Fatalf("guess %d: got %d, want what every absent checkout has", i, got.status)
		}
	}
	for _, path := range []string{checkoutID, id.New(idPrefix, time.Now()), "co_x"} {
		if got := h.get(prefix + path); got.status != http.StatusTooManyRequests {
			t.Errorf("%s: got %d behind the limit, want 429 for what exists and what does not", path, got.status)
		}
	}
}
