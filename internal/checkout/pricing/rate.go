package pricing

import (
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/cofferpay/coffer/internal/money"
)

// ErrNoPrice says that a rate has no price, so that nothing can be calculated from it.
var ErrNoPrice = errors.New("the rate has no price")

// OwnSymbol is the source of the rate of a mint whose symbol is the currency.
const OwnSymbol = "OWN_SYMBOL"

// Par is what one token of a pegged mint counts.
var Par = money.MustParseUSD("1")

var (
	stepUSDMax = money.MustParseUSD("0.001").Rat() // a tenth of a cent, the most that a typable amount may cost a payer
	peggedLow  = money.MustParseUSD("0.995")       // par less 50 basis points
	peggedHigh = money.MustParseUSD("1.005")       // par and 50 basis points
)

// Rate says what one whole token is worth in the currency of an amount due.
type Rate struct {
	Price         money.USD // dollars of one whole token of the mint
	CurrencyPrice money.USD // dollars of one unit of the currency; one dollar where that is USD
	Source        string    // who said the price
	PricedAt      time.Time // when it held
}

// SameCurrency returns the rate of a mint whose own symbol is the currency: one token is one, and needs no price. Its
// prices are the same and say nothing about dollars.
func SameCurrency(pricedAt time.Time) Rate {
	return Rate{Price: Par, CurrencyPrice: Par, Source: OwnSymbol, PricedAt: pricedAt}
}

// AtPar reports whether a price is so close to one dollar that a pegged mint is offered, and then counts at par.
func AtPar(price money.USD) bool { return price.Cmp(peggedLow) >= 0 && price.Cmp(peggedHigh) <= 0 }

// ratio returns what one whole token counts. Error: ErrNoPrice.
func (r Rate) ratio() (*big.Rat, error) {
	price, currencyPrice := r.Price.Rat(), r.CurrencyPrice.Rat()
	if price.Sign() == 0 || currencyPrice.Sign() == 0 {
		return nil, ErrNoPrice
	}
	return price.Quo(price, currencyPrice), nil
}

// step returns the greatest power of ten of atomic units whose worth is at most a tenth of a cent, and one unit where
// a unit is worth more. In its own symbol an amount was written by a person, so it needs no step.
func (r Rate) step(decimals int) *big.Int {
	step := big.NewInt(1)
	if r.Source == OwnSymbol {
		return step
	}
	// step * price / 10^decimals <= stepUSDMax
	bound := new(big.Rat).Mul(stepUSDMax, new(big.Rat).SetInt(powerOfTen(decimals)))
	unitsMax := floor(bound.Quo(bound, r.Price.Rat()))
	for ten := big.NewInt(10); ; {
		following := new(big.Int).Mul(step, ten)
		if following.Cmp(unitsMax) > 0 {
			return step
		}
		step = following
	}
}

// AmountFor returns the atomic units that pay what rests, rounded up so that a person can type them, and never below
// the smallest deposit of the mint. Errors: ErrNoPrice; money.ErrRange.
func AmountFor(rest Value, decimals int, r Rate, minDeposit money.Amount) (money.Amount, error) {
	ratio, err := r.ratio()
	if err != nil {
		return money.Zero, fmt.Errorf("convert %s: %w", rest.Text(), err)
	}
	tokens := new(big.Rat).Quo(rest.Rat(), ratio)
	units := tokens.Mul(tokens, new(big.Rat).SetInt(powerOfTen(decimals)))
	if minimum := new(big.Rat).SetInt(minDeposit.Big()); units.Cmp(minimum) < 0 {
		units = minimum
	}
	step := r.step(decimals)
	steps := ceil(units.Quo(units, new(big.Rat).SetInt(step)))
	return money.FromBig(steps.Mul(steps, step))
}

// Counted returns what an amount is worth in the currency, rounded down at 18 digits. Errors: ErrNoPrice;
// money.ErrRange.
func Counted(amount money.Amount, decimals int, r Rate) (Value, error) {
	ratio, err := r.ratio()
	if err != nil {
		return Value{}, fmt.Errorf("value %s units: %w", amount, err)
	}
	tokens := new(big.Rat).SetFrac(amount.Big(), powerOfTen(decimals))
	return roundDown(tokens.Mul(tokens, ratio))
}

// PerToken returns what one whole token counts in the currency, rounded down at 18 digits. Errors: ErrNoPrice;
// money.ErrRange.
func (r Rate) PerToken() (Value, error) {
	ratio, err := r.ratio()
	if err != nil {
		return Value{}, err
	}
	return roundDown(ratio)
}

// InUSD returns what a value of the currency was worth in dollars, rounded down at 18 digits. hasPrice is false for a
// rate that says nothing about dollars. Error: money.ErrRange.
func (r Rate) InUSD(v Value, currency string) (usd Value, hasPrice bool, err error) {
	switch {
	case currency == USD:
		return v, true, nil
	case r.Source == OwnSymbol:
		return Value{}, false, nil
	}
	product := v.Rat()
	usd, err = roundDown(product.Mul(product, r.CurrencyPrice.Rat()))
	return usd, err == nil, err
}
