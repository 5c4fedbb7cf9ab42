// Package signer defines the port to the one process that holds keys. A signer derives addresses,
// attests them, admits payments under its policy and signs exactly what it admitted. It records all
// of that in a journal of its own, which outlives any copy of the database.
//
// Behind this port there is never:
//   - a second payee in a slot
//   - a second slot for an intent
//   - a signature before its journal entry is on disk
//
// A crash leaves a journal whose last entry the caller may not know. The caller asks again and gets
// the same answer, byte for byte.
package signer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// WalletRef identifies a wallet independently of its address. The key's path is derived from these
// fields, never from a counter.
type WalletRef struct {
	OrgID   string       `json:"orgId"`
	Family  chain.Family `json:"family"`
	Purpose string       `json:"purpose"` // CUSTOMER_DEPOSIT, ORGANIZATION_DEPOSIT, TREASURY, …
	Subject string       `json:"subject"` // the customer's id or the product; "" for a treasury
	// Form is the kind of address, where a deposit address does not have the usual one. The form of
	// a wallet never changes. Journals and proofs from before forms existed lack this field.
	Form chain.Form `json:"form,omitempty"`
}

// The purposes of wallets that the rules know. All other wallets may only be swept into the treasury
// of their organization.
const (
	// SwapDeliveryPurpose and SwapRefundPurpose are the purposes of the wallets at which a swap's
	// output and refund arrive. Their subject is the id of the swap.
	SwapDeliveryPurpose = "SWAP_DELIVERY"
	SwapRefundPurpose   = "SWAP_REFUND"
	// CheckoutPurpose is the purpose of the wallets at which a checkout is paid. Their subject is the id of the
	// checkout.
	CheckoutPurpose = "CHECKOUT"
	// SharedPurpose is the purpose of the wallets at which all checkouts of an organization are paid.
	SharedPurpose = "CHECKOUT_SHARED"
	// SharedSubject is the subject of all of them: an organization has one such wallet on a family of chains.
	SharedSubject = "CHECKOUT"
	// TreasuryPurpose is the purpose of the wallets that pay.
	TreasuryPurpose = "TREASURY"
	// ChangePurpose is the purpose of the wallets that receive change outputs. Their subject is their
	// number, 1, 2, 3…: see docs/design/bitcoin.md#change-wallets. In a journal from before they were
	// numbered, the subject is the intent that spends the outputs.
	ChangePurpose = "CHANGE"
)

// OtherForms returns references to the same wallet in every other form. Only one form of a wallet
// is ever issued.
func (w WalletRef) OtherForms() (refs []WalletRef) {
	if w.Family != chain.BitcoinFamily {
		return nil
	}
	for _, form := range []chain.Form{chain.Usual, chain.Taproot} {
		if form != w.Form {
			ref := w
			ref.Form = form
			refs = append(refs, ref)
		}
	}
	return refs
}

// IssuedAddress is an address with the proof that the signer holds its key.
type IssuedAddress struct {
	WalletRef
	Path    string        `json:"path"`
	Address chain.Address `json:"address"`
	Proof   []byte        `json:"proof"` // ed25519 by the signer's attestation key, see AttestedBytes
	Entry   Entry         `json:"entry"`
}

// Purpose says what an intent is for; the policy differs by it.
type Purpose string

