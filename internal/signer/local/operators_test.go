package local_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// operatorsEnv is a signer with passkeys of three operators and of one person of an organization, of which those of cay
// cool off.
type operatorsEnv struct {
	*approversEnv
	ann, ben, cay, person *signertest.Passkey
	enrol                 []*signertest.Passkey
}

func openOperators(t *testing.T) *operatorsEnv {
	t.Helper()
	env := &operatorsEnv{approversEnv: openApprovers(t)}
	passkey := func(org, person string, right signer.Right) *signertest.Passkey {
		p := signertest.NewPasskey(t, org, person, right)
		env.found(t, p)
		return p
	}
	env.ann = passkey(signer.Operators, "ann", signer.RightApprove)
	env.ben = passkey(signer.Operators, "ben", signer.RightApprove)
	env.person = passkey(approversOrg, "eve", signer.RightApprove)
	for _, person := range []string{"ann", "ben"} {
		env.enrol = append(env.enrol, passkey(signer.Operators, person, signer.RightEnrol))
	}
	env.now = env.now.Add(24 * time.Hour)
	env.cay = passkey(signer.Operators, "cay", signer.RightApprove)
	signertest.IssueAddress(t, env, signertest.Deposit(approversOrg, "alice"))
	return env
}

// hold makes the operators set the next version of their rule.
func (env *operatorsEnv) hold(t *testing.T, version, quorum int) {
	t.Helper()
	rule := signer.ApprovalRule{OrgID: signer.Operators, Version: version, Quorum: quorum}
	if _, err := env.set(t, rule, env.enrol...); err != nil {
		t.Fatal(err)
	}
}

// redirect returns a redirect that dan made and that the server granted, with the signatures of passkeys. said is what
// they read; nil: what the signer pays.
func (env *operatorsEnv) redirect(
	t *testing.T, id string, said func(*signer.Intent), by ...*signertest.Passkey,
) signer.Intent {
	t.Helper()
	intent := signer.Intent{
		ID: id, Purpose: signer.Return, Chain: signertest.Chain, From: signertest.Deposit(approversOrg, "alice"),
		To: signertest.Stranger, Contract: signertest.Token, Amount: money.Units(50), MintID: 3,
	}
	intent.Grant = &signer.Grant{MadeBy: "PERSON dan", Redirect: &signer.RedirectOf{
		DepositID: "dep_1", Reason: "LAW_ENFORCEMENT", Reference: "order 7",
	}}
	terms := intent.Terms()
	var approvals []signer.Approval
	for _, p := range by {
		approvals = append(approvals, env.grants.MakeApproval(terms, 0, p.Person))
	}
	intent.Grant = env.grants.MakeGrant(terms, money.Zero, 0, 0, approvals)
	for n, p := range by {
		read, grant := intent, *intent.Grant
		read.Grant = &grant
		if said != nil {
			said(&read)
		}
		signature := p.Sign(t, env.installation, env.now.Add(time.Hour),
			func(c signer.StatementContext) signer.Statement { return read.Statement("31337", nil, c) })
		intent.Grant.Approvals[n].Signature = &signature
	}
	return intent
}

