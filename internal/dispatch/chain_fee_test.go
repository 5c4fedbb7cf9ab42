package dispatch_test

import (
	"errors"
	"testing"

	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
)

// Rule BI-23: what a transaction cost is read from its chain, with the share of each order as it was booked. A
// transaction that is in no block costs nothing yet, and an order without a slot has none.
func TestTheSharesOfAFeeAreReadFromTheChain(t *testing.T) {
	t.Parallel()
	b := newGroupEnv(t)
	b.submitThree()
	if _, err := b.worker.ReadFees(b.ctx, "wd_1"); !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("an order without a slot: got %v, want %s", err, fault.InvalidState)
	}
	b.runRounds()
	if _, err := b.worker.ReadFees(b.ctx, "wd_1"); !errors.Is(err, dispatch.ErrInNoBlock) {
		t.Errorf("a transaction in no block: got %v, want ErrInNoBlock", err)
	}
	b.mineAndProve(6)
	b.runRounds()
	b.wantAll(dispatch.Paid)
	fees, err := b.worker.ReadFees(b.ctx, "wd_2")
	b.must(err)
	if len(fees) != 3 {
		t.Fatalf("got %+v, want the shares of three orders", fees)
	}
	for _, f := range fees {
		n := b.queryCount(`
			SELECT count(*) FROM dispatch_orders WHERE order_id = $1 AND tx_hash = $2 AND fee = $3::numeric`,
			f.OrderID, string(f.Hash), f.Amount.String())
		if n != 1 || f.Amount.IsZero() {
			t.Errorf("the chain says %+v, and the books something else", f)
		}
	}
	if _, err := b.worker.ReadFees(b.ctx, "wd_none"); !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("an unknown order: got %v, want that it is not found", err)
	}
}
