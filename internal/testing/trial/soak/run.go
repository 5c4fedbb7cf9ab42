// Package soak runs the service through random days. A seed draws customers, deposits, withdrawals,
// swaps of customers and of the organization, deposit swaps, batch payouts, checkouts with their refunds, decisions,
// freezes and everything that can go wrong around them: forks, false providers, lost answers, dropped transactions, a
// database that fails in the middle or that a backup replaces, a signer that does not answer, restarts. Everything that
// moves money is the real code; the chain is simulated and time is virtual.
//
// A run has two phases. With faults on, nothing may ever be wrong: after every step an oracle that
// reads the chain itself compares it with the books. With faults off, everything has to end: every
// order, every hold, every event.
//
// Every choice is the seed's: the same seed makes the same blocks. A crash leaves a directory in
// memory, and a database of a cluster that ends with the process.
package soak

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const (
	shownSteps     = 40  // lines of the trace that a failure shows
	drainMax       = 500 // rounds within which everything has to end
	lurkRounds     = 24  // of them, in which the payee of a return may still start to refuse
	swapRounds     = 12  // of them, in which customers still swap: most payments need a treasury that has swept
	batchRounds    = 40  // of them, in which people still make, steer and retry batches
	providerRounds = 60  // of them, in which the swap provider still does what it likes
)

// outcome is the result of a run.
type outcome struct {
	statistics
	digest string
	broken string // what was wrong, or ""
	trace  []string
}

