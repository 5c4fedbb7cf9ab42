package surfacetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/webhook"
)

// checkoutBody returns the body of a checkout of something that is no product, with some members changed; nil removes
// one.
func checkoutBody(key string, change ...any) map[string]any {
	body := map[string]any{
		"name": "Invoice 77", "price": "49.99", "acceptedMintIds": []int{usdc, eth}, "idempotencyKey": key,
	}
	for i := 0; i < len(change); i += 2 {
		if body[change[i].(string)] = change[i+1]; change[i+1] == nil {
			delete(body, change[i].(string))
		}
	}
	return body
}

// soldBody returns the body of a checkout of products.
func soldBody(key string, change ...any) map[string]any {
	body := checkoutBody(key, append([]any{"name", nil, "price", nil, "acceptedMintIds", nil}, change...)...)
	return body
}

// makeCheckout makes a checkout and returns its id.
func (h *testEnv) makeCheckout(who tenant, key string, change ...any) string {
	h.t.Helper()
	return h.wantStatus(h.call(who, "POST", "/checkouts", checkoutBody(key, change...)), 201).text("checkoutId")
}

// openOption opens an option of a checkout.
func (h *testEnv) openOption(who tenant, checkoutID string, mintID int) reply {
	h.t.Helper()
	return h.wantStatus(h.call(who, "POST", "/checkouts/"+checkoutID+"/options", map[string]any{"mintId": mintID}), 200)
}

// payCheckout lets USDC arrive for a checkout whose option is open, as the walk of the chain writes it, and settles the
// checkout. It returns the deposit.
func (h *testEnv) payCheckout(who tenant, checkoutID string, units uint64, status outcome.PaymentStatus) string {
	h.t.Helper()
	depositID := fmt.Sprintf("dep_%s%d", strings.TrimPrefix(checkoutID, "co_")[:20], units%1_000_000)
	_, err := pgtest.OwnerPool(h.t, h.db).Exec(h.t.Context(), fmt.Sprintf(`
		BEGIN; SET LOCAL session_replication_role = replica;
		INSERT INTO deposits (deposit_id, org_id, wallet_id, purpose, product, mint_id, chain, contract, amount,
			address, from_address, tx_hash, kind, position, log_index, height, block_hash, proof_id, status,
			chain_status, created_at, credited_at, checkout_id)
		SELECT '%[2]s', o.org_id, w.wallet_id, w.purpose, 'CHECKOUT', %[3]d, 'ETHEREUM', '%[4]s', %[5]d, w.address,
			'0xpayer', '%[2]s', 'TOKEN', '1', 1, 1, 'h', 1, 'CREDITED', 'FINALIZED', now(), now(), o.checkout_id
		FROM checkout_options o JOIN wallets w ON w.wallet_id = o.wallet_id
		WHERE o.checkout_id = '%[1]s' AND o.mint_id = %[3]d;
		COMMIT`, checkoutID, depositID, usdc, usdcAddress, units))
	if err != nil {
		h.t.Fatal(err)
	}
	h.arrive(who, checkoutID, depositID, units, status, true)
	return depositID
}

// arrive tells the checkout of a deposit, and settles it.
func (h *testEnv) arrive(
	who tenant, checkoutID, depositID string, units uint64, status outcome.PaymentStatus, isNew bool,
) {
	h.t.Helper()
	mintID := usdc
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return h.conf.Checkouts.OnArrivals(ctx, tx, []checkout.Arrival{{
			DepositID: depositID, OrgID: who.id, CheckoutID: checkoutID, MintID: &mintID, Chain: chain.Ethereum,
			Amount: money.Units(units), Tx: chain.TxHash(depositID), IsNew: isNew, Status: status,
			BlockTime: time.Now(),
		}})
	})
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.conf.Checkouts.Settle(h.t.Context(), checkoutID); err != nil {
		h.t.Fatal(err)
	}
}

// checkoutCounts shows all rows that a request about checkouts could have written.
func (h *testEnv) checkoutCounts() (counts string) {
	h.t.Helper()
	err := pgtest.OwnerPool(h.t, h.db).QueryRow(h.t.Context(), `
		SELECT format('checkouts %s, options %s, quotes %s, wallets %s, audit %s, events %s',
			(SELECT string_agg(c::text, ' ' ORDER BY checkout_id) FROM checkouts c),
			(SELECT count(*) FROM checkout_options), (SELECT count(*) FROM checkout_quotes),
			(SELECT count(*) FROM wallets), (SELECT count(*) FROM audit_log),
			(SELECT count(*) FROM events))`).Scan(&counts)
	if err != nil {
		h.t.Fatal(err)
	}
	return counts
}

// optionOf returns the option of a mint in the answer with a checkout.
func optionOf(t testing.TB, got reply, mintID int) (option webhook.PaymentOption) {
	t.Helper()
	var c webhook.Checkout
	if err := json.Unmarshal(got.raw, &c); err != nil {
		t.Fatal(err)
	}
	for _, option := range c.PaymentOptions {
		if option.MintID == mintID {
			return option
		}
	}
	t.Fatalf("got %s, want an option of mint %d", got.raw, mintID)
	return option
}

