// Package local implements the signer in this process: the keys, the policy and the journal in a
// file of its own.
//
// It never allows:
//   - a signature that leaves before its journal entry is on disk
//   - a second slot of an intent, or a second intent in a slot
//   - an output that is spent for two intents, or that is of another organization
//   - a second payment of an idempotency key
//   - a payload that is signed because the caller says what it does
//   - a second process on one journal
//   - a secret in an error
//
// A crash leaves a journal whose last entries the caller may not know, or a torn last line that was
// never acknowledged and that is cut off.
//
// Amounts in the messages are atomic units.
package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
)

// treasuryPurpose is the purpose of the wallets that pay. All others may only be swept into the
// treasury of their organization.
const treasuryPurpose = "TREASURY"

// changePurpose is the purpose of the wallets that receive change outputs. Their subject is their
// number, 1, 2, 3…: see docs/design/bitcoin.md#change-wallets. In a journal from before they were
// numbered, the subject is the intent that spends the outputs.
const changePurpose = "CHANGE"

const (
	wordBytesMax    = 128      // an id or a subject
	payloadBytesMax = 24 << 10 // an unsigned transaction
	txMembersMax    = 255      // other intents that one transaction pays
	entriesMax      = 1000     // entries in one answer
)

// Config configures a local signer; the seed is separate.
type Config struct {
	Journal string // path of the journal file
	Policy  Policy // what is allowed
	// Grants checks the grants of payments; nil requires none, as in tests of other parts.
	Grants *signer.GrantKey
	Clock  func() time.Time // nil means time.Now
	// Elapsed returns the time since a fixed moment, by a clock that cannot be set. nil means the
	// system's monotonic clock if Clock is nil too, and otherwise the forward steps of Clock.
	Elapsed func() time.Duration
	// Rescue allows what a person needs who saves funds with the seed alone. A service never sets
	// it. It allows:
	//   - payments that name neither a customer nor an endorsement
	//   - outputs that several transactions spend
	//   - change wallets with any number
	Rescue bool
}

func (c Config) currentTime() time.Time {
	if c.Clock == nil {
		return time.Now()
	}
	return c.Clock()
}

// Signer implements signer.Signer. It prints nothing of its keys.
type Signer struct {
	conf      Config
	seed      keys.Seed
	attestKey keys.AttestKey

	// mu makes the check of the rules and the reservation of a journal position one step. The wait
	// for the disk happens without it.
	mu      sync.Mutex
	index   *journalIndex
	journal *journal
	clock   *clock

	anchors *anchorFile
}

var _ signer.Signer = (*Signer)(nil)

// CreateJournal creates the journal of an installation that has none. It refuses to replace a file.
// Only a deliberate act of the operator calls it: a signer that lost its journal and starts an
// empty one would pay again what was paid.
func CreateJournal(conf Config, seed keys.Seed) error {
	return createJournalFile(conf.Journal, conf.currentTime(), signer.Record{AttestKey: attestKeyHex(seed)})
}

// Open checks the policy, locks the journal and reads all of it. Errors: ErrMissing, ErrLocked,
// ErrDamaged, or a journal of another seed.
func Open(conf Config, seed keys.Seed) (*Signer, error) {
	if err := conf.Policy.Validate(); err != nil {
		return nil, err
	}
	s := &Signer{conf: conf, seed: seed, attestKey: seed.AttestKey(), index: newJournalIndex()}
	s.index.rescue = conf.Rescue
	j, err := openJournalFile(conf.Journal, func(e signer.Entry, r signer.Record) error {
		recordedAt, err := time.Parse(time.RFC3339Nano, r.RecordedAt)
		if err != nil {
			return err
		}
		return s.index.applyRecord(e.Seq, recordedAt, r)
	})
	if err != nil {
		return nil, err
	}
	if got, want := s.index.genesis.AttestKey, attestKeyHex(seed); got != want {
		err := fmt.Errorf("the journal %s belongs to the seed with attestation key %s, and this seed has %s: use the key file that belongs to the journal",
			conf.Journal, got, want)
		return nil, errors.Join(err, j.closeFile())
	}
	s.journal = j
	s.clock = openClock(conf, signer.Head{JournalID: j.head.JournalID, Seq: j.head.Seq}, s.index.clockSeq, j.lastTime)
	if s.anchors, err = openAnchorFile(conf.Journal, s.attestKey); err != nil {
		return nil, errors.Join(err, j.closeFile())
	}
	return s, nil
}

// Close waits for a write in progress and unlocks the journal.
func (s *Signer) Close() error {
	s.anchors.mu.Lock()
	defer s.anchors.mu.Unlock()
	if s.anchors.failure == nil {
		s.anchors.failure = errors.New("the signer is closed")
		s.mu.Lock()
		s.noteTime(true)
		s.mu.Unlock()
	}
	return errors.Join(s.anchors.file.Close(), s.journal.closeFile())
}

func attestKeyHex(seed keys.Seed) string { return hex.EncodeToString(seed.AttestKey().PublicKey()) }

