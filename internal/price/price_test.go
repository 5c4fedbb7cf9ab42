package price_test

import (
	"errors"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/price"
)

func TestOnlyAFreshPriceIsDecidedBy(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	dollar := money.MustParseUSD("1")
	for name, c := range map[string]struct {
		quote price.Quote
		fresh bool
	}{
		"now":             {price.Quote{Price: dollar, QuotedAt: now}, true},
		"just old enough": {price.Quote{Price: dollar, QuotedAt: now.Add(-time.Minute)}, true},
		"too old":         {price.Quote{Price: dollar, QuotedAt: now.Add(-time.Minute - 1)}, false},
		"never":           {price.Quote{Price: dollar}, false},
		"a second ahead":  {price.Quote{Price: dollar, QuotedAt: now.Add(time.Second)}, true},
		"an hour ahead":   {price.Quote{Price: dollar, QuotedAt: now.Add(time.Hour)}, false},
		"of nothing":      {price.Quote{QuotedAt: now}, false},
	} {
		err := price.CheckFresh(c.quote, now, time.Minute)
		if (err == nil) != c.fresh || err != nil && !errors.Is(err, price.ErrUnavailable) {
			t.Errorf("%s: got %v, want fresh %v", name, err, c.fresh)
		}
	}
}

func TestAFixedPriceHoldsNowAndForItsMintOnly(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	f := price.Fixed{Prices: map[int]money.USD{1: money.MustParseUSD("0.9998")}, Clock: func() time.Time { return now }}
	q, err := f.USD(t.Context(), 1)
	if err != nil || q.Price != money.MustParseUSD("0.9998") || !q.QuotedAt.Equal(now) {
		t.Errorf("got %+v %v, want 0.9998 at %v", q, err, now)
	}
	if _, err := f.USD(t.Context(), 2); !errors.Is(err, price.ErrUnavailable) {
		t.Errorf("got %v, want %v", err, price.ErrUnavailable)
	}
}
