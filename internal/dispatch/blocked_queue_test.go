package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
)

func TestOrdersThatWaitDoNotHoldUpTheOnesBehindThem(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.newWorker(dispatch.Config{InFlightMax: 2})
	b.fundWallet(b.treasury, coin, 1000)
	for i := range 9 {
		b.submitOrder(b.newOrder(fmt.Sprint("wd_", i), sim.Address("customer"), 5000)) // more than the wallet holds
		b.clock.advance(time.Millisecond)
	}
	b.submitOrder(b.newOrder("wd_last", sim.Address("customer"), 400))
	for range 10 {
		b.runRounds()
		b.clock.advance(2 * time.Second)
	}
	b.wantStatus("wd_last", dispatch.Broadcast)
}

func TestANonceThatTheChainHasUsedIsNeverGivenOut(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	// The wallet has no open order, so only the next payment checks the account.
	b.chain.SubmitForeign(b.treasury.Address, sim.Move{
		From: b.treasury.Address, To: sim.Address("thief"), Contract: b.token, Amount: money.Units(5),
	})
	b.mineAndProve(6)
	b.submitOrder(b.newOrder("wd_1", sim.Address("customer"), 400))
	b.runRounds()
	if n := b.queryCount(`SELECT count(*) FROM dispatch_slots`); n != 0 {
		t.Fatalf("got %d slots, want none", n)
	}
	if s, waits := b.orderStatus("wd_1"); s != dispatch.Queued || waits != string(dispatch.WaitFreeze) {
		t.Errorf("got %v waiting for %q, want QUEUED waiting for FREEZE", s, waits)
	}
	if n := b.queryCount(`SELECT count(*) FROM freezes WHERE scope = 'WALLET' AND source = 'DISPATCH'`); n != 1 {
		t.Errorf("got %d freezes of the wallet, want 1", n)
	}
}

// hookedSigner is a signer that runs a hook while it answers.
type hookedSigner struct {
	signer.Signer
	hook   func()
	refuse func(signer.SignRequest) error
}

func (m *hookedSigner) AdmitIntent(ctx context.Context, i signer.Intent) (signer.Entry, error) {
	e, err := m.Signer.AdmitIntent(ctx, i)
	if m.hook != nil {
		m.hook()
	}
	return e, err
}

func (m *hookedSigner) Sign(ctx context.Context, r signer.SignRequest) (signer.SignedTx, error) {
	if m.refuse != nil {
		if err := m.refuse(r); err != nil {
			return signer.SignedTx{}, err
		}
	}
	return m.Signer.Sign(ctx, r)
}

func TestAFreezeDuringTheSignersAnswerComesBeforeTheSlot(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	b.newWorkerWith(&hookedSigner{Signer: b.signer, hook: func() {
		b.inSystem(func(ctx context.Context, tx pg.Tx) error {
			return freeze.Create(ctx, tx, freeze.Freeze{
				Scope: freeze.ScopeCustomer, OrgID: b.org, CustomerID: "ann", Source: freeze.SourceOperator,
				Reason: "test", Actor: audit.Operator("op"),
			})
		})
	}}, dispatch.Config{})
	o := b.newOrder("wd_1", sim.Address("customer"), 400)
	b.submitOrder(o)
	b.runRounds()
	if s, waits := b.orderStatus("wd_1"); s != dispatch.Queued || waits != string(dispatch.WaitFreeze) {
		t.Errorf("got %v waiting for %q, want QUEUED waiting for FREEZE", s, waits)
	}
}

func TestNothingOfATokenUnderQuarantineGetsASlot(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	b.submitOrder(b.newOrder("wd_1", sim.Address("customer"), 400))
	b.inSystem(func(ctx context.Context, tx pg.Tx) error { return mint.Quarantine(ctx, tx, usdc, "its events lie") })
	b.runRounds()
	if s, waits := b.orderStatus("wd_1"); s != dispatch.Queued || waits != string(dispatch.WaitQuarantine) {
		t.Errorf("got %v waiting for %q, want QUEUED waiting for QUARANTINE", s, waits)
	}
}