// IssueAddress derives, attests and records the address of a wallet.
func (s *Signer) IssueAddress(ctx context.Context, w signer.WalletRef) (signer.IssuedAddress, error) {
	if err := ctx.Err(); err != nil {
		return signer.IssuedAddress{}, err
	}
	if refusal := checkRef(w); refusal != nil {
		return signer.IssuedAddress{}, refusal
	}
	key, err := s.seed.DeriveWallet(w)
	if err != nil {
		return signer.IssuedAddress{}, fmt.Errorf("derive the key of a wallet of %s: %w", w.OrgID, err)
	}
	seq, err := s.recordIssue(w, key)
	if err != nil {
		return signer.IssuedAddress{}, err
	}
	e, err := s.journal.waitDurable(seq)
	if err != nil {
		return signer.IssuedAddress{}, err
	}
	return signer.IssuedAddress{
		WalletRef: w, Path: key.Path(), Address: key.Address(),
		Proof: s.attestKey.AttestAddress(w, key.Path(), key.Address()), Entry: e,
	}, nil
}

func (s *Signer) recordIssue(w signer.WalletRef, key keys.WalletKey) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if existing, ok := s.index.wallets[w]; ok {
		if existing.address != key.Address() || existing.path != key.Path() {
			return 0, fmt.Errorf("%w: entry %d gives a wallet an address that its key does not have", ErrDamaged,
				existing.seq)
		}
		return existing.seq, nil
	}
	if !s.conf.Rescue {
		if refusal := s.index.checkForm(w); refusal != nil {
			return 0, refusal
		}
		if refusal := s.index.checkNextChangeWallet(w); refusal != nil {
			return 0, refusal
		}
	}
	if otherWallet, taken := s.index.addressOwners[familyAddress{w.Family, key.Address()}]; taken {
		return 0, fmt.Errorf("%w: address %s belongs to another wallet, of %s", ErrDamaged, key.Address(),
			otherWallet.OrgID)
	}
	return s.appendRecord(signer.Record{
		Kind:  signer.RecordIssue,
		Issue: &signer.IssueBody{WalletRef: w, Path: key.Path(), Address: key.Address()},
	})
}

// appendRecord adds a record to the journal and the index, at the journal's time. s.mu is held.
func (s *Signer) appendRecord(r signer.Record) (uint64, error) {
	now, _ := s.journalTime()
	return s.appendRecordAt(now, r)
}

// appendRecordAt does what appendRecord does, with the time at which the rules were checked.
func (s *Signer) appendRecordAt(recordedAt time.Time, r signer.Record) (uint64, error) {
	seq, err := s.journal.appendRecord(recordedAt, r)
	if err != nil {
		return 0, err
	}
	if err := s.index.applyRecord(seq, recordedAt, r); err != nil {
		panic("local: the rules accept an entry that the index refuses: " + err.Error())
	}
	return seq, nil
}

// AdmitIntent checks an intent against the policy and records it.
func (s *Signer) AdmitIntent(ctx context.Context, intent signer.Intent) (signer.Entry, error) {
	if err := ctx.Err(); err != nil {
		return signer.Entry{}, err
	}
	if refusal := checkIntent(intent); refusal != nil {
		return signer.Entry{}, refusal
	}
	seq, err := s.recordAdmission(intent)
	if err != nil {
		return signer.Entry{}, err
	}
	e, err := s.journal.waitDurable(seq)
	if err != nil {
		return signer.Entry{}, err
	}
	failpoint.Hit("W06")
	return e, nil
}

