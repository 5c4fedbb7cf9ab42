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
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
	"github.com/cofferpay/coffer/internal/risk"
)

// flaggedToBreak has 500 of alice's held at height 1 of a chain that can break.
func flaggedToBreak(t *testing.T) (*world, *opinions, string) {
	t.Helper()
	w, o := thresholds(t)
	w.w = w.breaking()
	o.set(payer, risk.Severe)
	w.c.Pay(payer, alice, usdcAt, 500)
	w.c.Mine(9)
	w.walk(t)
	d := w.the(t)
	if d.Status != "FLAGGED" {
		t.Fatalf("got %s, want FLAGGED", d.Status)
	}
	return w, o, d.DepositID
}

// taken has the chain lose the flagged deposit, as far as the break's decision.
func (w *world) taken(t *testing.T) {
	t.Helper()
	w.c.Fork(9, w.c.At(1).Transfers[0].Tx)
	w.c.MineEmpty(10)
	w.part(t)
	w.repoint(t)
	w.final(t)
	w.settle(t)
}

// over walks past the block at which what was not found is gone.
func (w *world) over(t *testing.T) {
	t.Helper()
	w.c.MineEmpty(10)
	w.final(t)
	w.settle(t)
	w.settle(t)
}

// comesAgain has the very transaction come after all: it is another deposit.
func (w *world) comesAgain(t *testing.T, former string) {
	t.Helper()
	w.letGo(t)
	w.c.Again(chain.TxHash(w.the(t).TxHash), payer, moveTo(alice, 500))
	w.c.Mine(9)
	w.walk(t)
	found := w.list(t, deposit.Filter{Status: "FLAGGED"})
	if len(found) != 1 || found[0].DepositID == former {
		t.Errorf("got %+v, want another deposit that is flagged", found)
	}
}

// Rule DEP-38.
func TestAFlaggedDepositThatTheNewForkDoesNotHaveIsOrphaned(t *testing.T) {
	t.Parallel()
	w, _, id := flaggedToBreak(t)
	told := w.count(t, `SELECT count(*) FROM events`)
	w.taken(t)
	if d := w.the(t); d.Status != "FLAGGED" || d.ChainStatus != "REORGED" {
		t.Errorf("before it is settled: got %s, %s, want FLAGGED, REORGED", d.Status, d.ChainStatus)
	}
	_, err := pgtest.Owner(t, w.db).Exec(t.Context(), `UPDATE deposits SET status = 'ORPHANED', proof_id = NULL, confirmed_at = NULL WHERE deposit_id = $1`, id)
	if !pg.Violates(err, "deposits_gone_in_time") {
		t.Errorf("given up too early: got %v, want the table to refuse it", err)
	}
	w.over(t)
	d := w.the(t)
	if d.Status != "ORPHANED" || d.ChainStatus != "REORGED" || !d.IsFlagged || d.FlagReason == nil || d.Resolution != nil {
		t.Errorf("got %+v, want it ORPHANED with its flag kept", d)
	}
	if f := w.funds(t, "adr_alice", usdc); !f.Held.IsZero() || !f.Credited.IsZero() || !f.Short.IsZero() {
		t.Errorf("on the address: got %+v, want nothing", f)
	}
	if n := w.count(t, `SELECT count(*) FROM ledger_transfers WHERE cause_kind = 'DEPOSIT_RELEASE' AND cause_id = $1 AND amount = 500`, id); n != 1 {
		t.Errorf("released %d times, want once", n)
	}
	if n := w.count(t, `SELECT count(*) FROM events`); n != told {
		t.Errorf("got %d events, want the %d from before", n, told)
	}
	if n := w.count(t, `SELECT count(*) FROM audit_log WHERE resource_id = $1 AND action = 'deposit.orphaned'`, id); n != 1 {
		t.Errorf("got %d audit rows, want one", n)
	}
	w.loss(t, usdc, 0)
	w.sound(t)
	if _, err := w.resolutions().Approve(t.Context(), id, operator(), ""); !fault.Is(err, fault.DepositNotFlagged) && !fault.Is(err, fault.DepositsSuspended) {
		t.Errorf("approved: got %v, want it refused", err)
	}
	w.comesAgain(t, id)
	if _, err := w.resolutions().Approve(t.Context(), id, operator(), ""); !fault.Is(err, fault.DepositNotFlagged) {
		t.Errorf("approved: got %v, want DEPOSIT_NOT_FLAGGED", err)
	}
	w.sound(t)
}

