// Package ops is the private listener's answer to whoever runs the service: is
// the process alive, may it be given work, and what would one be woken for.
//
// What never happens here: a secret, an amount, anything that a neighbour on
// the network should not read. Nothing is kept, so a crash leaves nothing.
package ops

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// checkMax is how long one check may take before it counts as failed.
const checkMax = 5 * time.Second

// Check asks whether something that the service needs is there. Its error is
// shown on the private listener, so it says what to do and holds no secret.
type Check func(ctx context.Context) error

// Readiness is the answer of /readyz.
type Readiness struct {
	Ready   bool              `json:"ready"`
	Reasons map[string]string `json:"reasons"` // what is not ready, and why; empty when ready
}

// New makes the handler: /healthz answers while the process runs, /readyz asks
// every check at once and answers 503 with the reasons of those that fail, /version tells
// which commit runs, /metrics tells the metrics in Prometheus' text; nil has none.
func New(checks map[string]Check, metrics *Metrics) http.Handler {
	mux := http.NewServeMux()
	if metrics != nil {
		mux.Handle("GET /metrics", metrics.handler())
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"status": "alive"})
	})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, ThisVersion())
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		got := ready(r.Context(), checks)
		status := http.StatusOK
		if !got.Ready {
			status = http.StatusServiceUnavailable
		}
		answer(w, status, got)
	})
	return mux
}

func ready(ctx context.Context, checks map[string]Check) Readiness {
	ctx, cancel := context.WithTimeout(ctx, checkMax)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	got := Readiness{Reasons: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		wg.Go(func() {
			if err := checks[name](ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				got.Reasons[name] = err.Error()
			}
		})
	}
	wg.Wait()
	got.Ready = len(got.Reasons) == 0
	return got
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // The caller is gone; there is nobody to tell.
}
