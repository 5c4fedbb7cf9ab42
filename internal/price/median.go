package price

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/money"
)

// Allowed distance of a source from the median, in basis points. Prices that contradict each other
// count as no price.
const (
	DeviationBps       = 200
	DeviationPeggedBps = 50
	wholeBps           = 10_000

	askTimeout = 5 * time.Second
)

// NamedSource is one of several sources.
type NamedSource struct {
	Name   string
	Source Source
}

// Median asks several sources and returns the median of the fresh quotes. Rule PRICE-1.
type Median struct {
	Sources  []NamedSource
	Required int // the least number of fresh quotes; below 1 means 1
	// AgeMax returns the greatest age of a fresh price of a mint.
	AgeMax func(mintID int) time.Duration
	// Pegged reports whether a mint is meant to be worth a dollar.
	Pegged func(mintID int) bool
	Clock  func() time.Time // nil: the system's clock
}

// USD returns the median, with the time of its oldest quote. Error: ErrUnavailable when too few
// quotes are fresh or one is too far from the median.
func (m Median) USD(ctx context.Context, mintID int) (Quote, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	quotes, errs := make([]Quote, len(m.Sources)), make([]error, len(m.Sources))
	var wg sync.WaitGroup
	for i, s := range m.Sources {
		wg.Go(func() {
			quotes[i], errs[i] = s.Source.USD(ctx, mintID)
			quotes[i].Source = s.Name
		})
	}
	wg.Wait()
	now := time.Now()
	if m.Clock != nil {
		now = m.Clock()
	}
	var fresh []Quote
	var problems []string
	for i, q := range quotes {
		err := errs[i]
		if err == nil {
			err = CheckFresh(q, now, m.AgeMax(mintID))
		}
		if err != nil {
			problems = append(
				problems, m.Sources[i].Name+": "+strings.TrimSuffix(err.Error(), ": "+ErrUnavailable.Error()),
			)
			continue
		}
		q.Components = nil
		fresh = append(fresh, q)
	}
	if len(fresh) < max(m.Required, 1) {
		return Quote{}, fmt.Errorf(
			"mint %d has %d recent prices, and %d are required (%s): %w", mintID, len(fresh),
			max(m.Required, 1), strings.Join(problems, "; "), ErrUnavailable,
		)
	}
	deviation := int64(DeviationBps)
	if m.Pegged != nil && m.Pegged(mintID) {
		deviation = DeviationPeggedBps
	}
	middle, err := agreedMedian(fresh, deviation)
	if err != nil {
		return Quote{}, fmt.Errorf("mint %d: %w: %w", mintID, err, ErrUnavailable)
	}
	if len(fresh) == 1 {
		return fresh[0], nil
	}
	names := make([]string, len(fresh))
	median := Quote{Price: middle, QuotedAt: fresh[0].QuotedAt, Components: fresh}
	for i, q := range fresh {
		names[i] = q.Source
		if q.QuotedAt.Before(median.QuotedAt) {
			median.QuotedAt = q.QuotedAt
		}
	}
	median.Source = "median of " + strings.Join(names, ", ")
	return median, nil
}

// agreedMedian returns the median. It fails if one price is further from it than deviationBps.
func agreedMedian(quotes []Quote, deviationBps int64) (money.USD, error) {
	values := make([]*big.Rat, len(quotes))
	for i, q := range quotes {
		v, ok := new(big.Rat).SetString(q.Price.String())
		if !ok {
			panic("price: a price is not a number: " + q.Price.String())
		}
		values[i] = v
	}
	sorted := slices.SortedFunc(slices.Values(values), (*big.Rat).Cmp)
	n := len(sorted)
	middle := sorted[n/2]
	if n%2 == 0 {
		middle = new(big.Rat).Mul(new(big.Rat).Add(sorted[n/2-1], sorted[n/2]), big.NewRat(1, 2))
	}
	allowed := new(big.Rat).Mul(middle, big.NewRat(deviationBps, wholeBps))
	for i, v := range values {
		if distance := new(big.Rat).Sub(v, middle); distance.Abs(distance).Cmp(allowed) > 0 {
			return money.USD{}, fmt.Errorf(
				"%s has %s, more than %d basis points from the median", quotes[i].Source, quotes[i].Price,
				deviationBps,
			)
		}
	}
	return FromRat(middle)
}

// FromRat converts an exact number of dollars, rounded up in the 18th digit so that rounding never
// misses a threshold. It fails for a number that is not above zero or is too large for a price.
func FromRat(v *big.Rat) (money.USD, error) {
	if v.Sign() <= 0 {
		return money.USD{}, errors.New("a price that is not above zero")
	}
	const digits = 18
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(digits), nil)
	scaled := new(big.Int).Mul(v.Num(), unit)
	quo, rem := new(big.Int).QuoRem(scaled, v.Denom(), new(big.Int))
	if rem.Sign() != 0 {
		quo.Add(quo, big.NewInt(1))
	}
	text := quo.String()
	for len(text) <= digits {
		text = "0" + text
	}
	return money.ParseUSD(text[:len(text)-digits] + "." + text[len(text)-digits:])
}

// WithoutSource returns a quote as it is without the sources that isExcluded names: a party is not
// judged by a price of its own. Error: ErrUnavailable if no other source remains.
func WithoutSource(q Quote, isExcluded func(source string) bool) (Quote, error) {
	if len(q.Components) == 0 {
		if isExcluded(q.Source) {
			return Quote{}, fmt.Errorf("the only price is from %q: %w", q.Source, ErrUnavailable)
		}
		return q, nil
	}
	independent := slices.DeleteFunc(slices.Clone(q.Components), func(c Quote) bool { return isExcluded(c.Source) })
	switch len(independent) {
	case len(q.Components):
		return q, nil
	case 0:
		return Quote{}, fmt.Errorf("all prices are from excluded sources: %w", ErrUnavailable)
	case 1:
		return independent[0], nil
	}
	middle, err := agreedMedian(independent, wholeBps)
	if err != nil {
		return Quote{}, fmt.Errorf("%w: %w", err, ErrUnavailable)
	}
	rest := Quote{Price: middle, QuotedAt: independent[0].QuotedAt, Source: q.Source, Components: independent}
	for _, c := range independent {
		if c.QuotedAt.Before(rest.QuotedAt) {
			rest.QuotedAt = c.QuotedAt
		}
	}
	return rest, nil
}
