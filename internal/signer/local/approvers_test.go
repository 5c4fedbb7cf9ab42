package local_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/hostorders"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

const approversOrg = "org_1"

// approversEnv is a signer with a clock, a key of grants and a policy on approvers.
type approversEnv struct {
	*local.Signer
	conf         local.Config
	grants       *signer.GrantKey
	installation string
	now          time.Time
}

func openApprovers(t testing.TB) *approversEnv {
	t.Helper()
	seed, err := keys.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	grants, err := signer.NewGrantKey(make([]byte, signer.GrantKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	env := &approversEnv{
		grants: grants, installation: hex.EncodeToString(seed.AttestKey().PublicKey()),
		now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC),
	}
	policy := signertest.NewPolicy()
	policy.Approvers = &signpolicy.Approvers{
		RelyingParties: []signpolicy.RelyingParty{{ID: signertest.RPID, Origins: []string{signertest.Origin}}},
	}
	env.conf = local.Config{
		Journal: filepath.Join(t.TempDir(), "journal"), Policy: policy, Grants: grants,
		Clock: func() time.Time { return env.now },
	}
	if err := local.CreateJournal(env.conf, seed); err != nil {
		t.Fatal(err)
	}
	if env.Signer, err = local.Open(env.conf, seed); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	})
	return env
}

