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
	t.Run("by a look-up", func(t *testing.T) {
		t.Parallel()
		testFreezeRace(t, false)
	})
	t.Run("at once", func(t *testing.T) {
		t.Parallel()
		testFreezeRace(t, true)
	})
}

func testFreezeRace(t *testing.T, isRemembered bool) {
	h := newTestEnv(t)
	h.fundParty(h.one, ann, 100)
	made := 1
	if isRemembered {
		h.mustTransfer(newRequest("warm", ann, bob, "1"))
		h.mustTransfer(newRequest("warm2", ann, bob, "1"))
		made += 2
	}
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
		).Scan(&transfers); err != nil || transfers < made {
			t.Errorf(
				"got %d transfers (%v): the freeze has committed, and the transfer that has not seen it comes after it",
				transfers, err,
			)
		}
	})
	h.wantFault(newRequest("k2", ann, bob, "1"), fault.CustomerFrozen, "from.customerId")
	h.wantTransfers(made)
}

// A transfer that is sent at once while a freeze is being written waits for it and sees it. Rules TR-8 and TR-12.
func TestATransferAtOnceSeesTheFreezeThatItWaitedFor(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	s, counter := h.newCountedService()
	written, commit := make(chan struct{}), make(chan struct{})
	frozen := make(chan error, 1)
	go func() {
		frozen <- h.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			err := freeze.Create(ctx, tx, freeze.Freeze{
				Scope: freeze.ScopeCustomer, OrgID: h.one, CustomerID: "ann", Source: freeze.SourceOperator,
				Reason: "test", Actor: audit.Operator("op"),
			})
			close(written)
			<-commit
			return err
		})
	}()
	<-written
	answered := make(chan error, 1)
	go func() {
		_, err := s.Request(t.Context(), h.one, newRequest("k", ann, bob, "1"))
		answered <- err
	}()
	pgtest.Eventually(t, func() bool {
		var waits bool
		err := h.owner.QueryRow(t.Context(), `
			SELECT EXISTS (SELECT FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock')`,
		).Scan(&waits)
		return err == nil && waits
	}, "the transfer waits")
	close(commit)
	if err := <-frozen; err != nil {
		t.Fatal(err)
	}
	if err := <-answered; !fault.HasCode(err, fault.CustomerFrozen) {
		t.Errorf("got %v, want %s", err, fault.CustomerFrozen)
	}
	if n := counter.atOnce.Load(); n != 1 {
		t.Errorf("got %d groups sent at once, want 1", n)
	}
	h.wantTransfers(3)
}
