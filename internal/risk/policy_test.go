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
		"above, clean": {
			Policy{Providers: panelOf(says("A", None)), Grace: GraceDefault}, false, Credit, 1,
		},
		"above, severe": {
			Policy{Providers: panelOf(says("A", Severe)), Grace: GraceDefault}, false, Flag, 1,
		},
		"above, nobody there": {Policy{Grace: GraceDefault}, false, RetryLater, 0},
		"below, no floor": {
			Policy{Providers: panelOf(says("A", Severe)), Lists: panelOf(says("L", Severe)), Grace: GraceDefault},
			true,
			Credit, 0,
		},
		"below, floor, on the list": {Policy{
			Providers: panelOf(says("A", None)), Lists: panelOf(says("L", Severe)), SanctionsFloor: true,
			Grace: GraceDefault,
		}, true, Flag, 0},
		"below, floor, not on the list": {Policy{
			Providers: panelOf(says("A", Severe)), Lists: panelOf(says("L", None)), SanctionsFloor: true,
			Grace: GraceDefault,
		}, true, Credit, 0},
		"below, floor, list is down": {Policy{
			Providers: panelOf(says("A", None)), Lists: panelOf(fails("L", down)), SanctionsFloor: true,
			Grace: GraceDefault,
		}, true, RetryLater, 0},
		"below, floor, no list": {
			Policy{Providers: panelOf(says("A", None)), SanctionsFloor: true, Grace: GraceDefault}, true, RetryLater, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := c.policy.DecideDeposit(t.Context(), deposit(func(d *DepositCase) {
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
		"down":         {Policy{Providers: panelOf(fails("A", NotRetryable("down")))}, HoldForRisk},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := c.policy.DecideDestination(
				t.Context(), WithdrawalCase{Subject: sender, Now: noon},
			); got.Decision.Outcome != c.want {
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
	old.Verdict.GivenAt = noon.Add(-1)
	for name, c := range map[string]struct {
		answers   []*Answer
		severity  Severity // "": no verdict
		known     bool
		missing   bool
		hold, low comparison // against MEDIUM, with an unknown result held, and taken as LOW
	}{
		"all clean": {
			[]*Answer{verdict(None), verdict(Low)}, Low, true, false, withinThreshold, withinThreshold,
		},
		"the first is worse": {
			[]*Answer{verdict(High), verdict(None)}, High, true, false, aboveThreshold, aboveThreshold,
		},
		"the last is worse": {
			[]*Answer{verdict(None), old, verdict(Severe)}, Severe, true, false, aboveThreshold, aboveThreshold,
		},
		"one is unknown": {
			[]*Answer{verdict(Low), verdict(Unknown)}, Low, false, false, noAnswer, withinThreshold,
		},
		"all are unknown": {
			[]*Answer{verdict(Unknown), verdict(Unknown)}, Unknown, false, false, noAnswer, withinThreshold,
		},
		"unknown beside worse": {
			[]*Answer{verdict(Unknown), verdict(High)}, High, false, false, aboveThreshold, aboveThreshold,
		},
		"nobody says of one": {[]*Answer{verdict(None), down}, None, true, true, noAnswer, noAnswer},
		"nobody says of one, one bad": {
			[]*Answer{down, verdict(High)}, High, true, true, aboveThreshold, aboveThreshold,
		},
		"nobody says of any": {[]*Answer{down, down}, "", false, true, noAnswer, noAnswer},
		"who said something is partly": {
			[]*Answer{partly, verdict(None)}, Severe, true, true, aboveThreshold, aboveThreshold,
		},
		"an answer of nothing": {[]*Answer{{}, verdict(None)}, None, true, true, noAnswer, noAnswer},
		"nonsense": {
			[]*Answer{{Verdict: &Verdict{Provider: "TRM", Severity: "BENIGN", GivenAt: noon}}, verdict(None)},
			None,
			true, true, noAnswer, noAnswer,
		},
	} {
		of := []chain.Address{"a", "b", "c"}[:len(c.answers)]
		got := combineSenders(of, c.answers)
		if (got.Verdict == nil) != (c.severity == "") || (got.Unavailable != "") != c.missing {
			t.Errorf("%s: got %+v, want severity %q, missing %t", name, got, c.severity, c.missing)
			continue
		}
		if v := got.Verdict; v != nil && (v.Severity != c.severity || v.IsKnown != c.known || v.validate() != nil ||
			v.Parts[0].Address == "") {
			t.Errorf("%s: got %+v, want severity %s, known %t", name, v, c.severity, c.known)
		}
		if hold, low := got.compareWith(Medium, TreatUnknownAsHold),
			got.compareWith(Medium, TreatUnknownAsLow); hold != c.hold || low != c.low {
			t.Errorf("%s: got %v and %v, want %v and %v", name, hold, low, c.hold, c.low)
		}
	}
	if got := combineSenders(
		[]chain.Address{"a", "b", "c"}, []*Answer{verdict(None), old, verdict(Severe)},
	); got.Verdict.GivenAt != old.Verdict.GivenAt {
		t.Errorf("got it of %v, want it as old as the oldest, %v", got.Verdict.GivenAt, old.Verdict.GivenAt)
	}
	scripted := panelOf(says("A", None))
	p := Policy{Providers: scripted, Grace: GraceDefault}
	for n, want := range map[int]DepositOutcome{2: Credit, SendersMax: Credit, SendersMax + 1: RetryLater} {
		got := p.DecideDeposit(t.Context(), deposit(func(d *DepositCase) {
			d.Subject.Address = ""
			for i := range n {
				d.Senders = append(d.Senders, chain.Address(fmt.Sprint("sender ", i)))
			}
		}))
		if got.Decision.Outcome != want || want == RetryLater &&
			!strings.Contains(got.Case.Answer.Unavailable, "at most") {
			t.Errorf("%d senders: got %+v, want %s", n, got.Decision, want)
		}
	}
}
