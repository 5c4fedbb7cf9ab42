package deposit_test

import (
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/money"
)

// long returns the code of a contract that passes its payment on to the address in its input. Then
// it calls an empty address several times with 200,000 bytes of the same memory. Each call costs
// 100 gas and adds 400,000 characters to the trace.
func long(calls int) []byte {
	code := fmt.Sprintf("6000600060006000346000355af150"+ // CALL(gas, input, value, nothing)
		"61%04x5b6000600062030d4060006000"+"61dead5af150"+"6001900380"+"6012"+"5700", calls)
	b, err := hex.DecodeString(code)
	if err != nil {
		panic(err)
	}
	return b
}

// installContract installs a contract with such code at an address.
func (r *anvilEnv) installContract(t *testing.T, name string, calls int) common.Address {
	t.Helper()
	at := common.BytesToAddress([]byte(name))
	if err := r.node.SetCode(t.Context(), at, long(calls)); err != nil {
		t.Fatal(err)
	}
	return at
}

func (r *anvilEnv) callContract(t *testing.T, at common.Address, value int64) common.Hash {
	t.Helper()
	return r.sendTx(t, at, value, common.BytesToHash(r.to[:]).Bytes())
}

// walkOn makes all pending traces due at once and takes one step with them.
func (r *anvilEnv) walkOn(t *testing.T) {
	t.Helper()
	r.execAsOwner(t, `UPDATE scan_untraced SET next_attempt_at = created_at WHERE status = 'DUE'`)
	for {
		moved, err := r.w.StepTraces(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !moved {
			return
		}
	}
}

// The sender decides how long the trace of its calls is. A long trace delays its own payment to our
// address and nothing else.
func TestOnARealChainATransactionWithALongTraceDelaysNothingElse(t *testing.T) {
	t.Parallel()
	r := newAnvilEnv(t)
	batch, err := r.node.DeployContract(t.Context(), evmtoken.Batch)
	if err != nil {
		t.Fatal(err)
	}
	longest, longer := r.installContract(t, "longest", 175), r.installContract(t, "longer", 30)
	hash := r.callContract(t, longest, 700)
	r.sendTx(t, r.to, 1000, nil)
	r.transferToken(t, usdc, 5_000_000)
	r.sendTx(t, batch, 40, evmtoken.Batch.CallData("forward", r.to))
	r.mineBlocks(t, 1)
	for i := range int64(3) { // and in every block after it
		r.callContract(t, longer, 10)
		r.sendTx(t, r.to, 2000+i, nil)
		r.mineBlocks(t, 1)
	}
	r.mineBlocks(t, untilFinal+1)
	r.walkBlocks(t)
	if receipt, err := r.node.WaitReceipt(t.Context(), hash); err != nil || receipt.Status != 1 ||
		receipt.GasUsed > 200_000 {
		t.Fatalf("got %+v, %v, want a cheap transaction that succeeds", receipt, err)
	}
	plain := uint64(1000 + 2000 + 2001 + 2002 + 40)
	if got := r.loadBalance(t, ledger.Customer, "alice", eth); got != money.Units(plain) {
		t.Errorf("got %v, want the %d that no long trace keeps from being known", got, plain)
	}
	if got := r.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(5_000_000) {
		t.Errorf("got %v of the token, want 5000000", got)
	}
	if n := r.queryCount(
		t, `SELECT count(*) FROM scan_untraced WHERE status = 'DUE' AND cardinality(addresses) = 1`,
	); n != 4 {
		t.Errorf("got %d transactions to be traced, want the four with long traces", n)
	}
	for range 6 {
		r.walkOn(t)
	}
	if got := r.loadBalance(t, ledger.Customer, "alice", eth); got != money.Units(plain+700+30) {
		t.Errorf("traced later: got %v, want %d", got, plain+700+30)
	}
	if n := r.queryCount(t, `SELECT count(*) FROM scan_untraced WHERE status = 'DUE'`); n != 0 {
		t.Errorf("got %d transactions to be traced, want none", n)
	}
	if n := r.queryCount(
		t, `SELECT count(*) FROM deposits WHERE kind = 'INTERNAL' AND status = 'CREDITED' AND position = '0'`,
	); n != 5 {
		t.Errorf("got %d internal deposits, want 5", n)
	}
	if n := r.queryCount(t, `SELECT count(*) FROM scan_findings`) + r.queryCount(
		t, `SELECT count(*) FROM mints WHERE quarantined_at IS NOT NULL`,
	); n != 0 {
		t.Errorf("got %d findings and quarantines, want none", n)
	}
}
