package event

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
)

// RetentionPeriod is how long the bytes of an event are kept at least. The table refuses a shorter
// time.
const RetentionPeriod = 90 * 24 * time.Hour

// ExpiringEvent is an event that is older than RetentionPeriod.
type ExpiringEvent struct {
	ID       string
	Sequence int64
}

// LockExpiring locks the beginning of an organization's feed and returns the events there that are
// older than RetentionPeriod, in sequence and at most limit of them. It stops at the first younger
// one, so that a feed is complete from its first number on.
func LockExpiring(ctx context.Context, tx pg.Tx, org string, limit int) ([]ExpiringEvent, error) {
	rows, err := tx.Query(ctx, `
		WITH place AS MATERIALIZED (
			SELECT expired FROM event_sequences WHERE org_id = $1 FOR NO KEY UPDATE
		)
		SELECT e.event_id, e.sequence, e.created_at
		FROM place CROSS JOIN LATERAL (
			SELECT event_id, sequence, created_at FROM events
			WHERE org_id = $1 AND sequence > place.expired ORDER BY sequence LIMIT $2
		) e
		ORDER BY e.sequence`, org, limit)
	if err != nil {
		return nil, fmt.Errorf("read the oldest events of %s: %w", org, err)
	}
	defer rows.Close()
	var old []ExpiringEvent
	for rows.Next() {
		var e ExpiringEvent
		var createdAt time.Time
		if err := rows.Scan(&e.ID, &e.Sequence, &createdAt); err != nil {
			return nil, fmt.Errorf("read the oldest events of %s: %w", org, err)
		}
		if !createdAt.Before(tx.Now.Add(-RetentionPeriod)) {
			break
		}
		old = append(old, e)
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the oldest events of %s: %w", org, err)
	}
	return old, nil
}

// Expire deletes the bytes of the events that LockExpiring returned, from the first of them on
// without leaving one out. Their rows stay without a time limit: they prove that the events
// happened, in which order and under which number. Rule EVT-15.
func Expire(ctx context.Context, tx pg.Tx, org string, old []ExpiringEvent) error {
	if len(old) == 0 {
		return nil
	}
	ids := make([]string, len(old))
	for i, e := range old {
		ids[i] = e.ID
	}
	b := &pgx.Batch{}
	b.Queue(`UPDATE events SET data = '', body = '', expired_at = $2 WHERE event_id = ANY ($1)`, ids, tx.Now)
	b.Queue(`UPDATE event_sequences SET expired = $2 WHERE org_id = $1 AND expired < $2`, org, old[len(old)-1].Sequence)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("remove the bytes of %d events of %s: %w", len(old), org, err)
	}
	return nil
}
