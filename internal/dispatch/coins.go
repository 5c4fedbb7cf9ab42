package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/coin"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Where accounts are coins, a slot is the set of coins that its transactions spend: they
// are chosen and reserved in the transaction that writes it. See
// docs/design/bitcoin.md#slots.

// WantCoins is what an order waits for whose wallet holds the amount by the books, while
// too few coins can be spent: the rest of earlier payments is not final yet, or another
// desk is choosing.
const WantCoins Want = "COINS"

// WantMerge is what an order waits for whose wallet has the amount in more coins than one
// transaction spends: that some of them become one. It has that done at once, at the rate of
// payments; see docs/design/bitcoin.md#consolidation-on-demand.
const WantMerge Want = "MERGE"

// Issuer gives out wallets. wallet.Book is one.
type Issuer interface {
	Address(ctx context.Context, ref signer.WalletRef) (wallet.Wallet, error)
}

// Option changes a desk.
type Option func(*Desk)

// Rests says who gives out the wallets to which the rest of coins comes back. Without it
// nothing is paid where accounts are coins.
func Rests(i Issuer) Option { return func(d *Desk) { d.rests = i } }

// Voiding says who has the signer void what people end without a slot. Without it, the one
// that runs does.
func Voiding(v *Voider) Option { return func(d *Desk) { d.voids = v } }

// Why an order has no slot where accounts are coins.
type (
	choiceError struct{ why error }         // no coins that would do
	restError   struct{ why error }         // nobody gives out the wallet of its rest
	dearError   struct{ most money.Amount } // what its coins cost is above its own limit
	gasError    struct{ need money.Amount } // what its coins cost is more than its wallet has
)

func (e *choiceError) Error() string { return e.why.Error() }
func (e *choiceError) Unwrap() error { return e.why }
func (e *restError) Error() string   { return "the wallet of its rest: " + e.why.Error() }
func (e *restError) Unwrap() error   { return e.why }
func (e *dearError) Error() string   { return fmt.Sprintf("its coins cost up to %v", e.most) }
func (e *gasError) Error() string    { return fmt.Sprintf("its coins cost up to %v", e.need) }

// errNoCoin says that the coin of a flagged deposit is not there to be sent away.
var errNoCoin = errors.New("the coin that is to go away is not there: finality broke below it, or it is not final again")

// errRestTaken says that another slot got the wallet that the rest was to come back to.
var errRestTaken = errors.New("the wallet for its rest was taken by another slot, again and again")

// restsLooked is how many of an organization's wallets for change are looked at, the newest:
// one that no slot names lies among them, for whoever comes next takes the first.
const restsLooked = 100

// NextRest names the wallet to which the next slot's rest comes back, or the coin that a
// merge makes: the first of an organization's that neither a slot names nor a merge is to
// have, else the next number. Two may come to the same one, and one of them gets it: see
// dispatch_slots_change_once and docs/design/bitcoin.md#change-wallets.
func NextRest(ctx context.Context, tx pg.Tx, ch chain.Name, org string) (signer.WalletRef, error) {
	var number uint64
	err := tx.QueryRow(ctx, `
		WITH numbered AS (
			SELECT subject::bigint AS number, wallet_id, address FROM wallets
			WHERE org_id = $1 AND family = $2 AND purpose = 'CHANGE' AND subject ~ '^[1-9][0-9]{0,17}$'
			ORDER BY length(subject) DESC, subject DESC LIMIT $4)
		SELECT coalesce(
			(SELECT min(number) FROM numbered w
				WHERE NOT EXISTS (SELECT FROM dispatch_slots s WHERE s.chain = $3 AND pooled(s.chain) AND split_part(s.lease, ' ', -1) = w.address)
				AND NOT EXISTS (SELECT FROM dispatch_orders o WHERE o.to_wallet_id = w.wallet_id AND o.purpose = 'MERGE' AND o.status = 'QUEUED')),
			(SELECT max(number) + 1 FROM numbered), 1)`, org, string(ch.Family()), ch, restsLooked).Scan(&number)
	if err != nil {
		return signer.WalletRef{}, fmt.Errorf("find a wallet for the rest of coins of %s: %w", org, err)
	}
	return signer.WalletRef{OrgID: org, Family: ch.Family(), Purpose: wallet.Change, Subject: strconv.FormatUint(number, 10)}, nil
}

// rest is the address to which the rest of an order's coins comes back; that of a merge
// was found when it was planned.
func (d *Desk) rest(ctx context.Context, o Order) (chain.Address, error) {
	if d.rests == nil {
		return "", &restError{errors.New("nobody gives it out here")}
	}
	var ref signer.WalletRef
	err := d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if o.Purpose != signer.Merge {
			ref, err = NextRest(ctx, tx, o.Chain, o.OrgID)
			return err
		}
		w, err := wallet.ByID(ctx, tx, o.ToWalletID)
		ref = w.Ref()
		return err
	})
	if err != nil {
		return "", err
	}
	w, err := d.rests.Address(ctx, ref)
	if err != nil {
		return "", &restError{err}
	}
	return w.Address, nil
}

