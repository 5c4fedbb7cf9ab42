package solana_test

import (
	"encoding/json"
	"testing"

	"github.com/cofferpay/coffer/internal/chain/endpoint/fakerpc"
)

type (
	proxy    = fakerpc.Node
	rule     = fakerpc.Rule
	exchange = fakerpc.Exchange
)

var newProxy = fakerpc.New

// slotOf is the first parameter, for methods that ask about a slot.
func slotOf(t testing.TB, e *exchange) (slot uint64) {
	if err := json.Unmarshal(e.Params[0], &slot); err != nil {
		t.Errorf("%s of %s: %v", e.Method, e.Params[0], err)
	}
	return slot
}
