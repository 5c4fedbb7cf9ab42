package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/failpoint"
	"github.com/cofferpay/coffer/internal/finality"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/trace"
	"github.com/cofferpay/coffer/internal/wallet"
)

// OrdersPerTxMax is the most orders that share one slot, however many payments a transaction could
// make. All orders of a slot end together, and each adds to the rows that are locked at once.
const OrdersPerTxMax = 24

// queueReadMax bounds the orders that one round reads because they may share a transaction.
const queueReadMax = 96

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
	queue, err := d.loadDue(ctx, payer, max(limit, queueReadMax))
	if err != nil {
		return false, err
	}
	if d.groupSize(payer, queue) <= 1 {
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
		if err := d.proveFreeSlots(ctx, payer, acct); err != nil {
			return false, err
		}
	}
	for len(queue) > 0 && limit > 0 {
		var group []Order
		group, queue = d.nextGroup(payer, queue)
		slots, err := d.admitGroup(ctx, payer, *acct, group, limit)
		busy = busy || slots > 0
		limit -= slots
		if err != nil && !errors.Is(err, errLostRace) {
			return busy, fmt.Errorf("admit order %s: %w", strings.Join(orderIDs(group), ", "), err)
		}
	}
	return busy, nil
}

// loadDue returns the queued orders of a wallet that are due, the one whose last look is longest
// ago first.
func (d *Worker) loadDue(ctx context.Context, payer wallet.Wallet, limit int) (queue []Order, err error) {
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, selectOrders+` FROM dispatch_orders
			WHERE chain = $1 AND wallet_id = $2 AND status = 'QUEUED' AND attempt_after <= $3
			ORDER BY attempt_after, created_at, order_id LIMIT $4`, d.chain.Name, payer.ID, tx.Now, limit)
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

// errNoAccountState says that the providers did not return the state of an account.
var errNoAccountState = errors.New("read the state of the account")

// noteProvidersSilent notes that a wallet's queued orders wait for the providers, which did not
// answer about the slots before them. So people can end the waiting orders.
func (d *Worker) noteProvidersSilent(ctx context.Context, payer wallet.Wallet, cause error) error {
	queue, err := d.loadDue(ctx, payer, queueReadMax)
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
	return min(OrdersPerTxMax, d.chain.Sender.BatchSize(buildPayments(orders, payer.Address)))
}

