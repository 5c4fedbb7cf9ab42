package deposit_test

import (
	"testing"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/risk"
)

// Where the chain names nobody who sent a deposit alone, no provider is asked; what would
// have to be screened is held at once, and only the operator says where it goes.
// Rule RISK-14.
func TestADepositOfSeveralSendersIsHeld(t *testing.T) {
	t.Parallel()
	w, o := thresholds(t)
	o.set("", risk.None) // who would be asked about no address would let it pass
	several := func(units uint64) sim.Move {
		return sim.Move{Contract: usdcAt, To: alice, Amount: money.Units(units), Several: true}
	}
	w.c.Do(payer, several(100)) // of no worth
	w.c.Mine(4)
	w.walk(t)
	w.credited(t, usdc, 100, 1)
	w.c.Do(payer, several(700))
	w.c.Mine(4)
	w.walk(t)
	balance := func(want uint64) {
		t.Helper()
		if got := w.balance(t, ledger.Customer, "alice", usdc); got != money.Units(want) {
			t.Errorf("got a balance of %v, want %d", got, want)
		}
	}
	balance(100)
	got := w.list(t, deposit.Filter{Status: "FLAGGED"})
	if len(got) != 1 || len(got[0].FromAddresses) != 0 || got[0].ReturnAddressRisk == nil || *got[0].ReturnAddressRisk != "MULTIPLE_INPUTS" {
		t.Fatalf("got %+v, want one that is held, from nobody", got)
	}
	if code := got[0].FlagReason.Code; code != risk.ReasonUnavailable || *got[0].RiskOfFunds != string(risk.Unknown) {
		t.Errorf("got %s, risk %s, want %s", code, *got[0].RiskOfFunds, risk.ReasonUnavailable)
	}
	if o.n != 0 {
		t.Errorf("asked %d times about nobody, want never", o.n)
	}
	for who, by := range map[string]deposit.Decider{"the organization": {Actor: audit.User("usr_1"), OrgID: w.org}, "the operator": operator()} {
		if _, err := w.resolutions().Reject(t.Context(), got[0].DepositID, by, ""); !fault.Is(err, fault.OperatorOnly) {
			t.Errorf("%s sends it back: got %v, want a refusal: there is nobody to send it to", who, err)
		}
	}
	if _, err := w.resolutions().Approve(t.Context(), got[0].DepositID, operator(), ""); err != nil {
		t.Fatal(err)
	}
	balance(800)
}
