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
	"github.com/cofferpay/coffer/internal/crash"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/trace"
	"github.com/cofferpay/coffer/internal/wallet"
)

// TogetherMax is the most orders that one slot is given to, whatever a transaction could
// make: what stands in one place ends together, and each adds to what locks at once.
const TogetherMax = 24

// queueMax bounds what is looked at in one round because it may go together.
const queueMax = 96

// admit gives slots to a wallet's queued orders as far as limit allows, the one
// that has waited longest for a look first. An order that has to wait does not
// hold up the ones behind it: by age alone, a few old ones that are looked at
// again and again would keep the desk from ever reaching the others.
//
// Where a transaction makes several payments, orders of one purpose have a slot
// together. acct is where the account stands, unless nobody has asked yet.
func (d *Desk) admit(ctx context.Context, from wallet.Wallet, limit int, acct *chain.Account) (busy bool, err error) {
	if limit <= 0 {
		return false, nil
	}
	queue, err := d.due(ctx, from, max(limit, queueMax))
	if err != nil {
		return false, err
	}
	if d.fits(from, queue) <= 1 {
		queue = queue[:min(len(queue), limit)]
	}
	if len(queue) > 0 && acct == nil {
		// A slot whose nonce the chain has used already could never be paid from,
		// and would hold up every slot after it.
		asked, err := d.chain.Sender.Account(ctx, from.Address)
		if err != nil {
			return false, d.waitForChain(ctx, queue, err)
		}
		if err := d.guardNonce(ctx, from, asked); err != nil {
			return false, err
		}
		acct = &asked
	}
	if len(queue) > 0 {
		if err := d.prove(ctx, from, acct); err != nil {
			return false, err
		}
	}
	for len(queue) > 0 && limit > 0 {
		var group []Order
		group, queue = d.group(from, queue)
		slots, err := d.admitGroup(ctx, from, *acct, group, limit)
		busy = busy || slots > 0
		limit -= slots
		if err != nil && !errors.Is(err, errLost) {
			return busy, fmt.Errorf("admit order %s: %w", strings.Join(idsOf(group), ", "), err)
		}
	}
	return busy, nil
}

// due are the queued orders of a wallet that are to be looked at now, the one that has
// waited longest for a look first.
func (d *Desk) due(ctx context.Context, from wallet.Wallet, limit int) (queue []Order, err error) {
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, selectOrders+` FROM dispatch_orders
			WHERE chain = $1 AND wallet_id = $2 AND status = 'QUEUED' AND attempt_after <= $3
			ORDER BY attempt_after, created_at, order_id LIMIT $4`, d.chain.Name, from.ID, tx.Now, limit)
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

// errUnheard says that the providers did not say where an account stands.
var errUnheard = errors.New("ask where the account stands")

// unheard writes down that a wallet's queued orders wait for the providers, which did not
// answer for what has a slot before them: people can end what waits.
func (d *Desk) unheard(ctx context.Context, from wallet.Wallet, why error) error {
	queue, err := d.due(ctx, from, queueMax)
	if err != nil {
		return err
	}
	return d.waitForChain(ctx, queue, why)
}

func (d *Desk) waitForChain(ctx context.Context, queue []Order, why error) error {
	for _, o := range queue {
		if err := d.wait(ctx, o, WantChain, money.Zero, why.Error()); err != nil {
			return err
		}
	}
	return nil
}

// fits is how many of orders, from the first one on, one transaction could pay.
func (d *Desk) fits(from wallet.Wallet, orders []Order) int {
	if len(orders) < 2 {
		return len(orders)
	}
	return min(TogetherMax, d.chain.Sender.Fits(paymentsOf(orders, from.Address)))
}

// group takes from a queue its first order and those that may have a slot with it, which
// are of the same purpose: payments, sweeps or closes.
func (d *Desk) group(from wallet.Wallet, queue []Order) (group, rest []Order) {
	first := queue[0]
	if first.Purpose != signer.Payment && first.Purpose != signer.Sweep && first.Purpose != signer.Close {
		return queue[:1], queue[1:]
	}
	var same []Order
	for _, o := range queue {
		if o.Purpose == first.Purpose {
			same = append(same, o)
		}
	}
	group = same[:max(1, d.fits(from, same))]
	for _, o := range queue {
		if !slices.ContainsFunc(group, func(g Order) bool { return g.ID == o.ID }) {
			rest = append(rest, o)
		}
	}
	return group, rest
}

