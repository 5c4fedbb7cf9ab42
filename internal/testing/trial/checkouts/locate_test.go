package checkouts

import (
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
)

// A payer asks for a transaction in every state of it, and hears only of the own checkout. Rule CO-18.
func TestAPayerFindsTheOwnPaymentAndNoOther(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	productID := e.product()
	mine := e.checkout(request(productID), dollars)
	another := e.checkout(request(productID, otherOf("key-2")), dollars)
	_, err := e.Checkouts.LocatePayment(e.ctx, mine, "not a hash")
	e.wantFault(err, fault.InvalidRequest)
	_, err = e.Checkouts.LocatePayment(e.ctx, "co_00000000000000000000000000", strings.Repeat("ab", 32))
	e.wantFault(err, fault.CodeNotFound)

	unknown, err := e.Checkouts.LocatePayment(e.ctx, mine, strings.Repeat("ab", 32))
	if e.must(err); unknown.Chain != "" || unknown.Payment != nil || unknown.IsComing {
		t.Errorf("an unknown hash: got %+v, want nothing", unknown)
	}
	hash := e.paid(mine, dollars, 100*million)
	found, err := e.Checkouts.LocatePayment(e.ctx, mine, string(hash))
	if e.must(err); found.Payment == nil || found.Payment.Tx != hash || found.Chain != chain.Ethereum {
		t.Errorf("got %+v, want the payment", found)
	}
	elsewhere, err := e.Checkouts.LocatePayment(e.ctx, another, string(hash))
	if e.must(err); elsewhere.Payment != nil || elsewhere.IsComing {
		t.Errorf("the payment of another checkout: got %+v, want nothing of it", elsewhere)
	}
	if got := e.load(another).Payments; len(got) != 0 {
		t.Errorf("a question has assigned %+v", got)
	}
}

// Until the walk has its block, the chain says that a payment is coming. Rule CO-18.
func TestAPaymentIsFoundBeforeItsBlockIsWalked(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	mine := e.checkout(request(e.product()), dollars)
	hash := e.pay(mine, dollars, 100*million)
	e.mine(1)
	found, err := e.Checkouts.LocatePayment(e.ctx, mine, string(hash))
	if e.must(err); found.Payment != nil || !found.IsComing || found.Chain != chain.Ethereum {
		t.Errorf("got %+v, want a payment that is coming", found)
	}
}
