package tokens

import (
	"context"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

// deduct asks for coin whose fee comes out of the amount.
func (h *house) deduct(customerID, amount string, to common.Address, most *string) webhook.Withdrawal {
	h.Helper()
	w, _, err := h.Pay.Request(h.ctx, h.org, withdrawal.Request{
		MintID: eth, CustomerID: customerID, Amount: amount, ToAddress: to.Hex(), FeeMode: withdrawal.FeeDeducted, MaxNetworkFee: most, Actor: audit.APIKey(h.org),
	})
	h.must(err)
	return w
}

// own is what the organization has of the coin itself.
func (h *house) own() (own money.Amount) {
	h.Helper()
	h.must(h.db.ReadOrg(h.ctx, h.org, func(ctx context.Context, tx pg.Tx) (err error) {
		own, err = ledger.Balance(ctx, tx, ledger.Account{OrgID: h.org, MintID: eth, Kind: ledger.Product, Subject: "CUSTODIAL"})
		return err
	}))
	return own
}

// Rule WD-27.
func TestADestinationReceivesTheAmountLessTheFeeThatWasDecided(t *testing.T) {
	t.Parallel()
	h := open(t, listed{})
	h.coin(h.customer("ann"), 3*params.Ether)
	h.settle()
	h.has("ann", eth, 3*params.Ether)
	const amount, text = params.Ether / 2, "500000000000000000"
	var received int64
	var kept money.Amount
	for _, c := range []struct {
		name     string
		replaced bool
	}{{"as it was first made", false}, {"by a dearer transaction in its slot", true}} {
		w := h.deduct("ann", text, shop, nil)
		if w.Status != "PROCESSING" || w.NetworkFee == nil {
			t.Fatalf("%s: got %+v, want it ordered with its fee", c.name, w)
		}
		if c.replaced {
			// Until it is out, and in no block: what it is paid from may have to come first.
			for range 40 {
				if h.turn(); h.withdrawal(w.WithdrawalID).Status == "BROADCAST" {
					break
				}
				h.mine(1)
				h.later(turn)
			}
			h.later(10 * time.Minute)
			h.turn()
		}
		h.ends(w.WithdrawalID)
		h.wantWithdrawal(w.WithdrawalID, "COMPLETED")
		attempts := h.number(`SELECT count(*) FROM dispatch_attempts WHERE order_id = $1`, w.WithdrawalID)
		if c.replaced != (attempts > 1) {
			t.Errorf("%s: got %d transactions", c.name, attempts)
		}
		if now := h.withdrawal(w.WithdrawalID); *now.NetworkFee != *w.NetworkFee || now.Amount != text {
			t.Errorf("%s: got a fee of %s of %s, want %s of %s", c.name, *now.NetworkFee, now.Amount, *w.NetworkFee, text)
		}
		fee := money.MustParse(*w.NetworkFee)
		received += amount - fee.Big().Int64()
		h.holds(eth, shop, received)
		var err error
		kept, err = kept.Add(fee)
		h.must(err)
		if own := h.own(); own != kept {
			t.Errorf("%s: the organization has %v, want %v", c.name, own, kept)
		}
		h.sound()
	}
	h.has("ann", eth, 2*params.Ether)
}

// Rule WD-26.
func TestAPaymentWaitsForAPersonWhileTheNetworkIsTooDear(t *testing.T) {
	t.Parallel()
	h := open(t, listed{})
	h.coin(h.customer("ann"), params.Ether)
	h.settle()
	estimate, err := h.Pay.Estimate(h.ctx, h.org, withdrawal.Estimation{MintID: eth})
	h.must(err)
	little := new(big.Int).Div(estimate.NetworkFee.Big(), big.NewInt(1000)).String()
	w := h.deduct("ann", "500000000000000000", shop, &little)
	h.wantWithdrawal(w.WithdrawalID, "AWAITING_APPROVAL", "NETWORK_FEE")
	h.has("ann", eth, params.Ether/2)
	_, err = h.Pay.Cancel(h.ctx, h.org, w.WithdrawalID, audit.APIKey(h.org))
	h.must(err)
	h.has("ann", eth, params.Ether)
	h.holds(eth, shop, 0)
	h.sound()
}
