package risk

import (
	"errors"
	"testing"
)

// Rules RISK-4, RISK-5 and RISK-6.
func TestAPolicyAsksWhomTheRulesSay(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	for name, c := range map[string]struct {
		policy Policy
		below  bool
		want   DepositOutcome
		asked  int64 // of the providers
	}{
		"above, clean":                  {Policy{Providers: panelOf(says("A", None)), Grace: GraceDefault}, false, Credit, 1},
		"above, severe":                 {Policy{Providers: panelOf(says("A", Severe)), Grace: GraceDefault}, false, Flag, 1},
		"above, nobody there":           {Policy{Grace: GraceDefault}, false, Wait, 0},
		"below, no floor":               {Policy{Providers: panelOf(says("A", Severe)), Lists: panelOf(says("L", Severe)), Grace: GraceDefault}, true, Credit, 0},
		"below, floor, on the list":     {Policy{Providers: panelOf(says("A", None)), Lists: panelOf(says("L", Severe)), SanctionsFloor: true, Grace: GraceDefault}, true, Flag, 0},
		"below, floor, not on the list": {Policy{Providers: panelOf(says("A", Severe)), Lists: panelOf(says("L", None)), SanctionsFloor: true, Grace: GraceDefault}, true, Credit, 0},
		"below, floor, list is down":    {Policy{Providers: panelOf(says("A", None)), Lists: panelOf(fails("L", down)), SanctionsFloor: true, Grace: GraceDefault}, true, Wait, 0},
		"below, floor, no list":         {Policy{Providers: panelOf(says("A", None)), SanctionsFloor: true, Grace: GraceDefault}, true, Wait, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := c.policy.Decide(t.Context(), deposit(func(d *DepositCase) {
				if c.below {
					d.Subject.Amount = half
				}
			}))
			if got.Decision.Outcome != c.want {
				t.Errorf("got %s, want %s", got.Decision.Outcome, c.want)
			}
			if p, ok := c.policy.Providers.(*Panel); ok && p.Members[0].Screener.(*scripted).asked.Load() != c.asked {
				t.Errorf("got %d questions, want %d", p.Members[0].Screener.(*scripted).asked.Load(), c.asked)
			}
		})
	}
	for name, c := range map[string]struct {
		policy Policy
		want   WithdrawalOutcome
	}{
		"nobody there": {Policy{}, Pass},
		"clean":        {Policy{Providers: panelOf(says("A", High))}, Pass},
		"severe":       {Policy{Providers: panelOf(says("A", Severe))}, Block},
		"down":         {Policy{Providers: panelOf(fails("A", Final("down")))}, HoldForRisk},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := c.policy.DecideDestination(t.Context(), WithdrawalCase{Subject: sender, Now: noon}); got.Decision.Outcome != c.want {
				t.Errorf("got %s, want %s", got.Decision.Outcome, c.want)
			}
		})
	}
}
