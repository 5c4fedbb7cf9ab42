// Package local runs the signer in this process. It puts the decisions of package rules in one order,
// journals each before its answer leaves, and keeps the files: the journal, its clock and the anchors
// of the audit log.
//
// It never allows:
//   - a signature that leaves before its journal entry is on disk
//   - a decision between the check of another one and its place in the journal
//   - a second process on one journal
//   - a secret in an error
//
// A crash leaves a journal whose last entries the caller may not know, or a torn last line that was
// never acknowledged and that is cut off.
package local

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/anchor"
	"github.com/cofferpay/coffer/internal/signer/clock"
	"github.com/cofferpay/coffer/internal/signer/journalfile"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/rules"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/signer/syntax"
)

// Config configures a local signer; the seed is separate.
type Config struct {
	Journal string            // path of the journal file
	Policy  signpolicy.Policy // what is allowed
	// Grants checks the grants of payments; nil requires none, as in tests of other parts.
	Grants *signer.GrantKey
	Clock  func() time.Time // nil means time.Now
	// Elapsed returns the time since a fixed moment, by a clock that cannot be set. nil means the
	// system's monotonic clock if Clock is nil too, and otherwise the forward steps of Clock.
	Elapsed func() time.Duration
	// Log has a line about each payment that people signed; nil means slog.Default.
	Log *slog.Logger
	// Rescue allows what a person needs who saves funds with the seed alone: see rules.Config. A
	// service never sets it.
	Rescue bool
}

func (c Config) newEngine(seed keys.Seed) *rules.Engine {
	return rules.New(rules.Config{Policy: c.Policy, Grants: c.Grants, Rescue: c.Rescue}, seed)
}

func (c Config) currentTime() time.Time {
	if c.Clock == nil {
		return time.Now()
	}
	return c.Clock()
}

func (c Config) openClock(head signer.Head, confirmed uint64, last time.Time) *clock.Clock {
	return clock.Open(clock.Config{
		System: c.currentTime, Elapsed: c.Elapsed, IsTrusted: c.Rescue || c.Clock != nil && c.Elapsed == nil,
		Journal: c.Journal,
	}, head, confirmed, last)
}

// Signer implements signer.Signer. It prints nothing of its keys.
type Signer struct {
	conf Config

	// mu makes the check of the rules and the reservation of a journal position one step. The wait
	// for the disk happens without it.
	mu      sync.Mutex
	rules   *rules.Engine
	journal *journalfile.File
	clock   *clock.Clock

	installation string // hex of the attestation key

	*anchors // answers about anchors by itself, with a lock of its own
}

type anchors = anchor.File

var _ signer.Signer = (*Signer)(nil)

// CreateJournal creates the journal of an installation that has none. It refuses to replace a file.
// Only a deliberate act of the operator calls it: a signer that lost its journal and starts an
// empty one would pay again what was paid.
func CreateJournal(conf Config, seed keys.Seed) error {
	return journalfile.Create(conf.Journal, conf.currentTime(),
		signer.Record{AttestKey: attestKeyHex(seed)})
}

func attestKeyHex(seed keys.Seed) string { return hex.EncodeToString(seed.AttestKey().PublicKey()) }

// Open checks the policy, locks the journal and reads all of it. Errors: those of package
// journalfile, or a journal of another seed.
func Open(conf Config, seed keys.Seed) (*Signer, error) {
	if err := conf.Policy.Validate(); err != nil {
		return nil, err
	}
	s := &Signer{conf: conf, rules: conf.newEngine(seed), installation: attestKeyHex(seed)}
	var err error
	if s.journal, err = journalfile.Open(conf.Journal, s.rules.Apply); err != nil {
		return nil, err
	}
	if got, want := s.rules.Genesis().AttestKey, attestKeyHex(seed); got != want {
		err := fmt.Errorf("the journal %s belongs to the seed with attestation key %s, and this seed has %s: use the "+
			"key file that belongs to the journal", conf.Journal, got, want)
		return nil, errors.Join(err, s.journal.Close())
	}
	s.clock = conf.openClock(s.journal.Head(), s.rules.ClockSeq(), s.journal.LastTime())
	if s.anchors, err = anchor.Open(conf.Journal, seed.AttestKey(), conf.currentTime); err != nil {
		return nil, errors.Join(err, s.journal.Close())
	}
	return s, nil
}

