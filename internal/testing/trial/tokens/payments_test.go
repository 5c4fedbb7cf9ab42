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

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

var shop = common.HexToAddress("0x5405405405405405405405405405405405405405")

// fundTreasury credits 500,000 to ann at her address, and pays as much to the treasury for no
// customer, from where it is paid without a sweep.
func (h *testEnv) fundTreasury(mintID int, c evmtoken.Contract) {
	h.Helper()
	for _, to := range []common.Address{h.customerAddress("ann"), raw(h.treasury.Address)} {
		if c == evmtoken.LyingToken { // which can also tell the truth
			h.callToken(mintID, c, "exaggerate", to, big.NewInt(500_000), big.NewInt(500_000))
		} else {
			h.sendTokens(mintID, to, 500_000)
		}
	}
	h.settleAll()
	h.wantBalance("ann", mintID, 500_000)
}

// overtakePayment lets something happen on the chain before a payment in the mempool.
func (h *testEnv) overtakePayment(id string, happens func()) {
	h.Helper()
	hash := common.HexToHash(h.word(
		`SELECT tx_hash FROM dispatch_attempts WHERE order_id = $1 AND sent_at IS NOT NULL`, id,
	))
	h.mustSucceed(h.node.DropTransaction(h.ctx, hash))
	happens()
	h.mine(1)
	h.advanceClock(6 * turn) // until it is sent again
}

// orderStatus returns the status of an order and its wait reason.
func (h *testEnv) orderStatus(id string) string {
	h.Helper()
	return strings.TrimSpace(h.word(
		`SELECT status || ' ' || coalesce(waiting_for, '') FROM dispatch_orders WHERE order_id = $1`, id,
	))
}

// H-54 and H-72. Rules WD-9 and WD-15.
func TestAPaymentThatTheBalancesDoNotShowIsNeitherPaidNorFailed(t *testing.T) {
	t.Parallel()
	become := func(c evmtoken.Contract) func(h *testEnv) {
		return func(h *testEnv) {
			code, err := h.node.DeployContract(h.ctx, c, "", "", uint8(0))
			h.mustSucceed(err)
			h.callToken(usdc, evmtoken.Proxy, "proxyUpgradeTo", code)
			h.mine(1)
		}
	}
	for _, c := range []struct {
		name     string
		token    func(h *testEnv) common.Address
		contract evmtoken.Contract
		changes  func(h *testEnv) // before the payment is requested
		overtake func(h *testEnv) // before it is mined
		beside   func(h *testEnv) // in its block
		arrives  int64
	}{
		{name: "announced and not made", token: newUsualToken(evmtoken.LyingToken), contract: evmtoken.LyingToken},
		{
			name: "false without a word", token: newUsualToken(evmtoken.FalseToken), contract: evmtoken.FalseToken,
			overtake: func(h *testEnv) { h.callToken(usdc, evmtoken.FalseToken, "refuse", true) },
		},
		{
			name: "less a fee, since an upgrade", token: newFiatToken, contract: evmtoken.FiatToken,
			changes: become(evmtoken.FeeToken), arrives: 99_000,
		},
		{
			name: "in the block of a rebase", token: newUsualToken(evmtoken.RebasingToken),
			contract: evmtoken.RebasingToken,
			beside: func(h *testEnv) {
				h.callToken(
					usdc, evmtoken.RebasingToken, "rebase", big.NewInt(1), big.NewInt(2),
				)
			}, arrives: 100_000,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newTestEnv(t, tokenList{usdc: c.token})
			h.fundTreasury(usdc, c.contract)
			if c.changes != nil {
				c.changes(h)
			}
			id := h.mustWithdraw("ann", usdc, "100000", shop)
			h.runAllSteps()
			h.wantWithdrawal(id, "BROADCAST")
			if c.overtake != nil {
				h.overtakePayment(id, func() { c.overtake(h) })
			}
			if c.beside != nil {
				c.beside(h)
			}
			h.settleAll()
			if got := h.orderStatus(id); got != "STUCK" {
				t.Errorf("got the order %s, want STUCK", got)
			}
			h.wantWithdrawal(id, "BROADCAST")
			h.wantBalance("ann", usdc, 400_000)
			if f := h.loadFunds(h.treasury, usdc); f.Reserved != money.Units(100_000) || !f.Swept.IsZero() {
				t.Errorf("got %v reserved and %v gone, want 100000 and 0", f.Reserved, f.Swept)
			}
			h.wantQuarantine(usdc)
			h.wantChainBalance(usdc, shop, c.arrives)
			if n := h.number(`SELECT count(*) FROM ledger_transfers WHERE cause_kind = 'WITHDRAWAL_END'`); n != 0 {
				t.Errorf("got %d ends of a hold, want none: the money might have moved", n)
			}
			// And it stays so until a person decides.
			h.releaseMint(usdc)
			h.settleAll()
			if got := h.orderStatus(id); got != "STUCK" {
				t.Errorf("after the release: got the order %s, want STUCK", got)
			}
			paid := c.arrives > 0
			decide := func() error {
				return dispatch.DecideStuck(
					h.ctx, h.db, map[signer.Purpose]dispatch.Listener{signer.Payment: h.Withdrawals}, id, paid,
					audit.Operator("op"), "looked at the chain",
				)
			}
			h.mustSucceed(decide())
			if err := decide(); !errors.Is(err, dispatch.ErrNotStuck) {
				t.Errorf("decided again: got %v, want ErrNotStuck", err)
			}
			if paid {
				h.wantWithdrawal(id, "COMPLETED")
				h.wantBalance("ann", usdc, 400_000)
			} else {
				h.wantWithdrawal(id, "FAILED")
				h.wantBalance("ann", usdc, 500_000)
			}
			h.wantIlliquid(usdc)
			if c.beside == nil { // a rebase stays a breach
				h.checkBooks()
			}
		})
	}
}

