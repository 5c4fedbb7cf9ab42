package surfacetest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/swap/provider"
)

// Rules SWAP-1, SWAP-9.
func TestASwapIsTakenHeldAndShown(t *testing.T) {
	t.Parallel()
	h := newSwapEnv(t)
	body := swapBody("s1", "metadata", map[string]string{"a": "b"})
	made := h.wantStatus(h.call(h.one, "POST", "/customer-swap", body), 202)
	id := made.text("swapId")
	want := map[string]any{
		"swapId": id, "idempotencyKey": "s1", "customerId": alice, "fromMintId": 4.0, "toMintId": 2.0,
		"amountIn": "1000000", "estimatedAmountOut": "500000000000000", "minAmountOut": "495000000000000",
		"amountOut": nil, "originTxHash": nil, "destinationTxHash": nil, "failureReason": nil, "failureMessage": nil,
		"completedAt": nil, "status": "PENDING", "feeAmount": "2500", "feeBps": 25.0, "usdValue": "1.00",
		"estimatedTimeSeconds": 22.0, "refundStatus": "NONE", "refundedAmount": nil, "refundTxHash": nil,
		"restoredAt": nil, "depositId": nil, "provider": "ONE_CLICK", "metadata": map[string]any{"a": "b"},
		"createdAt": made.body["createdAt"], "updatedAt": made.body["createdAt"],
	}
	if !strings.HasPrefix(id, "cs_") || !sameJSON(t, made.body, want) || made.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("got %s, want %v", made.raw, want)
	}
	if got := h.daiOf(h.one, alice); got["available"] != "999000000" || got["inSwap"] != "1000000" ||
		got["total"] != "1000000000" {
		t.Errorf("balance: got %v, want 1000000 in the swap and nothing lost", got)
	}
	for _, path := range []string{"/customer-swap/" + id, "/customer-swaps?idempotencyKey=s1"} {
		got := h.wantStatus(h.call(h.one, "GET", path, nil), 200)
		if items := got.list(); items != nil {
			got.body = items[0]
		}
		if !sameJSON(t, got.body, want) {
			t.Errorf("%s: got %s, want %v", path, got.raw, want)
		}
	}
	for query, n := range map[string]int{
		"": 1, "?customerId=alice": 1, "?customerId=bob": 0, "?status=PENDING": 1, "?status=FAILED": 0,
		"?idempotencyKey=s2": 0, "?createdAfter=2020-01-01T00:00:00Z&createdBefore=2020-01-02T00:00:00Z": 0,
	} {
		if got := h.wantStatus(h.call(h.one, "GET", "/customer-swaps"+query, nil), 200).list(); len(got) != n {
			t.Errorf("swaps%s: got %d, want %d", query, len(got), n)
		}
	}
}

// sameJSON compares two values as JSON.
func sameJSON(t *testing.T, a, b any) bool {
	t.Helper()
	var texts [2]string
	for i, v := range []any{a, b} {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(raw)
	}
	return texts[0] == texts[1]
}

