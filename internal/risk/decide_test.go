package risk

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func verdict(s Severity) *Answer {
	return &Answer{
		Verdict: &Verdict{Provider: "TRM", Severity: s, IsKnown: s != Unknown, Categories: []string{}, GivenAt: noon},
	}
}

// deposit returns a case of 100 dollars, with thresholds of MEDIUM and 50 dollars.
func deposit(change func(*DepositCase)) DepositCase {
	severity, usd := Medium, money.MustParseUSD("50")
	c := DepositCase{
		Subject: Subject{
			Chain: chain.Ethereum, Address: "0x00000000000000000000000000000000000000aa",
			Amount: money.Units(100_000_000), Direction: Incoming,
		},
		Decimals: 6, SeverityThreshold: &severity, USDThreshold: &usd, UnknownAs: TreatUnknownAsHold,
		Price: &Quote{USD: money.MustParseUSD("1"), Source: "fixed", QuotedAt: noon, AgeMax: 5 * time.Minute},
		Now:   noon, WaitingSince: noon, Grace: 15 * time.Minute,
	}
	if change != nil {
		change(&c)
	}
	return c
}

// The table of the interface, and the cases that the cautious choice decides. Rules RISK-1, RISK-2,
// RISK-3, RISK-4 and RISK-5.
func TestADepositIsDecidedByTheTable(t *testing.T) {
	t.Parallel()
	partial := verdict(High)
	partial.Unavailable = "TRM is down"
	low := verdict(Low)
	low.Unavailable = "TRM is down"
	for name, row := range map[string]struct {
		change func(*DepositCase)
		want   DepositOutcome
		status Status
		reason string
		risk   Severity
	}{
		"no thresholds": {
			func(c *DepositCase) { c.SeverityThreshold, c.USDThreshold = nil, nil }, Credit, StatusNotConfigured,
			ReasonNotConfigured, "",
		},
		"no threshold in dollars": {
			func(c *DepositCase) { c.USDThreshold = nil; c.Answer = verdict(Severe) }, Credit, StatusNotConfigured,
			ReasonNotConfigured, "",
		},
		"no severity threshold": {
			func(c *DepositCase) { c.SeverityThreshold = nil; c.Price = nil }, Credit, StatusNotConfigured,
			ReasonNotConfigured, "",
		},
		"flagged before": {
			func(c *DepositCase) { c.Flagged = true; c.Answer = verdict(None) }, LeaveFlagged, StatusFlagged,
			ReasonFlaggedBefore, "",
		},
		"exactly the dollars": {
			func(c *DepositCase) { c.Subject.Amount = half; c.Answer = verdict(Severe) }, Credit, StatusSkipped,
			ReasonBelowThreshold, "",
		},
		"below the dollars": {
			func(c *DepositCase) { c.Subject.Amount = money.Units(1) }, Credit, StatusSkipped, ReasonBelowThreshold, "",
		},
		"one unit above": {
			func(c *DepositCase) { c.Subject.Amount = money.Units(50_000_001) }, ScreenProviders, StatusPending,
			ReasonNotScreened, "",
		},
		"above, nobody asked": {nil, ScreenProviders, StatusPending, ReasonNotScreened, ""},
		"no price": {
			func(c *DepositCase) { c.Price = nil; c.Subject.Amount = money.Units(1) }, ScreenProviders, StatusPending,
			ReasonNotScreened, "",
		},
		"stale price": {func(c *DepositCase) {
			c.Price.QuotedAt = noon.Add(-5*time.Minute - 1)
			c.Subject.Amount = money.Units(1)
		}, ScreenProviders, StatusPending, ReasonNotScreened, ""},
		"price just fresh": {
			func(c *DepositCase) { c.Price.QuotedAt = noon.Add(-5 * time.Minute); c.Subject.Amount = half }, Credit,
			StatusSkipped, ReasonBelowThreshold, "",
		},
		"price of tomorrow": {
			func(c *DepositCase) { c.Price.QuotedAt = noon.Add(24 * time.Hour); c.Subject.Amount = half },
			ScreenProviders, StatusPending, ReasonNotScreened, "",
		},
		"price of nothing": {
			func(c *DepositCase) { c.Price.USD = money.USD{} }, ScreenProviders, StatusPending, ReasonNotScreened, "",
		},
		"price without an age": {
			func(c *DepositCase) { c.Price.AgeMax = 0; c.Price.QuotedAt = noon.Add(-1); c.Subject.Amount = half },
			ScreenProviders, StatusPending, ReasonNotScreened, "",
		},
		"worth more than can be told": {
			func(c *DepositCase) { c.Price.USD = money.MustParseUSD("999999999999999999"); c.Subject.Amount = top },
			ScreenProviders, StatusPending, ReasonNotScreened, "",
		},
		"threshold of nothing": {
			func(c *DepositCase) { *c.USDThreshold = money.USD{}; c.Subject.Amount = money.Units(1) }, ScreenProviders,
			StatusPending, ReasonNotScreened, "",
		},
		"clean": {
			func(c *DepositCase) { c.Answer = verdict(None) }, Credit, StatusPassed, ReasonWithin, "",
		},
		"below the severity": {
			func(c *DepositCase) { c.Answer = verdict(Low) }, Credit, StatusPassed, ReasonWithin, "",
		},
		"exactly the severity": {
			func(c *DepositCase) { c.Answer = verdict(Medium) }, Credit, StatusPassed, ReasonWithin, "",
		},
		"above the severity": {
			func(c *DepositCase) { c.Answer = verdict(High) }, Flag, StatusFlagged, ReasonAbove, High,
		},
		"far above the severity": {
			func(c *DepositCase) { c.Answer = verdict(Severe) }, Flag, StatusFlagged, ReasonAbove, Severe,
		},
		"SEVERE with threshold SEVERE": {
			func(c *DepositCase) { *c.SeverityThreshold = Severe; c.Answer = verdict(Severe) }, Credit, StatusPassed,
			ReasonWithin, "",
		},
		"LOW with threshold NONE": {
			func(c *DepositCase) { *c.SeverityThreshold = None; c.Answer = verdict(Low) }, Flag, StatusFlagged,
			ReasonAbove, Low,
		},
		"a threshold that is none": {
			func(c *DepositCase) { *c.SeverityThreshold = "medium"; c.Answer = verdict(None) }, Flag, StatusFlagged,
			ReasonAbove, None,
		},
		"clean without a price": {
			func(c *DepositCase) { c.Price = nil; c.Answer = verdict(None) }, Credit, StatusPassed, ReasonWithin, "",
		},
		"outage": {
			func(c *DepositCase) { c.Answer = &Answer{Unavailable: "down"} }, RetryLater, StatusUnavailable,
			ReasonUnavailable, "",
		},
		"nobody to ask about": {func(c *DepositCase) {
			c.Subject.Address = ""
			c.Answer = &Answer{Unavailable: "there is no single sender to screen"}
		}, Flag, StatusUnavailable, ReasonUnavailable, Unknown},
		"silence about one of several": {func(c *DepositCase) {
			c.Subject.Address, c.Senders = "", []chain.Address{"a", "b"}
			c.Answer = combineSenders(c.Senders, []*Answer{verdict(None), {Unavailable: "down"}})
		}, RetryLater, StatusUnavailable, ReasonUnavailable, ""},
		"outage to the end": {func(c *DepositCase) {
			c.Answer = &Answer{Unavailable: "down"}
			c.Now = noon.Add(15 * time.Minute)
			c.Price.QuotedAt = c.Now
		}, Flag, StatusUnavailable, ReasonUnavailable, Unknown},
		"an answer of nothing": {
			func(c *DepositCase) { c.Answer = &Answer{} }, RetryLater, StatusUnavailable, ReasonUnavailable, "",
		},
		"a verdict of nothing": {
			func(c *DepositCase) { c.Answer = &Answer{Verdict: &Verdict{}} }, RetryLater, StatusUnavailable,
			ReasonUnavailable, "",
		},
		"an unheard-of severity": {
			func(c *DepositCase) { c.Answer = verdict("BENIGN") }, RetryLater, StatusUnavailable, ReasonUnavailable, "",
		},
		"known and unknown at once": {
			func(c *DepositCase) { c.Answer = verdict(Unknown); c.Answer.Verdict.IsKnown = true }, RetryLater,
			StatusUnavailable, ReasonUnavailable, "",
		},
		"unknown under HOLD": {
			func(c *DepositCase) { c.Answer = verdict(Unknown) }, RetryLater, StatusUnavailable, ReasonUnavailable, "",
		},
		"unknown under nothing": {
			func(c *DepositCase) { c.Answer = verdict(Unknown); c.UnknownAs = "" }, RetryLater, StatusUnavailable,
			ReasonUnavailable, "",
		},
		"unknown to the end": {
			func(c *DepositCase) { c.Answer = verdict(Unknown); c.WaitingSince = noon.Add(-time.Hour) }, Flag,
			StatusUnavailable, ReasonUnavailable, Unknown,
		},
		"unknown as LOW": {
			func(c *DepositCase) { c.Answer = verdict(Unknown); c.UnknownAs = TreatUnknownAsLow }, Credit, StatusPassed,
			ReasonWithin, "",
		},
		"unknown as LOW, threshold NONE": {func(c *DepositCase) {
			c.Answer = verdict(Unknown)
			c.UnknownAs = TreatUnknownAsLow
			*c.SeverityThreshold = None
		}, Flag, StatusFlagged, ReasonAbove, Low},
		"one knows of worse, one is down": {
			func(c *DepositCase) { c.Answer = partial }, Flag, StatusFlagged, ReasonAbove, High,
		},
		"one knows nothing bad, one is down": {
			func(c *DepositCase) { c.Answer = low }, RetryLater, StatusUnavailable, ReasonUnavailable, "",
		},
		"one is down, and unknown would be LOW": {
			func(c *DepositCase) { c.Answer = low; c.UnknownAs = TreatUnknownAsLow }, RetryLater, StatusUnavailable,
			ReasonUnavailable, "",
		},
		"one does not know it, another does": {
			func(c *DepositCase) { c.Answer = verdict(Low); withUnknown(c) }, RetryLater, StatusUnavailable,
			ReasonUnavailable, "",
		},
		"one does not know it, another worse": {
			func(c *DepositCase) { c.Answer = verdict(High); withUnknown(c) }, Flag, StatusFlagged, ReasonAbove, High,
		},
		"floor, below, nobody asked": {
			func(c *DepositCase) { c.SanctionsFloor = true; c.Subject.Amount = half }, ScreenLists, StatusPending,
			ReasonNotScreened, "",
		},
		"floor, below, on a list": {
			func(c *DepositCase) { c.SanctionsFloor = true; c.Subject.Amount = half; c.Lists = verdict(Severe) }, Flag,
			StatusFlagged, ReasonAbove, Severe,
		},
		"floor, below, on none": {
			func(c *DepositCase) { c.SanctionsFloor = true; c.Subject.Amount = half; c.Lists = verdict(None) }, Credit,
			StatusSkipped, ReasonBelowThreshold, "",
		},
		"floor, below, lists too old": {func(c *DepositCase) {
			c.SanctionsFloor = true
			c.Subject.Amount = half
			c.Lists = &Answer{Unavailable: "old"}
		}, RetryLater, StatusUnavailable, ReasonUnavailable, ""},
		"floor, above, providers decide": {
			func(c *DepositCase) { c.SanctionsFloor = true; c.Lists = verdict(None) }, ScreenProviders, StatusPending,
			ReasonNotScreened, "",
		},
		"no floor, below, on a list": {
			func(c *DepositCase) { c.Subject.Amount = half; c.Lists = verdict(Severe) }, Credit, StatusSkipped,
			ReasonBelowThreshold, "",
		},
		"floor without thresholds": {
			func(c *DepositCase) { c.SanctionsFloor = true; c.USDThreshold = nil; c.Lists = verdict(Severe) }, Credit,
			StatusNotConfigured, ReasonNotConfigured, "",
		},
	} {
		c := deposit(row.change)
		got := DecideDeposit(c)
		if got.Outcome != row.want || got.Status != row.status || got.Reason != row.reason ||
			got.RiskOfFunds != row.risk {
			t.Errorf("%s: got %s %s %s %q, want %s %s %s %q", name, got.Outcome, got.Status, got.Reason,
				got.RiskOfFunds, row.want, row.status, row.reason, row.risk)
		}
		kept, err := json.Marshal(DepositRecord{c, got})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReplayDeposit(kept); err != nil { // Rule RISK-7.
			t.Errorf("%s: replayed: got %v, want the same decision", name, err)
		}
	}
}

