package scan_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/scan"
)

// breakRecorder is a finality listener that records its calls.
type breakRecorder struct {
	mu     sync.Mutex
	parted []uint64
	breaks []finality.Break
}

func (b *breakRecorder) OnForked(_ context.Context, _ pg.Tx, _ chain.Name, above uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.parted = append(b.parted, above)
	return nil
}

func (b *breakRecorder) OnBroken(_ context.Context, _ pg.Tx, broken finality.Break) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.breaks = append(b.breaks, broken)
	return nil
}

func (w *testEnv) newListeningWalker(b *breakRecorder) *scan.Walker {
	start := uint64(0)
	return scan.New(w.db,
		scan.Config{Chain: chain.Ethereum, Reader: w.c, Start: &start, FinalityListeners: []finality.Listener{b}},
		w.listener,
		slog.New(slog.DiscardHandler))
}

// walkUntilBroken walks until the walk reports ErrFinalityBroken.
func walkUntilBroken(t *testing.T, w *scan.Walker) error {
	t.Helper()
	for {
		moved, err := w.StepFinal(t.Context())
		if err != nil {
			if !errors.Is(err, scan.ErrFinalityBroken) {
				t.Fatalf("got %v, want ErrFinalityBroken", err)
			}
			return err
		}
		if !moved {
			t.Fatal("the walk stands, want ErrFinalityBroken")
		}
	}
}

// Rules DEP-11 and DEP-20.
func TestTheLastCommonBlockIsFoundAtAnyDepthAndToldOnce(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{FinalityDepth: 3}, 0)
	fork := 0
	for _, depth := range []int{1, 2, 3, 4, 7, 8, 9, 31, 64} {
		b := &breakRecorder{}
		w.w = w.newListeningWalker(b)
		w.c.MineEmpty(depth + 3)
		w.walkFinal(t)
		tip, hash := w.cursor(t)
		want := tip - uint64(depth)
		w.c.Fork(depth + 3)
		w.c.MineEmpty(depth + 5)
		for range 3 {
			_ = walkUntilBroken(t, w.w)
		}
		if len(b.parted) != 1 || b.parted[0] != want {
			t.Fatalf("depth %d: told %v, want once that it parted above %d", depth, b.parted, want)
		}
		p, err := w.w.FindFork(t.Context())
		if err != nil || p.Ancestor.Height != want || p.Tip.Height != tip || p.Tip.Hash != hash ||
			p.Ancestor.Hash != w.c.BlockAt(want).Hash {
			t.Fatalf("depth %d: got %+v and %v, want it above %d", depth, p, err, want)
		}
		got, err := w.w.Repoint(t.Context(), p, 2, audit.Operator("op"))
		if fork++; err != nil || got.Fork != fork || got.SettleHeight != tip+2 || len(b.breaks) != 1 ||
			b.breaks[0] != got {
			t.Fatalf("depth %d: got %+v and %v, told %+v, want fork %d", depth, got, err, b.breaks, fork)
		}
		if at, _ := w.cursor(t); at != want {
			t.Errorf("depth %d: cursor at %d, want %d", depth, at, want)
		}
		if _, err := w.w.Repoint(t.Context(), p, 2, audit.Operator("op")); !fault.HasCode(err, fault.InvalidState) {
			t.Errorf("depth %d: got %v for the same decision again, want it refused", depth, err)
		}
		w.walkFinal(t)
		if n := w.count(
			t, `SELECT count(*) FROM (SELECT height FROM finality_live GROUP BY height HAVING count(*) <> 1) x`,
		); n != 0 {
			t.Errorf("depth %d: got %d heights without one live proof", depth, n)
		}
		if _, err := w.w.FindFork(t.Context()); !fault.HasCode(err, fault.InvalidState) {
			t.Errorf("depth %d: got %v, want nothing to decide any more", depth, err)
		}
	}
}

func TestAPartingBelowTheFirstStartIsSaidSo(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{FinalityDepth: 3}, 0)
	w.c.MineEmpty(9)
	start := uint64(4)
	walker := scan.New(
		w.db, scan.Config{Chain: chain.Ethereum, Reader: w.c, Start: &start}, w.listener, slog.New(slog.DiscardHandler),
	)
	if _, err := walker.FindFork(t.Context()); !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("before the first start: got %v, want INVALID_STATE", err)
	}
	w.w = walker
	w.walkFinal(t)
	w.c.Fork(7)
	w.c.MineEmpty(9)
	_ = walkUntilBroken(t, walker)
	if _, err := walker.FindFork(t.Context()); !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("got %v, want INVALID_STATE", err)
	}
	if n := w.count(t, `SELECT count(*) FROM freezes WHERE scope = 'CHAIN' AND source = 'FINALITY'`); n != 1 {
		t.Errorf("got %d freezes, want the chain frozen all the same", n)
	}
}

// A walk that was rewound to read blocks again does not skip them because of a decision.
func TestADecisionLeavesAWalkThatWasSetBackWhereItIs(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{FinalityDepth: 3}, 0)
	b := &breakRecorder{}
	w.w = w.newListeningWalker(b)
	w.c.MineEmpty(13)
	w.walkFinal(t)
	w.c.Fork(6) // 8, 9 and 10 were final
	w.c.MineEmpty(8)
	if err := w.w.Rewind(t.Context(), 4, audit.Operator("op")); err != nil {
		t.Fatal(err)
	}
	p, err := w.w.FindFork(t.Context())
	if err != nil || p.Ancestor.Height != 7 || p.Tip.Height != 10 || p.Cursor.Height != 4 {
		t.Fatalf("got %+v and %v, want it above 7", p, err)
	}
	if _, err := w.w.Repoint(t.Context(), p, 2, audit.Operator("op")); err != nil {
		t.Fatal(err)
	}
	if at, _ := w.cursor(t); at != 4 {
		t.Errorf("cursor at %d, want 4", at)
	}
	w.walkFinal(t)
	if n := w.count(t, `SELECT count(*) FROM finality_live`); n != 12 {
		t.Errorf("got %d live proofs, want 12", n)
	}
}

// The freeze does not wait for the search for the fork. A search that failed is repeated.
func TestTheChainIsFrozenBeforeAnythingElseIsAsked(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{FinalityDepth: 3}, 0)
	b := &breakRecorder{}
	w.w = w.newListeningWalker(b)
	w.c.MineEmpty(13)
	w.walkFinal(t)
	w.c.Fork(6)
	w.c.MineEmpty(8)
	w.c.SetUndecodable(9, true)
	if err := walkUntilBroken(t, w.w); !errors.Is(err, chain.ErrUndecodable) {
		t.Errorf("got %v, want the reason why it is not known how far back", err)
	}
	if n := w.count(t, `SELECT count(*) FROM freezes`); n != 1 || len(b.parted) != 0 {
		t.Errorf("got %d freezes and told %v, want the chain's alone", n, b.parted)
	}
	w.c.SetUndecodable(9, false)
	_ = walkUntilBroken(t, w.w)
	if len(b.parted) != 1 || b.parted[0] != 7 {
		t.Errorf("told %v, want once that it parted above 7", b.parted)
	}
}
