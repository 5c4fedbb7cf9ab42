package depositswap

// Status is where a deposit swap is. All but COMPLETED only inform: a provider's word moves them.
type Status string

// The statuses.
const (
	AwaitingDeposit Status = "AWAITING_DEPOSIT" // the provider saw no payment
	Underpaid       Status = "UNDERPAID"        // the provider says that the payment was too small
	Processing      Status = "PROCESSING"       // the provider has a payment, or says that it paid us
	Completed       Status = "COMPLETED"        // an arrival of the mint is credited or flagged
	Refunded        Status = "REFUNDED"         // the provider says that it paid the refund address
	Failed          Status = "FAILED"           // the provider says that it failed
	Expired         Status = "EXPIRED"          // the time for a payment is over, and none was seen
)

// Statuses lists all statuses.
var Statuses = []Status{AwaitingDeposit, Underpaid, Processing, Completed, Refunded, Failed, Expired}