// playSeed plays a seed.
func playSeed(t testing.TB, seed uint64, steps int) (o outcome) {
	w := newSoakRun(t, seed)
	defer w.closeAll()
	defer func() {
		o = outcome{statistics: w.statistics, digest: w.traceDigest(), trace: w.trace}
		o.runs, o.steps, o.blocks = 1, w.step, int(w.net.Latest().Height)
		switch p := recover().(type) {
		case nil:
		case failure:
			o.broken = p.message
		default:
			o.broken = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	w.openProcesses()
	w.createOrganization()
	w.checkStep()
	for w.step < steps {
		w.step++
		w.advanceClock(time.Duration(1+w.drawNumber(5)) * time.Second)
		w.endDueTroubles()
		w.runAct()
		w.refuseReturn()
		w.checkStep()
		w.auditIfWritten()
	}
	w.drainAll()
	w.checkSettled()
	w.restartAtRest()
	return o
}

// describeFailure describes a failure for a person: what, where, what led to it, and how to repeat
// it.
func (o outcome) describeFailure(seed uint64, steps int) string {
	first := max(0, len(o.trace)-shownSteps)
	return fmt.Sprintf("seed %d, step %d: %s\n\nwhat happened last:\n%s\n\nto play it again: make soak SEED=%d RUNS=1 STEPS=%d\n",
		seed, o.steps, o.broken, strings.Join(o.trace[first:], "\n"), seed, steps)
}

// drainAll is the second phase: nothing fails any more, and everything ends.
func (w *soakRun) drainAll() {
	w.endAllTroubles()
	w.mustSucceed(w.db.InSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
		freezes, err := freeze.List(ctx, tx)
		if err != nil {
			return err
		}
		for _, f := range freezes {
			if err := freeze.Lift(ctx, tx, f.ID, audit.Operator("op_1")); err != nil {
				return err
			}
		}
		return nil
	}), "lift every freeze")
	w.makePayment(sim.Move{To: w.addresses[""], Amount: money.Units(5 * wei)})
	for _, r := range w.requests {
		if r.call.IdempotencyKey != nil && r.id == "" {
			w.requestUntilAnswered(r)
		}
	}
	w.askOpen()
	for _, s := range w.shop.sales {
		made, _, err := w.processes[0].Checkouts.CreateCheckout(w.ctx, orgID, s.call)
		if err != nil && fault.Find(err) == nil {
			w.failRun("checkout #%d has no answer: %v", s.n, err)
		}
		w.recordCheckout(s, made, err)
	}
	for _, r := range w.swapRequests {
		made, _, err := w.processes[0].Swaps.Request(w.ctx, orgID, r.call)
		w.findSwapWallets()
		if err != nil && fault.Find(err) == nil {
			w.failRun("swap request #%d has no answer: %v", r.n, err)
		}
		w.recordSwap(r, made, err)
	}
	for _, r := range w.ownSwaps {
		made, _, err := w.processes[0].Swaps.RequestOrganization(w.ctx, orgID, r.call)
		w.findSwapWallets()
		if err != nil && fault.Find(err) == nil {
			w.failRun("own swap #%d has no answer: %v", r.n, err)
		}
		w.recordOwnSwap(r, made, err)
	}
	for _, r := range w.batches {
		made, err := w.makeBatch(w.ctx, w.processes[0], r)
		if err != nil && fault.Find(err) == nil {
			w.failRun("batch #%d has no answer: %v", r.n, err)
		}
		w.recordBatch(r, made, err)
	}
	left, rested := "", 0
	for round := range drainMax {
		w.step++
		if round == lurkRounds {
			w.spite = false
			w.endAllTroubles()
		}
		for h, process := range w.processes {
			if h != round%len(w.processes) {
				continue
			}
			for _, step := range process.steps {
				w.mustSucceed(step.Run(w.ctx), step.Name)
				w.advanceClock(time.Second)
			}
			w.mustSucceed(journal.Import(w.ctx, w.db, w.signer, process.Wallets), "import the journal")
			_, err := process.Deposits.MarkOverdueStuck(w.ctx)
			w.mustSucceed(err, "look for stuck returns")
			_, err = process.Dispatcher.Step(w.ctx)
			w.mustSucceed(err, "deliver")
		}
		if round < lurkRounds { // most returns are decided late, and a payee's refusal is no fault of the service
			w.refuseReturn()
		}
		if lag := w.readClock().Sub(w.net.Latest().Time); lag > 0 {
			w.net.SkipTime(lag) // a swap fails only once blocks are later than the report of that
		}
		w.net.Mine(1)
		w.recordBlock()
		w.driveSwaps(round)
		if round < batchRounds {
			drawFrom(w, []func(*soakRun){
				(*soakRun).createBatch, (*soakRun).submitBatch, (*soakRun).approveBatch, (*soakRun).approveBatch,
				(*soakRun).steerBatch, (*soakRun).retryBatch,
			})(w)
		}
		if round%4 == 3 {
			w.settleSwaps()
			w.decideOwnSwaps(round > drainMax/8)
			w.repeatDepositSwaps()
			w.decideAll(round > drainMax/4)
			w.settleBatches(round > drainMax/6)
			w.settleShop(round > drainMax/8)
			w.resolveAll(round > drainMax/4)
		}
		w.advanceClock(w.drainPause(round))
		w.checkStep()
		w.auditIfWritten()
		if left = w.describeOpen(); left != "" {
			rested = 0
			continue
		}
		// A failed part tries again after a pause, so a state is settled only if it lasts.
		w.advanceClock(2 * time.Minute)
		if rested++; rested > 3 && round > int(w.finalLag)+2 {
			w.addTrace("drained in %d rounds", round)
			return
		}
	}
	w.failRun("not everything has ended after %d rounds without faults: %s", drainMax, left)
}

// drainPause returns how far the clock moves on: webhooks may pause for hours.
func (w *soakRun) drainPause(round int) time.Duration {
	switch {
	case round < 30:
		return 5 * time.Second
	case round < 100:
		return time.Minute
	}
	return 20 * time.Minute
}

// requestUntilAnswered repeats a request without an answer until it has one.
func (w *soakRun) requestUntilAnswered(r *request) {
	made, _, err := w.processes[0].Withdrawals.Request(w.ctx, orgID, r.call)
	switch {
	case err == nil:
		w.recordAccepted(r, made.ID)
	case fault.Find(err) != nil:
		w.recordRefused(r, fault.Find(err))
	default:
		w.failRun("request #%d has no answer: %v", r.n, err)
	}
}

