package signer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// Terms are the fields of a payment as it was requested: what people approve. The terms of a return
// are those of its resolution.
type Terms struct {
	OrgID        string
	WithdrawalID string
	Chain        chain.Name
	MintID       int
	Contract     chain.Address // "" for the native coin
	To           chain.Address
	Amount       money.Amount // what the customer pays, in atomic units
	Memo         string
	FeeMode      string
	FeeMax       money.Amount // zero for no limit
	// Product pays instead of a customer, to the whitelist entry WhitelistedID. Both are "" for a
	// customer's payment.
	Product       string
	WhitelistedID string
	// Swap is what a payment to a swap provider buys; nil for every other payment.
	Swap *SwapTerms
	// Refund is the refund that a payment makes; nil for every other payment.
	Refund *RefundOf
	// Batch is the row of a batch that a payment makes; nil for every other payment.
	Batch *BatchRow
	// Redirect is the flagged deposit that goes to another address than its sender; nil for every other payment.
	Redirect *RedirectOf
	// MadeBy is the person who asked for an organization's own payment or for a redirect while a rule held, as
	// Approval.Approver has it.
	MadeBy string
}

// RedirectOf says which flagged deposit goes to another address than its sender, and why.
type RedirectOf struct {
	DepositID string `json:"depositId"`
	Reason    string `json:"reason"`
	Reference string `json:"reference,omitempty"` // of the case or the order; the journal does not have it
}

// termsVersion and the other versions are hashed first, so that a MAC of one kind is never valid as
// another.
const (
	termsVersion    = "coffer-terms-1"
	requestVersion  = "coffer-request-1" // without the quorum: for requests from before the MAC covered it
	quorumVersion   = "coffer-request-2"
	approvalVersion = "coffer-approval-1"
	grantVersion    = "coffer-grant-1"
	flagVersion     = "coffer-flag-1"
	voidVersion     = "coffer-void-1"

	payoutVersion         = "coffer-swap-payout-1"
	payoutRequestVersion  = "coffer-swap-request-1"
	payoutApprovalVersion = "coffer-swap-approval-1"
	payoutGrantVersion    = "coffer-swap-grant-1"
)

func encodeWords(words ...string) []byte {
	var b []byte
	for _, w := range words {
		b = fmt.Appendf(b, "%d:%s", len(w), w)
	}
	return b
}

// ComputeDigest returns the hex SHA-256 of every field preceded by its length. No two payments have
// the same digest.
func (t Terms) ComputeDigest() string {
	words := []string{
		termsVersion, t.OrgID, t.WithdrawalID, string(t.Chain), strconv.Itoa(t.MintID), string(t.Contract),
		string(t.To),
		t.Amount.String(), t.Memo, t.FeeMode, t.FeeMax.String(),
	}
	if t.Product != "" || t.WhitelistedID != "" {
		// A customer's payment keeps the digest that it had before organizations could pay.
		words = append(words, "ORGANIZATION", t.Product, t.WhitelistedID)
	}
	if t.Swap != nil {
		words = append(append(words, "SWAP"), t.Swap.words()...)
	}
	if t.Refund != nil {
		words = append(words, "REFUND", t.Refund.RefundID, t.Refund.CheckoutID)
	}
	if t.Batch != nil {
		words = append(append(words, "BATCH"), t.Batch.words()...)
	}
	if t.Redirect != nil {
		words = append(words, "REDIRECT", t.Redirect.DepositID, t.Redirect.Reason, t.Redirect.Reference)
	}
	if t.MadeBy != "" {
		words = append(words, "MADE_BY", t.MadeBy)
	}
	sum := sha256.Sum256(encodeWords(words...))
	return hex.EncodeToString(sum[:])
}

// TermsFingerprintDigits are the digits of a digest of terms by which people compare two screens.
const TermsFingerprintDigits = 20

// Fingerprint returns the first digits of the digest. The API, the mail and the signer's log show them.
func (t Terms) Fingerprint() string { return t.ComputeDigest()[:TermsFingerprintDigits] }

// Grant says why a payment may be made: that it needed no approval, or who approved it. The service
// that decides issues it, and the signer trusts only its MACs.
type Grant struct {
	FeeMode   string     `json:"feeMode"`
	Memo      string     `json:"memo,omitempty"`
	Round     int        `json:"round"`    // how often the payment was sent back for approval
	Required  int        `json:"required"` // number of approvals that it needs
	Approvals []Approval `json:"approvals,omitempty"`
	MAC       []byte     `json:"mac,omitempty"`
	// MadeBy is the person who asked for an organization's own payment, and who cannot approve it. See Terms.MadeBy.
	MadeBy string `json:"madeBy,omitempty"`
	// Payout is what people approved of an organization's swap. With it the approvals are over its
	// digest and not over the terms. Every swap of an organization has it, and the payment of what such
	// a swap brought may have it.
	Payout *SwapPayout `json:"swapPayout,omitempty"`
	// Batch proves that a payment is a row of an approved batch. With it the approvals are over the
	// content hash of the batch and not over the terms.
	Batch *BatchGrant `json:"batch,omitempty"`
	// Redirect says that a return goes to another address than the sender. See Terms.Redirect.
	Redirect *RedirectOf `json:"redirect,omitempty"`
	// Consents are the signatures with which the payment was admitted. Only the journal's record has them.
	Consents []Consent `json:"consents,omitempty"`
	// IsUnapproved says in the journal alone that an admitted row is of a batch that needed no person.
	IsUnapproved bool `json:"unapproved,omitempty"`
}

