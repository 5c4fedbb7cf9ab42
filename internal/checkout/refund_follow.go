package checkout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

const (
	refundBatchMax = 64
	refundClaim    = 30 * time.Second // for which one process looks at a refund
	// payoutPause is how long the worker waits before it looks at a payment again, and payoutPauseRare how long
	// once the payment takes long or is refused: a person may have to act.
	payoutPause     = 3 * time.Second
	payoutPauseRare = time.Minute
	payoutRareAfter = 10 * time.Minute
)

// PayoutState is how far the payment of a refund has come.
type PayoutState string

// The states.
const (
	PayoutOpen  PayoutState = "OPEN"
	PayoutPaid  PayoutState = "PAID"  // final
	PayoutEnded PayoutState = "ENDED" // it is never paid, and its amount is owed again
)

// RefundPayout is the payment of a refund to one address.
type RefundPayout struct {
	OrgID, RefundID, CheckoutID string
	Attempt                     int // counts the addresses; an attempt has one payment
	MintID                      int
	Amount                      money.Amount // what is owed
	ToAddress                   string
	DeductsFee                  bool        // the network fee comes out of the amount
	Requester                   audit.Actor // asked for the refund, and does not approve its payment
}

// RefundPayouts pays refunds. Its calls may be repeated after any error.
type RefundPayouts interface {
	// RequestPayout requests a payment, or returns the one that the attempt has. A fault says that the payment is
	// refused now and why.
	RequestPayout(ctx context.Context, p RefundPayout) (withdrawalID string, err error)
	// PayoutState returns how far a payment has come, and why it ended.
	PayoutState(ctx context.Context, orgID, withdrawalID string) (state PayoutState, problem string, err error)
}

// FollowRefunds takes the next step of each refund that is due: it requests payments, follows them to their ends, and
// ends refunds that no one claimed. Any number of processes may call it.
func (s *Service) FollowRefunds(ctx context.Context) error {
	var claimed []Refund
	err := s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		claimed = nil
		rows, err := tx.Query(ctx, `
			UPDATE refunds SET look_at = $2 WHERE refund_id IN (
				SELECT refund_id FROM refunds WHERE look_at <= $1 ORDER BY look_at, refund_id LIMIT $3
				FOR NO KEY UPDATE SKIP LOCKED)
			RETURNING refund_id`, tx.Now, tx.Now.Add(refundClaim), refundBatchMax)
		if err != nil {
			return err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(ids) == 0 {
			return err
		}
		if claimed, err = queryRefunds(ctx, tx, `r.refund_id = ANY ($1) ORDER BY r.refund_id`, ids); err != nil {
			return err
		}
		return loadRefundParts(ctx, tx, refer(claimed)...)
	})
	if err != nil {
		return fmt.Errorf("claim the refunds that are due: %w", err)
	}
	var errs []error
	for _, r := range claimed {
		if err := s.followRefund(ctx, r); err != nil {
			errs = append(errs, fmt.Errorf("refund %s: %w", r.ID, err))
		}
	}
	return errors.Join(errs...)
}

// followRefund takes the next step of a refund.
func (s *Service) followRefund(ctx context.Context, r Refund) error {
	switch r.Status {
	case RefundAwaitingAddress:
		return s.expireRefund(ctx, r.ID)
	case RefundRequested:
		return s.payRefund(ctx, r)
	case RefundSent:
		return s.followPayout(ctx, r)
	}
	return nil
}

// expireRefund ends a refund whose time is over, unless it got an address meanwhile. Rule CO-83.
func (s *Service) expireRefund(ctx context.Context, refundID string) error {
	failpoint.Hit("C13")
	return s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		r, err := lockRefund(ctx, tx, refundID)
		if err != nil || r.Status != RefundAwaitingAddress {
			return err
		}
		if tx.Now.Before(r.ExpiresAt) {
			return lookAtRefund(ctx, tx, r.ID, r.ExpiresAt)
		}
		return endRefund(ctx, tx, r, RefundExpired, "expired", actor)
	})
}

// lookAtRefund makes the worker look at a refund again.
func lookAtRefund(ctx context.Context, tx pg.Tx, refundID string, moment time.Time) error {
	_, err := tx.Exec(ctx, `UPDATE refunds SET look_at = $2 WHERE refund_id = $1 AND look_at IS NOT NULL`,
		refundID, moment)
	if err != nil {
		return fmt.Errorf("look at refund %s again: %w", refundID, err)
	}
	return nil
}

func (s *Service) lookAgain(ctx context.Context, refundID string, pause time.Duration) error {
	return s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return lookAtRefund(ctx, tx, refundID, tx.Now.Add(pause))
	})
}

// payRefund requests the payment of a refund. A crash after the request is found by the attempt, which has one payment.
func (s *Service) payRefund(ctx context.Context, r Refund) error {
	if s.Payouts == nil {
		return s.lookAgain(ctx, r.ID, payoutPauseRare)
	}
	withdrawalID, err := s.Payouts.RequestPayout(ctx, RefundPayout{
		OrgID: r.OrgID, RefundID: r.ID, CheckoutID: r.CheckoutID, Attempt: r.Attempt, MintID: r.Mint.ID,
		Amount: r.Amount, ToAddress: string(r.ToAddress), DeductsFee: r.FeeMode == FeeDeducted, Requester: r.Requester,
	})
	f := fault.Find(err)
	switch {
	case err == nil:
		return s.setSent(ctx, r.ID, r.Attempt, withdrawalID)
	case pg.ViolatesConstraint(err, "withdrawals_refund_requested"):
		return nil // it was taken back since it was read, so nothing is paid
	case f == nil:
		return fmt.Errorf("request its payment: %w", err)
	case f.Code == fault.WithdrawalRiskBlocked:
		return s.returnRefund(ctx, r.ID, r.Attempt, RiskRefuses)
	case isRefusedForGood(f):
		return s.returnRefund(ctx, r.ID, r.Attempt, f.Reason)
	}
	s.Log.WarnContext(ctx, "checkout: a refund cannot be paid yet", "refund", r.ID, "code", string(f.Code),
		"why", f.Reason)
	return s.lookAgain(ctx, r.ID, payoutPauseRare)
}

