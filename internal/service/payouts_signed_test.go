package service

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// signedPayoutEnv is a payoutEnv whose people have passkeys that count.
type signedPayoutEnv struct {
	*payoutEnv
	approvers *signertest.Approvers
	book      *approver.Service
	approve   map[audit.Actor]*signertest.Passkey // for payments
	enrol     []*signertest.Passkey               // of the two approvers, for people and rules
}

func newSignedPayoutEnv(t *testing.T) *signedPayoutEnv {
	t.Helper()
	grants := newPayoutGrants(t)
	s := signertest.OpenApprovers(t, grants)
	h := &signedPayoutEnv{
		payoutEnv: newPayoutEnvOf(t, grants, s, s.AttestKey), approvers: s,
		approve: map[audit.Actor]*signertest.Passkey{},
	}
	h.book = approver.New(h.DB, s, approver.Config{AttestKey: s.AttestKey, GrantKey: grants, Chains: h.Chains},
		slog.New(slog.DiscardHandler))
	h.Approvers = h.book
	for _, person := range []audit.Actor{firstApprover, secondApprover, batchMaker} {
		h.approve[person] = h.addPasskey(person, signer.RightApprove)
		if person != batchMaker {
			h.enrol = append(h.enrol, h.addPasskey(person, signer.RightEnrol))
		}
	}
	return h
}

// addPasskey enrols a passkey of a person, which a person at the signer's host founds.
func (h *signedPayoutEnv) addPasskey(person audit.Actor, right signer.Right) *signertest.Passkey {
	h.Helper()
	p := signertest.NewPasskey(h.T, h.org, person.ID, right)
	p.ID, p.Person = approver.NewKeyID(time.Now()), approver.PersonName(person)
	err := h.DB.InSystem(h.Context(), func(ctx context.Context, tx pg.Tx) error {
		request := p.Request(h.T, h.approvers.Installation, time.Now().Add(time.Hour))
		_, err := h.book.Enrol(ctx, tx, person, request)
		return err
	})
	if err != nil {
		h.Fatal(err)
	}
	h.approvers.Found(h.T, p)
	if err := h.book.FinishKey(h.Context(), p.ID); err != nil {
		h.Fatal(err)
	}
	return p
}

