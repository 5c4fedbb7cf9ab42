package pricing

import (
	"math/big"

	"github.com/cofferpay/coffer/internal/money"
)

// Worth returns what a part of a payment counts, by the price of the whole payment, rounded down.
func Worth(part, amount money.Amount, counted Value) Value {
	if amount.IsZero() {
		return Value{}
	}
	share := new(big.Rat).SetFrac(part.Big(), amount.Big())
	v, err := roundDown(share.Mul(share, counted.Rat()))
	if err != nil {
		return counted
	}
	return v
}

// PartOf returns the most of a payment that is worth no more than a value, by the price of the whole payment.
func PartOf(amount money.Amount, counted, worth Value) money.Amount {
	if counted.IsZero() || counted.Cmp(worth) <= 0 {
		return amount
	}
	share := new(big.Rat).Quo(worth.Rat(), counted.Rat())
	return mustAmount(floor(share.Mul(share, new(big.Rat).SetInt(amount.Big()))))
}
