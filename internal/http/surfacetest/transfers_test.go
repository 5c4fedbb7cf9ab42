package surfacetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// charge is a transfer that can be made.
func charge(key string, change ...any) map[string]any {
	body := map[string]any{
		"idempotencyKey": key, "mintId": usdc, "amount": "1000",
		"from": map[string]any{"customerId": alice}, "to": map[string]any{"product": "CUSTODIAL"},
	}
	for i := 0; i < len(change); i += 2 {
		body[change[i].(string)] = change[i+1]
	}
	return body
}

// Rules TR-1, TR-6, TR-7, IDEM-5.
func TestTransfersWorkTogether(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	made := h.wantStatus(h.call(
		h.one, "POST", "/transfers", charge("t1", "reference", "order-7", "metadata", map[string]string{"a": "b"}),
	), 201)
	id := made.text("transferId")
	if !strings.HasPrefix(id, "tr_") || made.text("amount") != "1000" || made.text("amountDecimal") != "0.001" ||
		made.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("got %s, want a transfer", made.raw)
	}
	again := charge("", "useDecimal", true, "amount", "0.001", "reference", "order-7")
	delete(again, "idempotencyKey")
	if got := h.wantStatus(
		h.call(h.one, "POST", "/transfers", again, "Idempotency-Key", "t1"), 201,
	); got.text("transferId") != id || got.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("replay by header: got %s, want %v", got.raw, id)
	}
	conflict := h.call(h.one, "POST", "/transfers", charge("t1", "amount", "1001"))
	h.wantRefusal("conflict", conflict, 409, "IDEMPOTENCY_CONFLICT", "idempotencyKey")
	if conflict.text("existingId") != id {
		t.Errorf("existingId: got %v, want %v", conflict.text("existingId"), id)
	}
	h.wantRefusal("the key of another order", h.call(h.one, "POST", "/transfers", charge("t1", "reference", "order-8")),
		409, "IDEMPOTENCY_CONFLICT", "idempotencyKey")
	h.wantRefusal("two keys", h.call(h.one, "POST", "/transfers", charge("t1"), "Idempotency-Key", "t2"), 400,
		"IDEMPOTENCY_KEY_MISMATCH", "idempotencyKey")
	h.wantStatus(h.call(h.one, "POST", "/transfers", charge(
		"t2",
		"from", map[string]any{"product": "CUSTODIAL"}, "to", map[string]any{"customerId": "bob"}, "amount", "400",
	)), 201)
	if got := h.wantStatus(h.call(h.one, "GET", "/transfers/"+id, nil), 200); got.text("transferId") != id ||
		got.text("reference") != "order-7" {
		t.Errorf("read: got %s, want %v", got.raw, id)
	}
	for query, want := range map[string]int{
		"": 2, "?idempotencyKey=t1": 1, "?customerId=alice": 1, "?customerId=bob&mintId=1": 1, "?product=CUSTODIAL": 2,
		"?product=CHECKOUT": 0, "?reference=order-7": 1,
		"?createdAfter=2020-01-01T00:00:00Z&createdBefore=2020-01-02T00:00:00Z": 0, "?limit=1": 1,
	} {
		if got := h.wantStatus(h.call(h.one, "GET", "/transfers"+query, nil), 200).list(); len(got) != want {
			t.Errorf("transfers%s: got %v, want %v", query, len(got), want)
		}
	}
	if got := h.wantStatus(h.call(h.one, "GET", "/customers/bob/balances", nil), 200).list(); len(got) != 1 ||
		got[0]["available"] != "400" {
		t.Errorf("balances of bob: got %v, want 400", got)
	}
	h.sequenced()
	if got := h.wantStatus(h.call(h.one, "GET", "/events?types=TRANSFER_COMPLETED", nil), 200).list(); len(got) != 2 ||
		got[0]["data"].(map[string]any)["transferId"] != id {
		t.Errorf("events: got %v, want two, of %v first", got, id)
	}
	h.wantRefusal("another's", h.call(h.two, "GET", "/transfers/"+id, nil), 404, "NOT_FOUND", "")
	if got := h.wantStatus(h.call(h.two, "GET", "/transfers", nil), 200).list(); len(got) != 0 {
		t.Errorf("another's list: got %v, want nothing", got)
	}
}

