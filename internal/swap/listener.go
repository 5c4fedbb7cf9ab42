package swap

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// OnBroadcast implements dispatch.Listener.
func (s *Service) OnBroadcast(ctx context.Context, tx pg.Tx, o dispatch.Order, hash chain.TxHash) error {
	w, err := lock(ctx, tx, o.ID)
	if err != nil {
		return err
	}
	if w.Status == Pending {
		err := setStatus(ctx, tx, o.ID, Pending, Depositing, "origin_tx_hash = $5, look_at = $4", hash)
		if err != nil {
			return err
		}
		return audit.Record(ctx, tx, newEntry(w, actor, "depositing", map[string]any{"originTxHash": hash}))
	}
	return setOrigin(ctx, tx, o.ID, hash)
}

// OnIncluded implements dispatch.Listener.
func (s *Service) OnIncluded(ctx context.Context, tx pg.Tx, o dispatch.Order, hash chain.TxHash) error {
	return setOrigin(ctx, tx, o.ID, hash)
}

// setOrigin stores the hash of the payment, which changes with a replacement.
func setOrigin(ctx context.Context, tx pg.Tx, swapID string, hash chain.TxHash) error {
	_, err := tx.Exec(ctx, `
		UPDATE swaps SET origin_tx_hash = $2, updated_at = $3
		WHERE swap_id = $1 AND origin_tx_hash IS DISTINCT FROM $2`,
		swapID, hash, tx.Now)
	if err != nil {
		return fmt.Errorf("store the payment of swap %s: %w", swapID, err)
	}
	return nil
}

// OnEnded implements dispatch.Listener. A paid order turns the hold into a claim on the provider. An
// order whose slot was used without paying ends the swap, unless an output came nevertheless.
func (s *Service) OnEnded(ctx context.Context, tx pg.Tx, o dispatch.Order, e dispatch.End) ([]ledger.Posting, error) {
	w, err := lock(ctx, tx, o.ID)
	if err != nil {
		return nil, err
	}
	if e.Paid {
		return s.endPaid(ctx, tx, w, e)
	}
	reason, message := OriginTxFailed, "The payment to the provider was not made: its slot was used without paying."
	if e.Refused || e.Cancelled && tx.Now.After(w.PayBy) {
		reason, message = DeadlineExpired, "The payment to the provider could not be made in time."
	}
	switch {
	case w.isUnderway():
		return s.failUnpaid(ctx, tx, w, reason, message)
	case w.Status == FailedStatus && !w.isDelivered() && w.Refunded.IsZero():
		// The provider reported a failure before the payment was known not to be made: the amount never left.
		return s.returnUnpaid(ctx, tx, w)
	}
	return nil, nil // the provider delivered without our payment, and we owe it
}

// endPaid posts the claim on the provider.
func (s *Service) endPaid(ctx context.Context, tx pg.Tx, w Swap, e dispatch.End) ([]ledger.Posting, error) {
	failpoint.Hit("Q09")
	status := w.Status
	if w.Status == Pending || w.Status == Depositing {
		status = Processing
		if err := setStatus(ctx, tx, w.ID, w.Status, Processing, "origin_tx_hash = $5, paid_at = $4, look_at = $4",
			e.Hash); err != nil {
			return nil, err
		}
	} else {
		tag, err := tx.Exec(ctx, `
			UPDATE swaps SET origin_tx_hash = $2, paid_at = $3::timestamptz, updated_at = $3::timestamptz,
				look_at = CASE WHEN status = 'COMPLETED' THEN NULL ELSE $3::timestamptz END
			WHERE swap_id = $1 AND paid_at IS NULL`, w.ID, e.Hash, tx.Now)
		if err != nil {
			return nil, fmt.Errorf("swap %s is paid: %w", w.ID, err)
		}
		if tag.RowsAffected() != 1 {
			return nil, fmt.Errorf("swap %s is paid twice: %w", w.ID, errLostRace)
		}
	}
	err := audit.Record(ctx, tx, newEntry(w, actor, "paid", map[string]any{"originTxHash": e.Hash, "status": status}))
	if err != nil {
		return nil, err
	}
	failpoint.HitBeforeCommit("Q10")
	return []ledger.Posting{{
		Cause: ledger.Cause{Kind: ledger.SwapPaid, ID: w.ID},
		Legs:  []ledger.Leg{{Debit: w.atProvider(), Credit: w.account(ledger.Custody, ""), Amount: w.AmountIn}},
	}}, nil
}

func (w Swap) account(kind ledger.Kind, subject string) ledger.Account {
	return ledger.Account{OrgID: w.OrgID, MintID: w.From.ID, Kind: kind, Subject: subject}
}

// atProvider returns the account of what the provider has of ours in the mint of the payment.
func (w Swap) atProvider() ledger.Account { return w.account(ledger.AtProvider, w.Provider) }

