package surfacetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

// refundBody returns the body of a refund of everything, with some members changed; nil removes one.
func refundBody(key string, change ...any) map[string]any {
	body := map[string]any{"amount": "FULL", "idempotencyKey": key}
	for i := 0; i < len(change); i += 2 {
		if body[change[i].(string)] = change[i+1]; change[i+1] == nil {
			delete(body, change[i].(string))
		}
	}
	return body
}

// fundShop gives the product CHECKOUT money, as a credit of so much does.
func (h *testEnv) fundShop(who tenant, payer string, units uint64) {
	h.t.Helper()
	h.deposit(who, payer, units)
	h.wantStatus(h.call(who, "POST", "/transfers", charge("shop-"+payer, "amount", strconv.FormatUint(units, 10),
		"from", map[string]any{"customerId": payer}, "to", map[string]any{"product": "CHECKOUT"})), 201)
}

// paidCheckout makes a checkout that is paid in USDC, and returns its id.
func (h *testEnv) paidCheckout(who tenant, key string, units uint64) string {
	h.t.Helper()
	id := h.makeCheckout(who, "of-"+strings.ReplaceAll(key, " ", "-"))
	h.openOption(who, id, usdc)
	h.payCheckout(who, id, units, outcome.PaymentCredited)
	h.fundShop(who, strings.ReplaceAll("payer-"+key, " ", "-"), units)
	return id
}

// makeRefund asks for a refund of a checkout, and returns the answer.
func (h *testEnv) makeRefund(who tenant, checkoutID, key string, change ...any) reply {
	h.t.Helper()
	return h.wantStatus(h.call(who, "POST", "/checkouts/"+checkoutID+"/refunds", refundBody(key, change...)), 201)
}

// shopBalance returns what CHECKOUT can spend of USDC, in atomic units.
func (h *testEnv) shopBalance(who tenant) string {
	h.t.Helper()
	for _, b := range h.wantStatus(h.call(who, "GET", "/balances", nil), 200).list() {
		if b["product"] == "CHECKOUT" && b["mintId"] == float64(usdc) {
			return b["available"].(string)
		}
	}
	return "0"
}

// refundRows shows all rows that a request about refunds could have written.
func (h *testEnv) refundRows() (rows string) {
	h.t.Helper()
	err := pgtest.OwnerPool(h.t, h.db).QueryRow(h.t.Context(), `
		SELECT format('refunds [%s], parts [%s], payments [%s], postings %s, audit %s',
			(SELECT string_agg(r::text, ' ' ORDER BY refund_id) FROM refunds r),
			(SELECT string_agg(p::text, ' ' ORDER BY refund_id, deposit_id) FROM refund_parts p),
			(SELECT string_agg(refunding || ' ' || refunded, ', ' ORDER BY deposit_id) FROM checkout_payments),
			(SELECT count(*) FROM ledger_transfers), (SELECT count(*) FROM audit_log))`).Scan(&rows)
	if err != nil {
		h.t.Fatal(err)
	}
	return rows
}

// keyOf returns the claim key in an answer.
func keyOf(t *testing.T, r reply) string {
	t.Helper()
	page, key, hasKey := strings.Cut(r.text("claimUrl"), "#k=")
	if page != "https://pay.example.com/r/"+r.text("refundId") || !hasKey || len(key) != 22 {
		t.Fatalf("got %s, want the page of the refund with its key", r.raw)
	}
	return key
}

