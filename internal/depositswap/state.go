package depositswap

import (
	"errors"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// Status is where a deposit swap is. All but COMPLETED only inform: a provider's word moves them.
type Status string

// The statuses. Only COMPLETED is terminal.
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

// errLostRace says that a row has another status than the one that a transition was decided by.
var errLostRace = errors.New("the deposit swap is in another status")

type transition struct {
	From, To Status // From is "" for the request
	Cause    string
	Event    event.Type // of the organization, or ""
}

const (
	causeHas      = "the provider says that it has a payment, or that it paid us"
	causeTooSmall = "the provider says that the payment was too small"
	causeRefunded = "the provider says that it paid the refund address"
	causeFailed   = "the provider says that it failed"
	causeArrived  = "a final arrival of the mint is credited or flagged"
)

// transitions lists all transitions; states.md is drawn from it. The event of a completion is that of the deposit.
var transitions = []transition{
	{"", AwaitingDeposit, "created: row and audit entry", ""},
	{AwaitingDeposit, Underpaid, causeTooSmall, ""},
	{AwaitingDeposit, Processing, causeHas, ""},
	{AwaitingDeposit, Refunded, causeRefunded, ""},
	{AwaitingDeposit, Failed, causeFailed, ""},
	{AwaitingDeposit, Expired, "the time for a payment is over, and the provider still waits for one", ""},
	{AwaitingDeposit, Completed, causeArrived, event.CustomerDeposit},
	{Underpaid, Processing, causeHas, ""},
	{Underpaid, Refunded, causeRefunded, ""},
	{Underpaid, Failed, causeFailed, ""},
	{Underpaid, Completed, causeArrived, event.CustomerDeposit},
	{Expired, Underpaid, causeTooSmall, ""},
	{Expired, Processing, causeHas, ""},
	{Expired, Refunded, causeRefunded, ""},
	{Expired, Failed, causeFailed, ""},
	{Expired, Completed, causeArrived, event.CustomerDeposit},
	{Processing, Refunded, causeRefunded, ""},
	{Processing, Failed, causeFailed, ""},
	{Processing, Completed, causeArrived, event.CustomerDeposit},
	{Refunded, Processing, causeHas, ""},
	{Refunded, Failed, causeFailed, ""},
	{Refunded, Completed, causeArrived, event.CustomerDeposit},
	{Failed, Processing, causeHas, ""},
	{Failed, Refunded, causeRefunded, ""},
	{Failed, Completed, causeArrived, event.CustomerDeposit},
}

func isAllowed(from, to Status) bool {
	return slices.ContainsFunc(transitions, func(t transition) bool { return t.From == from && t.To == to })
}

// reported is the status that a report of a provider stands for. WAITING stands for none: providers were seen to
// go back to it right before they delivered. Rule DSW-8.
var reported = map[provider.Status]Status{
	provider.Incomplete: Underpaid, provider.Processing: Processing, provider.Success: Processing,
	provider.Refunded: Refunded, provider.Failed: Failed,
}

// expiryMargin is how long after the time for a payment a deposit swap expires: a payment of the last moment is
// seen later.
const expiryMargin = 30 * time.Minute

// nextStatus returns the status after a report that the provider gave. It is pure. Rule DSW-8.
func nextStatus(d DepositSwap, r provider.Report, now time.Time) Status {
	following, isSaid := reported[r.Status]
	switch {
	case isSaid && isAllowed(d.Status, following):
		return following
	case d.Status == AwaitingDeposit && r.Status == provider.Waiting && len(r.OriginTxs) == 0 &&
		now.After(d.ExpiresAt.Add(expiryMargin)):
		return Expired
	}
	return d.Status
}
