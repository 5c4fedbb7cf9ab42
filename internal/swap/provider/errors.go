package provider

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
)

// The errors of a provider.
var (
	// ErrNotServed: the provider does not swap this pair, or not in this way. It was not asked.
	ErrNotServed = errors.New("the provider does not serve this swap")
	// ErrUnavailable: there is no answer to use. It may still have made a deposit address.
	ErrUnavailable = errors.New("the swap provider is unavailable")
	// ErrMalformed is an ErrUnavailable: the provider answered something that is not understood.
	ErrMalformed = fmt.Errorf("%w: its answer is not understood", ErrUnavailable)
	// ErrUntrusted: no pinned key signed the quote, or the signed quote has other terms than the question. The
	// provider gets no new swaps until a person has looked at it.
	ErrUntrusted = errors.New("the signed quote cannot be trusted")
)

// RefusedError says that the provider refuses this swap, and would refuse it again.
type RefusedError struct {
	Provider string
	Message  string // in the provider's words, cleaned; it may be empty
}

// Error returns the provider's words.
func (e *RefusedError) Error() string { return e.Provider + " refuses the swap: " + e.Message }

// Refused returns a RefusedError with the message cleaned and cut.
func Refused(name, message string) error {
	return &RefusedError{Provider: name, Message: CleanText(message)}
}

// Unavailable returns an ErrUnavailable with its reason, which may quote a provider but never a secret.
func Unavailable(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUnavailable, fmt.Errorf(format, args...))
}

// Malformed returns an ErrMalformed with its reason.
func Malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrMalformed, fmt.Errorf(format, args...))
}

// CheckSigned converts the result of verifying a quote: a quote in another form is ErrMalformed, and one that is
// not signed by a pinned key or has other terms is ErrUntrusted.
func CheckSigned(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, signedquote.ErrUnsigned), errors.Is(err, signedquote.ErrOtherTerms):
		return fmt.Errorf("%w: %w", ErrUntrusted, err)
	}
	return Malformed("%w", err)
}

const (
	textBytesMax = 200 // of a provider's text that is passed on
	hashBytesMax = 128
	hashesMax    = 50
)

// CleanText cuts untrusted text and makes it one line of printable characters.
func CleanText(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r < ' ', r == 0x7f:
			return ' '
		// Characters that hide text or change its direction, which a page would obey.
		case r >= 0x80 && r < 0xa0, r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e,
			r >= 0x2060 && r <= 0x2069, r == 0xfeff:
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	return strings.TrimSpace(strings.ToValidUTF8(text[:min(len(text), textBytesMax)], ""))
}

// ParseHashes checks hashes that a provider names. Error: ErrMalformed.
func ParseHashes(hashes []string) (result []chain.TxHash, err error) {
	if len(hashes) > hashesMax {
		return nil, Malformed("%d hashes of transactions", len(hashes))
	}
	for _, hash := range hashes {
		if hash == "" || len(hash) > hashBytesMax || strings.Trim(hash, hashLetters) != "" {
			return nil, Malformed("a hash of %d characters", len(hash))
		}
		result = append(result, chain.TxHash(hash))
	}
	return result, nil
}

// hashLetters are those of every encoding of hashes.
const hashLetters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+/=_-"
