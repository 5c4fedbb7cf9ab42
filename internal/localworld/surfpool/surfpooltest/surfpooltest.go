// Package surfpooltest gives a test a chain of its own: a second and 90 MB, so that
// tests which can live with the blocks of an earlier one borrow a chain.
//
// It is imported by tests only. A chain ends with its test, or, where it was
// borrowed, with the test's process; and with that also when it is killed.
package surfpooltest

import (
	"context"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/localworld/surfpool"
)

// Start runs a chain that ends with the test, which fails when there is no
// surfpool or when the chain ended before the test did.
func Start(tb testing.TB, cfg surfpool.Config) *surfpool.Node {
	tb.Helper()
	n, err := surfpool.Start(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := n.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return n
}

var free struct {
	sync.Mutex
	nodes []*surfpool.Node
}

// Borrow lends a chain whose blocks are made by hand to one test at a time. What
// earlier tests did is in its blocks, and nothing of it waits for the next one.
func Borrow(tb testing.TB) *surfpool.Node {
	tb.Helper()
	n := takeFree()
	if n == nil {
		var err error
		if n, err = surfpool.Start(context.Background(), surfpool.Config{}); err != nil {
			tb.Fatal(err)
		}
	}
	if err := n.MineBlocks(tb.Context(), 1); err != nil { // with what others left waiting
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		select {
		case <-n.Done():
			tb.Error("got a chain that ended by itself: ", n.Stop())
		default:
			free.Lock()
			defer free.Unlock()
			free.nodes = append(free.nodes, n)
		}
	})
	return n
}

func takeFree() *surfpool.Node {
	free.Lock()
	defer free.Unlock()
	if len(free.nodes) == 0 {
		return nil
	}
	n := free.nodes[len(free.nodes)-1]
	free.nodes = free.nodes[:len(free.nodes)-1]
	return n
}
