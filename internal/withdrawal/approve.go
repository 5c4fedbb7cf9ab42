package withdrawal

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/failpoint"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	orgs "github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/webhook"
)

const reasonRunesMax = 500

// Withdrawal holds what approving, ending and settling need of an existing withdrawal.
type Withdrawal struct {
	id        string
	owner     owner
	mintID    int
	chain     chain.Name
	amount    money.Amount
	toAddress chain.Address
	key       *string
	status    Status
	txHash    *string
	reasons   []Reason

	deductsFee  bool          // the customer pays the fee
	deductedFee *money.Amount // how much of the fee; nil until the order is submitted
	feeMax      *money.Amount // the caller's limit for the fee

	endIntent *endIntent // how a person ended it, until the signer has voided it
	isVoid    bool       // it was taken back and is never paid

	// approvalsRequired is 0 for a withdrawal that was never held, or that is older than the count.
	approvalsRequired int
	approvalRound     int    // how often it was returned for approval
	mac               []byte // MAC over the terms that it was requested with

	charge  charge
	charged money.Amount // what its end charged the customer

	costMax *money.Amount // the most that the network would have taken at the request; nil: unknown
}

// signedTerms returns the terms that approvers approve. Rule OW-6.
func (r Withdrawal) signedTerms(org string, m mint.Mint) signer.Terms {
	t := signer.Terms{
		OrgID: org, WithdrawalID: r.id, Chain: r.chain, MintID: r.mintID, Contract: m.Contract, To: r.toAddress,
		Amount:  r.amount,
		FeeMode: parsed{deductsFee: r.deductsFee}.feeMode(), Product: r.owner.product, WhitelistedID: r.owner.listedID,
	}
	if r.feeMax != nil {
		t.FeeMax = *r.feeMax
	}
	return t
}

// evaluatedAmount returns the amount that the gates check: what a customer pays, or what the
// destination of an organization's withdrawal receives.
func (r Withdrawal) evaluatedAmount() money.Amount {
	if r.owner.product != "" {
		return r.payoutAmount()
	}
	return r.amount
}

// payoutAmount returns what the order pays: the amount less the deducted fee. Rule WD-10.
func (r Withdrawal) payoutAmount() money.Amount {
	if r.deductedFee == nil {
		return r.amount
	}
	return subOrZero(r.amount, *r.deductedFee)
}

func loadRow(ctx context.Context, tx pg.Tx, org, withdrawalID string) (Withdrawal, error) {
	return readRow(ctx, tx, org, withdrawalID, "")
}

// lockRow reads a withdrawal like loadRow and locks its row.
func lockRow(ctx context.Context, tx pg.Tx, org, withdrawalID string) (Withdrawal, error) {
	return readRow(ctx, tx, org, withdrawalID, " FOR NO KEY UPDATE")
}

func readRow(ctx context.Context, tx pg.Tx, org, withdrawalID, lock string) (Withdrawal, error) {
	r := Withdrawal{id: withdrawalID}
	if !id.IsValid("wd", withdrawalID) {
		return r, newNotFound()
	}
	var e endIntent
	err := tx.QueryRow(ctx, `
		SELECT coalesce(customer_id, ''), coalesce(product, ''), coalesce(whitelisted_address_id, ''), mint_id, chain, amount, to_address, idempotency_key, status, tx_hash, approval_reasons,
			fee_mode = 'DEDUCTED', fee_deducted, max_network_fee, approvals_required, approval_round, request_mac, cost_max,
			charge_rent, charge_held, charge_failure_max, charge_coin_price, charge_mint_price, charged,
			coalesce(end_status, ''), coalesce(end_note, ''), coalesce(end_actor_kind, ''), coalesce(end_actor, ''), EXISTS (SELECT FROM dispatch_voids WHERE order_id = withdrawal_id)
		FROM withdrawals WHERE org_id = $1 AND withdrawal_id = $2`+lock, org, withdrawalID).
		Scan(&r.owner.customerID, &r.owner.product, &r.owner.listedID, &r.mintID, &r.chain, &r.amount, &r.toAddress,
			&r.key, &r.status, &r.txHash, &r.reasons,
			&r.deductsFee, &r.deductedFee, &r.feeMax, &r.approvalsRequired, &r.approvalRound, &r.mac, &r.costMax,
			&r.charge.rent, &r.charge.held, &r.charge.failureMax, &r.charge.coinPrice, &r.charge.mintPrice, &r.charged,
			&e.status, &e.note, &e.actor.Kind, &e.actor.ID, &r.isVoid)
	if errors.Is(err, pgx.ErrNoRows) {
		return r, newNotFound()
	}
	if err != nil {
		return r, fmt.Errorf("read withdrawal %s: %w", withdrawalID, err)
	}
	if e.status != "" {
		r.endIntent = &e
	}
	return r, nil
}

