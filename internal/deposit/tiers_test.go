package deposit_test

import (
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/risk"
)

// tiers ask for more than the four confirmations after which a block of this chain is final.
// Deposits of the first tier are not screened; the others are.
var tiers = []chain.Tier{
	{Above: money.Units(100), Depth: 5}, {Above: money.Units(1000), Depth: 6}, {Above: money.Units(5000), Depth: 9},
}

// Rule DEP-43.
func TestADepositWaitsForAsManyBlocksAsItsAmountWants(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		amount uint64
		waits  int // blocks after finality
	}{{100, 0}, {101, 1}, {1001, 2}, {5001, 5}} {
		w, _ := newUTXOEnv(t, tiers...)
		w.c.Pay(payer, alice, "", c.amount)
		w.c.Mine(1)
		w.walkBlocks(t)
		required := int64(4 + c.waits)
		if c.waits == 0 {
			required = 3 // as the catalogue says
		}
		if d := w.onlyDeposit(t); d.Status != "CONFIRMING" || d.ConfirmationsRequired != required {
			t.Errorf(
				"%d in its first block: got %s of %d confirmations, want CONFIRMING of %d", c.amount, d.Status,
				d.ConfirmationsRequired, required,
			)
		}
		w.c.Mine(3)
		w.walkBlocks(t)
		for n := range c.waits {
			if d := w.onlyDeposit(t); d.Status != "SCREENING" || d.ChainStatus != "FINALIZED" ||
				d.Confirmations != int64(4+n) || d.ConfirmationsRequired != required {
				t.Errorf("%d with %d blocks: got %s, %s, %d confirmations of %d, want SCREENING with %d of %d",
					c.amount, 4+n,
					d.Status, d.ChainStatus, d.Confirmations, d.ConfirmationsRequired, 4+n, required)
			}
			if got := w.loadBalance(t, ledger.Customer, "alice", btc); !got.IsZero() {
				t.Errorf("%d with %d blocks: alice has %v, want nothing", c.amount, 4+n, got)
			}
			if n := w.queryCount(t, `SELECT count(*) FROM utxos WHERE status = 'FREE'`); n > 0 {
				t.Errorf("%d with %d blocks: its coin may be spent", c.amount, 4+n)
			}
			w.c.Mine(1)
			w.walkBlocks(t)
		}
		if d := w.onlyDeposit(t); d.Status != "CREDITED" || d.Confirmations != int64(4+c.waits) {
			t.Errorf(
				"%d: got %s with %d confirmations, want CREDITED with %d", c.amount, d.Status, d.Confirmations,
				4+c.waits,
			)
		}
	}
}

// Rule DEP-43.
func TestTheTableCreditsNothingBeforeItIsDeep(t *testing.T) {
	t.Parallel()
	w, _ := newUTXOEnv(t, tiers...)
	w.payTo(t, alice, 5001)
	for _, sql := range []string{
		`UPDATE deposits SET status = 'CREDITED', credited_at = now()`,
		`UPDATE deposits SET depth_required = 4`,
		`UPDATE deposits SET depth_required = 0`,
		`INSERT INTO deposits SELECT (jsonb_populate_record(d, '{"deposit_id": "dep_2", "tx_hash": "x", "status": "CREDITED", "credited_at": "2026-01-01"}')).* FROM deposits d`,
	} {
		if _, err := pgtest.OwnerPool(t, w.db).Exec(t.Context(), sql); !pg.ViolatesConstraint(err, "deposits_deep") {
			t.Errorf("%s: got %v, want a violation of deposits_deep", sql, err)
		}
	}
}

// Rule DEP-43. A fork that is deeper than finality removes only deposits that were not credited.
func TestADeepForkTakesNothingFromWhoWaits(t *testing.T) {
	t.Parallel()
	w, _ := newUTXOEnv(t, tiers...)
	w.c.Mine(10)
	hash := w.payTo(t, alice, 5001)
	w.c.Fork(8, hash)
	w.c.Mine(10)
	w.partChain(t)
	w.repointChain(t)
	w.c.Mine(10)
	w.walkFinal(t)
	w.settleReorgs(t)
	w.liftFreezes(t)
	w.walkBlocks(t)
	if got := w.listDeposits(t, deposit.Filter{}); len(got) != 1 || got[0].Status != "ORPHANED" {
		t.Errorf("got %+v, want one ORPHANED deposit", got)
	}
	if n := w.queryCount(t, `SELECT count(*) FROM freezes WHERE lifted_at IS NULL`); n > 0 {
		t.Errorf("got %d freezes, want none", n)
	}
}

// Rule DEP-43. A flagged deposit that moved to another block is not approved before it has the
// confirmations there.
func TestAnApprovalAfterAForkWaitsForTheDepthAgain(t *testing.T) {
	t.Parallel()
	w, says := newUTXOEnv(t, tiers...)
	w.c.Mine(10)
	says.setSeverity(payer, risk.Severe)
	w.payTo(t, alice, 5001)
	w.c.Mine(5)
	w.walkBlocks(t)
	id := w.onlyDeposit(t).DepositID
	if d := w.onlyDeposit(t); d.Status != "FLAGGED" {
		t.Fatalf("got %s, want FLAGGED", d.Status)
	}
	w.c.Fork(12)
	w.c.MineEmpty(14)
	w.partChain(t)
	w.repointChain(t)
	approve := func() error {
		_, err := w.service.Approve(t.Context(), id, operatorActor(), "")
		return err
	}
	if err := approve(); !fault.HasCode(err, fault.DepositsSuspended) {
		t.Errorf("in no block: got %v, want DEPOSITS_SUSPENDED", err)
	}
	w.c.Mine(4)
	w.walkFinal(t)
	w.liftFreezes(t)
	for blocks := 4; blocks < 9; blocks++ {
		if d := w.onlyDeposit(t); d.Status != "FLAGGED" || d.ChainStatus != "FINALIZED" {
			t.Errorf("with %d blocks: got %s and %s, want it FLAGGED and FINALIZED", blocks, d.Status, d.ChainStatus)
		}
		if err := approve(); !fault.HasCode(err, fault.DepositsSuspended) ||
			!strings.Contains(err.Error(), "needs 9 confirmations") {
			t.Errorf("with %d blocks: got %v, want DEPOSITS_SUSPENDED for 9 confirmations", blocks, err)
		}
		w.wantHoldings(t, 0, 0, 0, 5001)
		w.c.Mine(1)
		w.walkBlocks(t)
	}
	if err := approve(); err != nil {
		t.Errorf("with 9 blocks: %v", err)
	}
	w.wantHoldings(t, 5001, 0, 0, 0)
}
