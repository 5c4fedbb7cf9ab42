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
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wallet"
)

// An order notices itself when something uses its nonce account. This file watches the idle nonce
// accounts, those that no order has. The chain changes such an account for the holder of the
// wallet's key only, and shows who that was. See docs/design/solana.md#idle-nonce-accounts.

// idleAccount is the result of the last check of an idle nonce account.
type idleAccount struct {
	slotKey string
	newest  chain.TxHash // the newest transaction that the wallet has signed for it
	foreign bool         // a transaction was found that is not Coffer's, so the account is never given out
}

func (m durableNonce) watch(ctx context.Context) error {
	if m.accounts == nil {
		return nil
	}
	var wallets []string
	err := m.d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(
			ctx, `SELECT wallet_id FROM dispatch_accounts WHERE chain = $1 ORDER BY wallet_id`, m.d.chain.Name,
		)
		if err != nil {
			return err
		}
		wallets, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return fmt.Errorf("find the wallets with nonce accounts: %w", err)
	}
	now := m.d.db.Clock()()
	m.d.mu.Lock()
	wallets = slices.DeleteFunc(wallets, func(id string) bool { return now.Before(m.d.nextWatch[id]) })
	if len(wallets) > m.d.conf.WalletsMax { // the others follow in the next round
		wallets = wallets[:m.d.conf.WalletsMax]
	}
	for _, id := range wallets {
		m.d.nextWatch[id] = now.Add(m.d.conf.WatchEvery)
	}
	m.d.mu.Unlock()
	errs := make([]error, len(wallets))
	var wg sync.WaitGroup
	for i, id := range wallets {
		wg.Go(func() {
			if err := m.watchWallet(ctx, id); err != nil {
				errs[i] = fmt.Errorf("examine the idle nonce accounts of wallet %s: %w", id, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (m durableNonce) watchWallet(ctx context.Context, walletID string) error {
	var payer wallet.Wallet
	if err := m.d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		payer, err = wallet.ByID(ctx, tx, walletID)
		return err
	}); err != nil {
		return err
	}
	acct, err := m.d.chain.Sender.Account(ctx, payer.Address)
	if err != nil {
		return err
	}
	freeKeys, err := m.freeSlotKeys(ctx, acct)
	if err != nil {
		return err
	}
	var errs []error
	for _, slotKey := range freeKeys {
		errs = append(errs, m.inspectIdleAccount(ctx, payer, slotKey))
	}
	return errors.Join(errs...)
}

// inspectIdleAccount finds out which transactions gave an idle nonce account its final value. Every
// transaction signed for it since the last check has to be Coffer's. Coffer's transactions are in
// the database before they are sent. So an order that gets the account meanwhile does not look
// foreign.
func (m durableNonce) inspectIdleAccount(ctx context.Context, payer wallet.Wallet, slotKey string) error {
	accountAddress, _, _ := strings.Cut(slotKey, " ")
	m.d.mu.Lock()
	previous := m.d.idleAccounts[accountAddress]
	m.d.mu.Unlock()
	if previous.slotKey == slotKey {
		return nil
	}
	newest, foreign, err := m.accounts.FindUnknownUse(
		ctx, payer.Address, slotKey, previous.newest, m.isOwnTransaction,
	)
	if err != nil {
		return err
	}
	current := idleAccount{slotKey: slotKey, newest: newest, foreign: previous.foreign || foreign != ""}
	if newest == "" {
		current.newest = previous.newest
	}
	if foreign != "" {
		current.newest = foreign
		if err := m.freezeForeignUse(ctx, payer, accountAddress, foreign); err != nil {
			return err
		}
	}
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	m.d.idleAccounts[accountAddress] = current
	return nil
}

// isOwnTransaction reports whether a transaction was signed for an order.
func (m durableNonce) isOwnTransaction(ctx context.Context, hash chain.TxHash, slotKey string) (isOwn bool, err error) {
	err = m.d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM dispatch_slots s JOIN dispatch_attempts a USING (order_id)
				WHERE s.chain = $1 AND md5(s.slot_key) = md5($2::text) AND s.slot_key = $2 AND a.tx_hash = $3)`,
			m.d.chain.Name, slotKey, hash).Scan(&isOwn)
	})
	if err != nil {
		return false, fmt.Errorf("look up the order of transaction %s: %w", hash, err)
	}
	return isOwn, nil
}

// freezeForeignUse freezes a wallet that has signed a transaction that belongs to no order. Either
// a third party has its key, or sends what a lost journal has signed. A person who lifts that
// freeze has seen the transaction, so the wallet is not frozen again for it.
func (m durableNonce) freezeForeignUse(
	ctx context.Context, payer wallet.Wallet, accountAddress string, tx chain.TxHash,
) error {
	reason := fmt.Sprintf("its key has signed %s for its nonce account %s, and no order of this installation has "+
		"that transaction", tx, accountAddress)
	var lifted bool
	err := m.d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		lifted, err = freeze.WasLifted(ctx, tx, m.d.newWalletFreeze(payer, reason))
		return err
	})
	if err != nil {
		return err
	}
	if lifted {
		m.d.log.Warn(
			"a nonce account is permanently left out: another program has taken it",
			"wallet", payer.ID, "place", accountAddress,
			"hash", string(tx),
		)
		return nil
	}
	return m.d.freezeWallet(ctx, payer, reason)
}

// withoutForeign removes the slot keys of nonce accounts that a foreign transaction has used.
func (m durableNonce) withoutForeign(slotKeys []string) []string {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	return slices.DeleteFunc(slotKeys, func(key string) bool {
		accountAddress, _, _ := strings.Cut(key, " ")
		return m.d.idleAccounts[accountAddress].foreign
	})
}
