package evm_test

import (
	"testing"

	"github.com/cofferpay/coffer/internal/chain/endpoint/fakerpc"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
)

type (
	proxy    = fakerpc.Node
	rule     = fakerpc.Rule
	exchange = fakerpc.Exchange
)

func newProxy(t testing.TB, node *anvil.Node) *proxy { return fakerpc.New(t, node.URL, nil) }