// Approval is the approval of one person.
type Approval struct {
	Approver string `json:"by"` // kind and id
	MAC      []byte `json:"mac"`
	// Signature is that of the approver's passkey, where the organization has a rule.
	Signature *KeySignature `json:"signature,omitempty"`
}

// approvalsMax bounds the approvals of a grant.
const approvalsMax = 100

// GrantKeyBytes is the length of the key that server and signer share.
const GrantKeyBytes = 32

// GrantKey makes and checks the MACs of grants. The key is in a file of the server and of the
// signer, never in the database. It prints nothing. A nil key makes no grants and requires none:
// for test installations. Rule WD-36.
type GrantKey struct{ secret [GrantKeyBytes]byte }

// NewGrantKey copies the secret. Error: a length other than GrantKeyBytes.
func NewGrantKey(secret []byte) (*GrantKey, error) {
	k := &GrantKey{}
	if len(secret) != GrantKeyBytes {
		return nil, fmt.Errorf("a key of grants has %d bytes, this one %d", GrantKeyBytes, len(secret))
	}
	copy(k.secret[:], secret)
	return k, nil
}

// String hides the secret.
func (*GrantKey) String() string { return "***" }

// GoString hides the secret.
func (*GrantKey) GoString() string { return "***" }

func (k *GrantKey) computeMAC(words ...string) []byte {
	if k == nil {
		return []byte{}
	}
	m := hmac.New(sha256.New, k.secret[:])
	m.Write(encodeWords(words...))
	return m.Sum(nil)
}

// RequestMAC binds a row to the terms that it was requested with and to the approvals that it
// needed then.
func (k *GrantKey) RequestMAC(t Terms, quorum int) []byte {
	return k.computeMAC(quorumVersion, t.ComputeDigest(), strconv.Itoa(quorum))
}

// VerifyRequest reports whether the row was requested with these terms and needs at least as many
// approvals as then. A payment that is sent back may need more.
func (k *GrantKey) VerifyRequest(t Terms, required int, mac []byte) bool {
	if k == nil || hmac.Equal(k.computeMAC(requestVersion, t.ComputeDigest()), mac) {
		return true
	}
	for quorum := range min(required, approvalsMax) + 1 {
		if hmac.Equal(k.RequestMAC(t, quorum), mac) {
			return true
		}
	}
	return false
}

// MakeApproval binds a person's approval to the terms.
func (k *GrantKey) MakeApproval(t Terms, round int, approver string) Approval {
	return Approval{Approver: approver, MAC: k.computeMAC(approvalVersion, t.ComputeDigest(), strconv.Itoa(round),
		approver)}
}

// FlaggedDeposit is what screening recorded about a flagged deposit: who would get it back.
type FlaggedDeposit struct {
	OrgID      string
	DepositID  string
	Chain      chain.Name
	WalletID   string // the wallet where it arrived
	MintID     int
	Amount     money.Amount
	Senders    []chain.Address // all senders, where there are several
	ReturnTo   string          // "" when there is no single sender
	ReturnRisk string
	Sanctioned bool // a sender is itself on a sanctions list
}

// FlagMAC binds a row to the fields that it was flagged with.
func (k *GrantKey) FlagMAC(f FlaggedDeposit) []byte {
	words := []string{
		flagVersion, f.OrgID, f.DepositID, string(f.Chain), f.WalletID, strconv.Itoa(f.MintID), f.Amount.String(),
		f.ReturnTo, f.ReturnRisk,
		strconv.FormatBool(f.Sanctioned),
	}
	for _, s := range f.Senders {
		words = append(words, string(s))
	}
	return k.computeMAC(words...)
}

// VerifyFlag reports whether the row was flagged with these fields.
func (k *GrantKey) VerifyFlag(f FlaggedDeposit, mac []byte) bool {
	return k == nil || hmac.Equal(k.FlagMAC(f), mac)
}