// admitGroup gives orders a slot together, as far as they can have one, and says how many
// slots that took, at most limit. What the chain does not take together, or what is too dear
// for one of them, is tried in halves: one that would revert holds up no other.
func (d *Desk) admitGroup(ctx context.Context, from wallet.Wallet, acct chain.Account, group []Order, limit int) (slots int, err error) {
	if limit <= 0 || len(group) == 0 {
		return 0, nil
	}
	if len(group) == 1 {
		slotted, err := d.admitOne(ctx, from, acct, group[0])
		if slotted {
			slots = 1
		}
		return slots, err
	}
	var ready []candidate
	promised := map[int]money.Amount{}
	for _, o := range group {
		c, err := d.candidate(ctx, from, acct, o, promised)
		if err != nil {
			return 0, fmt.Errorf("look at order %s: %w", o.ID, err)
		}
		if c != nil {
			ready = append(ready, *c)
		}
	}
	if len(ready) < 2 {
		return d.admitGroup(ctx, from, acct, ordersOf(ready), limit)
	}
	together := slices.Clone(ready)
	slices.SortFunc(together, func(a, b candidate) int { return cmp.Compare(a.ID, b.ID) })
	fees, err := d.chain.Sender.Quote(ctx, paymentsOf(ordersOf(together), from.Address)...)
	if err == nil {
		err = d.affords(together, fees)
	}
	if err != nil {
		half := (len(ready) + 1) / 2
		slots, err = d.admitGroup(ctx, from, acct, ordersOf(ready[:half]), limit)
		if err != nil && !errors.Is(err, errLost) {
			return slots, err
		}
		more, err := d.admitGroup(ctx, from, acct, ordersOf(ready[half:]), limit-slots)
		return slots + more, err
	}
	crash.Point("W05")
	var entries []signer.Entry
	var admitted []Order
	for _, c := range together {
		entry, err := d.admitIntent(ctx, from, c)
		if err != nil {
			return 0, fmt.Errorf("admit order %s: %w", c.ID, err)
		}
		if entry != nil {
			entries, admitted = append(entries, *entry), append(admitted, c.Order)
		}
	}
	if len(admitted) < len(together) {
		// What is left is another transaction. What was admitted is admitted again.
		return d.admitGroup(ctx, from, acct, admitted, limit)
	}
	crash.Point("W07")
	slotted, err := d.slotted(ctx, from, acct, together, fees, entries)
	if errors.Is(err, errTogether) { // fewer coins, or less of a fee for one of them, may do
		half := (len(ready) + 1) / 2
		if slots, err = d.admitGroup(ctx, from, acct, ordersOf(ready[:half]), limit); err != nil && !errors.Is(err, errLost) {
			return slots, err
		}
		more, err := d.admitGroup(ctx, from, acct, ordersOf(ready[half:]), limit-slots)
		return slots + more, err
	}
	if slotted {
		slots = 1
	}
	return slots, err
}

// affords is an error unless each of orders may cost its part of fees, and their wallet
// has the gas for all.
func (d *Desk) affords(together []candidate, fees chain.Fees) error {
	need, err := fees.Max()
	if err != nil {
		return err
	}
	part := signer.Part(need, len(together))
	for _, c := range together {
		if c.dear(part) {
			return fmt.Errorf("order %s allows %v, and its part may be %v", c.ID, *c.FeeMax, part)
		}
	}
	if !missing(need, together[0].gas.GasSpendable()).IsZero() {
		return fmt.Errorf("%v of gas is more than the wallet has", need)
	}
	return nil
}

// A candidate is a queued order that nothing in the database stands against.
type candidate struct {
	Order
	native int
	funds  wallet.Funds   // of the order's mint
	gas    wallet.Funds   // of the chain's native coin
	to     *wallet.Wallet // receives, when it is ours
	holder wallet.Wallet  // whose amount it is
}

func ordersOf(cs []candidate) []Order {
	orders := make([]Order, len(cs))
	for i, c := range cs {
		orders[i] = c.Order
	}
	return orders
}

