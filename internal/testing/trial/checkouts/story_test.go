package checkouts

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/wallet"
)

// What a checkout that is paid at once leaves.
var (
	paidActions = []string{"changed OPEN PROCESSING", "changed PROCESSING COMPLETED"}
	paidEvents  = []string{"PROCESSING", "COMPLETED"}
	paidBooks   = map[int]int64{dollars: 100 * million}
)

// Rules CO-14 and CO-15.
func TestAnExactPaymentCompletesACheckoutOnce(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	e.seen(id, dollars, 100*million)
	e.is(id, outcome.Processing)
	e.finalize()
	e.ends(id, ending{
		status: outcome.Completed, seen: "100", counted: "100", payments: []string{"CREDITED 100 by quote 1"},
		events: paidEvents, actions: paidActions, books: paidBooks,
	})
}

func TestTheToleranceInBasisPointsPaysTheRest(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual(withTolerance(50))
	e.paid(id, dollars, 99_499_999)
	e.is(id, outcome.Open, outcome.Underpaid)
	e.paid(id, dollars, 100_000) // the least deposit
	e.ends(id, ending{
		status: outcome.Completed, seen: "99.599999", counted: "99.599999",
		payments: []string{"CREDITED 99.499999 by quote 1", "CREDITED 0.1 by quote 1"},
		events:   []string{"EXCEPTION", "PROCESSING", "COMPLETED"},
		actions:  append([]string{"changed OPEN OPEN"}, paidActions...), books: map[int]int64{dollars: 99_599_999},
	})
}

// The tolerance in dollars is the greater one, and gives away no more than a tenth of a cheap product.
func TestTheToleranceInDollarsPaysTheRest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		price  string
		units  uint64
		isPaid bool
	}{
		"within":                {"100", 98 * million, true},
		"below":                 {"100", 97_999_999, false},
		"a tenth of the cheap":  {"1", 900_000, true},
		"below a tenth of that": {"1", 899_999, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t)
			e.exec(`INSERT INTO checkout_settings (org_id, version, under_usd, cost_max_bps, updated_at, updated_by)
				VALUES ($1, 1, 2, 10000, now(), 'op')`, e.org)
			id := e.usual(func(d *checkout.Draft) { d.Price = &c.price })
			e.paid(id, dollars, c.units)
			if c.isPaid {
				e.is(id, outcome.Completed)
			} else {
				e.is(id, outcome.Open, outcome.Underpaid)
			}
			e.wantStable(id)
		})
	}
}

func TestTheRestOfAPartIsPaidInAnotherCoin(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	e.pass(10 * time.Minute)
	e.seen(id, dollars, 40*million)
	c := e.is(id, outcome.Open, outcome.Underpaid)
	if end := c.Payments[0].BlockTime.Add(30 * time.Minute); !c.ExpiresAt.Equal(end) {
		t.Errorf("after the first part it ends at %v, want half an hour after it, %v", c.ExpiresAt, end)
	}
	_, err := e.Checkouts.Refresh(e.ctx, c)
	e.must(err)
	quote, _ := e.option(id, ether).Quote()
	if quote.Covers.Text() != "60" || quote.Amount.String() != "30000000000000000" || quote.Seq != 2 {
		t.Errorf("got quote %d of %s for %s, want the second one, of 0.03 ether for 60", quote.Seq, quote.Amount,
			quote.Covers.Text())
	}
	e.pass(5 * time.Minute)
	e.seen(id, dollars, 10*million)
	if moved := e.is(id, outcome.Open, outcome.Underpaid); !moved.ExpiresAt.Equal(c.ExpiresAt) {
		t.Errorf("the second part moved the end from %v to %v", c.ExpiresAt, moved.ExpiresAt)
	}
	e.paid(id, ether, 25*milliCoin)
	e.ends(id, ending{
		status: outcome.Completed, seen: "100", counted: "100",
		payments: []string{"CREDITED 40 by quote 1", "CREDITED 10 by quote 2", "CREDITED 50 by quote 2"},
		events:   []string{"EXCEPTION", "PROCESSING", "COMPLETED"},
		actions:  append([]string{"changed OPEN OPEN"}, paidActions...),
		books:    map[int]int64{dollars: 50 * million, ether: 25 * milliCoin},
	})
}

