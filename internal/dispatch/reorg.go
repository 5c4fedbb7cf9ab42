package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// FeeChangeListener is a Listener that shows the cost of its orders.
type FeeChangeListener interface {
	// OnFeeChanged reports that the transaction of an ended order was proven in another block, and
	// what fee it paid there. Dispatch posts the difference.
	OnFeeChanged(ctx context.Context, tx pg.Tx, o Order, fee money.Amount) error
}

// reorgedOrder is an order that ended on a proof that is no longer live, because finality broke
// below it. Nothing of its end is undone. It is settled again when the transaction that ended it is
// proven again.
//
// Each order of a slot is a reorgedOrder of its own, because each has a fee and a proof. The
// transaction that is sent again is that of all of them.
type reorgedOrder struct {
	EndedOrder Order
	slot
	Hash    chain.TxHash // the transaction that ended it
	Fee     money.Amount // as it was posted
	ProofID int64        // no longer live
	IsDue   bool
}

// loadReorgedOrders returns a wallet's reorged orders, by nonce. It returns none until a person has
// decided where the walk of the chain continues, because the blocks may come back.
func loadReorgedOrders(ctx context.Context, tx pg.Tx, name chain.Name, walletID string) ([]reorgedOrder, error) {
	slots, err := querySlots(ctx, tx, selectSlots+`
		WHERE o.order_id IN (SELECT coalesce(r.tx_lead_id, r.order_id) FROM dispatch_reorged q JOIN dispatch_orders r USING (order_id) WHERE q.chain = $1 AND q.wallet_id = $2)
			AND NOT EXISTS (SELECT FROM scan_cursors c WHERE c.chain = $1 AND c.forked_above IS NOT NULL)
		ORDER BY s.nonce`, name, walletID)
	if err != nil {
		return nil, fmt.Errorf("disputed orders: %w", err)
	}
	var reorged []reorgedOrder
	for _, s := range slots {
		for _, o := range s.allOrders() {
			q := reorgedOrder{slot: s, EndedOrder: o}
			err := tx.QueryRow(ctx, `
				SELECT tx_hash, fee, proof_id, attempt_after <= $2 FROM dispatch_orders
				WHERE order_id = $1 AND order_id IN (SELECT order_id FROM dispatch_reorged WHERE chain = $3)`,
				o.ID, tx.Now, name).
				Scan(&q.Hash, &q.Fee, &q.ProofID, &q.IsDue)
			if errors.Is(err, pgx.ErrNoRows) {
				continue // already proven again, or a person has not decided about it yet
			}
			if err != nil {
				return nil, fmt.Errorf("read how order %s ended: %w", o.ID, err)
			}
			reorged = append(reorged, q)
		}
	}
	return reorged, nil
}

// resettleOrders takes a wallet's reorged orders a step forward, by nonce. An order that cannot be
// sent again holds up those with later nonces. Rule WD-18.
func (d *Worker) resettleOrders(
	ctx context.Context, payer wallet.Wallet, reorged []reorgedOrder,
) (busy bool, err error) {
	anyDue := false
	for _, q := range reorged {
		anyDue = anyDue || q.IsDue
	}
	if !anyDue {
		return false, nil
	}
	acct, err := d.chain.Sender.Account(ctx, payer.Address, chainSlots(reorged)...)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errNoAccountState, err)
	}
	holdBack, stopped := false, false
	for i, q := range reorged {
		if i > 0 && q.ChainSlot != reorged[i-1].ChainSlot {
			holdBack = stopped // orders of one slot do not hold up one another
		}
		proven, delays, err := d.resettleOrder(ctx, payer, q, acct, holdBack)
		if err != nil {
			return busy, fmt.Errorf("disputed order %s: %w", q.EndedOrder.ID, err)
		}
		busy, stopped = busy || proven, stopped || delays
	}
	return busy, nil
}

