package swap

import (
	"context"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// Approvers knows an organization's rule and the passkeys of its people, as the signer recorded them.
type Approvers interface {
	// LoadRule returns the rule that holds as the transaction sees it, or nil.
	LoadRule(ctx context.Context, tx pg.Tx, org string) (*signer.ApprovalRule, error)
	// CheckSignature verifies a signature as the signer will. A fault says in plain words why it is not valid.
	CheckSignature(ctx context.Context, tx pg.Tx, org, person string, right signer.Right, signature signer.KeySignature,
		statement func(signer.StatementContext) signer.Statement) error
	// LoadSigned returns a checked signature with its words and its passkey, for the audit log.
	LoadSigned(ctx context.Context, tx pg.Tx, org string, signature signer.KeySignature,
		statement func(signer.StatementContext) signer.Statement) (*signer.SignedStatement, error)
}

// signatureMargin is how long before its end the signature of a swap counts no more: the payment of its output comes
// later, and then a signature that ended covers nothing.
const signatureMargin = 5 * time.Minute

// Statement returns the words that a person signs who approves an organization's swap. The signer builds the same words
// for the payment of its output.
func (w Swap) Statement(c signer.StatementContext) signer.Statement {
	return signer.SwapStatement(w.payout(), c)
}

// peopleByRule returns how many people have to sign a swap of the organization's own money: those that the rule asks
// for the payment of the most that it may bring. Rule CO-148.
func (s *Service) peopleByRule(
	ctx context.Context, tx pg.Tx, org string, output mint.Mint, payoutMax money.Amount,
) (int, error) {
	if s.Approvers == nil {
		return 0, nil
	}
	rule, err := s.Approvers.LoadRule(ctx, tx, org)
	if err != nil {
		return 0, fmt.Errorf("load the rule of %s: %w", org, err)
	}
	if rule == nil {
		return 0, nil
	}
	unsigned, err := approver.SumUnsigned(ctx, tx, org, output.ID, "")
	if err != nil {
		return 0, err
	}
	return rule.PeopleFor(signer.Intent{
		Purpose: signer.Payment, Chain: output.Chain, Contract: output.Contract, Amount: payoutMax,
	}, unsigned), nil
}

// peopleToSign returns how many people have to sign a swap that waits for approval.
func (s *Service) peopleToSign(ctx context.Context, tx pg.Tx, w Swap) (int, error) {
	if w.PayoutMax == nil {
		return 0, nil
	}
	return s.peopleByRule(ctx, tx, w.OrgID, w.To, *w.PayoutMax)
}

// PeopleToSign returns how many people have to sign a swap of the organization's own money by its rule; 0: an approval
// needs no signature. Error: fault NOT_FOUND.
func (s *Service) PeopleToSign(ctx context.Context, orgID, swapID string) (people int, err error) {
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		w, err := loadOrganization(ctx, tx, orgID, swapID)
		if err == nil {
			people, err = s.peopleToSign(ctx, tx, w)
		}
		return err
	})
	return people, err
}

// checkSignature refuses an approval of a locked swap that lacks the signature which the rule asks for, or has one that
// is not valid. It returns how many people have to sign, and a signature with its words.
func (s *Service) checkSignature(
	ctx context.Context, tx pg.Tx, w Swap, person string, signature *signer.KeySignature,
) (people int, signed *signer.SignedStatement, err error) {
	if people, err = s.peopleToSign(ctx, tx, w); err != nil {
		return 0, nil, err
	}
	switch {
	case signature == nil && people == 0:
		return 0, nil, nil
	case signature == nil:
		advice := "Approve it with your passkey on its page of the dashboard."
		if s.ApprovalPage != nil {
			advice = "Approve it with your passkey on the page " + s.ApprovalPage(w.ID)
		}
		return 0, nil, fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld,
			"Your organization's rule asks for the signatures of %d people for this swap, and this approval has none.",
			people).WithAdvice("%s", advice)
	case s.Approvers == nil:
		return 0, nil, fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld,
			"This installation has no passkeys of approvers, and the approval has a signature of one.").
			WithAdvice("Approve it without a signature.")
	}
	err = s.Approvers.CheckSignature(ctx, tx, w.OrgID, person, signer.RightApprove, *signature, w.Statement)
	if err == nil {
		signed, err = s.Approvers.LoadSigned(ctx, tx, w.OrgID, *signature, w.Statement)
	}
	if err != nil {
		return 0, nil, stillHeld(fmt.Errorf("verify the signature of swap %s: %w", w.ID, err))
	}
	return people, signed, nil
}