func TestAPartThatIsNotCompletedExpiresUnderpaid(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	e.paid(id, dollars, 40*million)
	e.pass(29 * time.Minute)
	e.is(id, outcome.Open, outcome.Underpaid)
	e.pass(3 * time.Minute)
	e.ends(id, ending{
		status: outcome.Expired, exceptions: []outcome.Exception{outcome.Underpaid}, seen: "40", counted: "40",
		payments: []string{"CREDITED 40 by quote 1"}, events: []string{"EXCEPTION", "EXPIRED"},
		actions: []string{"changed OPEN OPEN", "changed OPEN EXPIRED"}, books: map[int]int64{dollars: 40 * million},
	})
	_, err := e.Checkouts.AcceptCheckout(e.ctx, e.org, id, "a regular", audit.Operator("ann"))
	e.must(err)
	e.ends(id, ending{
		status: outcome.Completed, seen: "40", counted: "40",
		payments: []string{"CREDITED 40 by quote 1"}, events: []string{"EXCEPTION", "EXPIRED", "COMPLETED"},
		actions: []string{"changed OPEN OPEN", "changed OPEN EXPIRED", "changed EXPIRED COMPLETED"},
		books:   map[int]int64{dollars: 40 * million},
	})
}

func TestMoreThanTheAmountDueIsOverpaid(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	e.paid(id, dollars, 150*million)
	e.ends(id, ending{
		status: outcome.Completed, exceptions: []outcome.Exception{outcome.Overpaid}, seen: "150", counted: "150",
		payments: []string{"CREDITED 150 by quote 1"}, events: paidEvents, actions: paidActions,
		books: map[int]int64{dollars: 150 * million},
	})
}

func TestASecondPaymentOfACompletedCheckoutIsOverpaid(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	e.paid(id, dollars, 100*million)
	e.paid(id, ether, 50*milliCoin)
	e.ends(id, ending{
		status: outcome.Completed, exceptions: []outcome.Exception{outcome.Overpaid}, seen: "200", counted: "200",
		payments: []string{"CREDITED 100 by quote 1", "CREDITED 100 by quote 1"},
		events:   []string{"PROCESSING", "COMPLETED", "EXCEPTION"},
		actions:  append(paidActions[:2:2], "changed COMPLETED COMPLETED"),
		books:    map[int]int64{dollars: 100 * million, ether: 50 * milliCoin},
	})
}

func TestALatePaymentWithinTheToleranceCompletesACheckout(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	e.pass(32 * time.Minute)
	e.is(id, outcome.Expired)
	e.prices.set(ether, "1000")
	e.paid(id, ether, 100*milliCoin)
	e.ends(id, ending{
		status: outcome.Completed, exceptions: []outcome.Exception{outcome.PaidLate}, seen: "100", counted: "100",
		payments: []string{"CREDITED 100 by market late"}, events: []string{"EXPIRED", "PROCESSING", "COMPLETED"},
		actions: []string{"changed OPEN EXPIRED", "changed EXPIRED PROCESSING", "changed PROCESSING COMPLETED"},
		books:   map[int]int64{ether: 100 * milliCoin},
	})
}

