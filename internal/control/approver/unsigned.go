package approver

import (
	"context"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// unsignedDay is how long what was paid without people counts.
const unsignedDay = 24 * time.Hour

// SumUnsigned returns what an organization paid of an asset without signatures in the last 24 hours: withdrawals and
// what flagged deposits were sent away, without the withdrawal excludedID. The signer counts by its own journal: where
// the sum here is smaller, it refuses the payment, which goes back to people.
func SumUnsigned(
	ctx context.Context, tx pg.Tx, orgID string, mintID int, excludedID string,
) (sum money.Amount, err error) {
	err = tx.QueryRow(ctx, `
		SELECT (
			SELECT coalesce(sum(w.amount), 0) FROM withdrawals w
			WHERE w.org_id = $1 AND w.mint_id = $2 AND w.created_at > $3 AND w.withdrawal_id <> $4
				AND w.status IN ('PROCESSING', 'BROADCAST', 'COMPLETED', 'FAILED')
				AND NOT EXISTS (SELECT FROM withdrawal_approvals a WHERE a.withdrawal_id = w.withdrawal_id
					AND a.round = w.approval_round AND a.signature IS NOT NULL)
				AND NOT EXISTS (SELECT FROM payout_approvals a
					WHERE a.batch_id = w.batch_id AND a.signature IS NOT NULL)
				AND NOT EXISTS (SELECT FROM swaps s JOIN swap_approvals a USING (swap_id)
					WHERE s.payout_id = w.withdrawal_id AND a.signature IS NOT NULL)
		) + (
			SELECT coalesce(sum(r.sent), 0) FROM deposit_resolutions r
			WHERE r.org_id = $1 AND r.mint_id = $2 AND r.decided_at > $3 AND r.decision <> 'APPROVED'
				AND r.status <> 'FAILED'
				AND NOT EXISTS (SELECT FROM return_signatures g WHERE g.request_id = r.resolution_id)
		)`, orgID, mintID, tx.Now.Add(-unsignedDay), excludedID).Scan(&sum)
	if err != nil {
		return sum, fmt.Errorf("sum what %s paid without signatures: %w", orgID, err)
	}
	return sum, nil
}
