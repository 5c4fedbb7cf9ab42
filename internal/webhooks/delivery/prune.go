package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

const (
	attemptsKept    = 30 * 24 * time.Hour // in the log that organizations read, samples included
	jobsKept        = event.RetentionPeriod
	pruneBatchMax   = 1000 // rows in one transaction
	pruneBatchesMax = 1000 // transactions of one kind in one run; the next run continues
)

// Prune deletes old data:
//   - attempts after 30 days
//   - the bytes of events after 90 days, with their deliveries
//   - jobs after 90 days
//   - secrets once they have retired
//
// An event stays while a delivery of it waits for an endpoint that is enabled or paused, and with
// it everything younger in its organization's feed. Deliveries that wait for a disabled or deleted
// endpoint go with the event.
//
// It is a periodic job: it may run at any time and in several processes, and each batch is a
// transaction of its own. Rules EVT-13 and EVT-15.
func Prune(ctx context.Context, db *pg.DB, log *slog.Logger) error {
	var orgs, endpoints []string
	err := db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if orgs, err = queryTexts(
			ctx, tx, `SELECT org_id FROM event_sequences WHERE expired < last ORDER BY org_id`,
		); err != nil {
			return err
		}
		endpoints, err = queryTexts(ctx, tx, `SELECT endpoint_id FROM webhook_endpoints ORDER BY endpoint_id`)
		return err
	})
	if err != nil {
		return fmt.Errorf("look for expired rows: %w", err)
	}
	var errs []error
	for _, org := range orgs {
		errs = append(errs, repeatBatches(ctx, func(ctx context.Context) (bool, error) {
			return pruneEvents(ctx, db, log, org)
		}))
	}
	for _, endpoint := range endpoints {
		errs = append(errs, repeatBatches(ctx, func(ctx context.Context) (bool, error) {
			return pruneAttempts(ctx, db, endpoint)
		}))
	}
	errs = append(errs, db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		b := &pgx.Batch{}
		b.Queue(`DELETE FROM webhook_tests WHERE at < $1`, tx.Now.Add(-attemptsKept))
		b.Queue(`DELETE FROM webhook_jobs WHERE status = 'COMPLETED' AND ended_at < $1`, tx.Now.Add(-jobsKept))
		// A post in flight was signed, or its secrets are read again, within the lease.
		b.Queue(`
			DELETE FROM webhook_secrets s USING webhook_endpoints e
			WHERE e.endpoint_id = s.endpoint_id AND (s.retires_at < $1 OR e.deleted_at < $1)`, tx.Now.Add(-leaseLength))
		return tx.SendBatch(ctx, b).Close()
	}))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("delete expired rows: %w", err)
	}
	return nil
}

func queryTexts(ctx context.Context, tx pg.Tx, sql string) ([]string, error) {
	rows, err := tx.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// repeatBatches repeats runBatch until there is no more to do or the limit of one run is reached.
func repeatBatches(ctx context.Context, runBatch func(context.Context) (hasMore bool, err error)) error {
	for range pruneBatchesMax {
		if hasMore, err := runBatch(ctx); err != nil || !hasMore {
			return err
		}
	}
	return nil
}

func pruneEvents(ctx context.Context, db *pg.DB, log *slog.Logger, org string) (hasMore bool, err error) {
	err = db.InSystemPipelined(ctx, func(*pgx.Batch) {}, func(ctx context.Context, tx pg.Tx, b *pgx.Batch) error {
		hasMore = false
		old, err := event.LockExpiring(ctx, tx, org, pruneBatchMax)
		if err != nil || len(old) == 0 {
			return err
		}
		full := len(old) == pruneBatchMax
		ids := make([]string, len(old))
		for i, e := range old {
			ids[i] = e.ID
		}
		rows, err := tx.Query(ctx, `
			SELECT endpoint_id, deleted_at IS NULL AND status IN ('ENABLED', 'PAUSED') FROM webhook_endpoints WHERE org_id = $1`, org)
		if err != nil {
			return fmt.Errorf("read the endpoints of %s: %w", org, err)
		}
		var endpoints, live []string
		var endpoint string
		var lives bool
		if _, err := pgx.ForEachRow(rows, []any{&endpoint, &lives}, func() error {
			if endpoints = append(endpoints, endpoint); lives {
				live = append(live, endpoint)
			}
			return nil
		}); err != nil {
			return fmt.Errorf("read the endpoints of %s: %w", org, err)
		}
		var hold *int64
		err = tx.QueryRow(ctx, `
			SELECT min(v.sequence) FROM deliveries d JOIN events v USING (event_id)
			WHERE d.endpoint_id = ANY ($1) AND d.event_id = ANY ($2) AND d.status = 'PENDING'`, live, ids).Scan(&hold)
		if err != nil {
			return fmt.Errorf("look for old waiting deliveries: %w", err)
		}
		if hold != nil {
			log.LogAttrs(ctx, slog.LevelWarn,
				"an event of more than 90 days waits for a webhook endpoint, so later events are kept, too: enable "+
					"the endpoint or delete it",
				slog.String("organization", org), slog.Int64("sequence", *hold))
			for i, e := range old {
				if e.Sequence >= *hold {
					old, full = old[:i], false
					break
				}
			}
		}
		ids = ids[:len(old)]
		b.Queue(
			`DELETE FROM delivery_attempts a USING deliveries d WHERE a.delivery_id = d.delivery_id AND d.endpoint_id = ANY ($1) AND d.event_id = ANY ($2)`,
			endpoints, ids,
		)
		b.Queue(`DELETE FROM deliveries WHERE endpoint_id = ANY ($1) AND event_id = ANY ($2)`, endpoints, ids)
		event.QueueExpire(b, tx.Now, org, old)
		hasMore = full
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("remove old events of %s: %w", org, err)
	}
	return hasMore, nil
}

func pruneAttempts(ctx context.Context, db *pg.DB, endpoint string) (hasMore bool, err error) {
	err = db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		tag, err := tx.Exec(ctx, `
			DELETE FROM delivery_attempts WHERE (delivery_id, attempt) IN (
				SELECT delivery_id, attempt FROM delivery_attempts WHERE endpoint_id = $1 AND at < $2 ORDER BY at LIMIT $3)`,
			endpoint, tx.Now.Add(-attemptsKept), pruneBatchMax)
		if err != nil {
			return fmt.Errorf("delete old attempts of endpoint %s: %w", endpoint, err)
		}
		hasMore = tag.RowsAffected() == pruneBatchMax
		return nil
	})
	return hasMore, err
}
