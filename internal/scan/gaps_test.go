package scan_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/scan"
)

// slots is a chain whose heights are slots. Block h is in slot 3h or 3h+2, depending on its hash,
// and all other slots are empty. So another block of the same height may be in a slot that was
// empty before.
type slots struct{ *sim.Chain }

func (s slots) of(b chain.Block) uint64 { return 3*b.Height + 2*uint64(b.Hash[len(b.Hash)-1]&1) }

func (s slots) shown(c chain.Contents, err error) (chain.Contents, error) {
	if err == nil {
		c.Height = s.of(c.Block)
	}
	return c, err
}

func (s slots) Heads(ctx context.Context) (chain.Heads, error) {
	h, err := s.Chain.Heads(ctx)
	if err == nil {
		h.Latest.Height, h.Final.Height = s.of(h.Latest), s.of(h.Final)
	}
	return h, err
}

// first reads upwards from the lowest block that can be in the slot.
func (s slots) first(slot uint64, read func(height uint64) (chain.Contents, error)) (chain.Contents, error) {
	for height := slot / 3; ; height++ {
		c, err := read(height)
		if err != nil || s.of(c.Block) >= slot {
			return s.shown(c, err)
		}
	}
}

func (s slots) Final(ctx context.Context, slot uint64) (chain.Contents, error) {
	return s.first(slot, func(height uint64) (chain.Contents, error) { return s.Chain.Final(ctx, height) })
}

func (s slots) Recent(ctx context.Context, slot uint64) (chain.Contents, error) {
	return s.first(slot, func(height uint64) (chain.Contents, error) { return s.Chain.Recent(ctx, height) })
}

func (s slots) Balances(ctx context.Context, at chain.Block, of []chain.Holding) ([]money.Amount, error) {
	at.Height /= 3
	if at.Height > 0 && s.BlockAt(at.Height).Hash != at.Hash {
		at.Height-- // the block before, of which the walk knows the hash only
	}
	return s.Chain.Balances(ctx, at, of)
}

func TestWalksGoOverHeightsThatAreLeftOut(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{FinalityDepth: 3}, 0)
	r := slots{w.c}
	start := uint64(0)
	fork := 0
	for _, depth := range []int{1, 2, 3, 4, 7, 8, 31} {
		b := &breakRecorder{}
		w.w = scan.New(
			w.db,
			scan.Config{Chain: chain.Ethereum, Reader: r, Start: &start, FinalityListeners: []finality.Listener{b}},
			w.listener, slog.New(slog.DiscardHandler),
		)
		w.c.MineEmpty(depth)
		paid := w.c.Pay(payer, ours2, usdcAt, 100)
		w.c.Mine(4)
		w.walkFinal(t)
		w.walkHead(t)
		arrivals := 0
		for _, f := range w.listener.found {
			if f.Tx == paid {
				arrivals++
			}
		}
		if arrivals != 1 {
			t.Fatalf("depth %d: got %d arrivals, want the one", depth, arrivals)
		}
		if seen := w.listener.seen[len(w.listener.seen)-1]; seen != r.of(w.c.Latest()) {
			t.Fatalf("depth %d: the head walk stands at %d, want %d", depth, seen, r.of(w.c.Latest()))
		}

		// The first fork is above the final block, the second one below it.
		w.c.Fork(2)
		w.c.MineEmpty(3)
		w.walkHead(t)
		ancestor := w.c.BlockAt(w.c.Latest().Height - 3)
		if at := w.listener.orphaned[len(w.listener.orphaned)-1]; at != r.of(ancestor.Block)+1 {
			t.Fatalf("depth %d: orphaned from %d, want all above %d", depth, at, r.of(ancestor.Block))
		}
		w.walkFinal(t)
		tip, hash := w.cursor(t)
		last := w.c.BlockAt(w.c.Latest().Height - 3)
		if tip != r.of(last.Block) || hash != last.Hash {
			t.Fatalf("depth %d: the cursor is at %d %s, want %d %s", depth, tip, hash, r.of(last.Block), last.Hash)
		}
		ancestor = w.c.BlockAt(last.Height - uint64(depth))
		w.c.Fork(depth + 3)
		w.c.MineEmpty(depth + 5)
		_ = walkUntilBroken(t, w.w)
		want := r.of(ancestor.Block)
		if !slices.Equal(b.parted, []uint64{want}) {
			t.Fatalf("depth %d: told %v, want that it parted above %d", depth, b.parted, want)
		}
		p, err := w.w.FindFork(t.Context())
		if err != nil || p.Ancestor.Height != want || p.Ancestor.Hash != ancestor.Hash || p.Tip.Height != tip ||
			p.Tip.Hash != hash {
			t.Fatalf("depth %d: got %+v and %v, want it above %d", depth, p, err, want)
		}
		if got, err := w.w.Repoint(t.Context(), p, 2, audit.Operator("op")); err != nil || got.Fork != fork+1 {
			t.Fatalf("depth %d: got %+v and %v, want fork %d", depth, got, err, fork+1)
		}
		fork++
		w.walkFinal(t)
		w.walkHead(t)
		if n := w.count(t, `
			SELECT count(*) FROM (SELECT parent, lag(hash) OVER (ORDER BY height) AS below, row_number() OVER (ORDER BY height) AS nth FROM finality_live) p
			WHERE nth > 1 AND parent IS DISTINCT FROM below`); n != 0 {
			t.Errorf("depth %d: got %d live proofs that do not stand on the one before", depth, n)
		}
	}
}
