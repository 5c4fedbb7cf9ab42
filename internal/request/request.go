// Package request has what every request to move money shares before its feature decides: the
// idempotency key, the caller's handles, the amount and the digest. All of it is pure. untouched is
// the sentence of a feature that says what a refused request has not done, with a space before it.
package request

import (
	"crypto/sha256"
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
)

// Limits of what a caller gives with a request.
const (
	KeyBytesMax           = 255
	referenceBytesMax     = 255
	metadataKeysMax       = 20
	metadataKeyRunesMax   = 40
	metadataValueRunesMax = 500
)

// IsKey reports whether a text can be an idempotency key: 1 to KeyBytesMax printable ASCII
// characters without a space.
func IsKey(key string) bool {
	ok := len(key) >= 1 && len(key) <= KeyBytesMax
	for i := range len(key) {
		ok = ok && key[i] > ' ' && key[i] < 0x7f
	}
	return ok
}

// CheckHandles checks the limits of the caller's own reference and metadata. Rule REQ-7.
func CheckHandles(reference *string, metadata map[string]string, effect fault.Effect) error {
	if reference != nil &&
		(*reference == "" || len(*reference) > referenceBytesMax || !IsPlainText(*reference)) {
		return fault.New(fault.Invalid, fault.InvalidRequest, effect,
			"A reference has to have 1 to %d bytes of text without control characters.", referenceBytesMax).
			WithAdvice("Shorten or clean it, or leave it out.").
			WithParam("reference")
	}
	return CheckMetadata(metadata, effect)
}

// CheckMetadata checks the limits of metadata.
func CheckMetadata(metadata map[string]string, effect fault.Effect) error {
	ok := len(metadata) <= metadataKeysMax
	for k, v := range metadata {
		ok = ok && k != "" && utf8.RuneCountInString(k) <= metadataKeyRunesMax &&
			utf8.RuneCountInString(v) <= metadataValueRunesMax && IsPlainText(k) && IsPlainText(v)
	}
	if !ok {
		return fault.New(fault.Invalid, fault.InvalidRequest, effect,
			"Metadata may have at most %d keys of 1 to %d characters with values of at most %d characters, without "+
				"control characters.", metadataKeysMax, metadataKeyRunesMax, metadataValueRunesMax).
			WithAdvice("Make it smaller.").WithParam("metadata")
	}
	return nil
}

// IsPlainText reports whether a text is UTF-8 without control characters other than tabs and
// newlines.
func IsPlainText(s string) bool {
	return utf8.ValidString(s) &&
		strings.IndexFunc(s, func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' }) < 0
}

// IsInvisible reports whether a format character is needed by no script: such characters make two
// texts look the same. Joiners (U+200C, U+200D) and the tags of emoji are needed.
func IsInvisible(r rune) bool {
	switch r {
	case '\u00ad', '\u180e', '\u200b', '\u2060', '\u2061', '\u2062', '\u2063', '\u2064', '\ufeff', '\ufff9',
		'\ufffa', '\ufffb':
		return true
	}
	return false
}

// ParseMint returns a mint of the catalogue.
func ParseMint(mintID int, mints mint.Catalogue, effect fault.Effect) (mint.Mint, error) {
	m, ok := mints.ByID(mintID)
	if !ok {
		return m, NewUnknownMint(mintID, effect)
	}
	return m, nil
}

// NewUnknownMint returns the answer to a mint that is not in the catalogue.
func NewUnknownMint(mintID int, effect fault.Effect) *fault.Fault {
	return fault.New(fault.Invalid, fault.MintNotFound, effect, "Mint %d does not exist.", mintID).
		WithStep(fault.ListMints).WithParam("mintId")
}

// ParseAmount parses an amount above zero in atomic units, or in whole tokens with decimal.
func ParseAmount(s string, decimal bool, m mint.Mint, effect fault.Effect) (money.Amount, error) {
	refuse := func(format string, args ...any) error {
		return fault.New(fault.Invalid, fault.InvalidAmount, effect, format, args...).
			WithParam("amount")
	}
	parseText := money.Parse
	if decimal {
		parseText = func(s string) (money.Amount, error) { return money.ParseDecimal(s, m.Decimals) }
	}
	a, err := parseText(s)
	switch {
	case errors.Is(err, money.ErrFraction):
		return a, refuse(
			"%s has %d decimals and the amount has more; the service never rounds. Send at most %d digits after the "+
				"point.",
			m.Symbol, m.Decimals, m.Decimals,
		)
	case errors.Is(err, money.ErrRange):
		return a, refuse("The amount is larger than the largest possible amount (2^256-1 atomic units). Send a " +
			"smaller one.")
	case err != nil && !decimal && strings.Contains(s, "."):
		return a, refuse(
			"Without useDecimal the amount is a whole number of atomic units and has no point. Send atomic units, or " +
				"set useDecimal to true.",
		)
	case err != nil && decimal:
		return a, refuse("The amount is not a decimal number of whole tokens such as \"1.5\". Use ASCII digits with " +
			"at most one point, and no sign, exponent, separator or leading zero.")
	case err != nil:
		return a, refuse("The amount is not a whole number of atomic units such as \"5000000\". Use ASCII digits " +
			"only, without sign, point, exponent, separator or leading zero.")
	case a.IsZero():
		return a, refuse("The amount is zero. Send at least one atomic unit.")
	}
	return a, nil
}

// Digest hashes the parameters that make a request another one, each with its length.
func Digest(parts ...string) []byte {
	var encoded []byte
	for _, s := range parts {
		encoded = strconv.AppendInt(encoded, int64(len(s)), 10)
		encoded = append(append(encoded, ':'), s...)
	}
	sum := sha256.Sum256(encoded)
	return sum[:]
}

// Accepted is what is known of an earlier request that has an idempotency key.
type Accepted struct {
	ID        string // what it made
	Digest    []byte
	Reference *string
	// IsRestored says that it was restored without its reference, which is then not compared.
	IsRestored bool
}

// IsRepeatedBy reports whether a request with this digest and reference repeats the accepted one.
// The reference is the caller's id of the order. It is compared with the row's column and is not
// part of the digest, because the digests of rows of earlier versions lack it.
func (a Accepted) IsRepeatedBy(digest []byte, reference *string) bool {
	sameReference := reference == a.Reference ||
		reference != nil && a.Reference != nil && *reference == *a.Reference
	return string(a.Digest) == string(digest) && (sameReference || a.IsRestored)
}
