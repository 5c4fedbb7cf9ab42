package approvers_test

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// redirect returns the refusal of a redirect that passkeys signed.
func (env *bookEnv) redirect(t *testing.T, by ...*signertest.Passkey) *signer.Refusal {
	t.Helper()
	intent := payment(100)
	intent.Purpose, intent.CustomerID = signer.Return, ""
	intent.Grant = &signer.Grant{Redirect: &signer.RedirectOf{DepositID: "dep_1", Reason: "LAW_ENFORCEMENT"}}
	for _, p := range by {
		signature := env.sign(t, p,
			func(c signer.StatementContext) signer.Statement { return intent.Statement("31337", nil, c) })
		intent.Grant.Approvals = append(intent.Grant.Approvals,
			signer.Approval{Approver: p.Person, Signature: &signature})
	}
	_, refusal := env.CheckPayment(intent, env.Situation)
	return refusal
}

// endorse returns the refusal of an address that passkeys signed.
func (env *bookEnv) endorse(t *testing.T, by ...*signertest.Passkey) *signer.Refusal {
	t.Helper()
	e := signer.Endorsement{
		OrgID: testOrg, ID: "wla_1", Chain: signertest.Chain, Address: signertest.Stranger,
		LabelHash: signer.HashLabel("ours"), Label: "ours", NotBefore: signer.FormatMicros(env.Now),
	}
	signed := e
	for _, p := range by {
		signed.SignedBy = append(signed.SignedBy, env.sign(t, p,
			func(c signer.StatementContext) signer.Statement { return signer.EndorseStatement(e, c) }))
	}
	_, refusal := env.CheckEndorsement(signed, env.Situation)
	return refusal
}

// newOperators returns passkeys of two operators, and a second one of the first operator.
func newOperators(t *testing.T, right signer.Right) (ann, annAgain, ben *signertest.Passkey) {
	t.Helper()
	ann, annAgain, ben = newPasskeys(t, right)
	for _, p := range []*signertest.Passkey{ann, annAgain, ben} {
		p.OrgID = signer.Operators
	}
	return ann, annAgain, ben
}

// Rules SA-17 and SA-18.
func TestTwoPasskeysOfOneOperatorCountOnce(t *testing.T) {
	t.Parallel()
	ann, annAgain, ben := newOperators(t, signer.RightApprove)
	env := newBook(t, ann, annAgain, ben)
	env.hold(t, signer.ApprovalRule{OrgID: signer.Operators, Version: 1, Quorum: 2})
	for name, ask := range map[string]func(*testing.T, ...*signertest.Passkey) *signer.Refusal{
		"a redirect": env.redirect, "an address": env.endorse,
	} {
		if refusal := ask(t, ann, annAgain); refusal == nil {
			t.Errorf("%s with two passkeys of one operator was not refused", name)
		}
		if refusal := ask(t, annAgain, ben); refusal != nil {
			t.Errorf("%s with those of two: got %v", name, refusal)
		}
	}
}

// Rule SA-4: the end of the operators' rule cools off, and then nothing needs their signatures.
func TestTheEndOfTheOperatorsRuleCoolsOff(t *testing.T) {
	t.Parallel()
	approve, _, benApproves := newOperators(t, signer.RightApprove)
	ann, _, ben := newOperators(t, signer.RightEnrol)
	env := newBook(t, approve, benApproves, ann, ben)
	env.hold(t, signer.ApprovalRule{OrgID: signer.Operators, Version: 1, Quorum: 2})
	if _, refusal := env.change(t, signer.ApprovalRule{OrgID: signer.Operators, Version: 2}, ann, ben); refusal != nil {
		t.Fatal(refusal)
	}
	env.Now = noon.Add(24*time.Hour - time.Second)
	if env.redirect(t) == nil || env.endorse(t) == nil {
		t.Error("the rule ended before its end had cooled off")
	}
	env.Now = noon.Add(24 * time.Hour)
	if redirected, endorsed := env.redirect(t), env.endorse(t); redirected != nil || endorsed != nil {
		t.Errorf("a day later: got %v and %v, want neither refused", redirected, endorsed)
	}
}

// Rule SA-2: the copy of a lost journal may lack the retirement of an operator's passkey.
func TestAnOperatorsPasskeyCoolsOffAnewAfterARecovery(t *testing.T) {
	t.Parallel()
	ann, _, ben := newOperators(t, signer.RightApprove)
	env := newBook(t, ann, ben)
	env.hold(t, signer.ApprovalRule{OrgID: signer.Operators, Version: 1, Quorum: 2})
	env.AdoptedAt = noon.Add(-24*time.Hour + time.Second)
	if env.redirect(t, ann, ben) == nil || env.endorse(t, ann, ben) == nil {
		t.Error("passkeys of a journal that was adopted less than a day ago signed")
	}
}

// Rules SA-13 and SA-17: what operators sign is verified with their own passkeys alone, and what people of an
// organization sign with theirs.
func TestAStatementIsVerifiedWithThePasskeysOfItsSigners(t *testing.T) {
	t.Parallel()
	operator, _, _ := newOperators(t, signer.RightApprove)
	enroller, _, _ := newOperators(t, signer.RightEnrol)
	person, _, _ := newPasskeys(t, signer.RightApprove)
	env := newBook(t)
	redirect := func(c signer.StatementContext) signer.Statement {
		return signer.RedirectStatement(signer.PaymentWords{Terms: signer.Terms{OrgID: testOrg}}, c)
	}
	endorse := func(c signer.StatementContext) signer.Statement {
		return signer.EndorseStatement(signer.Endorsement{OrgID: testOrg}, c)
	}
	pay := func(c signer.StatementContext) signer.Statement {
		return signer.PaymentStatement(signer.PaymentWords{Terms: signer.Terms{OrgID: testOrg}}, c)
	}
	for name, c := range map[string]struct {
		words   func(signer.StatementContext) signer.Statement
		passkey *signertest.Passkey
		isValid bool
	}{
		"a redirect by an operator":   {redirect, operator, true},
		"an address by an operator":   {endorse, operator, true},
		"a redirect by a person":      {redirect, person, false},
		"an address by a person":      {endorse, person, false},
		"a redirect by who may enrol": {redirect, enroller, false},
		"a payment by an operator":    {pay, operator, false},
		"a payment by a person":       {pay, person, true},
	} {
		signature := env.sign(t, c.passkey, c.words)
		signed := signer.SignedStatement{
			Words: c.words(signer.StatementContext{
				Installation: hex.EncodeToString(env.AttestKey.PublicKey()), Approver: c.passkey.Person,
				NotAfter: signature.NotAfter,
			}),
			Signature: signature, Passkey: signer.EnrolBody{Enrolment: c.passkey.Enrolment},
		}
		if err := signed.VerifySignature(); (err == nil) != c.isValid {
			t.Errorf("%s: got %v, want it valid: %v", name, err, c.isValid)
		}
	}
}
