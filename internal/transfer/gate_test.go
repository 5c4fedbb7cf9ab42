package transfer_test

import (
	"context"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// Every transfer that commits after a freeze sees it: two transactions are stopped so that one runs
// inside the other. Rule TR-8.
func TestNoTransferCommitsAfterAFreezeThatItHasNotSeen(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundParty(h.one, ann, 100)
	pgtest.RaceBehindLock(t, h.db, `SELECT FROM ledger_balances FOR UPDATE`, func() {
		if _, err := h.requestTransfer(newRequest("k1", ann, bob, "1")); err != nil {
			t.Errorf("transfer: %v", err)
		}
	}, func() {
		err := h.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			return freeze.Create(ctx, tx, freeze.Freeze{
				Scope: freeze.ScopeCustomer, OrgID: h.one, CustomerID: "ann", Source: freeze.SourceOperator,
				Reason: "test", Actor: audit.Operator("op"),
			})
		})
		if err != nil {
			t.Errorf("freeze: %v", err)
		}
		var transfers int
		if err := h.owner.QueryRow(
			t.Context(), `SELECT count(*) FROM transfers`,
		).Scan(&transfers); err != nil || transfers == 0 {
			t.Errorf(
				"got %d transfers (%v): the freeze has committed, and the transfer that has not seen it comes after it",
				transfers, err,
			)
		}
	})
	h.wantFault(newRequest("k2", ann, bob, "1"), fault.CustomerFrozen, "from.customerId")
	h.wantTransfers(1)
}
