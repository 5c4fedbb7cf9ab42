package withdrawal

import (
	"context"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
)

// A request is held amid its transaction, after it has looked: what would have refused
// or held it cannot commit before it does.
func TestNoWithdrawalIsAcceptedAfterAChangeThatItHasNotSeen(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(h *house) func(context.Context, pg.Tx) error{
		"threshold": func(h *house) func(context.Context, pg.Tx) error {
			return func(ctx context.Context, tx pg.Tx) error {
				none := money.MustParseUSD("0")
				return org.SetWithdrawThreshold(ctx, tx, audit.Operator("op"), h.org, &none)
			}
		},
		"freeze": func(h *house) func(context.Context, pg.Tx) error {
			return func(ctx context.Context, tx pg.Tx) error {
				return freeze.Put(ctx, tx, freeze.Freeze{
					Scope: freeze.Customer, OrgID: h.org, CustomerID: alice, Source: freeze.ByOperator, Reason: "test", By: audit.Operator("op"),
				})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			owner := pgtest.Owner(t, h.DB)
			count := func(sql string) (n int) {
				if err := owner.QueryRow(t.Context(), sql).Scan(&n); err != nil {
					t.Error(err)
				}
				return n
			}
			holder, err := owner.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
			if _, err := holder.Exec(t.Context(), `SELECT FROM ledger_balances FOR UPDATE`); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, _, err := h.Request(t.Context(), h.org, h.want()); err != nil {
					t.Errorf("request: %v", err)
				}
			})
			pgtest.Eventually(t, func() bool {
				return count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event IN ('transactionid', 'tuple')`) > 0
			}, "the request waits for the balance")
			changed := make(chan struct{})
			wg.Go(func() {
				defer close(changed)
				if err := h.DB.InSystem(t.Context(), change(h)); err != nil {
					t.Errorf("change: %v", err)
				}
				if count(`SELECT count(*) FROM withdrawals`) == 0 {
					t.Error("the change has committed, and the withdrawal that has not seen it comes after it")
				}
			})
			pgtest.Eventually(t, func() bool {
				select {
				case <-changed:
					return true
				default:
					return count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'`) > 0
				}
			}, "the change waits for the request, or does not")
			if err := holder.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
		})
	}
}
