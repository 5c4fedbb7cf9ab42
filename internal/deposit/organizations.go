package deposit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// OrgDeposit is a deposit with the organization that it belongs to.
type OrgDeposit struct {
	OrgID   string
	Deposit Deposit
}

// ListAcrossOrgs returns one page of the deposits of all organizations, or of one organization if
// org is set. It needs a system transaction.
func ListAcrossOrgs(
	ctx context.Context, tx pg.Tx, org string, f Filter, p pagination.Page,
) (pagination.Result[OrgDeposit], error) {
	q := f.addConditions(pagination.NewQuery(
		`SELECT created_at, deposit_id FROM deposits WHERE org_id = o.org_id AND purpose NOT IN ('TREASURY', 'CHANGE')`,
	))
	sql, args := q.BuildAcrossOrgs(p, org, "created_at", "deposit_id")
	fail := func(err error) (pagination.Result[OrgDeposit], error) {
		return pagination.Result[OrgDeposit]{}, fmt.Errorf("list the deposits of all organizations: %w", err)
	}
	rows, err := tx.Query(ctx, sql, pg.Planned(q.Filtered(), args)...)
	if err != nil {
		return fail(err)
	}
	type listKey struct {
		OrgID string
		At    time.Time
		ID    string
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[listKey])
	if err != nil {
		return fail(err)
	}
	cut := pagination.CutPage(p, found, func(key listKey) pagination.Cursor {
		return pagination.Cursor{CreatedAt: key.At, ID: key.ID}
	})
	ids := make([]string, 0, len(cut.Items))
	for _, key := range cut.Items {
		ids = append(ids, key.ID)
	}
	page, err := loadPage(
		ctx, tx, pagination.NewQuery(selectViews+` AND deposit_id = ANY(?)`, ids),
		pagination.Page{Limit: pagination.LimitMax},
	)
	if err != nil {
		return fail(err)
	}
	deposits := map[string]Deposit{}
	for _, d := range page.Items {
		deposits[d.ID] = d
	}
	result := pagination.Result[OrgDeposit]{NextCursor: cut.NextCursor}
	for _, key := range cut.Items {
		result.Items = append(result.Items, OrgDeposit{key.OrgID, deposits[key.ID]})
	}
	return result, nil
}

// OwnerOf returns the organization that a deposit belongs to. It needs a system transaction. Error:
// a NOT_FOUND fault if no organization has such a deposit.
func OwnerOf(ctx context.Context, tx pg.Tx, depositID string) (org string, err error) {
	err = pgx.ErrNoRows
	if id.IsValid("dep", depositID) {
		err = tx.QueryRow(
			ctx, `SELECT org_id FROM deposits WHERE deposit_id = $1 AND purpose NOT IN ('TREASURY', 'CHANGE')`,
			depositID,
		).Scan(&org)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return "", newNotFound()
	}
	if err != nil {
		return "", fmt.Errorf("look up the organization of deposit %s: %w", depositID, err)
	}
	return org, nil
}
