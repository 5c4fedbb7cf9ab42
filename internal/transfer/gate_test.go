package transfer_test

import (
	"context"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
)

// A freeze that has committed is seen by every transfer that commits after it: two
// transactions are held so that one is amid the other. Rule TR-8.
func TestNoTransferCommitsAfterAFreezeThatItHasNotSeen(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.fund(h.one, ann, 100)
	owner := pgtest.Owner(t, h.db)
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
		if _, err := h.do(ask("k1", ann, bob, "1")); err != nil {
			t.Errorf("transfer: %v", err)
		}
	})
	pgtest.Eventually(t, func() bool {
		return count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event IN ('transactionid', 'tuple')`) > 0
	}, "the transfer waits for the balance")
	put := make(chan struct{})
	wg.Go(func() {
		defer close(put)
		err := h.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			return freeze.Put(ctx, tx, freeze.Freeze{
				Scope: freeze.Customer, OrgID: h.one, CustomerID: "ann", Source: freeze.ByOperator, Reason: "test", By: audit.Operator("op"),
			})
		})
		if err != nil {
			t.Errorf("freeze: %v", err)
		}
		if count(`SELECT count(*) FROM transfers`) == 0 {
			t.Error("the freeze has committed, and the transfer that has not seen it comes after it")
		}
	})
	pgtest.Eventually(t, func() bool {
		select {
		case <-put:
			return true
		default:
			return count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'`) > 0
		}
	}, "the freeze waits for the transfer, or does not")
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	h.refused(ask("k2", ann, bob, "1"), fault.CustomerFrozen, "from.customerId")
	h.wantTransfers(1)
}
