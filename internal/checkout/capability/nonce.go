package capability

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"
)

const (
	nonceDomain      = "coffer-payment-link-nonce-1"
	nonceTimeBytes   = 8
	nonceRandomBytes = 16
	nonceMACBytes    = 16
	nonceBytes       = nonceTimeBytes + nonceRandomBytes + nonceMACBytes

	// NonceLifetime is how long the form of a payment link can be sent.
	NonceLifetime = 24 * time.Hour
)

// DeriveNonceSecret returns the secret of the forms of payment links, which follows from another secret of the
// installation as that of pages does. A replacement of that one ends the forms that are open: their payers get a new
// one.
func DeriveNonceSecret(installationSecret []byte) ([]byte, error) {
	if len(installationSecret) < sha256.Size {
		return nil, fmt.Errorf("derive the secret of forms: it has to follow from %d bytes or more", sha256.Size)
	}
	return hkdf.Key(sha256.New, installationSecret, nil, nonceDomain, sha256.Size)
}

// NewNonce returns a text that only this installation makes, for one form of one payment link: the time, random bytes,
// and a MAC over both and the link's id. Nothing is stored until a checkout has it as its key. Rule CO-63.
func NewNonce(secret []byte, linkID string, issuedAt time.Time) string {
	raw := make([]byte, nonceTimeBytes+nonceRandomBytes, nonceBytes)
	binary.BigEndian.PutUint64(raw, uint64(issuedAt.Unix()))
	_, _ = rand.Read(raw[nonceTimeBytes:]) // It never fails.
	return base64.RawURLEncoding.EncodeToString(append(raw, computeNonce(secret, linkID, raw)...))
}

// CheckNonce reports whether a text is a nonce of a payment link that is not too old. Rule CO-63.
func CheckNonce(secret []byte, linkID, nonce string, now time.Time) bool {
	if len(nonce) != base64.RawURLEncoding.EncodedLen(nonceBytes) {
		return false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(nonce)
	if err != nil {
		return false
	}
	message, mac := raw[:nonceBytes-nonceMACBytes], raw[nonceBytes-nonceMACBytes:]
	if !hmac.Equal(mac, computeNonce(secret, linkID, message)) {
		return false
	}
	issuedAt := time.Unix(int64(binary.BigEndian.Uint64(message)), 0)
	// The clock of another process may be ahead of this one.
	return now.Before(issuedAt.Add(NonceLifetime)) && issuedAt.Before(now.Add(time.Minute))
}

func computeNonce(secret []byte, linkID string, message []byte) []byte {
	if len(secret) < sha256.Size {
		panic("capability: nonces need a secret")
	}
	h := hmac.New(sha256.New, secret)
	// The domain and the message have fixed lengths, so no two links have the same bytes.
	h.Write([]byte(nonceDomain))
	h.Write(message)
	h.Write([]byte(linkID))
	return h.Sum(nil)[:nonceMACBytes]
}