// candidate looks at an order in the database; nil when it has to wait, which is written
// down then. promised is what others that go with it take of its wallet, by mint, and
// grows by it.
func (d *Desk) candidate(ctx context.Context, from wallet.Wallet, acct chain.Account, o Order, promised map[int]money.Amount) (*candidate, error) {
	var reason string
	var refusal *signer.Refusal
	c := candidate{Order: o, holder: from}
	err := d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if reason, err = d.barred(ctx, tx, o); err != nil || reason != "" {
			return err
		}
		if reviewer, ok := d.listeners[o.Purpose].(Reviewer); ok {
			if refusal, err = reviewer.Review(ctx, tx, o); err != nil || refusal != nil {
				return err
			}
		}
		if c.native, err = nativeMint(ctx, tx, o.Chain); err != nil {
			return err
		}
		if o.FromID != "" {
			if c.holder, err = wallet.ByID(ctx, tx, o.FromID); err != nil {
				return err
			}
		}
		if c.funds, err = wallet.FundsOf(ctx, tx, c.holder.ID, o.MintID); err != nil {
			return err
		}
		if c.gas, err = wallet.FundsOf(ctx, tx, from.ID, c.native); err != nil {
			return err
		}
		if o.ToWalletID != "" {
			w, err := wallet.ByID(ctx, tx, o.ToWalletID)
			c.to = &w
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if reason != "" {
		return nil, d.wait(ctx, o, WantFreeze, money.Zero, reason)
	}
	if refusal != nil {
		return nil, d.refuse(ctx, o, refusal)
	}
	if o.Purpose == signer.Place {
		switch free, taken, err := d.site(ctx, acct, o); {
		case err != nil:
			return nil, err
		case taken:
			return nil, d.refuse(ctx, o, &signer.Refusal{Code: PlaceTaken, Message: fmt.Sprintf("there is something at %s already, so no place can be made there", o.To)})
		case !free:
			return nil, d.wait(ctx, o, WantSlot, money.Zero, "it is not final yet whether there is something where it would make a place")
		}
	} else if acct.Leased && d.chain.Pool == nil {
		free, err := d.free(ctx, acct)
		if err != nil {
			return nil, err
		}
		if free = d.sound(free); len(free) == 0 {
			return nil, d.wait(ctx, o, WantSlot, money.Zero, "every place that its wallet has on the chain is taken until what took it is final")
		}
		if len(d.proven(acct, free)) == 0 {
			return nil, d.wait(ctx, o, WantSlot, money.Zero, "no free place of its wallet on the chain is proven yet: "+d.unproven(free))
		}
	}
	if o.Purpose == signer.Payment {
		all, err := promised[o.MintID].Add(o.Amount)
		if err != nil || !missing(all, c.funds.Spendable()).IsZero() {
			return nil, d.lacks(ctx, o, WantFunds, o.MintID, o.Amount, "the wallet does not hold the amount yet")
		}
		promised[o.MintID] = all
	}
	return &c, nil
}

func (d *Desk) admitOne(ctx context.Context, from wallet.Wallet, acct chain.Account, o Order) (slotted bool, err error) {
	ctx, span := trace.About(ctx, "dispatch admit", o.ID)
	defer func() { span.End(err) }()
	c, err := d.candidate(ctx, from, acct, o, map[int]money.Amount{})
	if c == nil || err != nil {
		return false, err
	}
	fees, err := d.offered(ctx, o, from.Address)
	var not *unmergedError
	if errors.As(err, &not) {
		return false, d.unmerged(ctx, o, err)
	}
	if err != nil {
		return false, d.unquoted(ctx, from, *c, err)
	}
	need, err := fees.Max()
	if err == nil && o.dear(need) {
		// Waiting would be without an end that anybody knows, and its customer cannot
		// take it back from here.
		return false, d.refuse(ctx, o, &signer.Refusal{Code: FeeRefused, Message: fmt.Sprintf("the network may take up to %v, and the request allows %v", need, *o.FeeMax)})
	}
	if err == nil && !fees.Rent.IsZero() {
		if refusal, err := d.rentRefused(ctx, o, fees.Rent); err != nil {
			return false, err
		} else if refusal != nil {
			return false, d.refuse(ctx, o, refusal)
		}
	}
	if err == nil && o.Purpose == signer.Gas {
		need, err = need.Add(o.Amount)
	}
	if err != nil {
		return false, fmt.Errorf("fee of order %s: %w", o.ID, err)
	}
	if short := missing(need, c.gas.GasSpendable()); !short.IsZero() {
		return false, d.lacks(ctx, o, WantGas, c.native, need, "the wallet cannot pay the fee yet")
	}

	crash.Point("W05")
	entry, err := d.admitIntent(ctx, from, *c)
	if entry == nil || err != nil {
		return false, err
	}
	crash.Point("W07")
	return d.slotted(ctx, from, acct, []candidate{*c}, fees, []signer.Entry{*entry})
}

// rentRefused is what stands against a payment that makes an account for its payee. What was
// held for that is fixed, so the answer is that of the moment of the slot.
func (d *Desk) rentRefused(ctx context.Context, o Order, rent money.Amount) (r *signer.Refusal, err error) {
	reviewer, ok := d.listeners[o.Purpose].(Reviewer)
	if !ok {
		return nil, nil
	}
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		r, err = reviewer.ReviewRent(ctx, tx, o, rent)
		return err
	})
	return r, err
}

