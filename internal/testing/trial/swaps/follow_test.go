package swaps

import (
	"context"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/swap/provider"
)

// A provider that hangs delays no report of another one.
func TestAProviderThatHangsDelaysNoOtherOne(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	hanging := &desk{
		t: t, name: "BEST", clock: e.clock, lifetime: 24 * time.Hour,
		price: func(provider.Ask) uint64 { return amountOut + 1 },
	}
	e.others = append(e.others, hanging)
	e.Harness = e.open(e.db)
	hanging.dry = func(provider.Ask) error { return errDeskDown }
	r := request("one")
	w, _, err := e.Swaps.Request(e.ctx, e.org, r)
	e.must(err)
	e.pay(w.ID)
	hanging.set(func() { hanging.dry = nil })
	e.wait(10 * time.Second) // dry quotes are shared for three seconds
	r.IdempotencyKey = "two"
	other, _, err := e.Swaps.Request(e.ctx, e.org, r)
	e.must(err)
	if w.Provider != e.desk.name || other.Provider != hanging.name {
		t.Fatalf("the swaps are with %s and %s", w.Provider, other.Provider)
	}
	// The signer knows one provider of this test, so the swap with the other one is followed unpaid.
	e.inSystem(func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE swaps SET look_at = created_at WHERE swap_id = $1`, other.ID)
		return err
	})
	stuck, release := make(chan struct{}), make(chan struct{})
	reports := make(chan struct{}, 100)
	count := 0
	hanging.set(func() {
		hanging.status = func(provider.Ref) (provider.Report, error) {
			if count++; count == 1 {
				close(stuck)
				<-release
			}
			return provider.Report{}, errDeskDown
		}
	})
	e.desk.set(func() {
		e.desk.status = func(provider.Ref) (provider.Report, error) {
			reports <- struct{}{}
			return e.desk.report(provider.Processing, provider.RefundNone), nil
		}
	})
	ctx, stop := context.WithCancel(e.ctx)
	ended := make(chan error, 1)
	defer func() {
		close(release)
		stop()
		e.must(<-ended)
	}()
	go func() { ended <- e.Swaps.Run(ctx) }()
	<-stuck
	patience := time.After(time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for asked := 0; asked < 3; {
		select {
		case <-reports:
			asked++
		case <-tick.C:
			e.setClock(e.clock().Add(time.Minute)) // so that the swap is due again
		case <-patience:
			t.Fatal("the other provider is not asked while one hangs")
		}
	}
}
