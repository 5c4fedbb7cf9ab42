package ledger_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/testing/trial/population"
)

// What an event moved is read by its causes, in the accounts that are shown, and of its organization alone.
// Rules PAGE-14 and PAGE-73.
func TestTheEntriesOfAnEventAreItsOwn(t *testing.T) {
	t.Parallel()
	db := newBooks(t, "org_a", "org_b")
	if err := population.Seed(t.Context(), pgtest.Superuser(t, db), "org_b", 0, 3_000); err != nil {
		t.Fatal(err)
	}
	for _, posting := range []ledger.Posting{
		depositPosting("org_a", "alice", "dep_1", 500), depositPosting("org_a", "alice", "dep_2", 100),
		holdPosting("org_a", "alice", "wd_1", 300), settlePosting("org_a", "alice", "wd_1", 300),
	} {
		err := db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			return ledgertest.PostWithCauses(ctx, tx, posting)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pgtest.OwnerPool(t, db).Exec(t.Context(), `VACUUM ANALYZE`); err != nil {
		t.Fatal(err)
	}
	shown := []ledger.Kind{ledger.Customer, ledger.Withdrawing}
	causes := []ledger.CauseKind{ledger.Deposit, ledger.WithdrawalHold, ledger.WithdrawalEnd, ledger.WithdrawalFee}
	for _, c := range []struct {
		org, cause string
		causes     []ledger.CauseKind
		kinds      []ledger.Kind
		want       []string
	}{
		{"org_a", "dep_1", causes, shown, []string{"DEPOSIT CUSTOMER true 500"}},
		{"org_a", "wd_1", causes, shown, []string{
			"WITHDRAWAL_HOLD CUSTOMER false 300", "WITHDRAWAL_HOLD WITHDRAWING true 300",
			"WITHDRAWAL_END WITHDRAWING false 300",
		}},
		{"org_a", "wd_1", causes[2:], append(shown, ledger.Custody), []string{
			"WITHDRAWAL_END WITHDRAWING false 300", "WITHDRAWAL_END CUSTODY true 300",
		}},
		{"org_a", population.ID("dep", 7), causes, shown, nil},
		{"org_b", "dep_1", causes, shown, nil},
		{"org_b", population.ID("dep", 7), causes, shown, []string{"DEPOSIT CUSTOMER true 1000"}},
	} {
		name := fmt.Sprintf("%s of %s", c.cause, c.org)
		err := db.ReadOrg(t.Context(), c.org, func(ctx context.Context, tx pg.Tx) error {
			tx, reads := pgtest.WatchReads(tx)
			found, err := ledger.ListEntriesOf(ctx, tx, c.org, c.cause, c.causes, c.kinds)
			var got []string
			for _, e := range found {
				got = append(got, fmt.Sprintf("%s %s %v %s", e.Cause.Kind, e.Account.Kind, e.Credit, e.Amount))
				if e.Account.OrgID != c.org || e.ContraAccount.OrgID != c.org || e.Cause.ID != c.cause ||
					e.PostedAt.IsZero() {
					t.Errorf("%s: got %+v, want an entry of the organization", name, e)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: got %q, want %q", name, got, c.want)
			}
			reads.CheckRows(t, name, 40)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// The policies of the database hide another organization even from a wrong call.
	err := db.ReadOrg(t.Context(), "org_b", func(ctx context.Context, tx pg.Tx) error {
		found, err := ledger.ListEntriesOf(ctx, tx, "org_a", "dep_1", causes, shown)
		if len(found) != 0 {
			t.Errorf("got %+v in the name of another organization, want nothing", found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
