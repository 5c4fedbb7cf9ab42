package report

import (
	"context"
	"fmt"
	"math/big"
	"time"

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
	InSwap      money.Amount // of customers, held for swaps or not restored yet
	Products    money.Amount // of the organizations themselves
	Gas         money.Amount // sent by the operator for fees
	Suspense    money.Amount // arrived or restored, without a decision about the owner
	Waiting     money.Amount // final and not credited yet
	Dust        money.Amount // below the minimum; no balance counts it

	// Amounts in transactions that are not final. The figures above still count them.
	Leaving, Moving money.Amount // to external addresses; between Coffer's own addresses

	// AtProviders is what swap providers have of ours, by provider. It belongs to the owners as well.
	AtProviders []ProviderClaim

	// Difference is the holdings and what is at providers minus the amounts of their owners, with a
	// sign. It is 0 unless a chain replaced final blocks after their amounts were spent.
	Difference string
}

// ProviderClaim is what one swap provider has of ours in a mint.
type ProviderClaim struct {
	Provider string
	// Amount has a sign: it is negative if the provider has delivered or given back more than it got.
	Amount   string
	OldestAt *time.Time // when the oldest swap with an open claim was created; nil without one
}

// HeldAmount returns what Coffer's addresses hold.
func (r Reserve) HeldAmount() (money.Amount, error) {
	return sumAmounts(r.DepositAddresses, r.Treasuries)
}

// SumLiabilities returns the sum of what the owners have.
func (r Reserve) SumLiabilities() (money.Amount, error) {
	return sumAmounts(r.Available, r.Withdrawing, r.InSwap, r.Products, r.Gas, r.Suspense, r.Waiting, r.Dust)
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
				sum(t.in_swap) AS in_swap, sum(t.addresses) AS addresses, sum(t.treasuries) AS treasuries,
				sum(t.dust) AS dust
			FROM chosen CROSS JOIN LATERAL (
				SELECT mint_id, available, withdrawing, in_swap, addresses, treasuries, dust FROM organization_totals t WHERE t.org_id = chosen.org_id
				UNION ALL
				SELECT mint_id, available, withdrawing, in_swap, addresses, treasuries, dust FROM organization_total_changes c WHERE c.org_id = chosen.org_id) t
			GROUP BY 1),
		waiting AS (
			SELECT d.mint_id, coalesce(sum(d.amount) FILTER (WHERE d.purpose <> 'TREASURY'), 0) AS addresses,
				coalesce(sum(d.amount) FILTER (WHERE d.purpose = 'TREASURY'), 0) AS treasuries
			FROM chosen JOIN deposits d USING (org_id)
			WHERE d.status = 'SCREENING' AND d.mint_id IS NOT NULL GROUP BY 1),
		own AS (
			SELECT o.mint_id,
				coalesce(sum(o.balance) FILTER (
					WHERE o.kind IN ('PRODUCT', 'PRODUCT_WITHDRAWING', 'PRODUCT_IN_SWAP', 'REFUND_OWED',
						'BATCH_HELD')), 0)
					AS products,
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
			greatest(coalesce(t.addresses, 0), 0) + coalesce(w.addresses, 0),
			greatest(coalesce(t.treasuries, 0), 0) + coalesce(w.treasuries, 0),
			coalesce(t.available, 0), coalesce(t.withdrawing, 0), coalesce(t.in_swap, 0), coalesce(o.products, 0),
			coalesce(o.gas, 0), coalesce(o.suspense, 0),
			coalesce(w.addresses, 0) + coalesce(w.treasuries, 0), coalesce(t.dust, 0),
			coalesce(y.leaving, 0), coalesce(y.moving, 0),
			(coalesce(t.addresses, 0) + coalesce(t.treasuries, 0) - coalesce(t.dust, 0)
				- coalesce(t.available, 0) - coalesce(t.withdrawing, 0) - coalesce(t.in_swap, 0)
				- coalesce(o.total, 0))::text
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
			&r.Available, &r.Withdrawing, &r.InSwap, &r.Products, &r.Gas, &r.Suspense, &r.Waiting, &r.Dust,
			&r.Leaving, &r.Moving,
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
	return found, addProviderClaims(ctx, tx, org, found)
}

// addProviderClaims adds what swap providers have of ours, and counts it in the differences. A swap that
// is paid and ended adds nothing, so only open claims, debts and reversed refunds are read. Their sum is
// that of the accounts at providers, whose transfers are too many to add up for each report.
func addProviderClaims(ctx context.Context, tx pg.Tx, org string, reserves []Reserve) error {
	// Without a parameter that may be empty, PostgreSQL plans the statement once.
	condition, args := "", []any{}
	if org != "" {
		condition, args = "WHERE c.org_id = $1", []any{org}
	}
	rows, err := tx.Query(ctx, `
		SELECT c.mint_id, c.provider, sum(c.amount)::text, min(c.created_at)
		FROM (
			SELECT org_id, from_mint_id AS mint_id, provider, amount_in - refunded - short AS amount, created_at
			FROM swaps
			WHERE paid_at IS NOT NULL AND amount_out IS NULL AND refunded + short < amount_in
			UNION ALL
			SELECT s.org_id, s.from_mint_id, s.provider, CASE WHEN s.paid_at IS NULL THEN 0 ELSE s.amount_in END
				- CASE WHEN s.amount_out IS NULL THEN 0 ELSE s.amount_in END - s.short
				- coalesce((SELECT sum(d.amount) FROM deposits d
					WHERE d.swap_id = s.swap_id AND d.arrival_role = 'REFUND'
						AND d.status IN ('CREDITED', 'REVERSED')), 0), NULL
			FROM swaps s
			WHERE s.paid_at IS NULL AND (s.amount_out IS NOT NULL OR s.refunded > 0)
				OR s.amount_out IS NOT NULL AND s.refunded > 0
			UNION ALL
			SELECT d.org_id, d.mint_id, s.provider, d.amount, s.created_at
			FROM deposits d JOIN swaps s ON s.swap_id = d.swap_id
			WHERE d.status = 'REVERSED' AND d.arrival_role = 'REFUND') c
		`+condition+`
		GROUP BY 1, 2 HAVING sum(c.amount) <> 0 ORDER BY 1, 2`, args...)
	if err != nil {
		return fmt.Errorf("read what is at swap providers: %w", err)
	}
	claims := map[int][]ProviderClaim{}
	var mintID int
	var claim ProviderClaim
	_, err = pgx.ForEachRow(rows, []any{&mintID, &claim.Provider, &claim.Amount, &claim.OldestAt}, func() error {
		claims[mintID] = append(claims[mintID], claim)
		claim = ProviderClaim{}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read what is at swap providers: %w", err)
	}
	for i := range reserves {
		r := &reserves[i]
		r.AtProviders = claims[r.Mint.ID]
		for _, c := range r.AtProviders {
			difference, isNumber := new(big.Int).SetString(r.Difference, 10)
			amount, isAmount := new(big.Int).SetString(c.Amount, 10)
			if !isNumber || !isAmount {
				return fmt.Errorf("the claim on %s in mint %d is no whole number: %q", c.Provider, r.Mint.ID, c.Amount)
			}
			r.Difference = difference.Add(difference, amount).String()
		}
	}
	return nil
}
