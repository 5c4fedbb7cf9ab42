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

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const (
	// twoFaced is the code of a payee that uses 800,000 gas and succeeds where the gas price is
	// zero, and fails where it is not.
	twoFaced = "3a15600657fe5b620075305b6001900380600b5700"
	// switched is the code of a payee that any sender switches by a byte of data: at 0 it accepts
	// coin, at 1 it fails and uses all gas.
	switched = "36600b57600054601657005b60003560f81c600055005bfe"
	payeeGas = 121_000 // 21,000 for the transaction itself
)

// deployCode puts a contract on the chain.
func (h *testEnv) deployCode(runtime string) common.Address {
	h.Helper()
	size := len(runtime) / 2
	hash, err := h.node.SendTx(
		h.ctx, nil, nil, hexutil.MustDecode(fmt.Sprintf("0x61%04x600e60003961%04x6000f3%s", size, size, runtime)),
	)
	h.mustSucceed(err)
	h.mine(1)
	r, err := h.node.WaitReceipt(h.ctx, hash)
	h.mustSucceed(err)
	return r.ContractAddress
}

// callFirst lets the faucet call a contract before every other transaction of the next block.
func (h *testEnv) callFirst(to common.Address, data byte) {
	h.Helper()
	nonce, err := h.node.Eth.PendingNonceAt(h.ctx, h.node.FaucetAddress())
	h.mustSucceed(err)
	tx := types.MustSignNewTx(h.node.FaucetPrivateKey(), types.LatestSignerForChainID(h.node.ChainID),
		&types.DynamicFeeTx{
			ChainID: h.node.ChainID, Nonce: nonce, To: &to, Data: []byte{data}, Gas: 100_000,
			GasTipCap: big.NewInt(50 * params.GWei), GasFeeCap: big.NewInt(1000 * params.GWei),
		})
	h.mustSucceed(h.node.Eth.SendTransaction(h.ctx, tx))
}

// waitBroadcast runs the service until a payment is broadcast, and mines no block with it.
func (h *testEnv) waitBroadcast(id string) {
	h.Helper()
	for range 40 {
		h.runAllSteps()
		if h.loadWithdrawal(id).Status != "PROCESSING" {
			break
		}
		h.mine(1)
		h.advanceClock(turn)
	}
	h.wantWithdrawal(id, "BROADCAST")
}

// Rules WD-16, WD-52.
func TestAContractThatFailsOnlyWhenItIsPaidCostsNothing(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, nil)
	payee := h.deployCode(twoFaced)
	h.sendCoin(h.customerAddress("ann"), params.Ether)
	h.settleAll()
	for range 3 {
		id := h.mustWithdraw("ann", eth, "10000000000000", payee)
		h.waitWithdrawalEnd(id)
		h.wantWithdrawal(id, "AWAITING_APPROVAL", "DESTINATION_ADDRESS")
	}
	if n := h.number(
		`SELECT count(*) FROM dispatch_slots s JOIN dispatch_orders o USING (order_id) WHERE o.purpose = 'PAYMENT'`,
	); n != 0 {
		t.Errorf("got %d payments signed, want none", n)
	}
	h.checkBooks()
}

// Rules WD-51, WD-52.
func TestAContractThatFailsItsPaymentCostsLittleAndOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, nil)
	payee := h.deployCode(switched)
	h.sendCoin(h.customerAddress("ann"), params.Ether)
	h.settleAll()

	first := h.mustWithdraw("ann", eth, "10000000000000", payee)
	h.waitBroadcast(first)
	h.callFirst(payee, 1)
	h.waitWithdrawalEnd(first)
	h.wantWithdrawal(first, "FAILED")
	r, err := h.node.WaitReceipt(h.ctx, common.HexToHash(*h.loadWithdrawal(first).TxHash))
	h.mustSucceed(err)
	if r.Status != types.ReceiptStatusFailed || r.GasUsed > payeeGas {
		t.Errorf("got status %d and %d gas used, want a failure and no more than %d", r.Status, r.GasUsed, payeeGas)
	}
	h.wantBalance("ann", eth, params.Ether)

	// It accepts coin again, and no payment goes to it without a person.
	h.callFirst(payee, 0)
	h.mine(1)
	second := h.mustWithdraw("ann", eth, "10000000000000", payee)
	h.wantWithdrawal(second, "AWAITING_APPROVAL", "DESTINATION_ADDRESS")
	h.checkBooks()
}

// Rule WD-51.
func TestOfPaymentsOrderedTogetherTheFirstFailureStopsTheRest(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, nil)
	payee := h.deployCode(switched)
	h.sendCoin(h.customerAddress("ann"), params.Ether)
	h.settleAll()

	first := h.mustWithdraw("ann", eth, "10000000000000", payee)
	h.waitBroadcast(first)
	h.callFirst(payee, 1)
	// The second payment waits, and the payee accepts coin again in the simulation: only the
	// earlier failure is against it.
	second := h.mustWithdraw("ann", eth, "10000000000000", payee)
	stopped := h.freezeCustomer("ann")
	h.mine(1)
	h.callFirst(payee, 0)
	h.mine(1)
	h.waitWithdrawalEnd(first)
	h.wantWithdrawal(first, "FAILED")
	h.wantWithdrawal(second, "PROCESSING")
	h.mustSucceed(h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		return freeze.Lift(ctx, tx, stopped, audit.Operator("op"))
	}))
	h.waitWithdrawalEnd(second)
	h.wantWithdrawal(second, "AWAITING_APPROVAL", "DESTINATION_ADDRESS")
	if n := h.number(`SELECT count(*) FROM dispatch_slots WHERE order_id = $1`, second); n != 0 {
		t.Errorf("got %d slots of the second, want none", n)
	}
	h.checkBooks()
}

// freezeCustomer freezes a customer and returns the freeze's id.
func (h *testEnv) freezeCustomer(customerID string) string {
	h.Helper()
	h.mustSucceed(h.db.InSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeCustomer, OrgID: h.org, CustomerID: customerID, Source: freeze.SourceOperator,
			Reason: "trial", Actor: audit.Operator("op"),
		})
	}))
	return h.word(`SELECT freeze_id FROM freezes WHERE lifted_at IS NULL`)
}
