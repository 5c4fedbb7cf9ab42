package seal

import (
	"crypto/subtle"
	"fmt"
	"log/slog"
)

// Secret is a text that must not be printed. Formatting, logging or marshalling it by accident
// writes ***; only Reveal returns the text.
//
// The text is behind a function. For a Secret in an unexported field of another struct, fmt calls
// no method and would print a string that it finds there. It cannot look into a function. So two
// secrets are compared with Equal, not with ==.
type Secret struct{ text func() string }

// NewSecret makes a Secret of a text.
func NewSecret(text string) Secret { return Secret{func() string { return text }} }

// Reveal returns the text itself. Each call deserves attention in a review.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return s.text()
}

// IsEmpty reports whether the text is empty.
func (s Secret) IsEmpty() bool { return s.Reveal() == "" }

// Equal compares in constant time, so that the time does not say how much of a guess was right.
func (s Secret) Equal(candidate Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(candidate.Reveal())) == 1
}

const masked = "***"

// String masks the text.
func (Secret) String() string { return masked }

// GoString masks the text.
func (Secret) GoString() string { return masked }

// Format masks the text for every verb and flag.
func (Secret) Format(state fmt.State, _ rune) { _, _ = state.Write([]byte(masked)) }

// LogValue masks the text.
func (Secret) LogValue() slog.Value { return slog.StringValue(masked) }

// MarshalText masks the text, for JSON and everything else that marshals.
func (Secret) MarshalText() ([]byte, error) { return []byte(masked), nil }

// UnmarshalText stores a text, so that a configuration can contain secrets.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}
