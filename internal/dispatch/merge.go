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

// ConsolidationRefused is the code of a refusal that is not the signer's: as things stand there is
// nothing to merge, or it would cost too much.
const ConsolidationRefused = "MERGE_NOT"

// notConsolidatedError says why coins are not merged now.
type notConsolidatedError struct{ reason string }

func (e *notConsolidatedError) Error() string { return e.reason }

// CanConsolidate tells whether coins of an organization would be merged at a price, without
// taking them: small ones, or with demanded those that no payment reaches. The chain merges
// coins.
func CanConsolidate(ctx context.Context, tx pg.Tx, ch chain.Chain, org string, native int, price chain.Fees, demanded bool) (bool, error) {
	amountAbove, amountMax := ch.Consolidator.ConsolidationRange(price)
	_, countMax := ch.Consolidator.InputCounts()
	if demanded {
		unreachable, err := coin.ListUnreached(ctx, tx, ch.Name, org, native, reachableOutputs(ch.Consolidator), amountAbove, countMax)
		return len(unreachable) > 1, err
	}
	small, total, err := coin.ListSmall(ctx, tx, ch.Name, org, native, amountAbove, amountMax, countMax)
	if err != nil {
		return false, err
	}
	_, err = chooseSmallOutputs(ch.Consolidator, small, total)
	var notConsolidated *notConsolidatedError
	if errors.As(err, &notConsolidated) {
		return false, nil
	}
	return err == nil, err
}

// ConsolidationDemanded tells whether a payment of a wallet waits for a merge.
func ConsolidationDemanded(ctx context.Context, tx pg.Tx, name chain.Name, walletID string) (bool, error) {
	var demanded bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM dispatch_orders WHERE chain = $1 AND wallet_id = $2 AND status = 'QUEUED' AND waiting_for = 'MERGE')`, name, walletID).Scan(&demanded)
	if err != nil {
		return false, fmt.Errorf("whether a payment of wallet %s waits for a merge: %w", walletID, err)
	}
	return demanded, nil
}

// reachableOutputs is how many coins a merge on demand leaves to payments: with the one that it makes
// they are as many as one payment spends.
func reachableOutputs(m chain.Consolidator) int { return max(0, m.MaxPaymentInputs()-1) }

// chooseSmallOutputs is how many of the small coins, the smallest first, become one. What they hold is
// no more than half of what all free ones hold: the rest is there for payments until the
// merge is final. It is pure.
func chooseSmallOutputs(m chain.Consolidator, small []chain.Output, total money.Amount) ([]chain.Output, error) {
	countMin, _ := m.InputCounts()
	half, _ := total.Split(2)
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
	if len(small) < countMin {
		return nil, &notConsolidatedError{fmt.Sprintf("there are %d small coins to merge that payments can do without, and it is worth it from %d on", len(small), countMin)}
	}
	return small, nil
}

// selectConsolidation locks the coins of a merge, and names their slot and what it costs.
func (d *Worker) selectConsolidation(ctx context.Context, tx pg.Tx, o Order, native int, change chain.Address, price chain.Fees) (string, chain.Fees, error) {
	if change != o.To {
		return "", chain.Fees{}, fmt.Errorf("the wallet of merge %s for change is %s, and it was placed for %s", o.ID, change, o.To)
	}
	if demanded, err := ConsolidationDemanded(ctx, tx, o.Chain, o.WalletID); err != nil {
		return "", chain.Fees{}, err
	} else if demanded {
		amountAbove, _ := d.chain.Consolidator.ConsolidationRange(price)
		_, countMax := d.chain.Consolidator.InputCounts()
		outputs, err := coin.LockUnreached(ctx, tx, o.Chain, o.OrgID, native, reachableOutputs(d.chain.Consolidator), amountAbove, countMax)
		if err != nil {
			return "", chain.Fees{}, err
		}
		if len(outputs) < 2 {
			return "", chain.Fees{}, &notConsolidatedError{"every coin is one that payments reach"}
		}
		return d.buildConsolidation(outputs, change, price)
	}
	var paymentsQueued bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM dispatch_orders WHERE chain = $1 AND wallet_id = $2 AND status = 'QUEUED' AND order_id <> $3 AND waiting_for IS DISTINCT FROM 'FREEZE')`,
		o.Chain, o.WalletID, o.ID).Scan(&paymentsQueued)
	if err != nil {
		return "", chain.Fees{}, fmt.Errorf("what else merge %s would hold up: %w", o.ID, err)
	}
	if paymentsQueued {
		return "", chain.Fees{}, &notConsolidatedError{"somebody wants to be paid"}
	}
	amountAbove, amountMax := d.chain.Consolidator.ConsolidationRange(price)
	_, countMax := d.chain.Consolidator.InputCounts()
	small, total, err := coin.LockSmall(ctx, tx, o.Chain, o.OrgID, native, amountAbove, amountMax, countMax)
	if err != nil {
		return "", chain.Fees{}, err
	}
	if small, err = chooseSmallOutputs(d.chain.Consolidator, small, total); err != nil {
		return "", chain.Fees{}, err
	}
	return d.buildConsolidation(small, change, price)
}

// buildConsolidation names the slot of a merge and what it costs.
func (d *Worker) buildConsolidation(outputs []chain.Output, change chain.Address, price chain.Fees) (string, chain.Fees, error) {
	slotKey, fees, err := d.chain.Consolidator.Consolidate(outputs, change, price)
	if err != nil {
		return "", fees, &notConsolidatedError{err.Error()}
	}
	return slotKey, fees, nil
}

// quoteOrder is the price of an order: that of its payment, or of a merge. Error:
// notConsolidatedError.
func (d *Worker) quoteOrder(ctx context.Context, o Order, account chain.Address) (chain.Fees, error) {
	if o.Purpose != signer.Consolidate {
		return d.chain.Sender.Quote(ctx, o.chainPayment(account))
	}
	if d.chain.Consolidator == nil {
		return chain.Fees{}, &notConsolidatedError{"no coins are merged on " + string(o.Chain)}
	}
	var demanded bool
	err := d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		demanded, err = ConsolidationDemanded(ctx, tx, o.Chain, o.WalletID)
		return err
	})
	if err != nil {
		return chain.Fees{}, err
	}
	if demanded {
		return d.chain.Sender.TransferFees(ctx)
	}
	price, isCheap, err := d.chain.Consolidator.QuoteConsolidation(ctx)
	if err == nil && !isCheap {
		err = &notConsolidatedError{fmt.Sprintf("the rate is %v, which is more than a merge is worth", price.TipCap)}
	}
	return price, err
}

// refuseConsolidation ends a merge that is not to be made now; another one is planned when it is.
func (d *Worker) refuseConsolidation(ctx context.Context, o Order, cause error) error {
	return d.refuseOrder(ctx, o, &signer.Refusal{Code: ConsolidationRefused, Message: cause.Error()})
}

// delaysPayments tells whether a payment of the organization waits for coins while a merge has
// some. Then its fee is raised as that of a payment is; else it waits.
func (d *Worker) delaysPayments(ctx context.Context, s slot) (delayed bool, err error) {
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM dispatch_orders WHERE chain = $1 AND wallet_id = $2 AND status = 'QUEUED' AND waiting_for IN ('COINS', 'MERGE'))`, s.Chain, s.WalletID).Scan(&delayed)
	})
	if err != nil {
		return false, fmt.Errorf("whom merge %s holds up: %w", s.ID, err)
	}
	return delayed, nil
}