// The purposes of intents:
//   - Payment pays any address, under limits.
//   - Sweep pays only the organization's own treasury.
//   - GasTopUp pays native coin, only to a wallet of the same organization.
//   - Return sends a flagged deposit from the address where it arrived to any address, under the
//     limits of payments.
//   - CloseTokenAccount closes an empty token account of an address; its coin goes to the
//     organization's own treasury.
//   - Consolidate makes one output of an organization's outputs, and pays no one.
//   - CreateNonceAccount creates a nonce account for a treasury's transactions, where slots are
//     nonce accounts.
//   - CreateTokenAccount creates the token account of the address that an organization's checkouts
//     share, and pays no one.
//   - GrantAllowance lets the payout contract move a token of a treasury, in calls of that treasury.
//     RevokeAllowance ends that. Both pay no one.
//   - SwapPayment pays the deposit address of a swap provider, which signed that the output and a
//     refund come to wallets of the swap.
const (
	Payment            Purpose = "PAYMENT"
	Sweep              Purpose = "SWEEP"
	GasTopUp           Purpose = "GAS"
	Return             Purpose = "RETURN"
	CloseTokenAccount  Purpose = "CLOSE"
	Consolidate        Purpose = "MERGE"
	CreateNonceAccount Purpose = "PLACE"
	CreateTokenAccount Purpose = "TOKEN_ACCOUNT"
	GrantAllowance     Purpose = "ALLOWANCE"
	RevokeAllowance    Purpose = "REVOCATION"
	SwapPayment        Purpose = "SWAP"
)

// Kinds returns the kinds of intents, one for each purpose.
func Kinds() []Kind { return slices.Clone(kinds) }

// Intent is a payment as the caller wants it, before it has a slot.
type Intent struct {
	ID      string     `json:"id"` // the withdrawal's, sweep's or top-up's own id; it has one slot permanently
	Purpose Purpose    `json:"purpose"`
	Chain   chain.Name `json:"chain"`
	From    WalletRef  `json:"from"`
	// Payer pays the fee and owns the slot, where that is not From. It is the treasury of the same
	// organization, on chains with a separate fee payer.
	Payer *WalletRef    `json:"payer,omitempty"`
	To    chain.Address `json:"to"`
	// ToWallet names the wallet of To, for a payee that has one. The signer derives its address and
	// compares it with To.
	ToWallet *WalletRef    `json:"toWallet,omitempty"`
	Contract chain.Address `json:"contract,omitempty"` // "" for the native coin
	Amount   money.Amount  `json:"amount"`             // zero where Intent.PaysNothing, and only there
	// FeeMax is the most that a paying transaction may cost, in native units. Zero means no limit
	// other than the policy's.
	FeeMax money.Amount `json:"feeMax,omitzero"`
	// The facts that a restored database may lack.
	CustomerID         string `json:"customerId,omitempty"`
	MintID             int    `json:"mintId"`
	IdempotencyKeyHash string `json:"idempotencyKeyHash,omitempty"` // hex SHA-256, "" without a key
	// WalletBalance is the balance of a sweep's wallet by the books, and the part that the sweep
	// has to leave. The signer compares it on each request and does not record it. It refuses a
	// sweep without it.
	WalletBalance *WalletBalance `json:"holds,omitempty"`
	// FeeDeducted is what the customer paid of the network fee, in addition to Amount.
	FeeDeducted money.Amount `json:"feeDeducted,omitzero"`
	// WhitelistedID identifies the endorsement that lets an organization pay its own money to an
	// address. A payment has either it or a CustomerID; no other purpose has it.
	WhitelistedID string `json:"whitelistedId,omitempty"`
	// Product is the product whose balance pays such a payment.
	Product string `json:"product,omitempty"`
	// Grant says why a payment may be made. The signer checks it when it admits the intent, and records
	// of it only what Recorded returns.
	Grant *Grant `json:"grant,omitempty"`
	// Swap says what a SwapPayment buys. Only that purpose has it.
	Swap *SwapTerms `json:"swap,omitempty"`
	// Refund says which refund a payment makes. A payment has either it, a WhitelistedID or a CustomerID.
	Refund *RefundOf `json:"refund,omitempty"`
	// Batch says which row of a batch a payment makes, in place of a WhitelistedID.
	Batch *BatchRow `json:"batch,omitempty"`
}

// RefundOf identifies the refund that a payment makes. It goes to the payer of a checkout, whom no endorsement names.
type RefundOf struct {
	RefundID   string `json:"refundId"`
	CheckoutID string `json:"checkoutId"`
}

