package dispatch_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/mirror"
)

// ethereum is a chain with blocks of twelve seconds and a finality of about thirteen minutes. Its
// mempool keeps as many transactions of one account as geth's.
var ethereum = sim.Config{FinalityDepth: 64, BlockTime: 12 * time.Second, MempoolSlots: dispatch.UnminedDefault}

// asked counts what the providers are asked about sent transactions.
type asked struct {
	chain.Sender
	outcomes atomic.Int64
	refused  atomic.Int64 // transactions that were sent and not accepted
}

func (a *asked) Outcome(ctx context.Context, txs []chain.TxHash, ps ...chain.Payment) (*chain.Outcome, error) {
	a.outcomes.Add(1)
	return a.Sender.Outcome(ctx, txs, ps...)
}

func (a *asked) Send(ctx context.Context, raw []byte) (chain.Answer, string) {
	answer, words := a.Sender.Send(ctx, raw)
	if answer == chain.Unknown {
		a.refused.Add(1)
	}
	return answer, words
}

// newDeep makes a Worker on such a chain with this many payments in its queue.
func newDeep(t *testing.T, payments int, net sim.Config, conf dispatch.Config) (*testEnv, *asked) {
	t.Helper()
	b := newTestEnvOn(t, openPolicy(), net)
	a := &asked{}
	ch := b.chain.ToChain()
	a.Sender, ch.Sender = ch.Sender, a
	b.worker = dispatch.New(b.db, ch, b.signer, mirror.RecordEntry,
		map[signer.Purpose]dispatch.Listener{signer.Payment: b.feature}, conf,
		slog.New(slog.DiscardHandler), dispatch.WithVoider(b.voider(b.signer)))
	b.fundWallet(b.treasury, 10*coin, 1_000_000)
	for i := range payments {
		b.submitOrder(b.newOrder(fmt.Sprintf("wd_%04d", i), sim.Address(fmt.Sprint("customer ", i)), 1))
	}
	return b, a
}

// block mines one block, lets its time pass and runs the Worker.
func (b *testEnv) block() {
	b.Helper()
	b.mineAndProve(1)
	b.clock.advance(12 * time.Second)
	b.runRounds()
}

func (b *testEnv) open() int {
	b.Helper()
	return b.queryCount(
		`SELECT count(*) FROM dispatch_orders WHERE status IN ('SLOTTED', 'SIGNED', 'BROADCAST')
			AND tx_lead_id IS NULL`,
	)
}

func (b *testEnv) settled() int {
	b.Helper()
	return b.queryCount(`SELECT count(*) FROM dispatch_orders WHERE status = 'PAID'`)
}

// Payments do not wait for the finality of others. With every block, as many are sent as a mempool
// keeps of one account, and never more.
func TestPaymentsInABlockLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	const payments, pool = 30, 4
	net := ethereum
	net.MempoolSlots = pool
	b, a := newDeep(t, payments, net, dispatch.Config{UnminedMax: pool})
	b.runRounds()
	for n := 1; b.open() < payments; n++ {
		if n > payments/pool+1 {
			t.Fatalf("got %d payments out after %d blocks, want %d with each", b.open(), n, pool)
		}
		if got := len(b.chain.Mempool()); got != pool {
			t.Fatalf("got %d in the mempool before block %d, want %d", got, n, pool)
		}
		b.block()
	}
	if n := a.refused.Load(); n != 0 {
		t.Errorf("got %d transactions that the mempool did not take, want none", n)
	}
	if n := b.settled(); n != 0 {
		t.Errorf("got %d payments that are final, want all before finality", n)
	}
	b.mineAndProve(70)
	b.runRounds()
	if n := b.settled(); n != payments {
		t.Errorf("got %d payments that ended, want %d", n, payments)
	}
	for i := range payments {
		b.wantReceived(sim.Address(fmt.Sprint("customer ", i)), 1)
	}
	b.checkBooks(b.treasury)
}

func TestWhatIsNotFinalIsBounded(t *testing.T) {
	t.Parallel()
	b, _ := newDeep(t, 9, ethereum, dispatch.Config{UnminedMax: 4, InFlightMax: 6})
	for range 6 {
		b.runRounds()
		b.block()
	}
	if n := b.open(); n != 6 {
		t.Errorf("got %d payments that are not final, want 6", n)
	}
	b.mineAndProve(70)
	b.runRounds()
	if n := b.settled(); n != 6 {
		t.Errorf("got %d payments that ended, want 6", n)
	}
	if n := b.open(); n != 3 {
		t.Errorf("got %d payments after them, want 3", n)
	}
}

