package wallet_test

import (
	"context"
	"testing"

	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/testing/trial/population"
	"github.com/cofferpay/coffer/internal/wallet"
)

// A page of an organization's wallets reads its own rows. Rule PAGE-73.
func TestAListOfWalletsReadsItsPageAndNotTheWallets(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	orgs := []string{org, other}
	super := pgtest.Superuser(t, db)
	if err := population.Seed(t.Context(), super, orgs[0], 0, 5_000); err != nil {
		t.Fatal(err)
	}
	if _, err := super.Exec(t.Context(), `
		UPDATE wallets SET created_at = '2026-01-01Z'::timestamptz + right(wallet_id, 8)::int * interval '1 second'
		WHERE purpose = 'CUSTOMER_DEPOSIT'; ANALYZE wallets`); err != nil {
		t.Fatal(err)
	}
	list := func(orgID string, p pagination.Page) (found pagination.Result[wallet.Wallet]) {
		err := db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
			tx, reads := pgtest.WatchReads(tx)
			found, err = wallet.List(ctx, tx, orgID, p)
			reads.CheckRows(t, "wallets", p.Limit+1)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	p := pagination.Page{Limit: 50, Desc: true}
	first := list(orgs[0], p)
	if len(first.Items) != 50 || first.Items[0].Subject != population.Customer(4_999) || first.NextCursor == nil {
		t.Fatalf("got %d wallets from %+v, want a page from the newest on", len(first.Items), first.Items)
	}
	p.Cursor = first.NextCursor
	if next := list(orgs[0], p); len(next.Items) != 50 || next.Items[0].Subject != population.Customer(4_949) {
		t.Errorf("got %+v, want the page that follows", next.Items)
	}
	if other := list(orgs[1], pagination.Page{Limit: 50}); len(other.Items) != 0 {
		t.Errorf("got %+v of another organization, want none", other.Items)
	}
}
