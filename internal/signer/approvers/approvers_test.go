package approvers_test

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/approvers"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

const testOrg = "org_1"

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// bookEnv is a book with passkeys that no longer cool off.
type bookEnv struct {
	*approvers.Book
	approvers.Situation
	seq uint64
}

func newBook(t *testing.T, passkeys ...*signertest.Passkey) *bookEnv {
	t.Helper()
	seed, err := keys.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	policy := signertest.NewPolicy()
	policy.Approvers = &signpolicy.Approvers{
		RelyingParties: []signpolicy.RelyingParty{{ID: signertest.RPID, Origins: []string{signertest.Origin}}},
	}
	env := &bookEnv{
		Book:      approvers.NewBook(),
		Situation: approvers.Situation{Now: noon, AttestKey: seed.AttestKey(), Policy: policy},
	}
	for _, p := range passkeys {
		enrolledAt := noon.Add(-48 * time.Hour)
		env.record(t, signer.Record{Enrol: &signer.EnrolBody{
			Enrolment: p.Enrolment, EmailHash: signer.HashEmail(p.OrgID, p.Email),
			UsableFrom: signer.FormatMicros(enrolledAt),
		}}, enrolledAt)
	}
	return env
}

func (env *bookEnv) record(t *testing.T, r signer.Record, at time.Time) {
	t.Helper()
	env.seq++
	if err := env.Apply(env.seq, at, r); err != nil {
		t.Fatal(err)
	}
}

// hold records a rule that holds from now on.
func (env *bookEnv) hold(t *testing.T, r signer.ApprovalRule) {
	t.Helper()
	body := signer.RuleBody{ApprovalRule: r, UsableFrom: signer.FormatMicros(env.Now)}
	env.record(t, signer.Record{Rule: &body}, env.Now)
}

func (env *bookEnv) sign(
	t *testing.T, p *signertest.Passkey, statement func(signer.StatementContext) signer.Statement,
) signer.KeySignature {
	t.Helper()
	return p.Sign(t, hex.EncodeToString(env.AttestKey.PublicKey()), env.Now.Add(time.Hour), statement)
}

// change asks for a rule with the signatures of passkeys, and records it if it is not refused.
func (env *bookEnv) change(
	t *testing.T, r signer.ApprovalRule, by ...*signertest.Passkey,
) (signer.RuleBody, *signer.Refusal) {
	t.Helper()
	request := signer.RuleRequest{ApprovalRule: r}
	for _, p := range by {
		request.SignedBy = append(request.SignedBy, env.sign(t, p,
			func(c signer.StatementContext) signer.Statement { return signer.RuleStatement(r, c) }))
	}
	body, refusal := env.CheckRule(request, env.Situation)
	if refusal == nil {
		env.record(t, signer.Record{Rule: &body}, env.Now)
	}
	return body, refusal
}

func payment(amount uint64) signer.Intent {
	return signer.Intent{
		ID: "wd_1", Purpose: signer.Payment, Chain: signertest.Chain, From: signertest.Treasury(testOrg),
		To: signertest.Stranger, Contract: signertest.Token, Amount: money.Units(amount), CustomerID: "eve", MintID: 3,
	}
}

// pay returns the refusal of a payment that passkeys signed.
func (env *bookEnv) pay(t *testing.T, by ...*signertest.Passkey) *signer.Refusal {
	t.Helper()
	intent := payment(100)
	intent.Grant = &signer.Grant{}
	for _, p := range by {
		signature := env.sign(t, p,
			func(c signer.StatementContext) signer.Statement { return intent.Statement("31337", nil, c) })
		intent.Grant.Approvals = append(intent.Grant.Approvals,
			signer.Approval{Approver: p.Person, Signature: &signature})
	}
	_, refusal := env.CheckPayment(intent, env.Situation)
	return refusal
}

// Rule SA-1: who made an own payment or a batch signs neither, whatever the server says about it.
func TestTheMakerSignsNothing(t *testing.T) {
	t.Parallel()
	ann, _, ben := newPasskeys(t, signer.RightApprove)
	cay := signertest.NewPasskey(t, testOrg, "cay", signer.RightApprove)
	env := newBook(t, ann, ben, cay)
	env.hold(t, signer.ApprovalRule{OrgID: testOrg, Version: 1, Quorum: 2})
	own, row := payment(100), payment(100)
	own.CustomerID, own.Product, own.WhitelistedID = "", "CUSTODIAL", "wla_1"
	own.Grant = &signer.Grant{MadeBy: ann.Person}
	row.Batch = &signer.BatchRow{BatchID: "pb_1"}
	row.Grant = &signer.Grant{Batch: &signer.BatchGrant{Header: contenthash.Header{
		OrgID: testOrg, BatchID: "pb_1", MadeBy: ann.Person, Rows: 1, Included: 1,
	}}}
	for name, intent := range map[string]signer.Intent{"an own payment": own, "a row of a batch": row} {
		signed := func(by ...*signertest.Passkey) *signer.Refusal {
			intent.Grant.Approvals = nil
			for _, p := range by {
				signature := env.sign(t, p,
					func(c signer.StatementContext) signer.Statement { return intent.Statement("31337", nil, c) })
				intent.Grant.Approvals = append(intent.Grant.Approvals,
					signer.Approval{Approver: p.Person, Signature: &signature})
			}
			_, refusal := env.CheckPayment(intent, env.Situation)
			return refusal
		}
		if refusal := signed(ben, ann); refusal == nil || !strings.Contains(refusal.Message, "who made it") {
			t.Errorf("%s, signed by its maker: got %v, want it refused", name, refusal)
		}
		if refusal := signed(ben, cay); refusal != nil {
			t.Errorf("%s, signed by two others: got %v", name, refusal)
		}
	}
}

