// Package approver keeps the passkeys with which people approve payments, and the rules that say when payments need
// them. The signer records both and remembers them on its own; the rows here are its mirror.
//
// A row is what people asked for; the signer's proof makes it a passkey or a rule. The row is committed before the
// signer is asked, under an id that the record keeps. So an interrupted request is repeated with the same values.
//
// The operators have passkeys and a rule like an organization, under the id signer.Operators. Only transactions of the
// system see them.
//
// Invariants:
//
//   - No passkey and no rule counts because of its row alone; its proof is checked.
//   - A row never changes what it says, and a retirement is permanent.
//   - A failed call of the signer is never taken for a refusal.
//
// A crash may leave a passkey, a retirement or a rule of which the signer has not heard, or whose answer is not
// written. RunMaintenance finishes all of them.
package approver

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/mail"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

const (
	keyPrefix      = "apk"
	proposalPrefix = "apr"
	operatorPrefix = "opr" // of an operator who signs in

	// SignatureMax is how far ahead a signature may end, as the signer's policy has it by default.
	SignatureMax = 24 * time.Hour
)

// ErrProof says that a row is not what the signer recorded. It needs a person's attention at once.
var ErrProof = signer.ErrEnrolment

// Status is the state of a passkey.
type Status string

// Statuses of a passkey. One that is refused or retired never comes back: the person enrols another one.
const (
	StatusWaiting    Status = "WAITING"     // not founded or admitted yet; the signer is asked again
	StatusCoolingOff Status = "COOLING_OFF" // it counts from UsableFrom on
	StatusUsable     Status = "USABLE"
	StatusRefused    Status = "REFUSED" // the signer refuses it, or the row is not what it recorded
	StatusRetired    Status = "RETIRED"
)

// Statuses lists all statuses.
var Statuses = []string{
	string(StatusWaiting), string(StatusCoolingOff), string(StatusUsable), string(StatusRefused),
	string(StatusRetired),
}

// Key is a passkey of a person.
type Key struct {
	ID                      string // apk_…
	OrgID                   string
	Person                  string // see PersonName
	Email                   string // see NormalizeEmail
	Right                   signer.Right
	CredentialID, PublicKey []byte
	RPID, Origin            string
	Possession              signer.KeySignature
	PossessionUntil         time.Time // until when the signer accepts it
	CreatedAt               time.Time
	WaitsFor                string // what the signer said last of a passkey that waits, or ""
	UsableFrom              *time.Time
	IsFounded               bool   // a person at the signer's host admitted it
	Refusal                 string // why the signer or this program refuses it, or ""
	RetiredAt               *time.Time
	RetiredBy               string
	RetireSignature         *signer.KeySignature
	RetireRefusal           string // why the signer keeps a retired passkey, or ""

	proof       []byte
	journalHead signer.Head // position of its record in the journal; without a hash
	retiredSeq  *int64
}

// Status returns the state of the passkey at a time.
func (k Key) Status(now time.Time) Status {
	switch {
	case k.RetiredAt != nil:
		return StatusRetired
	case k.Refusal != "":
		return StatusRefused
	case k.UsableFrom == nil:
		return StatusWaiting
	case now.Before(*k.UsableFrom):
		return StatusCoolingOff
	}
	return StatusUsable
}

// Enrolment returns what the signer records.
func (k Key) Enrolment() signer.Enrolment {
	return signer.Enrolment{
		OrgID: k.OrgID, ID: k.ID, Person: k.Person, Right: k.Right, CredentialID: k.CredentialID,
		PublicKey: k.PublicKey, RPID: k.RPID, Origin: k.Origin,
	}
}

// Request returns the request that enrols the passkey, without those who admit it.
func (k Key) Request() signer.EnrolRequest {
	return signer.EnrolRequest{Enrolment: k.Enrolment(), Email: k.Email, Possession: k.Possession}
}

// body returns what the signer recorded, as the row has it.
func (k Key) body() signer.EnrolBody {
	b := signer.EnrolBody{
		Enrolment: k.Enrolment(), EmailHash: signer.HashEmail(k.OrgID, k.Email), IsFounded: k.IsFounded, Proof: k.proof,
	}
	if k.UsableFrom != nil {
		b.UsableFrom = signer.FormatMicros(*k.UsableFrom)
	}
	return b
}

