// Package approvers remembers the passkeys of approvers and the rules of organizations, as the journal records them.
// It says which payments need signatures of people, and whether signatures are enough.
//
// People are counted, not passkeys, and a person is an e-mail address as those read it who admitted the passkey. A
// rule loosens only after a cooling-off, and a passkey counts only after one. A retirement is permanent, also of a
// passkey that was never enrolled. Nothing here believes the server: a statement is built from the intent.
package approvers

import (
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/signer/window"
)

// Book holds the passkeys, the retirements and the rules of a journal. Only its entries build it.
type Book struct {
	keys        map[string]*key   // by the id of the enrolment
	credentials map[string]string // the id of the enrolment by the credential's id
	retired     map[string]retirement
	rules       map[string][]*rule        // by organization, in the order of their versions
	unsigned    window.Totals[assetOfOrg] // what was paid without people
}

type key struct {
	signer.EnrolBody
	seq                    uint64
	enrolledAt, usableTime time.Time
}

type rule struct {
	signer.RuleBody
	seq        uint64
	usableTime time.Time
}

type retirement struct {
	org string
	seq uint64
}

type assetOfOrg struct {
	org      string
	chain    chain.Name
	contract chain.Address
}

// Situation is what a decision depends on beside the journal's entries.
type Situation struct {
	Now       time.Time
	Ahead     time.Duration // how much further the system's clock is than the journal's time may follow
	AdoptedAt time.Time     // of a journal that continues a lost one
	AttestKey keys.AttestKey
	Grants    *signer.GrantKey
	Policy    signpolicy.Policy
	IsRescue  bool // a person saves funds with the seed alone
}

func (s Situation) installation() string { return hex.EncodeToString(s.AttestKey.PublicKey()) }

// NewBook returns the book of an empty journal.
func NewBook() *Book {
	return &Book{
		keys: map[string]*key{}, credentials: map[string]string{}, retired: map[string]retirement{},
		rules: map[string][]*rule{}, unsigned: window.Totals[assetOfOrg]{},
	}
}

// Enrol adds an entry. An error says that the journal contradicts itself.
func (b *Book) Enrol(seq uint64, recordedAt time.Time, e signer.EnrolBody) error {
	if b.keys[e.ID] != nil {
		return fmt.Errorf("passkey %s was already enrolled", e.ID)
	}
	if _, isRetired := b.retired[e.ID]; isRetired {
		return fmt.Errorf("passkey %s was retired before it was enrolled", e.ID)
	}
	if earlier, twice := b.credentials[string(e.CredentialID)]; twice {
		return fmt.Errorf("passkey %s has the credential of %s", e.ID, earlier)
	}
	usableFrom, err := time.Parse(time.RFC3339Nano, e.UsableFrom)
	if err != nil {
		return fmt.Errorf("passkey %s is usable from no time on: %w", e.ID, err)
	}
	b.keys[e.ID] = &key{e, seq, recordedAt, usableFrom}
	b.credentials[string(e.CredentialID)] = e.ID
	return nil
}

// Retire adds an entry. An error says that the journal contradicts itself.
func (b *Book) Retire(seq uint64, r signer.Retirement) error {
	if _, twice := b.retired[r.ID]; twice {
		return fmt.Errorf("passkey %s was already retired", r.ID)
	}
	b.retired[r.ID] = retirement{r.OrgID, seq}
	return nil
}

// SetRule adds an entry. An error says that the journal contradicts itself. The copy of a lost journal may lack a
// version.
func (b *Book) SetRule(seq uint64, r signer.RuleBody) error {
	newest := b.newest(r.OrgID)
	if newest != nil && r.Version <= newest.Version {
		return fmt.Errorf("version %d of the rule of %s comes after version %d", r.Version, r.OrgID, newest.Version)
	}
	usableFrom, err := time.Parse(time.RFC3339Nano, r.UsableFrom)
	if err != nil {
		return fmt.Errorf("version %d of the rule of %s holds from no time on: %w", r.Version, r.OrgID, err)
	}
	b.rules[r.OrgID] = append(b.rules[r.OrgID], &rule{r, seq, usableFrom})
	return nil
}

// Count counts a payment that was admitted without signatures.
func (b *Book) Count(intent signer.Intent, admittedAt time.Time) {
	if intent.Kind().People != signer.PeopleNever && (intent.Grant == nil || len(intent.Grant.Consents) == 0) {
		b.unsigned.Add(assetOf(intent), total(intent), admittedAt)
	}
}

// Clear forgets what was paid without people, to be counted anew.
func (b *Book) Clear() { clear(b.unsigned) }

// Redate changes the times at which passkeys count as enrolled.
func (b *Book) Redate(change func(time.Time) time.Time) {
	for _, k := range b.keys {
		k.enrolledAt = change(k.enrolledAt)
	}
}

