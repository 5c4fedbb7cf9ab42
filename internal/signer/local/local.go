// Package local is the signer in this process: the keys, the policy and the
// journal in a file of its own.
//
// What never happens here: a signature that leaves before its journal entry is on
// disk, a second slot of an intent or a second intent in a slot, a coin that is spent
// for two intents or of another organization, a second payment of an idempotency key,
// a payload that is signed because somebody says what it does, a second process on one journal, a
// secret in an error. What a crash leaves: a journal whose last entries the caller
// may not know, or a torn last line that nobody was told of and that is cut off.
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
	"github.com/cofferpay/coffer/internal/crash"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
)

// treasury is the purpose of the wallets that pay. All others may only be swept
// into the treasury of their organization.
const treasury = "TREASURY"

// change is the purpose of the wallets that what is left of coins goes to. Their subject is
// their number, 1, 2, 3…: see docs/design/bitcoin.md#change-wallets. In a journal of before
// that it is the intent that spends the coins.
const change = "CHANGE"

const (
	wordBytesMax    = 128      // an id or a subject
	payloadBytesMax = 24 << 10 // an unsigned transaction
	withMax         = 255      // other intents that one transaction pays
	entriesMax      = 1000     // entries in one answer
)

// Config is what a local signer needs beside its seed.
type Config struct {
	Journal string // path of the journal file
	Policy  Policy // what is allowed
	// Grants checks who let payments go; nil asks nobody, as tests of other things do.
	Grants *signer.GrantKey
	Clock  func() time.Time // nil means time.Now
	// Elapsed is how much time has passed since some moment, by a clock that cannot be set.
	// nil means the system's monotonic clock beside time.Now, and whatever a Clock of its own
	// goes forward.
	Elapsed func() time.Duration
	// Rescue lets payments pass that name neither a customer nor an endorsement, coins be
	// spent by several transactions, and wallets for change have any number: whoever brings
	// money to safety from a seed of which nothing else is left has nothing else. A service
	// never sets it.
	Rescue bool
}

func (c Config) now() time.Time {
	if c.Clock == nil {
		return time.Now()
	}
	return c.Clock()
}

// Signer implements signer.Signer. It prints nothing of its keys.
type Signer struct {
	conf   Config
	seed   keys.Seed
	attest keys.AttestKey

	// mu makes asking the rules and taking a place in the journal one step. The disk
	// is waited for without it.
	mu      sync.Mutex
	index   *index
	journal *journal
	clock   *clock

	anchors *anchors
}

var _ signer.Signer = (*Signer)(nil)

// Create makes the journal of an installation that has none. It refuses to replace
// a file. Only a deliberate act of the operator calls it: a signer that has lost its
// journal and starts an empty one would pay again what was paid.
func Create(conf Config, seed keys.Seed) error {
	return createJournal(conf.Journal, conf.now(), signer.Record{AttestKey: publicHex(seed)})
}

// Open checks the policy, locks the journal and reads all of it. Errors: ErrMissing,
// ErrLocked, ErrDamaged, or a journal of another seed.
func Open(conf Config, seed keys.Seed) (*Signer, error) {
	if err := conf.Policy.Check(); err != nil {
		return nil, err
	}
	s := &Signer{conf: conf, seed: seed, attest: seed.Attest(), index: newIndex()}
	s.index.rescue = conf.Rescue
	j, err := openJournal(conf.Journal, func(e signer.Entry, r signer.Record) error {
		at, err := time.Parse(time.RFC3339Nano, r.At)
		if err != nil {
			return err
		}
		return s.index.apply(e.Seq, at, r)
	})
	if err != nil {
		return nil, err
	}
	if got, want := s.index.genesis.AttestKey, publicHex(seed); got != want {
		err := fmt.Errorf("the journal %s belongs to the seed with attestation key %s, and this seed has %s: use the key file that belongs to the journal",
			conf.Journal, got, want)
		return nil, errors.Join(err, j.close())
	}
	s.journal = j
	s.clock = openClock(conf, signer.Head{JournalID: j.head.JournalID, Seq: j.head.Seq}, s.index.clockSeq, j.at)
	if s.anchors, err = openAnchors(conf.Journal, s.attest); err != nil {
		return nil, errors.Join(err, j.close())
	}
	return s, nil
}

// Close waits for a write under way and unlocks the journal.
func (s *Signer) Close() error {
	s.anchors.mu.Lock()
	defer s.anchors.mu.Unlock()
	if s.anchors.broken == nil {
		s.anchors.broken = errors.New("the signer is closed")
		s.mu.Lock()
		s.seen(true)
		s.mu.Unlock()
	}
	return errors.Join(s.anchors.file.Close(), s.journal.close())
}