// execWithoutTriggers changes rows without what the database demands of them.
func (b *testEnv) execWithoutTriggers(sql string, args ...any) {
	b.Helper()
	tx, err := pgtest.OwnerPool(b.T, b.db).Begin(b.ctx)
	b.must(err)
	_, err = tx.Exec(b.ctx, `SET LOCAL session_replication_role = replica`)
	b.must(err)
	_, err = tx.Exec(b.ctx, sql, args...)
	b.must(err)
	b.must(tx.Commit(b.ctx))
}

// makeBatchRow makes the order one of the first row of batch bp_1.
func (b *testEnv) makeBatchRow(id string) {
	b.Helper()
	b.execWithoutTriggers(`UPDATE dispatch_orders SET customer_id = NULL, product = 'BATCH_PAYOUT',
		batch = '{"batchId": "bp_1", "row": 1, "contentHash": "sha256:`+strings.Repeat("00", 32)+`"}'
		WHERE order_id = $1`, id)
}

// limitedSigner refuses every payment by a limit of its policy.
type limitedSigner struct{ signer.Signer }

func (limitedSigner) AdmitIntent(context.Context, signer.Intent) (signer.Entry, error) {
	return signer.Entry{}, signer.Refuse(signer.PolicyLimit, "%s", "payments of a day are 400 at most")
}

// A limit of the signer returns a customer's payment to people. A row of a batch, which people approved as a whole,
// waits and says why. Rule BP-11.
func TestALimitOfTheSignerLeavesARowOfABatchWaiting(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	b.newWorkerWith(limitedSigner{b.signer}, dispatch.Config{})
	for _, id := range []string{"wd_1", "wd_2"} {
		b.submitOrder(b.newOrder(id, sim.Address("customer"), 400))
	}
	b.makeBatchRow("wd_1")
	b.runRounds()
	if s, waits := b.orderStatus("wd_1"); s != dispatch.Queued || waits != string(dispatch.WaitFeeLimit) {
		t.Errorf("a row: got %v waiting for %q, want QUEUED waiting for FEE_LIMIT", s, waits)
	}
	if s, _ := b.orderStatus("wd_2"); s != dispatch.Refused {
		t.Errorf("a customer's payment: got %v, want REFUSED", s)
	}
}

// Rules BP-11 and BP-12.
func TestNothingOfAPausedOrCancelledBatchGetsASlot(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	b.submitOrder(b.newOrder("wd_1", sim.Address("customer"), 400))
	b.makeBatchRow("wd_1")
	b.execWithoutTriggers(`
		INSERT INTO payout_batches (batch_id, org_id, version, mode, row_count, content_hash, list_hash, header,
			request_digest, maker_kind, maker_id, created_at, status, submitter_kind, submitter_id, submitted_at,
			approvals_required, request_mac, approved_at, look_at, updated_at, paused_at)
		VALUES ('bp_1', $1, 5, 'STRICT', 1, sha256('bp_1'), sha256('bp_1'), '{}', '', 'API_KEY', 'key_1', now(),
			'PROCESSING', 'USER', 'usr_maker', now(), 1, 'mac', now(), now(), now(), now())`, b.org)
	for _, name := range []string{"paused", "cancelled"} {
		b.runRounds()
		if s, waits := b.orderStatus("wd_1"); s != dispatch.Queued || waits != string(dispatch.WaitFreeze) {
			t.Errorf("%s: got %v waiting for %q, want QUEUED waiting for FREEZE", name, s, waits)
		}
		b.execWithoutTriggers(`UPDATE payout_batches SET paused_at = NULL, stopped_at = now(), stopper_kind = 'USER',
			stopper_id = 'usr_maker' WHERE org_id = $1`, b.org)
		b.execWithoutTriggers(`UPDATE dispatch_orders SET waiting_for = NULL, attempt_after = created_at
			WHERE org_id = $1`, b.org)
	}
}

