package deposit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// sendUnknown sends one transaction with transfers of made-up tokens to an address, each token
// several times.
func (w *testEnv) sendUnknown(name string, to chain.Address, tokens, each int) {
	nothing := money.Zero
	var moves []sim.Move
	for i := range tokens {
		fake := sim.Address(fmt.Sprintf("%s %d", name, i))
		for range each {
			moves = append(moves, sim.Move{Contract: fake, To: to, Amount: money.Units(1), ActualAmount: &nothing})
		}
	}
	w.c.SubmitTx(payer, moves...)
}

// Rule DEP-52.
func TestATokenThatIsNotInTheCatalogueFillsNoTables(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	// told compares the recorded and dropped transfers to a wallet.
	told := func(when, wallet string, recorded, dropped int) {
		t.Helper()
		rows := w.queryCount(t, `SELECT count(*) FROM deposits WHERE status = 'UNSUPPORTED' AND wallet_id = $1`, wallet)
		counted := w.queryCount(
			t,
			`SELECT coalesce(sum(recorded), 0)::bigint FROM unknown_token_counts WHERE wallet_id = $1 AND chain = 'ETHEREUM'`,
			wallet,
		)
		missing := w.queryCount(
			t,
			`SELECT coalesce(sum(dropped), 0)::bigint FROM unknown_token_counts WHERE wallet_id = $1 AND chain = 'ETHEREUM'`,
			wallet,
		)
		if rows != recorded || counted != recorded || missing != dropped {
			t.Errorf(
				"%s: got %d rows of %s, %d counted, %d left out, want %d and %d left out", when, rows, wallet,
				counted, missing, recorded, dropped,
			)
		}
	}
	const ofAlice, ofBob = "adr_alice", "adr_bob"

	w.sendUnknown("one", alice, 1, 5000)
	w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Mine(4)
	w.walkBlocks(t)
	told("one token", ofAlice, 20, 4980)
	w.wantCredited(t, usdc, 100, 1)

	w.sendUnknown("many", alice, 100, 20)
	w.sendUnknown("another's", bob, 2, 20)
	w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Mine(4)
	w.walkBlocks(t)
	told("many tokens", ofAlice, 1000, 6000)
	told("a block that is full", ofBob, 20, 20)
	w.wantCredited(t, usdc, 200, 2)

	// Transfers to a wallet that has reached its limit do not count against another wallet.
	w.sendUnknown("late", alice, 60, 20)
	w.sendUnknown("another's, late", bob, 60, 20)
	w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Mine(4)
	w.walkBlocks(t)
	told("a wallet that has enough", ofAlice, 1000, 7200)
	told("another wallet", ofBob, 1000, 240)
	w.wantCredited(t, usdc, 300, 3)

	// A block that is reported again records and counts nothing new.
	if err := w.w.Rewind(t.Context(), 1, audit.Operator("op")); err != nil {
		t.Fatal(err)
	}
	w.walkBlocks(t)
	told("told again", ofAlice, 1000, 7200)
	told("told again", ofBob, 1000, 240)
	w.wantCredited(t, usdc, 300, 3)
}

// Rule DEP-52.
func TestNoWalletGetsItsThousandTwice(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.sendUnknown("fake", alice, 1, 1)
	w.c.Mine(4)
	w.walkBlocks(t)
	owner := pgtest.OwnerPool(t, w.db)
	for why, sql := range map[string]string{
		"unknown_token_counts_recorded": `UPDATE unknown_token_counts SET recorded = 1001`,
		"unknown_token_counts_dropped":  `UPDATE unknown_token_counts SET dropped = 1`,
		"only grow":                     `UPDATE unknown_token_counts SET recorded = 0`,
		"written once":                  `DELETE FROM unknown_token_counts`,
	} {
		if _, err := owner.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: got %v, want %s", sql, err, why)
		}
	}
}