// nextGroup splits off the first order of a queue and those that may share its slot. Only payments,
// sweeps and closes of token accounts share one, each with orders of the same purpose.
func (d *Worker) nextGroup(payer wallet.Wallet, queue []Order) (group, remaining []Order) {
	first := queue[0]
	if first.Purpose != signer.Payment && first.Purpose != signer.Sweep && first.Purpose != signer.CloseTokenAccount {
		return queue[:1], queue[1:]
	}
	var samePurpose []Order
	for _, o := range queue {
		if o.Purpose == first.Purpose {
			samePurpose = append(samePurpose, o)
		}
	}
	group = samePurpose[:max(1, d.groupSize(payer, samePurpose))]
	for _, o := range queue {
		if !slices.ContainsFunc(group, func(member Order) bool { return member.ID == o.ID }) {
			remaining = append(remaining, o)
		}
	}
	return group, remaining
}

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
	for _, c := range ordered {
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
	var reason string
	var refusal *signer.Refusal
	c := candidate{Order: o, source: payer}
	err := d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if reason, err = d.stopReason(ctx, tx, o); err != nil || reason != "" {
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
	if err != nil {
		return nil, err
	}
	if reason != "" {
		return nil, d.leaveWaiting(ctx, o, WaitFreeze, money.Zero, reason)
	}
	if refusal != nil {
		return nil, d.refuseOrder(ctx, o, refusal)
	}
	if o.Purpose == signer.CreateNonceAccount {
		switch free, taken, err := d.checkCreatable(ctx, acct, o); {
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
	} else if acct.KeyedSlots && d.chain.UTXO == nil {
		free, err := d.freeSlotKeys(ctx, acct)
		if err != nil {
			return nil, err
		}
		if free = d.withoutForeign(free); len(free) == 0 {
			return nil, d.leaveWaiting(
				ctx, o, WaitSlot, money.Zero,
				"every nonce account of its wallet on the chain is in use until the transaction in it is final",
			)
		}
		if len(d.provenSlots(acct, free)) == 0 {
			return nil, d.leaveWaiting(
				ctx, o, WaitSlot, money.Zero,
				"no free nonce account of its wallet on the chain is proven yet: "+d.unprovenReason(free),
			)
		}
	}
	if o.Purpose == signer.Payment {
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
	if err == nil && o.Purpose == signer.GasTopUp {
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
	if o.Purpose == signer.Sweep {
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
		return nil, d.leaveWaiting(ctx, o, WaitSigner, money.Zero, refusal.Error())
	case errors.As(err, &refusal) && refusal.Code == signer.RefusedClock:
		d.raiseAlarm(
			ctx, o.ID, "the signer's clock has to be confirmed at its host before it makes payments with a time limit",
			"order", o.ID, "why", refusal.Message,
		)
		return nil, d.leaveWaiting(ctx, o, WaitSigner, money.Zero, refusal.Error())
	case errors.As(err, &refusal):
		return nil, d.refuseOrder(ctx, o, refusal)
	case err != nil:
		return nil, d.leaveWaiting(ctx, o, WaitSigner, money.Zero, err.Error())
	}
	return &entry, nil
}

// assignSlot gives orders their slot, in the order of their ids. It returns false if they have to
// wait for it.
func (d *Worker) assignSlot(
	ctx context.Context, payer wallet.Wallet, acct chain.Account, candidates []candidate, fees chain.Fees,
	admitted []signer.Entry,
) (bool, error) {
	orders := candidateOrders(candidates)
	err := d.createSlot(ctx, payer, acct, orders, candidates[0].nativeMintID, fees, admitted)
	if err != nil && d.chain.UTXO != nil {
		if unhandled, waitErr := d.handleNoOutputs(ctx, orders, candidates[0].nativeMintID, err); unhandled == nil {
			return false, waitErr
		}
	}
	var waitReason WaitReason
	var stopped *stoppedError
	detail := ""
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &stopped):
		return false, d.leaveWaiting(ctx, stopped.order, WaitFreeze, money.Zero, stopped.reason)
	case errors.Is(err, errNoFreeSlotKey):
		waitReason, detail = WaitSlot, err.Error()
	case errors.Is(err, wallet.ErrInsufficient):
		// Another order of this wallet took the funds since they were read.
		waitReason, detail = WaitNone, "the wallet's funds are reserved for another order"
	default:
		return false, err
	}
	for _, o := range orders {
		if err := d.leaveWaiting(ctx, o, waitReason, money.Zero, detail); err != nil {
			return false, err
		}
	}
	return false, nil
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
	if o.Purpose == signer.GasTopUp || !wouldRevert {
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
	case o.Purpose != signer.Payment && o.Purpose != signer.Return:
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
	return d.leaveWaiting(ctx, o, WaitSimulation, money.Zero, reverted.Reason)
}

// usualCost returns the most that a usual transfer of an order takes at present from the gas of its
// wallet, in native units.
func (d *Worker) usualCost(ctx context.Context, o Order) (money.Amount, error) {
	fees, err := d.chain.Sender.TransferFees(ctx)
	if err != nil {
		return money.Zero, err
	}
	cost, err := fees.Max()
	if err == nil && (o.Purpose == signer.GasTopUp || o.Purpose == signer.CreateNonceAccount) {
		cost, err = cost.Add(o.Amount)
	}
	if err == nil && o.Purpose == signer.CreateNonceAccount { // it is the first order that a treasury gets
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

// stoppedError says that a freeze or quarantine stopped an order on its way to a slot.
type stoppedError struct {
	order  Order
	reason string
}

func (e *stoppedError) Error() string { return e.reason }

// stopReason returns what prevents an order from getting a slot, or "": a freeze, or the quarantine
// of its token, whose transfers may not do what they say.
func (d *Worker) stopReason(ctx context.Context, tx pg.Tx, o Order) (string, error) {
	if reason, err := d.freezeReason(ctx, tx, o); err != nil || reason != "" {
		return reason, err
	}
	var quarantine *string
	if err := tx.QueryRow(
		ctx, `SELECT quarantine_reason FROM mints WHERE mint_id = $1`, o.MintID,
	).Scan(&quarantine); err != nil {
		return "", fmt.Errorf("look for a quarantine of mint %d: %w", o.MintID, err)
	}
	if quarantine != nil {
		return "its token is quarantined: " + *quarantine, nil
	}
	return "", nil
}

// shortfall returns how much available lacks of needed, or zero.
func shortfall(needed, available money.Amount) money.Amount {
	lacking, err := needed.Sub(available)
	if err != nil {
		return money.Zero
	}
	return lacking
}

func buildIntent(o Order, from wallet.Wallet, to *wallet.Wallet) signer.Intent {
	intent := signer.Intent{
		ID: o.ID, Purpose: o.Purpose, Chain: o.Chain, From: from.Ref(), To: o.To, Contract: o.Contract,
		Amount: o.Amount, CustomerID: o.CustomerID, Product: o.Product, WhitelistedID: o.WhitelistedID,
		MintID: o.MintID, IdempotencyKeyHash: o.KeyHash, FeeDeducted: o.FeeDeducted, Grant: o.Grant,
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

// changeWalletTries is how often a slot is tried again after another slot got its change wallet.
const changeWalletTries = 5

// createSlot commits the slot together with the complete unsigned transaction. It reserves what the
// transaction moves and what it may cost. The first order becomes the lead.
func (d *Worker) createSlot(
	ctx context.Context, payer wallet.Wallet, acct chain.Account, orders []Order, native int, fees chain.Fees,
	admitted []signer.Entry,
) error {
	for range changeWalletTries {
		err := d.tryCreateSlot(ctx, payer, acct, orders, native, fees, admitted)
		if !pg.ViolatesConstraint(err, "dispatch_slots_change_once") {
			return err
		}
	}
	return errChangeWalletTaken
}

func (d *Worker) tryCreateSlot(
	ctx context.Context, payer wallet.Wallet, acct chain.Account, orders []Order, native int, fees chain.Fees,
	admitted []signer.Entry,
) error {
	lead := orders[0]
	cost, err := fees.Max()
	if err != nil {
		return fmt.Errorf("fee of order %s: %w", lead.ID, err)
	}
	payments := buildPayments(orders, payer.Address)
	var mints []int
	for _, o := range orders {
		mints = append(mints, o.MintID)
	}
	var change chain.Address
	if d.chain.UTXO != nil {
		acct.KeyedSlots = false // its slots are made of outputs
		if change, err = d.changeAddress(ctx, lead); err != nil {
			return err
		}
	}
	price := fees
	err = d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		// No freeze and no quarantine can come between here and the commit. The transaction that
		// creates one either waits until the slot is there, or is seen here.
		if err := freeze.LockShared(ctx, tx); err != nil {
			return err
		}
		if _, err := mint.Usable(ctx, tx, mints); err != nil {
			return err
		}
		for _, o := range orders { // by id
			if _, err := lockOrder(ctx, tx, o.ID); err != nil {
				return err
			}
			// Checked again: the chain and the signer took their time, and a customer's freeze no
			// longer applies once there is a slot.
			if reason, err := d.stopReason(ctx, tx, o); err != nil {
				return err
			} else if reason != "" {
				return &stoppedError{o, reason}
			}
		}
		if err := setStatus(ctx, tx, lead.ID, Queued, Slotted, ""); err != nil {
			return err
		}
		if len(orders) > 1 {
			if err := setStatuses(
				ctx, tx, orderIDs(orders[1:]), Queued, Slotted, "tx_lead_id = $4", lead.ID,
			); err != nil {
				return err
			}
		}
		chainSlot, proof, err := d.nextSlot(ctx, tx, payer, lead, acct)
		if err != nil {
			return err
		}
		if d.chain.UTXO != nil {
			if chainSlot.Key, fees, err = d.selectOutputs(
				ctx, tx, lead, native, change, price, payments...,
			); err != nil {
				return err
			}
			if cost, err = checkSlotCost(ctx, tx, orders, native, fees); err != nil {
				return err
			}
		}
		payload, err := d.chain.Sender.Build(payer.Address, chainSlot, fees, payments...)
		if err != nil {
			return fmt.Errorf("build order %s: %w", lead.ID, err)
		}
		moves := []wallet.Movement{{
			WalletID: payer.ID, OrgID: lead.OrgID, MintID: native, Part: wallet.GasReserved, Plus: cost,
		}}
		for _, o := range orders {
			switch o.Purpose {
			case signer.Payment: // a sweep or return reserved its amount when it was submitted
				moves = append(moves, wallet.Movement{
					WalletID: payer.ID, OrgID: o.OrgID, MintID: o.MintID, Part: wallet.Reserved, Plus: o.Amount,
				})
			case signer.GasTopUp:
				moves = append(moves, wallet.Movement{
					WalletID: payer.ID, OrgID: o.OrgID, MintID: native, Part: wallet.GasReserved, Plus: o.Amount,
				})
			}
		}
		if err := wallet.MoveFunds(ctx, tx, moves...); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
			INSERT INTO dispatch_slots (wallet_id, chain, nonce, slot_key, proof, org_id, order_id, gas_reserved, created_at, orders)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
			payer.ID, lead.Chain, chainSlot.Nonce, chainSlot.Key, proof, lead.OrgID, lead.ID, cost, tx.Now,
			len(orders)); err != nil {
			return fmt.Errorf("%v of order %s: %w", chainSlot, lead.ID, err)
		}
		if d.chain.UTXO != nil {
			if err := d.reserveOutputs(ctx, tx, lead, chainSlot); err != nil {
				return err
			}
		}
		if err := insertAttempt(ctx, tx, lead, 1, signer.Pay, reasonFirst, fees, payload); err != nil {
			return err
		}
		for _, e := range admitted {
			if err := d.mirror(ctx, tx, e); err != nil {
				return err
			}
		}
		for _, o := range orders {
			if err := recordAudit(ctx, tx, o, "slotted", slotDetail(chainSlot, o, lead)); err != nil {
				return err
			}
		}
		failpoint.HitBeforeCommit("W08")
		return nil
	})
	if err == nil {
		failpoint.Hit("W08")
	}
	return err
}

// slotDetail returns what the audit log records of a slot.
func slotDetail(chainSlot chain.Slot, o, lead Order) map[string]any {
	detail := map[string]any{"nonce": chainSlot.Nonce}
	if chainSlot.Key != "" {
		detail["lease"] = chainSlot.Key
	}
	if o.ID != lead.ID {
		detail["rides"] = lead.ID
	}
	return detail
}

// errNoFreeSlotKey says that other orders took the last free slot of a wallet.
var errNoFreeSlotKey = errors.New("every nonce account of its wallet on the chain was taken in the meantime")

// nextSlot returns the wallet's next slot, under the lock of the row that counts them. Where slots
// have keys, it picks a slot that is finally unused, that no order has, and that is proven. For the
// creation of a nonce account, the slot key is the address of that account.
func (d *Worker) nextSlot(
	ctx context.Context, tx pg.Tx, payer wallet.Wallet, o Order, acct chain.Account,
) (chainSlot chain.Slot, proof string, err error) {
	if chainSlot.Nonce, err = takeNonce(ctx, tx, payer, o.Chain); err != nil || !acct.KeyedSlots {
		return chainSlot, "", err
	}
	if o.Purpose == signer.CreateNonceAccount {
		chainSlot.Key = string(o.To)
		return chainSlot, "", nil
	}
	freeKeys, err := queryFreeSlotKeys(ctx, tx, o.Chain, acct)
	proven := d.provenSlots(acct, d.withoutForeign(freeKeys))
	if err == nil && len(proven) == 0 {
		err = errNoFreeSlotKey
	}
	if err != nil {
		return chainSlot, "", err
	}
	chainSlot.Key = proven[0].Final
	return chainSlot, proven[0].Proof, nil
}

// checkCreatable reports whether an order can create its nonce account. free: nothing exists at the
// address, in the latest block and finally. taken: something exists there, for good.
func (d *Worker) checkCreatable(ctx context.Context, acct chain.Account, o Order) (free, taken bool, err error) {
	if d.chain.NonceAccounts == nil {
		return false, false, fmt.Errorf("no nonce accounts can be created on %s", d.chain.Name)
	}
	chainSlot := chain.Slot{Key: string(o.To)}
	if latest, final := acct.IsUsed(chainSlot); latest || final {
		return false, final, nil
	}
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(
			ctx,
			`SELECT EXISTS (SELECT FROM dispatch_slots WHERE chain = $1 AND md5(slot_key) = md5($2::text)
				AND slot_key = $2)`,
			o.Chain, chainSlot.Key,
		).Scan(&taken)
	})
	if err != nil {
		return false, false, fmt.Errorf("which nonce accounts on %s exist: %w", o.Chain, err)
	}
	return !taken, taken, nil
}

// freeSlotKeys returns the keys of an account's slots that no order has.
func (d *Worker) freeSlotKeys(ctx context.Context, acct chain.Account) (slotKeys []string, err error) {
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		slotKeys, err = queryFreeSlotKeys(ctx, tx, d.chain.Name, acct)
		return err
	})
	return slotKeys, err
}