// A checkout has every field of the contract, in the answer, in the list and in the table, and makes no address until
// an option is opened. Rule CO-2.
func TestACheckoutIsMadeAndShown(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	gold := h.makeProduct(h.one, "gold", "maxQuantity", 5, "successUrl", "https://shop.example.com/ok")
	made := h.wantStatus(h.call(h.one, "POST", "/checkouts", soldBody("first", "lineItems", []any{
		map[string]any{"productId": gold, "quantity": 2},
	}, "reference", "order-77", "customerId", "user_42", "customerEmail", "ada@example.com",
		"metadata", map[string]string{"sku": "=1+1"})), 201)
	id := made.text("checkoutId")
	unopened := func(mintID int) map[string]any {
		return map[string]any{
			"mintId": float64(mintID), "address": nil, "memo": nil, "amount": nil, "rate": nil, "rateExpiresAt": nil,
			"paymentUri": nil, "sharedAddress": nil, "reference": nil, "addressProof": nil, "sharedAddressProof": nil,
		}
	}
	want := map[string]any{
		"checkoutId": id, "url": "https://pay.example.com/c/" + id + "#k=key", "status": "OPEN", "exception": "NONE",
		"details": map[string]any{"exceptions": []any{}},
		"lineItems": []any{map[string]any{
			"productId": gold, "name": "Gold plan", "unitPrice": "49.99", "quantity": 2.0,
		}},
		"currency": "USD", "amountDue": "99.98", "amountPaid": "0.00", "amountPaidUsd": "0.00",
		"amountRemaining": "99.98", "amountOverpaid": "0.00",
		"acceptedMintIds": []any{float64(usdc), float64(eth)},
		"paymentOptions":  []any{unopened(usdc), unopened(eth)}, "payments": []any{}, "refund": nil,
		"customerId": "user_42", "customerEmail": "ada@example.com", "reference": "order-77", "onePerReference": false,
		"metadata": map[string]any{"sku": "=1+1"}, "idempotencyKey": "first",
		"successUrl": "https://shop.example.com/ok", "cancelUrl": nil, "acceptedBy": nil, "acceptReason": nil,
		"linkId":    nil,
		"expiresAt": made.body["expiresAt"], "cancelledAt": nil, "completedAt": nil,
		"createdAt": made.body["createdAt"], "updatedAt": made.body["createdAt"],
	}
	if !strings.HasPrefix(id, "co_") || !sameJSON(t, made.body, want) || made.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("got %s, want %v", made.raw, want)
	}
	for _, path := range []string{
		"/checkouts/" + id, "/checkouts?status=OPEN&customerId=user_42", "/checkouts?reference=order-77",
	} {
		got := h.wantStatus(h.call(h.one, "GET", path, nil), 200)
		if items := got.list(); items != nil {
			got.body = items[0]
		}
		if !sameJSON(t, got.body, want) {
			t.Errorf("%s: got %s, want %v", path, got.raw, want)
		}
	}
	adHoc := h.wantStatus(h.call(h.one, "POST", "/checkouts", checkoutBody("second", "expiresInSeconds", 300,
		"name", `=HYPERLINK("https://evil.example")`)), 201)
	var created, expires webhook.Time
	for name, moment := range map[string]*webhook.Time{"createdAt": &created, "expiresAt": &expires} {
		if err := moment.UnmarshalJSON([]byte(`"` + adHoc.text(name) + `"`)); err != nil {
			t.Fatal(err)
		}
	}
	if got := expires.Sub(created.Time); got != 5*time.Minute {
		t.Errorf("got %s to pay, want 5m", got)
	}
	h.wantStatus(h.call(h.one, "POST", "/checkouts", soldBody("third", "productId", gold)), 201)
	for query, n := range map[string]int{
		"": 3, "?status=OPEN": 3, "?status=EXPIRED": 0, "?exception=OVERPAID": 0, "?customerId=user_4": 0,
		"?reference=order-7": 0, "?createdBefore=2020-01-01T00:00:00Z": 0,
	} {
		if got := h.wantStatus(h.call(h.one, "GET", "/checkouts"+query, nil), 200).list(); len(got) != n {
			t.Errorf("checkouts%s: got %d, want %d", query, len(got), n)
		}
	}
	rows := h.cells(h.one, "/checkouts?order=asc")
	if len(rows) != 3 || rows[0]["checkoutId"] != id || rows[0]["amountDue"] != "99.98" ||
		rows[0]["items"] != "2 x Gold plan" || rows[0]["reference"] != "order-77" {
		t.Errorf("table: got %v, want the three", rows)
	}
	for _, row := range rows {
		if row["url"] != "" {
			t.Errorf("got the row %v, want no address of a page", row)
		}
	}
	for query, param := range map[string]string{"status=open": "status", "exception=NONE": "exception"} {
		h.wantRefusal(query, h.call(h.one, "GET", "/checkouts?"+query, nil), 400, "INVALID_REQUEST", param)
	}
}

