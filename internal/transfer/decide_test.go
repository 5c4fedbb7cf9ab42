package transfer

import (
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
)

// A customer cannot spend what is owed for restored payments, and the first request of a group
// leaves less to the next. Rule TR-4.
func TestWhatIsOwedIsNotGivenAway(t *testing.T) {
	t.Parallel()
	ann, bob := "ann", "bob"
	m := mint.NewCatalogue(mint.Mint{ID: 1, Chain: chain.Ethereum, Symbol: "USDC", Decimals: 6})
	payer := ledger.Account{OrgID: "org_1", MintID: 1, Kind: ledger.Customer, Subject: ann}
	f := facts{
		freezes: &freeze.ActiveSet{}, mints: &m,
		accounts: ledger.KnownAccounts{payer: {Balance: money.Units(100)}},
		owed:     map[ledger.Account]money.Amount{payer: money.Units(70)},
	}
	var group []*pendingRequest
	for i, amount := range []string{"31", "20", "11", "10", "1"} {
		a, err := parseRequest("org_1", Request{
			MintID: 1, Amount: amount, From: Party{CustomerID: &ann}, To: Party{CustomerID: &bob},
			IdempotencyKey: string(rune('a' + i)),
		})
		if err != nil {
			t.Fatal(err)
		}
		group = append(group, a)
	}
	rows := decideGroup(f, group, time.Now())
	for i, made := range []bool{false, true, false, true, false} {
		if (group[i].err == nil) != made || !made && !fault.HasCode(group[i].err, fault.InsufficientBalance) {
			t.Errorf("%s of 30: got %v, want it made: %v", group[i].Amount, group[i].err, made)
		}
	}
	if len(rows) != 2 {
		t.Errorf("got %d rows, want 2", len(rows))
	}
}
