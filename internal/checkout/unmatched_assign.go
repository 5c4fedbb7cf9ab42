package checkout

import (
	"context"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// assignedVerb names in the audit log that a payment was given to a checkout.
const assignedVerb = "payment_assigned"

// AssignUnmatched makes an unmatched payment the payment of a checkout: a person says that it is. The checkout may be
// in any state, and the worker values the payment by its own moment, as it values every other one. The payment keeps
// the status of its deposit. It never goes to another checkout. A payment that the checkout has already stays as it is.
// Errors: faults NOT_FOUND, INVALID_STATE. Rules CO-102 and CO-103.
func (s *Service) AssignUnmatched(
	ctx context.Context, orgID, depositID, checkoutID string, requester audit.Actor,
) (after Unmatched, err error) {
	u, err := s.UnmatchedByID(ctx, orgID, depositID)
	if err != nil {
		return Unmatched{}, asWritten(err)
	}
	exists, err := s.hasCheckout(ctx, orgID, checkoutID)
	switch {
	case err != nil:
		return Unmatched{}, err
	case !exists:
		return Unmatched{}, asWritten(newCheckoutGone())
	case u.AssignedTo == checkoutID:
		return u, nil
	case u.AssignedTo != "":
		return Unmatched{}, newAssigned(u.AssignedTo)
	case u.Mint == nil:
		return Unmatched{}, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"The token of this payment is not in the catalogue, so nothing of it is credited.").
			WithAdvice("Ask the operator to support the token.").WithExtra("currentStatus", u.DepositStatus)
	}
	// The signer pays a refund only of a checkout that has an address in its journal. Rule CO-86.
	_, err = s.Wallets.Addresses(ctx, signer.WalletRef{
		OrgID: orgID, Family: u.Chain.Family(), Purpose: wallet.Checkout, Subject: checkoutID,
	})
	if err != nil {
		return Unmatched{}, fmt.Errorf("address of checkout %s on %s: %w", checkoutID, u.Chain, err)
	}
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		err := s.assign(ctx, tx, orgID, depositID, checkoutID, requester)
		failpoint.HitBeforeCommit("C16")
		return err
	})
	if err != nil {
		return Unmatched{}, asWritten(err)
	}
	failpoint.Hit("C16")
	return s.UnmatchedByID(ctx, orgID, depositID)
}

// newAssigned is the answer to an assignment of a payment that another checkout has.
func newAssigned(checkoutID string) error {
	return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
		"This is a payment of checkout %s.", checkoutID).
		WithAdvice("Accept it there, or give it back there: a payment does not go to another checkout.").
		WithExtra("currentStatus", "ASSIGNED").WithDetail("checkoutId", checkoutID)
}

// assign gives an unmatched payment to a checkout. The lock of the deposit keeps its status, and lets one of several
// assignments win, also against a block that shows the reference of another checkout.
func (s *Service) assign(
	ctx context.Context, tx pg.Tx, orgID, depositID, checkoutID string, requester audit.Actor,
) error {
	var depositStatus string
	err := tx.QueryRow(ctx, `SELECT status FROM deposits WHERE deposit_id = $1 AND org_id = $2 FOR NO KEY UPDATE`,
		depositID, orgID).Scan(&depositStatus)
	if isAbsent(err) {
		return newUnmatchedGone()
	}
	if err != nil {
		return fmt.Errorf("lock deposit %s: %w", depositID, err)
	}
	if _, err := tx.Exec(ctx, `SELECT FROM checkouts WHERE checkout_id = $1 FOR KEY SHARE`, checkoutID); err != nil {
		return fmt.Errorf("lock checkout %s: %w", checkoutID, err)
	}
	var assignedTo, noticedFor, reason string
	err = tx.QueryRow(ctx, `
		SELECT coalesce(u.assigned_to, ''), u.reason, coalesce(p.checkout_id, '')
		FROM checkout_unmatched u LEFT JOIN checkout_payments p ON p.deposit_id = u.deposit_id
		WHERE u.deposit_id = $1 AND u.org_id = $2`, depositID, orgID).Scan(&assignedTo, &reason, &noticedFor)
	switch {
	case isAbsent(err):
		return newUnmatchedGone()
	case err != nil:
		return fmt.Errorf("read unmatched payment %s: %w", depositID, err)
	case assignedTo == checkoutID:
		return nil
	case assignedTo != "":
		return newAssigned(assignedTo)
	case noticedFor != "" && noticedFor != checkoutID:
		return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"A recent block gave this payment to checkout %s, and its final block does not.", noticedFor).
			WithAdvice("Assign it to that checkout and give it back there: a payment does not go to another checkout.").
			WithExtra("currentStatus", reason).WithDetail("checkoutId", noticedFor)
	}
	status := s.paymentStatusOf(ctx, depositID, depositStatus)
	if noticedFor != "" {
		_, err = tx.Exec(ctx, `
			UPDATE checkout_payments SET status = $2, try_at = $3, tries = 0 WHERE deposit_id = $1`, depositID, status,
			tx.Now)
	} else {
		err = insertAssigned(ctx, tx, depositID, checkoutID, status, time.Time{})
	}
	if err != nil {
		return fmt.Errorf("make deposit %s a payment of checkout %s: %w", depositID, checkoutID, err)
	}
	return noteAssigned(ctx, tx, Checkout{ID: checkoutID, OrgID: orgID}, depositID, reason, requester)
}

