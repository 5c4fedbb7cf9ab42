package withdrawal

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/request"
)

const reasonRunesMax = 500

// Remove ends a withdrawal that is held, or that waits without a slot. The customer can spend the
// amount again. The reason is shown as rejectedReason and may be empty.
//
// Errors: faults NOT_FOUND, INVALID_STATE, INVALID_REQUEST, and UNAVAILABLE when the signer has to
// void the withdrawal and does not answer. The withdrawal then ends as soon as the signer answers.
// Rule WD-5.
func (s *Service) Remove(
	ctx context.Context, org, withdrawalID string, actor audit.Actor, reason string,
) (Withdrawal, error) {
	if utf8.RuneCountInString(reason) > reasonRunesMax || !request.IsPlainText(reason) {
		return Withdrawal{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.StillHeld,
			"A reason may have at most %d characters of text.", reasonRunesMax).
			WithAdvice("Shorten the reason.").
			WithParam("reason")
	}
	return s.endWaiting(ctx, org, withdrawalID, endIntent{status: Rejected, note: reason, actor: actor})
}

// Cancel takes back a withdrawal that is held, or that waits without a slot. The customer can spend
// the amount again. Errors: faults NOT_FOUND, INVALID_STATE (also for a cancelled one), and
// UNAVAILABLE as for Remove. Rule WD-24.
func (s *Service) Cancel(ctx context.Context, org, withdrawalID string, actor audit.Actor) (Withdrawal, error) {
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
) (w Withdrawal, err error) {
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
		w, err = Load(ctx, tx, org, withdrawalID)
		return err
	})
	if err != nil && fault.Find(err) == nil {
		return Withdrawal{}, newEndUnread(ctx, err)
	}
	return w, err
}

// newEndUnread returns the answer about a withdrawal that is taken back, when its end could not be
// written or read.
func newEndUnread(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return fault.New(fault.Unavailable, fault.CodeUnavailable, fault.Stated,
		"The withdrawal is being cancelled: it will not be paid and cannot be approved any more. The signer or the "+
			"database did not answer when its end was recorded, so the amount may still be held. It becomes "+
			"available, "+
			"once, as soon as both answer, without another call.").WithStep(fault.ShowWithdrawal)
}

// errReturned says that a waiting withdrawal was returned for approval since it was read.
var errReturned = errors.New("the withdrawal waits for an approval again")

// lockEndable reads and locks a withdrawal that a person can end. It also returns one whose end is
// decided; that one has endIntent set and may be unlocked. After errReturned the call can be
// repeated.
func (s *Service) lockEndable(ctx context.Context, tx pg.Tx, org, withdrawalID, act string) (storedWithdrawal, error) {
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

// newUnderWay returns the answer to a person who ends a withdrawal that does not wait any more.
func newUnderWay(act string) *fault.Fault {
	return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
		"Only a withdrawal that is AWAITING_APPROVAL, or that is PROCESSING and waits before the "+
			"signer signs anything of it, can be %s. The payment of this one has begun.", act).
		WithStep(fault.ShowWithdrawal).
		WithExtra("currentStatus", string(Processing))
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
	ctx context.Context, tx pg.Tx, org string, r storedWithdrawal, e endIntent,
) (Withdrawal, error) {
	var empty Withdrawal
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
	w, err := Load(ctx, tx, org, r.id)
	if err != nil {
		return empty, err
	}
	if err := s.publishEvent(ctx, tx, org, findTransition(r.status, e.status), w); err != nil {
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

// newReleasePostings returns the posting that releases a hold, less the customer's charge; nil if
// nothing is left. Its cause is that of the settlement, so that a hold cannot end twice.
// Rules WD-5 and WD-9.
func newReleasePostings(org string, r storedWithdrawal) []ledger.Posting {
	held, err := r.amount.Add(r.charge.held)
	if err != nil {
		panic("withdrawal: a hold is larger than the largest possible amount")
	}
	if held = money.SubOrZero(held, r.charged); held.IsZero() {
		return nil
	}
	return []ledger.Posting{newEndPosting(org, r, r.owner.ReturnAccount(org, r.mintID), held)}
}

// newSettlementPosting returns the posting that ends a hold with what left custody.
func newSettlementPosting(org string, r storedWithdrawal) ledger.Posting {
	return newEndPosting(org, r, ledger.Account{OrgID: org, MintID: r.mintID, Kind: ledger.Custody}, r.amount)
}

// newKeptFeePostings returns the postings for the fee that was held for a payment that was made;
// nil without one. A customer's fee becomes the organization's own; the organization is billed what
// the network took. What the organization held for its own withdrawal becomes the operator's gas
// and is deducted from that bill. Rule WD-27.
func newKeptFeePostings(org string, r storedWithdrawal) []ledger.Posting {
	if r.deductedFee == nil || r.deductedFee.IsZero() {
		return nil
	}
	if r.owner.IsOrganization() {
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

func newEndPosting(org string, r storedWithdrawal, to ledger.Account, amount money.Amount) ledger.Posting {
	return ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.WithdrawalEnd, ID: r.id},
		Legs: []ledger.Leg{{
			Debit:  r.owner.HeldAccount(org, r.mintID),
			Credit: to,
			Amount: amount,
		}},
	}
}
