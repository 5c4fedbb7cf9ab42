// Package btcdtest gives a test a Bitcoin chain of its own: half a second, and no two
// tests see each other's blocks.
//
// It is imported by tests only. The chain ends with the test, and with the test's
// process if that is killed.
package btcdtest

import (
	"testing"

	"github.com/cofferpay/coffer/internal/localworld/btcd"
)

// Start runs a chain that ends with the test, which fails when there is no btcd or when
// the chain ended before the test did.
func Start(tb testing.TB, cfg btcd.Config) *btcd.Node {
	tb.Helper()
	n, err := btcd.Start(tb.Context(), cfg)
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