// queryFreeSlotKeys returns the slot keys of an account that are the same in the latest and the
// final block and that no order has, in the account's order. A slot key that was given out once is
// never given out again.
func queryFreeSlotKeys(ctx context.Context, tx pg.Tx, name chain.Name, acct chain.Account) (free []string, err error) {
	for _, l := range acct.Slots {
		if l.Latest == l.Final && l.Final != "" {
			free = append(free, l.Final)
		}
	}
	rows, err := tx.Query(ctx, `
		SELECT slot_key FROM dispatch_slots
		WHERE chain = $1 AND slot_key <> '' AND md5(slot_key) = ANY (ARRAY(SELECT md5(l) FROM unnest($2::text[]) l)) AND slot_key = ANY ($2)`,
		name, free)
	if err != nil {
		return nil, fmt.Errorf("which nonce accounts on %s are in use: %w", name, err)
	}
	taken, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("which nonce accounts on %s are in use: %w", name, err)
	}
	return slices.DeleteFunc(free, func(l string) bool { return slices.Contains(taken, l) }), nil
}

// takeNonce returns the wallet's next nonce, under the lock of the row that counts them.
func takeNonce(ctx context.Context, tx pg.Tx, payer wallet.Wallet, name chain.Name) (uint64, error) {
	var nonce uint64
	err := tx.QueryRow(ctx, `
		INSERT INTO dispatch_accounts AS a (wallet_id, chain, org_id, next_nonce) VALUES ($1, $2, $3, 1)
		ON CONFLICT (wallet_id, chain) DO UPDATE SET next_nonce = a.next_nonce + 1
		RETURNING next_nonce - 1`, payer.ID, name, payer.OrgID).Scan(&nonce)
	if err != nil {
		return 0, fmt.Errorf("take a nonce of wallet %s: %w", payer.ID, err)
	}
	return nonce, nil
}

