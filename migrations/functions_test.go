package migrations_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// A function without its own search_path looks for its tables in its caller's search_path, and
// among the caller's temporary tables first. Two kinds are exempt, because they look nothing up
// when they run: functions with a body that PostgreSQL parsed at their creation (RETURN, BEGIN
// ATOMIC), and IMMUTABLE functions in SQL, which read no table and which the planner can inline
// only while they have no settings.
func TestEveryFunctionOfTheSchemaHasItsSearchPath(t *testing.T) {
	t.Parallel()
	rows, err := pgtest.OwnerPool(t, pgtest.New(t)).Query(t.Context(), `
		SELECT p.oid::regprocedure::text
		FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
		WHERE p.pronamespace = 'public'::regnamespace AND p.prosqlbody IS NULL AND NOT (l.lanname = 'sql' AND p.provolatile = 'i')
			AND NOT coalesce(p.proconfig && ARRAY['search_path=public, pg_temp', 'search_path=pg_catalog, public, pg_temp'], false)
		ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	loose, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range loose {
		t.Errorf("%s: the caller decides which tables it reads. Write SET search_path = pg_catalog, public, pg_temp between its header and AS; "+
			"CREATE OR REPLACE FUNCTION drops the setting unless it is written again", name)
	}
}

// A guard never reads a temporary table that a role created with the name of one of ours.
func TestATemporaryTableStandsInForNoTable(t *testing.T) {
	t.Parallel()
	d, ctx := pgtest.NewDatabase(t), t.Context()
	super, err := pgx.Connect(ctx, d.SuperURL)
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close(ctx)
	const proof = `INSERT INTO public.finality_proofs (chain, height, hash, parent, block_time, providers, verified, fork, created_at)
		VALUES ('ETHEREUM', 1, '0x1', '0x0', now(), 1, '', 7, now())`
	for name, temporary := range map[string][]string{
		"as it is": nil,
		"with temporary tables": {
			`CREATE TEMP TABLE finality_breaks (chain text, fork int, ancestor_height bigint, settle_height bigint)`,
			`INSERT INTO finality_breaks VALUES ('ETHEREUM', 7, 0, 0)`,
			`CREATE TEMP TABLE scan_cursors (chain text)`,
		},
	} {
		tx, err := super.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		// The clone of a database lacks its rights: see TestNoRoleMakesTemporaryTables.
		for _, sql := range append([]string{`SET LOCAL ROLE coffer_system`}, temporary...) {
			if _, err := tx.Exec(ctx, sql); err != nil {
				t.Fatalf("%s: %s: %v", name, sql, err)
			}
		}
		if _, err := tx.Exec(ctx, proof); !pg.ViolatesConstraint(err, "finality_proofs_on_fork") {
			t.Errorf("%s: got %v, want a proof on a fork that is not walked refused", name, err)
		}
		if err := tx.Rollback(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// The right to temporary tables belongs to the database and is in no copy or dump of it, so every
// migration revokes it again.
func TestNoRoleMakesTemporaryTables(t *testing.T) {
	t.Parallel()
	d, ctx := pgtest.NewDatabase(t), t.Context()
	if err := pg.Migrate(ctx, pg.Config{URL: d.URL, OwnerURL: d.OwnerURL}); err != nil {
		t.Fatal(err)
	}
	super, err := pgx.Connect(ctx, d.SuperURL)
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close(ctx)
	login, err := pgx.ParseConfig(d.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"coffer_app", "coffer_system", "coffer_reader", login.User} {
		tx, err := super.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(ctx, `SET LOCAL ROLE `+pgx.Identifier{role}.Sanitize()); err != nil {
			t.Fatal(err)
		}
		_, err = tx.Exec(ctx, `CREATE TEMP TABLE scan_cursors (chain text)`)
		if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "42501" {
			t.Errorf("%s: got %v, want no temporary table", role, err)
		}
		if err := tx.Rollback(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// swap_claims reads the swaps of all organizations with the rights of its owner. The login role before it chooses a
// role, and the role of reports, have no use for it.
func TestOnlyTheRolesThatWriteSwapsReadTheClaimsOfAllOrganizations(t *testing.T) {
	t.Parallel()
	d, ctx := pgtest.NewDatabase(t), t.Context()
	super, err := pgx.Connect(ctx, d.SuperURL)
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close(ctx)
	login, err := pgx.ParseConfig(d.URL)
	if err != nil {
		t.Fatal(err)
	}
	for role, may := range map[string]bool{
		"coffer_app": true, "coffer_system": true, "coffer_reader": false, login.User: false,
	} {
		tx, err := super.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(ctx, `SET LOCAL ROLE `+pgx.Identifier{role}.Sanitize()); err != nil {
			t.Fatal(err)
		}
		_, err = tx.Exec(ctx, `SELECT FROM public.swap_claims(ARRAY['ONE'])`)
		refused, isRefused := errors.AsType[*pgconn.PgError](err)
		if may && err != nil || !may && (!isRefused || refused.Code != "42501") {
			t.Errorf("%s: got %v, may call it %t", role, err, may)
		}
		if err := tx.Rollback(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
