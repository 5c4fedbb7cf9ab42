package billing

import (
	"math/big"
	"testing"

	"github.com/cofferpay/coffer/internal/money"
)

// roundHalfUp returns a value that is not below zero in whole units, by the definition.
func roundHalfUp(value *big.Rat) *big.Int {
	doubled := new(big.Rat).Add(new(big.Rat).Mul(value, big.NewRat(2, 1)), big.NewRat(1, 1))
	return new(big.Int).Div(doubled.Num(), new(big.Int).Mul(doubled.Denom(), big.NewInt(2)))
}

// For any dollars with 18 digits and any rate: cents are rounded half up, the tax too, and what is printed is read
// back.
func FuzzCents(f *testing.F) {
	for _, seed := range []struct {
		digits string
		rate   uint16
	}{
		{"0", 0},
		{"4999999999999999", 1900},
		{"5000000000000000", 1900},
		{"750000000000000", 10_000},
		{"3000000000000000000", 1},
		{"123456789012345678901234567890", 9999},
		{"14999999999999999", 5000},
		{"15000000000000000", 5000},
	} {
		f.Add(seed.digits, seed.rate)
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(18), nil)
	f.Fuzz(func(t *testing.T, digits string, rate uint16) {
		units, ok := new(big.Int).SetString(digits, 10)
		if !ok || units.Sign() < 0 || len(digits) > 38 {
			return
		}
		exact := new(big.Rat).SetFrac(units, scale)
		dollars, err := money.ParseUSD(exact.FloatString(18))
		if err != nil {
			return
		}
		cents := usdToCents(dollars)
		if want := roundHalfUp(new(big.Rat).Mul(exact, big.NewRat(100, 1))); cents.Cmp(want) != 0 {
			t.Errorf("%s dollars are %s cents, want %s", dollars, cents, want)
		}
		rateBps := int(rate) % 10_001
		share := new(big.Rat).Mul(new(big.Rat).SetInt(cents), big.NewRat(int64(rateBps), 10_000))
		if got, want := taxOn(cents, rateBps), roundHalfUp(share); got.Cmp(want) != 0 {
			t.Errorf("%d basis points of %s cents are %s, want %s", rateBps, cents, got, want)
		}
		for _, signed := range []*big.Int{cents, new(big.Int).Neg(cents)} {
			if back, err := parseCents(formatCents(signed)); err != nil || back.Cmp(signed) != 0 {
				t.Errorf("%s cents are printed as %s and read as %s, %v", signed, formatCents(signed), back, err)
			}
		}
	})
}