// The rows of the list of hostile inputs that a transfer can meet.
// Rules REQ-1, REQ-2, REQ-3, TR-3, TR-4, TR-5.
func TestHostileTransfersAreRefusedAndWriteNothing(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	with := func(name, value string) string {
		body := map[string]string{
			"mintId":         "1",
			"idempotencyKey": `"k"`, "amount": `"1000"`, "from": `{"customerId":"alice"}`,
			"to": `{"product":"CUSTODIAL"}`,
		}
		body[name] = value
		var b strings.Builder
		for i, k := range slices.Sorted(maps.Keys(body)) {
			if body[k] == "" {
				continue
			}
			if i > 0 && b.Len() > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%q:%s", k, body[k])
		}
		return "{" + b.String() + "}"
	}
	before := h.rowCounts()
	for _, c := range []struct {
		name, body string
		status     int
		code       string
		param      string
	}{
		{"H-01 number", with("amount", `5`), 400, "INVALID_AMOUNT", "amount"},
		{"H-01 null", with("amount", `null`), 400, "INVALID_AMOUNT", "amount"},
		{"H-03 negative", with("amount", `"-5"`), 400, "INVALID_AMOUNT", "amount"},
		{"H-04", with("amount", `"007"`), 400, "INVALID_AMOUNT", "amount"},
		{"H-06", with("amount", `"1.0"`), 400, "INVALID_AMOUNT", "amount"},
		{"exponent", with("amount", `"1e3"`), 400, "INVALID_AMOUNT", "amount"},
		{"zero", with("amount", `"0"`), 400, "INVALID_AMOUNT", "amount"},
		{"H-09 Arabic-Indic", with("amount", `"٥"`), 400, "INVALID_AMOUNT", "amount"},
		{
			"H-10 2^256",
			with("amount", `"115792089237316195423570985008687907853269984665640564039457584007913129639936"`), 400,
			"INVALID_AMOUNT", "amount",
		},
		{"H-10 1 MB", with("amount", `"`+strings.Repeat("9", 1<<20)+`"`), 413, "BODY_TOO_LARGE", ""},
		{"H-12", with("amount", `"1000001"`), 422, "INSUFFICIENT_BALANCE", "amount"},
		{"no key", with("idempotencyKey", ``), 400, "INVALID_REQUEST", "idempotencyKey"},
		{"null key", with("idempotencyKey", `null`), 400, "INVALID_REQUEST", "idempotencyKey"},
		{"empty key", with("idempotencyKey", `""`), 400, "INVALID_REQUEST", "idempotencyKey"},
		{"key with a space", with("idempotencyKey", `"a b"`), 400, "INVALID_REQUEST", "idempotencyKey"},
		{"key that is not ASCII", with("idempotencyKey", `"ключ"`), 400, "INVALID_REQUEST", "idempotencyKey"},
		{
			"key of 256",
			with("idempotencyKey", `"`+strings.Repeat("k", 256)+`"`), 400, "INVALID_REQUEST", "idempotencyKey",
		},
		{"mint as text", with("mintId", `"1"`), 400, "INVALID_REQUEST", "mintId"},
		{"mint 0", with("mintId", `0`), 400, "INVALID_REQUEST", "mintId"},
		{"no such mint", with("mintId", `99`), 400, "MINT_NOT_FOUND", "mintId"},
		{"mint beyond", with("mintId", `2147483648`), 400, "MINT_NOT_FOUND", "mintId"},
		{"from nobody", with("from", `{}`), 400, "INVALID_REQUEST", "from"},
		{"from null", with("from", `null`), 400, "INVALID_REQUEST", "from"},
		{"from text", with("from", `"alice"`), 400, "INVALID_REQUEST", "from"},
		{"from both", with("from", `{"customerId":"alice","product":"CHECKOUT"}`), 400, "INVALID_REQUEST", "from"},
		{"from a typo", with("from", `{"custmerId":"alice"}`), 400, "UNKNOWN_FIELD", "from.custmerId"},
		{"from twice", with("from", `{"customerId":"alice","customerId":"bob"}`), 400, "INVALID_JSON", "customerId"},
		{"a product in lower case", with("to", `{"product":"custodial"}`), 400, "INVALID_REQUEST", "to.product"},
		{"a product as number", with("to", `{"product":1}`), 400, "INVALID_REQUEST", "to.product"},
		{"a customer with NUL", with("to", `{"customerId":"a\u0000"}`), 400, "INVALID_REQUEST", "to.customerId"},
		{
			"a customer with a right-to-left mark",
			with("to", `{"customerId":"a\u202e"}`), 400, "INVALID_REQUEST", "to.customerId",
		},
		{"a customer not in NFC", with("to", `{"customerId":"e\u0301"}`), 400, "INVALID_REQUEST", "to.customerId"},
		{
			"a long customer",
			with("to", `{"customerId":"`+strings.Repeat("a", 129)+`"}`), 400, "INVALID_REQUEST", "to.customerId",
		},
		{"to itself", with("to", `{"customerId":"alice"}`), 400, "SAME_ACCOUNT", "to"},
		{"from a stranger", with("from", `{"customerId":"nobody"}`), 422, "INSUFFICIENT_BALANCE", "amount"},
		{"from an empty product", with("from", `{"product":"CHECKOUT"}`), 422, "INSUFFICIENT_BALANCE", "amount"},
		{"unknown field", with("fee", `"1"`), 400, "UNKNOWN_FIELD", "fee"},
		{"metadata of a number", with("metadata", `{"a":1}`), 400, "INVALID_REQUEST", "metadata"},
		{"metadata of null", with("metadata", `{"a":null}`), 400, "INVALID_REQUEST", "metadata"},
		{"reference with NUL", with("reference", `"\u0000"`), 400, "INVALID_REQUEST", "reference"},
		{"useDecimal as text", with("useDecimal", `"true"`), 400, "INVALID_REQUEST", "useDecimal"},
		{"useDecimal null", with("useDecimal", `null`), 400, "INVALID_REQUEST", "useDecimal"},
	} {
		h.wantRefusal(c.name, h.call(h.one, "POST", "/transfers", c.body), c.status, c.code, c.param)
	}
	if got := h.rowCounts(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
	for query, param := range map[string]string{
		"product=custodial": "product", "mintId=0": "mintId", "status=DONE": "status", "reference=%00": "reference",
	} {
		code := "INVALID_REQUEST"
		if param == "status" {
			code = "UNKNOWN_FIELD"
		}
		h.wantRefusal(query, h.call(h.one, "GET", "/transfers?"+query, nil), 400, code, param)
	}
}

// Rule TR-6.
func TestParallelReplaysAreOneTransfer(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ids := make([]string, 64)
	crowd(len(ids), func(i int) {
		got := h.call(h.one, "POST", "/transfers", charge("once", "amount", "1000000"))
		if got.status != 201 {
			t.Errorf("caller %d: got %v %s, want 201", i, got.status, got.raw)
		}
		ids[i] = got.text("transferId")
	})
	for i, id := range ids {
		if id != ids[0] {
			t.Errorf("caller %d: got %v, want %v", i, id, ids[0])
		}
	}
	if got := h.wantStatus(h.call(h.one, "GET", "/transfers", nil), 200).list(); len(got) != 1 {
		t.Errorf("got %d transfers, want 1", len(got))
	}
}
