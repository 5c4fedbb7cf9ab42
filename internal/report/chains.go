package report

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// ChainState is how far the scan of a chain is, and how many orders are open there.
type ChainState struct {
	Chain           chain.Name
	FinalHeight     *int64 // the last final block that was applied; nil before the first
	AppliedAt       *time.Time
	BlockTime       *time.Time // of that block
	HeadHeight      *int64     // the newest block that was seen
	ForkedAbove     *int64     // the last block that both ends have, where the final chain parted
	Breaks          int        // of finality, which operators decided
	Untraced        int        // transactions whose calls still have to be traced
	Findings        int        // balances that no transaction explains, of the last 30 days
	Queued          int        // orders without a slot
	Sent            int        // orders with a slot that is not final
	Stuck           int
	OldestSlottedAt *time.Time // when the oldest order with a slot was made
	IsFrozen        bool       // as a whole
}

// ListChainStates returns the state of chains, by name, in a transaction of the system. It reads what
// the scans have written and asks no provider. Rule PAGE-73.
func ListChainStates(ctx context.Context, tx pg.Tx, names []chain.Name) ([]ChainState, error) {
	rows, err := tx.Query(ctx, `
		SELECT n.chain, c.height, c.updated_at,
			(SELECT p.block_time FROM finality_proofs p
				WHERE p.chain = c.chain AND p.height = c.height AND p.hash = c.hash
				ORDER BY p.proof_id DESC LIMIT 1),
			(SELECT max(h.height) FROM scan_heads h WHERE h.chain = n.chain), c.forked_above,
			(SELECT count(*) FROM finality_breaks b WHERE b.chain = n.chain),
			(SELECT count(*) FROM scan_untraced u JOIN finality_live l USING (proof_id)
				WHERE u.status = 'DUE' AND l.chain = n.chain),
			(SELECT count(*) FROM scan_findings f
				WHERE f.chain = n.chain AND f.created_at > $2::timestamptz - interval '30 days'),
			coalesce(o.queued, 0), coalesce(o.sent, 0), coalesce(o.stuck, 0), o.oldest,
			EXISTS (SELECT FROM freezes z WHERE z.scope = 'CHAIN' AND z.chain = n.chain AND z.lifted_at IS NULL)
		FROM unnest($1::text[]) AS n (chain) LEFT JOIN scan_cursors c USING (chain) LEFT JOIN (
			SELECT chain, count(*) FILTER (WHERE status = 'QUEUED') AS queued,
				count(*) FILTER (WHERE status IN ('SLOTTED', 'SIGNED', 'BROADCAST')) AS sent,
				count(*) FILTER (WHERE status = 'STUCK') AS stuck,
				min(created_at) FILTER (WHERE status <> 'QUEUED') AS oldest
			FROM (
				-- Two partial indexes have these rows, and none has them all.
				SELECT chain, status, created_at FROM dispatch_orders
				WHERE status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST')
				UNION ALL
				SELECT chain, status, created_at FROM dispatch_orders WHERE status = 'STUCK') open_orders
			GROUP BY 1) o USING (chain)
		ORDER BY 1`, names, tx.Now)
	if err != nil {
		return nil, fmt.Errorf("read the state of the chains: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ChainState])
	if err != nil {
		return nil, fmt.Errorf("read the state of the chains: %w", err)
	}
	return found, nil
}
