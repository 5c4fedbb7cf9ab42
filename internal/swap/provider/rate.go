package provider

import (
	"math/big"
	"strings"

	"github.com/cofferpay/coffer/internal/money"
)

// rateDigits is how many digits a rate has after the point.
const rateDigits = 12

// FormatRate returns how many whole tokens come out for a whole token, rounded down, without trailing
// zeros.
func FormatRate(amountIn, amountOut money.Amount, inDecimals, outDecimals int) string {
	power := func(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }
	n := new(big.Int).Mul(amountOut.Big(), power(inDecimals+rateDigits))
	n.Div(n, new(big.Int).Mul(amountIn.Big(), power(outDecimals)))
	text := n.String()
	if len(text) <= rateDigits {
		text = strings.Repeat("0", rateDigits-len(text)+1) + text
	}
	text = text[:len(text)-rateDigits] + "." + text[len(text)-rateDigits:]
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
