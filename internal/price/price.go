// Package price returns what a mint is worth in dollars, for thresholds and for display. A missing
// or old price is no price: a decision that needs it holds the payment instead.
//
// The package never guesses, has no default price, and posts nothing. A crash leaves nothing
// behind; sources keep what they fetched in memory or in rows of their own.
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

// aheadMax is how far the clock of a source may be ahead.
const aheadMax = time.Minute

// Quote is the price of one whole token.
type Quote struct {
	Price      money.USD
	QuotedAt   time.Time // when the price held, by its source
	Source     string
	Components []Quote // the quotes that it is the median of, if it is a median
}

// Source returns prices. The call may be repeated after any error, is safe for concurrent use, and
// writes nothing. A caller treats any other error like ErrUnavailable.
type Source interface {
	USD(ctx context.Context, mintID int) (Quote, error)
}

// Fixed is a table of prices that never expire, for local networks and tests.
type Fixed struct {
	Prices map[int]money.USD // by mint
	Clock  func() time.Time  // nil: the system's clock
}

// USD returns the price in the table, as of now. Error: ErrUnavailable.
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

// CheckFresh refuses a quote that must not decide: one that is older than maxAge, from the future,
// or zero. A price of zero would put every value below any threshold. Error: ErrUnavailable.
// Rule PRICE-2.
func CheckFresh(q Quote, now time.Time, maxAge time.Duration) error {
	switch {
	case q.Price == money.USD{}:
		return fmt.Errorf("a price of zero from %q: %w", q.Source, ErrUnavailable)
	case now.Sub(q.QuotedAt) > maxAge:
		return fmt.Errorf("the price from %q is older than %v: %w", q.Source, maxAge, ErrUnavailable)
	case q.QuotedAt.Sub(now) > aheadMax:
		return fmt.Errorf("the price from %q is from the future: %w", q.Source, ErrUnavailable)
	}
	return nil
}