// What is wrong is refused with the name of the member, and nothing is written: no row, no address, no price.
// Rules CO-2, CO-3, CO-4 and CO-25.
func TestACheckoutThatIsWrongIsRefused(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	gold := h.makeProduct(h.one, "gold", "maxQuantity", 5)
	tip := h.makeProduct(h.one, "tip", "priceType", "OPEN", "price", nil, "minPrice", "5", "maxPrice", "50")
	once := h.makeProduct(h.one, "once", "onePerReference", true)
	coin := h.makeProduct(h.one, "coin", "currency", "ETH", "price", "1", "acceptedMintIds", []int{eth})
	archived := h.makeProduct(h.one, "archived")
	h.wantStatus(h.call(h.one, "DELETE", "/products/"+archived, nil), 200)
	foreign := h.makeProduct(h.two, "foreign")
	item := func(productID string, more ...any) []any {
		one := map[string]any{"productId": productID}
		for i := 0; i < len(more); i += 2 {
			one[more[i].(string)] = more[i+1]
		}
		return []any{one}
	}
	many := make([]any, 51)
	for i := range many {
		many[i] = item(gold)[0]
	}
	longURL, manyKeys := "https://shop.example.com/"+strings.Repeat("a", 4096), map[string]string{}
	for i := range 21 {
		manyKeys[fmt.Sprint(i)] = "x"
	}
	before := h.checkoutCounts()
	for _, c := range []struct {
		status      int
		code, param string
		body        map[string]any
	}{
		{400, "INVALID_REQUEST", "lineItems", soldBody("k")},
		{400, "INVALID_REQUEST", "lineItems", soldBody("k", "lineItems", []any{})},
		{400, "INVALID_REQUEST", "lineItems", soldBody("k", "lineItems", many)},
		{400, "INVALID_REQUEST", "lineItems", soldBody("k", "lineItems", item(gold), "productId", gold)},
		{400, "INVALID_REQUEST", "lineItems", soldBody("k", "lineItems", append(item(gold), item(coin)...))},
		{400, "INVALID_REQUEST", "productId", checkoutBody("k", "productId", gold)},
		{400, "INVALID_REQUEST", "quantity", checkoutBody("k", "quantity", 1)},
		{400, "INVALID_REQUEST", "unitPrice", checkoutBody("k", "unitPrice", "1")},
		{400, "INVALID_REQUEST", "price", checkoutBody("k", "price", nil)},
		{400, "INVALID_REQUEST", "price", soldBody("k", "productId", gold, "price", "1")},
		{400, "INVALID_REQUEST", "currency", soldBody("k", "productId", gold, "currency", "USD")},
		{400, "INVALID_REQUEST", "name", checkoutBody("k", "name", "a\u202eb")},
		{400, "INVALID_AMOUNT", "price", checkoutBody("k", "price", 49.99)},
		{400, "INVALID_AMOUNT", "price", checkoutBody("k", "price", "1e3")},
		{400, "INVALID_AMOUNT", "price", checkoutBody("k", "price", "0")},
		{400, "INVALID_AMOUNT", "price", checkoutBody("k", "price", "1.001")},
		{400, "INVALID_REQUEST", "currency", checkoutBody("k", "currency", "EUR")},
		{404, "NOT_FOUND", "productId", soldBody("k", "productId", foreign)},
		{404, "NOT_FOUND", "productId", soldBody("k", "productId", "prod_01J9ZW3M8Q4S5T6V7W8X9YZABC")},
		{404, "NOT_FOUND", "productId", soldBody("k", "productId", "gold")},
		{409, "PRODUCT_ARCHIVED", "productId", soldBody("k", "productId", archived)},
		{400, "INVALID_REQUEST", "quantity", soldBody("k", "productId", gold, "quantity", 0)},
		{400, "INVALID_REQUEST", "quantity", soldBody("k", "productId", gold, "quantity", 6)},
		{400, "INVALID_REQUEST", "quantity", soldBody("k", "productId", gold, "quantity", 1.5)},
		{400, "INVALID_REQUEST", "unitPrice", soldBody("k", "productId", gold, "unitPrice", "49.99")},
		{400, "INVALID_REQUEST", "unitPrice", soldBody("k", "productId", tip)},
		{400, "INVALID_AMOUNT", "unitPrice", soldBody("k", "productId", tip, "unitPrice", "4.99")},
		{400, "INVALID_AMOUNT", "unitPrice", soldBody("k", "productId", tip, "unitPrice", "50.01")},
		{400, "INVALID_AMOUNT", "unitPrice", soldBody("k", "lineItems", item(tip, "unitPrice", "5.001"))},
		{400, "INVALID_REQUEST", "expiresInSeconds", checkoutBody("k", "expiresInSeconds", 299)},
		{400, "INVALID_REQUEST", "expiresInSeconds", checkoutBody("k", "expiresInSeconds", 86401)},
		{400, "INVALID_REQUEST", "expiresInSeconds", checkoutBody("k", "expiresInSeconds", "1800")},
		{400, "INVALID_REQUEST", "successUrl", checkoutBody("k", "successUrl", "javascript:alert(1)")},
		{400, "INVALID_REQUEST", "cancelUrl", checkoutBody("k", "cancelUrl", "https://a@shop.example.com")},
		{400, "INVALID_AMOUNT", "price", checkoutBody("k", "price", "-5")},
		{400, "INVALID_AMOUNT", "price", checkoutBody("k", "price", "12345678901234567.89")},
		{400, "INVALID_AMOUNT", "unitPrice", soldBody("k", "productId", tip, "unitPrice", "-5")},
		{400, "INVALID_AMOUNT", "unitPrice", soldBody("k", "productId", tip, "unitPrice", "1e1")},
		{400, "INVALID_REQUEST", "quantity", soldBody("k", "productId", gold, "quantity", -1)},
		{400, "INVALID_REQUEST", "successUrl", checkoutBody("k", "successUrl", "https://shop.example.com/\r\nX: y")},
		{400, "INVALID_REQUEST", "successUrl", checkoutBody("k", "successUrl", longURL)},
		{400, "INVALID_REQUEST", "cancelUrl", checkoutBody("k", "cancelUrl", "JavaScript:alert(1)")},
		{400, "INVALID_REQUEST", "name", checkoutBody("k", "name", "G"+strings.Repeat("\u0301", 9))},
		{400, "INVALID_REQUEST", "name", checkoutBody("k", "name", "Gold\nplan")},
		{400, "INVALID_REQUEST", "metadata", checkoutBody("k", "metadata", manyKeys)},
		{
			400, "INVALID_REQUEST", "metadata",
			checkoutBody("k", "metadata", map[string]string{"k": strings.Repeat("v", 501)}),
		},
		{
			400, "INVALID_REQUEST", "metadata",
			checkoutBody("k", "metadata", map[string]string{strings.Repeat("k", 41): "v"}),
		},
		{400, "INVALID_REQUEST", "acceptedMintIds", checkoutBody("k", "acceptedMintIds", []int{})},
		{400, "INVALID_REQUEST", "acceptedMintIds", checkoutBody("k", "acceptedMintIds", []int{usdc, usdc})},
		{400, "INVALID_REQUEST", "acceptedMintIds", checkoutBody("k", "acceptedMintIds", []int{closed})},
		{400, "MINT_NOT_FOUND", "acceptedMintIds", checkoutBody("k", "acceptedMintIds", []int{4711})},
		{400, "INVALID_REQUEST", "acceptedMintIds", soldBody("k", "productId", gold, "acceptedMintIds", []int{closed})},
		{
			400, "INVALID_REQUEST", "acceptedMintIds",
			soldBody("k", "productId", gold, "acceptedMintIds", []int{eth, eth}),
		},
		{400, "INVALID_REQUEST", "openMintIds", checkoutBody("k", "openMintIds", []int{closed})},
		{400, "INVALID_REQUEST", "openMintIds", checkoutBody("k", "openMintIds", []int{usdc, usdc})},
		{400, "INVALID_REQUEST", "openMintIds", checkoutBody("k", "openMintIds", make([]int, 21))},
		{400, "INVALID_REQUEST", "reference", checkoutBody("k", "onePerReference", true)},
		{400, "INVALID_REQUEST", "reference", soldBody("k", "productId", once)},
		{400, "INVALID_REQUEST", "reference", checkoutBody("k", "reference", "")},
		{400, "INVALID_REQUEST", "customerId", checkoutBody("k", "customerId", "a\nb")},
		{400, "INVALID_REQUEST", "customerEmail", checkoutBody("k", "customerEmail", "ada")},
		{400, "INVALID_REQUEST", "metadata", checkoutBody("k", "metadata", map[string]string{"": "x"})},
		{400, "UNKNOWN_FIELD", "status", checkoutBody("k", "status", "COMPLETED")},
		{400, "UNKNOWN_FIELD", "amountDue", checkoutBody("k", "amountDue", "1")},
		{400, "INVALID_REQUEST", "idempotencyKey", checkoutBody("k", "idempotencyKey", "a b")},
	} {
		h.wantRefusal(fmt.Sprint(c.body), h.call(h.one, "POST", "/checkouts", c.body), c.status, c.code, c.param)
	}
	h.wantRefusal("two keys", h.call(h.one, "POST", "/checkouts", checkoutBody("k"), "Idempotency-Key", "other"), 400,
		"IDEMPOTENCY_KEY_MISMATCH", "idempotencyKey")
	if after := h.checkoutCounts(); after != before {
		t.Errorf("rows: got %s, want %s", after, before)
	}
	body := soldBody("k", "productId", tip, "unitPrice", "7.5")
	chosen := h.wantStatus(h.call(h.one, "POST", "/checkouts", body), 201)
	if chosen.text("amountDue") != "7.50" {
		t.Errorf("got %s, want what the payer chose", chosen.raw)
	}
}

