package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// endSlot ends the orders of a slot in one transaction: their status, the wallets' funds, the
// postings of their feature, and the fee. Rule BP-26.
func (d *Worker) endSlot(
	ctx context.Context, payer wallet.Wallet, s slot, outcome chain.Outcome, proof int64,
) (err error) {
	ctx, span := trace.StartAbout(ctx, "dispatch end", s.ID)
	defer func() { span.End(err) }()
	act := s.findAttempt(outcome.Tx).Act
	e := End{
		Paid: act == signer.Pay && outcome.Succeeded, Cancelled: act == signer.Cancel, Hash: outcome.Tx,
		Fee: outcome.Fee, ProofID: proof, Block: outcome.Block,
	}
	e.Refused = e.Cancelled && s.findAttempt(outcome.Tx).Reason == reasonRefusal
	e.PayeeFailed = act == signer.Pay && !outcome.Succeeded && d.isPayeeFailure(ctx, payer, s)
	e.Rent = s.payeeRent(outcome)
	e.Replaced = s.otherHashes(outcome.Tx)
	status := Failed
	if e.Paid {
		status = Paid
	}
	err = d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		// Locked before the orders: a break of finality that is decided meanwhile waits, so the
		// proof is live at the commit.
		if broken, err := finality.LockShared(ctx, tx, s.Chain); err != nil {
			return err
		} else if broken {
			return fmt.Errorf("end order %s during a finality break: %w", s.ID, errLostRace)
		}
		orders, err := lockSlot(ctx, tx, s.ID)
		if err != nil {
			return err
		}
		ends := make([]orderEnd, len(orders))
		for i, o := range orders {
			o.Status = Broadcast // if the row differs, the compare-and-swap fails
			ends[i] = orderEnd{o, e}
			if ends[i].Fee, err = equalShare(e.Fee, len(orders), i == 0); err != nil {
				return err
			}
		}
		if err := d.finishOrders(ctx, tx, ends...); err != nil {
			return err
		}
		hitBeforeEnd(e)
		return nil
	})
	if err != nil {
		return err
	}
	hitAfterEnd(s.Order, e)
	d.log.Info(
		"order ended", "order", s.ID, "with", s.memberIDs(), "status", string(status), "hash", string(e.Hash),
		"fee", e.Fee.String(),
	)
	return nil
}

// payeeRent returns the rent that a payment left in an account that it created for its payee. It is
// zero where several payments share a transaction, because the rent cannot be assigned to one of
// them. No chain that has such accounts batches payments to third parties.
func (s slot) payeeRent(outcome chain.Outcome) money.Amount {
	if !s.Kind().RecordsPayeeCosts || len(s.TxMembers) > 0 {
		return money.Zero
	}
	return outcome.Rent
}

// isPayeeFailure reports whether the chain refused a payment because of its payee. A native
// transfer on EVM runs the payee's code and nothing else that could refuse it. For anything else,
// the function asks whether the chain would still refuse this payment but not one to the wallet
// itself. It is false where no provider answers, and where other orders were in the transaction.
// Rule WD-55.
func (d *Worker) isPayeeFailure(ctx context.Context, payer wallet.Wallet, s slot) bool {
	if !s.Kind().RecordsPayeeCosts || len(s.TxMembers) > 0 {
		return false
	}
	if s.Contract == "" && s.Chain.Family() == chain.EVM {
		return true
	}
	_, err := d.chain.Sender.Quote(ctx, s.chainPayment(payer.Address))
	var reverted *chain.RevertedError
	if !errors.As(err, &reverted) {
		return false
	}
	cause, err := d.findRevertCause(ctx, payer, candidate{Order: s.Order}, reverted)
	return err == nil && (cause == chain.CausePayee || cause == chain.CauseAmount)
}

// orderEnd is an order with its end; Fee is the order's share.
type orderEnd struct {
	Order
	End
}

// finishOrders ends locked orders of one slot: their status, the postings of their feature, the
// wallets' funds, and the fee.
func (d *Worker) finishOrders(ctx context.Context, tx pg.Tx, ends ...orderEnd) error {
	native, err := loadNativeMint(ctx, tx, ends[0].Chain)
	if err != nil {
		return err
	}
	var postings []ledger.Posting
	var moves []wallet.Movement
	for i := range ends {
		o, e := &ends[i].Order, ends[i].End
		before, after := o.Status, Failed
		if e.Paid {
			after = Paid
		}
		if err := setStatus(
			ctx, tx, o.ID, before, after,
			"ended_at = $4, tx_hash = $5, fee = $6, proof_id = $7, rent = $8, payee_failed = $9", tx.Now, e.Hash, e.Fee,
			e.ProofID, e.Rent, e.PayeeFailed,
		); err != nil {
			return err
		}
		o.Status = after
		featurePostings, err := d.listeners[o.Purpose].OnEnded(ctx, tx, *o, e)
		if err != nil {
			return err
		}
		postings = append(postings, featurePostings...)
		if !e.Fee.IsZero() {
			postings = append(postings, newFeePosting(*o, native, e.Fee))
		}
		reserved, err := loadGasShare(ctx, tx, *o)
		if err != nil {
			return err
		}
		moves = append(moves, endMovements(*o, e, native, reserved)...)
		if listener, ok := d.listeners[o.Purpose].(FundsListener); ok {
			extra, err := listener.EndMovements(ctx, tx, *o, e)
			if err != nil {
				return err
			}
			moves = append(moves, extra...)
		}
	}
	// The rows of all features come before the outputs.
	slots := newSlotModel(d, ends[0].Chain)
	for _, end := range ends {
		if err := slots.release(ctx, tx, end); err != nil {
			return err
		}
	}
	if err := wallet.MoveFunds(ctx, tx, moves...); err != nil {
		return err
	}
	if err := ledger.Post(ctx, tx, postings...); err != nil {
		return err
	}
	for _, end := range ends {
		if err := recordAudit(ctx, tx, end.Order, "ended", map[string]any{
			"status": end.Status, "hash": end.Hash, "fee": end.Fee, "block": end.Block.Hash,
		}); err != nil {
			return err
		}
	}
	return nil
}

