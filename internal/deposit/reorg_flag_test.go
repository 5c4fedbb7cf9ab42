package deposit_test

import (
	"context"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/risk"
)

// newFlaggedEnv returns an environment with a flagged deposit of 500 for alice at height 1, on a
// chain that can break.
func newFlaggedEnv(t *testing.T) (*testEnv, *fakeScreener, string) {
	t.Helper()
	w, o := newScreenedEnv(t)
	w.w = w.reorgWalker()
	o.setSeverity(payer, risk.Severe)
	w.c.Pay(payer, alice, usdcAt, 500)
	w.c.Mine(9)
	w.walkBlocks(t)
	d := w.onlyDeposit(t)
	if d.Status != "FLAGGED" {
		t.Fatalf("got %s, want FLAGGED", d.Status)
	}
	return w, o, d.DepositID
}

// wantTaken lets the chain lose the flagged deposit, up to the decision about the break.
func (w *testEnv) wantTaken(t *testing.T) {
	t.Helper()
	w.c.Fork(9, w.c.BlockAt(1).Transfers[0].Tx)
	w.c.MineEmpty(10)
	w.partChain(t)
	w.repointChain(t)
	w.walkFinal(t)
	w.settleReorgs(t)
}

// endReorg walks past the settle height: a deposit that was not found by then is gone.
func (w *testEnv) endReorg(t *testing.T) {
	t.Helper()
	w.c.MineEmpty(10)
	w.walkFinal(t)
	w.settleReorgs(t)
	w.settleReorgs(t)
}

// reappear puts the same transaction on the chain again: it is another deposit.
func (w *testEnv) reappear(t *testing.T, former string) {
	t.Helper()
	w.liftFreezes(t)
	w.c.ResubmitTx(chain.TxHash(w.onlyDeposit(t).TxHash), payer, moveTo(alice, 500))
	w.c.Mine(9)
	w.walkBlocks(t)
	found := w.listDeposits(t, deposit.Filter{Status: "FLAGGED"})
	if len(found) != 1 || found[0].DepositID == former {
		t.Errorf("got %+v, want another deposit that is flagged", found)
	}
}

// Rule DEP-38.
func TestAFlaggedDepositThatTheNewForkDoesNotHaveIsOrphaned(t *testing.T) {
	t.Parallel()
	w, _, id := newFlaggedEnv(t)
	told := w.queryCount(t, `SELECT count(*) FROM events`)
	w.wantTaken(t)
	if d := w.onlyDeposit(t); d.Status != "FLAGGED" || d.ChainStatus != "REORGED" {
		t.Errorf("before it is settled: got %s, %s, want FLAGGED, REORGED", d.Status, d.ChainStatus)
	}
	_, err := pgtest.OwnerPool(t, w.db).Exec(
		t.Context(),
		`UPDATE deposits SET status = 'ORPHANED', proof_id = NULL, confirmed_at = NULL WHERE deposit_id = $1`,
		id,
	)
	if !pg.ViolatesConstraint(err, "deposits_gone_in_time") {
		t.Errorf("given up too early: got %v, want the table to refuse it", err)
	}
	w.endReorg(t)
	d := w.onlyDeposit(t)
	if d.Status != "ORPHANED" || d.ChainStatus != "REORGED" || !d.IsFlagged || d.FlagReason == nil ||
		d.Resolution != nil {
		t.Errorf("got %+v, want it ORPHANED with its flag kept", d)
	}
	if f := w.loadFunds(t, "adr_alice", usdc); !f.Held.IsZero() || !f.Credited.IsZero() || !f.Shortfall.IsZero() {
		t.Errorf("on the address: got %+v, want nothing", f)
	}
	if n := w.queryCount(
		t,
		`SELECT count(*) FROM ledger_transfers WHERE cause_kind = 'DEPOSIT_RELEASE' AND cause_id = $1 AND amount = 500`,
		id,
	); n != 1 {
		t.Errorf("released %d times, want once", n)
	}
	if n := w.queryCount(t, `SELECT count(*) FROM events`); n != told {
		t.Errorf("got %d events, want the %d from before", n, told)
	}
	if n := w.queryCount(
		t, `SELECT count(*) FROM audit_log WHERE resource_id = $1 AND action = 'deposit.orphaned'`, id,
	); n != 1 {
		t.Errorf("got %d audit rows, want one", n)
	}
	w.wantLoss(t, usdc, 0)
	w.checkBooks(t)
	if _, err := w.service.Approve(
		t.Context(), id, operatorActor(), "",
	); !fault.HasCode(err, fault.DepositNotFlagged) &&
		!fault.HasCode(err, fault.DepositsSuspended) {
		t.Errorf("approved: got %v, want it refused", err)
	}
	w.reappear(t, id)
	if _, err := w.service.Approve(
		t.Context(), id, operatorActor(), "",
	); !fault.HasCode(err, fault.DepositNotFlagged) {
		t.Errorf("approved: got %v, want DEPOSIT_NOT_FLAGGED", err)
	}
	w.checkBooks(t)
}

