package ledger

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cofferpay/coffer/internal/platform/pg"
)

const (
	foldMax   = 10_000          // differences that one transaction folds
	foldPause = time.Second     // between two transactions when nothing is left
	foldSick  = 5 * time.Second // after an error
)

// Folder adds the differences of the organizations' totals to the totals.
//
// A trigger of the database writes a difference with each statement that posts, or that moves what
// an address holds. So a posting adds a row of its own and waits for no other posting. The folder
// keeps the number of these rows small. One statement reads a total together with the remaining
// differences. The result is right before, during and after a fold, and also where no folder runs.
//
// Any number of processes may run a folder: concurrent folders take different rows. After a crash a
// batch is folded whole or not at all.
type Folder struct {
	DB  *pg.DB
	Log *slog.Logger
}

// Run folds until ctx ends.
func (f *Folder) Run(ctx context.Context) error {
	for {
		n, err := f.Step(ctx)
		pause := foldPause
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			f.Log.LogAttrs(ctx, slog.LevelError, "cannot fold the totals", slog.Any("error", err))
			pause = foldSick
		case n == foldMax:
			pause = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// Step folds one batch and returns its number of differences.
func (f *Folder) Step(ctx context.Context) (n int, err error) {
	err = f.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT fold_organization_totals($1)`, foldMax).Scan(&n)
	})
	if err != nil {
		return 0, fmt.Errorf("fold the totals: %w", err)
	}
	return n, nil
}
