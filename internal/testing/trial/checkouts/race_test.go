package checkouts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/service"
)

// atOnce calls fn so many times at once, in two processes by turns.
func (e *testEnv) atOnce(calls int, fn func(s *service.Service, i int) error) []error {
	other := e.open(e.db)
	errs := make([]error, calls)
	var wg sync.WaitGroup
	for i := range calls {
		s := e.Service
		if i%2 == 1 {
			s = other
		}
		wg.Go(func() { errs[i] = fn(s, i) })
	}
	wg.Wait()
	if n := e.db.Counts().Deadlocks; n != 0 {
		e.Errorf("got %d deadlocks, want none", n)
	}
	return errs
}

func (e *testEnv) mustAll(errs []error) {
	e.Helper()
	for _, err := range errs {
		e.must(err)
	}
}

func TestTwoProcessesSettleACheckoutOnce(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	settle := func() {
		e.walk()
		_, err := e.Deposits.CreditWaiting(e.ctx)
		e.must(err)
		e.mustAll(e.atOnce(16, func(s *service.Service, i int) error {
			if i%4 == 0 {
				_, err := s.Checkouts.SettleDue(e.ctx)
				return err
			}
			return s.Checkouts.Settle(e.ctx, id)
		}))
	}
	e.pay(id, dollars, 60*million)
	e.pay(id, ether, 20*milliCoin)
	e.mine(1)
	settle()
	e.is(id, outcome.Processing)
	e.mine(finality)
	settle()
	e.turn()
	e.ends(id, ending{
		status: outcome.Completed, seen: "100", counted: "100",
		payments: e.describeAll(id), events: paidEvents, actions: paidActions,
		books: map[int]int64{dollars: 60 * million, ether: 20 * milliCoin},
	})
}

func (e *testEnv) describeAll(checkoutID string) (all []string) {
	for _, p := range e.load(checkoutID).Payments {
		all = append(all, describe(p))
	}
	return all
}

// The walk changes payments while they are settled, and neither waits for the other in a circle.
func TestTheWalkAndTheSettlementMeet(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	var txs []chain.TxHash
	for range 20 {
		txs = append(txs, e.pay(id, dollars, 5*million))
	}
	for range 4 {
		e.mine(1)
		done := make(chan struct{})
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				for {
					if err := e.Checkouts.Settle(e.ctx, id); err != nil {
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
		e.walk()
		e.nets[chain.Ethereum].Fork(1)
		e.nets[chain.Ethereum].Mine(2)
		e.walk()
		close(done)
		group.Wait()
	}
	if n := e.db.Counts().Deadlocks; n != 0 {
		t.Errorf("got %d deadlocks, want none", n)
	}
	e.finalize()
	e.turn()
	c := e.is(id, outcome.Completed)
	if c.Counted.Text() != "100" || len(c.Payments) != len(txs) {
		t.Errorf("got %s of %d payments, want 100 of %d", c.Counted.Text(), len(c.Payments), len(txs))
	}
	e.wantStable(id)
}

// race lets both wait for the lock of a checkout, in this order, and then go on.
func (e *testEnv) race(first, second func()) {
	e.Helper()
	owner := pgtest.OwnerPool(e.T, e.db)
	holder, err := owner.Begin(e.ctx)
	e.must(err)
	_, err = holder.Exec(e.ctx, `SELECT FROM checkouts FOR NO KEY UPDATE`)
	e.must(err)
	var group sync.WaitGroup
	for i, act := range []func(){first, second} {
		group.Go(act)
		pgtest.Eventually(e.T, func() bool {
			var n int
			e.must(owner.QueryRow(e.ctx, `SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event IN ('transactionid', 'tuple')`).Scan(&n))
			return n == i+1
		}, "%d wait for the checkout", i+1)
	}
	e.must(holder.Rollback(e.ctx))
	group.Wait()
}

// Whichever is first, the payment counts, and each event is told once. The walk waits for no lock of the checkout.
// Rules CO-10, CO-13 and CO-15.
func TestAnExpiryAndAPaymentAtOnce(t *testing.T) {
	t.Parallel()
	for _, isExpiryFirst := range []bool{true, false} {
		t.Run(fmt.Sprint("expiry first ", isExpiryFirst), func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t)
			id := e.usual()
			e.stopped[chain.Base] = true
			e.pay(id, baseDollars, 100*million)
			e.mine(1)
			e.skip(32 * time.Minute)
			e.walk()
			e.stopped[chain.Base] = false
			expire := func() { e.must(e.Checkouts.ExpireDue(e.ctx)) }
			pay := func() {
				e.walk()
				if _, err := e.Checkouts.SettleDue(e.ctx); err != nil {
					t.Error(err)
				}
			}
			first, second := expire, pay
			if !isExpiryFirst {
				first, second = pay, expire
			}
			e.race(first, second)
			e.turn()
			e.finalize()
			e.is(id, outcome.Completed)
			events := e.texts(`SELECT type FROM events WHERE resource_id = $1 ORDER BY resource_seq`, id)
			want := []string{"CHECKOUT_PROCESSING", "CHECKOUT_COMPLETED"}
			if slices.Contains(events, "CHECKOUT_EXPIRED") {
				want = append([]string{"CHECKOUT_EXPIRED"}, want...)
			}
			if !slices.Equal(events, want) {
				t.Errorf("got the events %q, want %q", events, want)
			}
			e.wantStable(id)
		})
	}
}

