package surfacetest

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"strings"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// imageOfOnePoint answers every address with the same image.
type imageOfOnePoint struct{}

// Get implements checkout.ImageSource.
func (imageOfOnePoint) Get(context.Context, string, string, int64) ([]byte, error) {
	var out bytes.Buffer
	err := png.Encode(&out, image.NewGray(image.Rect(0, 0, 1, 1)))
	return out.Bytes(), err
}

// productBody returns the body of a product with some members changed; nil removes one.
func productBody(key string, change ...any) map[string]any {
	body := map[string]any{
		"name": "Gold plan", "priceType": "FIXED", "price": "49.99", "acceptedMintIds": []int{usdc, eth},
		"idempotencyKey": key,
	}
	for i := 0; i < len(change); i += 2 {
		if body[change[i].(string)] = change[i+1]; change[i+1] == nil {
			delete(body, change[i].(string))
		}
	}
	return body
}

// makeProduct makes a product and returns its id.
func (h *testEnv) makeProduct(who tenant, key string, change ...any) string {
	h.t.Helper()
	return h.wantStatus(h.call(who, "POST", "/products", productBody(key, change...)), 201).text("productId")
}

// productCounts counts all rows that a request about products could have written.
func (h *testEnv) productCounts() (counts string) {
	h.t.Helper()
	err := pgtest.OwnerPool(h.t, h.db).QueryRow(h.t.Context(), `
		SELECT format('products %s, images %s, audit %s, events %s', (SELECT string_agg(p::text, ' ') FROM products p),
			(SELECT count(*) FROM product_images), (SELECT count(*) FROM audit_log), (SELECT count(*) FROM events))`,
	).Scan(&counts)
	if err != nil {
		h.t.Fatal(err)
	}
	return counts
}

// A product has every field of the contract, in the answer, in the list and in the table. Rules PROD-2 and PROD-3.
func TestAProductIsMadeAndShown(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	made := h.wantStatus(h.call(h.one, "POST", "/products", productBody("gold", "description", "1 month",
		"imageUrl", "https://shop.example.com/gold.png", "price", "50", "settlementMintId", usdc, "maxQuantity", 10,
		"successUrl", "https://shop.example.com/ok", "metadata", map[string]string{"sku": "=1+1"})), 201)
	id := made.text("productId")
	want := map[string]any{
		"productId": id, "name": "Gold plan", "description": "1 month",
		"imageUrl": "https://shop.example.com/gold.png", "status": "ACTIVE", "priceType": "FIXED", "currency": "USD",
		"price": "50.00", "minPrice": nil, "maxPrice": nil, "acceptedMintIds": []any{float64(usdc), float64(eth)},
		"settlementMintId": float64(usdc), "maxQuantity": 10.0, "underpaymentToleranceBps": 50.0,
		"overpaymentPolicy": "CREDIT", "latePaymentPolicy": "ACCEPT_IF_WITHIN_TOLERANCE",
		"successUrl": "https://shop.example.com/ok", "cancelUrl": nil, "onePerReference": false,
		"metadata": map[string]any{"sku": "=1+1"}, "idempotencyKey": "gold", "createdAt": made.body["createdAt"],
		"updatedAt": made.body["createdAt"], "archivedAt": nil,
	}
	if !strings.HasPrefix(id, "prod_") || !sameJSON(t, made.body, want) ||
		made.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("got %s, want %v", made.raw, want)
	}
	for _, path := range []string{"/products/" + id, "/products?status=ACTIVE"} {
		got := h.wantStatus(h.call(h.one, "GET", path, nil), 200)
		if items := got.list(); items != nil {
			got.body = items[0]
		}
		if !sameJSON(t, got.body, want) {
			t.Errorf("%s: got %s, want %v", path, got.raw, want)
		}
	}
	if rows := h.cells(h.one, "/products"); len(rows) != 1 || rows[0]["productId"] != id ||
		rows[0]["acceptedMintIds"] != fmt.Sprintf("%d %d", usdc, eth) || rows[0]["price"] != "50.00" {
		t.Errorf("table: got %v, want the one", rows)
	}
	// A cell that a spreadsheet would take for a formula is text.
	h.makeProduct(h.one, "formula", "name", `=HYPERLINK("https://evil.example")`)
	for _, row := range h.cells(h.one, "/products") {
		if strings.HasPrefix(row["name"], "=") {
			t.Errorf("got the cell %q, want no formula", row["name"])
		}
	}
	for query, n := range map[string]int{
		"": 2, "?status=ACTIVE": 2, "?status=ARCHIVED": 0, "?createdBefore=2020-01-01T00:00:00Z": 0,
	} {
		if got := h.wantStatus(h.call(h.one, "GET", "/products"+query, nil), 200).list(); len(got) != n {
			t.Errorf("products%s: got %d, want %d", query, len(got), n)
		}
	}
	h.wantRefusal(
		"another status", h.call(h.one, "GET", "/products?status=active", nil), 400, "INVALID_REQUEST", "status",
	)
}