// A refund is shown whole in the answer, in the list, in the table, in its checkout and in its events, and its claim
// key in the first answer alone. Rules CO-90, CO-91 and CO-92.
func TestARefundIsMadeAndShown(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	id := h.paidCheckout(h.one, "first", 60_000_000)
	path := "/checkouts/" + id + "/refunds"
	body := refundBody("refund-1", "amount", "OVERPAID", "reason", "=1+1")
	made := h.wantStatus(h.call(h.one, "POST", path, body), 201)
	refundID := made.text("refundId")
	want := map[string]any{
		"refundId": refundID, "checkoutId": id, "status": "AWAITING_ADDRESS", "kind": "OVERPAID",
		"mintId": float64(usdc), "symbol": "USDC", "chain": "ETHEREUM", "amount": "10000000",
		"feeMode": "ORGANIZATION", "reason": "=1+1", "toAddress": nil, "addressProven": false,
		"claimUrl": made.body["claimUrl"], "attempt": 0.0, "withdrawalId": nil, "txHash": nil, "problem": nil,
		"parts":          []any{map[string]any{"depositId": made.parts(t)[0].DepositID, "amount": "10000000"}},
		"idempotencyKey": "refund-1", "createdAt": made.body["createdAt"], "updatedAt": made.body["createdAt"],
		"expiresAt": made.body["expiresAt"], "completedAt": nil,
	}
	key := keyOf(t, made)
	if !strings.HasPrefix(refundID, "ref_") || !sameJSON(t, made.body, want) ||
		made.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("got %s, want %v", made.raw, want)
	}
	if got := h.shopBalance(h.one); got != "50000000" {
		t.Errorf("got %s to spend, want what is not refunded", got)
	}
	want["claimUrl"] = nil
	replayed := h.wantStatus(h.call(h.one, "POST", path, body), 201)
	body["reason"] = "another one"
	again := h.wantStatus(h.call(h.one, "POST", path, body), 201)
	if replayed.header.Get("Idempotent-Replayed") != "true" || !sameJSON(t, again.body, replayed.body) {
		t.Errorf("got %s and %s, want the same refund", replayed.raw, again.raw)
	}
	h.payCheckout(h.one, id, 30_000_001, outcome.PaymentFlagged) // an event of the checkout after the refund
	h.sequenced()
	events := h.wantStatus(h.call(h.one, "GET", "/events?types=CHECKOUT_EXCEPTION&limit=10", nil), 200).list()
	told, _ := events[len(events)-1]["data"].(map[string]any)
	for name, got := range map[string]any{
		"a repetition": replayed.body,
		"the refund":   h.wantStatus(h.call(h.one, "GET", "/refunds/"+refundID, nil), 200).body,
		"the list": h.wantStatus(h.call(h.one, "GET", "/refunds?status=AWAITING_ADDRESS&checkoutId="+id, nil), 200).
			list()[0],
		"the checkout":          h.wantStatus(h.call(h.one, "GET", "/checkouts/"+id, nil), 200).body["refund"],
		"the list of checkouts": h.wantStatus(h.call(h.one, "GET", "/checkouts", nil), 200).list()[0]["refund"],
		"the event":             told["refund"],
	} {
		if !sameJSON(t, got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	for query, n := range map[string]int{
		"": 1, "?status=COMPLETED": 0, "?checkoutId=co_01J9ZW3M8Q4S5T6V7W8X9YZABC": 0,
		"?createdBefore=2020-01-01T00:00:00Z": 0, "?createdAfter=2020-01-01T00:00:00Z": 1,
	} {
		if got := h.wantStatus(h.call(h.one, "GET", "/refunds"+query, nil), 200).list(); len(got) != n {
			t.Errorf("refunds%s: got %d, want %d", query, len(got), n)
		}
	}
	h.wantRefusal("a word", h.call(h.one, "GET", "/refunds?status=sent", nil), 400, "INVALID_REQUEST", "status")
	rows := h.cells(h.one, "/refunds")
	if len(rows) != 1 || rows[0]["refundId"] != refundID || rows[0]["amount"] != "10000000" ||
		rows[0]["symbol"] != "USDC" || rows[0]["reason"] != "'=1+1" || rows[0]["claimUrl"] != "" {
		t.Errorf("table: got %v, want the refund without its page", rows)
	}
	logged := fmt.Sprint(h.logs)
	var kept string
	err := pgtest.OwnerPool(t, h.db).QueryRow(t.Context(), `
		SELECT string_agg(a::text, ' ') || (SELECT string_agg(r::text, ' ') FROM refunds r)
			|| (SELECT string_agg(e::text, ' ') FROM events e) FROM audit_log a`).Scan(&kept)
	if err != nil || strings.Contains(kept+logged, key) {
		t.Errorf("got the claim key in what is kept (%v)", err)
	}
}

// parts returns the parts of the refund in an answer.
func (r reply) parts(t *testing.T) webhook.List[webhook.RefundPart] {
	t.Helper()
	var refund webhook.Refund
	if err := json.Unmarshal(r.raw, &refund); err != nil || len(refund.Parts) == 0 {
		t.Fatalf("got %s, want a refund with parts (%v)", r.raw, err)
	}
	return refund.Parts
}

// A new claim key makes the one before worthless, and a cancelled refund has given its amount back and has none. The
// checkout shows the newest refund. Rule CO-91.
func TestARefundGetsANewKeyAndIsCancelled(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	id := h.paidCheckout(h.one, "first", 60_000_000)
	made := h.makeRefund(h.one, id, "refund-1", "amount", "20000000")
	refundID := made.text("refundId")
	path := "/refunds/" + refundID
	older := keyOf(t, made)
	replaced := h.wantStatus(h.call(h.one, "POST", path+"/claim-key", nil), 200)
	newer := keyOf(t, replaced)
	isClaimable := func(key string) bool {
		t.Helper()
		r, err := h.conf.Checkouts.ClaimableRefund(t.Context(), refundID, key)
		if err != nil && !fault.HasCode(err, fault.CodeNotFound) {
			t.Fatal(err)
		}
		return err == nil && r.ID == refundID
	}
	if newer == older || isClaimable(older) || !isClaimable(newer) {
		t.Error("the older key claims the refund, or the newer one does not")
	}
	if shown := h.wantStatus(h.call(h.one, "GET", path, nil), 200); shown.body["claimUrl"] != nil {
		t.Errorf("got %s, want no key", shown.raw)
	}
	cancelled := h.wantStatus(h.call(h.one, "POST", path+"/cancel", nil), 200)
	before := h.refundRows()
	again := h.wantStatus(h.call(h.one, "POST", path+"/cancel", nil), 200)
	if cancelled.text("status") != "CANCELLED" || cancelled.body["claimUrl"] != nil ||
		!sameJSON(t, cancelled.body, again.body) || h.refundRows() != before || h.shopBalance(h.one) != "60000000" {
		t.Errorf("got %s, then %s, want it taken back once", cancelled.raw, again.raw)
	}
	none := h.call(h.one, "POST", path+"/claim-key", nil)
	h.wantRefusal("a key for a cancelled refund", none, 409, "INVALID_STATE", "")
	if none.text("currentStatus") != "CANCELLED" ||
		!strings.Contains(none.text("error"), "its amount is in the balance of CHECKOUT again") {
		t.Errorf("got %s, want what became of the money", none.raw)
	}
	replayed := h.makeRefund(h.one, id, "refund-1", "amount", "20000000")
	if replayed.text("refundId") != refundID || replayed.text("status") != "CANCELLED" {
		t.Errorf("got %s, want the cancelled refund of the key", replayed.raw)
	}
	newest := h.makeRefund(h.one, id, "refund-2", "toAddress", stranger)
	shown := h.wantStatus(h.call(h.one, "GET", "/checkouts/"+id, nil), 200)
	if got, _ := shown.body["refund"].(map[string]any); !sameJSON(t, got, newest.body) ||
		got["status"] != "REQUESTED" || got["toAddress"] != stranger || got["claimUrl"] != nil ||
		got["amount"] != "60000000" {
		t.Errorf("got %s, want the newest refund: %s", shown.raw, newest.raw)
	}
	waiting := h.call(h.one, "POST", "/refunds/"+newest.text("refundId")+"/claim-key", nil)
	h.wantRefusal("a key beside an address", waiting, 409, "INVALID_STATE", "")
	all := h.wantStatus(h.call(h.one, "GET", "/refunds?order=asc&limit=1", nil), 200)
	next := h.wantStatus(h.call(h.one, "GET", "/refunds?order=asc&limit=1&cursor="+all.text("nextCursor"), nil), 200)
	if all.list()[0]["refundId"] != refundID || next.list()[0]["refundId"] != newest.text("refundId") {
		t.Errorf("got %s and %s, want a refund on each page", all.raw, next.raw)
	}
}

// What is wrong is refused with the name of the member, and nothing is written. Rules CO-80, CO-90 and CO-92.
func TestARefundThatIsWrongIsRefused(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	id := h.paidCheckout(h.one, "first", 60_000_000)
	unpaid := h.makeCheckout(h.one, "second")
	part := h.paidCheckout(h.one, "third", 20_000_000)
	h.makeRefund(h.one, id, "known", "amount", "1000")
	path := "/checkouts/" + id + "/refunds"
	before := h.refundRows()
	for _, c := range []struct {
		status      int
		code, param string
		path        string
		body        map[string]any
	}{
		{400, "INVALID_REQUEST", "amount", path, refundBody("k", "amount", nil)},
		{400, "INVALID_AMOUNT", "amount", path, refundBody("k", "amount", "full")},
		{400, "INVALID_AMOUNT", "amount", path, refundBody("k", "amount", "AMOUNT")},
		{400, "INVALID_AMOUNT", "amount", path, refundBody("k", "amount", "1.5")},
		{400, "INVALID_AMOUNT", "amount", path, refundBody("k", "amount", "-1")},
		{400, "INVALID_AMOUNT", "amount", path, refundBody("k", "amount", 1000)},
		{400, "AMOUNT_BELOW_MINIMUM", "amount", path, refundBody("k", "amount", "9")},
		{422, "REFUND_EXCEEDS_PAYMENT", "amount", path, refundBody("k", "amount", "59999001")},
		{422, "REFUND_EXCEEDS_PAYMENT", "amount", "/checkouts/" + unpaid + "/refunds", refundBody("k")},
		{
			422, "REFUND_EXCEEDS_PAYMENT", "amount", "/checkouts/" + part + "/refunds",
			refundBody("k", "amount", "OVERPAID"),
		},
		{400, "INVALID_REQUEST", "mintId", path, refundBody("k", "mintId", eth)},
		{400, "INVALID_REQUEST", "mintId", path, refundBody("k", "mintId", "1")},
		{400, "INVALID_REQUEST", "feeMode", path, refundBody("k", "feeMode", "DEDUCTED")},
		{400, "INVALID_REQUEST", "feeMode", path, refundBody("k", "feeMode", "PAYER")},
		{400, "INVALID_REQUEST", "feeMode", path, refundBody("k", "feeMode", "")},
		{400, "INVALID_ADDRESS", "toAddress", path, refundBody("k", "toAddress", "")},
		{400, "INVALID_ADDRESS", "toAddress", path, refundBody("k", "toAddress", "0x12")},
		{
			400, "INVALID_ADDRESS", "toAddress", path, // another letter than its checksum has
			refundBody("k", "toAddress", strings.Replace(stranger, "a", "A", 1)),
		},
		{400, "INVALID_ADDRESS", "toAddress", path, refundBody("k", "toAddress", strings.Repeat("1", 129))},
		{400, "INVALID_REQUEST", "reason", path, refundBody("k", "reason", "")},
		{400, "INVALID_REQUEST", "reason", path, refundBody("k", "reason", "a\u202eb")},
		{400, "INVALID_REQUEST", "reason", path, refundBody("k", "reason", strings.Repeat("x", 1001))},
		{400, "INVALID_REQUEST", "idempotencyKey", path, refundBody("a b")},
		{400, "UNKNOWN_FIELD", "checkoutId", path, refundBody("k", "checkoutId", id)},
		{409, "IDEMPOTENCY_CONFLICT", "idempotencyKey", path, refundBody("known")},
		{409, "IDEMPOTENCY_CONFLICT", "idempotencyKey", path, refundBody("known", "amount", "1001")},
		{409, "IDEMPOTENCY_CONFLICT", "idempotencyKey", path, refundBody("known", "amount", 1000)},
		{
			409, "IDEMPOTENCY_CONFLICT", "idempotencyKey", path,
			refundBody("known", "amount", "1000", "toAddress", stranger),
		},
		{409, "IDEMPOTENCY_CONFLICT", "idempotencyKey", path, refundBody("known", "amount", "1000", "mintId", usdc)},
		{
			409, "IDEMPOTENCY_CONFLICT", "idempotencyKey", path,
			refundBody("known", "amount", "1000", "feeMode", "DEDUCTED"),
		},
		{
			409, "IDEMPOTENCY_CONFLICT", "idempotencyKey", "/checkouts/" + part + "/refunds",
			refundBody("known", "amount", "1000"),
		},
	} {
		h.wantRefusal(fmt.Sprint(c.body), h.call(h.one, "POST", c.path, c.body), c.status, c.code, c.param)
	}
	h.wantRefusal("two keys", h.call(h.one, "POST", path, refundBody("k"), "Idempotency-Key", "other"), 400,
		"IDEMPOTENCY_KEY_MISMATCH", "idempotencyKey")
	exceeding := h.call(h.one, "POST", path, refundBody("k", "amount", "59999001"))
	if details, _ := exceeding.body["details"].(map[string]any); details["available"] != "59999000" {
		t.Errorf("got %s, want what is left", exceeding.raw)
	}
	if after := h.refundRows(); after != before {
		t.Errorf("rows: got %s, want %s", after, before)
	}
	// What was spent meanwhile is not there to be given back.
	h.wantStatus(h.call(h.one, "POST", "/transfers", charge("spent", "amount", "79999000",
		"from", map[string]any{"product": "CHECKOUT"}, "to", map[string]any{"product": "CUSTODIAL"})), 201)
	h.wantRefusal("an empty balance", h.call(h.one, "POST", path, refundBody("k")), 422, "INSUFFICIENT_BALANCE",
		"amount")
	h.conf.Checkouts.ClaimURL = nil
	h.wantRefusal("no pages", h.call(h.one, "POST", path, refundBody("k")), 400, "INVALID_REQUEST", "toAddress")
}

// Refunds belong to one organization, send money out, and are not made while the organization is frozen. A known key
// is answered all the same. Rules CO-90 and CO-92.
func TestARefundIsItsOrganizationsAlone(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.allowKeys(h.one, true)
	id := h.paidCheckout(h.one, "first", 60_000_000)
	made := h.makeRefund(h.one, id, "refund-1", "amount", "1000")
	refundID := made.text("refundId")
	before := h.refundRows()
	for _, target := range []string{refundID, "ref_01J9ZW3M8Q4S5T6V7W8X9YZABC", "..%2Fx"} {
		for _, r := range []reply{
			h.call(h.two, "GET", "/refunds/"+target, nil), h.call(h.two, "POST", "/refunds/"+target+"/cancel", nil),
			h.call(h.two, "POST", "/refunds/"+target+"/claim-key", nil),
		} {
			h.wantRefusal(target, r, 404, "NOT_FOUND", "")
		}
	}
	for _, target := range []string{id, "co_01J9ZW3M8Q4S5T6V7W8X9YZABC", "..%2Fx"} {
		h.wantRefusal(target, h.call(h.two, "POST", "/checkouts/"+target+"/refunds", refundBody("refund-1")), 404,
			"NOT_FOUND", "")
	}
	for _, query := range []string{"", "?checkoutId=" + id} {
		if got := h.wantStatus(h.call(h.two, "GET", "/refunds"+query, nil), 200).list(); len(got) != 0 {
			t.Errorf("got %v, want an empty list", got)
		}
		if rows := h.cells(h.two, "/refunds"+query); len(rows) != 0 {
			t.Errorf("got %v, want an empty table", rows)
		}
	}
	reader, _ := h.key(h.one, "READ")
	writer, _ := h.key(h.one, "NO_MONEY_OUT")
	before = h.refundRows()
	for _, key := range []tenant{reader, writer} {
		for _, body := range []map[string]any{refundBody("refund-2"), refundBody("refund-2", "amount", "wrong")} {
			h.wantRefusal("a key that lets no money out", h.call(key, "POST", "/checkouts/"+id+"/refunds", body), 403,
				"SCOPE_MISSING", "")
		}
		h.wantRefusal("its claim key", h.call(key, "POST", "/refunds/"+refundID+"/claim-key", nil), 403,
			"SCOPE_MISSING", "")
		known := h.makeRefund(key, id, "refund-1", "amount", "1000")
		if known.text("refundId") != refundID || known.body["claimUrl"] != nil {
			t.Errorf("got %s, want the refund of the key", known.raw)
		}
		h.wantRefusal("another amount", h.call(key, "POST", "/checkouts/"+id+"/refunds", refundBody("refund-1")), 409,
			"IDEMPOTENCY_CONFLICT", "idempotencyKey")
		h.wantStatus(h.call(key, "GET", "/refunds/"+refundID, nil), 200)
	}
	h.wantRefusal("a key that reads", h.call(reader, "POST", "/refunds/"+refundID+"/cancel", nil), 403,
		"SCOPE_MISSING", "")
	if after := h.refundRows(); after != before {
		t.Errorf("rows: got %s, want %s", after, before)
	}
	h.freezeOrganization(h.one)
	before = h.refundRows()
	h.wantRefusal("frozen", h.call(h.one, "POST", "/checkouts/"+id+"/refunds", refundBody("refund-2")), 403,
		"ORGANIZATION_FROZEN", "")
	h.makeRefund(h.one, id, "refund-1", "amount", "1000")
	if after := h.refundRows(); after != before {
		t.Errorf("rows: got %s, want %s", after, before)
	}
	cancelled := h.wantStatus(h.call(writer, "POST", "/refunds/"+refundID+"/cancel", nil), 200)
	if cancelled.text("status") != "CANCELLED" || h.shopBalance(h.one) != "60000000" {
		t.Errorf("got %s, want it taken back", cancelled.raw)
	}
}

// freezeOrganization freezes an organization, as the operator does.
func (h *testEnv) freezeOrganization(who tenant) {
	h.t.Helper()
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeOrganization, OrgID: who.id, Source: freeze.SourceOperator, Reason: "a test",
			Actor: audit.Operator("test"),
		})
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// Rule CO-92.
func TestManyCallersWithOneKeyMakeOneRefund(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	id := h.paidCheckout(h.one, "first", 60_000_000)
	const callers = 32
	answers := make([]reply, callers)
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			answers[i] = h.call(h.one, "POST", "/checkouts/"+id+"/refunds", refundBody("refund-1", "amount", "1000"))
		})
	}
	group.Wait()
	made := 0
	for _, got := range answers {
		if got.status != 201 || got.text("refundId") != answers[0].text("refundId") {
			t.Fatalf("got %d %s, want the same refund as %s", got.status, got.raw, answers[0].raw)
		}
		isFirst := got.header.Get("Idempotent-Replayed") == ""
		if hasKey := got.text("claimUrl") != ""; hasKey != isFirst {
			t.Errorf("got %s, replayed %v, want a key in the first answer alone", got.raw, !isFirst)
		}
		if isFirst {
			made++
		}
	}
	if n := len(h.wantStatus(h.call(h.one, "GET", "/refunds", nil), 200).list()); made != 1 || n != 1 ||
		h.shopBalance(h.one) != "59999000" {
		t.Errorf("got %d answers that made one, %d refunds and %s left, want one refund", made, n, h.shopBalance(h.one))
	}
}