// admitIntent has the signer admit an order; nil when it does not, which is written down
// then.
func (d *Desk) admitIntent(ctx context.Context, from wallet.Wallet, c candidate) (*signer.Entry, error) {
	o := c.Order
	intent := intentOf(o, c.holder, c.to)
	if c.holder.ID != from.ID {
		payer := from.Ref()
		intent.Payer = &payer
	}
	if o.Purpose == signer.Sweep {
		intent.Holds = &signer.Holds{Has: c.funds.Standing(), Flagged: c.funds.Held}
	}
	entry, err := d.signer.Admit(ctx, intent)
	var refusal *signer.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Code == signer.FeeLimit:
		// It passes with time and says nothing about this payment.
		d.alarm(ctx, o.ID, "the signer lets a wallet spend nothing more on fees today", "order", o.ID, "wallet", from.ID, "why", refusal.Message)
		return nil, d.wait(ctx, o, WantSigner, money.Zero, refusal.Error())
	case errors.As(err, &refusal) && refusal.Code == signer.RefusedClock:
		d.alarm(ctx, o.ID, "the signer's clock has to be confirmed at its host before it pays what is limited by time", "order", o.ID, "why", refusal.Message)
		return nil, d.wait(ctx, o, WantSigner, money.Zero, refusal.Error())
	case errors.As(err, &refusal):
		return nil, d.refuse(ctx, o, refusal)
	case err != nil:
		return nil, d.wait(ctx, o, WantSigner, money.Zero, err.Error())
	}
	return &entry, nil
}

// slotted gives orders their slot, in the order of their ids, and is false when they have
// to wait for it.
func (d *Desk) slotted(ctx context.Context, from wallet.Wallet, acct chain.Account, together []candidate, fees chain.Fees, admitted []signer.Entry) (bool, error) {
	orders := ordersOf(together)
	err := d.slot(ctx, from, acct, orders, together[0].native, fees, admitted)
	if err != nil && d.chain.Pool != nil {
		if other, waits := d.uncoined(ctx, orders, together[0].native, err); other == nil {
			return false, waits
		}
	}
	var want Want
	var barred *barredError
	why := ""
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &barred):
		return false, d.wait(ctx, barred.order, WantFreeze, money.Zero, barred.why)
	case errors.Is(err, errNoLease):
		want, why = WantSlot, err.Error()
	case errors.Is(err, wallet.ErrShort):
		// Another order of this wallet took it between the reading and here.
		want, why = WantNothing, "the wallet's funds are promised to another order"
	default:
		return false, err
	}
	for _, o := range orders {
		if err := d.wait(ctx, o, want, money.Zero, why); err != nil {
			return false, err
		}
	}
	return false, nil
}

// unquoted leaves or ends an order for which the chain offers no fees. What is refused for
// its payee or its amount goes back to people, whom no waiting would spare the decision.
// What is refused for the token or the wallet as a whole waits: it ends by itself or by
// what somebody else does.
func (d *Desk) unquoted(ctx context.Context, from wallet.Wallet, c candidate, why error) error {
	o, native, gas := c.Order, c.native, c.gas
	var feeShort *chain.FeeShortError
	if errors.As(why, &feeShort) && !missing(feeShort.Fee, gas.GasSpendable()).IsZero() {
		return d.lacks(ctx, o, WantGas, native, feeShort.Fee, "the wallet cannot pay for it yet: "+why.Error())
	}
	var reverted *chain.RevertedError
	wouldRevert := errors.As(why, &reverted)
	// A node tries a transaction out only when the wallet could pay for it, and says
	// what it lacks in its own way: as a revert, or as an error like any other. The
	// books know.
	if o.Purpose == signer.Gas || !wouldRevert {
		if usual, err := d.usualCost(ctx, o); err == nil && !missing(usual, gas.GasSpendable()).IsZero() {
			return d.lacks(ctx, o, WantGas, native, usual, "the wallet cannot pay for it yet: "+why.Error())
		}
	}
	switch {
	case !wouldRevert && gas.GasSpendable().IsZero():
		return d.lacks(ctx, o, WantGas, native, money.Units(1), "the wallet has no gas yet: "+why.Error())
	case !wouldRevert:
		return d.wait(ctx, o, WantChain, money.Zero, why.Error())
	case o.Purpose != signer.Payment && o.Purpose != signer.Return:
		return d.wait(ctx, o, WantSimulation, money.Zero, reverted.Reason)
	}
	cause, err := d.cause(ctx, from, c, reverted)
	switch {
	case err != nil:
		return d.wait(ctx, o, WantChain, money.Zero, err.Error())
	case cause == chain.CausePayee:
		return d.refuse(ctx, o, &signer.Refusal{Code: PayeeRefused, Message: reverted.Reason})
	case cause == chain.CauseAmount:
		return d.refuse(ctx, o, &signer.Refusal{Code: AmountRefused, Message: reverted.Reason})
	case cause == chain.CauseFunds: // the books have it, so the provider is behind
		return d.wait(ctx, o, WantChain, money.Zero, reverted.Reason)
	}
	return d.wait(ctx, o, WantSimulation, money.Zero, reverted.Reason)
}

