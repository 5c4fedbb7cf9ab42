package app

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/anvil/anviltest"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// It runs alone, as the tracer is the process's.
func TestARequestIsTracedAndCountedWithoutASecret(t *testing.T) {
	var mu sync.Mutex
	var got []*spans.Span
	var raw strings.Builder
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var in collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &in)
		}
		if err != nil {
			t.Errorf("got %v, want a batch of spans", err)
		}
		mu.Lock()
		defer mu.Unlock()
		raw.Write(body)
		for _, rs := range in.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				got = append(got, ss.Spans...)
			}
		}
	}))
	defer receiver.Close()
	node := anviltest.Start(t, anvil.Config{BlockTime: 100 * time.Millisecond, SlotsInEpoch: 1})
	conf := onThisMachine(t, node)
	conf.Trace.Endpoint = receiver.URL + "/v1/traces"
	a, err := New(t.Context(), conf, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, key, err := org.Create(t.Context(), a.DB(), "Acme")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	if err := a.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	call := func(method, url, body string) string {
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("x-api-key", key.Reveal())
		req.Header.Set("content-type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: got %d %s %v", method, url, resp.StatusCode, text, err)
		}
		return string(text)
	}
	var given struct{ Address string }
	if err := json.Unmarshal([]byte(call(
		http.MethodPost, "http://"+a.apiListener.Addr().String()+"/v1/deposit",
		`{"mintId": 1, "customerId": "somebody@example.com"}`,
	)), &given); err != nil {
		t.Fatal(err)
	}
	if _, err := node.PayCoin(t.Context(), common.HexToAddress(given.Address), big.NewInt(1e18)); err != nil {
		t.Fatal(err)
	}
	pgtest.Eventually(t, func() bool {
		return strings.Contains(call(http.MethodGet, "http://"+a.apiListener.Addr().String()+"/v1/deposits", ""),
			`"CREDITED"`)
	}, "the deposit is credited")
	metrics := call(http.MethodGet, "http://"+a.opsListener.Addr().String()+"/metrics", "")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		`coffer_http_request_seconds_count{method="POST",route="/v1/deposit",status="200"} 1`,
		`coffer_role{role="dispatch"} 1`, "coffer_db_look_ok 1",
		`coffer_signer_calls_total{call="issue",outcome="ok"} 1`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("got no %s in the metrics", want)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	var request *spans.Span
	for _, s := range got {
		if s.Name == "POST /v1/deposit" {
			request = s
		}
	}
	if request == nil {
		t.Fatalf("got %v, want the request", got)
	}
	inside := 0
	for _, s := range got {
		if s.Name == "transaction" && string(s.TraceId) == string(request.TraceId) {
			inside++
		}
	}
	if inside == 0 {
		t.Error("got no transaction in the trace of the request")
	}
	if !slices.ContainsFunc(got, func(s *spans.Span) bool { return s.Name == "deposit credit" }) {
		t.Error("got no credit in the traces")
	}
	for inner, outer := range map[string]string{"scan prove": "scan walk", "deposit observe": "transaction"} {
		if !slices.ContainsFunc(got, func(s *spans.Span) bool {
			return s.Name == inner && slices.ContainsFunc(got, func(o *spans.Span) bool {
				return o.Name == outer && string(o.SpanId) == string(s.ParentSpanId)
			})
		}) {
			t.Errorf("got no %s within a %s", inner, outer)
		}
	}
	for _, secret := range []string{
		key.Reveal(), "somebody@example.com", strings.ToLower(given.Address), given.Address,
	} {
		if strings.Contains(raw.String(), secret) || strings.Contains(metrics, secret) {
			t.Errorf("got %q in what is told to the outside", secret)
		}
	}
}