func loadNativeMint(ctx context.Context, tx pg.Tx, name chain.Name) (int, error) {
	var id int
	if err := tx.QueryRow(
		ctx, `SELECT mint_id FROM mints WHERE chain = $1 AND contract = ''`, name,
	).Scan(&id); err != nil {
		return 0, fmt.Errorf("native coin of %s: %w", name, err)
	}
	return id, nil
}

const (
	simulationAgeDivisor = 16              // an order that would revert waits for this fraction of its age
	simulationWaitMax    = 2 * time.Minute // and never longer than this
)

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
// order lock that FundsArrived takes too. What was read before the chain was asked may be stale,
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
		if waitReason == WaitGas {
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
	delay := d.conf.RetryAfter
	if waitReason == WaitSimulation {
		// The cause may last for days: the longer it lasts, the less often dispatch looks.
		delay = max(delay, min(tx.Now.Sub(o.CreatedAt)/simulationAgeDivisor, simulationWaitMax))
	}
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
	switch refusal.Code {
	case signer.PolicyLimit, signer.CoolingOff:
		d.log.Warn("the signer's policy refuses an order", "order", o.ID, "why", refusal.Message)
	case FeeRefused:
		d.log.Info("an order is returned because of its fee", "order", o.ID, "why", refusal.Message)
	case ConsolidationRefused:
		d.log.Info("outputs are not consolidated now", "order", o.ID, "why", refusal.Message)
	case NonceAccountTaken:
		d.log.Warn(
			"cannot create a nonce account: its address is in use, and its number is permanently left out",
			"order", o.ID,
			"at", string(o.To),
		)
	case AmountRefused:
		d.log.Warn(
			"the chain would refuse a payment because of its amount", "order", o.ID, "payee", string(o.To),
			"amount", o.Amount.String(), "why", refusal.Message,
		)
	case PayeeFailed, CustomerCostLimit, RentNotHeld:
		d.log.Warn(
			"a payment is returned to a person before it is signed", "order", o.ID, "code", refusal.Code,
			"why", refusal.Message,
		)
	case PayeeRefused:
		d.log.Warn(
			"the chain would refuse a payment because of its payee", "order", o.ID, "payee", string(o.To),
			"why", refusal.Message,
		)
	default:
		d.log.Error(
			"the signer refuses a contradictory order", "order", o.ID, "code", refusal.Code, "why", refusal.Message,
		)
	}
	if refusal.Code == signer.RefusedKey {
		// A database as recent as the journal would hold the other payment.
		if err := d.freezeAll(ctx, refusal.Message); err != nil {
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
		if err := setStatus(
			ctx, tx, o.ID, Queued, Refused, "last_error = $4", truncateError(refusal.Error()),
		); err != nil {
			return err
		}
		if err := d.listeners[o.Purpose].OnRefused(ctx, tx, o, refusal); err != nil {
			return err
		}
		return recordAudit(ctx, tx, o, "refused", map[string]any{"code": refusal.Code, "why": refusal.Message})
	})
}

// freezeAll freezes everything, because the signer's journal contains what this database does not.
// The journal watch would do the same some seconds later.
func (d *Worker) freezeAll(ctx context.Context, reason string) error {
	err := d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeAll, Source: freeze.SourceSigner, Reason: reason,
		})
	})
	if err != nil {
		return fmt.Errorf("freeze everything: %w", err)
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