// setRule sets the rule of the organization with the signatures of both people who may.
func (h *signedPayoutEnv) setRule(rule signer.ApprovalRule) {
	h.Helper()
	rule.OrgID = h.org
	var p approver.Proposal
	err := h.DB.InSystem(h.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		if p, err = h.book.ProposeRule(ctx, tx, firstApprover, rule); err != nil {
			return err
		}
		for n, person := range []audit.Actor{firstApprover, secondApprover} {
			signature := h.enrol[n].Sign(h.T, h.approvers.Installation, time.Now().Add(time.Hour),
				func(c signer.StatementContext) signer.Statement { return signer.RuleStatement(p.Rule, c) })
			if err := h.book.SignRule(ctx, tx, person, h.org, p.ID, signature); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = h.book.FinishRule(h.Context(), p.ID)
	}
	if err != nil {
		h.Fatal(err)
	}
}

// sign returns the signature of a passkey over the words of a batch.
func (h *signedPayoutEnv) sign(p *signertest.Passkey, b payout.Batch) *signer.KeySignature {
	h.Helper()
	s := p.Sign(h.T, h.approvers.Installation, time.Now().Add(time.Hour),
		func(c signer.StatementContext) signer.Statement { return signer.BatchStatement(b.Header, c) })
	return &s
}

func (h *signedPayoutEnv) approveWith(
	b payout.Batch, person audit.Actor, s *signer.KeySignature,
) (payout.Batch, error) {
	return h.ApproveSigned(h.Context(), h.org, b.ID, b.ContentHash, person, s)
}

// signedByBoth returns a batch that two people signed.
func (h *signedPayoutEnv) signedByBoth() (b payout.Batch) {
	h.Helper()
	b = h.submitted()
	for _, person := range []audit.Actor{firstApprover, secondApprover} {
		h.must(h.approveWith(b, person, h.sign(h.approve[person], b)))
	}
	return h.must(h.ByID(h.Context(), h.org, b.ID))
}

// everyPayment is a rule under which each payment needs two people.
var everyPayment = signer.ApprovalRule{Quorum: 2}

// A batch that the rule covers goes with the signatures of two people, although the organization's own quorum is one.
// Rules SA-1 and SA-7.
func TestABatchThatTheRuleCoversIsPaidWithTwoSignatures(t *testing.T) {
	t.Parallel()
	h := newSignedPayoutEnv(t)
	h.setRule(everyPayment)
	b, other := h.submitted(), h.submitted()
	if people, err := h.PeopleToSign(t.Context(), h.org, b.ID); err != nil || people != 2 {
		t.Errorf("got %d people, %v, want those of the rule", people, err)
	}
	first := h.approve[firstApprover]
	stale := first.Sign(t, h.approvers.Installation, time.Now().Add(-time.Minute),
		func(c signer.StatementContext) signer.Statement { return signer.BatchStatement(b.Header, c) })
	for name, c := range map[string]struct {
		signature *signer.KeySignature
		want      fault.Code
	}{
		"no signature":                   {nil, fault.ApprovalRefused},
		"the signature of another batch": {h.sign(first, other), fault.InvalidRequest},
		"another person's passkey":       {h.sign(h.approve[secondApprover], b), fault.InvalidRequest},
		"a passkey for people and rules": {h.sign(h.enrol[0], b), fault.InvalidRequest},
		"a signature that ended":         {&stale, fault.InvalidRequest},
	} {
		_, err := h.approveWith(b, firstApprover, c.signature)
		h.wantCode(name, err, c.want)
	}
	_, err := h.approveWith(b, batchMaker, h.sign(h.approve[batchMaker], b))
	h.wantCode("the maker", err, fault.ApprovalRefused)
	if got := h.must(h.ByID(t.Context(), h.org, b.ID)); got.Approvals != 0 {
		t.Errorf("got %d approvals after refusals", got.Approvals)
	}
	h.must(h.approveWith(b, firstApprover, h.sign(first, b)))
	h.wantStatus(b.ID, payout.AwaitingApproval)
	_, err = h.approveWith(b, firstApprover, h.sign(first, b))
	h.wantCode("the same person again", err, fault.InvalidState)
	h.must(h.approveWith(b, secondApprover, h.sign(h.approve[secondApprover], b)))
	h.wantStatus(b.ID, payout.Processing)
	h.expand(b)
	for n, intent := range h.intents(b) {
		if _, err := h.signer.AdmitIntent(t.Context(), intent); err != nil {
			t.Errorf("row %d: %v", n+1, err)
		}
	}
	h.wantStatus(other.ID, payout.AwaitingApproval)
}

// A signature that is about to end when the second one comes does not count: the person signs again. Rule SA-7.
func TestASignatureOfABatchWithTooLittleTimeLeftDoesNotCount(t *testing.T) {
	t.Parallel()
	h := newSignedPayoutEnv(t)
	h.setRule(everyPayment)
	b := h.submitted()
	short := h.approve[firstApprover].Sign(t, h.approvers.Installation, time.Now().Add(time.Minute),
		func(c signer.StatementContext) signer.Statement { return signer.BatchStatement(b.Header, c) })
	h.must(h.approveWith(b, firstApprover, &short))
	h.must(h.approveWith(b, secondApprover, h.sign(h.approve[secondApprover], b)))
	h.wantStatus(b.ID, payout.AwaitingApproval)
	if got := h.must(h.ByID(t.Context(), h.org, b.ID)); got.Approvals != 1 {
		t.Errorf("got %d approvals, want the one that counts", got.Approvals)
	}
	_, err := h.approveWith(b, secondApprover, h.sign(h.approve[secondApprover], b))
	h.wantCode("the same person again", err, fault.InvalidState)
	h.must(h.approveWith(b, firstApprover, h.sign(h.approve[firstApprover], b)))
	h.wantStatus(b.ID, payout.Processing)
	h.expand(b)
	for n, intent := range h.intents(b) {
		if _, err := h.signer.AdmitIntent(t.Context(), intent); err != nil {
			t.Errorf("row %d: %v", n+1, err)
		}
	}
}

// A rule that came after the submission asks for its people, too. Rule SA-1.
func TestABatchFromBeforeARuleNeedsItsPeople(t *testing.T) {
	t.Parallel()
	h := newSignedPayoutEnv(t)
	b := h.submitted()
	h.setRule(everyPayment)
	h.must(h.approveWith(b, firstApprover, h.sign(h.approve[firstApprover], b)))
	h.wantStatus(b.ID, payout.AwaitingApproval)
	h.must(h.approveWith(b, secondApprover, h.sign(h.approve[secondApprover], b)))
	h.wantStatus(b.ID, payout.Processing)
}

// A rule asks for people if it does so for a row, or for the rows of an asset together. Rule SA-1.
func TestTheRowsOfABatchCountTogether(t *testing.T) {
	t.Parallel()
	h := newSignedPayoutEnv(t)
	h.setRule(everyPayment)
	b := h.submitted() // rows of 1000, 2000 and 3000
	for _, c := range []struct {
		threshold, dayMax uint64
		want              int
	}{{3000, 10_000, 2}, {3001, 6000, 0}, {3001, 5999, 2}} {
		rule := signer.ApprovalRule{Quorum: 2, Assets: []signer.AssetRule{{
			Chain: signertest.Chain, Contract: signertest.Token, Threshold: money.Units(c.threshold),
			DayMax: money.Units(c.dayMax),
		}}}
		h.setRule(rule)
		if people, err := h.PeopleToSign(t.Context(), h.org, b.ID); err != nil || people != c.want {
			t.Errorf("below %d, at most %d in a day: got %d people, %v, want %d", c.threshold, c.dayMax, people, err,
				c.want)
		}
	}
	// The last rule asks for people again, and the one before did not.
	_, err := h.Approve(t.Context(), h.org, b.ID, b.ContentHash, firstApprover)
	h.wantCode("without a signature", err, fault.ApprovalRefused)
}

// Whatever the database says about who signed a batch, the signer pays no row without two signatures of it. Rules SA-1
// and SA-7.
func TestTheSignerPaysNoRowWithoutTheSignaturesOfItsBatch(t *testing.T) {
	t.Parallel()
	h := newSignedPayoutEnv(t)
	h.setRule(everyPayment)
	const of = ` WHERE batch_id = $1 AND approver_id = 'usr_second'`
	other := h.submitted()
	h.must(h.approveWith(other, secondApprover, h.sign(h.approve[secondApprover], other)))
	for name, c := range map[string]struct{ sql, want string }{
		"no signature": {`UPDATE payout_approvals SET signature = NULL` + of, signer.RefusedSignature},
		"the signature of the other person": {`UPDATE payout_approvals SET signature = (SELECT signature FROM
			payout_approvals WHERE batch_id = $1 AND approver_id = 'usr_first')` + of, signer.RefusedSignature},
		"the signature of another batch": {
			`UPDATE payout_approvals SET signature = (SELECT signature FROM
			payout_approvals WHERE batch_id = '` + other.ID + `' AND approver_id = 'usr_second')` + of,
			signer.RefusedSignature,
		},
		"an approval that is gone": {`DELETE FROM payout_approvals` + of, signer.RefusedGrant},
	} {
		b := h.signedByBoth()
		tamper(h.payoutEnv, c.sql, b.ID)
		h.expand(b)
		for n, intent := range h.intents(b) {
			_, err := h.signer.AdmitIntent(t.Context(), intent)
			var refusal *signer.Refusal
			if !errors.As(err, &refusal) || refusal.Code != c.want {
				t.Errorf("%s, row %d: got %v, want %s", name, n+1, err, c.want)
			}
		}
	}
}

// The signer refuses the signature of who made a batch, also from a server that lets the maker approve. Rule SA-1.
func TestTheMakerOfABatchIsNoneOfThePeopleWhoSignIt(t *testing.T) {
	t.Parallel()
	h := newSignedPayoutEnv(t)
	h.setRule(everyPayment)
	b := h.signedByBoth()
	h.expand(b)
	intent := h.intents(b)[0]
	approval := h.GrantKey.MakeBatchApproval(b.ContentHash, approver.PersonName(batchMaker))
	approval.Signature = h.sign(h.approve[batchMaker], b)
	intent.Grant.Approvals[1] = approval
	_, err := h.signer.AdmitIntent(t.Context(), intent)
	var refusal *signer.Refusal
	if !errors.As(err, &refusal) || !strings.Contains(refusal.Message, "who made the batch") {
		t.Errorf("got %v, want it refused because its maker signed it", err)
	}
}

// A batch below the operator's amount waits for people where a rule asks for them. Rule SA-1.
func TestARuleOfPeopleHoldsABatchThatTheOperatorWouldLetGo(t *testing.T) {
	t.Parallel()
	h := newSignedPayoutEnv(t)
	h.payBefore()
	h.set("batchAutoApproveUsd", "0.0061")
	if b := h.submitted(); b.Status != payout.Processing {
		t.Fatalf("without a rule: got %s, want it paid without a person", b.Status)
	}
	h.setRule(everyPayment)
	h.wantPeopleBecause(h.submitted(), "asks for the signatures of 2 people")
}

// A signature where no one has passkeys is refused before anything is written. Rule SA-7.
func TestASignatureIsRefusedWhereNoOneHasPasskeys(t *testing.T) {
	t.Parallel()
	h := newSignedPayoutEnv(t)
	h.Approvers = nil
	b := h.submitted()
	_, err := h.approveWith(b, firstApprover, h.sign(h.approve[firstApprover], b))
	h.wantCode("a signature", err, fault.ApprovalRefused)
	h.must(h.approveWith(b, firstApprover, nil))
	h.wantStatus(b.ID, payout.Processing)
	var n int
	err = pgtest.OwnerPool(t, h.DB).QueryRow(t.Context(),
		`SELECT count(*) FROM payout_approvals WHERE batch_id = $1 AND signature IS NOT NULL`, b.ID).Scan(&n)
	if err != nil || n != 0 {
		t.Errorf("got %d signatures, %v, want none", n, err)
	}
}
