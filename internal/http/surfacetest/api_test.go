package surfacetest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Rules DEP-1, CUS-2.
func TestDepositAddressIsStable(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	body := map[string]any{"mintId": usdc, "customerId": "user_42", "customerEmail": "a@example.com"}
	first := h.wantStatus(h.call(h.one, "POST", "/deposit", body), 200)
	if first.text("chain") != "ETHEREUM" || first.text("customerId") != "user_42" ||
		first.text("minDepositAmount") != "5" ||
		!strings.HasPrefix(first.text("paymentUri"), "ethereum:"+string(usdcAddress)) {
		t.Errorf("got %s, want the address of user_42", first.raw)
	}
	before := h.rowCounts()
	for _, mintID := range []int{usdc, eth} {
		body["mintId"] = mintID
		if got := h.wantStatus(
			h.call(h.one, "POST", "/deposit", body), 200,
		); got.text("address") != first.text("address") || got.header.Get("Warning") != "" {
			t.Errorf("mint %d: got %v, want %v", mintID, got.text("address"), first.text("address"))
		}
	}
	body["customerEmail"] = "mallory@example.com"
	if got := h.wantStatus(
		h.call(h.one, "POST", "/deposit", body), 200,
	); got.header.Get("Warning") != "customerEmail ignored" {
		t.Errorf("another e-mail: got the warning %q, want one", got.header.Get("Warning"))
	}
	if got := h.rowCounts(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
	if got := h.wantStatus(
		h.call(h.one, "GET", "/customers/user_42", nil), 200,
	); got.text("customerEmail") != "a@example.com" {
		t.Errorf("e-mail: got %v, want the first", got.text("customerEmail"))
	}
	if got := h.wantStatus(h.call(h.two, "POST", "/deposit", body), 200); got.text("address") == first.text("address") {
		t.Error("another organization got the same address")
	}
}

// The whole way of a caller, through every call. Rules WD-1, IDEM-1, CUS-3, MINT-2.
func TestCallsWorkTogether(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)

	mints := h.wantStatus(h.call(h.one, "GET", "/mints", nil), 200)
	if got := len(mints.list()); got != 3 {
		t.Errorf("mints: got %v, want 3", got)
	}
	tag := mints.header.Get("ETag")
	if got := h.call(h.one, "GET", "/mints", nil, "If-None-Match", tag); got.status != 304 || len(got.raw) != 0 {
		t.Errorf("the same catalogue: got %v, want 304", got.status)
	}
	if got := h.wantStatus(h.call(h.one, "GET", "/mints?symbol=ETH&chain=ETHEREUM", nil), 200).list(); len(got) != 1 ||
		got[0]["kind"] != "NATIVE" {
		t.Errorf("filtered: got %v, want ETH", got)
	}
	for _, m := range mints.list() {
		if m["swappable"] != false {
			t.Errorf("mint %v: got swappable %v, want false", m["id"], m["swappable"])
		}
	}
	if got := h.wantStatus(h.call(h.one, "GET", "/mints?swappable=true", nil), 200).list(); len(got) != 0 {
		t.Errorf("swappable mints: got %v, want none", got)
	}
	page := h.wantStatus(h.call(h.one, "GET", "/mints?limit=2", nil), 200)
	rest := h.wantStatus(h.call(h.one, "GET", "/mints?limit=2&cursor="+page.text("nextCursor"), nil), 200)
	if len(page.list()) != 2 || len(rest.list()) != 1 || rest.body["hasMore"] != false {
		t.Errorf("pages: got %s then %s, want 2 and 1", page.raw, rest.raw)
	}
	if got := h.wantStatus(h.call(h.one, "GET", "/mints/1", nil), 200); got.text("symbol") != "USDC" ||
		got.text("usdPrice") != "0.9998" || got.text("caip2") != "eip155:31337" {
		t.Errorf("mint: got %s, want USDC", got.raw)
	}

	w := h.wantStatus(h.call(
		h.one, "POST", "/withdraw",
		payment("idempotencyKey", "k1", "reference", "order-77", "metadata", map[string]string{"a": "b"}),
	), 202)
	id := w.text("withdrawalId")
	if w.text("status") != "PROCESSING" || w.text("reference") != "order-77" ||
		w.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("withdrawal: got %s, want it processing", w.raw)
	}
	if again := h.wantStatus(
		h.call(h.one, "POST", "/withdraw", payment("reference", "order-77"), "Idempotency-Key", "k1"), 202,
	); again.text("withdrawalId") != id || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("replay by header: got %s, want %v", again.raw, id)
	}
	h.wantRefusal(
		"the key of another order",
		h.call(h.one, "POST", "/withdraw", payment("idempotencyKey", "k1", "reference", "order-78")), 409,
		"IDEMPOTENCY_CONFLICT", "idempotencyKey",
	)
	held := h.wantStatus(
		h.call(h.one, "POST", "/withdraw", payment("requireApproval", true, "useDecimal", true, "amount", "0.002")),
		202,
	)
	if held.text("status") != "AWAITING_APPROVAL" || held.text("amount") != "2000" {
		t.Errorf("held: got %s, want it to wait", held.raw)
	}
	if got := h.wantStatus(h.call(h.one, "GET", "/withdrawals/"+id, nil), 200); got.text("withdrawalId") != id {
		t.Errorf("read: got %s, want %v", got.raw, id)
	}
	for query, want := range map[string]int{
		"": 2, "?idempotencyKey=k1": 1, "?status=AWAITING_APPROVAL": 1, "?customerId=alice&mintId=1&chain=ETHEREUM": 2,
		"?reference=order-77": 1,
		"?createdAfter=2020-01-01T00:00:00Z&createdBefore=2020-01-02T00:00:00Z": 0,
		"?address=" + strings.ToLower(stranger):                                 2, "?txHash=0xaa": 0,
	} {
		if got := h.wantStatus(h.call(h.one, "GET", "/withdrawals"+query, nil), 200).list(); len(got) != want {
			t.Errorf("withdrawals%s: got %v, want %v", query, len(got), want)
		}
	}
	balances := h.wantStatus(h.call(h.one, "GET", "/customers/alice/balances", nil), 200).list()
	if len(balances) != 1 || balances[0]["available"] != "997000" || balances[0]["pendingWithdraw"] != "3000" ||
		balances[0]["total"] != "1000000" || balances[0]["usdValue"] != "1.00" {
		t.Errorf("balances: got %v, want 997000 and 3000", balances)
	}
	if got := h.wantStatus(h.call(h.one, "GET", "/customers", nil), 200).list(); len(got) != 1 ||
		got[0]["status"] != "ACTIVE" {
		t.Errorf("customers: got %v, want alice", got)
	}
	h.wantStatus(h.call(h.one, "GET", "/deposits?status=CREDITED&customerId=alice&mintId=1", nil), 200)

	made := h.wantStatus(h.call(
		h.one, "POST", "/webhook-endpoints",
		map[string]any{"url": "https://example.com/hook", "events": []string{"CUSTOMER_WITHDRAW"}},
	), 201)
	if !strings.HasPrefix(made.text("secret"), "whsec_") {
		t.Errorf("endpoint: got %s, want a secret", made.raw)
	}
	endpoint := made.text("endpointId")
	if got := h.wantStatus(h.call(h.one, "GET", "/webhook-endpoints", nil), 200).list(); len(got) != 1 ||
		got[0]["endpointId"] != endpoint || got[0]["secret"] != nil {
		t.Errorf("endpoints: got %v, want one without its secret", got)
	}
	h.wantStatus(h.call(h.one, "GET", "/webhook-endpoints/"+endpoint, nil), 200)
	if got := h.wantStatus(h.call(h.one, "DELETE", "/webhook-endpoints/"+endpoint, nil), 204); len(got.raw) != 0 {
		t.Errorf("deleted: got %s, want nothing", got.raw)
	}
	h.wantRefusal("deleted twice", h.call(h.one, "DELETE", "/webhook-endpoints/"+endpoint, nil), 404, "NOT_FOUND", "")

	for range 10 {
		h.wantStatus(h.call(h.one, "POST", "/webhook-endpoints", map[string]any{"url": "https://example.com/hook"}),
			201)
	}
	h.wantRefusal(
		"an eleventh",
		h.call(h.one, "POST", "/webhook-endpoints", map[string]any{"url": "https://example.com/hook"}), 409,
		"INVALID_STATE", "",
	)

	h.sequenced()
	events := h.wantStatus(h.call(h.one, "GET", "/events?after=0&limit=1", nil), 200)
	if got := events.list(); len(got) != 1 || got[0]["type"] != "CUSTOMER_WITHDRAW_AWAITING_APPROVAL" ||
		got[0]["sequence"] != 1.0 {
		t.Errorf("events: got %s, want the one of the held withdrawal", events.raw)
	}
	h.wantStatus(h.call(h.one, "GET", "/withdrawals?status=BLOCKED", nil), 200)
	if got := h.wantStatus(h.call(h.one, "GET", "/events?after=1", nil), 200).list(); len(got) != 0 {
		t.Errorf("after the last: got %v, want nothing", got)
	}
	h.wantStatus(h.call(h.one, "GET", "/events?types=CUSTOMER_DEPOSIT,CUSTOMER_WITHDRAW", nil), 200)
	h.wantStatus(h.call(tenant{}, "GET", "/.well-known/webhook-keys", nil), 200)
	h.wantStatus(h.call(tenant{}, "GET", "/openapi.json", nil), 200)
}

