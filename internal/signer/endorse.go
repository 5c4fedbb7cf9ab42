package signer

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
)

// Endorsement is an address that an organization's own money may be paid out to, as an
// operator wants it.
type Endorsement struct {
	OrgID   string        `json:"orgId"`
	ID      string        `json:"id"` // of the row that names it; for ever of these words
	Chain   chain.Name    `json:"chain"`
	Address chain.Address `json:"address"`
	// HashLabel is hex SHA-256 of what people call it: the journal keeps no names.
	LabelHash string `json:"labelHash"`
	// NotBefore is when the installation lets it be used, see Moment.
	NotBefore string `json:"notBefore"`
	// MAC is by the key of grants: the address was asked for, and is not just a row. It
	// is looked at and no part of what is remembered.
	MAC []byte `json:"mac,omitempty"`
}

// EndorsedAddress is an endorsement as the signer remembers it.
type EndorsedAddress struct {
	EndorseBody
	Entry Entry `json:"entry"`
}

// EndorseBody remembers an endorsement. The proof is part of it, so that a copy of the
// journal cannot make one up.
type EndorseBody struct {
	Endorsement
	// UsableFrom is NotBefore, or when the policy's cooling-off is over if that is later.
	UsableFrom string `json:"usableFrom"`
	Proof      []byte `json:"proof"` // ed25519 by the attestation key, see Signed
}

// Revocation takes an endorsement back.
type Revocation struct {
	OrgID string `json:"orgId"`
	ID    string `json:"id"`
}

// endorseVersion and its sister are hashed first, as those of addresses and of grants.
const (
	endorseVersion            = "coffer-whitelist-1"
	endorsementRequestVersion = "coffer-whitelist-request-1"
)

// FormatMicros writes a time as endorsements have it: UTC, RFC 3339, up to the next
// microsecond, which is as exact as the database keeps it.
func FormatMicros(t time.Time) string {
	if floor := t.Truncate(time.Microsecond); floor.Before(t) {
		t = floor.Add(time.Microsecond)
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// HashLabel is what an endorsement says of a label.
func HashLabel(label string) string {
	sum := sha256.Sum256([]byte(label))
	return hex.EncodeToString(sum[:])
}

// HasSameWords tells whether two endorsements have the same words.
func (e Endorsement) HasSameWords(o Endorsement) bool {
	return e.OrgID == o.OrgID && e.ID == o.ID && e.Chain == o.Chain && e.Address == o.Address && e.LabelHash == o.LabelHash && e.NotBefore == o.NotBefore
}

func (e Endorsement) signedWords(version string, extra ...string) []byte {
	return encodeWords(append([]string{version, e.OrgID, e.ID, string(e.Chain), string(e.Address), e.LabelHash, e.NotBefore}, extra...)...)
}

// SignedBytes are the bytes that Proof signs: every word with its length before it.
func (e EndorseBody) SignedBytes() []byte { return e.signedWords(endorseVersion, e.UsableFrom) }

// VerifyProof tells whether the proof is of these words. Error: ErrEndorsement.
func (e EndorseBody) VerifyProof(key ed25519.PublicKey) error {
	if len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, e.SignedBytes(), e.Proof) {
		return fmt.Errorf("%s of %s: %w", e.ID, e.OrgID, ErrEndorsement)
	}
	return nil
}

// EndorsementMAC binds an endorsement to who asked for it: the MAC that it needs.
func (k *GrantKey) EndorsementMAC(e Endorsement) []byte {
	return k.computeMAC(string(e.signedWords(endorsementRequestVersion)))
}

// CheckEndorsement refuses an endorsement that nobody who has the key asked for with
// just these words. nil: it may be made.
func (k *GrantKey) CheckEndorsement(e Endorsement) *Refusal {
	if k == nil || hmac.Equal(k.EndorsementMAC(e), e.MAC) {
		return nil
	}
	return &Refusal{Code: RefusedGrant, Message: fmt.Sprintf("address %s is not what an operator asked for: its words were changed since, or nobody asked", e.ID)}
}