// H-72. Rule WD-10.
func TestWhatATokenAnswersToAPaymentThatItMadeDoesNotMatter(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, tokenList{usdc: newUsualToken(evmtoken.Tether), 3: newUsualToken(evmtoken.FalseToken)})
	h.fundTreasury(usdc, evmtoken.Tether)
	h.fundTreasury(3, evmtoken.FalseToken)
	nothing, no := h.mustWithdraw("ann", usdc, "100000", shop), h.mustWithdraw("ann", 3, "100000", shop)
	h.runAllSteps()
	h.overtakePayment(no, func() { h.callToken(3, evmtoken.FalseToken, "deny", true) })
	for _, id := range []string{nothing, no} {
		h.waitWithdrawalEnd(id)
		h.wantWithdrawal(id, "COMPLETED")
	}
	h.wantChainBalance(usdc, shop, 100_000)
	h.wantChainBalance(3, shop, 100_000)
	h.wantQuarantine()
	h.checkBooks()
	// A token whose simulated transfer fails is not asked to make it.
	held := h.mustWithdraw("ann", 3, "100000", shop)
	h.settleAll()
	h.wantWithdrawal(held, "PROCESSING")
	if got := h.orderStatus(held); got != "QUEUED PAUSED" {
		t.Errorf("got the order %s, want it QUEUED for PAUSED", got)
	}
	h.callToken(3, evmtoken.FalseToken, "deny", false)
	h.waitWithdrawalEnd(held)
	h.wantWithdrawal(held, "COMPLETED")
	h.checkBooks()
}

// H-72: a sweep is a payment of ours like any other. Rule WD-15.
func TestASweepThatTheBalancesDoNotShowIsLeftToAPerson(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, tokenList{usdc: newUsualToken(evmtoken.LyingToken)})
	ann := h.customerAddress("ann")
	h.callToken(usdc, evmtoken.LyingToken, "exaggerate", ann, big.NewInt(500_000), big.NewInt(500_000))
	h.settleAll()
	h.wantBalance("ann", usdc, 500_000)
	_, err := h.Sweeper.SweepAll(h.ctx)
	h.mustSucceed(err)
	h.settleAll()
	h.settleAll()
	if n := h.number(
		`SELECT count(*) FROM sweeps s JOIN dispatch_orders o ON o.order_id = s.sweep_id WHERE s.status = 'OPEN' AND o.status = 'STUCK'`,
	); n != 1 {
		t.Errorf("got %d sweeps stuck, want one", n)
	}
	h.wantQuarantine(usdc)
	if f := h.loadFunds(h.treasury, usdc); !f.Credited.IsZero() {
		t.Errorf("got %v credited to the treasury, want nothing", f.Credited)
	}
	h.wantBalance("ann", usdc, 500_000)
}

