package client

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// ErrAmount is the error for a text that is no amount.
var ErrAmount = errors.New("client: not an amount")

const (
	digitsMax   = 78
	decimalsMax = 36
)

// Units converts whole tokens, such as 12.5 of a mint with 6 decimals, to the string of atomic
// units that the interface expects: 12500000. It never rounds. More digits after the point than the
// mint has are ErrAmount, and so are signs, exponents, leading zeros and spaces.
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

// Decimal converts atomic units to whole tokens, exactly: 12500000 of a mint with 6 decimals is
// 12.5.
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

// BigInt parses atomic units for arithmetic. ErrAmount: a sign, a leading zero or more than
// 2^256-1, which the interface would refuse.
func BigInt(units string) (*big.Int, error) {
	n, ok := new(big.Int), digits(units) && len(units) <= digitsMax && (len(units) == 1 || units[0] != '0')
	if ok {
		n, ok = n.SetString(units, 10)
	}
	if !ok || n.BitLen() > 256 {
		return nil, fmt.Errorf("%w: %q is not a number of atomic units", ErrAmount, units)
	}
	return n, nil
}

func digits(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}
