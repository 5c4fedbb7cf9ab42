package chaintest

import (
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
)

var forkPromises = []promise{
	{"AForkKeepsTheIdentityOfWhatIsMinedAgain", func(t *testing.T, b bench) {
		if !b.Forks() {
			return
		}
		start := b.heads(t).Final.Height
		// The first payment shifts whatever a block counts, and does not come
		// back; the second does, elsewhere.
		for _, k := range b.Kinds() {
			a := b.Account(t)
			b.Pay(t, k, a, units(5))
			kept := b.Pay(t, k, a, units(6))
			b.Mine(t, 2)
			h := b.heads(t).Latest
			seen := b.recent(t, h.Height-1)
			was := arrived([]chain.Contents{seen}, a)
			if k == chain.Internal && len(was) == 0 {
				continue // not traced
			}
			if len(was) != 2 {
				t.Fatalf("%s before the fork: got %v, want two", k, was)
			}
			sent := b.senders(t, seen.Block, was[1])
			b.Fork(t, 2, kept)
			b.Finalize(t)
			blocks := b.finals(t, start)
			is := arrived(blocks, a)
			if len(is) != 1 {
				t.Fatalf("%s after the fork: got %v, want one", k, is)
			}
			if got, want := identityOf(is[0]), identityOf(was[1]); got != want {
				t.Errorf("%s: got identity %v, want %v", k, got, want)
			}
			if is[0].Amount != was[1].Amount || is[0].From != was[1].From {
				t.Errorf("%s: got %+v, want what %+v moved", k, is[0], was[1])
			}
			if from := b.sendersIn(t, blocks, is[0]); !slices.Equal(from, sent) {
				t.Errorf("%s: got it from %v, want it from %v", k, from, sent)
			}
			start = b.heads(t).Final.Height
		}
	}},
	{"WhatAForkRemovedIsGone", func(t *testing.T, b bench) {
		if !b.Forks() {
			return
		}
		start := b.heads(t).Final.Height
		a := b.Account(t)
		b.Pay(t, chain.Native, a, units(11))
		b.Mine(t, 1)
		old := b.heads(t).Latest
		if got := arrived([]chain.Contents{b.recent(t, old.Height)}, a); len(got) != 1 {
			t.Fatalf("before the fork: got %v, want the payment", got)
		}
		b.Fork(t, 1)
		now := b.recent(t, old.Height)
		if now.Hash == old.Hash || now.Parent != old.Parent {
			t.Errorf("block %d: got %s on %s, want another block on %s", old.Height, now.Hash, now.Parent, old.Parent)
		}
		b.Finalize(t)
		if got := arrived(b.finals(t, start), a); len(got) != 0 {
			t.Errorf("after the fork: got %v, want nothing", got)
		}
		if got := b.balance(t, b.heads(t).Latest, a, ""); !got.IsZero() {
			t.Errorf("balance after the fork: got %v, want 0", got)
		}
	}},
}
