// Package btcdtest gives each test its own Bitcoin chain, which starts in half a second. No test
// sees the blocks of another.
//
// Only tests import it. The chain ends with the test, or with the test's process if that is killed.
package btcdtest

import (
	"testing"

	"github.com/cofferpay/coffer/internal/localworld/btcd"
)

// Start starts a chain that ends with the test. The test fails if there is no btcd, or if the chain
// ended before the test.
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
