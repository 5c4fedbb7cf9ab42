package payerpages

import (
	"bufio"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/control/audit"
)

// stream is an open live stream.
type stream struct {
	t      *testing.T
	answer *http.Response
	lines  chan string
	leave  context.CancelFunc
}

// listen opens a live stream of the checkout.
func (h *testEnv) listen(query, lastEventID string) *stream {
	h.t.Helper()
	return openStream(h.t, h.base+prefix+checkoutID+"/live"+query, lastEventID)
}

func openStream(t *testing.T, address, lastEventID string) *stream {
	t.Helper()
	ctx, leave := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(leave)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if lastEventID != "" {
		r.Header.Set("Last-Event-ID", lastEventID)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	s := &stream{t: t, answer: got, lines: make(chan string), leave: leave}
	go func() {
		defer close(s.lines)
		defer got.Body.Close()
		scanner := bufio.NewScanner(got.Body)
		for scanner.Scan() {
			select {
			case s.lines <- scanner.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return s
}

// wantLine reads the stream until a line.
func (s *stream) wantLine(want string) {
	s.t.Helper()
	for line := range s.lines {
		if line == want {
			return
		}
		if strings.HasPrefix(line, "id: ") {
			s.t.Fatalf("got %q, want %q", line, want)
		}
	}
	s.t.Fatalf("the stream ended before %q", want)
}

// A live page hears of each version, from the one that it shows, and of nothing else. Rule CO-45.
func TestALivePageHearsOfEachVersion(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	s := h.listen("?after=7", "")
	kind := s.answer.Header.Get("Content-Type")
	if s.answer.StatusCode != http.StatusOK || kind != "text/event-stream" {
		t.Fatalf("got %d, %s", s.answer.StatusCode, kind)
	}
	if s.answer.Header.Get("Set-Cookie") != "" || s.answer.Header.Get("Content-Security-Policy") != policy {
		t.Errorf("got the headers %v", s.answer.Header)
	}
	h.checkouts.change(func(v *View) { v.Status = Processing })
	s.wantLine("id: 8")
	s.wantLine("event: change")
	s.wantLine("data: ")
	h.checkouts.change(func(v *View) { v.Status = Completed })
	s.wantLine("id: 9")
	// A browser that connects anew says what it heard last, which counts more than what the page had.
	h.listen("?after=7", "8").wantLine("id: 9")
	// A page that is behind, or names nothing, hears at once.
	h.listen("?after=7", "").wantLine("id: 9")
	h.listen("", "").wantLine("id: 9")
}

// askedOnce is a feature whose checkout changes while a stream asks for its version. The answer is the one of before,
// and comes once the feed of the pages knows the new one.
type askedOnce struct {
	*fakeCheckouts
	once sync.Once
	fed  chan struct{} // The feed begins a question.
}

// Versions implements Checkouts.
func (a *askedOnce) Versions(ctx context.Context, ids []string) (map[string]int64, error) {
	if ctx.Value(http.ServerContextKey) == nil { // no request asks
		select {
		case a.fed <- struct{}{}:
		default:
		}
		return a.fakeCheckouts.Versions(ctx, ids)
	}
	found, err := a.fakeCheckouts.Versions(ctx, ids)
	a.once.Do(func() {
		a.change(func(v *View) { v.Status = Processing })
		for range 2 { // The second question begins after the answer to the first is noted.
			<-a.fed
		}
	})
	return found, err
}

// A page hears of a change that happens while its stream asks for the first version. Rule CO-45.
func TestAPageMissesNoChangeWhileItsStreamBegins(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, func(c *Config) {
		c.Checkouts = &askedOnce{fakeCheckouts: c.Checkouts.(*fakeCheckouts), fed: make(chan struct{})}
	})
	s := h.listen("?after=7", "")
	s.wantLine("id: 8")
}

// A client has a number of streams at the same time; the next one is refused with a page, and has room again after
// one has ended. Rule CO-46.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, func(c *Config) { c.Limits.Streams = 2 })
	first, second := h.listen("", ""), h.listen("", "")
	first.wantLine("id: 7")
	second.wantLine("id: 7")
	third := h.listen("", "")
	if third.answer.StatusCode != http.StatusTooManyRequests || third.answer.Header.Get("Retry-After") == "" {
		t.Errorf("got %d, want 429", third.answer.StatusCode)
	}
	first.leave()
	deadline := time.Now().Add(time.Minute)
	for h.listen("", "").answer.StatusCode != http.StatusOK {
		if time.Now().After(deadline) {
			t.Fatal("a stream that ended still takes room")
		}
	}
}

// The end of the server ends the streams, so it waits for none.
func TestTheEndOfTheServerEndsStreams(t *testing.T) {
	t.Parallel()
	stopped := make(chan struct{})
	h := newTestEnv(t, func(c *Config) { c.Stopped = stopped })
	s := h.listen("", "")
	s.wantLine("id: 7")
	close(stopped)
	for line := range s.lines {
		if strings.HasPrefix(line, "id:") {
			t.Errorf("got %q after the end", line)
		}
	}
}

// A change that the audit log names is on an open page without a poll. Rule CO-45.
func TestAnOpenPageHearsOfAChangeInTheAuditLog(t *testing.T) {
	t.Parallel()
	s := newCanaryShop(t)
	conf := s.pages
	conf.LivePoll, conf.Changes = time.Hour, audit.NewFollower(s.db, conf.Log)
	ctx, stop := context.WithCancel(t.Context())
	var loops sync.WaitGroup
	loops.Go(func() { _ = conf.Changes.Run(ctx) })
	loops.Go(func() { _ = (&audit.Sealer{DB: s.db}).Run(ctx) })
	t.Cleanup(func() { stop(); loops.Wait() })
	server := httptest.NewServer(New(conf))
	t.Cleanup(server.Close)
	paid, other := s.sell(1, canaryUSDC), s.sell(2, canaryUSDC)
	s.turn(1)
	page := openStream(t, server.URL+prefix+paid+"/live", "")
	page.wantNews()
	quiet := openStream(t, server.URL+prefix+other+"/live", "")
	quiet.wantNews()
	s.pay(paid, 25*dollar)
	s.turn(3) // final
	if got := s.load(paid).Status; got != outcome.Completed {
		t.Fatalf("the checkout is %s", got)
	}
	page.wantNews()
	select {
	case line := <-quiet.lines:
		if strings.HasPrefix(line, "id: ") {
			t.Errorf("the page of another checkout heard %q", line)
		}
	default:
	}
}

// wantNews reads the stream until it names a version.
func (s *stream) wantNews() {
	s.t.Helper()
	for line := range s.lines {
		if strings.HasPrefix(line, "id: ") {
			return
		}
	}
	s.t.Fatal("the stream ended before a version")
}

// One question serves all pages that are open, and no one asks when none is. Rule CO-45.
func TestOpenPagesShareTheQuestionForVersions(t *testing.T) {
	t.Parallel()
	asked := make(chan []string)
	feed := versionFeed{
		ask: func(ctx context.Context, ids []string) (map[string]int64, error) {
			select {
			case asked <- ids:
			case <-ctx.Done():
			}
			return map[string]int64{checkoutID: 2}, nil
		},
		interval: time.Millisecond, log: slog.New(slog.DiscardHandler), pages: map[string]*openCheckout{},
	}
	first, second, third := feed.watch(checkoutID), feed.watch(checkoutID), feed.watch(otherID)
	_, _, _, changed := second.read()
	_, _, _, gone := third.read()
	for len(<-asked) != 2 { // The first question may be older than the third page.
	}
	<-changed
	<-gone
	if version, isKnown, isGone, _ := first.read(); version != 2 || !isKnown || isGone {
		t.Errorf("got version %d, known %t, gone %t", version, isKnown, isGone)
	}
	if _, isKnown, isGone, _ := third.read(); isKnown || !isGone {
		t.Errorf("an absent checkout is known %t, gone %t", isKnown, isGone)
	}
	third.close()
	for len(<-asked) != 1 { // A question that began before may name both.
	}
	first.close()
	second.close()
	if feed.stop != nil || len(feed.pages) != 0 {
		t.Error("the feed still asks, and no page is open")
	}
}
