package withdrawal

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// newTakenBack returns the answer about a withdrawal that was taken back and still has its hold.
func newTakenBack() *fault.Fault {
	return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
		"This withdrawal is being cancelled and will never be paid; its amount is held until the "+
			"cancellation is complete.").
		WithStep(fault.ShowWithdrawal).
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
) (Withdrawal, error) {
	return s.ApproveTerms(ctx, org, withdrawalID, actor, "")
}

// ApproveTerms approves like Approve, for a person who saw the terms with this digest
// (TermsDigest). With "" the terms that are read now count as shown. Rule WD-36.
func (s *Service) ApproveTerms(
	ctx context.Context, org, withdrawalID string, actor audit.Actor, shownDigest string,
) (Withdrawal, error) {
	return s.ApproveSigned(ctx, org, withdrawalID, actor, shownDigest, nil)
}

// ApproveSigned approves like ApproveTerms, with the signature of the person's passkey over the words that were shown.
// Where the organization's rule asks for people, an approval without one is refused. The approval and its signature
// are written together. Rules SA-1 and SA-7.
func (s *Service) ApproveSigned(
	ctx context.Context, org, withdrawalID string, actor audit.Actor, shownDigest string,
	signature *signer.KeySignature,
) (Withdrawal, error) {
	var empty, approved Withdrawal
	f := Facts{approval: &approvalFacts{}}
	err := s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		if f.approval.row, err = loadRow(ctx, tx, org, withdrawalID); err != nil {
			return err
		}
		return f.loadMint(ctx, tx, f.approval.row)
	})
	if err != nil {
		return empty, err
	}
	f.setTerms(f.approval.row)
	_, f.chainRuns = s.Chains[f.mint.Chain]
	if shownDigest == "" {
		shownDigest = f.approval.row.signedTerms(org, f.mint).ComputeDigest()
	}
	f.approval.areTermsSeen = s.areTermsSeen(org, f, shownDigest)
	if _, rejection := Decide(f); rejection != nil {
		return empty, rejection.Err
	}
	if err := s.loadExternalFacts(ctx, org, &f, f.deductsFee); err != nil {
		return empty, err
	}
	if s.Risk.Configured() {
		f.screening.Case.Answer = s.Risk.ScreenProviders(ctx, f.screening.Case.Subject)
	}
	treasury, err := s.loadTreasury(ctx, org, f.mint.Chain)
	if err != nil {
		return empty, err
	}
	failpoint.Hit("A01")
	var plan Plan
	err = s.DB.InOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		current := f
		if err := s.loadApproval(ctx, tx, org, withdrawalID, shownDigest, &current); err != nil {
			return err
		}
		if err := s.loadSignature(ctx, tx, org, actor, signature, &current); err != nil {
			return err
		}
		var rejection *Rejection
		if plan, rejection = Decide(current); rejection != nil {
			return rejection.Err
		}
		var err error
		if approved, err = s.writeApproval(ctx, tx, org, current, plan, actor, treasury); err != nil {
			return err
		}
		failpoint.HitBeforeCommit("A02")
		return nil
	})
	if err != nil {
		return empty, err
	}
	if plan.Answer != nil {
		return empty, plan.Answer
	}
	failpoint.Hit("A02")
	return approved, nil
}

// setTerms sets the facts that the row of a withdrawal states.
func (f *Facts) setTerms(r storedWithdrawal) {
	f.owner, f.listedID, f.amount, f.destination = r.owner, r.listedID, r.evaluatedAmount(), r.toAddress
	// A deducted fee stays: the amount of the order never changes.
	f.deductsFee, f.feeMax = r.deductsFee && r.deductedFee == nil, r.feeMax
	if !r.owner.IsOrganization() {
		f.feeKept = r.deductedFee
	}
	f.costs = costs{isKnown: true, excludedID: r.id, costMax: r.costMax}
}

