package checkouts

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// A stranger who pays one unit to every checkout of a shop delays no payment, tells nothing, moves no end and causes
// no transfer that the shop pays for. Rules CO-14 and CO-15.
func TestDustAtManyCheckoutsChangesNone(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	productID := e.product()
	var ids []string
	for i := range 24 {
		ids = append(ids, e.checkout(request(productID, otherOf(fmt.Sprint("key-", i+1)),
			func(r *checkout.CheckoutRequest) { r.Reference = nil }), dollars))
	}
	end := e.load(ids[0]).ExpiresAt
	for range 2 {
		for _, id := range ids {
			e.payFrom(thief, id, dollars, 1)
		}
		e.block()
	}
	e.paid(ids[len(ids)-1], dollars, 100*million)
	e.is(ids[len(ids)-1], outcome.Completed)
	for _, id := range ids[:len(ids)-1] {
		c := e.is(id, outcome.Open)
		if !c.ExpiresAt.Equal(end) || !c.SeenSum.IsZero() || len(c.Payments) != 2 {
			t.Errorf("got %+v, want a checkout that waits as before, and shows both payments", c)
		}
		e.wantEvents(c)
	}
	e.wantBooks(map[int]int64{dollars: 100 * million})
	if orders := e.texts(`SELECT order_id FROM dispatch_orders`); len(orders) != 0 {
		t.Errorf("got the orders %v, want none for dust", orders)
	}
}

// Who opens one sale many times while the rate moves, and pays the cheapest quote when it is over, pays at the rate of
// that moment. Rules CO-7 and CO-12.
func TestHoardedQuotesAreWorthNothingOnceTheyAreOver(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	productID := e.product()
	var ids []string
	amounts := map[string]uint64{}
	for i, usd := range []string{"2000", "2500", "1800"} {
		e.prices.set(ether, usd)
		id := e.checkout(request(productID, otherOf(fmt.Sprint("key-", i+1))), ether)
		ids = append(ids, id)
		amounts[id], _ = e.option(id, ether).Quotes[0].Amount.Uint64()
	}
	cheapest := ids[1]
	if amounts[cheapest] != 40*milliCoin || amounts[ids[0]] != 50*milliCoin {
		t.Fatalf("got the amounts %v, want 0.05 and 0.04 ether", amounts)
	}
	// Looking again makes no other quote while one holds.
	for range 3 {
		_, err := e.Checkouts.Refresh(e.ctx, e.load(cheapest))
		e.must(err)
	}
	e.pass(17 * time.Minute)
	e.paid(cheapest, ether, amounts[cheapest])
	e.ends(cheapest, ending{
		status: outcome.Open, exceptions: []outcome.Exception{outcome.Underpaid}, seen: "72", counted: "72",
		payments: []string{"CREDITED 72 by market"}, events: []string{"EXCEPTION"},
		actions: e.actionsOf(cheapest), books: map[int]int64{ether: 40 * milliCoin},
	})
}

// actionsOf returns what the audit log says of a checkout after it was made, for stories that are about something else.
func (e *testEnv) actionsOf(checkoutID string) []string {
	e.Helper()
	return e.texts(`SELECT regexp_replace(action, '^checkout\.', '')
			|| coalesce(' ' || (detail->>'from') || ' ' || (detail->>'to'), '')
		FROM audit_log WHERE resource_id = $1 AND action NOT IN ('checkout.created', 'checkout.option_opened')
		ORDER BY audit_id`, checkoutID)
}

// A coin that delivers less than its transfer says completes nothing: the amount that the event names is not there.
// Rule DEP-5.
func TestACoinWithAFeeOnTransfersCompletesNothing(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	productID := e.product()
	id := e.checkout(request(productID), dollars, ether)
	less := money.Units(99 * million)
	e.nets[chain.Ethereum].SubmitTx(payer, sim.Move{
		Contract: signertest.Token, To: e.address(id, chain.EVM), Amount: money.Units(100 * million),
		ActualAmount: &less,
	})
	e.block()
	e.finalize()
	if c := e.load(id); c.Status == outcome.Completed || !c.Counted.IsZero() {
		t.Errorf("got %s with %s, want it unpaid", c.Status, c.Counted.Text())
	}
	e.wantBooks(nil)
	// The coin is offered to no one until a person released it, and the other ways to pay stay.
	_, err := e.Checkouts.OpenOption(e.ctx, e.org, e.checkout(request(productID, otherOf("key-2"))), dollars)
	if err == nil {
		t.Error("a coin that delivers less than it says is offered")
	}
	if quarantined := e.texts(`SELECT mint_id::text FROM mints WHERE quarantined_at IS NOT NULL`); !slices.Equal(
		quarantined, []string{"1"}) {
		t.Errorf("got the mints %v in quarantine, want that of the coin", quarantined)
	}
	next := e.checkout(request(productID, otherOf("key-3")), ether)
	e.paid(next, ether, 50*milliCoin)
	e.is(next, outcome.Completed)
}