// resettleOrder looks up what the chain now has in an order's slot. delays says that the slot is
// empty and nothing can be sent into it.
func (d *Worker) resettleOrder(
	ctx context.Context, payer wallet.Wallet, q reorgedOrder, acct chain.Account, holdBack bool,
) (proven, delays bool, err error) {
	payments := q.chainPayments(payer.Address)
	outcome, err := d.chain.Sender.Outcome(ctx, q.signedHashes(), payments...)
	if err != nil {
		return false, false, fmt.Errorf("look up its transaction: %w", err)
	}
	used, _ := acct.IsUsed(q.ChainSlot)
	switch {
	case outcome == nil && q.Kind().Expires:
		// Its transaction names a block that is too old, while the books have the account created.
		return false, false, d.disputeOrder(
			ctx, payer, q, fmt.Sprintf(
				"no transaction has %v, and the one that used it cannot be sent again",
				q.ChainSlot,
			),
		)
	case outcome == nil && !used:
		if err := d.noteMissing(ctx, q.slot, nil); err != nil {
			return false, false, err
		}
		delays, err = d.resendEnded(ctx, payer, q, holdBack)
		return false, delays, err
	case outcome == nil:
		if foreign, err := d.isForeignUse(ctx, q.slot, acct); err != nil {
			return false, false, err
		} else if foreign {
			return false, false, d.disputeOrder(
				ctx, payer, q, fmt.Sprintf("%v is used on the chain, and by none of its transactions", q.ChainSlot),
			)
		}
		return false, false, d.noteWaiting(
			ctx, q, WaitBlock, fmt.Sprintf("%v is used on the chain and its transaction is not found yet", q.ChainSlot),
		)
	}
	if err := d.noteMissing(ctx, q.slot, nil); err != nil {
		return false, false, err
	}
	var proof int64
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		proof, err = finality.LiveProofID(ctx, tx, d.chain.Name, outcome.Block.Height, outcome.Block.Hash)
		return err
	})
	if err != nil {
		return false, false, err
	}
	if proof == 0 {
		return false, false, d.noteWaiting(
			ctx, q, WaitBlock,
			fmt.Sprintf("%s is in block %d, which is not proven yet", outcome.Tx, outcome.Block.Height),
		)
	}
	difference, err := d.findDifference(ctx, q, payments, *outcome)
	if errors.Is(err, chain.ErrNotYet) {
		return false, false, d.noteWaiting(
			ctx, q, WaitBlock,
			fmt.Sprintf(
				"%s is in block %d, and the head is behind the block that made it final",
				outcome.Tx, outcome.Block.Height,
			),
		)
	}
	if err != nil {
		return false, false, err
	}
	if difference != "" {
		return false, false, d.disputeOrder(
			ctx, payer, q, fmt.Sprintf("in block %d %s", outcome.Block.Height, difference),
		)
	}
	return d.reproveOrder(ctx, q, *outcome, proof)
}

// findDifference returns how a final outcome differs from the one in the books, or "".
func (d *Worker) findDifference(
	ctx context.Context, q reorgedOrder, ps []chain.Payment, outcome chain.Outcome,
) (string, error) {
	act := q.findAttempt(outcome.Tx).Act
	switch {
	case outcome.Tx != q.Hash:
		return fmt.Sprintf("%s has its slot (%s, succeeded: %v)", outcome.Tx, act, outcome.Succeeded), nil
	case act == signer.Cancel:
		return "", nil
	case outcome.Succeeded != (q.EndedOrder.Status == Paid):
		return fmt.Sprintf("%s has its slot (succeeded: %v)", outcome.Tx, outcome.Succeeded), nil
	case !outcome.Succeeded:
		return "", nil
	}
	reasons, err := d.findContradictions(ctx, ps, outcome)
	if err != nil {
		return "", err
	}
	for i, o := range q.allOrders() {
		if i < len(reasons) && o.ID == q.EndedOrder.ID && reasons[i] != "" { // a consolidation makes no payment
			return fmt.Sprintf("%s succeeded, but %s", outcome.Tx, reasons[i]), nil
		}
	}
	return "", nil
}

