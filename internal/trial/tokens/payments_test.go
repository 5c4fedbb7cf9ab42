package tokens

import (
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/money"
)

var shop = common.HexToAddress("0x5405405405405405405405405405405405405405")

// furnish credits 500,000 to ann on her address and as much to nobody on the
// treasury, from where it is paid without a sweep.
func (h *house) furnish(mintID int, c evmtoken.Contract) {
	h.Helper()
	for _, to := range []common.Address{h.customer("ann"), raw(h.treasury.Address)} {
		if c == evmtoken.LyingToken { // which can also tell the truth
			h.act(mintID, c, "exaggerate", to, big.NewInt(500_000), big.NewInt(500_000))
		} else {
			h.pay(mintID, to, 500_000)
		}
	}
	h.settle()
	h.has("ann", mintID, 500_000)
}

// overtaken has something happen on the chain before a payment that is in the pool.
func (h *house) overtaken(id string, happens func()) {
	h.Helper()
	hash := common.HexToHash(h.word(`SELECT tx_hash FROM dispatch_attempts WHERE order_id = $1 AND sent_at IS NOT NULL`, id))
	h.must(h.node.DropTransaction(h.ctx, hash))
	happens()
	h.mine(1)
	h.later(6 * turn) // until it is sent again
}

// order is the status of an order and what it waits for.
func (h *house) order(id string) string {
	h.Helper()
	return strings.TrimSpace(h.word(`SELECT status || ' ' || coalesce(waiting_for, '') FROM dispatch_orders WHERE order_id = $1`, id))
}

// H-54 and H-72. Rules WD-9 and WD-15.
func TestAPaymentThatTheBalancesDoNotShowIsNeitherPaidNorFailed(t *testing.T) {
	t.Parallel()
	become := func(c evmtoken.Contract) func(h *house) {
		return func(h *house) {
			code, err := h.node.Deploy(h.ctx, c, "", "", uint8(0))
			h.must(err)
			h.act(usdc, evmtoken.Proxy, "proxyUpgradeTo", code)
			h.mine(1)
		}
	}
	for _, c := range []struct {
		name     string
		token    func(h *house) common.Address
		contract evmtoken.Contract
		changes  func(h *house) // before the payment is asked for
		overtake func(h *house) // before it is mined
		beside   func(h *house) // in its block
		arrives  int64
	}{
		{name: "announced and not made", token: usual(evmtoken.LyingToken), contract: evmtoken.LyingToken},
		{
			name: "false without a word", token: usual(evmtoken.FalseToken), contract: evmtoken.FalseToken,
			overtake: func(h *house) { h.act(usdc, evmtoken.FalseToken, "refuse", true) },
		},
		{name: "less a fee, since an upgrade", token: fiat, contract: evmtoken.FiatToken, changes: become(evmtoken.FeeToken), arrives: 99_000},
		{
			name: "in the block of a rebase", token: usual(evmtoken.RebasingToken), contract: evmtoken.RebasingToken,
			beside: func(h *house) { h.act(usdc, evmtoken.RebasingToken, "rebase", big.NewInt(1), big.NewInt(2)) }, arrives: 100_000,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := open(t, listed{usdc: c.token})
			h.furnish(usdc, c.contract)
			if c.changes != nil {
				c.changes(h)
			}
			id := h.withdraw("ann", usdc, "100000", shop)
			h.turn()
			h.wantWithdrawal(id, "BROADCAST")
			if c.overtake != nil {
				h.overtaken(id, func() { c.overtake(h) })
			}
			if c.beside != nil {
				c.beside(h)
			}
			h.settle()
			if got := h.order(id); got != "STUCK" {
				t.Errorf("got the order %s, want STUCK", got)
			}
			h.wantWithdrawal(id, "BROADCAST")
			h.has("ann", usdc, 400_000)
			if f := h.funds(h.treasury, usdc); f.Reserved != money.Units(100_000) || !f.Swept.IsZero() {
				t.Errorf("got %v reserved and %v gone, want 100000 and 0", f.Reserved, f.Swept)
			}
			h.wantQuarantine(usdc)
			h.holds(usdc, shop, c.arrives)
			if n := h.number(`SELECT count(*) FROM ledger_transfers WHERE cause_kind = 'WITHDRAWAL_END'`); n != 0 {
				t.Errorf("got %d ends of a hold, want none: the money might have moved", n)
			}
			// And it stays so until a person decides.
			h.release(usdc)
			h.settle()
			if got := h.order(id); got != "STUCK" {
				t.Errorf("after the release: got the order %s, want STUCK", got)
			}
		})
	}
}

// H-72. Rule WD-10.
func TestWhatATokenAnswersToAPaymentThatItMadeDoesNotMatter(t *testing.T) {
	t.Parallel()
	h := open(t, listed{usdc: usual(evmtoken.Tether), 3: usual(evmtoken.FalseToken)})
	h.furnish(usdc, evmtoken.Tether)
	h.furnish(3, evmtoken.FalseToken)
	nothing, no := h.withdraw("ann", usdc, "100000", shop), h.withdraw("ann", 3, "100000", shop)
	h.turn()
	h.overtaken(no, func() { h.act(3, evmtoken.FalseToken, "deny", true) })
	for _, id := range []string{nothing, no} {
		h.ends(id)
		h.wantWithdrawal(id, "COMPLETED")
	}
	h.holds(usdc, shop, 100_000)
	h.holds(3, shop, 100_000)
	h.wantQuarantine()
	h.sound()
	// A token that says beforehand that it will not transfer is not asked to.
	held := h.withdraw("ann", 3, "100000", shop)
	h.settle()
	h.wantWithdrawal(held, "PROCESSING")
	if got := h.order(held); got != "QUEUED SIMULATION" {
		t.Errorf("got the order %s, want it QUEUED for SIMULATION", got)
	}
	h.act(3, evmtoken.FalseToken, "deny", false)
	h.ends(held)
	h.wantWithdrawal(held, "COMPLETED")
	h.sound()
}

// H-72: a sweep is a payment of ours like any other. Rule WD-15.
func TestASweepThatTheBalancesDoNotShowIsLeftToAPerson(t *testing.T) {
	t.Parallel()
	h := open(t, listed{usdc: usual(evmtoken.LyingToken)})
	ann := h.customer("ann")
	h.act(usdc, evmtoken.LyingToken, "exaggerate", ann, big.NewInt(500_000), big.NewInt(500_000))
	h.settle()
	h.has("ann", usdc, 500_000)
	_, err := h.Sweeper.All(h.ctx)
	h.must(err)
	h.settle()
	h.settle()
	if n := h.number(`SELECT count(*) FROM sweeps s JOIN dispatch_orders o ON o.order_id = s.sweep_id WHERE s.status = 'OPEN' AND o.status = 'STUCK'`); n != 1 {
		t.Errorf("got %d sweeps stuck, want one", n)
	}
	h.wantQuarantine(usdc)
	if f := h.funds(h.treasury, usdc); !f.Credited.IsZero() {
		t.Errorf("got %v credited to the treasury, want nothing", f.Credited)
	}
	h.has("ann", usdc, 500_000)
}