// What is wrong is refused with the name of the member, and nothing is written. Rules PROD-2, PROD-4, PROD-5, PROD-6
// and PROD-7.
func TestAProductThatIsWrongIsRefused(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	before := h.productCounts()
	for _, c := range []struct {
		code, param string
		change      []any
	}{
		{"INVALID_AMOUNT", "price", []any{"price", 49.99}}, // a JSON number
		{"INVALID_AMOUNT", "price", []any{"price", "1e3"}},
		{"INVALID_AMOUNT", "price", []any{"price", "0"}},
		{"INVALID_AMOUNT", "price", []any{"price", "1.001"}},
		{"INVALID_REQUEST", "price", []any{"price", nil}},
		{"INVALID_REQUEST", "minPrice", []any{"priceType", "OPEN", "price", nil}},
		{"INVALID_REQUEST", "name", []any{"name", nil}},
		{"INVALID_REQUEST", "name", []any{"name", 7}},
		{"INVALID_REQUEST", "acceptedMintIds", []any{"acceptedMintIds", nil}},
		{"INVALID_REQUEST", "acceptedMintIds", []any{"acceptedMintIds", []int{}}},
		{"INVALID_REQUEST", "acceptedMintIds", []any{"acceptedMintIds", []int{usdc, usdc}}},
		{"INVALID_REQUEST", "acceptedMintIds", []any{"acceptedMintIds", []string{"1"}}},
		{"INVALID_REQUEST", "acceptedMintIds", []any{"acceptedMintIds", []int{closed}}},
		{"MINT_NOT_FOUND", "acceptedMintIds", []any{"acceptedMintIds", []int{usdc, 4711}}},
		{"INVALID_REQUEST", "settlementMintId", []any{"settlementMintId", closed}},
		{"INVALID_REQUEST", "maxQuantity", []any{"maxQuantity", 0}},
		{"INVALID_REQUEST", "maxQuantity", []any{"maxQuantity", 1.5}},
		{"INVALID_REQUEST", "successUrl", []any{"successUrl", "javascript:alert(1)"}},
		{"INVALID_REQUEST", "successUrl", []any{"successUrl", "https://a@shop.example.com"}},
		{"INVALID_REQUEST", "cancelUrl", []any{"cancelUrl", "https://shop.example.com/\r\nSet-Cookie: a=b"}},
		{"INVALID_REQUEST", "imageUrl", []any{"imageUrl", "http://169.254.169.254/latest/meta-data"}},
		{"INVALID_REQUEST", "metadata", []any{"metadata", map[string]string{"": "x"}}},
		{"UNKNOWN_FIELD", "status", []any{"status", "ARCHIVED"}},
		{"UNKNOWN_FIELD", "orgId", []any{"orgId", "org_x"}},
		{"UNKNOWN_FIELD", "Name", []any{"Name", "x"}},
		{"INVALID_REQUEST", "idempotencyKey", []any{"idempotencyKey", "a b"}},
	} {
		name := fmt.Sprint(c.change...)
		h.wantRefusal(name, h.call(h.one, "POST", "/products", productBody("k", c.change...)), 400, c.code, c.param)
	}
	h.wantRefusal("two keys", h.call(h.one, "POST", "/products", productBody("k"), "Idempotency-Key", "other"), 400,
		"IDEMPOTENCY_KEY_MISMATCH", "idempotencyKey")
	if after := h.productCounts(); after != before {
		t.Errorf("rows: got %s, want %s", after, before)
	}
}

