// Package price says what a mint is worth in dollars, for thresholds and for
// display. A price that is missing or old is not a price: whoever has to decide
// by it holds instead.
//
// What never happens here: a guess, a default, a posting. A crash leaves
// nothing; sources keep what they fetched in memory or in rows of their own.
package price

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/money"
)

// ErrUnavailable says that there is no price to decide by.
var ErrUnavailable = errors.New("price unavailable")

// aheadMax is how far in the future a source's clock may be.
const aheadMax = time.Minute

// Quote is the price of one whole token.
type Quote struct {
	Price      money.USD
	QuotedAt   time.Time // when it was the price, by its source
	Source     string
	Components []Quote // those that it is the median of, when it is one
}

// Source gives prices. It may be called again after any error, is safe for
// concurrent use, and writes nothing. Errors: ErrUnavailable, or any other,
// which a caller takes for the same.
type Source interface {
	USD(ctx context.Context, mintID int) (Quote, error)
}

// Fixed is a table of prices that always hold, for local networks and tests.
type Fixed struct {
	Prices map[int]money.USD // by mint
	Clock  func() time.Time  // nil: the system's
}

// USD is the price in the table, as of now. Error: ErrUnavailable.
func (f Fixed) USD(_ context.Context, mintID int) (Quote, error) {
	p, ok := f.Prices[mintID]
	if !ok {
		return Quote{}, fmt.Errorf("mint %d has no fixed price: %w", mintID, ErrUnavailable)
	}
	now := time.Now
	if f.Clock != nil {
		now = f.Clock
	}
	return Quote{Price: p, QuotedAt: now().UTC(), Source: "fixed"}, nil
}

// CheckFresh refuses a quote that must not be decided by: older than maxAge, from
// the future, or of nothing, which would value everything below any threshold.
// Error: ErrUnavailable.
func CheckFresh(q Quote, now time.Time, maxAge time.Duration) error {
	switch {
	case q.Price == money.USD{}:
		return fmt.Errorf("a price of nothing from %q: %w", q.Source, ErrUnavailable)
	case now.Sub(q.QuotedAt) > maxAge:
		return fmt.Errorf("the price from %q is older than %v: %w", q.Source, maxAge, ErrUnavailable)
	case q.QuotedAt.Sub(now) > aheadMax:
		return fmt.Errorf("the price from %q is from the future: %w", q.Source, ErrUnavailable)
	}
	return nil
}
