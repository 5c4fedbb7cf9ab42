// Package signer is the port to the one place that holds keys. It derives
// addresses, attests them, admits payments under its policy and signs exactly
// what was admitted, and it remembers all of that in a journal of its own which
// outlives any copy of the database.
//
// What never happens behind this port: a second payee in a slot, a second slot
// for an intent, a signature before its journal entry is on disk. What a crash
// leaves: a journal whose last entry may not be known to the caller, who asks
// again and gets the same answer, byte for byte.
package signer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// WalletRef names a wallet independently of its address: the key's path is
// derived from these words, never from a counter.
type WalletRef struct {
	OrgID   string       `json:"orgId"`
	Family  chain.Family `json:"family"`
	Purpose string       `json:"purpose"` // CUSTOMER_DEPOSIT, ORGANIZATION_DEPOSIT, TREASURY, …
	Subject string       `json:"subject"` // the customer's id or the product; "" for a treasury
	// Form is the kind of address, where a deposit's is not the usual one. A wallet has one
	// for ever. Journals and proofs of before there were any have no such word.
	Form chain.Form `json:"form,omitempty"`
}

// OtherForms are the same wallets in every other form: of those a wallet has one alone.
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

// IssuedAddress is an address with the proof that its key is ours.
type IssuedAddress struct {
	WalletRef
	Path    string        `json:"path"`
	Address chain.Address `json:"address"`
	Proof   []byte        `json:"proof"` // ed25519 by the signer's attestation key, see Attested
	Entry   Entry         `json:"entry"`
}

// Purpose is what an intent is for; the policy differs by it.
type Purpose string

// The purposes of intents.
const (
	Payment            Purpose = "PAYMENT" // to anyone, under limits
	Sweep              Purpose = "SWEEP"   // only to the organization's own treasury
	GasTopUp           Purpose = "GAS"     // native coin, only to a wallet of the same organization
	Return             Purpose = "RETURN"  // a flagged deposit, from the address that it reached to anyone, under the limits of payments
	CloseTokenAccount  Purpose = "CLOSE"   // an empty account of an address, whose coin goes to the organization's own treasury
	Consolidate        Purpose = "MERGE"   // coins of an organization become one of its own, and nobody is paid
	CreateNonceAccount Purpose = "PLACE"   // a place that a treasury has its transactions in, where a chain leases those
)

// Intent is a payment as the caller wants it, before it has a slot.
type Intent struct {
	ID      string     `json:"id"` // the withdrawal's, sweep's or top-up's own id; one slot for ever
	Purpose Purpose    `json:"purpose"`
	Chain   chain.Name `json:"chain"`
	From    WalletRef  `json:"from"`
	// Payer pays the fee and has the slot, where that is not From: the treasury of the
	// same organization, on chains that let somebody else pay.
	Payer    *WalletRef    `json:"payer,omitempty"`
	To       chain.Address `json:"to"`
	ToWallet *WalletRef    `json:"toWallet,omitempty"` // for Sweep, Gas and Merge: who To is; the signer derives and compares
	Contract chain.Address `json:"contract,omitempty"` // "" for the native coin
	Amount   money.Amount  `json:"amount"`             // zero of a Merge, and of nothing else
	// FeeMax is the most that a transaction which pays may cost, in native units; zero
	// for no other limit than the policy's.
	FeeMax money.Amount `json:"feeMax,omitzero"`
	// The memory that a restored database may lack.
	CustomerID         string `json:"customerId,omitempty"`
	MintID             int    `json:"mintId"`
	IdempotencyKeyHash string `json:"idempotencyKeyHash,omitempty"` // hex SHA-256, "" without a key
	// WalletBalance is what a sweep has to leave on its wallet, by the books of that moment. It
	// is compared each time and not remembered; a sweep without is refused.
	WalletBalance *WalletBalance `json:"holds,omitempty"`
	// FeeDeducted is what the customer paid of the network fee, beside Amount.
	FeeDeducted money.Amount `json:"feeDeducted,omitzero"`
	// WhitelistedID names the endorsement that lets an organization pay out its own money
	// to an address: a payment has it or a CustomerID, and only a payment has it.
	WhitelistedID string `json:"whitelistedId,omitempty"`
	// Product is whose balance pays such a payment.
	Product string `json:"product,omitempty"`
	// Grant says why a payment may be made. It is looked at when the intent is admitted,
	// and is no part of what is remembered.
	Grant *Grant `json:"grant,omitempty"`
}

