package deposit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/page"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/webhook"
)

// Owned is a deposit with the organization that it belongs to.
type Owned struct {
	OrgID  string
	Object webhook.Deposit
}

// Across is one page of the deposits of all organizations, or of the one that is
// named, in a transaction of the system.
func Across(ctx context.Context, tx pg.Tx, org string, f Filter, p page.Page) (page.Result[Owned], error) {
	q := f.narrow(page.Select(`SELECT created_at, deposit_id FROM deposits WHERE org_id = o.org_id AND purpose NOT IN ('TREASURY', 'CHANGE')`))
	sql, args := q.Across(p, org, "created_at", "deposit_id")
	fail := func(err error) (page.Result[Owned], error) {
		return page.Result[Owned]{}, fmt.Errorf("list the deposits of all organizations: %w", err)
	}
	rows, err := tx.Query(ctx, sql, pg.Planned(q.Filtered(), args)...)
	if err != nil {
		return fail(err)
	}
	type place struct {
		OrgID string
		At    time.Time
		ID    string
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[place])
	if err != nil {
		return fail(err)
	}
	cut := page.Cut(p, found, func(at place) page.Cursor { return page.Cursor{At: at.At, ID: at.ID} })
	ids := make([]string, 0, len(cut.Items))
	for _, at := range cut.Items {
		ids = append(ids, at.ID)
	}
	shown, err := render(ctx, tx, page.Select(objects+` AND deposit_id = ANY(?)`, ids), page.Page{Limit: page.LimitMax})
	if err != nil {
		return fail(err)
	}
	objects := map[string]webhook.Deposit{}
	for _, o := range shown.Items {
		objects[o.DepositID] = o
	}
	out := page.Result[Owned]{Next: cut.Next}
	for _, at := range cut.Items {
		out.Items = append(out.Items, Owned{at.OrgID, objects[at.ID]})
	}
	return out, nil
}

// OwnerOf is the organization that a deposit belongs to, in a transaction of the system.
// Error: a NOT_FOUND fault when no organization has such a deposit.
func OwnerOf(ctx context.Context, tx pg.Tx, depositID string) (org string, err error) {
	err = pgx.ErrNoRows
	if id.Is("dep", depositID) {
		err = tx.QueryRow(ctx, `SELECT org_id FROM deposits WHERE deposit_id = $1 AND purpose NOT IN ('TREASURY', 'CHANGE')`, depositID).Scan(&org)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return "", absent()
	}
	if err != nil {
		return "", fmt.Errorf("ask whose deposit %s is: %w", depositID, err)
	}
	return org, nil
}