// areTermsSeen reports whether the terms of the withdrawal are those that were requested, and those
// that the approver saw.
func (s *Service) areTermsSeen(org string, f Facts, shownDigest string) bool {
	r := f.approval.row
	terms := r.signedTerms(org, f.mint)
	return terms.ComputeDigest() == shownDigest && s.GrantKey.VerifyRequest(terms, r.approvalsRequired, r.mac)
}

// loadApproval loads the facts that decide about an approval and locks the row, so that each of
// several concurrent approvals sees the earlier ones. Rule WD-35.
func (s *Service) loadApproval(
	ctx context.Context, tx pg.Tx, org, withdrawalID, shownDigest string, f *Facts,
) error {
	if err := s.loadFacts(ctx, tx, org, f); err != nil {
		return err
	}
	row, err := lockRow(ctx, tx, org, withdrawalID)
	if err != nil {
		return err
	}
	approvals, err := s.loadApprovals(ctx, tx, org, row)
	f.approval = &approvalFacts{row: row}
	f.approval.counting = f.findCounting(approvals, tx.Now)
	f.approval.areTermsSeen = s.areTermsSeen(org, *f, shownDigest)
	return err
}

// findCounting returns the approvals that count. Where people have to sign the payment, these are the ones whose
// signatures have time left; a row of a batch is signed with its batch. Rule SA-7.
func (f Facts) findCounting(approvals []signer.Approval, now time.Time) []signer.Approval {
	if f.peopleByRule() == 0 || f.approval.row.batch != nil {
		return approvals
	}
	return approver.FindLasting(approvals, now, approver.SignatureMargin)
}

// isAgain reports whether a person signs anew: an earlier approval of this person, if there is one, counts no more.
func (a *approvalFacts) isAgain(person string) bool {
	return a.signature != nil && !slices.ContainsFunc(a.counting, func(c signer.Approval) bool {
		return c.Approver == person
	})
}

// loadSignature verifies the signature of an approval against the locked withdrawal.
func (s *Service) loadSignature(
	ctx context.Context, tx pg.Tx, org string, actor audit.Actor, signature *signer.KeySignature, f *Facts,
) (err error) {
	a := f.approval
	if a.signature = signature; s.ApprovalPage != nil {
		a.page = s.ApprovalPage(a.row.id)
	}
	if signature == nil || a.row.status != AwaitingApproval {
		return nil
	}
	a.signed, a.signatureFault, err = s.checkSignature(ctx, tx, org, approverName(actor), *signature, a.row, f.mint)
	return err
}

