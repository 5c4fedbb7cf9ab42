package tokens

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
)

// chargeCosts lets the organization charge its customers for the costs of their payments, at 30
// dollars for one ether.
func (h *testEnv) chargeCosts() {
	h.Helper()
	h.Withdrawals.Prices = price.Fixed{
		Prices: map[int]money.USD{eth: money.MustParseUSD("30"), usdc: money.MustParseUSD("1")}, Clock: h.readClock,
	}
	h.mustSucceed(h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(
			ctx, tx, audit.Operator("op"), h.org,
			org.Changes{"chargeCustomerCosts": json.RawMessage(`"RENT_AND_FAILURES"`)},
		)
		return err
	}))
}

// networkCost returns what the network took for a withdrawal.
func (h *testEnv) networkCost(id string) *big.Int {
	h.Helper()
	fee, ok := new(big.Int).SetString(h.word(`SELECT fee::text FROM dispatch_orders WHERE order_id = $1`, id), 10)
	if !ok || fee.Sign() == 0 {
		h.Fatalf("%s cost %v", id, fee)
	}
	return fee
}

// wantCharged checks what a withdrawal was charged, and that the organization has that and nothing
// else.
func (h *testEnv) wantCharged(id string, mintID int, want *big.Int) {
	h.Helper()
	c := h.loadWithdrawal(id).CustomerCharge
	if c == nil || c.Charged == nil || *c.Charged != want.String() {
		h.Errorf("got %+v, want %v charged", c, want)
	}
	got := h.word(`SELECT coalesce((SELECT b.balance FROM ledger_balances b JOIN ledger_accounts a USING (account_id)
		WHERE a.kind = 'PRODUCT' AND a.subject = 'CUSTODIAL' AND a.mint_id = $1), 0)::text`, mintID)
	if got != want.String() {
		h.Errorf("the organization has %s, want %v", got, want)
	}
}

// Rule WD-55.
func TestAContractThatFailsItsPaymentCostsItsCustomer(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, nil)
	h.chargeCosts()
	payee := h.deployCode(switched)
	h.sendCoin(h.customerAddress("ann"), params.Ether)
	h.settleAll()

	failed := h.mustWithdraw("ann", eth, "10000000000000000", payee)
	h.waitBroadcast(failed)
	h.callFirst(payee, 1)
	h.mine(1)
	h.callFirst(payee, 0) // at its simulation it accepts coin
	h.mine(1)
	h.waitWithdrawalEnd(failed)
	h.wantWithdrawal(failed, "FAILED")
	cost := h.networkCost(failed)
	h.wantCharged(failed, eth, cost)
	h.wantBalance("ann", eth, params.Ether-cost.Uint64())

	// A payment that succeeds costs its customer nothing.
	paid := h.mustWithdraw("ann", eth, "10000000000000000", shop)
	h.waitWithdrawalEnd(paid)
	h.wantWithdrawal(paid, "COMPLETED")
	if c := h.loadWithdrawal(paid).CustomerCharge; c == nil || *c.Charged != "0" {
		t.Errorf("got %+v, want nothing charged", c)
	}
	h.wantBalance("ann", eth, params.Ether-params.Ether/100-cost.Uint64())
	h.checkBooks()
}

// Rule WD-55. A token refuses a payment for its payee, or for a reason of its own.
func TestATokensFailureIsChargedOnlyWhereItIsThePayees(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		happens func(h *testEnv)
		charged bool
	}{
		{"the payee is blocked", func(h *testEnv) { h.callToken(usdc, evmtoken.FiatToken, "blacklist", shop) }, true},
		{"the token is paused", func(h *testEnv) { h.callToken(usdc, evmtoken.FiatToken, "pause") }, false},
		{
			"our treasury is blocked",
			func(h *testEnv) { h.callToken(usdc, evmtoken.FiatToken, "blacklist", raw(h.treasury.Address)) }, false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newTestEnv(t, tokenList{usdc: newFiatToken})
			h.chargeCosts()
			h.fundTreasury(usdc, evmtoken.FiatToken)
			id := h.mustWithdraw("ann", usdc, "100000", shop)
			h.waitBroadcast(id)
			h.overtakePayment(id, func() { c.happens(h) })
			h.waitWithdrawalEnd(id)
			h.wantWithdrawal(id, "FAILED")
			want := new(big.Int)
			if c.charged { // 30 dollars for 10^18, and a dollar for 10^6
				want.Mul(h.networkCost(id), big.NewInt(30))
				want.Add(want, big.NewInt(999_999_999_999)).Div(want, big.NewInt(1_000_000_000_000))
			}
			h.wantCharged(id, usdc, want)
			h.wantBalance("ann", usdc, 500_000-want.Uint64())
			if got := h.word(
				`SELECT payee_failed::text FROM dispatch_orders WHERE order_id = $1`, id,
			); got != fmt.Sprint(c.charged) {
				t.Errorf("because of its payee: got %s, want %v", got, c.charged)
			}
		})
	}
}