// Rule LIST-1.
func TestListsWalkEveryRowOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	made := map[string]bool{}
	for i := range 7 {
		made[h.wantStatus(
			h.call(h.one, "POST", "/withdraw", payment("idempotencyKey", fmt.Sprint("k", i))), 202,
		).text("withdrawalId")] = true
	}
	for _, order := range []string{"asc", "desc"} {
		seen := map[string]bool{}
		for cursor := ""; ; {
			page := h.wantStatus(h.call(h.one, "GET", "/withdrawals?limit=3&order="+order+cursor, nil), 200)
			for _, w := range page.list() {
				seen[w["withdrawalId"].(string)] = true
			}
			if page.body["hasMore"] == false {
				break
			}
			next := page.text("nextCursor")
			for name, query := range map[string]string{
				"other order":    "limit=3&cursor=" + next,
				"another filter": "order=" + order + "&status=FAILED&cursor=" + next,
				"changed": "order=" + order + "&cursor=" + next[:len(next)-1] +
					string("xy"[len(next)-len(strings.TrimSuffix(next, "x"))]),
			} {
				if name == "other order" && order == "desc" {
					query = "order=asc&cursor=" + next
				}
				h.wantRefusal(name, h.call(h.one, "GET", "/withdrawals?"+query, nil), 400, "INVALID_CURSOR", "cursor")
			}
			h.wantRefusal("another list", h.call(h.one, "GET", "/deposits?order="+order+"&cursor="+next, nil), 400,
				"INVALID_CURSOR", "cursor")
			h.wantRefusal("another tenant", h.call(h.two, "GET", "/withdrawals?order="+order+"&cursor="+next, nil), 400,
				"INVALID_CURSOR", "cursor")
			cursor = "&cursor=" + next
		}
		if len(seen) != len(made) {
			t.Errorf("%s: got %v, want %v", order, len(seen), len(made))
		}
	}
}