func newNotFound() *fault.Fault {
	return fault.New(fault.NotFound, fault.CodeNotFound,
		"Your organization has no withdrawal with this id. No money was moved. GET /withdrawals lists the withdrawals.")
}

// newInvalidState returns the answer to the loser of a race and to every late call.
func newInvalidState(act string, status Status) *fault.Fault {
	return fault.New(fault.Conflict, fault.InvalidState,
		"Only a withdrawal that is AWAITING_APPROVAL can be %s, and this one is %s. This call changed nothing and "+
			"moved no money. GET /withdrawals/{withdrawalId} shows its status.", act, status).
		WithExtra("currentStatus", string(status))
}

// newUnderWay returns the answer to a person who ends a withdrawal that does not wait any more.
func newUnderWay(act string) *fault.Fault {
	return fault.New(fault.Conflict, fault.InvalidState,
		"Only a withdrawal that is AWAITING_APPROVAL, or that is PROCESSING and waits before the signer signs "+
			"anything of it, can be %s. The payment of this one has begun. This call changed nothing and moved no "+
			"money. GET /withdrawals/{withdrawalId} shows its status.", act).
		WithExtra("currentStatus", string(Processing))
}

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

// Remove ends a withdrawal that is held, or that waits without a slot. The customer can spend the
// amount again. The reason is shown as rejectedReason and may be empty.
//
// Errors: faults NOT_FOUND, INVALID_STATE, INVALID_REQUEST, and UNAVAILABLE when the signer has to
// void the withdrawal and does not answer. The withdrawal then ends as soon as the signer answers.
// Rule WD-5.
func (s *Service) Remove(
	ctx context.Context, org, withdrawalID string, actor audit.Actor, reason string,
) (webhook.Withdrawal, error) {
	if utf8.RuneCountInString(reason) > reasonRunesMax || !isPlainText(reason) {
		return webhook.Withdrawal{}, fault.New(fault.Invalid, fault.InvalidRequest,
			"A reason may have at most %d characters of text. The withdrawal still waits and the amount is still "+
				"held. Shorten the reason.", reasonRunesMax).
			WithParam("reason")
	}
	return s.endWaiting(ctx, org, withdrawalID, endIntent{status: Rejected, note: reason, actor: actor})
}

// Cancel takes back a withdrawal that is held, or that waits without a slot. The customer can spend
// the amount again. Errors: faults NOT_FOUND, INVALID_STATE (also for a cancelled one), and
// UNAVAILABLE as for Remove. Rule WD-24.
func (s *Service) Cancel(ctx context.Context, org, withdrawalID string, actor audit.Actor) (webhook.Withdrawal, error) {
	return s.endWaiting(ctx, org, withdrawalID, endIntent{status: Cancelled, actor: actor})
}

// endIntent says how a person ends a withdrawal that is held, or that waits without a slot.
type endIntent struct {
	status Status
	note   string
	actor  audit.Actor
}

// pastVerb returns the verb for messages and audit actions.
func (e endIntent) pastVerb() string {
	if e.status == Rejected {
		return "removed"
	}
	return "cancelled"
}

// endWaiting ends a withdrawal that is held, or whose order waits without a slot, and releases its
// hold once. A withdrawal that was let go has a grant: it is taken back first and keeps its hold
// until the signer has voided it. Rule WD-43.
func (s *Service) endWaiting(
	ctx context.Context, org, withdrawalID string, e endIntent,
) (w webhook.Withdrawal, err error) {
	var mustVoid, isEnding bool
	endOrIntend := func(ctx context.Context, tx pg.Tx) error {
		mustVoid, isEnding = false, false
		r, err := s.lockEndable(ctx, tx, org, withdrawalID, e.pastVerb())
		if err != nil {
			return err
		}
		if isEnding = r.endIntent != nil; isEnding {
			return nil
		}
		voidState, err := dispatch.LoadVoidState(ctx, tx, r.id)
		if err != nil {
			return err
		}
		if mustVoid = voidState == dispatch.NotVoided; !mustVoid {
			w, err = s.endWithdrawal(ctx, tx, org, r, e)
			return err
		}
		if err := recallOrder(ctx, tx, r.id); err != nil {
			return err
		}
		if err := setEndIntent(ctx, tx, org, r.id, r.status, e); err != nil {
			return err
		}
		failpoint.HitBeforeCommit("V01")
		return nil
	}
	if err = s.DB.InOrg(ctx, org, endOrIntend); errors.Is(err, errReturned) {
		err = s.DB.InOrg(ctx, org, endOrIntend)
	}
	if errors.Is(err, errReturned) {
		err = newUnderWay(e.pastVerb()) // it was let go again in the meantime
	}
	if err != nil || !mustVoid && !isEnding {
		return w, err
	}
	failpoint.Hit("V01")
	if err := s.Voider.FinishVoid(ctx, withdrawalID); err != nil {
		return w, newEndUnread(ctx, err)
	}
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		if isEnding {
			return s.refuseLate(ctx, tx, org, withdrawalID, e.pastVerb())
		}
		w, err = LoadObject(ctx, tx, org, withdrawalID)
		return err
	})
	if err != nil && fault.Find(err) == nil {
		return webhook.Withdrawal{}, newEndUnread(ctx, err)
	}
	return w, err
}

