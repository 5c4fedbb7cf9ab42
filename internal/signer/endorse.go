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

// Endorsement is an address to which an organization may pay its own money, as an operator asks for
// it.
type Endorsement struct {
	OrgID   string        `json:"orgId"`
	ID      string        `json:"id"` // of the whitelist row; its fields never change
	Chain   chain.Name    `json:"chain"`
	Address chain.Address `json:"address"`
	// LabelHash is the hex SHA-256 of the address's label: the journal contains no names.
	LabelHash string `json:"labelHash"`
	// NotBefore is the time from which the installation allows its use, see FormatMicros.
	NotBefore string `json:"notBefore"`
	// MAC is made with the key of grants. It proves that an operator asked for the address, and
	// that it is not just a row. The signer checks it and does not record it.
	MAC []byte `json:"mac,omitempty"`
	// Label and SignedBy are what operators signed, where they have a rule. The signer does not record them.
	Label    string         `json:"label,omitempty"`
	SignedBy []KeySignature `json:"signedBy,omitempty"`
}

// EndorsedAddress is an endorsement as the signer recorded it.
type EndorsedAddress struct {
	EndorseBody
	Entry Entry `json:"entry"`
}

// EndorseBody records an endorsement. It includes the proof, so that a copy of the journal cannot
// invent one.
type EndorseBody struct {
	Endorsement
	// UsableFrom is NotBefore, or the end of the policy's cooling-off if that is later.
	UsableFrom string `json:"usableFrom"`
	Proof      []byte `json:"proof"` // ed25519 by the attestation key, see SignedBytes
	// Consents are the operators' signatures with which the address was endorsed.
	Consents []Consent `json:"consents,omitempty"`
}

// Revocation revokes an endorsement.
type Revocation struct {
	OrgID string `json:"orgId"`
	ID    string `json:"id"`
}

// endorseVersion and endorsementRequestVersion are hashed first, like the versions of addresses and
// grants.
const (
	endorseVersion            = "coffer-whitelist-1"
	endorsementRequestVersion = "coffer-whitelist-request-1"
)

// FormatMicros formats a time as endorsements have it: UTC, RFC 3339, rounded up to the next
// microsecond, which is the precision of the database.
func FormatMicros(t time.Time) string {
	if floor := t.Truncate(time.Microsecond); floor.Before(t) {
		t = floor.Add(time.Microsecond)
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// HashLabel returns the hash of a label that an endorsement contains.
func HashLabel(label string) string {
	sum := sha256.Sum256([]byte(label))
	return hex.EncodeToString(sum[:])
}

// HasSameWords reports whether two endorsements have the same fields.
func (e Endorsement) HasSameWords(o Endorsement) bool {
	return e.OrgID == o.OrgID && e.ID == o.ID && e.Chain == o.Chain && e.Address == o.Address &&
		e.LabelHash == o.LabelHash && e.NotBefore == o.NotBefore
}

func (e Endorsement) signedWords(version string, extra ...string) []byte {
	return encodeWords(append([]string{
		version, e.OrgID, e.ID, string(e.Chain), string(e.Address), e.LabelHash,
		e.NotBefore,
	}, extra...)...)
}

// SignedBytes returns the bytes that Proof signs: every field preceded by its length.
func (e EndorseBody) SignedBytes() []byte { return e.signedWords(endorseVersion, e.UsableFrom) }

// VerifyProof checks that the proof covers these fields. Error: ErrEndorsement.
func (e EndorseBody) VerifyProof(key ed25519.PublicKey) error {
	if len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, e.SignedBytes(), e.Proof) {
		return fmt.Errorf("%s of %s: %w", e.ID, e.OrgID, ErrEndorsement)
	}
	return nil
}

// EndorsementMAC returns the MAC that an endorsement needs: it binds the endorsement to the key of
// the one who asked for it.
func (k *GrantKey) EndorsementMAC(e Endorsement) []byte {
	return k.computeMAC(string(e.signedWords(endorsementRequestVersion)))
}

// CheckEndorsement refuses an endorsement that no holder of the key asked for with exactly these
// fields. nil means that it may be made.
func (k *GrantKey) CheckEndorsement(e Endorsement) *Refusal {
	if k == nil || hmac.Equal(k.EndorsementMAC(e), e.MAC) {
		return nil
	}
	return Refuse(RefusedGrant,
		"address %s differs from what an operator requested: it was changed since, or never requested", e.ID)
}