// Rule LIST-1.
func TestTheFeedsCursorsAreItsOwn(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for i := range 5 {
		h.wantStatus(h.call(h.one, "POST", "/transfers", charge(fmt.Sprint("k", i))), 201)
	}
	h.sequenced()
	seen, query := 0.0, "?limit=2"
	for {
		page := h.wantStatus(h.call(h.one, "GET", "/events"+query, nil), 200)
		for _, e := range page.list() {
			if e["sequence"] != seen+1 {
				t.Errorf("got %v after %v, want the next", e["sequence"], seen)
			}
			seen++
		}
		next := page.text("nextCursor")
		if page.body["hasMore"] == false {
			break
		}
		for name, other := range map[string]string{
			"other types": "?types=TRANSFER_COMPLETED&cursor=" + next, "changed": "?cursor=" + next + "A",
			"a number": "?cursor=2",
		} {
			h.wantRefusal(name, h.call(h.one, "GET", "/events"+other, nil), 400, "INVALID_CURSOR", "cursor")
		}
		h.wantRefusal("another tenant", h.call(h.two, "GET", "/events?cursor="+next, nil), 400, "INVALID_CURSOR",
			"cursor")
		h.wantRefusal("another list", h.call(h.one, "GET", "/transfers?cursor="+next, nil), 400, "INVALID_CURSOR",
			"cursor")
		query = "?limit=2&after=0&cursor=" + next
	}
	if seen != 5 {
		t.Errorf("got %v events, want 5", seen)
	}
}

