package forks

import (
	"context"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

const shallow = 4 // blocks until a block is final, where finality breaks

// along turns everything until it comes to rest.
func (w *world) along(rounds int) {
	w.Helper()
	for range rounds {
		w.pass(20 * time.Second)
		w.work()
		w.must(w.Deposits.Settle(w.ctx))
		w.mine(2)
	}
	w.work()
}

// broke takes every block above this one away, has a person decide for the fork
// with these transactions, and walks until that is settled.
func (w *world) broke(above uint64, txs ...anvil.ReorgTx) {
	w.Helper()
	head, err := w.node.Eth.BlockNumber(w.ctx)
	w.must(err)
	w.reorg(int(head-above), txs...)
	w.mine(1)
	if err := w.final(); err == nil {
		w.Fatal("got no error, want finality to break")
	}
	p, err := w.Walk.Parting(w.ctx)
	w.must(err)
	_, err = w.Walk.Repoint(w.ctx, p, 2, audit.Operator("op"))
	w.must(err)
	w.mine(10)
	w.along(1)
}

// lift lets go what a freeze of this scope stops.
func (w *world) lift(scope freeze.Scope) {
	w.Helper()
	w.must(w.db.InSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
		all, err := freeze.List(ctx, tx)
		for _, f := range all {
			if err == nil && f.Scope == scope {
				err = freeze.Lift(ctx, tx, f.ID, audit.Operator("op"))
			}
		}
		return err
	}))
}

// got is how often an address received dollars, as the oracle sees it.
func (w *world) got(to common.Address) int {
	w.Helper()
	_, err := w.truth.Walk(w.ctx)
	w.must(err)
	return len(w.truth.Received(strings.ToLower(w.token.Hex()), strings.ToLower(to.Hex())))
}

// Rule WD-18: on a real chain, of all that goes out.
func TestWhatABrokenFinalityTookBackIsOnTheChainOnce(t *testing.T) {
	t.Parallel()
	w := furnish(t, shallow)
	above, err := w.node.Eth.BlockNumber(w.ctx)
	w.must(err)
	paid := w.pay(0, w.token, 0, dollars(*at(w.ann.Address), million/2))
	w.mine(1)
	w.along(8)
	_, first := w.ask(1_000_000)
	_, second := w.ask(2_000_000)
	w.along(6)
	if n := w.number(`SELECT count(*) FROM dispatch_orders WHERE status = 'PAID' AND proof_id > (SELECT max(proof_id) FROM finality_proofs WHERE height = $1)`, above); n < 3 {
		t.Fatalf("got %d orders, want a sweep and two payments", n)
	}
	bytes, told := w.number(`SELECT count(*) FROM dispatch_attempts`), w.number(`SELECT count(*) FROM events`)

	w.broke(above, raw(paid, 0))
	if n := w.number(`SELECT count(*) FROM dispatch_in_question`); n < 3 {
		t.Fatalf("got %d orders in question, want all", n)
	}
	if w.got(first) != 0 || w.got(second) != 0 {
		t.Fatal("got payments on a chain that is frozen")
	}
	w.lift(freeze.Chain)
	w.along(15)
	if n := w.number(`SELECT count(*) FROM dispatch_in_question`); n != 0 {
		t.Errorf("got %d orders in question, want none", n)
	}
	for _, to := range []common.Address{first, second} {
		if n := w.got(to); n != 1 {
			t.Errorf("%s: got %d payments, want one", to, n)
		}
	}
	if n := w.number(`SELECT count(*) FROM dispatch_attempts`); n != bytes {
		t.Errorf("got %d transactions, want the same %d", n, bytes)
	}
	if n := w.number(`SELECT count(*) FROM events`); n != told {
		t.Errorf("got %d events, want nothing told beside the %d before", n, told)
	}
	if n := w.number(`SELECT count(*) FROM freezes WHERE lifted_at IS NULL`); n != 0 {
		t.Errorf("got %d freezes, want none", n)
	}
	w.agree()
	w.judge()
}

// Rule WD-19: the fork has the payer's coins go elsewhere, and the payment that was
// made of them has to leave from what is the others'.
func TestAPaymentOfADepositThatWasDoubleSpentIsNotSentAgain(t *testing.T) {
	t.Parallel()
	w := furnish(t, shallow)
	w.must(w.db.InOrg(w.ctx, w.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, w.org, "eve", "")
		return err
	}))
	var err error
	w.eve, err = w.Book.Address(w.ctx, signertest.Deposit(w.org, "eve"))
	w.must(err)
	above, err := w.node.Eth.BlockNumber(w.ctx)
	w.must(err)
	nonce := w.nonce(w.payers[1])
	w.pay(1, w.token, 0, dollars(*at(w.eve.Address), 5_000_000))
	w.mine(1)
	w.along(6)
	_, anns := w.ask(1_000_000)
	w.along(1)
	eves, key := common.BigToAddress(big.NewInt(0xe4e4e4e4e4e4e4)), "eve-1"
	_, _, err = w.Pay.Request(w.ctx, w.org, withdrawal.Request{
		MintID: dollar, CustomerID: "eve", Amount: fmt.Sprint(5_000_000), ToAddress: eves.Hex(), IdempotencyKey: &key, Actor: audit.APIKey(w.org),
	})
	w.must(err)
	w.along(6)
	if w.got(anns) != 1 || w.got(eves) != 1 {
		t.Fatalf("got %d and %d payments, want one each", w.got(anns), w.got(eves))
	}

	w.broke(above, raw(w.signed(w.payers[1], nonce, w.token, 0, dollars(common.BigToAddress(big.NewInt(0xacc0)), 5_000_000)), 0))
	w.lift(freeze.Chain)
	w.along(15)
	if w.got(anns) != 1 || w.got(eves) != 0 {
		t.Errorf("got %d payments for ann and %d for eve, want ann's alone", w.got(anns), w.got(eves))
	}
	if n := w.number(`SELECT count(*) FROM dispatch_orders o JOIN dispatch_in_question USING (order_id) WHERE o.customer_id = 'eve' AND o.waiting_for = 'FREEZE'`); n != 1 {
		t.Errorf("got %d payments of eve that wait for a person, want one", n)
	}
	r, err := verify.Run(w.ctx, w.db)
	w.must(err)
	c, err := verify.OnChain(w.ctx, w.db, w.Chains)
	w.must(err)
	if !r.OK() || !c.OK() {
		t.Errorf("got %+v %+v, want no breach of what is listed", r.Breaches, c.Breaches)
	}
	w.lift(freeze.Customer)
	w.along(6)
	if n := w.got(eves); n != 1 {
		t.Errorf("got %d payments after a person let go, want one", n)
	}
	w.judge()
}