func publicHex(seed keys.Seed) string { return hex.EncodeToString(seed.Attest().Public()) }

// Issue derives, attests and remembers the address of a wallet.
func (s *Signer) Issue(ctx context.Context, w signer.WalletRef) (signer.Issued, error) {
	if err := ctx.Err(); err != nil {
		return signer.Issued{}, err
	}
	if no := checkRef(w); no != nil {
		return signer.Issued{}, no
	}
	key, err := s.seed.Wallet(w)
	if err != nil {
		return signer.Issued{}, fmt.Errorf("derive the key of a wallet of %s: %w", w.OrgID, err)
	}
	seq, err := s.issue(w, key)
	if err != nil {
		return signer.Issued{}, err
	}
	e, err := s.journal.durable(seq)
	if err != nil {
		return signer.Issued{}, err
	}
	return signer.Issued{
		WalletRef: w, Path: key.Path(), Address: key.Address(),
		Proof: s.attest.Prove(w, key.Path(), key.Address()), Entry: e,
	}, nil
}

func (s *Signer) issue(w signer.WalletRef, key keys.WalletKey) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.index.wallets[w]; ok {
		if known.address != key.Address() || known.path != key.Path() {
			return 0, fmt.Errorf("%w: entry %d gives a wallet an address that its key does not have", ErrDamaged, known.seq)
		}
		return known.seq, nil
	}
	if !s.conf.Rescue {
		if no := s.index.form(w); no != nil {
			return 0, no
		}
		if no := s.index.next(w); no != nil {
			return 0, no
		}
	}
	if other, taken := s.index.owners[owned{w.Family, key.Address()}]; taken {
		return 0, fmt.Errorf("%w: address %s belongs to another wallet, of %s", ErrDamaged, key.Address(), other.OrgID)
	}
	return s.append(signer.Record{Kind: signer.RecordIssue, Issue: &signer.IssueBody{WalletRef: w, Path: key.Path(), Address: key.Address()}})
}

// append gives a record its place in the journal and in the index. s.mu is held.
func (s *Signer) append(r signer.Record) (uint64, error) {
	now, _ := s.time()
	return s.appendAt(now, r)
}

// appendAt is append with the time that was looked at for the rules.
func (s *Signer) appendAt(at time.Time, r signer.Record) (uint64, error) {
	seq, err := s.journal.append(at, r)
	if err != nil {
		return 0, err
	}
	if err := s.index.apply(seq, at, r); err != nil {
		panic("local: the rules let an entry pass that the index refuses: " + err.Error())
	}
	return seq, nil
}

// Admit asks the policy and remembers the intent.
func (s *Signer) Admit(ctx context.Context, i signer.Intent) (signer.Entry, error) {
	if err := ctx.Err(); err != nil {
		return signer.Entry{}, err
	}
	if no := checkIntent(i); no != nil {
		return signer.Entry{}, no
	}
	seq, err := s.admit(i)
	if err != nil {
		return signer.Entry{}, err
	}
	e, err := s.journal.durable(seq)
	if err != nil {
		return signer.Entry{}, err
	}
	crash.Point("W06")
	return e, nil
}

