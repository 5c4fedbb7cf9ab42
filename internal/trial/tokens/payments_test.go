package tokens

import (
	"context"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
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
			paid := c.arrives > 0
			decide := func() error {
				return dispatch.Decide(h.ctx, h.db, map[signer.Purpose]dispatch.Listener{signer.Payment: h.Pay}, id, paid, audit.Operator("op"), "looked at the chain")
			}
			h.must(decide())
			if err := decide(); !errors.Is(err, dispatch.ErrNotStuck) {
				t.Errorf("decided again: got %v, want ErrNotStuck", err)
			}
			if paid {
				h.wantWithdrawal(id, "COMPLETED")
				h.has("ann", usdc, 400_000)
			} else {
				h.wantWithdrawal(id, "FAILED")
				h.has("ann", usdc, 500_000)
			}
			h.wantIlliquid(usdc)
			if c.beside == nil { // a rebase stays a breach
				h.sound()
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

// H-55. Rules WD-13 and WD-17: what a token keeps us from moving is known to be
// illiquid, costs nothing, and moves on when it may.
func TestATokenThatIsPausedHoldsUpItsPaymentsAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		stop, resume func(h *house)
	}{
		{
			"paused",
			func(h *house) { h.act(usdc, evmtoken.FiatToken, "pause") },
			func(h *house) { h.act(usdc, evmtoken.FiatToken, "unpause") },
		},
		{
			"our treasury blocked",
			func(h *house) { h.act(usdc, evmtoken.FiatToken, "blacklist", raw(h.treasury.Address)) },
			func(h *house) { h.act(usdc, evmtoken.FiatToken, "unBlacklist", raw(h.treasury.Address)) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := open(t, listed{usdc: fiat, 3: usual(evmtoken.Tether)})
			h.furnish(usdc, evmtoken.FiatToken)
			h.furnish(3, evmtoken.Tether)
			c.stop(h)
			h.mine(1)
			first := h.withdraw("ann", usdc, "1000", shop)
			h.settle()
			h.wantWithdrawal(first, "PROCESSING")
			if got := h.order(first); got != "QUEUED SIMULATION" {
				t.Errorf("got the order %s, want it QUEUED for SIMULATION", got)
			}
			held := h.withdraw("ann", usdc, "1000", shop)
			h.wantWithdrawal(held, "AWAITING_APPROVAL", "LOW_LIQUIDITY")
			other := h.withdraw("ann", 3, "1000", shop)
			h.ends(other)
			h.wantWithdrawal(other, "COMPLETED")
			h.settle()
			h.wantIlliquid(usdc, h.treasury.ID)
			if n := h.number(`SELECT count(*) FROM dispatch_slots s JOIN dispatch_orders o USING (order_id) WHERE o.mint_id = $1`, usdc); n != 0 {
				t.Errorf("got %d slots, want none: nothing is signed that would revert", n)
			}
			c.resume(h)
			h.later(10 * turn)
			h.ends(first)
			h.wantWithdrawal(first, "COMPLETED")
			h.wantIlliquid(usdc)
			free := h.withdraw("ann", usdc, "1000", shop)
			h.ends(free)
			h.wantWithdrawal(free, "COMPLETED")
			h.holds(usdc, shop, 2000)
			h.sound()
		})
	}
}

// wantIlliquid checks of which wallets the service knows that they cannot part with a token.
func (h *house) wantIlliquid(mintID int, want ...string) {
	h.Helper()
	var got []string
	h.must(h.db.ReadSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		blocked, err := dispatch.Blocked(ctx, tx, h.org, mintID)
		got = nil
		for _, b := range blocked {
			got = append(got, b.WalletID)
		}
		return err
	}))
	if !slices.Equal(got, want) {
		h.Errorf("illiquid in mint %d: got %v, want %v", mintID, got, want)
	}
}

