package org

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// View is an organization as an operator sees it.
type View struct {
	Organization
	KeyCreatedAt *time.Time // of its live key; nil if it has none
	Frozen       bool       // a freeze of the whole organization is active
}

const selectViews = `
	SELECT o.org_id, o.name, o.created_at, k.created_at,
		EXISTS (SELECT FROM freezes f WHERE f.scope = 'ORGANIZATION' AND f.org_id = o.org_id AND f.lifted_at IS NULL)
	FROM organizations o LEFT JOIN api_keys k ON k.org_id = o.org_id AND k.rolled_at IS NULL
	WHERE true`

func scanView(row pgx.CollectableRow) (s View, err error) {
	err = row.Scan(&s.ID, &s.Name, &s.CreatedAt, &s.KeyCreatedAt, &s.Frozen)
	return s, err
}

// LoadView reads the view of an organization, in a transaction of the system. Error: NOT_FOUND.
func LoadView(ctx context.Context, tx pg.Tx, org string) (View, error) {
	if !id.IsValid("org", org) {
		return View{}, newNotFound()
	}
	rows, err := tx.Query(ctx, selectViews+` AND o.org_id = $1`, org)
	if err != nil {
		return View{}, fmt.Errorf("read organization %s: %w", org, err)
	}
	s, err := pgx.CollectExactlyOneRow(rows, scanView)
	if errors.Is(err, pgx.ErrNoRows) {
		return View{}, newNotFound()
	}
	if err != nil {
		return View{}, fmt.Errorf("read organization %s: %w", org, err)
	}
	return s, nil
}

func newNotFound() error {
	return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"This organization does not exist.")
}

// Filter narrows a list; zero fields do not.
type Filter struct {
	Name          string    // exactly this one
	CreatedAfter  time.Time // exclusive
	CreatedBefore time.Time // exclusive
}

// List returns a page of the organizations, in a transaction of the system.
func List(ctx context.Context, tx pg.Tx, f Filter, p pagination.Page) (pagination.Result[View], error) {
	q := pagination.NewQuery(selectViews)
	if f.Name != "" {
		q.AddCondition(`o.name = ?`, f.Name)
	}
	q.SetTimeRange(f.CreatedAfter, f.CreatedBefore)
	sql, args := q.BuildPage(p, "o.created_at", "o.org_id")
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return pagination.Result[View]{}, fmt.Errorf("list the organizations: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanView)
	if err != nil {
		return pagination.Result[View]{}, fmt.Errorf("list the organizations: %w", err)
	}
	return pagination.CutPage(
		p, found, func(s View) pagination.Cursor { return pagination.Cursor{CreatedAt: s.CreatedAt, ID: s.ID} },
	), nil
}
