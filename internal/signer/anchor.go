package signer

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// AuditHead is a position in a hash chain of the audit log. The hash covers every row up to it.
type AuditHead struct {
	Chain    string `json:"chain"`    // name of the hash chain
	Position uint64 `json:"position"` // number of rows up to here, from 1
	Hash     string `json:"hash"`     // hex SHA-256
}

// AnchorRequest asks the signer to sign the head of the chain.
type AnchorRequest struct {
	AuditHead
	// Previous is the head of the last anchor, as the chain has it now. A chain with another hash
	// there is not the one that was signed. Nil for the first anchor.
	Previous *AuditHead `json:"after,omitempty"`
}

// Anchor is an audit head that the signer signed and keeps outside of the database.
type Anchor struct {
	AuditHead
	Number    uint64 `json:"number"`  // from 1, without gaps
	SignedAt  string `json:"at"`      // RFC 3339, by the signer's clock
	Prev      string `json:"prev"`    // ComputeHash of the anchor before; "" for the first
	Reason    string `json:"because"` // why an operator restarted the chain here; else ""
	Signature []byte `json:"signature"`
}

// anchorVersion is signed with every anchor. The attestation key signs addresses as well, and
// neither can be mistaken for the other.
const anchorVersion = "coffer-anchor-1"

// SignedBytes returns the bytes that Signature signs: every field preceded by its length.
func (a Anchor) SignedBytes() []byte {
	var b []byte
	for _, s := range []string{
		anchorVersion, a.Chain, fmt.Sprint(a.Position), a.Hash, fmt.Sprint(a.Number), a.SignedAt,
		a.Prev, a.Reason,
	} {
		b = fmt.Appendf(b, "%d:%s", len(s), s)
	}
	return b
}

// ComputeHash returns the hash by which the next anchor refers to this one.
func (a Anchor) ComputeHash() string {
	sum := sha256.Sum256(a.SignedBytes())
	return hex.EncodeToString(sum[:])
}

// VerifySignature returns an error if the form or the signature of an anchor is invalid.
func (a Anchor) VerifySignature(key ed25519.PublicKey) error {
	if sum, err := hex.DecodeString(a.Hash); err != nil || len(sum) != sha256.Size ||
		hex.EncodeToString(sum) != a.Hash {
		return fmt.Errorf("anchor %d has an invalid hash", a.Number)
	}
	if len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, a.SignedBytes(), a.Signature) {
		return fmt.Errorf("anchor %d, of %s, is not signed by this key", a.Number, a.SignedAt)
	}
	return nil
}

// VerifyAfter returns an error if an anchor does not follow the previous one. The zero Anchor
// stands before the first.
func (a Anchor) VerifyAfter(previous Anchor) error {
	previousHash := ""
	if previous.Number > 0 {
		previousHash = previous.ComputeHash()
	}
	switch {
	case a.Number != previous.Number+1:
		return fmt.Errorf("anchor %d is at the position of anchor %d", a.Number, previous.Number+1)
	case a.Prev != previousHash:
		return fmt.Errorf("anchor %d does not follow anchor %d before it", a.Number, previous.Number)
	case a.Reason == "" && previous.Number > 0 && (a.Chain != previous.Chain || a.Position <= previous.Position):
		return fmt.Errorf("anchor %d goes back, and no person allowed the chain to begin again", a.Number)
	}
	return nil
}

// EffectiveAnchors returns the anchors that a chain has to agree with. Where an operator restarted
// the chain, the anchors of later positions no longer count.
func EffectiveAnchors(anchors []Anchor) []Anchor {
	var effective []Anchor
	for _, a := range anchors {
		if a.Reason != "" {
			effective = slices.DeleteFunc(effective, func(b Anchor) bool {
				return b.Chain != a.Chain || b.Position > a.Position || b.Position == a.Position && b.Hash != a.Hash
			})
		}
		effective = append(effective, a)
	}
	return effective
}

// ErrNoAnchors says that the signer is too old to keep anchors.
var ErrNoAnchors = errors.New("this signer has no anchors of the audit log: upgrade it to the version of this program")
