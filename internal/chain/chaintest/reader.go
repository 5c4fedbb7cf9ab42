package chaintest

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
)

var readerPromises = []promise{
	{"EveryKindOfMovementIsFoundOnce", func(t *testing.T, b labEnv) {
		start := b.readHeads(t).Final.Height
		type paid struct {
			kind chain.Kind
			tx   chain.TxHash
		}
		to := map[chain.Address]paid{}
		for i, k := range b.Kinds() {
			a := b.Account(t)
			to[a] = paid{k, b.Pay(t, k, a, units(uint64(1000+i)))}
		}
		b.Mine(t, 1)
		b.Finalize(t)
		blocks := b.readFinals(t, start)
		for a, p := range to {
			in := transfersTo(blocks, a)
			if p.kind == chain.Internal && !allTraced(blocks) {
				if len(in) != 0 {
					t.Errorf("INTERNAL untraced: got %v, want nothing", in)
				}
				continue
			}
			if len(in) != 1 {
				t.Errorf("%s: got %v, want one transfer", p.kind, in)
				continue
			}
			got := in[0]
			if got.Kind != p.kind || got.Tx != p.tx || got.Contract != b.contractOf(p.kind) {
				t.Errorf("%s: got %+v, want it in %s", p.kind, got, p.tx)
			}
			if got.Kind != chain.Native && got.Position == "" {
				t.Errorf("%s: got no position, want one", got.Kind)
			}
			if got.Amount.IsZero() {
				t.Errorf("%s: got %+v, want an amount", p.kind, got)
			}
			if from := b.findSenders(t, blocks, got); len(from) != 1 || got.From != "" && got.From != from[0] {
				t.Errorf("%s: got %+v from %v, want one sender, and no other than it names", p.kind, got, from)
			}
		}
	}},
	{"SendersComeInTheOrderAsked", func(t *testing.T, b labEnv) {
		first, second := b.Account(t), b.Account(t)
		for _, a := range []chain.Address{first, second} {
			b.Pay(t, chain.Native, a, units(77))
		}
		b.Mine(t, 1)
		c := b.readRecent(t, b.readHeads(t).Latest.Height)
		to := slices.Concat(transfersTo([]chain.Contents{c}, second), transfersTo([]chain.Contents{c}, first))
		if len(to) != 2 {
			t.Fatalf("got %v, want two payments", to)
		}
		got, err := b.Chain().Reader.Senders(t.Context(), c.Block, to)
		if err != nil || len(got) != 2 {
			t.Fatalf("got %v, %v, want the senders of two", got, err)
		}
		for i, tr := range to {
			if want := b.readSenders(t, c.Block, tr); len(want) == 0 || !slices.Equal(got[i], want) ||
				!slices.IsSorted(want) {
				t.Errorf("of %+v: got %v, want %v in order", tr, got[i], want)
			}
		}
		if got, err := b.Chain().Reader.Senders(t.Context(), c.Block, nil); err != nil || len(got) != 0 {
			t.Errorf("of nothing: got %v, %v, want nobody", got, err)
		}
	}},
	{"WhatTheChainUndidIsNotSeen", func(t *testing.T, b labEnv) {
		start := b.readHeads(t).Final.Height
		var to []chain.Address
		for _, k := range b.Kinds() {
			a := b.Account(t)
			b.PayReverted(t, k, a, units(1000))
			to = append(to, a)
		}
		b.Mine(t, 1)
		latest := b.readHeads(t).Latest
		b.Finalize(t)
		blocks := b.readFinals(t, start)
		for i, a := range to {
			if in := transfersTo(blocks, a); len(in) != 0 {
				t.Errorf("%s: got %v, want nothing", b.Kinds()[i], in)
			}
			if got := b.readBalance(t, latest, a, b.contractOf(b.Kinds()[i])); !got.IsZero() {
				t.Errorf("%s: got a balance of %v, want 0", b.Kinds()[i], got)
			}
		}
	}},
	{"NothingOfNothingIsSeen", func(t *testing.T, b labEnv) {
		start := b.readHeads(t).Final.Height
		a := b.Account(t)
		for _, k := range b.Kinds() {
			b.Pay(t, k, a, units(0))
		}
		b.Mine(t, 1)
		b.Finalize(t)
		if in := transfersTo(b.readFinals(t, start), a); len(in) != 0 {
			t.Errorf("got %v, want no transfer of zero", in)
		}
	}},
	{"FinalBlocksAreAChainAndStayAsTheyWere", func(t *testing.T, b labEnv) {
		start := b.readHeads(t).Final
		b.Pay(t, chain.Native, b.Account(t), units(7))
		b.Mine(t, 3)
		b.Finalize(t)
		before := b.readFinals(t, start.Height)
		if before[0].Parent != start.Hash {
			t.Errorf("got %+v after %+v, want it on that", before[0].Block, start)
		}
		for i, c := range before {
			if i > 0 && c.Height <= before[i-1].Height || c.Hash == "" || c.Verified == "" || c.Providers < 1 ||
				c.Time.IsZero() {
				t.Errorf("got block %+v, want it above the one before, named and verified", c.Block)
			}
			if i > 0 && c.Parent != before[i-1].Hash {
				t.Errorf("block %d: got parent %s, want %s", c.Height, c.Parent, before[i-1].Hash)
			}
		}
		b.Mine(t, 2)
		for _, want := range before {
			if got := b.readFinal(t, want.Height); !reflect.DeepEqual(got, want) {
				t.Errorf("block %d again: got %+v, want %+v", want.Height, got, want)
			}
		}
	}},
	{"FinalShowsNothingThatIsNotFinal", func(t *testing.T, b labEnv) {
		a := b.Account(t)
		b.Pay(t, chain.Native, a, units(9))
		b.Mine(t, 1)
		h := b.readHeads(t)
		if h.Final.Height >= h.Latest.Height {
			t.Fatalf("heads: got final %d of %d, want finality behind the head", h.Final.Height, h.Latest.Height)
		}
		for height := h.Final.Height + 1; height <= h.Latest.Height+2; height++ {
			if c, err := b.Chain().Reader.Final(t.Context(), height); !errors.Is(err, chain.ErrNotYet) {
				t.Errorf("Final(%d) of %d: got %+v, %v, want ErrNotYet", height, h.Final.Height, c, err)
			}
		}
		if c, err := b.Chain().Reader.Recent(t.Context(), h.Latest.Height+1); !errors.Is(err, chain.ErrNotYet) {
			t.Errorf("Recent beyond the head: got %+v, %v, want ErrNotYet", c, err)
		}
		if got := transfersTo([]chain.Contents{b.readRecent(t, h.Latest.Height)}, a); len(got) != 1 {
			t.Errorf("Recent(%d): got %v, want the payment", h.Latest.Height, got)
		}
	}},
	{"FinalityNeverGoesBack", func(t *testing.T, b labEnv) {
		last := b.readHeads(t)
		for range 6 {
			b.Mine(t, 1)
			now := b.readHeads(t)
			if now.Final.Height < last.Final.Height || now.Latest.Height <= last.Latest.Height {
				t.Errorf("heads: got %d/%d after %d/%d, want them to move on",
					now.Final.Height, now.Latest.Height, last.Final.Height, last.Latest.Height)
			}
			if c := b.readFinal(t, last.Final.Height); c.Hash != last.Final.Hash {
				t.Errorf("Final(%d): got %s, want %s", last.Final.Height, c.Hash, last.Final.Hash)
			}
			last = now
		}
	}},
	{"BalancesAreThoseOfTheNamedBlock", func(t *testing.T, b labEnv) {
		for _, k := range b.Kinds() {
			if k == chain.Internal {
				continue
			}
			a, contract := b.Account(t), b.contractOf(k)
			before := b.readHeads(t).Latest
			b.Pay(t, k, a, units(400))
			b.Mine(t, 1)
			between := b.readHeads(t).Latest
			b.Pay(t, k, a, units(30))
			b.Mine(t, 1)
			after := b.readHeads(t).Latest
			for _, c := range []struct {
				at   chain.Block
				want uint64
			}{{before, 0}, {between, 400}, {after, 430}} {
				if got := b.readBalance(t, c.at, a, contract); got != units(c.want) {
					t.Errorf("%s at %d: got %v, want %d", k, c.at.Height, got, c.want)
				}
			}
		}
	}},
	{"BalancesComeInTheOrderAsked", func(t *testing.T, b labEnv) {
		var of []chain.Holding
		for i := range 5 {
			a := b.Account(t)
			if i > 0 {
				b.Fund(t, a, "", units(uint64(i)))
			}
			of = append(of, chain.Holding{Address: a})
		}
		got, err := b.Chain().Reader.Balances(t.Context(), b.readHeads(t).Latest, of)
		if err != nil || len(got) != len(of) {
			t.Fatalf("got %v, %v, want %d amounts", got, err, len(of))
		}
		for i := range got {
			if got[i] != units(uint64(i)) {
				t.Errorf("balance %d: got %v, want %d", i, got[i], i)
			}
		}
		if got, err := b.Chain().Reader.Balances(t.Context(), b.readHeads(t).Latest, nil); err != nil || len(got) != 0 {
			t.Errorf("of nobody: got %v, %v, want nothing", got, err)
		}
	}},
	{"AContractIsNotTakenForWhoHasAKey", func(t *testing.T, b labEnv) {
		if !b.hasKind(chain.Token) {
			return
		}
		fresh, used := b.Account(t), b.Account(t)
		b.Fund(t, used, "", units(400))
		at := b.readHeads(t).Latest
		for a, want := range map[chain.Address]chain.AccountKind{
			fresh: chain.KeyAccount, used: chain.KeyAccount, b.Token(): chain.ContractAccount,
		} {
			if got, err := b.Chain().Reader.Kind(t.Context(), at, a); err != nil || got != want {
				t.Errorf("%s: got %q, %v, want %s", a, got, err, want)
			}
		}
		if !b.CanFork() {
			return
		}
		b.Mine(t, 1)
		gone := b.readHeads(t).Latest
		b.Fork(t, 1)
		if got, err := b.Chain().Reader.Kind(t.Context(), gone, fresh); err == nil {
			t.Errorf("in a block that is nowhere: got %q, want an error", got)
		}
	}},
	{"ABalanceInABlockThatIsNowhereIsAnError", func(t *testing.T, b labEnv) {
		a := b.Account(t)
		if !b.CanFork() {
			return
		}
		b.Mine(t, 1)
		gone := b.readHeads(t).Latest
		b.Fork(t, 1)
		got, err := b.Chain().Reader.Balances(t.Context(), gone, []chain.Holding{{Address: a}})
		if err == nil {
			t.Errorf("got %v, want an error", got)
		}
	}},
}

func allTraced(blocks []chain.Contents) bool {
	for _, c := range blocks {
		if !c.Traced {
			return false
		}
	}
	return len(blocks) > 0
}
