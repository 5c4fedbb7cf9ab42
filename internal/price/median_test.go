package price_test

import (
	"context"
	"errors"
	"math/big"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/price"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// fakeSource returns one price, or none.
type fakeSource struct {
	usd string // "": the source fails
	age time.Duration
}

func (o fakeSource) USD(context.Context, int) (price.Quote, error) {
	if o.usd == "" {
		return price.Quote{}, errors.New("connection refused")
	}
	return price.Quote{Price: money.MustParseUSD(o.usd), QuotedAt: noon.Add(-o.age), Source: "somebody"}, nil
}

// Rule PRICE-1.
func TestAPriceIsWhatFreshSourcesAgreeOn(t *testing.T) {
	t.Parallel()
	stale, ahead := 6*time.Minute, -time.Hour
	for name, c := range map[string]struct {
		sources  []fakeSource
		required int
		pegged   bool
		want     string // "": unavailable
	}{
		"one":                 {[]fakeSource{{"3000", 0}}, 1, false, "3000"},
		"none":                {nil, 1, false, ""},
		"the middle of three": {[]fakeSource{{"3010", 0}, {"2990", 0}, {"3001", 0}}, 1, false, "3001"},
		"between two":         {[]fakeSource{{"3000", 0}, {"3001", 0}}, 1, false, "3000.5"},
		"between two, rounded up": {
			[]fakeSource{{"0.000000000000000100", 0}, {"0.000000000000000101", 0}}, 1, false, "0.000000000000000101",
		},
		"exactly 2 percent off": {[]fakeSource{{"98", 0}, {"100", 0}, {"102", 0}}, 1, false, "100"},
		"more than 2 percent above": {
			[]fakeSource{{"100", 0}, {"100", 0}, {"102.000000000000000001", 0}}, 1, false, "",
		},
		"more than 2 percent below": {
			[]fakeSource{{"97.999999999999999999", 0}, {"100", 0}, {"100", 0}}, 1, false, "",
		},
		"two that contradict":               {[]fakeSource{{"100", 0}, {"110", 0}}, 1, false, ""},
		"pegged, exactly half a percent":    {[]fakeSource{{"0.995", 0}, {"1", 0}, {"1.005", 0}}, 1, true, "1"},
		"pegged, more than half":            {[]fakeSource{{"0.994", 0}, {"1", 0}, {"1", 0}}, 1, true, ""},
		"a pegged one that lost its peg":    {[]fakeSource{{"1", 0}, {"0.87", 0}}, 1, true, ""},
		"one is down":                       {[]fakeSource{{"3000", 0}, {"", 0}}, 1, false, "3000"},
		"one is down, two are needed":       {[]fakeSource{{"3000", 0}, {"", 0}}, 2, false, ""},
		"one is stale":                      {[]fakeSource{{"3000", 0}, {"100", stale}}, 1, false, "3000"},
		"one is stale, two are needed":      {[]fakeSource{{"3000", 0}, {"3000", stale}}, 2, false, ""},
		"all are stale":                     {[]fakeSource{{"3000", stale}, {"3000", stale}}, 1, false, ""},
		"just fresh":                        {[]fakeSource{{"3000", 5 * time.Minute}}, 1, false, "3000"},
		"from the future":                   {[]fakeSource{{"3000", ahead}}, 1, false, ""},
		"of nothing":                        {[]fakeSource{{"0", 0}}, 1, false, ""},
		"of nothing, beside a sensible one": {[]fakeSource{{"0", 0}, {"3000", 0}}, 1, false, "3000"},
	} {
		m := price.Median{
			Required: c.required, AgeMax: func(int) time.Duration { return 5 * time.Minute },
			Pegged: func(int) bool { return c.pegged }, Clock: func() time.Time { return noon },
		}
		for _, s := range c.sources {
			m.Sources = append(m.Sources, price.NamedSource{Name: "S", Source: s})
		}
		q, err := m.USD(t.Context(), 1)
		switch {
		case c.want == "" && !errors.Is(err, price.ErrUnavailable):
			t.Errorf("%s: got %v %v, want unavailable", name, q.Price, err)
		case c.want != "" && (err != nil || q.Price != money.MustParseUSD(c.want)):
			t.Errorf("%s: got %v %v, want %s", name, q.Price, err, c.want)
		}
	}
	m := price.Median{
		Sources: []price.NamedSource{{"A", fakeSource{"100", time.Minute}}, {"B", fakeSource{"101", 2 * time.Minute}}},
		AgeMax:  func(int) time.Duration { return time.Hour }, Clock: func() time.Time { return noon },
	}
	q, err := m.USD(t.Context(), 1)
	if err != nil || !q.QuotedAt.Equal(noon.Add(-2*time.Minute)) || q.Source != "median of A, B" ||
		len(q.Components) != 2 || q.Components[1].Source != "B" || q.Components[1].Price != money.MustParseUSD("101") {
		t.Errorf("got %+v %v, want each source with its value and time, and the age of the oldest", q, err)
	}
}

func TestDollarsAreExactAndRoundedUp(t *testing.T) {
	t.Parallel()
	for v, want := range map[string]string{
		"1": "1", "1/3": "0.333333333333333334", "1/1000000000000000000": "0.000000000000000001",
		"1/9000000000000000000": "0.000000000000000001", "0": "", "-1": "", "1000000000000000000": "",
	} {
		r, _ := new(big.Rat).SetString(v)
		got, err := price.FromRat(r)
		if (err == nil) != (want != "") || err == nil && got != money.MustParseUSD(want) {
			t.Errorf("%s: got %v %v, want %q", v, got, err, want)
		}
	}
}

func TestASourceIsAskedOnceForAllWhoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		var down atomic.Bool
		table := &price.CachedTable{TTL: time.Minute, Fetch: func(context.Context) (map[int]price.Quote, error) {
			asked.Add(1)
			<-time.After(time.Second)
			if down.Load() {
				return nil, errors.New("connection refused")
			}
			return map[int]price.Quote{1: {Price: money.MustParseUSD("1"), QuotedAt: noon}}, nil
		}}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if q, err := table.USD(t.Context(), 1); err != nil || !q.QuotedAt.Equal(noon) {
					t.Errorf("got %v %v, want the price with its own time", q, err)
				}
			})
		}
		wg.Wait()
		if _, err := table.USD(t.Context(), 2); !errors.Is(err, price.ErrUnavailable) || asked.Load() != 1 {
			t.Errorf("another mint: got %v after %d questions, want unavailable after one", err, asked.Load())
		}
		<-time.After(time.Minute)
		down.Store(true)
		for range 3 {
			if _, err := table.USD(t.Context(), 1); !errors.Is(err, price.ErrUnavailable) {
				t.Errorf("down: got %v, want unavailable, and no old price", err)
			}
		}
		if asked.Load() != 2 {
			t.Errorf("got %d questions, want 2: a source that is down is left alone for a moment", asked.Load())
		}
		down.Store(false)
		<-time.After(2 * time.Second)
		if _, err := table.USD(t.Context(), 1); err != nil {
			t.Errorf("back: got %v, want a price", err)
		}
	})
}
