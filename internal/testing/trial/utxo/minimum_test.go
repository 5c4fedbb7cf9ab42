package utxo

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// dust is the least amount that the network relays to the address of a key (P2WPKH).
const dust = 294

// deductedRequest returns a request whose fee is deducted from the amount.
func deductedRequest(h *testEnv, amount money.Amount, to chain.Address) withdrawal.Request {
	return withdrawal.Request{
		MintID: btc, CustomerID: "alice", Amount: amount.String(), ToAddress: string(to),
		FeeMode: withdrawal.FeeDeducted, Actor: audit.APIKey(h.org),
	}
}

// fullAmountRequest returns a request whose destination receives the full amount.
func fullAmountRequest(h *testEnv, amount uint64, to chain.Address) withdrawal.Request {
	r := deductedRequest(h, money.Units(amount), to)
	r.FeeMode = ""
	return r
}

// wantNoApproval checks that another withdrawal of the organization needs no approval.
func (h *testEnv) wantNoApproval(to chain.Address) {
	h.Helper()
	got, err := h.Harness.Withdrawals.Preview(h.ctx, h.org, fullAmountRequest(h, 100_000, to))
	h.mustSucceed(err)
	if got.WouldBe != withdrawal.Processing || len(got.Reasons) != 0 {
		h.Errorf("another withdrawal would be %s %v, want PROCESSING []", got.WouldBe, got.Reasons)
	}
	h.mustSucceed(h.db.ReadSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		blocked, err := dispatch.ListImmovableFunds(ctx, tx, h.org, btc)
		if len(blocked) != 0 {
			h.Errorf("got %+v for blocked, want nothing", blocked)
		}
		return err
	}))
}

