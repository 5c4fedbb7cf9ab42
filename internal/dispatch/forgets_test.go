package dispatch_test

import (
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
)

// Rule WD-7: one provider takes everything and passes nothing on, the other one is
// full for a while. The payment goes out in the bytes that it had from the start.
func TestWhatAProviderTakesAndForgetsGoesThroughAnotherInTheSameBytes(t *testing.T) {
	t.Parallel()
	b := newBenchOn(t, open(), sim.Config{Providers: 2, Agree: 1})
	b.give(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.chain.Provider(0).Swallow(true)
	b.chain.Provider(1).RefuseSend("txpool is full")
	b.place(b.order("wd_1", to, 400))
	b.round()
	b.wantStatus("wd_1", dispatch.Broadcast) // so the first one said
	var was string
	b.must(pgtest.Owner(t, b.db).QueryRow(b.ctx, `SELECT encode(raw, 'hex') FROM dispatch_attempts WHERE order_id = 'wd_1'`).Scan(&was))
	for range 2 {
		b.clock.move(16 * time.Second)
		b.round()
	}
	if n := len(b.chain.Pool()); n != 0 {
		t.Fatalf("the pool has %d transactions, want none yet", n)
	}
	b.chain.Provider(1).RefuseSend("")
	b.clock.move(16 * time.Second)
	b.round()
	if n := len(b.chain.Pool()); n != 1 {
		t.Fatalf("the pool has %d transactions, want one", n)
	}
	// And what the first one held back comes after all.
	b.chain.Deliver(b.chain.Pool()[0])
	b.mine(6)
	b.round()
	b.wantStatus("wd_1", dispatch.Paid)
	b.received(to, 400)
	b.agree(b.treasury)
	if n := b.count(`SELECT count(*) FROM dispatch_attempts WHERE encode(raw, 'hex') = $1`, was); n != 1 {
		t.Errorf("got %d attempts with the first bytes, want one", n)
	}
	if n := b.count(`SELECT count(*) FROM dispatch_attempts`); n != 1 {
		t.Errorf("got %d attempts, want no other bytes", n)
	}
	if n := b.count(`SELECT count(*) FROM dispatch_slots`); n != 1 {
		t.Errorf("got %d slots, want no other nonce", n)
	}
}