// A known key answers with its checkout before anything else can refuse the request. Rules CO-25, IDEM-5.
func TestAKnownKeyAnswersWithItsCheckout(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.allowKeys(h.one, true)
	reader, _ := h.key(h.one, "READ")
	gold := h.makeProduct(h.one, "gold", "maxQuantity", 5)
	body := func(change ...any) map[string]any {
		return soldBody("first", append([]any{"productId", gold, "quantity", 2}, change...)...)
	}
	id := h.wantStatus(h.call(h.one, "POST", "/checkouts", body()), 201).text("checkoutId")
	h.wantStatus(h.call(h.one, "DELETE", "/products/"+gold, nil), 200)
	h.wantStatus(h.call(h.one, "POST", "/checkouts/"+id+"/cancel", nil), 200)
	before := h.checkoutCounts()
	for name, got := range map[string]reply{
		"the same": h.call(h.one, "POST", "/checkouts", body()),
		"the key in a header": h.call(
			h.one, "POST", "/checkouts", body("idempotencyKey", nil), "Idempotency-Key", "first",
		),
		"as a position": h.call(h.one, "POST", "/checkouts", soldBody("first", "lineItems", []any{
			map[string]any{"productId": gold, "quantity": 2},
		})),
		"other metadata and e-mail": h.call(h.one, "POST", "/checkouts",
			body("metadata", map[string]string{"a": "b"}, "customerEmail", "ada@example.com")),
		"a key that only reads": h.call(reader, "POST", "/checkouts", body()),
	} {
		if got.status != 201 || got.text("checkoutId") != id || got.text("status") != "CANCELLED" ||
			got.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: got %d %s %v, want the cancelled checkout", name, got.status, got.raw, got.header)
		}
	}
	for name, other := range map[string]any{
		"another quantity": body("quantity", 1), "a reference": body("reference", "order-77"),
		"another time": body("expiresInSeconds", 900), "an option": body("openMintIds", []int{usdc}),
		"a wrong quantity": body("quantity", 0), "an unknown member": body("colour", "red"),
		"two ways to sell": body("name", "x", "price", "1"),
	} {
		got := h.call(h.one, "POST", "/checkouts", other)
		h.wantRefusal(name, got, 409, "IDEMPOTENCY_CONFLICT", "idempotencyKey")
		if got.text("existingId") != id {
			t.Errorf("%s: got %s, want the existing checkout named", name, got.raw)
		}
	}
	if after := h.checkoutCounts(); after != before {
		t.Errorf("rows: got %s, want %s", after, before)
	}
	if other := h.makeCheckout(h.two, "first"); other == id {
		t.Error("the key of another organization found the checkout")
	}
}

