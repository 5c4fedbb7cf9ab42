package risk_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/risk/risktest"
)

const mintOfTable = 7

// quoting is a source that returns one price of some age, or nothing.
type quoting struct {
	usd string
	age time.Duration
}

func (q quoting) USD(context.Context, int) (price.Quote, error) {
	if q.usd == "" {
		return price.Quote{}, price.ErrUnavailable
	}
	return price.Quote{Price: money.MustParseUSD(q.usd), QuotedAt: time.Now().Add(-q.age)}, nil
}

// The prices of two sources, both of which are required. One is a price: the first.
var prices = []struct {
	name string
	of   [2]quoting
}{
	{"fresh", [2]quoting{{"1", 0}, {"1", 5 * time.Minute}}},
	{"one is stale", [2]quoting{{"1", 0}, {"1", 5*time.Minute + 1}}},
	{"both are stale", [2]quoting{{"1", time.Hour}, {"1", time.Hour}}},
	{"one is missing", [2]quoting{{"1", 0}, {}}},
	{"both are missing", [2]quoting{{}, {}}},
	{"they disagree", [2]quoting{{"1", 0}, {"1.05", 0}}},
	{"from the future", [2]quoting{{"1", -time.Hour}, {"1", 0}}},
}

// newQuotes asks both sources as the service does.
func newQuotes(ctx context.Context, of [2]quoting) *risk.Quote {
	const age = 5 * time.Minute
	m := price.Median{
		Sources: []price.NamedSource{{Name: "one", Source: of[0]}, {Name: "two", Source: of[1]}}, Required: 2,
		AgeMax: func(int) time.Duration { return age },
	}
	q, err := m.USD(ctx, mintOfTable)
	if err != nil {
		return nil
	}
	return risk.NewQuote(q, age)
}

// knows evaluates a table of two providers: whether enough answered, whether any of them reports a
// severity above a threshold, and whether one does not know the address.
func knows(a, b risktest.Behavior, quorum int, threshold risk.Severity) (enough, above, unknown bool) {
	n := 0
	for _, w := range []risktest.Behavior{a, b} {
		if !w.HasAnswer() {
			continue
		}
		n++
		unknown = unknown || w.Result == risk.Unknown
		above = above || w.Result != risk.Unknown && w.Result.Exceeds(threshold)
	}
	if quorum == 0 {
		quorum = 2
	}
	return n >= quorum, above, unknown
}

// Rules RISK-1, RISK-2, RISK-3, RISK-4, RISK-8: every order in which providers can fail. The
// expected results are computed in another way than in the code.
func TestNothingIsCreditedWhileAnythingThatIsNeededIsUnknown(t *testing.T) {
	t.Parallel()
	medium, dollars := risk.Medium, money.MustParseUSD("2")
	thresholds := []struct {
		name     string
		severity *risk.Severity
		usd      *money.USD
	}{{"none", nil, nil}, {"of severity", &medium, nil}, {"in dollars", nil, &dollars}, {"both", &medium, &dollars}}
	cases, credited := 0, 0
	for _, a := range risktest.Behaviors {
		synctest.Test(t, func(t *testing.T) {
			for _, b := range risktest.Behaviors {
				for _, p := range prices {
					for _, units := range []uint64{2, 3} { // dollars: at the threshold and above
						for _, th := range thresholds {
							for quorum := range 2 {
								for _, treat := range []risk.UnknownTreatment{
									risk.TreatUnknownAsHold, risk.TreatUnknownAsLow,
								} {
									for _, waited := range []time.Duration{0, time.Hour} {
										if waited > 0 && (quorum > 0 || treat == risk.TreatUnknownAsLow) {
											continue // the time that it waited counts once
										}
										panel := &risk.Panel{
											Quorum: quorum,
											Log:    slog.New(slog.DiscardHandler), Members: []risk.Member{
												{Screener: &risktest.Provider{ProviderName: "A", Behavior: a}},
												{Screener: &risktest.Provider{ProviderName: "B", Behavior: b}},
											},
										}
										policy := risk.Policy{
											Providers: panel, UnknownAs: treat, Grace: risk.GraceDefault,
										}
										got := policy.DecideDeposit(t.Context(), risk.DepositCase{
											Subject: risk.Subject{
												Chain: chain.Ethereum, Address: "0x1", Amount: money.Units(units),
												Direction: risk.Incoming,
											},
											SeverityThreshold: th.severity, USDThreshold: th.usd,
											Price: newQuotes(t.Context(), p.of), Now: time.Now(),
											WaitingSince: time.Now().Add(-waited),
										})
										screened := th.severity != nil && th.usd != nil &&
											(p.name != "fresh" || units > 2)
										enough, above, unknown := knows(a, b, quorum, medium)
										want := risk.Credit
										switch {
										case !screened:
										case above:
											want = risk.Flag
										case !enough, unknown && treat == risk.TreatUnknownAsHold:
											if want = risk.RetryLater; waited > 0 {
												want = risk.Flag
											}
										}
										cases++
										if want == risk.Credit && screened {
											credited++
										}
										if got.Decision.Outcome != want {
											t.Errorf("A %s, B %s, price %s, %d dollars, thresholds %s, quorum %d, unknown is %s, waited %v: got %s, want %s",
												a.Name, b.Name, p.name, units, th.name, quorum, treat, waited,
												got.Decision.Outcome, want)
										}
										kept := fmt.Sprint(got.Decision.Price)
										if screened && (kept == risk.PriceUsed) != (p.name == "fresh") {
											t.Errorf("price %s: got %s kept with the decision", p.name, kept)
										}
									}
								}
							}
						}
					}
				}
			}
		})
	}
	if cases < 10_000 || credited == 0 {
		t.Errorf("got %d cases, %d of which were credited after a question, want all of the table", cases, credited)
	}
}