// Close waits for a write in progress and unlocks the journal.
func (s *Signer) Close() error {
	err := s.anchors.Close(func() { s.noteTime(true) })
	return errors.Join(err, s.journal.Close())
}

// decide lets a rule decide about a request and reserves the place of its record in the journal, in
// one step. The entry is not on disk yet: nothing of the answer leaves before waitDurable. malformed
// is what package syntax says about the request.
func (s *Signer) decide(
	ctx context.Context, malformed *signer.Refusal, rule func(rules.Reading) (rules.Decision, error),
) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if malformed != nil {
		return 0, malformed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, ahead := s.clock.Now(s.journal.LastTime())
	d, err := rule(rules.Reading{Now: now, Ahead: ahead})
	if err != nil {
		return 0, err
	}
	if d.Record == nil {
		return d.Seq, nil
	}
	return s.appendRecord(now, *d.Record)
}

// appendRecord adds a record to the journal and to what the rules know. s.mu is held.
func (s *Signer) appendRecord(recordedAt time.Time, r signer.Record) (uint64, error) {
	seq, err := s.journal.Append(recordedAt, r)
	if err != nil {
		return 0, err
	}
	if err := s.rules.Apply(seq, recordedAt, r); err != nil {
		panic("local: the rules accept an entry that the index refuses: " + err.Error())
	}
	return seq, nil
}

// waitDurable waits until the entry of a decision is on disk, and returns it.
func (s *Signer) waitDurable(seq uint64, err error) (signer.Entry, error) {
	if err != nil {
		return signer.Entry{}, err
	}
	return s.journal.WaitDurable(seq)
}

// IssueAddress derives, attests and records the address of a wallet.
func (s *Signer) IssueAddress(ctx context.Context, w signer.WalletRef) (signer.IssuedAddress, error) {
	if err := ctx.Err(); err != nil {
		return signer.IssuedAddress{}, err
	}
	if refusal := syntax.CheckWallet(w); refusal != nil {
		return signer.IssuedAddress{}, refusal
	}
	issued, err := s.rules.DeriveAddress(w) // before the lock: deriving a key takes time
	if err != nil {
		return signer.IssuedAddress{}, err
	}
	issued.Entry, err = s.waitDurable(s.decide(ctx, nil, func(rules.Reading) (rules.Decision, error) {
		return s.rules.IssueAddress(issued)
	}))
	if err != nil {
		return signer.IssuedAddress{}, err
	}
	issued.Proof = s.rules.Attest(issued)
	return issued, nil
}

// AdmitIntent checks an intent against the policy and records it.
func (s *Signer) AdmitIntent(ctx context.Context, intent signer.Intent) (signer.Entry, error) {
	malformed := syntax.CheckIntent(intent)
	signatures := 0
	e, err := s.waitDurable(s.decide(ctx, malformed, func(reading rules.Reading) (rules.Decision, error) {
		d, err := s.rules.AdmitIntent(intent, reading)
		if err == nil && d.Record != nil && d.Record.Admit.Grant != nil {
			signatures = len(d.Record.Admit.Grant.Consents)
		}
		if err == nil && intent.Swap != nil {
			failpoint.Hit("Q06")
		}
		return d, err
	}))
	if err != nil {
		return signer.Entry{}, err
	}
	if signatures > 0 {
		s.logSigned(ctx, intent, signatures, e.Seq)
	}
	failpoint.Hit("W06")
	return e, nil
}

// logSigned writes the fingerprint that people compare with the page, the mail and the API. Rule SA-15.
func (s *Signer) logSigned(ctx context.Context, intent signer.Intent, signatures int, entry uint64) {
	log := s.conf.Log
	if log == nil {
		log = slog.Default()
	}
	log.InfoContext(ctx, "admitted a payment that people signed", "intent", intent.ID, "org", intent.From.OrgID,
		"fingerprint", intent.Terms().Fingerprint(), "signatures", signatures, "entry", entry)
}