// usualCost is the most that a usual transfer of an order takes from the gas of its
// wallet as things stand.
func (d *Desk) usualCost(ctx context.Context, o Order) (money.Amount, error) {
	fees, err := d.chain.Sender.TransferFees(ctx)
	if err != nil {
		return money.Zero, err
	}
	cost, err := fees.Max()
	if err == nil && (o.Purpose == signer.Gas || o.Purpose == signer.Place) {
		cost, err = cost.Add(o.Amount)
	}
	if err == nil && o.Purpose == signer.Place { // it is the first that is asked of a treasury
		cost, err = cost.Add(d.chain.Keeps)
	}
	return cost, err
}

// cause is what the refusal of a payment is about. Where the chain does not tell it is found
// by payments from the wallet to itself: when the same amount would pass, it is the payee;
// when another would, one unit or all that the wallet has, it is the amount; and when none
// would, it is the token or the wallet, as while a token is paused. An error leaves it open.
func (d *Desk) cause(ctx context.Context, from wallet.Wallet, c candidate, refused *chain.RevertedError) (chain.Cause, error) {
	if refused.Cause != chain.CauseUnknown {
		return refused.Cause, nil
	}
	found := chain.CausePayee
	for _, amount := range []money.Amount{c.Amount, money.Units(1), c.funds.Spendable()} {
		if amount.IsZero() {
			continue
		}
		p := c.payment(from.Address)
		p.To, p.Amount = from.Address, amount
		_, err := d.chain.Sender.Quote(ctx, p)
		var reverted *chain.RevertedError
		switch {
		case err == nil:
			return found, nil
		case !errors.As(err, &reverted):
			return "", fmt.Errorf("%s, and what that is about is unknown: %w", refused.Reason, err)
		}
		found = chain.CauseAmount
	}
	return chain.CauseAccount, nil
}

// barredError says that something was stopped while an order was on its way to a slot.
type barredError struct {
	order Order
	why   string
}

func (e *barredError) Error() string { return e.why }

// barred tells what stands against giving an order a slot, or "": a freeze, or
// the quarantine of its token, whose transfers may not do what they say.
func (d *Desk) barred(ctx context.Context, tx pg.Tx, o Order) (string, error) {
	if why, err := d.stopped(ctx, tx, o); err != nil || why != "" {
		return why, err
	}
	var quarantine *string
	if err := tx.QueryRow(ctx, `SELECT quarantine_reason FROM mints WHERE mint_id = $1`, o.MintID).Scan(&quarantine); err != nil {
		return "", fmt.Errorf("look for a quarantine of mint %d: %w", o.MintID, err)
	}
	if quarantine != nil {
		return "its token is under quarantine: " + *quarantine, nil
	}
	return "", nil
}

// missing is what have lacks of want.
func missing(want, have money.Amount) money.Amount {
	short, err := want.Sub(have)
	if err != nil {
		return money.Zero
	}
	return short
}

func intentOf(o Order, from wallet.Wallet, to *wallet.Wallet) signer.Intent {
	i := signer.Intent{
		ID: o.ID, Purpose: o.Purpose, Chain: o.Chain, From: from.Ref(), To: o.To, Contract: o.Contract, Amount: o.Amount,
		CustomerID: o.CustomerID, Product: o.Product, WhitelistedID: o.WhitelistedID, MintID: o.MintID, IdempotencyKeyHash: o.KeyHash, FeeDeducted: o.FeeDeducted, Grant: o.Grant,
	}
	if o.FeeMax != nil {
		i.FeeMax = *o.FeeMax
	}
	if to != nil {
		ref := to.Ref()
		i.ToWallet = &ref
	}
	return i
}

// restTries is how often a slot is tried whose wallet for the rest another one got.
const restTries = 5

// slot commits the slot together with the complete unsigned transaction, and
// reserves what it moves and what it may cost. The first of the orders leads.
func (d *Desk) slot(ctx context.Context, from wallet.Wallet, acct chain.Account, orders []Order, native int, fees chain.Fees, admitted []signer.Entry) error {
	for range restTries {
		err := d.slotOnce(ctx, from, acct, orders, native, fees, admitted)
		if !pg.Violates(err, "dispatch_slots_change_once") {
			return err
		}
	}
	return errRestTaken
}