// A payment in a non-final block costs nothing until a block of its height is proven or its block
// is replaced.
func TestWhatWaitsForFinalityIsLookedAtOnce(t *testing.T) {
	t.Parallel()
	const payments = 12
	b, a := newDeep(t, payments, ethereum, dispatch.Config{})
	b.runRounds()
	b.block()
	if n := a.outcomes.Load(); n < payments {
		t.Fatalf("got %d looks at %d payments, want each looked at", n, payments)
	}
	b.runRounds()
	before := a.outcomes.Load()
	for range 5 {
		b.block()
	}
	if n := a.outcomes.Load() - before; n != 0 {
		t.Errorf("got %d looks while nothing came nearer to being final, want none", n)
	}
	// Where the head walk shows another block at their height, they are checked again.
	latest := b.chain.BlockAt(b.chain.Latest().Height - 5)
	b.inSystem(func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(
			ctx, `INSERT INTO scan_heads (chain, height, hash, parent) VALUES ('ETHEREUM', $1, 'another', 'x')`,
			latest.Height,
		)
		return err
	})
	b.runRounds()
	if n := a.outcomes.Load() - before; n < payments {
		t.Errorf("got %d looks after their block was another one, want %d", n, payments)
	}
}

// A reorg returns more transactions than a mempool keeps of one account. All are sent again in
// their order, and each payment is made once.
func TestAForkOfManyBlocksEndsInEachPaymentOnce(t *testing.T) {
	t.Parallel()
	const payments, pool = 24, 4
	net := ethereum
	net.MempoolSlots = pool
	b, a := newDeep(t, payments, net, dispatch.Config{UnminedMax: pool, BumpAfter: time.Hour})
	b.runRounds()
	for b.open() < payments {
		b.block()
	}
	b.block()
	before := a.refused.Load()
	b.chain.Fork(5)
	for _, h := range b.chain.Mempool() {
		b.chain.DropTx(h)
	}
	b.chain.MineEmpty(6)
	b.proveFinal()
	b.clock.advance(time.Minute)
	b.runRounds()
	if got := len(b.chain.Mempool()); got != pool {
		t.Errorf("got %d sent again at once, want %d", got, pool)
	}
	if n := a.refused.Load() - before; n != 0 {
		t.Errorf("got %d sent that the mempool did not take, want none", n)
	}
	for range payments/pool + 1 {
		b.mineAndProve(1)
		b.clock.advance(time.Minute)
		b.runRounds()
	}
	b.mineAndProve(70)
	b.runRounds()
	if n := b.settled(); n != payments {
		t.Fatalf("got %d payments that ended, want %d", n, payments)
	}
	for i := range payments {
		b.wantReceived(sim.Address(fmt.Sprint("customer ", i)), 1)
	}
	b.checkBooks(b.treasury)
}

var (
	ratePayments = flag.Int("rate.payments", 40, "payments of TestPaymentsOfAnHour")
	rateUnmined  = flag.Int("rate.unmined", 0, "its UnminedMax")
	rateInFlight = flag.Int("rate.inflight", 0, "its InFlightMax")
)

// As many payments leave one treasury on Ethereum as its two limits allow, and all of them end.
// With -rate.payments=2000 -v, the test logs how many payments fit into an hour and what a round
// costs at that depth; docs/BENCHMARKS.md has the figures.
func TestPaymentsOfAnHour(t *testing.T) {
	t.Parallel()
	conf := dispatch.Config{UnminedMax: *rateUnmined, InFlightMax: *rateInFlight}
	b, a := newDeep(t, *ratePayments, ethereum, conf)
	var open, blocks, after int
	var quiet []time.Duration
	for b.settled() < *ratePayments {
		b.runRounds()
		open = max(open, b.open())
		began := time.Now()
		b.runRounds() // a round without work
		quiet = append(quiet, time.Since(began))
		b.mineAndProve(1)
		b.clock.advance(12 * time.Second)
		if blocks++; b.queryCount(`SELECT count(*) FROM dispatch_orders WHERE status = 'QUEUED'`) == 0 {
			if after++; after > 70 {
				t.Fatalf("got %d of %d payments that ended in %d blocks", b.settled(), *ratePayments, blocks)
			}
		}
	}
	slices.Sort(quiet)
	busy := blocks - after + 1
	t.Logf("%d payments sent in %d blocks, %d an hour; at most %d not final; a round without work p50 %v, slowest %v; %.1f looks at each payment",
		*ratePayments, busy, *ratePayments*300/busy, open, quiet[len(quiet)/2], quiet[len(quiet)-1],
		float64(a.outcomes.Load())/float64(*ratePayments))
	if n := a.refused.Load(); n != 0 {
		t.Errorf("got %d transactions that the mempool did not take, want none", n)
	}
	for i := range *ratePayments {
		b.wantReceived(sim.Address(fmt.Sprint("customer ", i)), 1)
	}
	b.checkBooks(b.treasury)
}
