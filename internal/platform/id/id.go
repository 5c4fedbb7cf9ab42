// Package id makes the identifiers of objects that callers can name: a prefix for the kind, and 26
// characters. New makes one that sorts by time and cannot be guessed. Derive makes the same one
// whenever the same object is found again.
package id

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/oklog/ulid/v2"
)

// New returns an identifier such as dep_01J9… for an object that was created at that time.
func New(prefix string, createdAt time.Time) string {
	return prefix + "_" + ulid.MustNew(ulid.Timestamp(createdAt), rand.Reader).String()
}

// Derive returns the identifier that follows from the parts that identify an external object, in
// the form of New. The same parts give the same identifier in every database, and other parts
// another one. It contains no time. A reader who knows all parts knows the identifier, so one part
// should be known to its owner alone, such as the organization.
func Derive(prefix string, parts ...string) string {
	h := sha256.New()
	for _, part := range append([]string{prefix}, parts...) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return prefix + "_" + ulid.ULID(h.Sum(nil)[:len(ulid.ULID{})]).String()
}

// IsValid reports whether s has the form of an identifier with that prefix. Any other text is
// answered like an absent object, without a query.
func IsValid(prefix, s string) bool {
	if len(s) != len(prefix)+1+ulid.EncodedSize || s[:len(prefix)] != prefix || s[len(prefix)] != '_' {
		return false
	}
	_, err := ulid.ParseStrict(s[len(prefix)+1:])
	return err == nil
}
