package forks

import (
	"context"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

const shallow = 4 // blocks until a block is final, where finality breaks

// runRounds runs every part for so many rounds, until nothing changes.
func (w *forkEnv) runRounds(rounds int) {
	w.Helper()
	for range rounds {
		w.advanceClock(20 * time.Second)
		w.runSteps()
		w.mustSucceed(w.Deposits.SettleReorgs(w.ctx))
		w.mineBlocks(2)
	}
	w.runSteps()
}

// replaceAbove replaces every block above this one by a fork with these transactions, lets a person
// decide for the fork, and walks until that is settled.
func (w *forkEnv) replaceAbove(above uint64, txs ...anvil.ReorgTx) {
	w.Helper()
	head, err := w.node.Eth.BlockNumber(w.ctx)
	w.mustSucceed(err)
	w.replaceBlocks(int(head-above), txs...)
	w.mineBlocks(1)
	if err := w.walkFinal(); err == nil {
		w.Fatal("got no error, want finality to break")
	}
	p, err := w.Walker.FindFork(w.ctx)
	w.mustSucceed(err)
	_, err = w.Walker.Repoint(w.ctx, p, 2, audit.Operator("op"))
	w.mustSucceed(err)
	w.mineBlocks(10)
	w.runRounds(1)
}

// liftFreeze lifts all freezes with this scope.
func (w *forkEnv) liftFreeze(scope freeze.Scope) {
	w.Helper()
	w.mustSucceed(w.db.InSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
		all, err := freeze.List(ctx, tx)
		for _, f := range all {
			if err == nil && f.Scope == scope {
				err = freeze.Lift(ctx, tx, f.ID, audit.Operator("op"))
			}
		}
		return err
	}))
}

// countReceived returns how often an address received dollars, by the oracle.
func (w *forkEnv) countReceived(to common.Address) int {
	w.Helper()
	_, err := w.chainOracle.Walk(w.ctx)
	w.mustSucceed(err)
	return len(w.chainOracle.ReceivedBy(strings.ToLower(w.token.Hex()), strings.ToLower(to.Hex())))
}

// Rule WD-18, on a real chain, for every kind of outgoing payment.
func TestWhatABrokenFinalityTookBackIsOnTheChainOnce(t *testing.T) {
	t.Parallel()
	w := newFundedEnv(t, shallow)
	above, err := w.node.Eth.BlockNumber(w.ctx)
	w.mustSucceed(err)
	paid := w.sendPayment(0, w.token, 0, transferData(*addressOf(w.ann.Address), millionUnits/2))
	w.mineBlocks(1)
	w.runRounds(8)
	_, first := w.requestWithdrawal(1_000_000)
	_, second := w.requestWithdrawal(2_000_000)
	w.runRounds(6)
	if n := w.queryNumber(
		`SELECT count(*) FROM dispatch_orders WHERE status = 'PAID' AND proof_id > (SELECT max(proof_id) FROM finality_proofs WHERE height = $1)`,
		above,
	); n < 3 {
		t.Fatalf("got %d orders, want a sweep and two payments", n)
	}
	bytes, told := w.queryNumber(`SELECT count(*) FROM dispatch_attempts`), w.queryNumber(`SELECT count(*) FROM events`)

	w.replaceAbove(above, reorgTransaction(paid, 0))
	if n := w.queryNumber(`SELECT count(*) FROM dispatch_reorged`); n < 3 {
		t.Fatalf("got %d orders in question, want all", n)
	}
	if w.countReceived(first) != 0 || w.countReceived(second) != 0 {
		t.Fatal("got payments on a chain that is frozen")
	}
	w.liftFreeze(freeze.ScopeChain)
	w.runRounds(15)
	if n := w.queryNumber(`SELECT count(*) FROM dispatch_reorged`); n != 0 {
		t.Errorf("got %d orders in question, want none", n)
	}
	for _, to := range []common.Address{first, second} {
		if n := w.countReceived(to); n != 1 {
			t.Errorf("%s: got %d payments, want one", to, n)
		}
	}
	if n := w.queryNumber(`SELECT count(*) FROM dispatch_attempts`); n != bytes {
		t.Errorf("got %d transactions, want the same %d", n, bytes)
	}
	if n := w.queryNumber(`SELECT count(*) FROM events`); n != told {
		t.Errorf("got %d events, want nothing told beside the %d before", n, told)
	}
	if n := w.queryNumber(`SELECT count(*) FROM freezes WHERE lifted_at IS NULL`); n != 0 {
		t.Errorf("got %d freezes, want none", n)
	}
	w.checkBooks()
	w.checkOracle()
}

