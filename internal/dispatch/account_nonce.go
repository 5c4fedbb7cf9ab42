package dispatch

import (
	"context"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wallet"
)

// accountNonce is the slot model of chains that number an account's transactions. The nonce alone
// is the slot, and an order takes the next one. It is used once the chain's nonce of the account is
// above it, in the latest block or finally, and free until then. It is never released: an order that
// does not pay uses it with a cancel.
type accountNonce struct{ nonceOnly }

func (accountNonce) isSequential() bool { return true }

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
