package turn_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/swap/turn"
)

// A crash leaves a turn. It is deleted once it is over, and a turn that is at work stays.
func TestTurnsThatAreOverArePruned(t *testing.T) {
	t.Parallel()
	ctx, db := t.Context(), pgtest.New(t)
	made, _, err := org.Create(ctx, db, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	err = db.InOrg(ctx, made.ID, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO swap_turns (org_id, swap_id, holder, ends_at) VALUES
				($1, 'cs_over', 'a', now() - interval '1 second'), ($1, 'ds_over', 'b', now() - interval '1 second'),
				($1, 'ds_work', 'c', now() + interval '1 hour')`, made.ID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := turn.Prune(ctx, db); err != nil {
		t.Fatal(err)
	}
	var left string
	err = db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT string_agg(swap_id, ' ') FROM swap_turns`).Scan(&left)
	})
	if err != nil || left != "ds_work" {
		t.Errorf("got the turns %q and %v, want ds_work alone", left, err)
	}
}

// A caller may wait for the transaction in which the former holder ends. Its turn lasts from then on, so that no other
// caller takes it over too early.
func TestATurnLastsFromTheEndOfTheWaitForIt(t *testing.T) {
	t.Parallel()
	const hold = time.Hour
	for name, former := range map[string]struct{ endsIn, inside string }{
		"the former holder ends it": {
			"1 hour",
			`DELETE FROM swap_turns WHERE org_id = $1`,
		},
		"its time is over while it is looked at": {
			"-1 hour",
			`SELECT FROM swap_turns WHERE org_id = $1 FOR UPDATE`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, db := t.Context(), pgtest.New(t)
			made, _, err := org.Create(ctx, db, "Acme")
			if err != nil {
				t.Fatal(err)
			}
			err = db.InOrg(ctx, made.ID, func(ctx context.Context, tx pg.Tx) error {
				_, err := tx.Exec(ctx, `
					INSERT INTO swap_turns (org_id, swap_id, holder, ends_at)
					VALUES ($1, 'cs_a', 'a', now() + $2::interval)`, made.ID, former.endsIn)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			var waiting sync.WaitGroup
			var endsAt time.Time
			var waitErr error
			take := func() {
				find := func(context.Context, pg.Tx) (string, bool, error) { return "", false, nil }
				_, _, waitErr = turn.MakeOnce(ctx, turn.Queue{
					DB: db, Gate: &turn.Gate{}, Hold: hold, Noun: "swap", Log: slog.New(slog.DiscardHandler),
				}, made.ID, "cs_a", find, func(ctx context.Context, mine turn.Turn) (string, error) {
					return "made", db.InOrg(ctx, made.ID, func(ctx context.Context, tx pg.Tx) error {
						err := tx.QueryRow(ctx, `SELECT ends_at FROM swap_turns`).Scan(&endsAt)
						if err != nil {
							return err
						}
						return mine.End(ctx, tx)
					})
				})
			}
			var releasedAt time.Time
			err = db.InOrg(ctx, made.ID, func(ctx context.Context, tx pg.Tx) error {
				if _, err := tx.Exec(ctx, former.inside, made.ID); err != nil {
					return err
				}
				waiting.Go(take)
				for isWaiting := false; !isWaiting; {
					err := tx.QueryRow(ctx, `
						SELECT EXISTS (SELECT FROM pg_locks
							WHERE NOT granted AND transactionid = pg_current_xact_id()::xid)`).Scan(&isWaiting)
					if err != nil {
						return err
					}
				}
				return tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&releasedAt)
			})
			waiting.Wait()
			if err != nil || waitErr != nil {
				t.Fatalf("got %v and %v, want the turn", err, waitErr)
			}
			if endsAt.Before(releasedAt.Add(hold)) {
				t.Errorf("the turn ends %s after the wait for it, want at least %s", endsAt.Sub(releasedAt), hold)
			}
		})
	}
}
