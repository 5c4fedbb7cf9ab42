package webhook

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Headers of a webhook request. The first three are those of Standard Webhooks.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp" // of this attempt, in seconds since 1970
	HeaderSignature = "webhook-signature" // one or more, separated by spaces
	HeaderAttempt   = "webhook-attempt"   // 1, 2, …
)

// DefaultTolerance is how far a timestamp may be from the receiver's clock when Verify
// is given no other tolerance.
const DefaultTolerance = 5 * time.Minute

const (
	prefixSecret  = "whsec_"
	prefixPublic  = "whpk_"
	prefixPrivate = "whsk_"

	secretBytesMin = 24
	secretBytesMax = 64
	secretBytes    = 32 // of a secret that NewSecret makes

	signaturesMax = 16 // in one header; a sender has two, four while it rotates
)

// Errors of Verify. Each is wrapped in a sentence that says what was found.
var (
	ErrHeaders   = errors.New("webhook: headers are missing or malformed")
	ErrTimestamp = errors.New("webhook: timestamp is outside the tolerance")
	ErrSignature = errors.New("webhook: no signature matches")
	ErrKey       = errors.New("webhook: malformed key")
)

// Key signs, verifies, or both. The zero Key does neither.
type Key struct {
	version string // v1 or v1a
	secret  []byte
	public  ed25519.PublicKey
	private ed25519.PrivateKey
}

// ParseKey reads a key in its printed form: an endpoint's secret (whsec_…), which signs
// and verifies; an installation's public key (whpk_…), which verifies; or its private
// key (whsk_…), which does both.
func ParseKey(s string) (Key, error) {
	prefix, encoded, found := strings.Cut(s, "_")
	if !found {
		return Key{}, fmt.Errorf("%w: it starts with none of whsec_, whpk_ and whsk_", ErrKey)
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return Key{}, fmt.Errorf("%w: what follows %s_ is not base64", ErrKey, prefix)
	}
	switch prefix + "_" {
	case prefixSecret:
		if len(raw) < secretBytesMin || len(raw) > secretBytesMax {
			return Key{}, fmt.Errorf(
				"%w: the secret has %d bytes, it must have %d to %d",
				ErrKey, len(raw), secretBytesMin, secretBytesMax,
			)
		}
		return Key{version: "v1", secret: raw}, nil
	case prefixPublic:
		if len(raw) != ed25519.PublicKeySize {
			return Key{}, fmt.Errorf(
				"%w: the public key has %d bytes, it must have %d",
				ErrKey, len(raw), ed25519.PublicKeySize,
			)
		}
		return Key{version: "v1a", public: raw}, nil
	case prefixPrivate:
		switch len(raw) {
		case ed25519.SeedSize:
			return PrivateKey(ed25519.NewKeyFromSeed(raw)), nil
		case ed25519.PrivateKeySize:
			// The second half is the public key. It is derived again: a wrong one
			// would make signatures that give the private key away.
			return PrivateKey(ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])), nil
		}
		return Key{}, fmt.Errorf(
			"%w: the private key has %d bytes, it must have %d or %d",
			ErrKey, len(raw), ed25519.SeedSize, ed25519.PrivateKeySize,
		)
	}
	return Key{}, fmt.Errorf("%w: it starts with none of whsec_, whpk_ and whsk_", ErrKey)
}

// PrivateKey returns a Key that signs with an ed25519 private key.
func PrivateKey(private ed25519.PrivateKey) Key {
	return Key{version: "v1a", private: private, public: private.Public().(ed25519.PublicKey)}
}

// NewSecret makes a secret for an endpoint: whsec_ and 32 random bytes in base64.
func NewSecret() string {
	raw := make([]byte, secretBytes)
	_, _ = rand.Read(raw) // It never fails: without randomness the program ends.
	return prefixSecret + base64.StdEncoding.EncodeToString(raw)
}

// Public returns the printed form of the public key, whpk_…, or "" for a secret.
func (k Key) Public() string {
	if k.public == nil {
		return ""
	}
	return prefixPublic + base64.StdEncoding.EncodeToString(k.public)
}

// String does not print what must stay secret.
func (k Key) String() string {
	if k.public != nil {
		return k.Public()
	}
	return prefixSecret + "***"
}

// GoString is String, so that no verb of fmt prints a secret.
func (k Key) GoString() string { return k.String() }