// found makes a person at the host name a passkey's fingerprint, and enrols it.
func (env *approversEnv) found(t testing.TB, p *signertest.Passkey) {
	t.Helper()
	request := p.Request(t, env.installation, env.now.Add(time.Hour))
	if _, err := env.EnrolKey(t.Context(), request); !isRefused(err, signer.RefusedApprover) {
		t.Errorf("a passkey that no one founded: got %v, want it refused", err)
	}
	order := hostorders.Order{
		OrgID: p.OrgID, Email: p.Email, Right: p.Right, Fingerprint: request.Fingerprint(env.installation),
		Reason: "read out by telephone",
	}
	if err := hostorders.Append(env.conf.Journal, order, env.now); err != nil {
		t.Fatal(err)
	}
	enrolled, err := env.EnrolKey(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if !enrolled.IsFounded {
		t.Error("got a passkey that was not founded")
	}
}

// Rule SA-2: what a person at the host typed founds the passkey of that fingerprint, person, right and organization
// alone.
func TestAnotherFingerprintFoundsNoPasskey(t *testing.T) {
	t.Parallel()
	env := openApprovers(t)
	p := signertest.NewPasskey(t, approversOrg, "ann", signer.RightEnrol)
	request := p.Request(t, env.installation, env.now.Add(time.Hour))
	order := hostorders.Order{
		OrgID: p.OrgID, Email: p.Email, Right: p.Right, Fingerprint: request.Fingerprint(env.installation),
		Reason: "read out by telephone",
	}
	for name, change := range map[string]func(*hostorders.Order){
		"another key":          func(o *hostorders.Order) { o.Fingerprint = "0123456789abcdef0123" },
		"another organization": func(o *hostorders.Order) { o.OrgID = "org_2" },
		"another person":       func(o *hostorders.Order) { o.Email = "ben@example.com" },
		"another right":        func(o *hostorders.Order) { o.Right = signer.RightApprove },
	} {
		other := order
		change(&other)
		if err := hostorders.Append(env.conf.Journal, other, env.now); err != nil {
			t.Fatal(err)
		}
		if _, err := env.EnrolKey(t.Context(), request); !isRefused(err, signer.RefusedApprover) {
			t.Errorf("a founding of %s: got %v, want it refused", name, err)
		}
	}
	if err := hostorders.Append(env.conf.Journal, order, env.now); err != nil {
		t.Fatal(err)
	}
	if _, err := env.EnrolKey(t.Context(), request); err != nil {
		t.Errorf("its own founding: got %v", err)
	}
}

func isRefused(err error, code string) bool {
	var refusal *signer.Refusal
	return errors.As(err, &refusal) && refusal.Code == code
}

// payment returns a customer's payment that the server granted, with signatures of people.
func (env *approversEnv) payment(
	t testing.TB, id string, amount uint64, by ...*signertest.Passkey,
) signer.Intent {
	t.Helper()
	intent := signer.Intent{
		ID: id, Purpose: signer.Payment, Chain: signertest.Chain, From: signertest.Treasury(approversOrg),
		To: signertest.Stranger, Contract: signertest.Token, Amount: money.Units(amount), CustomerID: "eve", MintID: 3,
		IdempotencyKeyHash: signertest.KeyHash(id),
	}
	terms := signer.Terms{
		OrgID: approversOrg, WithdrawalID: id, Chain: intent.Chain, MintID: intent.MintID, Contract: intent.Contract,
		To: intent.To, Amount: intent.Amount, FeeMode: "ORGANIZATION",
	}
	var approvals []signer.Approval
	for _, p := range by {
		approvals = append(approvals, env.grants.MakeApproval(terms, 0, p.Person))
	}
	intent.Grant = env.grants.MakeGrant(terms, money.Zero, 0, 0, approvals)
	for n, p := range by {
		statement := func(c signer.StatementContext) signer.Statement { return intent.Statement("31337", nil, c) }
		signature := p.Sign(t, env.installation, env.now.Add(time.Hour), statement)
		intent.Grant.Approvals[n].Signature = &signature
	}
	return intent
}

// Rules SA-1, SA-2 and SA-4: two founders, a rule, and a payment that both sign.
func TestAPaymentAboveTheRuleLeavesWithSignaturesOfPeopleAlone(t *testing.T) {
	t.Parallel()
	env := openApprovers(t)
	signertest.IssueAddress(t, env, signertest.Treasury(approversOrg))
	var approve, enrol []*signertest.Passkey
	for _, person := range []string{"ann", "ben"} {
		approve = append(approve, signertest.NewPasskey(t, approversOrg, person, signer.RightApprove))
		enrol = append(enrol, signertest.NewPasskey(t, approversOrg, person, signer.RightEnrol))
	}
	if _, err := env.AdmitIntent(t.Context(), env.payment(t, "wd_before", 1000)); err != nil {
		t.Errorf("without a rule: got %v", err)
	}
	for _, p := range append(approve, enrol...) {
		env.found(t, p)
	}
	rule := signer.ApprovalRule{
		OrgID: approversOrg, Version: 1, Quorum: 2, Assets: []signer.AssetRule{{
			Chain: signertest.Chain, Contract: signertest.Token, Threshold: money.Units(50), DayMax: money.Units(1100),
		}},
	}
	if _, err := env.set(t, rule, enrol...); !isRefused(err, signer.RefusedApprover) {
		t.Errorf("a rule by passkeys that cool off: got %v, want it refused", err)
	}
	env.now = env.now.Add(23*time.Hour + 59*time.Minute)
	if _, err := env.AdmitIntent(t.Context(), env.payment(t, "wd_later", 10)); err != nil {
		t.Errorf("a small payment: got %v", err)
	}
	env.now = env.now.Add(time.Minute)
	if _, err := env.set(t, rule, enrol[0]); !isRefused(err, signer.RefusedApprover) {
		t.Errorf("a rule by one of two: got %v, want it refused", err)
	}
	if _, err := env.set(t, rule, approve...); !isRefused(err, signer.RefusedApprover) {
		t.Errorf("a rule by passkeys for payments: got %v, want it refused", err)
	}
	if _, err := env.set(t, rule, enrol...); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		intent  signer.Intent
		refused bool
	}{
		"below the amount":              {env.payment(t, "wd_1", 49), false},
		"of the amount, with no one":    {env.payment(t, "wd_2", 50), true},
		"of the amount, with one":       {env.payment(t, "wd_3", 50, approve[0]), true},
		"of the amount, with one twice": {env.payment(t, "wd_4", 50, approve[0], approve[0]), true},
		"of the amount, with both":      {env.payment(t, "wd_5", 50, approve...), false},
		"by passkeys that enrol":        {env.payment(t, "wd_6", 50, enrol...), true},
	} {
		_, err := env.AdmitIntent(t.Context(), c.intent)
		if c.refused != isRefused(err, signer.RefusedSignature) || !c.refused && err != nil {
			t.Errorf("a payment %s: got %v, want it refused: %v", name, err, c.refused)
		}
	}
}

