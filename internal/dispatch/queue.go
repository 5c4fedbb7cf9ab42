package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// queueReadMax bounds the orders that one round reads because they may share a transaction.
func queueReadMax(name chain.Name) int { return 4 * OrdersPerTxMax(name) }

// admitQueued gives slots to a wallet's queued orders, at most limit of them. The order whose last
// look is longest ago comes first, and a waiting order does not hold up the ones behind it. In
// order of age alone, a few old orders that are looked at again and again would keep the Worker
// from ever reaching the others.
//
// Where a transaction makes several payments, orders of one purpose share a slot. acct is the
// account's state, or nil if the providers were not asked yet.
func (d *Worker) admitQueued(
	ctx context.Context, payer wallet.Wallet, limit int, acct *chain.Account,
) (busy bool, err error) {
	if limit <= 0 {
		return false, nil
	}
	queue, err := d.loadDue(ctx, payer, max(limit, queueReadMax(d.chain.Name)))
	if err != nil {
		return false, err
	}
	if d.groupSize(payer, queue) <= 1 && !d.hasBatchRows(queue) {
		queue = queue[:min(len(queue), limit)]
	}
	if len(queue) > 0 && acct == nil {
		// A slot whose nonce the chain has used already could never pay, and it would hold up every
		// slot after it.
		account, err := d.chain.Sender.Account(ctx, payer.Address)
		if err != nil {
			return false, d.waitForChain(ctx, queue, err)
		}
		if err := d.guardNonce(ctx, payer, account); err != nil {
			return false, err
		}
		acct = &account
	}
	if len(queue) > 0 {
		if err := d.slots.proveFree(ctx, payer, acct); err != nil {
			return false, err
		}
	}
	lone := d.findLone(ctx, payer, queue)
	for len(queue) > 0 && limit > 0 {
		var group []Order
		group, queue = d.nextGroup(payer, queue, lone)
		slots, err := d.admitSharing(ctx, payer, *acct, group, limit)
		busy = busy || slots > 0
		limit -= slots
		if err != nil && !errors.Is(err, errLostRace) {
			err = errors.Join(err, d.noteFailed(ctx, group, err))
			return busy, fmt.Errorf("admit order %s: %w", strings.Join(orderIDs(group), ", "), err)
		}
	}
	return busy, nil
}

// noteFailed leaves orders waiting whose admission failed for an unexpected reason. The round ends with
// the error, so the next one begins with the orders behind these. An error of the database says nothing
// about the orders, which stay as they are.
func (d *Worker) noteFailed(ctx context.Context, group []Order, cause error) error {
	if pg.UnavailableReason(cause) != "" || errors.Is(cause, pg.ErrCommitUnknown) || ctx.Err() != nil {
		return nil
	}
	for _, o := range group {
		d.raiseAlarm(ctx, o.ID, "an order cannot be admitted for an unexpected reason", "order", o.ID, "why", cause)
	}
	return d.leaveAllWaiting(ctx, group, WaitError, cause.Error())
}

// loadDue returns the queued orders of a wallet that are due, the one whose last look is longest
// ago first.
func (d *Worker) loadDue(ctx context.Context, payer wallet.Wallet, limit int) (queue []Order, err error) {
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, selectOrders+` FROM dispatch_orders
			WHERE chain = $1 AND wallet_id = $2 AND status = 'QUEUED' AND attempt_after <= $3
			-- An allowance makes the payments behind it cheaper.
			ORDER BY purpose <> ALL ($5), attempt_after, created_at, order_id LIMIT $4`,
			d.chain.Name, payer.ID, tx.Now, limit, allowancePurposes())
		if err != nil {
			return err
		}
		queue, err = pgx.CollectRows(rows, scanOrder)
		for i := range queue {
			queue[i].readAt = tx.Now
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the queue: %w", err)
	}
	return queue, nil
}

