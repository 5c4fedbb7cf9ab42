package withdrawal

import (
	"context"
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

// fakePriceSource returns one price of some age, or none.
type fakePriceSource struct {
	usd string
	age time.Duration
}

func (q fakePriceSource) USD(context.Context, int) (price.Quote, error) {
	if q.usd == "" {
		return price.Quote{}, price.ErrUnavailable
	}
	return price.Quote{Price: money.MustParseUSD(q.usd), QuotedAt: time.Now().Add(-q.age)}, nil
}

// Every combination of outages. The expectation is written independently of the code. Rules RISK-4,
// RISK-6, RISK-8, WD-3.
func TestNothingIsSentWhileAnythingThatIsNeededIsUnknown(t *testing.T) {
	t.Parallel()
	medium, limit := risk.Medium, money.MustParseUSD("2")
	prices := []struct {
		name  string
		of    [2]fakePriceSource
		value bool
	}{
		{"fresh", [2]fakePriceSource{{"1", 0}, {"1", 5 * time.Minute}}, true},
		{"one is stale", [2]fakePriceSource{{"1", 0}, {"1", 5*time.Minute + 1}}, false},
		{"both are stale", [2]fakePriceSource{{"1", time.Hour}, {"1", time.Hour}}, false},
		{"one is missing", [2]fakePriceSource{{"1", 0}, {}}, false},
		{"both are missing", [2]fakePriceSource{{}, {}}, false},
		{"they disagree", [2]fakePriceSource{{"1", 0}, {"1.05", 0}}, false},
	}
	cases, sent := 0, 0
	for _, a := range risktest.Behaviors {
		synctest.Test(t, func(t *testing.T) {
			for _, b := range risktest.Behaviors {
				for _, p := range prices {
					for _, units := range []uint64{2, 3} { // dollars: at the threshold and above
						for _, severity := range []*risk.Severity{nil, &medium} {
							for _, usd := range []*money.USD{nil, &limit} {
								for quorum := range 2 {
									f := passingFacts()
									f.mint.Decimals, f.mint.MinWithdraw = 0, money.Units(1)
									f.amount, f.balance, f.liquid = money.Units(units), money.Units(10), money.Units(10)
									panel := &risk.Panel{
										Quorum: quorum, Log: slog.New(slog.DiscardHandler),
										Members: []risk.Member{
											{Screener: &risktest.Provider{ProviderName: "A", Behavior: a}},
											{Screener: &risktest.Provider{ProviderName: "B", Behavior: b}},
										},
									}
									policy := risk.Policy{Providers: panel, UnknownAs: risk.TreatUnknownAsHold}
									f.screening = policy.DecideDestination(t.Context(), risk.WithdrawalCase{
										Subject: risk.Subject{
											Chain: chain.Ethereum, Address: f.destination, Amount: f.amount,
											Direction: risk.Outgoing,
										},
										Threshold: severity, Now: time.Now(),
									})
									age := func(int) time.Duration { return 5 * time.Minute }
									source := price.Median{
										Sources: []price.NamedSource{
											{Name: "one", Source: p.of[0]}, {Name: "two", Source: p.of[1]},
										},
										Required: 2, AgeMax: age,
									}
									f.threshold, f.usdValue = usd, nil
									if q, err := source.USD(t.Context(), f.mint.ID); err == nil {
										if v, err := money.ValueOf(f.amount, 0, q.Price); err == nil {
											f.usdValue = &v
										}
									}
									against := risk.High
									if severity != nil {
										against = *severity
									}
									n, above, unknown := 0, false, false
									for _, w := range []risktest.Behavior{a, b} {
										if w.HasAnswer() {
											n++
											above, unknown = above || w.Result != risk.Unknown &&
												w.Result.Exceeds(against), unknown || w.Result == risk.Unknown
										}
									}
									want := Processing
									switch {
									case above:
										want = Blocked
									case n < 2-quorum, unknown, usd != nil && (!p.value || units > 2):
										want = AwaitingApproval
									}
									cases++
									if want == Processing {
										sent++
									}
									if got, _ := decideAll(f); got.Status != want {
										t.Errorf("A %s, B %s, price %s, %d dollars, threshold of severity %t, in dollars %t, quorum %d: got %s %v, want %s",
											a.Name, b.Name, p.name, units, severity != nil, usd != nil, quorum,
											got.Status, got.Reasons, want)
									}
								}
							}
						}
					}
				}
			}
		})
	}
	if cases < 10_000 || sent == 0 {
		t.Errorf("got %d cases of which %d are sent, want all of the table", cases, sent)
	}
}
