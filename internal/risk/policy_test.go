package risk

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
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

// Rule RISK-14.
func TestOfSeveralSendersTheWorstIsKnown(t *testing.T) {
	t.Parallel()
	down := &Answer{Unavailable: "down"}
	partly := verdict(Severe)
	partly.Unavailable = "one is down"
	old := verdict(Low)
	old.Verdict.At = noon.Add(-1)
	for name, c := range map[string]struct {
		answers   []*Answer
		severity  Severity // "": no verdict
		known     bool
		missing   bool
		hold, low answered // against MEDIUM, with what is unknown held, and taken for LOW
	}{
		"all clean":                    {[]*Answer{verdict(None), verdict(Low)}, Low, true, false, within, within},
		"the first is worse":           {[]*Answer{verdict(High), verdict(None)}, High, true, false, above, above},
		"the last is worse":            {[]*Answer{verdict(None), old, verdict(Severe)}, Severe, true, false, above, above},
		"one is unknown":               {[]*Answer{verdict(Low), verdict(Unknown)}, Low, false, false, noAnswer, within},
		"all are unknown":              {[]*Answer{verdict(Unknown), verdict(Unknown)}, Unknown, false, false, noAnswer, within},
		"unknown beside worse":         {[]*Answer{verdict(Unknown), verdict(High)}, High, false, false, above, above},
		"nobody says of one":           {[]*Answer{verdict(None), down}, None, true, true, noAnswer, noAnswer},
		"nobody says of one, one bad":  {[]*Answer{down, verdict(High)}, High, true, true, above, above},
		"nobody says of any":           {[]*Answer{down, down}, "", false, true, noAnswer, noAnswer},
		"who said something is partly": {[]*Answer{partly, verdict(None)}, Severe, true, true, above, above},
		"an answer of nothing":         {[]*Answer{{}, verdict(None)}, None, true, true, noAnswer, noAnswer},
		"nonsense":                     {[]*Answer{{Verdict: &Verdict{Provider: "TRM", Severity: "BENIGN", At: noon}}, verdict(None)}, None, true, true, noAnswer, noAnswer},
	} {
		of := []chain.Address{"a", "b", "c"}[:len(c.answers)]
		got := worstOf(of, c.answers)
		if (got.Verdict == nil) != (c.severity == "") || (got.Unavailable != "") != c.missing {
			t.Errorf("%s: got %+v, want severity %q, missing %t", name, got, c.severity, c.missing)
			continue
		}
		if v := got.Verdict; v != nil && (v.Severity != c.severity || v.Known != c.known || v.check() != nil || v.Of[0].Address == "") {
			t.Errorf("%s: got %+v, want severity %s, known %t", name, v, c.severity, c.known)
		}
		if hold, low := got.against(Medium, UnknownHolds), got.against(Medium, UnknownIsLow); hold != c.hold || low != c.low {
			t.Errorf("%s: got %v and %v, want %v and %v", name, hold, low, c.hold, c.low)
		}
	}
	if got := worstOf([]chain.Address{"a", "b", "c"}, []*Answer{verdict(None), old, verdict(Severe)}); got.Verdict.At != old.Verdict.At {
		t.Errorf("got it of %v, want it as old as the oldest, %v", got.Verdict.At, old.Verdict.At)
	}
	scripted := panelOf(says("A", None))
	p := Policy{Providers: scripted, Grace: GraceDefault}
	for n, want := range map[int]DepositOutcome{2: Credit, SendersMax: Credit, SendersMax + 1: Wait} {
		got := p.Decide(t.Context(), deposit(func(d *DepositCase) {
			d.Subject.Address = ""
			for i := range n {
				d.Senders = append(d.Senders, chain.Address(fmt.Sprint("sender ", i)))
			}
		}))
		if got.Decision.Outcome != want || want == Wait && !strings.Contains(got.Case.Answer.Unavailable, "at most") {
			t.Errorf("%d senders: got %+v, want %s", n, got.Decision, want)
		}
	}
}