// A known key answers with its product before anything else can refuse the request. Rules PROD-1, IDEM-5.
func TestAKnownKeyAnswersWithItsProduct(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.allowKeys(h.one, true)
	reader, _ := h.key(h.one, "READ")
	id := h.makeProduct(h.one, "gold")
	h.wantStatus(h.call(h.one, "DELETE", "/products/"+id, nil), 200)
	before := h.productCounts()
	for name, got := range map[string]reply{
		"the same": h.call(h.one, "POST", "/products", productBody("gold")),
		"the key in a header": h.call(
			h.one, "POST", "/products", productBody("", "idempotencyKey", nil), "Idempotency-Key", "gold",
		),
		"other metadata": h.call(
			h.one, "POST", "/products", productBody("gold", "metadata", map[string]string{"a": "b"}),
		),
		"a key that only reads": h.call(
			reader, "POST", "/products", productBody("gold", "price", "49.990"),
		),
	} {
		if got.status != 201 || got.text("productId") != id || got.text("status") != "ARCHIVED" ||
			got.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: got %d %s %v, want the archived product", name, got.status, got.raw, got.header)
		}
	}
	for name, body := range map[string]any{
		"another price": productBody("gold", "price", "50"), "a wrong price": productBody("gold", "price", "0"),
		"an unknown member": productBody("gold", "colour", "red"),
	} {
		got := h.call(h.one, "POST", "/products", body)
		h.wantRefusal(name, got, 409, "IDEMPOTENCY_CONFLICT", "idempotencyKey")
		if got.text("existingId") != id {
			t.Errorf("%s: got %s, want the existing product named", name, got.raw)
		}
	}
	if after := h.productCounts(); after != before {
		t.Errorf("rows: got %s, want %s", after, before)
	}
	if other := h.makeProduct(h.two, "gold"); other == id {
		t.Error("the key of another organization found the product")
	}
}

// A change replaces what it names; the state is no part of it. Rules PROD-8 and PROD-9.
func TestAProductIsChangedArchivedAndReactivated(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	id := h.makeProduct(h.one, "gold", "description", "1 month", "imageUrl", "https://shop.example.com/gold.png")
	path := "/products/" + id
	before := h.productCounts()
	for name, c := range map[string]struct {
		body        map[string]any
		code, param string
	}{
		"the status":            {map[string]any{"status": "ARCHIVED"}, "STATUS_NOT_PATCHABLE", "status"},
		"the status, with more": {map[string]any{"colour": 1, "status": nil}, "STATUS_NOT_PATCHABLE", "status"},
		"an unknown member":     {map[string]any{"productId": id}, "UNKNOWN_FIELD", "productId"},
		"no name":               {map[string]any{"name": nil}, "INVALID_REQUEST", "name"},
		"no quantity":           {map[string]any{"maxQuantity": nil}, "INVALID_REQUEST", "maxQuantity"},
		"quantity 0":            {map[string]any{"maxQuantity": 0}, "INVALID_REQUEST", "maxQuantity"},
		"a bound":               {map[string]any{"minPrice": "1"}, "INVALID_REQUEST", "minPrice"},
		"no price":              {map[string]any{"price": nil}, "INVALID_REQUEST", "price"},
	} {
		h.wantRefusal(name, h.call(h.one, "PATCH", path, c.body), 400, c.code, c.param)
	}
	if after := h.productCounts(); after != before {
		t.Errorf("rows: got %s, want %s", after, before)
	}
	changed := h.wantStatus(h.call(h.one, "PATCH", path, map[string]any{
		"priceType": "OPEN", "price": nil, "minPrice": "1", "maxPrice": "9.5", "description": nil,
		"onePerReference": true, "underpaymentToleranceBps": 0, "latePaymentPolicy": "HOLD",
	}), 200)
	if changed.body["price"] != nil || changed.text("minPrice") != "1.00" || changed.text("maxPrice") != "9.50" ||
		changed.body["description"] != nil || changed.body["onePerReference"] != true ||
		changed.body["underpaymentToleranceBps"] != 0.0 || changed.text("name") != "Gold plan" ||
		changed.text("imageUrl") != "https://shop.example.com/gold.png" || changed.text("status") != "ACTIVE" {
		t.Errorf("got %s, want what was named replaced", changed.raw)
	}
	archived := h.wantStatus(h.call(h.one, "DELETE", path, nil), 200)
	again := h.wantStatus(h.call(h.one, "DELETE", path, nil), 200)
	if archived.text("status") != "ARCHIVED" || archived.body["archivedAt"] == nil ||
		!sameJSON(t, again.body, archived.body) {
		t.Errorf("got %s and %s, want the same archived product", archived.raw, again.raw)
	}
	if got := h.wantStatus(h.call(h.one, "GET", "/products?status=ARCHIVED", nil), 200).list(); len(got) != 1 {
		t.Errorf("got %d archived products, want one", len(got))
	}
	got := h.wantStatus(h.call(h.one, "PATCH", path, map[string]any{"name": "Silver"}), 200)
	if got.text("name") != "Silver" || got.text("status") != "ARCHIVED" {
		t.Errorf("got %s, want the archived product changed", got.raw)
	}
	active := h.wantStatus(h.call(h.one, "POST", path+"/unarchive", nil), 200)
	again = h.wantStatus(h.call(h.one, "POST", path+"/unarchive", nil), 200)
	if active.text("status") != "ACTIVE" || active.body["archivedAt"] != nil || !sameJSON(t, again.body, active.body) {
		t.Errorf("got %s and %s, want the same active product", active.raw, again.raw)
	}
}

