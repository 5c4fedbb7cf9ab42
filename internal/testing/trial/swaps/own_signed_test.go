package swaps

import (
	"crypto/ed25519"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/swap"
)

// signedEnv is an ownEnv whose organization has a rule of two people for its own payments.
type signedEnv struct {
	*ownEnv
	approvers *signertest.Approvers
	mirror    *signertest.Mirror
	passkeys  map[string]*signertest.Passkey // for payments, by the member
	enrol     []*signertest.Passkey
}

func newSignedEnv(t *testing.T) *signedEnv {
	t.Helper()
	s := &signedEnv{passkeys: map[string]*signertest.Passkey{}}
	open := func(t testing.TB, grants *signer.GrantKey, now func() time.Time) (*local.Signer, ed25519.PublicKey) {
		s.approvers = signertest.OpenApproversAt(t, grants, now)
		return s.approvers.Signer, s.approvers.AttestKey
	}
	s.ownEnv = newOwnEnvOf(t, newUnfundedWith(t, noSwaps, open))
	var all []*signertest.Passkey
	for _, m := range []member.Member{s.owner, s.finance, s.ben, s.cyd} {
		for _, right := range []signer.Right{signer.RightApprove, signer.RightEnrol} {
			p := signertest.NewPasskey(t, s.org, m.Name, right)
			p.Person = m.Actor().Kind + " " + m.ID
			if right == signer.RightApprove {
				s.passkeys[m.ID] = p
			} else {
				s.enrol = append(s.enrol, p)
			}
			all = append(all, p)
		}
	}
	s.approvers.Found(t, all...)
	s.mirror = s.approvers.NewMirror(all...)
	s.Swaps.Approvers, s.Withdrawals.Approvers = s.mirror, s.mirror
	s.Swaps.ApprovalPage = func(id string) string { return "https://pages.example.com/" + id }
	s.set(signer.ApprovalRule{OrgID: s.org, Version: 1, Quorum: 2, OwnPayments: true})
	return s
}

func (s *signedEnv) set(rule signer.ApprovalRule) {
	s.Helper()
	s.approvers.Set(s.T, rule, s.enrol[0], s.enrol[1], s.enrol[2])
	s.mirror.Rule = &rule
}

// sign approves a swap with the passkey of a person.
func (s *signedEnv) sign(swapID string, person member.Member, lasts time.Duration) (swap.Swap, error) {
	s.Helper()
	w := s.own(swapID)
	signature := s.passkeys[person.ID].Sign(s.T, s.approvers.Installation, s.clock().Add(lasts), w.Statement)
	return s.Swaps.ApproveSigned(s.ctx, s.org, swapID, "", person, &signature)
}

func (s *signedEnv) mustSign(swapID string, lasts time.Duration, people ...member.Member) (w swap.Swap) {
	s.Helper()
	for _, person := range people {
		var err error
		w, err = s.sign(swapID, person, lasts)
		s.must(err)
	}
	s.look("the signatures")
	return w
}

// The rule alone holds a swap for people. They sign once, and the payment of its output needs no second touch within
// its bounds. Rules CO-148 and SA-1.
func TestASwapUnderTheRuleIsSignedOnce(t *testing.T) {
	t.Parallel()
	s := newSignedEnv(t)
	w := s.requestOwn(s.ownRequest("key"))
	if w.Status != swap.AwaitingApproval || w.ApprovalsRequired != 2 {
		t.Fatalf("the swap is %s and needs %d, want it held for two people", w.Status, w.ApprovalsRequired)
	}
	if people, err := s.Swaps.PeopleToSign(s.ctx, s.org, w.ID); err != nil || people != 2 {
		t.Errorf("got %d people, %v", people, err)
	}
	_, err := s.Swaps.ApproveOrganization(s.ctx, s.org, w.ID, "", s.ben)
	s.wantFault(err, fault.ApprovalRefused)
	wanted := "Approve it with your passkey on the page https://pages.example.com/" + w.ID
	if f := fault.Find(err); f == nil || f.Advice != wanted {
		t.Errorf("got %v, want the page", err)
	}
	changed := s.own(w.ID)
	changed.PayoutAddress = "0xthief"
	signature := s.passkeys[s.ben.ID].Sign(t, s.approvers.Installation, s.clock().Add(time.Hour), changed.Statement)
	_, err = s.Swaps.ApproveSigned(s.ctx, s.org, w.ID, "", s.ben, &signature)
	s.wantFault(err, fault.InvalidRequest)
	if w = s.mustSign(w.ID, 23*time.Hour, s.ben); w.Status != swap.AwaitingApproval {
		t.Errorf("with one signature it is %s", w.Status)
	}
	if w = s.mustSign(w.ID, 23*time.Hour, s.cyd); w.Status != swap.Pending {
		t.Fatalf("with two signatures it is %s", w.Status)
	}
	s.deliver(s.payOwn(w.ID), amountOut)
	end := s.wantEnd(w.ID, swap.Completed, "")
	payout, err := s.Withdrawals.ByID(s.ctx, s.org, *end.PayoutID)
	s.must(err)
	if payout.RequiresApproval {
		t.Errorf("the payout waited for people, for %v", payout.ApprovalReasons)
	}
	s.wantVault(amountOut)
	if n := s.number(`SELECT count(*) FROM withdrawals WHERE withdrawal_id = $1 AND made_by = $2`, *end.PayoutID,
		"USER "+s.finance.ID); n != 1 {
		t.Error("the payment does not name who asked for the swap")
	}
}

