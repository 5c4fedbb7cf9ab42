package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"

	"github.com/cofferpay/coffer/internal/platform/seal"
)

// KeyPrefix begins every key of one kind, so that each listener recognizes the keys of the other.
type KeyPrefix string

// The prefixes of the keys of organizations and of operators.
const (
	APIKey      KeyPrefix = "ck_"
	OperatorKey KeyPrefix = "cok_"
)

const (
	keyBytes     = 32
	keyTextBytes = (keyBytes*8 + 5) / 6 // of base64, after the prefix
)

// NewKey generates a key, its prefix and 43 characters, and the hash that is stored.
func (p KeyPrefix) NewKey() (seal.Secret, []byte) {
	var b [keyBytes]byte
	_, _ = rand.Read(b[:]) // never fails: the program ends when there is no randomness
	key := string(p) + base64.RawURLEncoding.EncodeToString(b[:])
	sum := sha256.Sum256([]byte(key))
	return seal.NewSecret(key), sum[:]
}

// Hash returns the hash of a presented key. A text that is too long is not hashed completely; it
// cannot be a key in any case.
func (p KeyPrefix) Hash(presented string) [sha256.Size]byte {
	return sha256.Sum256([]byte(presented[:min(len(presented), len(p)+keyTextBytes+1)]))
}
