package surfacetest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/http/kernel"
)

// Rates are checked after the replay and before every other refusal. Rule IDEM-3.
func TestReplayIsAnsweredWhateverTheRate(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, kernel.Limits{Writes: kernel.Rate{Count: 1, Period: time.Hour, Burst: 2}})
	// One write of alice's address is used.
	first := h.wantStatus(h.call(h.one, "POST", "/withdraw", payment("idempotencyKey", "k")), 202)
	if first.header.Get("RateLimit-Limit") != "2" || first.header.Get("RateLimit-Remaining") != "0" {
		t.Errorf("headers: got %v, want nothing left of 2", first.header)
	}
	before := h.rowCounts()
	for _, body := range []any{
		payment("idempotencyKey", "l"), payment("idempotencyKey", "l", "amount", "x"), payment(),
	} {
		got := h.call(h.one, "POST", "/withdraw", body)
		h.wantRefusal("one too many", got, 429, "RATE_LIMITED", "")
		if got.body["retryable"] != true || got.header.Get("Retry-After") == "" {
			t.Errorf("got %s %v, want it retryable with Retry-After", got.raw, got.header)
		}
	}
	h.wantRefusal("an address", h.call(h.one, "POST", "/deposit", map[string]any{"mintId": usdc, "customerId": "new"}),
		429, "RATE_LIMITED", "")
	for range 5 {
		got := h.wantStatus(h.call(h.one, "POST", "/withdraw", payment("idempotencyKey", "k")), 202)
		if got.text("withdrawalId") != first.text("withdrawalId") {
			t.Errorf("replay: got %v, want %v", got.text("withdrawalId"), first.text("withdrawalId"))
		}
	}
	h.wantRefusal("a conflict", h.call(h.one, "POST", "/withdraw", payment("idempotencyKey", "k", "amount", "2000")),
		409, "IDEMPOTENCY_CONFLICT", "idempotencyKey")
	h.wantStatus(h.call(h.one, "GET", "/withdrawals", nil), 200)
	h.wantStatus(h.call(h.two, "POST", "/deposit", map[string]any{"mintId": usdc, "customerId": "new"}), 200)
	if got := h.rowCounts(); got == before {
		t.Error("the other organization's customer is missing")
	}
}

// H-34: a client's statement about its own address changes nothing. Rule LIM-2.
func TestWrongKeysAreCountedByPeer(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, kernel.Limits{Failures: kernel.Rate{Count: 1, Period: time.Hour, Burst: 3}})
	wrong := tenant{key: "ck_wrong"}
	for range 3 {
		h.wantRefusal("wrong", h.call(wrong, "GET", "/mints", nil), 401, "UNAUTHORIZED", "")
	}
	h.wantRefusal("too many", h.call(wrong, "GET", "/mints", nil), 429, "RATE_LIMITED", "")
	h.wantRefusal(
		"too many, said to be from elsewhere",
		h.call(wrong, "GET", "/mints", nil, "X-Forwarded-For", "203.0.113.7", "X-Real-IP", "203.0.113.8"), 429,
		"RATE_LIMITED", "",
	)
	h.wantStatus(h.call(h.one, "GET", "/mints", nil), 200)
}

// Each class of requests has its own rate, and reports its state. Rule LIM-1.
func TestEachClassOfRequestsHasItsRate(t *testing.T) {
	t.Parallel()
	few := func(n int) kernel.Rate { return kernel.Rate{Count: 1, Period: time.Hour, Burst: n} }
	h := newTestEnv(t, kernel.Limits{Reads: few(2), Writes: few(3), Quotes: few(2), Exports: few(1)})
	// One write of alice's address is used.
	classes := []struct {
		name, method, path string
		body               any
		headers            []string
		left, limit        int
	}{
		{"reads", "GET", "/customers", nil, nil, 2, 2},
		{"writes", "POST", "/customers/alice/freeze", nil, nil, 2, 3},
		{"quotes", "POST", "/withdraw/estimate", "{}", nil, 2, 2},
		{"exports", "GET", "/customers?order=asc&status=NOTHING", nil, []string{"Accept", "text/csv"}, 1, 1},
	}
	for _, c := range classes {
		for left := c.left; left > 0; left-- {
			got := h.call(h.one, c.method, c.path, c.body, c.headers...)
			if got.status == 429 || got.header.Get("RateLimit-Limit") != fmt.Sprint(c.limit) ||
				got.header.Get("RateLimit-Remaining") != fmt.Sprint(left-1) || got.header.Get("RateLimit-Reset") == "" {
				t.Errorf("%s: got %v %v, want %d left of %d", c.name, got.status, got.header, left-1, c.limit)
			}
		}
	}
	before := h.rowCounts()
	for _, c := range classes {
		got := h.call(h.one, c.method, c.path, c.body, c.headers...)
		h.wantRefusal(c.name, got, 429, "RATE_LIMITED", "")
		if got.header.Get("RateLimit-Remaining") != "0" || got.header.Get("Retry-After") == "" ||
			got.header.Get("Retry-After") == "0" ||
			!strings.Contains(got.text("error"), "says nothing about earlier attempts") {
			t.Errorf("%s: got %v %s, want when to come back and nothing about before", c.name, got.header, got.raw)
		}
	}
	// A wrong request counts as well, also where a replay would be free.
	h.wantRefusal("malformed", h.call(h.one, "POST", "/withdraw", "{"), 429, "RATE_LIMITED", "")
	h.wantRefusal("wrong type", h.call(h.one, "POST", "/transfers", charge("k"), "Content-Type", "text/plain"), 429,
		"RATE_LIMITED", "")
	h.wantRefusal("a preview", h.call(h.one, "POST", "/withdraw/preview", payment()), 429, "RATE_LIMITED", "")
	h.wantRefusal("no such path", h.call(h.one, "GET", "/nothing", nil), 429, "RATE_LIMITED", "")
	if got := h.rowCounts(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
	h.wantStatus(h.call(h.two, "GET", "/customers", nil), 200)
	if got := h.wantStatus(
		h.call(tenant{}, "GET", "/openapi.json", nil), 200,
	); got.header.Get("RateLimit-Limit") != "" {
		t.Errorf("an open call: got %v, want no rate", got.header)
	}
}

// A refused caller cannot keep the service waiting for a body that never arrives: the server of
// this test sets no limit of its own. Rule REQ-9.
func TestABodyThatNobodyWantsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for name, c := range map[string]struct {
		key, length, body string
		status            int
	}{
		"a wrong key":      {"ck_wrong", "100", "", 401},
		"no length":        {"ck_wrong", "", "", 401},
		"a body too large": {h.one.key, "200000", strings.Repeat("x", 70_000), 413},
	} {
		conn, err := net.Dial("tcp", h.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		length := "Content-Length: " + c.length
		if c.length == "" {
			length = "Transfer-Encoding: chunked"
		}
		if _, err := io.WriteString(
			conn,
			"POST /v1/deposit HTTP/1.1\r\nHost: x\r\nx-api-key: "+c.key+"\r\nContent-Type: application/json\r\n"+length+"\r\n\r\n"+c.body,
		); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(conn)
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != c.status || !r.Close {
			t.Errorf("%s: got %d, close %v and %v, want %d and the connection closed", name, r.StatusCode, r.Close, err,
				c.status)
		}
		if _, err := in.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: got %v after the answer, want the connection closed", name, err)
		}
	}
}