var half = money.Units(50_000_000) // worth exactly the threshold

var top = money.MustParse("115792089237316195423570985008687907853269984665640564039457584007913129639935")

// withUnknown adds a provider that does not know the address.
func withUnknown(c *DepositCase) {
	c.Answer.Verdict.IsKnown, c.Answer.Verdict.Parts = false,
		[]Verdict{*c.Answer.Verdict, {Provider: "ELLIPTIC", Severity: Unknown, GivenAt: noon}}
}

// Rule RISK-6.
func TestADestinationIsDecidedByTheTable(t *testing.T) {
	t.Parallel()
	medium, none := Medium, None
	both := verdict(Severe)
	both.Unavailable = "TRM is down"
	for name, row := range map[string]struct {
		c      WithdrawalCase
		want   WithdrawalOutcome
		status Status
	}{
		"no provider, no threshold": {WithdrawalCase{}, Pass, StatusNotConfigured},
		"no provider, a threshold":  {WithdrawalCase{Threshold: &medium}, HoldForRisk, StatusUnavailable},
		"not asked":                 {WithdrawalCase{Configured: true}, ScreenDestination, StatusPending},
		"clean":                     {WithdrawalCase{Configured: true, Answer: verdict(None)}, Pass, StatusPassed},
		"exactly the default":       {WithdrawalCase{Configured: true, Answer: verdict(High)}, Pass, StatusPassed},
		"above the default": {
			WithdrawalCase{Configured: true, Answer: verdict(Severe)}, Block, StatusBlocked,
		},
		"exactly its threshold": {
			WithdrawalCase{Configured: true, Threshold: &medium, Answer: verdict(Medium)}, Pass, StatusPassed,
		},
		"above its threshold": {
			WithdrawalCase{Configured: true, Threshold: &medium, Answer: verdict(High)}, Block, StatusBlocked,
		},
		"outage": {
			WithdrawalCase{Configured: true, Answer: &Answer{Unavailable: "down"}}, HoldForRisk, StatusUnavailable,
		},
		"nothing": {
			WithdrawalCase{Configured: true, Answer: &Answer{}}, HoldForRisk, StatusUnavailable,
		},
		"unknown": {
			WithdrawalCase{Configured: true, UnknownAs: TreatUnknownAsHold, Answer: verdict(Unknown)},
			HoldForRisk,
			StatusUnavailable,
		},
		"unknown as LOW": {
			WithdrawalCase{Configured: true, UnknownAs: TreatUnknownAsLow, Answer: verdict(Unknown)},
			Pass,
			StatusPassed,
		},
		"unknown as LOW above NONE": {
			WithdrawalCase{Configured: true, UnknownAs: TreatUnknownAsLow, Threshold: &none, Answer: verdict(Unknown)},
			Block, StatusBlocked,
		},
		"one SEVERE, one down": {WithdrawalCase{Configured: true, Answer: both}, Block, StatusBlocked},
		"clean, outage, told as both": {
			WithdrawalCase{Configured: true, Answer: &Answer{Verdict: verdict(None).Verdict, Unavailable: "down"}},
			HoldForRisk, StatusUnavailable,
		},
	} {
		row.c.Now = noon
		got := DecideWithdrawal(row.c)
		if got.Outcome != row.want || got.Status != row.status {
			t.Errorf("%s: got %s %s, want %s %s", name, got.Outcome, got.Status, row.want, row.status)
		}
		kept, err := json.Marshal(WithdrawalRecord{row.c, got})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReplayWithdrawal(kept); err != nil { // Rule RISK-7.
			t.Errorf("%s: replayed: got %v, want the same decision", name, err)
		}
	}
}

