package deposit_test

import (
	"context"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// Rules DEP-3 and DEP-4: the table enforces them, even against its owner.
func TestTheTableItselfRefusesASecondOrUnprovenCredit(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Mine(1)
	w.walkBlocks(t)
	fresh := w.onlyDeposit(t).DepositID // in a block that is not final
	owner := pgtest.OwnerPool(t, w.db)
	refused := func(name, constraint, sql string) {
		t.Helper()
		if _, err := owner.Exec(t.Context(), sql, fresh); !pg.ViolatesConstraint(err, constraint) {
			t.Errorf("%s: got %v, want a violation of %s", name, err, constraint)
		}
	}
	again := `INSERT INTO deposits SELECT (jsonb_populate_record(d, '{"deposit_id": "dep_2"}')).* FROM deposits d WHERE deposit_id = $1`
	refused(
		"to be screened without a proof",
		"deposits_final_before_credit", `UPDATE deposits SET status = 'SCREENING' WHERE deposit_id = $1`,
	)
	refused("credited without a proof", "deposits_final_before_credit",
		`UPDATE deposits SET status = 'CREDITED', credited_at = now() WHERE deposit_id = $1`)
	refused(
		"dust without a proof",
		"deposits_final_before_credit", `UPDATE deposits SET status = 'BELOW_MINIMUM' WHERE deposit_id = $1`,
	)
	refused("another amount of nothing", "deposits_positive", `UPDATE deposits SET amount = 0 WHERE deposit_id = $1`)
	refused("another address", "deposits_identity_fixed", `UPDATE deposits SET address = 'x' WHERE deposit_id = $1`)
	refused("the same movement again", "deposits_movement_once", again)
	w.c.Mine(3)
	w.walkBlocks(t)
	if d := w.onlyDeposit(t); d.Status != "CREDITED" {
		t.Fatalf("got %s, want CREDITED", d.Status)
	}
	refused("the same movement again, credited", "deposits_movement_once", again)
	refused("another amount", "deposits_final_fixed", `UPDATE deposits SET amount = 1000 WHERE deposit_id = $1`)
	refused("another block", "deposits_final_fixed", `UPDATE deposits SET block_hash = 'x' WHERE deposit_id = $1`)
	refused(
		"to be credited again",
		"deposits_terminal", `UPDATE deposits SET status = 'SCREENING', credited_at = NULL WHERE deposit_id = $1`,
	)
	if got := w.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(100) {
		t.Errorf("got %v, want 100", got)
	}
}

// Rules DEP-12 and EVT-1: if an event cannot be written, the credit is not written either.
func TestACreditAndItsEventAreOneTransaction(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	owner := pgtest.OwnerPool(t, w.db)
	exec := func(sql string) {
		t.Helper()
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`ALTER TABLE events ADD CONSTRAINT events_full CHECK (false) NOT VALID`)
	w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Mine(4)
	w.wantWaiting(t)
	if n, err := w.service.CreditWaiting(t.Context()); n != 0 || err == nil {
		t.Errorf("got %d credited and %v, want none and the reason", n, err)
	}
	if got := w.loadBalance(t, ledger.Customer, "alice", usdc); !got.IsZero() {
		t.Errorf("got a balance of %v without an event, want none", got)
	}
	if f := w.loadFunds(t, "adr_alice", usdc); !f.Credited.IsZero() {
		t.Errorf("got %v on the address without an event, want none", f.Credited)
	}
	exec(`ALTER TABLE events DROP CONSTRAINT events_full`)
	if n := w.creditAll(t); n != 1 {
		t.Errorf("got %d credited once events can be written, want 1", n)
	}
	if got := w.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(100) {
		t.Errorf("got %v, want 100", got)
	}
}

// Of several processes that credit, each skips deposits that another one has locked.
func TestADepositThatSomebodyElseIsCreditingIsPassedBy(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Pay(payer, bob, usdcAt, 200)
	w.c.Mine(4)
	w.wantWaiting(t)
	other := pgtest.BeginOwner(t, w.db)
	if _, err := other.Exec(t.Context(), `SELECT FROM deposits WHERE customer_id = 'alice' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if n, err := w.service.CreditWaiting(ctx); n != 1 || err != nil {
		t.Errorf("got %d credited and %v, want bob's alone", n, err)
	}
	if got := w.loadBalance(t, ledger.Customer, "bob", usdc); got != money.Units(200) {
		t.Errorf("bob: got %v, want 200", got)
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := w.creditAll(t); n != 1 {
		t.Errorf("got %d credited afterwards, want alice's", n)
	}
}

// Rule DEP-2: a consistent row is still no proof that the address is ours.
func TestNothingIsCreditedOnAnAddressWhoseProofDoesNotHold(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Mine(4)
	w.wantWaiting(t)
	if _, err := pgtest.OwnerPool(t, w.db).Exec(
		t.Context(), `UPDATE wallets SET proof = decode(repeat('00', 64), 'hex') WHERE wallet_id = 'adr_alice'`,
	); err != nil {
		t.Fatal(err)
	}
	if n := w.creditAll(t); n != 0 {
		t.Errorf("got %d credited, want none", n)
	}
	w.c.Pay(payer, alice, usdcAt, 100)
	w.c.Mine(4)
	w.walkFinal(t) // nor with its block
	if got := w.loadBalance(t, ledger.Customer, "alice", usdc); !got.IsZero() {
		t.Errorf("got %v, want nothing", got)
	}
}
