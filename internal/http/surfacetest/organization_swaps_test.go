package surfacetest

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/swap/provider"
)

// newOwnSwapEnv returns an environment in which the first organization swaps its own money.
func newOwnSwapEnv(t testing.TB) *testEnv {
	t.Helper()
	h := newTestEnv(t)
	h.openOwnSwaps(h.one)
	return h
}

// custodialDAI returns what CUSTODIAL of an organization has of DAI.
func (h *testEnv) custodialDAI(who tenant) map[string]any {
	h.t.Helper()
	for _, b := range h.wantStatus(h.call(who, "GET", "/balances", nil), 200).list() {
		if b["mintId"] == float64(dai) && b["product"] == "CUSTODIAL" {
			return b
		}
	}
	h.t.Fatal("CUSTODIAL has no DAI")
	return nil
}

// Rules SWAP-31, SWAP-34.
func TestAnOrganizationSwapIsTakenHeldAndShown(t *testing.T) {
	t.Parallel()
	h := newOwnSwapEnv(t)
	made := h.wantStatus(h.call(h.one, "POST", "/organization-swap", ownSwapBody("s1")), 202)
	id := made.text("swapId")
	want := map[string]any{
		"swapId": id, "type": "ORGANIZATION", "idempotencyKey": "s1", "product": "CUSTODIAL", "fromMintId": 4.0,
		"toMintId": 2.0, "amountIn": "1000000", "estimatedAmountOut": "500000000000000",
		"minAmountOut": "495000000000000", "whitelistedAddressId": vault, "toAddress": stranger, "amountOut": nil,
		"originTxHash": nil, "destinationTxHash": nil, "withdrawalId": nil, "status": "PENDING",
		"approvals":   map[string]any{"required": 0.0, "received": 0.0, "expiresAt": nil},
		"payoutUntil": made.body["payoutUntil"], "rejectedReason": nil, "failureReason": nil, "failureMessage": nil,
		"usdValue": "1.00", "estimatedTimeSeconds": 22.0, "refundStatus": "NONE", "refundedAmount": nil,
		"refundTxHash": nil, "restoredAt": nil, "provider": "ONE_CLICK", "createdAt": made.body["createdAt"],
		"updatedAt": made.body["createdAt"], "deliveredAt": nil, "completedAt": nil,
	}
	if !strings.HasPrefix(id, "os_") || !sameJSON(t, made.body, want) || made.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("got %s, want %v", made.raw, want)
	}
	if got := h.custodialDAI(h.one); got["available"] != "499000000" {
		t.Errorf("balance: got %v, want 1000000 less available", got)
	}
	for _, path := range []string{"/organization-swap/" + id, "/organization-swaps?idempotencyKey=s1"} {
		got := h.wantStatus(h.call(h.one, "GET", path, nil), 200)
		if items := got.list(); items != nil {
			got.body = items[0]
		}
		if !sameJSON(t, got.body, want) {
			t.Errorf("%s: got %s, want %v", path, got.raw, want)
		}
	}
	for query, n := range map[string]int{
		"": 1, "?product=CUSTODIAL": 1, "?product=CHECKOUT": 0, "?status=PENDING": 1, "?status=AWAITING_APPROVAL": 0,
		"?idempotencyKey=s2": 0, "?createdAfter=2020-01-01T00:00:00Z&createdBefore=2020-01-02T00:00:00Z": 0,
	} {
		if got := h.wantStatus(h.call(h.one, "GET", "/organization-swaps"+query, nil), 200).list(); len(got) != n {
			t.Errorf("organization swaps%s: got %d, want %d", query, len(got), n)
		}
	}
	if rows := h.cells(h.one, "/organization-swaps"); len(rows) != 1 || rows[0]["swapId"] != id ||
		rows[0]["whitelistedAddressId"] != vault || rows[0]["withdrawalId"] != "" {
		t.Errorf("table: got %v, want the one", rows)
	}
	// Neither kind of swap is the other one, also by their keys.
	h.wantRefusal("as a customer's", h.call(h.one, "GET", "/customer-swap/"+id, nil), 404, "NOT_FOUND", "")
	if got := h.wantStatus(h.call(h.one, "GET", "/customer-swaps", nil), 200).list(); len(got) != 0 {
		t.Errorf("customer swaps: got %v, want none", got)
	}
	customers := h.makeSwap(h.one, "s1")
	h.wantRefusal("as an organization's", h.call(h.one, "GET", "/organization-swap/"+customers, nil), 404, "NOT_FOUND",
		"")
}