func (s *Signer) recordAdmission(intent signer.Intent) (uint64, error) {
	// This check is no part of checkIntent, because the journal and its copies do not contain the
	// balance.
	if intent.Kind().NeedsBalance && intent.WalletBalance == nil {
		return 0, refuse(signer.RefusedMalformed,
			"holds: %s %s does not say what its wallet has and how much of it is flagged", intent.Kind().Noun,
			intent.ID)
	}
	if balance := intent.WalletBalance; balance != nil {
		// Rule DEP-28.
		if remaining, err := balance.Total.Sub(intent.Amount); err != nil || remaining.Less(balance.Flagged) {
			return 0, refuse(signer.RefusedHeld,
				"%s %s takes %v of %v, and %v of it is flagged and has to stay", intent.Kind().Noun, intent.ID,
				intent.Amount, balance.Total, balance.Flagged)
		}
		intent.WalletBalance = nil // compared on every request because it changes; not recorded
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if refusal := s.index.checkNotVoided(intent.ID); refusal != nil {
		return 0, refusal
	}
	if existing := s.index.intents[intent.ID]; existing != nil {
		if !sameIntent(existing.Intent, intent) {
			return 0, refuse(signer.RefusedIntent, "intent %s was admitted with another content in entry %d", intent.ID,
				existing.seq)
		}
		return existing.seq, nil
	}
	if k, ok := idempotencyKeyOf(intent); ok && s.index.idempotencyKeys[k] != "" {
		earlier := s.index.intents[s.index.idempotencyKeys[k]]
		return 0, refuse(signer.RefusedKey,
			"payment %s repeats the idempotency key of %s, which entry %d of the journal admitted, so it is not "+
				"paid. If the database does not have %s, it is older than the journal: stop the service, restore the "+
				"backup again and run `coffer signer import` before anything else",
			intent.ID, earlier.ID, earlier.seq, earlier.ID)
	}
	if refusal := s.conf.Grants.CheckGrant(intent); refusal != nil {
		return 0, refusal
	}
	intent.Grant = nil
	policy, ok := s.conf.Policy.Chains[intent.Chain]
	if !ok {
		return 0, refuse(signer.RefusedNotConfigured, "the policy does not name chain %q: add it under chains",
			intent.Chain)
	}
	if refusal := s.checkPayer(intent); refusal != nil {
		return 0, refusal
	}
	source, ok := s.index.wallets[intent.From]
	if !ok {
		return 0, refuse(signer.RefusedWallet, "intent %s pays from a wallet that was never issued", intent.ID)
	}
	// The index was read from a file, so the addresses are checked against the keys.
	if _, err := s.walletKeys([]*intentState{{Intent: intent}}); err != nil {
		return 0, err
	}
	if intent.To == source.address {
		return 0, refuse(signer.RefusedDestination, "intent %s pays its own wallet", intent.ID)
	}
	if refusal, err := s.checkDestination(intent, policy); err != nil {
		return 0, err
	} else if refusal != nil {
		return 0, refusal
	}
	now, ahead := s.journalTime()
	if ahead > 0 && s.isTimeLimited(policy, intent) {
		return 0, s.refuseUnconfirmed(ahead)
	}
	if refusal := s.checkWhitelisted(intent, now); refusal != nil {
		return 0, refusal
	}
	// Without any fee allowance left, the intent would get a slot in which nothing could be signed.
	if refusal := s.index.feeTotals.checkFee(policy,
		feeAccount{s.index.wallets[intent.Account()].address, intent.Chain}, money.Units(1), now); refusal != nil {
		return 0, refusal
	}
	if isOutgoing(intent) {
		if refusal := s.index.paymentTotals.checkPayment(policy, intent, now); refusal != nil {
			return 0, refusal
		}
	}
	return s.appendRecordAt(now, signer.Record{Kind: signer.RecordAdmit, Admit: &intent})
}

// checkPayer checks who pays the fee of an intent. Where the chain has a separate fee payer, only a
// treasury pays fees.
func (s *Signer) checkPayer(intent signer.Intent) *signer.Refusal {
	payer, separatePayer := intent.Payer, codecs[intent.From.Family].separateFeePayer()
	switch {
	case payer == nil && separatePayer && intent.From.Purpose != treasuryPurpose:
		return refuse(signer.RefusedWallet, "intent %s does not name the treasury that pays its fee", intent.ID)
	case payer == nil:
		return nil
	case !separatePayer:
		return refuse(signer.RefusedWallet, "intent %s: a separate fee payer does not exist on %s", intent.ID,
			intent.Chain)
	case payer.Purpose != treasuryPurpose || payer.OrgID != intent.From.OrgID || payer.Family != intent.From.Family ||
		*payer == intent.From:
		return refuse(signer.RefusedWallet,
			"the fee payer of intent %s is not the treasury of its organization, for another wallet", intent.ID)
	}
	if _, issued := s.index.wallets[*payer]; !issued {
		return refuse(signer.RefusedWallet, "the fee payer of intent %s is a wallet that was never issued", intent.ID)
	}
	return nil
}

// walletKeys returns the keys of the wallets that the intents of one slot name, each once. The key
// of the wallet that owns the slot is first, then those of the wallets that pay the amounts.
func (s *Signer) walletKeys(intents []*intentState) (signKeys []keys.WalletKey, err error) {
	wallets := []signer.WalletRef{intents[0].Account()}
	for _, intent := range intents {
		if !slices.Contains(wallets, intent.From) {
			wallets = append(wallets, intent.From)
		}
	}
	for _, w := range wallets {
		key, err := s.seed.DeriveWallet(w)
		if err != nil {
			return nil, fmt.Errorf("derive the key of the payer %s: %w", intents[0].ID, err)
		}
		if wallet := s.index.wallets[w]; key.Address() != wallet.address {
			return nil, fmt.Errorf("%w: entry %d gives a wallet an address that its key does not have", ErrDamaged,
				wallet.seq)
		}
		signKeys = append(signKeys, key)
	}
	return signKeys, nil
}

// signingKeys returns the keys that have to sign. A payment needs the keys of the intent's wallets,
// a cancel only the key of the wallet that owns the slot. Where outputs are spent, each needs the
// key of its owner.
func (s *Signer) signingKeys(
	intent *intentState, act signer.Act, payload []byte, signKeys []keys.WalletKey,
) ([]keys.WalletKey, error) {
	effect, err := codecs[intent.Chain.Family()].decode(payload)
	switch {
	case err != nil:
		return nil, err
	case effect.inputs != nil:
		return s.outputKeys(intent, effect.inputs.owners)
	case act == signer.Cancel:
		return signKeys[:1], nil
	}
	return signKeys, nil
}

// outputKeys returns the keys of the outputs' owners. They may be any wallets of the organization:
// a credited deposit is the organization's, at whichever address it arrived. Error: a refusal for
// an output of another owner.
func (s *Signer) outputKeys(intent *intentState, owners []chain.Address) ([]keys.WalletKey, error) {
	derived := map[chain.Address]keys.WalletKey{}
	var signKeys []keys.WalletKey
	for _, owner := range owners {
		if _, ok := derived[owner]; !ok {
			ref, issued := s.index.addressOwners[familyAddress{intent.From.Family, owner}]
			if !issued || ref.OrgID != intent.From.OrgID {
				return nil, refuse(signer.RefusedWallet,
					"the payload of intent %s spends an output of %s, which is not an address of its organization",
					intent.ID,
					owner)
			}
			key, err := s.seed.DeriveWallet(ref)
			if err != nil {
				return nil, fmt.Errorf("derive the key of an output that pays %s: %w", intent.ID, err)
			}
			if key.Address() != owner {
				return nil, fmt.Errorf("%w: entry %d gives a wallet an address that its key does not have", ErrDamaged,
					s.index.wallets[ref].seq)
			}
			derived[owner] = key
		}
		signKeys = append(signKeys, derived[owner])
	}
	return signKeys, nil
}

// checkInputs checks that the outputs that a payload spends are the organization's, and that the
// change goes to one of its change wallets. checkSlot checks that the outputs are in no other slot.
func (s *Signer) checkInputs(intent *intentState, inputs *utxoInputs) error {
	if inputs == nil {
		return nil
	}
	if _, err := s.outputKeys(intent, inputs.owners); err != nil {
		return err
	}
	if ref, issued := s.index.addressOwners[familyAddress{intent.From.Family, inputs.change}]; !issued ||
		ref.OrgID != intent.From.OrgID || ref.Purpose != changePurpose {
		return refuse(signer.RefusedDestination,
			"the change output of intent %s goes to %s, which is not a change wallet of its organization",
			intent.ID, inputs.change)
	}
	return nil
}

// isFrom reports whether a wallet is one of a source.
func isFrom(source signer.Source, w signer.WalletRef) bool {
	switch source {
	case signer.FromTreasury:
		return w.Purpose == treasuryPurpose
	case signer.FromOther:
		return w.Purpose != treasuryPurpose
	case signer.FromDeposit:
		return w.Purpose != treasuryPurpose && w.Purpose != changePurpose
	}
	return false
}

// checkDestination checks the payer and the payee by the rules of the intent's kind.
func (s *Signer) checkDestination(intent signer.Intent, policy ChainPolicy) (*signer.Refusal, error) {
	kind := intent.Kind()
	allowed := isFrom(kind.Source, intent.From)
	switch kind.Payee {
	case signer.ToNonceAccount:
		return s.checkNonceAccount(intent, policy), nil
	case signer.ToAnyone:
		return s.checkOutside(intent), nil
	case signer.ToWallet:
		switch {
		case !allowed:
			return refuse(signer.RefusedWallet, kind.WalletRule, intent.ID, intent.From.Purpose), nil
		case intent.ToWallet == nil:
			return refuse(signer.RefusedDestination, "%s %s does not name its wallet", kind.Noun, intent.ID), nil
		}
	case signer.ToTreasury:
		if !allowed || intent.ToWallet == nil || intent.ToWallet.Purpose != treasuryPurpose {
			return refuse(signer.RefusedDestination, kind.WalletRule, intent.ID, intent.From.Purpose), nil
		}
	case signer.ToChangeWallet:
		if !allowed || !intent.Chain.IsUTXO() || intent.ToWallet == nil || intent.ToWallet.Purpose != changePurpose {
			return refuse(signer.RefusedDestination, kind.WalletRule, intent.ID, intent.From.Purpose), nil
		}
		if owner, taken := s.index.resourceOwners[slotResource{intent.Chain, string(intent.To)}]; taken &&
			owner != intent.ID {
			return refuse(signer.RefusedDestination, "%s %s goes to %s, which is permanently in the slot of intent %s",
				kind.Noun, intent.ID, intent.To, owner), nil
		}
	default:
		return refuse(signer.RefusedDestination, "%s may pay no one", intent.ID), nil
	}
	switch {
	case kind.PaysGas && intent.Contract != "":
		return refuse(signer.RefusedDestination, "%s %s is not in the native coin", kind.Noun, intent.ID), nil
	case kind.PaysGas && policy.GasMax.Less(intent.Amount):
		return refuse(signer.PolicyLimit, "one %s on %s may be at most %v; this is %v", kind.Noun, intent.Chain,
			policy.GasMax, intent.Amount), nil
	case kind.ClosesTokenAccount && (intent.Contract == "" || intent.Chain.Family() != chain.SolanaFamily):
		return refuse(signer.RefusedDestination, "%s %s names no token account, which %s has", kind.Noun, intent.ID,
			chain.Solana), nil
	case kind.ClosesTokenAccount && (intent.Payer == nil || *intent.Payer != *intent.ToWallet):
		return refuse(signer.RefusedWallet,
			"the fee payer of %s %s is not the treasury that receives its content", kind.Noun, intent.ID), nil
	}
	if intent.ToWallet.OrgID != intent.From.OrgID || intent.ToWallet.Family != intent.From.Family {
		return refuse(signer.RefusedDestination, "%s goes to a wallet of another organization or family",
			intent.ID), nil
	}
	toKey, err := s.seed.DeriveWallet(*intent.ToWallet)
	if err != nil {
		return nil, fmt.Errorf("derive the key that %s pays: %w", intent.ID, err)
	}
	if toKey.Address() != intent.To {
		return refuse(signer.RefusedDestination, "%s goes to %s, and the wallet that it names has another address",
			intent.ID, intent.To), nil
	}
	return nil, nil
}

// checkOutside checks that an intent pays an address outside this installation, from a wallet of its
// kind.
func (s *Signer) checkOutside(intent signer.Intent) *signer.Refusal {
	kind := intent.Kind()
	switch {
	case !isFrom(kind.Source, intent.From):
		return refuse(signer.RefusedWallet, kind.WalletRule, intent.ID, intent.From.Purpose)
	case intent.ToWallet != nil:
		return refuse(signer.RefusedDestination, "%s %s names a wallet of this installation as its payee", kind.Noun,
			intent.ID)
	}
	if _, isOwn := s.index.addressOwners[familyAddress{intent.Chain.Family(), intent.To}]; isOwn {
		return refuse(signer.RefusedDestination, "%s %s goes to %s, which is an address of this installation",
			kind.Noun, intent.ID, intent.To)
	}
	return nil
}

// checkNonceAccount checks that an intent creates one of the treasury's own nonce accounts, with
// exactly its minimum balance. This is the only purpose that moves money to an address that is no
// wallet, so it leaves no choice.
func (s *Signer) checkNonceAccount(intent signer.Intent, policy ChainPolicy) *signer.Refusal {
	kind := intent.Kind()
	var minBalance, cost money.Amount
	family, ok := codecs[intent.From.Family].(nonceAccountCodec)
	if ok {
		minBalance, cost, ok = family.nonceAccountCost(s.index.wallets[intent.From].address, intent.To)
	}
	switch {
	case !isFrom(kind.Source, intent.From):
		return refuse(signer.RefusedWallet, kind.WalletRule, intent.ID, intent.From.Purpose)
	case intent.ToWallet != nil || intent.Contract != "" || !ok:
		return refuse(signer.RefusedDestination, "%s is not a nonce account of the treasury that intent %s "+
			"names", intent.To,
			intent.ID)
	case intent.Amount != minBalance:
		return refuse(signer.RefusedDestination, "a nonce account on %s has %v, and intent %s gives it "+
			"%v", intent.Chain,
			minBalance, intent.ID, intent.Amount)
	case policy.FeeMax.Less(cost): // before it has a slot in which nothing could be signed
		return refuse(signer.PolicyLimit, "a nonce account on %s costs %v, and the policy's feeMax is "+
			"%v", intent.Chain, cost,
			policy.FeeMax)
	}
	return nil
}

// Sign decodes, checks and signs a payload.
func (s *Signer) Sign(ctx context.Context, r signer.SignRequest) (signer.SignedTx, error) {
	if err := ctx.Err(); err != nil {
		return signer.SignedTx{}, err
	}
	switch {
	case !isValidWord(r.IntentID):
		return signer.SignedTx{}, refuse(signer.RefusedMalformed, "intentId: give 1 to %d bytes of UTF-8 without NUL",
			wordBytesMax)
	case r.Act != signer.Pay && r.Act != signer.Cancel:
		return signer.SignedTx{}, refuse(signer.RefusedMalformed, "act: got %q, want %s or %s", r.Act, signer.Pay,
			signer.Cancel)
	case len(r.TxMemberIDs) > txMembersMax || slices.ContainsFunc(r.TxMemberIDs, func(id string) bool {
		return !isValidWord(id)
	}):
		return signer.SignedTx{}, refuse(signer.RefusedMalformed,
			"with: give at most %d intents, each in 1 to %d bytes of UTF-8 without NUL", txMembersMax, wordBytesMax)
	case len(r.Payload) == 0 || len(r.Payload) > payloadBytesMax:
		return signer.SignedTx{}, refuse(signer.RefusedMalformed, "payload: give 1 to %d bytes", payloadBytesMax)
	case r.Proof != "" && !isValidWord(r.Proof):
		return signer.SignedTx{}, refuse(signer.RefusedMalformed, "proof: give at most %d bytes of UTF-8 without NUL",
			wordBytesMax)
	}
	raw, hash, seq, err := s.signPayload(r)
	if err != nil {
		return signer.SignedTx{}, err
	}
	failpoint.Hit("W10")
	e, err := s.journal.waitDurable(seq)
	if err != nil {
		return signer.SignedTx{}, err
	}
	failpoint.Hit("W11")
	return signer.SignedTx{Raw: raw, Hash: hash, Entry: e}, nil
}

// signPayload makes the signed bytes and journals them. The bytes stay here until the entry is on
// disk.
func (s *Signer) signPayload(r signer.SignRequest) (raw []byte, hash chain.TxHash, seq uint64, err error) {
	digest := payloadDigest(r.Payload)
	s.mu.Lock()
	defer s.mu.Unlock()
	lead := s.index.intents[r.IntentID]
	if lead == nil {
		return nil, "", 0, refuse(signer.RefusedIntent, "intent %s was never admitted", r.IntentID)
	}
	intents, err := s.index.loadTxIntents(lead, r.TxMemberIDs)
	if err != nil {
		return nil, "", 0, err
	}
	signKeys, err := s.walletKeys(intents)
	if err != nil {
		return nil, "", 0, err
	}

	earlier, signedBefore := lead.signatures[digest]
	if signedBefore && (earlier.Act != r.Act || earlier.Slot != r.Slot ||
		!slices.Equal(earlier.TxMemberIDs, r.TxMemberIDs)) {
		return nil, "", 0, refuse(signer.RefusedPayload,
			"these bytes of intent %s were signed to %s in %v with %q, not to %s in %v with %q",
			lead.ID, earlier.Act, earlier.Slot, earlier.TxMemberIDs, r.Act, r.Slot, r.TxMemberIDs)
	}
	if !signedBefore {
		if err := s.checkPayload(intents, r); err != nil {
			return nil, "", 0, err
		}
	}
	if signKeys, err = s.signingKeys(lead, r.Act, r.Payload, signKeys); err == nil {
		raw, hash, err = codecs[lead.Chain.Family()].signPayload(r.Payload, signKeys...)
	}
	if err != nil {
		return nil, "", 0, fmt.Errorf("sign for intent %s: %w", lead.ID, err)
	}
	if signedBefore {
		if hash != earlier.Hash {
			return nil, "", 0, fmt.Errorf("%w: entry %d has transaction %s and its bytes make %s", ErrDamaged,
				lead.signatureSeqs[digest], earlier.Hash, hash)
		}
		return raw, hash, lead.signatureSeqs[digest], nil
	}
	seq, err = s.appendRecord(signer.Record{Kind: signer.RecordSign, Sign: &signer.SignBody{
		IntentID: lead.ID, TxMemberIDs: r.TxMemberIDs, Slot: r.Slot, Act: r.Act, Payload: r.Payload, Digest: digest,
		Hash: hash, Proof: r.Proof,
	}})
	return raw, hash, seq, err
}

// checkPayload checks a payload against the intents, the slot and the policy. It checks each of
// several intents separately.
func (s *Signer) checkPayload(intents []*intentState, r signer.SignRequest) error {
	lead := intents[0]
	policy, ok := s.conf.Policy.Chains[lead.Chain]
	if !ok {
		return refuse(signer.RefusedNotConfigured, "the policy does not name chain %q any more", lead.Chain)
	}
	if r.Act == signer.Pay {
		for _, intent := range intents {
			if refusal := s.index.checkNotVoided(intent.ID); refusal != nil {
				return refusal
			}
		}
	}
	effect, err := s.matchPayload(intents, r, policy)
	if err != nil {
		return err
	}
	if r.Act == signer.Pay && !lead.hasSignedPayment() {
		for _, intent := range intents {
			if refusal := policy.checkCurrent(intent.Intent); refusal != nil {
				return refusal
			}
			if _, revoked := s.index.revocations[intent.WhitelistedID]; revoked {
				return refuse(signer.PolicyLimit,
					"address %s, which payment %s goes to, was removed from the whitelist after the admission",
					intent.WhitelistedID, intent.ID)
			}
		}
	}
	fee := effect.maxCost
	if policy.FeeMax.Less(fee) {
		return refuse(signer.RefusedFee, "the payload of intent %s can cost %v, and the policy's feeMax on %s is %v",
			lead.ID, fee, lead.Chain, policy.FeeMax)
	}
	if r.Act == signer.Pay {
		share := signer.MaxFeeShare(fee, len(intents))
		for _, intent := range intents {
			if !intent.FeeMax.IsZero() && intent.FeeMax.Less(share) {
				return refuse(signer.RefusedFee,
					"the payload of intent %s can cost %v, and it was admitted for a fee of at most %v", intent.ID,
					share, intent.FeeMax)
			}
		}
	}
	if added := lead.addedCost(fee); !added.IsZero() {
		now, ahead := s.journalTime()
		if ahead > 0 && policy.feeDayLimit() != nil {
			return s.refuseUnconfirmed(ahead)
		}
		if refusal := s.index.feeTotals.checkFee(policy,
			feeAccount{s.index.wallets[lead.Account()].address, lead.Chain}, added, now); refusal != nil {
			return refusal
		}
	}
	return nil
}

func payloadDigest(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:])
}

