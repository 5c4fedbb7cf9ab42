package flagged

import (
	"math/big"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
)

// Rules DEP-28 and DEP-32, from a backup without the return or with the return unsigned. The
// service completes it with the signed bytes, sweeps nothing of it meanwhile, and the sender
// receives it once.
func TestAReturnInTheJournalOutlivesTheDatabase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		decided, mined bool // before the backup; before it is restored
	}{
		{"backup before the decision", false, false},
		{"backup before the decision, the return is final", false, true},
		{"backup after the decision", true, false},
		{"backup after the decision, the return is final", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newTestEnv(t, nil)
			bad := h.newStranger(risk.Severe)
			id := h.flagDeposit(bad, usdc, "ann", 700*dollars)
			reject := func() {
				_, err := h.Deposits.Reject(h.ctx, id, h.organizationDecider(), "")
				h.mustSucceed(err)
			}
			if c.decided {
				reject()
			}
			backup := pgtest.CopyDatabase(t, pgtest.DatabaseOf(t, h.db))
			if !c.decided {
				reject()
			}
			h.waitReturnSent(id)
			if c.mined {
				h.waitStatus(id, "REJECTED")
			}

			h.db = pgtest.Open(t, backup, h.readClock)
			h.plan.DB = h.db
			h.Harness = harness.New(h.plan)
			h.steps = h.ListSteps(nil)
			_, err := mirror.RestoreDatabase(
				h.ctx, h.db, h.plan.Signer, h.Wallets, h.NewRestorer(audit.Operator("op")), false,
			)
			h.mustSucceed(err)
			if d := h.loadDeposit(id); d.Status != "REJECTING" {
				t.Fatalf("got %s, want REJECTING", d.Status)
			}
			h.wantEvents(id, "CUSTOMER_DEPOSIT")
			_, err = h.Sweeper.SweepAll(h.ctx)
			h.mustSucceed(err)
			if n := h.queryNumber(`SELECT count(*) FROM sweeps`); n != 0 {
				t.Errorf("got %d sweeps of what is flagged, want none", n)
			}
			d := h.waitStatus(id, "REJECTED")
			h.settleAll()
			got := h.oracle.ReceivedBy(lowerHex(h.token), lowerHex(keyAddress(bad)))
			if len(got) != 2 || got[1].Amount.Cmp(big.NewInt(700*dollars)) != 0 || d.Resolution == nil ||
				*d.Resolution.TxHash != got[1].Tx {
				t.Errorf("the sender received %+v, want all of it once", got)
			}
			if f := h.loadFunds("ann", usdc); !f.Held.IsZero() || !f.Reserved.IsZero() || !f.Spendable().IsZero() {
				t.Errorf("got %+v, want nothing left", f)
			}
			h.wantHolds(usdc, h.customerAddress("ann"), 0)
		})
	}
}