func TestALatePaymentWaitsForAPersonWhereThePolicyHolds(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual(holdingLate)
	e.pass(32 * time.Minute)
	e.paid(id, dollars, 100*million)
	e.ends(id, ending{
		status: outcome.Expired, exceptions: []outcome.Exception{outcome.PaidLate}, seen: "0", counted: "0",
		payments: []string{"CREDITED 100 by market late not counted"}, events: []string{"EXPIRED", "EXCEPTION"},
		actions: []string{"changed OPEN EXPIRED", "changed EXPIRED EXPIRED"}, books: paidBooks,
	})
	_, err := e.Checkouts.AcceptCheckout(e.ctx, e.org, id, "late and fine", audit.Operator("ann"))
	e.must(err)
	e.ends(id, ending{
		status: outcome.Completed, exceptions: []outcome.Exception{outcome.PaidLate}, seen: "100", counted: "100",
		payments: []string{"CREDITED 100 by market late"}, events: []string{"EXPIRED", "EXCEPTION", "COMPLETED"},
		actions: []string{"changed OPEN EXPIRED", "changed EXPIRED EXPIRED", "changed EXPIRED COMPLETED"},
		books:   paidBooks,
		check: func(c checkout.Checkout) {
			if c.DecidedBy != "OPERATOR ann" || c.DecidedReason != "late and fine" {
				t.Errorf("decided by %q for %q, want ann and her reason", c.DecidedBy, c.DecidedReason)
			}
		},
	})
	// A second decision is the first one.
	_, err = e.Checkouts.AcceptCheckout(e.ctx, e.org, id, "again", audit.Operator("bob"))
	e.must(err)
	if c := e.load(id); c.DecidedBy != "OPERATOR ann" {
		t.Errorf("got a decision by %q, want ann's", c.DecidedBy)
	}
}

func TestPoliciesEndAWeekAfterTheEnd(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	e.pass(32 * time.Minute)
	e.pass(7 * 24 * time.Hour)
	e.paid(id, dollars, 100*million)
	e.is(id, outcome.Expired, outcome.PaidLate)
	e.wantBooks(paidBooks)
	_, err := e.Checkouts.AcceptCheckout(e.ctx, e.org, id, "found again", audit.Operator("ann"))
	e.must(err)
	e.is(id, outcome.Completed, outcome.PaidLate)
	e.wantStable(id)
}

// Rule CO-13.
func TestNothingExpiresWhileTheWalkOfItsChainLags(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	e.skip(29 * time.Minute)
	e.stopped[chain.Ethereum] = true
	e.pay(id, dollars, 100*million)
	e.mine(1)
	e.pass(time.Hour)
	e.is(id, outcome.Open)
	e.stopped[chain.Ethereum] = false
	e.turn()
	e.is(id, outcome.Processing)
	e.finalize()
	e.ends(id, ending{
		status: outcome.Completed, seen: "100", counted: "100", payments: []string{"CREDITED 100 by quote 1"},
		events: paidEvents, actions: paidActions, books: paidBooks,
	})
}

// No option is opened on the other chain, so its walk delays no expiry. What was paid in time is not late. Rule
// CO-13.
func TestAPaymentInTimeThatIsNoticedAfterTheExpiryIsNotLate(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual(holdingLate)
	e.stopped[chain.Base] = true
	e.pay(id, baseDollars, 100*million)
	e.mine(1)
	e.pass(time.Hour)
	e.is(id, outcome.Expired)
	e.stopped[chain.Base] = false
	e.turn()
	e.finalize()
	e.ends(id, ending{
		status: outcome.Completed, seen: "100", counted: "100", payments: []string{"CREDITED 100 by market"},
		events:  []string{"EXPIRED", "PROCESSING", "COMPLETED"},
		actions: []string{"changed OPEN EXPIRED", "changed EXPIRED PROCESSING", "changed PROCESSING COMPLETED"},
		books:   map[int]int64{baseDollars: 100 * million},
	})
}