// Proposal is a rule that people proposed, and what the signer answered.
type Proposal struct {
	ID         string // apr_…
	Rule       signer.ApprovalRule
	ProposedBy string
	ProposedAt time.Time
	// AskedAt is when enough people had signed; from then on the signer may have recorded it.
	AskedAt     *time.Time
	WithdrawnAt *time.Time
	UsableFrom  *time.Time // nil until the signer recorded it
	Loosens     bool
	Refusal     string
	SignedBy    []string // the ids of the passkeys whose signatures have not ended, in the order of their ids

	consents    []signer.Consent
	proof       []byte
	journalHead signer.Head
}

// IsOpen reports whether people can sign the proposal or the signer has yet to answer.
func (p Proposal) IsOpen() bool {
	return p.WithdrawnAt == nil && p.Refusal == "" && p.UsableFrom == nil
}

func (p Proposal) body() signer.RuleBody {
	b := signer.RuleBody{ApprovalRule: p.Rule, Loosens: p.Loosens, SignedBy: p.consents, Proof: p.proof}
	if p.UsableFrom != nil {
		b.UsableFrom = signer.FormatMicros(*p.UsableFrom)
	}
	return b
}

// Mailer puts a mail into the outbox, in the transaction of the change that it tells about.
type Mailer interface {
	Queue(ctx context.Context, tx pg.Tx, m mail.Message) error
}

// Config holds the configuration of a Service.
type Config struct {
	AttestKey ed25519.PublicKey // from a file of the operator, never from the database
	GrantKey  *signer.GrantKey  // signs retirements for the signer; nil if it has no key of grants
	Mails     Mailer            // nil in an installation that sends no mail
	Chains    chain.Chains      // of which a rule may name assets
	// SignatureMax is how far ahead a signature may end; 0 is the constant of this name.
	SignatureMax time.Duration
}

// Service keeps passkeys and rules. It is safe for concurrent use.
type Service struct {
	db     *pg.DB
	signer signer.Signer
	conf   Config
	log    *slog.Logger
	words  atomic.Pointer[signer.Wording] // nil until the signer has said it
}

// New returns a Service. It panics on an invalid attestation key.
func New(db *pg.DB, s signer.Signer, conf Config, log *slog.Logger) *Service {
	if len(conf.AttestKey) != ed25519.PublicKeySize {
		panic("approver: the attestation key is not an ed25519 public key")
	}
	if conf.SignatureMax == 0 {
		conf.SignatureMax = SignatureMax
	}
	return &Service{db: db, signer: s, conf: conf, log: log}
}

// Installation returns the word of statements that names this installation.
func (s *Service) Installation() string { return hex.EncodeToString(s.conf.AttestKey) }

// Context returns what a statement says beside what it is about.
func (s *Service) Context(person, notAfter string) signer.StatementContext {
	return signer.StatementContext{Installation: s.Installation(), Approver: person, NotAfter: notAfter}
}

// AssetWords returns how the signer's policy names a network and writes the amounts of an asset; a nil token is written
// in atomic units. RunMaintenance asks the signer for it. Fault: UNAVAILABLE while the signer has not said it.
func (s *Service) AssetWords(name chain.Name, contract chain.Address) (network string, _ *signer.Token, _ error) {
	words := s.words.Load()
	if words == nil {
		return "", nil, fault.New(fault.Unavailable, fault.CodeUnavailable, fault.NothingWritten,
			"The signer has not answered yet how it writes this payment, so no one can sign it now.").
			WithAdvice("Try again in a minute. If it stays so, the signer does not answer: tell the operator.")
	}
	c := words.Chains[name]
	return c.Network, c.Token(contract), nil
}

// TakesKeysOf reports whether the signer's policy names a page with its relying party, so that the signer takes its
// passkeys. While the signer has not said it, the answer is yes.
func (s *Service) TakesKeysOf(rpID, origin string) bool {
	words := s.words.Load()
	return words == nil || slices.ContainsFunc(words.RelyingParties, func(p signer.RelyingParty) bool {
		return p.ID == rpID && slices.Contains(p.Origins, origin)
	})
}

// LoadWording asks the signer how it writes payments.
func (s *Service) LoadWording(ctx context.Context) error {
	words, err := s.signer.Wording(ctx)
	if err != nil {
		return fmt.Errorf("ask the signer how it writes payments: %w", err)
	}
	s.words.Store(&words)
	return nil
}

// PersonName returns the name by which approvals and passkeys know a person.
func PersonName(a audit.Actor) string { return a.Kind + " " + a.ID }

// NewKeyID returns the id of a passkey that a page is about to enrol. Its person signs it, so it exists before the row.
func NewKeyID(now time.Time) string { return id.New(keyPrefix, now) }

