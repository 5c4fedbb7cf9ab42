package tokens

import (
	"context"
	"fmt"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/pg"
)

const (
	// twoFaced is the code of a payee that uses 800,000 gas and succeeds where nothing is
	// offered for gas, and fails where something is.
	twoFaced = "3a15600657fe5b620075305b6001900380600b5700"
	// switched is the code of a payee that any sender switches by a byte of data: at 0 it takes
	// coin, at 1 it fails and uses all gas.
	switched = "36600b57600054601657005b60003560f81c600055005bfe"
	payeeGas = 121_000 // 21,000 for the transaction itself
)

// code puts a contract on the chain.
func (h *house) code(runtime string) common.Address {
	h.Helper()
	size := len(runtime) / 2
	hash, err := h.node.Send(h.ctx, nil, nil, hexutil.MustDecode(fmt.Sprintf("0x61%04x600e60003961%04x6000f3%s", size, size, runtime)))
	h.must(err)
	h.mine(1)
	r, err := h.node.Receipt(h.ctx, hash)
	h.must(err)
	return r.ContractAddress
}

// ahead has the faucet call a contract in front of every other transaction of the next block.
func (h *house) ahead(to common.Address, data byte) {
	h.Helper()
	nonce, err := h.node.Eth.PendingNonceAt(h.ctx, h.node.FaucetAddress())
	h.must(err)
	tx := types.MustSignNewTx(h.node.Faucet(), types.LatestSignerForChainID(h.node.ChainID), &types.DynamicFeeTx{
		ChainID: h.node.ChainID, Nonce: nonce, To: &to, Data: []byte{data}, Gas: 100_000,
		GasTipCap: big.NewInt(50 * params.GWei), GasFeeCap: big.NewInt(1000 * params.GWei),
	})
	h.must(h.node.Eth.SendTransaction(h.ctx, tx))
}

// sent has the service work until a payment is out, and makes no block with it.
func (h *house) sent(id string) {
	h.Helper()
	for range 40 {
		h.turn()
		if h.withdrawal(id).Status != "PROCESSING" {
			break
		}
		h.mine(1)
		h.later(turn)
	}
	h.wantWithdrawal(id, "BROADCAST")
}

// Rules WD-16, WD-52.
func TestAContractThatFailsOnlyWhenItIsPaidCostsNothing(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	payee := h.code(twoFaced)
	h.coin(h.customer("ann"), params.Ether)
	h.settle()
	for range 3 {
		id := h.withdraw("ann", eth, "10000000000000", payee)
		h.ends(id)
		h.wantWithdrawal(id, "AWAITING_APPROVAL", "DESTINATION_ADDRESS")
	}
	if n := h.number(`SELECT count(*) FROM dispatch_slots s JOIN dispatch_orders o USING (order_id) WHERE o.purpose = 'PAYMENT'`); n != 0 {
		t.Errorf("got %d payments signed, want none", n)
	}
	h.sound()
}

// Rules WD-51, WD-52.
func TestAContractThatFailsItsPaymentCostsLittleAndOnce(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	payee := h.code(switched)
	h.coin(h.customer("ann"), params.Ether)
	h.settle()

	first := h.withdraw("ann", eth, "10000000000000", payee)
	h.sent(first)
	h.ahead(payee, 1)
	h.ends(first)
	h.wantWithdrawal(first, "FAILED")
	r, err := h.node.Receipt(h.ctx, common.HexToHash(*h.withdrawal(first).TxHash))
	h.must(err)
	if r.Status != types.ReceiptStatusFailed || r.GasUsed > payeeGas {
		t.Errorf("got status %d and %d gas used, want a failure and no more than %d", r.Status, r.GasUsed, payeeGas)
	}
	h.has("ann", eth, params.Ether)

	// It takes coin again, and nothing goes to it by itself.
	h.ahead(payee, 0)
	h.mine(1)
	second := h.withdraw("ann", eth, "10000000000000", payee)
	h.wantWithdrawal(second, "AWAITING_APPROVAL", "DESTINATION_ADDRESS")
	h.sound()
}

// Rule WD-51.
func TestOfPaymentsOrderedTogetherTheFirstFailureStopsTheRest(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	payee := h.code(switched)
	h.coin(h.customer("ann"), params.Ether)
	h.settle()

	first := h.withdraw("ann", eth, "10000000000000", payee)
	h.sent(first)
	h.ahead(payee, 1)
	// The second waits, and the payee takes coin again when it is looked at: nothing but the
	// failure is against it.
	second := h.withdraw("ann", eth, "10000000000000", payee)
	stopped := h.stop("ann")
	h.mine(1)
	h.ahead(payee, 0)
	h.mine(1)
	h.ends(first)
	h.wantWithdrawal(first, "FAILED")
	h.wantWithdrawal(second, "PROCESSING")
	h.must(h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		return freeze.Lift(ctx, tx, stopped, audit.Operator("op"))
	}))
	h.ends(second)
	h.wantWithdrawal(second, "AWAITING_APPROVAL", "DESTINATION_ADDRESS")
	if n := h.number(`SELECT count(*) FROM dispatch_slots WHERE order_id = $1`, second); n != 0 {
		t.Errorf("got %d slots of the second, want none", n)
	}
	h.sound()
}

// stop freezes a customer and tells the freeze's id.
func (h *house) stop(customerID string) string {
	h.Helper()
	h.must(h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		return freeze.Put(ctx, tx, freeze.Freeze{
			Scope: freeze.Customer, OrgID: h.org, CustomerID: customerID, Source: freeze.ByOperator, Reason: "trial", By: audit.Operator("op"),
		})
	}))
	return h.word(`SELECT freeze_id FROM freezes WHERE lifted_at IS NULL`)
}
