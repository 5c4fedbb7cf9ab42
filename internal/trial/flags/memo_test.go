package flags

import (
	"encoding/json"
	"testing"

	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/webhook"
)

// Rule DEP-54 on a real chain: a coin with a memo, a token with two, and a coin without.
func TestOnSolanaADepositShowsThePayersMemo(t *testing.T) {
	t.Parallel()
	s := land(t)
	ann, bob := s.customer("ann"), s.customer("bob")
	key, at := s.stranger(risk.Low)
	s.does(key, surfpool.Transfer(at, ann.Address, 2_000_000_000), surfpool.Memo("order 7"))
	s.does(key, usdCoin.Create(at, ann.Address), usdCoin.Create(at, bob.Address), surfpool.Memo("orders 8"),
		usdCoin.Transfer(usdCoin.Account(at), usdCoin.Account(ann.Address), at, 100*dollars),
		usdCoin.Transfer(usdCoin.Account(at), usdCoin.Account(bob.Address), at, 100*dollars), surfpool.Memo("and 9"))
	s.does(key, surfpool.Transfer(at, bob.Address, 3_000_000_000))
	s.final()
	want := map[string]string{"2000000000": "order 7", "100000000": "orders 8\nand 9", "3000000000": ""}
	got := s.deposits("CREDITED")
	if len(got) != 4 {
		t.Fatalf("got %d credited, want four", len(got))
	}
	check := func(where string, d webhook.Deposit) {
		t.Helper()
		memo := ""
		if d.Memo != nil {
			memo = *d.Memo
		}
		if memo != want[d.Amount] || (d.Memo == nil) != (memo == "") {
			t.Errorf("%s of %s to %s: got %q, want %q", where, d.Amount, *d.CustomerID, memo, want[d.Amount])
		}
	}
	for _, d := range got {
		check("deposit", d)
		var told webhook.Deposit
		s.must(json.Unmarshal([]byte(s.one(`SELECT convert_from(data, 'UTF8') FROM events WHERE resource_id = $1 AND type = 'CUSTOMER_DEPOSIT'`, d.DepositID)), &told))
		check("event", told)
	}
	if n := s.one(`SELECT count(*)::text FROM transaction_memos WHERE status = 'READ'`); n != "3" {
		t.Errorf("got %s transactions read, want three", n)
	}
}
