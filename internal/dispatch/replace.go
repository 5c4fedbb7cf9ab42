package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// resendOrBump resends a slot's newest signed bytes when they are due. It adds a replacement with a
// higher fee if they waited too long as the first unmined transaction of the wallet.
func (d *Worker) resendOrBump(ctx context.Context, payer wallet.Wallet, s slot, isHead bool) (busy bool, err error) {
	now := d.db.Clock()()
	attempt := s.newestSigned()
	if s.isLate(now) && s.newestAttempt().Act == signer.Pay {
		if busy, err = d.cancelLate(ctx, payer, s); busy || errors.Is(err, errLostRace) {
			return busy, err
		}
	} else if isHead && !s.FundsPending && attempt.Version == s.newestAttempt().Version && attempt.SentAt != nil &&
		now.Sub(*attempt.SentAt) >= d.conf.BumpAfter {
		shouldBump := true
		if s.Kind().IsOptional {
			if shouldBump, err = d.delaysPayments(ctx, s); err != nil {
				return false, err
			}
		}
		// Whether or not the replacement succeeds, the stored bytes are sent again.
		if shouldBump {
			busy, err = d.bumpHead(ctx, payer, s)
		}
		if errors.Is(err, errLostRace) {
			return busy, err
		}
	}
	if busy || sinceLastSend(now, attempt) < d.conf.ResendAfter {
		return busy, err
	}
	sent, sendErr := d.sendAttempt(ctx, s, attempt)
	return sent, errors.Join(err, sendErr)
}

// bumpHead raises the fee of the wallet's first unmined transaction, if the fee cap and the
// wallet's gas allow it.
func (d *Worker) bumpHead(ctx context.Context, payer wallet.Wallet, s slot) (bool, error) {
	err := d.addReplacement(ctx, payer, s, s.newestAttempt().Act, replacementRequest{
		reason: reasonFee, actor: systemActor,
	})
	switch {
	case errors.Is(err, errFeeCapped), errors.Is(err, errOutputsExhausted):
		d.raiseAlarm(
			ctx, s.ID, "a transaction waits and its fee is at its limit", "order", s.ID,
			"hash", string(s.newestAttempt().Hash), "why", err.Error(),
		)
		return false, d.noteError(ctx, s, err.Error())
	case errors.Is(err, wallet.ErrInsufficient):
		d.raiseAlarm(
			ctx, s.ID, "a transaction waits and its wallet lacks the gas for a fee bump", "order", s.ID,
			"wallet", payer.ID,
		)
		return false, d.noteError(ctx, s, "its wallet lacks the gas for a fee bump")
	}
	return err == nil, err
}

// replacementRequest says why a transaction is added to a slot, and on whose behalf.
type replacementRequest struct {
	reason attemptReason
	actor  audit.Actor
	note   string // stored with the order, unless ""
	isLate bool   // it is a cancel because the order's PayBy has passed
}

// errFeeCapped says that the configured cap, or the order's own limit, forbids a higher fee.
var errFeeCapped = errors.New(
	"its fee is at the configured cap, or at the limit of its request, and is not raised further",
)

// errOutputsExhausted says that the outputs of a slot, which takes no others, cannot pay a higher
// fee.
var errOutputsExhausted = errors.New(
	"the outputs of its slot leave too little for a higher fee, so it is not raised further",
)

// addReplacement commits a transaction to a slot, with a fee high enough to replace the one that
// waits there: the same payment, or a cancel. It is signed and sent like the first one. Errors:
// errFeeCapped, errOutputsExhausted, wallet.ErrInsufficient for gas, errLostRace.
func (d *Worker) addReplacement(
	ctx context.Context, payer wallet.Wallet, s slot, act signer.Act, request replacementRequest,
) error {
	fees, ok, err := d.chain.Sender.Bump(ctx, s.newestAttempt().Fees)
	if err != nil {
		return fmt.Errorf("price a replacement: %w", err)
	}
	if !ok {
		return errFeeCapped
	}
	if act == signer.Pay {
		cost, err := fees.Max()
		share := signer.MaxFeeShare(cost, 1+len(s.TxMembers))
		if err != nil || slices.ContainsFunc(s.allOrders(), func(o Order) bool { return o.exceedsFeeMax(share) }) {
			return errFeeCapped
		}
	}
	return d.commitAttempt(ctx, payer, s, act, fees, request)
}

// commitCancel commits a cancel to a slot, with a fee high enough to replace what was signed there.
// Errors: those of addReplacement.
func (d *Worker) commitCancel(ctx context.Context, payer wallet.Wallet, s slot, request replacementRequest) error {
	if len(s.signedHashes()) > 0 {
		err := d.addReplacement(ctx, payer, s, signer.Cancel, request)
		if !errors.Is(err, errFeeCapped) || s.wasSent() {
			return err
		}
		// No node has the payment, so the cancel need not outbid it.
	}
	fees, err := d.chain.Sender.Quote(ctx, chain.Payment{From: payer.Address, To: payer.Address})
	if err != nil {
		return fmt.Errorf("price a cancel of order %s: %w", s.ID, err)
	}
	return d.commitAttempt(ctx, payer, s, signer.Cancel, fees, request)
}

