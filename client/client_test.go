package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// told is what a scripted service does with one request.
type told struct {
	status int
	code   string
	after  string // Retry-After
	cut    bool   // no answer: the connection ends
	refuse bool   // no connection at all
}

// script plays a list of answers and records the requests.
type script struct {
	mu    sync.Mutex
	plan  []told
	seen  []string // method, path and body
	waits []time.Duration
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body := ""
	if r.Body != nil {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = string(raw)
	}
	s.seen = append(s.seen, r.Method+" "+r.URL.RequestURI()+" "+body)
	if len(s.plan) == 0 {
		return nil, errors.New("asked once too often")
	}
	next := s.plan[0]
	s.plan = s.plan[1:]
	switch {
	case next.refuse:
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	case next.cut:
		return nil, io.ErrUnexpectedEOF
	}
	w := httptest.NewRecorder()
	w.Header().Set("X-Request-Id", "req_1")
	if next.after != "" {
		w.Header().Set("Retry-After", next.after)
	}
	w.WriteHeader(next.status)
	if next.status >= 400 {
		fmt.Fprintf(
			w,
			`{"error":"Refused. Nothing was sent.","code":%q,"requestId":"req_1","retryable":false,"existingId":"wd_0"}`,
			next.code,
		)
	} else if next.status != http.StatusNoContent {
		fmt.Fprint(w, `{"withdrawalId":"wd_1","status":"PROCESSING","createdAt":"2026-01-31T12:00:00.000Z"}`)
	}
	return w.Result(), nil
}

func scripted(t *testing.T, plan ...told) (*Client, *script) {
	t.Helper()
	s := &script{plan: plan}
	c, err := New("http://127.0.0.1:1/v1", "ck_secret", WithHTTPClient(&http.Client{Transport: s}))
	if err != nil {
		t.Fatal(err)
	}
	c.pause = func(ctx context.Context, d time.Duration) error {
		s.waits = append(s.waits, d)
		return ctx.Err()
	}
	return c, s
}

