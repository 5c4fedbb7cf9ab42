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

// noun is how a refusal names what was asked for.
func (p Purpose) noun() string {
	if p == Return {
		return "return"
	}
	return "payment"
}

// Terms are the words of a payment as it was requested: what people approve. Those of a
// return are its resolution's.
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
	// Product pays in place of a customer, to the entry of the list that WhitelistedID
	// names; both "" for a customer's payment.
	Product       string
	WhitelistedID string
}

// termsVersion and its sisters are hashed first, so that no MAC of one kind is one of
// another.
const (
	termsVersion    = "coffer-terms-1"
	requestVersion  = "coffer-request-1" // without the quorum: of requests from before it was bound
	quorumVersion   = "coffer-request-2"
	approvalVersion = "coffer-approval-1"
	grantVersion    = "coffer-grant-1"
	flagVersion     = "coffer-flag-1"
	voidVersion     = "coffer-void-1"
)

func encodeWords(words ...string) []byte {
	var b []byte
	for _, w := range words {
		b = fmt.Appendf(b, "%d:%s", len(w), w)
	}
	return b
}

// ComputeDigest is hex SHA-256 of every word with its length before it: no two payments have
// the same.
func (t Terms) ComputeDigest() string {
	words := []string{
		termsVersion, t.OrgID, t.WithdrawalID, string(t.Chain), strconv.Itoa(t.MintID), string(t.Contract), string(t.To),
		t.Amount.String(), t.Memo, t.FeeMode, t.FeeMax.String(),
	}
	if t.Product != "" || t.WhitelistedID != "" {
		// A customer's payment has the digest that it always had.
		words = append(words, "ORGANIZATION", t.Product, t.WhitelistedID)
	}
	sum := sha256.Sum256(encodeWords(words...))
	return hex.EncodeToString(sum[:])
}

// Grant says why a payment may be made: that nobody had to approve it, or who did. It
// comes from whoever decided, and the signer believes its MACs alone.
type Grant struct {
	FeeMode   string     `json:"feeMode"`
	Memo      string     `json:"memo,omitempty"`
	Round     int        `json:"round"`    // how often the payment had been sent back to people
	Required  int        `json:"required"` // approvals that it needs
	Approvals []Approval `json:"approvals,omitempty"`
	MAC       []byte     `json:"mac"`
}

// Approval is one person's.
type Approval struct {
	Approver string `json:"by"` // kind and id
	MAC      []byte `json:"mac"`
}

// approvalsMax bounds what a grant may bring.
const approvalsMax = 100

// GrantKeyBytes is how long the key is that server and signer share.
const GrantKeyBytes = 32

// GrantKey makes the MACs of grants and checks them. It lies in a file of the server's
// and of the signer's and never in the database, and prints nothing. A nil key makes
// none and asks for none: for installations of tests.
type GrantKey struct{ secret [GrantKeyBytes]byte }

// NewGrantKey takes the secret over. Error: another length than GrantKeyBytes.
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

// RequestMAC binds a row to the words that it was requested with, and to how many had to
// approve it then.
func (k *GrantKey) RequestMAC(t Terms, quorum int) []byte {
	return k.computeMAC(quorumVersion, t.ComputeDigest(), strconv.Itoa(quorum))
}

// VerifyRequest tells whether these are the words that the row was requested with, and whether
// as many have to approve it as then, or more: what is sent back may need more.
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

// MakeApproval binds a person's approval to the words.
func (k *GrantKey) MakeApproval(t Terms, round int, approver string) Approval {
	return Approval{Approver: approver, MAC: k.computeMAC(approvalVersion, t.ComputeDigest(), strconv.Itoa(round), approver)}
}

// FlaggedDeposit is what screening noted of a deposit that it holds: to whom it would go back.
type FlaggedDeposit struct {
	OrgID      string
	DepositID  string
	Chain      chain.Name
	WalletID   string // that it reached
	MintID     int
	Amount     money.Amount
	Senders    []chain.Address // all of them where there are several
	ReturnTo   string          // "" when there is no single sender
	ReturnRisk string
	Sanctioned bool // a sender itself is on a list
}

// FlagMAC binds a row to the words that it was flagged with.
func (k *GrantKey) FlagMAC(f FlaggedDeposit) []byte {
	words := []string{
		flagVersion, f.OrgID, f.DepositID, string(f.Chain), f.WalletID, strconv.Itoa(f.MintID), f.Amount.String(), f.ReturnTo, f.ReturnRisk,
		strconv.FormatBool(f.Sanctioned),
	}
	for _, s := range f.Senders {
		words = append(words, string(s))
	}
	return k.computeMAC(words...)
}

// VerifyFlag tells whether these are the words that the row was flagged with.
func (k *GrantKey) VerifyFlag(f FlaggedDeposit, mac []byte) bool {
	return k == nil || hmac.Equal(k.FlagMAC(f), mac)
}

// MakeGrant makes a grant; deducted is what comes out of the amount for the fee. Without a
// key there is none.
func (k *GrantKey) MakeGrant(t Terms, deducted money.Amount, round, required int, approvals []Approval) *Grant {
	if k == nil {
		return nil
	}
	g := &Grant{FeeMode: t.FeeMode, Memo: t.Memo, Round: round, Required: required, Approvals: approvals}
	g.MAC = k.grantMAC(t, deducted, g)
	return g
}

func (k *GrantKey) grantMAC(t Terms, deducted money.Amount, g *Grant) []byte {
	return k.computeMAC(grantVersion, t.ComputeDigest(), deducted.String(), strconv.Itoa(g.Round), strconv.Itoa(g.Required))
}

// CheckGrant refuses a payment that nobody who has the key let go with just these words, or
// that lacks approvals. nil: it may be made.
func (k *GrantKey) CheckGrant(intent Intent) *Refusal {
	if k == nil || intent.Purpose != Payment && intent.Purpose != Return {
		return nil
	}
	refuse := func(format string, args ...any) *Refusal {
		return &Refusal{Code: RefusedGrant, Message: fmt.Sprintf("%s %s "+format, append([]any{intent.Purpose.noun(), intent.ID}, args...)...)}
	}
	g := intent.Grant
	if g == nil {
		return refuse("comes without a word of who let it go")
	}
	amount, err := intent.Amount.Add(intent.FeeDeducted)
	if err != nil || g.Required < 0 || len(g.Approvals) > approvalsMax {
		return refuse("has a grant that cannot be")
	}
	t := Terms{
		OrgID: intent.From.OrgID, WithdrawalID: intent.ID, Chain: intent.Chain, MintID: intent.MintID, Contract: intent.Contract, To: intent.To,
		Amount: amount, Memo: g.Memo, FeeMode: g.FeeMode, FeeMax: intent.FeeMax, Product: intent.Product, WhitelistedID: intent.WhitelistedID,
	}
	if !hmac.Equal(k.grantMAC(t, intent.FeeDeducted, g), g.MAC) {
		return refuse("is not what was let go: its words, or how many had to approve, were changed since")
	}
	var people []string
	for _, a := range g.Approvals {
		if !hmac.Equal(k.MakeApproval(t, g.Round, a.Approver).MAC, a.MAC) {
			return refuse("has an approval by %.80q that is not of these words", a.Approver)
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