// writeApproval writes the plan of an approval: the approval, and with the last one that is
// required the order; or the reasons that the approver could not see.
func (s *Service) writeApproval(
	ctx context.Context, tx pg.Tx, org string, f Facts, p Plan, actor audit.Actor, treasury wallet.Wallet,
) (Withdrawal, error) {
	var empty Withdrawal
	r := f.approval.row
	if p.Act == ActApprovalRefused {
		return empty, s.writeDoubt(ctx, tx, org, r, p, actor)
	}
	terms := r.signedTerms(org, f.mint)
	approval := s.GrantKey.MakeApproval(terms, r.approvalRound, approverName(actor))
	_, err := tx.Exec(ctx, `
		INSERT INTO withdrawal_approvals (org_id, withdrawal_id, round, approver_kind, approver_id, at, digest, mac,
			signature, nth)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, CASE WHEN $10 THEN (SELECT count(*) FROM withdrawal_approvals
			WHERE withdrawal_id = $2 AND round = $3 AND (approver_kind, approver_id) = ($4, $5)) ELSE 0 END)`,
		org, r.id, r.approvalRound, actor.Kind, actor.ID, tx.Now, terms.ComputeDigest(), approval.MAC,
		f.approval.signature, f.approval.isAgain(approverName(actor)))
	switch {
	case pg.ViolatesConstraint(err, "withdrawal_approvals_pkey"):
		return empty, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"You have already approved this withdrawal, and each person counts once.").
			WithAdvice("Another person has to approve it, too.").
			WithExtra("currentStatus", string(AwaitingApproval))
	case pg.ViolatesConstraint(err, "withdrawal_approvals_not_by_maker"),
		pg.ViolatesConstraint(err, "withdrawal_approvals_by_people"):
		return empty, fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld,
			"The person who requested a withdrawal cannot approve it, and only people can.").
			WithAdvice("Another person has to approve it.")
	case err != nil:
		return empty, fmt.Errorf("approve withdrawal %s: %w", r.id, err)
	}
	r.deductedFee = p.DeductedFee
	if p.Status == Processing {
		approval.Signature = f.approval.signature
		err = s.submitApproved(ctx, tx, org, r, f, p, treasury, append(f.approval.counting, approval))
	} else if _, err = tx.Exec(ctx,
		`UPDATE withdrawals SET approvals_required = $3, screening = $4 WHERE org_id = $1 AND withdrawal_id = $2`,
		org, r.id, p.Required, newStoredScreening(p.Screening.Decision)); err != nil {
		err = fmt.Errorf("approve withdrawal %s: %w", r.id, err)
	}
	if err != nil {
		return empty, err
	}
	w, err := Load(ctx, tx, org, r.id)
	if err != nil {
		return empty, err
	}
	action := "withdrawal.approval_added"
	if p.Status == Processing {
		action = "withdrawal.approved"
		if err := s.publishEvent(ctx, tx, org, findTransition(AwaitingApproval, Processing), w); err != nil {
			return empty, err
		}
	}
	detail := map[string]any{
		"reasons": r.reasons, "amount": r.amount, "toAddress": r.toAddress, "digest": terms.ComputeDigest(),
		"round": r.approvalRound, "approvals": len(f.approval.counting) + 1, "required": p.Required,
	}
	if people := f.peopleByRule(); people > 0 && r.batch == nil { // of a row, the signatures are those of its batch
		detail["people"] = people
	}
	if f.approval.signed != nil {
		detail["signed"] = f.approval.signed
	}
	return w, recordDecision(ctx, tx, org, DecisionRecord{
		withdrawalID: r.id, Act: p.Act, Status: p.Status, Gates: p.Gates, Actor: actor, Risk: &p.Screening,
	}, action, detail)
}

// submitApproved lets a withdrawal go whose approvals suffice.
func (s *Service) submitApproved(
	ctx context.Context, tx pg.Tx, org string, r storedWithdrawal, f Facts, p Plan, treasury wallet.Wallet,
	approvals []signer.Approval,
) error {
	err := setStatus(ctx, tx, org, r.id, AwaitingApproval, Processing,
		"approved_at = $5, fee_deducted = $6, screening = $7, approvals_required = $8, cost_price = coalesce($9, "+
			"cost_price)",
		tx.Now, r.deductedFee, newStoredScreening(p.Screening.Decision), p.Required, f.costs.recordedPrice())
	if err != nil {
		return err
	}
	order := s.newOrder(org, r, f.mint, treasury, p.Required, approvals)
	if r.batch != nil { // the signer pays it by the approvals of its batch; those of the row are this database's
		proofs, err := s.loadRowProofs(ctx, tx, org, []storedWithdrawal{r})
		if err != nil {
			return err
		}
		order.Grant = s.makeBatchGrant(org, r, f.mint, proofs[*r.batch])
	}
	return dispatch.Submit(ctx, tx, order)
}

// approverName returns the name that identifies a person among the approvers.
func approverName(a audit.Actor) string { return string(a.Kind) + " " + a.ID }

