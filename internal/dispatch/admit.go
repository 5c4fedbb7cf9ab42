package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// admitGroup gives orders a slot together, as far as possible, and returns how many slots that
// took, at most limit. It tries the group in halves if the chain refuses it as a whole, or if the
// fee is too high for one order. So an order that would revert holds up no other.
func (d *Worker) admitGroup(
	ctx context.Context, payer wallet.Wallet, acct chain.Account, group []Order, limit int,
) (slots int, err error) {
	if limit <= 0 || len(group) == 0 {
		return 0, nil
	}
	if len(group) == 1 {
		slotted, err := d.admitOrder(ctx, payer, acct, group[0])
		if slotted {
			slots = 1
		}
		return slots, err
	}
	var ready []candidate
	promised := map[int]money.Amount{}
	for _, o := range group {
		c, err := d.loadCandidate(ctx, payer, acct, o, promised)
		if err != nil {
			return 0, fmt.Errorf("examine order %s: %w", o.ID, err)
		}
		if c != nil {
			ready = append(ready, *c)
		}
	}
	if len(ready) < 2 {
		return d.admitGroup(ctx, payer, acct, candidateOrders(ready), limit)
	}
	ordered := slices.Clone(ready)
	slices.SortFunc(ordered, func(a, b candidate) int { return cmp.Compare(a.ID, b.ID) })
	fees, err := d.chain.Sender.Quote(ctx, buildPayments(candidateOrders(ordered), payer.Address)...)
	if err == nil {
		err = d.checkAffordable(ordered, fees)
	}
	if err != nil {
		half := (len(ready) + 1) / 2
		slots, err = d.admitGroup(ctx, payer, acct, candidateOrders(ready[:half]), limit)
		if err != nil && !errors.Is(err, errLostRace) {
			return slots, err
		}
		added, err := d.admitGroup(ctx, payer, acct, candidateOrders(ready[half:]), limit-slots)
		return slots + added, err
	}
	failpoint.Hit("W05")
	var entries []signer.Entry
	var admitted []Order
	for i, c := range ordered {
		if i > 0 {
			hitAmidGroup(c.Order)
		}
		entry, err := d.admitIntent(ctx, payer, c)
		if err != nil {
			return 0, fmt.Errorf("admit order %s: %w", c.ID, err)
		}
		if entry != nil {
			entries, admitted = append(entries, *entry), append(admitted, c.Order)
		}
	}
	if len(admitted) < len(ordered) {
		// The remaining orders make another transaction, so the admitted ones are admitted again.
		return d.admitGroup(ctx, payer, acct, admitted, limit)
	}
	failpoint.Hit("W07")
	slotted, err := d.assignSlot(ctx, payer, acct, ordered, fees, entries)
	if errors.Is(err, errSplitGroup) { // fewer outputs, or a smaller fee for one order, may suffice
		half := (len(ready) + 1) / 2
		if slots, err = d.admitGroup(ctx, payer, acct, candidateOrders(ready[:half]), limit); err != nil &&
			!errors.Is(err, errLostRace) {
			return slots, err
		}
		added, err := d.admitGroup(ctx, payer, acct, candidateOrders(ready[half:]), limit-slots)
		return slots + added, err
	}
	if slotted {
		slots = 1
	}
	return slots, err
}

// checkAffordable returns an error unless every order may cost its share of the fees and the wallet
// has the gas for all of them. Rule WD-40.
func (d *Worker) checkAffordable(candidates []candidate, fees chain.Fees) error {
	need, err := fees.Max()
	if err != nil {
		return err
	}
	share := signer.MaxFeeShare(need, len(candidates))
	for _, c := range candidates {
		if c.exceedsFeeMax(share) {
			return fmt.Errorf("order %s allows %v, and its part can be %v", c.ID, *c.FeeMax, share)
		}
	}
	if !shortfall(need, candidates[0].gas.GasSpendable()).IsZero() {
		return fmt.Errorf("%v of gas is more than the wallet has", need)
	}
	return nil
}

// candidate is a queued order that nothing in the database prevents from getting a slot.
type candidate struct {
	Order
	nativeMintID int
	funds        wallet.Funds   // of the order's mint, on the source wallet
	gas          wallet.Funds   // of the chain's native coin, on the paying wallet
	toWallet     *wallet.Wallet // receives the amount, if it is a wallet of Coffer
	source       wallet.Wallet  // holds the amount
}

func candidateOrders(cs []candidate) []Order {
	orders := make([]Order, len(cs))
	for i, c := range cs {
		orders[i] = c.Order
	}
	return orders
}