// A walk that catches up shows the first part and the rest at once. The first part has moved the end, as it would
// have if each had been seen in its time.
func TestPartsThatAreNoticedTogetherAreJudgedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual(holdingLate)
	e.skip(20 * time.Minute)
	e.stopped[chain.Ethereum] = true
	e.pay(id, dollars, 40*million)
	e.mine(1)
	e.skip(20 * time.Minute)
	e.pay(id, dollars, 60*million)
	e.mine(1)
	e.stopped[chain.Ethereum] = false
	e.turn()
	e.finalize()
	e.ends(id, ending{
		status: outcome.Completed, seen: "100", counted: "100",
		payments: []string{"CREDITED 40 by quote 1", "CREDITED 60 by market"},
		events:   paidEvents, actions: paidActions, books: paidBooks,
	})
}

// Rules CO-14 and CO-17.
func TestAnotherCoinOfTheCatalogueWaitsForAPerson(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	e.paid(id, euros, 90*million)
	e.ends(id, ending{
		status: outcome.Open, exceptions: []outcome.Exception{outcome.WrongToken}, seen: "0", counted: "0",
		payments: []string{"CREDITED 99 by market not accepted not counted"}, events: []string{"EXCEPTION"},
		actions: []string{"changed OPEN OPEN"}, books: map[int]int64{euros: 90 * million},
	})
	_, err := e.Checkouts.AcceptCheckout(e.ctx, e.org, id, "euros are fine", audit.Operator("ann"))
	e.must(err)
	e.ends(id, ending{
		status: outcome.Completed, exceptions: []outcome.Exception{outcome.WrongToken}, seen: "99", counted: "99",
		payments: []string{"CREDITED 99 by market not accepted"}, events: []string{"EXCEPTION", "COMPLETED"},
		actions: []string{"changed OPEN OPEN", "changed OPEN COMPLETED"}, books: map[int]int64{euros: 90 * million},
	})
}

func TestTheSameAssetOnAnotherChainCounts(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	e.paid(id, baseDollars, 100*million)
	e.ends(id, ending{
		status: outcome.Completed, seen: "100", counted: "100", payments: []string{"CREDITED 100 by market"},
		events: paidEvents, actions: paidActions, books: map[int]int64{baseDollars: 100 * million},
	})
}

// Two tokens of one chain are two assets, whatever they are called. Otherwise a worthless one could pay an amount that
// is due in the symbol of the good one, token by token.
func TestAnotherTokenOfTheSameNameIsAnotherCoin(t *testing.T) {
	t.Parallel()
	for name, currency := range map[string]string{"in dollars": "USD", "in its own symbol": "USDC"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t)
			id := e.usual(func(d *checkout.Draft) { d.Currency = currency })
			e.paid(id, twin, 100*million)
			c := e.is(id, outcome.Open, outcome.WrongToken)
			if got := describe(c.Payments[0]); got != "CREDITED 50 by market not accepted not counted" {
				t.Errorf("got %s, want half its number of dollars, and not counted", got)
			}
			e.wantStable(id)
		})
	}
}

func TestWhatCannotBeUsedChangesNoState(t *testing.T) {
	t.Parallel()
	for name, pay := range map[string]func(e *testEnv, id string){
		"below the minimum": func(e *testEnv, id string) { e.pay(id, dollars, 99_999) },
		"an unknown token": func(e *testEnv, id string) {
			e.nets[chain.Ethereum].Pay(payer, e.address(id, chain.EVM), unknownToken, 100*million)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t)
			id := e.usual()
			end := e.load(id).ExpiresAt
			pay(e, id)
			e.block()
			e.finalize()
			e.ends(id, ending{
				status: outcome.Open, seen: "0", counted: "0", payments: []string{"UNUSABLE unvalued"},
				check: func(c checkout.Checkout) {
					if !c.ExpiresAt.Equal(end) || c.Version < 2 {
						t.Errorf("the end moved from %v to %v at version %d, want the same end and a new version", end,
							c.ExpiresAt, c.Version)
					}
				},
			})
			// Dust of a stranger prevents no cancellation.
			_, err := e.Checkouts.CancelCheckout(e.ctx, e.org, id, audit.Operator("ann"))
			e.must(err)
			e.is(id, outcome.Cancelled)
		})
	}
}