// noteProvidersSilent notes that a wallet's queued orders wait for the providers, which did not
// answer about the slots before them. So people can end the waiting orders.
func (d *Worker) noteProvidersSilent(ctx context.Context, payer wallet.Wallet, cause error) error {
	queue, err := d.loadDue(ctx, payer, queueReadMax(d.chain.Name))
	if err != nil {
		return err
	}
	return d.waitForChain(ctx, queue, cause)
}

func (d *Worker) waitForChain(ctx context.Context, queue []Order, cause error) error {
	for _, o := range queue {
		if err := d.leaveWaiting(ctx, o, WaitProviders, money.Zero, cause.Error()); err != nil {
			return err
		}
	}
	return nil
}

// groupSize returns how many of the orders, counted from the first, one transaction could pay.
func (d *Worker) groupSize(payer wallet.Wallet, orders []Order) int {
	if len(orders) < 2 {
		return len(orders)
	}
	return min(OrdersPerTxMax(d.chain.Name), d.chain.Sender.BatchSize(buildPayments(orders, payer.Address)))
}

// nextGroup splits off the first order of a queue and those that may share its slot. Orders
// share one with orders of the same kind only. An order that may be the one that failed is alone, so
// that it fails no other, and so is one of lone.
func (d *Worker) nextGroup(
	payer wallet.Wallet, queue []Order, lone map[string]bool,
) (group, remaining []Order) {
	first := queue[0]
	isAlone := func(o Order) bool { return o.WaitingFor.Cause().IsAlone || lone[o.ID] }
	if !first.Kind().MayBeBatched || isAlone(first) {
		return queue[:1], queue[1:]
	}
	var alike []Order
	for _, o := range queue {
		if o.Purpose == first.Purpose && !isAlone(o) && d.mayShare(first, o) {
			alike = append(alike, o)
		}
	}
	group = alike[:max(1, d.groupSize(payer, alike))]
	for _, o := range queue {
		if !slices.ContainsFunc(group, func(member Order) bool { return member.ID == o.ID }) {
			remaining = append(remaining, o)
		}
	}
	return group, remaining
}

// handleNoQuote leaves waiting, or refuses, an order for which the chain quotes no fees. An order
// that is refused for its payee or its amount goes back to people, because waiting would not spare
// them the decision. An order that is refused for the token or the wallet as a whole waits: that
// ends by itself or by what a third party does. Rules WD-16, WD-17 and WD-42.
func (d *Worker) handleNoQuote(ctx context.Context, payer wallet.Wallet, c candidate, quoteErr error) error {
	o, native, gas := c.Order, c.nativeMintID, c.gas
	var insufficientFee *chain.InsufficientFeeError
	if errors.As(quoteErr, &insufficientFee) && !shortfall(insufficientFee.Fee, gas.GasSpendable()).IsZero() {
		return d.leaveUnderfunded(
			ctx, o, WaitGas, native, insufficientFee.Fee, "the wallet cannot pay for it yet: "+quoteErr.Error(),
		)
	}
	var reverted *chain.RevertedError
	wouldRevert := errors.As(quoteErr, &reverted)
	// A node simulates a transaction only if the wallet could pay for it. It reports missing funds
	// in its own way, as a revert or as any other error. The books know the funds.
	if o.Kind().movesGas() || !wouldRevert {
		if usual, err := d.usualCost(ctx, o); err == nil && !shortfall(usual, gas.GasSpendable()).IsZero() {
			return d.leaveUnderfunded(
				ctx, o, WaitGas, native, usual, "the wallet cannot pay for it yet: "+quoteErr.Error(),
			)
		}
	}
	switch {
	case !wouldRevert && gas.GasSpendable().IsZero():
		return d.leaveUnderfunded(
			ctx, o, WaitGas, native, money.Units(1), "the wallet has no gas yet: "+quoteErr.Error(),
		)
	case !wouldRevert:
		return d.leaveWaiting(ctx, o, WaitProviders, money.Zero, quoteErr.Error())
	case !o.Kind().leavesInstallation():
		return d.leaveWaiting(ctx, o, WaitSimulation, money.Zero, reverted.Reason)
	}
	cause, err := d.findRevertCause(ctx, payer, c, reverted)
	switch {
	case err != nil:
		return d.leaveWaiting(ctx, o, WaitProviders, money.Zero, err.Error())
	case cause == chain.CausePayee:
		return d.refuseOrder(ctx, o, &signer.Refusal{Code: PayeeRefused, Message: reverted.Reason})
	case cause == chain.CauseAmount:
		return d.refuseOrder(ctx, o, &signer.Refusal{Code: AmountRefused, Message: reverted.Reason})
	case cause == chain.CauseFunds: // the books hold the amount, so the provider lags
		return d.leaveWaiting(ctx, o, WaitProviders, money.Zero, reverted.Reason)
	}
	return d.leaveWaiting(ctx, o, WaitPaused, money.Zero, reverted.Reason)
}