// reproveOrder gives an ended order the proof that is live now. Its end was posted and reported
// once; only the change of the fee is posted. Rule WD-18.
func (d *Worker) reproveOrder(
	ctx context.Context, q reorgedOrder, outcome chain.Outcome, proof int64,
) (proven, delays bool, err error) {
	var fee money.Amount
	err = d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		// The chain's freeze, which stands until a person lifts it, does not matter: a proof on the
		// chosen fork is as good as any.
		if forked, err := finality.LockForked(ctx, tx, q.Chain); err != nil {
			return err
		} else if forked {
			return fmt.Errorf("settle order %s after a fork of its chain: %w", q.EndedOrder.ID, errLostRace)
		}
		o, err := lockOrder(ctx, tx, q.EndedOrder.ID)
		if err != nil {
			return err
		}
		fee, err = equalShare(outcome.Fee, 1+len(q.TxMembers), o.TxLeadID == "")
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			UPDATE dispatch_orders SET proof_id = $2, fee = $3, waiting_for = NULL, last_error = NULL
			WHERE order_id = $1 AND status IN ('PAID', 'FAILED') AND proof_id = $4 AND tx_hash = $5 AND fee = $6`,
			o.ID, proof, fee, q.ProofID, outcome.Tx, q.Fee)
		if err != nil {
			return err
		}
		if tag.RowsAffected() != 1 {
			return errLostRace
		}
		if err := d.postFeeChange(ctx, tx, o, q.Fee, fee, proof); err != nil {
			return err
		}
		return recordAudit(ctx, tx, o, "proven_again", map[string]any{
			"hash": outcome.Tx, "fee": fee, "block": outcome.Block.Hash,
		})
	})
	switch {
	case errors.Is(err, errLostRace):
		return true, false, nil // another process was first
	case errors.Is(err, wallet.ErrInsufficient), errors.Is(err, ledger.ErrOverdraft):
		return false, false, d.noteWaiting(
			ctx, q, WaitGas, "it cost more than before, and there is too little gas for that: "+err.Error(),
		)
	case err != nil:
		return false, false, fmt.Errorf("prove it again: %w", err)
	}
	d.log.Info("order proven again", "order", q.EndedOrder.ID, "hash", string(outcome.Tx), "fee", fee.String())
	return true, false, nil
}

// postFeeChange posts the change of the fee of a transaction that is now in another block.
func (d *Worker) postFeeChange(ctx context.Context, tx pg.Tx, o Order, oldFee, newFee money.Amount, proof int64) error {
	increase, decrease := shortfall(newFee, oldFee), shortfall(oldFee, newFee)
	if increase.IsZero() && decrease.IsZero() {
		return nil
	}
	if l, ok := d.listeners[o.Purpose].(FeeChangeListener); ok {
		if err := l.OnFeeChanged(ctx, tx, o, newFee); err != nil {
			return err
		}
	}
	native, err := loadNativeMint(ctx, tx, o.Chain)
	if err != nil {
		return err
	}
	if err := wallet.MoveFunds(ctx, tx, wallet.Movement{
		WalletID: o.WalletID, OrgID: o.OrgID, MintID: native, Part: wallet.Gas, Plus: decrease, Minus: increase,
	}); err != nil {
		return err
	}
	var fork int
	if err := tx.QueryRow(ctx, `SELECT fork FROM finality_proofs WHERE proof_id = $1`, proof).Scan(&fork); err != nil {
		return err
	}
	p := newFeePosting(o, native, increase)
	if increase.IsZero() {
		p = newFeePosting(o, native, decrease)
		for i, l := range p.Legs {
			p.Legs[i].Debit, p.Legs[i].Credit = l.Credit, l.Debit
		}
	}
	p.Cause = ledger.Cause{Kind: ledger.FeeChange, ID: fmt.Sprintf("%s/%d", o.ID, fork)}
	return ledger.Post(ctx, tx, p)
}

// resendEnded sends the same bytes that had ended an order again. Two things prevent that: a
// freeze, even of its customer, and a simulation that ends in another way than the books.
// Rules WD-18 and WD-19.
func (d *Worker) resendEnded(
	ctx context.Context, payer wallet.Wallet, q reorgedOrder, holdBack bool,
) (delays bool, err error) {
	attempt := q.findAttempt(q.Hash)
	if holdBack {
		return true, d.noteWaiting(ctx, q, WaitEarlierNonce, "an earlier nonce of its wallet is not sent")
	}
	var reason string
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		reason, err = d.freezeReason(ctx, tx, q.ordersToFreeze()...)
		return err
	})
	if err != nil {
		return true, err
	}
	if reason != "" {
		return true, d.noteWaiting(ctx, q, WaitFreeze, reason)
	}
	if sinceLastSend(d.db.Clock()(), attempt) < d.conf.ResendAfter {
		return false, d.noteWaiting(ctx, q, WaitBlock, "it is sent")
	}
	if attempt.Act == signer.Pay {
		_, err := d.chain.Sender.Quote(ctx, q.chainPayments(payer.Address)...)
		var reverted *chain.RevertedError
		ended := func(s Status) bool {
			return slices.ContainsFunc(q.allOrders(), func(o Order) bool { return o.Status == s })
		}
		switch {
		case errors.As(err, &reverted) && ended(Paid):
			return true, d.noteWaiting(ctx, q, WaitSimulation, "it would not pay now: "+reverted.Reason)
		case errors.As(err, &reverted):
		case err != nil:
			return true, d.noteWaiting(ctx, q, WaitProviders, err.Error())
		case ended(Failed):
			// Its amount was released. Sent now, the transaction would pay as well.
			return true, d.noteWaiting(
				ctx, q, WaitSimulation, "it failed, its amount was released, and it would pay now",
			)
		}
	}
	if _, err := d.sendAttempt(ctx, q.slot, attempt); err != nil {
		return true, err
	}
	now := d.db.Clock()()
	for i := range q.Attempts { // the other orders of the slot use the same attempts
		if q.Attempts[i].Hash == attempt.Hash {
			q.Attempts[i].LastSentAt = &now
		}
	}
	return false, d.noteWaiting(ctx, q, WaitBlock, "it was sent again")
}

// noteWaiting stores what a reorged order waits for.
func (d *Worker) noteWaiting(ctx context.Context, q reorgedOrder, waitReason WaitReason, detail string) error {
	if q.EndedOrder.WaitingFor != waitReason {
		d.log.Warn("order disputed", "order", q.EndedOrder.ID, "for", string(waitReason), "why", detail)
	}
	return d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			UPDATE dispatch_orders SET waiting_for = $2, last_error = $3, attempt_after = $4
			WHERE order_id = $1 AND status IN ('PAID', 'FAILED') AND proof_id = $5`,
			q.EndedOrder.ID, waitReason, truncateError(detail),
			tx.Now.Add(waitReason.Cause().pause(d.conf.RetryAfter, 0)), q.ProofID)
		if err != nil {
			return fmt.Errorf("record its wait reason: %w", err)
		}
		return nil
	})
}