func (s *Signer) admit(i signer.Intent) (uint64, error) {
	// No part of checkIntent: what the journal remembers, and a copy of it, has none.
	if i.Purpose == signer.Sweep && i.Holds == nil {
		return 0, refuse(signer.RefusedMalformed, "holds: sweep %s does not say what its wallet has and what of that is flagged", i.ID)
	}
	if h := i.Holds; h != nil {
		if left, err := h.Has.Sub(i.Amount); err != nil || left.Less(h.Flagged) {
			return 0, refuse(signer.RefusedHeld, "sweep %s takes %v of %v, and %v of that is flagged and stays where it is", i.ID, i.Amount, h.Has, h.Flagged)
		}
		i.Holds = nil // compared each time, for it changes; not remembered
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if no := s.index.live(i.ID); no != nil {
		return 0, no
	}
	if known := s.index.intents[i.ID]; known != nil {
		if !same(known.Intent, i) {
			return 0, refuse(signer.RefusedIntent, "intent %s was admitted with other words in entry %d", i.ID, known.seq)
		}
		return known.seq, nil
	}
	if k, ok := keyOf(i); ok && s.index.keys[k] != "" {
		other := s.index.intents[s.index.keys[k]]
		return 0, refuse(signer.RefusedKey, "payment %s repeats the idempotency key of %s, which entry %d of the journal admitted, so it is not paid; "+
			"if the database does not know %s it is older than the journal: stop the service, restore the backup again and run `coffer signer import` before anything else",
			i.ID, other.ID, other.seq, other.ID)
	}
	if no := s.conf.Grants.Check(i); no != nil {
		return 0, no
	}
	i.Grant = nil
	policy, ok := s.conf.Policy.Chains[i.Chain]
	if !ok {
		return 0, refuse(signer.RefusedNotConfigured, "the policy does not name chain %q: add it under chains", i.Chain)
	}
	if no := s.payer(i); no != nil {
		return 0, no
	}
	from, ok := s.index.wallets[i.From]
	if !ok {
		return 0, refuse(signer.RefusedWallet, "intent %s pays from a wallet that was never issued", i.ID)
	}
	// The index was read from a file; the keys are the truth.
	if _, err := s.keysOf([]*intent{{Intent: i}}); err != nil {
		return 0, err
	}
	if i.To == from.address {
		return 0, refuse(signer.RefusedDestination, "intent %s pays the wallet that it is paid from", i.ID)
	}
	if no, err := s.destination(i, policy); err != nil {
		return 0, err
	} else if no != nil {
		return 0, no
	}
	now, ahead := s.time()
	if ahead > 0 && s.timed(policy, i) {
		return 0, s.unconfirmed(ahead)
	}
	if no := s.whitelisted(i, now); no != nil {
		return 0, no
	}
	// Without fees left it would get a slot that nothing could be signed in.
	if no := s.index.fees.allow(policy, account{s.index.wallets[i.Account()].address, i.Chain}, money.Units(1), now); no != nil {
		return 0, no
	}
	if outward(i) {
		if no := s.index.limits.allow(policy, i, now); no != nil {
			return 0, no
		}
	}
	return s.appendAt(now, signer.Record{Kind: signer.RecordAdmit, Admit: &i})
}

// payer is who pays the fee of a transfer from a wallet that is no treasury: where the
// chain lets somebody else pay, that wallet never does.
func (s *Signer) payer(i signer.Intent) *signer.Refusal {
	p, others := i.Payer, families[i.From.Family].othersPay()
	switch {
	case p == nil && others && i.From.Purpose != treasury:
		return refuse(signer.RefusedWallet, "intent %s does not say which treasury pays its fee", i.ID)
	case p == nil:
		return nil
	case !others:
		return refuse(signer.RefusedWallet, "intent %s: nobody pays the fee of somebody else on %s", i.ID, i.Chain)
	case p.Purpose != treasury || p.OrgID != i.From.OrgID || p.Family != i.From.Family || *p == i.From:
		return refuse(signer.RefusedWallet, "the fee of intent %s is not paid by the treasury of its organization for another wallet", i.ID)
	}
	if _, known := s.index.wallets[*p]; !known {
		return refuse(signer.RefusedWallet, "the fee of intent %s is paid by a wallet that was never issued", i.ID)
	}
	return nil
}

// keysOf are the keys of the wallets that intents in one slot name, each once: the one
// that has the slot, then those that pay their amounts.
func (s *Signer) keysOf(all []*intent) (by []keys.WalletKey, err error) {
	of := []signer.WalletRef{all[0].Account()}
	for _, i := range all {
		if !slices.Contains(of, i.From) {
			of = append(of, i.From)
		}
	}
	for _, w := range of {
		key, err := s.seed.Wallet(w)
		if err != nil {
			return nil, fmt.Errorf("derive the key that pays %s: %w", all[0].ID, err)
		}
		if known := s.index.wallets[w]; key.Address() != known.address {
			return nil, fmt.Errorf("%w: entry %d gives a wallet an address that its key does not have", ErrDamaged, known.seq)
		}
		by = append(by, key)
	}
	return by, nil
}

// signers are the keys that an act needs: those of the intent's wallets, of which
// whoever gives nothing away does not sign that; or one for each coin that is spent.
func (s *Signer) signers(i *intent, act signer.Act, payload []byte, by []keys.WalletKey) ([]keys.WalletKey, error) {
	does, err := families[i.Chain.Family()].read(payload)
	switch {
	case err != nil:
		return nil, err
	case does.coins != nil:
		return s.holders(i, does.coins.holders)
	case act == signer.Cancel:
		return by[:1], nil
	}
	return by, nil
}

// holders are the keys of coins, which may be those of any wallet of the organization:
// what was credited is the organization's, whoever's address it came to. Error: a
// refusal for a coin that is not its own.
func (s *Signer) holders(i *intent, of []chain.Address) ([]keys.WalletKey, error) {
	known := map[chain.Address]keys.WalletKey{}
	var by []keys.WalletKey
	for _, a := range of {
		if _, ok := known[a]; !ok {
			ref, issued := s.index.owners[owned{i.From.Family, a}]
			if !issued || ref.OrgID != i.From.OrgID {
				return nil, refuse(signer.RefusedWallet, "the payload of intent %s spends a coin of %s, which is no address of its organization", i.ID, a)
			}
			key, err := s.seed.Wallet(ref)
			if err != nil {
				return nil, fmt.Errorf("derive the key of a coin that pays %s: %w", i.ID, err)
			}
			if key.Address() != a {
				return nil, fmt.Errorf("%w: entry %d gives a wallet an address that its key does not have", ErrDamaged, s.index.wallets[ref].seq)
			}
			known[a] = key
		}
		by = append(by, known[a])
	}
	return by, nil
}

// spends finds that the coins of a payload are the organization's, and that what is left
// of them comes back to a wallet of its own for that. That it is in no other slot is the
// rule of slots.
func (s *Signer) spends(i *intent, c *spends) error {
	if c == nil {
		return nil
	}
	if _, err := s.holders(i, c.holders); err != nil {
		return err
	}
	if ref, issued := s.index.owners[owned{i.From.Family, c.change}]; !issued || ref.OrgID != i.From.OrgID || ref.Purpose != change {
		return refuse(signer.RefusedDestination, "what is left of the coins of intent %s goes to %s, which is no wallet of its organization for change", i.ID, c.change)
	}
	return nil
}

// destination is who may be paid for each purpose.
func (s *Signer) destination(i signer.Intent, policy ChainPolicy) (*signer.Refusal, error) {
	switch i.Purpose {
	case signer.Payment:
		switch {
		case i.From.Purpose != treasury:
			return refuse(signer.RefusedWallet, "payments are made from the treasury only, intent %s is from a wallet for %s", i.ID, i.From.Purpose), nil
		case i.ToWallet != nil:
			return refuse(signer.RefusedDestination, "payment %s names a wallet of ours as its payee", i.ID), nil
		}
		if _, ours := s.index.owners[owned{i.Chain.Family(), i.To}]; ours {
			return refuse(signer.RefusedDestination, "payment %s goes to %s, which is an address of this installation", i.ID, i.To), nil
		}
		return nil, nil
	case signer.Return:
		switch {
		case i.From.Purpose == treasury || i.From.Purpose == change:
			return refuse(signer.RefusedWallet, "return %s is not from an address that deposits come to", i.ID), nil
		case i.ToWallet != nil:
			return refuse(signer.RefusedDestination, "return %s names a wallet of ours as its payee", i.ID), nil
		}
		if _, ours := s.index.owners[owned{i.Chain.Family(), i.To}]; ours {
			return refuse(signer.RefusedDestination, "return %s goes to %s, which is an address of this installation", i.ID, i.To), nil
		}
		return nil, nil
	case signer.Place:
		return s.place(i, policy), nil
	case signer.Merge:
		if i.From.Purpose != treasury || !i.Chain.Pooled() || i.ToWallet == nil || i.ToWallet.Purpose != change {
			return refuse(signer.RefusedDestination, "merge %s does not make coins of a treasury one of a wallet for change", i.ID), nil
		}
		if other, taken := s.index.places[place{i.Chain, string(i.To)}]; taken && other != i.ID {
			return refuse(signer.RefusedDestination, "merge %s goes to %s, which is in the slot of intent %s for ever", i.ID, i.To, other), nil
		}
	case signer.Sweep:
		if i.From.Purpose == treasury || i.ToWallet == nil || i.ToWallet.Purpose != treasury {
			return refuse(signer.RefusedDestination, "sweep %s does not go from another wallet into the treasury", i.ID), nil
		}
	case signer.Close:
		switch {
		case i.From.Purpose == treasury || i.ToWallet == nil || i.ToWallet.Purpose != treasury:
			return refuse(signer.RefusedDestination, "close %s does not bring what is in it from another wallet into the treasury", i.ID), nil
		case i.Contract == "" || i.Chain.Family() != chain.SolanaFamily:
			return refuse(signer.RefusedDestination, "close %s names no account for a token, which %s has", i.ID, chain.Solana), nil
		case i.Payer == nil || *i.Payer != *i.ToWallet:
			return refuse(signer.RefusedWallet, "close %s is not paid for by the treasury that gets what is in it", i.ID), nil
		}
	case signer.Gas:
		switch {
		case i.From.Purpose != treasury:
			return refuse(signer.RefusedWallet, "gas is paid from the treasury only, intent %s is from a wallet for %s", i.ID, i.From.Purpose), nil
		case i.ToWallet == nil:
			return refuse(signer.RefusedDestination, "gas top-up %s does not say which wallet it is for", i.ID), nil
		case i.Contract != "":
			return refuse(signer.RefusedDestination, "gas top-up %s is not in the native coin", i.ID), nil
		case policy.GasMax.Less(i.Amount):
			return refuse(signer.PolicyLimit, "one gas top-up on %s may be at most %v, this is %v", i.Chain, policy.GasMax, i.Amount), nil
		}
	}
	if i.ToWallet.OrgID != i.From.OrgID || i.ToWallet.Family != i.From.Family {
		return refuse(signer.RefusedDestination, "%s goes to a wallet of another organization or family", i.ID), nil
	}
	to, err := s.seed.Wallet(*i.ToWallet)
	if err != nil {
		return nil, fmt.Errorf("derive the key that %s pays: %w", i.ID, err)
	}
	if to.Address() != i.To {
		return refuse(signer.RefusedDestination, "%s goes to %s, and the wallet that it names has another address", i.ID, i.To), nil
	}
	return nil, nil
}

// place is the rule of places: one of the treasury's own, with what has to stay there and
// no more. It is the only purpose that moves money to where no wallet is, so there is
// nothing in it to choose.
func (s *Signer) place(i signer.Intent, policy ChainPolicy) *signer.Refusal {
	var stays, costs money.Amount
	family, ok := families[i.From.Family].(leasing)
	if ok {
		stays, costs, ok = family.place(s.index.wallets[i.From].address, i.To)
	}
	switch {
	case i.From.Purpose != treasury:
		return refuse(signer.RefusedWallet, "places are the treasury's, intent %s is from a wallet for %s", i.ID, i.From.Purpose)
	case i.ToWallet != nil || i.Contract != "" || !ok:
		return refuse(signer.RefusedDestination, "%s is no place of the treasury that intent %s names", i.To, i.ID)
	case i.Amount != stays:
		return refuse(signer.RefusedDestination, "a place on %s holds %v, and intent %s gives it %v", i.Chain, stays, i.ID, i.Amount)
	case policy.FeeMax.Less(costs): // before it has a slot that nothing could be signed in
		return refuse(signer.PolicyLimit, "a place on %s costs %v, and the policy's feeMax is %v", i.Chain, costs, policy.FeeMax)
	}
	return nil
}

// Sign signs a payload after taking it apart.
func (s *Signer) Sign(ctx context.Context, r signer.SignRequest) (signer.Signed, error) {
	if err := ctx.Err(); err != nil {
		return signer.Signed{}, err
	}
	switch {
	case !word(r.IntentID):
		return signer.Signed{}, refuse(signer.RefusedMalformed, "intentId: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	case r.Act != signer.Pay && r.Act != signer.Cancel:
		return signer.Signed{}, refuse(signer.RefusedMalformed, "act: got %q, want %s or %s", r.Act, signer.Pay, signer.Cancel)
	case len(r.With) > withMax || slices.ContainsFunc(r.With, func(id string) bool { return !word(id) }):
		return signer.Signed{}, refuse(signer.RefusedMalformed, "with: give at most %d intents, each in 1 to %d bytes of UTF-8 without NUL", withMax, wordBytesMax)
	case len(r.Payload) == 0 || len(r.Payload) > payloadBytesMax:
		return signer.Signed{}, refuse(signer.RefusedMalformed, "payload: give 1 to %d bytes", payloadBytesMax)
	case r.Proof != "" && !word(r.Proof):
		return signer.Signed{}, refuse(signer.RefusedMalformed, "proof: give at most %d bytes of UTF-8 without NUL", wordBytesMax)
	}
	raw, hash, seq, err := s.sign(r)
	if err != nil {
		return signer.Signed{}, err
	}
	crash.Point("W10")
	e, err := s.journal.durable(seq)
	if err != nil {
		return signer.Signed{}, err
	}
	crash.Point("W11")
	return signer.Signed{Raw: raw, Hash: hash, Entry: e}, nil
}

// sign makes the bytes and gives them their place in the journal. They stay here
// until it is on disk.
func (s *Signer) sign(r signer.SignRequest) (raw []byte, hash chain.TxHash, seq uint64, err error) {
	digest := digestOf(r.Payload)
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index.intents[r.IntentID]
	if i == nil {
		return nil, "", 0, refuse(signer.RefusedIntent, "intent %s was never admitted", r.IntentID)
	}
	all, err := s.index.together(i, r.With)
	if err != nil {
		return nil, "", 0, err
	}
	by, err := s.keysOf(all)
	if err != nil {
		return nil, "", 0, err
	}

	before, again := i.signs[digest]
	if again && (before.Act != r.Act || before.Slot != r.Slot || !slices.Equal(before.With, r.With)) {
		return nil, "", 0, refuse(signer.RefusedPayload, "these bytes of intent %s were signed to %s in %v with %q, not to %s in %v with %q",
			i.ID, before.Act, before.Slot, before.With, r.Act, r.Slot, r.With)
	}
	if !again {
		if err := s.check(all, r); err != nil {
			return nil, "", 0, err
		}
	}
	if by, err = s.signers(i, r.Act, r.Payload, by); err == nil {
		raw, hash, err = families[i.Chain.Family()].sign(r.Payload, by...)
	}
	if err != nil {
		return nil, "", 0, fmt.Errorf("sign for intent %s: %w", i.ID, err)
	}
	if again {
		if hash != before.Hash {
			return nil, "", 0, fmt.Errorf("%w: entry %d remembers transaction %s and its bytes make %s", ErrDamaged, i.seqs[digest], before.Hash, hash)
		}
		return raw, hash, i.seqs[digest], nil
	}
	seq, err = s.append(signer.Record{Kind: signer.RecordSign, Sign: &signer.SignBody{
		IntentID: i.ID, With: r.With, Slot: r.Slot, Act: r.Act, Payload: r.Payload, Digest: digest, Hash: hash, Proof: r.Proof,
	}})
	return raw, hash, seq, err
}

// check compares a payload with all that was said about it. Each of several intents is
// asked about by itself.
func (s *Signer) check(all []*intent, r signer.SignRequest) error {
	lead := all[0]
	policy, ok := s.conf.Policy.Chains[lead.Chain]
	if !ok {
		return refuse(signer.RefusedNotConfigured, "the policy does not name chain %q any more", lead.Chain)
	}
	if r.Act == signer.Pay {
		for _, i := range all {
			if no := s.index.live(i.ID); no != nil {
				return no
			}
		}
	}
	does, err := s.matches(all, r, policy)
	if err != nil {
		return err
	}
	if r.Act == signer.Pay && !lead.pays() {
		for _, i := range all {
			if no := policy.within(i.Intent); no != nil {
				return no
			}
			if _, gone := s.index.revoked[i.WhitelistedID]; gone {
				return refuse(signer.PolicyLimit, "address %s, which payment %s goes to, was taken from the whitelist since it was admitted", i.WhitelistedID, i.ID)
			}
		}
	}
	fee := does.costs
	if policy.FeeMax.Less(fee) {
		return refuse(signer.RefusedFee, "the payload of intent %s may cost %v, and the policy's feeMax on %s is %v", lead.ID, fee, lead.Chain, policy.FeeMax)
	}
	if r.Act == signer.Pay {
		part := signer.Part(fee, len(all))
		for _, i := range all {
			if !i.FeeMax.IsZero() && i.FeeMax.Less(part) {
				return refuse(signer.RefusedFee, "the payload of intent %s may cost %v, and it was admitted for a fee of at most %v", i.ID, part, i.FeeMax)
			}
		}
	}
	if more := lead.adds(fee); !more.IsZero() {
		now, ahead := s.time()
		if ahead > 0 && policy.feeDay() != nil {
			return s.unconfirmed(ahead)
		}
		if no := s.index.fees.allow(policy, account{s.index.wallets[lead.Account()].address, lead.Chain}, more, now); no != nil {
			return no
		}
	}
	return nil
}

func digestOf(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:])
}

