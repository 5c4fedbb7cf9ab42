package verify_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/sweep"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
)

// sweeper replaces the service's sweeper by one that only the test runs and that sweeps on demand
// alone: it knows no prices.
func (s *service) sweeper() *sweep.Sweeper {
	s.steps = slices.DeleteFunc(s.steps, func(st harness.Step) bool { return st.Name == "sweeps" })
	return sweep.New(s.db, s.net.ToChain(), s.book, price.Fixed{Clock: s.clock}, sweep.Config{},
		slog.New(slog.DiscardHandler))
}

// funded creates a service whose treasury has gas and whose customers have tokens.
func funded(t *testing.T, customers map[string]uint64) *service {
	const coin = 1_000_000_000_000_000_000
	s := newService(t)
	treasury, err := s.book.Treasury(s.ctx, s.org, chain.EVM)
	s.must(err)
	rich := sim.Address("rich")
	s.net.Mint(rich, signertest.Token, money.Units(10_000_000_000))
	s.net.Mint(rich, "", money.Units(10*coin))
	s.net.Pay(rich, treasury.Address, "", coin)
	for name, units := range customers {
		s.net.Pay(rich, s.address(name), signertest.Token, units)
	}
	return s
}

func (s *service) count(sql string, args ...any) (n int) {
	s.Helper()
	s.must(s.db.ReadSystem(s.ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, sql, args...).Scan(&n)
	}))
	return n
}

func (s *service) swept(customerID string) int {
	s.Helper()
	return s.count(`SELECT count(*) FROM sweeps JOIN wallets USING (wallet_id) WHERE subject = $1`, customerID)
}

func TestASweepIsGivenGasOnce(t *testing.T) {
	t.Parallel()
	s := funded(t, map[string]uint64{"ann": 500_000_000, "bob": 400_000_000, "cat": 300_000_000})
	s.pass(24)
	if n := s.count(`SELECT count(*) FROM sweeps WHERE status = 'DONE'`); n != 3 {
		t.Errorf("got %d sweeps done, want 3", n)
	}
	if n := s.count(`SELECT count(*) FROM gas_top_ups`); n != 3 {
		t.Errorf("got %d top-ups, want one for each of 3 addresses", n)
	}
}

func TestAPaymentDoesNotWaitForASweepThatWouldRevert(t *testing.T) {
	t.Parallel()
	s := funded(t, map[string]uint64{"ann": 500_000_000, "bob": 400_000_000})
	sweeper := s.sweeper()
	s.pass(6)
	s.withdraw("ann", 1, "300000000", sim.Address("shop"), false)
	s.pass(1)
	plan := func(want string) {
		t.Helper()
		_, err := sweeper.Plan(s.ctx)
		s.must(err)
		if got := fmt.Sprint(s.swept("ann"), s.swept("bob")); got != want {
			t.Fatalf("sweeps of ann and bob: got %s, want %s", got, want)
		}
	}
	plan("1 0")
	plan("1 0") // the sweep is on its way
	s.must(s.db.InSystem(s.ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(
			ctx, `UPDATE dispatch_orders SET waiting_for = 'SIMULATION', missing_amount = NULL WHERE purpose = 'SWEEP'`,
		)
		return err
	}))
	plan("1 1")
}

func TestAnAddressThatIsNotProvenHoldsUpNoOtherSweep(t *testing.T) {
	t.Parallel()
	s := funded(t, map[string]uint64{"ann": 500_000_000, "bob": 400_000_000})
	sweeper := s.sweeper()
	s.pass(6)
	_, err := pgtest.OwnerPool(t, s.db).Exec(s.ctx, `UPDATE wallets SET proof = '\x00' WHERE subject = 'ann'`)
	s.must(err)
	if _, err := sweeper.SweepAll(s.ctx); err == nil {
		t.Error("got no error, want the altered wallet told")
	}
	if s.swept("ann") != 0 || s.swept("bob") != 1 {
		t.Errorf("got %d and %d sweeps of ann and bob, want 0 and 1", s.swept("ann"), s.swept("bob"))
	}
}

func TestATopUpThatFailedRests(t *testing.T) {
	t.Parallel()
	s := funded(t, map[string]uint64{"ann": 500_000_000})
	sweeper := s.sweeper()
	s.pass(6)
	_, err := sweeper.SweepAll(s.ctx)
	s.must(err)
	s.pass(1) // the sweep lacks gas
	plan := func(want int) {
		t.Helper()
		_, err := sweeper.Plan(s.ctx)
		s.must(err)
		if n := s.count(`SELECT count(*) FROM gas_top_ups`); n != want {
			t.Errorf("got %d top-ups, want %d", n, want)
		}
	}
	plan(1)
	s.must(s.db.InSystem(s.ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(
			ctx, `UPDATE dispatch_orders SET status = 'REFUSED', ended_at = $1 WHERE purpose = 'GAS'`, tx.Now,
		)
		return err
	}))
	plan(1)
	s.mu.Lock()
	s.now = s.now.Add(11 * time.Minute)
	s.mu.Unlock()
	plan(2)
}
