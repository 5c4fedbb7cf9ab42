package payerpages

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
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
	ctx, leave := context.WithTimeout(h.t.Context(), time.Minute)
	h.t.Cleanup(leave)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.base+prefix+checkoutID+"/live"+query, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	if lastEventID != "" {
		r.Header.Set("Last-Event-ID", lastEventID)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	s := &stream{t: h.t, answer: got, lines: make(chan string), leave: leave}
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