// Which calls are repeated, and what each ending says about the money. Rule DOC-4.
func TestPaymentsAreRepeatedWithTheirKeyAlone(t *testing.T) {
	t.Parallel()
	const insufficient, limited, internal, unauthorized = "INSUFFICIENT_BALANCE", "RATE_LIMITED", "INTERNAL", "UNAUTHORIZED"
	for name, c := range map[string]struct {
		key     string
		plan    []told
		sent    int
		code    Code // "": a success
		silent  bool // the call ends without an answer
		unknown bool
	}{
		"taken at once":         {"k", []told{{status: 202}}, 1, "", false, false},
		"no answer, then taken": {"k", []told{{cut: true}, {status: 202}}, 2, "", false, false},
		"every 5xx, then taken": {
			"k",
			[]told{{status: 500, code: internal}, {status: 502}, {status: 503}, {status: 202}},
			4, "", false,
			false,
		},
		"limited, then taken": {
			"k", []told{{status: 429, code: limited, after: "7"}, {status: 202}}, 2, "", false, false,
		},
		"refused": {
			"k", []told{{status: 422, code: insufficient}}, 1, insufficient, false, false,
		},
		"never answered": {
			"k", []told{{cut: true}, {cut: true}, {cut: true}, {cut: true}}, 4, "", true, true,
		},
		"never reached": {
			"k", []told{{refuse: true}, {refuse: true}, {refuse: true}, {refuse: true}}, 4, "", true, false,
		},
		"always 5xx": {
			"k",
			[]told{
				{status: 500, code: internal},
				{status: 500, code: internal},
				{status: 500, code: internal},
				{status: 500, code: internal},
			},
			4, internal, false, true,
		},
		"5xx, then refused": {
			"k",
			[]told{{status: 500, code: internal}, {status: 422, code: insufficient}},
			2, insufficient, false,
			false,
		},
		"no answer, then refused": {
			"k", []told{{cut: true}, {status: 422, code: insufficient}}, 2, insufficient, false, true,
		},
		"not reached, then refused": {
			"k", []told{{refuse: true}, {status: 422, code: insufficient}}, 2, insufficient, false, false,
		},
		"5xx, then the key was rolled": {
			"k", []told{{status: 500, code: internal}, {status: 401, code: unauthorized}}, 2, unauthorized, false, true,
		},
		"limited all the time": {
			"k",
			[]told{
				{status: 429, code: limited},
				{status: 429, code: limited},
				{status: 429, code: limited},
				{status: 429, code: limited},
			},
			4, limited, false, false,
		},
		"without a key, no answer": {"", []told{{cut: true}}, 1, "", true, true},
		"without a key, 5xx": {
			"", []told{{status: 503, code: "UNAVAILABLE"}}, 1, "UNAVAILABLE", false, true,
		},
		"without a key, limited":          {"", []told{{status: 429, code: limited}}, 1, limited, false, false},
		"without a key, not even reached": {"", []told{{refuse: true}}, 1, "", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, s := scripted(t, c.plan...)
			var r Response
			w, err := client.CreateWithdrawal(
				t.Context(),
				WithdrawRequest{MintID: 1, CustomerID: "a", Amount: "5", ToAddress: "0x1", IdempotencyKey: c.key},
				WithResponse(&r),
			)
			if len(s.seen) != c.sent || r.Attempts != c.sent {
				t.Errorf("got %d requests and %d attempts, want %d", len(s.seen), r.Attempts, c.sent)
			}
			for _, one := range s.seen {
				if one != s.seen[0] {
					t.Errorf("got another request %s, want %s", one, s.seen[0])
				}
			}
			if (err == nil) != (c.code == "" && !c.silent) || err == nil && w.WithdrawalID != "wd_1" {
				t.Fatalf("got %+v, %v, want %v", w, err, c.code)
			}
			var refused *Error
			var silent *NoAnswer
			if c.code != "" &&
				(!errors.Is(err, c.code) || !errors.As(err, &refused) || refused.RequestID != "req_1" ||
					refused.ExistingID != "wd_0") {
				t.Errorf("got %#v, want %v", err, c.code)
			}
			if c.silent != errors.As(err, &silent) {
				t.Errorf("got %v, want no answer %v", err, c.silent)
			}
			if errors.Is(err, ErrOutcomeUnknown) != c.unknown {
				t.Errorf("got %v, want that the outcome is unknown: %v", err, c.unknown)
			}
			if len(s.waits) > 0 && c.plan[0].after == "7" && s.waits[0] != 7*time.Second {
				t.Errorf("got a wait of %v, want the 7 s of the answer", s.waits[0])
			}
		})
	}
}

func TestReadsAreRepeatedAndChangeNothing(t *testing.T) {
	t.Parallel()
	c, s := scripted(t, told{cut: true}, told{status: 500}, told{status: 429}, told{status: 200})
	if _, err := c.GetWithdrawal(t.Context(), "wd_1"); err != nil || len(s.seen) != 4 {
		t.Errorf("got %v after %d requests, want an answer after 4", err, len(s.seen))
	}
	c, _ = scripted(t, told{cut: true}, told{cut: true}, told{cut: true}, told{cut: true})
	if _, err := c.GetWithdrawal(t.Context(), "wd_1"); err == nil || errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("got %v, want an error that leaves nothing open", err)
	}
}

func TestAThingThatIsGoneOnTheSecondAttemptWasDeleted(t *testing.T) {
	t.Parallel()
	c, _ := scripted(t, told{cut: true}, told{status: 404, code: "NOT_FOUND"})
	if err := c.DeleteWebhookEndpoint(t.Context(), "we_1"); err != nil {
		t.Errorf("got %v, want none: the first attempt did it", err)
	}
	c, _ = scripted(t, told{status: 404, code: "NOT_FOUND"})
	if err := c.DeleteWebhookEndpoint(t.Context(), "we_1"); !errors.Is(err, NotFound) {
		t.Errorf("got %v, want %v", err, NotFound)
	}
}

