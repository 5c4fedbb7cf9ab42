package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// This file holds what a person may do about an order. With a slot, each act is a transaction that
// is committed to the slot, or an end that a proven block shows; the running service signs and
// sends. Without a slot, the order ends at once. A refusal is a fault that says what became of the
// money.

// loadOrderSlot reads an order with its slot, which it may share with other orders. Errors: faults
// NOT_FOUND, INVALID_STATE.
func (d *Worker) loadOrderSlot(ctx context.Context, orderID string) (o Order, s slot, payer wallet.Wallet, err error) {
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, selectOrders+` FROM dispatch_orders WHERE order_id = $1`, orderID)
		if err != nil {
			return err
		}
		o, err = pgx.CollectExactlyOneRow(rows, scanOrder)
		if errors.Is(err, pgx.ErrNoRows) {
			return newUnknownOrder(orderID)
		}
		if err != nil {
			return err
		}
		if o.Chain != d.chain.Name {
			return fmt.Errorf("order %s is on %s, and this worker is for %s", orderID, o.Chain, d.chain.Name)
		}
		slots, err := querySlots(
			ctx, tx,
			selectSlots+` WHERE o.order_id = (SELECT coalesce(r.tx_lead_id, r.order_id) FROM dispatch_orders r WHERE r.order_id = $1)`,
			orderID,
		)
		if err != nil {
			return err
		}
		if len(slots) == 0 {
			return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"Order %s is %s and has no slot: nothing of it was signed or sent.", orderID, o.Status).
				WithStep(fault.ShowOrder).WithSubject(orderID)
		}
		s = slots[0]
		payer, err = wallet.ByID(ctx, tx, o.WalletID)
		return err
	})
	if err != nil && fault.Find(err) == nil {
		err = fmt.Errorf("read order %s: %w", orderID, err)
	}
	return o, s, payer, err
}

// refuseEnded returns the fault for an act on an order whose slot no longer allows it, or nil.
func (s slot) refuseEnded(o Order) error {
	switch o.Status {
	case Paid:
		return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"Order %s is PAID: its payment is final on the chain and cannot be changed.", o.ID)
	case Failed:
		return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"Order %s is FAILED: its slot is used without a payment, and its amount is available again.", o.ID)
	case Stuck:
		return fault.New(fault.Conflict, fault.InvalidState, fault.StillStuck,
			"Order %s is STUCK: its transaction is final, so it cannot be replaced.", o.ID).
			WithStep(fault.ResolveOrder).WithSubject(o.ID)
	}
	if s.FundsPending {
		return fault.New(fault.Conflict, fault.InvalidState, fault.TransactionKept,
			"Order %s was restored from the signer's journal, and the scan still has to find its funds.", o.ID).
			WithAdvice("Try again when the scan has found them.").WithStep(fault.ShowOrder).WithSubject(o.ID)
	}
	return nil
}

// refuseKind returns the fault for an act that the kind of an order does not allow, for a reason
// such as Kind.NotReplaceable. It returns nil if there is no reason.
func (s slot) refuseKind(reason string) error {
	if reason == "" {
		return nil
	}
	return fault.New(fault.Conflict, fault.InvalidState, fault.Stated, reason, s.ID)
}

// explainFailure turns the reason why no transaction could be added to an order's slot into a
// fault.
func (s slot) explainFailure(o Order, err error) error {
	switch {
	case errors.Is(err, errOutputsExhausted):
		return fault.New(fault.Unprocessable, fault.InvalidState, fault.TransactionKept,
			"The outputs that order %s spends leave too little for a higher fee, and no other output can be "+
				"added.", o.ID).
			WithAdvice("Wait for the fees of the chain to fall.")
	case errors.Is(err, errFeeCapped) && o.Chain.Family() != chain.EVM:
		return fault.New(fault.Unprocessable, fault.InvalidState, fault.TransactionKept,
			"The fee of order %s is up to %v and may not be raised further: cost_max or the highest rate of its "+
				"chain, or the maxNetworkFee of its request, forbids it.", o.ID, s.newestAttempt().Fees.NonGas).
			WithAdvice("Wait for the fees of the chain to fall, or raise the limits of its chain together with " +
				"feeMax " +
				"of the signer's policy.")
	case errors.Is(err, errFeeCapped):
		return fault.New(fault.Unprocessable, fault.InvalidState, fault.TransactionKept,
			"The fee of order %s is %v a gas and may not be raised further: fee_cap of its chain, or the "+
				"maxNetworkFee of its request, forbids it.", o.ID, s.newestAttempt().Fees.FeeCap).
			WithAdvice("Wait for the fees of the chain to fall, or raise fee_cap together with feeMax of the " +
				"signer's policy.")
	case errors.Is(err, wallet.ErrInsufficient):
		return fault.New(fault.Unprocessable, fault.InsufficientBalance, fault.TransactionKept,
			"The wallet of order %s lacks the gas for a higher fee.", o.ID).
			WithAdvice("Send native coin to the wallet.").WithStep(fault.ListWallets)
	case errors.Is(err, errLostRace):
		return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"Order %s changed in the meantime.", o.ID).
			WithStep(fault.ShowOrder).WithSubject(o.ID)
	}
	return err
}

