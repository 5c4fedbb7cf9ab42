// Package id makes the identifiers of what callers can name: a prefix that
// tells the kind, and 26 characters. New makes one that sorts by time and cannot
// be guessed; Of makes the same one whenever the same thing is found again.
package id

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/oklog/ulid/v2"
)

// New makes an identifier such as dep_01J9… for something made at that time.
func New(prefix string, createdAt time.Time) string {
	return prefix + "_" + ulid.MustNew(ulid.Timestamp(createdAt), rand.Reader).String()
}

// Derive makes the identifier that follows from what names a thing in the world, in the
// form of New: the same parts give the same one in every database, and no others
// do. It has no time in it. Who knows all parts knows it, so one part should be
// something that only its owner knows, such as the organization.
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

// IsValid tells whether s has the form of an identifier with that prefix. What does
// not is answered like something absent, without asking the database.
func IsValid(prefix, s string) bool {
	if len(s) != len(prefix)+1+ulid.EncodedSize || s[:len(prefix)] != prefix || s[len(prefix)] != '_' {
		return false
	}
	_, err := ulid.ParseStrict(s[len(prefix)+1:])
	return err == nil
}
