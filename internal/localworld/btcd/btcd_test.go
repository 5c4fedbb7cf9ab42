package btcd_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/localworld/btcd"
	"github.com/cofferpay/coffer/internal/localworld/btcd/btcdtest"
)

func newAddress(t *testing.T) (*btcec.PrivateKey, chain.Address) {
	t.Helper()
	key, err := btcec.NewPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key, btcd.KeyAddress(key)
}

func in(b *wire.MsgBlock, tx *wire.MsgTx) int {
	for i, other := range b.Transactions {
		if other.TxHash() == tx.TxHash() {
			return i
		}
	}
	return -1
}

func tip(t *testing.T, n *btcd.Node, behind int) *wire.MsgBlock {
	t.Helper()
	h, err := n.TipHeight(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hash, err := n.BlockHash(t.Context(), h-behind)
	if err != nil {
		t.Fatal(err)
	}
	b, err := n.ReadBlock(t.Context(), hash)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheChainDoesWhatItIsTold(t *testing.T) {
	t.Parallel()
	began := time.Now()
	n := btcdtest.Start(t, btcd.Config{})
	t.Logf("a chain with a faucet after %v", time.Since(began))
	if u, err := url.Parse(n.URL); err != nil || u.Hostname() != "127.0.0.1" {
		t.Errorf("got a node at %s, want it on loopback", n.URL)
	}
	mine := func(blocks int) {
		t.Helper()
		if hashes, err := n.MineBlocks(t.Context(), blocks); err != nil || len(hashes) != blocks {
			t.Fatalf("Mine: got %d blocks, %v, want %d", len(hashes), err, blocks)
		}
	}
	pay := func(to chain.Address, satoshi int64) *wire.MsgTx {
		t.Helper()
		tx, err := n.PayAddress(t.Context(), to, satoshi)
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	key, a := newAddress(t)

	t.Run("payments are mined in their order", func(t *testing.T) {
		var txs []*wire.MsgTx
		for i := range 5 {
			txs = append(txs, pay(a, int64(10_000+i)))
		}
		mine(2)
		b := tip(t, n, 1)
		for i, tx := range txs {
			if got := in(b, tx); got != i+1 {
				t.Errorf("payment %d: got place %d, want %d", i, got, i+1)
			}
		}
	})
	t.Run("what an address got can be spent", func(t *testing.T) {
		tx := pay(a, 50_000)
		mine(1)
		_, other := newAddress(t)
		txOut, err := btcd.NewOutput(other, 20_000)
		if err != nil {
			t.Fatal(err)
		}
		spend, err := n.BuildSpend(
			key, []btcd.Output{{OutPoint: wire.OutPoint{Hash: tx.TxHash()}, TxOut: *tx.TxOut[0]}}, 1_000, txOut,
		)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.SendTx(t.Context(), spend); err != nil {
			t.Fatal(err)
		}
		mine(1)
		if got := in(tip(t, n, 0), spend); got < 0 {
			t.Error("got it in no block")
		}
	})
	t.Run("a payment is replaced", func(t *testing.T) {
		first := pay(a, 60_000)
		second, err := n.ReplacePayment(t.Context(), first)
		if err != nil {
			t.Fatal(err)
		}
		mine(1)
		if b := tip(t, n, 0); in(b, first) >= 0 || in(b, second) < 0 {
			t.Errorf("got %d and %d, want the second alone", in(b, first), in(b, second))
		}
	})
	t.Run("a fork takes away and keeps", func(t *testing.T) {
		gone, kept := pay(a, 70_000), pay(a, 71_000)
		mine(3)
		old := tip(t, n, 0).BlockHash()
		if err := n.ForkChain(t.Context(), 3, kept.TxHash()); err != nil {
			t.Fatal(err)
		}
		if now := tip(t, n, 0); now.BlockHash() == old || in(now, kept) < 0 {
			t.Errorf("got %d in the new tip, want the payment that was kept", in(now, kept))
		}
		mine(2)
		for behind := range 5 {
			if b := tip(t, n, behind); in(b, gone) >= 0 {
				t.Errorf("got the payment that went in block %d from the tip", behind)
			}
		}
		for i := range 4 {
			pay(a, int64(80_000+i))
		}
		mine(1)
	})
	t.Run("what waits again after a fork keeps its coin", func(t *testing.T) {
		first := pay(a, 90_000)
		mine(1)
		if err := n.InvalidateBlock(t.Context(), tip(t, n, 0).BlockHash()); err != nil {
			t.Fatal(err)
		}
		second := pay(a, 91_000)
		mine(1)
		if b := tip(t, n, 0); in(b, first) < 0 || in(b, second) < 0 {
			t.Errorf("got %d and %d, want both", in(b, first), in(b, second))
		}
		mine(2)
	})
	t.Run("the older branch comes back", func(t *testing.T) {
		b := tip(t, n, 1).BlockHash()
		was := tip(t, n, 0).BlockHash()
		if err := n.InvalidateBlock(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if got := tip(t, n, 0).BlockHash(); got == was {
			t.Error("got the same tip after it was called invalid")
		}
		if err := n.ReconsiderBlock(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if got := tip(t, n, 0).BlockHash(); got != was {
			t.Errorf("got %s, want the tip %s back", got, was)
		}
	})
	t.Run("a fork of somebody else's payment is refused whole", func(t *testing.T) {
		was := tip(t, n, 0).BlockHash()
		if err := n.ForkChain(t.Context(), 200); err == nil {
			t.Error("got no error for more blocks than there are")
		}
		if got := tip(t, n, 0).BlockHash(); got != was {
			t.Errorf("got tip %s, want %s", got, was)
		}
		if err := n.CallRPC(t.Context(), nil, "getblock", chainhash.Hash{}.String()); err == nil ||
			!strings.Contains(err.Error(), "not found") {
			t.Errorf("got %v, want the node's refusal", err)
		}
	})
}

func TestAChainIsKeptAndFoundAgain(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "bitcoin")
	n, err := btcd.Start(t.Context(), btcd.Config{State: state})
	if err != nil {
		t.Fatal(err)
	}
	_, a := newAddress(t)
	if _, err := n.PayAddress(t.Context(), a, 5_000); err != nil {
		t.Fatal(err)
	}
	if _, err := n.MineBlocks(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	want := tip(t, n, 0).BlockHash()
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := n.Stop(); err != nil {
		t.Errorf("Stop again: got %v, want nothing", err)
	}
	n = btcdtest.Start(t, btcd.Config{State: state})
	if got := tip(t, n, 0).BlockHash(); got != want {
		t.Errorf("got tip %s, want %s", got, want)
	}
}

// The state file contains blocks alone, and here no clock makes a block before the node stops.
func TestAPaymentThatWaitsIsKept(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "bitcoin")
	n, err := btcd.Start(t.Context(), btcd.Config{State: state})
	if err != nil {
		t.Fatal(err)
	}
	_, a := newAddress(t)
	waiting, err := n.PayAddress(t.Context(), a, 5_000)
	if err != nil {
		t.Fatal(err)
	}
	if b := tip(t, n, 0); in(b, waiting) >= 0 {
		t.Fatalf("got the payment in block %v before the stop, want it to wait", b.BlockHash())
	}
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	n = btcdtest.Start(t, btcd.Config{State: state})
	if b := tip(t, n, 0); in(b, waiting) < 0 {
		t.Errorf("got the payment not in the last block %v after the start, want it there", b.BlockHash())
	}
}

func TestANodeThatDiesIsNoticed(t *testing.T) {
	t.Parallel()
	n, err := btcd.Start(t.Context(), btcd.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.FindProcess(n.PID())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	<-n.Done()
	if err := n.Stop(); err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("got %v, want it to say that the node ended by itself", err)
	}
	if _, err := btcd.Start(t.Context(), btcd.Config{Program: filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("got no error, want one for a program that is not there")
	}
}

func TestTheFaucetsKeyIsOneThatWalletsImport(t *testing.T) {
	t.Parallel()
	if got := btcd.FaucetWIF(); len(got) != 52 || got[0] != 'c' {
		t.Errorf("got %s, want a compressed key of a test network", got)
	}
}

// The test changes the environment, so it does not run in parallel with others.
func TestFindTakesWhatTheEnvironmentNames(t *testing.T) {
	program := filepath.Join(t.TempDir(), "my-btcd")
	t.Setenv("COFFER_BTCD", program)
	if _, err := btcd.Find(t.Context()); err == nil || !strings.Contains(err.Error(), "COFFER_BTCD") {
		t.Errorf("got %v, want an error that names the setting", err)
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := btcd.Find(t.Context()); got != program || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, program)
	}
}

// A chain that always makes blocks would halve its block reward until the faucet had nothing left.
// A chain that makes none would let a person wait.
func TestTheClockMakesBlocksWhileSomethingWaits(t *testing.T) {
	t.Parallel()
	n := btcdtest.Start(t, btcd.Config{BlockTime: 10 * time.Millisecond})
	height := func() int {
		t.Helper()
		h, err := n.TipHeight(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	// until reads heights, one clock interval apart, until the condition holds.
	until := func(what string, holds func(before, now int) bool) int {
		t.Helper()
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for before, deadline := height(), time.Now().Add(20*time.Second); time.Now().Before(deadline); {
			<-tick.C
			now := height()
			if holds(before, now) {
				return now
			}
			before = now
		}
		t.Fatalf("%s: not within 20 seconds", what)
		return 0
	}
	stands := func(before, now int) bool { return before == now }
	rests := until("it stands still when nothing waits", stands)
	_, a := newAddress(t)
	tx, err := n.PayAddress(t.Context(), a, 50_000)
	if err != nil {
		t.Fatal(err)
	}
	until("blocks follow a payment", func(_, now int) bool { return now >= rests+4 })
	end := until("it stands still again", stands)
	for behind := range end - rests {
		if at := in(tip(t, n, behind), tx); at >= 0 {
			if behind < 3 {
				t.Errorf("got the payment %d blocks deep, want it deeper", behind)
			}
			return
		}
	}
	t.Error("got the payment in no block")
}

// A block of the clock would contain what a fork has just taken out of one.
func TestNoBlockComesWhileTheClockIsHeld(t *testing.T) {
	t.Parallel()
	n := btcdtest.Start(t, btcd.Config{BlockTime: 10 * time.Millisecond})
	_, a := newAddress(t)
	has := func(want int64) {
		t.Helper()
		if got, err := n.Balance(t.Context(), a); err != nil || got != want {
			t.Errorf("got %d satoshi and %v, want %d", got, err, want)
		}
	}
	has(0)
	release := n.HoldClock()
	defer release()
	start := tip(t, n, 0).BlockHash()
	tx, err := n.PayAddress(t.Context(), a, 50_000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.MineBlocks(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	has(50_000)
	if err := n.ForkChain(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if b := tip(t, n, 0); b.Header.PrevBlock != start || in(b, tx) >= 0 {
		t.Errorf("got the block %v, want one on %s without the payment", b.Header, start)
	}
	has(0)
	release()
	release() // once more changes nothing
	deadline := time.Now().Add(20 * time.Second)
	for held := tip(t, n, 0).BlockHash(); tip(t, n, 0).BlockHash() == held; {
		if _, err := n.PayAddress(t.Context(), a, 50_000); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("no block comes after the clock was let go")
		}
	}
}