// Rule WD-19. On the fork the payer's coins go elsewhere, and the payment that spends them would
// have to come from other customers' funds.
func TestAPaymentOfADepositThatWasDoubleSpentIsNotSentAgain(t *testing.T) {
	t.Parallel()
	w := newFundedEnv(t, shallow)
	w.mustSucceed(w.db.InOrg(w.ctx, w.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, w.org, "eve", "")
		return err
	}))
	var err error
	w.eve, err = w.Wallets.Address(w.ctx, signertest.Deposit(w.org, "eve"))
	w.mustSucceed(err)
	above, err := w.node.Eth.BlockNumber(w.ctx)
	w.mustSucceed(err)
	nonce := w.pendingNonce(w.payers[1])
	w.sendPayment(1, w.token, 0, transferData(*addressOf(w.eve.Address), 5_000_000))
	w.mineBlocks(1)
	w.runRounds(6)
	_, anns := w.requestWithdrawal(1_000_000)
	w.runRounds(1)
	eves, key := common.BigToAddress(big.NewInt(0xe4e4e4e4e4e4e4)), "eve-1"
	_, _, err = w.Withdrawals.Request(w.ctx, w.org, withdrawal.Request{
		MintID: tokenID, CustomerID: "eve", Amount: fmt.Sprint(5_000_000), ToAddress: eves.Hex(), IdempotencyKey: &key,
		Actor: audit.APIKey(w.org),
	})
	w.mustSucceed(err)
	w.runRounds(6)
	if w.countReceived(anns) != 1 || w.countReceived(eves) != 1 {
		t.Fatalf("got %d and %d payments, want one each", w.countReceived(anns), w.countReceived(eves))
	}

	w.replaceAbove(
		above,
		reorgTransaction(
			w.signTransaction(
				w.payers[1], nonce, w.token, 0, transferData(common.BigToAddress(big.NewInt(0xacc0)), 5_000_000),
			),
			0,
		),
	)
	w.liftFreeze(freeze.ScopeChain)
	w.runRounds(15)
	if w.countReceived(anns) != 1 || w.countReceived(eves) != 0 {
		t.Errorf(
			"got %d payments for ann and %d for eve, want ann's alone", w.countReceived(anns), w.countReceived(eves),
		)
	}
	if n := w.queryNumber(
		`SELECT count(*) FROM dispatch_orders o JOIN dispatch_reorged USING (order_id) WHERE o.customer_id = 'eve' AND o.waiting_for = 'FREEZE'`,
	); n != 1 {
		t.Errorf("got %d payments of eve that wait for a person, want one", n)
	}
	r, err := verify.RunChecks(w.ctx, w.db, verify.WithoutSchema)
	w.mustSucceed(err)
	c, err := verify.CompareWithChains(w.ctx, w.db, w.Chains)
	w.mustSucceed(err)
	if !r.IsIntact() || !c.IsIntact() {
		t.Errorf("got %+v %+v, want no breach of what is listed", r.Breaches, c.Breaches)
	}
	w.liftFreeze(freeze.ScopeCustomer)
	w.runRounds(6)
	if n := w.countReceived(eves); n != 1 {
		t.Errorf("got %d payments after a person let go, want one", n)
	}
	w.checkOracle()
}