func (d *Desk) slotOnce(ctx context.Context, from wallet.Wallet, acct chain.Account, orders []Order, native int, fees chain.Fees, admitted []signer.Entry) error {
	lead := orders[0]
	cost, err := fees.Max()
	if err != nil {
		return fmt.Errorf("fee of order %s: %w", lead.ID, err)
	}
	payments := paymentsOf(orders, from.Address)
	var mints []int
	for _, o := range orders {
		mints = append(mints, o.MintID)
	}
	var change chain.Address
	if d.chain.Pool != nil {
		acct.Leased = false // its places are made of coins
		if change, err = d.rest(ctx, lead); err != nil {
			return err
		}
	}
	price := fees
	err = d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		// Neither a freeze nor a quarantine can come between here and the commit: who
		// puts one waits until the slot is there, or is seen.
		if err := freeze.Hold(ctx, tx); err != nil {
			return err
		}
		if _, err := mint.Sound(ctx, tx, mints); err != nil {
			return err
		}
		for _, o := range orders { // by their ids
			if _, err := lockOrder(ctx, tx, o.ID); err != nil {
				return err
			}
			// Asked again: the chain and the signer took their time, and a customer's
			// freeze is not obeyed any more once there is a slot.
			if why, err := d.barred(ctx, tx, o); err != nil {
				return err
			} else if why != "" {
				return &barredError{o, why}
			}
		}
		if err := become(ctx, tx, lead.ID, Queued, Slotted, ""); err != nil {
			return err
		}
		if len(orders) > 1 {
			if err := becomeAll(ctx, tx, idsOf(orders[1:]), Queued, Slotted, "rides_id = $4", lead.ID); err != nil {
				return err
			}
		}
		at, proof, err := d.take(ctx, tx, from, lead, acct)
		if err != nil {
			return err
		}
		if d.chain.Pool != nil {
			if at.Lease, fees, err = d.choose(ctx, tx, lead, native, change, price, payments...); err != nil {
				return err
			}
			if cost, err = costs(ctx, tx, orders, native, fees); err != nil {
				return err
			}
		}
		payload, err := d.chain.Sender.Build(from.Address, at, fees, payments...)
		if err != nil {
			return fmt.Errorf("build order %s: %w", lead.ID, err)
		}
		moves := []wallet.Movement{{WalletID: from.ID, OrgID: lead.OrgID, MintID: native, Part: wallet.GasReserved, Plus: cost}}
		for _, o := range orders {
			switch o.Purpose {
			case signer.Payment: // a sweep or return reserved its amount when it was placed
				moves = append(moves, wallet.Movement{WalletID: from.ID, OrgID: o.OrgID, MintID: o.MintID, Part: wallet.Reserved, Plus: o.Amount})
			case signer.Gas:
				moves = append(moves, wallet.Movement{WalletID: from.ID, OrgID: o.OrgID, MintID: native, Part: wallet.GasReserved, Plus: o.Amount})
			}
		}
		if err := wallet.Move(ctx, tx, moves...); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
			INSERT INTO dispatch_slots (wallet_id, chain, nonce, lease, proof, org_id, order_id, gas_reserved, created_at, orders)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`, from.ID, lead.Chain, at.Nonce, at.Lease, proof, lead.OrgID, lead.ID, cost, tx.Now, len(orders)); err != nil {
			return fmt.Errorf("%v of order %s: %w", at, lead.ID, err)
		}
		if d.chain.Pool != nil {
			if err := d.reserve(ctx, tx, lead, at); err != nil {
				return err
			}
		}
		if err := insertAttempt(ctx, tx, lead, 1, signer.Pay, forFirst, fees, payload); err != nil {
			return err
		}
		for _, e := range admitted {
			if err := d.mirror(ctx, tx, e); err != nil {
				return err
			}
		}
		for _, o := range orders {
			if err := remember(ctx, tx, o, "slotted", slotted(at, o, lead)); err != nil {
				return err
			}
		}
		crash.Committing("W08")
		return nil
	})
	if err == nil {
		crash.Point("W08")
	}
	return err
}

// slotted is what the audit log remembers of a slot.
func slotted(at chain.Slot, o, lead Order) map[string]any {
	detail := map[string]any{"nonce": at.Nonce}
	if at.Lease != "" {
		detail["lease"] = at.Lease
	}
	if o.ID != lead.ID {
		detail["rides"] = lead.ID
	}
	return detail
}

// errNoLease says that another order took the last place of a wallet.
var errNoLease = errors.New("every place that its wallet has on the chain was taken meanwhile")

// take is the wallet's next slot, under the row that counts them. Where the chain
// leases places it is one that nothing has taken, finally, that no order of ours has, and
// that is proven; for what makes a place it is where that will be.
func (d *Desk) take(ctx context.Context, tx pg.Tx, from wallet.Wallet, o Order, acct chain.Account) (at chain.Slot, proof string, err error) {
	if at.Nonce, err = takeNonce(ctx, tx, from, o.Chain); err != nil || !acct.Leased {
		return at, "", err
	}
	if o.Purpose == signer.Place {
		at.Lease = string(o.To)
		return at, "", nil
	}
	free, err := unleased(ctx, tx, o.Chain, acct)
	proven := d.proven(acct, d.sound(free))
	if err == nil && len(proven) == 0 {
		err = errNoLease
	}
	if err != nil {
		return at, "", err
	}
	at.Lease = proven[0].Final
	return at, proven[0].Proof, nil
}

// site tells whether an order can make its place: nothing is there, in the latest block
// and finally; or that something is, for good.
func (d *Desk) site(ctx context.Context, acct chain.Account, o Order) (free, taken bool, err error) {
	if d.chain.Places == nil {
		return false, false, fmt.Errorf("there are no places to be made on %s", d.chain.Name)
	}
	at := chain.Slot{Lease: string(o.To)}
	if latest, final := acct.Used(at); latest || final {
		return false, final, nil
	}
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM dispatch_slots WHERE chain = $1 AND md5(lease) = md5($2::text) AND lease = $2)`, o.Chain, at.Lease).Scan(&taken)
	})
	if err != nil {
		return false, false, fmt.Errorf("which places on %s are made: %w", o.Chain, err)
	}
	return !taken, taken, nil
}

