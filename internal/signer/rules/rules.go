// Package rules is the core of the signer: what decides whether something is signed. It holds the
// keys and the journal's contents, and it answers each request with a record to journal, with the
// entry that has it already, or with an error.
//
// # The key hierarchy
//
// Everything follows from one seed and one shared secret.
//
//	seed                    32 bytes: words on paper, and a file sealed by a key-encryption key
//	├── wallet keys         one for each wallet, at a path that follows from the wallet's own words
//	└── attestation key     ed25519, at m/0x434f4646'/0'; its public half is in every GENESIS
//	grant key               32 random bytes, in a file of the server and of the signer
//
// The seed is in the signer's memory alone; package keys seals it, opens it and derives from it. Its
// holder has all the money and needs no journal, so a person with the words can rescue an
// installation. The seed signs nothing itself, is never printed and never leaves the process.
//
// A wallet key spends what is at its address. Its path is m/44'/60' (EVM), m/84' or m/86' and the
// coin (Bitcoin) or m/44'/501' (Solana), and then 124 bits of SHA-256 over organization, purpose and
// subject. No counter and no row of a database decides it. The key is derived for one request, its
// address is compared with the journal's, and it is forgotten. It never signs a hash or a message
// that a caller made, only a transaction that was decoded here.
//
// The attestation key says what the signer vouches for: that an address belongs to a wallet, that an
// organization may pay an address (an endorsement), and what the head of the audit log was (an
// anchor). It is the endorsement key: a version word before the signed fields keeps the three apart.
// Everyone may have its public half. It never moves money.
//
// The grant key says what people decided: approvals, requests, flags, whitelisted addresses and
// voids, each a MAC under a version word of its own. Its holder can ask for a payment within the
// policy, or end one. It never signs a transaction and loosens neither a limit nor a cooling-off.
//
// A caller of the signer has neither the seed nor what follows from it. The permission of its
// certificate (package remote) says what it may ask. What it is answered is decided here.
//
// # What decides
//
// rules.go decides about addresses, endorsements and voids, admit.go and swap.go about intents, sign.go
// about transactions, limits.go about time. index.go is the journal in the form that they ask,
// recheck.go takes over the records of a lost journal. The kinds of intents are a table in package
// signer. Package local runs the decisions: one at a time, and journaled before they are answered.
//
// It never allows:
//   - a second slot of an intent, or a second intent in a slot
//   - an output that is spent for two intents, or that is of another organization
//   - a second payment of an idempotency key
//   - a second payment to an address that a swap provider signed
//   - a second payment of what a swap brought, by the approvals of that swap
//   - a payload that is signed because the caller says what it does
//   - a secret in an error
//
// It does no I/O, so a crash leaves nothing here. Amounts in the messages are atomic units.
package rules

