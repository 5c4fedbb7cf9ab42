package checkout

import (
	"context"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/checkout/pricing"
	"github.com/cofferpay/coffer/internal/mint"
)

const (
	// watchTime is for how long after its end policies apply to the late payments of a checkout. Later a person
	// decides.
	watchTime = 7 * 24 * time.Hour
	// A price of the market counts for a payment of at most so long ago. The time of a block of Bitcoin says less.
	marketAgeMax        = 15 * time.Minute
	bitcoinMarketAgeMax = 2 * time.Hour
)

// countedMax is the most that a payment counts: the column holds no more, and no sale is as large.
var countedMax = pricing.MustRead("1000000000000000000")

// valuation is what a payment counts.
type valuation struct {
	depositID  string
	amount     string // that it is for: another fork may have another one meanwhile
	moment     time.Time
	isAccepted bool
	isInTime   bool
	isTooOld   bool // no quote holds, and no price of its moment is known any more
	quoteSeq   *int
	rate       pricing.Rate
	counted    Price
}

// accepts reports whether a sale takes a mint: one that it names, or the same asset on another chain. Another token of
// the same name on the same chain is another asset.
func (sale Sale) accepts(m mint.Mint, mints mint.Catalogue) bool {
	isElsewhere := false
	for _, mintID := range sale.AcceptedMintIDs {
		accepted, isKnown := mints.ByID(mintID)
		switch {
		case !isKnown:
		case accepted.ID == m.ID:
			return true
		case accepted.Symbol != m.Symbol:
		case accepted.Chain == m.Chain:
			return false
		default:
			isElsewhere = true
		}
	}
	return isElsewhere
}

// issuedAt returns when the address was issued at which a payment arrived; the creation of the checkout if no option
// says it.
func (c Checkout) issuedAt(p Payment) time.Time {
	for _, o := range c.Options { // the oldest first
		if o.Wallet.Family == p.Chain.Family() {
			return o.OpenedAt
		}
	}
	return c.CreatedAt
}

// momentOf returns when a payment was made: the time of its block, as far as that is believed. Rule CO-12.
func (p Payment) momentOf() time.Time {
	return pricing.Moment(p.BlockTime, p.SeenAt, p.Moment, p.WasLive, p.Chain.Family() == chain.BitcoinFamily)
}

// judgeTimes decides which new values are of payments in time, one after the other: the first part moves the end for
// those after it, also if a walk shows all of them at once.
func (c *Checkout) judgeTimes(values []valuation) {
	pending := map[string]string{} // the amounts of those that still lack a value, by deposit
	var sum Price
	for _, p := range c.Payments {
		switch isAlive := p.Status == outcome.PaymentSeen || p.Status == outcome.PaymentCredited; {
		case isAlive && p.Counted == nil:
			pending[p.DepositID] = p.Amount.String()
		case isAlive && p.IsAccepted && p.IsInTime:
			sum = plus(sum, *p.Counted)
		}
	}
	slices.SortStableFunc(values, func(a, b valuation) int { return a.moment.Compare(b.moment) })
	for i := range values {
		v := &values[i]
		if v.isInTime = !v.isTooOld && c.isInTimeOf(v.moment); !v.isInTime || !v.isAccepted ||
			pending[v.depositID] != v.amount || v.counted.IsZero() {
			continue
		}
		sum = plus(sum, v.counted)
		if end := v.moment.Add(outcome.Extension); !c.isExtended && sum.Cmp(c.Need) < 0 {
			c.isExtended = true
			if end.After(c.ExpiresAt) {
				c.ExpiresAt = end
			}
		}
	}
}

// plus adds, and stays at the greatest value that can be stored.
func plus(a, b Price) Price {
	sum, err := a.Add(b)
	if err != nil {
		return pricing.ValueMax
	}
	return sum
}

// isInTimeOf reports whether a moment is in the time of a checkout. Nothing is in time after a cancellation.
func (c Checkout) isInTimeOf(moment time.Time) bool {
	if c.CancelledAt != nil && moment.After(*c.CancelledAt) {
		return false
	}
	return !moment.After(c.ExpiresAt)
}

// needsValue reports whether a payment has no value and may need one. One that is gone may come back, and is told then.
func (p Payment) needsValue() bool {
	return p.Counted == nil && p.Mint != nil &&
		(p.Status == outcome.PaymentSeen || p.Status == outcome.PaymentCredited || p.Status == outcome.PaymentFlagged)
}

// value returns what a payment counts: by the quote of its own moment, or by the price of the market. ok is false while
// there is no price for it. Without a quote, a payment of long ago is treated as a late one, at the price of now. It
// asks for prices and writes nothing. Rule CO-12.
func (s *Service) value(ctx context.Context, c Checkout, p Payment, mints mint.Catalogue) (v valuation, ok bool) {
	isBitcoin := p.Chain.Family() == chain.BitcoinFamily
	v = valuation{
		depositID: p.DepositID, amount: p.Amount.String(), moment: p.momentOf(), isAccepted: c.accepts(*p.Mint, mints),
	}
	if issuedAt := c.issuedAt(p); v.moment.Before(issuedAt) {
		v.moment = issuedAt // no one knew the address earlier: the clock of the chain is behind
	}
	option, _ := c.optionOf(p.Mint.ID)
	quote, isInGrace, hasQuote := pricing.Choose(option.Quotes, v.moment, pricing.Grace(isBitcoin))
	market, isOld, hasMarket := s.marketRate(ctx, c, *p.Mint, mints, v.moment, isBitcoin)
	switch {
	case hasQuote && !(isInGrace && hasMarket && !isOld && pricing.GuardGrace(quote, market, pricing.RateGuardBps)):
		v.quoteSeq, v.rate = &quote.Seq, quote.Rate
	case hasMarket:
		v.rate, v.isTooOld = market, isOld
	default:
		return v, false
	}
	counted, err := pricing.Counted(p.Amount, p.Mint.Decimals, v.rate)
	if err != nil || counted.Cmp(countedMax) > 0 {
		counted = countedMax
	}
	v.counted = counted
	return v, true
}

// marketRate returns what a mint is worth now. isOld says that this is not what it was worth at a moment: that is long
// gone, and the price may have moved.
func (s *Service) marketRate(
	ctx context.Context, c Checkout, m mint.Mint, mints mint.Catalogue, moment time.Time, isBitcoin bool,
) (r pricing.Rate, isOld, ok bool) {
	r, err := s.rateOf(ctx, c.Sale, m, mints)
	if err != nil {
		return r, false, false
	}
	ageMax := marketAgeMax
	if isBitcoin {
		ageMax = bitcoinMarketAgeMax
	}
	isOld = s.DB.Clock()().Sub(moment) > ageMax && !pricing.IsSteady(r, s.isPegged(m.ID))
	return r, isOld, true
}