// refundWithdrawals pays refunds as the service does.
type refundWithdrawals struct{ withdrawals *withdrawal.Service }

// RequestPayout implements checkout.RefundPayouts.
func (p refundWithdrawals) RequestPayout(ctx context.Context, r checkout.RefundPayout) (string, error) {
	w, err := p.withdrawals.RequestRefund(ctx, r.OrgID, withdrawal.RefundRequest{
		RefundID: r.RefundID, CheckoutID: r.CheckoutID, Attempt: r.Attempt, MintID: r.MintID, Amount: r.Amount,
		ToAddress: r.ToAddress, DeductsFee: r.DeductsFee, Requester: r.Requester,
	})
	return w.ID, err
}

// PayoutState implements checkout.RefundPayouts.
func (p refundWithdrawals) PayoutState(context.Context, string, string) (checkout.PayoutState, string, error) {
	return checkout.PayoutOpen, "", nil
}

// A refund with a payment is neither cancelled nor given a key, and both answers say what became of the money. One
// whose address is refused waits for another one and says why. Rules CO-83, CO-85 and CO-91.
func TestARefundWithAPaymentStaysAsItIs(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.conf.Checkouts.Payouts = refundWithdrawals{h.conf.Withdrawals}
	id := h.paidCheckout(h.one, "first", 60_000_000)
	paid := h.makeRefund(h.one, id, "refund-1", "amount", "1000", "toAddress", stranger).text("refundId")
	own, err := h.book.Treasury(t.Context(), h.one.id, "EVM")
	if err != nil {
		t.Fatal(err)
	}
	refused := h.makeRefund(h.one, id, "refund-2", "amount", "1000", "toAddress", own.Address).text("refundId")
	if err := h.conf.Checkouts.FollowRefunds(t.Context()); err != nil {
		t.Fatal(err)
	}
	sent := h.wantStatus(h.call(h.one, "GET", "/refunds/"+paid, nil), 200)
	w := h.wantStatus(h.call(h.one, "GET", "/withdrawals/"+sent.text("withdrawalId"), nil), 200)
	if sent.text("status") != "SENT" || sent.body["attempt"] != 1.0 || w.text("refundId") != paid {
		t.Errorf("got %s and %s, want a payment of the refund", sent.raw, w.raw)
	}
	before := h.refundRows()
	for _, verb := range []string{"/cancel", "/claim-key"} {
		got := h.call(h.one, "POST", "/refunds/"+paid+verb, nil)
		h.wantRefusal(verb, got, 409, "INVALID_STATE", "")
		if got.text("currentStatus") != "SENT" || !strings.Contains(got.text("error"), "a payment of it is under way") {
			t.Errorf("%s: got %s, want what became of the money", verb, got.raw)
		}
	}
	if after := h.refundRows(); after != before {
		t.Errorf("rows: got %s, want %s", after, before)
	}
	waits := h.wantStatus(h.call(h.one, "GET", "/refunds/"+refused, nil), 200)
	if waits.text("status") != "AWAITING_ADDRESS" || waits.text("problem") == "" || waits.body["toAddress"] != nil {
		t.Errorf("got %s, want it to wait for another address and say why", waits.raw)
	}
	keyOf(t, h.wantStatus(h.call(h.one, "POST", "/refunds/"+refused+"/claim-key", nil), 200))
}