// Rule SA-7: a page that is no longer in the signer's policy obtains no approval, also with a passkey that was enrolled
// there.
func TestAPageThatThePolicyDoesNotNameObtainsNoApproval(t *testing.T) {
	t.Parallel()
	ann, _, ben := newPasskeys(t, signer.RightApprove)
	env := newBook(t, ann, ben)
	env.hold(t, signer.ApprovalRule{OrgID: testOrg, Version: 1, Quorum: 2})
	parties := env.Policy.Approvers.RelyingParties
	for name, changed := range map[string][]signpolicy.RelyingParty{
		"no page":      nil,
		"another page": {{ID: signertest.RPID, Origins: []string{"https://other.example.com"}}},
		"another site": {{ID: "example.com", Origins: []string{signertest.Origin}}},
	} {
		env.Policy.Approvers.RelyingParties = changed
		if refusal := env.pay(t, ann, ben); refusal == nil {
			t.Errorf("%s: a payment was not refused", name)
		}
	}
	env.Policy.Approvers.RelyingParties = parties
	if refusal := env.pay(t, ann, ben); refusal != nil {
		t.Errorf("their own page: got %v", refusal)
	}
}

// newPasskeys returns passkeys of two people with a right, and a second one of the first person.
func newPasskeys(t *testing.T, right signer.Right) (ann, annAgain, ben *signertest.Passkey) {
	t.Helper()
	ann = signertest.NewPasskey(t, testOrg, "ann", right)
	annAgain = signertest.NewPasskey(t, testOrg, "ann", right)
	annAgain.ID, annAgain.CredentialID = annAgain.ID+"_2", append(annAgain.CredentialID, '2')
	return ann, annAgain, signertest.NewPasskey(t, testOrg, "ben", right)
}

// Rule SA-1.
func TestTwoPasskeysOfOnePersonCountOnceForAPayment(t *testing.T) {
	t.Parallel()
	ann, annAgain, ben := newPasskeys(t, signer.RightApprove)
	env := newBook(t, ann, annAgain, ben)
	env.hold(t, signer.ApprovalRule{OrgID: testOrg, Version: 1, Quorum: 2})
	if refusal := env.pay(t, ann, annAgain); refusal == nil {
		t.Error("a payment with two passkeys of one person was not refused")
	}
	if refusal := env.pay(t, annAgain, ben); refusal != nil {
		t.Errorf("with those of two people: got %v", refusal)
	}
}

// Rules SA-2 and SA-4.
func TestTwoPasskeysOfOnePersonCountOnceForARule(t *testing.T) {
	t.Parallel()
	approve, _, benApproves := newPasskeys(t, signer.RightApprove)
	ann, annAgain, ben := newPasskeys(t, signer.RightEnrol)
	env := newBook(t, approve, benApproves, ann, annAgain, ben)
	rule := signer.ApprovalRule{OrgID: testOrg, Version: 1, Quorum: 2}
	if _, refusal := env.change(t, rule, ann, annAgain); refusal == nil {
		t.Fatal("a rule by two passkeys of one person was not refused")
	}
	if _, refusal := env.change(t, rule, annAgain, ben); refusal != nil {
		t.Errorf("by those of two people: got %v", refusal)
	}
}

// Rule SA-4: a rule that no longer covers something loosens, also if the rule that it changes does not hold yet.
func TestARuleThatLoosensAnythingCoolsOff(t *testing.T) {
	t.Parallel()
	approve, _, benApproves := newPasskeys(t, signer.RightApprove)
	ann, _, ben := newPasskeys(t, signer.RightEnrol)
	strict := signer.ApprovalRule{OrgID: testOrg, Version: 1, Quorum: 2, OwnPayments: true, Returns: true}
	for name, loosen := range map[string]func(*signer.ApprovalRule){
		"a smaller quorum": func(r *signer.ApprovalRule) { r.Quorum = 1 },
		"own payments":     func(r *signer.ApprovalRule) { r.OwnPayments = false },
		"returns":          func(r *signer.ApprovalRule) { r.Returns = false },
	} {
		env := newBook(t, approve, benApproves, ann, ben)
		env.hold(t, strict)
		next := strict
		next.Version = 2
		loosen(&next)
		body, refusal := env.change(t, next, ann, ben)
		if refusal != nil || !body.Loosens || body.UsableFrom != signer.FormatMicros(noon.Add(24*time.Hour)) {
			t.Errorf("%s: got %+v, %v, want a rule that cools off for a day", name, body, refusal)
		}
	}
	// Version 2 covers returns and does not hold yet. Version 3 is no looser than version 1, which holds, and is looser
	// than version 2.
	env := newBook(t, approve, benApproves, ann, ben)
	env.hold(t, signer.ApprovalRule{OrgID: testOrg, Version: 1, Quorum: 1})
	later := signer.RuleBody{
		ApprovalRule: signer.ApprovalRule{OrgID: testOrg, Version: 2, Quorum: 1, Returns: true},
		Loosens:      true, UsableFrom: signer.FormatMicros(noon.Add(time.Hour)),
	}
	env.record(t, signer.Record{Rule: &later}, noon)
	body, refusal := env.change(t, signer.ApprovalRule{OrgID: testOrg, Version: 3, Quorum: 1}, ann, ben)
	if refusal != nil || !body.Loosens {
		t.Errorf("looser than the newest one: got %+v, %v, want a rule that cools off", body, refusal)
	}
}

