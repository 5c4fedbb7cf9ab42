package org

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/page"
	"github.com/cofferpay/coffer/internal/pg"
)

// Standing is an organization as whoever runs the service sees it.
type Standing struct {
	Organization
	KeyCreatedAt *time.Time // of its live key; nil when it has none
	Frozen       bool       // a freeze of the whole organization stands
}

const standings = `
	SELECT o.org_id, o.name, o.created_at, k.created_at,
		EXISTS (SELECT FROM freezes f WHERE f.scope = 'ORGANIZATION' AND f.org_id = o.org_id AND f.lifted_at IS NULL)
	FROM organizations o LEFT JOIN api_keys k ON k.org_id = o.org_id AND k.rolled_at IS NULL
	WHERE true`

func standing(row pgx.CollectableRow) (s Standing, err error) {
	err = row.Scan(&s.ID, &s.Name, &s.CreatedAt, &s.KeyCreatedAt, &s.Frozen)
	return s, err
}

// StandingOf is how an organization stands, in a transaction of the system.
// Error: NOT_FOUND.
func StandingOf(ctx context.Context, tx pg.Tx, org string) (Standing, error) {
	if !id.Is("org", org) {
		return Standing{}, absent()
	}
	rows, err := tx.Query(ctx, standings+` AND o.org_id = $1`, org)
	if err != nil {
		return Standing{}, fmt.Errorf("read organization %s: %w", org, err)
	}
	s, err := pgx.CollectExactlyOneRow(rows, standing)
	if errors.Is(err, pgx.ErrNoRows) {
		return Standing{}, absent()
	}
	if err != nil {
		return Standing{}, fmt.Errorf("read organization %s: %w", org, err)
	}
	return s, nil
}

func absent() error {
	return fault.New(fault.NotFound, fault.CodeNotFound, "There is no such organization. Nothing was changed and no money moved.")
}

// Filter narrows a list; zero members do not.
type Filter struct {
	Name          string    // exactly this one
	CreatedAfter  time.Time // exclusive
	CreatedBefore time.Time // exclusive
}

// List is a page of the organizations, in a transaction of the system.
func List(ctx context.Context, tx pg.Tx, f Filter, p page.Page) (page.Result[Standing], error) {
	q := page.Select(standings)
	if f.Name != "" {
		q.And(`o.name = ?`, f.Name)
	}
	if !f.CreatedAfter.IsZero() {
		q.And(`o.created_at > ?`, f.CreatedAfter)
	}
	if !f.CreatedBefore.IsZero() {
		q.And(`o.created_at < ?`, f.CreatedBefore)
	}
	sql, args := q.Sorted(p, "o.created_at", "o.org_id")
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return page.Result[Standing]{}, fmt.Errorf("list the organizations: %w", err)
	}
	found, err := pgx.CollectRows(rows, standing)
	if err != nil {
		return page.Result[Standing]{}, fmt.Errorf("list the organizations: %w", err)
	}
	return page.Cut(p, found, func(s Standing) page.Cursor { return page.Cursor{At: s.CreatedAt, ID: s.ID} }), nil
}
