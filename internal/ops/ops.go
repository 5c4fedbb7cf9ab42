// Package ops serves health and metrics to the operator on the private listener: whether the
// process is alive, whether it is ready for work, and the values on which alerts are based.
//
// It never shows a secret, an amount, or anything that other hosts on the network should not read.
// It stores nothing, so a crash leaves nothing.
package ops

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// checkMax is how long one check may take before it counts as failed. Probes wait a few seconds
// themselves.
const checkMax = 3 * time.Second

// Check checks whether a dependency of the service is available. Its error is shown on the private
// listener, so it says what to do and holds no secret.
type Check func(ctx context.Context) error

// Readiness is the answer of /readyz.
type Readiness struct {
	Ready   bool              `json:"ready"`
	Reasons map[string]string `json:"reasons"` // what is not ready, and why; empty when ready
}

// NewHandler builds the handler of the private listener:
//   - /healthz answers while the process runs
//   - /readyz runs every check concurrently and answers 503 with the reasons of those that fail
//   - /version names the commit of the program
//   - /metrics has the metrics in Prometheus' text format; without metrics it does not exist
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

// checkAll runs every check and waits for none longer than checkMax, even if a check ignores its
// context. Rule REQ-14.
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
	_ = json.NewEncoder(w).Encode(body) // The caller is gone.
}
