package signer

import (
	"crypto/hmac"
	"fmt"
)

// Void names a payment or a return that people took back before it had a slot.
type Void struct {
	OrgID string `json:"orgId"`
	ID    string `json:"id"` // of the intent
	// MAC is by the key of grants: people took the payment back, and nobody else stops it.
	// It is checked and not remembered.
	MAC []byte `json:"mac,omitempty"`
}

// MakeVoid makes the word that ends the authority of a payment. Its holder can stop this one
// payment and make none.
func (k *GrantKey) MakeVoid(orgID, id string) Void {
	return Void{OrgID: orgID, ID: id, MAC: k.computeMAC(voidVersion, orgID, id)}
}

// CheckVoid refuses a word that no holder of the key made. nil: the payment may be voided.
func (k *GrantKey) CheckVoid(v Void) *Refusal {
	if k == nil || hmac.Equal(k.MakeVoid(v.OrgID, v.ID).MAC, v.MAC) {
		return nil
	}
	return &Refusal{Code: RefusedGrant, Message: fmt.Sprintf("payment %s is not what people took back: the word that voids it was made with another key, or for another payment", v.ID)}
}