// loadGasShare returns an order's share of the gas that its slot has reserved.
func loadGasShare(ctx context.Context, tx pg.Tx, o Order) (money.Amount, error) {
	var whole money.Amount
	var orders int
	err := tx.QueryRow(
		ctx, `SELECT gas_reserved, orders FROM dispatch_slots WHERE order_id = coalesce(nullif($2, ''), $1)`, o.ID,
		o.TxLeadID,
	).Scan(&whole, &orders)
	if err != nil {
		return whole, fmt.Errorf("read the gas reserved for order %s: %w", o.ID, err)
	}
	return equalShare(whole, orders, o.TxLeadID == "")
}

// endMovements returns how the end of an order changes the wallets' funds.
func endMovements(o Order, e End, native int, gasReserved money.Amount) []wallet.Movement {
	newMovement := func(walletID string, mintID int, part wallet.Part) wallet.Movement {
		return wallet.Movement{WalletID: walletID, OrgID: o.OrgID, MintID: mintID, Part: part}
	}
	plus := func(m wallet.Movement, a money.Amount) wallet.Movement { m.Plus = a; return m }
	minus := func(m wallet.Movement, a money.Amount) wallet.Movement { m.Minus = a; return m }

	moves := []wallet.Movement{
		minus(newMovement(o.WalletID, native, wallet.GasReserved), gasReserved),
		minus(newMovement(o.WalletID, native, wallet.Gas), e.Fee),
	}
	kind, source := o.Kind(), o.SourceWalletID()
	if kind.Reserves != "" {
		moves = append(moves, minus(newMovement(source, o.MintID, kind.Reserves), o.Amount))
	}
	switch {
	case !e.Paid && kind.MovesFlagged: // flagged, as before
		moves = append(moves, plus(newMovement(source, o.MintID, wallet.Held), o.Amount))
	case e.Paid && kind.Reserves == wallet.Reserved:
		moves = append(moves, plus(newMovement(source, o.MintID, wallet.Swept), o.Amount))
	case e.Paid && kind.Reserves == wallet.GasReserved:
		moves = append(moves, minus(newMovement(source, o.MintID, wallet.Gas), o.Amount))
	}
	if e.Paid && kind.Arrives != "" {
		moves = append(moves, plus(newMovement(o.ToWalletID, o.MintID, kind.Arrives), o.Amount))
	}
	return moves
}

// newFeePosting returns the posting of a network fee. It takes the actual fee from the operator's
// gas and records it as owed by the organization, whether the transaction succeeded or not.
// Rule WD-10.
func newFeePosting(o Order, native int, fee money.Amount) ledger.Posting {
	account := func(k ledger.Kind) ledger.Account { return ledger.Account{OrgID: o.OrgID, MintID: native, Kind: k} }
	return ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.NetworkFee, ID: o.ID},
		Legs: []ledger.Leg{
			{Debit: account(ledger.Gas), Credit: account(ledger.Custody), Amount: fee},
			{Debit: account(ledger.FeesDue), Credit: account(ledger.FeesBilled), Amount: fee},
		},
	}
}

// markStuck keeps the orders of a final transaction that succeeded and did not move what it should
// have moved. Nothing is released or settled: the token is quarantined and a person decides. All
// payments of the transaction become stuck, and each is decided separately. reasons holds what
// contradicts each payment, "" for nothing. Rule WD-15.
func (d *Worker) markStuck(ctx context.Context, s slot, outcome chain.Outcome, proof int64, reasons []string) error {
	quarantines := map[int]string{} // by mint
	for i, o := range s.allOrders() {
		if reasons[i] != "" && quarantines[o.MintID] == "" {
			quarantines[o.MintID] = fmt.Sprintf("order %s: %s succeeded, but %s", o.ID, outcome.Tx, reasons[i])
		}
	}
	return d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		// The mints come before the orders, as where a stuck return is completed.
		for _, mintID := range slices.Sorted(maps.Keys(quarantines)) {
			if err := mint.Quarantine(ctx, tx, mintID, quarantines[mintID]); err != nil {
				return err
			}
		}
		orders, err := lockSlot(ctx, tx, s.ID)
		if err != nil {
			return err
		}
		if len(orders) != len(reasons) {
			return fmt.Errorf("the slot of order %s: %w", s.ID, errLostRace)
		}
		for i, o := range orders {
			fee, err := equalShare(outcome.Fee, len(orders), i == 0)
			if err != nil {
				return err
			}
			reason := reasons[i]
			if reason == "" {
				reason = "another payment of its transaction is not as it should be"
			}
			if err := setStatus(
				ctx, tx, o.ID, Broadcast, Stuck, "tx_hash = $4, fee = $5, proof_id = $6, last_error = $7, rent = $8",
				outcome.Tx, fee, proof, truncateError(reason), s.payeeRent(outcome),
			); err != nil {
				return err
			}
			if err := recordAudit(ctx, tx, o, "stuck", map[string]any{
				"hash": outcome.Tx, "block": outcome.Block.Hash, "why": reason,
			}); err != nil {
				return err
			}
			d.log.Error(
				"a payment succeeded on chain without its effect", "order", o.ID, "hash", string(outcome.Tx),
				"why", reason,
			)
		}
		return nil
	})
}