// A refusal would say that there is no swap. Rules SWAP-1, KEY-3.
func TestAKnownKeyAnswersWhateverElseTheRequestHas(t *testing.T) {
	t.Parallel()
	h := newSwapEnv(t)
	id := h.makeSwap(h.one, "known")
	h.allowKeys(h.one, true)
	reader, _ := h.key(h.one, "READ")
	h.change(h.one, org.Changes{"customerSwapsEnabled": []byte("false")})
	h.wantStatus(h.call(h.one, "POST", "/customers/alice/freeze", nil), 200)
	counts := h.swapCounts()
	for name, c := range map[string]struct {
		who     tenant
		path    string
		body    any
		headers []string
		differs bool
	}{
		"the same":  {body: swapBody("known")},
		"a default": {body: swapBody("known", "slippageBps", 100)},
		"e-mail and metadata": {
			body: swapBody("known", "customerEmail", "a@example.com", "metadata", map[string]string{"c": "d"}),
		},
		"a key that reads":    {who: reader, body: swapBody("known")},
		"another amount":      {body: swapBody("known", "amountIn", "5"), differs: true},
		"no amount":           {body: swapBody("known", "amountIn", "x"), differs: true},
		"another pair":        {body: swapBody("known", "toMintId", dai), differs: true},
		"an unknown mint":     {body: swapBody("known", "fromMintId", 99), differs: true},
		"another minimum":     {body: swapBody("known", "minAmountOut", "7"), differs: true},
		"another slippage":    {body: swapBody("known", "slippageBps", 5000), differs: true},
		"an unknown customer": {body: swapBody("known", "customerId", "stranger"), differs: true},
		"an unknown field":    {body: swapBody("known", "amount", "5"), differs: true},
		"a wrong type":        {body: swapBody("known", "amountIn", 5), differs: true},
		"the key alone":       {body: map[string]any{"idempotencyKey": "known"}, differs: true},
		"a field twice":       {body: `{"idempotencyKey":"known","amountIn":"1","amountIn":"2"}`, differs: true},
		"an unknown parameter": {
			path: "?force=1", body: swapBody("known"),
		},
		"another type of body": {
			body: `{"idempotencyKey":"known"}`, headers: []string{"Content-Type", "text/plain"}, differs: true,
		},
		"a table":        {body: swapBody("known"), headers: []string{"Accept", "text/csv"}},
		"another header": {body: swapBody("known"), headers: []string{"Idempotency-Key", "other"}},
	} {
		if c.who.key == "" {
			c.who = h.one
		}
		got := h.known(c.who, "/customer-swap"+c.path, c.body, c.headers...)
		if got.status != 202 || got.text("swapId") != id || got.header.Get("Idempotent-Replayed") != "true" ||
			(got.header.Get("Idempotency-Parameters-Differ") == "true") != c.differs {
			t.Errorf("%s: got %v %v %s, want swap %s, differs %v", name, got.status, got.header, got.raw, id, c.differs)
		}
	}
	if after := h.swapCounts(); after != counts {
		t.Errorf("rows: got %s, want %s", after, counts)
	}
	// The same requests with another key are refused, and their organization comes first.
	h.wantRefusal("an unknown key", h.call(h.one, "POST", "/customer-swap", swapBody("new")), 403, "SWAPS_DISABLED", "")
	h.wantRefusal("another organization", h.call(h.two, "POST", "/customer-swap", swapBody("known")), 403,
		"SWAPS_DISABLED", "")
	h.wantRefusal("a key that reads", h.call(reader, "POST", "/customer-swap", swapBody("new")), 403, "SCOPE_MISSING",
		"")
	h.wantRefusal("no key", h.call(tenant{key: "ck_wrong"}, "POST", "/customer-swap", swapBody("known")), 401,
		"UNAUTHORIZED", "")
}

// known makes a call whose request the document does not describe.
func (h *testEnv) known(who tenant, path string, body any, headers ...string) reply {
	h.t.Helper()
	raw, isText := body.(string)
	if !isText {
		text, err := json.Marshal(body)
		if err != nil {
			h.t.Fatal(err)
		}
		raw = string(text)
	}
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.server.URL+kernel.PathPrefix+path,
		strings.NewReader(raw))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set(h.face.Header, who.key)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	got, err := h.server.Client().Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer got.Body.Close()
	out := reply{status: got.StatusCode, header: got.Header}
	if out.raw, err = io.ReadAll(got.Body); err != nil {
		h.t.Fatal(err)
	}
	if err := json.Unmarshal(out.raw, &out.body); err != nil {
		h.t.Fatalf("%s: got %s, want JSON: %v", path, out.raw, err)
	}
	return out
}

