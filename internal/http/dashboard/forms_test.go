package dashboard

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// A form that no page wrote is refused in plain words, and nothing is written. Rules PAGE-1 and PAGE-2.
func TestAStrangeFormWritesNothing(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, "alice", usdc, 50_000_000)
	w := h.request(h.one, "alice", usdc, "1000000")
	token := h.signIn(h.one, identity.Owner)
	path, digest := h.open(token, w.ID)
	const form = "application/x-www-form-urlencoded"
	for name, c := range map[string]struct {
		body, kind, text string
		status           int
		headers          []string
	}{
		"an unknown field": {
			body: "digest=" + digest + "&code=123456&amount=5", status: http.StatusBadRequest,
			text: "the field &#34;amount&#34;, which this form does not have",
		},
		"a field twice": {
			body: "digest=" + digest + "&digest=" + digest + "&code=123456", status: http.StatusBadRequest,
			text: "the field &#34;digest&#34; twice",
		},
		"a missing field": {
			body: "code=123456", status: http.StatusBadRequest, text: "lacks the field &#34;digest&#34;",
		},
		"an empty code": {
			body: "digest=" + digest + "&code=", status: http.StatusUnprocessableEntity,
			text: "Enter the code that your authenticator app shows now.",
		},
		"a huge body": {
			body: "digest=" + digest + "&code=" + strings.Repeat("1", 70<<10), status: http.StatusRequestEntityTooLarge,
			text: "larger than 65536 bytes",
		},
		"JSON": {
			body: `{"digest":"x"}`, kind: "application/json", status: http.StatusBadRequest,
			text: "another type than the forms of these pages",
		},
		"a form of another origin": {
			body: "digest=" + digest + "&code=123456", status: http.StatusForbidden,
			text:    "Another page tried to send a form here in your name.",
			headers: []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"},
		},
		"a form of an old browser with another origin": {
			body: "digest=" + digest + "&code=123456", status: http.StatusForbidden,
			headers: []string{"Sec-Fetch-Site", "", "Origin", "https://evil.example"},
			text:    "Nothing was changed and no money moved.",
		},
	} {
		headers := c.headers
		if c.kind == "" {
			c.kind = form
		}
		headers = append(headers, "Content-Type", c.kind)
		for _, act := range []string{"/approve"} {
			got := h.send(token, http.MethodPost, path+act, strings.NewReader(c.body), headers...)
			if got.status != c.status || !strings.Contains(got.body, c.text) {
				t.Errorf("%s: got %d %s, want %d and %q", name, got.status, got.body, c.status, c.text)
			}
		}
	}
	h.wantWithdrawal(h.one, w.ID, withdrawal.AwaitingApproval, 0)
}

// Every page has the headers that keep it out of frames and other origins. Rule PAGE-5.
func TestEveryAnswerHasTheHeaders(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	token := h.signIn(h.one, identity.Owner)
	for path, status := range map[string]int{
		"": 200, "/approvals": 200, "/approvals?cursor=x": 400, "/approvals/withdrawals/x": 404, "/nothing": 404,
		"/sign-in": 200, "/approvals.csv": 200,
	} {
		got := h.get(token, Prefix+path).want(t, status)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
				"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; " +
				"require-trusted-types-for 'script'; trusted-types coffer; report-uri /dashboard/policy-reports",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			if got := got.header.Get(name); got != want {
				t.Errorf("%s: got %s: %q, want %q", path, name, got, want)
			}
		}
		if !strings.Contains(got.header.Get("Permissions-Policy"), "publickey-credentials-get=(self)") {
			t.Errorf("%s: got no Permissions-Policy", path)
		}
		if got.header.Get("Strict-Transport-Security") != "" {
			t.Errorf("%s: got Strict-Transport-Security on loopback, where it would lock other programs out", path)
		}
		if !strings.HasPrefix(got.header.Get("X-Request-Id"), "req_") {
			t.Errorf("%s: got no id of the request", path)
		}
	}
}

// A browser that uses an address is led to localhost, where it keeps the cookie.
func TestAPageOnAnAddressLeadsToLocalhost(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.server.URL+Prefix+"/approvals?cursor=x", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	want := strings.Replace(h.server.URL, "127.0.0.1", "localhost", 1) + Prefix + "/approvals?cursor=x"
	if got.StatusCode != http.StatusTemporaryRedirect || got.Header.Get("Location") != want {
		t.Errorf("got %d to %q, want a redirect to %q", got.StatusCode, got.Header.Get("Location"), want)
	}
}

