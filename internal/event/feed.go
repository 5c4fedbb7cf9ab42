package event

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/pg"
)

// feedMax is the longest page.
const feedMax = 200

// Page is a stretch of an organization's events in their sequence.
type Page struct {
	Bodies  []json.RawMessage // the bytes that were signed and sent
	Next    int64             // what to give as after for the next page
	HasMore bool
}

// Feed reads the events of an organization after that sequence number, of these types
// or of all when there are none. All includes the extensions: only so are the numbers
// without gaps. It begins where the bytes are still kept. Limit is between 1 and 200.
func Feed(ctx context.Context, tx pg.Tx, org string, after int64, types []Type, limit int) (Page, error) {
	limit = min(max(limit, 1), feedMax)
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = string(t)
	}
	rows, err := tx.Query(ctx, `
		SELECT sequence, body FROM events
		WHERE org_id = $1 AND sequence > greatest($2, (SELECT expired FROM event_sequences WHERE org_id = $1)) AND (cardinality($3::text[]) = 0 OR type = ANY ($3))
		ORDER BY sequence LIMIT $4`, org, after, names, limit+1)
	if err != nil {
		return Page{}, fmt.Errorf("read the events of %s: %w", org, err)
	}
	page := Page{Bodies: []json.RawMessage{}, Next: after}
	var sequence int64
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&sequence, &body}, func() error {
		if len(page.Bodies) == limit {
			page.HasMore = true
			return nil
		}
		page.Bodies = append(page.Bodies, append(json.RawMessage(nil), body...))
		page.Next = sequence
		return nil
	})
	if err != nil {
		return Page{}, fmt.Errorf("read the events of %s: %w", org, err)
	}
	return page, nil
}

// LastSequence is the number of the organization's newest event, or 0.
func LastSequence(ctx context.Context, tx pg.Tx, org string) (last int64, err error) {
	if err := tx.QueryRow(ctx, `SELECT coalesce((SELECT last FROM event_sequences WHERE org_id = $1), 0)`, org).Scan(&last); err != nil {
		return 0, fmt.Errorf("read the last event's number of %s: %w", org, err)
	}
	return last, nil
}
