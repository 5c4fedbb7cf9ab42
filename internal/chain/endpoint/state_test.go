package endpoint

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
)

// What was seen of a provider has its host and neither its path nor a key: when it answered, why it failed, until
// when it is left alone, its heights, and when it contradicted the others. Rule PAGE-70.
func TestWhatWasSeenOfAProviderHasNoSecret(t *testing.T) {
	t.Parallel()
	var status atomic.Int32
	status.Store(http.StatusOK)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if status.Load() == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "30")
		}
		w.WriteHeader(int(status.Load()))
	}))
	defer server.Close()
	e, err := New(strings.Replace(server.URL, "http://", "http://user:secret@", 1)+"/v3/secret?key=secret", 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if s := e.State(); s != (chain.ProviderState{Name: e.String()}) || strings.Contains(s.Name, "secret") {
		t.Errorf("before the first request: got %+v, want its host alone", s)
	}
	ask := func(ctx context.Context) { _, _ = e.Post(ctx, "", []byte("{}")) }
	ask(t.Context())
	if s := e.State(); s.AnsweredAt.IsZero() || s.Failures != 0 || !s.FailedAt.IsZero() {
		t.Errorf("after an answer: got %+v", s)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	ask(gone)
	if s := e.State(); s.Failures != 0 {
		t.Errorf("after a request that its caller gave up: got %+v, want no failure of the provider", s)
	}
	wrong := func(context.Context) error { return e.WrongNetwork("chain 5", "1") }
	if err := e.Handshake(t.Context(), "eth_chainId", wrong); err == nil {
		t.Fatal("a provider of another network passed")
	}
	if s := e.State(); s.IsIdentified || s.Failures != 1 || !strings.Contains(s.Failure, "is on chain 5, not 1") {
		t.Errorf("on another network: got %+v, want why none of its answers is used", s)
	}
	ask(t.Context())
	if s := e.State(); s.Failures != 0 {
		t.Errorf("after another answer: got %+v, want no failure in a row", s)
	}
	status.Store(http.StatusTooManyRequests)
	ask(t.Context())
	ask(t.Context()) // in the pause nothing is sent
	s := e.State()
	if s.Failures != 1 || s.Failure != "answered 429 Too Many Requests" || s.PausedUntil.Before(time.Now()) {
		t.Errorf("after a request for a pause: got %+v", s)
	}
	e.KeepHeads(chain.Heads{Latest: chain.Block{Height: 9}, Final: chain.Block{Height: 6}})
	e.KeepContradiction()
	if s := e.State(); s.Latest != 9 || s.Final != 6 || s.HeadsAt.IsZero() || s.ContradictedAt.IsZero() {
		t.Errorf("got %+v, want its heights and the contradiction", s)
	}
	server.Close()
	e.pausedUntil.Store(0)
	ask(t.Context())
	if s := e.State(); s.Failures != 2 || s.Failure == "" || strings.Contains(s.Failure, "secret") ||
		!s.PausedUntil.IsZero() {
		t.Errorf("without a server: got %+v, want a failure without the URL", s)
	}
}
