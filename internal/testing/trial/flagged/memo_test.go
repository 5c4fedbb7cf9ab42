package flagged

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
	s := newSolanaEnv(t)
	ann, bob := s.customerWallet("ann"), s.customerWallet("bob")
	key, at := s.newStranger(risk.Low)
	s.sendInstructions(key, surfpool.TransferLamports(at, ann.Address, 2_000_000_000), surfpool.Memo("order 7"))
	s.sendInstructions(key, usdCoin.CreateAccount(at, ann.Address), usdCoin.CreateAccount(at, bob.Address),
		surfpool.Memo("orders 8"),
		usdCoin.TransferTokens(usdCoin.AssociatedAccount(at), usdCoin.AssociatedAccount(ann.Address), at, 100*dollars),
		usdCoin.TransferTokens(usdCoin.AssociatedAccount(at), usdCoin.AssociatedAccount(bob.Address), at, 100*dollars),
		surfpool.Memo("and 9"))
	s.sendInstructions(key, surfpool.TransferLamports(at, bob.Address, 3_000_000_000))
	s.finalizeAll()
	want := map[string]string{"2000000000": "order 7", "100000000": "orders 8\nand 9", "3000000000": ""}
	got := s.listDeposits("CREDITED")
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
		s.mustSucceed(json.Unmarshal(
			[]byte(s.queryText(
				`SELECT convert_from(data, 'UTF8') FROM events WHERE resource_id = $1 AND type = 'CUSTOMER_DEPOSIT'`,
				d.DepositID,
			)),
			&told,
		))
		check("event", told)
	}
	if n := s.queryText(`SELECT count(*)::text FROM transaction_memos WHERE status = 'READ'`); n != "3" {
		t.Errorf("got %s transactions read, want three", n)
	}
}