// The first of two signatures has ended when the second one comes: it does not count, and the person signs again. Rules
// CO-148 and SA-7.
func TestASignatureOfASwapWithTooLittleTimeLeftDoesNotCount(t *testing.T) {
	t.Parallel()
	s := newSignedEnv(t)
	w := s.requestOwn(s.ownRequest("key"))
	s.mustSign(w.ID, 4*time.Minute, s.ben)
	if w = s.mustSign(w.ID, 23*time.Hour, s.cyd); w.Status != swap.AwaitingApproval {
		t.Fatalf("it is %s, want it to wait for a signature that lasts", w.Status)
	}
	if w = s.own(w.ID); w.ApprovalCount != 1 || len(w.ToSignAgain) != 1 || w.ToSignAgain[0] != s.ben.Actor() {
		t.Errorf("got %d approvals, and %v to sign again", w.ApprovalCount, w.ToSignAgain)
	}
	_, err := s.sign(w.ID, s.cyd, 23*time.Hour)
	s.wantFault(err, fault.InvalidState)
	if w = s.mustSign(w.ID, 23*time.Hour, s.ben); w.Status != swap.Pending {
		t.Fatalf("signed again it is %s", w.Status)
	}
	s.deliver(s.payOwn(w.ID), amountOut)
	s.wantEnd(w.ID, swap.Completed, "")
	s.wantVault(amountOut)
}

// Signatures that ended cover no payment: people sign the payment itself. Rules CO-148 and SA-7.
func TestThePaymentOfASwapWhoseSignaturesEndedIsSignedItself(t *testing.T) {
	t.Parallel()
	s := newSignedEnv(t)
	w := s.requestOwn(s.ownRequest("key"))
	s.mustSign(w.ID, time.Hour, s.ben, s.cyd)
	w = s.payOwn(w.ID)
	s.setClock(s.clock().Add(2 * time.Hour))
	s.deliver(w, amountOut)
	for range 10 {
		if s.pass(1); s.own(w.ID).PayoutID != nil {
			break
		}
	}
	payoutID := s.own(w.ID).PayoutID
	if payoutID == nil {
		t.Fatal("the swap has no payout")
	}
	review, err := s.Withdrawals.LoadReview(s.ctx, s.org, *payoutID)
	s.must(err)
	if !review.Withdrawal.RequiresApproval || review.People != 2 {
		t.Fatalf("the payout is %s and needs %d people, want it held for two", review.Withdrawal.Status, review.People)
	}
	for _, person := range []member.Member{s.ben, s.cyd} {
		signature := s.passkeys[person.ID].Sign(t, s.approvers.Installation, s.clock().Add(time.Hour),
			func(c signer.StatementContext) signer.Statement { return review.Statement(c.Approver, c.NotAfter) })
		_, err := s.Withdrawals.ApproveSigned(s.ctx, s.org, *payoutID, person.Actor(), review.Digest, &signature)
		s.must(err)
	}
	s.wantEnd(w.ID, swap.Completed, "")
	s.wantVault(amountOut)
}

// Without a rule, and below it, a swap needs no one.
func TestASwapBelowTheRuleNeedsNoSignature(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]*signer.ApprovalRule{
		"no rule": nil,
		"below it": {Quorum: 2, Assets: []signer.AssetRule{{
			Chain: chain.Ethereum, Contract: signertest.LimitedToken, Threshold: money.Units(1 << 60),
			DayMax: money.Units(1 << 60),
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSignedEnv(t)
			s.mirror.Rule = rule
			if w := s.requestOwn(s.ownRequest("key")); w.Status != swap.Pending || w.ApprovalsRequired != 0 {
				t.Errorf("it is %s and needs %d approvals", w.Status, w.ApprovalsRequired)
			}
		})
	}
}