// AnyVersion raises the fee of an order whatever its newest transaction is.
const AnyVersion = 0

// BumpFee commits a transaction with a higher fee to an order's slot: same payees, same amounts,
// same nonce. One of the two is mined, never both. version is the newest transaction that the
// operator saw, or AnyVersion; with another one there, a colleague was quicker, and BumpFee changes
// nothing. Errors: faults NOT_FOUND, INVALID_STATE, INSUFFICIENT_BALANCE (of gas).
func (d *Worker) BumpFee(
	ctx context.Context, orderID string, version int, actor audit.Actor,
) (chain.Fees, error) {
	o, s, payer, err := d.loadOrderSlot(ctx, orderID)
	if err != nil {
		return chain.Fees{}, err
	}
	// The new transaction takes the number after this one in the same slot, so of two calls that pass
	// here only one is written.
	if version != AnyVersion && s.newestAttempt().Version != version {
		return chain.Fees{}, s.explainFailure(o, errLostRace)
	}
	if err := s.refuseEnded(o); err != nil {
		return chain.Fees{}, err
	}
	if err := s.refuseKind(s.Kind().NotReplaceable); err != nil {
		return chain.Fees{}, err
	}
	if s.newestAttempt().Act == signer.Pay && s.isLate(d.db.Clock()()) {
		return chain.Fees{}, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"Order %s had to be paid by %s: its fee is not raised any more, and the service fills its slot with a "+
				"cancel.", o.ID, o.PayBy.UTC().Format(time.RFC3339)).
			WithStep(fault.ShowOrder).WithSubject(o.ID)
	}
	if s.newestAttempt().Raw == nil {
		return chain.Fees{}, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"The newest transaction of order %s is not signed yet, so there is nothing to replace.", o.ID).
			WithStep(fault.ShowOrder).WithSubject(o.ID)
	}
	if err := d.addReplacement(ctx, payer, s, s.newestAttempt().Act, replacementRequest{
		reason: reasonOperator, actor: actor,
	}); err != nil {
		return chain.Fees{}, s.explainFailure(o, err)
	}
	if _, s, _, err = d.loadOrderSlot(ctx, orderID); err != nil {
		return chain.Fees{}, fault.New(fault.Unavailable, fault.CodeUnavailable, fault.Stated,
			"The fee of order %s is raised: the running service has the signer sign the new transaction, and sends "+
				"it. At most one of them is mined. The order could not be read again (%v).", o.ID, err).
			WithStep(fault.ShowOrder).WithSubject(o.ID)
	}
	return s.newestAttempt().Fees, nil
}

// CancelOrder commits a cancel transaction to an order's slot, with a fee high enough to replace
// the one that waits there. The order fails, with all orders of its slot, only once the cancel is
// final. Until then either transaction may be mined.
//
// A queued order without a slot ends at once as WITHDRAWN, whatever it waits for. CancelOrder
// returns false for an order that was refused, since its feature decides about it, and for one that
// has ended.
//
// Errors: those of BumpFee; and fault UNAVAILABLE if a payment or return has ended and the signer,
// which has to void it, does not answer.
func (d *Worker) CancelOrder(ctx context.Context, orderID string, actor audit.Actor) (bool, error) {
	if recalled, err := d.recallOrder(ctx, orderID, actor); recalled || err != nil {
		return recalled, err
	}
	o, s, payer, err := d.loadOrderSlot(ctx, orderID)
	if fault.HasCode(err, fault.InvalidState) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	switch o.Status {
	case Slotted, Signed, Broadcast:
	default:
		return false, nil
	}
	if s.newestAttempt().Act == signer.Cancel {
		return true, nil
	}
	if err := s.refuseEnded(o); err != nil {
		return false, err
	}
	if err := s.refuseKind(s.Kind().NotCancellable); err != nil {
		return false, err
	}
	request := replacementRequest{reason: reasonOperator, actor: actor}
	if err := d.commitCancel(ctx, payer, s, request); err != nil {
		return false, s.explainFailure(o, err)
	}
	return true, nil
}

