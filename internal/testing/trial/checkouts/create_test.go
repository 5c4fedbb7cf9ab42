package checkouts

import (
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// A product's greatest quantity is that of one checkout, however many positions name it.
func TestPositionsOfOneProductShareItsGreatestQuantity(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	productID := e.product() // at most 10
	items := func(quantities ...int) checkout.CheckoutRequest {
		return request(productID, func(r *checkout.CheckoutRequest) {
			r.Items = nil
			for _, quantity := range quantities {
				r.Items = append(r.Items, checkout.ItemRequest{ProductID: productID, Quantity: quantity})
			}
		})
	}
	_, _, err := e.Checkouts.CreateCheckout(e.ctx, e.org, items(6, 5))
	e.wantFault(err, fault.InvalidRequest)
	c, _, err := e.Checkouts.CreateCheckout(e.ctx, e.org, items(6, 4))
	if e.must(err); c.AmountDue.Text() != "1000" || len(c.Items) != 2 {
		t.Errorf("got %s for %d positions, want 1000 for 2", c.AmountDue.Text(), len(c.Items))
	}
}

// A database that was restored from a backup finds the payment again. Its events have the ids that the shop knows, so
// the shop ships nothing twice.
func TestARestoredDatabaseRepeatsItsEvents(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.usual()
	backup := pgtest.CopyDatabase(t, e.database)
	e.paid(id, dollars, 100*million)
	e.is(id, outcome.Completed)
	eventIDs := func() []string {
		return e.texts(`SELECT event_id FROM events WHERE resource_id = $1 ORDER BY resource_seq`, id)
	}
	told := eventIDs()
	e.db = pgtest.Open(t, backup, e.clock)
	e.Service = e.open(e.db)
	e.must(journal.Import(e.ctx, e.db, e.signer, e.Wallets))
	e.turn()
	e.is(id, outcome.Completed)
	again := eventIDs()
	if len(told) != 2 || len(again) == 0 || slices.ContainsFunc(again, func(eventID string) bool {
		return !slices.Contains(told, eventID)
	}) {
		t.Errorf("got the events %q after the restore, want some of %q", again, told)
	}
	e.wantStable(id)
}
