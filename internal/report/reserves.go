package report

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Reserve compares the holdings of a mint with their owners, in its atomic units. The holdings
// follow from final blocks alone. verify compares the rows that are summed here with the ledger and
// with the chain.
type Reserve struct {
	Mint  mint.Mint
	Block *chain.Block // the last walked block; nil before the first

	// Holdings of Coffer's addresses: those that customers pay to, and the treasuries.
	DepositAddresses, Treasuries money.Amount

	// Owners of the holdings.
	Available   money.Amount // of customers, free to be spent
	Withdrawing money.Amount // of customers, held for withdrawals
	Products    money.Amount // of the organizations themselves
	Gas         money.Amount // sent by the operator for fees
	Suspense    money.Amount // arrived or restored, without a decision about the owner
	Waiting     money.Amount // final and not credited yet
	Dust        money.Amount // below the minimum; no balance counts it

	// Amounts in transactions that are not final. The figures above still count them.
	Leaving, Moving money.Amount // to external addresses; between Coffer's own addresses

	// Difference is the holdings minus the amounts of their owners, with a sign. It is 0 unless a
	// chain replaced final blocks after their amounts were spent.
	Difference string
}

// HeldAmount returns what Coffer's addresses hold.
func (r Reserve) HeldAmount() (money.Amount, error) {
	return sumAmounts(r.DepositAddresses, r.Treasuries)
}

// SumLiabilities returns the sum of what the owners have.
func (r Reserve) SumLiabilities() (money.Amount, error) {
	return sumAmounts(r.Available, r.Withdrawing, r.Products, r.Gas, r.Suspense, r.Waiting, r.Dust)
}

func sumAmounts(amounts ...money.Amount) (total money.Amount, err error) {
	for _, a := range amounts {
		if total, err = total.Add(a); err != nil {
			return total, fmt.Errorf("sum up a reserve: %w", err)
		}
	}
	return total, nil
}

// LoadReserves returns a row for each mint that Coffer ever held, by id, for all organizations or
// one. It needs a snapshot: sums that were read one after the other would not match. Rule OP-6.
func LoadReserves(ctx context.Context, tx pg.Tx, org string) ([]Reserve, error) {
	mints, err := mint.LoadCatalogue(ctx, tx)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, `
		WITH chosen AS MATERIALIZED (
			SELECT org_id FROM organizations WHERE $1 = '' OR org_id = $1),
		totals AS (
			SELECT t.mint_id, sum(t.available) AS available, sum(t.withdrawing) AS withdrawing,
				sum(t.addresses) AS addresses, sum(t.treasuries) AS treasuries, sum(t.dust) AS dust
			FROM chosen CROSS JOIN LATERAL (
				SELECT mint_id, available, withdrawing, addresses, treasuries, dust FROM organization_totals t WHERE t.org_id = chosen.org_id
				UNION ALL
				SELECT mint_id, available, withdrawing, addresses, treasuries, dust FROM organization_total_changes c WHERE c.org_id = chosen.org_id) t
			GROUP BY 1),
		waiting AS (
			SELECT d.mint_id, coalesce(sum(d.amount) FILTER (WHERE d.purpose <> 'TREASURY'), 0) AS addresses,
				coalesce(sum(d.amount) FILTER (WHERE d.purpose = 'TREASURY'), 0) AS treasuries
			FROM chosen JOIN deposits d USING (org_id)
			WHERE d.status = 'SCREENING' AND d.mint_id IS NOT NULL GROUP BY 1),
		own AS (
			SELECT o.mint_id,
				coalesce(sum(o.balance) FILTER (WHERE o.kind IN ('PRODUCT', 'PRODUCT_WITHDRAWING')), 0) AS products,
				coalesce(sum(o.balance) FILTER (WHERE o.kind = 'GAS'), 0) AS gas,
				coalesce(sum(o.balance) FILTER (WHERE o.kind = 'SUSPENSE'), 0) AS suspense,
				sum(o.balance) AS total
			FROM chosen CROSS JOIN LATERAL (
				SELECT a.mint_id, a.kind, (SELECT b.balance FROM ledger_balances b WHERE b.account_id = a.account_id) AS balance
				FROM ledger_accounts a
				WHERE a.org_id = chosen.org_id AND `+ledger.OwnAccountsSQL+`) o
			GROUP BY 1),
		way AS (
			SELECT o.mint_id,
				coalesce(sum(o.amount) FILTER (WHERE o.to_wallet_id IS NULL), 0) AS leaving,
				coalesce(sum(o.amount) FILTER (WHERE o.to_wallet_id IS NOT NULL), 0) AS moving
			FROM chosen JOIN dispatch_orders o USING (org_id)
			WHERE o.status IN ('SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK') GROUP BY 1)
		SELECT m.mint_id, walked.height, walked.hash,
			greatest(coalesce(t.addresses, 0), 0) + coalesce(w.addresses, 0), greatest(coalesce(t.treasuries, 0), 0) + coalesce(w.treasuries, 0),
			coalesce(t.available, 0), coalesce(t.withdrawing, 0), coalesce(o.products, 0), coalesce(o.gas, 0), coalesce(o.suspense, 0),
			coalesce(w.addresses, 0) + coalesce(w.treasuries, 0), coalesce(t.dust, 0),
			coalesce(y.leaving, 0), coalesce(y.moving, 0),
			(coalesce(t.addresses, 0) + coalesce(t.treasuries, 0) - coalesce(t.dust, 0)
				- coalesce(t.available, 0) - coalesce(t.withdrawing, 0) - coalesce(o.total, 0))::text
		FROM mints m
		LEFT JOIN totals t USING (mint_id) LEFT JOIN waiting w USING (mint_id) LEFT JOIN own o USING (mint_id) LEFT JOIN way y USING (mint_id)
		LEFT JOIN LATERAL (
			SELECT height, hash FROM (
				SELECT height, hash FROM scan_cursors WHERE chain = m.chain
				UNION ALL (SELECT height, hash FROM finality_live WHERE chain = m.chain ORDER BY height DESC LIMIT 1)
			) AS known ORDER BY height DESC LIMIT 1) AS walked ON true
		WHERE num_nonnulls(t.mint_id, w.mint_id, o.mint_id, y.mint_id) > 0
		ORDER BY m.mint_id`, org)
	if err != nil {
		return nil, fmt.Errorf("read the reserves: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Reserve, err error) {
		var mintID int
		var height *int64
		var hash *string
		err = row.Scan(&mintID, &height, &hash, &r.DepositAddresses, &r.Treasuries,
			&r.Available, &r.Withdrawing, &r.Products, &r.Gas, &r.Suspense, &r.Waiting, &r.Dust, &r.Leaving, &r.Moving,
			&r.Difference)
		if err != nil {
			return r, err
		}
		m, ok := mints.ByID(mintID)
		if !ok {
			return r, fmt.Errorf("the books name mint %d, which is not in the catalogue", mintID)
		}
		if r.Mint = m; height != nil {
			r.Block = &chain.Block{Height: uint64(*height), Hash: *hash}
		}
		return r, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the reserves: %w", err)
	}
	return found, nil
}
