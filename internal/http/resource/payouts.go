package resource

import (
	"strconv"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/webhook"
)

// BatchPayoutStatuses are the statuses of a batch payout.
var BatchPayoutStatuses = []string{
	"DRAFT", "VALIDATING", "INVALID", "AWAITING_APPROVAL", "PROCESSING", "COMPLETED", "PARTIALLY_COMPLETED", "REJECTED",
	"CANCELLED", "FAILED",
}

// BatchPayoutItemStatuses are the statuses of a row of a batch payout.
var BatchPayoutItemStatuses = []string{
	"UNREADABLE", "EXCLUDED", "REFUSED", "WAITING", "AWAITING_APPROVAL", "PROCESSING", "BROADCAST", "COMPLETED", "FAILED",
	"REJECTED", "CANCELLED",
}

// ExampleBatchPayout is a batch payout of the document.
var ExampleBatchPayout = func() webhook.BatchPayout {
	b := sampleOf[webhook.BatchPayout](webhook.BatchPayoutAwaitingApproval)
	b.Totals = webhook.List[webhook.BatchPayoutTotal]{{MintID: 1, Amount: "600000000", USDValue: new("600.00")}}
	return b
}()

// BatchPayoutColumns are the columns of the table of batch payouts.
var BatchPayoutColumns = []kernel.Column[webhook.BatchPayout]{
	{Name: "batchPayoutId", Cell: func(b webhook.BatchPayout) string { return b.BatchPayoutID }},
	{Name: "createdAt", Cell: func(b webhook.BatchPayout) string { return b.CreatedAt.String() }},
	{Name: "status", Cell: func(b webhook.BatchPayout) string { return b.Status }},
	{Name: "mode", Cell: func(b webhook.BatchPayout) string { return b.Mode }},
	{Name: "contentHash", Cell: func(b webhook.BatchPayout) string { return b.ContentHash }},
	{Name: "itemCount", Cell: func(b webhook.BatchPayout) string { return strconv.Itoa(b.ItemCount) }},
	{Name: "validCount", Cell: func(b webhook.BatchPayout) string { return strconv.Itoa(b.ValidCount) }},
	{Name: "invalidCount", Cell: func(b webhook.BatchPayout) string { return strconv.Itoa(b.InvalidCount) }},
	{Name: "waiting", Cell: func(b webhook.BatchPayout) string { return strconv.Itoa(b.Counts.Waiting) }},
	{Name: "processing", Cell: func(b webhook.BatchPayout) string { return strconv.Itoa(b.Counts.Processing) }},
	{Name: "paid", Cell: func(b webhook.BatchPayout) string { return strconv.Itoa(b.Counts.Paid) }},
	{Name: "unpaid", Cell: func(b webhook.BatchPayout) string { return strconv.Itoa(b.Counts.Unpaid) }},
	{Name: "paused", Cell: func(b webhook.BatchPayout) string { return strconv.FormatBool(b.Paused) }},
	{Name: "pauseReason", Cell: func(b webhook.BatchPayout) string { return TextOrEmpty(b.PauseReason) }},
	{Name: "problem", Cell: func(b webhook.BatchPayout) string { return TextOrEmpty(b.Problem) }},
	{Name: "retryOf", Cell: func(b webhook.BatchPayout) string { return TextOrEmpty(b.RetryOf) }},
	{Name: "idempotencyKey", Cell: func(b webhook.BatchPayout) string { return TextOrEmpty(b.IdempotencyKey) }},
	{Name: "stoppedAt", Cell: func(b webhook.BatchPayout) string { return TimeOrEmpty(b.StoppedAt) }},
	{Name: "submittedAt", Cell: func(b webhook.BatchPayout) string { return TimeOrEmpty(b.SubmittedAt) }},
	{Name: "approvedAt", Cell: func(b webhook.BatchPayout) string { return TimeOrEmpty(b.ApprovedAt) }},
	{Name: "endedAt", Cell: func(b webhook.BatchPayout) string { return TimeOrEmpty(b.EndedAt) }},
}