// usualCost returns the most that a usual transfer of an order takes at present from the gas of its
// wallet, in native units.
func (d *Worker) usualCost(ctx context.Context, o Order) (money.Amount, error) {
	fees, err := d.chain.Sender.TransferFees(ctx)
	if err != nil {
		return money.Zero, err
	}
	cost, err := fees.Max()
	kind := o.Kind()
	if err == nil && (kind.movesGas() || kind.AmountInFee) {
		cost, err = cost.Add(o.Amount)
	}
	if err == nil && kind.NeedsMinBalance {
		cost, err = cost.Add(d.chain.MinBalance)
	}
	return cost, err
}

// findRevertCause returns what the refusal of a payment is about. Where the chain does not say it,
// the function quotes payments from the wallet to itself:
//
//   - if the same amount would pass, the cause is the payee;
//   - if another amount would pass (one unit, or all that the wallet has), the cause is the amount;
//   - if none would pass, the cause is the token or the wallet, as while a token is paused.
//
// An error leaves the cause open.
func (d *Worker) findRevertCause(
	ctx context.Context, payer wallet.Wallet, c candidate, refused *chain.RevertedError,
) (chain.Cause, error) {
	if refused.Cause != chain.CauseUnknown {
		return refused.Cause, nil
	}
	cause := chain.CausePayee
	for _, amount := range []money.Amount{c.Amount, money.Units(1), c.funds.Spendable()} {
		if amount.IsZero() {
			continue
		}
		p := c.chainPayment(payer.Address)
		p.To, p.Amount = payer.Address, amount
		_, err := d.chain.Sender.Quote(ctx, p)
		var reverted *chain.RevertedError
		switch {
		case err == nil:
			return cause, nil
		case !errors.As(err, &reverted):
			return "", fmt.Errorf("%s, and its mint is unknown: %w", refused.Reason, err)
		}
		cause = chain.CauseAmount
	}
	return chain.CauseAccount, nil
}

// leaveWaiting leaves an order in the queue and notes why. It writes nothing if the order was made
// due again since it was read: then the reading is stale.
func (d *Worker) leaveWaiting(
	ctx context.Context, o Order, waitReason WaitReason, missing money.Amount, detail string,
) error {
	return d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return d.updateWaiting(ctx, tx, o, waitReason, missing, detail)
	})
}

// leaveUnderfunded leaves an order in the queue because its wallet has less of a mint than need. A
// gas top-up or a sweep brings the missing amount. So the function reads the funds again, under the
// order lock that EndWaits takes too. What was read before the chain was asked may be stale,
// and the same funds would be brought twice. Timestamps cannot show this, because a transaction
// carries the time at which it began. If the funds have arrived, the order is looked at again.
func (d *Worker) leaveUnderfunded(
	ctx context.Context, o Order, waitReason WaitReason, mintID int, need money.Amount, detail string,
) error {
	return d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if _, err := lockOrder(ctx, tx, o.ID); err != nil {
			return err
		}
		funds, err := wallet.LoadFunds(ctx, tx, o.WalletID, mintID)
		if err != nil {
			return err
		}
		available := funds.Spendable()
		if waitReason.Cause().Missing == MissingGas {
			available = funds.GasSpendable()
		}
		missing := shortfall(need, available)
		if missing.IsZero() {
			return d.updateWaiting(ctx, tx, o, WaitNone, missing, "its wait reason has ended")
		}
		return d.updateWaiting(ctx, tx, o, waitReason, missing, detail)
	})
}

