package deposit

import (
	"context"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
)

// agedPriceSource gives a price of one dollar with a given age.
type agedPriceSource struct{ at time.Time }

func (q agedPriceSource) USD(context.Context, int) (price.Quote, error) {
	return price.Quote{
		Price: money.MustParseUSD("1"), QuotedAt: q.at, Source: "one",
		Components: []price.Quote{{Price: money.MustParseUSD("1"), QuotedAt: q.at, Source: "two"}},
	}, nil
}

// Rules RISK-2, PRICE-2.
func TestEveryMintHasItsOwnAgeOfPrices(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	db := pgtest.NewWithClock(t, func() time.Time { return now })
	const coin, pegged = 1, 2
	ages := func(mintID int) time.Duration {
		if mintID == pegged {
			return time.Hour
		}
		return 5 * time.Minute
	}
	severity, usd := risk.Medium, money.MustParseUSD("2")
	for _, c := range []struct {
		name     string
		mint     int
		age      time.Duration
		priceAge func(mintID int) time.Duration
		fresh    bool
	}{
		{"a coin of 300 s", coin, 300 * time.Second, ages, true},
		{"a coin of a moment more", coin, 300*time.Second + 1, ages, false},
		{"pegged of 301 s", pegged, 301 * time.Second, ages, true},
		{"pegged of 3600 s", pegged, 3600 * time.Second, ages, true},
		{"pegged of a moment more", pegged, 3600*time.Second + 1, ages, false},
		{"nothing is said of ages", pegged, 300*time.Second + 1, nil, false},
		{"nothing is said, 300 s", pegged, 300 * time.Second, nil, true},
	} {
		s := &Service{DB: db, Prices: agedPriceSource{now.Add(-c.age)}, PriceAge: c.priceAge}
		p := s.cachedPrice(t.Context(), map[int]mintPrice{}, c.mint)
		if (p.quote != nil) != c.fresh || (p.freshUSD() != nil) != c.fresh || (p.missingReason == "") != c.fresh {
			t.Errorf("%s: got %+v, %q, want a price %t", c.name, p.quote, p.missingReason, c.fresh)
		}
		if p.quote != nil && len(p.quote.Components) != 1 {
			t.Errorf("%s: got %+v, want what it is made of kept", c.name, p.quote)
		}
		got := risk.DecideDeposit(risk.DepositCase{
			Subject: risk.Subject{Amount: money.Units(1)}, SeverityThreshold: &severity, USDThreshold: &usd,
			Price: p.quote, Now: now,
		})
		if want := map[bool]risk.DepositOutcome{
			true: risk.Credit, false: risk.ScreenProviders,
		}[c.fresh]; got.Outcome != want {
			t.Errorf("%s: got %s, want %s", c.name, got.Outcome, want)
		}
	}
}
