package checkout

import "github.com/cofferpay/coffer/internal/checkout/pricing"

const (
	priceScale     = pricing.Scale
	priceDigitsMax = pricing.DigitsMax
	usdDecimals    = pricing.USDDecimals
)

// Price is an amount of the currency of a product, which is dollars or whole tokens. The zero value is no price.
type Price = pricing.Value

// ParsePrice parses a decimal text such as "49.99" with at most that many fraction digits. Errors: those of
// money.ParseDecimal, also for more than 18 digits in all.
func ParsePrice(s string, decimals int) (Price, error) { return pricing.Parse(s, decimals) }

// OwnSymbol is the source of the price of a payment whose mint has the currency as its symbol: none was needed.
const OwnSymbol = pricing.OwnSymbol

// ReadPrice parses a price as LineItem has it. Errors: those of money.ParseDecimal.
func ReadPrice(s string) (Price, error) { return pricing.Read(s) }
