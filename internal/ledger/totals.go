package ledger

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cofferpay/coffer/internal/pg"
)

const (
	foldMax   = 10_000          // differences that are folded in one transaction
	foldPause = time.Second     // between two transactions when all is folded
	foldSick  = 5 * time.Second // after an error
)

// Folder adds the differences of the organizations' totals to the totals.
//
// A trigger of the database writes a difference with each statement that posts, or that
// moves what an address holds. A posting so adds a row of its own and waits for no other.
// The folder keeps those rows few. A total is always read together with the differences
// that are left, in one statement, so it is right before, during and after a fold, and
// also where no folder runs.
//
// Any number of processes may run one: two take different rows. A crash leaves a batch
// folded whole or not at all.
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
			f.Log.LogAttrs(ctx, slog.LevelError, "the totals could not be folded", slog.Any("error", err))
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

// Step folds one batch and returns how many differences it had.
func (f *Folder) Step(ctx context.Context) (n int, err error) {
	err = f.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT fold_organization_totals($1)`, foldMax).Scan(&n)
	})
	if err != nil {
		return 0, fmt.Errorf("fold the totals: %w", err)
	}
	return n, nil
}
