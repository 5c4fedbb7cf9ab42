package dispatch_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// withFeeMax returns the order with a limit on the cost of its transactions.
func (b *testEnv) withFeeMax(o dispatch.Order, most money.Amount) dispatch.Order {
	o.FeeMax = &most
	return o
}

// oneLess returns the amount less one unit.
func oneLess(t *testing.T, a money.Amount) money.Amount {
	t.Helper()
	less, err := a.Sub(money.Units(1))
	if err != nil {
		t.Fatal(err)
	}
	return less
}

// Rule WD-26.
func TestAnOrderAboveItsFeeLimitGoesBackBeforeItHasASlot(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	to := sim.Address("customer")
	most := b.quoteMax(b.paymentOf(b.newOrder("x", to, 1)))

	dear := b.withFeeMax(b.newOrder("wd_dear", to, 100), oneLess(t, most))
	b.submitOrder(dear)
	b.runRounds()
	b.wantStatus("wd_dear", dispatch.Refused)
	if said := b.lastError("wd_dear"); !strings.Contains(said, dispatch.FeeRefused) ||
		!strings.Contains(said, most.String()) {
		t.Errorf("the order says %q, want what the network may take", said)
	}
	if n := b.queryCount(`SELECT count(*) FROM dispatch_slots`) + b.queryCount(
		`SELECT count(*) FROM dispatch_attempts`,
	); n != 0 {
		t.Errorf("got %d slots and transactions, want 0", n)
	}
	b.checkBooks(b.treasury)

	b.submitOrder(b.withFeeMax(b.newOrder("wd_fair", to, 100), most))
	b.runRounds()
	b.mineAndProve(6)
	b.runRounds()
	b.wantStatus("wd_fair", dispatch.Paid)
	b.wantReceived(to, 100)

	// Lower fees let the first one pass once it is submitted again.
	b.chain.SetBaseFee(1)
	b.chain.MineEmpty(1)
	b.submitOrder(dear)
	b.runRounds()
	b.mineAndProve(6)
	b.runRounds()
	b.wantStatus("wd_dear", dispatch.Paid)
	b.wantReceived(to, 200)
	b.checkBooks(b.treasury)
}

// Rule WD-26.
func TestNoReplacementThatPaysPassesTheFeeLimit(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	to := sim.Address("customer")
	most := b.quoteMax(b.paymentOf(b.newOrder("x", to, 1)))
	b.submitOrder(b.withFeeMax(b.newOrder("wd_1", to, 100), most))
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Broadcast)
	log := b.newLoggingWorker()
	for range 10 {
		b.chain.MineEmpty(1)
		b.clock.advance(2 * time.Minute)
		b.runRounds()
	}
	if n := b.queryCount(`SELECT count(*) FROM dispatch_attempts WHERE order_id = 'wd_1'`); n != 1 {
		t.Errorf("got %d transactions, want 1", n)
	}
	if log.count("its fee is at its limit") == 0 {
		t.Error("got no alarm, want one: somebody has to know why it waits")
	}
	// A cancel transaction is no payment: a person can still end the order.
	if ok, err := b.worker.CancelOrder(b.ctx, "wd_1", audit.Operator("op")); err != nil || !ok {
		t.Fatalf("cancel: got %v %v, want it filled", ok, err)
	}
	b.runRounds()
	b.mineAndProve(6)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Failed)
	b.wantReceived(to, 0)
	b.checkBooks(b.treasury)
}

func TestTheTermsOfAnOrderAreWrittenOnce(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	b.submitOrder(b.withFeeMax(b.newOrder("wd_1", sim.Address("customer"), 100), money.Units(1)))
	for _, set := range []string{"fee_max = 2", "fee_max = NULL", "fee_deducted = 1", "amount = 99, fee_deducted = 1"} {
		err := b.db.InSystem(b.ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE dispatch_orders SET `+set)
			return err
		})
		if !pg.ViolatesConstraint(err, "dispatch_orders_payment_fixed") {
			t.Errorf("%s: got %v, want a violation of dispatch_orders_payment_fixed", set, err)
		}
	}
	// Nor may an order be submitted with a limit that its withdrawal does not have.
	for name, change := range map[string]func(*dispatch.Order){
		"a fee that nobody pays": func(o *dispatch.Order) {
			o.MintID, o.Contract, o.FeeDeducted = native, "", money.Units(1)
		},
		"a limit of its own": func(o *dispatch.Order) { o.FeeMax = new(money.Amount); *o.FeeMax = money.Units(7) },
	} {
		o := b.newOrder("wd_"+name[:5], sim.Address("customer"), 100)
		accepted := o
		change(&o)
		err := b.db.InSystem(b.ctx, func(ctx context.Context, tx pg.Tx) error {
			accepted.MintID = o.MintID
			if err := b.insertWithdrawal(ctx, tx, accepted); err != nil {
				return err
			}
			return dispatch.Submit(ctx, tx, o)
		})
		if !pg.ViolatesConstraint(err, "dispatch_orders_caused") {
			t.Errorf("%s: got %v, want a violation of dispatch_orders_caused", name, err)
		}
	}
}