// recallOrder ends a queued order and notifies its feature, in one transaction. After that, it has
// the signer void an order with a grant, and then the hold is released. It also voids an order that
// was recalled before and is not void yet. It returns false for every other order. Rule WD-43.
func (d *Worker) recallOrder(ctx context.Context, orderID string, actor audit.Actor) (recalled bool, err error) {
	granted := false
	err = d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		recalled, granted = false, false
		// A recalled return changes a deposit, whose trigger holds the cursor: that comes first.
		if _, err := finality.LockForked(ctx, tx, d.chain.Name); err != nil {
			return err
		}
		o, err := lockOrder(ctx, tx, orderID)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return newUnknownOrder(orderID)
		case err != nil:
			return err
		}
		granted = o.Kind().NeedsGrant
		switch {
		case o.Chain != d.chain.Name:
			return fmt.Errorf("order %s is on %s, and this worker is for %s", orderID, o.Chain, d.chain.Name)
		case o.Status == Recalled && granted:
			state, err := LoadVoidState(ctx, tx, o.ID)
			recalled = state == NotVoided
			return err
		case o.Status != Queued:
			return nil
		}
		if recalled, err = d.recallLocked(ctx, tx, o, actor); err != nil || !recalled {
			return err
		}
		failpoint.HitBeforeCommit("V06")
		return nil
	})
	if err != nil && fault.Find(err) == nil {
		err = fmt.Errorf("end order %s: %w", orderID, err)
	}
	if err != nil || !recalled || !granted || d.voider == nil {
		return recalled && err == nil, err
	}
	failpoint.Hit("V06")
	if err := d.voider.FinishVoid(ctx, orderID); err != nil {
		if ctx.Err() != nil {
			return true, err
		}
		return true, fault.New(fault.Unavailable, fault.CodeUnavailable, fault.Stated,
			"Order %s is being cancelled: nothing of it is signed, and its payee will not be paid. The signer or the "+
				"database did not answer when its end was recorded, so its amount may still be held. The amount "+
				"becomes available, once, as soon as both answer, without another call.", orderID).
			WithStep(fault.CancelOrderAgain).WithSubject(orderID)
	}
	return true, nil
}

// recallLocked ends a queued order under its lock and notifies its feature. It returns false if the
// order is past that.
func (d *Worker) recallLocked(ctx context.Context, tx pg.Tx, o Order, actor audit.Actor) (recalled bool, err error) {
	if recalled, err = Recall(ctx, tx, o.ID); err != nil || !recalled {
		return recalled, err
	}
	if err := d.listeners[o.Purpose].OnRecalled(ctx, tx, o, actor); err != nil {
		return true, err
	}
	detail := map[string]any{"waitedFor": o.WaitingFor}
	if !o.PayBy.IsZero() {
		detail["payBy"] = o.PayBy.UTC()
	}
	return true, recordAuditBy(ctx, tx, actor, o, "withdrawn", detail)
}

