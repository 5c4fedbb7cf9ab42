package signer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// SwapPayout is what people approve of an organization's swap: the swap, and the payment of its
// output to one address. They approve once, before the output is known to the last unit, so the
// payment has bounds instead of an amount.
type SwapPayout struct {
	OrgID      string       `json:"orgId"`
	SwapID     string       `json:"swapId"`
	Product    string       `json:"product"` // pays the swap, gets its output and pays that out
	FromMintID int          `json:"fromMintId"`
	ToMintID   int          `json:"toMintId"`
	AmountIn   money.Amount `json:"amountIn"`
	// MinOut and MaxOut bound what the payment takes from the product, a deducted fee included.
	MinOut money.Amount `json:"minOut"`
	MaxOut money.Amount `json:"maxOut"`
	// WhitelistedID is the entry of the whitelist that is paid, and To its address.
	WhitelistedID string        `json:"whitelistedId"`
	To            chain.Address `json:"to"`
	// NotAfter is the time until which the payment may be admitted, see FormatMicros.
	NotAfter string `json:"notAfter"`
}

// words returns the fields as a digest covers them.
func (p SwapPayout) words() []string {
	return []string{
		p.OrgID, p.SwapID, p.Product, strconv.Itoa(p.FromMintID), strconv.Itoa(p.ToMintID), p.AmountIn.String(),
		p.MinOut.String(), p.MaxOut.String(), p.WhitelistedID, string(p.To), p.NotAfter,
	}
}

// ComputeDigest returns the hex SHA-256 of every field preceded by its length. It is what an approver
// is shown.
func (p SwapPayout) ComputeDigest() string {
	sum := sha256.Sum256(encodeWords(append([]string{payoutVersion}, p.words()...)...))
	return hex.EncodeToString(sum[:])
}

// Equal reports whether two payouts have the same fields. Either may be nil.
func (p *SwapPayout) Equal(o *SwapPayout) bool {
	if p == nil || o == nil {
		return p == o
	}
	return *p == *o
}

// SwapPayout returns what people approved of the organization's swap that an intent belongs to, or nil
// for every other intent.
func (intent Intent) SwapPayout() *SwapPayout {
	if intent.Grant == nil {
		return nil
	}
	return intent.Grant.Payout
}

// Recorded returns the part of a grant that the journal has: the signatures of people, and what was approved of an
// organization's swap, and by how many people. A payment is compared with it later, and a restored database gets
// the swap back by it. Of the row of a batch that needed no person it is that fact, because such rows have limits of
// their own. MACs are not recorded, so a copy of the journal grants nothing.
func (g *Grant) Recorded(consents ...Consent) *Grant {
	switch {
	case g != nil && g.Batch != nil && g.Required < 1:
		return &Grant{IsUnapproved: true, Consents: consents}
	case g == nil || g.Payout == nil && g.Redirect == nil && len(consents) == 0:
		return nil
	case g.Redirect != nil:
		redirect := *g.Redirect
		redirect.Reference = ""
		return &Grant{Redirect: &redirect, Consents: consents}
	case g.Payout == nil:
		return &Grant{Consents: consents}
	}
	payout := *g.Payout
	return &Grant{Required: g.Required, Payout: &payout, Consents: consents}
}

// MakePayoutApproval binds a person's approval to an organization's swap and the payment of its output.
func (k *GrantKey) MakePayoutApproval(p SwapPayout, approver string) Approval {
	return Approval{Approver: approver, MAC: k.computeMAC(payoutApprovalVersion, p.ComputeDigest(), approver)}
}

// SwapRequestMAC binds the row of an organization's swap to the fields that it was requested with and
// to the approvals that it needed then.
func (k *GrantKey) SwapRequestMAC(p SwapPayout, required int) []byte {
	return k.computeMAC(payoutRequestVersion, p.ComputeDigest(), strconv.Itoa(required))
}

// VerifySwapRequest reports whether the row was requested with these fields and this number of approvals.
func (k *GrantKey) VerifySwapRequest(p SwapPayout, required int, mac []byte) bool {
	return k == nil || hmac.Equal(k.SwapRequestMAC(p, required), mac)
}

// MakePayoutGrant makes the grant of an organization's swap, or of the payment of its output. deducted
// is the part of the amount that pays the fee; the approvals are those of MakePayoutApproval. Without a
// key it returns nil.
func (k *GrantKey) MakePayoutGrant(
	t Terms, p SwapPayout, deducted money.Amount, required int, approvals []Approval,
) *Grant {
	if k == nil {
		return nil
	}
	g := &Grant{
		FeeMode: t.FeeMode, Memo: t.Memo, Required: required, Approvals: approvals, Payout: &p, MadeBy: t.MadeBy,
	}
	g.MAC = k.grantMAC(t, deducted, g)
	return g
}
