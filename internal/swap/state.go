package swap

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// Status is the state of a swap.
type Status string

// The statuses. COMPLETED and FAILED are terminal; a refund moves on numbers of its own.
const (
	// AwaitingApproval, Rejected and CancelledStatus are of organizations' swaps alone.
	AwaitingApproval Status = "AWAITING_APPROVAL" // held until people decide; nothing is ordered
	Rejected         Status = "REJECTED"          // a person refused it; the hold is released
	CancelledStatus  Status = "CANCELLED"         // its organization took it back; the hold is released

	Pending      Status = "PENDING"    // held; our payment is not known to be on its way
	Depositing   Status = "DEPOSITING" // our payment is on its way
	Processing   Status = "PROCESSING" // the provider has our payment, or a part of the output arrived
	Completed    Status = "COMPLETED"  // the output arrived and is credited
	FailedStatus Status = "FAILED"     // no output is credited any more
)

// Statuses lists the statuses of customers' swaps, and OrganizationStatuses those of organizations' swaps.
var (
	Statuses             = []Status{Pending, Depositing, Processing, Completed, FailedStatus}
	OrganizationStatuses = []Status{
		AwaitingApproval, Pending, Depositing, Processing, Completed, FailedStatus, Rejected, CancelledStatus,
	}
)

// FailureReason says why a swap failed.
type FailureReason string

// The reasons of a failure.
const (
	DeadlineExpired    FailureReason = "DEADLINE_EXPIRED"    // the payment was not made in time
	OriginTxFailed     FailureReason = "ORIGIN_TX_FAILED"    // the payment was not made
	ProviderRefunded   FailureReason = "PROVIDER_REFUNDED"   // the provider sent the amount back
	ProviderFailed     FailureReason = "PROVIDER_FAILED"     // the provider stands by the report of a failure
	ProviderCompliance FailureReason = "PROVIDER_COMPLIANCE" // a person at the provider holds it
	UnknownFailure     FailureReason = "UNKNOWN"             // an operator ended it

	// Of organizations' swaps.
	NoLiquidity            FailureReason = "NO_LIQUIDITY"            // no provider made an offer in time
	DestinationUnavailable FailureReason = "DESTINATION_UNAVAILABLE" // the output cannot be paid to its entry
)

type transition struct {
	From, To Status // From is "" for the request
	Cause    string
	Event    event.Type // of the organization, or ""
	OwnEvent event.Type // the same of an organization's swap
}

// transitions lists all transitions; states.md is drawn from it. The event of a customer's completion is
// that of the deposit that completes it.
var transitions = []transition{
	{"", Pending, "created: row, offer, hold and order", "", ""},
	{"", AwaitingApproval, "an organization's swap above its threshold is created: row and hold", "", ""},
	{AwaitingApproval, Pending, "enough people approved it; the worker takes an offer and makes the order", "", ""},
	{AwaitingApproval, Rejected, "a person refused it", "", ""},
	{AwaitingApproval, CancelledStatus, "its organization took it back", "", ""},
	{Pending, Depositing, "a provider of the chain accepted the payment, or a block has it", "", ""},
	{
		Pending, Processing, "the payment is final before any provider of the chain said that it took it, or an " +
			"output arrived", "", "",
	},
	{
		Pending, FailedStatus, "the payment was refused or recalled, and the signer journaled that it is void; or " +
			"its slot was used without paying; or no provider made an offer for an approved swap in time",
		event.CustomerSwapFailed, event.OrganizationSwapFailed,
	},
	{Depositing, Processing, "the payment is final, or the provider has it, or an output arrived", "", ""},
	{
		Depositing, FailedStatus, "a final block shows that the slot was used without paying",
		event.CustomerSwapFailed, event.OrganizationSwapFailed,
	},
	{
		Processing, Completed, "final arrivals of the asset reach the minimum; or they are less, the provider " +
			"reports success and half an hour has passed; of an organization's swap: the payment of that output is " +
			"final", event.CustomerDeposit, event.OrganizationSwapCompleted,
	},
	{
		Processing, FailedStatus, "final refunds reach the amount less the fee of a refund; or the provider stands " +
			"by a failure, the walk is past its report, and the refund arrived or its time is over; or the slot was " +
			"used without paying; or an operator ends it; of an organization's swap also: its output cannot be " +
			"paid out",
		event.CustomerSwapFailed, event.OrganizationSwapFailed,
	},
}

// errLostRace says that a swap was not in the state that a change starts from.
var errLostRace = errors.New("the swap is in another state")

// findTransition returns a transition. It panics on one that is not in the table.
func findTransition(from, to Status) transition {
	i := slices.IndexFunc(transitions, func(t transition) bool { return t.From == from && t.To == to })
	if i < 0 {
		panic(fmt.Sprintf("swap: no way from %q to %s", from, to))
	}
	return transitions[i]
}

// isOpen reports whether a swap has no end yet.
func (s Status) isOpen() bool {
	switch s {
	case Completed, FailedStatus, Rejected, CancelledStatus:
		return false
	}
	return true
}

// setStatus changes a status by compare-and-swap. set continues the UPDATE with further columns; its
// parameters start at $5.
func setStatus(ctx context.Context, tx pg.Tx, swapID string, from, to Status, set string, args ...any) error {
	findTransition(from, to)
	if set != "" {
		set = ", " + set
	}
	tag, err := tx.Exec(ctx, `
		UPDATE swaps SET status = $3, updated_at = $4`+set+`
		WHERE swap_id = $1 AND status = $2`, append([]any{swapID, from, to, tx.Now}, args...)...)
	if err != nil {
		return fmt.Errorf("swap %s from %s to %s: %w", swapID, from, to, err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("swap %s from %s to %s: %w", swapID, from, to, errLostRace)
	}
	return nil
}
