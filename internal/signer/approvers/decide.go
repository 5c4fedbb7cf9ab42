package approvers

import (
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/limits"
)

// Decision is a record to journal or, without one, the entry that has it already.
type Decision struct {
	Record *signer.Record
	Seq    uint64
}

// Apply adds an entry about passkeys or rules. An error says that the journal contradicts itself.
func (b *Book) Apply(seq uint64, recordedAt time.Time, r signer.Record) error {
	switch {
	case r.Enrol != nil:
		return b.Enrol(seq, recordedAt, *r.Enrol)
	case r.Retire != nil:
		return b.Retire(seq, *r.Retire)
	case r.Rule != nil:
		return b.SetRule(seq, *r.Rule)
	}
	return fmt.Errorf("%q is no record about approvers", r.Kind)
}

// EnrolKey decides about a passkey, and signs that. isFounded says that a person at the signer's host named its
// fingerprint.
func (b *Book) EnrolKey(e signer.EnrolRequest, isFounded bool, s Situation) (signer.EnrolBody, Decision, error) {
	refused := func(err error) (signer.EnrolBody, Decision, error) { return signer.EnrolBody{}, Decision{}, err }
	existing, seq, ok, refusal := b.FindEnrolled(e)
	switch {
	case refusal != nil:
		return refused(refusal)
	case ok:
		return existing, Decision{Seq: seq}, nil
	case s.Ahead > 0: // a cooling-off that starts before the time is confirmed could be over at once
		return refused(limits.RefuseUnconfirmed(s.Ahead))
	}
	body, refusal := b.CheckEnrolment(e, isFounded, s)
	if refusal != nil {
		return refused(refusal)
	}
	body.Proof = s.AttestKey.SignEnrolment(body)
	return body, Decision{Record: &signer.Record{Kind: signer.RecordEnrol, Enrol: &body}}, nil
}

// RetireKey decides about the end of a passkey. isHost says that a person at the signer's host ends it.
func (b *Book) RetireKey(r signer.RetireRequest, isHost bool, s Situation) (Decision, error) {
	existing, ok, refusal := b.FindRetired(r.Retirement)
	switch {
	case refusal != nil:
		return Decision{}, refusal
	case ok:
		return Decision{Seq: existing}, nil
	}
	if refusal := b.CheckRetirement(r, s.Grants.VerifyRetirement(r), isHost, s); refusal != nil {
		return Decision{}, refusal
	}
	return Decision{Record: &signer.Record{Kind: signer.RecordRetire, Retire: &r.Retirement}}, nil
}

// ChangeRule decides about the next version of an organization's rule, and signs that.
func (b *Book) ChangeRule(r signer.RuleRequest, s Situation) (signer.RuleBody, Decision, error) {
	refused := func(err error) (signer.RuleBody, Decision, error) { return signer.RuleBody{}, Decision{}, err }
	existing, seq, ok, refusal := b.FindRule(r.ApprovalRule)
	switch {
	case refusal != nil:
		return refused(refusal)
	case ok:
		return existing, Decision{Seq: seq}, nil
	case s.Ahead > 0:
		return refused(limits.RefuseUnconfirmed(s.Ahead))
	}
	body, refusal := b.CheckRule(r, s)
	if refusal != nil {
		return refused(refusal)
	}
	body.Proof = s.AttestKey.SignRule(body)
	return body, Decision{Record: &signer.Record{Kind: signer.RecordRule, Rule: &body}}, nil
}

// AdmitPayment refuses a payment that lacks the signatures that the organization's rule asks for, and returns those
// that it has.
func (b *Book) AdmitPayment(intent signer.Intent, s Situation) ([]signer.Consent, error) {
	switch {
	case s.IsRescue || !b.dependsOnTime(intent):
		return nil, nil
	case s.Ahead > 0:
		return nil, limits.RefuseUnconfirmed(s.Ahead)
	case s.Grants == nil && b.Required(intent, s) > 0:
		// Without the key nothing ties a grant to its payment.
		return nil, signer.Refuse(signer.RefusedSignature, "%s %s needs signatures of people, and this signer has no "+
			"key of grants: give it approvals.key", intent.Kind().Noun, intent.ID)
	}
	consents, refusal := b.CheckPayment(intent, s)
	if refusal != nil {
		return nil, refusal
	}
	return consents, nil
}
