package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/cofferpay/coffer/internal/pg/pgtest"
	"github.com/cofferpay/coffer/migrations"
)

// A step that builds indexes beside live writers is no transaction. Whatever an
// earlier run left half done, the next one ends whole.
func TestAStepThatWasCutOffIsRunAgain(t *testing.T) {
	t.Parallel()
	d, ctx := pgtest.Fresh(t), t.Context()
	super, err := pgxpool.New(ctx, d.SuperURL)
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close()
	for _, sql := range []string{
		`INSERT INTO organizations (org_id, name, created_at) VALUES ('org_a', 'Acme', now())`,
		`INSERT INTO organization_settings (org_id, updated_at) VALUES ('org_a', now())`,
		`INSERT INTO customers (org_id, customer_id, created_at, updated_at) VALUES ('org_a', 'ann', now(), now())`,
		`DELETE FROM goose_db_version WHERE version_id = 22`,
		`UPDATE pg_index SET indisvalid = false WHERE indexrelid IN ('deposits_of_status'::regclass, 'transfers_of_reference'::regclass)`,
		`DROP INDEX withdrawals_of_mint`,
		`DROP POLICY own_lift ON freezes`,
	} {
		if _, err := super.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	owner, err := pgxpool.New(ctx, d.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	db := stdlib.OpenDBFromPool(owner)
	defer db.Close()
	provider, err := migrations.Steps(db, owner)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.ApplyVersion(ctx, 22, true); err != nil {
		t.Fatal(err)
	}
	var sound, policies int
	err = super.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM pg_index WHERE indisvalid AND indexrelid IN
				('deposits_of_status'::regclass, 'transfers_of_reference'::regclass, 'withdrawals_of_mint'::regclass)),
			(SELECT count(*) FROM pg_policies WHERE policyname IN ('own_put', 'own_lift'))`).Scan(&sound, &policies)
	if err != nil || sound != 3 || policies != 2 {
		t.Errorf("got %d sound indexes, %d policies and %v, want 3 and 2", sound, policies, err)
	}
}
