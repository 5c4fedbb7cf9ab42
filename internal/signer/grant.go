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

// word is how a refusal names what was asked for.
func (p Purpose) word() string {
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

func spelled(words ...string) []byte {
	var b []byte
	for _, w := range words {
		b = fmt.Appendf(b, "%d:%s", len(w), w)
	}
	return b
}

// Digest is hex SHA-256 of every word with its length before it: no two payments have
// the same.
func (t Terms) Digest() string {
	words := []string{
		termsVersion, t.OrgID, t.WithdrawalID, string(t.Chain), strconv.Itoa(t.MintID), string(t.Contract), string(t.To),
		t.Amount.String(), t.Memo, t.FeeMode, t.FeeMax.String(),
	}
	if t.Product != "" || t.WhitelistedID != "" {
		// A customer's payment has the digest that it always had.
		words = append(words, "ORGANIZATION", t.Product, t.WhitelistedID)
	}
	sum := sha256.Sum256(spelled(words...))
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
	By  string `json:"by"` // kind and id
	MAC []byte `json:"mac"`
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

func (k *GrantKey) mac(words ...string) []byte {
	if k == nil {
		return []byte{}
	}
	m := hmac.New(sha256.New, k.secret[:])
	m.Write(spelled(words...))
	return m.Sum(nil)
}

// Request binds a row to the words that it was requested with, and to how many had to
// approve it then.
func (k *GrantKey) Request(t Terms, quorum int) []byte {
	return k.mac(quorumVersion, t.Digest(), strconv.Itoa(quorum))
}

// Requested tells whether these are the words that the row was requested with, and whether
// as many have to approve it as then, or more: what is sent back may need more.
func (k *GrantKey) Requested(t Terms, required int, mac []byte) bool {
	if k == nil || hmac.Equal(k.mac(requestVersion, t.Digest()), mac) {
		return true
	}
	for quorum := range min(required, approvalsMax) + 1 {
		if hmac.Equal(k.Request(t, quorum), mac) {
			return true
		}
	}
	return false
}

// Approve binds a person's approval to the words.
func (k *GrantKey) Approve(t Terms, round int, by string) Approval {
	return Approval{By: by, MAC: k.mac(approvalVersion, t.Digest(), strconv.Itoa(round), by)}
}

// Flag is what screening noted of a deposit that it holds: to whom it would go back.
type Flag struct {
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

// Flag binds a row to the words that it was flagged with.
func (k *GrantKey) Flag(f Flag) []byte {
	words := []string{
		flagVersion, f.OrgID, f.DepositID, string(f.Chain), f.WalletID, strconv.Itoa(f.MintID), f.Amount.String(), f.ReturnTo, f.ReturnRisk,
		strconv.FormatBool(f.Sanctioned),
	}
	for _, s := range f.Senders {
		words = append(words, string(s))
	}
	return k.mac(words...)
}

// Flagged tells whether these are the words that the row was flagged with.
func (k *GrantKey) Flagged(f Flag, mac []byte) bool { return k == nil || hmac.Equal(k.Flag(f), mac) }

// Grant makes a grant; deducted is what comes out of the amount for the fee. Without a
// key there is none.
func (k *GrantKey) Grant(t Terms, deducted money.Amount, round, required int, approvals []Approval) *Grant {
	if k == nil {
		return nil
	}
	g := &Grant{FeeMode: t.FeeMode, Memo: t.Memo, Round: round, Required: required, Approvals: approvals}
	g.MAC = k.of(t, deducted, g)
	return g
}

func (k *GrantKey) of(t Terms, deducted money.Amount, g *Grant) []byte {
	return k.mac(grantVersion, t.Digest(), deducted.String(), strconv.Itoa(g.Round), strconv.Itoa(g.Required))
}

// Check refuses a payment that nobody who has the key let go with just these words, or
// that lacks approvals. nil: it may be made.
func (k *GrantKey) Check(i Intent) *Refusal {
	if k == nil || i.Purpose != Payment && i.Purpose != Return {
		return nil
	}
	no := func(format string, args ...any) *Refusal {
		return &Refusal{Code: RefusedGrant, Message: fmt.Sprintf("%s %s "+format, append([]any{i.Purpose.word(), i.ID}, args...)...)}
	}
	g := i.Grant
	if g == nil {
		return no("comes without a word of who let it go")
	}
	amount, err := i.Amount.Add(i.FeeDeducted)
	if err != nil || g.Required < 0 || len(g.Approvals) > approvalsMax {
		return no("has a grant that cannot be")
	}
	t := Terms{
		OrgID: i.From.OrgID, WithdrawalID: i.ID, Chain: i.Chain, MintID: i.MintID, Contract: i.Contract, To: i.To,
		Amount: amount, Memo: g.Memo, FeeMode: g.FeeMode, FeeMax: i.FeeMax, Product: i.Product, WhitelistedID: i.WhitelistedID,
	}
	if !hmac.Equal(k.of(t, i.FeeDeducted, g), g.MAC) {
		return no("is not what was let go: its words, or how many had to approve, were changed since")
	}
	var people []string
	for _, a := range g.Approvals {
		if !hmac.Equal(k.Approve(t, g.Round, a.By).MAC, a.MAC) {
			return no("has an approval by %.80q that is not of these words", a.By)
		}
		if !slices.Contains(people, a.By) {
			people = append(people, a.By)
		}
	}
	if len(people) < g.Required {
		return no("needs the approvals of %d people and has those of %d", g.Required, len(people))
	}
	return nil
}