// set asks for a rule with the signatures of passkeys.
func (env *approversEnv) set(
	t testing.TB, rule signer.ApprovalRule, by ...*signertest.Passkey,
) (signer.RecordedRule, error) {
	t.Helper()
	request := signer.RuleRequest{ApprovalRule: rule}
	for _, p := range by {
		request.SignedBy = append(request.SignedBy, p.Sign(t, env.installation, env.now.Add(time.Hour),
			func(c signer.StatementContext) signer.Statement { return signer.RuleStatement(rule, c) }))
	}
	return env.SetRule(t.Context(), request)
}

// retire asks for the end of a passkey with the signature of another one.
func (env *approversEnv) retire(t *testing.T, target, by *signertest.Passkey) error {
	t.Helper()
	request := signer.RetireRequest{Retirement: signer.Retirement{OrgID: target.OrgID, ID: target.ID}}
	signature := by.Sign(t, env.installation, env.now.Add(time.Hour),
		func(c signer.StatementContext) signer.Statement { return signer.RetireStatement(request.Retirement, c) })
	request.SignedBy = &signature
	_, err := env.RetireKey(t.Context(), request)
	return err
}

// Rules SA-2, SA-3 and SA-4: who may end a passkey, and what an end leaves.
func TestARetiredPasskeySignsNothingAndTheRuleKeepsItsPeople(t *testing.T) {
	t.Parallel()
	env := openApprovers(t)
	signertest.IssueAddress(t, env, signertest.Treasury(approversOrg))
	people := map[string][2]*signertest.Passkey{}
	for _, person := range []string{"ann", "ben", "cay"} {
		people[person] = [2]*signertest.Passkey{
			signertest.NewPasskey(t, approversOrg, person, signer.RightApprove),
			signertest.NewPasskey(t, approversOrg, person, signer.RightEnrol),
		}
		env.found(t, people[person][0])
		env.found(t, people[person][1])
	}
	ann, ben, cay := people["ann"], people["ben"], people["cay"]
	env.now = env.now.Add(24 * time.Hour)
	rule := signer.ApprovalRule{OrgID: approversOrg, Version: 1, Quorum: 2, OwnPayments: true, Returns: true}
	if _, err := env.set(t, rule, ann[1], ben[1]); err != nil {
		t.Fatal(err)
	}
	if err := env.retire(t, ben[0], ann[0]); !isRefused(err, signer.RefusedApprover) {
		t.Errorf("ann ends ben's passkey with hers for payments: got %v, want it refused", err)
	}
	admits := func(id string, want string, by ...*signertest.Passkey) {
		t.Helper()
		_, err := env.AdmitIntent(t.Context(), env.payment(t, id, 5, by...))
		if want == "" && err != nil || want != "" && !isRefused(err, want) {
			t.Errorf("payment %s: got %v, want %q", id, err, want)
		}
	}
	admits("wd_1", "", ann[0], ben[0])
	if err := env.retire(t, cay[0], cay[0]); err != nil {
		t.Errorf("cay ends her own passkey: got %v", err)
	}
	admits("wd_2", signer.RefusedSignature, ann[0], cay[0])
	if err := env.retire(t, ben[0], ann[1]); !isRefused(err, signer.RefusedApprover) {
		t.Errorf("an end that leaves one person for a rule of two: got %v, want it refused", err)
	}
	byServer := signer.RetireRequest{Retirement: signer.Retirement{OrgID: approversOrg, ID: ben[0].ID}}
	byServer.MAC = env.grants.RetirementMAC(byServer.Retirement)
	if _, err := env.RetireKey(t.Context(), byServer); !isRefused(err, signer.RefusedApprover) {
		t.Errorf("the server's end that leaves one person: got %v, want it refused", err)
	}
	admits("wd_3", "", ann[0], ben[0])
	order := hostorders.Order{OrgID: approversOrg, RetiredID: ben[0].ID, Reason: "the device was stolen"}
	if err := hostorders.Append(env.conf.Journal, order, env.now); err != nil {
		t.Fatal(err)
	}
	if _, err := env.RetireKey(t.Context(), byServer); err != nil {
		t.Errorf("an end that the host decided: got %v", err)
	}
	admits("wd_4", signer.RefusedSignature, ann[0], ben[0])

	// A recovery at the host cools off for three days, and each enrolled person may end it.
	for _, person := range []string{"dan", "eli"} {
		env.found(t, signertest.NewPasskey(t, approversOrg, person, signer.RightApprove))
	}
	fay := signertest.NewPasskey(t, approversOrg, "fay", signer.RightApprove)
	env.found(t, fay)
	env.now = env.now.Add(72*time.Hour - time.Second)
	admits("wd_5", signer.RefusedSignature, ann[0], fay)
	if err := env.retire(t, fay, ann[0]); err != nil {
		t.Errorf("ann objects to a passkey that cools off: got %v", err)
	}
	env.now = env.now.Add(2 * time.Second)
	admits("wd_6", signer.RefusedSignature, ann[0], fay)

	// Loosening waits for a day; the older version holds until then.
	looser := rule
	looser.Version, looser.Quorum = 2, 1
	if _, err := env.set(t, looser, ann[1]); !isRefused(err, signer.RefusedApprover) {
		t.Errorf("a looser rule by one of two: got %v, want it refused", err)
	}
	recorded, err := env.set(t, looser, ann[1], ben[1])
	if err != nil || !recorded.Loosens {
		t.Fatalf("got %+v, %v, want a rule that loosens", recorded, err)
	}
	env.now = env.now.Add(24*time.Hour - time.Second)
	admits("wd_7", signer.RefusedSignature, ann[0])
	env.now = env.now.Add(time.Second)
	admits("wd_8", "", ann[0])
	stricter := rule
	stricter.Version = 3
	if _, err := env.set(t, stricter, ann[1], ben[1]); err != nil {
		t.Fatal(err)
	}
	env.now = env.now.Add(time.Microsecond)
	admits("wd_9", signer.RefusedSignature, ann[0])
}