// cancelSlot commits a cancel to a slot whose payment was never signed and never will be. If the
// signer refuses the cancel for its fee as well, cancelSlot makes a new one once fees have fallen.
func (d *Worker) cancelSlot(ctx context.Context, payer wallet.Wallet, s slot, refusal *signer.Refusal) (bool, error) {
	last := s.newestAttempt()
	isRetry := last.Act == signer.Cancel
	if s.FundsPending || isRetry &&
		(refusal.Code != signer.RefusedFee || d.db.Clock()().Sub(last.CreatedAt) < d.conf.BumpAfter) {
		return false, nil
	}
	fees, err := d.chain.Sender.Quote(ctx, chain.Payment{From: payer.Address, To: payer.Address})
	if err != nil {
		return false, d.noteError(ctx, s, fmt.Sprintf("%v; and its slot cannot be cancelled yet: %v", refusal, err))
	}
	cost, err := fees.Max()
	if err != nil {
		return false, fmt.Errorf("fee of a cancel of order %s: %w", s.ID, err)
	}
	if lastCost, err := last.Fees.Max(); isRetry && (err != nil || !cost.Less(lastCost)) {
		return false, nil
	}
	err = d.commitAttempt(ctx, payer, s, signer.Cancel, fees, replacementRequest{
		reason: reasonRefusal, actor: systemActor, note: refusal.Error(),
	})
	if errors.Is(err, wallet.ErrInsufficient) {
		return false, nil
	}
	if err == nil {
		d.log.Error(
			"the signer does not allow a payment any more: its slot is cancelled and the payment fails",
			"order", s.ID,
			"code", refusal.Code, "why", refusal.Message,
		)
	}
	return err == nil, err
}

func (d *Worker) commitAttempt(
	ctx context.Context, payer wallet.Wallet, s slot, act signer.Act, fees chain.Fees, request replacementRequest,
) error {
	var payments []chain.Payment
	if act == signer.Pay {
		payments = s.chainPayments(payer.Address)
	}
	payload, err := d.chain.Sender.Build(payer.Address, s.ChainSlot, fees, payments...)
	var insufficient *chain.InsufficientOutputsError
	if errors.As(err, &insufficient) {
		return errOutputsExhausted
	}
	if err != nil {
		return fmt.Errorf("build a replacement: %w", err)
	}
	cost, err := fees.Max()
	if err != nil {
		return fmt.Errorf("fee of a replacement: %w", err)
	}
	return d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		orders, err := lockSlot(ctx, tx, s.ID)
		if err != nil {
			return err
		}
		o := orders[0]
		// Only a signed payment is replaced. A slot without a signature only gets a cancel.
		if o.Status != Signed && o.Status != Broadcast && (o.Status != Slotted || act == signer.Pay) {
			return fmt.Errorf("replace in order %s: %w", o.ID, errLostRace)
		}
		if extraGas := shortfall(cost, s.GasReserved); !extraGas.IsZero() {
			native, err := loadNativeMint(ctx, tx, o.Chain)
			if err != nil {
				return err
			}
			if err := wallet.MoveFunds(ctx, tx, wallet.Movement{
				WalletID: payer.ID, OrgID: o.OrgID, MintID: native, Part: wallet.GasReserved, Plus: extraGas,
			}); err != nil {
				return err
			}
			tag, err := tx.Exec(
				ctx, `UPDATE dispatch_slots SET gas_reserved = $2 WHERE order_id = $1 AND gas_reserved = $3`, o.ID,
				cost, s.GasReserved,
			)
			if err != nil {
				return fmt.Errorf("reserve gas for a replacement: %w", err)
			}
			if tag.RowsAffected() != 1 {
				return fmt.Errorf("reserve gas for a replacement: %w", errLostRace)
			}
		}
		version := s.newestAttempt().Version + 1
		if err := insertAttempt(ctx, tx, o, version, act, request.reason, fees, payload); err != nil {
			return err
		}
		if request.note != "" {
			if _, err := tx.Exec(
				ctx, `UPDATE dispatch_orders SET last_error = $2 WHERE order_id = ANY ($1)`, orderIDs(orders),
				truncateError(request.note),
			); err != nil {
				return fmt.Errorf("record why order %s is replaced: %w", o.ID, err)
			}
		}
		detail := map[string]any{"act": act, "version": version, "feeCap": fees.FeeCap}
		if request.note != "" {
			detail["why"] = request.note
		}
		for _, o := range orders {
			if err := recordAuditBy(ctx, tx, request.actor, o, "replaced", detail); err != nil {
				return err
			}
		}
		if request.isLate {
			failpoint.HitBeforeCommit("Q12")
		}
		return nil
	})
}