// Rule SWAP-2.
func TestSwapsThatAreOffRefuseEverythingNewAndShowWhatExists(t *testing.T) {
	t.Parallel()
	h := newSwapEnv(t)
	id := h.makeSwap(h.one, "before")
	h.fail(id, "400000")
	h.change(h.one, org.Changes{"customerSwapsEnabled": []byte("false")})
	counts := h.swapCounts()
	asked := h.swapper.count()
	for _, path := range []string{"/customer-swap", "/customer-swap/quote", "/customer-swap?force=1"} {
		for _, body := range []any{swapBody("k"), swapBody("k", "nonsense", 1), "[", "null", `{"fromMintId":"x"}`} {
			h.wantRefusal(fmt.Sprint(path, body), h.call(h.one, "POST", path, body), 403, "SWAPS_DISABLED", "")
		}
		h.wantRefusal(path, h.call(h.one, "POST", path, "text", "Content-Type", "text/plain"), 403, "SWAPS_DISABLED",
			"")
	}
	if after := h.swapCounts(); after != counts || h.swapper.count() != asked {
		t.Errorf("got %s and %d questions, want %s and %d", after, h.swapper.count(), counts, asked)
	}
	h.wantStatus(h.call(h.one, "GET", "/customer-swap/"+id, nil), 200)
	if got := h.wantStatus(h.call(h.one, "GET", "/customer-swaps", nil), 200).list(); len(got) != 1 {
		t.Errorf("got %v, want the swap from before", got)
	}
	h.wantStatus(h.call(h.one, "POST", "/customer-swap/"+id+"/restore", nil), 200)
}

// Rules SWAP-3, SWAP-4, REQ-1, REQ-2, REQ-3.
func TestARefusedSwapNamesTheFirstRuleThatItBreaksAndWritesNothing(t *testing.T) {
	t.Parallel()
	h := newSwapEnv(t)
	counts := h.swapCounts()
	for _, c := range []struct {
		name        string
		body        any
		status      int
		code, param string
		rule        string
	}{
		{"a text", `"x"`, 400, "INVALID_REQUEST", "", ""},
		{"half a body", `{"idempotencyKey":`, 400, "INVALID_JSON", "", ""},
		{"an unknown field", swapBody("k", "amont", "1", "fromMintId", 99), 400, "UNKNOWN_FIELD", "amont", ""},
		{"a number", swapBody("k", "amountIn", 5, "fromMintId", 99), 400, "INVALID_AMOUNT", "amountIn", ""},
		{"no key", map[string]any{"customerId": alice}, 400, "INVALID_REQUEST", "idempotencyKey", ""},
		{"an empty key", swapBody(""), 400, "INVALID_REQUEST", "idempotencyKey", ""},
		{"a key with a space", swapBody("a b"), 400, "INVALID_REQUEST", "idempotencyKey", ""},
		{"a long key", swapBody(strings.Repeat("k", 256)), 400, "INVALID_REQUEST", "idempotencyKey", ""},
		{"a customer", swapBody("k", "customerId", ""), 400, "INVALID_REQUEST", "customerId", ""},
		{"an e-mail", swapBody("k", "customerEmail", "x"), 400, "INVALID_REQUEST", "customerEmail", ""},
		{"slippage", swapBody("k", "slippageBps", 0), 400, "INVALID_REQUEST", "slippageBps", ""},
		{"more slippage", swapBody("k", "slippageBps", 1001), 400, "INVALID_REQUEST", "slippageBps", ""},
		{"a mint", swapBody("k", "fromMintId", 99, "toMintId", usdc), 400, "MINT_NOT_FOUND", "fromMintId", ""},
		{"the other mint", swapBody("k", "toMintId", 99), 400, "MINT_NOT_FOUND", "toMintId", ""},
		{"a before b", swapBody("k", "fromMintId", usdc, "toMintId", usdc), 400, "INVALID_PAIR", "", "a"},
		{"a", swapBody("k", "toMintId", dai), 400, "INVALID_PAIR", "", "a"},
		{"b before c", swapBody("k", "fromMintId", closed, "toMintId", usdc), 400, "INVALID_PAIR", "", "b"},
		{"c before the amount", swapBody("k", "toMintId", closed, "amountIn", "0"), 400, "INVALID_PAIR", "", "c"},
		{"zero", swapBody("k", "amountIn", "0", "customerId", "stranger"), 400, "INVALID_AMOUNT", "amountIn", ""},
		{"a point", swapBody("k", "amountIn", "1.5"), 400, "INVALID_AMOUNT", "amountIn", ""},
		{"a sign", swapBody("k", "amountIn", "-1"), 400, "INVALID_AMOUNT", "amountIn", ""},
		{"a zero in front", swapBody("k", "amountIn", "01"), 400, "INVALID_AMOUNT", "amountIn", ""},
		{"a minimum", swapBody("k", "minAmountOut", "1e3"), 400, "INVALID_AMOUNT", "minAmountOut", ""},
		{"too much", swapBody("k", "amountIn", "1000000001"), 422, "INSUFFICIENT_BALANCE", "amountIn", ""},
		{"an unknown customer", swapBody("k", "customerId", "stranger"), 422, "INSUFFICIENT_BALANCE", "amountIn", ""},
		{"no offer is enough", swapBody("k", "minAmountOut", "500000000000001"), 422, "QUOTE_REJECTED", "", ""},
	} {
		got := h.call(h.one, "POST", "/customer-swap", c.body)
		h.wantRefusal(c.name, got, c.status, c.code, c.param)
		details, _ := got.body["details"].(map[string]any)
		if rule, _ := details["rule"].(string); rule != c.rule {
			t.Errorf("%s: got rule %q, want %q", c.name, rule, c.rule)
		}
		if _, has := got.body["providerMessage"]; has {
			t.Errorf("%s: got %s, want no providerMessage", c.name, got.raw)
		}
		if c.rule != "" {
			quoted := maps.Clone(c.body.(map[string]any))
			delete(quoted, "idempotencyKey")
			h.wantRefusal(c.name, h.call(h.one, "POST", "/customer-swap/quote", quoted), c.status, c.code, c.param)
		}
	}
	if after := h.swapCounts(); after != counts {
		t.Errorf("rows: got %s, want %s", after, counts)
	}
	h.makeSwap(h.one, "k") // no refusal used up the key
}

