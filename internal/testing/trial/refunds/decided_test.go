package refunds

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// toDecide expects which checkouts wait for a person, in the list and in its number.
func (e *testEnv) toDecide(want ...string) {
	e.Helper()
	found, err := e.Checkouts.ListCheckouts(e.ctx, e.org, checkout.CheckoutFilter{NeedsDecision: true},
		pagination.Page{Limit: 10})
	e.must(err)
	var got []string
	for _, c := range found.Items {
		got = append(got, c.ID)
	}
	n, err := e.Checkouts.CountToDecide(e.ctx, e.org, 10)
	e.must(err)
	slices.Sort(got) // Those of one moment have no order.
	slices.Sort(want)
	if !slices.Equal(got, want) || n != len(want) {
		e.Errorf("got %d checkouts to decide, %v, want %v", n, got, want)
	}
}

// A checkout of which everything was given back waits for no one, whatever was unusual about it. It waits again once
// there is something new to decide, and while a part of it stays. Rule PAGE-86.
func TestAWhollyRefundedCheckoutWaitsForNoOne(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	late := e.sell(e.newProduct(checkout.CreditSurplus, checkout.HoldLate, 50))
	part := e.newCheckout()
	e.pay(part, dollars, 40*million)
	e.toDecide()
	e.wait(2 * time.Hour)
	e.pass(3)
	e.pay(late, dollars, 100*million)
	e.exceptions(late, outcome.PaidLate)
	e.exceptions(part, outcome.Underpaid)
	e.toDecide(late, part)

	giveBack := func(id string, changes ...func(*checkout.RefundRequest)) {
		t.Helper()
		r, key := e.refund(request(id, changes...))
		e.must(e.claim(r.ID, key, home))
		e.until(r.ID, checkout.RefundCompleted)
		e.turn()
	}
	giveBack(late, amount(60*million))
	e.toDecide(late, part) // A part of it is still here.
	giveBack(late)
	e.exceptions(late, outcome.PaidLate, outcome.Refunded)
	giveBack(part)
	e.toDecide()
	e.pay(late, dollars, 30*million) // another late payment
	e.toDecide(late)
	giveBack(late)
	e.toDecide()
}

// A payment that the chain takes back waits for a person, also where all the rest was given back: no one has decided
// yet what is done about the loss. Rule PAGE-86.
func TestAReversedPaymentWaitsAlsoWhereTheRestIsBack(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.paid(40 * million)
	r, key := e.refund(request(id))
	e.must(e.claim(r.ID, key, home))
	e.until(r.ID, checkout.RefundCompleted)
	e.pass(8)
	c, err := e.Checkouts.CheckoutByID(e.ctx, e.org, id)
	e.must(err)
	hash := e.net.Pay(payer, c.Options[0].Wallet.Address, signertest.Token, 30*million)
	for range 3 { // credited, and not swept
		e.net.Mine(1)
		e.advance(blockTime)
		e.walk()
	}
	e.net.Fork(6, hash)
	e.net.MineEmpty(12)
	for range 50 {
		if _, err := e.Walker.StepFinal(e.ctx); errors.Is(err, scan.ErrFinalityBroken) {
			break
		}
	}
	fork, err := e.Walker.FindFork(e.ctx)
	e.must(err)
	_, err = e.Walker.Repoint(e.ctx, fork, 2, audit.Operator("op"))
	e.must(err)
	e.walk()
	e.net.MineEmpty(10)
	e.walk()
	e.must(e.Deposits.SettleReorgs(e.ctx))
	e.walk()
	e.exceptions(id, outcome.Reversed, outcome.Underpaid, outcome.Refunded)
	e.toDecide(id)
}
