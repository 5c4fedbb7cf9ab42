package checkouts

import (
	"bytes"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/capability"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/control/audit"
)

// The sales of a payment link are as the checker wants them: in every quantity that it allows, while its limit changes,
// above the limit by those that were open, and until it ends. Rule CO-62.
func TestTheCheckerKnowsTheSalesOfALink(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.Checkouts.NonceSecret = bytes.Repeat([]byte{7}, 32)
	gold, tip := e.product(), e.product(func(d *checkout.Draft) {
		d.PriceType, d.Price, d.MinPrice, d.MaxPrice = checkout.OpenPrice, nil, new("5"), new("50")
	})
	by := audit.User("ann")
	l, _, err := e.Checkouts.CreateLink(e.ctx, e.org, checkout.LinkRequest{
		Items: []checkout.LinkItem{
			{ProductID: tip, Quantity: new(1)}, {ProductID: gold, QuantityMin: new(1), QuantityMax: new(3)},
		},
		MaxCompleted: new(1), ExpiresAt: new(e.clock().Add(24 * time.Hour)), Actor: by,
	})
	e.must(err)
	buy := func(pieces int) (string, error) {
		c, err := e.Checkouts.CheckoutOfLink(e.ctx, l.Slug, []checkout.LinkChoice{
			{ProductID: gold, Quantity: pieces}, {ProductID: tip, UnitPrice: new("7.5")},
		}, capability.NewNonce(e.Checkouts.NonceSecret, l.ID, e.clock()))
		if err == nil {
			_, err := e.Checkouts.OpenOption(e.ctx, e.org, c.ID, dollars)
			e.must(err)
		}
		return c.ID, err
	}
	var sold []string
	for pieces := 1; pieces <= 3; pieces++ {
		id, err := buy(pieces)
		e.must(err)
		sold = append(sold, id)
	}
	e.paid(sold[0], dollars, 107_500_000)
	e.is(sold[0], outcome.Completed)
	e.pass(10 * time.Minute)
	if id, err := buy(1); err == nil {
		t.Fatalf("got the checkout %s of a link that is sold out", id)
	}
	e.paid(sold[1], dollars, 207_500_000) // It was open when the link had sold all.
	e.is(sold[1], outcome.Completed)
	for _, most := range []*int{new(3), nil, new(2)} {
		_, err := e.Checkouts.PatchLink(e.ctx, e.org, l.ID, by, checkout.LinkChange{
			MaxCompleted: checkout.Nullable[int]{IsNamed: true, Value: most},
		})
		e.must(err)
		e.look()
		if most == nil {
			_, err := buy(2)
			e.must(err)
		}
	}
	_, err = e.Checkouts.EndLink(e.ctx, e.org, l.ID, by)
	e.must(err)
	e.pass(10 * time.Minute)
	e.look()
}
