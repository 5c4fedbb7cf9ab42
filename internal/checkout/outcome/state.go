package outcome

import "slices"

// Status is where a checkout is.
type Status string

// The statuses of a checkout. Only COMPLETED is terminal.
const (
	Open       Status = "OPEN"       // less than the need is in blocks
	Processing Status = "PROCESSING" // the need is in blocks and not yet credited
	Completed  Status = "COMPLETED"  // the need is credited, or a person accepted what is credited
	Expired    Status = "EXPIRED"    // the time for payments is over
	Cancelled  Status = "CANCELLED"  // the organization cancelled it before any payment
)

// Statuses lists all statuses of a checkout.
var Statuses = []Status{Open, Processing, Completed, Expired, Cancelled}

// Exception says what is unusual about a checkout.
type Exception string

// The exceptions.
const (
	Flagged     Exception = "FLAGGED"     // screening flagged a payment, and a person decides about it
	Reversed    Exception = "REVERSED"    // a credited payment is not on its chain any more
	WrongToken  Exception = "WRONG_TOKEN" // a payment is in a coin that the checkout does not accept
	Overpaid    Exception = "OVERPAID"    // more is credited than the amount due and the tolerance
	PaidLate    Exception = "PAID_LATE"   // a payment came after the time for payments
	Underpaid   Exception = "UNDERPAID"   // a part of the need is in blocks
	Refunded    Exception = "REFUNDED"    // everything that was credited went back to the payers
	NoException Exception = "NONE"
)

// Exceptions lists all exceptions, the most severe first.
var Exceptions = []Exception{
	Flagged, Reversed, WrongToken, Overpaid, PaidLate, Underpaid, Refunded, NoException,
}

// PaymentStatus is where a payment of a checkout is, which its deposit decides.
type PaymentStatus string

// The statuses of a payment.
const (
	PaymentSeen     PaymentStatus = "SEEN"     // in a block, not credited
	PaymentCredited PaymentStatus = "CREDITED" // final, and in the balance
	PaymentFlagged  PaymentStatus = "FLAGGED"  // screening flagged it, and it is not returned
	PaymentReturned PaymentStatus = "RETURNED" // it went back, or to an address that a person chose
	PaymentOrphaned PaymentStatus = "ORPHANED" // its block is not on the chain any more
	PaymentReversed PaymentStatus = "REVERSED" // orphaned after the credit
	PaymentUnusable PaymentStatus = "UNUSABLE" // of no mint of the catalogue, or below its minimum
)

// PaymentStatuses lists all statuses of a payment.
var PaymentStatuses = []PaymentStatus{
	PaymentSeen, PaymentCredited, PaymentFlagged, PaymentReturned, PaymentOrphaned, PaymentReversed, PaymentUnusable,
}

type transition struct {
	From, To Status // From is "" for the request
	Cause    string
	Event    string // the type of the organization's event, or ""
}

const (
	causeCovered  = "payments in blocks cover the need"
	causeCredited = "credited payments cover the need, or a person accepts what is credited"
	causeLate     = "payments in time that were noticed later, or late ones that are accepted, cover the need"

	eventProcessing = "CHECKOUT_PROCESSING"
	eventCompleted  = "CHECKOUT_COMPLETED"
	eventExpired    = "CHECKOUT_EXPIRED"
)

// transitions lists all transitions; states.md is drawn from it. A checkout whose payments are gone is OPEN again
// for at least ten minutes, whatever it was before them.
var transitions = []transition{
	{"", Open, "created: row and audit entry", ""},
	{Open, Processing, causeCovered, eventProcessing},
	{Open, Completed, causeCredited, eventCompleted},
	{
		Open, Expired, "the time for payments is over, the walks of its chains keep up, and no payment in time waits " +
			"for its value", eventExpired,
	},
	{Open, Cancelled, "the organization cancels it, and no payment was seen", ""},
	{Processing, Completed, causeCredited, eventCompleted},
	{Processing, Open, "payments are orphaned, flagged or reversed, and the others do not cover the need", ""},
	{Expired, Processing, causeLate, eventProcessing},
	{Expired, Completed, causeCredited, eventCompleted},
	{Cancelled, Processing, "payments in time that were noticed later cover the need", eventProcessing},
	{Cancelled, Completed, causeCredited, eventCompleted},
}

// IsTransition reports whether a checkout may go from one status to another. From is "" for a new one.
func IsTransition(from, to Status) bool {
	return slices.ContainsFunc(transitions, func(t transition) bool { return t.From == from && t.To == to })
}
