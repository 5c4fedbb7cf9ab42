package deposit

import (
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Rule RISK-4: only a decision that explicitly says so credits a deposit.
func TestOnlyADecisionToCreditCredits(t *testing.T) {
	t.Parallel()
	now := time.Now()
	customers, treasury := Deposit{status: Screening, purpose: wallet.CustomerDeposit},
		Deposit{status: Screening, purpose: wallet.Treasury}
	for _, c := range []struct {
		name   string
		was    Deposit
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
		{"a treasury's, about which nobody decides", treasury, nil, Credited},
	} {
		after, ok := candidate{record: c.record}.applyDecision(c.was, now)
		if ok != (c.want != "") || ok && after.status != c.want {
			t.Errorf("%s: got %v %s, want %q", c.name, ok, after.status, c.want)
		}
	}
}