func assetOf(intent signer.Intent) assetOfOrg {
	return assetOfOrg{intent.From.OrgID, intent.Chain, intent.Contract}
}

// total is what the payer pays: the amount and the deducted fee.
func total(intent signer.Intent) money.Amount {
	sum, err := intent.Amount.Add(intent.FeeDeducted)
	if err != nil {
		return window.AmountMax
	}
	return sum
}

func (b *Book) newest(org string) *rule {
	if rules := b.rules[org]; len(rules) > 0 {
		return rules[len(rules)-1]
	}
	return nil
}

// effective returns the rule that holds now, or nil. The newest version that no longer cools off holds.
func (b *Book) effective(org string, s Situation) *rule {
	for _, r := range slices.Backward(b.rules[org]) {
		usableFrom := r.usableTime
		if afterAdoption := s.AdoptedAt.Add(s.coolingOff()); r.Loosens && usableFrom.Before(afterAdoption) {
			usableFrom = afterAdoption // the copy may lack a version that tightened again
		}
		if !s.Now.Before(usableFrom) {
			return r
		}
	}
	return nil
}

func (s Situation) coolingOff() time.Duration {
	return s.Policy.EffectiveApprovers().KeyCoolingOff(false)
}

// usableFrom returns when a passkey counts: after its own cooling-off, and after the present one since its enrolment
// or a later adoption of the journal.
func (k *key) usableFrom(s Situation) time.Time {
	startedAt := k.enrolledAt
	if startedAt.Before(s.AdoptedAt) {
		startedAt = s.AdoptedAt
	}
	if usableFrom := startedAt.Add(s.coolingOff()); k.usableTime.Before(usableFrom) {
		return usableFrom
	}
	return k.usableTime
}

func (b *Book) isRetired(id string) bool {
	_, isRetired := b.retired[id]
	return isRetired
}

// people returns the people of an organization who have a passkey with a right that was not retired, those that cool
// off included, and without the passkey skippedID.
func (b *Book) people(org string, right signer.Right, skippedID string) map[string]bool {
	people := map[string]bool{}
	for id, k := range b.keys {
		if k.OrgID == org && k.Right == right && id != skippedID && !b.isRetired(id) {
			people[k.EmailHash] = true
		}
	}
	return people
}

// hasRule reports whether a rule of an organization holds or will hold.
func (b *Book) hasRule(org string, s Situation) bool {
	effective, newest := b.effective(org, s), b.newest(org)
	return effective != nil && effective.Quorum > 0 || newest != nil && newest.Quorum > 0
}

// Required returns how many people have to sign a payment: 0 for one that no rule covers.
func (b *Book) Required(intent signer.Intent, s Situation) int {
	_, people := b.requiredOf(intent, s)
	return people
}

// requiredOf returns how many people have to sign a payment, and of which organization. A redirect is the operators'
// act: their rule decides about it where they have one. Rule SA-17.
func (b *Book) requiredOf(intent signer.Intent, s Situation) (org string, people int) {
	if intent.Kind().People == signer.PeopleNever {
		return "", 0
	}
	if quorum := b.operatorQuorum(s); intent.Redirect() != nil && quorum > 0 {
		return signer.Operators, quorum
	}
	org = intent.From.OrgID
	r := b.effective(org, s)
	if r == nil {
		return org, 0
	}
	return org, r.PeopleFor(intent, b.unsigned.SumWithin(assetOf(intent), s.Now))
}

// operatorQuorum returns how many operators have to sign by the rule that holds; 0 without one.
func (b *Book) operatorQuorum(s Situation) int {
	if r := b.effective(signer.Operators, s); r != nil {
		return r.Quorum
	}
	return 0
}

// dependsOnTime reports whether the time decides if a payment needs signatures, or if they are still valid.
func (b *Book) dependsOnTime(intent signer.Intent) bool {
	return intent.Kind().People != signer.PeopleNever && (len(b.rules[intent.From.OrgID]) > 0 ||
		intent.Redirect() != nil && len(b.rules[signer.Operators]) > 0)
}