func addUnits(t *testing.T, a money.Amount, b uint64) money.Amount {
	t.Helper()
	sum, err := a.Add(money.Units(b))
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// Rules WD-41 and WD-42, on a real chain. At 70 satoshi a virtual byte the fee leaves an amount
// that the network does not relay.
func TestOnARealChainWhatTheFeeLeavesHasToReachThePayee(t *testing.T) {
	t.Parallel()
	n := newBtcdEnvWith(t, bitcoin.Config{RateMin: 70_000})
	n.payWallet(n.treasury, 1_000_000) // fees
	n.payWallet(n.alice, 25_000_000)
	n.finalizeAll()
	to, other := newPayee(t), newPayee(t)
	// The fee of a payment depends on whether there is a treasury, so the test asks for it after
	// there is one.
	first := n.requestWithdrawalTo(1_000_000, other)
	n.runAllSteps()
	n.wantStatus(first, "BROADCAST")
	n.finalizeAll()
	n.wantStatus(first, "PAID")
	p, err := n.Harness.Withdrawals.Preview(n.ctx, n.org, deductedRequest(n.testEnv, money.Units(1_000_000), to))
	n.mustSucceed(err)
	fee := *p.NetworkFee

	for _, left := range []uint64{1, 201, dust - 1} {
		r := deductedRequest(n.testEnv, addUnits(t, fee, left), to)
		if _, err := n.Harness.Withdrawals.Preview(n.ctx, n.org, r); !fault.HasCode(err, fault.AmountBelowMinimum) {
			t.Errorf("a preview of %d satoshi to the payee: got %v, want AMOUNT_BELOW_MINIMUM", left, err)
		}
		w, _, err := n.Harness.Withdrawals.Request(n.ctx, n.org, r)
		f := fault.Find(err)
		if f == nil || f.Code != fault.AmountBelowMinimum {
			t.Errorf("a request of %d satoshi to the payee: got %s %v, want AMOUNT_BELOW_MINIMUM", left, w.Status, err)
		} else if got, want := f.Details["minWithdrawAmount"], addUnits(t, fee, dust).String(); got != want {
			t.Errorf("the smallest amount: got %v, want %s", got, want)
		}
	}
	n.runAllSteps()
	n.wantNoApproval(other)

	// The smallest amount that reaches the payee is paid.
	w, _, err := n.Harness.Withdrawals.Request(n.ctx, n.org, deductedRequest(n.testEnv, addUnits(t, fee, dust), to))
	n.mustSucceed(err)
	n.runAllSteps()
	n.wantStatus(w.ID, "BROADCAST")
	n.finalizeAll()
	n.wantStatus(w.ID, "PAID")
	if got := n.finalBalance(to); got != money.Units(dust) {
		t.Errorf("the payee has %v, want %d", got, dust)
	}
	n.wantNoApproval(other)
	n.checkBooks()
}

// skipPrechecks creates withdrawals without the check that the amount reaches the payee, as when
// the chain does not answer, or as before that check existed. again switches the check on.
func (h *testEnv) skipPrechecks() (again func()) {
	on := h.Harness.Withdrawals.Chains
	blind := on[chain.Bitcoin]
	blind.MinPayment = nil
	h.Harness.Withdrawals.Chains = chain.Chains{chain.Bitcoin: blind}
	return func() { h.Harness.Withdrawals.Chains = on }
}

func (h *testEnv) wantWithdrawal(id, status string, reasons ...string) {
	h.Helper()
	found, err := h.Harness.Withdrawals.ByID(h.ctx, h.org, id)
	h.mustSucceed(err)
	w := wire.Withdrawal(found)
	if got, want := w.Status+" "+strings.Join(w.ApprovalReasons, ","),
		status+" "+strings.Join(reasons, ","); got != want {
		h.Errorf("withdrawal %s: got %s, want %s", id, got, want)
	}
}

// Rules WD-41 and WD-42, on a real chain: a payment that cannot reach its payee goes back to people
// and delays no other, not even one that would share its transaction.
func TestOnARealChainAPaymentOfDustGoesBackToPeople(t *testing.T) {
	t.Parallel()
	n := newBtcdEnv(t)
	n.payWallet(n.treasury, 1_000_000) // fees
	n.payWallet(n.alice, 25_000_000)
	n.payWallet(n.alice, 26_000_000)
	n.finalizeAll()
	again := n.skipPrechecks()
	var good []string
	request := func(amount uint64) string {
		w, _, err := n.Harness.Withdrawals.Request(n.ctx, n.org, fullAmountRequest(n.testEnv, amount, newPayee(t)))
		n.mustSucceed(err)
		return w.ID
	}
	good = append(good, request(1_000_000))
	bad := request(dust - 1)
	good = append(good, request(2_000_000))
	again()
	n.runAllSteps()
	for _, id := range good {
		n.wantStatus(id, "BROADCAST")
	}
	n.wantStatus(bad, "REFUSED")
	n.wantWithdrawal(bad, "AWAITING_APPROVAL", "DESTINATION_ADDRESS")
	n.wantNoApproval(newPayee(t))
	if _, err := n.Harness.Withdrawals.Approve(
		n.ctx, n.org, bad, audit.User("ann"),
	); !fault.HasCode(err, fault.ApprovalRefused) || !strings.Contains(err.Error(), fmt.Sprint(dust)) {
		t.Errorf("an approval: got %v, want it refused with the smallest amount", err)
	}
	before := queryCount(n.testEnv, `SELECT count(*) FROM ledger_transfers WHERE cause_id = $1`, bad)
	_, err := n.Harness.Withdrawals.Cancel(n.ctx, n.org, bad, audit.APIKey(n.org))
	n.mustSucceed(err)
	n.wantWithdrawal(bad, "CANCELLED", "DESTINATION_ADDRESS")
	if got := queryCount(n.testEnv, `SELECT count(*) FROM ledger_transfers WHERE cause_id = $1`, bad); got != before+1 {
		t.Errorf("got %d postings of it, want its hold and its release", got)
	}
	n.finalizeAll()
	for _, id := range good {
		n.wantStatus(id, "PAID")
	}
	n.checkBooks()
}

// Rule WD-41. An approval checks again what the fee leaves of a held withdrawal: the fee may have
// risen since.
func TestAnApprovalAsksWhetherTheAmountStillReachesThePayee(t *testing.T) {
	t.Parallel()
	h := newTestEnvWith(t, sim.Config{MinPayment: 40})
	h.depositOutputs(h.treasury, 500)
	h.depositOutputs(h.alice, 1000)
	r := deductedRequest(h, money.Units(60), sim.Address("payee"))
	r.RequireApproval = true
	w, _, err := h.Harness.Withdrawals.Request(h.ctx, h.org, r)
	h.mustSucceed(err)
	h.net.SetBaseFee(21)
	if _, err := h.Harness.Withdrawals.Approve(
		h.ctx, h.org, w.ID, audit.User("ann"),
	); !fault.HasCode(err, fault.ApprovalRefused) || !strings.Contains(err.Error(), "would receive 39 ") {
		t.Errorf("with a fee of 21: got %v, want it refused, for 39 of 40 would arrive", err)
	}
	h.wantWithdrawal(w.ID, "AWAITING_APPROVAL", "REQUIRE_APPROVAL")
	h.net.SetBaseFee(20)
	_, err = h.Harness.Withdrawals.Approve(h.ctx, h.org, w.ID, audit.User("ann"))
	h.mustSucceed(err)
	h.net.SetBaseFee(30) // the approval has fixed what reaches the payee
	h.runAllSteps()
	h.wantStatus(w.ID, "BROADCAST")
	h.mineUntilFinal(4)
	h.wantStatus(w.ID, "PAID")
	if got := h.net.Received(sim.Address("payee"), ""); got != money.Units(40) {
		t.Errorf("the payee has %v, want 40", got)
	}
	h.checkBooks()
}

// Rule WD-43. When an order ends and gets a slot at the same moment, one of the two wins, for each
// way to end it.
func TestEndingAnOrderAndItsSlotHaveOneWinner(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.depositOutputs(h.treasury, 1000)
	for range 12 {
		h.depositOutputs(h.alice, 100)
	}
	slots, ends := 0, 0
	for i := range 12 {
		// The chain did not answer, and answers now.
		id := h.requestWithdrawal(50)
		_, err := pgtest.OwnerPool(t, h.db).Exec(
			h.ctx, `UPDATE dispatch_orders SET waiting_for = 'CHAIN' WHERE order_id = $1`, id,
		)
		h.mustSucceed(err)
		h.advanceClock(3 * time.Second)
		var wg sync.WaitGroup
		var ended bool
		wg.Go(func() {
			if _, err := h.DispatchWorker.RunRound(h.ctx); err != nil {
				t.Errorf("round: %v", err)
			}
		})
		wg.Go(func() {
			var err error
			if i%2 == 0 {
				_, err = h.Harness.Withdrawals.Cancel(h.ctx, h.org, id, audit.APIKey(h.org))
			} else {
				_, err = h.Harness.Withdrawals.Remove(h.ctx, h.org, id, audit.User("ann"), "")
			}
			if ended = err == nil; !ended && !fault.HasCode(err, fault.InvalidState) {
				t.Errorf("end: got %v, want it done or INVALID_STATE", err)
			}
		})
		wg.Wait()
		slotted := queryCount(h, `SELECT count(*) FROM dispatch_slots WHERE order_id = $1`, id) == 1
		switch {
		case slotted == ended:
			t.Fatalf("withdrawal %s: slotted %v and ended %v, want one of them", id, slotted, ended)
		case ended:
			ends++
			h.wantStatus(id, "WITHDRAWN")
		default:
			slots++
		}
		h.runAllSteps()
		h.mineUntilFinal(4)
		h.checkBooks()
	}
	t.Logf("%d had their slot first, %d ended first", slots, ends)
}

// Rule COIN-10. A payment that needs more outputs than one transaction spends does not wait without
// end: some are consolidated at the fee rate of payments, and the payment is made.
func TestAPaymentOfMoreOutputsThanATransactionSpendsHasThemConsolidated(t *testing.T) {
	t.Parallel()
	// The rate is never low, and there are never many outputs.
	h := newTestEnvWith(t, sim.Config{InputsMax: 3, ConsolidationMin: 100, ConsolidationFeeMax: 1})
	h.depositOutputs(h.treasury, 150)
	h.depositOutputs(h.alice, 100, 100, 100, 100, 100, 100)
	id := h.requestWithdrawal(560)
	round := func() {
		_, err := h.DispatchWorker.RunRound(h.ctx)
		h.mustSucceed(err)
	}
	round()
	h.wantStatus(id, "QUEUED MERGE")
	shown := h.queryText(`SELECT last_error FROM dispatch_orders WHERE order_id = $1`, id)
	if shown == "" {
		t.Error("the order does not say why it waits")
	}
	h.runAllSteps()
	h.wantConsolidations("OPEN BROADCAST")
	h.wantStatus(id, "QUEUED COINS") // until the consolidated output is final
	// Outputs that a payment can reach are left for payments.
	small := h.requestWithdrawal(30)
	h.advanceClock(3 * time.Second)
	h.runAllSteps()
	h.wantStatus(small, "BROADCAST")
	for range 6 {
		h.mineUntilFinal(4)
		h.advanceClock(3 * time.Second)
		h.runAllSteps()
	}
	h.wantStatus(id, "PAID")
	h.wantStatus(small, "PAID")
	h.checkBooks()
}
