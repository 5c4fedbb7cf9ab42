package surfacetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/swap/provider"
)

// newDepositSwapEnv returns an environment whose provider takes DAI and DOGE.
func newDepositSwapEnv(t testing.TB) *testEnv {
	t.Helper()
	h := newTestEnv(t)
	h.openSwaps()
	return h
}

// depositSwapCounts counts all rows that a request for a deposit swap could have written. A refusal may leave
// the wallet of its key.
func (h *testEnv) depositSwapCounts() (counts string) {
	h.t.Helper()
	err := pgtest.OwnerPool(h.t, h.db).QueryRow(h.t.Context(), `
		SELECT format('deposit swaps %s, customers %s, audit %s', (SELECT count(*) FROM deposit_swaps),
			(SELECT count(*) FROM customers), (SELECT count(*) FROM audit_log WHERE resource_kind <> 'WALLET'))`,
	).Scan(&counts)
	if err != nil {
		h.t.Fatal(err)
	}
	return counts
}

// Rules DSW-3, DSW-4.
func TestADepositSwapIsMadeAndShown(t *testing.T) {
	t.Parallel()
	h := newDepositSwapEnv(t)
	made := h.wantStatus(h.call(h.one, "POST", "/deposit-swap", depositSwapBody("d1")), 201)
	id := made.text("depositSwapId")
	want := map[string]any{
		"depositSwapId": id, "idempotencyKey": "d1", "customerId": alice, "originTokenId": daiToken,
		"originChain": "ETHEREUM", "originSymbol": "DAI", "originDecimals": 6.0, "toMintId": 1.0,
		"depositAddress": made.body["depositAddress"], "memo": nil, "amountIn": "25000000",
		"estimatedAmountOut": "24950000", "minAmountOut": "24700500", "mode": "FLEXIBLE",
		"expiresAt": made.body["expiresAt"], "refundAddress": stranger, "status": "AWAITING_DEPOSIT",
		"receivedAmount": nil, "amountOut": nil, "refundedAmount": nil, "originTxHash": nil,
		"destinationTxHash": nil, "failureReason": nil, "depositId": nil, "depositIds": []any{},
		"provider": "ONE_CLICK", "createdAt": made.body["createdAt"], "updatedAt": made.body["createdAt"],
		"completedAt": nil,
	}
	if !strings.HasPrefix(id, "ds_") || made.text("depositAddress") == "" || !sameJSON(t, made.body, want) ||
		made.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("got %s, want %v", made.raw, want)
	}
	for _, path := range []string{"/deposit-swap/" + id, "/deposit-swaps?idempotencyKey=d1"} {
		got := h.wantStatus(h.call(h.one, "GET", path, nil), 200)
		if items := got.list(); items != nil {
			got.body = items[0]
		}
		if !sameJSON(t, got.body, want) {
			t.Errorf("%s: got %s, want %v", path, got.raw, want)
		}
	}
	for query, n := range map[string]int{
		"": 1, "?customerId=alice": 1, "?customerId=bob": 0, "?status=AWAITING_DEPOSIT": 1, "?status=COMPLETED": 0,
		"?idempotencyKey=d2": 0, "?createdAfter=2020-01-01T00:00:00Z&createdBefore=2020-01-02T00:00:00Z": 0,
	} {
		if got := h.wantStatus(h.call(h.one, "GET", "/deposit-swaps"+query, nil), 200).list(); len(got) != n {
			t.Errorf("deposit swaps%s: got %d, want %d", query, len(got), n)
		}
	}
	if rows := h.cells(h.one, "/deposit-swaps"); len(rows) != 1 || rows[0]["depositSwapId"] != id ||
		rows[0]["depositAddress"] != made.text("depositAddress") || rows[0]["amountOut"] != "" {
		t.Errorf("table: got %v, want the one", rows)
	}
	// A token of a chain that no one runs here, for a customer who does not exist yet.
	other := h.wantStatus(h.call(h.one, "POST", "/deposit-swap", map[string]any{
		"customerId": "newcomer", "originTokenId": "dogecoin:native", "refundAddress": "DQA5h7Vf2m9sVbC5pqk",
		"customerEmail": "new@example.com",
	}), 201)
	if other.body["amountIn"] != nil || other.body["idempotencyKey"] != nil ||
		other.text("originChain") != "DOGECOIN" {
		t.Errorf("got %s, want DOGE without an amount", other.raw)
	}
	customer := h.wantStatus(h.call(h.one, "GET", "/customers/newcomer", nil), 200)
	if customer.text("customerEmail") != "new@example.com" {
		t.Errorf("got %s, want the customer with the e-mail", customer.raw)
	}
	again := h.wantStatus(h.call(h.one, "POST", "/deposit-swap",
		depositSwapBody("", "customerId", "newcomer", "customerEmail", "other@example.com")), 201)
	if again.header.Get("Warning") != "customerEmail ignored" {
		t.Errorf("got %v, want the warning that the e-mail is ignored", again.header)
	}
}

