package billing_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
)

// oldPrices is a source whose quotes were given some time ago.
type oldPrices struct {
	*testEnv
	age time.Duration
}

// USD implements price.Source.
func (s oldPrices) USD(ctx context.Context, mintID int) (price.Quote, error) {
	q, err := s.testEnv.USD(ctx, mintID)
	q.QuotedAt = q.QuotedAt.Add(-s.age)
	return q, err
}

// Rule BI-2: a price that is not fresh becomes no mark.
func TestAnOldPriceBecomesNoMark(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.setPrice(sol, "150")
	e.setPrice(ether, "3000")
	s := e.service()
	s.Prices = oldPrices{e, 6 * time.Minute}
	if taken, err := s.TakeMarks(t.Context()); taken != 0 || err == nil {
		t.Errorf("of six minutes ago: got %d marks, %v", taken, err)
	}
	s.Prices = oldPrices{e, 4 * time.Minute}
	if taken, err := s.TakeMarks(t.Context()); taken != 2 || err != nil {
		t.Errorf("of four minutes ago: got %d marks, %v, want 2", taken, err)
	}
}

// Rule BI-5: an operator states the price of a moment that was, not of one that comes.
func TestNoPriceIsStatedForAMomentThatComes(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	add := func(moment time.Time) error {
		_, err := e.service().AddMark(t.Context(), billing.AddedMark{
			MintID: sol, Price: money.MustParseUSD("150"), Source: "a newspaper", Moment: moment,
		}, person)
		return err
	}
	e.wantCode(add(e.now.Add(time.Second)), fault.InvalidRequest)
	e.must(add(e.now))
}

// Rule BI-16: an invoice that bills more than a block proves, and a document that was changed, are named.
func TestAnInvoiceIsComparedWithWhatIsProven(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.insertMark(sol, "150", day(1, 10))
	order := e.insertFee(e.one, sol, "1000000000", day(1, 10))
	inv := e.bill(e.one)
	e.verify(inv, "")
	for _, fee := range []string{"999999999", "1000000001"} {
		e.exec(`UPDATE dispatch_orders SET fee = $2::numeric WHERE order_id = $1`, order, fee)
		e.verify(inv, "was proven on chain to cost "+fee)
	}
	e.exec(`UPDATE dispatch_orders SET fee = 1000000000 WHERE order_id = $1`, order)
	e.verify(inv, "")
	e.exec(`UPDATE invoices SET document = jsonb_set(document, '{seller,name}', '"Someone"')`)
	e.verify(inv, "its hash differs")
}

// Rule BI-15: what a second operator approves is a change of the terms that were in force when it was asked for.
func TestTermsThatChangedSinceARequestStay(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	wanted := changerequest.Values{}
	for name, value := range map[string]any{
		"legalName": "One", "address": []string{"1 Street"}, "taxId": "", "email": "", "taxRateBps": 0, "taxNote": nil,
		"invoiceSeries": nil, "creditNoteSeries": nil, "billingDay": nil, "language": nil, "version": 2,
	} {
		encoded, err := json.Marshal(value)
		e.must(err)
		wanted[name] = encoded
	}
	apply := func() error {
		return e.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			r := changerequest.Request{OrgID: e.one, Wanted: wanted}
			return e.service().ApplyApproved(operator.Key{})(ctx, tx, r)
		})
	}
	e.saveTerms(e.one, 1900, "One") // version 2, by another operator
	e.wantCode(apply(), fault.InvalidState)
	if terms, err := e.service().TermsByOrg(t.Context(), e.one); err != nil || *terms.TaxRateBps != 1900 {
		t.Errorf("got %+v, %v, want the tax that was saved", terms, err)
	}
}