// Rule SA-17: with a rule of the operators, the signer sends a deposit elsewhere only with signatures of operators,
// none of whom made the redirect.
func TestARedirectLeavesWithSignaturesOfOperatorsAlone(t *testing.T) {
	t.Parallel()
	env := openOperators(t)
	dan := signertest.NewPasskey(t, signer.Operators, "dan", signer.RightApprove)
	env.found(t, dan)
	if _, err := env.AdmitIntent(t.Context(), env.redirect(t, "res_before", nil)); err != nil {
		t.Errorf("without a rule: got %v, want it admitted", err)
	}
	env.hold(t, 1, 2)
	env.now = env.now.Add(23 * time.Hour)
	otherWords := func(change func(*signer.Intent)) signer.Intent {
		return env.redirect(t, "res_words", change, env.ann, env.ben)
	}
	none := &signer.RedirectOf{}
	asReturn := otherWords(func(i *signer.Intent) { i.Grant.Redirect = nil })
	for name, intent := range map[string]signer.Intent{
		"no one":                             env.redirect(t, "res_1", nil),
		"one operator":                       env.redirect(t, "res_2", nil, env.ann),
		"one operator twice":                 env.redirect(t, "res_3", nil, env.ann, env.ann),
		"one operator and a person":          env.redirect(t, "res_4", nil, env.ann, env.person),
		"one whose passkey cools off":        env.redirect(t, "res_5", nil, env.ann, env.cay),
		"passkeys that enrol":                env.redirect(t, "res_6", nil, env.enrol...),
		"another address":                    otherWords(func(i *signer.Intent) { i.To = signertest.Token }),
		"another deposit":                    otherWords(func(i *signer.Intent) { i.Grant.Redirect = none }),
		"a return of the same":               asReturn,
		"another id":                         otherWords(func(i *signer.Intent) { i.ID = "res_7" }),
		"an amount that is larger by a unit": otherWords(func(i *signer.Intent) { i.Amount = money.Units(51) }),
	} {
		if _, err := env.AdmitIntent(t.Context(), intent); !isRefused(err, signer.RefusedSignature) {
			t.Errorf("a redirect with signatures of %s: got %v, want it refused", name, err)
		}
	}
	env.now = env.now.Add(2 * time.Hour)
	if _, err := env.AdmitIntent(t.Context(), env.redirect(t, "res_8", nil, env.ann, dan)); !isRefused(err,
		signer.RefusedSignature) || !strings.Contains(err.Error(), "who made it") {
		t.Errorf("with the signature of its maker: got %v, want it refused", err)
	}
	good := env.redirect(t, "res_9", nil, env.ann, env.ben)
	first, err := env.AdmitIntent(t.Context(), good)
	if err != nil {
		t.Fatalf("with both: got %v, want it admitted", err)
	}
	if again, err := env.AdmitIntent(t.Context(), good); err != nil || again.Seq != first.Seq {
		t.Errorf("asked again: got entry %d, %v, want entry %d", again.Seq, err, first.Seq)
	}
	var r signer.Record
	if err := unmarshal(first.Body, &r); err != nil {
		t.Fatal(err)
	}
	g := r.Admit.Grant
	if g == nil || len(g.Consents) != 2 || g.Redirect == nil || g.Redirect.DepositID != "dep_1" ||
		strings.Contains(string(first.Body), "order 7") {
		t.Errorf("the journal has %s, want who signed and the deposit, and not the reference", first.Body)
	}
}

// Rule SA-17: the rule of an organization alone lets no redirect leave, also with signatures of its people.
func TestAnOrganizationsRuleAloneLetsNoRedirectLeave(t *testing.T) {
	t.Parallel()
	env := openOperators(t)
	enrol := signertest.NewPasskey(t, approversOrg, "eve", signer.RightEnrol)
	env.found(t, enrol)
	env.now = env.now.Add(24 * time.Hour)
	rule := signer.ApprovalRule{OrgID: approversOrg, Version: 1, Quorum: 1}
	if _, err := env.set(t, rule, enrol); err != nil {
		t.Fatal(err)
	}
	for name, by := range map[string][]*signertest.Passkey{
		"no one": nil, "a person": {env.person}, "operators": {env.ann, env.ben},
	} {
		intent := env.redirect(t, "res_"+name, nil, by...)
		if _, err := env.AdmitIntent(t.Context(), intent); !isRefused(err, signer.RefusedSignature) {
			t.Errorf("signed by %s: got %v, want it refused", name, err)
		}
	}
	env.hold(t, 1, 2)
	if _, err := env.AdmitIntent(t.Context(), env.redirect(t, "res_1", nil, env.ann, env.ben)); err != nil {
		t.Errorf("with a rule of the operators and their signatures: got %v, want it admitted", err)
	}
}

// endorse asks for an address with signatures of passkeys over what they read.
func (env *operatorsEnv) endorse(
	t *testing.T, id string, said func(*signer.Endorsement), by ...*signertest.Passkey,
) (signer.EndorsedAddress, error) {
	t.Helper()
	e := signer.Endorsement{
		OrgID: approversOrg, ID: id, Chain: signertest.Chain, Address: signertest.Stranger,
		LabelHash: signer.HashLabel("our exchange"), NotBefore: signer.FormatMicros(env.now), Label: "our exchange",
	}
	e.MAC = env.grants.EndorsementMAC(e)
	read := e
	if said != nil {
		said(&read)
	}
	for _, p := range by {
		e.SignedBy = append(e.SignedBy, p.Sign(t, env.installation, env.now.Add(time.Hour),
			func(c signer.StatementContext) signer.Statement { return signer.EndorseStatement(read, c) }))
	}
	return env.EndorseAddress(t.Context(), e)
}