// loadApprovals returns the approvals of the withdrawal's current round, the latest one of each person.
func (s *Service) loadApprovals(
	ctx context.Context, tx pg.Tx, org string, r storedWithdrawal,
) ([]signer.Approval, error) {
	rows, err := tx.Query(ctx, `
		SELECT approver_kind || ' ' || approver_id, mac, signature FROM (
			SELECT DISTINCT ON (approver_kind, approver_id) * FROM withdrawal_approvals
			WHERE org_id = $1 AND withdrawal_id = $2 AND round = $3 ORDER BY approver_kind, approver_id, nth DESC
		) a ORDER BY at, approver_kind, approver_id`,
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
		var f Facts
		err = f.loadMint(ctx, tx, r)
		digest = r.signedTerms(org, f.mint).ComputeDigest()
		return err
	})
	return digest, err
}

// loadMint loads the mint of a withdrawal and the native coin of its chain.
func (f *Facts) loadMint(ctx context.Context, tx pg.Tx, r storedWithdrawal) error {
	mints, err := mint.LoadCatalogue(ctx, tx)
	if err != nil {
		return err
	}
	var ok bool
	if f.mint, ok = mints.ByID(r.mintID); !ok {
		return fmt.Errorf("mint %d has left the catalogue", r.mintID)
	}
	f.native, f.hasNative = mints.Native(f.mint.Chain)
	return nil
}

// newTermsChanged returns the answer when the terms differ from those shown or requested.
func newTermsChanged() *fault.Fault {
	return fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld,
		"This withdrawal differs from what was shown or requested, or it was requested before the "+
			"service recorded its parameters.").
		WithAdvice("Look at it again. If the error stays, remove the withdrawal and find out who changed it.")
}

// writeDoubt leaves a withdrawal in its state and adds the reasons that the approver could not see,
// so that every approver sees them.
func (s *Service) writeDoubt(
	ctx context.Context, tx pg.Tx, org string, r storedWithdrawal, p Plan, actor audit.Actor,
) error {
	tag, err := tx.Exec(ctx, `
		UPDATE withdrawals SET screening = $3,
			approval_reasons = approval_reasons || ARRAY(SELECT n FROM unnest($4::text[]) WITH ORDINALITY AS found (n, i) WHERE n <> ALL (approval_reasons) ORDER BY i)
		WHERE org_id = $1 AND withdrawal_id = $2 AND status = 'AWAITING_APPROVAL'`,
		org, r.id, newStoredScreening(p.Screening.Decision), p.Reasons)
	if err != nil {
		return fmt.Errorf("record the evaluation of withdrawal %s: %w", r.id, err)
	}
	if tag.RowsAffected() != 1 {
		return s.refuseLate(ctx, tx, org, r.id, "approved")
	}
	return recordDecision(ctx, tx, org, DecisionRecord{
		withdrawalID: r.id, Act: p.Act, Status: p.Status, Reasons: p.Reasons, Gates: p.Gates, Actor: actor,
		Risk: &p.Screening,
	}, "withdrawal.approval_refused", map[string]any{
		"reasons": p.Reasons, "amount": r.amount, "toAddress": r.toAddress,
	})
}

// newOrder returns the order of a payment that was let go, with a grant over the approvals. A
// payment that required none has none.
func (s *Service) newOrder(
	org string, r storedWithdrawal, m mint.Mint, treasury wallet.Wallet, required int, approvals []signer.Approval,
) dispatch.Order {
	o := dispatch.Order{
		ID: r.id, OrgID: org, Purpose: signer.Payment, Chain: r.chain, WalletID: treasury.ID,
		To: r.toAddress, MintID: r.mintID, Contract: m.Contract, Amount: r.payoutAmount(),
		CustomerID: r.owner.CustomerID(), Product: r.owner.Product(), WhitelistedID: r.listedID,
		KeyHash: keyHash(r.key), FeeMax: r.feeMax, Refund: r.refund, Batch: r.batch,
	}
	if r.deductedFee != nil {
		o.FeeDeducted = *r.deductedFee
	}
	o.Grant = s.GrantKey.MakeGrant(r.signedTerms(org, m), o.FeeDeducted, r.approvalRound, required, approvals)
	return o
}