// paymentStatusOf returns the status of the payment of a deposit.
func (s *Service) paymentStatusOf(ctx context.Context, depositID, depositStatus string) outcome.PaymentStatus {
	if status, isKnown := s.PaymentStatuses[depositStatus]; isKnown {
		return status
	}
	s.Log.ErrorContext(ctx, "checkout: a deposit has a status that no payment has", "deposit", depositID, "status",
		depositStatus)
	return outcome.PaymentUnusable
}

// insertAssigned writes the payment of a deposit that was unmatched. blockTime is the time of its block if the row does
// not have it.
func insertAssigned(
	ctx context.Context, tx pg.Tx, depositID, checkoutID string, status outcome.PaymentStatus, blockTime time.Time,
) error {
	var knownTime *time.Time
	if !blockTime.IsZero() {
		knownTime = &blockTime
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO checkout_payments (deposit_id, org_id, checkout_id, mint_id, chain, amount, block_time, seen_at,
			was_live, status, try_at)
		SELECT d.deposit_id, d.org_id, $2, d.mint_id, d.chain, d.amount, coalesce(u.block_time, $4, u.seen_at),
			u.seen_at, u.was_live, $3, $5
		FROM deposits d JOIN checkout_unmatched u ON u.deposit_id = d.deposit_id WHERE d.deposit_id = $1`,
		depositID, checkoutID, status, knownTime, tx.Now)
	return err
}

// noteAssigned notes that a payment is that of a checkout, and who said it.
func noteAssigned(ctx context.Context, tx pg.Tx, c Checkout, depositID, reason string, requester audit.Actor) error {
	tag, err := tx.Exec(ctx, `
		UPDATE checkout_unmatched SET assigned_to = $2, assigned_by = $3, assigned_at = $4
		WHERE deposit_id = $1 AND assigned_to IS NULL`,
		depositID, c.ID, requester.Kind+" "+requester.ID, tx.Now)
	if err == nil && tag.RowsAffected() != 1 {
		err = errLostRace
	}
	if err != nil {
		return fmt.Errorf("note that payment %s is that of checkout %s: %w", depositID, c.ID, err)
	}
	return audit.Record(ctx, tx, newCheckoutEntry(c, requester, assignedVerb, map[string]any{
		"deposit": depositID, "reason": reason,
	}))
}

// matchLate gives an unmatched payment to the checkout whose key its final block names: a quorum agrees on what a final
// block has, and one provider alone said what a recent one had. What a person assigned stays. Rule CO-104.
func (s *Service) matchLate(ctx context.Context, tx pg.Tx, a Arrival, checkoutID string) error {
	var reason string
	err := tx.QueryRow(ctx, `
		SELECT reason FROM checkout_unmatched
		WHERE deposit_id = $1 AND assigned_to IS NULL AND reason IN ('NO_REFERENCE', 'SEVERAL_REFERENCES')`,
		a.DepositID).Scan(&reason)
	if isAbsent(err) {
		return nil
	}
	if err == nil {
		err = insertAssigned(ctx, tx, a.DepositID, checkoutID, a.Status, a.BlockTime)
	}
	if err != nil {
		return fmt.Errorf("match deposit %s with checkout %s: %w", a.DepositID, checkoutID, err)
	}
	return noteAssigned(ctx, tx, Checkout{ID: checkoutID, OrgID: a.OrgID}, a.DepositID, reason, actor)
}