// Rules DSW-1, DSW-2.
func TestTheTokensOfDepositSwapsAreListedAndQuoted(t *testing.T) {
	t.Parallel()
	h := newDepositSwapEnv(t)
	for query, want := range map[string][]string{
		"": {"dogecoin:native", daiToken}, "?chain=ethereum": {daiToken}, "?chain=DOGECOIN": {"dogecoin:native"},
		"?search=da": {daiToken}, "?search=0X6B17": {daiToken}, "?chain=SOLANA": nil,
	} {
		var got []string
		for _, token := range h.wantStatus(h.call(h.one, "GET", "/deposit-swap/tokens"+query, nil), 200).list() {
			got = append(got, token["originTokenId"].(string))
		}
		if !slices.Equal(got, want) {
			t.Errorf("tokens%s: got %v, want %v", query, got, want)
		}
	}
	counts := h.rowCounts() + h.depositSwapCounts()
	quote := h.wantStatus(h.call(h.one, "POST", "/deposit-swap/quote", map[string]any{
		"originTokenId": daiToken, "amountIn": "25000000",
	}), 200)
	if quote.text("estimatedAmountOut") != "24950000" || quote.text("minAmountOut") != "24700500" ||
		quote.body["toMintId"] != 1.0 || quote.text("feeAmount") != "0" || quote.text("rate") != "0.998" ||
		quote.body["estimatedTimeSeconds"] != 60.0 {
		t.Errorf("got %s", quote.raw)
	}
	without := h.wantStatus(h.call(h.one, "POST", "/deposit-swap/quote", map[string]any{
		"originTokenId": daiToken,
	}), 200)
	if without.text("amountIn") != "100000000" {
		t.Errorf("without an amount: got %s, want a hundred dollars", without.raw)
	}
	if after := h.rowCounts() + h.depositSwapCounts(); after != counts {
		t.Errorf("rows: got %s, want %s", after, counts)
	}
}

// A refusal would say that there is no deposit swap. Rules DSW-4, IDEM-5.
func TestAKnownKeyAnswersWithItsDepositSwap(t *testing.T) {
	t.Parallel()
	h := newDepositSwapEnv(t)
	id := h.makeDepositSwap(h.one, "known")
	h.allowKeys(h.one, true)
	reader, _ := h.key(h.one, "READ")
	h.swapper.answer(refuse(&provider.RefusedError{Message: "gone"}))
	h.wantStatus(h.call(h.one, "POST", "/customers/alice/freeze", nil), 200)
	counts := h.depositSwapCounts()
	for name, c := range map[string]struct {
		who     tenant
		path    string
		body    any
		headers []string
		differs bool
	}{
		"the same":            {body: depositSwapBody("known")},
		"an e-mail":           {body: depositSwapBody("known", "customerEmail", "a@example.com")},
		"a key that reads":    {who: reader, body: depositSwapBody("known")},
		"the key in a header": {body: depositSwapBody(""), headers: []string{"Idempotency-Key", "known"}},
		"in both":             {body: depositSwapBody("known"), headers: []string{"Idempotency-Key", "known"}},
		"another amount":      {body: depositSwapBody("known", "amountIn", "5"), differs: true},
		"another token":       {body: depositSwapBody("known", "originTokenId", "dogecoin:native"), differs: true},
		"another refund":      {body: depositSwapBody("known", "refundAddress", lazarus), differs: true},
		"another customer":    {body: depositSwapBody("known", "customerId", "bob"), differs: true},
		"an unknown field":    {body: depositSwapBody("known", "amount", "5"), differs: true},
		"the key alone":       {body: map[string]any{"idempotencyKey": "known"}, differs: true},
		"an unknown parameter": {
			path: "?force=1", body: depositSwapBody("known"),
		},
	} {
		if c.who.key == "" {
			c.who = h.one
		}
		got := h.known(c.who, "/deposit-swap"+c.path, c.body, c.headers...)
		if c.differs {
			if got.status != 409 || got.text("code") != "IDEMPOTENCY_CONFLICT" || got.text("existingId") != id {
				t.Errorf("%s: got %v %s, want a conflict with %s", name, got.status, got.raw, id)
			}
			continue
		}
		if got.status != 201 || got.text("depositSwapId") != id || got.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: got %v %v %s, want %s", name, got.status, got.header, got.raw, id)
		}
	}
	if after := h.depositSwapCounts(); after != counts {
		t.Errorf("rows: got %s, want %s", after, counts)
	}
	h.wantRefusal("two keys", h.call(h.one, "POST", "/deposit-swap", depositSwapBody("a"), "Idempotency-Key", "b"), 400,
		"IDEMPOTENCY_KEY_MISMATCH", "idempotencyKey")
	h.wantRefusal("a new key of a reader", h.call(reader, "POST", "/deposit-swap", depositSwapBody("new")), 403,
		"SCOPE_MISSING", "")
	h.wantRefusal("a new key", h.call(h.one, "POST", "/deposit-swap", depositSwapBody("new")), 403, "CUSTOMER_FROZEN",
		"customerId")
}

