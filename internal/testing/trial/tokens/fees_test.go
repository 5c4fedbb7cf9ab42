package tokens

import (
	"context"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

// requestDeducted requests a withdrawal of coin whose fee is deducted from the amount.
func (h *testEnv) requestDeducted(customerID, amount string, to common.Address, most *string) webhook.Withdrawal {
	h.Helper()
	w, _, err := h.Withdrawals.Request(h.ctx, h.org, withdrawal.Request{
		MintID: eth, CustomerID: customerID, Amount: amount, ToAddress: to.Hex(), FeeMode: withdrawal.FeeDeducted,
		MaxNetworkFee: most, Actor: audit.APIKey(h.org),
	})
	h.mustSucceed(err)
	return wire.Withdrawal(w)
}

// organizationBalance returns the organization's own balance of the coin.
func (h *testEnv) organizationBalance() (own money.Amount) {
	h.Helper()
	h.mustSucceed(h.db.ReadOrg(h.ctx, h.org, func(ctx context.Context, tx pg.Tx) (err error) {
		own, err = ledger.Balance(ctx, tx, ledger.Account{
			OrgID: h.org, MintID: eth, Kind: ledger.Product, Subject: "CUSTODIAL",
		})
		return err
	}))
	return own
}

// Rule WD-27.
func TestADestinationReceivesTheAmountLessTheFeeThatWasDecided(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, tokenList{})
	h.sendCoin(h.customerAddress("ann"), 3*params.Ether)
	h.settleAll()
	h.wantBalance("ann", eth, 3*params.Ether)
	const amount, text = params.Ether / 2, "500000000000000000"
	var received int64
	var kept money.Amount
	for _, c := range []struct {
		name     string
		replaced bool
	}{{"as it was first made", false}, {"by a dearer transaction in its slot", true}} {
		w := h.requestDeducted("ann", text, shop, nil)
		if w.Status != "PROCESSING" || w.NetworkFee == nil {
			t.Fatalf("%s: got %+v, want it ordered with its fee", c.name, w)
		}
		if c.replaced {
			// Until it is broadcast and in no block: a sweep may have to come first.
			for range 40 {
				if h.runAllSteps(); h.loadWithdrawal(w.WithdrawalID).Status == "BROADCAST" {
					break
				}
				h.mine(1)
				h.advanceClock(turn)
			}
			h.advanceClock(10 * time.Minute)
			h.runAllSteps()
		}
		h.waitWithdrawalEnd(w.WithdrawalID)
		h.wantWithdrawal(w.WithdrawalID, "COMPLETED")
		attempts := h.number(`SELECT count(*) FROM dispatch_attempts WHERE order_id = $1`, w.WithdrawalID)
		if c.replaced != (attempts > 1) {
			t.Errorf("%s: got %d transactions", c.name, attempts)
		}
		if now := h.loadWithdrawal(w.WithdrawalID); *now.NetworkFee != *w.NetworkFee || now.Amount != text {
			t.Errorf(
				"%s: got a fee of %s of %s, want %s of %s", c.name, *now.NetworkFee, now.Amount, *w.NetworkFee, text,
			)
		}
		fee := money.MustParse(*w.NetworkFee)
		received += amount - fee.Big().Int64()
		h.wantChainBalance(eth, shop, received)
		var err error
		kept, err = kept.Add(fee)
		h.mustSucceed(err)
		if own := h.organizationBalance(); own != kept {
			t.Errorf("%s: the organization has %v, want %v", c.name, own, kept)
		}
		h.checkBooks()
	}
	h.wantBalance("ann", eth, 2*params.Ether)
}

// Rule WD-26.
func TestAPaymentWaitsForAPersonWhileTheNetworkIsTooDear(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, tokenList{})
	h.sendCoin(h.customerAddress("ann"), params.Ether)
	h.settleAll()
	estimate, err := h.Withdrawals.Estimate(h.ctx, h.org, withdrawal.EstimateRequest{MintID: eth})
	h.mustSucceed(err)
	little := new(big.Int).Div(estimate.NetworkFee.Big(), big.NewInt(1000)).String()
	w := h.requestDeducted("ann", "500000000000000000", shop, &little)
	h.wantWithdrawal(w.WithdrawalID, "AWAITING_APPROVAL", "NETWORK_FEE")
	h.wantBalance("ann", eth, params.Ether/2)
	_, err = h.Withdrawals.Cancel(h.ctx, h.org, w.WithdrawalID, audit.APIKey(h.org))
	h.mustSucceed(err)
	h.wantBalance("ann", eth, params.Ether)
	h.wantChainBalance(eth, shop, 0)
	h.checkBooks()
}
