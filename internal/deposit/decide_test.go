package deposit

import (
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Rule RISK-4: only a decision that explicitly says so credits a deposit.
func TestOnlyADecisionToCreditCredits(t *testing.T) {
	t.Parallel()
	now := time.Now()
	customers, treasury := storedDeposit{status: Screening, purpose: wallet.CustomerDeposit},
		storedDeposit{status: Screening, purpose: wallet.Treasury}
	for _, c := range []struct {
		name   string
		was    storedDeposit
		record *risk.DepositRecord
		want   Status
	}{
		{"credit", customers, &risk.DepositRecord{Decision: risk.DepositDecision{Outcome: risk.Credit}}, Credited},
		{"flag", customers, &risk.DepositRecord{Decision: risk.DepositDecision{Outcome: risk.Flag}}, Flagged},
		{"ask", customers, &risk.DepositRecord{Decision: risk.DepositDecision{Outcome: risk.ScreenProviders}}, ""},
		{
			"ask the lists", customers, &risk.DepositRecord{Decision: risk.DepositDecision{Outcome: risk.ScreenLists}},
			"",
		},
		{"wait", customers, &risk.DepositRecord{Decision: risk.DepositDecision{Outcome: risk.RetryLater}}, ""},
		{"leave", customers, &risk.DepositRecord{Decision: risk.DepositDecision{Outcome: risk.LeaveFlagged}}, ""},
		{"nothing", customers, &risk.DepositRecord{}, ""},
		{"no decision", customers, nil, ""},
		{"a treasury's, which waits for no decision", treasury, nil, Credited},
	} {
		f := passingFacts()
		f.deposit, f.record, f.now, f.isOperators = c.was, c.record, now, c.was.purpose == wallet.Treasury
		plan, rejection := Decide(f)
		if (rejection == "") != (c.want != "") || plan.After.status != c.want {
			t.Errorf("%s: got %q %s, want %q", c.name, rejection, plan.After.status, c.want)
		}
		if c.want == "" && rejection != rejectedUndecided {
			t.Errorf("%s: got %q, want %q", c.name, rejection, rejectedUndecided)
		}
		if c.want == Credited && (plan.After.creditedAt == nil || plan.After.usd != f.usd || plan.After.flag != nil) ||
			c.want == Flagged && (plan.After.creditedAt != nil || plan.After.flag == nil) {
			t.Errorf("%s: got %+v", c.name, plan.After)
		}
	}
}

// passingFacts returns facts of a deposit that screening credits.
func passingFacts() Facts {
	usd := money.MustParseUSD("1")
	return Facts{
		deposit: storedDeposit{status: Screening, purpose: wallet.CustomerDeposit}, usd: &usd,
		record:       &risk.DepositRecord{Decision: risk.DepositDecision{Outcome: risk.Credit}},
		isMintUsable: true, isWalletProven: true, isUnchanged: true, areSettingsKept: true, isDeep: true,
		hasCreditWallet: true, now: time.Now(),
	}
}

// Each reason keeps a deposit in SCREENING alone, and of each adjacent pair the first one is given.
// Rules DEP-3, DEP-15 and RISK-4.
func TestADepositStaysForTheFirstReasonAgainstIt(t *testing.T) {
	t.Parallel()
	reasons := []struct {
		change func(*Facts)
		want   Rejection
	}{
		{func(f *Facts) { f.isMintUsable = false }, rejectedMintUnusable},
		{func(f *Facts) { f.isFinalityBroken = true }, rejectedFinalityBroken},
		{func(f *Facts) { f.isWalletProven = false }, rejectedWalletUnproven},
		{func(f *Facts) { f.isUnchanged = false }, rejectedChanged},
		{func(f *Facts) { f.areSettingsKept = false }, rejectedSettingsChanged},
		{func(f *Facts) { f.isDeep = false }, rejectedTooShallow},
		{func(f *Facts) { f.hasCreditWallet = false }, rejectedWithoutTreasury},
		{func(f *Facts) { f.record = nil }, rejectedUndecided},
	}
	if _, rejection := Decide(passingFacts()); rejection != "" {
		t.Errorf("nothing against it: got %q", rejection)
	}
	for i, r := range reasons {
		f := passingFacts()
		r.change(&f)
		if plan, got := Decide(f); got != r.want || plan.After.status != "" {
			t.Errorf("got %q and %s, want %q", got, plan.After.status, r.want)
		}
		if i+1 < len(reasons) {
			reasons[i+1].change(&f)
			if _, got := Decide(f); got != r.want {
				t.Errorf("%s and %s: got %q", r.want, reasons[i+1].want, got)
			}
		}
	}
}
