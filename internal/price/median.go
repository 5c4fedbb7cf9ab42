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

// Named is one of several sources.
type Named struct {
	Name   string
	Source Source
}

// Median asks several sources and takes the middle of those that are fresh.
type Median struct {
	Sources  []Named
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
	var why []string
	for i, q := range quotes {
		err := errs[i]
		if err == nil {
			err = Fresh(q, now, m.AgeMax(mintID))
		}
		if err != nil {
			why = append(why, m.Sources[i].Name+": "+strings.TrimSuffix(err.Error(), ": "+ErrUnavailable.Error()))
			continue
		}
		q.Of = nil
		fresh = append(fresh, q)
	}
	if len(fresh) < max(m.Required, 1) {
		return Quote{}, fmt.Errorf("mint %d has %d fresh sources of %d that are needed (%s): %w", mintID, len(fresh), max(m.Required, 1), strings.Join(why, "; "), ErrUnavailable)
	}
	deviation := int64(DeviationBps)
	if m.Pegged != nil && m.Pegged(mintID) {
		deviation = DeviationPeggedBps
	}
	middle, err := agreed(fresh, deviation)
	if err != nil {
		return Quote{}, fmt.Errorf("mint %d: %w: %w", mintID, err, ErrUnavailable)
	}
	if len(fresh) == 1 {
		return fresh[0], nil
	}
	names := make([]string, len(fresh))
	out := Quote{Price: middle, At: fresh[0].At, Of: fresh}
	for i, q := range fresh {
		names[i] = q.Source
		if q.At.Before(out.At) {
			out.At = q.At
		}
	}
	out.Source = "median of " + strings.Join(names, ", ")
	return out, nil
}

// agreed is the median of prices of which none is further from it than it may be.
func agreed(quotes []Quote, deviationBps int64) (money.USD, error) {
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
		if away := new(big.Rat).Sub(v, middle); away.Abs(away).Cmp(allowed) > 0 {
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

// Table is a source that learns many prices at once and keeps them for a moment. Their
// age counts from the source's own time, so what is kept grows old as it would there.
type Table struct {
	// Fetch asks for all of them, by mint.
	Fetch func(ctx context.Context) (map[int]Quote, error)
	Keep  time.Duration

	flight singleflight.Group
	mu     sync.Mutex
	kept   map[int]Quote
	err    error
	until  time.Time
}

// failKeep is how long a failure is kept, so that a source that is down is not asked
// by everybody at once.
const failKeep = time.Second

// USD is the kept price, or a new one. Error: ErrUnavailable.
func (t *Table) USD(ctx context.Context, mintID int) (Quote, error) {
	t.mu.Lock()
	kept, err, good := t.kept, t.err, time.Now().Before(t.until)
	t.mu.Unlock()
	if !good {
		// Whoever comes meanwhile waits for the same answer, and one who leaves does not
		// take it from the others.
		waiting := t.flight.DoChan("", func() (any, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
			defer cancel()
			all, err := t.Fetch(ctx)
			t.mu.Lock()
			defer t.mu.Unlock()
			t.kept, t.err, t.until = all, err, time.Now().Add(t.Keep)
			if err != nil {
				t.kept, t.until = nil, time.Now().Add(failKeep)
			}
			return all, err
		})
		select {
		case <-ctx.Done():
			return Quote{}, fmt.Errorf("%w: %w", context.Cause(ctx), ErrUnavailable)
		case got := <-waiting:
			kept, _ = got.Val.(map[int]Quote)
			err = got.Err
		}
	}
	if err != nil {
		return Quote{}, fmt.Errorf("%w: %w", err, ErrUnavailable)
	}
	q, ok := kept[mintID]
	if !ok {
		return Quote{}, fmt.Errorf("it has no price of mint %d: %w", mintID, ErrUnavailable)
	}
	return q, nil
}

// Once has those who ask for one mint at the same moment share an answer, and keeps it
// for a second. Its age counts from the source's own time.
func Once(of Source) Source { return &once{of: of, tables: map[int]*Table{}} }

type once struct {
	of     Source
	mu     sync.Mutex
	tables map[int]*Table // by mint; there are as many as mints are configured
}

const (
	onceKeep   = time.Second
	onceTables = 10_000
)

// USD is the shared answer. Error: ErrUnavailable.
func (o *once) USD(ctx context.Context, mintID int) (Quote, error) {
	o.mu.Lock()
	t := o.tables[mintID]
	if t == nil && len(o.tables) < onceTables {
		t = &Table{Keep: onceKeep, Fetch: func(ctx context.Context) (map[int]Quote, error) {
			q, err := o.of.USD(ctx, mintID)
			return map[int]Quote{mintID: q}, err
		}}
		o.tables[mintID] = t
	}
	o.mu.Unlock()
	if t == nil {
		return o.of.USD(ctx, mintID)
	}
	return t.USD(ctx, mintID)
}
