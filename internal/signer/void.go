package signer

import "crypto/hmac"

// Void identifies a payment or return that people recalled before it had a slot.
type Void struct {
	OrgID string `json:"orgId"`
	ID    string `json:"id"` // of the intent
	// MAC is made with the key of grants. It proves that people recalled the payment, so no other
	// party can stop it. The signer checks it and does not record it.
	MAC []byte `json:"mac,omitempty"`
}

// MakeVoid makes the void that ends the authority of a payment. Its holder can stop this one
// payment and can make no payment.
func (k *GrantKey) MakeVoid(orgID, id string) Void {
	return Void{OrgID: orgID, ID: id, MAC: k.computeMAC(voidVersion, orgID, id)}
}

// CheckVoid refuses a void that no holder of the key made. nil means that the payment may be
// voided.
func (k *GrantKey) CheckVoid(v Void) *Refusal {
	if k == nil || hmac.Equal(k.MakeVoid(v.OrgID, v.ID).MAC, v.MAC) {
		return nil
	}
	return Refuse(RefusedGrant, "payment %s is not what people took back: the word that voids it was made with "+
		"another key, or for another payment", v.ID)
}