// Sign makes the value of the webhook-signature header for a message with that id, sent
// at that time: one signature for each key, in their order. While a secret is being
// rotated a message carries those of both.
func Sign(id string, at time.Time, payload []byte, keys ...Key) (string, error) {
	if id == "" || strings.Contains(id, ".") {
		return "", fmt.Errorf("webhook: the id %q is empty or contains a dot", id)
	}
	if len(keys) == 0 {
		return "", fmt.Errorf("%w: there is none to sign with", ErrKey)
	}
	message := signed(id, strconv.FormatInt(at.Unix(), 10), payload)
	var header strings.Builder
	for i, k := range keys {
		var signature []byte
		switch {
		case k.secret != nil:
			signature = k.mac(message)
		case k.private != nil:
			signature = ed25519.Sign(k.private, message)
		default:
			return "", fmt.Errorf("%w: key %d cannot sign", ErrKey, i)
		}
		if i > 0 {
			header.WriteByte(' ')
		}
		header.WriteString(k.version)
		header.WriteByte(',')
		header.WriteString(base64.StdEncoding.EncodeToString(signature))
	}
	return header.String(), nil
}

// Verify returns nil when the payload is what was signed and the signature was made
// with the key: the endpoint's secret (whsec_…) or the installation's public key
// (whpk_…). The payload is the raw body: decoding and encoding it again changes it.
//
// The timestamp must be within the tolerance of this machine's clock, which keeps an
// old request from being played again; 0 means DefaultTolerance. A key is compared in
// constant time. Errors wrap ErrHeaders, ErrTimestamp, ErrSignature or ErrKey; a
// receiver answers all of them 401 and does not read the payload.
//
// Verify does not know which ids were already handled: drop an event that comes twice.
func Verify(payload []byte, header http.Header, key string, tolerance time.Duration) error {
	return VerifyAt(time.Now(), payload, header, key, tolerance)
}

// VerifyAt is Verify with another clock.
func VerifyAt(now time.Time, payload []byte, header http.Header, key string, tolerance time.Duration) error {
	k, err := ParseKey(key)
	if err != nil {
		return err
	}
	id, timestamp, signatures := header.Get(HeaderID), header.Get(HeaderTimestamp), header.Get(HeaderSignature)
	for _, h := range []struct{ name, value string }{{HeaderID, id}, {HeaderTimestamp, timestamp}, {HeaderSignature, signatures}} {
		if h.value == "" {
			return fmt.Errorf("%w: there is no %s", ErrHeaders, h.name)
		}
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != timestamp {
		return fmt.Errorf("%w: %s is %q, not whole seconds since 1970", ErrHeaders, HeaderTimestamp, timestamp)
	}
	if tolerance == 0 {
		tolerance = DefaultTolerance
	}
	switch age := now.Sub(time.Unix(seconds, 0)); {
	case age > tolerance:
		return fmt.Errorf(
			"%w: it is %v old, allowed are %v: a replayed request, or this machine's clock is fast",
			ErrTimestamp, age.Truncate(time.Second), tolerance,
		)
	case age < -tolerance:
		return fmt.Errorf(
			"%w: it is %v ahead, allowed are %v: this machine's clock may be slow",
			ErrTimestamp, -age.Truncate(time.Second), tolerance,
		)
	}

	message := signed(id, timestamp, payload)
	tried := 0
	for i, one := range strings.Fields(signatures) {
		if i == signaturesMax {
			break
		}
		version, encoded, _ := strings.Cut(one, ",")
		if version != k.version {
			continue
		}
		signature, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			continue
		}
		tried++
		if k.matches(message, signature) {
			return nil
		}
	}
	if tried == 0 {
		return fmt.Errorf(
			"%w: %s has no valid %s signature, which this key verifies",
			ErrSignature, HeaderSignature, k.version,
		)
	}
	return fmt.Errorf(
		"%w: %d tried; the key is another endpoint's or was rotated, or the payload is not the raw body",
		ErrSignature, tried,
	)
}

// VerifyAny is Verify with several keys, of which one that matches is enough: all that
// the installation publishes at /.well-known/webhook-keys, or an endpoint's secret and
// the one before it. A key that is malformed is passed over while another matches. The
// error is that of the last key; ErrKey when there is none.
func VerifyAny(payload []byte, header http.Header, keys []string, tolerance time.Duration) error {
	return verifyAny(time.Now(), payload, header, keys, tolerance)
}

func verifyAny(now time.Time, payload []byte, header http.Header, keys []string, tolerance time.Duration) error {
	err := fmt.Errorf("%w: there is none to verify with", ErrKey)
	for _, key := range keys {
		if err = VerifyAt(now, payload, header, key, tolerance); err == nil {
			return nil
		}
	}
	return err
}

func signed(id, timestamp string, payload []byte) []byte {
	message := make([]byte, 0, len(id)+len(timestamp)+len(payload)+2)
	message = append(message, id...)
	message = append(message, '.')
	message = append(message, timestamp...)
	message = append(message, '.')
	return append(message, payload...)
}

func (k Key) mac(message []byte) []byte {
	h := hmac.New(sha256.New, k.secret)
	h.Write(message)
	return h.Sum(nil)
}

func (k Key) matches(message, signature []byte) bool {
	if k.secret != nil {
		return hmac.Equal(signature, k.mac(message))
	}
	return k.public != nil && ed25519.Verify(k.public, message, signature)
}
