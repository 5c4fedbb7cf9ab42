package dispatch_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/testing/trial/population"
)

// The transactions of an order are its own or those of its lead, oldest first, and of no other organization.
// Rules PAGE-14 and PAGE-73.
func TestTheTransactionsOfAnOrderAreThoseOfItsLead(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var orgs []string
	for range 2 {
		made, _, err := org.Create(t.Context(), db, "Example Marketplace")
		if err != nil {
			t.Fatal(err)
		}
		orgs = append(orgs, made.ID)
	}
	super := pgtest.Superuser(t, db)
	if err := population.Seed(t.Context(), super, orgs[0], 0, 3_000); err != nil {
		t.Fatal(err)
	}
	lead, follower := population.ID("wd", 100), population.ID("wd", 101)
	for _, sql := range []string{
		fmt.Sprintf(`UPDATE dispatch_orders SET tx_lead_id = '%s' WHERE order_id = '%s'`, lead, follower),
		fmt.Sprintf(`INSERT INTO dispatch_attempts (order_id, version, org_id, act, replace_reason, gas_limit,
				tip_cap, fee_cap, payload, created_at)
			VALUES ('%s', 2, '%s', 'PAY', 'FEE', 1, 2, 2, '', '2026-01-02Z')`, lead, orgs[0]),
		`VACUUM ANALYZE`,
	} {
		if _, err := super.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%v\n%s", err, sql)
		}
	}
	list := func(session, orgID, orderID string) (found []dispatch.AttemptView, reads *pgtest.Reads) {
		err := db.ReadOrg(t.Context(), session, func(ctx context.Context, tx pg.Tx) (err error) {
			tx, reads = pgtest.WatchReads(tx)
			found, err = dispatch.ListAttempts(ctx, tx, orgID, orderID)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return found, reads
	}
	for _, orderID := range []string{lead, follower} {
		found, reads := list(orgs[0], orgs[0], orderID)
		if len(found) != 2 || found[0].Version != 1 || found[0].SignedAt == nil || found[0].Reason != "" ||
			string(found[0].Hash) != population.Hash('e', 100) || found[1].Version != 2 || found[1].Reason != "FEE" ||
			found[1].Hash != "" || found[1].SignedAt != nil {
			t.Errorf("order %s: got %+v, want the payment of the lead and the one that replaces it", orderID, found)
		}
		reads.CheckRows(t, "transactions of "+orderID, 10)
	}
	for _, c := range [][2]string{{orgs[1], orgs[1]}, {orgs[1], orgs[0]}} {
		if found, _ := list(c[0], c[1], lead); len(found) != 0 {
			t.Errorf("got %+v as another organization, want nothing", found)
		}
	}
}

// Open orders and funds that cannot be moved are found among many that ended, by all organizations and by one.
// Rules WD-17 and PAGE-73.
func TestOpenOrdersAndImmovableFundsAreFoundAmongMany(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	made, _, err := org.Create(t.Context(), db, "Example Marketplace")
	if err != nil {
		t.Fatal(err)
	}
	super := pgtest.Superuser(t, db)
	if err := population.Seed(t.Context(), super, made.ID, 0, 3_000); err != nil {
		t.Fatal(err)
	}
	// The wallets 1 to 4 have a failed sweep; that of 2 was repeated and paid, that of 3 is repeated, and that of
	// 4 emptied the address.
	for _, s := range []struct {
		n, hour int
		status  string
	}{
		{1, 1, "FAILED"},
		{2, 1, "FAILED"},
		{2, 2, "PAID"},
		{3, 1, "REFUSED"},
		{3, 2, "BROADCAST"},
		{4, 1, "FAILED"},
		{5, 1, "STUCK"},
	} {
		_, err := super.Exec(t.Context(), `
			INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, to_wallet_id, to_address, mint_id,
				contract, amount, status, attempt_after, created_at, trigger, ended_at, tx_hash, fee, proof_id,
					last_error)
			SELECT format('sw_%s_%s', $1::int, $2::int), $3, 'SWEEP', 'ETHEREUM', $4, 'adr_crowd_treasury',
				'0xcrowd', 1, '0x1',
				10, $5, now(), '2026-02-01Z'::timestamptz + $2::int * interval '1 hour', 'VALUE',
				CASE WHEN $5 IN ('FAILED', 'PAID', 'REFUSED') THEN now() END, '0x', 1, 1, 'it reverts'`,
			s.n, s.hour, made.ID, population.ID("adr", s.n), s.status)
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, sql := range []string{
		`UPDATE address_funds SET swept = credited WHERE wallet_id = '` + population.ID("adr", 4) + `'`, `VACUUM
			ANALYZE`,
	} {
		if _, err := super.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{population.ID("adr", 1) + " it reverts", population.ID("adr", 5) + " it reverts"}
	compare := func(name string, found []dispatch.ImmovableFunds) {
		var got []string
		for _, b := range found {
			got = append(got, b.WalletID+" "+b.LastError)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	err = db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		watched, reads := pgtest.WatchReads(tx)
		found, err := dispatch.ListImmovableFunds(ctx, watched, "", 0)
		if err != nil {
			return err
		}
		compare("all organizations", found)
		reads.CheckRows(t, "funds that cannot be moved", 100)
		// Of so few orders PostgreSQL reads all; TestNoPageGrowsWithTheNumberOfTransactions has more.
		open, isCut, err := dispatch.ListOpen(ctx, tx, 50)
		if len(open) != 22 || isCut {
			t.Errorf("got %d open orders, cut %v, want the 20 of the population and 2 sweeps", len(open), isCut)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = db.ReadOrg(t.Context(), made.ID, func(ctx context.Context, tx pg.Tx) error {
		found, err := dispatch.ListImmovableFunds(ctx, tx, made.ID, 1)
		compare("one organization", found)
		if none, err := dispatch.ListImmovableFunds(ctx, tx, made.ID, 2); len(none) != 0 || err != nil {
			t.Errorf("got %+v and %v of another mint, want none", none, err)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