func TestACancellationAndAPaymentAtOnce(t *testing.T) {
	t.Parallel()
	for _, isCancelFirst := range []bool{true, false} {
		t.Run(fmt.Sprint("cancellation first ", isCancelFirst), func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t)
			id := e.usual()
			e.pay(id, dollars, 100*million)
			e.mine(1)
			var cancelErr error
			cancel := func() {
				_, cancelErr = e.Checkouts.CancelCheckout(e.ctx, e.org, id, audit.Operator("ann"))
			}
			pay := func() {
				e.walk()
				if _, err := e.Checkouts.SettleDue(e.ctx); err != nil {
					t.Error(err)
				}
			}
			first, second := cancel, pay
			if !isCancelFirst {
				first, second = pay, cancel
			}
			e.race(first, second)
			if cancelErr != nil {
				e.wantFault(cancelErr, fault.InvalidState)
			}
			e.turn()
			e.finalize()
			e.is(id, outcome.Completed)
			cancelled := len(e.texts(`SELECT action FROM audit_log WHERE action = 'checkout.cancelled'`))
			if (cancelled == 1) != (cancelErr == nil) {
				t.Errorf("got %d cancellations, answered by %v", cancelled, cancelErr)
			}
			e.wantStable(id)
		})
	}
}

func TestOneOptionIsOpenedOnce(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.checkout(request(e.product()))
	e.mustAll(e.atOnce(16, func(s *service.Service, _ int) error {
		_, err := s.Checkouts.OpenOption(e.ctx, e.org, id, dollars)
		return err
	}))
	o := e.option(id, dollars)
	if len(o.Quotes) != 1 {
		t.Errorf("got %d quotes, want one", len(o.Quotes))
	}
	for name, sql := range map[string]string{
		"wallets":    `SELECT wallet_id FROM wallets WHERE purpose = 'CHECKOUT' AND subject = $1`,
		"audit rows": `SELECT action FROM audit_log WHERE action = 'checkout.option_opened' AND resource_id = $1`,
	} {
		if n := len(e.texts(sql, id)); n != 1 {
			t.Errorf("got %d %s, want one", n, name)
		}
	}
	// Renewals at once make one quote, too.
	e.mustAll(e.atOnce(2, func(s *service.Service, _ int) error {
		_, err := s.Checkouts.OpenOption(e.ctx, e.org, id, ether)
		return err
	}))
	e.pass(16 * time.Minute)
	e.mustAll(e.atOnce(16, func(s *service.Service, _ int) error {
		_, err := s.Checkouts.Refresh(e.ctx, e.load(id))
		return err
	}))
	if n := len(e.option(id, ether).Quotes); n != 2 {
		t.Errorf("got %d quotes of ether after the first one was over, want 2", n)
	}
}

func TestOneKeyMakesOneCheckout(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	productID := e.product(oncePerReference)
	ids := make([]string, 32)
	var mu sync.Mutex
	made := 0
	e.mustAll(e.atOnce(len(ids), func(s *service.Service, i int) error {
		c, isReplayed, err := s.Checkouts.CreateCheckout(e.ctx, e.org, request(productID))
		mu.Lock()
		defer mu.Unlock()
		if ids[i] = c.ID; err == nil && !isReplayed {
			made++
		}
		return err
	}))
	slices.Sort(ids)
	if got := slices.Compact(ids); len(got) != 1 || made != 1 {
		t.Errorf("got the checkouts %q, of which %d are new, want one", got, made)
	}
	if n := len(e.texts(`SELECT action FROM audit_log WHERE action = 'checkout.created'`)); n != 1 {
		t.Errorf("got %d audit rows of a creation, want one", n)
	}
}