// Equal reports whether two refunds are the same. Either may be nil.
func (r *RefundOf) Equal(o *RefundOf) bool {
	if r == nil || o == nil {
		return r == o
	}
	return *r == *o
}

// Account returns the wallet that pays the fee and owns the slot.
func (intent Intent) Account() WalletRef {
	if intent.Payer != nil {
		return *intent.Payer
	}
	return intent.From
}

// SetsAllowance reports whether an intent changes the allowance of the payout contract.
func (intent Intent) SetsAllowance() bool {
	return intent.Kind().GrantsAllowance || intent.Kind().RevokesAllowance
}

// ChainPayment returns what a transaction of the intent has to do; source is the address of From.
func (intent Intent) ChainPayment(source chain.Address) chain.Payment {
	kind := intent.Kind()
	return chain.Payment{
		From: source, To: intent.To, Contract: intent.Contract, Amount: intent.Amount,
		CreatesNonceAccount: kind.CreatesNonceAccount, CreatesTokenAccount: kind.CreatesTokenAccount,
		ClosesTokenAccount: kind.ClosesTokenAccount, GrantsAllowance: kind.GrantsAllowance,
		RevokesAllowance: kind.RevokesAllowance,
	}
}

// HasSameWords reports whether two intents have the same fields, grants apart.
func (intent Intent) HasSameWords(o Intent) bool {
	differ := func(a, b *WalletRef) bool { return (a == nil) != (b == nil) || a != nil && *a != *b }
	if differ(intent.ToWallet, o.ToWallet) || differ(intent.Payer, o.Payer) || !intent.Swap.Equal(o.Swap) ||
		!intent.Refund.Equal(o.Refund) || !intent.Batch.Equal(o.Batch) {
		return false
	}
	intent.ToWallet, intent.Payer, intent.Grant, intent.Swap = o.ToWallet, o.Payer, o.Grant, o.Swap
	intent.Refund, intent.Batch = o.Refund, o.Batch
	return intent == o
}

// WalletBalance is the balance of a wallet in one asset and the flagged part of it. No sweep may
// take the flagged part. Rule DEP-28.
type WalletBalance struct {
	Total   money.Amount `json:"has"`
	Flagged money.Amount `json:"flagged"`
}

// Slot is what an intent's transaction takes on a chain. It never changes for an intent.
type Slot = chain.Slot

// Act says what a signature does with a slot.
type Act string

// The acts.
const (
	Pay    Act = "PAY"    // makes the payments of the intents; a repeat with other fees is a replacement
	Cancel Act = "CANCEL" // takes the slot with a transfer of nothing from the account to itself
)

// SignRequest asks for the signature of exactly these bytes.
type SignRequest struct {
	IntentID string `json:"intentId"`
	// TxMemberIDs are the other intents that the transaction pays, in its order, after the first.
	// An intent has one slot and one set of companions permanently. A cancel pays none of them and
	// names the same ones.
	TxMemberIDs []string `json:"with,omitempty"`
	Slot        Slot     `json:"slot"`
	Act         Act      `json:"act"`
	Payload     []byte   `json:"payload"` // the complete unsigned transaction, as committed by the caller
	// Proof shows that the chain mines at most one transaction of the slot, where that does not
	// follow from the payload: see chain.SlotProver. Bytes that were signed before need none.
	Proof string `json:"proof,omitempty"`
}

// PayloadDigest returns the hex SHA-256 by which a journal finds a payload.
func PayloadDigest(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:])
}

// MaxFeeShare returns the most that one of several payments in a transaction pays of its fee: an
// equal share plus the greatest remainder of the division.
func MaxFeeShare(fee money.Amount, payments int) money.Amount {
	equal, _ := fee.Split(uint64(payments))
	part, err := equal.Add(money.Units(uint64(payments - 1)))
	if err != nil {
		return fee
	}
	return part
}

// SignedTx holds the bytes to send. They are the same for every repeated request.
type SignedTx struct {
	Raw   []byte       `json:"raw"`
	Hash  chain.TxHash `json:"hash"`
	Entry Entry        `json:"entry"`
}

