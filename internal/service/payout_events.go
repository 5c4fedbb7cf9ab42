package service

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// batchEvents tells organizations of their batch payouts.
type batchEvents struct{ recorder event.Recorder }

// NewPayouts builds the batch payouts whose rows some withdrawals pay. grants may be nil.
func NewPayouts(
	db *pg.DB, chains chain.Chains, withdrawals *withdrawal.Service, grants *signer.GrantKey, log *slog.Logger,
) *payout.Service {
	s := &payout.Service{
		DB: db, Chains: chains, Payments: batchPayments{withdrawals}, GrantKey: grants,
		Events: batchEvents{wire.NewRecorder()}, Log: log,
	}
	withdrawals.Batches = batchBook{s}
	return s
}

// eventsOfBatches has the event of each status that has one. A draft, a batch that is being checked and one that was
// taken back have none: its organization has just asked for that.
var eventsOfBatches = map[payout.Status]event.Type{
	payout.AwaitingApproval: event.BatchPayoutAwaitingApproval,
	payout.Processing:       event.BatchPayoutProcessing,
	payout.Completed:        event.BatchPayoutCompleted, payout.PartiallyCompleted: event.BatchPayoutCompleted,
	payout.Rejected: event.BatchPayoutRejected,
	payout.Invalid:  event.BatchPayoutFailed, payout.Failed: event.BatchPayoutFailed,
}

// PublishBatch implements payout.Publisher. It is called for each new status, and a batch has each status once, so
// each event is told once. Rule BP-18.
func (e batchEvents) PublishBatch(ctx context.Context, tx pg.Tx, b payout.Batch) error {
	eventType, hasEvent := eventsOfBatches[b.Status]
	if !hasEvent {
		return nil
	}
	_, err := e.recorder.Record(ctx, tx, event.Event{
		OrgID: b.OrgID, Type: eventType, ResourceKind: "batch_payout", ResourceID: b.ID, Data: b,
	})
	if err != nil {
		return fmt.Errorf("tell of batch %s: %w", b.ID, err)
	}
	return nil
}
