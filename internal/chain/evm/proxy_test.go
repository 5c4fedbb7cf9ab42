package evm_test

import (
	"testing"

	"github.com/cofferpay/coffer/internal/chain/endpoint/liar"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
)

type (
	proxy    = liar.Node
	rule     = liar.Rule
	exchange = liar.Exchange
)

func newProxy(t testing.TB, node *anvil.Node) *proxy { return liar.New(t, node.URL, nil) }
