package withdrawal

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/failpoint"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	orgs "github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/webhook"
)

// newTakenBack returns the answer about a withdrawal that was taken back and still has its hold.
func newTakenBack() *fault.Fault {
	return fault.New(fault.Conflict, fault.InvalidState,
		"This withdrawal is being cancelled and will never be paid; its amount is held until the cancellation is "+
			"complete. This call changed nothing and moved no money. GET /withdrawals/{withdrawalId} shows its "+
			"status.").
		WithExtra("currentStatus", string(AwaitingApproval))
}

// Approve records a person's approval of a held withdrawal, for the same amount to the same
// address. The last approval that is required submits the order and fixes a fee that comes out of
// the amount. What may have changed for the worse is checked again; a refusal leaves the withdrawal
// as it was.
//
// Errors: faults NOT_FOUND, INVALID_STATE (also for a person's second approval), CUSTOMER_FROZEN,
// ORGANIZATION_FROZEN, WITHDRAWALS_SUSPENDED, APPROVAL_REFUSED and UNAVAILABLE.
func (s *Service) Approve(
	ctx context.Context, org, withdrawalID string, actor audit.Actor,
) (webhook.Withdrawal, error) {
	return s.ApproveTerms(ctx, org, withdrawalID, actor, "")
}

// ApproveTerms approves like Approve, for a person who saw the terms with this digest
// (TermsDigest). With "" the terms that are read now count as shown. Rule WD-36.
func (s *Service) ApproveTerms(
	ctx context.Context, org, withdrawalID string, actor audit.Actor, shownDigest string,
) (webhook.Withdrawal, error) {
	var empty, approved webhook.Withdrawal
	var r Withdrawal
	f := facts{}
	err := s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		if r, err = loadRow(ctx, tx, org, withdrawalID); err != nil {
			return err
		}
		if r.status != AwaitingApproval {
			return newInvalidState("approved", r.status)
		}
		if r.isVoid {
			return newTakenBack()
		}
		f.mint, err = loadMint(ctx, tx, r)
		return err
	})
	if err != nil {
		return empty, err
	}
	if digest := r.signedTerms(org, f.mint).ComputeDigest(); shownDigest == "" {
		shownDigest = digest
	} else if shownDigest != digest {
		return empty, newTermsChanged()
	}
	_, f.chainRuns = s.Chains[r.chain]
	f.owner, f.amount, f.destination = r.owner, r.evaluatedAmount(), r.toAddress
	// A deducted fee stays: the amount of the order never changes.
	f.deductsFee, f.feeMax = r.deductsFee && r.deductedFee == nil, r.feeMax
	if r.owner.product == "" {
		f.feeKept = r.deductedFee
	}
	f.costs = costs{isKnown: true, excludedID: r.id, costMax: r.costMax}
	if _, err := s.loadExternalFacts(ctx, org, &f, f.deductsFee); err != nil {
		return empty, err
	}
	if s.Risk.Configured() {
		f.screening.Case.Answer = s.Risk.ScreenProviders(ctx, f.screening.Case.Subject)
	}
	treasury, err := s.loadTreasury(ctx, org, r.chain)
	if err != nil {
		return empty, err
	}
	failpoint.Hit("A01")
	var doubtErr error
	err = s.DB.InOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		doubtErr = nil
		if err := orgs.LockSettingsShared(ctx, tx, org); err != nil {
			return err
		}
		current := f
		if err := s.loadCurrentFacts(ctx, tx, org, &current); err != nil {
			return err
		}
		locked, err := lockRow(ctx, tx, org, r.id)
		if err != nil {
			return err
		}
		if locked.status != AwaitingApproval {
			return newInvalidState("approved", locked.status)
		}
		if locked.isVoid {
			return newTakenBack()
		}
		terms := locked.signedTerms(org, current.mint)
		if terms.ComputeDigest() != shownDigest ||
			!s.GrantKey.VerifyRequest(terms, locked.approvalsRequired, locked.mac) {
			return newTermsChanged()
		}
		steps, found, refusal := recheckForApproval(current, locked.reasons)
		if len(found) > 0 {
			doubtErr = refusal
			return s.recordDoubt(ctx, tx, org, locked, current, steps, found, actor)
		}
		if refusal != nil {
			return refusal
		}
		approved, err = s.addApproval(ctx, tx, org, locked, current, steps, actor, treasury)
		if err != nil {
			return err
		}
		failpoint.HitBeforeCommit("A02")
		return nil
	})
	if err == nil {
		err = doubtErr
	}
	if err != nil {
		return empty, err
	}
	failpoint.Hit("A02")
	return approved, nil
}