// matches takes a payload apart and finds nothing in it but what was admitted.
func (s *Signer) matches(all []*intent, r signer.SignRequest, policy ChainPolicy) (deed, error) {
	i := all[0]
	payer := s.index.wallets[i.Account()].address
	if err := s.index.mayTake(all, payer, r.Slot); err != nil {
		return deed{}, err
	}
	does, err := families[i.Chain.Family()].read(r.Payload)
	switch {
	case err != nil:
		return does, refuse(signer.RefusedPayload, "the payload of intent %s: %v", i.ID, err)
	case does.network != "" && does.network != policy.SignerID:
		return does, refuse(signer.RefusedPayload, "the payload of intent %s is for chain id %s, and %s is %s", i.ID, does.network, i.Chain, policy.SignerID)
	case !does.in(r.Slot):
		return does, refuse(signer.RefusedPayload, "the payload of intent %s has %v, and its slot is %v", i.ID, does.slot, r.Slot)
	case does.payer != "" && does.payer != payer:
		return does, refuse(signer.RefusedPayload, "the fee of intent %s is paid by %s, and by %s in its payload", i.ID, payer, does.payer)
	}
	if err := does.proven(r.Proof); err != nil {
		return does, refuse(signer.RefusedPayload, "more than one transaction in the slot of intent %s could be mined: %v", i.ID, err)
	}
	if err := s.spends(i, does.coins); err != nil {
		return does, err
	}
	if slices.ContainsFunc(all, func(o *intent) bool { return o.Purpose == signer.Merge }) {
		return does, s.merges(all, does, policy, payer)
	}
	if r.Act == signer.Cancel {
		if err := does.cancels(payer); err != nil {
			return does, refuse(signer.RefusedPayload, "the cancel of intent %s: %v", i.ID, err)
		}
		return does, nil
	}
	payments := make([]chain.Payment, len(all))
	for n, o := range all {
		payments[n] = chain.Payment{From: s.index.wallets[o.From].address, To: o.To, Contract: o.Contract, Amount: o.Amount, Place: o.Purpose == signer.Place, Close: o.Purpose == signer.Close}
	}
	if err := does.pays(payments...); err != nil {
		if len(all) > 1 {
			return does, refuse(signer.RefusedPayload, "the payload of intent %s with %q does not make just their payments: %v", i.ID, r.With, err)
		}
		return does, refuse(signer.RefusedPayload, "the payload of intent %s is another payment than %v of %q to %s, which was admitted: %v",
			i.ID, i.Amount, i.Contract, i.To, err)
	}
	return does, nil
}