// newEndUnread returns the answer about a withdrawal that is taken back, when its end could not be
// written or read.
func newEndUnread(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return fault.New(fault.Unavailable, fault.CodeUnavailable,
		"The withdrawal is being cancelled: it will not be paid and cannot be approved any more. The signer or the "+
			"database did not answer when its end was recorded, so the amount may still be held. It becomes "+
			"available, once, as soon as both answer, without another call. GET /withdrawals/{withdrawalId} shows "+
			"the status.")
}

// errReturned says that a waiting withdrawal was returned for approval since it was read.
var errReturned = errors.New("the withdrawal waits for an approval again")

// lockEndable reads and locks a withdrawal that a person can end. It also returns one whose end is
// decided; that one has endIntent set and may be unlocked. After errReturned the call can be
// repeated.
func (s *Service) lockEndable(ctx context.Context, tx pg.Tx, org, withdrawalID, act string) (Withdrawal, error) {
	r, err := loadRow(ctx, tx, org, withdrawalID)
	if err != nil {
		return r, err
	}
	if r.status == Processing && r.endIntent == nil {
		// Dispatch owns a queued order and the order of its locks. Ending the order and giving it a
		// slot exclude each other; the first wins.
		isWaiting, err := dispatch.LockWaiting(ctx, tx, r.id)
		if err != nil {
			return r, err
		}
		if isWaiting {
			return lockRow(ctx, tx, org, withdrawalID)
		}
		// The row stays unlocked: the order is locked now, and for a held withdrawal the row is
		// locked before the order.
		if r, err = loadRow(ctx, tx, org, withdrawalID); err != nil {
			return r, err
		}
		if r.status == AwaitingApproval {
			return r, errReturned
		}
	} else if r.status == AwaitingApproval {
		if r, err = lockRow(ctx, tx, org, withdrawalID); err != nil {
			return r, err
		}
	}
	switch {
	case r.status == AwaitingApproval, r.status == Processing && r.endIntent != nil:
		return r, nil
	case r.status == Processing:
		return r, newUnderWay(act)
	}
	return r, newInvalidState(act, r.status)
}

