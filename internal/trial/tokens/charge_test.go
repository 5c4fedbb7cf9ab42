package tokens

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/price"
)

// charge has the organization charge its customers what their payments cost, at 30 dollars
// for one ether.
func (h *house) charge() {
	h.Helper()
	h.Pay.Prices = price.Fixed{Prices: map[int]money.USD{eth: money.MustParseUSD("30"), usdc: money.MustParseUSD("1")}, Clock: h.clock}
	h.must(h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := org.Change(ctx, tx, audit.Operator("op"), h.org, org.Changes{"chargeCustomerCosts": json.RawMessage(`"RENT_AND_FAILURES"`)})
		return err
	}))
}

// cost is what the network took for a withdrawal.
func (h *house) cost(id string) *big.Int {
	h.Helper()
	fee, ok := new(big.Int).SetString(h.word(`SELECT fee::text FROM dispatch_orders WHERE order_id = $1`, id), 10)
	if !ok || fee.Sign() == 0 {
		h.Fatalf("%s cost %v", id, fee)
	}
	return fee
}

// wantCharged compares what a withdrawal was charged, and that the organization has it and
// nothing of what is not charged.
func (h *house) wantCharged(id string, mintID int, want *big.Int) {
	h.Helper()
	c := h.withdrawal(id).CustomerCharge
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
	h := open(t, nil)
	h.charge()
	payee := h.code(switched)
	h.coin(h.customer("ann"), params.Ether)
	h.settle()

	failed := h.withdraw("ann", eth, "10000000000000000", payee)
	h.sent(failed)
	h.ahead(payee, 1)
	h.mine(1)
	h.ahead(payee, 0) // and when it is asked, it takes coin
	h.mine(1)
	h.ends(failed)
	h.wantWithdrawal(failed, "FAILED")
	cost := h.cost(failed)
	h.wantCharged(failed, eth, cost)
	h.has("ann", eth, params.Ether-cost.Uint64())

	// One that is paid costs its customer nothing.
	paid := h.withdraw("ann", eth, "10000000000000000", shop)
	h.ends(paid)
	h.wantWithdrawal(paid, "COMPLETED")
	if c := h.withdrawal(paid).CustomerCharge; c == nil || *c.Charged != "0" {
		t.Errorf("got %+v, want nothing charged", c)
	}
	h.has("ann", eth, params.Ether-params.Ether/100-cost.Uint64())
	h.sound()
}

// Rule WD-55. A token refuses a payment for its payee, or for a reason of its own.
func TestATokensFailureIsChargedOnlyWhereItIsThePayees(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		happens func(h *house)
		charged bool
	}{
		{"the payee is blocked", func(h *house) { h.act(usdc, evmtoken.FiatToken, "blacklist", shop) }, true},
		{"the token is paused", func(h *house) { h.act(usdc, evmtoken.FiatToken, "pause") }, false},
		{"our treasury is blocked", func(h *house) { h.act(usdc, evmtoken.FiatToken, "blacklist", raw(h.treasury.Address)) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := open(t, listed{usdc: fiat})
			h.charge()
			h.furnish(usdc, evmtoken.FiatToken)
			id := h.withdraw("ann", usdc, "100000", shop)
			h.sent(id)
			h.overtaken(id, func() { c.happens(h) })
			h.ends(id)
			h.wantWithdrawal(id, "FAILED")
			want := new(big.Int)
			if c.charged { // 30 dollars for 10^18, and a dollar for 10^6
				want.Mul(h.cost(id), big.NewInt(30))
				want.Add(want, big.NewInt(999_999_999_999)).Div(want, big.NewInt(1_000_000_000_000))
			}
			h.wantCharged(id, usdc, want)
			h.has("ann", usdc, 500_000-want.Uint64())
			if got := h.word(`SELECT payee_failed::text FROM dispatch_orders WHERE order_id = $1`, id); got != fmt.Sprint(c.charged) {
				t.Errorf("because of its payee: got %s, want %v", got, c.charged)
			}
		})
	}
}
