package rules

import (
	"encoding/hex"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/approvers"
	"github.com/cofferpay/coffer/internal/signer/limits"
)

func (eng *Engine) situation(reading Reading) approvers.Situation {
	return approvers.Situation{
		Now: reading.Now, AdoptedAt: eng.index.adoptedAt, Policy: eng.conf.Policy,
		Installation: hex.EncodeToString(eng.attestKey.PublicKey()),
	}
}

// checkPeople refuses a payment that lacks the signatures that the organization's rule asks for, and returns those
// that it has.
func (eng *Engine) checkPeople(intent signer.Intent, reading Reading) ([]signer.Consent, error) {
	if eng.conf.Rescue || !eng.index.approvers.DependsOnTime(intent) {
		return nil, nil
	}
	if reading.Ahead > 0 {
		return nil, limits.RefuseUnconfirmed(reading.Ahead)
	}
	s := eng.situation(reading)
	if eng.conf.Grants == nil && eng.index.approvers.Required(intent, s) > 0 {
		// Without the key nothing ties a grant to its payment.
		return nil, signer.Refuse(signer.RefusedSignature, "%s %s needs signatures of people, and this signer has no key "+
			"of grants: give it approvals.key", intent.Kind().Noun, intent.ID)
	}
	consents, refusal := eng.index.approvers.CheckPayment(intent, s)
	if refusal != nil {
		return nil, refusal
	}
	return consents, nil
}

// EnrolKey decides about a passkey of an approver, and signs that. isFounded says that a person at this host named its
// fingerprint.
func (eng *Engine) EnrolKey(
	e signer.EnrolRequest, isFounded bool, reading Reading,
) (signer.EnrolBody, Decision, error) {
	refused := func(err error) (signer.EnrolBody, Decision, error) { return signer.EnrolBody{}, Decision{}, err }
	existing, seq, ok, refusal := eng.index.approvers.FindEnrolled(e)
	if refusal != nil {
		return refused(refusal)
	}
	if ok {
		return existing, Decision{Seq: seq}, nil
	}
	if reading.Ahead > 0 {
		return refused(limits.RefuseUnconfirmed(reading.Ahead))
	}
	body, refusal := eng.index.approvers.CheckEnrolment(e, isFounded, eng.situation(reading))
	if refusal != nil {
		return refused(refusal)
	}
	body.Proof = eng.attestKey.SignEnrolment(body)
	return body, Decision{Record: &signer.Record{Kind: signer.RecordEnrol, Enrol: &body}}, nil
}

// RetireKey decides about the end of a passkey. isHost says that a person at this host ends it.
func (eng *Engine) RetireKey(r signer.RetireRequest, isHost bool, reading Reading) (Decision, error) {
	existing, ok, refusal := eng.index.approvers.FindRetired(r.Retirement)
	switch {
	case refusal != nil:
		return Decision{}, refusal
	case ok:
		return Decision{Seq: existing}, nil
	}
	isServer := eng.conf.Grants.VerifyRetirement(r)
	if refusal := eng.index.approvers.CheckRetirement(r, isServer, isHost, eng.situation(reading)); refusal != nil {
		return Decision{}, refusal
	}
	return Decision{Record: &signer.Record{Kind: signer.RecordRetire, Retire: &r.Retirement}}, nil
}

// SetRule decides about the next version of an organization's rule, and signs that.
func (eng *Engine) SetRule(r signer.RuleRequest, reading Reading) (signer.RuleBody, Decision, error) {
	refused := func(err error) (signer.RuleBody, Decision, error) { return signer.RuleBody{}, Decision{}, err }
	existing, seq, ok, refusal := eng.index.approvers.FindRule(r.ApprovalRule)
	if refusal != nil {
		return refused(refusal)
	}
	if ok {
		return existing, Decision{Seq: seq}, nil
	}
	if reading.Ahead > 0 {
		return refused(limits.RefuseUnconfirmed(reading.Ahead))
	}
	body, refusal := eng.index.approvers.CheckRule(r, eng.situation(reading))
	if refusal != nil {
		return refused(refusal)
	}
	body.Proof = eng.attestKey.SignRule(body)
	return body, Decision{Record: &signer.Record{Kind: signer.RecordRule, Rule: &body}}, nil
}
