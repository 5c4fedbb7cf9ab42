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

	"golang.org/x/sync/singleflight"

	"github.com/cofferpay/coffer/internal/money"
)

// How far the sources may be from their median, in basis points. Whoever has to
// decide by prices that contradict each other has none.
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

// Median asks several sources and takes the middle of those that are fresh.
type Median struct {
	Sources  []NamedSource
	Required int // how many fresh ones there have to be; below 1 is 1
	// AgeMax is how old a price of a mint may be.
	AgeMax func(mintID int) time.Duration
	// Pegged tells whether a mint is meant to be worth a dollar.
	Pegged func(mintID int) bool
	Clock  func() time.Time // nil: the system's
}

// USD is the median, as old as the oldest of its sources. Error: ErrUnavailable, when
// too few are fresh or one is too far from the median.
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
			problems = append(problems, m.Sources[i].Name+": "+strings.TrimSuffix(err.Error(), ": "+ErrUnavailable.Error()))
			continue
		}
		q.Components = nil
		fresh = append(fresh, q)
	}
	if len(fresh) < max(m.Required, 1) {
		return Quote{}, fmt.Errorf("mint %d has %d fresh sources of %d that are needed (%s): %w", mintID, len(fresh), max(m.Required, 1), strings.Join(problems, "; "), ErrUnavailable)
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

// agreedMedian is the median of prices of which none is further from it than it may be.
func agreedMedian(quotes []Quote, deviationBps int64) (money.USD, error) {
	values := make([]*big.Rat, len(quotes))
	for i, q := range quotes {
		v, ok := new(big.Rat).SetString(q.Price.String())
		if !ok {
			panic("price: a price that is no number: " + q.Price.String())
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
			return money.USD{}, fmt.Errorf("%s has %s, more than %d basis points from the median", quotes[i].Source, quotes[i].Price, deviationBps)
		}
	}
	return FromRat(middle)
}

// FromRat is an exact number of dollars, rounded up in the last digit that is kept, so
// that a threshold is never missed by rounding. Error: it is not above zero, or no
// price.
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

// CachedTable is a source that learns many prices at once and keeps them for a moment. Their
// age counts from the source's own time, so what is kept grows old as it would there.
type CachedTable struct {
	// Fetch asks for all of them, by mint.
	Fetch func(ctx context.Context) (map[int]Quote, error)
	TTL   time.Duration

	flight    singleflight.Group
	mu        sync.Mutex
	quotes    map[int]Quote
	err       error
	expiresAt time.Time
}

// failureTTL is how long a failure is kept, so that a source that is down is not asked
// by everybody at once.
const failureTTL = time.Second

// USD is the kept price, or a new one. Error: ErrUnavailable.
func (t *CachedTable) USD(ctx context.Context, mintID int) (Quote, error) {
	t.mu.Lock()
	quotes, err, isFresh := t.quotes, t.err, time.Now().Before(t.expiresAt)
	t.mu.Unlock()
	if !isFresh {
		// Whoever comes meanwhile waits for the same answer, and one who leaves does not
		// take it from the others.
		pending := t.flight.DoChan("", func() (any, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
			defer cancel()
			fetched, err := t.Fetch(ctx)
			t.mu.Lock()
			defer t.mu.Unlock()
			t.quotes, t.err, t.expiresAt = fetched, err, time.Now().Add(t.TTL)
			if err != nil {
				t.quotes, t.expiresAt = nil, time.Now().Add(failureTTL)
			}
			return fetched, err
		})
		select {
		case <-ctx.Done():
			return Quote{}, fmt.Errorf("%w: %w", context.Cause(ctx), ErrUnavailable)
		case got := <-pending:
			quotes, _ = got.Val.(map[int]Quote)
			err = got.Err
		}
	}
	if err != nil {
		return Quote{}, fmt.Errorf("%w: %w", err, ErrUnavailable)
	}
	q, ok := quotes[mintID]
	if !ok {
		return Quote{}, fmt.Errorf("it has no price of mint %d: %w", mintID, ErrUnavailable)
	}
	return q, nil
}

// Coalesce has those who ask for one mint at the same moment share an answer, and keeps it
// for a second. Its age counts from the source's own time.
func Coalesce(source Source) Source {
	return &coalescedSource{source: source, tables: map[int]*CachedTable{}}
}

type coalescedSource struct {
	source Source
	mu     sync.Mutex
	tables map[int]*CachedTable // by mint; there are as many as mints are configured
}

const (
	coalesceTTL       = time.Second
	coalesceTablesMax = 10_000
)

// USD is the shared answer. Error: ErrUnavailable.
func (o *coalescedSource) USD(ctx context.Context, mintID int) (Quote, error) {
	o.mu.Lock()
	t := o.tables[mintID]
	if t == nil && len(o.tables) < coalesceTablesMax {
		t = &CachedTable{TTL: coalesceTTL, Fetch: func(ctx context.Context) (map[int]Quote, error) {
			q, err := o.source.USD(ctx, mintID)
			return map[int]Quote{mintID: q}, err
		}}
		o.tables[mintID] = t
	}
	o.mu.Unlock()
	if t == nil {
		return o.source.USD(ctx, mintID)
	}
	return t.USD(ctx, mintID)
}