// H-55. Rules WD-13 and WD-17: an amount that a token blocks is known to be illiquid, costs
// nothing, and is moved once that is allowed.
func TestATokenThatIsPausedHoldsUpItsPaymentsAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		stop, resume func(h *testEnv)
	}{
		{
			"paused",
			func(h *testEnv) { h.callToken(usdc, evmtoken.FiatToken, "pause") },
			func(h *testEnv) { h.callToken(usdc, evmtoken.FiatToken, "unpause") },
		},
		{
			"our treasury blocked",
			func(h *testEnv) { h.callToken(usdc, evmtoken.FiatToken, "blacklist", raw(h.treasury.Address)) },
			func(h *testEnv) { h.callToken(usdc, evmtoken.FiatToken, "unBlacklist", raw(h.treasury.Address)) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newTestEnv(t, tokenList{usdc: newFiatToken, 3: newUsualToken(evmtoken.Tether)})
			h.fundTreasury(usdc, evmtoken.FiatToken)
			h.fundTreasury(3, evmtoken.Tether)
			c.stop(h)
			h.mine(1)
			first := h.mustWithdraw("ann", usdc, "1000", shop)
			h.settleAll()
			h.wantWithdrawal(first, "PROCESSING")
			if got := h.orderStatus(first); got != "QUEUED PAUSED" {
				t.Errorf("got the order %s, want it QUEUED for PAUSED", got)
			}
			held := h.mustWithdraw("ann", usdc, "1000", shop)
			h.wantWithdrawal(held, "AWAITING_APPROVAL", "LOW_LIQUIDITY")
			other := h.mustWithdraw("ann", 3, "1000", shop)
			h.waitWithdrawalEnd(other)
			h.wantWithdrawal(other, "COMPLETED")
			h.settleAll()
			h.wantIlliquid(usdc, h.treasury.ID)
			if n := h.number(
				`SELECT count(*) FROM dispatch_slots s JOIN dispatch_orders o USING (order_id) WHERE o.mint_id = $1`,
				usdc,
			); n != 0 {
				t.Errorf("got %d slots, want none: nothing is signed that would revert", n)
			}
			c.resume(h)
			h.advanceClock(10 * turn)
			h.waitWithdrawalEnd(first)
			h.wantWithdrawal(first, "COMPLETED")
			h.wantIlliquid(usdc)
			free := h.mustWithdraw("ann", usdc, "1000", shop)
			h.waitWithdrawalEnd(free)
			h.wantWithdrawal(free, "COMPLETED")
			h.wantChainBalance(usdc, shop, 2000)
			h.checkBooks()
		})
	}
}