// One order is sold once: a second checkout of its reference is refused with the first. Rule CO-4.
func TestAReferenceIsSoldOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	once := []any{"reference", "order-77", "onePerReference", true}
	first := h.makeCheckout(h.one, "first", once...)
	before := h.checkoutCounts()
	got := h.call(h.one, "POST", "/checkouts", checkoutBody("second", once...))
	h.wantRefusal("a second", got, 409, "REFERENCE_PAID", "reference")
	if got.text("existingId") != first {
		t.Errorf("got %s, want the first named", got.raw)
	}
	if after := h.checkoutCounts(); after != before {
		t.Errorf("rows: got %s, want %s", after, before)
	}
	h.makeCheckout(h.two, "second", once...)
	h.wantStatus(h.call(h.one, "POST", "/checkouts/"+first+"/cancel", nil), 200)
	h.makeCheckout(h.one, "second", once...)
}

// An option is opened once, with an address that its proof shows to belong to the checkout, and what cannot be opened
// leaves the checkout as it is. Rules CO-6, CO-7, CO-8, CO-26 and CO-29.
func TestAnOptionIsOpenedOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	id := h.makeCheckout(h.one, "first")
	opened := h.openOption(h.one, id, usdc)
	// 49.99 / 0.9998 = 49.9999999…, which is rounded up so that a person can type it.
	if opened.text("amount") != "50000000" || opened.text("rate") != "0.9998" ||
		opened.text("paymentUri") != "ethereum:"+string(usdcAddress)+"@31337/transfer?address="+
			opened.text("address")+"&uint256=50000000" {
		t.Errorf("got %s, want an amount, a rate and a link", opened.raw)
	}
	before := h.checkoutCounts()
	if again := h.openOption(h.one, id, usdc); !sameJSON(t, again.body, opened.body) {
		t.Errorf("got %s and %s, want the same option", opened.raw, again.raw)
	}
	shown := h.wantStatus(h.call(h.one, "GET", "/checkouts/"+id, nil), 200)
	option := optionOf(t, shown, usdc)
	if err := webhook.VerifyAddress(h.attest, h.one.id, id, option); err != nil {
		t.Errorf("got %v, want the address proven", err)
	}
	for name, err := range map[string]error{
		"another organization": webhook.VerifyAddress(h.attest, h.two.id, id, option),
		"another checkout":     webhook.VerifyAddress(h.attest, h.one.id, "co_01J9ZW3M8Q4S5T6V7W8X9YZABC", option),
		"an unopened option":   webhook.VerifyAddress(h.attest, h.one.id, id, optionOf(t, shown, eth)),
	} {
		if !errors.Is(err, webhook.ErrAddress) {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
	unavailable := h.call(h.one, "POST", "/checkouts/"+id+"/options", map[string]any{"mintId": eth})
	h.wantRefusal("a coin without a price", unavailable, 422, "OPTION_UNAVAILABLE", "mintId")
	if details, _ := unavailable.body["details"].(map[string]any); details["reason"] != "NO_PRICE" {
		t.Errorf("got %s, want the reason", unavailable.raw)
	}
	for name, body := range map[string]map[string]any{
		"a mint that is not accepted": {"mintId": closed}, "no mint of the catalogue": {"mintId": 4711},
	} {
		h.wantRefusal(name, h.call(h.one, "POST", "/checkouts/"+id+"/options", body), 400, "MINT_NOT_FOUND", "mintId")
	}
	for name, body := range map[string]map[string]any{
		"no mint": {}, "a text": {"mintId": "1"},
	} {
		h.wantRefusal(name, h.call(h.one, "POST", "/checkouts/"+id+"/options", body), 400, "INVALID_REQUEST", "mintId")
	}
	if after := h.checkoutCounts(); after != before {
		t.Errorf("rows: got %s, want %s", after, before)
	}
	// Another checkout has another address.
	other := h.openOption(h.one, h.makeCheckout(h.one, "second"), usdc)
	if other.text("address") == opened.text("address") {
		t.Error("got the address of another checkout")
	}
	// openMintIds opens what can be opened, and a repetition changes nothing.
	body := checkoutBody("third", "openMintIds", []int{eth, usdc})
	made := h.wantStatus(h.call(h.one, "POST", "/checkouts", body), 201)
	if optionOf(t, made, usdc).Address == nil || optionOf(t, made, eth).Address != nil {
		t.Errorf("got %s, want the one option opened", made.raw)
	}
	before = h.checkoutCounts()
	if again := h.wantStatus(h.call(h.one, "POST", "/checkouts", body), 201); !sameJSON(t, again.body, made.body) {
		t.Errorf("got %s and %s, want the same checkout", made.raw, again.raw)
	}
	if after := h.checkoutCounts(); after != before {
		t.Errorf("rows: got %s, want %s", after, before)
	}
	// A cancelled checkout keeps its address and has no link, and opens no option.
	h.wantStatus(h.call(h.one, "POST", "/checkouts/"+id+"/cancel", nil), 200)
	kept := optionOf(t, h.wantStatus(h.call(h.one, "GET", "/checkouts/"+id, nil), 200), usdc)
	if kept.Address == nil || *kept.Address != opened.text("address") || kept.PaymentURI != nil {
		t.Errorf("got %+v, want the address without a link", kept)
	}
	closedOne := h.makeCheckout(h.one, "fourth")
	h.wantStatus(h.call(h.one, "POST", "/checkouts/"+closedOne+"/cancel", nil), 200)
	refused := h.call(h.one, "POST", "/checkouts/"+closedOne+"/options", map[string]any{"mintId": usdc})
	h.wantRefusal("a cancelled checkout", refused, 409, "INVALID_STATE", "")
	if refused.text("currentStatus") != "CANCELLED" {
		t.Errorf("got %s, want the status", refused.raw)
	}
}

// An address whose row was changed is shown to no one, neither alone nor to a repetition, and a list and the event of a
// payment come without it. Rule CO-29.
func TestAnAddressOfACheckoutIsNotShownAfterItsRowWasChanged(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fails = true
	body := checkoutBody("first", "openMintIds", []int{usdc})
	made := h.wantStatus(h.call(h.one, "POST", "/checkouts", body), 201)
	id := made.text("checkoutId")
	if optionOf(t, made, usdc).Address == nil {
		t.Fatalf("got %s, want an opened option", made.raw)
	}
	if _, err := pgtest.OwnerPool(t, h.db).Exec(t.Context(), fmt.Sprintf(`
		BEGIN; SET LOCAL session_replication_role = replica;
		UPDATE wallets SET address = '%s' WHERE subject = '%s';
		COMMIT`, stranger, id)); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]reply{
		"alone":        h.call(h.one, "GET", "/checkouts/"+id, nil),
		"a repetition": h.call(h.one, "POST", "/checkouts", body),
		"the option":   h.call(h.one, "POST", "/checkouts/"+id+"/options", map[string]any{"mintId": usdc}),
	} {
		if got.status != 503 || got.text("code") != "UNAVAILABLE" || strings.Contains(string(got.raw), stranger) {
			t.Errorf("%s: got %d %s, want no address", name, got.status, got.raw)
		}
	}
	// One changed row fails no list of all the others.
	page := h.wantStatus(h.call(h.one, "GET", "/checkouts", nil), 200)
	if len(page.list()) != 1 || strings.Contains(string(page.raw), stranger) {
		t.Errorf("a list: got %s, want the checkout without the address", page.raw)
	}
	h.payCheckout(h.one, id, 50_000_000, outcome.PaymentCredited)
	h.sequenced()
	events := h.wantStatus(h.call(h.one, "GET", "/events?types=CHECKOUT_COMPLETED", nil), 200)
	if len(events.list()) != 1 || strings.Contains(string(events.raw), stranger) {
		t.Errorf("got %s, want the event without the address", events.raw)
	}
}

