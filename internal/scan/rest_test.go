package scan_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/scan"
)

// runHeadUntilIdle takes steps of the head walk until there is no new block or an error. It fails
// after more steps than there are blocks.
func (w *testEnv) runHeadUntilIdle(t *testing.T) error {
	t.Helper()
	for range 100 {
		moved, err := w.w.StepHead(t.Context())
		if !moved {
			return err
		}
	}
	t.Fatal("the head walk does not come to rest")
	return nil
}

func TestTheHeadWalkRestsWhileFinalityIsBroken(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{FinalityDepth: 3}, 0)
	w.c.Mine(8)
	w.walkFinal(t)
	w.walkHead(t)
	w.c.Fork(6)
	w.c.Mine(9)
	if _, err := w.w.StepFinal(t.Context()); !errors.Is(err, scan.ErrFinalityBroken) {
		t.Fatalf("got %v, want ErrFinalityBroken", err)
	}
	for range 3 {
		if err := w.runHeadUntilIdle(t); err == nil {
			t.Error("got no error, want to hear that recent blocks do not fit")
		}
	}
	if n := w.count(t, `SELECT count(*) FROM scan_heads`); n > 1 {
		t.Errorf("got %d recent blocks, want none above the one that was final", n)
	}
}

func TestAFirstProviderThatLiesAboutAHashIsNotAskedFirstForEver(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{FinalityDepth: 5, Providers: 2, Quorum: 1}, 0)
	w.c.Mine(6)
	w.walkFinal(t)
	w.c.Provider(0).LieHash(6, true)
	if err := w.runHeadUntilIdle(t); err != nil {
		t.Fatalf("head walk: %v", err) // it cannot know
	}
	w.c.Mine(2) // the next block names the true one
	if err := w.runHeadUntilIdle(t); err == nil {
		t.Error("got no error, want to hear that the blocks do not fit")
	}
	if err := w.runHeadUntilIdle(t); err != nil {
		t.Errorf("with the other provider: got %v, want the walk to go on", err)
	}
	if n := w.count(t, `SELECT count(*) FROM scan_heads WHERE height = 8 AND hash = $1`, w.c.Latest().Hash); n != 1 {
		t.Error("got another latest block than the chain has")
	}
}

func TestAFirstProviderThatIsStuckHidesNothingForLong(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{FinalityDepth: 3, Providers: 2, Quorum: 1}, 0)
	w.c.Mine(4)
	w.walkFinal(t)
	w.c.Provider(0).PinHead(4)
	w.c.Mine(8)
	w.walkFinal(t)
	for range 2 {
		if err := w.runHeadUntilIdle(t); err != nil {
			t.Fatalf("head walk: %v", err)
		}
	}
	if n := w.count(t, `SELECT count(*) FROM scan_heads WHERE height = 12`); n != 1 {
		t.Error("got no latest block, want it as the other provider shows it")
	}
}

// branchingReader shows one branch and the other in turn, changing with each question.
type branchingReader struct {
	chain.Reader
	lies  *sim.Provider
	at    uint64
	asked atomic.Int64
}

func (r *branchingReader) Heads(ctx context.Context) (chain.Heads, error) {
	r.lies.LieHash(r.at, r.asked.Add(1)%2 == 0)
	return r.Reader.Heads(ctx)
}

func TestTheHeadWalkDoesNotFollowEveryTurnOfAProviderAtOnce(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{FinalityDepth: 5}, 0)
	w.c.Mine(6)
	w.walkFinal(t)
	const poll, runs = 100 * time.Millisecond, 10
	r := &branchingReader{Reader: w.c, lies: w.c.Provider(0), at: 6}
	walker := scan.New(
		w.db, scan.Config{Chain: chain.Ethereum, Reader: r, PollInterval: poll}, w.listener,
		slog.New(slog.DiscardHandler),
	)
	ctx, stop := context.WithTimeout(t.Context(), runs*poll)
	defer stop()
	if err := walker.Run(ctx); err != nil {
		t.Fatal(err)
	}
	// A pause costs two questions, one for each walk. A turn costs a few steps.
	if n := r.asked.Load(); n > 12*runs {
		t.Errorf("got %d questions in %d pauses, want it to rest between two turns", n, runs)
	}
}
