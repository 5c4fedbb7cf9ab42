package pg_test

import (
	"context"
	"testing"

	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
)

func TestEachKindOfTransactionActsAsItsRole(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	inOrg := func(run func(context.Context, string, func(context.Context, pg.Tx) error) error) func(context.Context, func(context.Context, pg.Tx) error) error {
		return func(ctx context.Context, fn func(context.Context, pg.Tx) error) error { return run(ctx, "org_1", fn) }
	}
	for _, c := range []struct {
		name                string
		run                 func(context.Context, func(context.Context, pg.Tx) error) error
		role, org           string
		readOnly, isolation string
	}{
		{"InOrg", inOrg(db.InOrg), "coffer_app", "org_1", "off", "read committed"},
		{"ReadOrg", inOrg(db.ReadOrg), "coffer_app", "org_1", "on", "read committed"},
		{"InSystem", db.InSystem, "coffer_system", "", "off", "read committed"},
		{"ReadSystem", db.ReadSystem, "coffer_system", "", "on", "read committed"},
		{"Snapshot", db.Snapshot, "coffer_reader", "", "on", "repeatable read"},
	} {
		var role, org, readOnly, isolation string
		err := c.run(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			return tx.QueryRow(ctx, `
				SELECT current_user, coalesce(current_setting('app.org', true), ''),
					current_setting('transaction_read_only'), current_setting('transaction_isolation')`).
				Scan(&role, &org, &readOnly, &isolation)
		})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if role != c.role || org != c.org || readOnly != c.readOnly || isolation != c.isolation {
			t.Errorf("%s: got %v, want %v", c.name,
				[]string{role, org, readOnly, isolation}, []string{c.role, c.org, c.readOnly, c.isolation})
		}
	}
}