// pricesThatComeLater has no price until it gets one.
type pricesThatComeLater struct{ source price.Source }

// USD implements price.Source.
func (p *pricesThatComeLater) USD(ctx context.Context, mintID int) (price.Quote, error) {
	if p.source == nil {
		return price.Quote{}, price.ErrUnavailable
	}
	return p.source.USD(ctx, mintID)
}

// A repetition opens what the first request named and could not open, but not for a key that only reads. Rule CO-26.
func TestARepetitionOpensWhatWasNotOpened(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.allowKeys(h.one, true)
	reader, _ := h.key(h.one, "READ")
	later := &pricesThatComeLater{}
	later.source, h.conf.Checkouts.Prices = nil, later
	body := checkoutBody("first", "openMintIds", []int{usdc})
	made := h.wantStatus(h.call(h.one, "POST", "/checkouts", body), 201)
	if optionOf(t, made, usdc).Address != nil {
		t.Errorf("got %s, want no address without a price", made.raw)
	}
	later.source = h.conf.Prices
	for _, c := range []struct {
		who      tenant
		isOpened bool
	}{{reader, false}, {h.one, true}} {
		again := h.wantStatus(h.call(c.who, "POST", "/checkouts", body), 201)
		if again.text("checkoutId") != made.text("checkoutId") ||
			(optionOf(t, again, usdc).Address != nil) != c.isOpened {
			t.Errorf("got %s, want the option opened: %t", again.raw, c.isOpened)
		}
	}
}

