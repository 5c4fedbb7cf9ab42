package migrations_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/cofferpay/coffer/internal/pg/pgtest"
	"github.com/cofferpay/coffer/migrations"
)

// A database that has balances and freezes already gets its totals from them, less the
// differences that postings wrote since the triggers are there. A second run changes nothing.
func TestWhatWasThereBeforeTotalsWereKeptIsSummedUp(t *testing.T) {
	t.Parallel()
	d, ctx := pgtest.Fresh(t), t.Context()
	super, err := pgx.Connect(ctx, d.SuperURL)
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close(context.WithoutCancel(ctx))
	exec := func(sql string) {
		t.Helper()
		if _, err := super.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	// As the version before left it: nothing of this step is there.
	exec(`
		SET session_replication_role = replica;
		DROP TABLE organization_totals, organization_total_changes;
		DROP TRIGGER ledger_transfers_total ON ledger_transfers;
		DROP TRIGGER address_funds_total_added ON address_funds;
		DROP TRIGGER address_funds_total_changed ON address_funds;
		DROP FUNCTION ledger_transfers_total, address_funds_total, fold_organization_totals;
		DROP POLICY keeper ON ledger_accounts;
		DROP POLICY keeper ON wallets;
		DROP POLICY keeper ON address_funds;
		DROP TRIGGER freezes_date_customer ON freezes;
		CREATE OR REPLACE FUNCTION freezes_keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
		DROP INDEX freezes_of_customers_listed;
		ALTER TABLE freezes DROP COLUMN customer_created_at;
		DELETE FROM goose_db_version WHERE version_id = 76;
		INSERT INTO organizations (org_id, name, created_at) VALUES ('org_a', 'Acme', now()), ('org_b', 'Bits', now());
		INSERT INTO customers (org_id, customer_id, created_at, updated_at) VALUES ('org_a', 'ann', '2026-01-02Z', now()), ('org_b', 'ann', '2026-03-04Z', now());
		INSERT INTO freezes (freeze_id, scope, org_id, customer_id, source, reason, created_at, lifted_at, lifted_by) VALUES
			('frz_1', 'CUSTOMER', 'org_a', 'ann', 'OPERATOR', 'x', now(), NULL, NULL), ('frz_2', 'CUSTOMER', 'org_a', 'ann', 'OPERATOR', 'x', now(), now(), 'OPERATOR x');
		INSERT INTO mints (mint_id, chain, network, kind, contract, symbol, name, decimals, deposit_enabled, withdraw_enabled, min_deposit, min_withdraw, confirmations_required, finality)
			VALUES (1, 'ETHEREUM', 'LOCAL', 'NATIVE', '', 'ETH', 'Ether', 18, true, true, 1, 1, 1, 'FINALIZED');
		INSERT INTO ledger_accounts (account_id, org_id, mint_id, kind, subject, floored, created_at) OVERRIDING SYSTEM VALUE VALUES
			(1, 'org_a', 1, 'CUSTODY', '', false, now()), (2, 'org_a', 1, 'CUSTOMER', 'ann', true, now()), (3, 'org_a', 1, 'CUSTOMER', 'bob', true, now()),
			(4, 'org_a', 1, 'WITHDRAWING', 'ann', true, now()), (5, 'org_a', 1, 'PRODUCT', 'CUSTODIAL', true, now()), (6, 'org_b', 1, 'CUSTOMER', 'ann', true, now());
		INSERT INTO ledger_balances (account_id, org_id, mint_id, balance) VALUES
			(2, 'org_a', 1, 70), (3, 'org_a', 1, 9), (4, 'org_a', 1, 30), (5, 'org_a', 1, 1000), (6, 'org_b', 1, 8);
		INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at) VALUES
			('adr_1', 'org_a', 'EVM', 'CUSTOMER_DEPOSIT', 'ann', 'm', '0x1', '', now()), ('adr_2', 'org_a', 'EVM', 'TREASURY', '', 'm', '0x2', '', now());
		INSERT INTO address_funds (wallet_id, mint_id, org_id, credited, swept, gas, dust) VALUES
			('adr_1', 1, 'org_a', 100, 60, 0, 3), ('adr_2', 1, 'org_a', 60, 0, 500, 0);
		SET session_replication_role = origin`)
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
	look := func(when, want string) {
		t.Helper()
		if _, err := provider.ApplyVersion(ctx, 76, true); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		var got string
		err := super.QueryRow(ctx, `
			SELECT string_agg(concat_ws(' ', org_id, available, withdrawing, addresses, treasuries, dust), ', ' ORDER BY org_id)
				|| (SELECT ' and ' || string_agg(concat_ws(' ', freeze_id, customer_created_at AT TIME ZONE 'UTC'), ', ' ORDER BY freeze_id) FROM freezes)
			FROM organization_totals`).Scan(&got)
		if err != nil || got != want {
			t.Errorf("%s: got %q and %v, want %q", when, got, err, want)
		}
	}
	const sums = "org_a 79 30 43 560 3, org_b 8 0 0 0 0 and frz_1 2026-01-02 00:00:00, frz_2"
	look("the first run", sums)

	// A first run that was cut off before its end had its triggers, and a posting wrote with them.
	exec(`
		SET session_replication_role = replica;
		DELETE FROM goose_db_version WHERE version_id = 76;
		DELETE FROM organization_totals WHERE org_id = 'org_b';
		INSERT INTO organization_total_changes (org_id, mint_id, available, withdrawing) VALUES ('org_a', 1, -20, 20);
		UPDATE ledger_balances SET balance = 50 WHERE account_id IN (2, 4);
		SET session_replication_role = origin`)
	look("the second run", sums)
	var left string
	err = super.QueryRow(ctx, `SELECT string_agg(concat_ws(' ', org_id, available, withdrawing), ', ') FROM organization_total_changes`).Scan(&left)
	if err != nil || left != "org_a -20 20" {
		t.Errorf("got differences %q and %v, want that of the posting", left, err)
	}
}
