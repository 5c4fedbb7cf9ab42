package withdrawal

import (
	"context"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// A request is stopped inside its transaction, after it has loaded its facts. A change that would
// have refused or held it cannot commit before it does.
func TestNoWithdrawalIsAcceptedAfterAChangeThatItHasNotSeen(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(h *testEnv) func(context.Context, pg.Tx) error{
		"threshold": func(h *testEnv) func(context.Context, pg.Tx) error {
			return func(ctx context.Context, tx pg.Tx) error {
				empty := money.MustParseUSD("0")
				return org.SetWithdrawThreshold(ctx, tx, audit.Operator("op"), h.org, &empty)
			}
		},
		"freeze": func(h *testEnv) func(context.Context, pg.Tx) error {
			return func(ctx context.Context, tx pg.Tx) error {
				return freeze.Create(ctx, tx, freeze.Freeze{
					Scope: freeze.ScopeCustomer, OrgID: h.org, CustomerID: alice, Source: freeze.SourceOperator,
					Reason: "test", Actor: audit.Operator("op"),
				})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newTestEnv(t)
			owner := pgtest.OwnerPool(t, h.DB)
			pgtest.RaceBehindLock(t, h.DB, `SELECT FROM ledger_balances FOR UPDATE`, func() {
				if _, _, err := h.Request(t.Context(), h.org, h.newRequest()); err != nil {
					t.Errorf("request: %v", err)
				}
			}, func() {
				if err := h.DB.InSystem(t.Context(), change(h)); err != nil {
					t.Errorf("change: %v", err)
				}
				var accepted int
				if err := owner.QueryRow(
					t.Context(), `SELECT count(*) FROM withdrawals`,
				).Scan(&accepted); err != nil || accepted == 0 {
					t.Errorf(
						"got %d withdrawals (%v): the change has committed, and the withdrawal that has not seen it comes after it",
						accepted, err,
					)
				}
			})
		})
	}
}
