package signer

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/signer/assertion"
)

// Statement is what a person signs with a passkey: the words of the page in the order in which it shows them. The
// signer builds the statement of a payment from what it is about to pay, never from what the server says was signed.
type Statement []Word

// Word is one word of a statement. Name says what it means; the page shows it in its own language.
type Word struct {
	Name string `json:"name"`
	Text string `json:"text"` // printable ASCII, see EscapeText
}

// The acts that a statement is about. An act is the first word of its statement, so that no signature of one act is
// valid for another.
const (
	ApprovePayment = "APPROVE"
	ApproveList    = "APPROVE_SEVERAL"
	ApproveSwap    = "SWAP"
	ApproveBatch   = "BATCH"
	EnrolKey       = "ENROL"
	RetireKey      = "RETIRE"
	ChangeRule     = "RULE"
	// Operators sign these two.
	RedirectDeposit = "REDIRECT"
	EndorseEntry    = "ENDORSE"
)

const statementVersion = "coffer-statement-1"

// Challenge returns the hash of all words with their names, each preceded by its length. It is the challenge of the
// passkey. It has no random part: a repeated signature approves the same payment, which has one slot permanently. See
// docs/adr/0090-consent-as-challenge.md.
func (s Statement) Challenge() assertion.Challenge {
	words := []string{statementVersion}
	for _, w := range s {
		words = append(words, w.Name, w.Text)
	}
	return sha256.Sum256(encodeWords(words...))
}

// Find returns the text of a word, or "".
func (s Statement) Find(name string) string {
	for _, w := range s {
		if w.Name == name {
			return w.Text
		}
	}
	return ""
}

// add appends a word, unless its text is empty: a page shows no empty word.
func (s Statement) add(name, text string) Statement {
	if text == "" {
		return s
	}
	return append(s, Word{name, EscapeText(text)})
}

