package webhook

import (
	"fmt"
	"time"
)

const timeLayout = "2006-01-02T15:04:05.000Z"

// Time is a moment as the API prints it: RFC 3339, UTC, always three digits of
// milliseconds, so that equal moments are equal strings and strings sort by time.
type Time struct{ time.Time }

// At returns a time truncated to milliseconds.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// AtOrNil is At for an event that may not have happened yet; nil stays nil.
func AtOrNil(t *time.Time) *Time {
	if t == nil {
		return nil
	}
	at := At(*t)
	return &at
}

// String returns the printed form.
func (t Time) String() string { return t.UTC().Format(timeLayout) }

// MarshalText prints the time.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// MarshalJSON prints the time as a JSON string. It exists so that the method of
// the embedded time.Time, which prints as many digits as it finds, is never used.
func (t Time) MarshalJSON() ([]byte, error) { return []byte(`"` + t.String() + `"`), nil }

// UnmarshalText reads any RFC 3339 time.
func (t *Time) UnmarshalText(text []byte) error {
	parsed, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return fmt.Errorf("webhook: %q is not an RFC 3339 time", text)
	}
	t.Time = parsed.UTC()
	return nil
}

// UnmarshalJSON reads a JSON string with any RFC 3339 time.
func (t *Time) UnmarshalJSON(data []byte) error {
	if len(data) < 2 || data[0] != '"' || data[len(data)-1] != '"' {
		return fmt.Errorf("webhook: %s is not an RFC 3339 time in a JSON string", data)
	}
	return t.UnmarshalText(data[1 : len(data)-1])
}
