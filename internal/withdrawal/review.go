package withdrawal

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

const (
	// comparedDays is how far back an amount is compared with others.
	comparedDays = 30
	// comparedMax bounds the withdrawals with which an amount is compared: the latest ones.
	comparedMax = 5000
)

// Review is what a person sees before the decision about a withdrawal. It is read in one transaction.
type Review struct {
	Withdrawal Withdrawal
	// Digest identifies the terms that are shown; ApproveTerms takes it.
	Digest    string
	Approvals []Approval // of the current round, in their order
	// IsReturned reports whether the signer or the chain returned it after an earlier approval.
	IsReturned bool
	// IsFirstPayment reports whether no other withdrawal of the organization has paid the address.
	IsFirstPayment bool
	// IsLargest reports whether none of the Compared withdrawals of the same mint in the last 30 days,
	// at most the latest 5,000, had a larger amount or the same.
	IsLargest bool
	Compared  int
	// People is how many people have to sign it by the organization's rule; 0: an approval needs no signature.
	People    int
	statement func(person, notAfter string) signer.Statement
	payment   *signer.PaymentWords // of the statement; nil without a rule, or for a row of a batch
}

// NeedsSignature reports whether an approval is refused without the signature of a passkey.
func (r Review) NeedsSignature() bool { return r.People > 0 }

// Statement returns the words that a person signs, nil without a rule. The signer builds the same words.
func (r Review) Statement(person, notAfter string) signer.Statement {
	if r.statement == nil {
		return nil
	}
	return r.statement(person, notAfter)
}

// loadStatement loads who has to sign a withdrawal, and the words.
func (s *Service) loadStatement(
	ctx context.Context, tx pg.Tx, org string, row storedWithdrawal, f Facts, r *Review,
) error {
	f.approval = &approvalFacts{row: row}
	f.setTerms(row)
	if err := s.loadRuleFacts(ctx, tx, org, &f); err != nil || f.rule == nil {
		return err
	}
	words, err := s.newStatement(ctx, tx, org, row, f.mint)
	if err != nil {
		return err
	}
	if row.batch == nil {
		payment, err := s.newPaymentWords(org, row, f.mint)
		if err != nil {
			return err
		}
		r.payment = &payment
	}
	r.People = f.peopleByRule()
	r.statement = func(person, notAfter string) signer.Statement {
		return words(s.Approvers.Context(person, notAfter))
	}
	return nil
}

// Approval is one person's approval of a withdrawal.
type Approval struct {
	Approver   audit.Actor
	ApprovedAt time.Time
	HasEnded   bool // its signature has too little time left: it counts no more, and the person signs again
}

// LoadReview returns what a person sees before the decision about a withdrawal. Error: fault NOT_FOUND,
// also for the id of another organization.
func (s *Service) LoadReview(ctx context.Context, org, withdrawalID string) (r Review, err error) {
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		if r.Withdrawal, err = Load(ctx, tx, org, withdrawalID); err != nil {
			return err
		}
		row, err := loadRow(ctx, tx, org, withdrawalID)
		if err != nil {
			return err
		}
		var f Facts
		if err := f.loadMint(ctx, tx, row); err != nil {
			return err
		}
		r.Digest, r.IsReturned = row.signedTerms(org, f.mint).ComputeDigest(), row.approvalRound > 0
		if err := r.loadApprovals(ctx, tx, org, row); err != nil {
			return err
		}
		if err := s.loadStatement(ctx, tx, org, row, f, &r); err != nil {
			return err
		}
		return r.compareWithOthers(ctx, tx, org, row)
	})
	return r, err
}

func (r *Review) loadApprovals(ctx context.Context, tx pg.Tx, org string, row storedWithdrawal) error {
	rows, err := tx.Query(ctx, `
		SELECT approver_kind, approver_id, at, signature FROM (
			SELECT DISTINCT ON (approver_kind, approver_id) * FROM withdrawal_approvals
			WHERE org_id = $1 AND withdrawal_id = $2 AND round = $3 ORDER BY approver_kind, approver_id, nth DESC
		) a ORDER BY at, approver_kind, approver_id`,
		org, row.id, row.approvalRound)
	if err != nil {
		return fmt.Errorf("read who approved %s: %w", row.id, err)
	}
	r.Approvals, err = pgx.CollectRows(rows, func(found pgx.CollectableRow) (a Approval, err error) {
		var signature *signer.KeySignature
		err = found.Scan(&a.Approver.Kind, &a.Approver.ID, &a.ApprovedAt, &signature)
		a.HasEnded = signature != nil && !approver.HasTimeLeft(signature, tx.Now, approver.SignatureMargin)
		return a, err
	})
	if err != nil {
		return fmt.Errorf("read who approved %s: %w", row.id, err)
	}
	if r.Withdrawal.Status == AwaitingApproval {
		r.Withdrawal.Approvals.Received = 0
		for _, a := range r.Approvals {
			if !a.HasEnded {
				r.Withdrawal.Approvals.Received++
			}
		}
	}
	return nil
}

// compareWithOthers compares the destination and the amount with other withdrawals of the organization.
func (r *Review) compareWithOthers(ctx context.Context, tx pg.Tx, org string, row storedWithdrawal) error {
	err := tx.QueryRow(ctx, `
		SELECT NOT EXISTS (
				SELECT FROM withdrawals p WHERE p.org_id = $1 AND p.to_address = $2 AND p.chain = $3
				AND p.withdrawal_id <> $4 AND p.status IN ('BROADCAST', 'COMPLETED')),
			count(*), coalesce(bool_and(o.amount < $5), true)
		FROM (
			SELECT amount, withdrawal_id FROM withdrawals
			WHERE org_id = $1 AND mint_id = $6 AND created_at > $7
			ORDER BY created_at DESC, withdrawal_id DESC LIMIT $8
		) o WHERE o.withdrawal_id <> $4`,
		org, row.toAddress, row.chain, row.id, row.amount, row.mintID, tx.Now.AddDate(0, 0, -comparedDays),
		comparedMax).
		Scan(&r.IsFirstPayment, &r.Compared, &r.IsLargest)
	if err != nil {
		return fmt.Errorf("compare %s with other withdrawals: %w", row.id, err)
	}
	return nil
}
