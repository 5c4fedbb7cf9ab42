package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
)

const (
	lifeGoal     = 4_000 // transfers a second
	drainTimeout = 2 * time.Minute
)

// benchLife measures the whole life of transfers: each is posted, its event is numbered and delivered to a receiver on
// loopback, and its audit entry is sealed. A checkpoint comes in the middle. The rate counts until the last of them has
// arrived, so that no part is measured while another falls behind.
func benchLife(ctx context.Context, w *benchEnv) error {
	h, err := newWebhookEnvOf(ctx, w, w.org)
	if err != nil {
		return err
	}
	defer h.closeConns()
	callers, hangUp, err := w.newCallers(ctx, connections, "life")
	if err != nil {
		return err
	}
	defer hangUp()
	running, stop := context.WithCancel(ctx)
	defer stop()
	sealer := &audit.Sealer{DB: w.db, Log: slog.New(slog.DiscardHandler)}
	loops := []func(context.Context) error{h.sequencer.Run, h.dispatcher.Run, sealer.Run}
	errs := make([]error, len(loops))
	var group sync.WaitGroup
	for i, run := range loops {
		group.Go(func() { errs[i] = run(running) })
	}
	// What earlier figures left is not counted.
	if err := w.drain(ctx); err != nil {
		return err
	}
	checkpointed := make(chan error, 1)
	before, began, made, received := w.readWork(), time.Now(), w.made.Load(), h.received.Load()
	time.AfterFunc(w.duration/2, func() { checkpointed <- w.execAsSuperuser(ctx, local.Database, `CHECKPOINT`) })
	took, posted, err := runCallers(ctx, connections, w.duration, func(_ context.Context, i int) error {
		sender, recipient := randomCustomer(), randomCustomer()
		for sender == recipient {
			recipient = randomCustomer()
		}
		return callers[i].postTransfer(sender, recipient)
	})
	postedFor := time.Since(began)
	if err = errors.Join(err, <-checkpointed); err != nil {
		return err
	}
	if err := w.drain(ctx); err != nil {
		return err
	}
	whole, spent, count := time.Since(began), w.readWork().subtract(before), int(w.made.Load()-made)
	stop()
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if n := int(h.received.Load() - received); n < count {
		return fmt.Errorf("%d of %d transfers arrived at the receiver", n, count)
	}
	rate := perSecond(count, whole)
	w.table.addRow(row{
		figure: "transfers with number, seal and one delivery, over a checkpoint",
		result: fmt.Sprintf("%.0f/s until the last has arrived; posted at %.0f/s, p99 %s", rate, posted,
			formatDuration(took.percentile(0.99))),
		compared: joinParts(
			fmt.Sprintf("the deliveries and seals took %s longer than the posts", formatDuration(whole-postedFor)),
			formatRatio(rate, w.table.bareWriter, "the bare writer"),
			formatRatio(rate, w.table.tpcb8, "pgbench at 8 clients"), spent.formatEach(count)+", receiver included"),
		target: formatTarget(rate >= lifeGoal, fmt.Sprintf("%d/s", lifeGoal)),
	})
	return nil
}

// drain waits until every event of the organization has its number, every delivery has its attempt, and every audit
// entry has its seal.
func (w *benchEnv) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	for {
		var isWaiting bool
		err := w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			return tx.QueryRow(ctx, `
				SELECT EXISTS (SELECT FROM events WHERE sequence IS NULL)
					OR EXISTS (SELECT FROM deliveries WHERE org_id = $1 AND status = 'PENDING')
					OR (SELECT max(audit_id) FROM audit_log) > (SELECT sealed_through FROM audit_chain)`, w.org,
			).Scan(&isWaiting)
		})
		if err != nil || !isWaiting {
			return err
		}
		sleepContext(ctx, creditPollInterval)
	}
}