// NormalizeEmail returns the one form of an address by which the signer counts a person: lower case, printable ASCII.
// Fault: INVALID_REQUEST. Rule SA-9.
func NormalizeEmail(email string) (string, error) {
	email = strings.ToLower(strings.TrimSpace(email))
	name, host, ok := strings.Cut(email, "@")
	if !ok || name == "" || host == "" || strings.ContainsAny(host, "@") || len(email) > 254 ||
		strings.Contains(email, " ") || email != signer.EscapeText(email) {
		return "", fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"A person who approves needs an e-mail address in plain ASCII characters.").
			WithAdvice("Ask an owner of the organization for an invitation to another address.").WithParam("email")
	}
	return email, nil
}

// VerifyKey checks that a recorded passkey says exactly what the signer recorded. Error: ErrProof, which is also
// logged. Rule SA-8.
func (s *Service) VerifyKey(k Key) error {
	if k.UsableFrom == nil {
		return nil
	}
	if err := k.body().VerifyProof(s.conf.AttestKey); err != nil {
		s.log.Error(
			"the passkey of an approver differs from what the signer recorded: the database was changed by hand",
			"passkey", k.ID, "org", k.OrgID)
		return err
	}
	return nil
}

// verifyRule is VerifyKey for a rule.
func (s *Service) verifyRule(p Proposal) error {
	if p.UsableFrom == nil {
		return nil
	}
	if err := p.body().VerifyProof(s.conf.AttestKey); err != nil {
		s.log.Error("a rule on approvals differs from what the signer recorded: the database was changed by hand",
			"proposal", p.ID, "org", p.Rule.OrgID)
		return err
	}
	return nil
}

const keyColumns = `key_id, org_id, person, email, key_right, credential_id, public_key, rp_id, origin, possession,
	possession_until, created_at, coalesce(waits_for, ''), usable_from, is_founded, proof, coalesce(journal_id, ''),
	coalesce(journal_seq, 0), coalesce(refusal, ''), retired_at, coalesce(retired_by, ''), retire_signature,
	coalesce(retire_refusal, ''), retired_seq`

func scanKey(row pgx.CollectableRow) (k Key, err error) {
	var seq int64
	var possession, retire []byte
	err = row.Scan(&k.ID, &k.OrgID, &k.Person, &k.Email, &k.Right, &k.CredentialID, &k.PublicKey, &k.RPID, &k.Origin,
		&possession, &k.PossessionUntil, &k.CreatedAt, &k.WaitsFor, &k.UsableFrom, &k.IsFounded, &k.proof,
		&k.journalHead.JournalID, &seq, &k.Refusal, &k.RetiredAt, &k.RetiredBy, &retire, &k.RetireRefusal,
		&k.retiredSeq)
	if err != nil {
		return k, err
	}
	k.journalHead.Seq = uint64(seq)
	if err = json.Unmarshal(possession, &k.Possession); err == nil && retire != nil {
		err = json.Unmarshal(retire, &k.RetireSignature)
	}
	if err != nil {
		return k, fmt.Errorf("read the signatures of passkey %s: %w", k.ID, err)
	}
	return k, nil
}

// listKeys returns passkeys as their rows say, by their ids.
func listKeys(ctx context.Context, tx pg.Tx, condition string, args ...any) ([]Key, error) {
	rows, err := tx.Query(ctx, `SELECT `+keyColumns+` FROM approver_keys WHERE `+condition, args...)
	if err != nil {
		return nil, fmt.Errorf("list the passkeys of approvers: %w", err)
	}
	keys, err := pgx.CollectRows(rows, scanKey)
	if err != nil {
		return nil, fmt.Errorf("list the passkeys of approvers: %w", err)
	}
	return keys, nil
}

// ListKeys returns all passkeys of an organization, with the retired ones. One whose row is not what the signer
// recorded is shown as refused.
func (s *Service) ListKeys(ctx context.Context, tx pg.Tx, orgID string) ([]Key, error) {
	keys, err := listKeys(ctx, tx, `org_id = $1 ORDER BY created_at, key_id`, orgID)
	for n := range keys {
		if s.VerifyKey(keys[n]) != nil {
			keys[n].Refusal = "The row differs from what the signer recorded: the database was changed by hand."
		}
	}
	return keys, err
}