// Rule CO-16.
func TestACancelledCheckoutTakesNothingByItself(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	_, err := e.Checkouts.CancelCheckout(e.ctx, e.org, id, audit.Operator("ann"))
	e.must(err)
	_, err = e.Checkouts.CancelCheckout(e.ctx, e.org, id, audit.Operator("bob"))
	e.must(err)
	e.paid(id, dollars, 100*million)
	e.ends(id, ending{
		status: outcome.Cancelled, exceptions: []outcome.Exception{outcome.PaidLate}, seen: "0", counted: "0",
		payments: []string{"CREDITED 100 by quote 1 late not counted"}, events: []string{"EXCEPTION"},
		actions: []string{"cancelled", "changed CANCELLED CANCELLED"}, books: paidBooks,
	})
	_, err = e.Checkouts.AcceptCheckout(e.ctx, e.org, id, "after all", audit.Operator("ann"))
	e.must(err)
	e.ends(id, ending{
		status: outcome.Completed, exceptions: []outcome.Exception{outcome.PaidLate}, seen: "100", counted: "100",
		payments: []string{"CREDITED 100 by quote 1 late"}, events: []string{"EXCEPTION", "COMPLETED"},
		actions: []string{"cancelled", "changed CANCELLED CANCELLED", "changed CANCELLED COMPLETED"}, books: paidBooks,
	})
}

func TestNothingIsCancelledOnceAPaymentIsSeen(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	part, whole := e.usual(), e.checkout(request(e.product(), func(r *checkout.CheckoutRequest) {
		r.IdempotencyKey, r.Reference = new("key-2"), nil
	}), dollars)
	e.seen(part, dollars, million)
	e.seen(whole, dollars, 100*million)
	for _, id := range []string{part, whole} {
		_, err := e.Checkouts.CancelCheckout(e.ctx, e.org, id, audit.Operator("ann"))
		e.wantFault(err, fault.InvalidState)
	}
	e.is(part, outcome.Open, outcome.Underpaid)
	e.is(whole, outcome.Processing)
}

// A payment that was made before the cancellation and noticed after it brings the checkout back.
func TestAPaymentBeforeTheCancellationCounts(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	e.stopped[chain.Ethereum] = true
	hash := e.pay(id, dollars, 100*million)
	e.mine(1)
	e.pass(time.Minute)
	_, err := e.Checkouts.CancelCheckout(e.ctx, e.org, id, audit.Operator("ann"))
	e.must(err)
	e.stopped[chain.Ethereum] = false
	e.nets[chain.Ethereum].Fork(2)
	e.nets[chain.Ethereum].Mine(2)
	e.turn()
	e.is(id, outcome.Processing)
	// It is gone again: the checkout is open, and can be cancelled again.
	e.nets[chain.Ethereum].Fork(2, hash)
	e.nets[chain.Ethereum].Mine(3)
	e.turn()
	e.is(id, outcome.Open)
	_, err = e.Checkouts.CancelCheckout(e.ctx, e.org, id, audit.Operator("ann"))
	e.must(err)
	e.ends(id, ending{
		status: outcome.Cancelled, seen: "0", counted: "0",
		payments: []string{"ORPHANED 100 by quote 1 not counted"}, events: []string{"PROCESSING"},
		actions: []string{"cancelled", "changed CANCELLED PROCESSING", "changed PROCESSING OPEN", "cancelled"},
	})
}

// flag pays from the thief, whom screening flags.
func (e *testEnv) flag(checkoutID string, units uint64) string {
	e.Helper()
	e.payFrom(thief, checkoutID, dollars, units)
	e.block()
	e.finalize()
	flagged := e.deposits("FLAGGED")
	if len(flagged) != 1 {
		e.Fatalf("got %d flagged deposits, want one", len(flagged))
	}
	return flagged[0]
}

