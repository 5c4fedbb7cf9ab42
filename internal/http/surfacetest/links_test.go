package surfacetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// linkBody returns the body of a payment link of one product with some members changed; nil removes one.
func linkBody(key, productID string, change ...any) map[string]any {
	body := map[string]any{
		"lineItems": []any{map[string]any{"productId": productID}}, "idempotencyKey": key,
	}
	for i := 0; i < len(change); i += 2 {
		if body[change[i].(string)] = change[i+1]; change[i+1] == nil {
			delete(body, change[i].(string))
		}
	}
	return body
}

// makeLink makes a product and a payment link that sells it, and returns the link's id.
func (h *testEnv) makeLink(who tenant, key string, change ...any) string {
	h.t.Helper()
	productID := h.makeProduct(who, "of-"+key)
	return h.wantStatus(h.call(who, "POST", "/payment-links", linkBody(key, productID, change...)), 201).text("linkId")
}

// sellLink makes a checkout of a payment link, as its page does, and returns the link's id.
func (h *testEnv) sellLink(who tenant, linkID string) string {
	h.t.Helper()
	slug := h.wantStatus(h.call(who, "GET", "/payment-links/"+linkID, nil), 200).text("slug")
	public, err := h.conf.Checkouts.PublicLink(h.t.Context(), slug)
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.conf.Checkouts.CheckoutOfLink(h.t.Context(), slug, nil, public.Nonce); err != nil {
		h.t.Fatal(err)
	}
	return linkID
}

func (h *testEnv) linkCounts() (counts string) {
	h.t.Helper()
	err := pgtest.OwnerPool(h.t, h.db).QueryRow(h.t.Context(), `
		SELECT format('links %s, audit %s, events %s', (SELECT string_agg(l::text, ' ') FROM payment_links l),
			(SELECT count(*) FROM audit_log), (SELECT count(*) FROM events))`).Scan(&counts)
	if err != nil {
		h.t.Fatal(err)
	}
	return counts
}

// A payment link has every field in the answer, in the list and in the table, and its key finds it again. Rules CO-60,
// CO-61 and IDEM-5.
func TestAPaymentLinkIsMadeAndShown(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	gold := h.makeProduct(h.one, "gold", "maxQuantity", 9)
	body := linkBody("first", gold, "slug", "gold-2026", "maxCompleted", 3, "expiresAt", "2999-01-31T12:00:00+01:00",
		"afterText", "=1+1", "successUrl", "https://shop.example.com/ok",
		"lineItems", []any{map[string]any{"productId": gold, "quantityMin": 2, "quantityMax": 5}})
	made := h.wantStatus(h.call(h.one, "POST", "/payment-links", body), 201)
	id := made.text("linkId")
	want := map[string]any{
		"linkId": id, "url": "https://pay.example.com/p/gold-2026", "slug": "gold-2026", "status": "ACTIVE",
		"lineItems": []any{map[string]any{
			"productId": gold, "quantity": nil, "quantityMin": 2.0, "quantityMax": 5.0,
		}},
		"maxCompleted": 3.0, "completedCount": 0.0, "expiresAt": "2999-01-31T11:00:00.000Z", "afterText": "=1+1",
		"successUrl": "https://shop.example.com/ok", "idempotencyKey": "first", "createdAt": made.body["createdAt"],
		"updatedAt": made.body["createdAt"], "endedAt": nil,
	}
	if !strings.HasPrefix(id, "plink_") || !sameJSON(t, made.body, want) {
		t.Errorf("got %s, want %v", made.raw, want)
	}
	again := h.wantStatus(h.call(h.one, "POST", "/payment-links", body), 201)
	if again.text("linkId") != id || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("got %s, want the same link", again.raw)
	}
	h.wantRefusal("another limit", h.call(h.one, "POST", "/payment-links", linkBody("first", gold)), 409,
		"IDEMPOTENCY_CONFLICT", "idempotencyKey")
	for _, path := range []string{"/payment-links/" + id, "/payment-links?status=ACTIVE"} {
		got := h.wantStatus(h.call(h.one, "GET", path, nil), 200)
		if items := got.list(); items != nil {
			got.body = items[0]
		}
		if !sameJSON(t, got.body, want) {
			t.Errorf("%s: got %s, want %v", path, got.raw, want)
		}
	}
	if rows := h.cells(h.one, "/payment-links"); len(rows) != 1 || rows[0]["linkId"] != id ||
		rows[0]["productIds"] != gold || strings.HasPrefix(rows[0]["afterText"], "=") {
		t.Errorf("table: got %v, want the one without a formula", rows)
	}
	for query, n := range map[string]int{"": 1, "?status=PAUSED": 0, "?createdBefore=2020-01-01T00:00:00Z": 0} {
		if got := h.wantStatus(h.call(h.one, "GET", "/payment-links"+query, nil), 200).list(); len(got) != n {
			t.Errorf("payment-links%s: got %d, want %d", query, len(got), n)
		}
	}
	other := h.sellLink(h.one, h.makeLink(h.one, "other"))
	for linkID, n := range map[string]int{id: 0, other: 1, "plink_x": 0} {
		got := h.wantStatus(h.call(h.one, "GET", "/checkouts?linkId="+linkID, nil), 200).list()
		if len(got) != n || n == 1 && got[0]["linkId"] != other {
			t.Errorf("got %v, want %d checkouts of %s", got, n, linkID)
		}
	}
}

