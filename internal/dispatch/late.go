package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// This file holds what becomes of an order whose PayBy has passed. Its payee may not take the payment
// any more, so it pays no more, except in a slot that was sent before:
//
//   - without a slot, the order is recalled;
//   - with a slot and in no block, a cancel takes the slot, and the final block shows what was paid;
//   - in a block, it is followed like any other.

// isLate reports whether an order is past the time by which it has to be paid.
func (o Order) isLate(now time.Time) bool { return !o.PayBy.IsZero() && !now.Before(o.PayBy) }

// lateError says that nothing of an order is signed any more, because its PayBy has passed.
type lateError struct{ order Order }

func (e *lateError) Error() string {
	return fmt.Sprintf("it had to be paid by %s", e.order.PayBy.UTC().Format(time.RFC3339))
}

// lateMax bounds the late orders that one round recalls.
const lateMax = 200

// recallAllLate recalls the queued orders of the chain that are late. It asks neither the chain nor the
// signer, so it ends orders that wait for them, too. An error about one order does not stop the others.
func (d *Worker) recallAllLate(ctx context.Context) (recalled bool, err error) {
	var late []string
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		// The purpose is a condition of the index.
		rows, err := tx.Query(ctx, `
			SELECT order_id FROM dispatch_orders
			WHERE purpose = 'SWAP' AND status = 'QUEUED' AND pay_by <= $2 AND chain = $1
			ORDER BY pay_by, order_id LIMIT $3`, d.chain.Name, tx.Now, lateMax)
		if err != nil {
			return err
		}
		late, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return false, fmt.Errorf("find the orders that are late: %w", err)
	}
	for _, orderID := range late {
		if e := d.recallLate(ctx, orderID); e != nil {
			err = errors.Join(err, e)
		} else {
			recalled = true
		}
	}
	return recalled, err
}

// recallLate ends a late order that has no slot and notifies its feature, in one transaction. The
// Voider, which runs beside the Workers, has the signer void it: a signer that does not answer holds up
// no round.
func (d *Worker) recallLate(ctx context.Context, orderID string) error {
	var recalled bool
	err := d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		recalled = false
		if _, err := finality.LockForked(ctx, tx, d.chain.Name); err != nil {
			return err
		}
		o, err := lockOrder(ctx, tx, orderID)
		if err != nil || o.Status != Queued {
			return err // it got its slot, or ended, in the meantime
		}
		if recalled, err = d.recallLocked(ctx, tx, o, systemActor); err != nil || !recalled {
			return err
		}
		failpoint.HitBeforeCommit("Q12")
		return nil
	})
	if err != nil {
		return fmt.Errorf("end late order %s: %w", orderID, err)
	}
	if recalled {
		failpoint.Hit("Q12")
		d.log.Warn("an order ended without a payment, because its time to be paid had passed", "order", orderID)
	}
	return nil
}

// cancelLate commits a cancel to the slot of a late order that is in no block. It returns false if the
// slot has its cancel, or gets it later.
func (d *Worker) cancelLate(ctx context.Context, payer wallet.Wallet, s slot) (filled bool, err error) {
	// Without its funds a restored order cannot end, and the gas of its slot is not reserved.
	if s.FundsPending || s.newestAttempt().Act == signer.Cancel || s.Kind().NotCancellable != "" {
		return false, nil
	}
	note := (&lateError{s.Order}).Error()
	err = d.commitCancel(ctx, payer, s, replacementRequest{
		reason: reasonRefusal, actor: systemActor, note: note, isLate: true,
	})
	switch {
	case errors.Is(err, errLostRace):
		return false, err
	case err != nil:
		d.raiseAlarm(
			ctx, s.ID, "a payment is late and its slot cannot be cancelled yet", "order", s.ID, "wallet", payer.ID,
			"slot", s.ChainSlot.String(), "why", err.Error(),
		)
		return false, d.noteError(ctx, s, note+", and its slot cannot be cancelled yet: "+err.Error())
	}
	failpoint.Hit("Q12")
	d.log.Warn(
		"a payment was not in a block when its time had passed: a cancel takes its slot", "order", s.ID,
		"slot", s.ChainSlot.String(),
	)
	return true, nil
}