// The end of the context also ends a pause, and no pause begins that would outlast it.
func TestTheContextBoundsAllAttempts(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, s := scripted(t, told{status: 429, code: "RATE_LIMITED", after: "3600"})
	if _, err := c.GetMint(ctx, 1); !errors.Is(err, RateLimited) || len(s.seen) != 1 || len(s.waits) != 0 {
		t.Errorf("got %v after %d requests and %v, want %v at once", err, len(s.seen), s.waits, RateLimited)
	}
	cancel()
	c, s = scripted(t, told{cut: true})
	if _, err := c.GetMint(ctx, 1); err == nil || len(s.seen) > 1 {
		t.Errorf("got %v after %d requests, want an error after one at most", err, len(s.seen))
	}
}

// A proxy's answer has no code, and its status decides.
func TestAnswersOfOthersAreNotTakenForOurs(t *testing.T) {
	t.Parallel()
	hits := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits++
		switch r.URL.Path {
		case "/v1/withdraw":
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, "<html>bad gateway</html>")
		case "/v1/customers/a/balances":
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		case "/v1/balances":
			fmt.Fprint(w, `{"data":`)
		default:
			t.Errorf("got a request to %s, want none", r.URL.Path)
		}
	}))
	t.Cleanup(s.Close)
	c, err := New(s.URL+"/v1/", "ck_secret", WithAttempts(1), WithAttemptTimeout(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	var refused *Error
	if _, err := c.CreateWithdrawal(t.Context(), WithdrawRequest{IdempotencyKey: "k"}); !errors.As(err, &refused) ||
		refused.Code != "" || refused.Status != 502 || !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("got %#v, want a 502 whose outcome is unknown", err)
	}
	if _, err := c.ListCustomerBalances(t.Context(), "a"); !errors.As(err, &refused) || refused.Status != 307 {
		t.Errorf("got %v, want the redirect refused: it would carry the key", err)
	}
	var silent *NoAnswer
	if _, err := c.ListBalances(t.Context()); !errors.As(err, &silent) {
		t.Errorf("got %v, want an answer that cannot be read", err)
	}
	if _, err := c.GetCustomer(t.Context(), ""); err == nil || hits != 3 {
		t.Errorf("got %v after %d requests, want an empty id refused before anything is sent", err, hits)
	}
}

