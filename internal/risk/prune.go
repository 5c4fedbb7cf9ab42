package risk

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
)

// How long unreferenced answers are kept: by default, and at least. The database enforces the
// minimum too; it is longer than any answer is reused.
const (
	RetentionDefault = 30 * 24 * time.Hour
	RetentionMin     = 8 * 24 * time.Hour
)

const (
	pruneBatchSize  = 1000 // answers that one transaction examines
	pruneBatchesMax = 1000 // transactions in one run; the next run continues
)

// PruneAnswers deletes answers that are older than retention and unreferenced: no decision about a
// deposit or a withdrawal, and no verdict that was shown, refers to them. Answers from before
// references were recorded stay as well.
//
// It is a periodic job: it may run at any time and in several processes, and each batch is a
// transaction of its own. It examines no answer twice. Rule RISK-13.
func PruneAnswers(ctx context.Context, db *pg.DB, retention time.Duration) error {
	for range pruneBatchesMax {
		looked := 0
		err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			looked = 0
			var last string
			if err := tx.QueryRow(
				ctx, `SELECT answer_id FROM risk_answers_pruned FOR UPDATE`,
			).Scan(&last); err != nil {
				return err
			}
			rows, err := tx.Query(
				ctx, `SELECT answer_id, kept_at FROM risk_answers WHERE answer_id > $1 ORDER BY answer_id LIMIT $2`,
				last, pruneBatchSize,
			)
			if err != nil {
				return err
			}
			type row struct {
				ID string
				At *time.Time // nil: from before references were recorded
			}
			found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
			if err != nil {
				return err
			}
			var ids []string
			for _, r := range found {
				if r.At != nil && !r.At.Before(tx.Now.Add(-max(retention, RetentionMin))) {
					break // and so are those after it
				}
				last = r.ID
				looked++
				if r.At != nil {
					ids = append(ids, r.ID)
				}
			}
			if looked == 0 {
				return nil
			}
			_, err = tx.Exec(ctx, `
				DELETE FROM risk_answers a WHERE a.answer_id = ANY ($1)
					AND NOT EXISTS (SELECT FROM risk_answer_uses u WHERE u.answer_id = a.answer_id)`, ids)
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, `UPDATE risk_answers_pruned SET answer_id = $1`, last)
			return err
		})
		if err != nil {
			return fmt.Errorf("delete answers of providers: %w", err)
		}
		if looked < pruneBatchSize {
			return nil
		}
	}
	return nil
}
