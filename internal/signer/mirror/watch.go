package mirror

import (
	"context"
	"log/slog"
	"time"

	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// Check is Import that stops everything outgoing when it finds a contradiction. The
// freeze stays until an operator lifts it, also when the contradiction goes away.
func Check(ctx context.Context, db *pg.DB, s signer.Signer, keeper Keeper) error {
	err := Import(ctx, db, s, keeper)
	if err == nil || !Fatal(err) {
		return err
	}
	put := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return freeze.Put(ctx, tx, freeze.Freeze{Scope: freeze.All, Source: freeze.BySigner, Reason: err.Error()})
	})
	if put != nil {
		slog.ErrorContext(ctx, "signer journal contradicts the database and the freeze could not be put", "err", err, "freeze_err", put)
	}
	return err
}

// Watch checks again and again until ctx ends.
func Watch(ctx context.Context, db *pg.DB, s signer.Signer, keeper Keeper, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch err := Check(ctx, db, s, keeper); {
		case err == nil || ctx.Err() != nil:
		case Fatal(err):
			slog.ErrorContext(ctx, "signer journal contradicts the database: nothing goes out", "err", err)
		default:
			slog.WarnContext(ctx, "signer journal could not be checked", "err", err)
		}
	}
}
