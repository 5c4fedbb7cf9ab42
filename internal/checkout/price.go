package checkout

import (
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/cofferpay/coffer/internal/money"
)

const (
	priceScale     = 18 // fraction digits that a Price keeps
	priceDigitsMax = 18 // before and after the point together
	usdDecimals    = 2
)

// Price is an amount of the currency of a product, which is dollars or whole tokens. The zero value is no price.
type Price struct{ n money.Amount } // in 10^-18 of the currency

// ParsePrice parses a decimal text such as "49.99" with at most that many fraction digits. Errors: those of
// money.ParseDecimal, also for more than 18 digits in all.
func ParsePrice(s string, decimals int) (Price, error) {
	if len(strings.Replace(s, ".", "", 1)) > priceDigitsMax {
		return Price{}, money.ErrRange
	}
	if _, err := money.ParseDecimal(s, min(decimals, priceScale)); err != nil {
		return Price{}, err
	}
	n, err := money.ParseDecimal(s, priceScale)
	return Price{n}, err
}

// Text writes the price without trailing zeros, in the form that ParsePrice reads.
func (p Price) Text() string { return p.n.Decimal(priceScale) }

// Show writes the price as people of the currency do: dollars with their cents.
func (p Price) Show(currency string) string {
	text := p.Text()
	if currency != USD {
		return text
	}
	whole, fraction, _ := strings.Cut(text, ".")
	return whole + "." + fraction + strings.Repeat("0", usdDecimals-len(fraction))
}

// Cmp returns -1, 0 or +1 as p is below, equal to or above q.
func (p Price) Cmp(q Price) int { return p.n.Cmp(q.n) }

// IsZero reports whether the price is zero.
func (p Price) IsZero() bool { return p.n.IsZero() }

// ScanNumeric reads a PostgreSQL numeric.
func (p *Price) ScanNumeric(v pgtype.Numeric) error {
	if v.Valid && !v.NaN && v.InfinityModifier == pgtype.Finite {
		v.Exp += priceScale
	}
	return p.n.ScanNumeric(v)
}

// NumericValue converts the price to a PostgreSQL numeric.
func (p Price) NumericValue() (pgtype.Numeric, error) {
	return pgtype.Numeric{Int: p.n.Big(), Exp: -priceScale, Valid: true}, nil
}