func decider() deposit.Actor { return deposit.Actor{Actor: audit.Operator("ann"), Name: "Ann"} }

// An approved payment counts with its own moment, also long after the end.
func TestAnApprovedPaymentCountsWithItsOwnMoment(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.screen()
	id := e.usual(holdingLate)
	flagged := e.flag(id, 100*million)
	e.is(id, outcome.Open, outcome.Flagged)
	_, err := e.Checkouts.CancelCheckout(e.ctx, e.org, id, audit.Operator("ann"))
	e.wantFault(err, fault.InvalidState)
	_, err = e.Checkouts.AcceptCheckout(e.ctx, e.org, id, "no", audit.Operator("ann"))
	e.wantFault(err, fault.InvalidState)
	e.pass(45 * time.Minute)
	e.is(id, outcome.Expired, outcome.Flagged)
	e.wantBooks(nil)
	_, err = e.Deposits.Approve(e.ctx, flagged, decider(), "known")
	e.must(err)
	e.turn()
	e.ends(id, ending{
		status: outcome.Completed, seen: "100", counted: "100", payments: []string{"CREDITED 100 by quote 1"},
		events: []string{"PROCESSING", "EXCEPTION", "EXPIRED", "COMPLETED"},
		actions: []string{
			"changed OPEN PROCESSING", "changed PROCESSING OPEN", "changed OPEN EXPIRED", "changed EXPIRED COMPLETED",
		},
		books: paidBooks,
	})
}

func TestARejectedPaymentIsAsIfItHadNotBeenMade(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.screen()
	id := e.usual()
	treasury, err := e.Wallets.Treasury(e.ctx, e.org, chain.EVM)
	e.must(err)
	e.nets[chain.Ethereum].Pay(payer, treasury.Address, "", 1000*milliCoin)
	flagged := e.flag(id, 100*million)
	_, err = e.Deposits.Reject(e.ctx, flagged, decider(), "")
	e.must(err)
	e.turn()
	e.is(id, outcome.Open, outcome.Flagged)
	for range 12 {
		_, err := e.Sweeper(chain.Ethereum).Plan(e.ctx)
		e.must(err)
		for range turnsMax {
			hasMore, err := e.DispatchWorker(chain.Ethereum).RunRound(e.ctx)
			e.must(err)
			if !hasMore {
				break
			}
		}
		e.block()
	}
	e.ends(id, ending{
		status: outcome.Open, seen: "0", counted: "0", payments: []string{"RETURNED 100 by quote 1 not counted"},
		events:  []string{"PROCESSING", "EXCEPTION"},
		actions: []string{"changed OPEN PROCESSING", "changed PROCESSING OPEN", "changed OPEN OPEN"},
	})
	e.paid(id, dollars, 100*million)
	e.is(id, outcome.Completed)
}

func TestAFlagBetweenTwoPartsHoldsThatPartAlone(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.screen()
	id := e.usual()
	e.paid(id, dollars, 40*million)
	flagged := e.flag(id, 50*million)
	e.is(id, outcome.Open, outcome.Flagged, outcome.Underpaid)
	e.paid(id, dollars, 10*million)
	c := e.is(id, outcome.Open, outcome.Flagged, outcome.Underpaid)
	if c.SeenSum.Text() != "50" {
		t.Errorf("seen %s, want 50 of the parts that are not flagged", c.SeenSum.Text())
	}
	_, err := e.Deposits.Approve(e.ctx, flagged, decider(), "")
	e.must(err)
	e.turn()
	e.ends(id, ending{
		status: outcome.Completed, seen: "100", counted: "100",
		payments: []string{"CREDITED 40 by quote 1", "CREDITED 50 by quote 1", "CREDITED 10 by quote 1"},
		events:   []string{"EXCEPTION", "EXCEPTION", "COMPLETED"},
		actions:  []string{"changed OPEN OPEN", "changed OPEN OPEN", "changed OPEN COMPLETED"}, books: paidBooks,
	})
}

