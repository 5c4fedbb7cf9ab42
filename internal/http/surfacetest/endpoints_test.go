package surfacetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/webhook"
)

// webhookReceiver is a receiver on this machine.
type webhookReceiver struct {
	*httptest.Server
	mu     sync.Mutex
	heard  []string
	header []http.Header
}

func newWebhookReceiver(t *testing.T) *webhookReceiver {
	t.Helper()
	e := &webhookReceiver{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read a webhook: %v", err)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.heard, e.header = append(e.heard, string(body)), append(e.header, r.Header.Clone())
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *webhookReceiver) bodies() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.heard)
}

// endpoint registers an endpoint on this machine, which the interface refuses.
func (h *testEnv) endpoint(to string, body map[string]any) (id, secret string) {
	h.t.Helper()
	body["url"] = "https://example.com/hook"
	made := h.wantStatus(h.call(h.one, "POST", "/webhook-endpoints", body), 201)
	if _, err := pgtest.OwnerPool(h.t, h.db).Exec(
		h.t.Context(), `UPDATE webhook_endpoints SET url = $2 WHERE endpoint_id = $1`, made.text("endpointId"), to,
	); err != nil {
		h.t.Fatal(err)
	}
	return made.text("endpointId"), made.text("secret")
}

// deliverEvents numbers the events and sends them.
func (h *testEnv) deliverEvents() {
	h.t.Helper()
	h.fanOutEvents()
	for n := 1; n > 0; {
		var err error
		if n, err = h.posts.Step(h.t.Context()); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *testEnv) transfer(key string) {
	h.t.Helper()
	h.wantStatus(h.call(h.one, "POST", "/transfers", charge(key)), 201)
}

// Rule EVT-7.
func TestAnEndpointThatNamesAllReceivesExtensions(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	all, seven := newWebhookReceiver(t), newWebhookReceiver(t)
	id, _ := h.endpoint(all.URL, map[string]any{"events": []string{"*"}})
	other, _ := h.endpoint(seven.URL, map[string]any{})
	at := "/webhook-endpoints/" + id
	shown := func() string { return fmt.Sprint(h.wantStatus(h.call(h.one, "GET", at, nil), 200).body["events"]) }
	if got := shown(); got != "[*]" {
		t.Errorf("got %s, want it shown as it was named", got)
	}
	h.transfer("one")
	h.deliverEvents()
	if got := all.bodies(); len(got) != 1 || !strings.Contains(got[0], "TRANSFER_COMPLETED") ||
		len(seven.bodies()) != 0 {
		t.Errorf("got %v and %v, want the extension at the one that names all", got, seven.bodies())
	}
	for _, path := range []string{at, "/webhook-endpoints/" + other} {
		h.wantRefusal(
			"with another",
			h.call(h.one, "PATCH", path, map[string]any{"events": []string{"*", "CUSTOMER_DEPOSIT"}}), 400,
			"INVALID_REQUEST", "events",
		)
	}
	h.wantRefusal("a sample of all", h.call(h.one, "POST", at+"/test", map[string]any{"type": "*"}), 400,
		"INVALID_REQUEST", "type")
	h.wantRefusal("a feed of all", h.call(h.one, "GET", "/events?types=*", nil), 400, "INVALID_REQUEST", "types")
	h.wantStatus(h.call(h.one, "PATCH", at, map[string]any{"events": []string{}}), 200)
	h.wantStatus(h.call(h.one, "PATCH", at, map[string]any{"events": []string{"*"}}), 200)
	if got := shown(); got != "[*]" {
		t.Errorf("changed: got %s, want it shown as it was named", got)
	}
}

// Rules EVT-8, EVT-9.
func TestAnEndpointIsChangedPausedAndResumed(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	to := newWebhookReceiver(t)
	id, _ := h.endpoint(to.URL, map[string]any{
		"events": []string{"TRANSFER_COMPLETED"}, "filters": map[string]any{"customerId": alice, "chain": "ETHEREUM"},
	})
	at := "/webhook-endpoints/" + id
	got := h.wantStatus(h.call(h.one, "PATCH", at, map[string]any{"status": "PAUSED", "description": "for the books"}),
		200)
	filters, _ := got.body["filters"].(map[string]any)
	if got.text("status") != "PAUSED" || got.text("description") != "for the books" || filters["customerId"] != alice ||
		filters["chain"] != "ETHEREUM" || got.body["secret"] != nil {
		t.Errorf("got %s, want it paused, with its filters and without its secret", got.raw)
	}
	h.transfer("one")
	h.deliverEvents()
	if got := to.bodies(); len(got) != 0 {
		t.Errorf("got %v posts while paused, want none", len(got))
	}
	h.wantStatus(h.call(h.one, "PATCH", at, map[string]any{"status": "ENABLED"}), 200)
	h.deliverEvents()
	if got := to.bodies(); len(got) != 1 {
		t.Errorf("got %v posts, want the one that waited", len(got))
	}
	got = h.wantStatus(h.call(h.one, "PATCH", at, map[string]any{"filters": map[string]any{"chain": "BASE"}}), 200)
	if filters, _ := got.body["filters"].(map[string]any); filters["customerId"] != nil || filters["chain"] != "BASE" {
		t.Errorf("got %s, want the filters replaced", got.raw)
	}
	h.transfer("two")
	h.deliverEvents()
	if got := to.bodies(); len(got) != 1 {
		t.Errorf("got %v posts, want the other chain left out", len(got))
	}
	if got := h.wantStatus(
		h.call(h.one, "PATCH", at, map[string]any{"filters": map[string]any{}, "events": []string{}}), 200,
	); len(got.body["events"].([]any)) != 0 {
		t.Errorf("got %s, want no events named", got.raw)
	}
	h.wantStatus(h.call(h.one, "PATCH", at, map[string]any{}), 200)

	before := h.wantStatus(h.call(h.one, "GET", at, nil), 200)
	for body, c := range map[string][2]string{
		`{"status":"DISABLED_GONE"}`:                         {"INVALID_REQUEST", "status"},
		`{"status":1}`:                                       {"INVALID_REQUEST", "status"},
		`{"url":"http://example.com"}`:                       {"INVALID_REQUEST", "url"},
		`{"url":"https://10.0.0.1/"}`:                        {"INVALID_REQUEST", "url"},
		`{"url":"https://169.254.169.254/"}`:                 {"INVALID_REQUEST", "url"},
		`{"url":""}`:                                         {"INVALID_REQUEST", "url"},
		`{"events":["NOTHING"]}`:                             {"INVALID_REQUEST", "events"},
		`{"events":[null]}`:                                  {"INVALID_REQUEST", "events"},
		`{"filters":{"chain":"base"}}`:                       {"INVALID_REQUEST", "filters.chain"},
		`{"filters":{"chain":""}}`:                           {"INVALID_REQUEST", "filters.chain"},
		`{"filters":{"customerId":"e\u0301"}}`:               {"INVALID_REQUEST", "filters.customerId"},
		`{"secret":"whsec_"}`:                                {"UNKNOWN_FIELD", "secret"},
		`{"description":"` + strings.Repeat("a", 501) + `"}`: {"INVALID_REQUEST", "description"},
		`{"status":"PAUSED","status":"ENABLED"}`:             {"INVALID_JSON", "status"},
		`[]`:                                                 {"INVALID_REQUEST", ""},
	} {
		h.wantRefusal(body, h.call(h.one, "PATCH", at, body), 400, c[0], c[1])
	}
	if after := h.wantStatus(h.call(h.one, "GET", at, nil), 200); string(after.raw) != string(before.raw) {
		t.Errorf("got %s, want a refused change to change nothing: %s", after.raw, before.raw)
	}
	h.wantRefusal("another organization's", h.call(h.two, "PATCH", at, map[string]any{"status": "PAUSED"}), 404,
		"NOT_FOUND", "")
}

// Rule EVT-10.
func TestARotatedSecretIsShownOnceAndBothSign(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	to := newWebhookReceiver(t)
	id, first := h.endpoint(to.URL, map[string]any{"events": []string{"TRANSFER_COMPLETED"}})
	at := "/webhook-endpoints/" + id
	got := h.wantStatus(h.call(h.one, "POST", at+"/rotate-secret", nil), 200)
	second := got.text("secret")
	if !strings.HasPrefix(second, "whsec_") || second == first || got.text("formerSecretUntil") == "" ||
		got.text("endpointId") != id {
		t.Fatalf("got %s, want the endpoint with another secret", got.raw)
	}
	if again := h.wantStatus(h.call(h.one, "GET", at, nil), 200); strings.Contains(string(again.raw), "whsec_") {
		t.Errorf("got %s, want no secret a second time", again.raw)
	}
	h.transfer("one")
	h.deliverEvents()
	bodies := to.bodies()
	if len(bodies) != 1 {
		t.Fatalf("got %v posts, want 1", len(bodies))
	}
	for _, secret := range []string{first, second, h.posts.Key.Public()} {
		if err := webhook.Verify([]byte(bodies[0]), to.header[0], secret, time.Minute); err != nil {
			t.Errorf("got %v, want it verified with each", err)
		}
	}
	for range 2 {
		h.wantStatus(h.call(h.one, "POST", at+"/rotate-secret", nil), 200)
	}
	h.wantRefusal("a fifth in a day", h.call(h.one, "POST", at+"/rotate-secret", nil), 409, "INVALID_STATE", "")
	h.wantRefusal("another organization's", h.call(h.two, "POST", at+"/rotate-secret", nil), 404, "NOT_FOUND", "")
	if logs := h.logs.String(); strings.Contains(logs, "whsec_") {
		t.Error("got a secret in the log, want none")
	}
}

// Every type has a sample, and each is as the document describes it.
// Rule EVT-12.
func TestASampleOfEveryTypeIsAsDocumented(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	to := newWebhookReceiver(t)
	id, _ := h.endpoint(to.URL, map[string]any{})
	doc, err := published[organizations]()
	if err != nil {
		t.Fatal(err)
	}
	for i, typ := range event.AllTypes() {
		got := h.wantStatus(h.call(h.one, "POST", "/webhook-endpoints/"+id+"/test", map[string]any{"type": typ}), 200)
		if got.text("status") != "DELIVERED" || got.text("type") != string(typ) || got.body["test"] != true {
			t.Errorf("%s: got %s, want it delivered", typ, got.raw)
		}
		bodies := to.bodies()
		if len(bodies) != i+1 {
			t.Fatalf("%s: got %v posts, want one more", typ, len(bodies))
		}
		var value any
		if err := json.Unmarshal([]byte(bodies[i]), &value); err != nil {
			t.Fatal(err)
		}
		item := openapiWebhook(doc, string(typ))
		if item == nil {
			t.Errorf("%s: got no description, want one", typ)
			continue
		}
		if err := item.Post.RequestBody.Value.Content["application/json"].Schema.Value.VisitJSON(
			value, openapi3.EnableJSONSchema2020(),
		); err != nil {
			t.Errorf("%s: got a sample that is not as documented: %v", typ, err)
		}
		if m := value.(map[string]any); m["environment"] != "TEST" || m["sequence"] != nil {
			t.Errorf("%s: got %s, want environment TEST and no sequence", typ, bodies[i])
		}
	}
	before := h.rowCounts()
	for body, param := range map[string]string{
		`{"type":"NOTHING"}`: "type", `{"type":null}`: "type", `{}`: "type", `{"type":1}`: "type",
	} {
		h.wantRefusal(body, h.call(h.one, "POST", "/webhook-endpoints/"+id+"/test", body), 400, "INVALID_REQUEST",
			param)
	}
	h.wantRefusal("another organization's",
		h.call(h.two, "POST", "/webhook-endpoints/"+id+"/test", `{"type":"CUSTOMER_DEPOSIT"}`), 404, "NOT_FOUND", "")
	if got := h.rowCounts(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
	to.Close()
	got := h.wantStatus(h.call(h.one, "POST", "/webhook-endpoints/"+id+"/test", `{"type":"CUSTOMER_DEPOSIT"}`), 200)
	if got.text("status") != "FAILED" || got.text("error") == "" || got.body["response"] != nil {
		t.Errorf("got %s, want it failed with the reason", got.raw)
	}
}

func openapiWebhook(doc *openapi3.T, name string) *openapi3.PathItem { return doc.Webhooks[name] }

// Rules EVT-13, EVT-14.
func TestWhatWasSentIsReadAndSentAgain(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	to := newWebhookReceiver(t)
	id, secret := h.endpoint(to.URL, map[string]any{"events": []string{"TRANSFER_COMPLETED"}})
	at := "/webhook-endpoints/" + id
	for _, key := range []string{"one", "two", "three"} {
		h.transfer(key)
	}
	h.deliverEvents()
	page := h.wantStatus(h.call(h.one, "GET", at+"/deliveries?limit=2&order=asc", nil), 200)
	all := page.list()
	if len(all) != 2 || page.body["hasMore"] != true || strings.Contains(
		string(page.raw), strings.TrimPrefix(secret, "whsec_"),
	) || strings.Contains(string(page.raw), "webhook-signature") {
		t.Fatalf("got %s, want a page without secrets", page.raw)
	}
	rest := h.wantStatus(
		h.call(h.one, "GET", at+"/deliveries?limit=2&order=asc&cursor="+page.text("nextCursor"), nil), 200,
	).list()
	if len(rest) != 1 {
		t.Errorf("got %v on the second page, want 1", len(rest))
	}
	h.wantRefusal(
		"another filter",
		h.call(h.one, "GET", at+"/deliveries?limit=2&status=FAILED&cursor="+page.text("nextCursor"), nil), 400,
		"INVALID_CURSOR", "cursor",
	)
	eventID, _ := all[0]["eventId"].(string)
	request, _ := all[0]["request"].(map[string]any)
	if request["body"] != to.bodies()[0] && request["body"] != to.bodies()[1] && request["body"] != to.bodies()[2] {
		t.Errorf("got %v, want the bytes that were sent", request["body"])
	}
	for query, want := range map[string]int{
		"status=DELIVERED": 3, "status=FAILED": 0, "eventId=" + eventID: 1, "type=TRANSFER_COMPLETED": 3,
		"type=CUSTOMER_DEPOSIT": 0,
		"since=" + url.QueryEscape(time.Now().Add(time.Hour).Format(time.RFC3339)): 0,
		"since=2026-01-31T12:00:00Z&type=TRANSFER_COMPLETED&status=DELIVERED":      3,
	} {
		if got := h.wantStatus(h.call(h.one, "GET", at+"/deliveries?"+query, nil), 200).list(); len(got) != want {
			t.Errorf("%s: got %v, want %v", query, len(got), want)
		}
	}
	for query, param := range map[string]string{
		"status=PENDING": "status",
		"type=NOTHING":   "type", "since=yesterday": "since", "eventId=%00": "eventId", "limit=0": "limit",
	} {
		h.wantRefusal(query, h.call(h.one, "GET", at+"/deliveries?"+query, nil), 400, "INVALID_REQUEST", param)
	}
	h.wantRefusal("unknown", h.call(h.one, "GET", at+"/deliveries?attempt=1", nil), 400, "UNKNOWN_FIELD", "attempt")

	job := h.wantStatus(h.call(h.one, "POST", "/events/"+eventID+"/resend", map[string]any{}), 202)
	if job.text("kind") != "RESEND" || job.text("eventId") != eventID {
		t.Errorf("got %s, want a job", job.raw)
	}
	h.deliverEvents()
	if got := h.wantStatus(
		h.call(h.one, "GET", "/webhook-jobs/"+job.text("jobId"), nil), 200,
	); got.text("status") != "COMPLETED" || got.body["delivered"] != 1.0 {
		t.Errorf("got %s, want it delivered", got.raw)
	}
	since := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	job = h.wantStatus(h.call(h.one, "POST", at+"/recover", map[string]any{"since": since, "onlyFailed": false}), 202)
	if again := h.wantStatus(
		h.call(h.one, "POST", at+"/recover", map[string]any{"since": since, "onlyFailed": false}), 202,
	); again.text("jobId") != job.text("jobId") {
		t.Errorf("a second click: got %s, want the same job", again.raw)
	}
	h.deliverEvents()
	if got := len(to.bodies()); got != 3+1+3 {
		t.Errorf("got %v posts, want each once, one again and all once more", got)
	}
	h.wantStatus(h.call(h.one, "POST", at+"/recover", map[string]any{"since": since}), 202)
	h.deliverEvents()
	if got := len(to.bodies()); got != 7 {
		t.Errorf("got %v posts, want nothing more: all was delivered", got)
	}

	for body, c := range map[string][2]string{
		`{}`:                               {"INVALID_REQUEST", "since"},
		`{"since":"yesterday"}`:            {"INVALID_REQUEST", "since"},
		`{"since":1}`:                      {"INVALID_REQUEST", "since"},
		`{"since":"9999-01-01T00:00:00Z"}`: {"INVALID_REQUEST", "since"},
		`{"since":"2026-01-31T12:00:00Z","until":"2026-01-31T12:00:00Z"}`: {"INVALID_REQUEST", "until"},
		`{"since":"2026-01-31T12:00:00Z","onlyFailed":"true"}`:            {"INVALID_REQUEST", "onlyFailed"},
		`{"since":"2026-01-31T12:00:00Z","all":true}`:                     {"UNKNOWN_FIELD", "all"},
	} {
		h.wantRefusal(body, h.call(h.one, "POST", at+"/recover", body), 400, c[0], c[1])
	}
	h.wantRefusal("empty endpoint", h.call(h.one, "POST", "/events/"+eventID+"/resend", `{"endpointId":""}`), 400,
		"INVALID_REQUEST", "endpointId")
	h.wantRefusal("unknown endpoint", h.call(h.one, "POST", "/events/"+eventID+"/resend", `{"endpointId":"we_x"}`), 404,
		"NOT_FOUND", "endpointId")
	for _, c := range [][2]string{
		{"POST", "/events/" + eventID + "/resend"},
		{"POST", at + "/recover"},
		{"GET", at + "/deliveries"},
		{"GET", "/webhook-jobs/" + job.text("jobId")},
	} {
		var body any
		if c[0] == "POST" {
			if body = map[string]any{}; strings.HasSuffix(c[1], "recover") {
				body = map[string]any{"since": since}
			}
		}
		h.wantRefusal(c[0]+" "+c[1], h.call(h.two, c[0], c[1], body), 404, "NOT_FOUND", "")
	}
}