// A payment moves the checkout on, and its event and its object say what was paid; a cancellation is refused then.
// Rules CO-12, CO-14, CO-15 and CO-16.
func TestAPaidCheckoutIsToldOf(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	id := h.makeCheckout(h.one, "first", "reference", "order-77", "metadata", map[string]string{"a": "b"})
	h.openOption(h.one, id, usdc)
	depositID := h.payCheckout(h.one, id, 50_000_000, outcome.PaymentSeen)
	seen := h.wantStatus(h.call(h.one, "GET", "/checkouts/"+id, nil), 200)
	if seen.text("status") != "PROCESSING" || seen.text("amountPaid") != "0.00" ||
		seen.text("amountRemaining") != "0.00" {
		t.Errorf("got %s, want it seen and not paid", seen.raw)
	}
	refused := h.call(h.one, "POST", "/checkouts/"+id+"/cancel", nil)
	h.wantRefusal("a cancellation", refused, 409, "INVALID_STATE", "")
	if refused.text("currentStatus") != "PROCESSING" {
		t.Errorf("got %s, want the status", refused.raw)
	}
	h.arrive(h.one, id, depositID, 50_000_000, outcome.PaymentCredited, false)
	paid := h.wantStatus(h.call(h.one, "GET", "/checkouts/"+id, nil), 200)
	payments, _ := paid.body["payments"].([]any)
	if paid.text("status") != "COMPLETED" || paid.text("amountPaid") != "49.99" ||
		paid.text("amountPaidUsd") != "49.99" || paid.body["completedAt"] == nil || len(payments) != 1 {
		t.Fatalf("got %s, want it completed", paid.raw)
	}
	p := payments[0].(map[string]any)
	for name, want := range map[string]any{
		"depositId": depositID, "mintId": float64(usdc), "chain": "ETHEREUM", "amount": "50000000", "value": "49.99",
		"usdValue": "49.99", "price": "0.9998", "priceSource": "fixed", "txHash": depositID, "status": "CREDITED",
		"isLate": false, "counts": true,
	} {
		if p[name] != want {
			t.Errorf("%s: got %v, want %v", name, p[name], want)
		}
	}
	h.sequenced()
	const types = "/events?types=CHECKOUT_PROCESSING,CHECKOUT_COMPLETED"
	events := h.wantStatus(h.call(h.one, "GET", types, nil), 200).list()
	if len(events) != 2 || events[0]["type"] != "CHECKOUT_PROCESSING" || events[1]["type"] != "CHECKOUT_COMPLETED" {
		t.Fatalf("got %v, want one event of each status", events)
	}
	data, _ := events[1]["data"].(map[string]any)
	// The page's address is the same, and everything else is as the call shows it.
	if !sameJSON(t, data, paid.body) {
		t.Errorf("got the event of %v, want %s", data, paid.raw)
	}
	for query, n := range map[string]int{"?status=COMPLETED": 1, "?status=OPEN": 0, "?exception=UNDERPAID": 0} {
		if got := h.wantStatus(h.call(h.one, "GET", "/checkouts"+query, nil), 200).list(); len(got) != n {
			t.Errorf("checkouts%s: got %d, want %d", query, len(got), n)
		}
	}
}

// A completed checkout has a receipt that verifies without a call, and no other one has. Rule CO-72.
func TestACompletedCheckoutHasAReceipt(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	id := h.makeCheckout(h.one, "first", "reference", "order-77", "customerId", "user_42")
	path := "/checkouts/" + id + "/receipt"
	open := h.call(h.one, "GET", path, nil)
	h.wantRefusal("an open checkout", open, 409, "INVALID_STATE", "")
	if open.text("currentStatus") != "OPEN" {
		t.Errorf("got %s, want the status", open.raw)
	}
	h.openOption(h.one, id, usdc)
	h.payCheckout(h.one, id, 50_000_000, outcome.PaymentCredited)
	file := h.wantStatus(h.call(h.one, "GET", path, nil), 200)
	r, _, err := webhook.VerifyReceipt([]string{h.receipts}, file.raw)
	if err != nil || r.CheckoutID != id || r.OrganizationID != h.one.id || r.AmountPaid != "49.99" ||
		len(r.Payments) != 1 {
		t.Errorf("got %+v, %v, want the receipt of the sale", r, err)
	}
	other := "whpk_" + strings.Repeat("A", 43) + "="
	if r, _, err := webhook.VerifyReceipt([]string{other}, file.raw); err == nil {
		t.Errorf("got %+v with another key, want it refused", r)
	}
	if got := h.call(h.two, "GET", path, nil); got.status != 404 {
		t.Errorf("another organization: got %d %s, want 404", got.status, got.raw)
	}
}