func TestListsAreWalkedToTheirEnd(t *testing.T) {
	t.Parallel()
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		switch r.URL.Query().Get("cursor") {
		case "":
			fmt.Fprint(
				w,
				`{"data":[{"customerId":"a","createdAt":"2026-01-31T12:00:00.000Z","updatedAt":"2026-01-31T12:00:00.000Z"}],"hasMore":true,"nextCursor":"two"}`,
			)
		case "two":
			fmt.Fprint(w, `{"data":[],"hasMore":true,"nextCursor":"three"}`)
		default:
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"Start again.","code":"INVALID_CURSOR","requestId":"req_1","retryable":false}`)
		}
	}))
	t.Cleanup(s.Close)
	c, err := New(s.URL, "ck_secret")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	var failed error
	since := time.Date(2026, 1, 31, 13, 0, 0, 5_000_000, time.FixedZone("", 3600))
	for customer, err := range c.Customers(t.Context(), ListCustomersParams{Limit: 1, CreatedAfter: since}) {
		if err != nil {
			failed = err
			continue
		}
		names = append(names, customer.CustomerID)
	}
	if len(names) != 1 || !errors.Is(failed, InvalidCursor) {
		t.Errorf("got %v and %v, want a and %v", names, failed, InvalidCursor)
	}
	if want := "createdAfter=2026-01-31T12%3A00%3A00.005Z&limit=1"; asked[0] != want ||
		asked[1] != strings.Replace(want, "&limit", "&cursor=two&limit", 1) {
		t.Errorf("got %q, want %q and then its cursor", asked, want)
	}
	for range c.Customers(t.Context(), ListCustomersParams{}) {
		break
	}
	if len(asked) != 4 {
		t.Errorf("got %d requests, want breaking off to end them", len(asked))
	}
}

func TestTheKeyStaysInItsHeader(t *testing.T) {
	t.Parallel()
	for _, base := range []string{
		"http://coffer.internal/v1", "ftp://127.0.0.1/v1", "coffer/v1", "https://user:pw@coffer.internal/v1",
		"https://coffer.internal/v1?key=1", "",
	} {
		if c, err := New(base, "ck_secret"); err == nil {
			t.Errorf("%q: got %v, want it refused", base, c)
		}
	}
	for _, key := range []string{"", "a b", "a\r\nx-other: 1", "ключ"} {
		if _, err := New("https://coffer.internal/v1", key); err == nil {
			t.Errorf("%q: got a client, want the key refused", key)
		}
	}
	c, err := New("https://coffer.internal/v1", "ck_secret")
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("made", "client", c)
	for _, text := range []string{fmt.Sprint(c), fmt.Sprintf("%+v %#v %s", c, c, c), log.String()} {
		if strings.Contains(text, "ck_secret") {
			t.Errorf("got the key in %s", text)
		}
	}
}

// Missing and empty values differ where the interface distinguishes them.
func TestRequestsSayWhatIsMeant(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(WithdrawRequest{MintID: 1, CustomerID: "a", Amount: "5", ToAddress: "0x1"})
	if want := `{"amount":"5","customerId":"a","mintId":1,"toAddress":"0x1"}`; err != nil || string(raw) != want {
		t.Errorf("got %s, %v, want %s", raw, err, want)
	}
}

func TestAmountsAreExact(t *testing.T) {
	t.Parallel()
	huge := "115792089237316195423570985008687907853269984665640564039457584007913129639935" // 2^256-1
	for _, c := range []struct {
		tokens   string
		decimals int
		units    string // "": refused
	}{
		{"12.5", 6, "12500000"},
		{"0", 18, "0"},
		{"0.000001", 6, "1"},
		{"0.10", 2, "10"},
		{"1", 0, "1"},
		{"9007199254740993", 0, "9007199254740993"}, // a float would end in 2
		{huge, 0, huge},
		{huge[:77] + "6", 0, ""},
		{"0.0000001", 6, ""},
		{"1.", 6, ""},
		{".5", 6, ""},
		{"01", 6, ""},
		{"-1", 6, ""},
		{"+1", 6, ""},
		{"1e3", 6, ""},
		{" 1", 6, ""},
		{"", 6, ""},
		{"1,5", 6, ""},
		{"١", 6, ""},
		{"1", -1, ""},
		{"1", 99, ""},
	} {
		got, err := Units(c.tokens, c.decimals)
		if got != c.units || (err == nil) != (c.units != "") || err != nil && !errors.Is(err, ErrAmount) {
			t.Errorf("Units(%q, %d): got %q, %v, want %q", c.tokens, c.decimals, got, err, c.units)
		}
		if c.units == "" {
			continue
		}
		want := c.tokens
		if strings.Contains(want, ".") {
			want = strings.TrimRight(want, "0")
		}
		if back, err := Decimal(c.units, c.decimals); err != nil || back != want {
			t.Errorf("Decimal(%q, %d): got %q, %v, want %q", c.units, c.decimals, back, err, want)
		}
	}
	for _, text := range []string{"", "-1", "007", "1.0", "1e3", "0x10", huge + "0"} {
		if n, err := BigInt(text); err == nil {
			t.Errorf("BigInt(%q): got %v, want it refused", text, n)
		}
	}
}
