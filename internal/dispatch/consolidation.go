package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/utxo"
)

// A consolidation order pays no one. Its slot spends small outputs of the organization. All that
// they hold, less the fee, returns as one output to the order's own change wallet. No payment waits
// for it, and none may be delayed by it. See docs/design/bitcoin.md#consolidation.
//
// A consolidation on demand is made at the fee rate of payments, when a payment needs more outputs
// than one transaction spends. It takes the outputs that no payment reaches. See
// docs/design/bitcoin.md#consolidation-on-demand.

// notConsolidatedError says why outputs are not consolidated now.
type notConsolidatedError struct{ reason string }

func (e *notConsolidatedError) Error() string { return e.reason }

// CanConsolidate reports whether outputs of an organization would be consolidated at a price,
// without reserving them. It considers small outputs or, with demanded, those that no payment
// reaches. The chain has to have a Consolidator.
func CanConsolidate(
	ctx context.Context, tx pg.Tx, ch chain.Chain, org string, native int, price chain.Fees, demanded bool,
) (bool, error) {
	amountAbove, amountMax := ch.Consolidator.ConsolidationRange(price)
	_, countMax := ch.Consolidator.InputCounts()
	if demanded {
		unreachable, err := utxo.ListUnreached(
			ctx, tx, ch.Name, org, native, reachableOutputs(ch.Consolidator), amountAbove, countMax,
		)
		return len(unreachable) > 1, err
	}
	small, total, err := utxo.ListSmall(ctx, tx, ch.Name, org, native, amountAbove, amountMax, countMax)
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

// ConsolidationDemanded reports whether a payment of a wallet waits for a consolidation.
func ConsolidationDemanded(ctx context.Context, tx pg.Tx, name chain.Name, walletID string) (bool, error) {
	var demanded bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM dispatch_orders WHERE chain = $1 AND wallet_id = $2 AND status = 'QUEUED' AND waiting_for = ANY ($3))`,
		name, walletID, ReasonsOf(RemedyConsolidation)).Scan(&demanded)
	if err != nil {
		return false, fmt.Errorf("check whether a payment of wallet %s waits for a consolidation: %w", walletID, err)
	}
	return demanded, nil
}

// reachableOutputs returns how many outputs a consolidation on demand leaves to payments. Together
// with the output that it makes, they are as many as one payment spends. Rule COIN-10.
func reachableOutputs(m chain.Consolidator) int { return max(0, m.MaxPaymentInputs()-1) }

// chooseSmallOutputs returns the small outputs to consolidate, the smallest first. They hold at
// most half of what all free outputs hold, so that the rest is there for payments until the
// consolidation is final. Error: notConsolidatedError. chooseSmallOutputs is pure. Rule COIN-8.
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
		return nil, &notConsolidatedError{fmt.Sprintf(
			"there are %d small outputs that payments do not need, and a consolidation is worth it from %d on",
			len(small),
			countMin,
		)}
	}
	return small, nil
}

// selectConsolidation locks the outputs of a consolidation and returns its slot key and its cost.
func (m utxoSet) selectConsolidation(
	ctx context.Context, tx pg.Tx, o Order, native int, change chain.Address, price chain.Fees,
) (string, chain.Fees, error) {
	if change != o.To {
		return "", chain.Fees{}, fmt.Errorf(
			"the change wallet of consolidation %s is %s, and it was submitted for %s", o.ID, change, o.To,
		)
	}
	if demanded, err := ConsolidationDemanded(ctx, tx, o.Chain, o.WalletID); err != nil {
		return "", chain.Fees{}, err
	} else if demanded {
		amountAbove, _ := m.d.chain.Consolidator.ConsolidationRange(price)
		_, countMax := m.d.chain.Consolidator.InputCounts()
		outputs, err := utxo.LockUnreached(
			ctx, tx, o.Chain, o.OrgID, native, reachableOutputs(m.d.chain.Consolidator), amountAbove, countMax,
		)
		if err != nil {
			return "", chain.Fees{}, err
		}
		if len(outputs) < 2 {
			return "", chain.Fees{}, &notConsolidatedError{"every output is one that payments use"}
		}
		return m.buildConsolidation(outputs, change, price)
	}
	var paymentsQueued bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM dispatch_orders WHERE chain = $1 AND wallet_id = $2 AND status = 'QUEUED' AND order_id <> $3 AND coalesce(waiting_for, '') <> ALL ($4))`,
		o.Chain, o.WalletID, o.ID, ReasonsStopped()).Scan(&paymentsQueued)
	if err != nil {
		return "", chain.Fees{}, fmt.Errorf("check what else consolidation %s would delay: %w", o.ID, err)
	}
	if paymentsQueued {
		return "", chain.Fees{}, &notConsolidatedError{"a payment waits"}
	}
	amountAbove, amountMax := m.d.chain.Consolidator.ConsolidationRange(price)
	_, countMax := m.d.chain.Consolidator.InputCounts()
	small, total, err := utxo.LockSmall(ctx, tx, o.Chain, o.OrgID, native, amountAbove, amountMax, countMax)
	if err != nil {
		return "", chain.Fees{}, err
	}
	if small, err = chooseSmallOutputs(m.d.chain.Consolidator, small, total); err != nil {
		return "", chain.Fees{}, err
	}
	return m.buildConsolidation(small, change, price)
}

// buildConsolidation returns the slot key of a consolidation and its cost.
func (m utxoSet) buildConsolidation(
	outputs []chain.Output, change chain.Address, price chain.Fees,
) (string, chain.Fees, error) {
	slotKey, fees, err := m.d.chain.Consolidator.Consolidate(outputs, change, price)
	if err != nil {
		return "", fees, &notConsolidatedError{err.Error()}
	}
	return slotKey, fees, nil
}

// quoteOrder returns the fees of an order: those of its payment, or of a consolidation. Error:
// notConsolidatedError.
func (d *Worker) quoteOrder(ctx context.Context, o Order, account chain.Address) (chain.Fees, error) {
	if !o.Kind().Consolidates {
		return d.chain.Sender.Quote(ctx, o.chainPayment(account))
	}
	if d.chain.Consolidator == nil {
		return chain.Fees{}, &notConsolidatedError{"no consolidation on " + string(o.Chain)}
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
		err = &notConsolidatedError{fmt.Sprintf(
			"the rate is %v, which is more than a consolidation is worth",
			price.TipCap,
		)}
	}
	return price, err
}

// refuseConsolidation ends a consolidation that is not to be made now. A later plan makes another
// one.
func (d *Worker) refuseConsolidation(ctx context.Context, o Order, cause error) error {
	return d.refuseOrder(ctx, o, &signer.Refusal{Code: ConsolidationRefused, Message: cause.Error()})
}

// delaysPayments reports whether a payment of the organization waits for outputs while a
// consolidation has some. Then the consolidation's fee is raised as a payment's is; otherwise the
// consolidation waits.
func (d *Worker) delaysPayments(ctx context.Context, s slot) (delayed bool, err error) {
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM dispatch_orders WHERE chain = $1 AND wallet_id = $2 AND status = 'QUEUED' AND waiting_for = ANY ($3))`,
			s.Chain, s.WalletID, reasonsLackingOutputs()).Scan(&delayed)
	})
	if err != nil {
		return false, fmt.Errorf("check which payments consolidation %s delays: %w", s.ID, err)
	}
	return delayed, nil
}
