package local

import (
	"context"

	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/approvers"
	"github.com/cofferpay/coffer/internal/signer/hostorders"
	"github.com/cofferpay/coffer/internal/signer/rules"
	"github.com/cofferpay/coffer/internal/signer/syntax"
)

// decideAboutApprovers is decide for a rule about passkeys or about the approval of payments.
func (s *Signer) decideAboutApprovers(
	ctx context.Context, malformed *signer.Refusal,
	rule func(*approvers.Book, approvers.Situation) (approvers.Decision, error),
) (signer.Entry, error) {
	seq, err := s.decide(ctx, malformed, func(reading rules.Reading) (rules.Decision, error) {
		return s.rules.DecideAboutApprovers(reading, rule)
	})
	if err != nil {
		return signer.Entry{}, err
	}
	failpoint.Hit("E02")
	e, err := s.journal.WaitDurable(seq)
	if err != nil {
		return signer.Entry{}, err
	}
	failpoint.Hit("E03")
	return e, nil
}

// EnrolKey records a passkey of an approver.
func (s *Signer) EnrolKey(ctx context.Context, e signer.EnrolRequest) (signer.EnrolledKey, error) {
	orders, err := hostorders.Read(s.conf.Journal)
	if err != nil {
		return signer.EnrolledKey{}, err
	}
	isFounded := hostorders.IsFounded(orders, e, s.installation)
	var enrolled signer.EnrolledKey
	rule := func(b *approvers.Book, situation approvers.Situation) (d approvers.Decision, err error) {
		enrolled.EnrolBody, d, err = b.EnrolKey(e, isFounded, situation)
		return d, err
	}
	if enrolled.Entry, err = s.decideAboutApprovers(ctx, syntax.CheckEnrolment(e), rule); err != nil {
		return signer.EnrolledKey{}, err
	}
	return enrolled, nil
}

// RetireKey ends a passkey.
func (s *Signer) RetireKey(ctx context.Context, r signer.RetireRequest) (signer.Entry, error) {
	orders, err := hostorders.Read(s.conf.Journal)
	if err != nil {
		return signer.Entry{}, err
	}
	isHost := hostorders.IsRetired(orders, r.Retirement)
	rule := func(b *approvers.Book, situation approvers.Situation) (approvers.Decision, error) {
		return b.RetireKey(r, isHost, situation)
	}
	return s.decideAboutApprovers(ctx, syntax.CheckIDs(r.OrgID, r.ID), rule)
}

// Wording returns what the policy says about statements.
func (s *Signer) Wording(context.Context) (signer.Wording, error) {
	return s.conf.Policy.Wording(), nil
}

// SetRule records the next version of a rule.
func (s *Signer) SetRule(ctx context.Context, r signer.RuleRequest) (recorded signer.RecordedRule, err error) {
	rule := func(b *approvers.Book, situation approvers.Situation) (d approvers.Decision, err error) {
		recorded.RuleBody, d, err = b.ChangeRule(r, situation)
		return d, err
	}
	if recorded.Entry, err = s.decideAboutApprovers(ctx, syntax.CheckRule(r), rule); err != nil {
		return signer.RecordedRule{}, err
	}
	return recorded, nil
}