// Account is the wallet that pays the fee and has the slot.
func (intent Intent) Account() WalletRef {
	if intent.Payer != nil {
		return *intent.Payer
	}
	return intent.From
}

// WalletBalance is what a wallet has of an asset and what of it is flagged: that much has to
// stay, whoever sweeps.
type WalletBalance struct {
	Total   money.Amount `json:"has"`
	Flagged money.Amount `json:"flagged"`
}

// Slot is the place on a chain that an intent's transaction takes, for ever.
type Slot = chain.Slot

// Act is what a signature is to do with a slot.
type Act string

// The acts.
const (
	Pay    Act = "PAY"    // the payments of the intents; again with other fees to replace it
	Cancel Act = "CANCEL" // a transfer of nothing to itself, filling the slot
)

// SignRequest asks for the signature of exactly these bytes.
type SignRequest struct {
	IntentID string `json:"intentId"`
	// TxMemberIDs are the other intents that the transaction pays, in its order, behind the
	// first. An intent has one slot and one set of companions for ever; a cancel, which
	// pays none of them, names the same.
	TxMemberIDs []string `json:"with,omitempty"`
	Slot        Slot     `json:"slot"`
	Act         Act      `json:"act"`
	Payload     []byte   `json:"payload"` // the complete unsigned transaction, as committed by the caller
	// Proof shows that the chain mines one transaction of the slot at most, where that does
	// not follow from the payload: see chain.SlotProver. Bytes that were signed before need none.
	Proof string `json:"proof,omitempty"`
}

// MaxFeeShare is the most that one of so many payments in a transaction pays of its fee: as much
// as every other one, and what cannot be divided.
func MaxFeeShare(fee money.Amount, payments int) money.Amount {
	equal, _ := fee.Split(uint64(payments))
	part, err := equal.Add(money.Units(uint64(payments - 1)))
	if err != nil {
		return fee
	}
	return part
}

// SignedTx are the bytes to send. They are the same however often they are asked for.
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

// ComputeHash is what Hash has to be.
func (e Entry) ComputeHash() string {
	h := sha256.New()
	for _, s := range []string{journalVersion, e.JournalID, fmt.Sprint(e.Seq), e.Prev, string(e.Body)} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// VerifyAfter checks that e is whole and is the entry after prev (the zero Head at the
// start of a journal), and reads its record.
func (e Entry) VerifyAfter(prev Head) (Record, error) {
	var r Record
	switch {
	case prev.Seq > 0 && e.JournalID != prev.JournalID:
		return r, fmt.Errorf("entry %d is of journal %q, not of %q", e.Seq, e.JournalID, prev.JournalID)
	case e.JournalID == "":
		return r, fmt.Errorf("entry %d names no journal", e.Seq)
	case e.Seq != prev.Seq+1:
		return r, fmt.Errorf("entry %d stands where %d is due", e.Seq, prev.Seq+1)
	case e.Prev != prev.Hash:
		return r, fmt.Errorf("entry %d does not continue the entry before it", e.Seq)
	case e.Hash != e.ComputeHash():
		return r, fmt.Errorf("entry %d was changed: its hash does not match", e.Seq)
	}
	if err := json.Unmarshal(e.Body, &r); err != nil {
		return r, fmt.Errorf("read the body of entry %d: %w", e.Seq, err)
	}
	bodies := 0
	for _, isSet := range []bool{r.Issue != nil, r.Admit != nil, r.Sign != nil, r.Endorse != nil, r.Revoke != nil, r.Void != nil, r.Clock != nil} {
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
	}
	if !matches || (e.Seq == 1) != (r.Kind == RecordGenesis) {
		return r, fmt.Errorf("entry %d has a body that is no %s record", e.Seq, r.Kind)
	}
	return r, nil
}

// Head is where the journal stands with this entry as its last.
func (e Entry) Head() Head { return Head{JournalID: e.JournalID, Seq: e.Seq, Hash: e.Hash} }

// RecordKind tells what an entry remembers.
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
)

