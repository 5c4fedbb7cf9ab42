package dispatch

import (
	"context"
	"errors"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Where one payee can make the payments of all others fail, rows of one batch in one coin share a slot. Their
// organization pays the network's fee, and people approved all of them by one hash. Every other payment is alone there.
// On EVM chains a contract makes them; on Solana a transaction does. See
// docs/design/payouts.md#several-rows-in-one-transaction.

// sharesRowsOnly reports whether no payments but rows of one batch share a slot on the chain.
func (d *Worker) sharesRowsOnly() bool {
	return d.chain.PayoutContract != nil || d.chain.PayeeAccounts != nil
}

// mayShare reports whether an order may share a slot with another one of its purpose. Rules BP-22 and BP-41.
func (d *Worker) mayShare(a, b Order) bool {
	switch {
	case !d.sharesRowsOnly() || a.ID == b.ID:
		return true
	case d.chain.PayoutContract == nil && !a.Kind().leavesInstallation():
		return true // its payee is the treasury
	}
	return a.Batch != nil && b.Batch != nil && a.Batch.BatchID == b.Batch.BatchID && a.MintID == b.MintID
}

// hasBatchRows reports whether orders of a queue may share a slot because they are rows, wherever they are in it.
func (d *Worker) hasBatchRows(queue []Order) bool {
	if !d.sharesRowsOnly() {
		return false
	}
	for _, o := range queue {
		if o.Batch != nil {
			return true
		}
	}
	return false
}

// findLone returns the rows of a queue that get a slot of their own because of their payees, by id. Without an answer
// these are all rows, and nothing else changes. Rule BP-42.
func (d *Worker) findLone(ctx context.Context, payer wallet.Wallet, queue []Order) map[string]bool {
	if d.chain.PayeeAccounts == nil {
		return nil
	}
	var rows []Order
	for _, o := range queue {
		if o.Batch != nil {
			rows = append(rows, o)
		}
	}
	if len(rows) < 2 {
		return nil
	}
	canShare, err := d.chain.PayeeAccounts.CanShare(ctx, buildPayments(rows, payer.Address))
	if err != nil {
		d.log.Info("payments are made one by one, because the accounts of their payees were not read", "why", err)
	}
	lone := map[string]bool{}
	for i, o := range rows {
		lone[o.ID] = err != nil || !canShare[i]
	}
	return lone
}

// admitSharing gives orders a slot together where that is possible now, and otherwise one after the other. It returns
// how many slots that took, at most limit.
func (d *Worker) admitSharing(
	ctx context.Context, payer wallet.Wallet, acct chain.Account, group []Order, limit int,
) (slots int, err error) {
	if len(group) == 1 || d.chain.PayoutContract == nil || d.canPayOut(ctx, payer, group) {
		return d.admitGroup(ctx, payer, acct, group, limit)
	}
	for _, o := range group {
		added, err := d.admitGroup(ctx, payer, acct, []Order{o}, limit-slots)
		slots += added
		if err != nil && !errors.Is(err, errLostRace) {
			return slots, err
		}
	}
	return slots, nil
}

// canPayOut reports whether the contract can make payments of a wallet: a quorum of providers says that
// exactly its code stands at its address, the wallet has allowed it all that is reserved for payments in flight
// and these, and no revocation is under way. Without an answer it is false, and the payments are made one by one.
// Rules BP-22 and BP-56.
func (d *Worker) canPayOut(ctx context.Context, payer wallet.Wallet, group []Order) bool {
	isDeployed, err := d.chain.PayoutContract.IsDeployed(ctx)
	if err != nil || !isDeployed {
		if err != nil {
			d.log.Info("payments are made one by one, because the payout contract was not read", "why", err)
		}
		return false
	}
	var need money.Amount
	var isBeingRevoked bool
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		funds, err := wallet.LoadFunds(ctx, tx, payer.ID, group[0].MintID)
		if err != nil {
			return err
		}
		need = funds.Reserved
		return tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM payout_allowances
				WHERE (wallet_id, chain, mint_id) = ($1, $2, $3) AND NOT is_granted AND status = 'OPEN')`,
			payer.ID, d.chain.Name, group[0].MintID).Scan(&isBeingRevoked)
	})
	if err == nil && isBeingRevoked {
		return false // the chain has the allowance until the revocation is mined, and reverts what comes after it
	}
	for _, o := range group {
		if err == nil {
			need, err = need.Add(o.Amount)
		}
	}
	var allowed money.Amount
	if err == nil {
		allowed, err = d.chain.PayoutContract.Allowance(ctx, payer.Address, group[0].Contract)
	}
	if err != nil {
		d.log.Info("payments are made one by one, because their allowance was not read", "why", err)
		return false
	}
	return !allowed.Less(need)
}
