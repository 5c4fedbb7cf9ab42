// Package ops is the private listener's answer to whoever runs the service: is
// the process alive, may it be given work, and what would one be woken for.
//
// What never happens here: a secret, an amount, anything that a neighbour on
// the network should not read. Nothing is kept, so a crash leaves nothing.
package ops

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// checkMax is how long one check may take before it counts as failed. Who probes waits a
// few seconds itself.
const checkMax = 3 * time.Second

// Check asks whether something that the service needs is there. Its error is
// shown on the private listener, so it says what to do and holds no secret.
type Check func(ctx context.Context) error

// Readiness is the answer of /readyz.
type Readiness struct {
	Ready   bool              `json:"ready"`
	Reasons map[string]string `json:"reasons"` // what is not ready, and why; empty when ready
}

// NewHandler makes the handler: /healthz answers while the process runs, /readyz asks
// every check at once and answers 503 with the reasons of those that fail, /version tells
// which commit runs, /metrics tells the metrics in Prometheus' text; nil has none.
func NewHandler(checks map[string]Check, metrics *Metrics) http.Handler {
	mux := http.NewServeMux()
	if metrics != nil {
		mux.Handle("GET /metrics", metrics.newHandler())
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "alive"})
	})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, ThisVersion())
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		got := checkAll(r.Context(), checks)
		status := http.StatusOK
		if !got.Ready {
			status = http.StatusServiceUnavailable
		}
		writeJSON(w, status, got)
	})
	return mux
}

// checkAll asks every check and waits for none longer than checkMax, also for one that does
// not heed its context.
func checkAll(ctx context.Context, checks map[string]Check) Readiness {
	ctx, cancel := context.WithTimeout(ctx, checkMax)
	defer cancel()
	type found struct {
		name string
		err  error
	}
	answers := make(chan found, len(checks))
	got := Readiness{Reasons: map[string]string{}}
	for name, check := range checks {
		got.Reasons[name] = "no answer in " + checkMax.String()
		go func() { answers <- found{name, check(ctx)} }()
	}
	for range checks {
		select {
		case f := <-answers:
			if delete(got.Reasons, f.name); f.err != nil {
				got.Reasons[f.name] = f.err.Error()
			}
		case <-ctx.Done():
			return got
		}
	}
	got.Ready = len(got.Reasons) == 0
	return got
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // The caller is gone; there is nobody to tell.
}
