package ledger_test

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

const (
	modelOperations = 10_000 // at least, over all organizations
	modelBatchMax   = 250    // postings in one transaction
	modelCustomers  = 12
)

// model is the ledger as a plain program without a database.
type model struct {
	balances map[ledger.Account]*big.Int
	posted   map[ledger.Cause]ledger.Leg
}

func (m *model) balanceOf(a ledger.Account) *big.Int {
	if m.balances[a] == nil {
		m.balances[a] = new(big.Int)
	}
	return m.balances[a]
}

// applyPosting applies a posting and returns true, or refuses it and returns false.
func (m *model) applyPosting(p ledger.Posting) bool {
	if _, before := m.posted[p.Cause]; before {
		return false
	}
	if p.Cause.Kind == ledger.WithdrawalEnd {
		hold, held := m.posted[ledger.Cause{Kind: ledger.WithdrawalHold, ID: p.Cause.ID}]
		end := p.Legs[0]
		if !held || end.Debit != hold.Credit || end.Amount != hold.Amount ||
			end.Credit != hold.Debit && end.Credit.Kind != ledger.Custody {
			return false
		}
	}
	for i, l := range p.Legs {
		m.balanceOf(l.Debit).Sub(m.balanceOf(l.Debit), l.Amount.Big())
		m.balanceOf(l.Credit).Add(m.balanceOf(l.Credit), l.Amount.Big())
		if l.Debit.Kind.HasFloor() && m.balanceOf(l.Debit).Sign() < 0 {
			for _, back := range p.Legs[:i+1] {
				m.balanceOf(back.Debit).Add(m.balanceOf(back.Debit), back.Amount.Big())
				m.balanceOf(back.Credit).Sub(m.balanceOf(back.Credit), back.Amount.Big())
			}
			return false
		}
	}
	m.posted[p.Cause] = p.Legs[0]
	return true
}

// generator makes the random operations of one organization.
type generator struct {
	*rand.Rand
	org   string
	next  int
	holds []ledger.Posting // holds that have not ended
	ended []ledger.Cause
}

func (c *generator) randomAmount(mint int) money.Amount {
	if mint == 1 {
		return money.Units(c.Uint64N(1000) + 1)
	}
	// The other mint moves amounts that exceed a machine word.
	b := new(big.Int).Lsh(big.NewInt(c.Int64N(1<<40)+1), uint(c.IntN(150)))
	a, err := money.FromBig(b)
	if err != nil {
		panic(err)
	}
	return a
}

func (c *generator) randomPosting() ledger.Posting {
	c.next++
	id := fmt.Sprintf("%s_%d", c.org, c.next)
	mint := 1 + c.IntN(2)
	who := fmt.Sprintf("customer %d", c.IntN(modelCustomers))
	at := func(k ledger.Kind, subject string) ledger.Account {
		return ledger.Account{OrgID: c.org, MintID: mint, Kind: k, Subject: subject}
	}
	one := func(kind ledger.CauseKind, id string, debit, credit ledger.Account, n money.Amount) ledger.Posting {
		return ledger.Posting{
			Cause: ledger.Cause{Kind: kind, ID: id},
			Legs:  []ledger.Leg{{Debit: debit, Credit: credit, Amount: n}},
		}
	}
	switch roll := c.IntN(100); {
	case roll < 35:
		return one(ledger.Deposit, id, at(ledger.Custody, ""), at(ledger.Customer, who), c.randomAmount(mint))
	case roll < 65:
		hold := one(
			ledger.WithdrawalHold, id, at(ledger.Customer, who), at(ledger.Withdrawing, who),
			c.randomAmount(mint),
		)
		c.holds = append(c.holds, hold)
		return hold
	case roll < 90 && len(c.holds) > 0:
		i := c.IntN(len(c.holds))
		hold := c.holds[i]
		if c.IntN(20) > 0 { // else it stays and is ended twice
			c.holds = slices.Delete(c.holds, i, i+1)
		}
		l := hold.Legs[0]
		to := l.Debit
		if c.IntN(2) == 0 {
			to = ledger.Account{OrgID: c.org, MintID: l.Debit.MintID, Kind: ledger.Custody}
		}
		c.ended = append(c.ended, ledger.Cause{Kind: ledger.WithdrawalEnd, ID: hold.Cause.ID})
		return one(ledger.WithdrawalEnd, hold.Cause.ID, l.Credit, to, l.Amount)
	case roll < 93:
		mint = 2
		return one(ledger.Deposit, id, at(ledger.Custody, ""), at(ledger.Gas, ""), c.randomAmount(mint))
	case roll < 97:
		mint = 2
		n := c.randomAmount(mint)
		return ledger.Posting{Cause: ledger.Cause{Kind: ledger.NetworkFee, ID: id}, Legs: []ledger.Leg{
			{Debit: at(ledger.Gas, ""), Credit: at(ledger.Custody, ""), Amount: n},
			{Debit: at(ledger.FeesDue, ""), Credit: at(ledger.FeesBilled, ""), Amount: n},
		}}
	case roll < 98:
		return one(ledger.DepositReversal, id, at(ledger.Customer, who), at(ledger.ReorgLoss, ""), c.randomAmount(mint))
	case roll < 99 && len(c.ended) > 0:
		again := c.ended[c.IntN(len(c.ended))]
		return one(again.Kind, again.ID, at(ledger.Custody, ""), at(ledger.Suspense, ""), money.Units(1))
	default:
		mint = 1
		return one(ledger.Deposit, id, at(ledger.Custody, ""), at(ledger.Suspense, ""), c.randomAmount(mint))
	}
}

