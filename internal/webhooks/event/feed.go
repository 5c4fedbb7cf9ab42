package event

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// feedMax is the longest page.
const feedMax = 200

// Page is a page of an organization's events, in sequence.
type Page struct {
	Bodies    []json.RawMessage // the bytes that were signed and sent
	NextAfter int64             // the value of afterSeq for the next page
	HasMore   bool
}

// ReadFeed returns the events of an organization after that sequence number. It returns only the
// given types, or all types if there are none. All types include the extensions; only then are the
// numbers without gaps. The feed begins where the bytes are still kept. limit is between 1 and 200.
// Rule EVT-4.
func ReadFeed(ctx context.Context, tx pg.Tx, org string, afterSeq int64, types []Type, limit int) (Page, error) {
	limit = min(max(limit, 1), feedMax)
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = string(t)
	}
	const stretch = `SELECT sequence, body FROM events
		WHERE org_id = $1 AND sequence > greatest($2, (SELECT expired FROM event_sequences WHERE org_id = $1))`
	args, rowsMax := []any{org, afterSeq}, pagination.Page{Limit: limit}.LimitSQL()
	sql := stretch
	if len(names) > 0 {
		// Each type is read by its own index, so that a rare type is not searched for among all
		// events.
		slices.Sort(names)
		var parts []string
		for _, name := range slices.Compact(names) {
			args = append(args, name)
			parts = append(
				parts, fmt.Sprintf("(%s AND type = $%d ORDER BY sequence LIMIT %s)", stretch, len(args), rowsMax),
			)
		}
		sql = "SELECT sequence, body FROM (" + strings.Join(parts, " UNION ALL ") + ") AS found"
	}
	rows, err := tx.Query(ctx, sql+" ORDER BY sequence LIMIT "+rowsMax, pg.Planned(len(names) > 0, args)...)
	if err != nil {
		return Page{}, fmt.Errorf("read the events of %s: %w", org, err)
	}
	found := Page{Bodies: []json.RawMessage{}, NextAfter: afterSeq}
	var sequence int64
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&sequence, &body}, func() error {
		if len(found.Bodies) == limit {
			found.HasMore = true
			return nil
		}
		found.Bodies = append(found.Bodies, append(json.RawMessage(nil), body...))
		found.NextAfter = sequence
		return nil
	})
	if err != nil {
		return Page{}, fmt.Errorf("read the events of %s: %w", org, err)
	}
	return found, nil
}

// LastSequence returns the number of the organization's newest event, or 0.
func LastSequence(ctx context.Context, tx pg.Tx, org string) (last int64, err error) {
	if err := tx.QueryRow(
		ctx, `SELECT coalesce((SELECT last FROM event_sequences WHERE org_id = $1), 0)`, org,
	).Scan(&last); err != nil {
		return 0, fmt.Errorf("read the last event's number of %s: %w", org, err)
	}
	return last, nil
}