// choose locks coins, and picks those that make payments of an order and of those that go
// with it: the name of their slot and what it costs. price are fees that were quoted.
func (d *Desk) choose(ctx context.Context, tx pg.Tx, o Order, native int, change chain.Address, price chain.Fees, ps ...chain.Payment) (string, chain.Fees, error) {
	if o.Purpose == signer.Merge {
		return d.merge(ctx, tx, o, native, change, price)
	}
	kept, free, err := coin.Offer(ctx, tx, o.Chain, o.OrgID, native, o.ID)
	if err != nil {
		return "", chain.Fees{}, err
	}
	if o.Purpose == signer.Return && len(kept) == 0 {
		return "", chain.Fees{}, errNoCoin
	}
	lease, fees, err := d.chain.Pool.Choose(kept, free, change, price, ps...)
	if err != nil {
		return "", fees, &choiceError{err}
	}
	return lease, fees, nil
}

// reserve gives an order the coins of its slot, which is written.
func (d *Desk) reserve(ctx context.Context, tx pg.Tx, o Order, at chain.Slot) error {
	spends, err := d.chain.Pool.Spends(at.Lease)
	if err != nil {
		return fmt.Errorf("read the slot of order %s: %w", o.ID, err)
	}
	return coin.Reserve(ctx, tx, o.Chain, o.ID, spends)
}

// errTogether says that orders have no coins together, and may have some one by one.
var errTogether = errors.New("their coins do not do for all of them")

// uncoined leaves or ends what has no slot because of the coins: an order, while several
// are tried in parts. other is an error of another kind.
func (d *Desk) uncoined(ctx context.Context, orders []Order, native int, why error) (other, err error) {
	o := orders[0]
	var short *chain.ShortError
	var choice *choiceError
	var rest *restError
	var dear *dearError
	var gas *gasError
	var not *unmergedError
	switch {
	case o.Purpose == signer.Merge && (errors.As(why, &not) || errors.As(why, &gas) || errors.Is(why, coin.ErrTaken) || errors.Is(why, errRestTaken)):
		return nil, d.unmerged(ctx, o, why)
	case errors.As(why, &rest):
		for _, o := range orders {
			err = errors.Join(err, d.wait(ctx, o, WantSigner, money.Zero, why.Error()))
		}
		return nil, err
	case len(orders) > 1 && (errors.As(why, &choice) || errors.As(why, &dear) || errors.As(why, &gas)):
		return nil, errTogether
	case errors.As(why, &short) && short.More && d.chain.Merges != nil:
		return nil, d.wait(ctx, o, WantMerge, short.By, why.Error())
	case errors.As(why, &short):
		return nil, d.wait(ctx, o, WantCoins, short.By, why.Error())
	case errors.As(why, &choice), errors.Is(why, errNoCoin), errors.Is(why, coin.ErrTaken), errors.Is(why, errRestTaken):
		for _, o := range orders {
			err = errors.Join(err, d.wait(ctx, o, WantCoins, money.Zero, why.Error()))
		}
		return nil, err
	case errors.As(why, &dear):
		return nil, d.refuse(ctx, o, &signer.Refusal{Code: FeeRefused, Message: fmt.Sprintf("its coins may cost up to %v, and the request allows %v", dear.most, *o.FeeMax)})
	case errors.As(why, &gas):
		return nil, d.lacks(ctx, o, WantGas, native, gas.need, "the wallet cannot pay for the coins yet")
	}
	return why, nil
}

// costs is what a slot of orders may cost, of what their wallet has.
func costs(ctx context.Context, tx pg.Tx, orders []Order, native int, fees chain.Fees) (money.Amount, error) {
	cost, err := fees.Max()
	if err != nil {
		return cost, fmt.Errorf("fee of order %s: %w", orders[0].ID, err)
	}
	part := signer.Part(cost, len(orders))
	for _, o := range orders {
		if o.dear(part) {
			return cost, &dearError{part}
		}
	}
	funds, err := wallet.FundsOf(ctx, tx, orders[0].WalletID, native)
	if err != nil {
		return cost, err
	}
	if !missing(cost, funds.GasSpendable()).IsZero() {
		return cost, &gasError{cost}
	}
	return cost, nil
}

// claim gives a restored order the coins that the journal signed for.
func (j Journal) claim(ctx context.Context, tx pg.Tx, o Order, at chain.Slot, native int) error {
	if !o.Chain.Pooled() {
		return nil
	}
	if j.Spends == nil {
		return fmt.Errorf("%s is not configured, and its coins cannot be read", o.Chain)
	}
	leased, err := j.Spends(o.Chain, at.Lease)
	if err != nil {
		return fmt.Errorf("the coins of %v: %w", at, err)
	}
	return coin.Claim(ctx, tx, o.Chain, o.OrgID, native, o.ID, o.CreatedAt, leased)
}

// placesOf are the places of slots, for chains that know them by name alone.
func placesOf[S interface{ place() chain.Slot }](of []S) []chain.Slot {
	places := make([]chain.Slot, len(of))
	for i, s := range of {
		places[i] = s.place()
	}
	return places
}

func (s slot) place() chain.Slot { return s.At }