// Rule SA-18.
func TestAnAddressIsEndorsedWithSignaturesOfOperatorsAlone(t *testing.T) {
	t.Parallel()
	env := openOperators(t)
	if _, err := env.endorse(t, "wla_before", nil); err != nil {
		t.Errorf("without a rule: got %v, want it endorsed", err)
	}
	env.hold(t, 1, 2)
	both := []*signertest.Passkey{env.ann, env.ben}
	for name, c := range map[string]struct {
		said func(*signer.Endorsement)
		by   []*signertest.Passkey
	}{
		"no one":              {nil, nil},
		"one operator":        {nil, both[:1]},
		"one operator twice":  {nil, []*signertest.Passkey{env.ann, env.ann}},
		"a person":            {nil, []*signertest.Passkey{env.ann, env.person}},
		"one who cools off":   {nil, []*signertest.Passkey{env.ann, env.cay}},
		"passkeys that enrol": {nil, env.enrol},
		"another address":     {func(e *signer.Endorsement) { e.Address = signertest.Token }, both},
		"another label":       {func(e *signer.Endorsement) { e.Label = "my exchange" }, both},
		"another time": {
			func(e *signer.Endorsement) { e.NotBefore = signer.FormatMicros(env.now.Add(-time.Second)) }, both,
		},
		"another organization": {
			func(e *signer.Endorsement) { e.OrgID = "org_2" }, both,
		},
		"another id": {func(e *signer.Endorsement) { e.ID = "wla_2" }, both},
	} {
		if _, err := env.endorse(t, "wla_1", c.said, c.by...); !isRefused(err, signer.RefusedSignature) {
			t.Errorf("an address with signatures of %s: got %v, want it refused", name, err)
		}
	}
	lying := signer.Endorsement{
		OrgID: approversOrg, ID: "wla_1", Chain: signertest.Chain, Address: signertest.Stranger, Label: "my exchange",
		LabelHash: signer.HashLabel("our exchange"), NotBefore: signer.FormatMicros(env.now),
	}
	lying.MAC = env.grants.EndorsementMAC(lying)
	for _, p := range both {
		lying.SignedBy = append(lying.SignedBy, p.Sign(t, env.installation, env.now.Add(time.Hour),
			func(c signer.StatementContext) signer.Statement { return signer.EndorseStatement(lying, c) }))
	}
	if _, err := env.EndorseAddress(t.Context(), lying); !isRefused(err, signer.RefusedSignature) {
		t.Errorf("signed with another label than the one of the hash: got %v, want it refused", err)
	}
	endorsed, err := env.endorse(t, "wla_1", nil, both...)
	if err != nil || len(endorsed.Consents) != 2 || strings.Contains(string(endorsed.Entry.Body), "our exchange") {
		t.Fatalf("with both: got %+v, %v, want it endorsed with who signed, and no name in the journal", endorsed, err)
	}
	if again, err := env.endorse(t, "wla_1", nil); err != nil || again.Entry.Seq != endorsed.Entry.Seq {
		t.Errorf("asked again without signatures: got %+v, %v, want the same entry", again, err)
	}
	if _, err := env.RevokeEndorsement(t.Context(), signer.Revocation{OrgID: approversOrg, ID: "wla_1"}); err != nil {
		t.Errorf("a revocation without signatures: got %v", err)
	}
}

// Rule SA-20: the operators' id is no organization's, and their rule has a quorum and nothing else.
func TestTheOperatorsAreNoOrganization(t *testing.T) {
	t.Parallel()
	env := openOperators(t)
	for _, w := range []signer.WalletRef{
		signertest.Treasury(signer.Operators), signertest.Deposit(signer.Operators, "alice"),
	} {
		if _, err := env.IssueAddress(t.Context(), w); !isRefused(err, signer.RefusedMalformed) {
			t.Errorf("a wallet for %s: got %v, want it refused", w.Purpose, err)
		}
	}
	e := signer.Endorsement{
		OrgID: signer.Operators, ID: "wla_1", Chain: signertest.Chain, Address: signertest.Stranger,
		LabelHash: signer.HashLabel("ours"), NotBefore: signer.FormatMicros(env.now),
	}
	e.MAC = env.grants.EndorsementMAC(e)
	if _, err := env.EndorseAddress(t.Context(), e); !isRefused(err, signer.RefusedMalformed) {
		t.Errorf("an address of theirs: got %v, want it refused", err)
	}
	payment := env.redirect(t, "wd_1", nil)
	payment.Purpose, payment.From = signer.Payment, signertest.Treasury(approversOrg)
	if _, err := env.AdmitIntent(t.Context(), payment); !isRefused(err, signer.RefusedMalformed) {
		t.Errorf("a payment that calls itself a redirect: got %v, want it refused", err)
	}
	for name, rule := range map[string]signer.ApprovalRule{
		"an asset": {Assets: []signer.AssetRule{{
			Chain: signertest.Chain, Contract: signertest.Token, Threshold: money.Units(1), DayMax: money.Units(1),
		}}},
		"own payments": {OwnPayments: true},
		"returns":      {Returns: true},
	} {
		rule.OrgID, rule.Version, rule.Quorum = signer.Operators, 1, 2
		if _, err := env.set(t, rule, env.enrol...); !isRefused(err, signer.RefusedMalformed) {
			t.Errorf("a rule of the operators with %s: got %v, want it refused", name, err)
		}
	}
}
