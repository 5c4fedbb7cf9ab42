// Package soak puts the service through random days. A seed draws customers,
// deposits, withdrawals, decisions, freezes and everything that can go wrong around
// them: forks, liars, lost answers, dropped transactions, a database that fails in
// the middle, a signer that does not answer, restarts. Everything that moves money is
// the real code; the chain is simulated and time is virtual.
//
// A run has two phases. With faults on, nothing may ever be wrong: after every step an
// oracle that reads the chain itself compares it with the books. With faults off,
// everything has to end: every order, every hold, every event.
//
// What never happens here: a choice that is not the seed's. The same seed makes the
// same blocks. What a crash leaves: a directory in memory, and a database of a
// cluster that ends with the process.
package soak

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer/mirror"
)

const (
	shownSteps = 40  // lines of the trace that a failure shows
	drainMax   = 500 // rounds that everything has to end in
	lurkRounds = 24  // of them, in which the payee of a return may still begin to refuse
)

// outcome is what came of a run.
type outcome struct {
	figures
	digest string
	broken string // what was wrong, or ""
	trace  []string
}

// run plays a seed.
func run(t testing.TB, seed uint64, steps int) (o outcome) {
	w := newWorld(t, seed)
	defer w.close()
	defer func() {
		o = outcome{figures: w.figures, digest: w.digest(), trace: w.trace}
		o.runs, o.steps, o.blocks = 1, w.step, int(w.net.Latest().Height)
		switch p := recover().(type) {
		case nil:
		case failure:
			o.broken = p.what
		default:
			o.broken = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	w.open()
	w.found()
	w.look()
	for w.step < steps {
		w.step++
		w.later(time.Duration(1+w.pick(5)) * time.Second)
		w.pass()
		w.next()
		w.lurk()
		w.look()
		w.auditIfWritten()
	}
	w.drain()
	w.settled()
	w.rest()
	return o
}

// words is a failure for a person: what, where, what led to it, how to see it again.
func (o outcome) words(seed uint64, steps int) string {
	from := max(0, len(o.trace)-shownSteps)
	return fmt.Sprintf("seed %d, step %d: %s\n\nwhat happened last:\n%s\n\nto play it again: make soak SEED=%d RUNS=1 STEPS=%d\n",
		seed, o.steps, o.broken, strings.Join(o.trace[from:], "\n"), seed, steps)
}

// drain is the second phase: nothing fails any more, and everything ends.
func (w *world) drain() {
	w.heal()
	w.must(w.db.InSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
		all, err := freeze.List(ctx, tx)
		if err != nil {
			return err
		}
		for _, f := range all {
			if err := freeze.Lift(ctx, tx, f.ID, audit.Operator("op_1")); err != nil {
				return err
			}
		}
		return nil
	}), "lift every freeze")
	w.pay(sim.Move{To: w.addresses[""], Amount: money.Units(5 * wei)})
	for _, r := range w.requests {
		if r.ask.IdempotencyKey != nil && r.id == "" {
			w.ask(r)
		}
	}
	w.askOpen()
	left, rested := "", 0
	for round := range drainMax {
		w.step++
		if round == lurkRounds {
			w.spite = false
			w.heal()
		}
		for h, house := range w.houses {
			if h != round%len(w.houses) {
				continue
			}
			for _, step := range house.steps {
				w.must(step.Do(w.ctx), step.Name)
				w.later(time.Second)
			}
			w.must(mirror.Import(w.ctx, w.db, w.signer, house.Book), "import the journal")
			_, err := house.Flags.Stick(w.ctx)
			w.must(err, "look for stuck returns")
			_, err = house.posts.Step(w.ctx)
			w.must(err, "deliver")
		}
		if round < lurkRounds { // most returns are decided late, and a payee is no fault of ours
			w.lurk()
		}
		w.net.Mine(1)
		w.mined()
		if round%4 == 3 {
			w.decideAll(round > drainMax/4)
			w.resolveAll(round > drainMax/4)
		}
		w.later(w.patience(round))
		w.look()
		w.auditIfWritten()
		if left = w.left(); left != "" {
			rested = 0
			continue
		}
		// What failed is tried again after a rest: at rest is what stays so.
		w.later(2 * time.Minute)
		if rested++; rested > 3 && round > int(w.behind)+2 {
			w.note("drained in %d rounds", round)
			return
		}
	}
	w.fail("not everything has ended after %d rounds without faults: %s", drainMax, left)
}