// I-20, over HTTP.
// Rule IDEM-1.
func TestParallelReplaysAreOneWithdrawal(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ids := make([]string, 64)
	crowd(len(ids), func(i int) {
		got := h.call(h.one, "POST", "/withdraw", payment("idempotencyKey", "payout-991", "amount", "1000000"))
		if got.status != 202 {
			t.Errorf("caller %d: got %v %s, want 202", i, got.status, got.raw)
		}
		ids[i] = got.text("withdrawalId")
	})
	for i, id := range ids {
		if id != ids[0] {
			t.Errorf("caller %d: got %v, want %v", i, id, ids[0])
		}
	}
	if got := h.rowCounts(); !strings.Contains(got, "withdrawals 1, transfers 2,") ||
		!strings.Contains(got, "orders 1,") {
		t.Errorf("rows: got %v, want one withdrawal, its hold and its order", got)
	}
}

// H-27, H-28, H-30.
// Rules IDEM-2, IDEM-4, IDEM-5.
func TestKeysBelongToAnOrganizationAndAPayment(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.deposit(h.two, alice, 1_000_000)
	h.wantRefusal("too much", h.call(h.one, "POST", "/withdraw", payment("idempotencyKey", "k", "amount", "1000001")),
		422, "INSUFFICIENT_BALANCE", "amount")
	first := h.wantStatus(h.call(h.one, "POST", "/withdraw", payment("idempotencyKey", "k")), 202)
	theirs := h.wantStatus(h.call(h.two, "POST", "/withdraw", payment("idempotencyKey", "k", "amount", "2000")), 202)
	if first.text("withdrawalId") == theirs.text("withdrawalId") {
		t.Error("two organizations share a withdrawal")
	}
	before := h.rowCounts()
	conflict := h.call(h.one, "POST", "/withdraw", payment("idempotencyKey", "k", "amount", "2000"))
	h.wantRefusal("other amount", conflict, 409, "IDEMPOTENCY_CONFLICT", "idempotencyKey")
	if conflict.text("existingId") != first.text("withdrawalId") {
		t.Errorf("existingId: got %v, want %v", conflict.text("existingId"), first.text("withdrawalId"))
	}
	h.wantRefusal(
		"body and header",
		h.call(h.one, "POST", "/withdraw", payment("idempotencyKey", "k"), "Idempotency-Key", "l"), 400,
		"IDEMPOTENCY_KEY_MISMATCH", "idempotencyKey",
	)
	h.wantRefusal(
		"two headers",
		h.call(h.one, "POST", "/withdraw", payment(), "Idempotency-Key", "k", "Idempotency-Key", "l"), 400,
		"IDEMPOTENCY_KEY_MISMATCH", "idempotencyKey",
	)
	if got := h.rowCounts(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
}

// H-31.
func TestRequestWhoseCallerLeftIsDoneOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	body := `{"mintId":1,"customerId":"alice","amount":"1000","toAddress":"` + stranger + `","idempotencyKey":"gone"}`
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", h.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(
		conn,
		"POST /v1/withdraw HTTP/1.1\r\nHost: x\r\nx-api-key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		h.one.key, len(body), body,
	); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	var done []map[string]any
	deadline := time.After(30 * time.Second)
	for len(done) == 0 {
		select {
		case <-deadline:
			t.Fatal("got no withdrawal, want the one that was asked for")
		case <-time.After(10 * time.Millisecond):
			done = h.wantStatus(h.call(h.one, "GET", "/withdrawals?idempotencyKey=gone", nil), 200).list()
		}
	}
	again := h.wantStatus(h.call(h.one, "POST", "/withdraw", body), 202)
	if again.text("withdrawalId") != done[0]["withdrawalId"] || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("got %s, want %v replayed", again.raw, done[0]["withdrawalId"])
	}
}