// BenchmarkAdmitWithoutPeople measures the admission of a payment of an organization without a rule.
func BenchmarkAdmitWithoutPeople(b *testing.B) { benchmarkAdmit(b, false) }

// BenchmarkAdmitWithTwoSignatures measures the same payment of an organization whose rule asks for two people.
func BenchmarkAdmitWithTwoSignatures(b *testing.B) { benchmarkAdmit(b, true) }

func benchmarkAdmit(b *testing.B, withRule bool) {
	env := openApprovers(b)
	signertest.IssueAddress(b, env, signertest.Treasury(approversOrg))
	var approve, enrol []*signertest.Passkey
	for _, person := range []string{"ann", "ben"} {
		approve = append(approve, signertest.NewPasskey(b, approversOrg, person, signer.RightApprove))
		enrol = append(enrol, signertest.NewPasskey(b, approversOrg, person, signer.RightEnrol))
	}
	for _, p := range append(approve, enrol...) {
		env.found(b, p)
	}
	env.now = env.now.Add(24 * time.Hour)
	if withRule {
		rule := signer.ApprovalRule{OrgID: approversOrg, Version: 1, Quorum: 2}
		if _, err := env.set(b, rule, enrol...); err != nil {
			b.Fatal(err)
		}
	} else {
		approve = nil
	}
	intents := make([]signer.Intent, b.N)
	for n := range intents {
		intents[n] = env.payment(b, fmt.Sprintf("wd_%d", n), 5, approve...)
	}
	b.ResetTimer()
	for _, intent := range intents {
		if _, err := env.AdmitIntent(b.Context(), intent); err != nil {
			b.Fatal(err)
		}
	}
}
