package webhook

// BatchPayout is a list of payments of the organization's own money that people approve as a whole, by one hash.
//
// The BATCH_PAYOUT events tell of it: that it waits for an approval, that its rows are being paid, and how it ended.
// BATCH_PAYOUT_COMPLETED comes with the Status COMPLETED, or PARTIALLY_COMPLETED if some rows were not paid. The
// payments of its rows have events of their own, ORGANIZATION_WITHDRAW and so on, with BatchPayoutID and Row.
type BatchPayout struct {
	BatchPayoutID string `json:"batchPayoutId"`
	// DRAFT, VALIDATING, INVALID, AWAITING_APPROVAL, PROCESSING, COMPLETED, PARTIALLY_COMPLETED, REJECTED, CANCELLED,
	// FAILED
	Status string `json:"status" doc:"DRAFT: nothing is held. VALIDATING: its sum is held, and its rows are checked. INVALID: it cannot be paid, see problem. AWAITING_APPROVAL: people look at its contentHash. PROCESSING: its rows are being paid. COMPLETED: every row was paid. PARTIALLY_COMPLETED: some were. FAILED: none was. REJECTED: a person refused it. CANCELLED: you took it back, and no row was paid. After INVALID, REJECTED and CANCELLED its sum is in the balance of BATCH_PAYOUT again, and so is the amount of each row that ended unpaid." example:"AWAITING_APPROVAL"`
	Mode   string `json:"mode" doc:"STRICT: one row that cannot be paid makes the whole batch INVALID. PARTIAL: such rows are left out." enum:"STRICT,PARTIAL"`
	// ContentHash is what people approve: one hash over every field of every row.
	ContentHash string `json:"contentHash" doc:"What is submitted and approved: one SHA-256 over every field of every row, with mode, counts and totals. PARTIAL: it changes when a row is left out." pattern:"^sha256:[0-9a-f]{64}$" example:"sha256:9fc76417374aa880d4449a1f7f31ec597f00b1f6f3dd2d66f4c9c6c445836d8b"`

	ItemCount    int               `json:"itemCount" doc:"How many rows the list has." bounds:"minimum=0" example:"120"`
	ValidCount   int               `json:"validCount" doc:"How many of them it pays." bounds:"minimum=0" example:"120"`
	InvalidCount int               `json:"invalidCount" doc:"How many it does not pay, because they cannot be read or paid." bounds:"minimum=0" example:"0"`
	Counts       BatchPayoutCounts `json:"counts" doc:"What became of the rows that it pays, as of now."`

	Totals List[BatchPayoutTotal] `json:"totals" doc:"What its rows pay together, by mint."`
	// EstimatedNetworkFeeUSD is what the network would take, in dollars.
	EstimatedNetworkFeeUSD *string `json:"estimatedNetworkFeeUsd" doc:"What the networks would take for the rows that are not paid yet, in dollars, at most and each row in a transaction of its own. null without an answer of a chain or a recent price, once it was approved, and in every answer but those of POST and GET of one batch." form:"decimal" example:"1.20"`

	Approvals Approvals `json:"approvals" doc:"How many of the needed approvals it has. Only people approve, and never the one who made or submitted it."`
	Paused    bool      `json:"paused" doc:"Whether no further row is paid until the batch is resumed."`
	PausedAt  *Time     `json:"pausedAt" doc:"When it was paused; null if it is not."`
	// PauseReason says why it is paused.
	PauseReason *string `json:"pauseReason" doc:"Why the service paused it, for a person; null if a person did, or if it is not paused." example:"The database was restored from a backup."`
	// StoppedAt tells of a cancellation while rows were being paid.
	StoppedAt *Time   `json:"stoppedAt" doc:"When it was cancelled while its rows were being paid; null otherwise."`
	Problem   *string `json:"problem" doc:"Why it is INVALID or REJECTED, for a person; null otherwise." example:"Row 7: Risk screening refuses the address."`
	RetryOf   *string `json:"retryOf" doc:"The batch payout whose unpaid rows it pays again; null if it is none." example:"bp_01J9ZW3M8Q4S5T6V7W8X9YZABD"`

	IdempotencyKey *string `json:"idempotencyKey" doc:"The key of the request that made it; null if the request had none." example:"salaries-2026-01"`

	CreatedAt   Time  `json:"createdAt"`
	SubmittedAt *Time `json:"submittedAt" doc:"When its sum was held; null before."`
	ApprovedAt  *Time `json:"approvedAt" doc:"When it had every approval; null before."`
	EndedAt     *Time `json:"endedAt" doc:"When it came to its last status; null before."`
}

// BatchPayoutTotal is what a batch payout pays of one mint.
type BatchPayoutTotal struct {
	MintID   int     `json:"mintId"`
	Amount   string  `json:"amount"`
	USDValue *string `json:"usdValue" doc:"The value of the amount in dollars, rounded to cents; null without a recent price, and in events." example:"600.00"`
}

// BatchPayoutCounts says what became of the rows that a batch payout pays.
type BatchPayoutCounts struct {
	Waiting    int `json:"waiting" doc:"Rows without a payment yet." bounds:"minimum=0" example:"20"`
	Processing int `json:"processing" doc:"Rows that a withdrawal is paying." bounds:"minimum=0" example:"30"`
	Paid       int `json:"paid" doc:"Rows whose payment is final." bounds:"minimum=0" example:"69"`
	Unpaid     int `json:"unpaid" doc:"Rows that ended without a payment. Their amounts are in the balance of BATCH_PAYOUT again." bounds:"minimum=0" example:"1"`
}
