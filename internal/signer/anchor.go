package signer

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// AuditHead is a place in the chain of the audit log: the hash there stands for every row
// up to it.
type AuditHead struct {
	Chain    string `json:"chain"`    // which chain
	Position uint64 `json:"position"` // rows up to here, from 1
	Hash     string `json:"hash"`     // hex SHA-256
}

// AnchorRequest asks the signer to sign where the chain stands.
type AnchorRequest struct {
	AuditHead
	// Previous is the mark of the last anchor, as the chain has it now: a chain that has
	// something else there is not the one that was signed. Nil for the first anchor.
	Previous *AuditHead `json:"after,omitempty"`
}

// Anchor is a mark that the signer signed, and keeps outside of the database.
type Anchor struct {
	AuditHead
	Number    uint64 `json:"number"`  // from 1, without gaps
	SignedAt  string `json:"at"`      // RFC 3339, by the signer's clock
	Prev      string `json:"prev"`    // Sum of the anchor before; "" for the first
	Reason    string `json:"because"` // "" unless an operator let the chain begin again here, and why
	Signature []byte `json:"signature"`
}

// anchorVersion is signed with every anchor: the attestation key signs addresses as
// well, and neither can be taken for the other.
const anchorVersion = "coffer-anchor-1"

// SignedBytes are the bytes that Signature signs: every word with its length before it.
func (a Anchor) SignedBytes() []byte {
	var b []byte
	for _, s := range []string{anchorVersion, a.Chain, fmt.Sprint(a.Position), a.Hash, fmt.Sprint(a.Number), a.SignedAt, a.Prev, a.Reason} {
		b = fmt.Appendf(b, "%d:%s", len(s), s)
	}
	return b
}

// ComputeHash names the anchor in the one after it.
func (a Anchor) ComputeHash() string {
	sum := sha256.Sum256(a.SignedBytes())
	return hex.EncodeToString(sum[:])
}

// VerifySignature tells what is wrong with the signature or the form of an anchor.
func (a Anchor) VerifySignature(key ed25519.PublicKey) error {
	if sum, err := hex.DecodeString(a.Hash); err != nil || len(sum) != sha256.Size || hex.EncodeToString(sum) != a.Hash {
		return fmt.Errorf("anchor %d has a hash that is none", a.Number)
	}
	if len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, a.SignedBytes(), a.Signature) {
		return fmt.Errorf("anchor %d, of %s, is not signed by this key", a.Number, a.SignedAt)
	}
	return nil
}

// VerifyAfter tells what is wrong with the place of an anchor behind another one; the zero
// Anchor stands before the first.
func (a Anchor) VerifyAfter(previous Anchor) error {
	previousHash := ""
	if previous.Number > 0 {
		previousHash = previous.ComputeHash()
	}
	switch {
	case a.Number != previous.Number+1:
		return fmt.Errorf("anchor %d stands where %d is due", a.Number, previous.Number+1)
	case a.Prev != previousHash:
		return fmt.Errorf("anchor %d does not follow the anchor %d that stands before it", a.Number, previous.Number)
	case a.Reason == "" && previous.Number > 0 && (a.Chain != previous.Chain || a.Position <= previous.Position):
		return fmt.Errorf("anchor %d goes back, and nobody let the chain begin again", a.Number)
	}
	return nil
}

// EffectiveAnchors are the anchors that a chain has to agree with: where it was let begin
// again, what was signed of its later places counts no more.
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

// ErrNoAnchors says that a signer keeps none: it is older than they are.
var ErrNoAnchors = errors.New("this signer keeps no anchors of the audit log: bring it to the version of this program")