// Rule SA-1.
func TestAPaymentCountsInTheDayThatNeedsNoPeople(t *testing.T) {
	t.Parallel()
	env := newBook(t)
	env.hold(t, signer.ApprovalRule{OrgID: testOrg, Version: 1, Quorum: 2, Assets: []signer.AssetRule{{
		Chain: signertest.Chain, Contract: signertest.Token, Threshold: money.Units(50), DayMax: money.Units(60),
	}}})
	env.Count(payment(40), noon.Add(-time.Hour))
	for amount, want := range map[uint64]int{20: 0, 21: 2} {
		if got := env.Required(payment(amount), env.Situation); got != want {
			t.Errorf("%d on top of 40 of 60: got %d people, want %d", amount, got, want)
		}
	}
}

// Rule SA-2: the copy of a lost journal may lack the retirement of a passkey.
func TestAPasskeyCoolsOffAnewAfterARecovery(t *testing.T) {
	t.Parallel()
	ann, _, ben := newPasskeys(t, signer.RightApprove)
	env := newBook(t, ann, ben)
	env.hold(t, signer.ApprovalRule{OrgID: testOrg, Version: 1, Quorum: 2})
	env.AdoptedAt = noon.Add(-24*time.Hour + time.Second)
	if refusal := env.pay(t, ann, ben); refusal == nil {
		t.Error("passkeys of a journal that was adopted less than a day ago signed a payment")
	}
	env.AdoptedAt = noon.Add(-24 * time.Hour)
	if refusal := env.pay(t, ann, ben); refusal != nil {
		t.Errorf("a day after the adoption: got %v", refusal)
	}
}

// enrol asks for a passkey that a person at the signer's host founds.
func (env *bookEnv) enrol(t *testing.T, p *signertest.Passkey) error {
	t.Helper()
	request := p.Request(t, hex.EncodeToString(env.AttestKey.PublicKey()), env.Now.Add(time.Hour))
	_, _, err := env.EnrolKey(request, true, env.Situation)
	return err
}

// Rule SA-3: a retirement is permanent, for the id and for the credential, also if the passkey was never enrolled.
func TestNoRetiredPasskeyIsEnrolled(t *testing.T) {
	t.Parallel()
	ann, _, ben := newPasskeys(t, signer.RightApprove)
	env := newBook(t, ann)
	for _, p := range []*signertest.Passkey{ann, ben} {
		retirement := signer.Retirement{OrgID: testOrg, ID: p.ID}
		env.record(t, signer.Record{Retire: &retirement}, noon)
		if err := env.enrol(t, p); err == nil {
			t.Errorf("passkey %s was enrolled after its retirement", p.ID)
		}
	}
	ann.ID += "_2"
	if err := env.enrol(t, ann); err == nil {
		t.Error("the credential of a retired passkey was enrolled under another id")
	}
	cay := signertest.NewPasskey(t, testOrg, "cay", signer.RightApprove)
	if err := env.enrol(t, cay); err != nil {
		t.Errorf("another passkey: got %v", err)
	}
}

// Rule SA-4: the copy of a lost journal may lack a version that tightened again.
func TestARuleThatLoosensCoolsOffAnewAfterARecovery(t *testing.T) {
	t.Parallel()
	env := newBook(t)
	env.hold(t, signer.ApprovalRule{OrgID: testOrg, Version: 1, Quorum: 2})
	loose := signer.RuleBody{
		ApprovalRule: signer.ApprovalRule{OrgID: testOrg, Version: 2, Quorum: 1}, Loosens: true,
		UsableFrom: signer.FormatMicros(noon),
	}
	env.record(t, signer.Record{Rule: &loose}, noon.Add(-24*time.Hour))
	for since, want := range map[time.Duration]int{24*time.Hour - time.Second: 2, 24 * time.Hour: 1} {
		env.AdoptedAt = noon.Add(-since)
		if got := env.Required(payment(100), env.Situation); got != want {
			t.Errorf("%s after the adoption: got %d people, want %d", since, got, want)
		}
	}
}
