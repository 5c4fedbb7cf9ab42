package freeze

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/page"
	"github.com/cofferpay/coffer/internal/pg"
)

// Stop is Put, and tells which freeze stands then and whether it was put now.
func Stop(ctx context.Context, tx pg.Tx, f Freeze) (stands Freeze, added bool, err error) {
	if added, err = put(ctx, tx, f); err != nil {
		return Freeze{}, false, err
	}
	rows, err := tx.Query(ctx, `
		SELECT `+columns+` FROM freezes
		WHERE lifted_at IS NULL AND scope = $1 AND source = $2 AND coalesce(org_id, '') = $3
			AND coalesce(customer_id, '') = $4 AND coalesce(chain, '') = $5 AND coalesce(wallet_id, '') = $6`,
		string(f.Scope), string(f.Source), f.OrgID, f.CustomerID, string(f.Chain), f.WalletID)
	if err != nil {
		return Freeze{}, false, fmt.Errorf("read the freeze that was put: %w", err)
	}
	if stands, err = pgx.CollectExactlyOneRow(rows, read); err != nil {
		return Freeze{}, false, fmt.Errorf("read the freeze that was put: %w", err)
	}
	return stands, added, nil
}

// ByID reads a freeze, lifted or not. Error: NOT_FOUND.
func ByID(ctx context.Context, tx pg.Tx, freezeID string) (Freeze, error) {
	rows, err := tx.Query(ctx, `SELECT `+columns+` FROM freezes WHERE freeze_id = $1`, freezeID)
	if err != nil {
		return Freeze{}, fmt.Errorf("read freeze %s: %w", freezeID, err)
	}
	f, err := pgx.CollectExactlyOneRow(rows, read)
	if errors.Is(err, pgx.ErrNoRows) {
		return Freeze{}, fault.New(fault.NotFound, fault.CodeNotFound, "There is no such freeze. Nothing was changed and no money moved.")
	}
	if err != nil {
		return Freeze{}, fmt.Errorf("read freeze %s: %w", freezeID, err)
	}
	return f, nil
}

// Filter narrows a list; zero members do not.
type Filter struct {
	Scope         Scope
	Source        Source
	OrgID         string
	Chain         string
	Standing      *bool     // only what stands, or only what was lifted
	CreatedAfter  time.Time // exclusive
	CreatedBefore time.Time // exclusive
}

// Page is a page of the freezes, the lifted ones included.
func Page(ctx context.Context, tx pg.Tx, f Filter, p page.Page) (page.Result[Freeze], error) {
	q := page.Select(`SELECT ` + columns + ` FROM freezes WHERE true`)
	for column, value := range map[string]string{"scope": string(f.Scope), "source": string(f.Source), "org_id": f.OrgID, "chain": f.Chain} {
		if value != "" {
			q.And(column+` = ?`, value)
		}
	}
	// The index of the freezes that are in force is found by these words.
	if f.Standing != nil && *f.Standing {
		q.And(`lifted_at IS NULL`)
	} else if f.Standing != nil {
		q.And(`lifted_at IS NOT NULL`)
	}
	if !f.CreatedAfter.IsZero() {
		q.And(`created_at > ?`, f.CreatedAfter)
	}
	if !f.CreatedBefore.IsZero() {
		q.And(`created_at < ?`, f.CreatedBefore)
	}
	sql, args := q.Sorted(p, "created_at", "freeze_id")
	rows, err := tx.Query(ctx, sql, pg.Planned(q.Filtered(), args)...)
	if err != nil {
		return page.Result[Freeze]{}, fmt.Errorf("list the freezes: %w", err)
	}
	found, err := pgx.CollectRows(rows, read)
	if err != nil {
		return page.Result[Freeze]{}, fmt.Errorf("list the freezes: %w", err)
	}
	return page.Cut(p, found, func(f Freeze) page.Cursor { return page.Cursor{At: f.CreatedAt, ID: f.ID} }), nil
}

// LiftByOperator is Lift by whoever runs the service, who may end every freeze
// but an organization's own. It returns the freeze as it is then. Errors: those
// of Lift, and INVALID_STATE for one that only the organization lifts.
func LiftByOperator(ctx context.Context, tx pg.Tx, freezeID string, by audit.Actor) (Freeze, error) {
	f, err := ByID(ctx, tx, freezeID)
	if err != nil {
		return f, err
	}
	if f.Source == ByOrganization && f.LiftedAt == nil {
		return f, fault.New(fault.Conflict, fault.InvalidState,
			"Freeze %s is the organization's own. Nothing was changed and no money moved. Only the organization lifts it.", freezeID)
	}
	if err := Lift(ctx, tx, freezeID, by); err != nil {
		return f, err
	}
	return ByID(ctx, tx, freezeID)
}