// Rule DEP-38: what went back on the fork that is gone is the operator's loss.
func TestAReturnOfWhatTheChainTookIsTheOperatorsLoss(t *testing.T) {
	t.Parallel()
	w, _, id := flaggedToBreak(t)
	if _, err := w.resolutions().Reject(t.Context(), id, operator(), ""); err != nil {
		t.Fatal(err)
	}
	w.asOwner(t, `
		UPDATE dispatch_orders SET status = 'PAID', tx_hash = 'hash', fee = 1, proof_id = (SELECT max(proof_id) FROM finality_proofs), broadcast_at = now(), ended_at = now()
		WHERE purpose = 'RETURN'`)
	w.asOwner(t, `UPDATE address_funds SET reserved = 0, swept = 500 WHERE reserved = 500`)
	w.ended(t, true)
	if got := w.the(t).Status; got != "REJECTED" {
		t.Fatalf("got %s, want REJECTED", got)
	}
	told := w.count(t, `SELECT count(*) FROM events`)
	w.taken(t)
	_, err := pgtest.Owner(t, w.db).Exec(t.Context(), `UPDATE deposits SET lost_at = now() WHERE deposit_id = $1`, id)
	if !pg.Violates(err, "deposits_gone_in_time") {
		t.Errorf("lost too early: got %v, want the table to refuse it", err)
	}
	w.over(t)
	if d := w.the(t); d.Status != "REJECTED" || d.ChainStatus != "REORGED" || d.Resolution == nil {
		t.Errorf("got %+v, want it as it was resolved", d)
	}
	w.loss(t, usdc, 500)
	if f := w.funds(t, "adr_alice", usdc); f.Short != money.Units(500) {
		t.Errorf("got %+v, want 500 missing on the address", f)
	}
	if n := w.count(t, `SELECT count(*) FROM events`); n != told {
		t.Errorf("got %d events, want the %d from before", n, told)
	}
	if n := w.count(t, `SELECT count(*) FROM deposits WHERE deposit_id = $1 AND lost_at IS NOT NULL`, id); n != 1 {
		t.Error("got it not marked as lost, which is what lists it")
	}
	w.sound(t)
	w.comesAgain(t, id)
	w.sound(t)
}

// Rule DEP-38: what was sent and failed has nothing left to be sent.
func TestAStuckReturnOfWhatTheChainTookEndsWithIt(t *testing.T) {
	t.Parallel()
	w, _, id := flaggedToBreak(t)
	if _, err := w.resolutions().Reject(t.Context(), id, operator(), ""); err != nil {
		t.Fatal(err)
	}
	w.fails(t)
	w.taken(t)
	w.over(t)
	if got := w.the(t).Status; got != "RESOLUTION_STUCK" {
		t.Errorf("its transfer is in question itself: got %s, want RESOLUTION_STUCK", got)
	}
	w.asOwner(t, `UPDATE dispatch_orders SET proof_id = (SELECT max(proof_id) FROM finality_proofs)`)
	w.over(t)
	if d := w.the(t); d.Status != "ORPHANED" || d.Resolution != nil || len(d.ResolutionAttempts) != 1 {
		t.Errorf("got %+v, want it ORPHANED with its attempt kept", d)
	}
	if f := w.funds(t, "adr_alice", usdc); !f.Held.IsZero() || !f.Credited.IsZero() || !f.Short.IsZero() {
		t.Errorf("on the address: got %+v, want nothing", f)
	}
	w.loss(t, usdc, 0)
	w.sound(t)
}

// ended tells the feature how its one transfer ended.
func (w *world) ended(t *testing.T, paid bool) {
	t.Helper()
	err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		var o dispatch.Order
		if err := tx.QueryRow(ctx, `SELECT order_id FROM dispatch_orders`).Scan(&o.ID); err != nil {
			return err
		}
		postings, err := w.resolutions().Ended(ctx, tx, o, dispatch.End{Hash: "hash", Fee: money.Units(1), Paid: paid})
		if err != nil {
			return err
		}
		return ledger.Post(ctx, tx, postings...)
	})
	if err != nil {
		t.Fatal(err)
	}
}
