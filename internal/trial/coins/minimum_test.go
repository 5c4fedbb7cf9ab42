package coins

import (
	"context"
	"testing"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// dust is the least that the network passes on to the address of a key (P2WPKH).
const dust = 294

// deducted is a request whose fee comes out of the amount.
func deducted(h *house, amount money.Amount, to chain.Address) withdrawal.Request {
	return withdrawal.Request{
		MintID: btc, CustomerID: "alice", Amount: amount.String(), ToAddress: string(to), FeeMode: withdrawal.FeeDeducted, Actor: audit.APIKey(h.org),
	}
}

// pays is a request of an amount that the destination receives.
func pays(h *house, amount uint64, to chain.Address) withdrawal.Request {
	r := deducted(h, money.Units(amount), to)
	r.FeeMode = ""
	return r
}

// flows wants another withdrawal of the organization to need nobody.
func (h *house) flows(to chain.Address) {
	h.Helper()
	got, err := h.Pay.Preview(h.ctx, h.org, pays(h, 100_000, to))
	h.must(err)
	if got.WouldBe != withdrawal.Processing || len(got.Reasons) != 0 {
		h.Errorf("another withdrawal would be %s %v, want PROCESSING []", got.WouldBe, got.Reasons)
	}
	h.must(h.db.ReadSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		blocked, err := dispatch.Blocked(ctx, tx, h.org, btc)
		if len(blocked) != 0 {
			h.Errorf("got %+v for blocked, want nothing", blocked)
		}
		return err
	}))
}

func plus(t *testing.T, a money.Amount, b uint64) money.Amount {
	t.Helper()
	sum, err := a.Add(money.Units(b))
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// Rules WD-41 and WD-42, on a real chain. At 70 satoshi a virtual byte the fee leaves an
// amount that the network does not pass on.
func TestOnARealChainWhatTheFeeLeavesHasToReachThePayee(t *testing.T) {
	t.Parallel()
	n := openNodeWith(t, bitcoin.Config{RateMin: 70_000})
	n.pay(n.treasury, 1_000_000) // fees
	n.pay(n.alice, 25_000_000)
	n.final()
	to, other := payee(t), payee(t)
	// The fee of a payment depends on whether there is a treasury, so it is asked when there is one.
	first := n.withdrawTo(1_000_000, other)
	n.step()
	n.want(first, "BROADCAST")
	n.final()
	n.want(first, "PAID")
	p, err := n.Works.Pay.Preview(n.ctx, n.org, deducted(n.house, money.Units(1_000_000), to))
	n.must(err)
	fee := *p.NetworkFee

	for _, left := range []uint64{1, 201, dust - 1} {
		r := deducted(n.house, plus(t, fee, left), to)
		if _, err := n.Works.Pay.Preview(n.ctx, n.org, r); !fault.Is(err, fault.AmountBelowMinimum) {
			t.Errorf("a preview of %d satoshi to the payee: got %v, want AMOUNT_BELOW_MINIMUM", left, err)
		}
		w, _, err := n.Works.Pay.Request(n.ctx, n.org, r)
		f := fault.Of(err)
		if f == nil || f.Code != fault.AmountBelowMinimum {
			t.Errorf("a request of %d satoshi to the payee: got %s %v, want AMOUNT_BELOW_MINIMUM", left, w.Status, err)
		} else if got, want := f.Details["minWithdrawAmount"], plus(t, fee, dust).String(); got != want {
			t.Errorf("the smallest amount: got %v, want %s", got, want)
		}
	}
	n.step()
	n.flows(other)

	// What just reaches the payee is paid.
	w, _, err := n.Works.Pay.Request(n.ctx, n.org, deducted(n.house, plus(t, fee, dust), to))
	n.must(err)
	n.step()
	n.want(w.WithdrawalID, "BROADCAST")
	n.final()
	n.want(w.WithdrawalID, "PAID")
	if got := n.has(to); got != money.Units(dust) {
		t.Errorf("the payee has %v, want %d", got, dust)
	}
	n.flows(other)
	n.sound()
}
