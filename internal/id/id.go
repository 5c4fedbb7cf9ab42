// Package id makes the identifiers of what callers can name: a prefix that
// tells the kind, and 26 characters that sort by time and cannot be guessed.
package id

import (
	"crypto/rand"
	"time"

	"github.com/oklog/ulid/v2"
)

// New makes an identifier such as dep_01J9… for something made at that time.
func New(prefix string, at time.Time) string {
	return prefix + "_" + ulid.MustNew(ulid.Timestamp(at), rand.Reader).String()
}

// Is tells whether s has the form of an identifier with that prefix. What does
// not is answered like something absent, without asking the database.
func Is(prefix, s string) bool {
	if len(s) != len(prefix)+1+ulid.EncodedSize || s[:len(prefix)] != prefix || s[len(prefix)] != '_' {
		return false
	}
	_, err := ulid.ParseStrict(s[len(prefix)+1:])
	return err == nil
}
