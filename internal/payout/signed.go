package payout

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/fault"
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

// peopleByRule returns how many people have to sign a batch: those that the rule asks for if it asks for them for a
// row, or for all rows of an asset together. Rows of one asset may be paid in one day, so their sum counts.
func (s *Service) peopleByRule(ctx context.Context, tx pg.Tx, b Batch, items []Item) (int, error) {
	if s.Approvers == nil {
		return 0, nil
	}
	rule, err := s.Approvers.LoadRule(ctx, tx, b.OrgID)
	if err != nil {
		return 0, fmt.Errorf("load the rule of %s: %w", b.OrgID, err)
	}
	if rule == nil {
		return 0, nil
	}
	intent := signer.Intent{Purpose: signer.Payment, Batch: &signer.BatchRow{}}
	before := map[int]money.Amount{} // the sum of the rows before, by mint
	for _, i := range items {
		if !i.IsIncluded {
			continue
		}
		intent.Chain, intent.Contract, intent.Amount = i.Chain, i.Contract, i.Amount
		if people := rule.PeopleFor(intent, before[i.MintID]); people > 0 {
			return people, nil
		}
		if before[i.MintID], err = before[i.MintID].Add(i.Amount); err != nil {
			return 0, fmt.Errorf("add the rows of batch %s: %w", b.ID, err)
		}
	}
	return 0, nil
}

// PeopleToSign returns how many people have to sign a batch by the organization's rule; 0: an approval needs no
// signature. Error: fault NOT_FOUND.
func (s *Service) PeopleToSign(ctx context.Context, orgID, batchID string) (people int, err error) {
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		b, err := readBatch(ctx, tx, orgID, batchID)
		if err != nil {
			return err
		}
		items, err := loadItems(ctx, tx, batchID)
		if err != nil {
			return err
		}
		people, err = s.peopleByRule(ctx, tx, b, items)
		return err
	})
	return people, err
}

// checkSignature refuses an approval of a locked batch that lacks the signature which the rule asks for, or has one
// that is not valid. It returns how many people have to sign, and a signature with its words.
func (s *Service) checkSignature(
	ctx context.Context, tx pg.Tx, b Batch, items []Item, person string, signature *signer.KeySignature,
) (people int, signed *signer.SignedStatement, err error) {
	if people, err = s.peopleByRule(ctx, tx, b, items); err != nil {
		return 0, nil, err
	}
	switch {
	case signature == nil && people == 0:
		return 0, nil, nil
	case signature == nil:
		advice := "Approve it with your passkey on its page of the dashboard."
		if s.ApprovalPage != nil {
			advice = "Approve it with your passkey on the page " + s.ApprovalPage(b.ID)
		}
		return 0, nil, fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld,
			"Your organization's rule asks for the signatures of %d people for this batch payout, and this approval "+
				"has none.", people).WithAdvice("%s", advice)
	case s.Approvers == nil:
		return 0, nil, fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld,
			"This installation has no passkeys of approvers, and the approval has a signature of one.").
			WithAdvice("Approve it without a signature.")
	}
	statement := func(c signer.StatementContext) signer.Statement { return signer.BatchStatement(b.Header, c) }
	err = s.Approvers.CheckSignature(ctx, tx, b.OrgID, person, signer.RightApprove, *signature, statement)
	if err == nil {
		signed, err = s.Approvers.LoadSigned(ctx, tx, b.OrgID, *signature, statement)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("verify the signature of batch %s: %w", b.ID, err)
	}
	return people, signed, nil
}

// loadApprovals returns the approvals of a batch, the latest one of each person.
func loadApprovals(ctx context.Context, tx pg.Tx, batchID string) ([]signer.Approval, error) {
	rows, err := tx.Query(ctx, `
		SELECT approver_kind || ' ' || approver_id, mac, signature FROM (
			SELECT DISTINCT ON (approver_kind, approver_id) * FROM payout_approvals
			WHERE batch_id = $1 ORDER BY approver_kind, approver_id, nth DESC
		) a ORDER BY at, approver_kind, approver_id`, batchID)
	if err != nil {
		return nil, fmt.Errorf("read the approvals of batch %s: %w", batchID, err)
	}
	approvals, err := pgx.CollectRows(rows, pgx.RowToStructByPos[signer.Approval])
	if err != nil {
		return nil, fmt.Errorf("read the approvals of batch %s: %w", batchID, err)
	}
	return approvals, nil
}