// A freeze comes before the body, and a frozen customer before the pair. Rule SWAP-4.
func TestAFreezeRefusesASwap(t *testing.T) {
	t.Parallel()
	h := newSwapEnv(t)
	h.wantStatus(h.call(h.one, "POST", "/customers/alice/freeze", nil), 200)
	h.wantRefusal("frozen", h.call(h.one, "POST", "/customer-swap", swapBody("k", "toMintId", 99)), 403,
		"CUSTOMER_FROZEN", "customerId")
	h.wantStatus(h.call(h.one, "POST", "/customers/alice/unfreeze", nil), 200)
	h.makeSwap(h.one, "k")
}

// Rule SWAP-1.
func TestSixtyFourCallersWithOneKeyMakeOneSwap(t *testing.T) {
	t.Parallel()
	h := newSwapEnv(t)
	var mu sync.Mutex
	ids, made := map[string]bool{}, 0
	crowd(64, func(i int) {
		amount := "1000000"
		if i%2 == 1 {
			amount = "2000000"
		}
		got := h.call(h.one, "POST", "/customer-swap", swapBody("crowd", "amountIn", amount))
		mu.Lock()
		defer mu.Unlock()
		if got.status != 202 {
			t.Errorf("got %v %s, want 202", got.status, got.raw)
		}
		ids[got.text("swapId")] = true
		if got.header.Get("Idempotent-Replayed") == "" {
			made++
		}
		differs := got.header.Get("Idempotency-Parameters-Differ") == "true"
		if differs != (got.text("amountIn") != amount) {
			t.Errorf("asked for %s, got %s, differs %v", amount, got.text("amountIn"), differs)
		}
	})
	if len(ids) != 1 || made != 1 {
		t.Errorf("got swaps %v, %d of them new, want one", slices.Collect(maps.Keys(ids)), made)
	}
	if got := h.swapCounts(); !strings.HasSuffix(got, "swaps 1, offers 1") {
		t.Errorf("got %s, want one swap", got)
	}
}