// matchPayload decodes a payload and checks that it does nothing but what was admitted.
func (s *Signer) matchPayload(intents []*intentState, r signer.SignRequest, policy ChainPolicy) (txEffect, error) {
	lead := intents[0]
	payer := s.index.wallets[lead.Account()].address
	if err := s.index.checkSlot(intents, payer, r.Slot); err != nil {
		return txEffect{}, err
	}
	effect, err := codecs[lead.Chain.Family()].decode(r.Payload)
	switch {
	case err != nil:
		return effect, refuse(signer.RefusedPayload, "the payload of intent %s: %v", lead.ID, err)
	case effect.networkID != "" && effect.networkID != policy.SignerID:
		return effect, refuse(signer.RefusedPayload, "the payload of intent %s is for chain id %s, and %s is %s",
			lead.ID, effect.networkID, lead.Chain, policy.SignerID)
	case !effect.takesSlot(r.Slot):
		return effect, refuse(signer.RefusedPayload, "the payload of intent %s has %v, and its slot is %v", lead.ID,
			effect.slot, r.Slot)
	case effect.payer != "" && effect.payer != payer:
		return effect, refuse(signer.RefusedPayload, "the fee payer of intent %s is %s, and %s in its payload",
			lead.ID, payer, effect.payer)
	}
	if err := effect.verifyProof(r.Proof); err != nil {
		return effect, refuse(signer.RefusedPayload,
			"more than one transaction in the slot of intent %s could be mined: %v", lead.ID, err)
	}
	if err := s.checkInputs(lead, effect.inputs); err != nil {
		return effect, err
	}
	if slices.ContainsFunc(intents, func(member *intentState) bool { return member.Kind().Consolidates }) {
		return effect, s.checkConsolidation(intents, effect, policy, payer)
	}
	if r.Act == signer.Cancel {
		if err := effect.checkCancel(payer); err != nil {
			return effect, refuse(signer.RefusedPayload, "the cancel of intent %s: %v", lead.ID, err)
		}
		return effect, nil
	}
	payments := make([]chain.Payment, len(intents))
	for n, member := range intents {
		payments[n] = chain.Payment{
			From: s.index.wallets[member.From].address, To: member.To,
			Contract: member.Contract, Amount: member.Amount,
			CreatesNonceAccount: member.Kind().CreatesNonceAccount,
			ClosesTokenAccount:  member.Kind().ClosesTokenAccount,
		}
	}
	if err := effect.checkPayments(payments...); err != nil {
		if len(intents) > 1 {
			return effect, refuse(signer.RefusedPayload,
				"the payload of intent %s with %q does not make exactly their payments: %v",
				lead.ID, r.TxMemberIDs, err)
		}
		return effect, refuse(signer.RefusedPayload,
			"the payload of intent %s differs from the payment of %v of %q to %s that was admitted: %v",
			lead.ID, lead.Amount, lead.Contract, lead.To, err)
	}
	return effect, nil
}

