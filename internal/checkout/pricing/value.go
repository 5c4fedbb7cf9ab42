// Package pricing calculates what a payer pays and what a payment counts: the amount of a quote, the quote of a
// moment, the value of an amount, and the part of an amount due that has to be paid.
//
// Invariants:
//
//   - Everything is exact arithmetic of integers and fractions. A value is rounded down at 18 digits and an amount
//     that is asked for up, so the amount of a quote always counts at least what it was quoted for.
//   - The package guesses no price: a rate without one is an error.
//   - It is pure. It has no clock, no database and no network, so the checker of the books gets the same results.
package pricing

import (
	"math/big"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/cofferpay/coffer/internal/money"
)

const (
	// Scale is the number of fraction digits that a Value keeps.
	Scale = 18
	// DigitsMax is how many digits Parse accepts, before and after the point together.
	DigitsMax = 18
	// USD is the currency that is not the symbol of a mint.
	USD = "USD"
	// USDDecimals is the number of fraction digits that people write of dollars.
	USDDecimals = 2

	storedDigitsMax = 38 // of numeric(38,18), in which values are stored
)

var (
	valueUnit  = powerOfTen(Scale)
	valueBound = powerOfTen(storedDigitsMax) // the first that does not fit
)

// ValueMax is the greatest value that can be stored.
var ValueMax = Value{mustAmount(new(big.Int).Sub(valueBound, big.NewInt(1)))}

func mustAmount(n *big.Int) money.Amount {
	amount, err := money.FromBig(n)
	if err != nil {
		panic("pricing: impossible bound " + n.String())
	}
	return amount
}

// Value is an amount of a currency, which is dollars or whole tokens. It is not negative, and the zero value is zero.
type Value struct{ n money.Amount } // in 10^-18 of the currency

// Parse parses a price that a person wrote, such as "49.99", with at most that many fraction digits. Errors: those of
// money.ParseDecimal, also for more than 18 digits in all.
func Parse(s string, decimals int) (Value, error) {
	if len(strings.Replace(s, ".", "", 1)) > DigitsMax {
		return Value{}, money.ErrRange
	}
	if _, err := money.ParseDecimal(s, min(decimals, Scale)); err != nil {
		return Value{}, err
	}
	return Read(s)
}

// Read parses what Text writes: a value with any number of digits that can be stored. Errors: those of
// money.ParseDecimal.
func Read(s string) (Value, error) {
	n, err := money.ParseDecimal(s, Scale)
	if err != nil {
		return Value{}, err
	}
	return fromBig(n.Big())
}

// MustRead reads a constant like Read; it panics on an error.
func MustRead(s string) Value {
	v, err := Read(s)
	if err != nil {
		panic("pricing: impossible constant " + s)
	}
	return v
}

// fromBig makes a value of an integer of 10^-18. Errors: money.ErrNegative, and money.ErrRange for one that the
// database cannot store.
func fromBig(n *big.Int) (Value, error) {
	if n.Cmp(valueBound) >= 0 {
		return Value{}, money.ErrRange
	}
	amount, err := money.FromBig(n)
	return Value{amount}, err
}

// Text writes the value without trailing zeros, in the form that Read reads.
func (v Value) Text() string { return v.n.Decimal(Scale) }

// Show writes the value as people of the currency do: dollars with their cents.
func (v Value) Show(currency string) string {
	text := v.Text()
	if currency != USD {
		return text
	}
	whole, fraction, _ := strings.Cut(text, ".")
	return whole + "." + fraction + strings.Repeat("0", max(USDDecimals-len(fraction), 0))
}

// Cmp returns -1, 0 or +1 as v is below, equal to or above w.
func (v Value) Cmp(w Value) int { return v.n.Cmp(w.n) }

// IsZero reports whether the value is zero.
func (v Value) IsZero() bool { return v.n.IsZero() }

// Add returns v+w. Error: money.ErrRange.
func (v Value) Add(w Value) (Value, error) { return fromBig(new(big.Int).Add(v.n.Big(), w.n.Big())) }

// Sub returns v-w. Error: money.ErrNegative.
func (v Value) Sub(w Value) (Value, error) {
	n, err := v.n.Sub(w.n)
	return Value{n}, err
}

// Mul returns v*k, for a quantity. Error: money.ErrRange.
func (v Value) Mul(k uint64) (Value, error) {
	return fromBig(new(big.Int).Mul(v.n.Big(), new(big.Int).SetUint64(k)))
}

// Rat returns the value as an exact fraction.
func (v Value) Rat() *big.Rat { return new(big.Rat).SetFrac(v.n.Big(), valueUnit) }

// ScanNumeric reads a PostgreSQL numeric.
func (v *Value) ScanNumeric(numeric pgtype.Numeric) error {
	if numeric.Valid && !numeric.NaN && numeric.InfinityModifier == pgtype.Finite {
		numeric.Exp += Scale
	}
	return v.n.ScanNumeric(numeric)
}

// NumericValue converts the value to a PostgreSQL numeric.
func (v Value) NumericValue() (pgtype.Numeric, error) {
	return pgtype.Numeric{Int: v.n.Big(), Exp: -Scale, Valid: true}, nil
}

// SubOrZero returns v-w, or zero where w is greater.
func SubOrZero(v, w Value) Value { return Value{money.SubOrZero(v.n, w.n)} }

func powerOfTen(exponent int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(exponent)), nil)
}

// floor returns the greatest integer that is not above r, which is not negative.
func floor(r *big.Rat) *big.Int { return new(big.Int).Quo(r.Num(), r.Denom()) }

// ceil returns the smallest integer that is not below r, which is not negative.
func ceil(r *big.Rat) *big.Int {
	n, remainder := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if remainder.Sign() != 0 {
		n.Add(n, big.NewInt(1))
	}
	return n
}

// roundDown returns the greatest value that is not above r, which is not negative. Error: money.ErrRange.
func roundDown(r *big.Rat) (Value, error) {
	return fromBig(floor(new(big.Rat).Mul(r, new(big.Rat).SetInt(valueUnit))))
}