// The header is an alias elsewhere. Rule SWAP-61.
func TestSwapsIgnoreTheHeaderIdempotencyKey(t *testing.T) {
	t.Parallel()
	h := newSwapEnv(t)
	first := h.wantStatus(h.call(h.one, "POST", "/customer-swap", swapBody("a"), "Idempotency-Key", "b"), 202)
	second := h.wantStatus(h.call(h.one, "POST", "/customer-swap", swapBody("b")), 202)
	if first.text("swapId") == second.text("swapId") || first.text("idempotencyKey") != "a" {
		t.Errorf("got %s and %s, want two swaps with the keys of their bodies", first.raw, second.raw)
	}
	body := swapBody("")
	delete(body, "idempotencyKey")
	h.wantRefusal("the header alone", h.call(h.one, "POST", "/customer-swap", body, "Idempotency-Key", "a"), 400,
		"INVALID_REQUEST", "idempotencyKey")
}

// Rule SWAP-7.
func TestWhatProvidersSayBecomesAnAnswerThatSaysWhatToDo(t *testing.T) {
	t.Parallel()
	h := newSwapEnv(t)
	h.fails = true
	counts := h.swapCounts()
	for i, c := range []struct {
		name    string
		err     error
		status  int
		code    string
		message any
	}{
		{"refused", &provider.RefusedError{Message: "too small"}, 422, "QUOTE_REJECTED", "too small"},
		{"garbage", provider.Malformed("no JSON"), 502, "PROVIDER_ERROR", nil},
		{"down", provider.Unavailable("it answers 500"), 503, "UNAVAILABLE", nil},
		{"silent", provider.Unavailable("no answer: %w", context.DeadlineExceeded), 504, "PROVIDER_TIMEOUT", nil},
	} {
		h.swapper.answer(refuse(c.err))
		body := swapBody("k", "amountIn", fmt.Sprint(1000+i))
		quote := map[string]any{"fromMintId": dai, "toMintId": eth, "amountIn": fmt.Sprint(2000 + i)}
		calls := map[string]any{"/customer-swap": body, "/customer-swap/quote": quote}
		if c.status > 502 {
			delete(calls, "/customer-swap/quote") // five failures would open the breaker
		}
		for path, body := range calls {
			got := h.call(h.one, "POST", path, body)
			h.wantRefusal(c.name+path, got, c.status, c.code, "")
			if got.body["providerMessage"] != c.message {
				t.Errorf("%s: got %s, want the message %v", c.name, got.raw, c.message)
			}
			if isFinal := c.status < 500; got.body["retryable"] == isFinal ||
				!isFinal && !strings.Contains(got.text("error"), "same idempotencyKey") {
				t.Errorf("%s: got %s, want the way to repeat it", c.name, got.raw)
			}
		}
	}
	if after := h.swapCounts(); after != counts {
		t.Errorf("rows: got %s, want %s", after, counts)
	}
	h.swapper.answer(nil)
	h.makeSwap(h.one, "k", "amountIn", "1009")
}

// An offer far below the price of other sources is not taken. Rule SWAP-8.
func TestAnOfferBelowTheMarketIsRefused(t *testing.T) {
	t.Parallel()
	h := newSwapEnv(t)
	h.swapper.answer(func(ask provider.Ask) (provider.Offer, error) {
		low := ask
		low.AmountIn = money.SubOrZero(ask.AmountIn, money.Units(100_000)) // a tenth less
		offer, err := honestOffer(low)
		offer.AmountIn, offer.MinAmountIn = ask.AmountIn, ask.AmountIn
		return offer, err
	})
	h.wantRefusal("low", h.call(h.one, "POST", "/customer-swap", swapBody("k")), 422, "QUOTE_REJECTED", "")
}

// Rule SWAP-5.
func TestAQuoteIsTheOfferAndWritesNothing(t *testing.T) {
	t.Parallel()
	h := newSwapEnv(t)
	counts := h.swapCounts()
	ask := map[string]any{
		"customerId": "new", "fromMintId": dai, "toMintId": eth, "amountIn": "5000000000", "slippageBps": 50,
	}
	got := h.wantStatus(h.call(h.one, "POST", "/customer-swap/quote", ask), 200)
	want := map[string]any{
		"estimatedAmountOut": "2500000000000000000", "minAmountOut": "2487500000000000000",
		"estimatedTimeSeconds": 22.0, "feeAmount": "12500000", "feeBps": 25.0, "usdValue": "5000.00",
		"quotedAt": got.body["quotedAt"],
		"provider": "ONE_CLICK", "rate": "0.0005", "priceImpactBps": 0.0,
	}
	if !sameJSON(t, got.body, want) {
		t.Errorf("got %s, want %v", got.raw, want)
	}
	if after := h.swapCounts(); after != counts {
		t.Errorf("rows: got %s, want %s", after, counts)
	}
}