// mineEmpty makes blocks on a chain without what waits in its pool.
func (e *testEnv) mineEmpty(name chain.Name, blocks int) { e.nets[name].MineEmpty(blocks) }

// A payment that a fork removes gives ten minutes for another one. On another fork it counts again, with its first
// moment.
func TestAPaymentThatAForkRemovesOpensTheCheckoutAgain(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	e.pass(25 * time.Minute)
	e.seen(id, dollars, 100*million)
	first := e.is(id, outcome.Processing).Payments[0].PaidAt()
	e.nets[chain.Ethereum].Fork(1)
	e.mineEmpty(chain.Ethereum, 2)
	e.turn()
	c := e.is(id, outcome.Open)
	if end := e.clock().Add(10 * time.Minute); !c.ExpiresAt.Equal(end) {
		t.Errorf("it ends at %v, want ten minutes from now, %v", c.ExpiresAt, end)
	}
	e.pass(12 * time.Minute) // which shows it again
	e.finalize()
	e.ends(id, ending{
		status: outcome.Completed, seen: "100", counted: "100", payments: []string{"CREDITED 100 by quote 1"},
		events: []string{"PROCESSING", "PROCESSING", "COMPLETED"}, books: paidBooks,
		actions: []string{
			"changed OPEN PROCESSING", "changed PROCESSING OPEN", "changed OPEN PROCESSING",
			"changed PROCESSING COMPLETED",
		},
		check: func(c checkout.Checkout) {
			if got := c.Payments[0].PaidAt(); !got.Equal(first) {
				t.Errorf("it was paid at %v, want the first moment %v", got, first)
			}
		},
	})
}

func TestAPaymentThatAForkDropsExpires(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	hash := e.seen(id, dollars, 100*million)
	e.fork(chain.Ethereum, 1, hash)
	e.mine(1)
	e.turn()
	e.is(id, outcome.Open)
	e.pass(32 * time.Minute)
	e.ends(id, ending{
		status: outcome.Expired, seen: "0", counted: "0", payments: []string{"ORPHANED 100 by quote 1 not counted"},
		events:  []string{"PROCESSING", "EXPIRED"},
		actions: []string{"changed OPEN PROCESSING", "changed PROCESSING OPEN", "changed OPEN EXPIRED"},
	})
}

// A fork that shows the payment in another block changes nothing that anyone is told.
func TestAPaymentInAnotherBlockStaysTheSame(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	e.seen(id, dollars, 100*million)
	e.fork(chain.Ethereum, 1)
	e.mine(1)
	e.turn()
	e.finalize()
	e.ends(id, ending{
		status: outcome.Completed, seen: "100", counted: "100", payments: []string{"CREDITED 100 by quote 1"},
		events: paidEvents, actions: paidActions, books: paidBooks,
	})
}

func TestAForkThatChangesTheAmountIsValuedAgain(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	net := e.nets[chain.Ethereum]
	hash := e.seen(id, dollars, 100*million)
	e.is(id, outcome.Processing)
	net.Fork(1, hash)
	net.ResubmitTx(hash, payer, sim.Move{
		Contract: signertest.Token, To: e.address(id, chain.EVM), Amount: money.Units(60 * million),
	})
	net.Mine(2)
	e.turn()
	e.is(id, outcome.Open, outcome.Underpaid)
	e.finalize()
	e.ends(id, ending{
		status: outcome.Open, exceptions: []outcome.Exception{outcome.Underpaid}, seen: "60", counted: "60",
		payments: []string{"CREDITED 60 by quote 1"}, events: []string{"PROCESSING", "EXCEPTION"},
		actions: []string{"changed OPEN PROCESSING", "changed PROCESSING OPEN"},
		books:   map[int]int64{dollars: 60 * million},
	})
}

