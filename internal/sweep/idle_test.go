package sweep_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/sweep"
	"github.com/cofferpay/coffer/internal/wallet"
)

// writeCounter counts INSERT statements, including those of rolled-back transactions.
type writeCounter struct{ n atomic.Int64 }

func (w *writeCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.HasPrefix(strings.TrimSpace(q.SQL), "INSERT") {
		w.n.Add(1)
	}
	return ctx
}

func (*writeCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Every few seconds a plan is made, and gas may take hours to arrive. Rows that are written and
// rolled back each time would fill the tables.
func TestAPlanWritesNothingWhileATopUpIsOnItsWay(t *testing.T) {
	t.Parallel()
	y := newTestEnv(t)
	y.fundWallet(y.org, "ann", map[wallet.Part]uint64{wallet.Credited: 1000}, usdc)
	if y.countSweeps() != 1 {
		t.Fatal("no sweep was planned")
	}
	count := &writeCounter{}
	clock := func() time.Time { return y.now }
	db, err := pg.Open(y.ctx, pg.Config{URL: pgtest.LoginURL(t, y.db), Tracer: count}, clock)
	y.must(err)
	defer db.Close()
	log := slog.New(slog.DiscardHandler)
	ch := y.chain.ToChain()
	desk := dispatch.New(db, ch, y.signer, mirror.RecordEntry, nil, dispatch.Config{}, log)
	sweeper := sweep.New(db, ch, y.wallets, price.Fixed{Clock: clock}, sweep.Config{}, log)
	_, err = desk.RunRound(y.ctx) // finds that the address has no gas
	y.must(err)
	made, err := sweeper.Plan(y.ctx)
	y.must(err)
	if made != 1 || count.n.Load() == 0 {
		t.Fatalf("got %d plans and %d inserts, want one top-up", made, count.n.Load())
	}
	before := count.n.Load()
	for range 3 {
		y.now = y.now.Add(time.Minute)
		made, err := sweeper.Plan(y.ctx)
		y.must(err)
		if made != 0 {
			t.Errorf("got %d plans while one is open, want none", made)
		}
	}
	if got := count.n.Load() - before; got != 0 {
		t.Errorf("got %d inserts while a top-up is open, want none", got)
	}
}
