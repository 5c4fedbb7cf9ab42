package chaintest

import (
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
)

var forkPromises = []promise{
	{"AForkKeepsTheIdentityOfWhatIsMinedAgain", func(t *testing.T, b labEnv) {
		if !b.CanFork() {
			return
		}
		start := b.readHeads(t).Final.Height
		// The first payment changes the position of everything that a block counts, and the fork
		// drops it. The second one is in another block after the fork.
		for _, k := range b.Kinds() {
			a := b.Account(t)
			b.Pay(t, k, a, units(5))
			kept := b.Pay(t, k, a, units(6))
			b.Mine(t, 2)
			h := b.readHeads(t).Latest
			seen := b.readRecent(t, h.Height-1)
			original := transfersTo([]chain.Contents{seen}, a)
			if k == chain.Internal && len(original) == 0 {
				continue // not traced
			}
			if len(original) != 2 {
				t.Fatalf("%s before the fork: got %v, want two", k, original)
			}
			// Who makes a block of UTXOs chooses the order of payments that do not spend one another.
			before := original[slices.IndexFunc(original, func(tr chain.Transfer) bool { return tr.Tx == kept })]
			sent := b.readSenders(t, seen.Block, before)
			b.Fork(t, 2, kept)
			b.Finalize(t)
			blocks := b.readFinals(t, start)
			current := transfersTo(blocks, a)
			if len(current) != 1 {
				t.Fatalf("%s after the fork: got %v, want one", k, current)
			}
			if got, want := identityOf(current[0]), identityOf(before); got != want {
				t.Errorf("%s: got identity %v, want %v", k, got, want)
			}
			if current[0].Amount != before.Amount || current[0].From != before.From {
				t.Errorf("%s: got %+v, want what %+v moved", k, current[0], before)
			}
			if from := b.findSenders(t, blocks, current[0]); !slices.Equal(from, sent) {
				t.Errorf("%s: got it from %v, want it from %v", k, from, sent)
			}
			start = b.readHeads(t).Final.Height
		}
	}},
	{"WhatAForkRemovedIsGone", func(t *testing.T, b labEnv) {
		if !b.CanFork() {
			return
		}
		start := b.readHeads(t).Final.Height
		a := b.Account(t)
		b.Pay(t, chain.Native, a, units(11))
		b.Mine(t, 1)
		old := b.readHeads(t).Latest
		if got := transfersTo([]chain.Contents{b.readRecent(t, old.Height)}, a); len(got) != 1 {
			t.Fatalf("before the fork: got %v, want the payment", got)
		}
		b.Fork(t, 1)
		now := b.readRecent(t, old.Height)
		if now.Hash == old.Hash || now.Parent != old.Parent {
			t.Errorf("block %d: got %s on %s, want another block on %s", old.Height, now.Hash, now.Parent, old.Parent)
		}
		b.Finalize(t)
		if got := transfersTo(b.readFinals(t, start), a); len(got) != 0 {
			t.Errorf("after the fork: got %v, want nothing", got)
		}
		if got := b.readBalance(t, b.readHeads(t).Latest, a, ""); !got.IsZero() {
			t.Errorf("balance after the fork: got %v, want 0", got)
		}
	}},
}
