package surfacetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/http/kernel"
)

// Every bound of a request, at its limit, where it is accepted, and one beyond, where it is refused
// with the name of the field. Rule REQ-7.
func TestBoundsAreTakenAtTheirEdgeAndRefusedBeyond(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.deposit(h.one, strings.Repeat("b", 128), 1_000_000)
	n := 0
	key := func() string { n++; return fmt.Sprint("key", n) }
	keys := func(count int) map[string]string {
		m := map[string]string{}
		for i := range count {
			m[fmt.Sprint("k", i)] = "v"
		}
		return m
	}
	withdraw := func(change ...any) func() (string, string, any) {
		return func() (string, string, any) {
			return "POST", "/withdraw", payment(append([]any{"idempotencyKey", key(), "amount", "10"}, change...)...)
		}
	}
	x := strings.Repeat
	for _, c := range []struct {
		name          string
		edge, beyond  func() (method, path string, body any)
		taken, status int
		code, param   string
	}{
		{
			"customerId of 128 bytes",
			withdraw("customerId", x("b", 128)), withdraw("customerId", x("b", 129)), 202, 400, "INVALID_REQUEST",
			"customerId",
		},
		{
			"customerId of 128 bytes in 64 letters",
			post("/deposit", "mintId", usdc, "customerId", x("ü", 64)),
			post("/deposit", "mintId", usdc, "customerId", x("ü", 64)+"a"), 200, 400, "INVALID_REQUEST", "customerId",
		},
		{
			"customerId of 1 byte",
			post("/deposit", "mintId", usdc, "customerId", "a"), post("/deposit", "mintId", usdc, "customerId", ""),
			200, 400, "INVALID_REQUEST", "customerId",
		},
		{
			"e-mail of 254 bytes",
			post("/deposit", "mintId", usdc, "customerId", "e", "customerEmail", x("e", 246)+"@mail.ex"),
			post("/deposit", "mintId", usdc, "customerId", "e", "customerEmail", x("e", 247)+"@mail.ex"), 200, 400,
			"INVALID_REQUEST", "customerEmail",
		},
		{
			"a changed e-mail of 254 bytes",
			patch("/customers/alice", "customerEmail", x("e", 246)+"@mail.ex"),
			patch("/customers/alice", "customerEmail", x("e", 247)+"@mail.ex"), 200, 400, "INVALID_REQUEST",
			"customerEmail",
		},
		{
			"20 keys of metadata",
			withdraw("metadata", keys(20)), withdraw("metadata", keys(21)), 202, 400, "INVALID_REQUEST", "metadata",
		},
		{
			"a metadata key of 40",
			withdraw("metadata", map[string]string{x("ü", 40): "v"}),
			withdraw("metadata", map[string]string{x("k", 41): "v"}), 202, 400, "INVALID_REQUEST", "metadata",
		},
		{
			"a metadata value of 500",
			withdraw("metadata", map[string]string{"k": x("ü", 500)}),
			withdraw("metadata", map[string]string{"k": x("v", 501)}), 202, 400, "INVALID_REQUEST", "metadata",
		},
		{
			"20 keys of a customer's metadata",
			patch("/customers/alice", "metadata", keys(20)), patch("/customers/alice", "metadata", keys(21)), 200, 400,
			"INVALID_REQUEST", "metadata",
		},
		{
			"a customer's metadata key of 40",
			patch("/customers/alice", "metadata", map[string]string{x("k", 40): "v"}),
			patch("/customers/alice", "metadata", map[string]string{x("k", 41): "v"}), 200, 400, "INVALID_REQUEST",
			"metadata",
		},
		{
			"a customer's metadata value of 500",
			patch("/customers/alice", "metadata", map[string]string{"k": x("v", 500)}),
			patch("/customers/alice", "metadata", map[string]string{"k": x("v", 501)}), 200, 400, "INVALID_REQUEST",
			"metadata",
		},
		{
			"a transfer's metadata",
			post("/transfers", "idempotencyKey", "tm", "mintId", usdc, "amount", "1", "from", party(alice), "to",
				party("c"), "metadata", keys(20)),
			post("/transfers", "idempotencyKey", "tn", "mintId", usdc, "amount", "1", "from", party(alice), "to",
				party("c"), "metadata", keys(21)),
			201, 400, "INVALID_REQUEST", "metadata",
		},
		{
			"idempotencyKey of 255",
			withdraw("idempotencyKey", x("~", 255)), withdraw("idempotencyKey", x("k", 256)), 202, 400,
			"INVALID_REQUEST", "idempotencyKey",
		},
		{
			"idempotencyKey of 1",
			withdraw("idempotencyKey", "!"), withdraw("idempotencyKey", "\x7f"), 202, 400, "INVALID_REQUEST",
			"idempotencyKey",
		},
		{
			"a transfer's key of 255",
			post("/transfers", "idempotencyKey", x("k", 255), "mintId", usdc, "amount", "1", "from", party(alice), "to",
				party("c")),
			post("/transfers", "idempotencyKey", x("k", 256), "mintId", usdc, "amount", "1", "from", party(alice), "to",
				party("c")),
			201, 400, "INVALID_REQUEST", "idempotencyKey",
		},
		{
			"reference of 255",
			withdraw("reference", x("r", 255)), withdraw("reference", x("r", 256)), 202, 400, "INVALID_REQUEST",
			"reference",
		},
		{
			"the largest amount",
			withdraw("amount", "115792089237316195423570985008687907853269984665640564039457584007913129639935"),
			withdraw("amount", "115792089237316195423570985008687907853269984665640564039457584007913129639936"), 422,
			400, "INVALID_AMOUNT", "amount",
		},
		{
			"an amount of 78 digits",
			withdraw("amount", "1"+x("0", 77)), withdraw("amount", "1"+x("0", 78)), 422, 400, "INVALID_AMOUNT",
			"amount",
		},
		{
			"the smallest transfer",
			post("/transfers", "idempotencyKey", "t1", "mintId", usdc, "amount", "1", "from", party(alice), "to",
				party("c")),
			post("/transfers", "idempotencyKey", "t0", "mintId", usdc, "amount", "0", "from", party(alice), "to",
				party("c")),
			201, 400, "INVALID_AMOUNT", "amount",
		},
		{
			"the smallest withdrawal",
			withdraw("amount", "10"), withdraw("amount", "9"), 202, 400, "AMOUNT_BELOW_MINIMUM", "amount",
		},
		{
			"6 decimals",
			withdraw("useDecimal", true, "amount", "0.000010"), withdraw("useDecimal", true, "amount", "0.0000100"),
			202, 400, "INVALID_AMOUNT", "amount",
		},
		{
			"an address of 42",
			withdraw("toAddress", stranger), withdraw("toAddress", stranger+x("0", 87)), 202, 400, "INVALID_ADDRESS",
			"toAddress",
		},
		{"limit 200", get("/customers?limit=200"), get("/customers?limit=201"), 200, 400, "INVALID_REQUEST", "limit"},
		{"limit 1", get("/events?limit=1"), get("/events?limit=0"), 200, 400, "INVALID_REQUEST", "limit"},
		{"limit of mints", get("/mints?limit=200"), get("/mints?limit=201"), 200, 400, "INVALID_REQUEST", "limit"},
		{
			"filter by a customerId of 128",
			get("/transfers?customerId=" + x("a", 128)), get("/transfers?customerId=" + x("a", 129)), 200, 400,
			"INVALID_REQUEST", "customerId",
		},
		{
			"filter by an address of 128",
			get("/deposits?address=" + x("a", 128)), get("/deposits?address=" + x("a", 129)), 200, 400,
			"INVALID_REQUEST", "address",
		},
		{
			"filter by a hash of 128",
			get("/withdrawals?txHash=" + x("a", 128)), get("/withdrawals?txHash=" + x("a", 129)), 200, 400,
			"INVALID_REQUEST", "txHash",
		},
		{
			"filter by a reference of 255",
			get("/withdrawals?reference=" + x("a", 255)), get("/withdrawals?reference=" + x("a", 256)), 200, 400,
			"INVALID_REQUEST", "reference",
		},
		{
			"a query of 4096 bytes",
			get("/withdrawals?createdAfter=2026-01-31T12:00:00." + x(
				"0", 4096-len("createdAfter=2026-01-31T12:00:00.Z"),
			) + "Z"),
			get("/withdrawals?createdAfter=2026-01-31T12:00:00." + x(
				"0", 4097-len("createdAfter=2026-01-31T12:00:00.Z"),
			) + "Z"),
			200, 400, "INVALID_REQUEST", "",
		},
		{
			"a reason of 500",
			post("/customers/alice/freeze", "reason", x("ü", 500)),
			post("/customers/alice/freeze", "reason", x("r", 501)), 200, 400, "INVALID_REQUEST", "reason",
		},
	} {
		method, path, body := c.edge()
		if got := h.call(h.one, method, path, body); got.status != c.taken {
			t.Errorf("%s: got %v %s, want %v", c.name, got.status, got.raw, c.taken)
		}
		before := h.rowCounts()
		method, path, body = c.beyond()
		h.wantRefusal("beyond "+c.name, h.call(h.one, method, path, body), c.status, c.code, c.param)
		if got := h.rowCounts(); got != before {
			t.Errorf("beyond %s: got the rows %v, want %v", c.name, got, before)
		}
	}
	h.wantStatus(h.call(h.one, "POST", "/customers/alice/unfreeze", nil), 200)

	// A body of 64 KB, spaces and all.
	raw, err := json.Marshal(payment("idempotencyKey", key()))
	if err != nil {
		t.Fatal(err)
	}
	full := string(raw) + x(" ", kernel.BodyBytesMax-len(raw))
	h.wantStatus(h.call(h.one, "POST", "/withdraw", full), 202)
	h.wantRefusal("beyond 64 KB", h.call(h.one, "POST", "/withdraw", full+" "), 413, "BODY_TOO_LARGE", "")

	// Ten endpoints.
	for range 10 {
		h.wantStatus(h.call(h.one, "POST", "/webhook-endpoints", map[string]any{"url": "https://example.com/hook"}),
			201)
	}
	h.wantRefusal(
		"an eleventh endpoint",
		h.call(h.one, "POST", "/webhook-endpoints", map[string]any{"url": "https://example.com/hook"}), 409,
		"INVALID_STATE", "",
	)
}

func party(customerID string) map[string]any { return map[string]any{"customerId": customerID} }

func request(method, path string, members []any) func() (string, string, any) {
	body := map[string]any{}
	for i := 0; i < len(members); i += 2 {
		body[members[i].(string)] = members[i+1]
	}
	return func() (string, string, any) { return method, path, body }
}

func post(path string, members ...any) func() (string, string, any) {
	return request("POST", path, members)
}

func patch(path string, members ...any) func() (string, string, any) {
	return request("PATCH", path, members)
}

func get(path string) func() (string, string, any) {
	return func() (string, string, any) { return "GET", path, nil }
}
