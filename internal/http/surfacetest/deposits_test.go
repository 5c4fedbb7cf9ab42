package surfacetest

import (
	"context"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/wire"
)

// The API shows an arrival as the document says, from the first block to the credit, and the event
// has the same object. Rules CUS-3, DEP-6, DEP-7, DEP-12, LIST-3.
func TestDepositsAreShownOnTheirWay(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	address := chain.Address(h.wantStatus(h.call(
		h.one, "POST", "/deposit",
		map[string]any{"mintId": usdc, "customerId": "bob", "customerEmail": "bob@example.com"},
	), 200).text("address"))

	payer := sim.Address("payer")
	c := sim.New(sim.Config{FinalityDepth: 3})
	for _, contract := range []chain.Address{"", usdcAddress, sim.Address("spoof")} {
		c.Mint(payer, contract, money.Units(1_000_000))
	}
	desk := &deposit.Service{
		Events: wire.NewRecorder(),
		DB:     h.db, Wallets: h.book, Owners: depositOwners(),
		Prices: price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("0.9998")}},
		Log:    newLogger(io.Discard),
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
	walk()
	hash := c.Pay(payer, address, usdcAddress, 500_000)
	c.Pay(payer, address, "", 100)
	c.Pay(payer, address, usdcAddress, 3) // less than the smallest credit
	c.Pay(payer, address, sim.Address("spoof"), 100)
	c.Mine(1)
	walk()

	seen := h.wantStatus(h.call(h.one, "GET", "/deposits?customerId=bob", nil), 200).list()
	if len(seen) != 2 { // a token outside the catalogue and dust are shown once they are final
		t.Fatalf("seen: got %v, want 2 deposits", seen)
	}
	for _, d := range seen {
		if d["status"] == "CREDITED" || d["chainStatus"] != "INCLUDED" {
			t.Errorf("before finality: got %v %v, want no credit", d["status"], d["chainStatus"])
		}
	}
	pending := h.wantStatus(h.call(h.one, "GET", "/customers/bob/balances", nil), 200).list()
	if len(pending) != 2 || pending[0]["pendingDeposit"] == "0" || pending[0]["available"] != "0" ||
		pending[0]["total"] != "0" {
		t.Errorf("pending: got %v, want nothing available yet", pending)
	}

	c.MineEmpty(5)
	walk()
	if _, err := desk.CreditWaiting(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.sequenced()
	statuses := map[string]int{}
	for _, d := range h.wantStatus(h.call(h.one, "GET", "/deposits?customerId=bob&limit=200", nil), 200).list() {
		statuses[d["status"].(string)]++
	}
	if want := map[string]int{"CREDITED": 2, "BELOW_MINIMUM": 1, "UNSUPPORTED": 1}; !reflect.DeepEqual(statuses, want) {
		t.Errorf("statuses: got %v, want %v", statuses, want)
	}
	credited := h.wantStatus(h.call(
		h.one, "GET", "/deposits?status=CREDITED&mintId=1&txHash="+string(hash)+"&address="+string(address), nil,
	), 200).list()
	if len(credited) != 1 || credited[0]["amount"] != "500000" || credited[0]["customerEmail"] != "bob@example.com" ||
		credited[0]["isFlagged"] != false || credited[0]["swap"] != nil {
		t.Fatalf("credited: got %v, want the payment", credited)
	}
	for query, want := range map[string]int{
		"txHash=0X" + strings.ToUpper(string(hash[2:])): 1, "txHash=0x00": 0,
		"address=" + strings.ToLower(string(address)): 4, "address=" + stranger: 0,
		"chain=ETHEREUM": 4, "chain=BASE": 0, "mintId=2": 1, "mintId=1&status=BELOW_MINIMUM": 1,
		"status=UNSUPPORTED&mintId=1": 0, "createdAfter=2020-01-01T00:00:00Z&createdBefore=2020-01-02T00:00:00Z": 0,
	} {
		if got := h.wantStatus(
			h.call(h.one, "GET", "/deposits?customerId=bob&"+query, nil), 200,
		).list(); len(got) != want {
			t.Errorf("%s: got %v, want %v", query, len(got), want)
		}
		if got := h.cells(h.one, "/deposits?customerId=bob&"+query); len(got) != want {
			t.Errorf("%s as a table: got %v, want %v", query, len(got), want)
		}
	}
	table := h.cells(h.one, "/deposits?customerId=bob&status=CREDITED&mintId=1")
	if len(table) != 1 || table[0]["txHash"] != string(hash) || table[0]["amountDecimal"] != "0.5" ||
		table[0]["symbol"] != "USDC" ||
		table[0]["customerEmail"] != "bob@example.com" || table[0]["creditedAt"] != credited[0]["creditedAt"] {
		t.Errorf("got %v, want the payment", table)
	}
	id := credited[0]["depositId"].(string)
	one := h.wantStatus(h.call(h.one, "GET", "/deposits/"+id, nil), 200)
	if !reflect.DeepEqual(one.body, credited[0]) {
		t.Errorf("one and in a list: got %v, want %v", one.body, credited[0])
	}
	// A payer's memo is an untrusted text: unchanged in JSON, and no formula in a table.
	memo := formula + "\n<b>order 7</b>, ☕"
	err := h.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(
			ctx,
			`INSERT INTO transaction_memos (chain, tx_hash, next_attempt_at, created_at) VALUES ('ETHEREUM', $1, $2, $2)`,
			hash, tx.Now,
		)
		if err == nil {
			_, err = tx.Exec(
				ctx,
				`UPDATE transaction_memos SET status = 'READ', memo = $2, attempts = 1, ended_at = $3 WHERE tx_hash = $1`,
				hash, memo, tx.Now,
			)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := h.wantStatus(h.call(h.one, "GET", "/deposits/"+id, nil), 200).body["memo"]; one.body["memo"] != nil ||
		got != memo {
		t.Errorf("memo: got %q and then %q, want null before it is read, and then %q", one.body["memo"], got, memo)
	}
	if got := h.cells(h.one, "/deposits?txHash="+string(hash)); len(got) != 1 || got[0]["memo"] != "'"+memo {
		t.Errorf("as a table: got %v, want the memo as no formula", got)
	}
	if got := h.wantStatus(h.call(h.one, "GET", "/deposits?customerId=bob&mintId=2", nil), 200).list(); len(got) != 1 ||
		got[0]["memo"] != nil {
		t.Errorf("a deposit of another transaction: got %v, want no memo", got)
	}
	h.wantRefusal("another's", h.call(h.two, "GET", "/deposits/"+id, nil), 404, "NOT_FOUND", "")
	if got := h.wantStatus(h.call(h.two, "GET", "/deposits", nil), 200).list(); len(got) != 0 {
		t.Errorf("another's list: got %v, want nothing", got)
	}

	events := h.wantStatus(h.call(h.one, "GET", "/events?types=CUSTOMER_DEPOSIT", nil), 200).list()
	if len(events) != 2 {
		t.Fatalf("events: got %v, want one for each credit", events)
	}
	told := false
	for _, e := range events {
		if data := e["data"].(map[string]any); data["depositId"] == id {
			told = true
			// Confirmations continue to increase.
			delete(data, "confirmations")
			delete(one.body, "confirmations")
			if !reflect.DeepEqual(data, one.body) {
				got, _ := json.Marshal(data)
				t.Errorf("event: got %s, want %s", got, one.raw)
			}
		}
	}
	if !told {
		t.Errorf("events: got %v, want %v among them", events, id)
	}
	balances := h.wantStatus(h.call(h.one, "GET", "/customers/bob/balances", nil), 200).list()
	if len(balances) != 2 || balances[0]["available"] != "500000" || balances[0]["pendingDeposit"] != "0" ||
		balances[1]["available"] != "100" {
		t.Errorf("balances: got %v, want what was credited", balances)
	}
}
