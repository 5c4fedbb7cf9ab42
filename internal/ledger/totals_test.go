package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// wantTotals checks the totals of an organization's customers in mint 1.
func wantTotals(t testing.TB, db *pg.DB, when, org string, available, withdrawing uint64) {
	t.Helper()
	got := map[ledger.Kind]money.Amount{}
	err := db.ReadOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
		found, err := ledger.LoadTotals(ctx, tx, org)
		for _, total := range found {
			got[total.Kind] = total.Balance
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got[ledger.Customer] != money.Units(available) || got[ledger.Withdrawing] != money.Units(withdrawing) {
		t.Errorf(
			"%s: got %v available and %v withdrawing, want %d and %d", when, got[ledger.Customer],
			got[ledger.Withdrawing], available, withdrawing,
		)
	}
}

func fold(t testing.TB, db *pg.DB) int {
	t.Helper()
	n, err := (&ledger.Folder{DB: db}).Step(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTotalsAreTheSumsBeforeAndAfterAFold(t *testing.T) {
	t.Parallel()
	db := newBooks(t, "org_a", "org_b")
	mustPost(t, db, "org_a", depositPosting("org_a", "ann", "dep_1", 100), depositPosting("org_a", "bob", "dep_2", 7))
	mustPost(t, db, "org_b", depositPosting("org_b", "eve", "dep_3", 1))
	mustPost(t, db, "org_a", holdPosting("org_a", "ann", "wd_1", 60))
	wantTotals(t, db, "before the first fold", "org_a", 47, 60)
	if n := fold(t, db); n != 3 {
		t.Errorf("got %d differences folded, want one of each statement", n)
	}
	wantTotals(t, db, "folded", "org_a", 47, 60)
	mustPost(t, db, "org_a", settlePosting("org_a", "ann", "wd_1", 60))
	mustPost(t, db, "org_a", depositPosting("org_a", "bob", "dep_4", 3))
	wantTotals(t, db, "a total and differences", "org_a", 50, 0)
	wantTotals(t, db, "another organization", "org_b", 1, 0)
	if n := fold(t, db) + fold(t, db); n != 2 {
		t.Errorf("got %d differences folded, want each once", n)
	}
	wantTotals(t, db, "folded again", "org_a", 50, 0)
	wantTotals(t, db, "another organization, folded again", "org_b", 1, 0)
}

// Postings of one organization and mint, for different customers, are open at once. No posting
// waits for another, and a fold waits for none.
func TestNoPostingWaitsForTheTotalsOfItsOrganization(t *testing.T) {
	t.Parallel()
	db := newBooks(t, "org_a")
	mustPost(
		t, db, "org_a", depositPosting("org_a", "ann", "dep_1", 100),
		depositPosting("org_a", "bob", "dep_2", 100), depositPosting("org_a", "cid", "dep_3", 100),
	)
	fold(t, db)
	var all sync.WaitGroup
	posted, end := make(chan error, 2), make(chan struct{})
	finish := sync.OnceFunc(func() { close(end); all.Wait() })
	defer finish()
	for i, name := range []string{"ann", "bob"} {
		all.Go(func() {
			err := db.InOrg(t.Context(), "org_a", func(ctx context.Context, tx pg.Tx) error {
				err := ledgertest.PostWithCauses(ctx, tx, holdPosting("org_a", name, fmt.Sprint("wd_", i), 10))
				select {
				case posted <- err:
				case <-end: // a retry of the transaction
				}
				<-end
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range 2 {
		if err := <-posted; err != nil {
			t.Error(err)
		}
	}
	mustPost(t, db, "org_a", holdPosting("org_a", "cid", "wd_9", 10))
	if n := fold(t, db); n != 1 {
		t.Errorf("got %d differences folded while two postings are open, want that of the third", n)
	}
	wantTotals(t, db, "two are open", "org_a", 290, 10)
	finish()
	wantTotals(t, db, "all are there", "org_a", 270, 30)
	fold(t, db)
	wantTotals(t, db, "all are folded", "org_a", 270, 30)
}

// While a fold is open, readers see the totals as before, and another fold takes nothing twice and
// does not wait. A fold that is aborted has changed nothing.
func TestAFoldThatIsOpenOrCutOffChangesNoTotal(t *testing.T) {
	t.Parallel()
	db := newBooks(t, "org_a")
	mustPost(t, db, "org_a", depositPosting("org_a", "ann", "dep_1", 100))
	open := func() pgx.Tx {
		tx := pgtest.BeginOwner(t, db)
		var n int
		if err := tx.QueryRow(t.Context(), `SELECT fold_organization_totals(100)`).Scan(&n); err != nil || n == 0 {
			t.Fatalf("got %d and %v, want a fold", n, err)
		}
		return tx
	}
	tx := open()
	wantTotals(t, db, "a fold is open", "org_a", 100, 0)
	if n := fold(t, db); n != 0 {
		t.Errorf("got %d differences of another fold, want none", n)
	}
	mustPost(t, db, "org_a", depositPosting("org_a", "ann", "dep_2", 11))
	wantTotals(t, db, "posted while a fold is open", "org_a", 111, 0)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantTotals(t, db, "the fold is cut off", "org_a", 111, 0)
	if tx = open(); tx.Commit(t.Context()) != nil {
		t.Error("the fold is not committed")
	}
	wantTotals(t, db, "the fold is committed", "org_a", 111, 0)
}

// Many post and fold at once, and a reader looks all the time. Deposits come in pairs, so no total
// that it sees is odd, and none is smaller than an earlier one.
func TestTotalsAreRightWhileManyPostAndFold(t *testing.T) {
	t.Parallel()
	db := newBooks(t, "org_a")
	mustPost(t, db, "org_a", depositPosting("org_a", "ann", "dep_first", 2))
	var all sync.WaitGroup
	done := make(chan struct{})
	for i := range 3 {
		all.Go(func() {
			for n := range 15 {
				id := fmt.Sprint("dep_", i, "_", n)
				err := post(
					t.Context(), db, "org_a", depositPosting("org_a", fmt.Sprint("c", i), id, 1),
					depositPosting("org_a", fmt.Sprint("d", i), id+"b", 1),
				)
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	var folders sync.WaitGroup
	for range 2 {
		folders.Go(func() {
			for {
				if _, err := (&ledger.Folder{DB: db}).Step(t.Context()); err != nil {
					t.Error(err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	folders.Go(func() {
		last := money.Zero
		for {
			err := db.ReadOrg(t.Context(), "org_a", func(ctx context.Context, tx pg.Tx) error {
				found, err := ledger.LoadTotals(ctx, tx, "org_a")
				for _, total := range found {
					if total.Kind == ledger.Customer &&
						(total.Balance.Cmp(last) < 0 || slices.Contains(
							[]byte("13579"), total.Balance.String()[len(total.Balance.String())-1],
						)) {
						t.Errorf("got a total of %v after %v", total.Balance, last)
					} else if total.Kind == ledger.Customer {
						last = total.Balance
					}
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	all.Wait()
	close(done)
	folders.Wait()
	fold(t, db)
	wantTotals(t, db, "all is folded", "org_a", 92, 0)
}

// The program's roles can post. They can neither write a total nor delete a difference.
func TestOnlyPostingsChangeTotals(t *testing.T) {
	t.Parallel()
	db := newBooks(t, "org_a")
	mustPost(t, db, "org_a", depositPosting("org_a", "ann", "dep_1", 100))
	fold(t, db)
	mustPost(t, db, "org_a", depositPosting("org_a", "ann", "dep_2", 100))
	for _, sql := range []string{
		`INSERT INTO organization_totals VALUES ('org_a', 2, 1, 0, 0, 0, 0)`,
		`UPDATE organization_totals SET available = 0`,
		`DELETE FROM organization_totals`,
		`INSERT INTO organization_total_changes (org_id, mint_id, available) VALUES ('org_a', 1, 5)`,
		`UPDATE organization_total_changes SET available = 0`,
		`DELETE FROM organization_total_changes`,
	} {
		asOrg := db.InOrg(
			t.Context(), "org_a",
			func(ctx context.Context, tx pg.Tx) error { _, err := tx.Exec(ctx, sql); return err },
		)
		asSystem := db.InSystem(
			t.Context(), func(ctx context.Context, tx pg.Tx) error { _, err := tx.Exec(ctx, sql); return err },
		)
		if errorCode(asOrg) != noPrivilege || errorCode(asSystem) != noPrivilege {
			t.Errorf("%s: got %v and %v, want no privilege", sql, asOrg, asSystem)
		}
	}
	err := db.InOrg(t.Context(), "org_a", func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `SELECT fold_organization_totals(1)`)
		return err
	})
	if errorCode(err) != noPrivilege {
		t.Errorf("an organization folds: got %v, want no privilege", err)
	}
	wantTotals(t, db, "after all that", "org_a", 200, 0)
}

// What is held for swaps has a floor, and is a total and a balance of its own.
func TestTotalsAndBalancesCountWhatIsInSwaps(t *testing.T) {
	t.Parallel()
	db := newBooks(t, "org_a")
	// No swap says that the amounts move, and this test is not about that.
	if _, err := pgtest.OwnerPool(t, db).Exec(
		t.Context(), `ALTER TABLE ledger_transfers DISABLE TRIGGER ledger_transfers_of_swap`,
	); err != nil {
		t.Fatal(err)
	}
	inSwap := ledger.Account{OrgID: "org_a", MintID: 1, Kind: ledger.InSwap, Subject: "ann"}
	atProvider := ledger.Account{OrgID: "org_a", MintID: 1, Kind: ledger.AtProvider, Subject: "ONE_CLICK"}
	post := func(cause ledger.CauseKind, debit, credit ledger.Account, units uint64) error {
		return db.InOrg(t.Context(), "org_a", func(ctx context.Context, tx pg.Tx) error {
			return ledger.Post(ctx, tx, ledger.Posting{
				Cause: ledger.Cause{Kind: cause, ID: "cs_1"},
				Legs:  []ledger.Leg{{Debit: debit, Credit: credit, Amount: money.Units(units)}},
			})
		})
	}
	mustPost(t, db, "org_a", depositPosting("org_a", "ann", "dep_1", 100))
	if err := post(ledger.SwapHold, customerAccount("org_a", "ann"), inSwap, 60); err != nil {
		t.Fatal(err)
	}
	wantInSwap := func(when string, want uint64) {
		t.Helper()
		err := db.ReadOrg(t.Context(), "org_a", func(ctx context.Context, tx pg.Tx) error {
			totals, err := ledger.LoadTotals(ctx, tx, "org_a")
			if err != nil {
				return err
			}
			if !slices.Contains(totals, ledger.KindTotal{MintID: 1, Kind: ledger.InSwap, Balance: money.Units(want)}) {
				t.Errorf("%s: got totals %+v, want %d in swaps", when, totals, want)
			}
			balances, err := ledger.CustomerBalances(ctx, tx, "org_a", "ann")
			if !slices.Contains(balances, ledger.AccountBalance{Account: inSwap, Balance: money.Units(want)}) {
				t.Errorf("%s: got balances %+v, want %d in swaps", when, balances, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	wantInSwap("before a fold", 60)
	fold(t, db)
	wantInSwap("after a fold", 60)
	wantTotals(t, db, "after a fold", "org_a", 40, 0)
	// A claim has no floor: the provider may deliver before our payment is final.
	if err := post(ledger.SwapEnd, inSwap, atProvider, 60); err != nil {
		t.Fatal(err)
	}
	wantInSwap("ended", 0)
	err := post(ledger.SwapRestore, inSwap, customerAccount("org_a", "ann"), 1)
	if !errors.Is(err, ledger.ErrOverdraft) {
		t.Errorf("more than is held: got %v, want %v", err, ledger.ErrOverdraft)
	}
}
