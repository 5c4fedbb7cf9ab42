package event

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
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

// Recorded is an event with what a person reads about it.
type Recorded struct {
	ID           string
	Sequence     int64 // 0 until it is numbered
	Type         Type
	ResourceKind string
	ResourceID   string
	CustomerID   string // "" if it concerns no customer
	Chain        string // "" if it concerns no chain
	CreatedAt    time.Time
	Body         []byte // what was signed and sent; nil before the number and after 90 days
}

const recordedColumns = `event_id, coalesce(sequence, 0), type, resource_kind, resource_id, coalesce(customer_id, ''),
	coalesce(chain, ''), created_at, coalesce(body, '')`

func scanRecorded(row pgx.CollectableRow) (r Recorded, err error) {
	err = row.Scan(&r.ID, &r.Sequence, &r.Type, &r.ResourceKind, &r.ResourceID, &r.CustomerID, &r.Chain,
		&r.CreatedAt, &r.Body)
	if len(r.Body) == 0 {
		r.Body = nil
	}
	return r, err
}

// ListRecent returns the numbered events of an organization whose bytes are kept, the newest first: those
// below a number, and with 0 the newest of all. t narrows the list to one type, and "" does not. hasMore
// says that older ones follow. limit is between 1 and 200.
func ListRecent(
	ctx context.Context, tx pg.Tx, org string, belowSeq int64, t Type, limit int,
) (found []Recorded, hasMore bool, err error) {
	limit = min(max(limit, 1), feedMax)
	// The events that expired are the oldest, so they are left out of the page and not of the search: PostgreSQL
	// would take the two bounds for a narrow range and read all events.
	sql := `SELECT ` + recordedColumns + ` FROM (
		SELECT * FROM events WHERE org_id = $1 AND sequence IS NOT NULL`
	args := []any{org}
	if belowSeq > 0 {
		args = append(args, belowSeq)
		sql += fmt.Sprintf(` AND sequence < $%d`, len(args))
	}
	if t != "" {
		args = append(args, string(t))
		sql += fmt.Sprintf(` AND type = $%d`, len(args))
	}
	sql += ` ORDER BY sequence DESC LIMIT ` + pagination.Page{Limit: limit}.LimitSQL() + `) newest
		WHERE sequence > coalesce((SELECT expired FROM event_sequences WHERE org_id = $1), 0) ORDER BY sequence DESC`
	rows, err := tx.Query(ctx, sql, pg.Planned(t != "", args)...)
	if err != nil {
		return nil, false, fmt.Errorf("list the events of %s: %w", org, err)
	}
	found, err = pgx.CollectRows(rows, scanRecorded)
	if err != nil {
		return nil, false, fmt.Errorf("list the events of %s: %w", org, err)
	}
	if len(found) > limit {
		found, hasMore = found[:limit], true
	}
	return found, hasMore, nil
}

// LoadRecorded returns one event of an organization. Error: NOT_FOUND.
func LoadRecorded(ctx context.Context, tx pg.Tx, org, eventID string) (Recorded, error) {
	notFound := fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"Your organization has no event %.64q.", eventID).WithStep(fault.ListEvents)
	if !id.IsValid("evt", eventID) {
		return Recorded{}, notFound
	}
	rows, err := tx.Query(
		ctx, `SELECT `+recordedColumns+` FROM events WHERE org_id = $1 AND event_id = $2`, org, eventID,
	)
	if err != nil {
		return Recorded{}, fmt.Errorf("read event %s: %w", eventID, err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, scanRecorded)
	if errors.Is(err, pgx.ErrNoRows) {
		return Recorded{}, notFound
	}
	if err != nil {
		return Recorded{}, fmt.Errorf("read event %s: %w", eventID, err)
	}
	return r, nil
}
