package pricing

import (
	"math/big"

	"github.com/cofferpay/coffer/internal/money"
)

// Tolerance returns by how much a sum may differ from the amount due: the greater of a share and of dollars, and at
// most a tenth of the amount due, so that dollars cannot give away a cheap product. Where the currency has no price,
// currencyPrice is zero and the share alone counts.
func Tolerance(amountDue Value, bps int, usd, currencyPrice money.USD) Value {
	fraction := amountDue.Rat()
	tolerance := new(big.Rat).Mul(fraction, big.NewRat(int64(max(bps, 0)), bpsMax))
	if price := currencyPrice.Rat(); price.Sign() > 0 {
		if inCurrency := price.Quo(usd.Rat(), price); inCurrency.Cmp(tolerance) > 0 {
			tolerance = inCurrency
		}
	}
	if tenth := fraction.Mul(fraction, big.NewRat(1, 10)); tolerance.Cmp(tenth) > 0 {
		tolerance = tenth
	}
	rounded, err := roundDown(tolerance)
	if err != nil { // a tenth of a value is a value
		return Value{}
	}
	return rounded
}

// Need returns the sum that completes a checkout: the amount due less the tolerance, so at least nine tenths of it.
func Need(amountDue Value, underBps int, underUSD, currencyPrice money.USD) Value {
	return SubOrZero(amountDue, Tolerance(amountDue, underBps, underUSD, currencyPrice))
}
