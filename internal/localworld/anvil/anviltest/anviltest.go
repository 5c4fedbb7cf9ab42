// Package anviltest gives each test its own chain, which starts in a fifth of a second. No test
// sees the blocks of another.
//
// Only tests import it. The chain ends with the test, or with the test's process if that is killed.
package anviltest

import (
	"testing"

	"github.com/cofferpay/coffer/internal/localworld/anvil"
)

// Start starts a chain that ends with the test. The test fails if there is no anvil, or if the
// chain ended before the test.
func Start(tb testing.TB, cfg anvil.Config) *anvil.Node {
	tb.Helper()
	n, err := anvil.Start(tb.Context(), cfg)
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

// StartWithTokens starts a chain like Start and deploys the tokens of the local world.
func StartWithTokens(tb testing.TB, cfg anvil.Config) (*anvil.Node, anvil.Tokens) {
	tb.Helper()
	n := Start(tb, cfg)
	tokens, err := n.DeployTokens(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return n, tokens
}