// Entry is one line of the journal. Hash covers JournalID, Seq, Prev and Body.
type Entry struct {
	JournalID string          `json:"journalId"`
	Seq       uint64          `json:"seq"` // from 1, without gaps
	Prev      string          `json:"prev"`
	Hash      string          `json:"hash"` // hex SHA-256
	Body      json.RawMessage `json:"body"` // a Record
}

// journalVersion is hashed with every entry.
const journalVersion = "coffer-journal-1"

// ComputeHash returns the value that Hash has to have.
func (e Entry) ComputeHash() string {
	h := sha256.New()
	for _, s := range []string{journalVersion, e.JournalID, fmt.Sprint(e.Seq), e.Prev, string(e.Body)} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// VerifyAfter checks that e is intact and follows prev (the zero Head at the start of a journal),
// and decodes its record.
func (e Entry) VerifyAfter(prev Head) (Record, error) {
	var r Record
	switch {
	case prev.Seq > 0 && e.JournalID != prev.JournalID:
		return r, fmt.Errorf("entry %d is of journal %q, not of %q", e.Seq, e.JournalID, prev.JournalID)
	case e.JournalID == "":
		return r, fmt.Errorf("entry %d names no journal", e.Seq)
	case e.Seq != prev.Seq+1:
		return r, fmt.Errorf("entry %d is at the position of entry %d", e.Seq, prev.Seq+1)
	case e.Prev != prev.Hash:
		return r, fmt.Errorf("entry %d does not continue the entry before it", e.Seq)
	case e.Hash != e.ComputeHash():
		return r, fmt.Errorf("entry %d was changed: its hash does not match", e.Seq)
	}
	if err := json.Unmarshal(e.Body, &r); err != nil {
		return r, fmt.Errorf("read the body of entry %d: %w", e.Seq, err)
	}
	bodies := 0
	for _, isSet := range []bool{
		r.Issue != nil, r.Admit != nil, r.Sign != nil, r.Endorse != nil, r.Revoke != nil, r.Void != nil, r.Clock != nil,
		r.Enrol != nil, r.Retire != nil, r.Rule != nil,
	} {
		if isSet {
			bodies++
		}
	}
	matches := false
	switch r.Kind {
	case RecordGenesis:
		matches = e.Seq == 1 && bodies == 0
	case RecordIssue:
		matches = r.Issue != nil && bodies == 1
	case RecordAdmit:
		matches = r.Admit != nil && bodies == 1
	case RecordSign:
		matches = r.Sign != nil && bodies == 1
	case RecordEndorse:
		matches = r.Endorse != nil && bodies == 1
	case RecordRevoke:
		matches = r.Revoke != nil && bodies == 1
	case RecordVoid:
		matches = r.Void != nil && bodies == 1
	case RecordClock:
		matches = r.Clock != nil && bodies == 1
	case RecordEnrol:
		matches = r.Enrol != nil && bodies == 1
	case RecordRetire:
		matches = r.Retire != nil && bodies == 1
	case RecordRule:
		matches = r.Rule != nil && bodies == 1
	}
	if !matches || (e.Seq == 1) != (r.Kind == RecordGenesis) {
		return r, fmt.Errorf("entry %d has a body that is not a %s record", e.Seq, r.Kind)
	}
	return r, nil
}

// FormatTime formats a time as the journal has it.
func FormatTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// Head returns the head of a journal whose last entry is e.
func (e Entry) Head() Head { return Head{JournalID: e.JournalID, Seq: e.Seq, Hash: e.Hash} }

// RecordKind says what an entry records.
type RecordKind string

// The kinds of record.
const (
	RecordGenesis RecordKind = "GENESIS"
	RecordIssue   RecordKind = "ISSUE"
	RecordAdmit   RecordKind = "ADMIT"
	RecordSign    RecordKind = "SIGN"
	RecordEndorse RecordKind = "ENDORSE"
	RecordRevoke  RecordKind = "REVOKE"
	RecordVoid    RecordKind = "VOID"
	RecordClock   RecordKind = "CLOCK"
	RecordEnrol   RecordKind = "ENROL"
	RecordRetire  RecordKind = "RETIRE"
	RecordRule    RecordKind = "RULE"
)

// Record is the body of an entry; Kind says which one member is set.
type Record struct {
	Kind       RecordKind   `json:"kind"`
	RecordedAt string       `json:"at"` // RFC 3339; never before the record above it, except on a CLOCK record
	Issue      *IssueBody   `json:"issue,omitempty"`
	Admit      *Intent      `json:"admit,omitempty"`
	Sign       *SignBody    `json:"sign,omitempty"`
	Endorse    *EndorseBody `json:"endorse,omitempty"`
	Revoke     *Revocation  `json:"revoke,omitempty"`
	Void       *Void        `json:"void,omitempty"`
	Clock      *ClockBody   `json:"clock,omitempty"`
	Enrol      *EnrolBody   `json:"enrol,omitempty"`
	Retire     *Retirement  `json:"retire,omitempty"`
	Rule       *RuleBody    `json:"rule,omitempty"`
	Adopts     *AdoptsBody  `json:"adopts,omitempty"` // on a GENESIS that continues a lost journal
	// AttestKey is on every GENESIS: the hex ed25519 public key of the seed that the journal
	// belongs to. No other seed can ever continue the journal.
	AttestKey string `json:"attestKey,omitempty"`
}

// IssueBody records an issued address.
type IssueBody struct {
	WalletRef
	Path    string        `json:"path"`
	Address chain.Address `json:"address"`
}

// SignBody records a signature.
type SignBody struct {
	IntentID    string       `json:"intentId"`
	TxMemberIDs []string     `json:"with,omitempty"`
	Slot        Slot         `json:"slot"`
	Act         Act          `json:"act"`
	Payload     []byte       `json:"payload"`
	Digest      string       `json:"digest"` // hex SHA-256 of the payload
	Hash        chain.TxHash `json:"hash"`
	Proof       string       `json:"proof,omitempty"` // of the slot; also "" in entries from before decision 0070
}

// AdoptsBody says which journal this one continues.
type AdoptsBody struct {
	JournalID string `json:"journalId"`
	Seq       uint64 `json:"seq"`
	Hash      string `json:"hash"`
	// AdoptedAt is the time of the adoption by the clock of then. The copy may lack a revocation,
	// so every endorsement starts its cooling-off again from here.
	AdoptedAt string `json:"at,omitempty"`
}

// ClockBody records that a person at the signer's host confirmed the time, which is the record's
// own time. Every earlier record with a later time was written while the clock was ahead. Its
// payments and fees count as made at the confirmed time.
type ClockBody struct {
	Reason string `json:"because"`
}

// Head is the position of a journal: its last entry.
type Head struct {
	JournalID string `json:"journalId"`
	Seq       uint64 `json:"seq"`
	Hash      string `json:"hash"`
}

// Refusal is the signer's "no". It precedes any journal entry and takes no slot, so the caller may
// ask again later or give up.
type Refusal struct {
	Code    string `json:"code"` // POLICY_LIMIT, or the rule that the request breaks
	Message string `json:"message"`
}

// The refusals that pass with time or with a higher limit. Every other code means that the request
// contradicts itself or the journal.
const (
	PolicyLimit = "POLICY_LIMIT" // a limit on payments
	// FeeLimit means that a wallet has signed for all the fees that it may spend in a day. It says
	// nothing about the payment: the caller waits and asks again.
	FeeLimit = "FEE_LIMIT"
	// CoolingOff means that a whitelisted address may not be paid yet.
	CoolingOff = "COOLING_OFF"
	// RefusedClock means that the signer's clock is further ahead than the time that it has seen
	// pass, so the limits of a day cannot be counted. A person at its host confirms the time.
	RefusedClock = "CLOCK"
)

// The other codes.
const (
	RefusedMalformed     = "MALFORMED"      // a field is missing, too long, or not in its canonical form
	RefusedNotConfigured = "NOT_CONFIGURED" // a chain, family or asset that the policy does not name
	RefusedWallet        = "WALLET"         // a wallet that was never issued, or not one for this purpose
	RefusedDestination   = "DESTINATION"    // a payee that the purpose does not allow
	RefusedIntent        = "INTENT"         // an intent that is unknown, or known with other fields
	RefusedSlot          = "SLOT"           // a second slot of an intent, or a slot of another intent
	RefusedPayload       = "PAYLOAD"        // bytes that do not do exactly what the intent says
	RefusedFee           = "FEE"            // a fee above the cap of the policy
	RefusedVoid          = "VOID"           // a payment that people voided: it is never made
	RefusedHeld          = "HELD"           // a sweep that would leave less than the flagged amount
	RefusedGrant         = "GRANT"          // a payment that was not approved with exactly these fields, or by too few
	// RefusedWhitelist means one of two things:
	//   - an organization's payment goes to an address that the journal has not endorsed for it, or
	//     that is revoked
	//   - an endorsement contradicts the journal
	RefusedWhitelist = "WHITELIST"
	// RefusedKey means that another payment in the journal has the same idempotency key. A database
	// that knew that payment would not have made this one: the database is older than the journal.
	RefusedKey = "KEY"
	// RefusedSignedQuote means that a payment to a swap provider is not what the provider signed, or that its
	// quote does not bring the output and a refund to wallets of the swap within the policy. No such payment is
	// made, and a person looks at the provider.
	RefusedSignedQuote = "SIGNED_QUOTE"
	// RefusedLate means that the time is over by which a payment to a swap provider had to be signed.
	RefusedLate = "PAY_BY"
	// RefusedForm means that the wallet was issued in another form, which it keeps.
	RefusedForm = "FORM"
	// RefusedAnchor means that an audit head goes back or contradicts a signed anchor. Either the
	// database is older than the anchors, or a person changed it.
	RefusedAnchor = "ANCHOR"
	// RefusedSignature means that a payment lacks signatures of people that the organization's rule asks for, or that a
	// signature is not valid for it. People have to approve it again.
	RefusedSignature = "SIGNATURE"
	// RefusedApprover means that a passkey, its end or a rule is not admitted by those who have to.
	RefusedApprover = "APPROVER"
)

// Refuse returns a refusal with a formatted sentence.
func Refuse(code, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Error returns the code and the sentence.
func (r *Refusal) Error() string { return fmt.Sprintf("signer refuses (%s): %s", r.Code, r.Message) }

// Signer is the port. Every method may be called again after any error: the same request has the
// same answer. All effects are durable before a method returns. All methods are safe for concurrent
// use. An error that is not a *Refusal means "unknown".
type Signer interface {
	// IssueAddress derives and attests the address of a wallet. A repeated call for the same wallet
	// returns the same address and adds nothing to the journal. A call for another form of it is
	// refused with RefusedForm.
	IssueAddress(ctx context.Context, w WalletRef) (IssuedAddress, error)
	// AdmitIntent checks an intent against the policy, takes its limits and journals it. A repeated
	// call admits the same intent again without taking more. It refuses an intent with a known id
	// and other fields. It always refuses a payment that has the idempotency key of another one of
	// its organization.
	AdmitIntent(ctx context.Context, intent Intent) (Entry, error)
	// Sign signs a payload of an admitted intent. It decodes the payload first and compares it with
	// the intent, the slot and the journal. The first payload that pays has to be within the
	// present policy, and in time where it pays a swap provider; AdmitIntent took the limits that
	// cover more than one payment.
	Sign(ctx context.Context, r SignRequest) (SignedTx, error)
	// EndorseAddress records that an organization may pay out to an address, and signs that.
	// Payments may start no earlier than the policy's cooling-off allows. A repeated call with the
	// same fields has the same answer. It refuses a known id with other fields, and a revoked id.
	EndorseAddress(ctx context.Context, e Endorsement) (EndorsedAddress, error)
	// RevokeEndorsement revokes an endorsement permanently, also one that was never made: its id
	// can no longer be endorsed. A repeated call returns the same entry.
	RevokeEndorsement(ctx context.Context, r Revocation) (Entry, error)
	// VoidIntent ends the authority of an intent that pays an outside address and that was recalled,
	// permanently, also of one that was never admitted. The signer then admits it no more and signs nothing that pays
	// it. A repeated call returns the same entry. An intent with a slot is refused.
	VoidIntent(ctx context.Context, v Void) (Entry, error)
	// EnrolKey records a passkey of an approver, usable after a cooling-off. It needs signatures of people who may
	// enrol, or a founding at the signer's host. A repeated call with the same fields has the same answer.
	EnrolKey(ctx context.Context, e EnrolRequest) (EnrolledKey, error)
	// RetireKey ends a passkey permanently and at once. A repeated call returns the same entry.
	RetireKey(ctx context.Context, r RetireRequest) (Entry, error)
	// SetRule records the next version of an organization's rule. It holds at once, or after a cooling-off if it
	// loosens. A repeated call with the same fields has the same answer.
	SetRule(ctx context.Context, r RuleRequest) (RecordedRule, error)
	// Wording returns how the signer writes payments in the statements that people sign, as its policy says.
	Wording(ctx context.Context) (Wording, error)
	// EntriesAfter returns at most limit of the journal's entries after a sequence number, in
	// order. It returns none when there are no more.
	EntriesAfter(ctx context.Context, afterSeq uint64, limit int) ([]Entry, error)
	// Head returns the position of the journal.
	Head(ctx context.Context) (Head, error)
	// SignAnchor signs the head of the audit log's hash chain and keeps the anchor next to the
	// journal. The same head gives the same anchor again. It refuses a head that goes back or
	// contradicts one that it signed.
	SignAnchor(ctx context.Context, r AnchorRequest) (Anchor, error)
	// AnchorsAfter returns the anchors with a number above afterSeq, in order.
	AnchorsAfter(ctx context.Context, afterSeq uint64, limit int) ([]Anchor, error)
}

// ErrUnavailable says that the signer cannot be reached, or cannot write to its journal. The
// outcome of the request is unknown, and the caller may ask again.
var ErrUnavailable = errors.New("the signer is unavailable")

// ErrDamaged says that the journal is not what was written.
var ErrDamaged = errors.New("the signer's journal is damaged, so the signer signs nothing; restore the file from a " +
	"copy, or move it away and let `coffer signer adopt` rebuild it from its mirror in the database")

// ErrProof says that an address is not the one that the signer attested: its row was changed, or
// belongs to another signer. A person has to investigate at once.
var ErrProof = errors.New("the address of a wallet is not the one that the signer attested")

// ErrEndorsement says the same of a whitelisted address: its row is not what the signer endorsed.
var ErrEndorsement = errors.New("the whitelisted address is not the one that the signer endorsed")

// ErrEnrolment says the same of an approver's passkey and of a rule.
var ErrEnrolment = errors.New("the approver's passkey or rule is not the one that the signer recorded")

// attestVersion is signed with every address, so that another layout of the fields can never be
// mistaken for this one.
const attestVersion = "coffer-address-1"

// AttestedBytes returns the bytes that a Proof signs: every field preceded by its length, so that
// no two wallets have the same bytes. A form other than the usual one is an additional field.
func AttestedBytes(w WalletRef, path string, address chain.Address) []byte {
	words := []string{attestVersion, w.OrgID, w.Purpose, w.Subject, string(w.Family), path, string(address)}
	if w.Form != chain.Usual {
		words = append(words, string(w.Form))
	}
	var b []byte
	for _, s := range words {
		b = fmt.Appendf(b, "%d:%s", len(s), s)
	}
	return b
}