func TestARefusedReplacementHoldsUpNothing(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	signed := 0
	b.newWorkerWith(&hookedSigner{Signer: b.signer, refuse: func(r signer.SignRequest) error {
		if r.IntentID != "wd_1" {
			return nil
		}
		if signed++; signed > 1 {
			return &signer.Refusal{Code: signer.RefusedFee, Message: "above the policy"}
		}
		return nil
	}}, dispatch.Config{})
	to := sim.Address("customer")
	b.submitOrder(b.newOrder("wd_1", to, 400))
	b.runRounds()
	b.chain.SetBaseFee(3_000_000_000)
	b.chain.MineEmpty(1)
	b.clock.advance(2 * time.Minute)
	b.runRounds()
	if n := b.queryCount(`SELECT count(*) FROM dispatch_attempts WHERE order_id = 'wd_1'`); n != 2 {
		t.Fatalf("got %d attempts, want 2: the second refused", n)
	}
	b.submitOrder(b.newOrder("wd_2", to, 100))
	b.runRounds()
	b.wantStatus("wd_2", dispatch.Broadcast)
	b.chain.SetBaseFee(1)
	b.mineAndProve(1)
	b.runRounds()
	b.mineAndProve(5)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Paid)
	b.wantStatus("wd_2", dispatch.Paid)
	b.wantReceived(to, 500)
	b.checkBooks(b.treasury)
}

func TestAPaymentThatIsOutEndsWhileTheSignerIsDown(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	down := errors.New("no answer")
	b.newWorkerWith(&hookedSigner{Signer: b.signer, refuse: func(r signer.SignRequest) error {
		if r.IntentID == "wd_2" {
			return down
		}
		return nil
	}}, dispatch.Config{})
	to := sim.Address("customer")
	b.submitOrder(b.newOrder("wd_1", to, 400))
	b.runRounds()
	b.submitOrder(b.newOrder("wd_2", to, 100))
	for range 3 {
		if _, err := b.worker.RunRound(b.ctx); err != nil && !errors.Is(err, down) {
			t.Fatal(err)
		}
	}
	b.wantStatus("wd_2", dispatch.Slotted)
	for _, blocks := range []int{1, 5} {
		b.mineAndProve(blocks)
		if _, err := b.worker.RunRound(b.ctx); !errors.Is(err, down) {
			t.Errorf("got %v, want the signer's error told", err)
		}
	}
	b.wantStatus("wd_1", dispatch.Paid)
}

func TestNothingEndsByAProofOfABrokenFinality(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.submitOrder(b.newOrder("wd_1", to, 400))
	b.runRounds()
	b.mineAndProve(1)
	b.runRounds()
	broken := freeze.Freeze{Scope: freeze.ScopeChain, Chain: "ETHEREUM", Source: freeze.SourceFinality, Reason: "test"}
	b.inSystem(func(ctx context.Context, tx pg.Tx) error { return freeze.Create(ctx, tx, broken) })
	b.mineAndProve(5)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Broadcast)
	b.inSystem(func(ctx context.Context, tx pg.Tx) error {
		standing, err := freeze.List(ctx, tx)
		if err != nil {
			return err
		}
		return freeze.Lift(ctx, tx, standing[0].ID, audit.Operator("op"))
	})
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Paid)
	b.checkBooks(b.treasury)
}

func TestACancelWithoutTheGasForItSaysSo(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	b.submitOrder(b.newOrder("wd_1", sim.Address("customer"), 400))
	b.runRounds()
	b.inSystem(func(ctx context.Context, tx pg.Tx) error { // all other gas is reserved
		_, err := tx.Exec(
			ctx, `UPDATE address_funds SET gas_reserved = gas WHERE wallet_id = $1 AND mint_id = $2`, b.treasury.ID,
			native,
		)
		return err
	})
	if ok, err := b.worker.CancelOrder(b.ctx, "wd_1", audit.Operator("op")); ok || err == nil ||
		!strings.Contains(err.Error(), "gas") {
		t.Errorf("got %v %v, want an error that names the gas", ok, err)
	}
}