// ListWaiting returns the passkeys of all organizations that no one has founded or admitted yet and whose signatures
// have not ended, in a system transaction.
func (s *Service) ListWaiting(ctx context.Context, tx pg.Tx) ([]Key, error) {
	return listKeys(ctx, tx, `retired_at IS NULL AND proof IS NULL AND refusal IS NULL AND possession_until > $1
		ORDER BY created_at, key_id`, tx.Now)
}

// ByID returns a passkey of an organization. One whose row is not what the signer recorded is shown as refused. Fault:
// NOT_FOUND.
func (s *Service) ByID(ctx context.Context, tx pg.Tx, orgID, keyID string) (Key, error) {
	keys, err := s.ListKeys(ctx, tx, orgID)
	if err != nil {
		return Key{}, err
	}
	for _, k := range keys {
		if k.ID == keyID {
			return k, nil
		}
	}
	return Key{}, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"This organization does not have this passkey.").WithParam("keyId")
}

const proposalColumns = `proposal_id, rule, proposed_by, proposed_at, asked_at, withdrawn_at, usable_from,
	coalesce(loosens, false), consents, proof, coalesce(journal_id, ''), coalesce(journal_seq, 0),
	coalesce(refusal, ''),
	(SELECT coalesce(array_agg(DISTINCT g.by_key_id ORDER BY g.by_key_id), '{}') FROM approval_rule_signatures g
		WHERE g.proposal_id = r.proposal_id AND g.not_after > $1)`

func scanProposal(row pgx.CollectableRow) (p Proposal, err error) {
	var seq int64
	var rule, consents []byte
	err = row.Scan(&p.ID, &rule, &p.ProposedBy, &p.ProposedAt, &p.AskedAt, &p.WithdrawnAt, &p.UsableFrom, &p.Loosens,
		&consents, &p.proof, &p.journalHead.JournalID, &seq, &p.Refusal, &p.SignedBy)
	if err != nil {
		return p, err
	}
	p.journalHead.Seq = uint64(seq)
	if err = json.Unmarshal(rule, &p.Rule); err == nil && consents != nil {
		err = json.Unmarshal(consents, &p.consents)
	}
	if err != nil {
		return p, fmt.Errorf("read proposal %s of a rule on approvals: %w", p.ID, err)
	}
	return p, nil
}