// inSwap returns the account of what is held for the owner's swaps in the mint of the payment.
func (w Swap) inSwap() ledger.Account { return w.owner().SwapAccount(w.OrgID, w.From.ID) }

// spendable returns the account that the swap was paid from.
func (w Swap) spendable() ledger.Account { return w.owner().SpendingAccount(w.OrgID, w.From.ID) }

// OnRefused implements dispatch.Listener. Nothing of the payment was journaled. The swap does not wait
// for a person: the order is recalled at once, and the swap fails when the signer has journaled that the
// payment is void.
func (s *Service) OnRefused(ctx context.Context, tx pg.Tx, o dispatch.Order, r *signer.Refusal) error {
	message := "The payment to the provider was refused: " + r.Error()
	if err := s.markEnding(ctx, tx, o.ID, OriginTxFailed, message); err != nil {
		return err
	}
	if r.Code == signer.RefusedSignedQuote {
		// The signer does not find in the quote what the service found: someone changed something.
		s.Log.ErrorContext(ctx, "swap: the signer refuses a signed quote", "swap", o.ID, "why", r.Message)
	}
	isRecalled, err := dispatch.Recall(ctx, tx, o.ID)
	if err == nil && !isRecalled {
		err = errors.New("it is past that")
	}
	if err != nil {
		return fmt.Errorf("recall the payment of swap %s: %w", o.ID, err)
	}
	return nil
}

// OnRecalled implements dispatch.Listener: the order ended without a slot, because its time was over or
// a person ended it.
func (s *Service) OnRecalled(ctx context.Context, tx pg.Tx, o dispatch.Order, requester audit.Actor) error {
	reason, message := OriginTxFailed, "The operator of this service recalled the payment before it was signed."
	if requester.Kind == "SYSTEM" { // dispatch recalls what is late, and nothing else
		reason, message = DeadlineExpired, "The payment to the provider could not be made in time."
	}
	return s.markEnding(ctx, tx, o.ID, reason, message)
}

// markEnding stores why a swap without a slot ends. It stays open, with its hold, until the signer
// has journaled that the payment is void.
func (s *Service) markEnding(ctx context.Context, tx pg.Tx, swapID string, reason FailureReason, message string) error {
	w, err := lock(ctx, tx, swapID)
	if err != nil {
		return err
	}
	if !w.isUnderway() {
		return nil
	}
	tag, err := tx.Exec(ctx, `
		UPDATE swaps SET end_reason = $2, failure_message = $3, updated_at = $4
		WHERE swap_id = $1 AND end_reason IS NULL`, swapID, reason, cutMessage(message), tx.Now)
	if err != nil {
		return fmt.Errorf("store why swap %s ends: %w", swapID, err)
	}
	if tag.RowsAffected() != 1 {
		return nil // it ends already, for another reason
	}
	return audit.Record(ctx, tx, newEntry(w, actor, "ending", map[string]any{"reason": reason}))
}

// messageRunesMax bounds what is stored of a message.
const messageRunesMax = 500

func cutMessage(message string) string {
	if runes := []rune(message); len(runes) > messageRunesMax {
		return string(runes[:messageRunesMax])
	}
	return message
}

// OnVoided implements dispatch.VoidListener: the payment is never made, so the swap fails with its whole
// amount.
func (s *Service) OnVoided(ctx context.Context, tx pg.Tx, _, orderID string) error {
	w, err := lock(ctx, tx, orderID)
	if err != nil {
		return err
	}
	if !w.isUnderway() {
		return nil
	}
	var reason FailureReason
	var message string
	err = tx.QueryRow(ctx, `
		SELECT coalesce(end_reason, 'ORIGIN_TX_FAILED'), coalesce(failure_message, '') FROM swaps WHERE swap_id = $1`,
		orderID).Scan(&reason, &message)
	if err != nil {
		return fmt.Errorf("read why swap %s ends: %w", orderID, err)
	}
	postings, err := s.failUnpaid(ctx, tx, w, reason, message)
	if err != nil || len(postings) == 0 {
		return err
	}
	if err := ledger.Post(ctx, tx, postings...); err != nil {
		return fmt.Errorf("restore swap %s: %w", w.ID, err)
	}
	return nil
}

// failUnpaid ends a swap whose amount never left. All of it counts as refunded.
func (s *Service) failUnpaid(
	ctx context.Context, tx pg.Tx, w Swap, reason FailureReason, message string,
) ([]ledger.Posting, error) {
	return s.fail(ctx, tx, w, failure{
		reason: reason, message: message, refunded: w.AmountIn, refundReport: provider.RefundNone,
	})
}

