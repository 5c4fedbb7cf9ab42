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
type idle struct {
	lease   string
	newest  chain.TxHash // the newest transaction that the wallet has signed for it
	strange bool         // one that is none of ours was found, so the place is never given out
}

// watch looks at the places of wallets whose turn it is, whether they have orders or not.
func (d *Desk) watch(ctx context.Context) error {
	if d.chain.Places == nil {
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
	wallets = slices.DeleteFunc(wallets, func(id string) bool { return now.Before(d.watched[id]) })
	if len(wallets) > d.conf.WalletsMax { // the others have their turn in the next round
		wallets = wallets[:d.conf.WalletsMax]
	}
	for _, id := range wallets {
		d.watched[id] = now.Add(d.conf.WatchEvery)
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

func (d *Desk) watchWallet(ctx context.Context, walletID string) error {
	var of wallet.Wallet
	if err := d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		of, err = wallet.ByID(ctx, tx, walletID)
		return err
	}); err != nil {
		return err
	}
	acct, err := d.chain.Sender.Account(ctx, of.Address)
	if err != nil {
		return err
	}
	free, err := d.free(ctx, acct)
	if err != nil {
		return err
	}
	var errs []error
	for _, lease := range free {
		errs = append(errs, d.look(ctx, of, lease))
	}
	return errors.Join(errs...)
}

// look asks who gave an idle place the value that it finally has. All that was signed for
// it since the last look has to be ours. What is ours is in the database before it is sent,
// so an order that gets the place meanwhile is not taken for somebody else.
func (d *Desk) look(ctx context.Context, of wallet.Wallet, lease string) error {
	at, _, _ := strings.Cut(lease, " ")
	d.mu.Lock()
	before := d.idle[at]
	d.mu.Unlock()
	if before.lease == lease {
		return nil
	}
	newest, strange, err := d.chain.Places.Taken(ctx, of.Address, lease, before.newest, d.ours)
	if err != nil {
		return err
	}
	now := idle{lease: lease, newest: newest, strange: before.strange || strange != ""}
	if newest == "" {
		now.newest = before.newest
	}
	if strange != "" {
		now.newest = strange
		if err := d.strange(ctx, of, at, strange); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idle[at] = now
	return nil
}

// ours tells whether a transaction was signed for an order.
func (d *Desk) ours(ctx context.Context, hash chain.TxHash, took string) (known bool, err error) {
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM dispatch_slots s JOIN dispatch_attempts a USING (order_id)
				WHERE s.chain = $1 AND md5(s.lease) = md5($2::text) AND s.lease = $2 AND a.tx_hash = $3)`, d.chain.Name, took, hash).Scan(&known)
	})
	if err != nil {
		return false, fmt.Errorf("whose transaction %s is: %w", hash, err)
	}
	return known, nil
}

// strange freezes a wallet that has signed a transaction which no order has: somebody else
// has its key, or sends what a lost journal has signed. Whoever lifts that freeze has seen
// it, and it is not put again for the same one.
func (d *Desk) strange(ctx context.Context, of wallet.Wallet, at string, tx chain.TxHash) error {
	why := fmt.Sprintf("its key has signed %s for its place %s, and no order of ours has", tx, at)
	var seen bool
	err := d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		seen, err = freeze.Lifted(ctx, tx, d.frozen(of, why))
		return err
	})
	if err != nil {
		return err
	}
	if seen {
		d.log.Warn("a place is left out for good: somebody else has taken it", "wallet", of.ID, "place", at, "hash", string(tx))
		return nil
	}
	return d.freezeWallet(ctx, of, why)
}

// sound are leases without those that somebody else has taken.
func (d *Desk) sound(leases []string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(leases, func(l string) bool {
		at, _, _ := strings.Cut(l, " ")
		return d.idle[at].strange
	})
}
