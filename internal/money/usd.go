package money

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"
)

const (
	// usdScale is the number of fraction digits that a USD keeps.
	usdScale = 18
	// usdWholeDigitsMax limits the whole digits that ParseUSD accepts.
	usdWholeDigitsMax = 18
)

var usdUnit = new(big.Int).Exp(big.NewInt(10), big.NewInt(usdScale), nil)

// USD is a non-negative dollar value for thresholds and for display. It is never posted: only an
// Amount moves. The zero value is zero dollars.
type USD struct{ n Amount } // in 10^-18 dollars

// ParseUSD parses a decimal dollar text such as "10000.00": no sign, no exponent, at most 18 digits
// before and 18 after the point. Errors: ErrSyntax, ErrFraction, ErrRange.
func ParseUSD(s string) (USD, error) {
	if whole, _, _ := strings.Cut(s, "."); len(whole) > usdWholeDigitsMax {
		return USD{}, ErrRange
	}
	n, err := ParseDecimal(s, usdScale)
	return USD{n}, err
}

// MustParseUSD parses a constant like ParseUSD; it panics on an error.
func MustParseUSD(s string) USD {
	u, err := ParseUSD(s)
	if err != nil {
		panic(fmt.Sprintf("money: impossible constant %q: %v", s, err))
	}
	return u
}

// ValueOf returns what an amount is worth at a price for one whole token, rounded up in the 18th
// digit so that rounding never misses a threshold. Error: ErrRange.
func ValueOf(a Amount, decimals int, price USD) (USD, error) {
	product := new(big.Int).Mul(a.Big(), price.n.Big())
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(decimals)), nil)
	quo, rem := new(big.Int).QuoRem(product, unit, new(big.Int))
	if rem.Sign() != 0 {
		quo.Add(quo, big.NewInt(1))
	}
	n, err := FromBig(quo)
	return USD{n}, err
}

// Convert converts an amount of one token to another token, at prices for one whole token of each,
// rounded up. Error: ErrRange, also where the other token has a price of zero.
func Convert(a Amount, decimals int, price USD, toDecimals int, toPrice USD) (Amount, error) {
	if toPrice.n.IsZero() {
		return Zero, fmt.Errorf("%w: the target of the conversion has no value", ErrRange)
	}
	powerOfTen := func(exponent int) *big.Int {
		return new(big.Int).Exp(
			big.NewInt(10), big.NewInt(int64(exponent)), nil,
		)
	}
	worth := new(big.Int).Mul(a.Big(), price.n.Big())
	unit := new(big.Int).Mul(toPrice.n.Big(), powerOfTen(decimals))
	quo, rem := new(big.Int).QuoRem(worth.Mul(worth, powerOfTen(toDecimals)), unit, new(big.Int))
	if rem.Sign() != 0 {
		quo.Add(quo, big.NewInt(1))
	}
	return FromBig(quo)
}

// Rat returns the dollars as an exact fraction.
func (u USD) Rat() *big.Rat { return new(big.Rat).SetFrac(u.n.Big(), usdUnit) }

// Cmp returns -1, 0 or +1 as u is below, equal to or above v.
func (u USD) Cmp(v USD) int { return u.n.Cmp(v.n) }

// Add returns u+v. Error: ErrRange.
func (u USD) Add(v USD) (USD, error) {
	n, err := u.n.Add(v.n)
	return USD{n}, err
}

// Cents formats two fraction digits, rounded half up, for display.
func (u USD) Cents() string {
	cent := new(big.Int).Div(usdUnit, big.NewInt(100))
	n := new(big.Int).Add(u.n.Big(), new(big.Int).Div(cent, big.NewInt(2)))
	n.Div(n, cent)
	s := n.String()
	for len(s) < 3 {
		s = "0" + s
	}
	return s[:len(s)-2] + "." + s[len(s)-2:]
}

// String formats the exact value.
func (u USD) String() string { return u.n.Decimal(usdScale) }

// MarshalText formats the exact value.
func (u USD) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText parses the value as ParseUSD does.
func (u *USD) UnmarshalText(text []byte) error {
	v, err := ParseUSD(string(text))
	if err != nil {
		return err
	}
	*u = v
	return nil
}

// ScanNumeric reads a PostgreSQL numeric with up to 18 fraction digits.
func (u *USD) ScanNumeric(v pgtype.Numeric) error {
	if v.Valid && !v.NaN && v.InfinityModifier == pgtype.Finite {
		v.Exp += usdScale
	}
	return u.n.ScanNumeric(v)
}

// NumericValue converts the value to a PostgreSQL numeric.
func (u USD) NumericValue() (pgtype.Numeric, error) {
	return pgtype.Numeric{Int: u.n.Big(), Exp: -usdScale, Valid: true}, nil
}
