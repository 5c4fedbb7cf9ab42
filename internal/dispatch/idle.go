package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/wallet"
)

// What takes the place of an order is seen by that order. A place that no order has is
// looked at here: the chain changes it for whoever has the wallet's key, and says who that
// was. See docs/design/solana.md#idle-nonce-accounts.

// An idle place is what was last found of one that no order has.
type idleAccount struct {
	slotKey string
	newest  chain.TxHash // the newest transaction that the wallet has signed for it
	foreign bool         // one that is none of ours was found, so the place is never given out
}

// watchNonceAccounts looks at the places of wallets whose turn it is, whether they have orders or not.
func (d *Worker) watchNonceAccounts(ctx context.Context) error {
	if d.chain.NonceAccounts == nil {
		return nil
	}
	var wallets []string
	err := d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `SELECT wallet_id FROM dispatch_accounts WHERE chain = $1 ORDER BY wallet_id`, d.chain.Name)
		if err != nil {
			return err
		}
		wallets, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return fmt.Errorf("find the wallets with places: %w", err)
	}
	now := d.db.Clock()()
	d.mu.Lock()
	wallets = slices.DeleteFunc(wallets, func(id string) bool { return now.Before(d.nextWatch[id]) })
	if len(wallets) > d.conf.WalletsMax { // the others have their turn in the next round
		wallets = wallets[:d.conf.WalletsMax]
	}
	for _, id := range wallets {
		d.nextWatch[id] = now.Add(d.conf.WatchEvery)
	}
	d.mu.Unlock()
	errs := make([]error, len(wallets))
	var wg sync.WaitGroup
	for i, id := range wallets {
		wg.Go(func() {
			if err := d.watchWallet(ctx, id); err != nil {
				errs[i] = fmt.Errorf("look at the idle places of wallet %s: %w", id, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (d *Worker) watchWallet(ctx context.Context, walletID string) error {
	var payer wallet.Wallet
	if err := d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		payer, err = wallet.ByID(ctx, tx, walletID)
		return err
	}); err != nil {
		return err
	}
	acct, err := d.chain.Sender.Account(ctx, payer.Address)
	if err != nil {
		return err
	}
	freeKeys, err := d.freeSlotKeys(ctx, acct)
	if err != nil {
		return err
	}
	var errs []error
	for _, slotKey := range freeKeys {
		errs = append(errs, d.inspectIdleAccount(ctx, payer, slotKey))
	}
	return errors.Join(errs...)
}

// inspectIdleAccount asks who gave an idle place the value that it finally has. All that was signed for
// it since the last look has to be ours. What is ours is in the database before it is sent,
// so an order that gets the place meanwhile is not taken for somebody else.
func (d *Worker) inspectIdleAccount(ctx context.Context, payer wallet.Wallet, slotKey string) error {
	accountAddress, _, _ := strings.Cut(slotKey, " ")
	d.mu.Lock()
	previous := d.idleAccounts[accountAddress]
	d.mu.Unlock()
	if previous.slotKey == slotKey {
		return nil
	}
	newest, foreign, err := d.chain.NonceAccounts.FindUnknownUse(ctx, payer.Address, slotKey, previous.newest, d.isOwnTransaction)
	if err != nil {
		return err
	}
	current := idleAccount{slotKey: slotKey, newest: newest, foreign: previous.foreign || foreign != ""}
	if newest == "" {
		current.newest = previous.newest
	}
	if foreign != "" {
		current.newest = foreign
		if err := d.freezeForeignUse(ctx, payer, accountAddress, foreign); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idleAccounts[accountAddress] = current
	return nil
}

// isOwnTransaction tells whether a transaction was signed for an order.
func (d *Worker) isOwnTransaction(ctx context.Context, hash chain.TxHash, slotKey string) (isOwn bool, err error) {
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM dispatch_slots s JOIN dispatch_attempts a USING (order_id)
				WHERE s.chain = $1 AND md5(s.lease) = md5($2::text) AND s.lease = $2 AND a.tx_hash = $3)`, d.chain.Name, slotKey, hash).Scan(&isOwn)
	})
	if err != nil {
		return false, fmt.Errorf("whose transaction %s is: %w", hash, err)
	}
	return isOwn, nil
}

// freezeForeignUse freezes a wallet that has signed a transaction which no order has: somebody else
// has its key, or sends what a lost journal has signed. Whoever lifts that freeze has seen
// it, and it is not put again for the same one.
func (d *Worker) freezeForeignUse(ctx context.Context, payer wallet.Wallet, accountAddress string, tx chain.TxHash) error {
	reason := fmt.Sprintf("its key has signed %s for its place %s, and no order of ours has", tx, accountAddress)
	var lifted bool
	err := d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		lifted, err = freeze.WasLifted(ctx, tx, d.newWalletFreeze(payer, reason))
		return err
	})
	if err != nil {
		return err
	}
	if lifted {
		d.log.Warn("a place is left out for good: somebody else has taken it", "wallet", payer.ID, "place", accountAddress, "hash", string(tx))
		return nil
	}
	return d.freezeWallet(ctx, payer, reason)
}

// withoutForeign are leases without those that somebody else has taken.
func (d *Worker) withoutForeign(slotKeys []string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slotKeys, func(key string) bool {
		accountAddress, _, _ := strings.Cut(key, " ")
		return d.idleAccounts[accountAddress].foreign
	})
}
