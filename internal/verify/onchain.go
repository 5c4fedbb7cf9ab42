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
	"github.com/cofferpay/coffer/internal/finality"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
)

// holdingsMax is how many balances are asked for at once.
const holdingsMax = 500

// OnChain compares what our addresses hold by our own account with the balances
// in the highest block that each chain's final walk has taken in. Left out is what is under
// way at that moment: wallets that an open order pays from or to, and mints and
// deposits that are in doubt, which stand in the findings already.
//
// A token that does not give balances, as its contract reverts, is in doubt too: it
// must not stop the comparison of everything else. Watch puts it under quarantine.
//
// A chain that cannot be asked has no breach but an error; the report of the
// other chains is returned with it.
func OnChain(ctx context.Context, db *pg.DB, chains chain.Chains) (Report, error) {
	r := Report{At: db.Clock()().UTC(), doubt: map[int]string{}}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(chains)) {
		check := Check{ID: "I-06-" + string(name), Promise: fmt.Sprintf("what our addresses hold is what %s says", name)}
		began := time.Now()
		found, count, note, err := compare(ctx, db, chains[name], r.doubt)
		if err != nil {
			note = "not compared: the chain or the database could not be asked"
			errs = append(errs, fmt.Errorf("compare with %s: %w", name, err))
		}
		r.add(check, found, count, note, time.Since(began))
	}
	return r, errors.Join(errs...)
}

// expected is what an address should hold.
type expected struct {
	wallet, org string
	mint        int
	holding     chain.Holding
	units       money.Amount
	// surplus says that a finding stands which explains that it holds more.
	surplus bool
}

func compare(ctx context.Context, db *pg.DB, c chain.Chain, doubts map[int]string) (found []Breach, count int, note string, err error) {
	var at *chain.Block
	var all []expected
	var left int
	var unsettled string
	err = db.Snapshot(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if unsettled, err = finality.Unsettled(ctx, tx, c.Name); err != nil || unsettled != "" {
			return err
		}
		if at, err = walked(ctx, tx, c.Name); err != nil || at == nil {
			return err
		}
		all, left, err = expectations(ctx, tx, c.Name)
		return err
	})
	if err != nil {
		return nil, 0, "", err
	}
	if unsettled != "" {
		// The books still say what the fork that is gone said.
		return nil, 0, "not compared: " + unsettled, nil
	}
	if at == nil {
		return nil, 0, "not walked yet", nil
	}
	for page := range slices.Chunk(all, holdingsMax) {
		asked := make([]chain.Holding, len(page))
		for i, e := range page {
			asked[i] = e.holding
		}
		have, silent, err := chain.Balances(ctx, c.Reader, *at, asked)
		if err != nil {
			return nil, 0, "", fmt.Errorf("ask for balances in block %d: %w", at.Height, err)
		}
		for _, e := range page {
			if why, ok := silent[e.holding]; ok {
				left++
				doubts[e.mint] = why
				continue
			}
			over := have[e.holding].Cmp(e.units)
			if over == 0 || over > 0 && e.surplus {
				continue
			}
			if count++; count <= shownMax {
				found = append(found, Breach{
					OrgID: e.org, Subject: fmt.Sprintf("wallet %s in mint %d", e.wallet, e.mint),
					Detail: fmt.Sprintf("%s holds %v in block %d, by our own account %v", e.holding.Address, have[e.holding], at.Height, e.units),
				})
			}
		}
	}
	note = fmt.Sprintf("%d balances in block %d", len(all), at.Height)
	if left > 0 {
		note += fmt.Sprintf(", %d left out as under way or in doubt", left)
	}
	return found, count, note, nil
}

// walked is the highest block that the final walk has taken in, or nil before
// its start. That is not its cursor when a person has set it back to read blocks
// again: what those brought is in the books already.
func walked(ctx context.Context, tx pg.Tx, name chain.Name) (*chain.Block, error) {
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

func expectations(ctx context.Context, tx pg.Tx, name chain.Name) (all []expected, left int, err error) {
	rows, err := tx.Query(ctx, `
		WITH waiting AS (
			SELECT wallet_id, mint_id, sum(amount) AS amount FROM deposits
			WHERE status = 'SCREENING' AND mint_id IS NOT NULL GROUP BY 1, 2),
		busy AS (
			SELECT wallet_id FROM dispatch_orders WHERE chain = $1 AND status IN `+openOrders+`
			UNION
			SELECT to_wallet_id FROM dispatch_orders WHERE chain = $1 AND status IN `+openOrders+` AND to_wallet_id IS NOT NULL)
		SELECT w.wallet_id, w.org_id, w.address, m.mint_id, m.contract,
			greatest(coalesce(f.credited - f.swept + f.gas + f.dust, 0) + coalesce(p.amount, 0), 0),
			EXISTS (SELECT FROM scan_findings s
				WHERE s.chain = $1 AND s.kind = 'UNATTRIBUTED' AND s.address = w.address AND s.contract = m.contract),
			m.quarantined_at IS NOT NULL OR coalesce(f.short > 0 OR f.gas_short > 0, false)
				OR EXISTS (SELECT FROM busy b WHERE b.wallet_id = w.wallet_id)
				OR EXISTS (SELECT FROM deposits d WHERE d.wallet_id = w.wallet_id AND d.mint_id = m.mint_id AND d.status = 'UNSUPPORTED')
		FROM (SELECT wallet_id, mint_id FROM address_funds UNION SELECT wallet_id, mint_id FROM waiting) k
		JOIN wallets w USING (wallet_id)
		JOIN mints m USING (mint_id)
		LEFT JOIN address_funds f USING (wallet_id, mint_id)
		LEFT JOIN waiting p USING (wallet_id, mint_id)
		WHERE m.chain = $1
		ORDER BY w.wallet_id, m.mint_id`, string(name))
	if err != nil {
		return nil, 0, fmt.Errorf("read what the addresses of %s hold: %w", name, err)
	}
	defer rows.Close()
	for rows.Next() {
		var e expected
		var doubt bool
		err := rows.Scan(&e.wallet, &e.org, &e.holding.Address, &e.mint, &e.holding.Contract, &e.units, &e.surplus, &doubt)
		if err != nil {
			return nil, 0, fmt.Errorf("read what the addresses of %s hold: %w", name, err)
		}
		if doubt {
			left++
			continue
		}
		all = append(all, e)
	}
	if err := rows.Err(); err != nil {
		return nil, 0, fmt.Errorf("read what the addresses of %s hold: %w", name, err)
	}
	return all, left, nil
}
