// Package money defines the values that are counted: Amount, a whole number of a mint's atomic
// units, and USD, a dollar value for thresholds and for display that is never posted.
//
// Nothing in this package rounds an Amount, except Bps, which rounds down, and Convert, which
// rounds up. No floating point number is ever made of money. A value is immutable and comparable
// with ==.
package money

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"math/big"

	"github.com/holiman/uint256"
	"github.com/jackc/pgx/v5/pgtype"
)

// digitsMax is the number of decimal digits of 2^256-1, the largest amount.
const digitsMax = 78

// Errors of parsing and arithmetic. They are sentinels: callers turn them into a refusal that names
// the parameter.
var (
	// ErrSyntax says that a text is not a whole number (or decimal) in canonical form.
	ErrSyntax = errors.New("not a number in canonical form")
	// ErrRange says that a value is above 2^256-1.
	ErrRange = errors.New("number out of range")
	// ErrFraction says that a decimal has more fraction digits than the mint.
	ErrFraction = errors.New("more fraction digits than the mint has decimals")
	// ErrNegative says that a subtraction would have gone below zero.
	ErrNegative = errors.New("result below zero")
)

// Amount is a quantity of atomic units of one mint, 0 <= Amount < 2^256.
// The zero value is zero.
type Amount struct{ n uint256.Int }

// Zero is zero units.
var Zero Amount

// Units returns an amount of n atomic units.
func Units(n uint64) Amount { return Amount{*uint256.NewInt(n)} }

// FromBig converts a big integer to an amount. Errors: ErrNegative, ErrRange.
func FromBig(b *big.Int) (Amount, error) {
	if b.Sign() < 0 {
		return Zero, ErrNegative
	}
	n, isOverflow := uint256.FromBig(b)
	if isOverflow {
		return Zero, ErrRange
	}
	return Amount{*n}, nil
}

// FromUint256 converts a 256-bit integer to an amount.
func FromUint256(n *uint256.Int) Amount { return Amount{*n} }

// Parse parses a whole number of atomic units: a digit 1 to 9 followed by up to 77 digits, or a
// single 0. It accepts no sign, leading zero, space, separator, exponent or digit outside ASCII.
// Errors: ErrSyntax, ErrRange. Rule AMT-1.
func Parse(s string) (Amount, error) {
	if s == "" || len(s) > 1 && s[0] == '0' {
		return Zero, ErrSyntax
	}
	if err := checkDigits(s); err != nil {
		return Zero, err
	}
	if len(s) > digitsMax {
		return Zero, ErrRange
	}
	var n uint256.Int
	if err := n.SetFromDecimal(s); err != nil {
		return Zero, ErrRange
	}
	return Amount{n}, nil
}

// MustParse parses a constant like Parse; it panics on an error.
func MustParse(s string) Amount {
	a, err := Parse(s)
	if err != nil {
		panic(fmt.Sprintf("money: impossible constant %q: %v", s, err))
	}
	return a
}

// ParseDecimal parses a decimal of whole tokens ("1.5") as atomic units of a mint with the given
// number of decimals. It refuses more fraction digits than decimals even when they are zeros;
// nothing is rounded. Errors: ErrSyntax, ErrFraction, ErrRange. Rule AMT-2.
func ParseDecimal(s string, decimals int) (Amount, error) {
	whole, frac, hasPoint := s, "", false
	for i := range len(s) {
		if s[i] == '.' {
			whole, frac, hasPoint = s[:i], s[i+1:], true
			break
		}
	}
	if whole == "" || len(whole) > 1 && whole[0] == '0' || hasPoint && frac == "" {
		return Zero, ErrSyntax
	}
	if err := checkDigits(whole); err != nil {
		return Zero, err
	}
	if err := checkDigits(frac); err != nil {
		return Zero, err
	}
	if len(frac) > decimals {
		return Zero, ErrFraction
	}
	if len(whole)+decimals > 2*digitsMax {
		return Zero, ErrRange
	}
	text := make([]byte, 0, len(whole)+decimals)
	text = append(text, whole...)
	text = append(text, frac...)
	for range decimals - len(frac) {
		text = append(text, '0')
	}
	for len(text) > 1 && text[0] == '0' {
		text = text[1:]
	}
	return Parse(string(text))
}

func checkDigits(s string) error {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return ErrSyntax
		}
	}
	return nil
}

// String formats the amount in the form that Parse reads.
func (a Amount) String() string { return a.n.Dec() }

// Decimal formats the amount in whole tokens, without trailing zeros, in the form that ParseDecimal
// reads.
func (a Amount) Decimal(decimals int) string {
	s := a.n.Dec()
	for len(s) <= decimals {
		s = "0" + s
	}
	whole, frac := s[:len(s)-decimals], s[len(s)-decimals:]
	for len(frac) > 0 && frac[len(frac)-1] == '0' {
		frac = frac[:len(frac)-1]
	}
	if frac == "" {
		return whole
	}
	return whole + "." + frac
}