// Rules SWAP-31, SWAP-61.
func TestAKnownKeyAnswersWithItsOrganizationSwap(t *testing.T) {
	t.Parallel()
	h := newOwnSwapEnv(t)
	id := h.makeOwnSwap(h.one, "known")
	h.allowKeys(h.one, true)
	reader, _ := h.key(h.one, "READ")
	h.change(h.one, org.Changes{"organizationSwapsEnabled": []byte("false")})
	counts := h.swapCounts()
	for name, c := range map[string]struct {
		who     tenant
		path    string
		body    any
		headers []string
		differs bool
	}{
		"the same":            {body: ownSwapBody("known")},
		"a default":           {body: ownSwapBody("known", "slippageBps", 100)},
		"the default product": {body: ownSwapBody("known", "product", "CUSTODIAL")},
		"a key that reads":    {who: reader, body: ownSwapBody("known")},
		"another header":      {body: ownSwapBody("known"), headers: []string{"Idempotency-Key", "other"}},
		"an unknown parameter": {
			path: "?force=1", body: ownSwapBody("known"),
		},
		"another amount":   {body: ownSwapBody("known", "amountIn", "5"), differs: true},
		"another product":  {body: ownSwapBody("known", "product", "CHECKOUT"), differs: true},
		"another entry":    {body: ownSwapBody("known", "whitelistedAddressId", "wla_x"), differs: true},
		"another minimum":  {body: ownSwapBody("known", "minAmountOut", "7"), differs: true},
		"an unknown field": {body: ownSwapBody("known", "amount", "5"), differs: true},
		"the key alone":    {body: map[string]any{"idempotencyKey": "known"}, differs: true},
		"another type of body": {
			body: `{"idempotencyKey":"known"}`, headers: []string{"Content-Type", "text/plain"}, differs: true,
		},
	} {
		if c.who.key == "" {
			c.who = h.one
		}
		got := h.known(c.who, "/organization-swap"+c.path, c.body, c.headers...)
		if c.differs {
			if got.status != 409 || got.text("code") != "IDEMPOTENCY_CONFLICT" || got.text("existingId") != id {
				t.Errorf("%s: got %v %s, want a conflict with %s", name, got.status, got.raw, id)
			}
			continue
		}
		if got.status != 202 || got.text("swapId") != id || got.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: got %v %v %s, want swap %s", name, got.status, got.header, got.raw, id)
		}
	}
	if after := h.swapCounts(); after != counts {
		t.Errorf("rows: got %s, want %s", after, counts)
	}
}

// Rule SWAP-32.
func TestOrganizationSwapsThatAreOffRefuseEverythingNewAndShowWhatExists(t *testing.T) {
	t.Parallel()
	h := newOwnSwapEnv(t)
	id := h.makeOwnSwap(h.one, "before")
	// The switch of customers' swaps says nothing about these.
	h.change(h.one, org.Changes{"customerSwapsEnabled": []byte("false")})
	h.makeOwnSwap(h.one, "without-the-other-switch")
	h.change(h.one, org.Changes{"organizationSwapsEnabled": []byte("false")})
	counts, asked := h.swapCounts(), h.swapper.count()
	for _, path := range []string{"/organization-swap", "/organization-swap/quote", "/organization-swap?force=1"} {
		for _, body := range []any{ownSwapBody("k"), ownSwapBody("k", "nonsense", 1), "[", "null"} {
			h.wantRefusal(fmt.Sprint(path, body), h.call(h.one, "POST", path, body), 403,
				"ORGANIZATION_SWAPS_DISABLED", "")
		}
	}
	if after := h.swapCounts(); after != counts || h.swapper.count() != asked {
		t.Errorf("got %s and %d questions, want %s and %d", after, h.swapper.count(), counts, asked)
	}
	h.wantStatus(h.call(h.one, "GET", "/organization-swap/"+id, nil), 200)
	if got := h.wantStatus(h.call(h.one, "GET", "/organization-swaps", nil), 200).list(); len(got) != 2 {
		t.Errorf("got %v, want those from before", got)
	}
}

