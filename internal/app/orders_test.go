package app

import (
	"testing"

	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

func TestEveryKindOfOrderHasItsListeners(t *testing.T) {
	t.Parallel()
	w, d := &withdrawal.Service{}, &deposit.Service{}
	listeners, voids, restores := OrderListeners(w, d), VoidListeners(w, d), restoreListeners(w)
	for _, k := range dispatch.Kinds() {
		if listeners[k.Purpose] == nil || restores[k.Purpose] == nil {
			t.Errorf("%s: nothing is notified of the end of its orders, or of restored ones", k.Purpose)
		}
		if _, ok := voids[k.Purpose]; ok != k.NeedsGrant {
			t.Errorf("%s: got a listener of voids: %v, want %v", k.Purpose, ok, k.NeedsGrant)
		}
	}
}
