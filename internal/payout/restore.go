package payout

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// restoredPause is why a batch of a restored database is paused.
const restoredPause = "The database was restored from a backup. Compare the rows with what was paid, then resume it."

// PauseRestored pauses every batch that is being paid according to a restored backup. The signer's journal has brought
// back what it signed, under the same ids. What people did after the backup was made is lost: one of them may have
// cancelled the batch, so a person decides whether it goes on. Rule BP-32.
func PauseRestored(ctx context.Context, tx pg.Tx, actor audit.Actor) error {
	rows, err := tx.Query(ctx, `
		UPDATE payout_batches SET version = version + 1, paused_at = $1, pause_reason = $2,
			updated_at = greatest(updated_at, $1)
		WHERE status = 'PROCESSING' AND paused_at IS NULL AND stopped_at IS NULL
		RETURNING batch_id, org_id`, tx.Now, restoredPause)
	if err != nil {
		return fmt.Errorf("pause the batches of a restored database: %w", err)
	}
	batches, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b Batch, err error) {
		return b, row.Scan(&b.ID, &b.OrgID)
	})
	if err != nil {
		return fmt.Errorf("pause the batches of a restored database: %w", err)
	}
	for _, b := range batches {
		err := audit.Record(ctx, tx, newEntry(b, actor, "paused", map[string]any{"reason": restoredPause}))
		if err != nil {
			return err
		}
	}
	return nil
}
