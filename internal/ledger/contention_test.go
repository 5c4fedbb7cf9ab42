package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const workers = 64

func TestManySpendersOfOneBalanceNeitherOverdrawNorLoseAHold(t *testing.T) {
	t.Parallel()
	db := newBooksWithMany(t, "org_a")
	const start, rounds = 300, 10
	mustPost(t, db, "org_a", depositPosting("org_a", "ann", "dep_1", start))
	var taken, paid, refused atomic.Uint64
	var open sync.Map // holds that have not ended
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for r := range rounds {
				id, n := fmt.Sprintf("wd_%d_%d", w, r), rand.Uint64N(40)+1
				switch err := post(t.Context(), db, "org_a", holdPosting("org_a", "ann", id, n)); {
				case errors.Is(err, ledger.ErrOverdraft):
					refused.Add(1)
					continue
				case err != nil:
					t.Errorf("hold %s: %v", id, err)
					return
				}
				taken.Add(n)
				end := releasePosting
				switch rand.IntN(8) {
				case 0:
					end = settlePosting
				case 1:
					open.Store(id, n)
					continue
				}
				// Two try to end it; one does.
				var ends atomic.Int64
				var both sync.WaitGroup
				for range 2 {
					both.Go(func() {
						err := post(t.Context(), db, "org_a", end("org_a", "ann", id, n))
						if err == nil {
							ends.Add(1)
						} else if !errors.Is(err, ledger.ErrPosted) && !errors.Is(err, ledger.ErrOverdraft) {
							t.Errorf("end %s: %v", id, err)
						}
					})
				}
				both.Wait()
				if ends.Load() != 1 {
					t.Errorf("hold %s ended %d times, want 1", id, ends.Load())
				}
				if end("org_a", "ann", id, n).Legs[0].Credit.Kind == ledger.Custody {
					paid.Add(n)
				}
			}
		})
	}
	wg.Wait()
	var holding uint64
	for _, n := range open.Range {
		holding += n.(uint64)
	}
	wantBalance(t, db, withdrawingAccount("org_a", "ann"), money.Units(holding))
	wantBalance(t, db, customerAccount("org_a", "ann"), money.Units(start-paid.Load()-holding))
	if refused.Load() == 0 || taken.Load() <= start {
		t.Errorf("%d refusals, %d taken in all: the balance was not contended", refused.Load(), taken.Load())
	}
	if n := db.Counts().Deadlocks; n != 0 {
		t.Errorf("got %d deadlocks, want 0", n)
	}
}

func TestOneOfManyWhoWantAllOfItGetsIt(t *testing.T) {
	t.Parallel()
	db := newBooksWithMany(t, "org_a")
	mustPost(t, db, "org_a", depositPosting("org_a", "ann", "dep_1", 100))
	var won atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			err := post(t.Context(), db, "org_a", holdPosting("org_a", "ann", fmt.Sprintf("wd_%d", w), 100))
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, ledger.ErrOverdraft) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("got %d winners, want 1", won.Load())
	}
	wantBalance(t, db, customerAccount("org_a", "ann"), money.Zero)
	wantBalance(t, db, withdrawingAccount("org_a", "ann"), money.Units(100))
}

func TestOppositePostingsNeverDeadlock(t *testing.T) {
	t.Parallel()
	db := newBooksWithMany(t, "org_a")
	const customers, rounds = 6, 6
	name := func(i int) string { return fmt.Sprint("customer ", i) }
	for i := range customers {
		mustPost(t, db, "org_a", depositPosting("org_a", name(i), fmt.Sprint("dep_", i), 1_000_000))
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for r := range rounds {
				// Each transaction pays all customers, in an order of its own.
				var postings []ledger.Posting
				for k, i := range rand.Perm(customers) {
					postings = append(postings, ledger.Posting{
						Cause: ledger.Cause{Kind: ledger.Deposit, ID: fmt.Sprintf("%d_%d_%d", w, r, k)},
						Legs: []ledger.Leg{{
							Debit: custodyAccount("org_a"), Credit: customerAccount("org_a", name(i)),
							Amount: money.Units(1),
						}},
					})
				}
				if err := post(t.Context(), db, "org_a", postings...); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := db.Counts().Deadlocks; n != 0 {
		t.Errorf("got %d deadlocks, want 0", n)
	}
	total := money.Zero
	err := db.ReadOrg(t.Context(), "org_a", func(ctx context.Context, tx pg.Tx) error {
		for i := range customers {
			b, err := ledger.Balance(ctx, tx, customerAccount("org_a", name(i)))
			if err != nil {
				return err
			}
			if total, err = total.Add(b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := money.Units(customers * (1_000_000 + workers*rounds)); total != want {
		t.Errorf("got %v in all, want %v", total, want)
	}
}

func TestAHotAccountEndsWithTheRightSum(t *testing.T) {
	t.Parallel()
	db := newBooksWithMany(t, "org_a", "org_b")
	const rounds = 5
	gas := ledger.Account{OrgID: "org_a", MintID: 2, Kind: ledger.Gas}
	coin := ledger.Account{OrgID: "org_a", MintID: 2, Kind: ledger.Custody}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for r := range rounds {
				id := fmt.Sprintf("%d_%d", w, r)
				// Gas is one row for all. The first transaction opens the customer's account.
				// Custody is a sum that no posting locks.
				err := post(t.Context(), db, "org_a",
					ledger.Posting{
						Cause: ledger.Cause{Kind: ledger.Deposit, ID: "gas_" + id},
						Legs:  []ledger.Leg{{Debit: coin, Credit: gas, Amount: money.Units(3)}},
					},
					depositPosting("org_a", fmt.Sprint("customer ", r), "dep_"+id, 2))
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	wantBalance(t, db, gas, money.Units(workers*rounds*3))
	for r := range rounds {
		wantBalance(t, db, customerAccount("org_a", fmt.Sprint("customer ", r)), money.Units(workers*2))
	}
	err := db.ReadOrg(t.Context(), "org_a", func(ctx context.Context, tx pg.Tx) error {
		owned, err := ledger.Sum(ctx, tx, custodyAccount("org_a"))
		if err == nil && owned.Int64() != -workers*rounds*2 {
			t.Errorf("custody: got %v, want %v", owned, -workers*rounds*2)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := db.Counts().Deadlocks; n != 0 {
		t.Errorf("got %d deadlocks, want 0", n)
	}
}
