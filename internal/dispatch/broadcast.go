package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/internal/signer"
)

// sendAttempt sends stored bytes to the providers. Only the answers Accepted and Known change the
// order; after any other answer it stays as it is and is sent again. Rule OP-5.
func (d *Worker) sendAttempt(ctx context.Context, s slot, attempt attempt) (busy bool, err error) {
	ctx, span := trace.StartAbout(ctx, "dispatch send", s.ID)
	defer func() { span.End(err) }()
	var reason string
	var late bool
	err = d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		// A late payment that was never sent is not sent any more: a cancel fills its slot.
		if late = attempt.Act == signer.Pay && !s.wasSent() && s.Status == Signed && s.isLate(tx.Now); late {
			return nil
		}
		if err := freeze.LockShared(ctx, tx); err != nil {
			return err
		}
		if reason, err = d.freezeReason(ctx, tx, s.ordersToFreeze()...); err != nil || reason != "" {
			return err
		}
		_, err = tx.Exec(ctx, `
			UPDATE dispatch_attempts SET sent_at = coalesce(sent_at, $3), last_sent_at = $3
			WHERE order_id = $1 AND version = $2`, s.ID, attempt.Version, tx.Now)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("mark attempt %d as sent: %w", attempt.Version, err)
	}
	if reason != "" || late {
		return false, nil
	}
	answer, detail := d.chain.Sender.Send(ctx, attempt.Raw)
	hitAfterSend(s.Order)
	taken := answer == chain.Accepted || answer == chain.Known
	err = d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if taken && s.Status == Signed {
			if err := d.markBroadcast(ctx, tx, s, attempt); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, `
			UPDATE dispatch_attempts SET last_answer = $3 WHERE order_id = $1 AND version = $2`,
			s.ID, attempt.Version, truncateError(detail)); err != nil {
			return fmt.Errorf("store the answer to attempt %d: %w", attempt.Version, err)
		}
		failpoint.HitBeforeCommit("W19")
		return nil
	})
	if err == nil {
		failpoint.Hit("W19")
	}
	return taken && s.Status == Signed, err
}

// markBroadcast records that a transaction was sent, and notifies the feature of a payment. A
// cancel is not reported: the feature hears of it when the order has ended.
func (d *Worker) markBroadcast(ctx context.Context, tx pg.Tx, s slot, attempt attempt) error {
	orders, err := lockSlot(ctx, tx, s.ID)
	if err != nil {
		return err
	}
	if err := setStatuses(
		ctx, tx, orderIDs(orders), Signed, Broadcast, "broadcast_at = $4, tx_hash = $5", tx.Now, attempt.Hash,
	); err != nil {
		return err
	}
	for _, o := range orders {
		o.Status = Broadcast
		if attempt.Act == signer.Pay {
			if err := d.listeners[o.Purpose].OnBroadcast(ctx, tx, o, attempt.Hash); err != nil {
				return err
			}
		}
		if err := recordAudit(
			ctx, tx, o, "broadcast", map[string]any{"hash": attempt.Hash, "act": attempt.Act},
		); err != nil {
			return err
		}
	}
	return nil
}

// sinceLastSend returns the time since an attempt was last sent; the maximum if it never was.
func sinceLastSend(now time.Time, attempt attempt) time.Duration {
	if attempt.LastSentAt == nil {
		return 1<<63 - 1
	}
	return now.Sub(*attempt.LastSentAt)
}