// Rules SWAP-33, REQ-1.
func TestARefusedOrganizationSwapNamesTheFirstRuleThatItBreaksAndWritesNothing(t *testing.T) {
	t.Parallel()
	h := newOwnSwapEnv(t)
	counts := h.swapCounts()
	for _, c := range []struct {
		name        string
		body        any
		status      int
		code, param string
		rule        string
	}{
		{"half a body", `{"idempotencyKey":`, 400, "INVALID_JSON", "", ""},
		{"an unknown field", ownSwapBody("k", "amont", "1", "fromMintId", 99), 400, "UNKNOWN_FIELD", "amont", ""},
		{"an empty key", ownSwapBody(""), 400, "INVALID_REQUEST", "idempotencyKey", ""},
		{"a product", ownSwapBody("k", "product", "OTHER"), 400, "INVALID_REQUEST", "product", ""},
		{"an empty product", ownSwapBody("k", "product", ""), 400, "INVALID_REQUEST", "product", ""},
		{"slippage", ownSwapBody("k", "slippageBps", 1001), 400, "INVALID_REQUEST", "slippageBps", ""},
		{"a mint", ownSwapBody("k", "fromMintId", 99), 400, "MINT_NOT_FOUND", "fromMintId", ""},
		{"a", ownSwapBody("k", "toMintId", dai), 400, "INVALID_PAIR", "", "a"},
		{"b", ownSwapBody("k", "toMintId", usdc), 400, "INVALID_PAIR", "", "b"},
		{"c", ownSwapBody("k", "toMintId", closed, "amountIn", "0"), 400, "INVALID_PAIR", "", "c"},
		{"zero", ownSwapBody("k", "amountIn", "0"), 400, "INVALID_AMOUNT", "amountIn", ""},
		{
			"an entry before the balance",
			ownSwapBody("k", "whitelistedAddressId", "wla_01J9ZW3M8Q4S5T6V7W8X9YZABD", "amountIn", "900000000"), 422,
			"ADDRESS_NOT_WHITELISTED", "whitelistedAddressId", "",
		},
		{
			"an address", ownSwapBody("k", "whitelistedAddressId", stranger), 422, "ADDRESS_NOT_WHITELISTED",
			"whitelistedAddressId", "",
		},
		{"too much", ownSwapBody("k", "amountIn", "500000001"), 422, "INSUFFICIENT_BALANCE", "amountIn", ""},
		{"another product's", ownSwapBody("k", "product", "CHECKOUT"), 422, "INSUFFICIENT_BALANCE", "amountIn", ""},
		{
			"no offer is enough", ownSwapBody("k", "minAmountOut", "500000000000001"), 422, "QUOTE_REJECTED", "", "",
		},
	} {
		got := h.call(h.one, "POST", "/organization-swap", c.body)
		h.wantRefusal(c.name, got, c.status, c.code, c.param)
		details, _ := got.body["details"].(map[string]any)
		if rule, _ := details["rule"].(string); rule != c.rule {
			t.Errorf("%s: got rule %q, want %q", c.name, rule, c.rule)
		}
		if c.rule != "" {
			quoted := maps.Clone(c.body.(map[string]any))
			delete(quoted, "idempotencyKey")
			delete(quoted, "whitelistedAddressId")
			h.wantRefusal(c.name, h.call(h.one, "POST", "/organization-swap/quote", quoted), c.status, c.code, c.param)
		}
	}
	h.swapper.answer(refuse(&provider.RefusedError{Message: "too small"}))
	h.wantRefusal("no offer", h.call(h.one, "POST", "/organization-swap", ownSwapBody("k", "amountIn", "2000000")), 422,
		"QUOTE_REJECTED", "")
	h.swapper.answer(nil)
	if after := h.swapCounts(); after != counts {
		t.Errorf("rows: got %s, want %s", after, counts)
	}
	h.makeOwnSwap(h.one, "k") // no refusal used up the key
}