// Rules DSW-3, REQ-1, REQ-2.
func TestARefusedDepositSwapWritesNothing(t *testing.T) {
	t.Parallel()
	h := newDepositSwapEnv(t)
	own := h.wantStatus(h.call(h.one, "POST", "/deposit", map[string]any{"mintId": usdc, "customerId": alice}), 200).
		text("address")
	counts := h.depositSwapCounts()
	for _, c := range []struct {
		name        string
		body        any
		status      int
		code, param string
	}{
		{"half a body", `{"idempotencyKey":`, 400, "INVALID_JSON", ""},
		{"an unknown field", depositSwapBody("k", "amount", "1"), 400, "UNKNOWN_FIELD", "amount"},
		{"a key with a space", depositSwapBody("a b"), 400, "INVALID_REQUEST", "idempotencyKey"},
		{"a customer", depositSwapBody("k", "customerId", ""), 400, "INVALID_REQUEST", "customerId"},
		{"an e-mail", depositSwapBody("k", "customerEmail", "x@"), 400, "INVALID_REQUEST", "customerEmail"},
		{
			"an unknown token", depositSwapBody("k", "originTokenId", "solana:native"), 400, "INVALID_REQUEST",
			"originTokenId",
		},
		{"no token", depositSwapBody("k", "originTokenId", "x"), 400, "INVALID_REQUEST", "originTokenId"},
		{"zero", depositSwapBody("k", "amountIn", "0"), 400, "INVALID_AMOUNT", "amountIn"},
		{"a point", depositSwapBody("k", "amountIn", "1.5"), 400, "INVALID_AMOUNT", "amountIn"},
		{
			"no refund address", depositSwapBody("k", "refundAddress", "0xno", "customerId", "stranger"), 400,
			"INVALID_ADDRESS", "refundAddress",
		},
		{
			"our refund address", depositSwapBody("k", "refundAddress", own), 422, "DESTINATION_NOT_ALLOWED",
			"refundAddress",
		},
	} {
		h.wantRefusal(c.name, h.call(h.one, "POST", "/deposit-swap", c.body), c.status, c.code, c.param)
	}
	h.swapper.answer(refuse(&provider.RefusedError{Message: "too small"}))
	got := h.call(h.one, "POST", "/deposit-swap",
		depositSwapBody("k", "customerId", "stranger", "amountIn", "26000000"))
	h.wantRefusal("no offer", got, 422, "QUOTE_REJECTED", "")
	if got.text("providerMessage") != "too small" {
		t.Errorf("got %s, want the words of the provider", got.raw)
	}
	if after := h.depositSwapCounts(); after != counts {
		t.Errorf("rows: got %s, want %s", after, counts)
	}
	h.swapper.answer(nil)
	h.makeDepositSwap(h.one, "k") // no refusal used up the key
}

