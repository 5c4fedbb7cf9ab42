package checkouts

import (
	"testing"

	"github.com/cofferpay/coffer/internal/checkout/outcome"
)

// The usual audit rows of a checkout that is paid.
var paidActions = []string{"changed OPEN PROCESSING", "changed PROCESSING COMPLETED"}

func TestAnExactPaymentCompletesACheckoutOnce(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	e.seen(id, dollars, 100*million)
	e.is(id, outcome.Processing)
	e.finalize()
	e.ends(id, ending{
		status: outcome.Completed, seen: "100", counted: "100", payments: []string{"CREDITED 100 by quote 1"},
		events: []string{"PROCESSING", "COMPLETED"}, actions: paidActions, books: map[int]int64{dollars: 100 * million},
	})
}
