package otlp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/cofferpay/coffer/internal/platform/trace"
)

// It does not run in parallel, since the tracer belongs to the process.
func TestSpansReachTheCollectorWithIDsAndWithoutTheTextOfErrors(t *testing.T) {
	var mu sync.Mutex
	got := map[string]*spans.Span{}
	raw := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var in collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &in)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("got %s %v, want a batch of spans", r.URL.Path, err)
		}
		mu.Lock()
		defer mu.Unlock()
		raw += string(body)
		for _, rs := range in.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					got[s.Name] = s
				}
			}
		}
		w.WriteHeader(http.StatusOK)
	}))
	defer server.Close()

	if ctx, s := trace.Start(t.Context(), "before"); ctx != t.Context() {
		t.Error("off: got another context")
	} else {
		s.End(nil)
	}
	if n := testing.AllocsPerRun(100, func() {
		ctx, s := trace.Start(context.Background(), "off")
		trace.LinkTo(ctx, "wd_1")
		s.SetAttribute("role", "app")
		s.End(nil)
	}); n != 0 {
		t.Errorf("off: got %v allocations, want none", n)
	}

	closing, err := Open(t.Context(), server.URL+"/v1/traces", 1, "api, workers", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, request := trace.Start(t.Context(), "POST /v1/withdraw")
	_, tx := trace.Start(ctx, "transaction")
	tx.SetAttribute("role", "app")
	tx.End(nil)
	trace.LinkTo(ctx, "wd_1")
	request.End(errors.New("https://provider.example.com/SECRET did not answer"))
	_, step := trace.StartAbout(t.Context(), "dispatch sign", "wd_1")
	step.End(nil)
	if err := closing(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	asked, inside, signed := got["POST /v1/withdraw"], got["transaction"], got["dispatch sign"]
	if asked == nil || inside == nil || signed == nil || len(got) != 3 {
		t.Fatalf("got %v, want three spans", got)
	}
	if string(inside.ParentSpanId) != string(asked.SpanId) {
		t.Error("the transaction: got another parent than its request")
	}
	of := trace.ContextOf("wd_1").TraceID()
	if string(signed.TraceId) != string(of[:]) || len(asked.Links) != 1 ||
		string(asked.Links[0].TraceId) != string(of[:]) {
		t.Error("the payment: got a trace of another id, or a request that is not linked to it")
	}
	if !strings.Contains(raw, "wd_1") || strings.Contains(raw, "SECRET") || asked.Status.GetMessage() != "error" {
		t.Errorf("got status %q, want ids and no text of an error", asked.Status.GetMessage())
	}
	if ctx, s := trace.Start(t.Context(), "after"); ctx != t.Context() {
		t.Error("closed: got another context")
	} else {
		s.End(nil)
	}
}