// merges finds that a payload makes of coins one, for itself alone and at a rate that is
// worth it. Nobody is paid, so what it costs is all that somebody could lose by it: it has
// a limit of its own, far below that of what has to be paid in time. A cancel of it does the same.
func (s *Signer) merges(all []*intent, does deed, policy ChainPolicy, payer chain.Address) error {
	i := all[0]
	if len(all) > 1 {
		return refuse(signer.RefusedIntent, "merge %s shares its transaction with others, and nothing is paid by one", i.ID)
	}
	if does.coins == nil || does.coins.change != i.To {
		return refuse(signer.RefusedDestination, "the coins of merge %s do not go to the wallet that it was admitted for, %s", i.ID, i.To)
	}
	if err := does.cancels(payer); err != nil {
		return refuse(signer.RefusedPayload, "the payload of merge %s does not give all of its coins back: %v", i.ID, err)
	}
	most, err := policy.MergeRate().Mul(does.size)
	if err == nil {
		most, err = most.Add(money.Units(sizeUnit - 1)) // a fee is rounded up
	}
	if cost, no := does.costs.Mul(sizeUnit); does.size == 0 || no != nil || err == nil && most.Less(cost) {
		return refuse(signer.RefusedFee, "merge %s costs %v for %d virtual bytes, and mergeRateMax of the policy on %s is %v for a thousand",
			i.ID, does.costs, does.size, i.Chain, policy.MergeRate())
	}
	return nil
}