// returnUnpaid adds to a swap that failed earlier the amount that turned out never to have left.
func (s *Service) returnUnpaid(ctx context.Context, tx pg.Tx, w Swap) ([]ledger.Posting, error) {
	tag, err := tx.Exec(ctx, `
		UPDATE swaps SET refunded = amount_in - short, look_at = NULL, updated_at = $2
		WHERE swap_id = $1 AND status = 'FAILED' AND refunded = 0`, w.ID, tx.Now)
	if err != nil {
		return nil, fmt.Errorf("return what never left for swap %s: %w", w.ID, err)
	}
	if tag.RowsAffected() != 1 {
		return nil, fmt.Errorf("return what never left for swap %s: %w", w.ID, errLostRace)
	}
	return s.afterRefund(ctx, tx, w.ID)
}

// failure is how a swap fails.
type failure struct {
	reason       FailureReason
	message      string
	refunded     money.Amount // what has come back by then
	short        money.Amount // what the provider keeps of it
	refundTx     *chain.TxHash
	refundReport provider.RefundReport
	lookAt       *time.Time // when the worker looks next; nil: nothing more is expected
	requester    audit.Actor
	note         string
}

// fail ends a swap, tells the organization once, and restores what came back where the organization
// wants that. It returns the postings of that. The caller holds the lock of the row. Rule SWAP-20.
func (s *Service) fail(ctx context.Context, tx pg.Tx, w Swap, f failure) ([]ledger.Posting, error) {
	failpoint.Hit("Q15")
	if f.requester == (audit.Actor{}) {
		f.requester = actor
	}
	err := setStatus(ctx, tx, w.ID, w.Status, FailedStatus, `failure_reason = $5, failure_message = nullif($6, ''),
		failed_at = $4, refunded = $7, refund_tx_hash = coalesce($8, refund_tx_hash), refund_report = $9,
			look_at = $10`,
		f.reason, cutMessage(f.message), f.refunded, f.refundTx, f.refundReport, f.lookAt)
	if err != nil {
		return nil, err
	}
	postings, err := s.keepShort(ctx, tx, w.ID, f.short)
	if err != nil {
		return nil, err
	}
	failed, err := loadAny(ctx, tx, w.ID)
	if err != nil {
		return nil, err
	}
	restorePostings, restored, err := s.autoRestore(ctx, tx, failed)
	if err != nil {
		return nil, err
	}
	postings = append(postings, restorePostings...)
	if err := s.publishFailed(ctx, tx, restored); err != nil {
		return nil, err
	}
	detail := map[string]any{"reason": f.reason, "refunded": f.refunded}
	if f.note != "" {
		detail["note"] = f.note
	}
	err = audit.Record(ctx, tx, newEntry(failed, f.requester, "failed", detail))
	failpoint.HitBeforeCommit("Q16")
	return postings, err
}

// afterRefund tells the organization of a refund that came after the failure, and restores it where the
// organization wants that.
func (s *Service) afterRefund(ctx context.Context, tx pg.Tx, swapID string) ([]ledger.Posting, error) {
	w, err := loadAny(ctx, tx, swapID)
	if err != nil {
		return nil, err
	}
	postings, w, err := s.autoRestore(ctx, tx, w)
	if err != nil {
		return nil, err
	}
	// An organization is told of its own swap once: the refund is in its balance again.
	if !w.isOfOrganization() {
		if err := s.publish(ctx, tx, w, event.CustomerSwapRefunded, Failed{w, w.RefundedAmount()}); err != nil {
			return nil, err
		}
	}
	return postings, audit.Record(ctx, tx, newEntry(w, actor, "refunded", map[string]any{"refunded": w.Refunded}))
}

// publishFailed tells the organization that a swap failed.
func (s *Service) publishFailed(ctx context.Context, tx pg.Tx, w Swap) error {
	if w.isOfOrganization() {
		return s.publish(ctx, tx, w, event.OrganizationSwapFailed, w)
	}
	return s.publish(ctx, tx, w, event.CustomerSwapFailed, Failed{w, w.RefundedAmount()})
}

// autoRestore gives what came back to its owner at once: to a product always, and to a customer where the
// organization's setting says so. A delivered swap gives nothing back.
func (s *Service) autoRestore(ctx context.Context, tx pg.Tx, w Swap) ([]ledger.Posting, Swap, error) {
	if w.isDelivered() || w.Refunded == w.Restored {
		return nil, w, nil
	}
	if w.isOfOrganization() {
		return s.restoreLocked(ctx, tx, w)
	}
	settings, err := org.SettingsOf(ctx, tx, w.OrgID)
	if err != nil {
		return nil, w, fmt.Errorf("settings of %s: %w", w.OrgID, err)
	}
	if !settings.AutoRestoreFailedSwaps {
		return nil, w, nil
	}
	return s.restoreLocked(ctx, tx, w)
}

// publish records an event of a swap. The caller holds the lock of the row.
func (s *Service) publish(ctx context.Context, tx pg.Tx, w Swap, t event.Type, data any) error {
	_, err := s.Events.Record(ctx, tx, event.Event{
		OrgID: w.OrgID, Type: t, ResourceKind: eventResource, ResourceID: w.ID, CustomerID: w.CustomerID,
		Chain: string(w.From.Chain), Data: data,
	})
	return err
}