// decideAll decides about every withdrawal that waits for a person.
func (w *soakRun) decideAll(removeAll bool) {
	for _, id := range w.queryColumn(
		`SELECT withdrawal_id FROM withdrawals WHERE status = 'AWAITING_APPROVAL' AND $1 ORDER BY created_at`, true,
	) {
		if removeAll || w.drawChance(30) {
			_, err := w.processes[0].Withdrawals.Remove(w.ctx, orgID, id, audit.User("usr_1"), "no")
			w.mustSucceed(err, "remove "+w.requestName(id))
			continue
		}
		for _, person := range []string{"usr_1", "usr_2", "usr_3"} {
			// Refused if its destination is refused, if the person has approved before, or if other
			// approvals were enough.
			_, err := w.processes[0].Withdrawals.Approve(w.ctx, orgID, id, audit.User(person))
			if err != nil && fault.Find(err) == nil {
				w.failRun("approve %s: %v", w.requestName(id), err)
			}
		}
	}
}

// openKind is a kind of what may be open, with the question how much of it is.
type openKind struct{ name, sql string }

// describeOpen lists what has not ended.
func (w *soakRun) describeOpen() string {
	var parts []string
	for _, q := range append([]openKind{
		{
			"orders",
			`SELECT count(*) FROM dispatch_orders WHERE status NOT IN ('PAID', 'FAILED', 'WITHDRAWN', 'REFUSED')`,
		},
		{
			"withdrawals",
			`SELECT count(*) FROM withdrawals WHERE status IN ('AWAITING_APPROVAL', 'PROCESSING', 'BROADCAST')`,
		},
		{
			"deposits",
			`SELECT count(*) FROM deposits WHERE status IN ('SCREENING', 'CONFIRMING', 'FLAGGED', 'REJECTING', 'REDIRECTING', 'RESOLUTION_STUCK')`,
		},
		{
			"swaps",
			`SELECT count(*) FROM swaps WHERE status NOT IN ('COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED')
				OR refunded > restored`,
		},
		{"strays", `SELECT count(*) FROM swap_arrivals WHERE role = 'STRAY' AND decision IS NULL`},
		{"sweeps", `SELECT count(*) FROM sweeps WHERE status = 'OPEN'`},
		{"top-ups", `SELECT count(*) FROM gas_top_ups WHERE status = 'OPEN'`},
		{"events without a number", `SELECT count(*) FROM events WHERE sequence IS NULL`},
		{"deliveries", `SELECT count(*) FROM deliveries WHERE status <> 'DELIVERED'`},
	}, slices.Concat(openShop, openBatches)...) {
		if n := w.queryCount(q.sql); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, q.name))
		}
	}
	if len(parts) == 0 && len(w.net.Mempool()) > 0 {
		parts = append(parts, fmt.Sprintf("%d transactions in the pool", len(w.net.Mempool())))
	}
	return strings.Join(parts, ", ")
}

// restartAtRest restarts everything when nothing is under way, and checks that nothing moves.
func (w *soakRun) restartAtRest() {
	moves := w.queryCount(`SELECT count(*) FROM ledger_transfers`)
	attempts := w.queryCount(`SELECT count(*) FROM dispatch_attempts`)
	w.closeSigner()
	w.openProcesses()
	for _, process := range w.processes {
		for _, step := range process.steps {
			w.mustSucceed(step.Run(w.ctx), step.Name)
		}
	}
	if n := w.queryCount(`SELECT count(*) FROM ledger_transfers`); n != moves {
		w.failRun("a restart at rest made %d transfers", n-moves)
	}
	if n := w.queryCount(`SELECT count(*) FROM dispatch_attempts`); n != attempts {
		w.failRun("a restart at rest made %d transactions", n-attempts)
	}
	w.closeSigner()
	if got, want := int(w.deadlocks+w.db.Counts().Deadlocks), w.databaseProxy.countFired(faultDeadlock); got != want {
		w.failRun("%d deadlocks, of which %d were made here", got, want)
	}
}
