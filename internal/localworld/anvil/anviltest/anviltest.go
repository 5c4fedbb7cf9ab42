// Package anviltest gives a test a chain of its own: a fifth of a second, and
// no two tests see each other's blocks.
//
// It is imported by tests only. The chain ends with the test, and with the
// test's process if that is killed.
package anviltest

import (
	"testing"

	"github.com/cofferpay/coffer/internal/localworld/anvil"
)

// Start runs a chain that ends with the test, which fails when there is no
// anvil or when the chain ended before the test did.
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

// StartWithTokens runs a chain like Start and deploys the tokens of the local world.
func StartWithTokens(tb testing.TB, cfg anvil.Config) (*anvil.Node, anvil.Tokens) {
	tb.Helper()
	n := Start(tb, cfg)
	tokens, err := n.DeployTokens(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return n, tokens
}
