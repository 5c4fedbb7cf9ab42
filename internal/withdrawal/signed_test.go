package withdrawal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/wallet"
)

// mirror is what the server knows of passkeys and of a rule. A careless one believes every signature, like a server
// in the hands of an attacker.
type mirror struct {
	installation string
	rule         *signer.ApprovalRule
	keys         map[string]*signertest.Passkey
	network      string
	isCareless   bool
	onCheck      func()   // called before a signature is checked, if it is set
	asked        []string // the texts of the mails to approvers
}

func (m *mirror) AskToSign(_ context.Context, _ pg.Tx, _, skipped, _, text string) error {
	m.asked = append(m.asked, "without "+skipped+": "+text)
	return nil
}

func (m *mirror) LoadSigned(
	_ context.Context, _ pg.Tx, _ string, signature signer.KeySignature,
	statement func(signer.StatementContext) signer.Statement,
) (*signer.SignedStatement, error) {
	signed := &signer.SignedStatement{Signature: signature}
	if k := m.keys[signature.KeyID]; k != nil {
		signed.Words = statement(m.Context(k.Person, signature.NotAfter))
		signed.Passkey.Enrolment = k.Enrolment
	}
	return signed, nil
}

func (m *mirror) LoadRule(context.Context, pg.Tx, string) (*signer.ApprovalRule, error) {
	return m.rule, nil
}

func (m *mirror) Context(person, notAfter string) signer.StatementContext {
	return signer.StatementContext{Installation: m.installation, Approver: person, NotAfter: notAfter}
}

func (m *mirror) AssetWords(chain.Name, chain.Address) (string, *signer.Token, error) {
	return m.network, nil, nil
}

func (m *mirror) CheckSignature(
	_ context.Context, _ pg.Tx, org, person string, right signer.Right, signature signer.KeySignature,
	statement func(signer.StatementContext) signer.Statement,
) error {
	if m.onCheck != nil {
		m.onCheck()
	}
	if m.isCareless {
		return nil
	}
	k := m.keys[signature.KeyID]
	if k == nil || k.OrgID != org || k.Person != person || k.Right != right {
		return fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld, "The passkey is not this person's.")
	}
	words := statement(m.Context(person, signature.NotAfter))
	if err := signature.Verify(k.Passkey(), words); err != nil {
		return fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld, "The signature is of other words.")
	}
	return nil
}

// fixedWords are the words of a policy.
type fixedWords struct {
	Approvers
	network string
	token   *signer.Token
}

func (w fixedWords) AssetWords(chain.Name, chain.Address) (string, *signer.Token, error) {
	return w.network, w.token, nil
}

// signedEnv is an environment with a rule of two people, from an amount of 500 on.
type signedEnv struct {
	*testEnv
	signer *signertest.Approvers
	mirror *mirror
	people []*signertest.Passkey // usr_1 to usr_4, for payments
	enrol  []*signertest.Passkey // usr_1 to usr_3, for passkeys and rules
}

