package freeze

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// CreateOrFind does what Create does, and returns the freeze that is active then, and whether it is
// new.
func CreateOrFind(ctx context.Context, tx pg.Tx, f Freeze) (active Freeze, isNew bool, err error) {
	if isNew, err = insertFreeze(ctx, tx, f); err != nil {
		return Freeze{}, false, err
	}
	rows, err := tx.Query(ctx, `
		SELECT `+columns+` FROM freezes
		WHERE lifted_at IS NULL AND scope = $1 AND source = $2 AND coalesce(org_id, '') = $3
			AND coalesce(customer_id, '') = $4 AND coalesce(chain, '') = $5 AND coalesce(wallet_id, '') = $6`,
		string(f.Scope), string(f.Source), f.OrgID, f.CustomerID, string(f.Chain), f.WalletID)
	if err != nil {
		return Freeze{}, false, fmt.Errorf("read the new freeze: %w", err)
	}
	if active, err = pgx.CollectExactlyOneRow(rows, scanFreeze); err != nil {
		return Freeze{}, false, fmt.Errorf("read the new freeze: %w", err)
	}
	return active, isNew, nil
}

// ByID reads a freeze, lifted or not. Error: NOT_FOUND.
func ByID(ctx context.Context, tx pg.Tx, freezeID string) (Freeze, error) {
	rows, err := tx.Query(ctx, `SELECT `+columns+` FROM freezes WHERE freeze_id = $1`, freezeID)
	if err != nil {
		return Freeze{}, fmt.Errorf("read freeze %s: %w", freezeID, err)
	}
	f, err := pgx.CollectExactlyOneRow(rows, scanFreeze)
	if errors.Is(err, pgx.ErrNoRows) {
		return Freeze{}, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
			"This freeze does not exist.")
	}
	if err != nil {
		return Freeze{}, fmt.Errorf("read freeze %s: %w", freezeID, err)
	}
	return f, nil
}

// Filter narrows a list. A zero value matches everything.
type Filter struct {
	Scope         Scope
	Source        Source
	OrgID         string
	Chain         string
	IsActive      *bool     // true: active only; false: lifted only
	CreatedAfter  time.Time // exclusive
	CreatedBefore time.Time // exclusive
}

// ListPage returns a page of the freezes, including the lifted ones.
func ListPage(ctx context.Context, tx pg.Tx, f Filter, p pagination.Page) (pagination.Result[Freeze], error) {
	q := pagination.NewQuery(`SELECT ` + columns + ` FROM freezes WHERE true`)
	for column, value := range map[string]string{
		"scope": string(f.Scope), "source": string(f.Source), "org_id": f.OrgID, "chain": f.Chain,
	} {
		if value != "" {
			q.AddCondition(column+` = ?`, value)
		}
	}
	// The partial index of active freezes is used for these literal conditions.
	if f.IsActive != nil && *f.IsActive {
		q.AddCondition(`lifted_at IS NULL`)
	} else if f.IsActive != nil {
		q.AddCondition(`lifted_at IS NOT NULL`)
	}
	q.SetTimeRange(f.CreatedAfter, f.CreatedBefore)
	sql, args := q.BuildPage(p, "created_at", "freeze_id")
	rows, err := tx.Query(ctx, sql, pg.Planned(q.Filtered(), args)...)
	if err != nil {
		return pagination.Result[Freeze]{}, fmt.Errorf("list the freezes: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanFreeze)
	if err != nil {
		return pagination.Result[Freeze]{}, fmt.Errorf("list the freezes: %w", err)
	}
	return pagination.CutPage(
		p, found, func(f Freeze) pagination.Cursor { return pagination.Cursor{CreatedAt: f.CreatedAt, ID: f.ID} },
	), nil
}

// LiftByOperator lifts a freeze for the operator, who may end every freeze except an organization's
// own. It returns the freeze as it is then. Errors: those of Lift, and INVALID_STATE for a freeze
// that only the organization lifts. Rule OP-5.
func LiftByOperator(ctx context.Context, tx pg.Tx, freezeID string, actor audit.Actor) (Freeze, error) {
	f, err := ByID(ctx, tx, freezeID)
	if err != nil {
		return f, err
	}
	if !identity.PermissionOf(f.Source.LiftAction()).Operator && f.LiftedAt == nil {
		return f, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"Freeze %s belongs to the organization.", freezeID).
			WithAdvice("Only the organization can lift it.")
	}
	if err := Lift(ctx, tx, freezeID, actor); err != nil {
		return f, err
	}
	return ByID(ctx, tx, freezeID)
}