func TestOneReferenceMakesOneCheckout(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	productID := e.product(oncePerReference)
	errs := e.atOnce(32, func(s *service.Service, i int) error {
		_, _, err := s.Checkouts.CreateCheckout(e.ctx, e.org, request(productID, otherOf(fmt.Sprint("key-", i))))
		return err
	})
	only := e.texts(`SELECT checkout_id FROM checkouts`)
	if len(only) != 1 {
		t.Fatalf("got %d checkouts, want one", len(only))
	}
	isMade := false
	for _, err := range errs {
		if err == nil && !isMade {
			isMade = true
			continue
		}
		if f := e.wantFault(err, fault.ReferencePaid); f.Extra["existingId"] != only[0] {
			t.Errorf("got the checkout %v, want %s", f.Extra["existingId"], only[0])
		}
	}
}

// Requests of one moment share a transaction and no refusal: each has the answer that it would have alone. Rule CO-2.
func TestRequestsOfOneMomentShareNoRefusal(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	free, once := e.product(), e.product(oncePerReference)
	const kinds = 5 // of requests, by turns
	var mu sync.Mutex
	var authors []string // of what is made
	errs := e.atOnce(20*kinds, func(s *service.Service, i int) error {
		key := otherOf(fmt.Sprint("key-", i))
		var r checkout.CheckoutRequest
		switch i % kinds {
		case 0: // valid
			r = request(free, key)
		case 1: // one of them is made
			r = request(once, key)
		case 2: // no such product
			r = request("prod_absent", key)
		case 3: // the database takes no such text
			r = request(free, key, func(r *checkout.CheckoutRequest) { r.Metadata = map[string]string{"note": "\x00"} })
		case 4: // the form
			r = request(free, key, func(r *checkout.CheckoutRequest) { r.ExpiresIn = new(1) })
		}
		r.Actor = audit.APIKey(fmt.Sprint("author-", i))
		c, _, err := s.Checkouts.CreateCheckout(e.ctx, e.org, r)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			authors = append(authors, c.ID+" "+r.Actor.ID)
		}
		return err
	})
	slices.Sort(authors)
	got := e.texts(`SELECT resource_id || ' ' || actor_id FROM audit_log WHERE action = 'checkout.created' ORDER BY 1`)
	if !slices.Equal(got, authors) {
		t.Errorf("got the authors %q, want %q", got, authors)
	}
	made := map[int]int{}
	for i, err := range errs {
		kind := i % kinds
		switch {
		case err == nil:
			made[kind]++
		case kind == 0:
			t.Errorf("request %d: %v", i, err)
		case kind == 1:
			e.wantFault(err, fault.ReferencePaid)
		case kind == 2:
			e.wantFault(err, fault.CodeNotFound)
		case kind == 4:
			e.wantFault(err, fault.InvalidRequest)
		}
	}
	if made[0] != 20 || made[1] != 1 || made[2]+made[3]+made[4] != 0 {
		t.Errorf("made by kind: %v, want 20 of the first and one of the second", made)
	}
	for _, want := range []struct{ what, sql string }{
		{"checkouts", `SELECT checkout_id FROM checkouts`},
		{"audit rows", `SELECT resource_id FROM audit_log WHERE action = 'checkout.created'`},
	} {
		if n := len(e.texts(want.sql)); n != 21 {
			t.Errorf("got %d %s, want 21", n, want.what)
		}
	}
}

// errUndone takes a transaction back after its test.
var errUndone = errors.New("undone")

