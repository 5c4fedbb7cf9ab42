package pricing

import (
	"math/big"
	"time"

	"github.com/cofferpay/coffer/internal/money"
)

const (
	quoteValidity        = 15 * time.Minute
	bitcoinQuoteValidity = 30 * time.Minute
	quoteGrace           = time.Minute
	bitcoinQuoteGrace    = 30 * time.Minute

	// RateGuardBps is how far the market may move against the merchant before a quote in its grace no longer applies.
	RateGuardBps = 100

	sightMax        = 2 * time.Minute // between a block and the first sight of its payments by a walk that is live
	bitcoinSightMax = 2 * time.Hour   // what Bitcoin's rules allow a block's time to differ

	bpsMax = 10_000
)

// Quote is a rate that holds for a time, with the amount that was asked for by it.
type Quote struct {
	Seq                  int // later quotes of an option have greater ones
	ValidFrom, ExpiresAt time.Time
	Rate                 Rate
	Amount               money.Amount
	Covers               Value // the part of the amount due that it is for
}

// IsSteady reports whether a rate cannot move while a checkout is open: that of a mint in its own symbol, and that of
// a pegged mint in dollars or in another pegged symbol.
func IsSteady(r Rate, isPegged bool) bool {
	return r.Source == OwnSymbol || isPegged && r.Price == Par && r.CurrencyPrice == Par
}

// Validity returns how long a quote is valid. Zero means as long as its checkout.
func Validity(isSteady, isBitcoin bool) time.Duration {
	switch {
	case isSteady:
		return 0
	case isBitcoin:
		return bitcoinQuoteValidity
	}
	return quoteValidity
}

// Grace returns how long after its end a quote still applies to a payment: the time that a payment takes from the
// payer's hand into a block.
func Grace(isBitcoin bool) time.Duration {
	if isBitcoin {
		return bitcoinQuoteGrace
	}
	return quoteGrace
}

// Choose returns the newest quote that was valid at the moment of a payment, or whose grace contains it. Which quotes
// a payer saw does not matter. ok is false where there is none: the market price applies.
func Choose(quotes []Quote, moment time.Time, grace time.Duration) (q Quote, isInGrace, ok bool) {
	for _, candidate := range quotes {
		if moment.Before(candidate.ValidFrom) || moment.After(candidate.ExpiresAt.Add(grace)) {
			continue
		}
		if !ok || candidate.Seq > q.Seq {
			q, ok = candidate, true
		}
	}
	return q, ok && moment.After(q.ExpiresAt), ok
}

// GuardGrace reports whether the market moved so far against the merchant that a quote in its grace does not apply:
// a token is worth less by more than the guard. Otherwise the grace would be a free option for payers.
func GuardGrace(q Quote, market Rate, guardBps int) bool {
	// market / currency < quoted / currency * (1 - guard), without a division
	now := new(big.Rat).Mul(market.Price.Rat(), q.Rate.CurrencyPrice.Rat())
	now.Mul(now, new(big.Rat).SetInt64(bpsMax))
	bound := new(big.Rat).Mul(q.Rate.Price.Rat(), market.CurrencyPrice.Rat())
	bound.Mul(bound, new(big.Rat).SetInt64(bpsMax-int64(guardBps)))
	return now.Cmp(bound) < 0
}

// Moment returns the time by which a payment is judged: that of its block, never after its first sight, and never
// long before it if the walk was live then, because a block's time is what its producer says. A moment that was
// stored earlier never becomes later; earlier is zero if there is none.
func Moment(blockTime, firstSeen, earlier time.Time, wasLive, isBitcoin bool) time.Time {
	moment := blockTime
	if moment.IsZero() || moment.After(firstSeen) {
		moment = firstSeen
	}
	sight := sightMax
	if isBitcoin {
		sight = bitcoinSightMax
	}
	if bound := firstSeen.Add(-sight); wasLive && moment.Before(bound) {
		moment = bound
	}
	if !earlier.IsZero() && earlier.Before(moment) {
		return earlier
	}
	return moment
}