func listProposals(ctx context.Context, tx pg.Tx, condition string, args ...any) ([]Proposal, error) {
	rows, err := tx.Query(ctx, `SELECT `+proposalColumns+` FROM approval_rules r WHERE `+condition,
		append([]any{tx.Now}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("list the rules on approvals: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanProposal)
	if err != nil {
		return nil, fmt.Errorf("list the rules on approvals: %w", err)
	}
	return found, nil
}

// ListRules returns all rules that people of an organization proposed, the newest first.
func (s *Service) ListRules(ctx context.Context, tx pg.Tx, orgID string) ([]Proposal, error) {
	return listProposals(ctx, tx, `org_id = $2 ORDER BY version DESC, proposed_at DESC, proposal_id DESC`, orgID)
}

// LoadRule returns the rule of an organization that holds now; nil without one. Error: ErrProof. Rule SA-8.
func (s *Service) LoadRule(ctx context.Context, tx pg.Tx, orgID string) (*signer.ApprovalRule, error) {
	effective, _, err := s.loadRules(ctx, tx, orgID)
	if err != nil || effective == nil || effective.Rule.Quorum == 0 {
		return nil, err
	}
	return &effective.Rule, nil
}

// LoadPendingRule returns the rule of an organization that was proposed or cools off; nil without one. Error: ErrProof.
func (s *Service) LoadPendingRule(ctx context.Context, tx pg.Tx, orgID string) (*Proposal, error) {
	effective, newest, err := s.loadRules(ctx, tx, orgID)
	if err != nil {
		return nil, err
	}
	open, err := listProposals(ctx, tx,
		`org_id = $2 AND proof IS NULL AND refusal IS NULL AND withdrawn_at IS NULL`, orgID)
	switch {
	case err != nil:
		return nil, err
	case len(open) > 0:
		return &open[0], nil
	case newest != nil && (effective == nil || newest.ID != effective.ID):
		return newest, nil
	}
	return nil, nil
}

// loadRules returns the recorded rule that holds now and the newest recorded one, nil where there is none.
func (s *Service) loadRules(ctx context.Context, tx pg.Tx, orgID string) (effective, newest *Proposal, _ error) {
	recorded, err := listProposals(ctx, tx, `org_id = $2 AND proof IS NOT NULL ORDER BY version DESC`, orgID)
	if err != nil {
		return nil, nil, err
	}
	for n := range recorded {
		p := &recorded[n]
		if err := s.verifyRule(*p); err != nil {
			return nil, nil, err
		}
		if newest == nil {
			newest = p
		}
		if !tx.Now.Before(*p.UsableFrom) {
			return p, newest, nil
		}
	}
	return nil, newest, nil
}

// CheckSignature refuses a signature that the signer would refuse: not by a passkey of this person with this right, not
// of these words, ended, or by a passkey that does not count. Fault: INVALID_REQUEST. Error: ErrProof. Rules SA-7 and
// SA-8.
func (s *Service) CheckSignature(
	ctx context.Context, tx pg.Tx, orgID, person string, right signer.Right, signature signer.KeySignature,
	statement func(signer.StatementContext) signer.Statement,
) error {
	_, err := s.checkSignature(ctx, tx, orgID, person, right, signature, statement)
	return err
}

func (s *Service) checkSignature(
	ctx context.Context, tx pg.Tx, orgID, person string, right signer.Right, signature signer.KeySignature,
	statement func(signer.StatementContext) signer.Statement,
) (Key, error) {
	found, err := listKeys(ctx, tx, `org_id = $1 AND key_id = $2`, orgID, signature.KeyID)
	if err != nil {
		return Key{}, err
	}
	if len(found) == 0 {
		return Key{}, refuseSignature("it is of a passkey that was never enrolled for this organization")
	}
	k := found[0]
	if err := s.VerifyKey(k); err != nil {
		return k, err
	}
	switch status := k.Status(tx.Now); {
	case k.Person != person:
		return k, refuseSignature("it is of another person's passkey")
	case right != "" && k.Right != right:
		return k, refuseSignature("the passkey is for %s and not for %s", rightWords[k.Right], rightWords[right])
	case status == StatusCoolingOff:
		return k, refuseSignature("the passkey counts from %s on", k.UsableFrom.UTC().Format(time.RFC3339))
	case status != StatusUsable:
		return k, refuseSignature("the passkey is %s", statusWords[status])
	}
	return k, s.verifyStatement(tx.Now, k.Enrolment(), signature, statement)
}

// LoadSigned returns a signature that was checked, with its words and its passkey, for the audit log. Rule SA-13.
func (s *Service) LoadSigned(
	ctx context.Context, tx pg.Tx, orgID string, signature signer.KeySignature,
	statement func(signer.StatementContext) signer.Statement,
) (*signer.SignedStatement, error) {
	found, err := listKeys(ctx, tx, `org_id = $1 AND key_id = $2`, orgID, signature.KeyID)
	if err != nil {
		return nil, err
	}
	k, err := find(found, signature.KeyID)
	if err != nil {
		return nil, err
	}
	return &signer.SignedStatement{
		Words: statement(s.Context(k.Person, signature.NotAfter)), Signature: signature, Passkey: k.body(),
	}, nil
}

var (
	rightWords  = map[signer.Right]string{signer.RightApprove: "payments", signer.RightEnrol: "people and rules"}
	statusWords = map[Status]string{
		StatusWaiting: "not admitted yet", StatusRefused: "refused by the signer", StatusRetired: "retired",
	}
)

func (s *Service) verifyStatement(
	now time.Time, e signer.Enrolment, signature signer.KeySignature,
	statement func(signer.StatementContext) signer.Statement,
) error {
	notAfter, err := parseEnd(signature)
	switch {
	case err != nil:
		return err
	case !now.Before(notAfter):
		return refuseSignature("it ended at %s", signature.NotAfter)
	case notAfter.Sub(now) > s.conf.SignatureMax:
		return refuseSignature("it ends at %s, which is more than %s from now", signature.NotAfter, s.conf.SignatureMax)
	}
	if err := signature.Verify(e.Passkey(), statement(s.Context(e.Person, signature.NotAfter))); err != nil {
		return refuseSignature("%v", err)
	}
	return nil
}

// parseEnd returns the end of a signature.
func parseEnd(signature signer.KeySignature) (time.Time, error) {
	notAfter, err := time.Parse(time.RFC3339Nano, signature.NotAfter)
	if err != nil || signer.FormatMicros(notAfter) != signature.NotAfter {
		return notAfter, refuseSignature("it has no end: give a time of RFC 3339 in UTC, to the microsecond")
	}
	return notAfter, nil
}

func refuseSignature(format string, args ...any) error {
	return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
		"The signature of the passkey is not valid: %s.", fmt.Sprintf(format, args...)).
		WithAdvice("Open the page again and sign what it shows.").WithParam("signature")
}