// Decisions that an earlier program stored are decided the same by this one. Rule RISK-7.
func TestKeptDecisionsAreDecidedTheSame(t *testing.T) {
	t.Parallel()
	read := func(name string) []byte {
		kept, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return kept
	}
	r, err := ReplayDeposit(read("deposit.json"))
	if err != nil || r.Decision.Outcome != Flag || r.Decision.RiskOfFunds != Severe {
		t.Errorf("a deposit: got %+v %v, want it flagged", r.Decision, err)
	}
	w, err := ReplayWithdrawal(read("withdrawal.json"))
	if err != nil || w.Decision.Outcome != HoldForRisk {
		t.Errorf("a withdrawal: got %+v %v, want it held", w.Decision, err)
	}
	for name, change := range map[string]func(*DepositRecord){
		"threshold": func(r *DepositRecord) { *r.Case.SeverityThreshold = Severe },
		"answer":    func(r *DepositRecord) { r.Case.Answer.Verdict.Severity = None },
		"decision":  func(r *DepositRecord) { r.Decision.Outcome = Credit },
		"price":     func(r *DepositRecord) { r.Case.Price.USD = money.MustParseUSD("0.000001") },
	} {
		var changed DepositRecord
		if err := json.Unmarshal(read("deposit.json"), &changed); err != nil {
			t.Fatal(err)
		}
		change(&changed)
		kept, err := json.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReplayDeposit(kept); err == nil {
			t.Errorf("another %s: got the same decision, want an error", name)
		}
	}
}