// A replay is answered at any rate. Rules LIM-1, LIM-4.
func TestSwapsHaveTheirRates(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, kernel.Limits{
		Writes: kernel.Rate{Count: 1, Period: time.Hour, Burst: 2},
		Quotes: kernel.Rate{Count: 1, Period: time.Hour, Burst: 1},
	})
	h.openSwaps(h.one)
	h.fund(h.one, alice, 5_000_000)
	id := h.makeSwap(h.one, "k") // one write of alice's address is used
	quote := map[string]any{"fromMintId": dai, "toMintId": eth, "amountIn": "1000"}
	h.wantStatus(h.call(h.one, "POST", "/customer-swap/quote", quote), 200)
	counts := h.swapCounts()
	for _, body := range []any{swapBody("l"), swapBody("l", "amount", 1), "["} {
		h.wantRefusal("one too many", h.call(h.one, "POST", "/customer-swap", body), 429, "RATE_LIMITED", "")
	}
	h.wantRefusal("a quote", h.call(h.one, "POST", "/customer-swap/quote", quote), 429, "RATE_LIMITED", "")
	for range 3 {
		if got := h.wantStatus(h.call(h.one, "POST", "/customer-swap", swapBody("k")), 202); got.text("swapId") != id {
			t.Errorf("got %s, want %s", got.raw, id)
		}
	}
	if after := h.swapCounts(); after != counts {
		t.Errorf("rows: got %s, want %s", after, counts)
	}
}

// Rule SWAP-30.
func TestARestoreMovesWhatCameBackOnce(t *testing.T) {
	t.Parallel()
	h := newSwapEnv(t)
	id := h.makeSwap(h.one, "k")
	restore := func(who tenant) reply { return h.call(who, "POST", "/customer-swap/"+id+"/restore", nil) }
	open := restore(h.one)
	h.wantRefusal("open", open, 409, "INVALID_STATE", "")
	if open.text("currentStatus") != "PENDING" {
		t.Errorf("got %s, want the status", open.raw)
	}
	h.fail(id, "0")
	h.wantRefusal("nothing came back", restore(h.one), 409, "REFUND_NOT_RECEIVED", "")
	h.wantRefusal("another organization", restore(h.two), 404, "NOT_FOUND", "")
	h.fail(id, "400000")
	h.wantStatus(h.call(h.one, "POST", "/customers/alice/freeze", nil), 200)
	for range 2 {
		got := h.wantStatus(restore(h.one), 200)
		if got.text("refundStatus") != "RESTORED" || got.text("refundedAmount") != "400000" ||
			got.body["restoredAt"] == nil || got.text("failureReason") != "PROVIDER_REFUNDED" {
			t.Errorf("got %s, want it restored", got.raw)
		}
		if b := h.daiOf(h.one, alice); b["available"] != "999400000" || b["inSwap"] != "600000" {
			t.Errorf("balance: got %v, want the 400000 that came back", b)
		}
	}
	h.fail(id, "900000") // more came back
	h.wantStatus(restore(h.one), 200)
	if b := h.daiOf(h.one, alice); b["available"] != "999900000" || b["inSwap"] != "100000" {
		t.Errorf("balance: got %v, want the 900000 that came back", b)
	}
}

