package refunds

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
)

// at once runs fn n times at the same moment, and returns the errors.
func atOnce(n int, fn func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = fn(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

func countNil(errs []error) (n int) {
	for _, err := range errs {
		if err == nil {
			n++
		}
	}
	return n
}

// Of several claims at the same moment one address is paid, once. Rule CO-88.
func TestOneClaimOfSeveralIsPaid(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	r, key := e.refund(request(e.paid(100 * million)))
	addresses := []chain.Address{home, second, sim.Address("a third one"), sim.Address("a fourth one")}
	errs := atOnce(len(addresses), func(i int) error {
		return e.claim(r.ID, key, addresses[i])
	})
	if countNil(errs) != 1 {
		t.Fatalf("got %v, want one claim", errs)
	}
	for i, err := range errs {
		if err != nil && !fault.HasCode(err, fault.InvalidState) {
			t.Errorf("claim %d: got %v, want INVALID_STATE", i, err)
		}
	}
	other := e.open(e.db)
	for range 3 { // two processes look at the same time
		for _, err := range atOnce(4, func(i int) error {
			return []*checkout.Service{e.Checkouts, other.Checkouts}[i%2].FollowRefunds(e.ctx)
		}) {
			e.must(err)
		}
		e.advance(time.Minute)
	}
	e.until(r.ID, checkout.RefundCompleted)
	for i, address := range addresses {
		want := uint64(0)
		if errs[i] == nil {
			want = 100 * million
		}
		e.has(address, dollars, want)
	}
	if got := e.events(r.CheckoutID); got[len(got)-1] != "CHECKOUT_REFUNDED" || countOf(got, "CHECKOUT_REFUNDED") != 1 {
		t.Errorf("got the events %v, want one of the refund", got)
	}
}

func countOf(list []string, word string) (n int) {
	for _, w := range list {
		if w == word {
			n++
		}
	}
	return n
}

// Two refunds of the same money are not both made. Rule CO-80.
func TestTheSameMoneyIsRefundedOnce(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.paid(100 * million)
	errs := atOnce(6, func(int) error {
		_, _, _, err := e.Checkouts.RequestRefund(e.ctx, e.org, request(id, amount(40*million)))
		return err
	})
	if countNil(errs) != 2 {
		t.Fatalf("got %v, want two refunds", errs)
	}
	for _, err := range errs {
		if err != nil && !fault.HasCode(err, fault.RefundExceedsPayment) {
			t.Errorf("got %v, want REFUND_EXCEEDS_PAYMENT", err)
		}
	}
	e.books(dollars, 20*million, 80*million)
	e.look()
}

// One key makes one refund, also at the same moment. Rule CO-82.
func TestOneKeyMakesOneRefundAtOnce(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	r := request(e.paid(100*million), amount(10*million))
	r.IdempotencyKey = new("refund-1")
	var mu sync.Mutex
	ids, keys := map[string]bool{}, 0
	for _, err := range atOnce(6, func(int) error {
		refund, key, _, err := e.Checkouts.RequestRefund(e.ctx, e.org, r)
		mu.Lock()
		defer mu.Unlock()
		ids[refund.ID] = true
		if key != "" {
			keys++
		}
		return err
	}) {
		e.must(err)
	}
	if len(ids) != 1 || keys != 1 {
		t.Errorf("got %d refunds and %d keys, want one of both", len(ids), keys)
	}
	e.books(dollars, 90*million, 10*million)
}

// A claim, a cancellation and the end of its time meet: the refund is paid or its amount is back, never both.
// Rules CO-83 and CO-88.
func TestAClaimMeetsTheEndOfTheRefund(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	paid := 0
	for range 4 {
		r, key := e.refund(request(e.paid(100 * million)))
		errs := atOnce(2, func(i int) error {
			if i == 0 {
				return e.claim(r.ID, key, home)
			}
			return errors.Join(e.Checkouts.FollowRefunds(e.ctx), cancel(e, r.ID))
		})
		e.look()
		end := e.load(r.ID)
		switch {
		case end.Status == checkout.RefundCancelled:
			if errs[1] != nil {
				t.Errorf("got %v, want a cancelled refund", errs)
			}
		default:
			e.until(r.ID, checkout.RefundCompleted)
			paid++
		}
	}
	e.pass(2)
	e.has(home, dollars, uint64(paid)*100*million)
	e.books(dollars, uint64(4-paid)*100*million, 0)
}

func cancel(e *testEnv, refundID string) error {
	_, err := e.Checkouts.CancelRefund(e.ctx, e.org, refundID, audit.User("ann"))
	return err
}

// slowPayouts is a view of payments during which something else happens, once.
type slowPayouts struct {
	checkout.RefundPayouts
	act func()
}

// PayoutState implements checkout.RefundPayouts.
func (p *slowPayouts) PayoutState(
	ctx context.Context, orgID, withdrawalID string,
) (checkout.PayoutState, string, error) {
	state, problem, err := p.RefundPayouts.PayoutState(ctx, orgID, withdrawalID)
	if act := p.act; act != nil && state == checkout.PayoutEnded {
		p.act = nil
		act()
	}
	return state, problem, err
}

// hastyPayouts is a view of payments before whose first request something else happens.
type hastyPayouts struct {
	checkout.RefundPayouts
	act func(refundID string)
}

// RequestPayout implements checkout.RefundPayouts.
func (p *hastyPayouts) RequestPayout(ctx context.Context, r checkout.RefundPayout) (string, error) {
	if act := p.act; act != nil {
		p.act = nil
		act(r.RefundID)
	}
	return p.RefundPayouts.RequestPayout(ctx, r)
}

// A refund that is taken back after a process has read it is not paid. That is no error, and the next refund is paid.
// Rule CO-83.
func TestARefundThatIsTakenBackBeforeItsPaymentIsNoError(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.paid(100 * million)
	for _, address := range []chain.Address{home, second} {
		r, key := e.refund(request(id, amount(50*million)))
		e.must(e.claim(r.ID, key, address))
	}
	other := e.open(e.db)
	var gone string
	other.Checkouts.Payouts = &hastyPayouts{other.Checkouts.Payouts, func(refundID string) {
		gone = refundID
		e.must(cancel(e, refundID))
	}}
	e.must(other.Checkouts.FollowRefunds(e.ctx))
	ids := e.texts(`SELECT refund_id FROM refunds WHERE refund_id <> $1`, gone)
	e.is(gone, checkout.RefundCancelled)
	if got := e.texts(`SELECT refund_id FROM withdrawals WHERE refund_id IS NOT NULL`); !slices.Equal(got, ids) {
		t.Errorf("got payments of the refunds %v, want %v", got, ids)
	}
	e.until(ids[0], checkout.RefundCompleted)
	e.books(dollars, 50*million, 0)
}

// A process that noticed the end of a payment late returns nothing: the refund has another address meanwhile, and a
// payment to it. Rules CO-83 and CO-85.
func TestALateLookAtAnEndedPaymentLeavesTheNextOne(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.setting("twoFactorUsdThreshold", `"50"`)
	r, key := e.refund(request(e.paid(100 * million)))
	e.must(e.claim(r.ID, key, home))
	first := e.until(r.ID, checkout.RefundSent)
	_, err := e.Withdrawals.Remove(e.ctx, e.org, first.WithdrawalID, audit.User("bob"), "not this one")
	e.must(err)
	late := e.open(e.db)
	late.Checkouts.Payouts = &slowPayouts{late.Checkouts.Payouts, func() {
		e.advance(time.Minute)
		e.must(e.Checkouts.FollowRefunds(e.ctx))
		e.must(e.claim(r.ID, key, second))
		e.must(e.Checkouts.FollowRefunds(e.ctx))
	}}
	e.advance(time.Minute)
	e.must(late.Checkouts.FollowRefunds(e.ctx))
	got := e.is(r.ID, checkout.RefundSent)
	if got.Attempt != 2 || got.ToAddress != second || got.WithdrawalID == first.WithdrawalID {
		t.Errorf("got %+v, want the payment of the second attempt", got)
	}
	_, err = e.Withdrawals.Approve(e.ctx, e.org, got.WithdrawalID, audit.User("bob"))
	e.must(err)
	e.until(r.ID, checkout.RefundCompleted)
	e.has(second, dollars, 100*million)
	e.books(dollars, 0, 0)
}