func newSignedEnv(t *testing.T) *signedEnv {
	t.Helper()
	grants, err := signer.NewGrantKey(bytes.Repeat([]byte{7}, signer.GrantKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	s := signertest.OpenApprovers(t, grants)
	e := &signedEnv{testEnv: newTestEnvOf(t, grants, s, s.AttestKey), signer: s}
	e.mirror = &mirror{
		installation: s.Installation, network: "31337", keys: map[string]*signertest.Passkey{},
	}
	e.Approvers = e.mirror
	signertest.IssueAddress(t, s, signer.WalletRef{OrgID: e.org, Family: chain.EVM, Purpose: wallet.Treasury})
	for n := 1; n <= 4; n++ {
		e.people = append(e.people, e.newPasskey(n, signer.RightApprove))
	}
	for n := 1; n <= 3; n++ {
		e.enrol = append(e.enrol, e.newPasskey(n, signer.RightEnrol))
	}
	s.Found(t, append(e.enrol, e.people...)...)
	e.set(signer.ApprovalRule{
		OrgID: e.org, Version: 1, Quorum: 2, OwnPayments: true, Assets: []signer.AssetRule{{
			Chain: chain.Ethereum, Contract: usdcAddress, Threshold: money.Units(500), DayMax: money.Units(600),
		}},
	})
	return e
}

func (e *signedEnv) newPasskey(n int, right signer.Right) *signertest.Passkey {
	p := signertest.NewPasskey(e.t, e.org, fmt.Sprintf("usr_%d", n), right)
	p.Person = fmt.Sprintf("USER usr_%d", n)
	e.mirror.keys[p.ID] = p
	return p
}

func (e *signedEnv) set(rule signer.ApprovalRule) {
	e.t.Helper()
	e.signer.Set(e.t, rule, e.enrol...)
	e.mirror.rule = &rule
}

// words returns the words of a withdrawal as the server shows them.
func (e *signedEnv) words(id string) (statement func(signer.StatementContext) signer.Statement) {
	e.t.Helper()
	err := e.DB.ReadOrg(e.t.Context(), e.org, func(ctx context.Context, tx pg.Tx) error {
		row, err := loadRow(ctx, tx, e.org, id)
		if err != nil {
			return err
		}
		var f Facts
		if err := f.loadMint(ctx, tx, row); err != nil {
			return err
		}
		statement, err = e.newStatement(ctx, tx, e.org, row, f.mint)
		return err
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return statement
}

func (e *signedEnv) sign(p *signertest.Passkey, id string) *signer.KeySignature {
	e.t.Helper()
	s := p.Sign(e.t, e.signer.Installation, time.Now().Add(time.Hour), e.words(id))
	return &s
}

func (e *signedEnv) approve(id string, n int, s *signer.KeySignature) (Withdrawal, error) {
	return e.ApproveSigned(e.t.Context(), e.org, id, userActor(n), "", s)
}

func (e *signedEnv) mustSign(id string, people ...int) (w Withdrawal) {
	e.t.Helper()
	for _, n := range people {
		var err error
		if w, err = e.approve(id, n, e.sign(e.people[n-1], id)); err != nil {
			e.t.Fatal(err)
		}
	}
	return w
}

// admits asks the signer for the payment of a withdrawal, as dispatch does.
func (e *signedEnv) admits(id string) error {
	intent := e.newIntent(id)
	intent.IdempotencyKeyHash = signertest.KeyHash(id)
	_, err := e.signer.AdmitIntent(e.t.Context(), intent)
	return err
}

func (e *signedEnv) request(amount string) Withdrawal {
	r := e.newRequest()
	r.Amount = amount
	return e.mustRequest(r)
}

// Rule SA-1.
func TestAPaymentAboveTheRuleIsHeldAndPaidWithTwoSignatures(t *testing.T) {
	t.Parallel()
	e := newSignedEnv(t)
	small := e.request("400")
	if small.Status != Processing {
		t.Errorf("below the rule: got %s, want it paid without people", small.Status)
	}
	if err := e.admits(small.ID); err != nil {
		t.Errorf("below the rule: got %v", err)
	}
	overDay := e.request("300")
	e.wantReasons(overDay, "APPROVAL_RULE")
	r := e.newRequest()
	p, err := e.Preview(t.Context(), e.org, r)
	if err != nil || p.WouldBe != AwaitingApproval || !slices.Contains(p.Reasons, ReasonApprovalRule) {
		t.Errorf("preview: got %s for %v, %v, want it held by the rule", p.WouldBe, p.Reasons, err)
	}
	w := e.mustRequest(r)
	e.wantReasons(w, "APPROVAL_RULE")
	if got := approvalCount(w); got != "AWAITING_APPROVAL 0 of 2" {
		t.Errorf("got %s, want the quorum of the rule", got)
	}
	review, err := e.LoadReview(t.Context(), e.org, w.ID)
	if err != nil {
		t.Fatal(err)
	}
	shown := review.Statement("USER usr_1", "2026-11-30T12:00:00.000000Z")
	if !review.NeedsSignature() || shown.Find("id") != w.ID || shown.Find("approver") != "USER usr_1" {
		t.Errorf("the page shows %v, want the words of the payment", shown)
	}
	_, err = e.Approve(t.Context(), e.org, w.ID, userActor(1))
	wantFault(t, err, fault.ApprovalRefused)
	other := e.sign(e.people[0], overDay.ID)
	_, err = e.approve(w.ID, 1, other)
	wantFault(t, err, fault.ApprovalRefused)
	_, err = e.approve(w.ID, 2, e.sign(e.people[0], w.ID))
	wantFault(t, err, fault.ApprovalRefused)
	if got := approvalCount(e.mustSign(w.ID, 1)); got != "AWAITING_APPROVAL 1 of 2" {
		t.Errorf("got %s", got)
	}
	_, err = e.approve(w.ID, 1, e.sign(e.people[0], w.ID))
	wantFault(t, err, fault.InvalidState)
	if got := approvalCount(e.mustSign(w.ID, 2)); got != "PROCESSING 2 of 2" {
		t.Errorf("got %s, want it let go", got)
	}
	if err := e.admits(w.ID); err != nil {
		t.Errorf("with two signatures: got %v", err)
	}
}

// A server that believes everything pays nothing: the signer refuses, and the withdrawal goes back to people with the
// reason. Rules SA-1 and SA-7.
func TestTheSignerRefusesWhatACarelessServerApproved(t *testing.T) {
	t.Parallel()
	e := newSignedEnv(t)
	e.mirror.isCareless = true
	other := e.mustRequest(e.newRequest())
	unknown := e.newPasskey(2, signer.RightApprove) // in the tables alone
	unknown.ID, unknown.CredentialID = "apk_unknown", []byte("another")
	cooling := e.newPasskey(2, signer.RightApprove)
	cooling.ID, cooling.CredentialID, cooling.Email = "apk_cooling", []byte("cooling"), "usr_2@example.com"
	e.signer.Found(t, cooling)
	stranger := signertest.NewPasskey(t, "org_other", "usr_2", signer.RightApprove)
	stranger.ID, stranger.Person = "apk_stranger", "USER usr_2"
	e.signer.Found(t, stranger)
	e.signer.Retire(t, e.people[3], e.enrol[0])
	hour := time.Hour
	sign := func(p *signertest.Passkey, id string, lasts time.Duration) *signer.KeySignature {
		s := p.Sign(t, e.signer.Installation, time.Now().Add(lasts), e.words(id))
		return &s
	}
	unverified := func(id string) *signer.KeySignature {
		s := sign(e.people[1], id, hour)
		data := bytes.Clone(s.Assertion.AuthenticatorData)
		data[32] &^= 4
		s.Assertion = e.people[1].SignBytes(t, data, s.Assertion.ClientDataJSON)
		return s
	}
	for name, c := range map[string]struct {
		person int
		second func(id string) *signer.KeySignature // of the second of two people
	}{
		"other words":           {2, func(string) *signer.KeySignature { return sign(e.people[1], other.ID, hour) }},
		"another person":        {2, func(id string) *signer.KeySignature { return sign(e.people[2], id, hour) }},
		"another organization":  {2, func(id string) *signer.KeySignature { return sign(stranger, id, hour) }},
		"stale":                 {2, func(id string) *signer.KeySignature { return sign(e.people[1], id, -hour) }},
		"too long":              {2, func(id string) *signer.KeySignature { return sign(e.people[1], id, 25*hour) }},
		"no verification":       {2, unverified},
		"a retired passkey":     {4, func(id string) *signer.KeySignature { return sign(e.people[3], id, hour) }},
		"cooling off":           {2, func(id string) *signer.KeySignature { return sign(cooling, id, hour) }},
		"in the tables alone":   {2, func(id string) *signer.KeySignature { return sign(unknown, id, hour) }},
		"a passkey that enrols": {2, func(id string) *signer.KeySignature { return sign(e.enrol[1], id, hour) }},
		"the same person twice": {2, func(id string) *signer.KeySignature { return sign(e.people[0], id, hour) }},
		"another network": {2, func(id string) *signer.KeySignature {
			e.mirror.network = "1"
			s := sign(e.people[1], id, hour)
			e.mirror.network = "31337"
			return s
		}},
	} {
		w := e.mustRequest(e.newRequest())
		e.mustSign(w.ID, 1)
		if _, err := e.approve(w.ID, c.person, c.second(w.ID)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		err := e.admits(w.ID)
		var refusal *signer.Refusal
		if !errors.As(err, &refusal) || refusal.Code != signer.RefusedSignature {
			t.Errorf("%s: got %v, want it refused with %s", name, err, signer.RefusedSignature)
		}
	}
}

// Where the server underestimates what was paid in a day, the signer refuses, and people sign in the next round.
// Rules SA-1 and SA-7.
func TestAPaymentThatTheSignerWantsSignedGoesBackToPeople(t *testing.T) {
	t.Parallel()
	e := newSignedEnv(t)
	for _, amount := range []string{"400", "150"} {
		if err := e.admits(e.request(amount).ID); err != nil {
			t.Fatal(err)
		}
	}
	rule := e.mirror.rule
	e.mirror.rule = nil // the mirror does not know the rule yet
	w := e.request("300")
	e.mirror.rule = rule
	err := e.admits(w.ID)
	var refusal *signer.Refusal
	if w.Status != Processing || !errors.As(err, &refusal) || refusal.Code != signer.RefusedSignature {
		t.Fatalf("got %s, %v, want it refused by the signer alone", w.Status, err)
	}
	e.returnOrder(w, refusal)
	w, err = e.ByID(t.Context(), e.org, w.ID)
	if err != nil {
		t.Fatal(err)
	}
	e.wantReasons(w, "APPROVAL_RULE")
	if got := approvalCount(w); got != "AWAITING_APPROVAL 0 of 2" {
		t.Errorf("got %s", got)
	}
	_, err = e.Approve(t.Context(), e.org, w.ID, userActor(1))
	wantFault(t, err, fault.ApprovalRefused)
	e.mustSign(w.ID, 1, 2)
	if err := e.admits(w.ID); err != nil {
		t.Errorf("with signatures of the new round: got %v", err)
	}
}

// A signature of an earlier round approves nothing. Rule SA-7.
func TestASignatureOfAnEarlierRoundIsRefused(t *testing.T) {
	t.Parallel()
	e := newSignedEnv(t)
	w := e.mustRequest(e.newRequest())
	first := e.sign(e.people[0], w.ID)
	e.mustSign(w.ID, 1, 2)
	e.returnOrder(w, &signer.Refusal{Code: signer.PolicyLimit})
	_, err := e.approve(w.ID, 1, first)
	wantFault(t, err, fault.ApprovalRefused)
	e.mustSign(w.ID, 1, 2)
	if err := e.admits(w.ID); err != nil {
		t.Errorf("signed again: got %v", err)
	}
}

// The first of two signatures may have ended, or be about to, when the second one comes. It counts no more, so nothing
// goes to the signer that it would refuse; the same person signs again, and counts once. Rule SA-7.
func TestASignatureWithTooLittleTimeLeftDoesNotCount(t *testing.T) {
	t.Parallel()
	for name, lasts := range map[string]time.Duration{"ended": -time.Minute, "about to end": time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newSignedEnv(t)
			w := e.mustRequest(e.newRequest())
			e.mirror.isCareless = true // the signature was valid when it came
			first := e.people[0].Sign(t, e.signer.Installation, time.Now().Add(lasts), e.words(w.ID))
			if _, err := e.approve(w.ID, 1, &first); err != nil {
				t.Fatal(err)
			}
			e.mirror.isCareless = false
			if got := approvalCount(e.mustSign(w.ID, 2)); got != "AWAITING_APPROVAL 1 of 2" {
				t.Errorf("got %s, want one signature that counts", got)
			}
			review, err := e.LoadReview(t.Context(), e.org, w.ID)
			if err != nil {
				t.Fatal(err)
			}
			if a := review.Approvals; len(a) != 2 || !a[0].HasEnded || a[1].HasEnded {
				t.Errorf("got %+v, want the first to sign again", a)
			}
			_, err = e.approve(w.ID, 2, e.sign(e.people[1], w.ID))
			wantFault(t, err, fault.InvalidState)
			if got := approvalCount(e.mustSign(w.ID, 1)); got != "PROCESSING 2 of 2" {
				t.Errorf("got %s, want it let go", got)
			}
			if err := e.admits(w.ID); err != nil {
				t.Errorf("signed again: got %v", err)
			}
		})
	}
}

// The database counts a person once, and takes a second approval only in place of a signature that is about to end.
// Rules SA-7 and WD-35.
func TestTheDatabaseTakesAnotherApprovalOfAPersonOnlyForASignatureThatEnds(t *testing.T) {
	t.Parallel()
	e := newSignedEnv(t)
	w := e.mustRequest(e.newRequest())
	e.mustSign(w.ID, 1)
	again := func(nth int, signature, notAfter string) error {
		return e.DB.InOrg(t.Context(), e.org, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO withdrawal_approvals SELECT org_id, withdrawal_id, round, approver_kind,
				approver_id, at + $4::interval, digest, mac, `+signature+`, $2 FROM withdrawal_approvals
				WHERE withdrawal_id = $1 AND $3 = $3`, w.ID, nth, notAfter, notAfter)
			return err
		})
	}
	for name, c := range map[string]struct {
		nth              int
		signature, after string
	}{
		"while it counts":   {1, "signature", "0"},
		"without signature": {1, "NULL", "2 hours"},
		"out of turn":       {2, "signature", "2 hours"},
	} {
		if err := again(c.nth, c.signature, c.after); !pg.ViolatesConstraint(err, "withdrawal_approvals_again") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := again(1, "signature", "2 hours"); err != nil {
		t.Fatal(err)
	}
	err := e.DB.InOrg(t.Context(), e.org, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `SET CONSTRAINTS withdrawals_quorum IMMEDIATE`)
		if err == nil {
			_, err = tx.Exec(ctx, `UPDATE withdrawals SET status = 'PROCESSING', approved_at = now()
				WHERE withdrawal_id = $1`, w.ID)
		}
		return err
	})
	if !pg.ViolatesConstraint(err, "withdrawals_approved_by_enough") {
		t.Errorf("one person who signed twice: got %v, want too few approvals", err)
	}
}

// A stricter rule applies to what was signed under the old one. Rule SA-4.
func TestThePaymentNeedsThePeopleOfTheNewestRule(t *testing.T) {
	t.Parallel()
	e := newSignedEnv(t)
	w := e.mustRequest(e.newRequest())
	e.mustSign(w.ID, 1)
	stricter := *e.mirror.rule
	stricter.Version, stricter.Quorum = 2, 3
	old := e.mirror.rule
	e.set(stricter)
	e.mirror.rule = old // an attacker shows the server the old version
	e.mustSign(w.ID, 2)
	var refusal *signer.Refusal
	if err := e.admits(w.ID); !errors.As(err, &refusal) || refusal.Code != signer.RefusedSignature {
		t.Errorf("by the old rule: got %v, want it refused", err)
	}
	e.mirror.rule = &stricter
	e.returnOrder(w, refusal)
	if got := approvalCount(e.mustSign(w.ID, 1, 2)); got != "AWAITING_APPROVAL 2 of 3" {
		t.Errorf("got %s, want three people", got)
	}
	e.mustSign(w.ID, 3)
	if err := e.admits(w.ID); err != nil {
		t.Errorf("with three: got %v", err)
	}
}

// The withdrawal, the page, the mail and the signer's log have one fingerprint, and each payment another one. Rule
// SA-15.
func TestTheFingerprintOfAPaymentIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	e := newSignedEnv(t)
	seen := map[string]bool{}
	for range 2 {
		w := e.mustRequest(e.newRequest())
		fingerprint := w.ApprovalFingerprint
		if len(fingerprint) != signer.TermsFingerprintDigits || seen[fingerprint] {
			t.Fatalf("got the fingerprint %q, want one of its own", fingerprint)
		}
		seen[fingerprint] = true
		review, err := e.LoadReview(t.Context(), e.org, w.ID)
		if err != nil || review.Digest[:signer.TermsFingerprintDigits] != fingerprint ||
			review.Withdrawal.ApprovalFingerprint != fingerprint {
			t.Errorf("page: got %q and %q, %v, want %q", review.Digest, review.Withdrawal.ApprovalFingerprint, err,
				fingerprint)
		}
		if mails := e.mirror.asked; len(mails) != len(seen) || !strings.Contains(mails[len(mails)-1], fingerprint) ||
			!strings.Contains(mails[len(mails)-1], w.ID) {
			t.Errorf("got the mails %q, want one with %s", mails, fingerprint)
		}
		if strings.Contains(e.signer.Log.String(), fingerprint) {
			t.Error("the signer logged a payment before it was signed")
		}
		e.mustSign(w.ID, 1, 2)
		if err := e.admits(w.ID); err != nil {
			t.Fatal(err)
		}
		if got := e.signer.Log.String(); !strings.Contains(got, "intent="+w.ID) ||
			!strings.Contains(got, "fingerprint="+fingerprint) || !strings.Contains(got, "signatures=2") {
			t.Errorf("the signer's log: got %q, want %s", got, fingerprint)
		}
	}
	small := e.request("400")
	if err := e.admits(small.ID); err != nil || small.ApprovalFingerprint != "" || len(e.mirror.asked) != len(seen) {
		t.Errorf("without people: got %q, %v, and %d mails, want no fingerprint and no mail", small.ApprovalFingerprint,
			err, len(e.mirror.asked))
	}
}

// The words that the server verifies are those that the signer builds. Rule SA-7.
func TestTheServerVerifiesTheWordsThatTheSignerBuilds(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(22, 190))
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	grants, err := signer.NewGrantKey(bytes.Repeat([]byte{9}, signer.GrantKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	context := signer.StatementContext{Installation: "ab", Approver: "USER usr_1", NotAfter: "2026-11-30T12:00:00Z"}
	mints := newMints()
	for n := range 2000 {
		m := mints[rng.IntN(len(mints))]
		network, token := pick("1", "31337"), (*signer.Token)(nil)
		if rng.IntN(2) == 0 {
			token = &signer.Token{Symbol: m.Symbol, Decimals: m.Decimals}
		}
		s := &Service{GrantKey: grants, Approvers: fixedWords{network: network, token: token}}
		r := storedWithdrawal{
			id: fmt.Sprintf("wd_%d", n), owner: ledger.OwnerOf(pick("alice", "b\u202eb"), ""), mintID: m.ID,
			chain:  m.Chain,
			amount: money.Units(10 + rng.Uint64N(1<<62)), toAddress: chain.Address(pick(stranger, string(usdcAddress))),
			approvalRound: rng.IntN(4), deductsFee: rng.IntN(2) == 0,
		}
		switch rng.IntN(3) {
		case 0:
			r.owner, r.listedID = ledger.ProductOwner("CUSTODIAL"), "wla_1"
			r.madeBy = pick("", "USER usr_9")
		case 1:
			r.owner, r.refund = ledger.RefundOwner(), &signer.RefundOf{RefundID: "rf_1", CheckoutID: "co_1"}
		}
		if r.deductsFee {
			r.deductedFee = new(money.Units(rng.Uint64N(10)))
		}
		if rng.IntN(2) == 0 {
			r.feeMax = new(money.Units(1 + rng.Uint64N(1000)))
		}
		o := s.newOrder("org_1", r, m, wallet.Wallet{ID: "wal_1"}, 2, nil)
		intent := signer.Intent{
			ID: o.ID, Purpose: o.Purpose, Chain: o.Chain, To: o.To, Contract: o.Contract, Amount: o.Amount,
			From: signer.WalletRef{OrgID: o.OrgID}, CustomerID: o.CustomerID, MintID: o.MintID,
			FeeDeducted: o.FeeDeducted, WhitelistedID: o.WhitelistedID, Product: o.Product, Grant: o.Grant,
			Refund: o.Refund,
		}
		if o.FeeMax != nil {
			intent.FeeMax = *o.FeeMax
		}
		if refusal := grants.CheckGrant(intent); refusal == nil {
			t.Fatal("a grant of two people without approvals passes")
		}
		statement, err := s.newPaymentStatement("org_1", r, m)
		if err != nil {
			t.Fatal(err)
		}
		got, want := statement(context), intent.Statement(network, token, context)
		if !slices.Equal(got, want) {
			t.Fatalf("the server verifies %v\nthe signer builds %v", got, want)
		}
		if intent.MadeBy() != r.madeBy {
			t.Fatalf("maker: got %q, want %q", intent.MadeBy(), r.madeBy)
		}
	}
}

// An own payment names its maker while a rule holds, and the signer refuses the maker's signature. Rule SA-1.
func TestTheMakerOfAnOwnPaymentIsNoneOfThePeople(t *testing.T) {
	t.Parallel()
	own := Facts{parsed: parsed{owner: ledger.ProductOwner("CUSTODIAL")}}
	customers := Facts{parsed: parsed{owner: ledger.OwnerOf("alice", "")}}
	refund := Facts{parsed: parsed{owner: ledger.RefundOwner()}}
	rule := &signer.ApprovalRule{Quorum: 1}
	for name, c := range map[string]struct {
		f     Facts
		rule  *signer.ApprovalRule
		actor audit.Actor
		want  string
	}{
		"own, with a rule":        {own, rule, userActor(9), "USER usr_9"},
		"own, by an operator":     {own, rule, audit.Operator("bob"), "OPERATOR bob"},
		"own, without a rule":     {own, nil, userActor(9), ""},
		"own, by the service":     {own, rule, swapActor, ""},
		"a customer's":            {customers, rule, audit.APIKey("org_1"), ""},
		"a refund, by its person": {refund, rule, userActor(9), ""},
	} {
		c.f.rule, c.f.request.Actor = c.rule, c.actor
		if got := c.f.maker(); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	terms := signer.Terms{OrgID: "org_1", WithdrawalID: "wd_1", Product: "CUSTODIAL"}
	made := terms
	made.MadeBy = "USER usr_9"
	if terms.ComputeDigest() == made.ComputeDigest() {
		t.Error("the digest does not cover the maker")
	}
}