// setEndIntent stores how a withdrawal ends once the signer has voided it.
func setEndIntent(ctx context.Context, tx pg.Tx, org, withdrawalID string, from Status, e endIntent) error {
	tag, err := tx.Exec(ctx, `
		UPDATE withdrawals SET end_status = $3, end_note = nullif($4, ''), end_actor_kind = $5, end_actor = $6
		WHERE org_id = $1 AND withdrawal_id = $2 AND status = $7 AND end_status IS NULL`,
		org, withdrawalID, e.status, e.note, e.actor.Kind, e.actor.ID, from)
	if err != nil {
		return fmt.Errorf("cancel withdrawal %s: %w", withdrawalID, err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("cancel withdrawal %s: %w", withdrawalID, errLostRace)
	}
	return nil
}

// OnVoided implements dispatch.VoidListener: a withdrawal that a person took back ends as stored in
// its endIntent. A withdrawal that is void only by a restored journal waits for a person.
func (s *Service) OnVoided(ctx context.Context, tx pg.Tx, org, withdrawalID string) error {
	r, err := lockRow(ctx, tx, org, withdrawalID)
	if err != nil || r.endIntent == nil {
		return err
	}
	_, err = s.endWithdrawal(ctx, tx, org, r, *r.endIntent)
	return err
}

// endWithdrawal ends a withdrawal without a slot and releases its hold. The row is locked.
func (s *Service) endWithdrawal(
	ctx context.Context, tx pg.Tx, org string, r Withdrawal, e endIntent,
) (webhook.Withdrawal, error) {
	var empty webhook.Withdrawal
	set, args := "", []any(nil)
	d := DecisionRecord{withdrawalID: r.id, Act: ActCancelled, Status: e.status, Actor: e.actor}
	detail := map[string]any{"amount": r.amount.String()}
	if e.status == Rejected {
		set, args = "rejected_reason = nullif($5, '')", []any{e.note}
		d.Act, d.Note, detail["reason"] = ActRemoved, e.note, e.note
	}
	if err := setStatus(ctx, tx, org, r.id, r.status, e.status, set, args...); err != nil {
		return empty, err
	}
	if err := ledger.Post(ctx, tx, newReleasePostings(org, r)...); err != nil {
		return empty, fmt.Errorf("release the hold of %s: %w", r.id, err)
	}
	w, err := LoadObject(ctx, tx, org, r.id)
	if err != nil {
		return empty, err
	}
	if err := publishEvent(ctx, tx, org, findTransition(r.status, e.status), w); err != nil {
		return empty, err
	}
	return w, recordDecision(ctx, tx, org, d, "withdrawal."+e.pastVerb(), detail)
}

// recallOrder recalls the order of a withdrawal that was let go. After a return for approval the
// row is locked before the order, here and in Approve; dispatch locks in the opposite sequence. No
// deadlock results: dispatch releases an order that it refused, and locks it again only after the
// next Submit.
func recallOrder(ctx context.Context, tx pg.Tx, withdrawalID string) error {
	if _, err := dispatch.Recall(ctx, tx, withdrawalID); err != nil {
		return err
	}
	var isUnderWay bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM dispatch_orders WHERE order_id = $1 AND status <> 'WITHDRAWN')`,
		withdrawalID).Scan(&isUnderWay)
	if err != nil {
		return fmt.Errorf("order of %s: %w", withdrawalID, err)
	}
	if isUnderWay {
		return fmt.Errorf("withdrawal %s waits for approval and its order is in progress: the hold stays", withdrawalID)
	}
	return nil
}

// refuseLate returns the answer to the loser of a race. It reads the row again, because the winner
// has committed by the time the compare-and-swap fails.
func (s *Service) refuseLate(ctx context.Context, tx pg.Tx, org, withdrawalID, act string) error {
	r, err := loadRow(ctx, tx, org, withdrawalID)
	if err != nil {
		return err
	}
	return newInvalidState(act, r.status)
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

// newReleasePostings returns the posting that releases a hold, less the customer's charge; nil if
// nothing is left. Its cause is that of the settlement, so that a hold cannot end twice.
// Rules WD-5 and WD-9.
func newReleasePostings(org string, r Withdrawal) []ledger.Posting {
	held, err := r.amount.Add(r.charge.held)
	if err != nil {
		panic("withdrawal: a hold is larger than the largest possible amount")
	}
	if held = subOrZero(held, r.charged); held.IsZero() {
		return nil
	}
	return []ledger.Posting{newEndPosting(org, r, r.owner.spendingAccount(org, r.mintID), held)}
}

// newSettlementPosting returns the posting that ends a hold with what left custody.
func newSettlementPosting(org string, r Withdrawal) ledger.Posting {
	return newEndPosting(org, r, ledger.Account{OrgID: org, MintID: r.mintID, Kind: ledger.Custody}, r.amount)
}

// newKeptFeePostings returns the postings for the fee that was held for a payment that was made;
// nil without one. A customer's fee becomes the organization's own; the organization is billed what
// the network took. What the organization held for its own withdrawal becomes the operator's gas
// and is deducted from that bill. Rule WD-27.
func newKeptFeePostings(org string, r Withdrawal) []ledger.Posting {
	if r.deductedFee == nil || r.deductedFee.IsZero() {
		return nil
	}
	if r.owner.product != "" {
		newPosting := func(kind ledger.CauseKind, debit, credit ledger.Kind) ledger.Posting {
			return ledger.Posting{
				Cause: ledger.Cause{Kind: kind, ID: r.id},
				Legs: []ledger.Leg{{
					Debit:  ledger.Account{OrgID: org, MintID: r.mintID, Kind: debit},
					Credit: ledger.Account{OrgID: org, MintID: r.mintID, Kind: credit},
					Amount: *r.deductedFee,
				}},
			}
		}
		return []ledger.Posting{
			newPosting(ledger.WithdrawalFee, ledger.Custody, ledger.Gas),
			newPosting(ledger.FeePrepaid, ledger.FeesBilled, ledger.FeesDue),
		}
	}
	return []ledger.Posting{{
		Cause: ledger.Cause{Kind: ledger.WithdrawalFee, ID: r.id},
		Legs: []ledger.Leg{{
			Debit:  ledger.Account{OrgID: org, MintID: r.mintID, Kind: ledger.Custody},
			Credit: ledger.Account{OrgID: org, MintID: r.mintID, Kind: ledger.Product, Subject: feeProduct},
			Amount: *r.deductedFee,
		}},
	}}
}

// feeProduct is the product whose balance receives the fees that customers pay.
const feeProduct = "CUSTODIAL"

func newEndPosting(org string, r Withdrawal, to ledger.Account, amount money.Amount) ledger.Posting {
	return ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.WithdrawalEnd, ID: r.id},
		Legs: []ledger.Leg{{
			Debit:  r.owner.heldAccount(org, r.mintID),
			Credit: to,
			Amount: amount,
		}},
	}
}
