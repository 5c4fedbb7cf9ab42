package tokens

import (
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/chain/evm"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
)

// attemptsMax is the number of attempts within which an attack must be traced: each attempt may
// read twice as much.
const attemptsMax = 8

// attackerAt returns the address of the attack with a number.
func attackerAt(n int) common.Address {
	return common.BigToAddress(big.NewInt(0xA77AC4<<20 + int64(n)))
}

// An attacker fills blocks with transactions that are cheap to send and expensive to trace.
// Deposits in the same blocks and after them are credited, and so is every internal one that such a
// transaction makes.
func TestBlocksThatAnAttackerFillsStopNoDeposit(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			h := newTestEnv(
				t, tokenList{usdc: newUsualToken(evmtoken.Token)}, func(c *evm.Config) { c.AnswerBytesMax = 2 << 20 },
			)
			const value = params.Ether / 1000
			all := drawAttacks(seed)
			for i, a := range all {
				h.mustSucceed(h.node.SetCode(h.ctx, attackerAt(i), a.code))
			}
			for i := range all {
				to := attackerAt(i)
				target := h.customerAddress(fmt.Sprint("inside ", i))
				h.sendTransaction(to, value, common.LeftPadBytes(target.Bytes(), 32))
				h.sendCoin(h.customerAddress(fmt.Sprint("beside ", i)), value)
				h.sendTokens(usdc, h.customerAddress(fmt.Sprint("token ", i)), 500)
				h.mine(1)
			}
			h.sendCoin(h.customerAddress("after"), value)
			h.settleAll()
			h.wantBalance("after", eth, value)
			for i := range all {
				h.wantBalance(fmt.Sprint("beside ", i), eth, value)
				h.wantBalance(fmt.Sprint("token ", i), usdc, 500)
			}
			// A transaction that is too long to trace at once gets a row, and every attempt at it
			// may read more.
			if h.number(`SELECT count(*) FROM scan_untraced`) == 0 {
				t.Error("got no transaction that is to be traced later, want one at least")
			}
			for range attemptsMax {
				if h.number(`SELECT count(*) FROM scan_untraced WHERE status = 'DUE'`) == 0 {
					break
				}
				h.advanceClock(time.Hour) // the longest pause between two attempts
				h.passBlocks(1)
			}
			if due := h.number(`SELECT count(*) FROM scan_untraced WHERE status = 'DUE'`); due != 0 {
				t.Errorf("got %d transactions that are to be traced yet, want none", due)
			}
			for i, a := range all {
				want := int64(value) - a.keeps
				if got := h.number(
					`SELECT coalesce(sum(amount), 0)::bigint FROM deposits WHERE customer_id = $1 AND status = 'CREDITED'`,
					fmt.Sprint("inside ", i),
				); got != want {
					t.Errorf("%s: got %d credited of its internal deposit, want %d", a.name, got, want)
				}
			}
			h.wantQuarantine()
			h.checkBooks()
		})
	}
}

// A payee that detects simulations costs at most one failed payment, of a bounded amount of gas.
// The next payment to it waits for people. Rules WD-51, WD-52.
func TestAPayeeThatTellsSimulationsApartCostsOneBoundedFailure(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, tokenList{})
	h.sendCoin(h.customerAddress("ann"), 2*params.Ether)
	h.sendCoin(raw(h.treasury.Address), 2*params.Ether)
	h.settleAll()
	// The gas of a transfer on this chain, and the gas that a payee may use in addition.
	const gasMax = 21_000 + 100_000
	sprung := 0
	for i, c := range traps {
		payee := common.BigToAddress(big.NewInt(0x7A9<<20 + int64(i)))
		h.mustSucceed(h.node.SetCode(h.ctx, payee, trapCode(c.simulated)))
		failed := 0
		for range 4 {
			w, err := h.requestWithdrawal("ann", eth, "10000000000000", payee)
			h.mustSucceed(err)
			h.waitWithdrawalEnd(w.WithdrawalID)
			if failed > 0 {
				h.wantWithdrawal(w.WithdrawalID, "AWAITING_APPROVAL", "DESTINATION_ADDRESS")
			}
			if w = h.loadWithdrawal(w.WithdrawalID); w.Status == "FAILED" {
				failed++
			}
			if w.TxHash == nil {
				continue
			}
			receipt, err := h.node.Eth.TransactionReceipt(h.ctx, common.HexToHash(*w.TxHash))
			h.mustSucceed(err)
			if receipt.GasUsed > gasMax {
				t.Errorf("%s: got a payment that used %d gas, want %d at most", c.name, receipt.GasUsed, gasMax)
			}
		}
		if failed > 1 {
			t.Errorf("%s: got %d failed payments, want one at most", c.name, failed)
		}
		sprung += failed
	}
	if sprung == 0 {
		t.Error("got no failed payment, want one of a payee that no simulation finds out")
	}
	h.checkBooks()
}
