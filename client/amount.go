package client

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// ErrAmount refuses a text that is no amount.
var ErrAmount = errors.New("client: not an amount")

const (
	digitsMax   = 78
	decimalsMax = 36
)

// Units reads whole tokens, such as 12.5 of a mint with 6 decimals, as the string
// of atomic units that the interface takes: 12500000. It never rounds: more
// digits after the point than the mint has are ErrAmount, as are signs,
// exponents, leading zeros and spaces.
func Units(tokens string, decimals int) (string, error) {
	whole, fraction, point := strings.Cut(tokens, ".")
	switch {
	case decimals < 0 || decimals > decimalsMax:
		return "", fmt.Errorf("%w: no mint has %d decimals", ErrAmount, decimals)
	case !digits(whole) || len(whole) > 1 && whole[0] == '0' || point && !digits(fraction):
		return "", fmt.Errorf("%w: %q; it looks like 12 or 12.5", ErrAmount, tokens)
	case len(fraction) > decimals:
		return "", fmt.Errorf(
			"%w: %q has %d digits after the point, the mint has %d decimals", ErrAmount, tokens, len(fraction),
			decimals,
		)
	}
	text := strings.TrimLeft(whole+fraction+strings.Repeat("0", decimals-len(fraction)), "0")
	if text == "" {
		text = "0"
	}
	if _, err := BigInt(text); err != nil {
		return "", err
	}
	return text, nil
}

// Decimal writes atomic units as whole tokens, exactly: 12500000 of a mint with 6
// decimals is 12.5.
func Decimal(units string, decimals int) (string, error) {
	if _, err := BigInt(units); err != nil {
		return "", err
	}
	if decimals < 0 || decimals > decimalsMax {
		return "", fmt.Errorf("%w: no mint has %d decimals", ErrAmount, decimals)
	}
	if short := decimals + 1 - len(units); short > 0 {
		units = strings.Repeat("0", short) + units
	}
	whole, fraction := units[:len(units)-decimals], strings.TrimRight(units[len(units)-decimals:], "0")
	if fraction == "" {
		return whole, nil
	}
	return whole + "." + fraction, nil
}

// BigInt reads atomic units for arithmetic. What the interface would not take is
// ErrAmount: a sign, a leading zero, more than 2^256-1.
func BigInt(units string) (*big.Int, error) {
	n, ok := new(big.Int), digits(units) && len(units) <= digitsMax && (len(units) == 1 || units[0] != '0')
	if ok {
		n, ok = n.SetString(units, 10)
	}
	if !ok || n.BitLen() > 256 {
		return nil, fmt.Errorf("%w: %q is no number of atomic units", ErrAmount, units)
	}
	return n, nil
}

func digits(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}