// wantIlliquid checks which wallets the service knows as unable to send a token.
func (h *testEnv) wantIlliquid(mintID int, want ...string) {
	h.Helper()
	var got []string
	h.mustSucceed(h.db.ReadSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		blocked, err := dispatch.ListImmovableFunds(ctx, tx, h.org, mintID)
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
	h := newTestEnv(t, tokenList{usdc: newFiatToken})
	ann, bob := h.customerAddress("ann"), h.customerAddress("bob")
	h.sendTokens(usdc, ann, 300_000)
	h.sendTokens(usdc, bob, 200_000)
	h.settleAll()
	h.callToken(usdc, evmtoken.FiatToken, "blacklist", ann)
	h.mine(1)
	_, err := h.Sweeper.SweepAll(h.ctx)
	h.mustSucceed(err)
	h.settleAll()
	h.settleAll()
	h.wantChainBalance(usdc, raw(h.treasury.Address), 200_000)
	blocked := h.word(`SELECT wallet_id FROM wallets WHERE subject = 'ann'`)
	h.wantIlliquid(usdc, blocked)
	// It is tried again, everything is recorded, and no gas is sent there.
	for range 5 {
		_, err := h.Sweeper.SweepAll(h.ctx)
		h.mustSucceed(err)
		h.runAllSteps()
		h.advanceClock(11 * time.Minute)
	}
	if n := h.number(`SELECT count(*) FROM sweeps WHERE wallet_id = $1`, blocked); n < 2 {
		t.Errorf("got %d sweeps, want it tried again", n)
	}
	h.wantIlliquid(usdc, blocked)
	h.wantChainBalance(eth, ann, 0)
	h.wantBalance("ann", usdc, 300_000)
	// Meanwhile the blocked amount pays no withdrawal.
	h.wantWithdrawal(h.mustWithdraw("bob", usdc, "100000", shop), "PROCESSING")
	h.wantWithdrawal(h.mustWithdraw("ann", usdc, "250000", shop), "AWAITING_APPROVAL", "LOW_LIQUIDITY")
	h.callToken(usdc, evmtoken.FiatToken, "unBlacklist", ann)
	h.advanceClock(2 * time.Hour)
	h.settleAll()
	_, err = h.Sweeper.SweepAll(h.ctx)
	h.mustSucceed(err)
	h.settleAll()
	h.settleAll()
	h.wantChainBalance(usdc, raw(h.treasury.Address), 400_000)
	h.wantIlliquid(usdc)
	h.checkBooks()
}

// H-73. Rules WD-5, WD-9 and WD-16.
func TestADestinationThatTheTokenBlocksIsHeldAndNothingIsSigned(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, tokenList{usdc: newFiatToken})
	h.fundTreasury(usdc, evmtoken.FiatToken)
	foe := common.HexToAddress("0x6666666666666666666666666666666666666666")
	h.callToken(usdc, evmtoken.FiatToken, "blacklist", foe)
	h.mine(1)
	id := h.mustWithdraw("ann", usdc, "1000", foe)
	h.settleAll()
	h.wantWithdrawal(id, "AWAITING_APPROVAL", "DESTINATION_ADDRESS")
	h.wantBalance("ann", usdc, 499_000)
	if n := h.number(`SELECT count(*) FROM signer_journal WHERE position($1::bytea IN body) > 0`, []byte(id)); n != 0 {
		t.Errorf("got %d entries of the signer about it, want none", n)
	}
	h.wantIlliquid(usdc)
	_, err := h.Withdrawals.Remove(h.ctx, h.org, id, audit.Operator("op"), "blocked by the token")
	h.mustSucceed(err)
	h.wantBalance("ann", usdc, 500_000)

	// Blocked after the payment is broadcast: it reverts, and the amount is returned once.
	out := h.mustWithdraw("ann", usdc, "1000", shop)
	h.runAllSteps()
	h.wantWithdrawal(out, "BROADCAST")
	h.overtakePayment(out, func() { h.callToken(usdc, evmtoken.FiatToken, "blacklist", shop) })
	h.waitWithdrawalEnd(out)
	h.wantWithdrawal(out, "FAILED")
	h.wantBalance("ann", usdc, 500_000)
	h.settleAll()
	if n := h.number(
		`SELECT count(*) FROM ledger_transfers WHERE cause_id = $1 AND cause_kind = 'WITHDRAWAL_END'`, out,
	); n != 1 {
		t.Errorf("got %d ends of the hold, want 1", n)
	}
	h.wantChainBalance(usdc, shop, 0)
	h.wantQuarantine()
	h.checkBooks()

	// A contract that accepts no coin is a destination that cannot be paid, too.
	refuser, err := h.node.DeployContract(h.ctx, evmtoken.Refuser)
	h.mustSucceed(err)
	h.sendCoin(h.customerAddress("ann"), 1_000_000)
	h.settleAll()
	_, err = h.Sweeper.SweepAll(h.ctx)
	h.mustSucceed(err)
	h.settleAll()
	none := h.mustWithdraw("ann", eth, "1000", refuser)
	h.waitWithdrawalEnd(none)
	h.wantWithdrawal(none, "AWAITING_APPROVAL", "DESTINATION_ADDRESS")
	h.sendTransaction(refuser, 0, evmtoken.Refuser.CallData("accept", true))
	h.mine(1)
	_, err = h.Withdrawals.Approve(h.ctx, h.org, none, audit.Operator("op"))
	h.mustSucceed(err)
	h.waitWithdrawalEnd(none)
	h.wantWithdrawal(none, "COMPLETED", "DESTINATION_ADDRESS")
	h.wantChainBalance(eth, refuser, 1000)
	h.checkBooks()
}
