package withdrawal

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/page"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/webhook"
)

// Owned is a withdrawal with the organization that it belongs to.
type Owned struct {
	OrgID  string
	Object webhook.Withdrawal
}

// Across is one page of the withdrawals of all organizations, or of the one that
// is named.
func (s *Service) Across(ctx context.Context, org string, f Filter, p page.Page) (page.Result[Owned], error) {
	q := s.narrow(page.Select(`SELECT w.created_at, w.withdrawal_id FROM withdrawals w WHERE w.org_id = o.org_id`), f)
	sql, args := q.Across(p, org, "w.created_at", "w.withdrawal_id")
	type place struct {
		OrgID string
		At    time.Time
		ID    string
	}
	var cut page.Result[place]
	objects := map[string]webhook.Withdrawal{}
	err := s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, sql, pg.Planned(q.Filtered(), args)...)
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[place])
		if err != nil {
			return err
		}
		cut = page.Cut(p, found, func(at place) page.Cursor { return page.Cursor{At: at.At, ID: at.ID} })
		ids := make([]string, 0, len(cut.Items))
		for _, at := range cut.Items {
			ids = append(ids, at.ID)
		}
		if rows, err = tx.Query(ctx, selectObjects+` WHERE w.withdrawal_id = ANY ($1)`, ids); err != nil {
			return err
		}
		shown, err := pgx.CollectRows(rows, render)
		for _, l := range shown {
			objects[l.object.WithdrawalID] = l.object
		}
		return err
	})
	if err != nil {
		return page.Result[Owned]{}, fmt.Errorf("list the withdrawals of all organizations: %w", err)
	}
	out := page.Result[Owned]{Next: cut.Next}
	for _, at := range cut.Items {
		out.Items = append(out.Items, Owned{at.OrgID, objects[at.ID]})
	}
	return out, nil
}
