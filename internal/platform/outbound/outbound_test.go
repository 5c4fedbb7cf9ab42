package outbound_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/platform/outbound"
)

const bytesMax = 1000

// A stranger's server may answer what it likes: what is read is bounded, and no redirect leads elsewhere. Rule PROD-7.
func TestAnAnswerIsReadWithinItsBounds(t *testing.T) {
	t.Parallel()
	var inside atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/whole":
			_, _ = w.Write([]byte(strings.Repeat("x", bytesMax)))
		case "/large":
			_, _ = w.Write([]byte(strings.Repeat("x", bytesMax+1)))
		case "/absent":
			w.WriteHeader(http.StatusNotFound)
		case "/elsewhere":
			http.Redirect(w, r, "/inside", http.StatusFound)
		case "/inside":
			inside.Add(1)
		case "/slow":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	transport := outbound.New(outbound.Config{Development: true})
	t.Cleanup(transport.CloseIdle)
	get := func(path string) ([]byte, error) {
		return transport.Get(t.Context(), server.URL+path, "image/png", bytesMax)
	}
	if body, err := get("/whole"); err != nil || len(body) != bytesMax {
		t.Errorf("got %d bytes %v, want all %d", len(body), err, bytesMax)
	}
	if _, err := get("/large"); !errors.Is(err, outbound.ErrTooLarge) {
		t.Errorf("one byte more: got %v, want %v", err, outbound.ErrTooLarge)
	}
	for path, status := range map[string]int{"/absent": 404, "/elsewhere": 302} {
		var refused *outbound.StatusError
		if _, err := get(path); !errors.As(err, &refused) || refused.Status != status {
			t.Errorf("%s: got %v, want the status %d", path, err, status)
		}
	}
	if inside.Load() != 0 {
		t.Error("a redirect was followed")
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := transport.Get(short, server.URL+"/slow", "", bytesMax); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an answer that does not end: got %v, want the deadline", err)
	}
}

// Outside development mode nothing on this machine is reached, by any scheme. Rules EVT-6 and PROD-7.
func TestNothingOfThisMachineIsFetched(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	count := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	plain, secure := httptest.NewServer(count), httptest.NewTLSServer(count)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	port := secure.URL[strings.LastIndexByte(secure.URL, ':'):]
	for _, development := range []bool{false, true} {
		transport := outbound.New(outbound.Config{Development: development})
		t.Cleanup(transport.CloseIdle)
		urls := []string{
			secure.URL, "https://localhost" + port, "https://[::ffff:127.0.0.1]" + port, "file:///etc/passwd",
			"ftp://127.0.0.1", "https://169.254.169.254/latest/meta-data", "http://169.254.169.254/",
		}
		if !development {
			urls = append(urls, plain.URL)
		}
		for _, url := range urls {
			if _, err := transport.Get(t.Context(), url, "", bytesMax); !errors.Is(err, outbound.ErrForbidden) {
				t.Errorf("%s, development %v: got %v, want %v", url, development, err, outbound.ErrForbidden)
			}
		}
	}
	if hits.Load() != 0 {
		t.Errorf("got %d requests, want none", hits.Load())
	}
}