// Two people who change different fields at once both have what they wanted. Rule PROD-9.
func TestConcurrentChangesOfAProductAreBothKept(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	path := "/products/" + h.makeProduct(h.one, "gold")
	var group sync.WaitGroup
	for i := range 6 {
		for _, body := range []map[string]any{
			{"maxQuantity": 100 + i}, {"underpaymentToleranceBps": 200 + i}, {"name": fmt.Sprint("Plan ", i)},
		} {
			group.Go(func() {
				if got := h.call(h.one, "PATCH", path, body); got.status != 200 {
					t.Errorf("got %d %s, want 200", got.status, got.raw)
				}
			})
		}
	}
	group.Wait()
	got := h.wantStatus(h.call(h.one, "GET", path, nil), 200)
	if got.body["maxQuantity"].(float64) < 100 || got.body["underpaymentToleranceBps"].(float64) < 200 ||
		!strings.HasPrefix(got.text("name"), "Plan") {
		t.Errorf("got %s, want a change of each field", got.raw)
	}
}

// Rules PROD-10, PROD-11.
func TestAProductIsItsOrganizationsAlone(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.allowKeys(h.one, true)
	path := "/products/" + h.makeProduct(h.one, "gold")
	before := h.productCounts()
	for _, target := range []string{path, "/products/prod_01J9ZW3M8Q4S5T6V7W8X9YZABC", "/products/..%2Fx"} {
		for _, r := range []reply{
			h.call(h.two, "GET", target, nil), h.call(h.two, "PATCH", target, map[string]any{"name": "theirs"}),
			h.call(h.two, "DELETE", target, nil), h.call(h.two, "POST", target+"/unarchive", nil),
		} {
			if r.status != 404 {
				t.Errorf("%s: got %d %s, want 404", target, r.status, r.raw)
			}
		}
	}
	if got := h.wantStatus(h.call(h.two, "GET", "/products", nil), 200).list(); len(got) != 0 {
		t.Errorf("got %v, want an empty list", got)
	}
	if after := h.productCounts(); after != before {
		t.Errorf("rows: got %s, want %s", after, before)
	}
	writer, _ := h.key(h.one, "NO_MONEY_OUT")
	h.wantStatus(h.call(writer, "PATCH", path, map[string]any{"name": "Silver"}), 200)
	reader, _ := h.key(h.one, "READ")
	h.wantStatus(h.call(reader, "GET", path, nil), 200)
	h.wantRefusal("a key that reads", h.call(reader, "DELETE", path, nil), 403, "SCOPE_MISSING", "")
}