// What the walk reports never fails a block, whatever it is. Rule CO-10.
func TestStrangeArrivalsFailNoBlock(t *testing.T) {
	t.Parallel()
	e := newAttackEnv(t)
	huge, err := money.Parse("115792089237316195423570985008687907853269984665640564039457584007913129639935")
	e.must(err)
	usual := checkout.Arrival{
		DepositID: "dep_x", OrgID: e.org, CheckoutID: e.open, MintID: new(dollars), Chain: chain.Ethereum,
		Amount: money.Units(million), Tx: "x", IsNew: true, IsRecent: true, Status: outcome.PaymentSeen,
		BlockTime: e.clock(),
	}
	credited := e.load(e.done).Payments[0]
	for name, change := range map[string]func(*checkout.Arrival){
		"the usual one":                      func(*checkout.Arrival) {},
		"a checkout of another organization": func(a *checkout.Arrival) { a.CheckoutID = e.theirs },
		"an absent checkout":                 func(a *checkout.Arrival) { a.CheckoutID = "co_absent" },
		"an unknown token":                   func(a *checkout.Arrival) { a.MintID = nil },
		"no time of a block":                 func(a *checkout.Arrival) { a.BlockTime = time.Time{} },
		"a block of another age":             func(a *checkout.Arrival) { a.BlockTime = time.Unix(1, 0) },
		"a block of the future":              func(a *checkout.Arrival) { a.BlockTime = e.clock().Add(1 << 60) },
		"all units":                          func(a *checkout.Arrival) { a.Amount = huge },
		"no units":                           func(a *checkout.Arrival) { a.Amount = money.Zero },
		"an unknown status":                  func(a *checkout.Arrival) { a.Status = "PAID" },
		"no status":                          func(a *checkout.Arrival) { a.Status = "" },
		"an unknown chain":                   func(a *checkout.Arrival) { a.Chain = "NOWHERE" },
		"references that are none": func(a *checkout.Arrival) {
			a.IsShared, a.CheckoutID = true, ""
			a.References = []chain.Address{"", "0OIl", chain.Address(strings.Repeat("1", 2000)), "\x00"}
		},
		"no reference":           func(a *checkout.Arrival) { a.IsShared, a.CheckoutID = true, "" },
		"a change of no payment": func(a *checkout.Arrival) { a.IsNew = false },
		"a known one as new":     func(a *checkout.Arrival) { a.DepositID = credited.DepositID },
		"another amount of a credit": func(a *checkout.Arrival) {
			a.DepositID, a.CheckoutID, a.IsNew, a.Status = credited.DepositID, e.done, false, outcome.PaymentCredited
		},
		"an unknown status of a credit": func(a *checkout.Arrival) {
			a.DepositID, a.CheckoutID, a.IsNew, a.Status = credited.DepositID, e.done, false, ""
			a.Amount = credited.Amount
		},
		"a credit that is only seen": func(a *checkout.Arrival) {
			a.DepositID, a.CheckoutID, a.IsNew, a.Amount = credited.DepositID, e.done, false, credited.Amount
		},
	} {
		a := usual
		change(&a)
		err := e.db.InSystem(e.ctx, func(ctx context.Context, tx pg.Tx) error {
			if err := e.Checkouts.OnArrivals(ctx, tx, []checkout.Arrival{a, a}); err != nil {
				return err
			}
			return errUndone
		})
		if !errors.Is(err, errUndone) {
			t.Errorf("%s: got %v, want no error", name, err)
		}
	}
}

// One checkout that cannot be settled keeps no other one open.
func TestOneBrokenCheckoutDelaysNoOther(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.checkout(request(e.product()))
	const others = 300 // more than are ended in one go
	e.exec(`INSERT INTO checkouts SELECT (jsonb_populate_record(c, jsonb_build_object('checkout_id', 'co_' || i,
			'idempotency_key', null, 'key_hash', null, 'expires_at', c.expires_at + i * interval '1 ms',
			'line_items', CASE i WHEN 0 THEN '[1]' ELSE c.line_items END))).*
		FROM checkouts c, generate_series(0, $2) i WHERE checkout_id = $1`, id, others)
	e.skip(32 * time.Minute)
	e.walk()
	if err := e.Checkouts.ExpireDue(e.ctx); err == nil {
		t.Error("got no error of the broken checkout")
	}
	open := e.texts(`SELECT checkout_id FROM checkouts WHERE status = 'OPEN'`)
	if !slices.Equal(open, []string{"co_0"}) {
		t.Errorf("got %d open checkouts, want the broken one alone", len(open))
	}
}

// The clocks of two processes differ by seconds. One of them may be before what the other one wrote.
func TestTwoProcessesWhoseClocksDiffer(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]time.Duration{"behind": -7 * time.Second, "ahead": 7 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t)
			other := e.open(pgtest.Open(t, e.database, func() time.Time { return e.clock().Add(off) })).Checkouts
			id := e.checkout(request(e.product()))
			_, err := other.OpenOption(e.ctx, e.org, id, ether)
			e.must(err)
			_, err = e.Checkouts.OpenOption(e.ctx, e.org, id, dollars)
			e.must(err)
			e.pay(id, ether, 20*milliCoin)
			e.mine(1)
			e.walk()
			e.must(other.Settle(e.ctx, id))
			c := e.is(id, outcome.Open, outcome.Underpaid)
			for _, process := range []*checkout.Service{other, e.Checkouts, other} {
				_, err = process.Refresh(e.ctx, c)
				e.must(err)
			}
			e.pay(id, dollars, 60*million)
			e.mine(1)
			e.walk()
			e.must(other.Settle(e.ctx, id))
			e.is(id, outcome.Processing)
			e.mine(finality)
			e.walk()
			_, err = e.Deposits.CreditWaiting(e.ctx)
			e.must(err)
			e.must(other.Settle(e.ctx, id))
			e.turn()
			c = e.is(id, outcome.Completed)
			if c.Counted.Text() != "100" {
				t.Errorf("counted %s, want 100", c.Counted.Text())
			}
			e.wantStable(id)
			again := e.checkout(request(e.product(), otherOf("key-2")))
			_, err = other.CancelCheckout(e.ctx, e.org, again, audit.Operator("ann"))
			e.must(err)
			e.is(again, outcome.Cancelled)
			e.look()
		})
	}
}
