package wire

import (
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/webhook"
)

// BatchPayout returns the object of a batch payout, without what only a source of prices or a chain knows.
func BatchPayout(b payout.Batch) webhook.BatchPayout {
	items := b.Header.Rows + b.BadRows
	o := webhook.BatchPayout{
		BatchPayoutID: b.ID, Status: string(b.Status), Mode: string(b.Header.Mode),
		ContentHash: b.ContentHash.String(), ItemCount: items, ValidCount: b.Header.Included,
		InvalidCount: items - b.Header.Included,
		Counts: webhook.BatchPayoutCounts{
			Waiting: b.Counts.Waiting, Processing: b.Counts.Processing, Paid: b.Counts.Paid, Unpaid: b.Counts.Unpaid,
		},
		Approvals: webhook.Approvals{Required: b.Required, Received: b.Approvals},
		Paused:    b.PausedAt != nil, PausedAt: webhook.AtOrNil(b.PausedAt), PauseReason: textOrNil(b.PauseReason),
		StoppedAt: webhook.AtOrNil(b.StoppedAt), Problem: textOrNil(b.Problem), RetryOf: textOrNil(b.RetryOf), IdempotencyKey: b.IdempotencyKey,
		CreatedAt: webhook.At(b.CreatedAt), SubmittedAt: webhook.AtOrNil(b.SubmitAt),
		ApprovedAt: webhook.AtOrNil(b.ApprovedAt), EndedAt: webhook.AtOrNil(b.EndedAt),
	}
	for _, t := range b.Header.Totals {
		o.Totals = append(o.Totals, webhook.BatchPayoutTotal{MintID: t.MintID, Amount: t.Amount.String()})
	}
	return o
}
