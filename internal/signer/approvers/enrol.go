package approvers

import (
	"slices"

	"github.com/cofferpay/coffer/internal/signer"
)

// FindEnrolled returns the record of a passkey that was enrolled before. It refuses one that contradicts the journal.
func (b *Book) FindEnrolled(e signer.EnrolRequest) (body signer.EnrolBody, seq uint64, ok bool, _ *signer.Refusal) {
	if r, isRetired := b.retired[e.ID]; isRetired {
		return body, 0, false, refuse("passkey %s was permanently retired in entry %d: enrol another one", e.ID, r.seq)
	}
	k := b.keys[e.ID]
	if k == nil {
		return body, 0, false, nil
	}
	if !k.Equal(e.Enrolment) || k.EmailHash != signer.HashEmail(e.OrgID, e.Email) {
		return body, 0, false, refuse("passkey %s was enrolled with another content in entry %d", e.ID, k.seq)
	}
	return k.EnrolBody, k.seq, true, nil
}

// CheckEnrolment refuses a passkey that may not be added, and returns its record without time and proof. isFounded
// says whether a person at the signer's host named its fingerprint. Rule SA-2.
func (b *Book) CheckEnrolment(e signer.EnrolRequest, isFounded bool, s Situation) (signer.EnrolBody, *signer.Refusal) {
	body := signer.EnrolBody{Enrolment: e.Enrolment, EmailHash: signer.HashEmail(e.OrgID, e.Email)}
	if earlier, twice := b.credentials[string(e.CredentialID)]; twice {
		return body, refuse("passkey %s is enrolled as %s already", e.ID, earlier)
	}
	for id, k := range b.keys {
		switch {
		case k.OrgID != e.OrgID || b.isRetired(id):
		case (k.EmailHash == body.EmailHash) != (k.Person == e.Person):
			return body, refuse("%.80q is enrolled under another e-mail address or name, as %s: a person counts once, "+
				"so retire those passkeys first", e.Person, id)
		case slices.Equal(k.PublicKey, e.PublicKey):
			return body, refuse("passkey %s has the public key of %s", e.ID, id)
		}
	}
	statement := func(c signer.StatementContext) signer.Statement { return signer.EnrolStatement(e, c) }
	if err := verifyStatement(e.Possession, e.Enrolment, s, statement); err != nil {
		return body, refuse("the signature of passkey %s over its enrolment is not valid: %v", e.ID, err)
	}
	hasRule := b.hasRule(e.OrgID, s)
	if isFounded {
		body.IsFounded = true
		usableFrom := s.Now.Add(s.Policy.EffectiveApprovers().KeyCoolingOff(hasRule))
		body.UsableFrom = signer.FormatMicros(usableFrom)
		return body, nil
	}
	if !hasRule {
		return body, refuse("passkey %s is not founded: %s has no rule yet, so a person at the signer's host admits "+
			"it by its fingerprint, with `coffer signer approvers found`", e.ID, e.OrgID)
	}
	if refusal := b.checkEnrollers(e.OrgID, e.AdmittedBy, 0, s, statement); refusal != nil {
		return body, refusal
	}
	body.UsableFrom = signer.FormatMicros(s.Now.Add(s.coolingOff()))
	return body, nil
}

// checkEnrollers refuses signatures of fewer people than may change passkeys and rules: the quorum of the rule that
// holds, at least two where there are two, and at least atLeast.
func (b *Book) checkEnrollers(
	org string, signatures []signer.KeySignature, atLeast int, s Situation,
	statement func(signer.StatementContext) signer.Statement,
) *signer.Refusal {
	required := max(1, atLeast, min(2, len(b.people(org, signer.RightEnrol, ""))))
	if r := b.effective(org, s); r != nil {
		required = max(required, r.Quorum)
	}
	people := map[string]bool{}
	for _, signature := range signatures {
		k, err := b.verify(signature, org, signer.RightEnrol, s, statement)
		if err != nil {
			return refuse("a signature is not valid: %v", err)
		}
		people[k.EmailHash] = true
	}
	if len(people) < required {
		return refuse("the signatures of %d people who may enrol are needed, and these are of %d", required,
			len(people))
	}
	return nil
}

// FindRetired returns the entry of a retirement that was made before. It refuses one of another organization's
// passkey.
func (b *Book) FindRetired(r signer.Retirement) (seq uint64, ok bool, _ *signer.Refusal) {
	if k := b.keys[r.ID]; k != nil && k.OrgID != r.OrgID {
		return 0, false, refuse("passkey %s was enrolled for another organization", r.ID)
	}
	existing, ok := b.retired[r.ID]
	if ok && existing.org != r.OrgID {
		return 0, false, refuse("passkey %s was retired for another organization", r.ID)
	}
	return existing.seq, ok, nil
}

// CheckRetirement refuses the end of a passkey that no one asked for who may, or that would leave fewer people than
// the rule needs: who has the server could otherwise lock all people out. isServer says that the server's key asked for
// it, isHost that a person at the signer's host did. Rule SA-3.
func (b *Book) CheckRetirement(r signer.RetireRequest, isServer, isHost bool, s Situation) *signer.Refusal {
	if isHost {
		return nil
	}
	k := b.keys[r.ID]
	isCooling := k != nil && s.Now.Before(k.usableFrom(s))
	switch {
	case isServer:
	case r.SignedBy == nil:
		return refuse("passkey %s is not retired: no one who may asked for it", r.ID)
	default:
		if refusal := b.checkRetirer(r, k, isCooling, s); refusal != nil {
			return refusal
		}
	}
	if k == nil || isCooling {
		return nil
	}
	if rule := b.newest(r.OrgID); rule != nil && len(b.people(r.OrgID, k.Right, k.ID)) < rule.Quorum ||
		b.effective(r.OrgID, s) != nil && len(b.people(r.OrgID, k.Right, k.ID)) < b.effective(r.OrgID, s).Quorum {
		return refuse("passkey %s stays: without it fewer people than the rule needs have the right %s. Enrol another "+
			"one first, or retire it at the signer's host", r.ID, k.Right)
	}
	return nil
}

// checkRetirer checks the signature of a retirement: by the same person, by one who may enrol, and for a passkey that
// cools off by anyone who is enrolled.
func (b *Book) checkRetirer(r signer.RetireRequest, target *key, isCooling bool, s Situation) *signer.Refusal {
	retirer := b.keys[r.SignedBy.KeyID]
	if retirer == nil {
		return refuse("passkey %s is not retired: passkey %.80q was never enrolled", r.ID, r.SignedBy.KeyID)
	}
	isSamePerson := target != nil && retirer.EmailHash == target.EmailHash
	if retirer.Right != signer.RightEnrol && !isSamePerson && !isCooling {
		return refuse("passkey %s is not retired: %s may end passkeys of its own person only, and those that cool off",
			r.ID, retirer.ID)
	}
	_, err := b.verify(*r.SignedBy, r.OrgID, retirer.Right, s, func(c signer.StatementContext) signer.Statement {
		return signer.RetireStatement(r.Retirement, c)
	})
	if err != nil {
		return refuse("passkey %s is not retired: its signature is not valid: %v", r.ID, err)
	}
	return nil
}

func refuse(format string, args ...any) *signer.Refusal {
	return signer.Refuse(signer.RefusedApprover, format, args...)
}
