// Package surfpooltest gives a test its own chain, which costs a second and 90 MB. Tests that
// tolerate the blocks of an earlier test borrow a chain.
//
// Only tests import it. A chain ends with its test, and a borrowed one with the test's process,
// also if that is killed.
package surfpooltest

import (
	"context"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/localworld/surfpool"
)

// Start starts a chain that ends with the test. The test fails if there is no surfpool, or if the
// chain ended before the test.
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

// Borrow lends a chain whose blocks are made by hand to one test at a time. Its blocks contain what
// earlier tests did, and none of their transactions waits for the next block.
func Borrow(tb testing.TB) *surfpool.Node {
	tb.Helper()
	n := takeFree()
	if n == nil {
		var err error
		if n, err = surfpool.Start(context.Background(), surfpool.Config{}); err != nil {
			tb.Fatal(err)
		}
	}
	if err := n.MineBlocks(tb.Context(), 1); err != nil { // with the waiting transactions of earlier tests
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