// checkConsolidation checks that a payload makes one output of many, alone in its transaction and
// at an acceptable fee rate. It pays no one, so its fee is all that an attacker could burn with it.
// It therefore has a limit of its own, far below that of payments, which have to be made in time.
// Its cancel is checked in the same way. Rule COIN-8.
func (s *Signer) checkConsolidation(
	intents []*intentState, effect txEffect, policy ChainPolicy, payer chain.Address,
) error {
	lead := intents[0]
	if len(intents) > 1 {
		return refuse(signer.RefusedIntent, "consolidation %s shares its transaction with others, which a "+
			"consolidation never does",
			lead.ID)
	}
	if effect.inputs == nil || effect.inputs.change != lead.To {
		return refuse(signer.RefusedDestination,
			"the outputs of consolidation %s do not go to the wallet that it was admitted for, %s", lead.ID, lead.To)
	}
	if err := effect.checkCancel(payer); err != nil {
		return refuse(signer.RefusedPayload, "the payload of consolidation %s does not return the whole amount of "+
			"its inputs: %v", lead.ID,
			err)
	}
	costMax, err := policy.EffectiveConsolidationRate().Mul(effect.virtualSize)
	if err == nil {
		costMax, err = costMax.Add(money.Units(feeRateUnit - 1)) // a fee is rounded up
	}
	if cost, mulErr := effect.maxCost.Mul(feeRateUnit); effect.virtualSize == 0 || mulErr != nil ||
		err == nil && costMax.Less(cost) {
		return refuse(signer.RefusedFee,
			"consolidation %s costs %v for %d virtual bytes, and mergeRateMax of the policy on %s is %v per thousand",
			lead.ID, effect.maxCost, effect.virtualSize, lead.Chain, policy.EffectiveConsolidationRate())
	}
	return nil
}

