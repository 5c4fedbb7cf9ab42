package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cofferpay/coffer/internal/chain/endpoint"
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

const most = 1000

// newServer starts an endpoint with a handler that answers, and with a secret in its URL.
func newServer(t *testing.T, h http.HandlerFunc) *endpoint.Endpoint {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return newEndpoint(t, strings.Replace(srv.URL, "//", "//someone:a-secret@", 1)+"/a-secret")
}

func newEndpoint(t *testing.T, to string) *endpoint.Endpoint {
	t.Helper()
	e, err := endpoint.New(to, 1, most)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestAnAnswerIsBounded(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]error{0: nil, most: nil, most + 1: endpoint.ErrTooLong, 1 << 20: endpoint.ErrTooLong} {
		e := newServer(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("a", n)) })
		if a, err := e.Post(t.Context(), "", nil); !errors.Is(err, want) || err == nil && len(a.Body) != n {
			t.Errorf("%d bytes: got %d, %v, want %v", n, len(a.Body), err, want)
		}
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	e := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	if a, err := e.Post(t.Context(), "/path", []byte("{}")); err != nil || a.Status != http.StatusTemporaryRedirect ||
		asked.Load() != 1 {
		t.Errorf("got %d, %v after %d requests, want the redirect itself", a.Status, err, asked.Load())
	}
}

func TestWhoAsksForAPauseGetsIt(t *testing.T) {
	t.Parallel()
	for after, want := range map[string]int32{"30": 1, "": 2, "soon": 2, "-1": 2} {
		var asked atomic.Int32
		e := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			if after != "" {
				w.Header().Set("Retry-After", after)
			}
			w.WriteHeader(http.StatusTooManyRequests)
		})
		a, err := e.Post(t.Context(), "", nil)
		if err != nil || a.Status != http.StatusTooManyRequests {
			t.Errorf("after %q: got %d, %v, want the status", after, a.Status, err)
		}
		if _, err := e.Post(t.Context(), "", nil); (err != nil) != (want == 1) || asked.Load() != want {
			t.Errorf("after %q: got %v and %d requests, want %d", after, err, asked.Load(), want)
		}
	}
}

func TestWhatWentWrongIsShortAndWithoutTheURL(t *testing.T) {
	t.Parallel()
	e := newServer(t, func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) })
	_, err := e.Post(t.Context(), "/path", nil)
	for name, err := range map[string]error{
		"aborted": err,
		"said": e.WrapError("getThings", &url.Error{
			Op: "Post", URL: "https://a-secret",
			Err: errors.New(strings.Repeat("é", 10_000)),
		}),
		"refused": e.WrongNetwork("chain 5", "1"),
		"no answer": endpoint.Answer{
			Status: http.StatusBadGateway,
			Body:   []byte(strings.Repeat("<html>", 1000)),
		}.UnexpectedError(),
	} {
		if err == nil || strings.Contains(err.Error(), "a-secret") || len(err.Error()) > quorum.AnswerBytesMax+100 {
			t.Errorf("%s: got %v, want it short and without a secret", name, err)
		}
	}
	if e.WrapError("getThings", nil) != nil {
		t.Error("got an error out of none")
	}
}

func TestAProviderIsGreetedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint(t, "http://localhost")
		silent := errors.New("silent")
		met, answer := 0, silent
		greet := func() error {
			return e.Handshake(t.Context(), "hello", func(context.Context) error { met++; return answer })
		}
		for range 3 {
			if err := greet(); !errors.Is(err, silent) || met != 1 {
				t.Errorf("got %v after %d greetings, want it left alone", err, met)
			}
		}
		<-time.After(time.Second)
		answer = nil
		for range 3 {
			if err := greet(); err != nil || met != 2 {
				t.Errorf("got %v after %d greetings, want it met", err, met)
			}
		}
	})
}