// The goods may be delivered, so a completed checkout stays one when finality itself breaks.
func TestAReversedPaymentLeavesTheCheckoutCompleted(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.mine(5)
	id := e.usual()
	hash := e.paid(id, dollars, 100*million)
	e.is(id, outcome.Completed)
	net := e.nets[chain.Ethereum]
	net.Fork(finality+2, hash)
	net.MineEmpty(finality + 6)
	walker := e.Walker(chain.Ethereum)
	for range turnsMax {
		if _, err := walker.StepFinal(e.ctx); errors.Is(err, scan.ErrFinalityBroken) {
			break
		}
	}
	fork, err := walker.FindFork(e.ctx)
	e.must(err)
	_, err = walker.Repoint(e.ctx, fork, 2, audit.Operator("op"))
	e.must(err)
	e.turn()
	e.is(id, outcome.Completed)
	net.MineEmpty(10)
	e.turn()
	e.must(e.Deposits.SettleReorgs(e.ctx))
	e.turn()
	e.ends(id, ending{
		status: outcome.Completed, exceptions: []outcome.Exception{outcome.Reversed}, seen: "0", counted: "0",
		payments: []string{"REVERSED 100 by quote 1 not counted"},
		events:   []string{"PROCESSING", "COMPLETED", "EXCEPTION"},
		actions:  append(paidActions[:2:2], "changed COMPLETED COMPLETED"),
	})
}

// What is paid in a mint that is quarantined waits with its deposit, and counts once that is credited.
func TestAPaymentInAQuarantinedMintWaitsForItsRelease(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	e.must(e.db.InSystem(e.ctx, func(ctx context.Context, tx pg.Tx) error {
		return mint.QuarantineBy(ctx, tx, dollars, audit.Operator("op"), "a doubt")
	}))
	e.paid(id, dollars, 100*million)
	e.is(id, outcome.Processing)
	e.pass(time.Hour)
	e.is(id, outcome.Processing)
	e.wantBooks(nil)
	e.must(e.db.InSystem(e.ctx, func(ctx context.Context, tx pg.Tx) error {
		return mint.ReleaseQuarantine(ctx, tx, dollars, audit.Operator("op"), "no doubt")
	}))
	e.turn()
	e.ends(id, ending{
		status: outcome.Completed, seen: "100", counted: "100", payments: []string{"CREDITED 100 by quote 1"},
		events: paidEvents, actions: paidActions, books: paidBooks,
	})
}

// A database whose address was changed shows it to no one, and what arrived before is told all the same.
func TestAnAddressThatWasChangedIsShownToNoOne(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	e.seen(id, dollars, 40*million)
	e.seen(id, dollars, 60*million)
	e.exec(`UPDATE wallets SET address = $1 WHERE purpose = 'CHECKOUT' AND subject = $2`, thief, id)
	for name, show := range map[string]func() error{
		"by id":   func() error { _, err := e.Checkouts.CheckoutByID(e.ctx, e.org, id); return err },
		"by key":  func() error { _, _, err := e.Checkouts.FindCheckoutByKey(e.ctx, e.org, usualKey); return err },
		"page":    func() error { _, err := e.Checkouts.PublicByID(e.ctx, id); return err },
		"opening": func() error { _, err := e.Checkouts.OpenOption(e.ctx, e.org, id, dollars); return err },
	} {
		if err := show(); !errors.Is(err, wallet.ErrProof) {
			t.Errorf("%s: got %v, want a refusal to show the address", name, err)
		}
	}
	told := e.texts(`SELECT convert_from(data, 'UTF8') FROM events WHERE resource_id = $1`, id)
	if len(told) == 0 || strings.Contains(strings.Join(told, ""), string(thief)) {
		t.Errorf("got the events %q, want some, without the changed address", told)
	}
	e.must(e.Checkouts.Settle(e.ctx, id))
}
