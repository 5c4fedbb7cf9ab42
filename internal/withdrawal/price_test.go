package withdrawal

import (
	"context"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
)

// agedPriceSource returns a price of one dollar of a given time.
type agedPriceSource struct{ at time.Time }

func (d agedPriceSource) USD(context.Context, int) (price.Quote, error) {
	return price.Quote{Price: money.MustParseUSD("1"), QuotedAt: d.at, Source: "one"}, nil
}

// Rules WD-11, PRICE-2.
func TestEveryMintHasItsOwnAgeOfPrices(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	db := pgtest.NewWithClock(t, func() time.Time { return now })
	const pegged = 77
	ages := func(mintID int) time.Duration {
		if mintID == pegged {
			return time.Hour
		}
		return 5 * time.Minute
	}
	for _, c := range []struct {
		name  string
		mint  int
		age   time.Duration
		ages  func(int) time.Duration
		fresh bool
	}{
		{"a coin of 300 s", 1, 300 * time.Second, ages, true},
		{"a coin of a moment more", 1, 300*time.Second + 1, ages, false},
		{"pegged of 301 s", pegged, 301 * time.Second, ages, true},
		{"pegged of 3600 s", pegged, 3600 * time.Second, ages, true},
		{"pegged of a moment more", pegged, 3600*time.Second + 1, ages, false},
		{"nothing is said of ages", pegged, 300*time.Second + 1, nil, false},
	} {
		f := passingFacts()
		f.usdValue, f.mint.ID = nil, c.mint
		s := &Service{DB: db, Prices: agedPriceSource{now.Add(-c.age)}, PriceAge: c.ages}
		s.valueAmount(t.Context(), &f)
		if (f.usdValue != nil) != c.fresh {
			t.Errorf("%s: got the value %v, want one %t", c.name, f.usdValue, c.fresh)
		}
		d, _ := decideAll(f)
		want := Processing
		if !c.fresh {
			want = AwaitingApproval
		}
		if d.Status != want || !c.fresh && d.Reasons[0] != ReasonPriceUnavailable {
			t.Errorf("%s: got %s %v, want %s", c.name, d.Status, d.Reasons, want)
		}
	}
}