// sizeUnit is how many virtual bytes a rate is for.
const sizeUnit = 1000

// Entries are the entries on disk after a sequence number, at most 1000.
func (s *Signer) Entries(ctx context.Context, after uint64, limit int) ([]signer.Entry, error) {
	last, err := s.journal.place()
	if err != nil {
		return nil, err
	}
	if limit <= 0 || limit > entriesMax {
		limit = entriesMax
	}
	var out []signer.Entry
	for seq := after + 1; after < last && seq <= last && len(out) < limit; seq++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e, err := s.journal.entry(seq)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// Head is the last entry on disk.
func (s *Signer) Head(ctx context.Context) (signer.Head, error) {
	if err := ctx.Err(); err != nil {
		return signer.Head{}, err
	}
	s.mu.Lock()
	s.seen(false)
	s.mu.Unlock()
	last, err := s.journal.place()
	if err != nil {
		return signer.Head{}, err
	}
	e, err := s.journal.entry(last)
	if err != nil {
		return signer.Head{}, err
	}
	return e.Head(), nil
}

// word tells whether a text can be written to the journal and to PostgreSQL and read
// back the same.
func word(s string) bool {
	return s != "" && len(s) <= wordBytesMax && utf8.ValidString(s) && !strings.Contains(s, "\x00")
}

func checkRef(w signer.WalletRef) *signer.Refusal {
	switch {
	case families[w.Family] == nil:
		return refuse(signer.RefusedNotConfigured, "this signer has no keys for family %q", w.Family)
	case !word(w.OrgID):
		return refuse(signer.RefusedMalformed, "orgId: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	case !word(w.Purpose):
		return refuse(signer.RefusedMalformed, "purpose: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	case w.Purpose == change && w.Family != chain.BitcoinFamily:
		return refuse(signer.RefusedMalformed, "purpose: nothing is left over on family %s, so no wallet is for change", w.Family)
	case w.Purpose == treasury && w.Subject != "":
		return refuse(signer.RefusedMalformed, "subject: a treasury has none")
	case w.Form != chain.Usual && (w.Family != chain.BitcoinFamily || w.Form != chain.Taproot):
		return refuse(signer.RefusedMalformed, "form: family %s has no addresses of form %q", w.Family, w.Form)
	case w.Form != chain.Usual && (w.Purpose == treasury || w.Purpose == change):
		return refuse(signer.RefusedMalformed, "form: a wallet for %s has none", w.Purpose)
	case w.Purpose != treasury && !word(w.Subject):
		return refuse(signer.RefusedMalformed, "subject: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	}
	return nil
}

// purposes are those that this signer knows.
var purposes = []signer.Purpose{signer.Payment, signer.Return, signer.Sweep, signer.Gas, signer.Merge, signer.Place, signer.Close}

func checkIntent(i signer.Intent) *signer.Refusal {
	if no := checkRef(i.From); no != nil {
		no.Message = "from." + no.Message
		return no
	}
	if i.ToWallet != nil {
		if no := checkRef(*i.ToWallet); no != nil {
			no.Message = "toWallet." + no.Message
			return no
		}
	}
	if i.Payer != nil {
		if no := checkRef(*i.Payer); no != nil {
			no.Message = "payer." + no.Message
			return no
		}
	}
	canonical := families[i.From.Family].canonical
	short := func(s string) bool { return s == "" || word(s) }
	switch {
	case !word(i.ID):
		return refuse(signer.RefusedMalformed, "id: give 1 to %d bytes of UTF-8 without NUL", wordBytesMax)
	case !slices.Contains(purposes, i.Purpose):
		return refuse(signer.RefusedMalformed, "purpose: got %q, want one of %s", i.Purpose, purposes)
	case i.Purpose == signer.Merge && (!i.Amount.IsZero() || i.CustomerID != "" || i.IdempotencyKeyHash != "" || !i.FeeDeducted.IsZero()):
		return refuse(signer.RefusedMalformed, "amount: a %s pays nobody, for nobody", i.Purpose)
	case i.Holds != nil && i.Purpose != signer.Sweep:
		return refuse(signer.RefusedMalformed, "holds: a %s has none", i.Purpose)
	case i.Chain.Family() != i.From.Family:
		return refuse(signer.RefusedMalformed, "chain: %q is not of family %s", i.Chain, i.From.Family)
	case !canonical(i.To):
		return refuse(signer.RefusedMalformed, "to: %q is no address in its canonical form", i.To)
	case i.Contract != "" && !canonical(i.Contract):
		return refuse(signer.RefusedMalformed, "contract: %q is no address in its canonical form", i.Contract)
	case i.Contract != "" && i.Chain.Family() == chain.BitcoinFamily:
		return refuse(signer.RefusedMalformed, "contract: there are no tokens on %s", i.Chain)
	case i.Contract == i.To:
		return refuse(signer.RefusedDestination, "to: %s is the token's own contract", i.To)
	case i.Amount.IsZero() && i.Purpose != signer.Merge:
		return refuse(signer.RefusedMalformed, "amount: nothing cannot be paid")
	case i.WhitelistedID != "" && (i.Purpose != signer.Payment || i.CustomerID != ""):
		return refuse(signer.RefusedMalformed, "whitelistedId: a payment of an organization has one, and nothing else")
	case i.Product != "" && i.WhitelistedID == "":
		return refuse(signer.RefusedMalformed, "product: a payment of an organization has one, and nothing else")
	case !short(i.WhitelistedID) || !short(i.Product):
		return refuse(signer.RefusedMalformed, "whitelistedId, product: give at most %d bytes of UTF-8 without NUL", wordBytesMax)
	case !short(i.CustomerID) || !short(i.IdempotencyKeyHash):
		return refuse(signer.RefusedMalformed, "customerId, idempotencyKeyHash: give at most %d bytes of UTF-8 without NUL", wordBytesMax)
	}
	return nil
}

// same tells whether two intents have the same words.
func same(a, b signer.Intent) bool {
	other := func(a, b *signer.WalletRef) bool { return (a == nil) != (b == nil) || a != nil && *a != *b }
	if other(a.ToWallet, b.ToWallet) || other(a.Payer, b.Payer) {
		return false
	}
	a.ToWallet, b.ToWallet, a.Payer, b.Payer, a.Grant, b.Grant = nil, nil, nil, nil, nil, nil
	return a == b
}
