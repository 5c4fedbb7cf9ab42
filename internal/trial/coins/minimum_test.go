package coins

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
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
	got, err := h.Works.Pay.Preview(h.ctx, h.org, pays(h, 100_000, to))
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

// unasked takes withdrawals of which nobody asks beforehand whether they reach the payee,
// as when the chain did not say, or as they were taken before it was asked.
func (h *house) unasked() (again func()) {
	on := h.Works.Pay.Chains
	blind := on[chain.Bitcoin]
	blind.Minimums = nil
	h.Works.Pay.Chains = chain.Chains{chain.Bitcoin: blind}
	return func() { h.Works.Pay.Chains = on }
}

func (h *house) wantWithdrawal(id, status string, reasons ...string) {
	h.Helper()
	w, err := h.Works.Pay.ByID(h.ctx, h.org, id)
	h.must(err)
	if got, want := w.Status+" "+strings.Join(w.ApprovalReasons, ","), status+" "+strings.Join(reasons, ","); got != want {
		h.Errorf("withdrawal %s: got %s, want %s", id, got, want)
	}
}

// Rules WD-41 and WD-42, on a real chain: what cannot reach its payee goes back to people
// and makes nobody wait, also those that would share its transaction.
func TestOnARealChainAPaymentOfDustGoesBackToPeople(t *testing.T) {
	t.Parallel()
	n := openNode(t)
	n.pay(n.treasury, 1_000_000) // fees
	n.pay(n.alice, 25_000_000)
	n.pay(n.alice, 26_000_000)
	n.final()
	again := n.unasked()
	var good []string
	request := func(amount uint64) string {
		w, _, err := n.Works.Pay.Request(n.ctx, n.org, pays(n.house, amount, payee(t)))
		n.must(err)
		return w.WithdrawalID
	}
	good = append(good, request(1_000_000))
	bad := request(dust - 1)
	good = append(good, request(2_000_000))
	again()
	n.step()
	for _, id := range good {
		n.want(id, "BROADCAST")
	}
	n.want(bad, "REFUSED")
	n.wantWithdrawal(bad, "AWAITING_APPROVAL", "DESTINATION_ADDRESS")
	n.flows(payee(t))
	if _, err := n.Works.Pay.Approve(n.ctx, n.org, bad, audit.User("ann")); !fault.Is(err, fault.ApprovalRefused) || !strings.Contains(err.Error(), fmt.Sprint(dust)) {
		t.Errorf("an approval: got %v, want it refused with the smallest amount", err)
	}
	before := count(n.house, `SELECT count(*) FROM ledger_transfers WHERE cause_id = $1`, bad)
	_, err := n.Works.Pay.Cancel(n.ctx, n.org, bad, audit.APIKey(n.org))
	n.must(err)
	n.wantWithdrawal(bad, "CANCELLED", "DESTINATION_ADDRESS")
	if got := count(n.house, `SELECT count(*) FROM ledger_transfers WHERE cause_id = $1`, bad); got != before+1 {
		t.Errorf("got %d postings of it, want its hold and its release", got)
	}
	n.final()
	for _, id := range good {
		n.want(id, "PAID")
	}
	n.sound()
}

// Rule WD-41. What the fee leaves of a held withdrawal is asked again when it is approved:
// the fee may have risen since.
func TestAnApprovalAsksWhetherTheAmountStillReachesThePayee(t *testing.T) {
	t.Parallel()
	h := openWith(t, sim.Config{Least: 40})
	h.arrives(h.treasury, 500)
	h.arrives(h.alice, 1000)
	r := deducted(h, money.Units(60), sim.Address("payee"))
	r.RequireApproval = true
	w, _, err := h.Works.Pay.Request(h.ctx, h.org, r)
	h.must(err)
	h.net.SetBaseFee(21)
	if _, err := h.Works.Pay.Approve(h.ctx, h.org, w.WithdrawalID, audit.User("ann")); !fault.Is(err, fault.ApprovalRefused) || !strings.Contains(err.Error(), "it would receive 39") {
		t.Errorf("with a fee of 21: got %v, want it refused, for 39 of 40 would arrive", err)
	}
	h.wantWithdrawal(w.WithdrawalID, "AWAITING_APPROVAL", "REQUIRE_APPROVAL")
	h.net.SetBaseFee(20)
	_, err = h.Works.Pay.Approve(h.ctx, h.org, w.WithdrawalID, audit.User("ann"))
	h.must(err)
	h.net.SetBaseFee(30) // what reaches the payee is decided now
	h.step()
	h.want(w.WithdrawalID, "BROADCAST")
	h.mine(4)
	h.want(w.WithdrawalID, "PAID")
	if got := h.net.Received(sim.Address("payee"), ""); got != money.Units(40) {
		t.Errorf("the payee has %v, want 40", got)
	}
	h.sound()
}

