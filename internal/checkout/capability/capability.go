// Package capability makes and checks the key of a checkout's page, which stands behind # in its
// address. The path of a page can be read by everyone who has it, and paths end up in logs; browsers
// never send what follows #. So the path shows a checkout, and the key is needed to act on it.
//
// The key follows from a secret of the installation and the checkout's id. Nothing is stored, every
// read of a checkout gives the same address, and a crash leaves nothing behind.
package capability

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

const (
	domain    = "coffer-checkout-page-1"
	keyBytes  = 16 // 128 bits, which cannot be guessed
	textChars = 22 // of keyBytes in base64url
)

// DeriveSecret returns the secret of pages, which follows from another secret of the installation:
// the key of its cursors (keys.cursor), which every process has that shows a page or answers the API.
// A derived secret keeps both uses apart: no page key is a MAC of a cursor.
//
// A replacement of that key file replaces all page keys. Pages that are open, and addresses that
// shops and payers stored, can still be read, and actions on them are refused until the payer has
// the new address. Every read of a checkout by the API gives the new one. No money and no refund
// depends on a page key alone.
func DeriveSecret(installationSecret []byte) ([]byte, error) {
	if len(installationSecret) < sha256.Size {
		return nil, fmt.Errorf("derive the secret of pages: it has to follow from %d bytes or more", sha256.Size)
	}
	return hkdf.Key(sha256.New, installationSecret, nil, domain, sha256.Size)
}

// Key returns the key of a checkout's page: 128 bits in base64url. Rule CO-74.
func Key(secret []byte, checkoutID string) string {
	return base64.RawURLEncoding.EncodeToString(compute(secret, checkoutID))
}

// Check reports whether a text is the key of a checkout's page. It takes the same time for every
// text of a key's length. Rule CO-74.
func Check(secret []byte, checkoutID, key string) bool {
	if len(key) != textChars {
		return false
	}
	// The texts are compared: the decoder ignores unused last bits, and a key has exactly one text.
	return hmac.Equal([]byte(key), []byte(Key(secret, checkoutID)))
}

func compute(secret []byte, checkoutID string) []byte {
	if len(secret) < sha256.Size {
		panic("capability: page keys need a secret")
	}
	h := hmac.New(sha256.New, secret)
	// The domain has a fixed length, so no two ids have the same bytes.
	h.Write([]byte(domain))
	h.Write([]byte(checkoutID))
	return h.Sum(nil)[:keyBytes]
}