// Rule DSW-4.
func TestManyCallersWithOneKeyMakeOneDepositSwap(t *testing.T) {
	t.Parallel()
	h := newDepositSwapEnv(t)
	var mu sync.Mutex
	ids, made := map[string]bool{}, 0
	crowd(32, func(int) {
		got := h.call(h.one, "POST", "/deposit-swap", depositSwapBody("crowd"))
		mu.Lock()
		defer mu.Unlock()
		if got.status != 201 {
			t.Errorf("got %v %s, want 201", got.status, got.raw)
		}
		ids[got.text("depositSwapId")] = true
		if got.header.Get("Idempotent-Replayed") == "" {
			made++
		}
	})
	if len(ids) != 1 || made != 1 {
		t.Errorf("got %v, %d of them new, want one", ids, made)
	}
	if first, second := h.makeDepositSwap(h.one, ""), h.makeDepositSwap(h.one, ""); first == second {
		t.Errorf("got %s twice, want one for each call without a key", first)
	}
}

// An attacker who can write rows must not make a customer pay to another address. Rule DSW-6, invariant I-71.
func TestAnAddressThatTheProviderDidNotSignForUsIsNotShown(t *testing.T) {
	t.Parallel()
	h := newDepositSwapEnv(t)
	h.fails = true
	for i, change := range []string{
		"deposit_address = '" + lazarus + "'", "refund_address = '" + lazarus + "'", "customer_id = 'bob'",
		"origin_asset = 'other'", "signed_quote = '\\x7b7d'", "mac = '\\x00'",
	} {
		h.wantStatus(h.call(h.one, "POST", "/deposit", map[string]any{"mintId": usdc, "customerId": "bob"}), 200)
		key := fmt.Sprint("k", i)
		id := h.makeDepositSwap(h.one, key)
		exec := func(sql string) {
			if _, err := pgtest.OwnerPool(t, h.db).Exec(t.Context(), `
				BEGIN; SET LOCAL session_replication_role = replica; `+sql+`; COMMIT`); err != nil {
				t.Fatal(err)
			}
		}
		exec("UPDATE deposit_swaps SET " + change + " WHERE deposit_swap_id = '" + id + "'")
		for name, got := range map[string]reply{
			"read":   h.call(h.one, "GET", "/deposit-swap/"+id, nil),
			"list":   h.call(h.one, "GET", "/deposit-swaps?idempotencyKey="+key, nil),
			"replay": h.call(h.one, "POST", "/deposit-swap", depositSwapBody(key)),
		} {
			h.wantRefusal(change+", "+name, got, 500, "INTERNAL", "")
			if strings.Contains(string(got.raw), "0x") {
				t.Errorf("%s, %s: got %s, want no address", change, name, got.raw)
			}
		}
		if !strings.Contains(h.logs.String(), id) {
			t.Errorf("%s: got the log %s, want it to name %s", change, h.logs, id)
		}
	}
}

// Rules DSW-6, OP-1.
func TestOperatorsSeeDepositSwapsOfAllOrganizations(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.openSwaps()
	one := o.makeDepositSwap(o.one, "k")
	two := o.makeDepositSwap(o.two, "k")
	if one == two {
		t.Fatalf("got %s for two organizations", one)
	}
	for query, n := range map[string]int{
		"": 2, "?organizationId=" + o.one.id: 1, "?provider=ONE_CLICK": 2, "?provider=RELAY": 0,
		"?customerId=alice": 2, "?status=EXPIRED": 0,
	} {
		if got := o.desk.wantStatus(o.desk.call(o.ann, "GET", "/deposit-swaps"+query, nil), 200).list(); len(got) != n {
			t.Errorf("deposit swaps%s: got %d, want %d", query, len(got), n)
		}
	}
	got := o.desk.wantStatus(o.desk.call(o.ann, "GET", "/deposit-swaps/"+two, nil), 200)
	if got.text("organizationId") != o.two.id || got.body["payerSource"] != nil {
		t.Errorf("got %s, want that of the second organization", got.raw)
	}
	o.testEnv.wantRefusal("another organization's", o.testEnv.call(o.one, "GET", "/deposit-swap/"+two, nil), 404,
		"NOT_FOUND", "")
}