// Rule WD-43. Of ending an order and giving it a slot one wins, whoever ends it.
func TestEndingAnOrderAndItsSlotHaveOneWinner(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.arrives(h.treasury, 1000)
	for range 12 {
		h.arrives(h.alice, 100)
	}
	slots, ends := 0, 0
	for i := range 12 {
		// The chain did not answer, and does now.
		id := h.withdraw(50)
		_, err := pgtest.Owner(t, h.db).Exec(h.ctx, `UPDATE dispatch_orders SET waiting_for = 'CHAIN' WHERE order_id = $1`, id)
		h.must(err)
		h.later(3 * time.Second)
		var wg sync.WaitGroup
		var ended bool
		wg.Go(func() {
			if _, err := h.Out.Round(h.ctx); err != nil {
				t.Errorf("round: %v", err)
			}
		})
		wg.Go(func() {
			var err error
			if i%2 == 0 {
				_, err = h.Works.Pay.Cancel(h.ctx, h.org, id, audit.APIKey(h.org))
			} else {
				_, err = h.Works.Pay.Remove(h.ctx, h.org, id, audit.User("ann"), "")
			}
			if ended = err == nil; !ended && !fault.Is(err, fault.InvalidState) {
				t.Errorf("end: got %v, want it done or INVALID_STATE", err)
			}
		})
		wg.Wait()
		slotted := count(h, `SELECT count(*) FROM dispatch_slots WHERE order_id = $1`, id) == 1
		switch {
		case slotted == ended:
			t.Fatalf("withdrawal %s: slotted %v and ended %v, want one of them", id, slotted, ended)
		case ended:
			ends++
			h.want(id, "WITHDRAWN")
		default:
			slots++
		}
		h.step()
		h.mine(4)
		h.sound()
	}
	t.Logf("%d had their slot first, %d ended first", slots, ends)
}

// Rule COIN-10. More coins than one transaction spends are no reason to wait without end:
// some become one at the rate of payments, and the payment is made.
func TestAPaymentOfMoreCoinsThanATransactionSpendsHasThemMerged(t *testing.T) {
	t.Parallel()
	h := openWith(t, sim.Config{Inputs: 3, MergeFrom: 100, MergeFee: 1}) // never low, and never many
	h.arrives(h.treasury, 150)
	h.arrives(h.alice, 100, 100, 100, 100, 100, 100)
	id := h.withdraw(560)
	round := func() {
		_, err := h.Out.Round(h.ctx)
		h.must(err)
	}
	round()
	h.want(id, "QUEUED MERGE")
	shown := h.text(`SELECT last_error FROM dispatch_orders WHERE order_id = $1`, id)
	if shown == "" {
		t.Error("the order does not say why it waits")
	}
	h.step()
	h.merged("OPEN BROADCAST")
	h.want(id, "QUEUED COINS") // until what they became is final
	// Those that a payment reaches are left to payments.
	small := h.withdraw(30)
	h.later(3 * time.Second)
	h.step()
	h.want(small, "BROADCAST")
	for range 6 {
		h.mine(4)
		h.later(3 * time.Second)
		h.step()
	}
	h.want(id, "PAID")
	h.want(small, "PAID")
	h.sound()
}