// Rule LIST-2.
func TestTheTableOfSwapsHasNoFormula(t *testing.T) {
	t.Parallel()
	h := newSwapEnv(t)
	id := h.makeSwap(h.one, "=1+1", "metadata", map[string]string{"=a": "+b"})
	rows := h.cells(h.one, "/customer-swaps?order=asc")
	if len(rows) != 1 || rows[0]["swapId"] != id || rows[0]["idempotencyKey"] != "'=1+1" ||
		rows[0]["amountIn"] != "1000000" || rows[0]["status"] != "PENDING" || rows[0]["metadata"] != `{"=a":"+b"}` {
		t.Errorf("got %v, want the swap", rows)
	}
	if rows := h.cells(h.two, "/customer-swaps"); len(rows) != 0 {
		t.Errorf("got %v, want nothing of another organization", rows)
	}
}

// Rules MINT-2, SWAP-3.
func TestAMintIsSwappableForAnOrganizationAlone(t *testing.T) {
	t.Parallel()
	h := newSwapEnv(t)
	swappable := func(who tenant, query string) (ids []float64, tag string) {
		got := h.wantStatus(h.call(who, "GET", "/mints"+query, nil), 200)
		for _, m := range got.list() {
			if m["swappable"] == true {
				ids = append(ids, m["id"].(float64))
			}
		}
		return ids, got.header.Get("ETag")
	}
	on, tag := swappable(h.one, "")
	off, otherTag := swappable(h.two, "")
	if !slices.Equal(on, []float64{eth, dai}) || off != nil || tag == otherTag {
		t.Errorf("got %v %s and %v %s, want two mints for the first alone", on, tag, off, otherTag)
	}
	if got := h.wantStatus(h.call(h.one, "GET", "/mints?swappable=true", nil), 200).list(); len(got) != 2 {
		t.Errorf("swappable: got %d, want 2", len(got))
	}
	if got := h.wantStatus(h.call(h.one, "GET", "/mints?swappable=false", nil), 200).list(); len(got) != 2 {
		t.Errorf("not swappable: got %d, want 2", len(got))
	}
	if got := h.wantStatus(h.call(h.one, "GET", fmt.Sprint("/mints/", dai), nil), 200); got.body["swappable"] != true {
		t.Errorf("got %s, want it swappable", got.raw)
	}
	// USDC that is not on Solana is never swappable.
	h.change(h.one, org.Changes{"swappableMintIds": fmt.Appendf(nil, "[%d,%d]", usdc, dai)})
	if now, newTag := swappable(h.one, ""); !slices.Equal(now, []float64{dai}) || newTag == tag {
		t.Errorf("got %v %s, want DAI alone and another tag", now, newTag)
	}
	h.change(h.one, org.Changes{"customerSwapsEnabled": []byte("false")})
	if now, _ := swappable(h.one, ""); now != nil {
		t.Errorf("got %v, want none while swaps are off", now)
	}
}

// Rule AUTH-2.
func TestASwapOfAnotherOrganizationDoesNotExist(t *testing.T) {
	t.Parallel()
	h := newSwapEnv(t)
	h.openSwaps(h.two)
	id := h.makeSwap(h.one, "k")
	absent := h.call(h.two, "GET", "/customer-swap/cs_01J9ZW3M8Q4S5T6V7W8X9YZABC", nil)
	h.wantRefusal("absent", absent, 404, "NOT_FOUND", "")
	got := h.call(h.two, "GET", "/customer-swap/"+id, nil)
	h.wantRefusal("another's", got, 404, "NOT_FOUND", "")
	if got.text("error") != absent.text("error") {
		t.Errorf("got %q and %q, want the same", got.text("error"), absent.text("error"))
	}
	if got := h.wantStatus(h.call(h.two, "GET", "/customer-swaps?idempotencyKey=k", nil), 200).list(); len(got) != 0 {
		t.Errorf("got %v, want nothing", got)
	}
	// The same key is another swap there, and alice has nothing there.
	h.wantRefusal("the key", h.call(h.two, "POST", "/customer-swap", swapBody("k")), 422, "INSUFFICIENT_BALANCE",
		"amountIn")
}