// A resource of another organization is answered like one that does not exist. Rule AUTH-2.
func TestForeignIDsAreNotThere(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	w := h.wantStatus(h.call(h.one, "POST", "/withdraw", payment()), 202).text("withdrawalId")
	e := h.wantStatus(
		h.call(h.one, "POST", "/webhook-endpoints", map[string]any{"url": "https://example.com/hook"}), 201,
	).text("endpointId")
	const nobodys = "01J9ZW3M8Q4S5T6V7W8X9YZABC"
	for _, c := range []struct{ method, foreign, absent string }{
		{"GET", "/withdrawals/" + w, "/withdrawals/wd_" + nobodys},
		{"GET", "/webhook-endpoints/" + e, "/webhook-endpoints/we_" + nobodys},
		{"DELETE", "/webhook-endpoints/" + e, "/webhook-endpoints/we_" + nobodys},
		{"GET", "/customers/alice", "/customers/nobody"},
		{"GET", "/customers/alice/balances", "/customers/nobody/balances"},
	} {
		foreign, absent := h.call(h.two, c.method, c.foreign, nil), h.call(h.two, c.method, c.absent, nil)
		h.wantRefusal(c.foreign, foreign, 404, "NOT_FOUND", "")
		same := func(r reply) string {
			return strings.NewReplacer(
				r.text("requestId"), "", c.foreign[strings.LastIndex(c.foreign, "/")+1:], "",
				c.absent[strings.LastIndex(c.absent, "/")+1:], "",
			).Replace(string(r.raw))
		}
		if same(foreign) != same(absent) {
			t.Errorf("%s: got %s, want %s", c.foreign, foreign.raw, absent.raw)
		}
	}
	for _, list := range []string{"/withdrawals", "/deposits", "/customers", "/webhook-endpoints", "/events"} {
		if got := h.wantStatus(h.call(h.two, "GET", list, nil), 200).list(); len(got) != 0 {
			t.Errorf("%s: got %v, want nothing", list, got)
		}
	}
}

// H-33.
// Rule AUTH-1.
func TestKeyIsReadFromOneHeaderAlone(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	nobody := tenant{}
	rolled := h.one.key
	h.one.key = h.rollKey(h.one)
	first := h.call(nobody, "GET", "/mints", nil, "x-api-key", "ck_nothing")
	h.wantRefusal("wrong", first, 401, "UNAUTHORIZED", "")
	// The answer says what the request shows anyway; it does not say in which way a key is wrong.
	for name, c := range map[string]struct {
		path, want string
		headers    []string
	}{
		"none": {"/mints", "The header x-api-key is missing. Send", nil},
		"as bearer": {
			"/mints", "Authorization is not read", []string{"Authorization", "Bearer " + h.one.key},
		},
		"in the query":          {"/mints?x-api-key=" + h.one.key, "a key in the query is not read", nil},
		"in the query, shorter": {"/mints?api_key=" + h.one.key, "a key in the query is not read", nil},
		"an operator's":         {"/mints", "This is an operator's key", []string{"x-api-key", "cok_nothing"}},
		"an operator's header": {
			"/mints", "The header x-api-key is missing. Send", []string{"x-operator-key", h.one.key},
		},
	} {
		got := h.call(nobody, "GET", c.path, nil, c.headers...)
		h.wantRefusal(name, got, 401, "UNAUTHORIZED", "")
		if said := got.text("error"); !strings.Contains(said, c.want) || said == first.text("error") ||
			strings.Contains(said, h.one.key) {
			t.Errorf("%s: got %q, want %q", name, said, c.want)
		}
	}
	for name, headers := range map[string][]string{
		"rolled":         {"x-api-key", rolled},
		"unknown":        {"x-api-key", "ck_" + strings.Repeat("A", 43)},
		"empty":          {"x-api-key", ""},
		"twice":          {"x-api-key", h.one.key, "x-api-key", h.one.key},
		"two":            {"x-api-key", h.one.key, "x-api-key", "b"},
		"endless":        {"x-api-key", strings.Repeat("k", 10_000)},
		"something else": {"x-api-key", h.one.key + " " + h.one.key},
		"not text":       {"x-api-key", "\xff\xfe"},
	} {
		got := h.call(nobody, "GET", "/mints", nil, headers...)
		h.wantRefusal(name, got, 401, "UNAUTHORIZED", "")
		if got.text("error") != first.text("error") {
			t.Errorf("%s: got %q, want %q", name, got.text("error"), first.text("error"))
		}
	}
	h.wantRefusal("in the query, beside a good one", h.call(h.one, "GET", "/mints?x-api-key="+h.one.key, nil), 400,
		"UNKNOWN_FIELD", "x-api-key")
	h.wantRefusal("before the body", h.call(nobody, "POST", "/withdraw", "{"), 401, "UNAUTHORIZED", "")
	h.wantRefusal("before the path", h.call(nobody, "GET", "/nothing", nil), 401, "UNAUTHORIZED", "")
	h.wantRefusal("before the method", h.call(nobody, "PUT", "/mints", nil), 401, "UNAUTHORIZED", "")
	if strings.Contains(h.logs.String(), h.one.key) {
		t.Error("the log has a key")
	}
}

