package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/coin"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// An order that merges pays nobody: its slot is small coins of the organization, and all
// that they hold but the fee comes back as one, to the order's own wallet. Nobody waits
// for it, and nobody shall wait because of it. See docs/design/bitcoin.md#consolidation.
// One is made on demand, at the rate of payments, when a payment needs more coins than a
// transaction spends: of the coins that no payment reaches. See
// docs/design/bitcoin.md#consolidation-on-demand.

// MergeNot is the code of a refusal that is not the signer's: as things stand there is
// nothing to merge, or it would cost too much.
const MergeNot = "MERGE_NOT"

// unmergedError says why coins are not merged now.
type unmergedError struct{ why string }

func (e *unmergedError) Error() string { return e.why }

// Merges tells whether coins of an organization would be merged at a price, without
// taking them: small ones, or with demanded those that no payment reaches. The chain merges
// coins.
func Merges(ctx context.Context, tx pg.Tx, ch chain.Chain, org string, native int, price chain.Fees, demanded bool) (bool, error) {
	over, upto := ch.Merges.Small(price)
	_, most := ch.Merges.Bounds()
	if demanded {
		beyond, err := coin.Beyond(ctx, tx, ch.Name, org, native, reached(ch.Merges), over, most)
		return len(beyond) > 1, err
	}
	small, all, err := coin.Small(ctx, tx, ch.Name, org, native, over, upto, most)
	if err != nil {
		return false, err
	}
	_, err = toMerge(ch.Merges, small, all)
	var not *unmergedError
	if errors.As(err, &not) {
		return false, nil
	}
	return err == nil, err
}

// Demanded tells whether a payment of a wallet waits for a merge.
func Demanded(ctx context.Context, tx pg.Tx, name chain.Name, walletID string) (bool, error) {
	var waits bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM dispatch_orders WHERE chain = $1 AND wallet_id = $2 AND status = 'QUEUED' AND waiting_for = 'MERGE')`, name, walletID).Scan(&waits)
	if err != nil {
		return false, fmt.Errorf("whether a payment of wallet %s waits for a merge: %w", walletID, err)
	}
	return waits, nil
}

// reached is how many coins a merge on demand leaves to payments: with the one that it makes
// they are as many as one payment spends.
func reached(m chain.Merges) int { return max(0, m.Reach()-1) }

// toMerge is how many of the small coins, the smallest first, become one. What they hold is
// no more than half of what all free ones hold: the rest is there for payments until the
// merge is final. It is pure.
func toMerge(m chain.Merges, small []chain.Coin, all money.Amount) ([]chain.Coin, error) {
	least, _ := m.Bounds()
	half, _ := all.Split(2)
	sum := money.Zero
	for i, c := range small {
		var err error
		if sum, err = sum.Add(c.Amount); err != nil {
			return nil, err
		}
		if half.Less(sum) {
			small = small[:i]
			break
		}
	}
	if len(small) < least {
		return nil, &unmergedError{fmt.Sprintf("there are %d small coins to merge that payments can do without, and it is worth it from %d on", len(small), least)}
	}
	return small, nil
}

// merge locks the coins of a merge, and names their slot and what it costs.
func (d *Desk) merge(ctx context.Context, tx pg.Tx, o Order, native int, change chain.Address, price chain.Fees) (string, chain.Fees, error) {
	if change != o.To {
		return "", chain.Fees{}, fmt.Errorf("the wallet of merge %s for change is %s, and it was placed for %s", o.ID, change, o.To)
	}
	if demanded, err := Demanded(ctx, tx, o.Chain, o.WalletID); err != nil {
		return "", chain.Fees{}, err
	} else if demanded {
		over, _ := d.chain.Merges.Small(price)
		_, most := d.chain.Merges.Bounds()
		coins, err := coin.OfferBeyond(ctx, tx, o.Chain, o.OrgID, native, reached(d.chain.Merges), over, most)
		if err != nil {
			return "", chain.Fees{}, err
		}
		if len(coins) < 2 {
			return "", chain.Fees{}, &unmergedError{"every coin is one that payments reach"}
		}
		return d.mergeOf(coins, change, price)
	}
	var others bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM dispatch_orders WHERE chain = $1 AND wallet_id = $2 AND status = 'QUEUED' AND order_id <> $3 AND waiting_for IS DISTINCT FROM 'FREEZE')`,
		o.Chain, o.WalletID, o.ID).Scan(&others)
	if err != nil {
		return "", chain.Fees{}, fmt.Errorf("what else merge %s would hold up: %w", o.ID, err)
	}
	if others {
		return "", chain.Fees{}, &unmergedError{"somebody wants to be paid"}
	}
	over, upto := d.chain.Merges.Small(price)
	_, most := d.chain.Merges.Bounds()
	small, all, err := coin.OfferSmall(ctx, tx, o.Chain, o.OrgID, native, over, upto, most)
	if err != nil {
		return "", chain.Fees{}, err
	}
	if small, err = toMerge(d.chain.Merges, small, all); err != nil {
		return "", chain.Fees{}, err
	}
	return d.mergeOf(small, change, price)
}

// mergeOf names the slot of a merge and what it costs.
func (d *Desk) mergeOf(coins []chain.Coin, change chain.Address, price chain.Fees) (string, chain.Fees, error) {
	lease, fees, err := d.chain.Merges.Merge(coins, change, price)
	if err != nil {
		return "", fees, &unmergedError{err.Error()}
	}
	return lease, fees, nil
}

// offered is the price of an order: that of its payment, or of a merge. Error:
// unmergedError.
func (d *Desk) offered(ctx context.Context, o Order, account chain.Address) (chain.Fees, error) {
	if o.Purpose != signer.Merge {
		return d.chain.Sender.Quote(ctx, o.payment(account))
	}
	if d.chain.Merges == nil {
		return chain.Fees{}, &unmergedError{"no coins are merged on " + string(o.Chain)}
	}
	var demanded bool
	err := d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		demanded, err = Demanded(ctx, tx, o.Chain, o.WalletID)
		return err
	})
	if err != nil {
		return chain.Fees{}, err
	}
	if demanded {
		return d.chain.Sender.TransferFees(ctx)
	}
	price, low, err := d.chain.Merges.Price(ctx)
	if err == nil && !low {
		err = &unmergedError{fmt.Sprintf("the rate is %v, which is more than a merge is worth", price.TipCap)}
	}
	return price, err
}

// unmerged ends a merge that is not to be made now; another one is planned when it is.
func (d *Desk) unmerged(ctx context.Context, o Order, why error) error {
	return d.refuse(ctx, o, &signer.Refusal{Code: MergeNot, Message: why.Error()})
}

// hinders tells whether a payment of the organization waits for coins while a merge has
// some. Then its fee is raised as that of a payment is; else it waits.
func (d *Desk) hinders(ctx context.Context, s slot) (waits bool, err error) {
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM dispatch_orders WHERE chain = $1 AND wallet_id = $2 AND status = 'QUEUED' AND waiting_for IN ('COINS', 'MERGE'))`, s.Chain, s.WalletID).Scan(&waits)
	})
	if err != nil {
		return false, fmt.Errorf("whom merge %s holds up: %w", s.ID, err)
	}
	return waits, nil
}