// After a session has ended, a form does nothing, and sign-in leads back to its page. Rule PAGE-7.
func TestAFormWithoutASessionDoesNothing(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, "alice", usdc, 50_000_000)
	w := h.request(h.one, "alice", usdc, "1000000")
	path, digest := h.open(h.signIn(h.one, identity.Owner), w.ID)
	for _, token := range []string{"", "gone"} {
		got := h.post(token, path+"/approve", "digest", digest, "code", rightCode).want(t, http.StatusSeeOther)
		want := signInPath + "?next=" + strings.ReplaceAll(path, "/", "%2F")
		if to := got.header.Get("Location"); to != want {
			t.Errorf("got a redirect to %q, want %q", to, want)
		}
	}
	h.wantWithdrawal(h.one, w.ID, withdrawal.AwaitingApproval, 0)
}

// A table has the rows of the page, of this organization alone, and no cell that a spreadsheet computes.
func TestATableIsAsSafeAsThatOfTheInterface(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, "=HYPERLINK(1)", usdc, 50_000_000)
	w := h.request(h.one, "=HYPERLINK(1)", usdc, "1000000")
	viewer := h.signIn(h.one, identity.Viewer)
	for _, path := range []string{
		"/approvals", "/approvals/flagged", "/approvals/history", "/transactions", "/customers", "/balances",
		"/balances/transfers", "/team", "/settings/history", "/developers", "/developers/events",
	} {
		h.get(viewer, Prefix+path+".csv").want(t, http.StatusForbidden, "Owner, Admin, Approver or Finance")
		if body := h.get(viewer, Prefix+path).want(t, http.StatusOK).body; strings.Contains(body, ".csv") {
			t.Errorf("%s offers a table that the person may not have", path)
		}
	}
	got := h.get(h.signIn(h.one, identity.Approver), Prefix+"/approvals.csv").
		want(t, http.StatusOK, w.ID, "'=HYPERLINK(1)")
	if kind := got.header.Get("Content-Type"); kind != "text/csv; charset=utf-8" {
		t.Errorf("got %q, want CSV", kind)
	}
	other := h.get(h.signIn(h.two, identity.Owner), Prefix+"/approvals.csv").want(t, http.StatusOK)
	if strings.Contains(other.body, w.ID) {
		t.Error("the table of another organization has the withdrawal")
	}
}

// Assets never change under their names, and are compressed.
func TestAssetsAreImmutable(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	body := h.get("", signInPath).want(t, http.StatusOK).body
	at := strings.Index(body, Prefix+"/assets/app.")
	path := body[at : at+strings.IndexByte(body[at:], '"')]
	got := h.send("", http.MethodGet, path, nil, "Accept-Encoding", "gzip").want(t, http.StatusOK)
	if got.header.Get("Cache-Control") != "public, max-age=31536000, immutable" ||
		got.header.Get("Content-Encoding") != "gzip" {
		t.Errorf("got the headers %v, want an immutable, compressed asset", got.header)
	}
	h.get("", Prefix+"/assets/app.0000000000000000.css").want(t, http.StatusNotFound)
}

// The report of a browser is counted; a large one is refused.
func TestReportsOfThePolicyAreBounded(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	report := func(body string) reply {
		return h.send("", http.MethodPost, Prefix+"/policy-reports", strings.NewReader(body),
			"Content-Type", "application/csp-report")
	}
	report(`{"csp-report":{}}`).want(t, http.StatusNoContent)
	report(strings.Repeat("x", 9<<10)).want(t, http.StatusRequestEntityTooLarge)
	if got := h.reports.Load(); got != 1 {
		t.Errorf("got %d reports counted, want 1", got)
	}
}

// Rules may find something new while a withdrawal waits. The page then shows what they said last.
func TestTheReviewShowsWhatTheRulesSaidLast(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, "alice", usdc, 500_000_000)
	w := h.request(h.one, "alice", usdc, "100000000")
	token := h.signIn(h.one, identity.Approver)
	path, digest := h.open(token, w.ID)
	threshold := regexp.MustCompile(`Threshold in dollars(?s:.{1,300}?)(Not set|Passed|Holds it)`)
	look := func() string {
		found := threshold.FindStringSubmatch(h.get(token, path).want(t, http.StatusOK).body)
		if found == nil {
			t.Fatal("the page has no row of the threshold")
		}
		return found[1]
	}
	if got := look(); got != "Not set" {
		t.Fatalf("got %q before there is a threshold, want that it is not set", got)
	}
	h.set(h.one, "customerWithdrawUsdThreshold", `"1"`)
	h.post(token, path+"/approve", "digest", digest, "code", rightCode).want(t, http.StatusConflict)
	if got := look(); got != "Holds it" {
		t.Errorf("got %q after the rules looked at it again, want what they said last", got)
	}
}
