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

// LockExpiring takes the turn to expire events of an organization and returns the beginning of its feed: the
// events that are older than RetentionPeriod, in sequence and at most limit of them. It stops at the first
// younger one, so that a feed is complete from its first number on. It returns none while another process
// has the turn.
func LockExpiring(ctx context.Context, tx pg.Tx, org string, limit int) ([]ExpiringEvent, error) {
	var locked bool
	err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(hashtextextended('coffer/event/expiry/' || $1, 0))`, org).
		Scan(&locked)
	if err != nil || !locked {
		return nil, err
	}
	rows, err := tx.Query(ctx, `
		SELECT e.event_id, e.sequence, e.created_at
		FROM event_sequences place CROSS JOIN LATERAL (
			SELECT event_id, sequence, created_at FROM events
			WHERE org_id = $1 AND sequence > place.expired ORDER BY sequence LIMIT $2
		) e
		WHERE place.org_id = $1
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

// QueueExpire queues the removal of the bytes of the events that LockExpiring returned, from the first of
// them on without leaving one out. It comes last before the COMMIT, since it locks the counter of the
// organization. The rows stay without a time limit: they prove that the events happened, in which order and
// under which number. Rule EVT-15.
func QueueExpire(b *pgx.Batch, now time.Time, org string, old []ExpiringEvent) {
	if len(old) == 0 {
		return
	}
	ids := make([]string, len(old))
	for i, e := range old {
		ids[i] = e.ID
	}
	b.Queue(`UPDATE events SET data = '', body = '', expired_at = $2 WHERE event_id = ANY ($1)`, ids, now)
	b.Queue(`UPDATE event_sequences SET expired = $2 WHERE org_id = $1 AND expired < $2`, org, old[len(old)-1].Sequence)
}
