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

// TreasuryNeed is an amount that a wallet has to receive so that its waiting orders continue.
type TreasuryNeed struct {
	OrgID    string
	Chain    chain.Name
	WalletID string
	MintID   int
	Amount   money.Amount // at least, in atomic units
	Orders   int          // that wait for it; 0 if a finality break caused it
	Cause    Cause
}

// Cause says why an amount is needed.
type Cause string

// Values of Cause.
const (
	CauseGas       Cause = "GAS"       // payments, sweeps or top-ups lack the native coin for their fee
	CauseFunds     Cause = "FUNDS"     // payments lack the amount, and no address with sweepable funds has it
	CauseShortfall Cause = "SHORTFALL" // finality broke, and amounts that were promised are gone
)

// ListTreasuryNeeds returns what treasuries lack, by organization, chain and mint. It does not
// include the gas of deposit addresses, which the treasury sends to them itself.
func ListTreasuryNeeds(ctx context.Context, tx pg.Tx) ([]TreasuryNeed, error) {
	rows, err := tx.Query(ctx, `
		WITH native AS (SELECT chain, mint_id FROM mints WHERE contract = ''),
		waiting AS (
			SELECT o.org_id, o.chain, o.wallet_id, CASE c.cause WHEN $2::text THEN n.mint_id ELSE o.mint_id END AS mint_id,
				c.cause, sum(o.missing_amount) AS short, count(*) AS orders
			FROM dispatch_orders o JOIN wallets w USING (wallet_id) JOIN native n ON n.chain = o.chain
			JOIN (SELECT unnest($1::text[]) AS waiting_for, $2::text AS cause
				UNION ALL SELECT unnest($3::text[]), $4::text) c USING (waiting_for)
			WHERE o.status = 'QUEUED' AND o.missing_amount > 0 AND w.purpose = 'TREASURY'
			GROUP BY 1, 2, 3, 4, 5),
		-- What customers' addresses still have, the open sweeps included, is on its way. Addresses are read only
		-- where a payment lacks its amount.
		coming AS (
			SELECT p.org_id, p.mint_id, (
				SELECT sum(greatest(f.credited - f.held - f.swept, 0)) FROM address_funds f JOIN wallets w USING (wallet_id)
				WHERE f.org_id = p.org_id AND f.mint_id = p.mint_id AND w.purpose <> 'TREASURY') AS amount
			FROM (SELECT DISTINCT org_id, mint_id FROM waiting WHERE cause = $4::text) p)
		SELECT w.org_id, w.chain, w.wallet_id, w.mint_id, w.short - CASE w.cause WHEN $4 THEN coalesce(c.amount, 0) ELSE 0 END AS amount, w.orders, w.cause
		FROM waiting w LEFT JOIN coming c USING (org_id, mint_id)
		WHERE w.cause = $2 OR w.short > coalesce(c.amount, 0)
		UNION ALL
		SELECT s.org_id, m.chain, t.wallet_id, s.mint_id, sum(s.short + s.gas_short), 0, $5::text
		FROM address_funds s JOIN mints m USING (mint_id) JOIN wallets h USING (wallet_id)
		JOIN wallets t ON t.org_id = s.org_id AND t.family = h.family AND t.purpose = 'TREASURY'
		WHERE s.short > 0 OR s.gas_short > 0 -- the condition of the index
		GROUP BY 1, 2, 3, 4
		ORDER BY 1, 2, 4, 7`,
		dispatch.ReasonsOf(dispatch.RemedyTopUp), CauseGas, dispatch.ReasonsOf(dispatch.RemedySweep), CauseFunds,
		CauseShortfall)
	if err != nil {
		return nil, fmt.Errorf("read what treasuries need: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[TreasuryNeed])
	if err != nil {
		return nil, fmt.Errorf("read what treasuries need: %w", err)
	}
	return found, nil
}

// GasDemand is the work that takes native coin from a treasury: waiting orders, and those that
// follow from them.
type GasDemand struct {
	OrgID    string
	Chain    chain.Name
	Payments int          // without a transaction
	Sweeps   int          // that wait, or will wait, for a gas top-up
	TopUps   int          // planned and without a transaction
	Amount   money.Amount // sum of these top-ups
}

// ListGasDemand returns the gas demand by organization and chain. It leaves out orders that are
// frozen or would revert. A payment that its treasury cannot cover may need sweeps from several
// addresses; until they are planned, it counts as one.
func ListGasDemand(ctx context.Context, tx pg.Tx) ([]GasDemand, error) {
	rows, err := tx.Query(ctx, `
		WITH native AS (SELECT chain, mint_id FROM mints WHERE contract = ''),
		payments AS (
			SELECT org_id, chain, wallet_id, mint_id, count(*) AS orders, sum(amount) AS due
			FROM dispatch_orders
			WHERE status = 'QUEUED' AND purpose IN ('PAYMENT', 'SWAP')
				AND coalesce(waiting_for, '') <> ALL ($1::text[] || $2::text[])
			GROUP BY 1, 2, 3, 4),
		uncovered AS (
			SELECT p.org_id, p.chain, sum(p.orders) AS payments,
				coalesce(sum(p.orders) FILTER (WHERE p.due > coalesce(f.credited - f.held - f.reserved - f.swept, 0)), 0) AS lacking
			FROM payments p LEFT JOIN address_funds f USING (wallet_id, mint_id) GROUP BY 1, 2),
		sweeping AS (
			SELECT s.org_id, s.chain, count(*) AS open,
				count(*) FILTER (WHERE o.status = 'QUEUED' AND coalesce(o.waiting_for, '') <> ALL ($1::text[] || $2::text[])
					AND coalesce(g.gas - g.gas_reserved, 0) = 0
					AND NOT EXISTS (SELECT FROM gas_top_ups u WHERE u.wallet_id = s.wallet_id AND u.chain = s.chain AND u.status = 'OPEN')) AS dry
			FROM sweeps s JOIN dispatch_orders o ON o.order_id = s.sweep_id JOIN native n ON n.chain = s.chain
			LEFT JOIN address_funds g ON g.wallet_id = s.wallet_id AND g.mint_id = n.mint_id
			WHERE s.status = 'OPEN' GROUP BY 1, 2),
		bringing AS (
			SELECT org_id, chain, count(*) AS top_ups, sum(amount) AS amount
			FROM dispatch_orders WHERE status = 'QUEUED' AND purpose = 'GAS' AND coalesce(waiting_for, '') <> ALL ($1::text[]) GROUP BY 1, 2)
		SELECT org_id, chain, coalesce(u.payments, 0)::bigint,
			greatest(coalesce(s.dry, 0), coalesce(u.lacking, 0) - coalesce(s.open - s.dry, 0))::bigint,
			coalesce(b.top_ups, 0)::bigint, coalesce(b.amount, 0)
		FROM uncovered u FULL JOIN sweeping s USING (org_id, chain) FULL JOIN bringing b USING (org_id, chain)
		ORDER BY 1, 2`, dispatch.ReasonsStopped(), dispatch.ReasonsReverting())
	if err != nil {
		return nil, fmt.Errorf("read the work that needs gas: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[GasDemand])
	if err != nil {
		return nil, fmt.Errorf("read the work that needs gas: %w", err)
	}
	return found, nil
}
