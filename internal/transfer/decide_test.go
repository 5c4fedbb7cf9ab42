package transfer

import (
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/request"
)

// A customer cannot spend what is owed for restored payments, and the first request of a group
// leaves less to the next. Rule TR-4.
func TestWhatIsOwedIsNotGivenAway(t *testing.T) {
	t.Parallel()
	ann, bob := "ann", "bob"
	m := mint.NewCatalogue(mint.Mint{ID: 1, Chain: chain.Ethereum, Symbol: "USDC", Decimals: 6})
	payer := ledger.Account{OrgID: "org_1", MintID: 1, Kind: ledger.Customer, Subject: ann}
	f := groupFacts{
		stored:  map[string]knownTransfer{},
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

// passingFacts returns facts of a transfer that nothing refuses.
func passingFacts() Facts {
	return Facts{
		parsed: parsed{
			mint:   mint.Mint{ID: 1, Chain: chain.Ethereum, Symbol: "USDC", Decimals: 6},
			amount: money.Units(10), digest: []byte("d"),
		},
		payee: ledger.Account{Kind: ledger.Customer, Subject: "bob"}, payeeExists: true, spendable: money.Units(10),
	}
}

// Each check refuses alone, and of each adjacent pair the first one answers. Rules TR-4, TR-6, TR-7
// and TR-8.
func TestTheFirstCheckThatRefusesATransferAnswers(t *testing.T) {
	t.Parallel()
	frozen := func(s freeze.Scope) func(*Facts) {
		return func(f *Facts) { f.activeFreeze = &freeze.Freeze{Scope: s} }
	}
	type stop struct {
		name   string
		change func(*Facts)
		code   fault.Code
		param  string
	}
	stops := []stop{
		{"a known key of another request", func(f *Facts) {
			f.existing = &knownTransfer{Accepted: request.Accepted{ID: "tr_1", Digest: []byte("another")}}
		}, fault.IdempotencyConflict, "idempotencyKey"},
		{"over the limit", func(f *Facts) {
			f.limitErr = fault.New(fault.Limited, fault.RateLimited, fault.Unprocessed, "")
		}, fault.RateLimited, ""},
		{"the payer frozen", frozen(freeze.ScopeCustomer), fault.CustomerFrozen, "from.customerId"},
		{"malformed", func(f *Facts) {
			f.parseErr = fault.New(fault.Invalid, fault.InvalidAmount, fault.NothingWritten, "").WithParam("amount")
		}, fault.InvalidAmount, "amount"},
		{
			"a payee that no customer may become", func(f *Facts) { f.payee.Subject, f.payeeExists = "..", false },
			fault.InvalidRequest, "to.customerId",
		},
		{"in quarantine", func(f *Facts) { f.mint.Quarantined = true }, fault.WithdrawalsSuspended, "mintId"},
		{"the chain stopped", frozen(freeze.ScopeChain), fault.WithdrawalsSuspended, "mintId"},
		{"too small a balance", func(f *Facts) { f.spendable = money.Units(9) }, fault.InsufficientBalance, "amount"},
	}
	for i, first := range stops {
		f, names := passingFacts(), first.name
		if i+1 < len(stops) {
			stops[i+1].change(&f)
			names += " and " + stops[i+1].name
		}
		alone := passingFacts()
		first.change(&alone)
		first.change(&f)
		for name, f := range map[string]Facts{first.name: alone, names: f} {
			plan, rejection := Decide(f)
			if rejection == nil {
				t.Errorf("%s: got %+v, want %s", name, plan, first.code)
				continue
			}
			got := fault.Find(rejection.Err)
			if got == nil || got.Code != first.code || got.Param != first.param {
				t.Errorf("%s: got %v, want %s of %q", name, rejection.Err, first.code, first.param)
			}
		}
	}
	f := passingFacts()
	frozen(freeze.ScopeOrganization)(&f)
	if _, rejection := Decide(f); rejection == nil || !fault.HasCode(rejection.Err, fault.OrganizationFrozen) {
		t.Errorf("the organization frozen: got %+v, want %s", rejection, fault.OrganizationFrozen)
	}
}

// Rules TR-1, TR-6 and TR-7.
func TestAPlanMakesTheTransferOrNamesTheOneOfItsKey(t *testing.T) {
	t.Parallel()
	f := passingFacts()
	if plan, rejection := Decide(f); rejection != nil || plan.Existing != nil || plan.Amount != f.amount {
		t.Errorf("got %+v %v, want %s moved", plan, rejection, f.amount)
	}
	reference, same, other := "r1", "r1", "r2"
	f.reference, f.activeFreeze, f.spendable = &reference, &freeze.Freeze{Scope: freeze.ScopeCustomer}, money.Zero
	for _, c := range []struct {
		name     string
		accepted request.Accepted
		isReplay bool
	}{
		{"the same request", request.Accepted{ID: "tr_1", Digest: []byte("d"), Reference: &same}, true},
		{"another digest", request.Accepted{ID: "tr_1", Digest: []byte("e"), Reference: &same}, false},
		{"another reference", request.Accepted{ID: "tr_1", Digest: []byte("d"), Reference: &other}, false},
		{"no reference", request.Accepted{ID: "tr_1", Digest: []byte("d")}, false},
	} {
		f.existing = &knownTransfer{Accepted: c.accepted}
		plan, rejection := Decide(f)
		if (plan.Existing == f.existing) != c.isReplay || (rejection == nil) != c.isReplay {
			t.Errorf("%s: got %+v %+v, want a replay: %t", c.name, plan, rejection, c.isReplay)
		}
	}
}
