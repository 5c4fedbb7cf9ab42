package withdrawal

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// OrgWithdrawal pairs a withdrawal with its organization.
type OrgWithdrawal struct {
	OrgID      string
	Withdrawal Withdrawal
}

// ListAcrossOrgs returns one page of the withdrawals of all organizations, or of org unless it is
// "".
func (s *Service) ListAcrossOrgs(
	ctx context.Context, org string, f Filter, p pagination.Page,
) (pagination.Result[OrgWithdrawal], error) {
	q := s.addConditions(
		pagination.NewQuery(`SELECT w.created_at, w.withdrawal_id FROM withdrawals w WHERE w.org_id = o.org_id`), f,
	)
	sql, args := q.BuildAcrossOrgs(p, org, "w.created_at", "w.withdrawal_id")
	type listKey struct {
		OrgID string
		At    time.Time
		ID    string
	}
	var cut pagination.Result[listKey]
	withdrawals := map[string]Withdrawal{}
	err := s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, sql, pg.Planned(q.Filtered(), args)...)
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[listKey])
		if err != nil {
			return err
		}
		cut = pagination.CutPage(
			p, found, func(key listKey) pagination.Cursor { return pagination.Cursor{CreatedAt: key.At, ID: key.ID} },
		)
		ids := make([]string, 0, len(cut.Items))
		for _, key := range cut.Items {
			ids = append(ids, key.ID)
		}
		if rows, err = tx.Query(ctx, selectWithdrawals+` WHERE w.withdrawal_id = ANY ($1)`, ids); err != nil {
			return err
		}
		loaded, err := pgx.CollectRows(rows, scanWithdrawal)
		for _, w := range loaded {
			withdrawals[w.ID] = w
		}
		return err
	})
	if err != nil {
		return pagination.Result[OrgWithdrawal]{}, fmt.Errorf("list the withdrawals of all organizations: %w", err)
	}
	result := pagination.Result[OrgWithdrawal]{NextCursor: cut.NextCursor}
	for _, key := range cut.Items {
		result.Items = append(result.Items, OrgWithdrawal{key.OrgID, withdrawals[key.ID]})
	}
	return result, nil
}