// free are the places of an account that no order has.
func (d *Desk) free(ctx context.Context, acct chain.Account) (leases []string, err error) {
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		leases, err = unleased(ctx, tx, d.chain.Name, acct)
		return err
	})
	return leases, err
}

// unleased are the places of an account that are as they are finally, without those of
// orders, in the account's order. What was given out once is never given out again.
func unleased(ctx context.Context, tx pg.Tx, name chain.Name, acct chain.Account) (free []string, err error) {
	for _, l := range acct.Leases {
		if l.Latest == l.Final && l.Final != "" {
			free = append(free, l.Final)
		}
	}
	rows, err := tx.Query(ctx, `
		SELECT lease FROM dispatch_slots
		WHERE chain = $1 AND lease <> '' AND md5(lease) = ANY (ARRAY(SELECT md5(l) FROM unnest($2::text[]) l)) AND lease = ANY ($2)`, name, free)
	if err != nil {
		return nil, fmt.Errorf("which places on %s are taken: %w", name, err)
	}
	taken, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("which places on %s are taken: %w", name, err)
	}
	return slices.DeleteFunc(free, func(l string) bool { return slices.Contains(taken, l) }), nil
}

// takeNonce is the wallet's next number, under the row that counts them.
func takeNonce(ctx context.Context, tx pg.Tx, from wallet.Wallet, name chain.Name) (uint64, error) {
	var next uint64
	err := tx.QueryRow(ctx, `
		INSERT INTO dispatch_accounts AS a (wallet_id, chain, org_id, next_nonce) VALUES ($1, $2, $3, 1)
		ON CONFLICT (wallet_id, chain) DO UPDATE SET next_nonce = a.next_nonce + 1
		RETURNING next_nonce - 1`, from.ID, name, from.OrgID).Scan(&next)
	if err != nil {
		return 0, fmt.Errorf("take a nonce of wallet %s: %w", from.ID, err)
	}
	return next, nil
}

func nativeMint(ctx context.Context, tx pg.Tx, name chain.Name) (int, error) {
	var id int
	if err := tx.QueryRow(ctx, `SELECT mint_id FROM mints WHERE chain = $1 AND contract = ''`, name).Scan(&id); err != nil {
		return 0, fmt.Errorf("native coin of %s: %w", name, err)
	}
	return id, nil
}

const (
	simulateAgain = 16              // an order that would revert rests for this part of its age
	simulateMax   = 2 * time.Minute // and never longer than this
)

// wait leaves an order in the queue and writes down why, unless it was to be
// looked at again since it was read: then what was read is old.
func (d *Desk) wait(ctx context.Context, o Order, want Want, short money.Amount, why string) error {
	return d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error { return d.leave(ctx, tx, o, want, short, why) })
}

