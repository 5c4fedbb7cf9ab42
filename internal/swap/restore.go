package swap

import (
	"context"
	"fmt"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Restore gives what came back of a failed swap to its customer, as far as that was not done before. A
// repeated call changes nothing. It works while swaps are switched off and while the customer or the
// organization is frozen: nothing leaves a balance. Errors: faults NOT_FOUND, REFUND_NOT_RECEIVED,
// INVALID_STATE. Rule SWAP-30.
func (s *Service) Restore(ctx context.Context, orgID, swapID string, requester audit.Actor) (w Swap, err error) {
	if _, err := s.ByID(ctx, orgID, swapID); err != nil {
		return Swap{}, err
	}
	err = s.DB.InOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		if w, err = lock(ctx, tx, swapID); err != nil {
			return err
		}
		switch {
		case w.Status != FailedStatus:
			return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"Only a failed swap is restored, and this one is %s.", w.Status).
				WithExtra("currentStatus", string(w.Status))
		case w.Refunded.IsZero():
			return fault.New(fault.Conflict, fault.RefundNotReceived, fault.NothingWritten,
				"Nothing of this swap has come back yet.").
				WithAdvice("Wait for CUSTOMER_SWAP_REFUNDED, or advance the amount from your own balance.")
		case w.Refunded == w.Restored:
			return nil
		}
		postings, restored, err := s.restoreLocked(ctx, tx, w)
		if err != nil {
			return err
		}
		w = restored
		if err := ledger.Post(ctx, tx, postings...); err != nil {
			return fmt.Errorf("restore swap %s: %w", swapID, err)
		}
		failpoint.Hit("Q19")
		entry := newEntry(w, requester, "restored", map[string]any{"restored": w.Restored})
		if err := audit.Record(ctx, tx, entry); err != nil {
			return err
		}
		failpoint.HitBeforeCommit("Q20")
		return nil
	})
	if err != nil {
		return Swap{}, err
	}
	failpoint.Hit("Q20")
	return w, nil
}

// restoreLocked counts what came back as restored and returns the posting. The swap ended without an output.
// The caller holds the lock of the row and posts.
func (s *Service) restoreLocked(ctx context.Context, tx pg.Tx, w Swap) ([]ledger.Posting, Swap, error) {
	amount := money.SubOrZero(w.Refunded, w.Restored)
	if amount.IsZero() {
		return nil, w, nil
	}
	var count int
	err := tx.QueryRow(ctx, `
		UPDATE swaps SET restored = refunded, restore_count = restore_count + 1, restored_at = $3, updated_at = $3
		WHERE swap_id = $1 AND status IN ('FAILED', 'REJECTED', 'CANCELLED') AND restored = $2 AND refunded = $4
		RETURNING restore_count`,
		w.ID, w.Restored, tx.Now, w.Refunded).Scan(&count)
	if err != nil {
		return nil, w, fmt.Errorf("restore swap %s: %w", w.ID, err)
	}
	posting := ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.SwapRestore, ID: fmt.Sprintf("%s/%d", w.ID, count)},
		Legs:  []ledger.Leg{{Debit: w.inSwap(), Credit: w.spendable(), Amount: amount}},
	}
	now := tx.Now
	w.Restored, w.RestoredAt, w.UpdatedAt = w.Refunded, &now, now
	return []ledger.Posting{posting}, w, nil
}