// CheckPayment refuses a payment that lacks signatures of people, and returns those that it has. The grant's MACs were
// checked before. Rule SA-1.
func (b *Book) CheckPayment(intent signer.Intent, s Situation) ([]signer.Consent, *signer.Refusal) {
	org, required := b.requiredOf(intent, s)
	if required == 0 {
		return nil, nil
	}
	refuse := func(format string, args ...any) *signer.Refusal {
		return signer.Refuse(signer.RefusedSignature, "%s %s "+format,
			append([]any{intent.Kind().Noun, intent.ID}, args...)...)
	}
	if intent.Redirect() != nil && org != signer.Operators {
		return nil, refuse("pays another address than the sender of its deposit, which only operators sign, and they " +
			"have no rule")
	}
	var consents []signer.Consent
	people := map[string]bool{}
	network := s.Policy.Chains[intent.Chain]
	statement := func(c signer.StatementContext) signer.Statement {
		return intent.Statement(network.SignerID, network.Token(intent.Contract), c)
	}
	var approvals []signer.Approval
	if intent.Grant != nil {
		approvals = intent.Grant.Approvals
	}
	for _, a := range approvals {
		if a.Signature == nil {
			continue
		}
		k, err := b.verify(*a.Signature, org, signer.RightApprove, s, statement)
		switch {
		case err != nil:
			return nil, refuse("has a signature by %.80q that is not valid: %v", a.Approver, err)
		case k.Person != a.Approver:
			return nil, refuse("has a signature by %.80q with the passkey of %.80q", a.Approver, k.Person)
		case k.Person == intent.MadeBy():
			return nil, refuse("has a signature by %.80q, who made it", a.Approver)
		}
		people[k.EmailHash] = true
		consents = append(consents, signer.Consent{KeyID: k.ID, SignatureHash: a.Signature.Hash()})
	}
	if len(people) < required {
		return nil, refuse("needs the signatures of %d people and has those of %d", required, len(people))
	}
	return consents, nil
}

// CheckEndorsement refuses an address that lacks the signatures that the operators' rule asks for, and returns those
// that it has. Rule SA-18.
func (b *Book) CheckEndorsement(e signer.Endorsement, s Situation) ([]signer.Consent, *signer.Refusal) {
	required := b.operatorQuorum(s)
	if s.IsRescue || required == 0 {
		return nil, nil
	}
	refuse := func(format string, args ...any) *signer.Refusal {
		return signer.Refuse(signer.RefusedSignature, "address %s "+format, append([]any{e.ID}, args...)...)
	}
	if len(e.SignedBy) > 0 && signer.HashLabel(e.Label) != e.LabelHash {
		return nil, refuse("comes with another label than the one that its hash is of")
	}
	var consents []signer.Consent
	people := map[string]bool{}
	for _, signature := range e.SignedBy {
		k, err := b.verify(signature, signer.Operators, signer.RightApprove, s,
			func(c signer.StatementContext) signer.Statement { return signer.EndorseStatement(e, c) })
		if err != nil {
			return nil, refuse("has a signature that is not valid: %v", err)
		}
		people[k.EmailHash] = true
		consents = append(consents, signer.Consent{KeyID: k.ID, SignatureHash: signature.Hash()})
	}
	if len(people) < required {
		return nil, refuse("needs the signatures of %d operators and has those of %d", required, len(people))
	}
	return consents, nil
}

// verify returns the passkey of a signature that is valid now for a statement.
func (b *Book) verify(
	signature signer.KeySignature, org string, right signer.Right, s Situation,
	statement func(signer.StatementContext) signer.Statement,
) (*key, error) {
	k := b.keys[signature.KeyID]
	if k == nil || k.OrgID != org {
		return nil, fmt.Errorf("passkey %.80q was never enrolled for this organization", signature.KeyID)
	}
	if r, isRetired := b.retired[k.ID]; isRetired {
		return nil, fmt.Errorf("passkey %s was retired in entry %d", k.ID, r.seq)
	}
	if k.Right != right {
		return nil, fmt.Errorf("passkey %s has the right %s and not %s", k.ID, k.Right, right)
	}
	if usableFrom := k.usableFrom(s); s.Now.Before(usableFrom) {
		return nil, fmt.Errorf("passkey %s is usable from %s on", k.ID, signer.FormatTime(usableFrom))
	}
	return k, verifyStatement(signature, k.Enrolment, s, statement)
}

// verifyStatement checks the passkey's signature itself: words, page and time. Rule SA-7.
func verifyStatement(
	signature signer.KeySignature, e signer.Enrolment, s Situation,
	statement func(signer.StatementContext) signer.Statement,
) error {
	policy := s.Policy.EffectiveApprovers()
	if !policy.Allows(e.RPID, e.Origin) {
		return fmt.Errorf("approvers.relyingParties of the policy does not name %.200q with the page %.200q", e.RPID,
			e.Origin)
	}
	notAfter, err := time.Parse(time.RFC3339Nano, signature.NotAfter)
	switch {
	case err != nil || signer.FormatMicros(notAfter) != signature.NotAfter:
		return fmt.Errorf("it has no end: give a time of RFC 3339 in UTC, to the microsecond")
	case !s.Now.Before(notAfter):
		return fmt.Errorf("it ended at %s", signature.NotAfter)
	case notAfter.Sub(s.Now) > policy.SignatureMax():
		return fmt.Errorf("it ends at %s, which is more than %s from now", signature.NotAfter, policy.SignatureMax())
	}
	c := signer.StatementContext{Installation: s.installation(), Approver: e.Person, NotAfter: signature.NotAfter}
	return signature.Verify(e.Passkey(), statement(c))
}