// addApproval adds an approval and submits the order when the approvals suffice. The row is locked,
// so each of several concurrent approvals sees the earlier ones. Rule WD-35.
func (s *Service) addApproval(
	ctx context.Context, tx pg.Tx, org string, r Withdrawal, f facts, steps []Step, actor audit.Actor,
	treasury wallet.Wallet,
) (webhook.Withdrawal, error) {
	var empty webhook.Withdrawal
	terms := r.signedTerms(org, f.mint)
	approval := s.GrantKey.MakeApproval(terms, r.approvalRound, approverName(actor))
	_, err := tx.Exec(ctx, `
		INSERT INTO withdrawal_approvals (org_id, withdrawal_id, round, approver_kind, approver_id, at, digest, mac)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		org, r.id, r.approvalRound, actor.Kind, actor.ID, tx.Now, terms.ComputeDigest(), approval.MAC)
	switch {
	case pg.ViolatesConstraint(err, "withdrawal_approvals_pkey"):
		return empty, fault.New(fault.Conflict, fault.InvalidState,
			"You have already approved this withdrawal, and each person counts once. This call changed nothing and "+
				"moved no money. Another person has to approve it, too.").
			WithExtra("currentStatus", string(AwaitingApproval))
	case pg.ViolatesConstraint(err, "withdrawal_approvals_not_by_maker"),
		pg.ViolatesConstraint(err, "withdrawal_approvals_by_people"):
		return empty, fault.New(fault.Conflict, fault.ApprovalRefused,
			"The person who requested a withdrawal cannot approve it, and only people can. Nothing was sent; the "+
				"withdrawal still waits and the amount is still held. Another person has to approve it.")
	case err != nil:
		return empty, fmt.Errorf("approve withdrawal %s: %w", r.id, err)
	}
	approvals, err := s.loadApprovals(ctx, tx, org, r)
	if err != nil {
		return empty, err
	}
	required := r.approvalsRequired
	if required == 0 { // held before approvals were counted
		required = f.quorum
	}
	detail := map[string]any{
		"reasons": r.reasons, "amount": r.amount, "toAddress": r.toAddress, "digest": terms.ComputeDigest(),
		"round": r.approvalRound, "approvals": len(approvals), "required": required,
	}
	if len(approvals) < required {
		if _, err := tx.Exec(ctx,
			`UPDATE withdrawals SET approvals_required = $3, screening = $4 WHERE org_id = $1 AND withdrawal_id = $2`,
			org, r.id, required, screeningObject(f.screening.Decision)); err != nil {
			return empty, fmt.Errorf("approve withdrawal %s: %w", r.id, err)
		}
		w, err := LoadObject(ctx, tx, org, r.id)
		if err != nil {
			return empty, err
		}
		return w, recordDecision(ctx, tx, org, DecisionRecord{
			withdrawalID: r.id, Act: ActApprovalAdded, Status: AwaitingApproval, Gates: steps, Actor: actor,
			Risk: &f.screening,
		},
			"withdrawal.approval_added", detail)
	}
	if fee := f.deductedFee(); fee != nil {
		r.deductedFee = fee
	}
	err = setStatus(ctx, tx, org, r.id, AwaitingApproval, Processing,
		"approved_at = $5, fee_deducted = $6, screening = $7, approvals_required = $8, cost_price = coalesce($9, "+
			"cost_price)",
		tx.Now, r.deductedFee, screeningObject(f.screening.Decision), required, f.costs.recordedPrice())
	if err != nil {
		return empty, err
	}
	if err := dispatch.Submit(ctx, tx, s.newOrder(org, r, f.mint, treasury, required, approvals)); err != nil {
		return empty, err
	}
	w, err := LoadObject(ctx, tx, org, r.id)
	if err != nil {
		return empty, err
	}
	if err := publishEvent(ctx, tx, org, findTransition(AwaitingApproval, Processing), w); err != nil {
		return empty, err
	}
	return w, recordDecision(ctx, tx, org, DecisionRecord{
		withdrawalID: r.id, Act: ActApproved, Status: Processing, Gates: steps, Actor: actor,
		Risk: &f.screening,
	},
		"withdrawal.approved", detail)
}

// approverName returns the name that identifies a person among the approvers.
func approverName(a audit.Actor) string { return string(a.Kind) + " " + a.ID }

// loadApprovals returns the approvals of the withdrawal's current round.
func (s *Service) loadApprovals(ctx context.Context, tx pg.Tx, org string, r Withdrawal) ([]signer.Approval, error) {
	rows, err := tx.Query(ctx, `
		SELECT approver_kind || ' ' || approver_id, mac FROM withdrawal_approvals
		WHERE org_id = $1 AND withdrawal_id = $2 AND round = $3 ORDER BY at, approver_kind, approver_id`,
		org, r.id, r.approvalRound)
	if err != nil {
		return nil, fmt.Errorf("read the approvals of %s: %w", r.id, err)
	}
	approvals, err := pgx.CollectRows(rows, pgx.RowToStructByPos[signer.Approval])
	if err != nil {
		return nil, fmt.Errorf("read the approvals of %s: %w", r.id, err)
	}
	return approvals, nil
}

// TermsDigest returns the digest of a withdrawal's current terms, to be shown to an approver with
// them. Error: fault NOT_FOUND.
func (s *Service) TermsDigest(ctx context.Context, org, withdrawalID string) (digest string, err error) {
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		r, err := loadRow(ctx, tx, org, withdrawalID)
		if err != nil {
			return err
		}
		m, err := loadMint(ctx, tx, r)
		digest = r.signedTerms(org, m).ComputeDigest()
		return err
	})
	return digest, err
}

func loadMint(ctx context.Context, tx pg.Tx, r Withdrawal) (mint.Mint, error) {
	mints, err := mint.LoadCatalogue(ctx, tx)
	if err != nil {
		return mint.Mint{}, err
	}
	m, ok := mints.ByID(r.mintID)
	if !ok {
		return m, fmt.Errorf("mint %d has left the catalogue", r.mintID)
	}
	return m, nil
}

// newTermsChanged returns the answer when the terms differ from those shown or requested.
func newTermsChanged() *fault.Fault {
	return fault.New(fault.Conflict, fault.ApprovalRefused,
		"This withdrawal differs from what was shown or requested, or it was requested before the service recorded "+
			"its parameters. Nothing was sent; the withdrawal still waits and the amount is still held. Look at it "+
			"again. If the error stays, remove the withdrawal and find out who changed it.")
}

// recordDoubt leaves a withdrawal in its state and adds the reasons that the approval's checks
// found, so that every approver sees them.
func (s *Service) recordDoubt(
	ctx context.Context, tx pg.Tx, org string, r Withdrawal, f facts, steps []Step, found []Reason,
	actor audit.Actor,
) error {
	tag, err := tx.Exec(ctx, `
		UPDATE withdrawals SET screening = $3,
			approval_reasons = approval_reasons || ARRAY(SELECT n FROM unnest($4::text[]) WITH ORDINALITY AS found (n, i) WHERE n <> ALL (approval_reasons) ORDER BY i)
		WHERE org_id = $1 AND withdrawal_id = $2 AND status = 'AWAITING_APPROVAL'`,
		org, r.id, screeningObject(f.screening.Decision), found)
	if err != nil {
		return fmt.Errorf("record the evaluation of withdrawal %s: %w", r.id, err)
	}
	if tag.RowsAffected() != 1 {
		return s.refuseLate(ctx, tx, org, r.id, "approved")
	}
	return recordDecision(ctx, tx, org, DecisionRecord{
		withdrawalID: r.id, Act: ActApprovalRefused, Status: AwaitingApproval, Reasons: found, Gates: steps,
		Actor: actor, Risk: &f.screening,
	}, "withdrawal.approval_refused", map[string]any{"reasons": found, "amount": r.amount, "toAddress": r.toAddress})
}

// newOrder returns the order of a payment that was let go, with a grant over the approvals. A
// payment that required none has none.
func (s *Service) newOrder(
	org string, r Withdrawal, m mint.Mint, treasury wallet.Wallet, required int, approvals []signer.Approval,
) dispatch.Order {
	o := dispatch.Order{
		ID: r.id, OrgID: org, Purpose: signer.Payment, Chain: r.chain, WalletID: treasury.ID,
		To: r.toAddress, MintID: r.mintID, Contract: m.Contract, Amount: r.payoutAmount(),
		CustomerID: r.owner.customerID, Product: r.owner.product, WhitelistedID: r.owner.listedID,
		KeyHash: keyHash(r.key), FeeMax: r.feeMax,
	}
	if r.deductedFee != nil {
		o.FeeDeducted = *r.deductedFee
	}
	o.Grant = s.GrantKey.MakeGrant(r.signedTerms(org, m), o.FeeDeducted, r.approvalRound, required, approvals)
	return o
}
