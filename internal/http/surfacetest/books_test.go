package surfacetest

import (
	"strings"
	"testing"
)

// Rule BAL-1.
func TestBalancesKeepWhatCustomersHaveApart(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	only := func(who tenant) []map[string]any {
		return h.wantStatus(h.call(who, "GET", "/balances", nil), 200).list()
	}
	if got := only(h.one); len(got) != 1 || got[0]["product"] != "CUSTODIAL" || got[0]["available"] != "0" ||
		got[0]["owedToCustomers"] != "1000000" || got[0]["usdValue"] != "0.00" {
		t.Errorf("got %v, want nothing of our own beside what alice has", got)
	}
	h.wantStatus(h.call(h.one, "POST", "/transfers", charge("k", "amount", "400000")), 201)
	h.wantStatus(h.call(
		h.one, "POST", "/transfers", charge("l", "amount", "100000", "to", map[string]any{"product": "CHECKOUT"}),
	), 201)
	h.wantStatus(h.call(h.one, "POST", "/withdraw", payment("amount", "50000")), 202)
	got := only(h.one)
	if len(got) != 2 || got[0]["product"] != "CHECKOUT" || got[0]["total"] != "100000" ||
		got[0]["owedToCustomers"] != nil ||
		got[1]["available"] != "400000" || got[1]["owedToCustomers"] != "500000" {
		t.Errorf("got %v, want 100000, 400000 and 500000 owed", got)
	}
	if got := only(h.two); len(got) != 0 {
		t.Errorf("another organization: got %v, want nothing", got)
	}
}

// Rules BAL-2, LIST-1.
func TestEntriesAreAStatement(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	tr := h.wantStatus(h.call(h.one, "POST", "/transfers", charge("k", "amount", "400")), 201).text("transferId")
	wd := h.wantStatus(h.call(h.one, "POST", "/withdraw", payment("amount", "50")), 202).text("withdrawalId")
	for query, want := range map[string]int{
		"": 5, "?customerId=alice": 4, "?product=CUSTODIAL": 1, "?product=CHECKOUT": 0, "?mintId=2": 0,
		"?customerId=bob":                    0,
		"?createdAfter=2020-01-01T00:00:00Z": 5, "?createdBefore=2020-01-01T00:00:00Z": 0,
	} {
		if got := h.wantStatus(h.call(h.one, "GET", "/ledger/entries"+query, nil), 200).list(); len(got) != want {
			t.Errorf("%s: got %v, want %v entries", query, got, want)
		}
	}
	if got := h.wantStatus(h.call(h.two, "GET", "/ledger/entries", nil), 200).list(); len(got) != 0 {
		t.Errorf("another organization: got %v, want nothing", got)
	}
	// Credits less debits of every balance equal the balance.
	seen, sum := map[string]bool{}, map[string]int{}
	for cursor := ""; ; {
		page := h.wantStatus(h.call(h.one, "GET", "/ledger/entries?order=asc&limit=2"+cursor, nil), 200)
		for _, e := range page.list() {
			if seen[e["entryId"].(string)] {
				t.Errorf("%v comes twice", e["entryId"])
			}
			seen[e["entryId"].(string)] = true
			n := map[string]int{"1000000": 1000000, "400": 400, "50": 50}[e["amount"].(string)]
			if e["direction"] == "DEBIT" {
				n = -n
			}
			who := e["account"].(map[string]any)
			name, _ := who["customerId"].(string)
			sum[name+" "+e["balance"].(string)] += n
			if cause := e["cause"]; cause == "TRANSFER" && e["resourceId"] != tr ||
				cause == "WITHDRAWAL_HOLD" && e["resourceId"] != wd {
				t.Errorf("got %v, want %v or %v", e, tr, wd)
			}
		}
		if page.body["hasMore"] == false {
			break
		}
		cursor = "&cursor=" + page.text("nextCursor")
	}
	if len(seen) != 5 || sum["alice AVAILABLE"] != 999_550 || sum["alice PENDING_WITHDRAW"] != 50 ||
		sum[" AVAILABLE"] != 400 {
		t.Errorf("got %v in %d entries, want 999550, 50 and 400 in 5", sum, len(seen))
	}
	h.wantRefusal("both", h.call(h.one, "GET", "/ledger/entries?customerId=alice&product=CUSTODIAL", nil), 400,
		"INVALID_REQUEST", "product")
	h.wantRefusal("product", h.call(h.one, "GET", "/ledger/entries?product=SAVINGS", nil), 400, "INVALID_REQUEST",
		"product")
	h.wantRefusal("limited table", h.call(h.one, "GET", "/ledger/entries?limit=5", nil, "Accept", "text/csv"), 400,
		"INVALID_REQUEST", "limit")
}

// Rule BAL-3.
func TestEntriesComeAsATableWithoutFormulas(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for i := range 150 { // more than one page
		h.wantStatus(h.call(
			h.one, "POST", "/transfers",
			charge(strings.Repeat("k", i+1), "amount", "1", "to", map[string]any{"customerId": formula}),
		), 201)
	}
	rows := h.cells(h.one, "/ledger/entries?mintId=1&chain=ETHEREUM&order=asc")
	if len(rows) != 1+300 || rows[0]["cause"] != "DEPOSIT" {
		t.Errorf("got %d rows, the first %v, want 301 from the deposit on", len(rows), rows[0])
	}
	if rows[1]["direction"] != "DEBIT" || rows[1]["customerId"] != alice || rows[2]["direction"] != "CREDIT" ||
		rows[2]["customerId"] != "'"+formula {
		t.Errorf("got %v and %v, want what alice paid to a customer with a harmless name", rows[1], rows[2])
	}
	if got := h.cells(h.one, "/ledger/entries?chain=BASE"); len(got) != 0 {
		t.Errorf("another chain: got %v, want nothing", got)
	}
}