// EscapeText writes everything but printable ASCII as \u{…}, and the backslash too. So no character that is invisible,
// changes the direction of text or resembles another one is hidden in what people sign.
func EscapeText(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r < ' ' || r > '~' || r == '\\' {
			fmt.Fprintf(&b, `\u{%x}`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// StatementContext is what a statement says beside what it is about.
type StatementContext struct {
	Installation string // hex of the attestation key
	Approver     string // as Approval.Approver has it
	NotAfter     string // see FormatMicros
}

func (s Statement) finish(org string, c StatementContext) Statement {
	return s.add("organization", org).add("approver", c.Approver).add("notAfter", c.NotAfter).
		add("installation", c.Installation)
}

// Token says how amounts of an asset are written for people.
type Token struct {
	Symbol   string `json:"symbol"`
	Decimals int    `json:"decimals"`
}

// format writes an amount with the token's symbol, or in atomic units for an asset without a token.
func (t *Token) format(amount money.Amount) string {
	if t == nil {
		return amount.String() + " units"
	}
	return amount.Decimal(t.Decimals) + " " + t.Symbol
}

// Wording is what the policy of a signer says about the words of statements. A page that wrote a payment in other words
// would collect signatures that the signer refuses.
type Wording struct {
	Chains map[chain.Name]ChainWording `json:"chains"`
	// RelyingParties are where the policy lets passkeys be used. Pages that it does not name ask for none.
	RelyingParties []RelyingParty `json:"relyingParties,omitempty"`
}

// RelyingParty is a host name for which passkeys are made, and the pages that may ask for them.
type RelyingParty struct {
	ID      string   `json:"id"`      // the RP id, such as approve.example.com
	Origins []string `json:"origins"` // such as https://approve.example.com
}

// ChainWording is the Wording of one chain.
type ChainWording struct {
	Network string                  `json:"network"`          // the policy's SignerID
	Tokens  map[chain.Address]Token `json:"tokens,omitempty"` // by contract, "" for the native coin
}

// Token returns how the amounts of an asset are written, or nil for atomic units.
func (c ChainWording) Token(contract chain.Address) *Token {
	token, ok := c.Tokens[contract]
	if !ok {
		return nil
	}
	return &token
}

// PaymentWords is the payment that a statement is about.
type PaymentWords struct {
	Terms
	Purpose    Purpose
	CustomerID string // "" for an organization's own payment
	Round      int    // how often the payment was sent back for approval
	Network    string // the policy's SignerID: an approval for a test network is none for a main network
	Token      *Token // nil where the policy does not name the asset: amounts are then in atomic units
}

// PaymentStatement returns what a person signs who approves a payment or a return.
func PaymentStatement(p PaymentWords, c StatementContext) Statement {
	s := Statement{}.add("act", ApprovePayment).
		add("amount", p.Token.format(p.Amount)).
		add("to", string(p.To)).
		add("network", string(p.Chain)).
		add("memo", p.Memo).
		add("customer", p.CustomerID).
		add("product", p.Product).
		add("whitelistEntry", p.WhitelistedID)
	if p.Refund != nil {
		s = s.add("refund", p.Refund.RefundID).add("checkout", p.Refund.CheckoutID)
	}
	s = s.add("feeMode", p.FeeMode)
	if !p.FeeMax.IsZero() {
		s = s.add("feeMax", p.FeeMax.String()+" units")
	}
	return s.add("units", p.Amount.String()).
		add("contract", string(p.Contract)).
		add("networkId", p.Network).
		add("mint", strconv.Itoa(p.MintID)).
		add("purpose", string(p.Purpose)).
		add("madeBy", p.MadeBy).
		add("id", p.WithdrawalID).
		add("round", strconv.Itoa(p.Round)).
		finish(p.OrgID, c)
}

// RedirectStatement returns what an operator signs who approves that a flagged deposit goes to another address than its
// sender. The terms of the payment have a Redirect.
func RedirectStatement(p PaymentWords, c StatementContext) Statement {
	r := p.Redirect
	if r == nil {
		r = &RedirectOf{}
	}
	return Statement{}.add("act", RedirectDeposit).
		add("amount", p.Token.format(p.Amount)).
		add("to", string(p.To)).
		add("network", string(p.Chain)).
		add("deposit", r.DepositID).
		add("reason", r.Reason).
		add("reference", r.Reference).
		add("feeMode", p.FeeMode).
		add("units", p.Amount.String()).
		add("contract", string(p.Contract)).
		add("networkId", p.Network).
		add("mint", strconv.Itoa(p.MintID)).
		add("madeBy", p.MadeBy).
		add("id", p.WithdrawalID).
		add("round", strconv.Itoa(p.Round)).
		finish(p.OrgID, c)
}

// EndorseStatement returns what an operator signs who approves that an organization may pay its own money to an
// address.
func EndorseStatement(e Endorsement, c StatementContext) Statement {
	return Statement{}.add("act", EndorseEntry).
		add("to", string(e.Address)).
		add("network", string(e.Chain)).
		add("label", e.Label).
		add("labelHash", e.LabelHash).
		add("notBefore", e.NotBefore).
		add("id", e.ID).
		finish(e.OrgID, c)
}

// SwapStatement returns what a person signs who approves an organization's swap and the payment of its output.
func SwapStatement(p SwapPayout, c StatementContext) Statement {
	return Statement{}.add("act", ApproveSwap).
		add("amountIn", p.AmountIn.String()+" units").
		add("fromMint", strconv.Itoa(p.FromMintID)).
		add("minOut", p.MinOut.String()+" units").
		add("maxOut", p.MaxOut.String()+" units").
		add("toMint", strconv.Itoa(p.ToMintID)).
		add("to", string(p.To)).
		add("whitelistEntry", p.WhitelistedID).
		add("product", p.Product).
		add("payableUntil", p.NotAfter).
		add("id", p.SwapID).
		finish(p.OrgID, c)
}

// BatchStatement returns what a person signs who approves a batch: its totals and the hash over all of its rows.
func BatchStatement(h contenthash.Header, c StatementContext) Statement {
	s := Statement{}.add("act", ApproveBatch).
		add("payments", strconv.Itoa(h.Included))
	for _, total := range h.Totals {
		s = s.add("total", fmt.Sprintf("%v units of mint %d", total.Amount, total.MintID))
	}
	return s.add("mode", string(h.Mode)).
		add("rows", strconv.Itoa(h.Rows)).
		add("madeBy", h.MadeBy).
		add("contentHash", h.ComputeHash().String()).
		add("id", h.BatchID).
		finish(h.OrgID, c)
}

// asset names an asset for people.
func asset(name chain.Name, contract chain.Address) string {
	if contract == "" {
		return "the coin of " + string(name)
	}
	return string(contract) + " of " + string(name)
}

// Statement returns what a person signs who approves the payment of an intent, built from what the intent pays and
// from the words of its grant. network is the policy's SignerID, token how the policy writes the asset.
func (intent Intent) Statement(network string, token *Token, c StatementContext) Statement {
	g := intent.Grant
	switch {
	case g != nil && g.Payout != nil:
		return SwapStatement(*g.Payout, c)
	case g != nil && g.Batch != nil:
		return BatchStatement(g.Batch.Header, c)
	case g == nil:
		g = &Grant{}
	}
	words := PaymentWords{
		Terms: intent.Terms(), Purpose: intent.Purpose, CustomerID: intent.CustomerID, Round: g.Round,
		Network: network, Token: token,
	}
	if g.Redirect != nil {
		return RedirectStatement(words, c)
	}
	return PaymentStatement(words, c)
}

// MadeBy returns who made the payment or the batch of an intent, or "".
func (intent Intent) MadeBy() string {
	switch g := intent.Grant; {
	case g == nil:
		return ""
	case g.Batch != nil:
		return g.Batch.Header.MadeBy
	default:
		return g.MadeBy
	}
}