// lacks leaves an order in the queue because its wallet has less of a mint than need.
// How much is missing is what a top-up or a sweep brings, so it is asked again of the
// books under the lock that Brought takes: what was read before the chain was asked
// may be old, and money would be brought that has come. No time tells that, for what
// brings it has the time at which its transaction began. What has come has the order
// looked at again.
func (d *Desk) lacks(ctx context.Context, o Order, want Want, mintID int, need money.Amount, why string) error {
	return d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if _, err := lockOrder(ctx, tx, o.ID); err != nil {
			return err
		}
		funds, err := wallet.FundsOf(ctx, tx, o.WalletID, mintID)
		if err != nil {
			return err
		}
		have := funds.Spendable()
		if want == WantGas {
			have = funds.GasSpendable()
		}
		short := missing(need, have)
		if short.IsZero() {
			return d.leave(ctx, tx, o, WantNothing, short, "what it lacked has come")
		}
		return d.leave(ctx, tx, o, want, short, why)
	})
}

func (d *Desk) leave(ctx context.Context, tx pg.Tx, o Order, want Want, short money.Amount, why string) error {
	if o.WaitingFor != want {
		d.log.Info("order waits", "order", o.ID, "for", string(want), "short", short.String(), "why", why)
	}
	next := d.conf.RetryAfter
	if want == WantSimulation {
		// It may stay so for days: the longer it has, the less often it is looked at.
		next = max(next, min(tx.Now.Sub(o.CreatedAt)/simulateAgain, simulateMax))
	}
	_, err := tx.Exec(ctx, `
		UPDATE dispatch_orders SET waiting_for = nullif($2, ''), short_by = $3, last_error = $4, attempt_after = $5
		WHERE order_id = $1 AND status = 'QUEUED' AND attempt_after <= $6`,
		o.ID, want, nothingIsNull(short), bounded(why), tx.Now.Add(next), o.readAt)
	if err != nil {
		return fmt.Errorf("order %s waits: %w", o.ID, err)
	}
	return nil
}

func nothingIsNull(a money.Amount) *money.Amount {
	if a.IsZero() {
		return nil
	}
	return &a
}

// errorBytesMax bounds what a provider's words may take in a row.
const errorBytesMax = 500

func bounded(s string) string {
	if len(s) > errorBytesMax {
		s = s[:errorBytesMax]
	}
	return s
}

// refuse ends an order before it has a slot, because the signer says no or the
// payee cannot be paid, or not this amount.
func (d *Desk) refuse(ctx context.Context, o Order, r *signer.Refusal) error {
	switch r.Code {
	case signer.PolicyLimit, signer.CoolingOff:
		d.log.Warn("the signer's policy refuses an order", "order", o.ID, "why", r.Message)
	case FeeRefused:
		d.log.Info("an order goes back because of its fee", "order", o.ID, "why", r.Message)
	case MergeNot:
		d.log.Info("coins are not merged now", "order", o.ID, "why", r.Message)
	case PlaceTaken:
		d.log.Warn("a place cannot be made: something is there already, and its number is left out for good", "order", o.ID, "at", string(o.To))
	case AmountRefused:
		d.log.Warn("the chain would refuse a payment because of its amount", "order", o.ID, "payee", string(o.To), "amount", o.Amount.String(), "why", r.Message)
	case PayeeFailed, CustomerCosts, RentNotHeld:
		d.log.Warn("a payment goes back to a person before it is signed", "order", o.ID, "code", r.Code, "why", r.Message)
	case PayeeRefused:
		d.log.Warn("the chain would refuse a payment because of its payee", "order", o.ID, "payee", string(o.To), "why", r.Message)
	default:
		d.log.Error("the signer refuses an order as contradictory", "order", o.ID, "code", r.Code, "why", r.Message)
	}
	if r.Code == signer.RefusedKey {
		// The database would have the other payment if it were as young as the journal.
		if err := d.freezeAll(ctx, r.Message); err != nil {
			return err
		}
	}
	return d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		o, err := lockOrder(ctx, tx, o.ID)
		if err != nil {
			return err
		}
		if err := become(ctx, tx, o.ID, Queued, Refused, "last_error = $4", bounded(r.Error())); err != nil {
			return err
		}
		if err := d.listeners[o.Purpose].Refused(ctx, tx, o, r); err != nil {
			return err
		}
		return remember(ctx, tx, o, "refused", map[string]any{"code": r.Code, "why": r.Message})
	})
}

// freezeAll stops everything, because the signer's journal knows what this database
// does not. The watch of the journal would say the same some seconds later.
func (d *Desk) freezeAll(ctx context.Context, why string) error {
	err := d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return freeze.Put(ctx, tx, freeze.Freeze{Scope: freeze.All, Source: freeze.BySigner, Reason: why})
	})
	if err != nil {
		return fmt.Errorf("freeze everything: %w", err)
	}
	return nil
}

// silence is how long nothing has been sent of an attempt.
func silence(now time.Time, a attempt) time.Duration {
	if a.LastSentAt == nil {
		return 1<<63 - 1
	}
	return now.Sub(*a.LastSentAt)
}