func (d *Worker) updateWaiting(
	ctx context.Context, tx pg.Tx, o Order, waitReason WaitReason, missing money.Amount, detail string,
) error {
	if o.WaitingFor != waitReason {
		d.log.Info("order waits", "order", o.ID, "for", string(waitReason), "short", missing.String(), "why", detail)
	}
	delay := waitReason.Cause().pause(d.conf.RetryAfter, tx.Now.Sub(o.CreatedAt))
	_, err := tx.Exec(ctx, `
		UPDATE dispatch_orders SET waiting_for = nullif($2, ''), missing_amount = $3, last_error = $4,
			attempt_after = $5
		WHERE order_id = $1 AND status = 'QUEUED' AND attempt_after <= $6`,
		o.ID, waitReason, zeroAsNull(missing), truncateError(detail), tx.Now.Add(delay), o.readAt)
	if err != nil {
		return fmt.Errorf("order %s waits: %w", o.ID, err)
	}
	return nil
}

func zeroAsNull(a money.Amount) *money.Amount {
	if a.IsZero() {
		return nil
	}
	return &a
}

// errorBytesMax bounds a provider's text in a row, in bytes.
const errorBytesMax = 500

func truncateError(s string) string {
	if len(s) > errorBytesMax {
		s = s[:errorBytesMax]
	}
	return s
}

// refuseOrder ends an order before it has a slot, because the signer refuses it, or the chain
// refuses its payee or its amount.
func (d *Worker) refuseOrder(ctx context.Context, o Order, refusal *signer.Refusal) error {
	cause, details := causeOfRefusal(refusal.Code), []any{"order", o.ID, "code", refusal.Code, "why", refusal.Message}
	switch kind := o.Kind(); {
	case kind.SlotIsPayee:
		details = append(details, "at", string(o.To))
	case kind.leavesInstallation():
		details = append(details, "payee", string(o.To), "amount", o.Amount.String())
	}
	d.log.Log(ctx, cause.level, cause.sentence, details...)
	if refusal.Code == signer.RefusedKey {
		// A database as recent as the journal would hold the other payment.
		if err := freezeAll(ctx, d.db, refusal.Message); err != nil {
			return err
		}
	}
	return d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		// A refused return changes a deposit, whose trigger holds the cursor: that comes first.
		if _, err := finality.LockForked(ctx, tx, d.chain.Name); err != nil {
			return err
		}
		o, err := lockOrder(ctx, tx, o.ID)
		if err != nil {
			return err
		}
		if err := setRefused(ctx, tx, o, truncateError(refusal.Error()), refusal.Code); err != nil {
			return err
		}
		if err := d.listeners[o.Purpose].OnRefused(ctx, tx, o, refusal); err != nil {
			return err
		}
		return recordAudit(ctx, tx, o, "refused", map[string]any{"code": refusal.Code, "why": refusal.Message})
	})
}

// setRefused makes a queued order refused. That ends an internal order, which is never submitted
// again.
func setRefused(ctx context.Context, tx pg.Tx, o Order, detail, code string) error {
	return setStatus(
		ctx, tx, o.ID, Queued, Refused,
		"last_error = $4, payee_failed = $5, ended_at = CASE WHEN $6 THEN $7::timestamptz END", detail,
		code == NonceAccountTaken, o.Kind().isInternal(), tx.Now,
	)
}