// TestTheBooksAreWhatAPlainModelSays posts at random, in batches of one to many, in several
// organizations at once. A posting that the model refuses is inserted at a random position of a
// batch, which then must fail as a whole.
func TestTheBooksAreWhatAPlainModelSays(t *testing.T) {
	t.Parallel()
	orgs := []string{"org_a", "org_b", "org_c"}
	db := newBooks(t, orgs...)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var operations, refusals, transactions atomic.Int64
	began := time.Now()
	var wg sync.WaitGroup
	for n, org := range orgs {
		wg.Go(func() {
			c := &generator{Rand: rand.New(rand.NewPCG(seed, uint64(n))), org: org}
			m := &model{map[ledger.Account]*big.Int{}, map[ledger.Cause]ledger.Leg{}}
			for done := 0; done < modelOperations/len(orgs)+1; {
				size := 1 + c.IntN(modelBatchMax)
				if c.IntN(4) == 0 {
					size = 1
				}
				var batch []ledger.Posting
				for range size {
					p := c.randomPosting()
					if m.applyPosting(p) {
						batch = append(batch, p)
						done++
						continue
					}
					if c.IntN(25) > 0 {
						continue // too many failing batches are only slow
					}
					// The order inside a batch does not matter to the database, only the sum. The
					// model refused after the whole batch.
					bad := slices.Insert(slices.Clone(batch), c.IntN(len(batch)+1), p)
					if err := post(t.Context(), db, org, bad...); err == nil {
						t.Errorf("%s: %v %v was posted, the model refuses it", org, p.Cause, p.Legs)
						return
					}
					refusals.Add(1)
				}
				if len(batch) == 0 {
					continue
				}
				if err := post(t.Context(), db, org, batch...); err != nil {
					t.Errorf("%s: %v", org, err)
					return
				}
				operations.Add(int64(len(batch)))
				transactions.Add(1)
				if err := m.compareBalances(t.Context(), db, org); err != nil {
					t.Errorf("%s after %d postings: %v", org, done, err)
					return
				}
			}
			if err := m.compareSums(t.Context(), db, org); err != nil {
				t.Errorf("%s at the end: %v", org, err)
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	t.Logf("%d postings in %d transactions, %d refused, %v: %d a second", operations.Load(), transactions.Load(),
		refusals.Load(),
		took.Round(time.Millisecond), operations.Load()*int64(time.Second)/int64(took))
	if operations.Load() < modelOperations {
		t.Errorf("got %d operations, want at least %d", operations.Load(), modelOperations)
	}
	if n := db.Counts().Deadlocks; n != 0 {
		t.Errorf("got %d deadlocks, want 0", n)
	}
}

// compareBalances compares every account with a floor.
func (m *model) compareBalances(ctx context.Context, db *pg.DB, org string) error {
	return db.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		var customers []string
		for i := range modelCustomers {
			customers = append(customers, fmt.Sprintf("customer %d", i))
		}
		have, err := ledger.CustomerBalances(ctx, tx, org, customers...)
		if err != nil {
			return err
		}
		seen := 0
		for _, h := range have {
			if want := m.balances[h.Account]; want == nil || h.Balance.Big().Cmp(want) != 0 {
				return fmt.Errorf("%v: got %v, want %v", h.Account, h.Balance, want)
			}
			seen++
		}
		for a, want := range m.balances {
			switch a.Kind {
			case ledger.Customer, ledger.Withdrawing:
				// An account that only a refused posting touched was never opened.
				if want.Sign() > 0 {
					seen--
				}
			case ledger.Gas, ledger.Suspense:
				got, err := ledger.Balance(ctx, tx, a)
				if err != nil {
					return err
				}
				if got.Big().Cmp(want) != 0 {
					return fmt.Errorf("%v: got %v, want %v", a, got, want)
				}
			}
		}
		if seen < 0 {
			return fmt.Errorf("%d accounts with a balance are missing", -seen)
		}
		return nil
	})
}

// compareSums compares every account with the sum of its transfers.
func (m *model) compareSums(ctx context.Context, db *pg.DB, org string) error {
	return db.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		total := map[int]*big.Int{1: new(big.Int), 2: new(big.Int)}
		for a, want := range m.balances {
			got, err := ledger.Sum(ctx, tx, a)
			if err != nil {
				return err
			}
			if got.Cmp(want) != 0 {
				return fmt.Errorf("sum of %v: got %v, want %v", a, got, want)
			}
			total[a.MintID].Add(total[a.MintID], got)
		}
		for mint, sum := range total {
			if sum.Sign() != 0 {
				return fmt.Errorf("all accounts of mint %d: got %v, want 0", mint, sum)
			}
		}
		return nil
	})
}

// newBooksWithMany opens the books with enough connections for 64 workers to contend.
func newBooksWithMany(t *testing.T, orgs ...string) *pg.DB {
	t.Helper()
	d := pgtest.DatabaseOf(t, newBooks(t, orgs...))
	// Dozens of callers queue for one row, and other tests occupy the machine: the length of the queue
	// is no failure.
	db, err := pg.Open(t.Context(), pg.Config{
		URL: d.URL, MaxConns: 64, LockTimeout: 5 * time.Minute, StatementTimeout: 5 * time.Minute,
	}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}