// A request that is refused after its wallets were issued leaves them to its key. Rules SWAP-4, SWAP-6.
func TestEachSwapHasTwoWalletsOfItsOwn(t *testing.T) {
	t.Parallel()
	h := newSwapEnv(t)
	addresses := func(swapID string) (found []string) {
		rows, err := pgtest.OwnerPool(t, h.db).Query(t.Context(), `
			SELECT address FROM wallets WHERE subject = $1 AND purpose IN ('SWAP_DELIVERY', 'SWAP_REFUND') ORDER BY 1`,
			swapID)
		if err == nil {
			found, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	h.swapper.answer(func(ask provider.Ask) (provider.Offer, error) {
		if ask.IsFirm {
			return provider.Offer{}, &provider.RefusedError{Message: "gone"}
		}
		return honestOffer(ask)
	})
	h.wantRefusal("no firm offer", h.call(h.one, "POST", "/customer-swap", swapBody("one")), 422, "QUOTE_REJECTED", "")
	issued := addresses(swap.ID(h.one.id, "one"))
	h.swapper.answer(nil)
	made := h.wantStatus(h.call(h.one, "POST", "/customer-swap", swapBody("one")), 202)
	one := addresses(made.text("swapId"))
	if len(one) != 2 || !slices.Equal(one, issued) {
		t.Errorf("got %v, want the two that were issued before: %v", one, issued)
	}
	two := addresses(h.makeSwap(h.one, "two"))
	if len(two) != 2 || slices.ContainsFunc(two, func(a string) bool { return slices.Contains(one, a) }) {
		t.Errorf("got %v and %v, want four addresses", one, two)
	}
	for _, path := range []string{"/customer-swap/" + made.text("swapId"), "/customer-swaps", "/deposits"} {
		got := h.wantStatus(h.call(h.one, "GET", path, nil), 200)
		for _, address := range one {
			if strings.Contains(string(got.raw), address) {
				t.Errorf("%s: got %s, want no address of the swap", path, got.raw)
			}
		}
	}
}

// passing is a caller that may do everything.
type passing struct{}

func (passing) CallerID() string                       { return "caller" }
func (passing) Tenant() string                         { return "caller" }
func (passing) Authorize(identity.Action) *fault.Fault { return nil }

// Two requests with one key: the second one is about to be refused when the first one takes effect.
// Rule SWAP-1.
func TestARefusalLooksTheKeyUpAgain(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for name, c := range map[string]struct {
		kind       fault.Kind
		code       fault.Code
		knownAt    int // the look-up that finds the key; 0: none
		status     int
		wantsLooks int
	}{
		"known from the start":     {fault.Invalid, fault.InvalidRequest, 1, 202, 1},
		"known meanwhile":          {fault.Invalid, fault.InvalidRequest, 2, 202, 2},
		"known never":              {fault.Unprocessable, fault.QuoteRejected, 0, 422, 2},
		"a rate says nothing":      {fault.Limited, fault.RateLimited, 2, 429, 1},
		"an error of ours is open": {fault.GatewayTimeout, fault.ProviderTimeout, 2, 504, 1},
	} {
		looks := 0
		alone := *organizations
		alone.Authenticate = func(*kernel.Request, string) (kernel.Caller, error) { return passing{}, nil }
		alone.Forbidden, alone.Routes = nil, []kernel.Route{{
			Method: http.MethodPost, Path: "/swap", Action: identity.RequestSwap,
			Answers: []kernel.Success{{Status: http.StatusAccepted}},
			Answered: kernel.AnswerKnown(func(*kernel.Call[kernel.Caller]) (struct{}, bool, error) {
				looks++
				return struct{}{}, looks == c.knownAt, nil
			}),
			Handler: kernel.HandleBody(func(*kernel.Call[kernel.Caller], keyed) (struct{}, error) {
				return struct{}{}, fault.New(c.kind, c.code, fault.NothingHeld, "No.")
			}, keyed{}, struct{}{}),
		}}
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/swap", strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		kernel.New(&alone, kernel.Config{
			DB: db, CursorKey: []byte("a key"), Log: newLogger(io.Discard),
		}).ServeHTTP(w, r)
		if w.Code != c.status || looks != c.wantsLooks {
			t.Errorf("%s: got %d %s after %d look-ups, want %d after %d", name, w.Code, w.Body, looks, c.status,
				c.wantsLooks)
		}
	}
}
