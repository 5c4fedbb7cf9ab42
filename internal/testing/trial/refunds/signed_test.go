package refunds

import (
	"crypto/ed25519"
	"fmt"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// A refund of a checkout is paid without people below the rule. Above it, it waits for their signatures over words that
// name the refund and the checkout, and the payer has it in full. The signer refuses it without them. Rules SA-1 and
// SA-7.
func TestARefundUnderARuleIsPaidWithTwoSignatures(t *testing.T) {
	t.Parallel()
	var approvers *signertest.Approvers
	e := newTestEnvOf(t, func(t testing.TB, grants *signer.GrantKey, now func() time.Time) (
		signer.Signer, ed25519.PublicKey,
	) {
		approvers = signertest.OpenApproversAt(t, grants, now)
		return approvers.Signer, approvers.AttestKey
	})
	var people, all []*signertest.Passkey
	for n := 1; n <= 2; n++ {
		for _, right := range []signer.Right{signer.RightApprove, signer.RightEnrol} {
			p := signertest.NewPasskey(t, e.org, fmt.Sprintf("usr_%d", n), right)
			p.Person = fmt.Sprintf("USER usr_%d", n)
			if right == signer.RightApprove {
				people = append(people, p)
			}
			all = append(all, p)
		}
	}
	approvers.Found(t, all...)
	rule := signer.ApprovalRule{OrgID: e.org, Version: 1, Quorum: 2, Assets: []signer.AssetRule{{
		Chain: chain.Ethereum, Contract: signertest.Token, Threshold: money.Units(50 * million),
		DayMax: money.Units(1000 * million),
	}}}
	approvers.Set(t, rule, all[1], all[3])
	mirror := approvers.NewMirror(all...)
	mirror.Rule = &rule
	e.Withdrawals.Approvers = mirror

	small, _ := e.refund(request(e.paid(100*million), amount(30*million), to(home)))
	e.until(small.ID, checkout.RefundCompleted)
	e.has(home, dollars, 30*million)

	id := e.paid(100 * million)
	big, _ := e.refund(request(id, to(home)))
	for range 10 {
		if big = e.load(big.ID); big.WithdrawalID != "" {
			break
		}
		e.pass(1)
	}
	review, err := e.Withdrawals.LoadReview(e.ctx, e.org, big.WithdrawalID)
	e.must(err)
	words := review.Statement("USER usr_1", "2026-01-01T00:00:00.000000Z")
	if review.Withdrawal.Status != withdrawal.AwaitingApproval || review.People != 2 ||
		words.Find("refund") != big.ID || words.Find("checkout") != id {
		t.Fatalf("got %s, which needs %d people, and the words %v", review.Withdrawal.Status, review.People, words)
	}
	_, err = e.Withdrawals.ApproveTerms(e.ctx, e.org, big.WithdrawalID, audit.User("usr_1"), review.Digest)
	if !fault.HasCode(err, fault.ApprovalRefused) {
		t.Errorf("without a signature: got %v, want it refused", err)
	}
	e.pass(3)
	e.has(home, dollars, 30*million)
	sign := func() {
		t.Helper()
		for n, p := range people {
			signature := p.Sign(t, approvers.Installation, e.clock().Add(time.Hour),
				func(c signer.StatementContext) signer.Statement { return review.Statement(c.Approver, c.NotAfter) })
			if n == 1 && mirror.IsCareless {
				signature.Assertion.Signature[9] ^= 1
			}
			person := audit.User(fmt.Sprintf("usr_%d", n+1))
			_, err := e.Withdrawals.ApproveSigned(e.ctx, e.org, big.WithdrawalID, person, review.Digest, &signature)
			e.must(err)
		}
	}
	// A careless server believes a signature that the signer refuses: the refund goes back to people.
	mirror.IsCareless = true
	sign()
	e.pass(3)
	e.has(home, dollars, 30*million)
	mirror.IsCareless = false
	review, err = e.Withdrawals.LoadReview(e.ctx, e.org, big.WithdrawalID)
	e.must(err)
	if review.Withdrawal.Status != withdrawal.AwaitingApproval || !review.IsReturned {
		t.Fatalf("got %s, want it back with people", review.Withdrawal.Status)
	}
	sign()
	e.until(big.ID, checkout.RefundCompleted)
	e.has(home, dollars, 130*million)
	e.books(dollars, 70*million, 0)
}