func TestSeveritiesHaveOneOrder(t *testing.T) {
	t.Parallel()
	for i, a := range Severities {
		for j, b := range Severities {
			if got := a.Exceeds(b); got != (i > j) {
				t.Errorf("%s above %s: got %t, want %t", a, b, got, i > j)
			}
		}
		if !Unknown.Exceeds(a) || !a.Exceeds(Unknown) || !Severity("low").Exceeds(a) {
			t.Errorf("%s: got something outside the order within it", a)
		}
		if got, err := ParseSeverity(string(a)); got != a || err != nil {
			t.Errorf("got %v %v, want %v", got, err, a)
		}
	}
	for _, s := range []string{"", "UNKNOWN", "low", "LOW ", "ＬＯＷ"} {
		if got, err := ParseSeverity(s); err == nil {
			t.Errorf("%q: got %v, want an error", s, got)
		}
	}
}

func TestTextsOfOneAddressAreOne(t *testing.T) {
	t.Parallel()
	const evm = "0x098B716B8Aaf21512996dC57EB0615e2383E2f96"
	for _, same := range [][2]string{
		{evm, "0x098b716b8aaf21512996dc57eb0615e2383e2f96"},
		{evm, "0x098B716B8AAF21512996DC57EB0615E2383E2F96"},
		{"bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq", "BC1QAR0SRRR7XFKVY5L643LYDNW9RE59GTZZWF5MDQ"},
	} {
		if CanonicalAddress(same[0]) != CanonicalAddress(same[1]) {
			t.Errorf("%s and %s: got two addresses, want one", same[0], same[1])
		}
	}
	for _, other := range [][2]string{
		{"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", "1a1zp1ep5qgefi2dmptftl5slmv7divfna"},
		{"TN3W4H6rK2ce4vX9YnFQHwKENnHjoxb3m9", "Tn3w4h6rk2ce4vx9ynfqhwkennhjoxb3m9"},
		{evm, evm + "0"},
	} {
		if CanonicalAddress(other[0]) == CanonicalAddress(other[1]) {
			t.Errorf("%s and %s: got one address, want two", other[0], other[1])
		}
	}
}
