package dispatch_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
)

// Rules WD-9, WD-43: a person acts on an order and the answer to one of its COMMITs is lost. The
// call never claims that nothing was done, whether the write is visible at once, later or never.
// Repeated calls cancel the order once.
func TestAPersonsStepWhoseCommitIsUnknownIsNotSaidToHaveDoneNothing(t *testing.T) {
	t.Parallel()
	cancel := func(b *testEnv, d *dispatch.Worker, id string) error {
		_, err := d.CancelOrder(b.ctx, id, operatorActor)
		return err
	}
	for name, c := range map[string]struct {
		tokens uint64 // zero: the order waits in the queue
		act    func(b *testEnv, d *dispatch.Worker, id string) error
		half   string // the state between before and after, which the service completes by itself
		once   bool   // a repeated call does nothing more
	}{
		"a cancel of one that waits":  {0, cancel, "WITHDRAWN, held", true},
		"a cancel of one that is out": {100_000, cancel, "", true},
		"a bump": {100_000, func(b *testEnv, d *dispatch.Worker, id string) error {
			_, err := d.BumpFee(b.ctx, id, dispatch.AnyVersion, operatorActor)
			return err
		}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTestEnv(t, openPolicy())
			b.fundWallet(b.treasury, coin, c.tokens)
			p := &pgtest.Proxy{}
			d := pgtest.DatabaseOf(t, b.db)
			d.URL = p.Start(t, d.URL)
			db := pgtest.Open(t, d, b.clock.now)
			voider := b.voider(b.signer)
			voider.DB = db
			torn := dispatch.New(db, b.chain.ToChain(), b.signer, journal.RecordEntry,
				map[signer.Purpose]dispatch.Listener{signer.Payment: b.feature},
				dispatch.Config{}, slog.New(slog.DiscardHandler), dispatch.WithVoider(voider))
			owner := pgtest.OwnerPool(t, b.db)
			state := func(id string) (s string) {
				t.Helper()
				err := owner.QueryRow(b.ctx, `
					SELECT format('%s, %s, transactions %s', status,
						(SELECT CASE count(*) WHEN 0 THEN 'held' ELSE 'given back' END FROM ledger_transfers WHERE cause_kind = 'WITHDRAWAL_END' AND cause_id = $1),
						(SELECT string_agg(act, ' ' ORDER BY version) FROM dispatch_attempts WHERE order_id = $1))
					FROM dispatch_orders WHERE order_id = $1`, id).Scan(&s)
				b.must(err)
				return s
			}
			n, done := 0, ""
			try := func(l pgtest.Loss) (lost bool) {
				t.Helper()
				n++
				id := fmt.Sprint("wd_", n)
				b.submitOrder(b.newOrder(id, sim.Address("customer"), 1))
				b.runRounds()
				before := state(id)
				p.LoseNext(l)
				err := c.act(b, torn, id)
				lost = p.HasLost()
				p.Restore()
				var settled string
				pgtest.Eventually(t, func() (idle bool) {
					settled = state(id)
					b.must(owner.QueryRow(
						b.ctx,
						`SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL`,
					).Scan(&idle))
					return idle
				}, "the server ends what it received")
				if done == "" {
					done = settled
				}
				if before == done {
					t.Fatalf("it changed nothing that the test looks at: %v, %s", err, done)
				}
				says := err != nil &&
					(strings.Contains(err.Error(), "is being cancelled") || strings.Contains(err.Error(), "is raised"))
				switch {
				case settled != before && settled != done && (c.half == "" || !strings.HasPrefix(settled, c.half)):
					t.Errorf("%+v: got %s, want it done or not", l, settled)
				case err == nil && settled != done:
					t.Errorf("%+v: it says that it is done, and got %s", l, settled)
				case err != nil && !lost:
					t.Errorf("nothing was lost: got %v, want it done", err)
				case fault.Find(err) != nil && says != (settled != before):
					t.Errorf("%+v: got %v, and the state became %s", l, err, settled)
				}
				if c.once {
					if err := c.act(b, b.worker, id); err != nil {
						t.Errorf("%+v, repeated: got %v", l, err)
					}
					if got := state(id); got != done {
						t.Errorf("%+v, repeated: got %s, want %s", l, got, done)
					}
				}
				b.runRounds()
				b.mineAndProve(6)
				b.runRounds()
				return lost
			}
			if try(pgtest.Loss{}) {
				t.Fatal("a COMMIT was lost that was to pass")
			}
			for _, l := range []pgtest.Loss{
				{Action: pgtest.AnswerLost},
				{Action: pgtest.AnswerLost, KeepDown: true},
				{Action: pgtest.CommitLost, KeepDown: true},
				{Action: pgtest.CommitHeld},
				{Action: pgtest.AnswerHeard, KeepDown: true},
			} {
				const commitsMax = 30
				for l.Nth = 1; try(l); l.Nth++ {
					if l.Nth == commitsMax {
						t.Fatal("it commits without end")
					}
				}
				if l.Nth == 1 {
					t.Error("it has no COMMIT that could be lost")
				}
			}
		})
	}
}