// IsZero reports whether the amount is zero.
func (a Amount) IsZero() bool { return a.n.IsZero() }

// Cmp returns -1, 0 or +1 as a is below, equal to or above b.
func (a Amount) Cmp(b Amount) int { return a.n.Cmp(&b.n) }

// Less reports whether a is below b.
func (a Amount) Less(b Amount) bool { return a.n.Lt(&b.n) }

// Add returns a+b. Error: ErrRange.
func (a Amount) Add(b Amount) (Amount, error) {
	var n uint256.Int
	if _, isOverflow := n.AddOverflow(&a.n, &b.n); isOverflow {
		return Zero, ErrRange
	}
	return Amount{n}, nil
}

// Sub returns a-b. Error: ErrNegative.
func (a Amount) Sub(b Amount) (Amount, error) {
	var n uint256.Int
	if _, isUnderflow := n.SubOverflow(&a.n, &b.n); isUnderflow {
		return Zero, ErrNegative
	}
	return Amount{n}, nil
}

// SubOrZero returns a-b, or zero where b is greater.
func SubOrZero(a, b Amount) Amount {
	difference, err := a.Sub(b)
	if err != nil {
		return Zero
	}
	return difference
}

// Mul returns a*k. Error: ErrRange.
func (a Amount) Mul(k uint64) (Amount, error) {
	var n uint256.Int
	if _, isOverflow := n.MulOverflow(&a.n, uint256.NewInt(k)); isOverflow {
		return Zero, ErrRange
	}
	return Amount{n}, nil
}

// Bps returns a*bps/10000, rounded down. Error: ErrRange.
func (a Amount) Bps(bps uint64) (Amount, error) {
	var n uint256.Int
	if _, isOverflow := n.MulDivOverflow(&a.n, uint256.NewInt(bps), uint256.NewInt(10_000)); isOverflow {
		return Zero, ErrRange
	}
	return Amount{n}, nil
}

// Split divides the amount into equal shares. The remainder is smaller than their number.
func (a Amount) Split(shares uint64) (share, remainder Amount) {
	var s, r uint256.Int
	s.DivMod(&a.n, uint256.NewInt(shares), &r)
	return Amount{s}, Amount{r}
}

// Big returns the amount as a new big integer.
func (a Amount) Big() *big.Int { return a.n.ToBig() }

// Uint256 returns the amount as a new 256-bit integer.
func (a Amount) Uint256() *uint256.Int { n := a.n; return &n }

// Uint64 returns the amount as a machine word; ok is false when it does not fit.
func (a Amount) Uint64() (n uint64, ok bool) { return a.n.Uint64(), a.n.IsUint64() }

// MarshalText formats the amount as String does.
func (a Amount) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText parses the amount as Parse does.
func (a *Amount) UnmarshalText(text []byte) error {
	n, err := Parse(string(text))
	if err != nil {
		return err
	}
	*a = n
	return nil
}

// ScanNumeric reads a PostgreSQL numeric. The server sends 1000000 as 100 with exponent 4, so the
// exponent is applied; a fraction is refused.
func (a *Amount) ScanNumeric(v pgtype.Numeric) error {
	b, err := integerOf(v)
	if err != nil {
		return err
	}
	n, err := FromBig(b)
	if err != nil {
		return fmt.Errorf("numeric column is not an amount: %w", err)
	}
	*a = n
	return nil
}

// NumericValue converts the amount to a PostgreSQL numeric.
func (a Amount) NumericValue() (pgtype.Numeric, error) {
	return pgtype.Numeric{Int: a.Big(), Valid: true}, nil
}

// Value converts the amount for database/sql drivers.
func (a Amount) Value() (driver.Value, error) { return a.String(), nil }

func integerOf(v pgtype.Numeric) (*big.Int, error) {
	if !v.Valid {
		return nil, errors.New("cannot read NULL as an amount")
	}
	if v.NaN || v.InfinityModifier != pgtype.Finite {
		return nil, errors.New("cannot read NaN or infinity as an amount")
	}
	if v.Exp >= 0 {
		if v.Exp > digitsMax {
			return nil, ErrRange
		}
		return new(big.Int).Mul(v.Int, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(v.Exp)), nil)), nil
	}
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-v.Exp)), nil)
	whole, remainder := new(big.Int).QuoRem(v.Int, unit, new(big.Int))
	if remainder.Sign() != 0 {
		return nil, errors.New("cannot read a fraction as an amount")
	}
	return whole, nil
}