// H-55. Rules WD-13 and WD-17.
func TestAnAddressThatTheTokenBlocksIsSweptWhenItMayBe(t *testing.T) {
	t.Parallel()
	h := open(t, listed{usdc: fiat})
	ann, bob := h.customer("ann"), h.customer("bob")
	h.pay(usdc, ann, 300_000)
	h.pay(usdc, bob, 200_000)
	h.settle()
	h.act(usdc, evmtoken.FiatToken, "blacklist", ann)
	h.mine(1)
	_, err := h.Sweeper.All(h.ctx)
	h.must(err)
	h.settle()
	h.settle()
	h.holds(usdc, raw(h.treasury.Address), 200_000)
	blocked := h.word(`SELECT wallet_id FROM wallets WHERE subject = 'ann'`)
	h.wantIlliquid(usdc, blocked)
	// It is tried again, everything is recorded, and no gas is sent there.
	for range 5 {
		_, err := h.Sweeper.All(h.ctx)
		h.must(err)
		h.turn()
		h.later(11 * time.Minute)
	}
	if n := h.number(`SELECT count(*) FROM sweeps WHERE wallet_id = $1`, blocked); n < 2 {
		t.Errorf("got %d sweeps, want it tried again", n)
	}
	h.wantIlliquid(usdc, blocked)
	h.holds(eth, ann, 0)
	h.has("ann", usdc, 300_000)
	// What lies there pays nobody meanwhile.
	h.wantWithdrawal(h.withdraw("bob", usdc, "100000", shop), "PROCESSING")
	h.wantWithdrawal(h.withdraw("ann", usdc, "250000", shop), "AWAITING_APPROVAL", "LOW_LIQUIDITY")
	h.act(usdc, evmtoken.FiatToken, "unBlacklist", ann)
	h.later(2 * time.Hour)
	h.settle()
	_, err = h.Sweeper.All(h.ctx)
	h.must(err)
	h.settle()
	h.settle()
	h.holds(usdc, raw(h.treasury.Address), 400_000)
	h.wantIlliquid(usdc)
	h.sound()
}

// H-73. Rules WD-5, WD-9 and WD-16.
func TestADestinationThatTheTokenBlocksIsHeldAndNothingIsSigned(t *testing.T) {
	t.Parallel()
	h := open(t, listed{usdc: fiat})
	h.furnish(usdc, evmtoken.FiatToken)
	foe := common.HexToAddress("0x6666666666666666666666666666666666666666")
	h.act(usdc, evmtoken.FiatToken, "blacklist", foe)
	h.mine(1)
	id := h.withdraw("ann", usdc, "1000", foe)
	h.settle()
	h.wantWithdrawal(id, "AWAITING_APPROVAL", "DESTINATION_ADDRESS")
	h.has("ann", usdc, 499_000)
	if n := h.number(`SELECT count(*) FROM signer_journal WHERE position($1::bytea IN body) > 0`, []byte(id)); n != 0 {
		t.Errorf("got %d entries of the signer about it, want none", n)
	}
	h.wantIlliquid(usdc)
	_, err := h.Pay.Remove(h.ctx, h.org, id, audit.Operator("op"), "blocked by the token")
	h.must(err)
	h.has("ann", usdc, 500_000)

	// Blocked when the payment is out already: it reverts, and the amount comes back once.
	out := h.withdraw("ann", usdc, "1000", shop)
	h.turn()
	h.wantWithdrawal(out, "BROADCAST")
	h.overtaken(out, func() { h.act(usdc, evmtoken.FiatToken, "blacklist", shop) })
	h.ends(out)
	h.wantWithdrawal(out, "FAILED")
	h.has("ann", usdc, 500_000)
	h.settle()
	if n := h.number(`SELECT count(*) FROM ledger_transfers WHERE cause_id = $1 AND cause_kind = 'WITHDRAWAL_END'`, out); n != 1 {
		t.Errorf("got %d ends of the hold, want 1", n)
	}
	h.holds(usdc, shop, 0)
	h.wantQuarantine()
	h.sound()

	// A contract that takes no coin is a destination that cannot be paid, too.
	refuser, err := h.node.Deploy(h.ctx, evmtoken.Refuser)
	h.must(err)
	h.coin(h.customer("ann"), 1_000_000)
	h.settle()
	_, err = h.Sweeper.All(h.ctx)
	h.must(err)
	h.settle()
	none := h.withdraw("ann", eth, "1000", refuser)
	h.ends(none)
	h.wantWithdrawal(none, "AWAITING_APPROVAL", "DESTINATION_ADDRESS")
	h.send(refuser, 0, evmtoken.Refuser.Call("accept", true))
	h.mine(1)
	_, err = h.Pay.Approve(h.ctx, h.org, none, audit.Operator("op"))
	h.must(err)
	h.ends(none)
	h.wantWithdrawal(none, "COMPLETED", "DESTINATION_ADDRESS")
	h.holds(eth, refuser, 1000)
	h.sound()
}