// disputeOrder leaves an order to a person if the chain ended its slot in another way than the
// books. It freezes the wallet once: a person who lifts that freeze has seen the order. Rule WD-20.
func (d *Worker) disputeOrder(ctx context.Context, payer wallet.Wallet, q reorgedOrder, chainSays string) error {
	reason := fmt.Sprintf("the books have it %s by %s; the chain: %s", q.EndedOrder.Status, q.Hash, chainSays)
	if q.EndedOrder.WaitingFor.Cause().EndedBy == EndsWithPerson {
		return d.noteWaiting(ctx, q, WaitOperator, reason)
	}
	d.log.Error(
		"an order ended in another way after a finality break", "order", q.EndedOrder.ID, "wallet", payer.ID,
		"why", reason,
	)
	return d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		// The lock of the freeze comes before the order, as where a stuck return is completed.
		if err := freeze.LockExclusive(ctx, tx); err != nil {
			return err
		}
		o, err := lockOrder(ctx, tx, q.EndedOrder.ID)
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			UPDATE dispatch_orders SET waiting_for = $5, last_error = $2, attempt_after = $3
			WHERE order_id = $1 AND status IN ('PAID', 'FAILED') AND proof_id = $4 AND waiting_for IS DISTINCT FROM $5`,
			o.ID, truncateError(reason), tx.Now.Add(WaitOperator.Cause().pause(d.conf.RetryAfter, 0)),
			q.ProofID, WaitOperator)
		if err != nil {
			return fmt.Errorf("leave it to a person: %w", err)
		}
		if tag.RowsAffected() != 1 {
			return nil // another process was first
		}
		if err := freeze.Create(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeWallet, OrgID: payer.OrgID, WalletID: payer.ID, Chain: d.chain.Name,
			Source: freeze.SourceDispatch,
			Reason: fmt.Sprintf("order %s: %s", o.ID, reason),
		}); err != nil {
			return err
		}
		return recordAudit(ctx, tx, o, "disputed", map[string]any{"why": reason})
	})
}
