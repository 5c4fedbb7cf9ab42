package surfacetest

import (
	"fmt"
	"io"
	"reflect"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/wire"
)

// An organization makes its own deposit, from the first block to the statement. Rules DEP-24,
// DEP-25, BAL-1, BAL-2.
func TestAnOrganizationPaysInForItself(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ask := func(who tenant, mintID int, product string) reply {
		t.Helper()
		return h.wantStatus(
			h.call(who, "POST", "/organization-deposit", map[string]any{"mintId": mintID, "product": product}), 200,
		)
	}
	first := ask(h.one, usdc, "BATCH_PAYOUT")
	address := chain.Address(first.text("address"))
	if first.text("product") != "BATCH_PAYOUT" || first.text("chain") != "ETHEREUM" ||
		first.body["mintId"] != float64(usdc) || first.text("minDepositAmount") != "5" {
		t.Errorf("got %s, want the product's address", first.raw)
	}
	if again := ask(h.one, usdc, "BATCH_PAYOUT"); !reflect.DeepEqual(again.body, first.body) {
		t.Errorf("again: got %s, want %s", again.raw, first.raw)
	}
	if coin := ask(h.one, eth, "BATCH_PAYOUT"); coin.text("address") != string(address) {
		t.Errorf("another mint of the chain: got %v, want %v", coin.text("address"), address)
	}
	for _, other := range []reply{
		ask(h.one, usdc, "CHECKOUT"), ask(h.one, usdc, "CUSTODIAL"), ask(h.two, usdc, "BATCH_PAYOUT"),
	} {
		if other.text("address") == string(address) {
			t.Errorf("got the address of BATCH_PAYOUT for %s", other.raw)
		}
	}
	h.wantRefusal("own address", h.call(h.one, "POST", "/withdraw", payment("toAddress", string(address))), 422,
		"DESTINATION_NOT_ALLOWED", "toAddress")

	payer := sim.Address("payer")
	c := sim.New(sim.Config{FinalityDepth: 3})
	c.Mint(payer, usdcAddress, money.Units(1_000_000))
	desk := &deposit.Service{
		Events: wire.NewRecorder(),
		DB:     h.db, Wallets: h.book, Owners: depositOwners(), Prices: price.Fixed{}, Log: newLogger(io.Discard),
	}
	start := uint64(0)
	walker := scan.New(h.db, scan.Config{Chain: chain.Ethereum, Reader: c, Start: &start}, desk, newLogger(io.Discard))
	walk := func() {
		t.Helper()
		for moved := true; moved; {
			final, err := walker.StepFinal(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			head, err := walker.StepHead(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			moved = final || head
		}
	}
	balance := func() map[string]any {
		t.Helper()
		for _, b := range h.wantStatus(h.call(h.one, "GET", "/balances", nil), 200).list() {
			if b["product"] == "BATCH_PAYOUT" {
				return b
			}
		}
		return nil
	}
	walk()
	c.Pay(payer, address, usdcAddress, 400_000)
	c.Mine(1)
	walk()
	if got := balance(); got == nil || got["available"] != "0" || got["pendingDeposit"] != "400000" ||
		got["total"] != "0" {
		t.Errorf("seen: got %v, want 400000 pending and in no total", got)
	}
	c.MineEmpty(5)
	walk()
	if _, err := desk.CreditWaiting(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.sequenced()
	if got := balance(); got == nil || got["available"] != "400000" || got["pendingDeposit"] != "0" ||
		got["total"] != "400000" {
		t.Errorf("final: got %v, want 400000 available", got)
	}
	list := h.wantStatus(h.call(h.one, "GET", "/deposits?product=BATCH_PAYOUT", nil), 200).list()
	if len(list) != 1 || list[0]["customerId"] != nil || list[0]["product"] != "BATCH_PAYOUT" ||
		list[0]["status"] != "CREDITED" {
		t.Fatalf("got %v, want the deposit", list)
	}
	id := list[0]["depositId"].(string)
	if one := h.wantStatus(h.call(h.one, "GET", "/deposits/"+id, nil), 200); !reflect.DeepEqual(one.body, list[0]) {
		t.Errorf("one and in a list: got %v, want %v", one.body, list[0])
	}
	h.wantRefusal("another's", h.call(h.two, "GET", "/deposits/"+id, nil), 404, "NOT_FOUND", "")
	for query, want := range map[string]int{"?product=CHECKOUT": 0, "?customerId=BATCH_PAYOUT": 0, "": 2} {
		if got := h.wantStatus(h.call(h.one, "GET", "/deposits"+query, nil), 200).list(); len(got) != want {
			t.Errorf("%q: got %d deposits, want %d", query, len(got), want)
		}
	}
	entries := h.wantStatus(h.call(h.one, "GET", "/ledger/entries?product=BATCH_PAYOUT", nil), 200).list()
	if len(entries) != 1 || entries[0]["cause"] != "DEPOSIT" || entries[0]["resourceId"] != id ||
		entries[0]["amount"] != "400000" || entries[0]["direction"] != "CREDIT" {
		t.Errorf("entries: got %v, want the deposit", entries)
	}
	events := h.wantStatus(h.call(h.one, "GET", "/events", nil), 200).list()
	if len(events) != 1 || events[0]["type"] != "ORGANIZATION_DEPOSIT" ||
		events[0]["data"].(map[string]any)["depositId"] != id {
		t.Errorf("events: got %v, want ORGANIZATION_DEPOSIT", events)
	}
	// The organization may use it.
	h.wantStatus(h.call(h.one, "POST", "/transfers", charge(
		"k",
		"amount", "400000", "from", map[string]any{"product": "BATCH_PAYOUT"}, "to",
		map[string]any{"customerId": alice},
	)), 201)
	if got := h.wantStatus(
		h.call(h.one, "GET", "/customers/"+alice+"/balances", nil), 200,
	).list(); got[0]["available"] != "1400000" {
		t.Errorf("alice: got %v, want 1400000", got)
	}
}

// Rules REQ-1, REQ-2, REQ-3.
func TestHostileRequestsForAnAddressOfOnesOwnAreRefused(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	before := h.rowCounts()
	for _, c := range []struct {
		name, body string
		status     int
		code       string
		param      string
	}{
		{"no product", `{"mintId":1}`, 400, "INVALID_REQUEST", "product"},
		{"no mint", `{"product":"CHECKOUT"}`, 400, "INVALID_REQUEST", "mintId"},
		{"unknown mint", `{"mintId":99,"product":"CHECKOUT"}`, 400, "MINT_NOT_FOUND", "mintId"},
		{"closed mint", `{"mintId":3,"product":"CHECKOUT"}`, 422, "DEPOSITS_SUSPENDED", "mintId"},
		{"mint as text", `{"mintId":"1","product":"CHECKOUT"}`, 400, "INVALID_REQUEST", "mintId"},
		{"mint 1.0", `{"mintId":1.0,"product":"CHECKOUT"}`, 400, "INVALID_REQUEST", "mintId"},
		{"mint 0", `{"mintId":0,"product":"CHECKOUT"}`, 400, "INVALID_REQUEST", "mintId"},
		{"unknown product", `{"mintId":1,"product":"SAVINGS"}`, 400, "INVALID_REQUEST", "product"},
		{"other casing", `{"mintId":1,"product":"checkout"}`, 400, "INVALID_REQUEST", "product"},
		{"empty product", `{"mintId":1,"product":""}`, 400, "INVALID_REQUEST", "product"},
		{"a zero byte", `{"mintId":1,"product":"CHECKOUT\u0000"}`, 400, "INVALID_REQUEST", "product"},
		{"product null", `{"mintId":1,"product":null}`, 400, "INVALID_REQUEST", "product"},
		{"product number", `{"mintId":1,"product":7}`, 400, "INVALID_REQUEST", "product"},
		{"product list", `{"mintId":1,"product":["CHECKOUT"]}`, 400, "INVALID_REQUEST", "product"},
		{"a customer", `{"mintId":1,"product":"CHECKOUT","customerId":"alice"}`, 400, "UNKNOWN_FIELD", "customerId"},
		{"an organization", `{"mintId":1,"product":"CHECKOUT","orgId":"org_1"}`, 400, "UNKNOWN_FIELD", "orgId"},
		{"twice", `{"mintId":1,"product":"CHECKOUT","product":"CUSTODIAL"}`, 400, "INVALID_JSON", "product"},
		{"two documents", `{"mintId":1,"product":"CHECKOUT"}{}`, 400, "INVALID_JSON", ""},
		{"list", `[]`, 400, "INVALID_REQUEST", ""},
		{"nothing", ``, 400, "INVALID_JSON", ""},
	} {
		h.wantRefusal(c.name, h.call(h.one, "POST", "/organization-deposit", c.body), c.status, c.code, c.param)
	}
	h.wantRefusal("no key", h.call(tenant{}, "POST", "/organization-deposit", `{"mintId":1,"product":"CHECKOUT"}`), 401,
		"UNAUTHORIZED", "")
	h.wantRefusal(
		"on a query",
		h.call(h.one, "POST", "/organization-deposit?product=CHECKOUT", `{"mintId":1,"product":"CHECKOUT"}`), 400,
		"UNKNOWN_FIELD", "product",
	)
	for _, bad := range []string{"SAVINGS", "checkout", "", "CHECKOUT,CUSTODIAL"} {
		h.wantRefusal("list of "+bad, h.call(h.one, "GET", fmt.Sprintf("/deposits?product=%s", bad), nil), 400,
			"INVALID_REQUEST", "product")
	}
	if got := h.rowCounts(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
}