import (
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/approvers"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/limits"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

// Config is what the rules depend on, apart from the seed and the journal.
type Config struct {
	Policy signpolicy.Policy
	// Grants checks the grants of payments; nil requires none, as in tests of other parts.
	Grants *signer.GrantKey
	// Rescue allows what a person needs who saves funds with the seed alone. A service never sets
	// it. It allows:
	//   - payments that name neither a customer nor an endorsement
	//   - outputs that several transactions spend
	//   - change wallets with any number
	Rescue bool
}

// Engine decides by the rules. Its methods are not safe for concurrent use, but for DeriveAddress and
// Attest, which read keys alone. It prints nothing of its keys.
type Engine struct {
	conf      Config
	seed      keys.Seed
	attestKey keys.AttestKey
	index     *journalIndex
}

// New returns an engine for an empty journal.
func New(conf Config, seed keys.Seed) *Engine {
	return &Engine{conf: conf, seed: seed, attestKey: seed.AttestKey(), index: newJournalIndex(conf.Rescue)}
}

// Reading is the journal's time at which a decision is made. Ahead is how much further the system's
// clock is, if that is more than allowed; then nothing that a limit of time decides is allowed.
type Reading struct {
	Now   time.Time
	Ahead time.Duration
}

// Decision is a record to journal or, without one, the entry that has it already.
type Decision struct {
	Record *signer.Record
	Seq    uint64
}

// Apply adds an entry of the journal. An error says that the journal contradicts itself, which no
// signer of Coffer has written.
func (eng *Engine) Apply(seq uint64, recordedAt time.Time, r signer.Record) error {
	return eng.index.applyRecord(seq, recordedAt, r)
}

// Genesis returns the first record of the journal.
func (eng *Engine) Genesis() signer.Record { return eng.index.genesis }

// ClockSeq returns the last entry in which a person confirmed the time, or 0.
func (eng *Engine) ClockSeq() uint64 { return eng.index.clockSeq }

// DeriveAddress derives the address of a wallet, which IssueAddress decides about.
func (eng *Engine) DeriveAddress(w signer.WalletRef) (signer.IssuedAddress, error) {
	key, err := eng.seed.DeriveWallet(w)
	if err != nil {
		return signer.IssuedAddress{}, fmt.Errorf("derive the key of a wallet of %s: %w", w.OrgID, err)
	}
	return signer.IssuedAddress{WalletRef: w, Path: key.Path(), Address: key.Address()}, nil
}

// Attest proves an address whose entry is on disk.
func (eng *Engine) Attest(a signer.IssuedAddress) []byte {
	return eng.attestKey.AttestAddress(a.WalletRef, a.Path, a.Address)
}

// IssueAddress decides about the address of a wallet.
func (eng *Engine) IssueAddress(a signer.IssuedAddress) (Decision, error) {
	if existing, ok := eng.index.wallets[a.WalletRef]; ok {
		if existing.address != a.Address || existing.path != a.Path {
			return Decision{}, existing.contradiction()
		}
		return Decision{Seq: existing.seq}, nil
	}
	if !eng.conf.Rescue {
		if refusal := eng.index.checkForm(a.WalletRef); refusal != nil {
			return Decision{}, refusal
		}
		if refusal := eng.index.changeWallets.CheckNext(a.WalletRef); refusal != nil {
			return Decision{}, refusal
		}
	}
	if otherWallet, taken := eng.index.addressOwners[familyAddress{a.Family, a.Address}]; taken {
		return Decision{}, fmt.Errorf("%w: address %s belongs to another wallet, of %s", signer.ErrDamaged,
			a.Address, otherWallet.OrgID)
	}
	body := signer.IssueBody{WalletRef: a.WalletRef, Path: a.Path, Address: a.Address}
	return Decision{Record: &signer.Record{Kind: signer.RecordIssue, Issue: &body}}, nil
}

// EndorseAddress decides about an address to which an organization may pay out, and signs that.
func (eng *Engine) EndorseAddress(
	e signer.Endorsement, notBefore time.Time, reading Reading,
) (signer.EndorseBody, Decision, error) {
	refused := func(err error) (signer.EndorseBody, Decision, error) { return signer.EndorseBody{}, Decision{}, err }
	existing, ok, refusal := eng.index.endorsed.Find(e)
	if refusal != nil {
		return refused(refusal)
	}
	if ok {
		return existing.EndorseBody, Decision{Seq: existing.Seq}, nil
	}
	if refusal := eng.conf.Grants.CheckEndorsement(e); refusal != nil {
		return refused(refusal)
	}
	if _, err := eng.chainPolicy(e.Chain); err != nil {
		return refused(err)
	}
	if eng.index.isOwn(e.Chain, e.Address) {
		return refused(signer.Refuse(signer.RefusedDestination, "%s is an address of this installation", e.Address))
	}
	if reading.Ahead > 0 {
		// A cooling-off that starts before the time is confirmed could be over at once.
		return refused(limits.RefuseUnconfirmed(reading.Ahead))
	}
	usableFrom := reading.Now.Add(eng.conf.Policy.CoolingOff())
	if usableFrom.Before(notBefore) {
		usableFrom = notBefore
	}
	consents, refusal := eng.index.approvers.CheckEndorsement(e, eng.situation(reading))
	if refusal != nil {
		return refused(refusal)
	}
	e.MAC, e.Label, e.SignedBy = nil, "", nil
	body := signer.EndorseBody{Endorsement: e, UsableFrom: signer.FormatMicros(usableFrom), Consents: consents}
	body.Proof = eng.attestKey.SignEndorsement(body)
	return body, Decision{Record: &signer.Record{Kind: signer.RecordEndorse, Endorse: &body}}, nil
}

// RevokeEndorsement decides about the end of an endorsement.
func (eng *Engine) RevokeEndorsement(r signer.Revocation) (Decision, error) {
	existing, ok, refusal := eng.index.endorsed.FindRevocation(r)
	switch {
	case refusal != nil:
		return Decision{}, refusal
	case ok:
		return Decision{Seq: existing}, nil
	}
	return Decision{Record: &signer.Record{Kind: signer.RecordRevoke, Revoke: &r}}, nil
}

// DecideAboutApprovers lets a rule about passkeys or about the approval of payments decide.
func (eng *Engine) DecideAboutApprovers(
	reading Reading, decide func(*approvers.Book, approvers.Situation) (approvers.Decision, error),
) (Decision, error) {
	d, err := decide(eng.index.approvers, eng.situation(reading))
	return Decision(d), err
}

func (eng *Engine) situation(reading Reading) approvers.Situation {
	return approvers.Situation{
		Now: reading.Now, Ahead: reading.Ahead, AdoptedAt: eng.index.adoptedAt, Policy: eng.conf.Policy,
		AttestKey: eng.attestKey, Grants: eng.conf.Grants, IsRescue: eng.conf.Rescue,
	}
}

// VoidIntent decides whether a payment is never made.
func (eng *Engine) VoidIntent(v signer.Void) (Decision, error) {
	if existing, ok := eng.index.voids[v.ID]; ok {
		if existing.org != v.OrgID {
			return Decision{}, signer.Refuse(signer.RefusedVoid,
				"payment %s was voided for another organization in entry %d", v.ID, existing.seq)
		}
		return Decision{Seq: existing.seq}, nil
	}
	if refusal := eng.conf.Grants.CheckVoid(v); refusal != nil {
		return Decision{}, refusal
	}
	if intent := eng.index.intents[v.ID]; intent != nil {
		switch {
		case intent.From.OrgID != v.OrgID:
			return Decision{}, signer.Refuse(signer.RefusedIntent,
				"intent %s was admitted for another organization in entry %d", v.ID, intent.seq)
		case !intent.LeavesInstallation():
			return Decision{}, signer.Refuse(signer.RefusedIntent,
				"intent %s pays no external payee, so it cannot be voided", v.ID)
		case intent.slot != nil:
			return Decision{}, signer.Refuse(signer.RefusedSlot, "intent %s has %v of its account, and only a "+
				"transaction mined in it ends it: the database that takes it back does not have what was signed",
				v.ID, *intent.slot)
		}
	}
	v.MAC = nil
	return Decision{Record: &signer.Record{Kind: signer.RecordVoid, Void: &v}}, nil
}

// chainPolicy returns the policy of a chain, and refuses a chain that has none.
func (eng *Engine) chainPolicy(name chain.Name) (signpolicy.Chain, error) {
	policy, ok := eng.conf.Policy.Chains[name]
	if !ok {
		return policy, signer.Refuse(signer.RefusedNotConfigured,
			"the policy does not name chain %q: add it under chains", name)
	}
	return policy, nil
}