// isRefusedForGood reports whether this address is never paid this amount. A freeze, a switch or an outage only delays
// the payment.
func isRefusedForGood(f *fault.Fault) bool {
	switch f.Code {
	case fault.DestinationNotAllowed, fault.AmountBelowMinimum, fault.InvalidAddress, fault.InvalidRequest,
		fault.InvalidAmount, fault.MintNotFound:
		return true
	}
	return false
}

// setSent stores which withdrawal pays an attempt.
func (s *Service) setSent(ctx context.Context, refundID string, attempt int, withdrawalID string) error {
	return s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		r, err := lockRefundAlone(ctx, tx, refundID)
		if err != nil || r.Status != RefundRequested || r.Attempt != attempt {
			return err
		}
		err = setRefund(ctx, tx, r, RefundSent, `withdrawal_id = $5, problem = NULL, look_at = $6`, withdrawalID,
			tx.Now.Add(payoutPause))
		if err != nil {
			return err
		}
		return audit.Record(ctx, tx, newRefundEntry(r, actor, "sent", map[string]any{"withdrawal": withdrawalID}))
	})
}

// returnRefund makes a refund whose attempt paid nothing wait for another address: a person decides, also where the
// organization gave the last one. Its amount is owed as before. Rule CO-85.
func (s *Service) returnRefund(ctx context.Context, refundID string, attempt int, problem string) error {
	return s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		r, err := lockRefundAlone(ctx, tx, refundID)
		if err != nil || r.Status != RefundRequested && r.Status != RefundSent || r.Attempt != attempt {
			return err
		}
		if runes := []rune(problem); len(runes) > reasonRunesMax {
			problem = string(runes[:reasonRunesMax])
		}
		err = setRefund(ctx, tx, r, RefundAwaitingAddress, `
			to_address = NULL, address_proven = false, withdrawal_id = NULL, problem = nullif($5, ''),
			look_at = expires_at`, problem)
		if err != nil {
			return err
		}
		return audit.Record(ctx, tx, newRefundEntry(r, actor, "returned", map[string]any{
			"toAddress": r.ToAddress, "why": problem,
		}))
	})
}

// followPayout follows the payment of a refund to its end.
func (s *Service) followPayout(ctx context.Context, r Refund) error {
	if s.Payouts == nil {
		return s.lookAgain(ctx, r.ID, payoutPauseRare)
	}
	state, problem, err := s.Payouts.PayoutState(ctx, r.OrgID, r.WithdrawalID)
	if err != nil {
		return fmt.Errorf("look at payment %s: %w", r.WithdrawalID, err)
	}
	switch state {
	case PayoutPaid:
		failpoint.Hit("C14")
		return s.completeRefund(ctx, r)
	case PayoutEnded:
		failpoint.Hit("C14")
		return s.returnRefund(ctx, r.ID, r.Attempt, problem)
	}
	pause := payoutPause
	if s.DB.Clock()().Sub(r.UpdatedAt) > payoutRareAfter {
		pause = payoutPauseRare
	}
	return s.lookAgain(ctx, r.ID, pause)
}

// completeRefund ends a refund whose payment is final, and tells the organization once. The checkout is settled in the
// same transaction, so the event shows whether all of it was given back. Rule CO-89.
func (s *Service) completeRefund(ctx context.Context, paid Refund) error {
	ids := make([]string, len(paid.Parts)) // the parts of a refund never change
	for i, part := range paid.Parts {
		ids[i] = part.DepositID
	}
	return s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := lockDeposits(ctx, tx, ids); err != nil {
			return err
		}
		r, err := lockRefund(ctx, tx, paid.ID)
		if err != nil || r.Status != RefundSent {
			return err
		}
		if err := setRefund(ctx, tx, r, RefundCompleted, `completed_at = $4, look_at = NULL`); err != nil {
			return err
		}
		err = noteParts(ctx, tx, r, "refunding = refunding - $2::numeric, refunded = refunded + $2::numeric", "")
		if err != nil {
			return err
		}
		mints, err := mint.LoadCatalogue(ctx, tx)
		if err != nil {
			return err
		}
		c, err := loadCheckout(ctx, tx, `c.checkout_id = $1`, r.CheckoutID)
		if err != nil {
			return err
		}
		if err := s.settleLocked(ctx, tx, c, mints, actor, decision{}, false); err != nil {
			return err
		}
		if c, err = loadCheckout(ctx, tx, `c.checkout_id = $1`, r.CheckoutID); err != nil {
			return err
		}
		if r, err = loadRefund(ctx, tx, `r.refund_id = $1`, r.ID); err != nil {
			return err
		}
		c.Refund = &r // the newest one may be another
		_, err = s.Events.Record(ctx, tx, event.Event{
			OrgID: r.OrgID, Type: event.CheckoutRefunded, ResourceKind: "checkout", ResourceID: c.ID,
			Data: s.withoutUnproven(s.complete(c)),
		})
		if err != nil {
			return err
		}
		return audit.Record(ctx, tx, newRefundEntry(r, actor, "completed", map[string]any{
			"amount": r.Amount, "withdrawal": r.WithdrawalID,
		}))
	})
}
