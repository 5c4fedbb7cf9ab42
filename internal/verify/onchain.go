package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// holdingsMax bounds the balances of one query.
const holdingsMax = 500

// CompareWithChains compares the expected holdings of our addresses with their balances in the
// highest block that each chain's final walk has processed. It leaves out mints and deposits that
// are in doubt, which the findings already name.
//
// It is unknown what an open order has moved by that block, so its wallets are compared with
// bounds. At most, everything that was signed is gone, with its maximum fee. At most, everything of
// ours that was signed towards a wallet has arrived. A transaction that is signed later cannot be
// in a block that was final before; an order that ended did so by a block that was walked. The
// bounds therefore hold whatever happens meanwhile.
//
// A token whose contract reverts on a balance query is in doubt too: it must not stop the
// comparison of the others. CheckAndFreeze puts it under quarantine.
//
// A chain that cannot be asked gives an error and no breach; the report of the other chains is
// returned with it.
func CompareWithChains(ctx context.Context, db *pg.DB, chains chain.Chains) (Report, error) {
	r := Report{CheckedAt: db.Clock()().UTC(), doubtful: map[int]string{}}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(chains)) {
		check := Check{ID: "I-06-" + string(name), Promise: fmt.Sprintf("what the service's addresses hold is what "+
			"%s says",
			name)}
		began := time.Now()
		found, count, note, err := compareChain(ctx, db, chains[name], r.doubtful)
		if err != nil {
			note = "not compared: the chain or the database did not answer"
			errs = append(errs, fmt.Errorf("compare with %s: %w", name, err))
		}
		r.addOutcome(check, found, count, note, time.Since(began))
		if chains[name].PayoutContract == nil {
			continue
		}
		began = time.Now()
		o, remarks, err := examinePayoutContract(ctx, db, chains[name])
		if err != nil {
			errs = append(errs, fmt.Errorf("payout contract of %s: %w", name, err))
		}
		o.Duration = time.Since(began)
		r.Outcomes, r.Remarks = append(r.Outcomes, o), append(r.Remarks, remarks...)
	}
	return r, errors.Join(errs...)
}

// expectedHolding is the expected balance of an address.
type expectedHolding struct {
	wallet, org string
	mint        int
	holding     chain.Holding
	units       money.Amount
	// The most that open orders may have taken from the address, or brought to it, by that block.
	maxOut, maxIn money.Amount
	// surplusExplained says that a finding explains a higher balance.
	surplusExplained bool
}

func compareChain(
	ctx context.Context, db *pg.DB, c chain.Chain, doubts map[int]string,
) (found []Breach, count int, note string, err error) {
	var block *chain.Block
	var holdings []expectedHolding
	var skipped int
	var unsettled string
	err = db.Snapshot(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if unsettled, err = finality.UnsettledReason(ctx, tx, c.Name); err != nil || unsettled != "" {
			return err
		}
		if block, err = lastWalkedBlock(ctx, tx, c.Name); err != nil || block == nil {
			return err
		}
		loadExpected := expectHoldings
		if c.Name.IsUTXO() {
			loadExpected = expectOutputs
		}
		holdings, skipped, err = loadExpected(ctx, tx, c.Name)
		return err
	})
	if err != nil {
		return nil, 0, "", err
	}
	if unsettled != "" {
		// The books still contain the state of the fork that was replaced.
		return nil, 0, "not compared: " + unsettled, nil
	}
	if block == nil {
		return nil, 0, "not read yet", nil
	}
	for page := range slices.Chunk(holdings, holdingsMax) {
		queries := make([]chain.Holding, len(page))
		for i, e := range page {
			queries[i] = e.holding
		}
		balances, silent, err := chain.Balances(ctx, c.Reader, *block, queries)
		if err != nil {
			return nil, 0, "", fmt.Errorf("ask for balances in block %d: %w", block.Height, err)
		}
		for _, e := range page {
			if detail, ok := silent[e.holding]; ok {
				skipped++
				doubts[e.mint] = detail
				continue
			}
			minimum, maximum := e.units, e.units
			if minimum, err = e.units.Sub(e.maxOut); err != nil {
				minimum = money.Zero // fees are bounded by their maximum, not by the balance
			}
			if maximum, err = e.units.Add(e.maxIn); err != nil {
				return nil, 0, "", fmt.Errorf("what wallet %s may hold: %w", e.wallet, err)
			}
			if !balances[e.holding].Less(minimum) && (e.surplusExplained || !maximum.Less(balances[e.holding])) {
				continue
			}
			bookText := e.units.String()
			if minimum != maximum {
				bookText = fmt.Sprintf("%v to %v, as orders are in progress", minimum, maximum)
			}
			if count++; count <= breachesShownMax {
				found = append(found, Breach{
					OrgID: e.org, Subject: fmt.Sprintf("wallet %s in mint %d", e.wallet, e.mint),
					Detail: fmt.Sprintf("%s has %v in block %d, the books have %s", e.holding.Address,
						balances[e.holding], block.Height, bookText),
				})
			}
		}
	}
	note = fmt.Sprintf("%d balances in block %d", len(holdings), block.Height)
	bounded := 0
	for _, e := range holdings {
		if !e.maxOut.IsZero() || !e.maxIn.IsZero() {
			bounded++
		}
	}
	if bounded > 0 {
		note += fmt.Sprintf(", %d within bounds as orders are in progress", bounded)
	}
	if skipped > 0 {
		note += fmt.Sprintf(", %d left out because they are disputed", skipped)
	}
	return found, count, note, nil
}