// A person's program accepts what was paid, once and with a reason, unless nothing is credited or something is flagged.
// Rule CO-17.
func TestWhatWasPaidIsAccepted(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	id := h.makeCheckout(h.one, "first")
	path := "/checkouts/" + id + "/accept"
	h.openOption(h.one, id, usdc)
	reason := map[string]any{"reason": "The payer sent the rest in cash."}
	nothing := h.call(h.one, "POST", path, reason)
	h.wantRefusal("nothing is credited", nothing, 409, "INVALID_STATE", "")
	if nothing.text("currentStatus") != "OPEN" {
		t.Errorf("got %s, want the status", nothing.raw)
	}
	depositID := h.payCheckout(h.one, id, 20_000_000, outcome.PaymentCredited)
	part := h.wantStatus(h.call(h.one, "GET", "/checkouts/"+id, nil), 200)
	if part.text("status") != "OPEN" || part.text("exception") != "UNDERPAID" || part.text("amountPaid") != "19.996" ||
		part.text("amountRemaining") != "29.994" {
		t.Errorf("got %s, want a part paid", part.raw)
	}
	if got := optionOf(t, part, usdc); got.Amount == nil || *got.Amount != "30000000" {
		t.Errorf("got the option %+v, want the rest asked for", got)
	}
	if got := h.wantStatus(h.call(h.one, "GET", "/checkouts?exception=UNDERPAID", nil), 200).list(); len(got) != 1 {
		t.Errorf("got %d underpaid, want one", len(got))
	}
	flagged := h.payCheckout(h.one, id, 30_000_001, outcome.PaymentFlagged)
	h.wantRefusal("a flagged payment", h.call(h.one, "POST", path, reason), 409, "INVALID_STATE", "")
	h.arrive(h.one, id, flagged, 30_000_001, outcome.PaymentReturned, false)
	before := h.checkoutCounts()
	for name, body := range map[string]map[string]any{
		"no reason": {}, "an empty one": {"reason": " "}, "a hidden one": {"reason": "a\u202eb"},
		"a long one": {"reason": strings.Repeat("x", 1001)},
	} {
		h.wantRefusal(name, h.call(h.one, "POST", path, body), 400, "INVALID_REQUEST", "reason")
	}
	if after := h.checkoutCounts(); after != before {
		t.Errorf("rows: got %s, want %s", after, before)
	}
	accepted := h.wantStatus(h.call(h.one, "POST", path, reason), 200)
	by, _ := accepted.body["acceptedBy"].(map[string]any)
	if accepted.text("status") != "COMPLETED" || accepted.text("acceptReason") != reason["reason"] ||
		by["type"] != "API_KEY" || by["id"] != h.one.id || accepted.text("amountPaid") != "19.996" {
		t.Errorf("got %s, want it completed by the key", accepted.raw)
	}
	before = h.checkoutCounts()
	again := h.wantStatus(h.call(h.one, "POST", path, map[string]any{"reason": "again"}), 200)
	if !sameJSON(t, again.body, accepted.body) {
		t.Errorf("got %s and %s, want the same checkout", accepted.raw, again.raw)
	}
	if after := h.checkoutCounts(); after != before || depositID == flagged {
		t.Errorf("rows: got %s, want %s", after, before)
	}
}

// Rules CO-27 and CO-28.
func TestACheckoutIsItsOrganizationsAlone(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.allowKeys(h.one, true)
	id := h.makeCheckout(h.one, "first")
	before := h.checkoutCounts()
	for _, target := range []string{
		"/checkouts/" + id, "/checkouts/co_01J9ZW3M8Q4S5T6V7W8X9YZABC", "/checkouts/..%2Fx",
	} {
		for _, r := range []reply{
			h.call(h.two, "GET", target, nil), h.call(h.two, "POST", target+"/cancel", nil),
			h.call(h.two, "POST", target+"/options", map[string]any{"mintId": usdc}),
			h.call(h.two, "POST", target+"/accept", map[string]any{"reason": "mine"}),
		} {
			if r.status != 404 {
				t.Errorf("%s: got %d %s, want 404", target, r.status, r.raw)
			}
		}
	}
	if got := h.wantStatus(h.call(h.two, "GET", "/checkouts", nil), 200).list(); len(got) != 0 {
		t.Errorf("got %v, want an empty list", got)
	}
	if rows := h.cells(h.two, "/checkouts"); len(rows) != 0 {
		t.Errorf("got %v, want an empty table", rows)
	}
	if after := h.checkoutCounts(); after != before {
		t.Errorf("rows: got %s, want %s", after, before)
	}
	writer, _ := h.key(h.one, "NO_MONEY_OUT")
	h.openOption(writer, id, usdc)
	h.payCheckout(h.one, id, 20_000_000, outcome.PaymentCredited)
	h.wantStatus(h.call(writer, "POST", "/checkouts/"+id+"/accept", map[string]any{"reason": "enough"}), 200)
	h.wantStatus(h.call(writer, "POST", "/checkouts/"+h.makeCheckout(writer, "second")+"/cancel", nil), 200)
	reader, _ := h.key(h.one, "READ")
	h.wantStatus(h.call(reader, "GET", "/checkouts/"+id, nil), 200)
	for _, r := range []reply{
		h.call(reader, "POST", "/checkouts", checkoutBody("third")),
		h.call(reader, "POST", "/checkouts/"+id+"/cancel", nil),
		h.call(reader, "POST", "/checkouts/"+id+"/options", map[string]any{"mintId": usdc}),
		h.call(reader, "POST", "/checkouts/"+id+"/accept", map[string]any{"reason": "mine"}),
	} {
		h.wantRefusal("a key that reads", r, 403, "SCOPE_MISSING", "")
	}
}