// Sign decodes, checks and signs a payload. The bytes stay here until their entry is on disk.
func (s *Signer) Sign(ctx context.Context, r signer.SignRequest) (signer.SignedTx, error) {
	var signed signer.SignedTx
	seq, err := s.decide(ctx, syntax.CheckSignRequest(r), func(reading rules.Reading) (d rules.Decision, err error) {
		signed.Raw, signed.Hash, d, err = s.rules.Sign(r, reading)
		return d, err
	})
	if err != nil {
		return signer.SignedTx{}, err
	}
	failpoint.Hit("W10")
	signed.Entry, err = s.journal.WaitDurable(seq)
	if err != nil {
		return signer.SignedTx{}, err
	}
	failpoint.Hit("W11")
	return signed, nil
}

// EndorseAddress records an address to which an organization may pay out.
func (s *Signer) EndorseAddress(ctx context.Context, e signer.Endorsement) (signer.EndorsedAddress, error) {
	var endorsed signer.EndorsedAddress
	notBefore, malformed := syntax.CheckEndorsement(e)
	seq, err := s.decide(ctx, malformed, func(reading rules.Reading) (d rules.Decision, err error) {
		endorsed.EndorseBody, d, err = s.rules.EndorseAddress(e, notBefore, reading)
		return d, err
	})
	if endorsed.Entry, err = s.waitDurable(seq, err); err != nil {
		return signer.EndorsedAddress{}, err
	}
	return endorsed, nil
}

// RevokeEndorsement revokes an endorsement.
func (s *Signer) RevokeEndorsement(ctx context.Context, r signer.Revocation) (signer.Entry, error) {
	malformed := syntax.CheckIDs(r.OrgID, r.ID)
	return s.waitDurable(s.decide(ctx, malformed, func(rules.Reading) (rules.Decision, error) {
		return s.rules.RevokeEndorsement(r)
	}))
}

// VoidIntent records that a payment is never made.
func (s *Signer) VoidIntent(ctx context.Context, v signer.Void) (signer.Entry, error) {
	malformed := syntax.CheckIDs(v.OrgID, v.ID)
	seq, err := s.decide(ctx, malformed, func(rules.Reading) (rules.Decision, error) { return s.rules.VoidIntent(v) })
	if err != nil {
		return signer.Entry{}, err
	}
	failpoint.Hit("V02")
	e, err := s.journal.WaitDurable(seq)
	if err != nil {
		return signer.Entry{}, err
	}
	failpoint.Hit("V03")
	return e, nil
}

// noteTime writes the time to the clock file at intervals, or always with force.
func (s *Signer) noteTime(force bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock.Note(s.journal.Head(), s.journal.LastTime(), force)
}

// ClockStatus returns the state of the signer's time.
func (s *Signer) ClockStatus() clock.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.Status(s.journal.LastTime())
}

// ConfirmClock journals that a person at this host confirms the time; statedTime is what the person
// reads elsewhere. If the clock is ahead of the time that passed, the time continues from the
// clock. If entries are dated later, the clock was wrong when they were made, and they count as
// made now. It is not reachable over the network.
func (s *Signer) ConfirmClock(statedTime time.Time, reason string) (signer.Entry, error) {
	if refusal := syntax.CheckReason(reason); refusal != nil {
		return signer.Entry{}, refusal
	}
	status := s.ClockStatus()
	if err := status.CheckConfirmation(statedTime); err != nil {
		return signer.Entry{}, err
	}
	return s.waitDurable(s.recordClock(status.SystemTime, reason))
}

func (s *Signer) recordClock(confirmed time.Time, reason string) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seq, err := s.appendRecord(confirmed, signer.Record{
		Kind:  signer.RecordClock,
		Clock: &signer.ClockBody{Reason: reason},
	})
	if err != nil {
		return 0, err
	}
	s.clock = s.conf.openClock(s.journal.Head(), seq, confirmed)
	return seq, nil
}

// EntriesAfter returns the entries on disk after a sequence number, at most 1000.
func (s *Signer) EntriesAfter(ctx context.Context, afterSeq uint64, limit int) ([]signer.Entry, error) {
	return s.journal.EntriesAfter(ctx, afterSeq, limit)
}

// Head returns the head of the journal on disk.
func (s *Signer) Head(ctx context.Context) (signer.Head, error) {
	if err := ctx.Err(); err != nil {
		return signer.Head{}, err
	}
	s.noteTime(false)
	return s.journal.DurableHead()
}