// ResolveStuck ends a stuck order by what the balances before and after its final block prove. As
// many providers have to agree on the balances as on a final block.
//
//   - The amount left the wallet and reached the payee: the order is paid.
//   - Neither balance changed: the order failed, and the amount is released.
//   - The whole amount left and less arrived, as with a token that keeps a part: with acceptShort,
//     a person takes the order for paid. That holds for payments only, because a sweep counts what
//     arrives.
//   - Anything else: the order stays stuck.
//
// Errors: faults NOT_FOUND, INVALID_STATE, UNAVAILABLE.
func (d *Worker) ResolveStuck(
	ctx context.Context, orderID string, actor audit.Actor, acceptShort bool,
) (Status, error) {
	o, s, payer, err := d.loadOrderSlot(ctx, orderID)
	if err != nil {
		return "", err
	}
	if o.Status != Stuck {
		return "", fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"Order %s is %s. Only a STUCK order can be resolved.", o.ID, o.Status)
	}
	refuse := func(format string, args ...any) error {
		return fault.New(fault.Unprocessable, fault.InvalidState, fault.Stated,
			"Order %s stays STUCK, its amount stays held, and nothing was booked: %s", o.ID,
			fmt.Sprintf(format, args...))
	}
	outcome, err := d.chain.Sender.Outcome(ctx, s.signedHashes(), s.chainPayments(payer.Address)...)
	if err != nil {
		return "", fault.New(fault.Unavailable, fault.CodeUnavailable, fault.StillStuck,
			"The providers do not answer for the transaction of order %s (%v).", o.ID, err).WithAdvice("Try again.")
	}
	if outcome == nil {
		return "", refuse("the providers show none of its transactions in a block. Find out why before anything else.")
	}
	block := outcome.Block
	var proof int64
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx,
			`SELECT proof_id, parent FROM finality_live WHERE chain = $1 AND height = $2 AND hash = $3`,
			d.chain.Name, block.Height, block.Hash).Scan(&proof, &block.Parent)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return "", refuse(
			"block %d, which has its transaction %s, is not proven final. Wait for the scan of the chain, or decide "+
				"about its finality break first.",
			block.Height, outcome.Tx,
		)
	}
	if err != nil {
		return "", fmt.Errorf("read the proof of order %s: %w", o.ID, err)
	}
	left, arrived, err := d.measureEffects(ctx, outcome.Tx, block, o.chainPayment(payer.Address))
	if err != nil {
		return "", fault.New(fault.Unavailable, fault.CodeUnavailable, fault.StillStuck,
			"The balances of block %d, which has the transaction of order %s, cannot be read (%v).",
			block.Height, o.ID, err).
			WithAdvice("This needs a provider that keeps old state.")
	}
	// What the transaction should take from this wallet and bring this payee, for all orders of the
	// slot.
	debited, credited, zero := new(big.Int), new(big.Int), new(big.Int)
	for _, member := range s.allOrders() {
		if member.Contract != o.Contract {
			continue
		}
		if member.SourceWalletID() == o.SourceWalletID() {
			debited.Add(debited, member.Amount.Big())
		}
		if member.To == o.To {
			credited.Add(credited, member.Amount.Big())
		}
	}
	fee, err := equalShare(outcome.Fee, 1+len(s.TxMembers), o.TxLeadID == "")
	if err != nil {
		return "", fmt.Errorf("fee of order %s: %w", o.ID, err)
	}
	e := End{
		Cancelled: s.findAttempt(outcome.Tx).Act == signer.Cancel, Hash: outcome.Tx, Fee: fee,
		Rent: s.payeeRent(*outcome), ProofID: proof, Block: block, Replaced: s.otherHashes(outcome.Tx),
	}
	switch isWhole := left.Cmp(debited) == 0; {
	case isWhole && arrived.Cmp(credited) == 0:
		e.Paid = true
	case left.Cmp(zero) == 0 && arrived.Cmp(zero) == 0:
	case isWhole && o.Kind().MayArriveShort && acceptShort:
		e.Paid = true
	case isWhole && o.Kind().MayArriveShort:
		return "", refuse(
			"all %v left the wallet, and the payee received %v. Settle the difference with the organization; repeat "+
				"the command with --short to book the payment as paid.",
			debited, arrived,
		)
	default:
		return "", refuse(
			"its transaction took %v from the wallet and gave the payee %v, and the order is for %v. No outcome "+
				"would leave the books right. Find out why; --as paid or --as unpaid ends the order with the outcome "+
				"that you found.",
			left, arrived, o.Amount,
		)
	}
	err = d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if broken, err := finality.LockShared(ctx, tx, s.Chain); err != nil {
			return err
		} else if broken {
			return fmt.Errorf("resolve order %s during a finality break: %w", o.ID, errLostRace)
		}
		o, err := lockOrder(ctx, tx, o.ID)
		if err != nil {
			return err
		}
		o.Status = Stuck // if another was first, the compare-and-swap fails
		if err := d.finishOrders(ctx, tx, orderEnd{o, e}); err != nil {
			return err
		}
		return recordAuditBy(ctx, tx, actor, o, "resolved", map[string]any{
			"paid": e.Paid, "left": left.String(), "arrived": arrived.String(), "short": acceptShort,
		})
	})
	if err != nil {
		return "", s.explainFailure(o, err)
	}
	if e.Paid {
		return Paid, nil
	}
	return Failed, nil
}

// measureEffects returns what a transaction took from the payer and brought the payee. It compares
// their balances before and after its final block and subtracts what else moved in that block.
func (d *Worker) measureEffects(
	ctx context.Context, hash chain.TxHash, block chain.Block, p chain.Payment,
) (left, arrived *big.Int, err error) {
	c, err := d.chain.Reader.Final(ctx, block.Height)
	if err != nil {
		return nil, nil, err
	}
	if c.Hash != block.Hash {
		return nil, nil, fmt.Errorf("it is %s now", c.Hash)
	}
	holdings := []chain.Holding{{Address: p.From, Contract: p.Contract}, {Address: p.To, Contract: p.Contract}}
	before, err := d.chain.Reader.Balances(ctx, chain.Block{Height: block.Height - 1, Hash: c.Parent}, holdings)
	if err != nil {
		return nil, nil, err
	}
	after, err := d.chain.Reader.Balances(ctx, c.Block, holdings)
	if err != nil {
		return nil, nil, err
	}
	change := func(n int) *big.Int {
		sum := new(big.Int).Sub(after[n].Big(), before[n].Big())
		for _, t := range c.Transfers {
			if t.Tx == hash || t.Contract != p.Contract {
				continue
			}
			if t.To == holdings[n].Address {
				sum.Sub(sum, t.Amount.Big())
			}
			if t.From == holdings[n].Address {
				sum.Add(sum, t.Amount.Big())
			}
		}
		if p.Contract == "" {
			for _, fee := range c.Fees {
				if fee.Payer == holdings[n].Address {
					sum.Add(sum, fee.Amount.Big())
				}
			}
		}
		return sum
	}
	return new(big.Int).Neg(change(0)), change(1), nil
}
