package dispatch

import (
	"context"
	"fmt"

	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// signSlot has the signer sign every committed transaction of a slot and stores the bytes. A
// repeated request returns the same bytes.
func (d *Worker) signSlot(ctx context.Context, payer wallet.Wallet, s *slot) (busy bool, err error) {
	for i, attempt := range s.Attempts {
		if attempt.Raw != nil || s.isSuperseded(attempt) {
			continue
		}
		if attempt.Act == signer.Pay && s.isLate(d.db.Clock()()) {
			if len(s.signedHashes()) == 0 {
				return busy, &lateError{s.Order}
			}
			continue // a cancel replaces what was signed, see resendOrBump
		}
		var reason string
		err := d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			reason, err = d.freezeReason(ctx, tx, s.ordersToFreeze()...)
			return err
		})
		if err != nil {
			return busy, err
		}
		if reason != "" {
			return busy, nil
		}
		if err := d.slots.prove(ctx, payer, s); err != nil {
			return busy, err
		}
		hitBeforeSign(s.Order)
		signed, err := d.signer.Sign(ctx, signer.SignRequest{
			IntentID: s.ID, TxMemberIDs: s.memberIDs(), Slot: s.ChainSlot, Act: attempt.Act, Payload: attempt.Payload,
			Proof: s.Proof,
		})
		if err != nil {
			return busy, fmt.Errorf("sign attempt %d of order %s: %w", attempt.Version, s.ID, err)
		}
		hitAfterSign(attempt)
		if err := d.storeSigned(ctx, *s, attempt, signed); err != nil {
			return busy, err
		}
		failpoint.Hit("W13")
		hitAfterStore(s.Order)
		s.Attempts[i].Raw, s.Attempts[i].Hash = signed.Raw, signed.Hash
		if s.Status == Slotted {
			s.Status = Signed
			for j := range s.TxMembers {
				s.TxMembers[j].Status = Signed
			}
		}
		busy = true
	}
	return busy, nil
}

// storeSigned stores the signed bytes before anything may send them.
func (d *Worker) storeSigned(ctx context.Context, s slot, attempt attempt, signed signer.SignedTx) error {
	return d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		orders, err := lockSlot(ctx, tx, s.ID)
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			UPDATE dispatch_attempts SET raw = $3, tx_hash = $4, signed_at = $5
			WHERE order_id = $1 AND version = $2 AND raw IS NULL`,
			s.ID, attempt.Version, signed.Raw, signed.Hash, tx.Now)
		if err != nil {
			return fmt.Errorf("store attempt %d of order %s: %w", attempt.Version, s.ID, err)
		}
		if tag.RowsAffected() != 1 {
			return fmt.Errorf("store attempt %d of order %s: %w", attempt.Version, s.ID, errLostRace)
		}
		if orders[0].Status == Slotted {
			if err := setStatuses(ctx, tx, orderIDs(orders), Slotted, Signed, ""); err != nil {
				return err
			}
		}
		if attempt.Act == signer.Pay {
			// The reason for a cancel stays on the order; the reason why a signature waited does
			// not.
			if _, err := tx.Exec(
				ctx,
				`UPDATE dispatch_orders SET last_error = NULL WHERE order_id = ANY ($1) AND last_error IS NOT NULL`,
				orderIDs(orders),
			); err != nil {
				return fmt.Errorf("clear the wait reason of order %s: %w", s.ID, err)
			}
		}
		if err := d.mirror(ctx, tx, signed.Entry); err != nil {
			return err
		}
		failpoint.HitBeforeCommit("W13")
		return nil
	})
}

// handleSignerRefusal handles a transaction that the signer refuses in a slot. A payment that was
// never signed and that the policy no longer allows, or whose time is over for the signer, can only be
// ended by a cancel in its slot, because the signer gives an intent one slot, forever. After every other
// refusal the slot waits and an alarm is raised; time, a new policy or a person ends the wait.
func (d *Worker) handleSignerRefusal(
	ctx context.Context, payer wallet.Wallet, s slot, refusal *signer.Refusal,
) (filled bool, err error) {
	message := "the signer refuses to sign in a slot: later transactions of this wallet wait"
	switch {
	case len(s.signedHashes()) > 0:
		message = "the signer refuses a replacement" // the transaction that it would replace can still be mined
	case refusal.Code == signer.RefusedSlot:
		// The journal records something else for this nonce. A database as recent as the journal
		// would know it.
		if err := freezeAll(
			ctx, d.db,
			refusal.Message+"; the database is older than the signer's journal: stop the service, restore the backup again and run `coffer signer import`",
		); err != nil {
			return false, err
		}
	case s.Kind().NotCancellable != "": // such a slot holds up nothing, or a cancel would be the same transaction
	case refusal.Code == signer.PolicyLimit || refusal.Code == signer.RefusedFee ||
		refusal.Code == signer.RefusedLate:
		if filled, err = d.cancelSlot(ctx, payer, s, refusal); filled || err != nil {
			return filled, err
		}
	}
	d.raiseAlarm(
		ctx, s.ID, message, "order", s.ID, "wallet", payer.ID, "slot", s.ChainSlot.String(), "code", refusal.Code,
		"why", refusal.Message,
	)
	return false, d.noteError(ctx, s, refusal.Error())
}
