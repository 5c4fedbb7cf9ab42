package mirror

import (
	"context"
	"log/slog"
	"time"

	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// CheckJournal runs ImportJournal and stops everything outgoing if it finds a contradiction. The
// freeze stays until an operator lifts it, also if the contradiction goes away.
func CheckJournal(ctx context.Context, db *pg.DB, s signer.Signer, keeper WalletKeeper) error {
	err := ImportJournal(ctx, db, s, keeper)
	if err == nil || !IsContradiction(err) {
		return err
	}
	freezeErr := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeAll, Source: freeze.SourceSigner,
			Reason: err.Error(),
		})
	})
	if freezeErr != nil {
		slog.ErrorContext(ctx, "signer journal contradicts the database and the freeze could not be "+
			"created", "err", err,
			"freeze_err", freezeErr)
	}
	return err
}

// WatchJournal checks the journal at each interval until ctx ends.
func WatchJournal(ctx context.Context, db *pg.DB, s signer.Signer, keeper WalletKeeper, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch err := CheckJournal(ctx, db, s, keeper); {
		case err == nil || ctx.Err() != nil:
		case IsContradiction(err):
			slog.ErrorContext(ctx, "signer journal contradicts the database: no payment is sent", "err", err)
		default:
			slog.WarnContext(ctx, "signer journal could not be checked", "err", err)
		}
	}
}