// loadCandidate checks an order against the database and the account. It returns nil if the order
// has to wait or was refused, and has noted that then. promised holds, by mint, what the other
// orders of the group take from the wallet; loadCandidate adds this order's amount to it.
func (d *Worker) loadCandidate(
	ctx context.Context, payer wallet.Wallet, acct chain.Account, o Order, promised map[int]money.Amount,
) (*candidate, error) {
	if o.isLate(d.db.Clock()()) {
		return nil, d.recallLate(ctx, o.ID)
	}
	var refusal *signer.Refusal
	c := candidate{Order: o, source: payer}
	err := d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if err := d.checkStopped(ctx, tx, o); err != nil {
			return err
		}
		if reviewer, ok := d.listeners[o.Purpose].(Reviewer); ok {
			if refusal, err = reviewer.ReviewOrder(ctx, tx, o); err != nil || refusal != nil {
				return err
			}
		}
		if c.nativeMintID, err = loadNativeMint(ctx, tx, o.Chain); err != nil {
			return err
		}
		if o.FromWalletID != "" {
			if c.source, err = wallet.ByID(ctx, tx, o.FromWalletID); err != nil {
				return err
			}
		}
		if c.funds, err = wallet.LoadFunds(ctx, tx, c.source.ID, o.MintID); err != nil {
			return err
		}
		if c.gas, err = wallet.LoadFunds(ctx, tx, payer.ID, c.nativeMintID); err != nil {
			return err
		}
		if o.ToWalletID != "" {
			w, err := wallet.ByID(ctx, tx, o.ToWalletID)
			c.toWallet = &w
			return err
		}
		return nil
	})
	var stopped *stoppedError
	if errors.As(err, &stopped) {
		return nil, d.leaveWaiting(ctx, o, stopped.reason, money.Zero, stopped.detail)
	}
	if err != nil {
		return nil, err
	}
	if refusal != nil {
		return nil, d.refuseOrder(ctx, o, refusal)
	}
	kind := o.Kind()
	if kind.SlotIsPayee {
		switch free, taken, err := d.slots.checkCreatable(ctx, acct, o); {
		case err != nil:
			return nil, err
		case taken:
			return nil, d.refuseOrder(ctx, o, &signer.Refusal{
				Code:    NonceAccountTaken,
				Message: fmt.Sprintf("%s exists already, so no nonce account can be created there", o.To),
			})
		case !free:
			return nil, d.leaveWaiting(
				ctx, o, WaitSlot, money.Zero,
				"it is not final yet whether the address of its nonce account is free",
			)
		}
	} else if detail, err := d.slots.whyNoneFree(ctx, acct); err != nil {
		return nil, err
	} else if detail != "" {
		return nil, d.leaveWaiting(ctx, o, WaitSlot, money.Zero, detail)
	}
	if kind.Reserves == wallet.Reserved && !kind.ReservedBySubmitter {
		total, err := promised[o.MintID].Add(o.Amount)
		if err != nil || !shortfall(total, c.funds.Spendable()).IsZero() {
			return nil, d.leaveUnderfunded(
				ctx, o, WaitFunds, o.MintID, o.Amount, "the wallet does not have the amount yet",
			)
		}
		promised[o.MintID] = total
	}
	return &c, nil
}

func (d *Worker) admitOrder(
	ctx context.Context, payer wallet.Wallet, acct chain.Account, o Order,
) (slotted bool, err error) {
	ctx, span := trace.StartAbout(ctx, "dispatch admit", o.ID)
	defer func() { span.End(err) }()
	c, err := d.loadCandidate(ctx, payer, acct, o, map[int]money.Amount{})
	if c == nil || err != nil {
		return false, err
	}
	fees, err := d.quoteOrder(ctx, o, payer.Address)
	var notConsolidated *notConsolidatedError
	if errors.As(err, &notConsolidated) {
		return false, d.refuseConsolidation(ctx, o, err)
	}
	if err != nil {
		return false, d.handleNoQuote(ctx, payer, *c, err)
	}
	need, err := fees.Max()
	if err == nil && o.exceedsFeeMax(need) {
		// Waiting would have no foreseeable end, and the customer cannot recall the order from
		// here.
		return false, d.refuseOrder(ctx, o, &signer.Refusal{
			Code:    FeeRefused,
			Message: fmt.Sprintf("the network fee can be up to %v, and the request allows %v", need, *o.FeeMax),
		})
	}
	if err == nil && !fees.Rent.IsZero() {
		if refusal, err := d.reviewRent(ctx, o, fees.Rent); err != nil {
			return false, err
		} else if refusal != nil {
			return false, d.refuseOrder(ctx, o, refusal)
		}
	}
	if err == nil && o.Kind().movesGas() {
		need, err = need.Add(o.Amount)
	}
	if err != nil {
		return false, fmt.Errorf("fee of order %s: %w", o.ID, err)
	}
	if missing := shortfall(need, c.gas.GasSpendable()); !missing.IsZero() {
		return false, d.leaveUnderfunded(ctx, o, WaitGas, c.nativeMintID, need, "the wallet cannot pay the fee yet")
	}

	failpoint.Hit("W05")
	entry, err := d.admitIntent(ctx, payer, *c)
	if entry == nil || err != nil {
		return false, err
	}
	failpoint.Hit("W07")
	return d.assignSlot(ctx, payer, acct, []candidate{*c}, fees, []signer.Entry{*entry})
}