// Record is the body of an entry; one member is set by Kind.
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
	Adopts     *AdoptsBody  `json:"adopts,omitempty"` // on a GENESIS that continues a lost journal
	// AttestKey is on every GENESIS: hex ed25519 public key of the seed that this
	// journal belongs to, so that no other seed ever continues it.
	AttestKey string `json:"attestKey,omitempty"`
}

// IssueBody remembers an address.
type IssueBody struct {
	WalletRef
	Path    string        `json:"path"`
	Address chain.Address `json:"address"`
}

// SignBody remembers a signature.
type SignBody struct {
	IntentID    string       `json:"intentId"`
	TxMemberIDs []string     `json:"with,omitempty"`
	Slot        Slot         `json:"slot"`
	Act         Act          `json:"act"`
	Payload     []byte       `json:"payload"`
	Digest      string       `json:"digest"` // hex SHA-256 of the payload
	Hash        chain.TxHash `json:"hash"`
	Proof       string       `json:"proof,omitempty"` // of the slot; "" in entries of before decision 0070 too
}

// AdoptsBody says which journal this one continues.
type AdoptsBody struct {
	JournalID string `json:"journalId"`
	Seq       uint64 `json:"seq"`
	Hash      string `json:"hash"`
	// AdoptedAt is when, by the clock of then: a revocation that the copy had lost would be
	// forgotten, so every endorsement cools off anew from here.
	AdoptedAt string `json:"at,omitempty"`
}

// ClockBody remembers that a person at the signer's host confirmed the time, which the
// record has as its own. Every earlier record with a later time was made while the clock was
// ahead: its payments and fees count as made at the confirmed time.
type ClockBody struct {
	Reason string `json:"because"`
}

// Head is where a journal stands.
type Head struct {
	JournalID string `json:"journalId"`
	Seq       uint64 `json:"seq"`
	Hash      string `json:"hash"`
}

// Refusal is the signer's "no". It comes before anything is journaled, so the
// caller may ask again later or give up; no slot is taken.
type Refusal struct {
	Code    string `json:"code"` // POLICY_LIMIT, or the rule that the request breaks
	Message string `json:"message"`
}

// The refusals that pass with time or with a higher limit. Every other code means
// that the request contradicts itself or the journal.
const (
	PolicyLimit = "POLICY_LIMIT" // what may be paid
	// FeeLimit is that a wallet has signed for all the fees that it may spend in a
	// day. It says nothing about the payment: whoever asks waits and asks again.
	FeeLimit = "FEE_LIMIT"
	// CoolingOff is that a whitelisted address may not be paid yet.
	CoolingOff = "COOLING_OFF"
	// RefusedClock is that the signer's clock is further ahead than the time that it has seen
	// pass, so the limits of a day cannot be counted. A person at its host confirms the time.
	RefusedClock = "CLOCK"
)

// The other codes.
const (
	RefusedMalformed     = "MALFORMED"      // a word is missing, too long, or not in its canonical form
	RefusedNotConfigured = "NOT_CONFIGURED" // a chain, family or asset that the policy does not name
	RefusedWallet        = "WALLET"         // a wallet that was never issued, or not one for this purpose
	RefusedDestination   = "DESTINATION"    // a payee that the purpose does not allow
	RefusedIntent        = "INTENT"         // an intent that is unknown, or known with other words
	RefusedSlot          = "SLOT"           // a second slot of an intent, or a slot of another intent
	RefusedPayload       = "PAYLOAD"        // bytes that do not do exactly what the intent says
	RefusedFee           = "FEE"            // a fee above the cap of the policy
	RefusedVoid          = "VOID"           // a payment that people took back: it is never made
	RefusedHeld          = "HELD"           // a sweep that would leave less than what is flagged
	RefusedGrant         = "GRANT"          // a payment that was not let go with just these words, or by too few
	// RefusedWhitelist is an organization's payment to an address that the journal has not
	// endorsed for it, or not any more; or an endorsement that contradicts the journal.
	RefusedWhitelist = "WHITELIST"
	// RefusedKey is a payment with the idempotency key of another one in the journal.
	// A database that knew the other one would not have made it: it is older than the
	// journal.
	RefusedKey = "KEY"
	// RefusedForm is a wallet that was issued in another form, which it keeps.
	RefusedForm = "FORM"
	// RefusedAnchor is a mark of the audit log that goes back or contradicts one that
	// was signed: the database is older than the anchors, or somebody changed it.
	RefusedAnchor = "ANCHOR"
)

