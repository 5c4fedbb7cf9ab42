package ops

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/cofferpay/coffer/internal/webhooks/event"
)

func get(t *testing.T, h http.Handler, path string) (int, Readiness) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	var got Readiness
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("got %s, want JSON: %v", w.Body, err)
	}
	return w.Code, got
}

func TestReadinessNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	good := func(context.Context) error { return nil }
	bad := func(context.Context) error { return errors.New("the database does not answer") }
	if status, got := get(
		t, NewHandler(map[string]Check{"database": good, "signer": good}, nil), "/readyz",
	); status != 200 || !got.Ready || len(got.Reasons) != 0 {
		t.Errorf("got %v %+v, want it ready", status, got)
	}
	h := NewHandler(map[string]Check{"database": bad, "signer": good}, nil)
	status, got := get(t, h, "/readyz")
	if want := map[string]string{"database": "the database does not answer"}; status != 503 || got.Ready ||
		!reflect.DeepEqual(got.Reasons, want) {
		t.Errorf("got %v %+v, want 503 with %v", status, got, want)
	}
	if status, _ := get(t, h, "/healthz"); status != 200 {
		t.Errorf("alive: got %v, want 200", status)
	}
}

func TestTheVersionIsAnswered(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	NewHandler(nil, nil).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/version", nil))
	var got Version
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 {
		t.Fatalf("got %d %s %v, want JSON", w.Code, w.Body, err)
	}
	if got.Commit == "" || got.Go != runtime.Version() || got.API != "v1" || got.Payloads != event.APIVersion {
		t.Errorf("got %+v, want the commit, the compiler and both versions of the interface", got)
	}
}

func TestCheckThatHangsCountsAsFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		if got := checkAll(t.Context(), map[string]Check{"chain": hangs}); got.Ready || got.Reasons["chain"] == "" {
			t.Errorf("got %+v, want the chain named", got)
		}
	})
}
