package report

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// GasStation is the treasury of an organization on a chain, which pays fees there and brings gas to
// other addresses.
type GasStation struct {
	OrgID, OrgName string
	Chain          chain.Name
	WalletID       string
	Address        chain.Address
	MintID         int          // the chain's native coin
	Gas            money.Amount // that was sent for fees, less what was spent
	Reserved       money.Amount // of it, for transactions that are not final
	Missing        money.Amount // what waiting orders lack; zero if none waits
	Waiting        int          // orders that wait for it
}

// ListGasStations returns the gas stations of all organizations, those first that orders wait for, then
// by organization and chain, in a transaction of the system. It returns at most limit.
// Rule PAGE-73.
func ListGasStations(ctx context.Context, tx pg.Tx, limit int) ([]GasStation, error) {
	rows, err := tx.Query(ctx, `
		SELECT w.org_id, o.name, m.chain, w.wallet_id, w.address, m.mint_id, coalesce(f.gas, 0),
			coalesce(f.gas_reserved, 0), coalesce(q.missing, 0), coalesce(q.orders, 0)
		FROM wallets w JOIN organizations o USING (org_id) JOIN mints m ON m.contract = ''
		LEFT JOIN address_funds f ON f.wallet_id = w.wallet_id AND f.mint_id = m.mint_id
		LEFT JOIN (
			SELECT wallet_id, chain, sum(missing_amount) AS missing, count(*) AS orders FROM dispatch_orders
			WHERE status = 'QUEUED' AND missing_amount > 0 AND waiting_for = ANY ($1) GROUP BY 1, 2
		) q ON q.wallet_id = w.wallet_id AND q.chain = m.chain
		WHERE w.purpose = 'TREASURY' AND (f.wallet_id IS NOT NULL OR q.orders > 0)
		ORDER BY coalesce(q.orders, 0) = 0, w.org_id, m.chain LIMIT $2`,
		dispatch.ReasonsOf(dispatch.RemedyTopUp), limit)
	if err != nil {
		return nil, fmt.Errorf("list the gas stations: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[GasStation])
	if err != nil {
		return nil, fmt.Errorf("list the gas stations: %w", err)
	}
	return found, nil
}