// What is wrong is refused with the name of the member, and nothing is written. Rule CO-61.
func TestAPaymentLinkThatIsWrongIsRefused(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	gold, foreign := h.makeProduct(h.one, "gold"), h.makeProduct(h.two, "theirs")
	archived := h.makeProduct(h.one, "archived")
	h.wantStatus(h.call(h.one, "DELETE", "/products/"+archived, nil), 200)
	linkID := h.makeLink(h.one, "whole")
	before := h.linkCounts()
	items := func(item map[string]any) []any { return []any{"lineItems", []any{item}} }
	for _, c := range []struct {
		status      int
		code, param string
		change      []any
	}{
		{400, "INVALID_REQUEST", "slug", []any{"slug", "admin"}},
		{400, "INVALID_REQUEST", "slug", []any{"slug", "zürich"}},
		{400, "INVALID_REQUEST", "slug", []any{"slug", strings.Repeat("a", 41)}},
		{400, "INVALID_REQUEST", "lineItems", []any{"lineItems", []any{}}},
		{400, "INVALID_REQUEST", "lineItems", []any{"lineItems", nil}},
		{400, "INVALID_REQUEST", "lineItems", items(map[string]any{"productId": gold, "quantity": 0})},
		{400, "INVALID_REQUEST", "lineItems", items(map[string]any{"productId": gold, "quantity": 2})},
		{404, "NOT_FOUND", "lineItems", items(map[string]any{"productId": foreign})},
		{409, "PRODUCT_ARCHIVED", "productId", items(map[string]any{"productId": archived})},
		{400, "INVALID_REQUEST", "maxCompleted", []any{"maxCompleted", 0}},
		{400, "INVALID_REQUEST", "expiresAt", []any{"expiresAt", "2020-01-01T00:00:00Z"}},
		{400, "INVALID_REQUEST", "expiresAt", []any{"expiresAt", "tomorrow"}},
		{400, "INVALID_REQUEST", "successUrl", []any{"successUrl", "javascript:alert(1)"}},
		{400, "INVALID_REQUEST", "successUrl", []any{"successUrl", "https://a:b@shop.example.com/"}},
		{400, "INVALID_REQUEST", "successUrl", []any{"successUrl", "https://shop.example.com/\r\nX: y"}},
		{400, "INVALID_REQUEST", "successUrl", []any{
			"successUrl", "https://shop.example.com/" + strings.Repeat("a", 4096),
		}},
		{400, "INVALID_REQUEST", "afterText", []any{"afterText", ""}},
		{400, "UNKNOWN_FIELD", "status", []any{"status", "PAUSED"}},
		{400, "UNKNOWN_FIELD", "orgId", []any{"orgId", "org_x"}},
	} {
		name := fmt.Sprint(c.change...)
		h.wantRefusal(name, h.call(h.one, "POST", "/payment-links", linkBody("k", gold, c.change...)), c.status, c.code,
			c.param)
	}
	for _, c := range []struct {
		code, param string
		body        map[string]any
	}{
		{"STATUS_NOT_PATCHABLE", "status", map[string]any{"status": "ENDED"}},
		{"UNKNOWN_FIELD", "slug", map[string]any{"slug": "another"}},
		{"UNKNOWN_FIELD", "lineItems", map[string]any{"lineItems": []any{}}},
		{"INVALID_REQUEST", "maxCompleted", map[string]any{"maxCompleted": -1}},
		{"INVALID_REQUEST", "expiresAt", map[string]any{"expiresAt": "2020-01-01T00:00:00Z"}},
	} {
		got := h.call(h.one, "PATCH", "/payment-links/"+linkID, c.body)
		h.wantRefusal(fmt.Sprint(c.body), got, 400, c.code, c.param)
	}
	if after := h.linkCounts(); after != before {
		t.Errorf("got %s, want %s as before", after, before)
	}
}

// A payment link is paused, resumed, changed and ended for good. Rule CO-65.
func TestAPaymentLinkIsPausedChangedAndEnded(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	id := h.makeLink(h.one, "k", "maxCompleted", 3)
	changed := h.wantStatus(h.call(h.one, "PATCH", "/payment-links/"+id, map[string]any{
		"maxCompleted": nil, "afterText": "Thank you.",
	}), 200)
	if changed.body["maxCompleted"] != nil || changed.text("afterText") != "Thank you." {
		t.Errorf("got %s, want the changed link", changed.raw)
	}
	for _, c := range []struct{ verb, status string }{
		{"pause", "PAUSED"},
		{"pause", "PAUSED"},
		{"resume", "ACTIVE"},
		{"resume", "ACTIVE"},
		{"end", "ENDED"},
		{"end", "ENDED"},
	} {
		got := h.wantStatus(h.call(h.one, "POST", "/payment-links/"+id+"/"+c.verb, nil), 200)
		if got.text("status") != c.status || (got.body["endedAt"] != nil) != (c.status == "ENDED") {
			t.Errorf("%s: got %s, want %s", c.verb, got.raw, c.status)
		}
	}
	for name, got := range map[string]reply{
		"resume": h.call(h.one, "POST", "/payment-links/"+id+"/resume", nil),
		"pause":  h.call(h.one, "POST", "/payment-links/"+id+"/pause", nil),
		"change": h.call(h.one, "PATCH", "/payment-links/"+id, map[string]any{"afterText": nil}),
	} {
		h.wantRefusal(name, got, 409, "INVALID_STATE", "")
	}
}