// reviewRent returns what prevents a payment that creates an account for its payee, or nil. The
// hold for that rent never changes, so the answer still holds when the slot is assigned.
func (d *Worker) reviewRent(ctx context.Context, o Order, rent money.Amount) (refusal *signer.Refusal, err error) {
	reviewer, ok := d.listeners[o.Purpose].(Reviewer)
	if !ok {
		return nil, nil
	}
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		refusal, err = reviewer.ReviewRent(ctx, tx, o, rent)
		return err
	})
	return refusal, err
}

// admitIntent has the signer admit an order. It returns nil if the signer does not admit it, and
// has noted that then.
func (d *Worker) admitIntent(ctx context.Context, payer wallet.Wallet, c candidate) (*signer.Entry, error) {
	o := c.Order
	intent := buildIntent(o, c.source, c.toWallet)
	if c.source.ID != payer.ID {
		payerRef := payer.Ref()
		intent.Payer = &payerRef
	}
	if o.Kind().ReportsBalance {
		intent.WalletBalance = &signer.WalletBalance{Total: c.funds.OnAddress(), Flagged: c.funds.Held}
	}
	entry, err := d.signer.AdmitIntent(ctx, intent)
	var refusal *signer.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Code == signer.FeeLimit:
		// This limit passes with time and says nothing about this payment.
		d.raiseAlarm(
			ctx, o.ID, "the signer lets the wallet spend no more on fees today", "order", o.ID, "wallet", payer.ID,
			"why", refusal.Message,
		)
		return nil, d.leaveWaiting(ctx, o, WaitFeeLimit, money.Zero, refusal.Error())
	case errors.As(err, &refusal) && refusal.Code == signer.PolicyLimit && o.Batch != nil:
		// People approved the batch as a whole. Its rows go on when the window of the limit allows it, or when a
		// person raises the limit; who does not want to wait cancels the batch. Rule BP-11.
		d.raiseAlarm(
			ctx, o.ID, "a limit of the signer holds up a row of a batch payout", "order", o.ID, "why", refusal.Message,
		)
		return nil, d.leaveWaiting(ctx, o, WaitFeeLimit, money.Zero, refusal.Message)
	case errors.As(err, &refusal) && refusal.Code == signer.RefusedClock:
		d.raiseAlarm(
			ctx, o.ID, "the signer's clock has to be confirmed at its host before it makes payments with a time limit",
			"order", o.ID, "why", refusal.Message,
		)
		return nil, d.leaveWaiting(ctx, o, WaitClock, money.Zero, refusal.Error())
	case errors.As(err, &refusal) && refusal.Code == signer.RefusedLate:
		return nil, d.recallLate(ctx, o.ID)
	case errors.As(err, &refusal):
		return nil, d.refuseOrder(ctx, o, refusal)
	case err != nil:
		return nil, d.leaveWaiting(ctx, o, WaitSigner, money.Zero, err.Error())
	}
	return &entry, nil
}

func buildIntent(o Order, from wallet.Wallet, to *wallet.Wallet) signer.Intent {
	intent := signer.Intent{
		ID: o.ID, Purpose: o.Purpose, Chain: o.Chain, From: from.Ref(), To: o.To, Contract: o.Contract,
		Amount: o.Amount, CustomerID: o.CustomerID, Product: o.Product, WhitelistedID: o.WhitelistedID,
		MintID: o.MintID, IdempotencyKeyHash: o.KeyHash, FeeDeducted: o.FeeDeducted, Grant: o.Grant,
		Swap: o.Swap, Refund: o.Refund, Batch: o.Batch,
	}
	if o.FeeMax != nil {
		intent.FeeMax = *o.FeeMax
	}
	if to != nil {
		ref := to.Ref()
		intent.ToWallet = &ref
	}
	return intent
}

// shortfall returns how much available lacks of needed, or zero.
func shortfall(needed, available money.Amount) money.Amount {
	lacking, err := needed.Sub(available)
	if err != nil {
		return money.Zero
	}
	return lacking
}