// feeRateUnit is the number of virtual bytes that a fee rate is for.
const feeRateUnit = 1000

// EntriesAfter returns the entries on disk after a sequence number, at most 1000.
func (s *Signer) EntriesAfter(ctx context.Context, afterSeq uint64, limit int) ([]signer.Entry, error) {
	last, err := s.journal.durableSeq()
	if err != nil {
		return nil, err
	}
	if limit <= 0 || limit > entriesMax {
		limit = entriesMax
	}
	var entries []signer.Entry
	for seq := afterSeq + 1; afterSeq < last && seq <= last && len(entries) < limit; seq++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e, err := s.journal.readEntry(seq)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Head returns the head of the journal on disk.
func (s *Signer) Head(ctx context.Context) (signer.Head, error) {
	if err := ctx.Err(); err != nil {
		return signer.Head{}, err
	}
	s.mu.Lock()
	s.noteTime(false)
	s.mu.Unlock()
	last, err := s.journal.durableSeq()
	if err != nil {
		return signer.Head{}, err
	}
	e, err := s.journal.readEntry(last)
	if err != nil {
		return signer.Head{}, err
	}
	return e.Head(), nil
}

// isValidWord reports whether a text survives a round trip through the journal and PostgreSQL
// unchanged, and is not too long.
func isValidWord(s string) bool {
	return s != "" && len(s) <= wordBytesMax && utf8.ValidString(s) && !strings.Contains(s, "\x00")
}

func checkRef(w signer.WalletRef) *signer.Refusal {
	switch {
	case codecs[w.Family] == nil:
		return refuse(signer.RefusedNotConfigured, "this signer has no keys for family %q", w.Family)
	case !isValidWord(w.OrgID):
		return refuse(signer.RefusedMalformed, "orgId: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	case !isValidWord(w.Purpose):
		return refuse(signer.RefusedMalformed, "purpose: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	case w.Purpose == changePurpose && w.Family != chain.BitcoinFamily:
		return refuse(signer.RefusedMalformed, "purpose: family %s has no change outputs, so no change wallets",
			w.Family)
	case w.Purpose == treasuryPurpose && w.Subject != "":
		return refuse(signer.RefusedMalformed, "subject: a treasury has none")
	case w.Form != chain.Usual && (w.Family != chain.BitcoinFamily || w.Form != chain.Taproot):
		return refuse(signer.RefusedMalformed, "form: family %s has no addresses of form %q", w.Family, w.Form)
	case w.Form != chain.Usual && (w.Purpose == treasuryPurpose || w.Purpose == changePurpose):
		return refuse(signer.RefusedMalformed, "form: a wallet for %s has none", w.Purpose)
	case w.Purpose != treasuryPurpose && !isValidWord(w.Subject):
		return refuse(signer.RefusedMalformed, "subject: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	}
	return nil
}

// knownPurposes returns the purposes that this signer accepts.
func knownPurposes() (purposes []signer.Purpose) {
	for _, kind := range signer.Kinds() {
		purposes = append(purposes, kind.Purpose)
	}
	return purposes
}

func checkIntent(intent signer.Intent) *signer.Refusal {
	if refusal := checkRef(intent.From); refusal != nil {
		refusal.Message = "from." + refusal.Message
		return refusal
	}
	if intent.ToWallet != nil {
		if refusal := checkRef(*intent.ToWallet); refusal != nil {
			refusal.Message = "toWallet." + refusal.Message
			return refusal
		}
	}
	if intent.Payer != nil {
		if refusal := checkRef(*intent.Payer); refusal != nil {
			refusal.Message = "payer." + refusal.Message
			return refusal
		}
	}
	kind, isCanonical := intent.Kind(), codecs[intent.From.Family].isCanonical
	isShort := func(s string) bool { return s == "" || isValidWord(s) }
	switch {
	case !isValidWord(intent.ID):
		return refuse(signer.RefusedMalformed, "id: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	case kind.Purpose == "":
		return refuse(signer.RefusedMalformed, "purpose: got %q, want one of %s", intent.Purpose, knownPurposes())
	case kind.Consolidates && (!intent.Amount.IsZero() || intent.CustomerID != "" ||
		intent.IdempotencyKeyHash != "" || !intent.FeeDeducted.IsZero()):
		return refuse(signer.RefusedMalformed, "amount: a %s pays no amount", intent.Purpose)
	case intent.WalletBalance != nil && !kind.NeedsBalance:
		return refuse(signer.RefusedMalformed, "holds: a %s has none", intent.Purpose)
	case intent.Chain.Family() != intent.From.Family:
		return refuse(signer.RefusedMalformed, "chain: %q is not of family %s", intent.Chain, intent.From.Family)
	case !isCanonical(intent.To):
		return refuse(signer.RefusedMalformed, "to: %q is not an address in its canonical form", intent.To)
	case intent.Contract != "" && !isCanonical(intent.Contract):
		return refuse(signer.RefusedMalformed, "contract: %q is not an address in its canonical form", intent.Contract)
	case intent.Contract != "" && intent.Chain.Family() == chain.BitcoinFamily:
		return refuse(signer.RefusedMalformed, "contract: there are no tokens on %s", intent.Chain)
	case intent.Contract == intent.To:
		return refuse(signer.RefusedDestination, "to: %s is the token's own contract", intent.To)
	case intent.Amount.IsZero() && !kind.Consolidates:
		return refuse(signer.RefusedMalformed, "amount: an amount of zero cannot be paid")
	case intent.WhitelistedID != "" && !paysOwnMoney(intent):
		return refuse(signer.RefusedMalformed, "whitelistedId: only a payment of an organization has one")
	case intent.Product != "" && intent.WhitelistedID == "":
		return refuse(signer.RefusedMalformed, "product: only a payment of an organization has one")
	case !isShort(intent.WhitelistedID) || !isShort(intent.Product):
		return refuse(signer.RefusedMalformed, "whitelistedId, product: give at most %d bytes of UTF-8 without NUL",
			wordBytesMax)
	case !isShort(intent.CustomerID) || !isShort(intent.IdempotencyKeyHash):
		return refuse(signer.RefusedMalformed,
			"customerId, idempotencyKeyHash: give at most %d bytes of UTF-8 without NUL", wordBytesMax)
	}
	return nil
}

// sameIntent reports whether two intents have the same fields, grants apart.
func sameIntent(a, b signer.Intent) bool {
	differ := func(a, b *signer.WalletRef) bool { return (a == nil) != (b == nil) || a != nil && *a != *b }
	if differ(a.ToWallet, b.ToWallet) || differ(a.Payer, b.Payer) {
		return false
	}
	a.ToWallet, b.ToWallet, a.Payer, b.Payer, a.Grant, b.Grant = nil, nil, nil, nil, nil, nil
	return a == b
}