// lastWalkedBlock returns the highest block that the final walk has processed, or nil before its
// start. That differs from the cursor when a person has set it back to read blocks again: their
// content is in the books already.
func lastWalkedBlock(ctx context.Context, tx pg.Tx, name chain.Name) (*chain.Block, error) {
	var b chain.Block
	var height int64
	err := tx.QueryRow(ctx, `
		SELECT height, hash FROM (
			SELECT height, hash FROM scan_cursors WHERE chain = $1
			UNION ALL (SELECT height, hash FROM finality_live WHERE chain = $1 ORDER BY height DESC LIMIT 1)
		) AS walked ORDER BY height DESC LIMIT 1`, string(name)).Scan(&height, &b.Hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the cursor of %s: %w", name, err)
	}
	b.Height = uint64(height)
	return &b, nil
}

// expectOutputs returns the expected holdings of a UTXO chain's addresses: their outputs. Outputs
// of signed transactions may be spent by that block.
func expectOutputs(
	ctx context.Context, tx pg.Tx, name chain.Name,
) (holdings []expectedHolding, skipped int, err error) {
	rows, err := tx.Query(ctx, `
		SELECT w.wallet_id, w.org_id, w.address, c.mint_id,
			coalesce(sum(c.amount) FILTER (WHERE c.status IN ('HELD', 'FREE', 'RESERVED')), 0),
			coalesce(sum(c.amount) FILTER (WHERE c.status = 'RESERVED'), 0),
			EXISTS (SELECT FROM scan_findings s WHERE s.chain = $1 AND s.kind = 'UNATTRIBUTED' AND s.address = w.address),
			bool_or(m.quarantined_at IS NOT NULL OR c.proof_id IS NULL
				OR c.order_id IN (SELECT q.order_id FROM dispatch_reorged q WHERE q.chain = $1))
		FROM utxos c JOIN wallets w USING (wallet_id) JOIN mints m USING (mint_id)
		WHERE c.chain = $1
		GROUP BY w.wallet_id, c.mint_id ORDER BY w.wallet_id, c.mint_id`, string(name))
	if err != nil {
		return nil, 0, fmt.Errorf("read the outputs of %s: %w", name, err)
	}
	defer rows.Close()
	for rows.Next() {
		var e expectedHolding
		var doubt bool
		if err := rows.Scan(
			&e.wallet, &e.org, &e.holding.Address, &e.mint, &e.units, &e.maxOut, &e.surplusExplained, &doubt,
		); err != nil {
			return nil, 0, fmt.Errorf("read the outputs of %s: %w", name, err)
		}
		if doubt {
			skipped++
			continue
		}
		holdings = append(holdings, e)
	}
	if err := rows.Err(); err != nil {
		return nil, 0, fmt.Errorf("read the outputs of %s: %w", name, err)
	}
	return holdings, skipped, nil
}