// MakeGrant makes a grant. deducted is the part of the amount that pays the fee. Without a key it
// returns nil.
func (k *GrantKey) MakeGrant(t Terms, deducted money.Amount, round, required int, approvals []Approval) *Grant {
	if k == nil {
		return nil
	}
	g := &Grant{
		FeeMode: t.FeeMode, Memo: t.Memo, Round: round, Required: required, Approvals: approvals, MadeBy: t.MadeBy,
		Redirect: t.Redirect,
	}
	g.MAC = k.grantMAC(t, deducted, g)
	return g
}

func (k *GrantKey) grantMAC(t Terms, deducted money.Amount, g *Grant) []byte {
	if g.Payout != nil {
		// Under a version of its own: a grant never passes as one of the other kind, whatever is left out.
		return k.computeMAC(payoutGrantVersion, t.ComputeDigest(), deducted.String(), strconv.Itoa(g.Round),
			strconv.Itoa(g.Required), g.Payout.ComputeDigest())
	}
	if g.Batch != nil {
		return k.computeMAC(batchGrantVersion, t.ComputeDigest(), deducted.String(), strconv.Itoa(g.Round),
			strconv.Itoa(g.Required), g.Batch.Header.ComputeHash().String())
	}
	return k.computeMAC(grantVersion, t.ComputeDigest(), deducted.String(), strconv.Itoa(g.Round),
		strconv.Itoa(g.Required))
}

// CheckGrant refuses a payment that no holder of the key granted with exactly these terms, or that
// lacks approvals. nil means that it may be made. Whether it is what the approval of an organization's
// swap says is in package payouts, because that needs the journal.
func (k *GrantKey) CheckGrant(intent Intent) *Refusal {
	if k == nil || !intent.Kind().NeedsGrant {
		return nil
	}
	refuse := func(format string, args ...any) *Refusal {
		return Refuse(RefusedGrant, "%s %s "+format, append([]any{intent.Kind().Noun, intent.ID}, args...)...)
	}
	g := intent.Grant
	if g == nil {
		return refuse("comes without a grant")
	}
	amount, err := intent.Amount.Add(intent.FeeDeducted)
	if err != nil || g.Required < 0 || len(g.Approvals) > approvalsMax {
		return refuse("has an impossible grant")
	}
	t := intent.terms(g, amount)
	if !hmac.Equal(k.grantMAC(t, intent.FeeDeducted, g), g.MAC) {
		return refuse("differs from its grant: its content, or the number of needed approvals, was changed since")
	}
	if g.Payout == nil && intent.Kind().Payee == ToProvider && intent.CustomerID == "" {
		return refuse("is of an organization, and its grant does not say where its output is paid")
	}
	if refusal := checkBatch(intent); refusal != nil {
		return refusal
	}
	var people []string
	for _, a := range g.Approvals {
		approval := k.MakeApproval(t, g.Round, a.Approver)
		if g.Payout != nil {
			approval = k.MakePayoutApproval(*g.Payout, a.Approver)
		}
		if g.Batch != nil {
			approval = k.MakeBatchApproval(intent.Batch.ContentHash, a.Approver)
		}
		if !hmac.Equal(approval.MAC, a.MAC) {
			return refuse("has an approval by %.80q of another content", a.Approver)
		}
		if !slices.Contains(people, a.Approver) {
			people = append(people, a.Approver)
		}
	}
	if len(people) < g.Required {
		return refuse("needs the approvals of %d people and has those of %d", g.Required, len(people))
	}
	return nil
}

// terms returns the terms of an intent and its grant; amount is what the payer pays.
func (intent Intent) terms(g *Grant, amount money.Amount) Terms {
	return Terms{
		OrgID: intent.From.OrgID, WithdrawalID: intent.ID, Chain: intent.Chain, MintID: intent.MintID,
		Contract: intent.Contract, To: intent.To,
		Amount: amount, Memo: g.Memo, FeeMode: g.FeeMode, FeeMax: intent.FeeMax, Product: intent.Product,
		WhitelistedID: intent.WhitelistedID, Swap: intent.Swap, Refund: intent.Refund, Batch: intent.Batch,
		MadeBy: g.MadeBy, Redirect: g.Redirect,
	}
}

// Redirect returns which flagged deposit an intent sends to another address than its sender; nil for every other
// intent.
func (intent Intent) Redirect() *RedirectOf {
	if intent.Grant == nil {
		return nil
	}
	return intent.Grant.Redirect
}

// Terms returns the terms that the grant of an intent is over. Without a grant they lack what only a grant says.
func (intent Intent) Terms() Terms {
	g := intent.Grant
	if g == nil {
		g = &Grant{}
	}
	return intent.terms(g, intent.Total())
}

// Total returns what the payer pays: the amount and the deducted fee. A sum above the largest amount is the amount
// alone, and no grant has it.
func (intent Intent) Total() money.Amount {
	sum, err := intent.Amount.Add(intent.FeeDeducted)
	if err != nil {
		return intent.Amount
	}
	return sum
}