// Rule DEP-38: a return on the fork that is gone is the operator's loss.
func TestAReturnOfWhatTheChainTookIsTheOperatorsLoss(t *testing.T) {
	t.Parallel()
	w, _, id := newFlaggedEnv(t)
	if _, err := w.service.Reject(t.Context(), id, operatorActor(), ""); err != nil {
		t.Fatal(err)
	}
	w.execAsTableOwner(t, `
		UPDATE dispatch_orders SET status = 'PAID', tx_hash = 'hash', fee = 1, proof_id = (SELECT max(proof_id) FROM finality_proofs), broadcast_at = now(), ended_at = now()
		WHERE purpose = 'RETURN'`)
	w.execAsTableOwner(t, `UPDATE address_funds SET reserved = 0, swept = 500 WHERE reserved = 500`)
	w.endTransfer(t, true)
	if got := w.onlyDeposit(t).Status; got != "REJECTED" {
		t.Fatalf("got %s, want REJECTED", got)
	}
	told := w.queryCount(t, `SELECT count(*) FROM events`)
	w.wantTaken(t)
	_, err := pgtest.OwnerPool(t, w.db).Exec(
		t.Context(), `UPDATE deposits SET lost_at = now() WHERE deposit_id = $1`, id,
	)
	if !pg.ViolatesConstraint(err, "deposits_gone_in_time") {
		t.Errorf("lost too early: got %v, want the table to refuse it", err)
	}
	w.endReorg(t)
	if d := w.onlyDeposit(t); d.Status != "REJECTED" || d.ChainStatus != "REORGED" || d.Resolution == nil {
		t.Errorf("got %+v, want it as it was resolved", d)
	}
	w.wantLoss(t, usdc, 500)
	if f := w.loadFunds(t, "adr_alice", usdc); f.Shortfall != money.Units(500) {
		t.Errorf("got %+v, want 500 missing on the address", f)
	}
	if n := w.queryCount(t, `SELECT count(*) FROM events`); n != told {
		t.Errorf("got %d events, want the %d from before", n, told)
	}
	if n := w.queryCount(t, `SELECT count(*) FROM deposits WHERE deposit_id = $1 AND lost_at IS NOT NULL`, id); n != 1 {
		t.Error("got it not marked as lost, which is what lists it")
	}
	w.checkBooks(t)
	w.reappear(t, id)
	w.checkBooks(t)
}

// Rule DEP-38: a return that failed has nothing left to send.
func TestAStuckReturnOfWhatTheChainTookEndsWithIt(t *testing.T) {
	t.Parallel()
	w, _, id := newFlaggedEnv(t)
	if _, err := w.service.Reject(t.Context(), id, operatorActor(), ""); err != nil {
		t.Fatal(err)
	}
	w.wantStuck(t)
	w.wantTaken(t)
	w.endReorg(t)
	if got := w.onlyDeposit(t).Status; got != "RESOLUTION_STUCK" {
		t.Errorf("its transfer is in question itself: got %s, want RESOLUTION_STUCK", got)
	}
	w.execAsTableOwner(t, `UPDATE dispatch_orders SET proof_id = (SELECT max(proof_id) FROM finality_proofs)`)
	w.endReorg(t)
	if d := w.onlyDeposit(t); d.Status != "ORPHANED" || d.Resolution != nil || len(d.ResolutionAttempts) != 1 {
		t.Errorf("got %+v, want it ORPHANED with its attempt kept", d)
	}
	if f := w.loadFunds(t, "adr_alice", usdc); !f.Held.IsZero() || !f.Credited.IsZero() || !f.Shortfall.IsZero() {
		t.Errorf("on the address: got %+v, want nothing", f)
	}
	w.wantLoss(t, usdc, 0)
	w.checkBooks(t)
}

// endTransfer reports to the service how its only transfer ended.
func (w *testEnv) endTransfer(t *testing.T, paid bool) {
	t.Helper()
	err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		var o dispatch.Order
		if err := tx.QueryRow(ctx, `SELECT order_id FROM dispatch_orders`).Scan(&o.ID); err != nil {
			return err
		}
		postings, err := w.service.OnEnded(
			ctx, tx, o, dispatch.End{Hash: "hash", Fee: money.Units(1), Paid: paid},
		)
		if err != nil {
			return err
		}
		return ledger.Post(ctx, tx, postings...)
	})
	if err != nil {
		t.Fatal(err)
	}
}