// Rules SWAP-34, OW-1, KEY-2.
func TestOnlyAFullKeySwapsAnOrganizationsOwnMoneyAndNoneApproves(t *testing.T) {
	t.Parallel()
	h := newOwnSwapEnv(t)
	h.allowKeys(h.one, true)
	reader, _ := h.key(h.one, "READ")
	careful, _ := h.key(h.one, "NO_MONEY_OUT")
	quote := map[string]any{"fromMintId": dai, "toMintId": eth, "amountIn": "1000000"}
	for _, who := range []tenant{reader, careful} {
		h.wantRefusal("a swap", h.call(who, "POST", "/organization-swap", ownSwapBody("k")), 403, "SCOPE_MISSING", "")
		h.wantStatus(h.call(who, "GET", "/organization-swaps", nil), 200)
	}
	h.wantRefusal("a quote", h.call(reader, "POST", "/organization-swap/quote", quote), 403, "SCOPE_MISSING", "")
	got := h.wantStatus(h.call(careful, "POST", "/organization-swap/quote", quote), 200)
	if got.text("feeAmount") != "0" || got.body["feeBps"] != 0.0 ||
		got.text("estimatedAmountOut") != "500000000000000" {
		t.Errorf("got %s, want a quote without a fee", got.raw)
	}
	// Above the threshold people decide, and there is no call for them here.
	h.change(h.one, org.Changes{"twoFactorUsdThreshold": []byte(`"0"`)})
	h.swapper.answer(func(ask provider.Ask) (provider.Offer, error) {
		if ask.IsFirm {
			t.Errorf("got a question for a firm offer, want none before the approval")
		}
		return honestOffer(ask)
	})
	waits := h.wantStatus(h.call(h.one, "POST", "/organization-swap", ownSwapBody("waits")), 202)
	approvals, _ := waits.body["approvals"].(map[string]any)
	if waits.text("status") != "AWAITING_APPROVAL" || waits.body["provider"] != nil || approvals["required"] != 1.0 ||
		approvals["expiresAt"] == nil {
		t.Errorf("got %s, want it to wait without a firm offer", waits.raw)
	}
	if got := h.custodialDAI(h.one); got["available"] != "499000000" {
		t.Errorf("balance: got %v, want the amount held", got)
	}
	for _, act := range []string{"approve", "reject", "cancel"} {
		path := "/organization-swap/" + waits.text("swapId") + "/" + act
		if got := h.known(h.one, path, map[string]any{}); got.status != 404 {
			t.Errorf("%s: got %v, want no such call", path, got.status)
		}
	}
}

// Rule SWAP-39.
func TestAnOrganizationReadsItsWhitelist(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	path := "/organizations/" + o.one.id + "/whitelisted-addresses"
	added := o.desk.wantStatus(o.desk.call(o.ann, "POST", path, adding(stranger, "our exchange")), 201)
	got := o.testEnv.wantStatus(o.testEnv.call(o.one, "GET", "/whitelisted-addresses", nil), 200).list()
	want := map[string]any{
		"whitelistedAddressId": added.body["whitelistedAddressId"], "chain": "ETHEREUM", "address": stranger,
		"label": "our exchange", "status": "COOLING_OFF", "usableFrom": added.body["usableFrom"],
		"createdAt": added.body["createdAt"],
	}
	if len(got) != 1 || !sameJSON(t, got[0], want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if theirs := o.testEnv.wantStatus(
		o.testEnv.call(o.two, "GET", "/whitelisted-addresses", nil), 200).list(); len(theirs) != 0 {
		t.Errorf("another organization: got %v, want nothing", theirs)
	}
	if got := o.known(o.one, "/whitelisted-addresses", adding(lazarus, "mine")); got.status != 405 {
		t.Errorf("adding: got %v %s, want no such method", got.status, got.raw)
	}
}

// Rules SWAP-27, SWAP-34.
func TestOperatorsSeeBothKindsOfSwaps(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.openOwnSwaps(o.one)
	own, customers := o.makeOwnSwap(o.one, "k"), o.makeSwap(o.one, "k")
	for query, want := range map[string]string{
		"?kind=ORGANIZATION": own, "?kind=CUSTOMER": customers, "?customerId=alice": customers,
	} {
		got := o.desk.wantStatus(o.desk.call(o.ann, "GET", "/swaps"+query, nil), 200).list()
		if len(got) != 1 || got[0]["swapId"] != want {
			t.Errorf("swaps%s: got %v, want %s", query, got, want)
		}
	}
	got := o.desk.wantStatus(o.desk.call(o.ann, "GET", "/swaps/"+own, nil), 200)
	if got.body["customerId"] != nil || got.text("kind") != "ORGANIZATION" || got.text("product") != "CUSTODIAL" ||
		got.text("whitelistedAddressId") != vault || got.text("toAddress") != stranger ||
		got.text("depositAddress") == "" || got.body["payBy"] == nil {
		t.Errorf("got %s, want the organization's own swap", got.raw)
	}
	o.change(o.one, org.Changes{"twoFactorUsdThreshold": []byte(`"0"`)})
	waits := o.makeOwnSwap(o.one, "waits")
	got = o.desk.wantStatus(o.desk.call(o.ann, "GET", "/swaps/"+waits, nil), 200)
	if got.text("status") != "AWAITING_APPROVAL" || got.body["payBy"] != nil || got.body["expiresAt"] != nil {
		t.Errorf("got %s, want a swap without an offer", got.raw)
	}
}
