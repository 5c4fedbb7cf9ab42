package api

import (
	"context"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// snapshotRows turns a reader within a transaction into the rows of a table. Rule LIST-2.
func snapshotRows[T any](
	a *api, c *call, read func(ctx context.Context, tx pg.Tx, desc bool, row func(T) error) error,
) kernel.Rows[T] {
	return func(ctx context.Context, desc bool, row func(T) error) error {
		return a.conf.DB.SnapshotOrg(ctx, c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) error {
			return read(ctx, tx, desc, row)
		})
	}
}
