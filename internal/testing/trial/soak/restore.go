package soak

import (
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// lostActs are what can happen after the backup that is restored: batches and their payments, of which the signer's
// journal has what was let go. What else would be lost, such as a transfer, no one could know any more.
var lostActs = []func(*soakRun){
	(*soakRun).createBatch, (*soakRun).submitBatch, (*soakRun).approveBatch, (*soakRun).approveBatch,
	(*soakRun).steerBatch, (*soakRun).decideWithdrawal, (*soakRun).mineBlocks, (*soakRun).mineBlocks,
	(*soakRun).runBatchPart, (*soakRun).runBatchPart, (*soakRun).runBatchPart, (*soakRun).runBatchPart,
}

// lostParts are the parts that work then. They issue no address.
var lostParts = []string{"payouts", "payouts", "dispatch", "dispatch", "dispatch", "head walk", "final walk"}

// runBatchPart runs one of those parts.
func (w *soakRun) runBatchPart() {
	h, name := w.drawNumber(len(w.processes)), drawFrom(w, lostParts)
	for _, step := range w.processes[h].steps {
		if step.Name == name {
			w.runStep(h, step.Name, step.Run)
		}
	}
}

// batchesUnderWay counts the batches that pay their rows and that no one has paused or stopped.
const batchesUnderWay = `SELECT count(*) FROM payout_batches
	WHERE status = 'PROCESSING' AND paused_at IS NULL AND stopped_at IS NULL`

// restoreDatabase backs the database up when there are batches, lets batches go on, and restores the backup as the
// runbook says. It does so once in a run: a copy of a database costs more than a hundred steps.
func (w *soakRun) restoreDatabase() {
	if w.isRestored || len(w.batches) == 0 {
		return
	}
	w.isRestored = true
	w.addTrace("backup")
	backup := pgtest.CopyDatabase(w.t, w.data)
	w.superPool.Reset() // its connections were cut
	for range 10 + w.drawNumber(25) {
		w.advanceClock(time.Duration(1+w.drawNumber(3)) * time.Second)
		drawFrom(w, lostActs)(w)
		w.checkStep()
	}
	const events = `SELECT event_id FROM events WHERE $1`
	lostEvents := w.queryColumn(events, true)
	w.closeSigner()
	w.deadlocks += w.db.Counts().Deadlocks
	w.db.Close()
	w.check.Close()
	w.superPool.Close()
	w.db = nil
	w.openDatabase(backup)
	w.hooks.forget(lostEvents, w.queryColumn(events, true))

	w.buildProcesses()
	p := w.processes[0]
	const payments = `SELECT count(*) FROM withdrawals WHERE batch_id IS NOT NULL`
	remaining := w.queryCount(payments)
	w.batchesPaused += w.queryCount(batchesUnderWay)
	_, err := journal.RestoreDatabase(w.ctx, w.db, w.inner, p.Wallets, p.NewRestorer(audit.Operator("op_1")), false)
	w.mustSucceed(err, "restore the backup")
	w.rowsRestored += w.queryCount(payments) - remaining
	w.mustSucceed(journal.Import(w.ctx, w.db, w.inner, p.Wallets), "import the journal")
	if n := w.queryCount(batchesUnderWay); n > 0 {
		w.failRun("%d batches go on after a restore, and no person resumed them", n)
	}
	for _, r := range w.batches { // who ended one before its approval did that in the lost database
		r.isBarred = false
	}
	w.arrivals, w.audited = newOracle(), -1
	w.faults.addOne("database restored")
	w.addTrace("restored")
}

// forget drops the events that a restored backup lacks: they are lost, and what happened is announced again.
func (r *receiver) forget(lostEvents, remaining []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range lostEvents {
		if !slices.Contains(remaining, id) {
			delete(r.first, id)
			delete(r.taken, id)
		}
	}
}
