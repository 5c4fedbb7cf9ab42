package dispatch_test

import (
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// Rule WD-7: one provider accepts everything and passes nothing on; the other one is full for a
// while. The payment is broadcast in its original bytes.
func TestWhatAProviderTakesAndForgetsGoesThroughAnotherInTheSameBytes(t *testing.T) {
	t.Parallel()
	b := newTestEnvOn(t, openPolicy(), sim.Config{Providers: 2, Quorum: 1})
	b.fundWallet(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.chain.Provider(0).Swallow(true)
	b.chain.Provider(1).RefuseSend("txpool is full")
	b.submitOrder(b.newOrder("wd_1", to, 400))
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Broadcast) // by the first provider's answer
	var was string
	b.must(pgtest.OwnerPool(t, b.db).QueryRow(
		b.ctx, `SELECT encode(raw, 'hex') FROM dispatch_attempts WHERE order_id = 'wd_1'`,
	).Scan(&was))
	for range 2 {
		b.clock.advance(16 * time.Second)
		b.runRounds()
	}
	if n := len(b.chain.Mempool()); n != 0 {
		t.Fatalf("the pool has %d transactions, want none yet", n)
	}
	b.chain.Provider(1).RefuseSend("")
	b.clock.advance(16 * time.Second)
	b.runRounds()
	if n := len(b.chain.Mempool()); n != 1 {
		t.Fatalf("the pool has %d transactions, want one", n)
	}
	// What the first provider held back arrives after all.
	b.chain.DeliverSwallowed(b.chain.Mempool()[0])
	b.mineAndProve(6)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Paid)
	b.wantReceived(to, 400)
	b.checkBooks(b.treasury)
	if n := b.queryCount(`SELECT count(*) FROM dispatch_attempts WHERE encode(raw, 'hex') = $1`, was); n != 1 {
		t.Errorf("got %d attempts with the first bytes, want one", n)
	}
	if n := b.queryCount(`SELECT count(*) FROM dispatch_attempts`); n != 1 {
		t.Errorf("got %d attempts, want no other bytes", n)
	}
	if n := b.queryCount(`SELECT count(*) FROM dispatch_slots`); n != 1 {
		t.Errorf("got %d slots, want no other nonce", n)
	}
}
