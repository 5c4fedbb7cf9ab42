package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
)

const restartMax = 1000 // deliveries that get a new schedule in one transaction

// runMaintenance does one step of each task that is neither a claim nor a record, each in a
// transaction of its own. It reports whether there is more to do at once.
func (d *Dispatcher) runMaintenance(ctx context.Context) (hasMore bool, err error) {
	if err := d.cancelOrphaned(ctx); err != nil {
		return false, err
	}
	restarting, err := d.restartSchedules(ctx)
	if err != nil {
		return false, err
	}
	working, err := d.advanceJob(ctx)
	return restarting || working, err
}

// cancelOrphaned cancels the waiting deliveries of an endpoint that is deleted or gone, including
// those inserted at the moment of its deletion. Deliveries in flight are left to their lease.
func (d *Dispatcher) cancelOrphaned(ctx context.Context) error {
	return d.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := setPlanner(ctx, tx); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `WITH RECURSIVE `+busyEndpoints+`
			SELECT e.endpoint_id FROM busy JOIN webhook_endpoints e USING (endpoint_id)
			WHERE e.deleted_at IS NOT NULL OR e.status = 'DISABLED_GONE'`)
		if err != nil {
			return fmt.Errorf("look for deleted endpoints: %w", err)
		}
		removed, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("look for deleted endpoints: %w", err)
		}
		if len(removed) == 0 {
			return nil
		}
		_, err = tx.Exec(ctx, `
			WITH over AS MATERIALIZED (
				SELECT delivery_id FROM deliveries
				WHERE endpoint_id = ANY ($1) AND status = 'PENDING' AND (leased_until IS NULL OR leased_until <= $2)
				LIMIT $3 FOR UPDATE SKIP LOCKED
			)
			UPDATE deliveries d SET status = 'CANCELLED', ended_at = $2, lease = NULL, leased_until = NULL
			FROM over WHERE d.delivery_id = over.delivery_id`, removed, tx.Now, cancelMax)
		if err != nil {
			return fmt.Errorf("cancel deliveries of deleted endpoints: %w", err)
		}
		return nil
	})
}

// restartSchedules restarts the schedule of an endpoint's waiting deliveries, one batch at a time,
// after its owner has enabled it again or changed its URL. Earlier failures no longer count. The
// progress is in the endpoint's row and moves in the same transaction. Deliveries first tried after
// the change stay as they are, so that the walk ends however quickly deliveries fail. Rule EVT-9.
func (d *Dispatcher) restartSchedules(ctx context.Context) (hasMore bool, err error) {
	err = d.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		hasMore = false
		if err := setPlanner(ctx, tx); err != nil {
			return err
		}
		var endpoint string
		var restartAt time.Time
		err := tx.QueryRow(ctx, `
			SELECT endpoint_id, restart_at FROM webhook_endpoints WHERE restart_at IS NOT NULL
			ORDER BY endpoint_id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED`).Scan(&endpoint, &restartAt)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look for endpoints to restart: %w", err)
		}
		hasMore = true
		_, err = tx.Exec(ctx, `
			WITH place AS MATERIALIZED (
				SELECT restart_after, restart_id FROM webhook_endpoints WHERE endpoint_id = $1
			), walked AS MATERIALIZED (
				SELECT d.delivery_id, d.attempt_after FROM place p CROSS JOIN LATERAL (
					SELECT delivery_id, attempt_after FROM deliveries
					WHERE endpoint_id = $1 AND status = 'PENDING' AND (attempt_after, delivery_id) > (p.restart_after, p.restart_id)
					ORDER BY attempt_after, delivery_id LIMIT $4
				) d
			), locked AS MATERIALIZED (
				SELECT d.delivery_id FROM walked w JOIN deliveries d USING (delivery_id)
				WHERE d.status = 'PENDING' AND d.lease IS NULL AND (d.first_attempt_at <= $2 OR d.attempt_after > $3)
				FOR UPDATE OF d SKIP LOCKED
			), restarted AS (
				UPDATE deliveries d
				SET schedule_base = d.attempts, first_attempt_at = NULL, attempt_after = least(d.attempt_after, $3)
				FROM locked l WHERE d.delivery_id = l.delivery_id
			), last AS MATERIALIZED (
				SELECT attempt_after, delivery_id FROM walked ORDER BY attempt_after DESC, delivery_id DESC LIMIT 1
			), whole AS MATERIALIZED (
				SELECT count(*) = $4 AS full FROM walked
			)
			UPDATE webhook_endpoints e
			SET restart_at = CASE WHEN whole.full THEN e.restart_at END,
			    restart_after = CASE WHEN whole.full THEN last.attempt_after END,
			    restart_id = CASE WHEN whole.full THEN last.delivery_id END
			FROM whole LEFT JOIN last ON true
			WHERE e.endpoint_id = $1`, endpoint, restartAt, tx.Now, restartMax)
		if err != nil {
			return fmt.Errorf("restart the deliveries that wait for endpoint %s: %w", endpoint, err)
		}
		return nil
	})
	return hasMore, err
}