// patience is how far time is moved on: webhooks may rest for hours.
func (w *world) patience(round int) time.Duration {
	switch {
	case round < 30:
		return 5 * time.Second
	case round < 100:
		return time.Minute
	}
	return 20 * time.Minute
}

// ask sends a request whose fate is open until it has one.
func (w *world) ask(r *request) {
	made, _, err := w.houses[0].Pay.Request(w.ctx, orgID, r.ask)
	switch {
	case err == nil:
		w.accepted(r, made.WithdrawalID)
	case fault.Of(err) != nil:
		w.turnedDown(r, fault.Of(err))
	default:
		w.fail("request #%d gets no answer: %v", r.n, err)
	}
}

// decideAll ends every wait for a person.
func (w *world) decideAll(removeAll bool) {
	for _, id := range w.column(`SELECT withdrawal_id FROM withdrawals WHERE status = 'AWAITING_APPROVAL' AND $1 ORDER BY created_at`, true) {
		if removeAll || w.chance(30) {
			_, err := w.houses[0].Pay.Remove(w.ctx, orgID, id, audit.User("usr_1"), "no")
			w.must(err, "remove "+w.name(id))
			continue
		}
		for _, person := range []string{"usr_1", "usr_2", "usr_3"} {
			// Refused where its destination is, where they have approved before, and where others were enough.
			_, err := w.houses[0].Pay.Approve(w.ctx, orgID, id, audit.User(person))
			if err != nil && fault.Of(err) == nil {
				w.fail("approve %s: %v", w.name(id), err)
			}
		}
	}
}

// left says what has not ended.
func (w *world) left() string {
	var parts []string
	for _, q := range []struct{ what, sql string }{
		{"orders", `SELECT count(*) FROM dispatch_orders WHERE status NOT IN ('PAID', 'FAILED', 'WITHDRAWN', 'REFUSED')`},
		{"withdrawals", `SELECT count(*) FROM withdrawals WHERE status IN ('AWAITING_APPROVAL', 'PROCESSING', 'BROADCAST')`},
		{"deposits", `SELECT count(*) FROM deposits WHERE status IN ('SCREENING', 'CONFIRMING', 'FLAGGED', 'REJECTING', 'REDIRECTING', 'RESOLUTION_STUCK')`},
		{"sweeps", `SELECT count(*) FROM sweeps WHERE status = 'OPEN'`},
		{"top-ups", `SELECT count(*) FROM gas_top_ups WHERE status = 'OPEN'`},
		{"events without a number", `SELECT count(*) FROM events WHERE sequence IS NULL`},
		{"deliveries", `SELECT count(*) FROM deliveries WHERE status <> 'DELIVERED'`},
	} {
		if n := w.count(q.sql); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, q.what))
		}
	}
	if len(parts) == 0 && len(w.net.Pool()) > 0 {
		parts = append(parts, fmt.Sprintf("%d transactions in the pool", len(w.net.Pool())))
	}
	return strings.Join(parts, ", ")
}

// rest restarts everything at rest: nothing moves.
func (w *world) rest() {
	moves := w.count(`SELECT count(*) FROM ledger_transfers`)
	attempts := w.count(`SELECT count(*) FROM dispatch_attempts`)
	w.shut()
	w.open()
	for _, house := range w.houses {
		for _, step := range house.steps {
			w.must(step.Do(w.ctx), step.Name)
		}
	}
	if n := w.count(`SELECT count(*) FROM ledger_transfers`); n != moves {
		w.fail("a restart at rest made %d transfers", n-moves)
	}
	if n := w.count(`SELECT count(*) FROM dispatch_attempts`); n != attempts {
		w.fail("a restart at rest made %d transactions", n-attempts)
	}
	w.shut()
	if got, want := int(w.db.Counts().Deadlocks), w.line.count(deadlock); got != want {
		w.fail("%d deadlocks, of which %d were made here", got, want)
	}
}