func expectHoldings(
	ctx context.Context, tx pg.Tx, name chain.Name,
) (holdings []expectedHolding, skipped int, err error) {
	rows, err := tx.Query(ctx, `
		WITH waiting AS (
			SELECT wallet_id, mint_id, sum(amount) AS amount FROM deposits
			WHERE status = 'SCREENING' AND mint_id IS NOT NULL GROUP BY 1, 2),
		signed AS (
			SELECT o.wallet_id, coalesce(o.from_wallet_id, o.wallet_id) AS from_wallet_id, o.to_wallet_id, o.mint_id, o.amount,
				div(s.gas_reserved, s.orders) + CASE WHEN o.tx_lead_id IS NULL THEN s.gas_reserved % s.orders ELSE 0 END AS gas_reserved,
				(SELECT mint_id FROM mints WHERE chain = $1 AND contract = '') AS native
			FROM dispatch_orders o JOIN dispatch_slots s ON s.order_id = coalesce(o.tx_lead_id, o.order_id)
			WHERE o.chain = $1 AND o.status IN `+openOrders+`
				AND EXISTS (SELECT FROM dispatch_attempts a WHERE a.order_id = s.order_id AND a.raw IS NOT NULL)),
		way AS (
			SELECT wallet_id, mint_id, sum(gone) AS gone, sum(come) AS come
			FROM (SELECT from_wallet_id AS wallet_id, mint_id, amount AS gone, 0 AS come FROM signed
				UNION ALL
				SELECT wallet_id, native, gas_reserved, 0 FROM signed
				UNION ALL
				SELECT to_wallet_id, mint_id, 0, amount FROM signed WHERE to_wallet_id IS NOT NULL) moves
			GROUP BY 1, 2),
		-- What ended on a block that is gone may be on the chain again or not yet. Asked once,
		-- not for each wallet.
		asked AS MATERIALIZED (SELECT unnest(ARRAY[wallet_id, from_wallet_id, to_wallet_id]) AS wallet_id FROM dispatch_reorged WHERE chain = $1)
		SELECT w.wallet_id, w.org_id, w.address, m.mint_id, m.contract,
			greatest(coalesce(f.credited - f.swept + f.gas + f.dust, 0) + coalesce(p.amount, 0), 0),
			coalesce(y.gone, 0), coalesce(y.come, 0),
			EXISTS (SELECT FROM scan_findings s
				WHERE s.chain = $1 AND s.kind = 'UNATTRIBUTED' AND s.address = w.address AND s.contract = m.contract)
				OR m.contract = '' AND EXISTS (SELECT FROM scan_untraced u JOIN finality_live l USING (proof_id)
					WHERE l.chain = $1 AND u.status = 'DUE' AND (u.addresses IS NULL OR w.address = ANY (u.addresses))),
			m.quarantined_at IS NOT NULL OR coalesce(f.short > 0 OR f.gas_short > 0, false)
				OR w.wallet_id IN (SELECT a.wallet_id FROM asked a WHERE a.wallet_id IS NOT NULL)
				OR EXISTS (SELECT FROM deposits d WHERE d.wallet_id = w.wallet_id AND d.mint_id = m.mint_id AND d.status = 'UNSUPPORTED')
		FROM (SELECT wallet_id, mint_id FROM address_funds UNION SELECT wallet_id, mint_id FROM waiting UNION SELECT wallet_id, mint_id FROM way) k
		JOIN wallets w USING (wallet_id)
		JOIN mints m USING (mint_id)
		LEFT JOIN address_funds f USING (wallet_id, mint_id)
		LEFT JOIN waiting p USING (wallet_id, mint_id)
		LEFT JOIN way y USING (wallet_id, mint_id)
		WHERE m.chain = $1
		ORDER BY w.wallet_id, m.mint_id`, string(name))
	if err != nil {
		return nil, 0, fmt.Errorf("read what the addresses of %s hold: %w", name, err)
	}
	defer rows.Close()
	for rows.Next() {
		var e expectedHolding
		var doubt bool
		err := rows.Scan(&e.wallet, &e.org, &e.holding.Address, &e.mint, &e.holding.Contract, &e.units, &e.maxOut,
			&e.maxIn, &e.surplusExplained, &doubt)
		if err != nil {
			return nil, 0, fmt.Errorf("read what the addresses of %s hold: %w", name, err)
		}
		if doubt {
			skipped++
			continue
		}
		if e.holding.Contract == "" && !e.maxOut.IsZero() && name != chain.Ethereum {
			// A rollup may charge more than its gas, so the fee has no bound.
			e.maxOut = e.units
		}
		holdings = append(holdings, e)
	}
	if err := rows.Err(); err != nil {
		return nil, 0, fmt.Errorf("read what the addresses of %s hold: %w", name, err)
	}
	return holdings, skipped, nil
}
