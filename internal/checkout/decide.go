package checkout

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const reasonRunesMax = 1000

// CancelCheckout ends an open checkout for which no payment was seen. A cancelled one stays as it is. What arrives
// later is late. Errors: faults NOT_FOUND, INVALID_STATE. Rule CO-16.
func (s *Service) CancelCheckout(
	ctx context.Context, orgID, checkoutID string, requester audit.Actor,
) (after Checkout, err error) {
	err = s.inCheckout(ctx, orgID, checkoutID, func(ctx context.Context, tx pg.Tx, c Checkout) error {
		if c.Status == outcome.Cancelled {
			return nil
		}
		payments := make([]outcome.Payment, len(c.Payments))
		for i, p := range c.Payments {
			payments[i] = outcome.Payment{Status: p.Status}
		}
		if c.Status != outcome.Open {
			return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"This checkout is %s.", c.Status).WithExtra("currentStatus", string(c.Status))
		}
		if !outcome.CanCancel(c.Status, payments) {
			return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"A payment for this checkout was seen.").
				WithAdvice("Wait for what becomes of it. What was paid can be accepted or given back.").
				WithExtra("currentStatus", string(c.Status))
		}
		tag, err := tx.Exec(ctx, `
			UPDATE checkouts SET version = version + 1, status = 'CANCELLED', cancelled_at = coalesce(cancelled_at, $3),
				updated_at = greatest($3, updated_at)
			WHERE checkout_id = $1 AND version = $2 AND status = 'OPEN'`, c.ID, c.Version, tx.Now)
		if err == nil && tag.RowsAffected() != 1 {
			err = errLostRace
		}
		if err != nil {
			return fmt.Errorf("cancel checkout %s: %w", c.ID, err)
		}
		err = audit.Record(ctx, tx, newCheckoutEntry(c, requester, "cancelled", nil))
		failpoint.HitBeforeCommit("C09")
		return err
	})
	if err != nil {
		return Checkout{}, err
	}
	failpoint.Hit("C09")
	return s.CheckoutByID(ctx, orgID, checkoutID)
}

// AcceptCheckout completes a checkout with what was paid: a person decides that it is enough, in time and in the right
// coin. Something has to be credited, and nothing flagged. A completed one stays as it is. Errors: faults NOT_FOUND,
// INVALID_REQUEST, INVALID_STATE, REFERENCE_PAID. Rule CO-17.
func (s *Service) AcceptCheckout(
	ctx context.Context, orgID, checkoutID, reason string, requester audit.Actor,
) (after Checkout, err error) {
	reason = strings.TrimSpace(reason)
	if problem := describeTextProblem(reason, reasonRunesMax, true); problem != "" {
		return Checkout{}, refuse("reason", "reason %s.", problem)
	}
	err = s.inCheckout(ctx, orgID, checkoutID, func(ctx context.Context, tx pg.Tx, c Checkout) error {
		isPresent := func(status outcome.PaymentStatus) bool {
			return slices.ContainsFunc(c.Payments, func(p Payment) bool { return p.Status == status })
		}
		refuseState := func(reason, advice string) error {
			return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten, "%s", reason).
				WithAdvice("%s", advice).WithExtra("currentStatus", string(c.Status))
		}
		switch {
		case c.Status == outcome.Completed:
			return nil
		case !isPresent(outcome.PaymentCredited):
			return refuseState("Nothing that was paid for this checkout is credited.", "Wait until a payment is final.")
		case isPresent(outcome.PaymentFlagged):
			return refuseState("A payment of this checkout is held by screening.",
				"Decide about the flagged deposit first.")
		}
		mints, err := mint.LoadCatalogue(ctx, tx)
		if err != nil {
			return err
		}
		if !isActive(c.Status) && c.OnePerReference {
			if taken, err := isReferenceTaken(ctx, tx, c); err != nil {
				return err
			} else if taken {
				return fault.New(fault.Conflict, fault.ReferencePaid, fault.NothingWritten,
					"Another checkout of this reference is open or paid.").
					WithAdvice("Cancel the other checkout first, or give the payment back.")
			}
		}
		decided := decision{author: requester.Kind + " " + requester.ID, reason: reason}
		return s.settleLocked(ctx, tx, c, mints, requester, decided, false)
	})
	if err != nil {
		return Checkout{}, err
	}
	return s.CheckoutByID(ctx, orgID, checkoutID)
}

// inCheckout runs fn with a locked checkout of an organization. Error: fault NOT_FOUND.
func (s *Service) inCheckout(
	ctx context.Context, orgID, checkoutID string, fn func(ctx context.Context, tx pg.Tx, c Checkout) error,
) error {
	if !id.IsValid(checkoutPrefix, checkoutID) {
		return asWritten(newCheckoutGone())
	}
	return asWritten(s.DB.InOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		c, err := lockWithPayments(ctx, tx, checkoutID)
		if err != nil {
			return err
		}
		return fn(ctx, tx, c)
	}))
}