// rollKey rolls the API key of an organization and returns the new one.
func (h *testEnv) rollKey(who tenant) string {
	h.t.Helper()
	key, err := org.RollKey(h.t.Context(), h.db, audit.Operator("test"), who.id)
	if err != nil {
		h.t.Fatal(err)
	}
	return key.Reveal()
}

// raw requests a path that need not be one of the interface, and follows no redirect.
func (h *testEnv) raw(who tenant, method, path string, headers ...string) reply {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.server.URL+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	if who.key != "" {
		r.Header.Set(h.face.Header, who.key)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	got, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	out := reply{status: got.StatusCode, header: got.Header, raw: text}
	_ = json.Unmarshal(text, &out.body) // a page is none
	return out
}

// The answer names the usual mistakes in a path. Rule REQ-10.
func TestAWrongPathNamesTheOneThatWasMeant(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for path, want := range map[string]string{
		"/mints": "/v1/mints", "/v1/mints/": "/v1/mints", "/v1//mints": "/v1/mints", "//v1/mints": "/v1/mints",
		"/V1/Mints": "/v1/mints",
		"/v1/mint":  "/v1/mints", "/v1/withdrawls": "/v1/withdrawals", "/v1/v1/mints": "", "/v1/nothing": "",
		"/nothing":                             "",
		"/v1/customer/user_42/balance":         "/v1/customers/user_42/balances",
		"/customers/a%2Fb/balances":            "/v1/customers/a%2Fb/balances",
		"/v1/freezes":                          "", // the operator's
		"/v1/" + strings.Repeat("mints/", 100): "", "/v1/%25s%25d": "",
	} {
		got := o.testEnv.raw(o.one, "GET", path)
		if got.status != 404 || got.text("code") != "NOT_FOUND" {
			t.Errorf("%s: got %d %s, want 404", path, got.status, got.raw)
		}
		said := got.text("error")
		if named := strings.Contains(said, "Did you mean"); named != (want != "") ||
			named && !strings.Contains(said, "Did you mean "+want+"?") {
			t.Errorf("%s: got %q, want %q", path, said, want)
		}
	}
	if got := o.desk.raw(o.ann, "GET", "/v1/organisations"); !strings.Contains(
		got.text("error"), "Did you mean /v1/organizations?",
	) {
		t.Errorf("the operator's: got %s", got.raw)
	}
	// Without a key the paths under the prefix reveal nothing.
	if got := o.testEnv.raw(tenant{}, "GET", "/v1/mint"); got.status != 401 {
		t.Errorf("without a key: got %d %s, want 401", got.status, got.raw)
	}
}

// Rule REQ-10.
func TestABrowserIsLedToThePages(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for _, s := range []*testEnv{o.testEnv, o.desk} {
		if got := s.raw(
			tenant{}, "GET", "/", "Accept", "text/html,application/xhtml+xml,*/*;q=0.8",
		); got.status != 302 || got.header.Get("Location") != "/docs" {
			t.Errorf("a browser: got %d %v, want it led to /docs", got.status, got.header)
		}
		if got := s.raw(tenant{}, "GET", "/", "Accept", "*/*"); got.status != 404 || got.text("code") != "NOT_FOUND" {
			t.Errorf("a program: got %d %s, want 404", got.status, got.raw)
		}
		for _, path := range []string{
			"/docs", "/docs/", "/docs/openapi.json", "/docs/start.js", "/docs/" + kernel.Renderer,
		} {
			if got := s.raw(tenant{}, "HEAD", path); got.status != 200 || got.header.Get("Content-Type") == "" ||
				len(got.raw) > 0 {
				t.Errorf("HEAD %s: got %d %v, want 200 and no body", path, got.status, got.header)
			}
		}
	}
}

func TestPathsAndMethodsAreExact(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for _, path := range []string{
		"/nothing",
		"/mints/", "/Mints", "/mints/1/2", "/withdraw/1", "/customers/alice/", "/customers/../mints", "//mints",
	} {
		h.wantRefusal(path, h.call(h.one, "GET", path, nil), 404, "NOT_FOUND", "")
	}
	for path, allow := range map[string]string{
		"/mints":    "GET",
		"/withdraw": "POST", "/webhook-endpoints": "GET, POST", "/webhook-endpoints/we_1/deliveries": "GET",
		"/openapi.json": "GET",
	} {
		for _, method := range []string{"PUT", "PATCH"} {
			got := h.call(h.one, method, path, nil)
			h.wantRefusal(method+" "+path, got, 405, "METHOD_NOT_ALLOWED", "")
			if got.header.Get("Allow") != allow {
				t.Errorf("%s %s: got Allow %q, want %q", method, path, got.header.Get("Allow"), allow)
			}
		}
	}
	for _, path := range []string{
		"/mints/01", "/mints/+1", "/mints/1.0", "/mints/0", "/mints/-1", "/mints/9223372036854775808", "/mints/%00",
		"/mints/x",
		"/withdrawals/%00", "/withdrawals/wd_1", "/withdrawals/%FF", "/deposits/dep_%27", "/deposits/x",
		"/customers/%00", "/customers/%FF", "/customers/%20", "/webhook-endpoints/%00",
	} {
		h.wantRefusal(path, h.call(h.one, "GET", path, nil), 404, "NOT_FOUND", "")
	}
}

// H-25.
// Rules CUS-1, CUS-8.
func TestCustomerIDsAreData(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for _, id := range []string{
		"' OR 1=1--",
		"{{7*7}}", "<script>", "a/b", "100%", "a?b#c", "=cmd", "ünïcode", "А", "A", "a", "1", "01", "%252e%252e%252f",
		"a/..b",
	} {
		made := h.wantStatus(h.call(h.one, "POST", "/deposit", map[string]any{"mintId": usdc, "customerId": id}), 200)
		if made.text("customerId") != id {
			t.Errorf("got %q, want %q", made.text("customerId"), id)
		}
		escaped := strings.NewReplacer(
			"%", "%25", "/", "%2F", "?", "%3F", "#", "%23", " ", "%20", "<", "%3C", ">", "%3E", "{", "%7B", "}", "%7D",
		).Replace(id)
		if got := h.wantStatus(h.call(h.one, "GET", "/customers/"+escaped, nil), 200); got.text("customerId") != id {
			t.Errorf("read: got %q, want %q", got.text("customerId"), id)
		}
	}
	// In a path these ids would lead to other calls.
	for i, id := range []string{".", "..", "%2e%2E", "x/../alice", `x\..\alice`, "x%2F%2e%2e%2Falice", "../../x"} {
		h.wantRefusal(id, h.call(h.one, "POST", "/deposit", map[string]any{"mintId": usdc, "customerId": id}), 400,
			"INVALID_REQUEST", "customerId")
		to := charge(fmt.Sprint("dots", i), "to", map[string]any{"customerId": id})
		h.wantRefusal(id, h.call(h.one, "POST", "/transfers", to), 400, "INVALID_REQUEST", "to.customerId")
	}
	// A customer from before this rule keeps the address and everything else.
	err := h.db.InOrg(t.Context(), h.one.id, func(ctx context.Context, tx pg.Tx) error {
		return customer.EnsureAll(ctx, tx, h.one.id, []string{".."})
	})
	if err != nil {
		t.Fatal(err)
	}
	h.wantStatus(h.call(h.one, "POST", "/deposit", map[string]any{"mintId": usdc, "customerId": ".."}), 200)
	if got := h.wantStatus(h.call(h.one, "GET", "/customers", nil), 200).list(); len(got) != 17 {
		t.Errorf("customers: got %v, want 16 different ones", len(got))
	}
}

func TestPanicIsAnErrorOfOurs(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	w := newRecorder()
	r, err := http.NewRequestWithContext(t.Context(), "POST", "http://127.0.0.1/v1/withdraw", nil)
	if err != nil {
		t.Fatal(err)
	}
	answering(h.db, h.logs, kernel.Route{
		Method: http.MethodPost, Path: "/withdraw",
		Handler: kernel.HandleEmpty(func(*kernel.Call[kernel.Caller]) error { panic("secret sentence") }),
	}).ServeHTTP(w, r)
	if w.Code != 500 || strings.Contains(w.Body.String(), "secret sentence") ||
		!strings.Contains(w.Body.String(), `"INTERNAL"`) || !strings.Contains(h.logs.String(), "secret sentence") {
		t.Errorf("got %v %s and the log %s, want INTERNAL and the sentence in the log alone", w.Code, w.Body, h.logs)
	}
}