// Error is the code and the sentence.
func (r *Refusal) Error() string { return fmt.Sprintf("signer refuses (%s): %s", r.Code, r.Message) }

// Signer is the port. Every method may be called again after any error: the
// same request has the same answer. All are durable before they return, and
// safe for concurrent use. An error that is not a *Refusal means "unknown".
type Signer interface {
	// IssueAddress derives and attests the address of a wallet. Asking again for the
	// same wallet gives the same address and adds nothing to the journal; asking for
	// it in another form is refused with RefusedForm.
	IssueAddress(ctx context.Context, w WalletRef) (IssuedAddress, error)
	// AdmitIntent checks an intent against the policy, takes its limits and journals
	// it. The same intent again is admitted again without taking more; an
	// intent with the same id and other words is refused, and so is a payment
	// with the idempotency key of another one of its organization, for ever.
	AdmitIntent(ctx context.Context, intent Intent) (Entry, error)
	// Sign signs a payload of an admitted intent, after decoding it and
	// comparing it with the intent, the slot and what the journal knows of both.
	// The first payload that pays has to be within the policy as it is then; the
	// limits that count more than one payment were taken by Admit.
	Sign(ctx context.Context, r SignRequest) (SignedTx, error)
	// EndorseAddress remembers that an organization may be paid out to an address, from a time
	// on that is never before the one that the policy wants, and signs that. The same
	// words again have the same answer; the same id with other words is refused, and so
	// is an id that was revoked.
	EndorseAddress(ctx context.Context, e Endorsement) (EndorsedAddress, error)
	// RevokeEndorsement takes an endorsement back for ever, also one that was never made: its id is
	// endorsed no more. Again it gives the same entry.
	RevokeEndorsement(ctx context.Context, r Revocation) (Entry, error)
	// VoidIntent ends the authority of a payment or return that people took back, for ever, also of
	// one that was never admitted: it is admitted no more, and nothing that pays it is signed.
	// Again it gives the same entry. One that has a slot is refused.
	VoidIntent(ctx context.Context, v Void) (Entry, error)
	// EntriesAfter are the journal's entries after a sequence number, in order: none when there
	// are no more, and at most so many.
	EntriesAfter(ctx context.Context, afterSeq uint64, limit int) ([]Entry, error)
	// Head is where the journal stands.
	Head(ctx context.Context) (Head, error)
	// SignAnchor signs where the chain of the audit log stands and keeps that beside the
	// journal. The same mark again gives the same anchor. It refuses a mark that goes
	// back, or that contradicts one that it signed.
	SignAnchor(ctx context.Context, r AnchorRequest) (Anchor, error)
	// AnchorsAfter are those with a number above one, in order.
	AnchorsAfter(ctx context.Context, afterSeq uint64, limit int) ([]Anchor, error)
}

// ErrUnavailable says that the signer cannot be asked, or writes nothing to its journal.
// What it was asked for has an unknown outcome, and may be asked again.
var ErrUnavailable = errors.New("the signer is unavailable")

// ErrProof says that an address is not the one that the signer attested: a row was
// changed, or belongs to another signer. Somebody has to look at once.
var ErrProof = errors.New("the address of a wallet is not the one that the signer attested")

// ErrEndorsement says the same of a whitelisted address: its row is not what the signer
// endorsed.
var ErrEndorsement = errors.New("the whitelisted address is not the one that the signer endorsed")

// attestVersion is signed with every address, so that another layout of the
// words can never be mistaken for this one.
const attestVersion = "coffer-address-1"

// AttestedBytes are the bytes that a Proof signs: every word with its length before
// it, so that no two wallets have the same bytes. A form is one more word.
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
