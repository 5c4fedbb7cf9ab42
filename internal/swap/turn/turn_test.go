package turn_test

import (
	"context"
	"testing"

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
