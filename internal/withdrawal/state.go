package withdrawal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// Status is the state of a withdrawal in the books.
type Status string

// Statuses of a withdrawal.
const (
	AwaitingApproval Status = "AWAITING_APPROVAL" // held until a person decides
	Processing       Status = "PROCESSING"        // order submitted; not known to be on the chain
	Broadcast        Status = "BROADCAST"         // a provider accepted the payment
	Completed        Status = "COMPLETED"         // final on the chain
	Failed           Status = "FAILED"            // proven never to pay; the hold is released
	Rejected         Status = "REJECTED"          // removed by a person; the hold is released
	Cancelled        Status = "CANCELLED"         // cancelled by the organization; the hold is released
	Blocked          Status = "BLOCKED"           // refused by screening: a record without a hold
)

// Reason says why a withdrawal waits for approval.
type Reason string

// Reasons for an approval.
const (
	ReasonRequireApproval  Reason = "REQUIRE_APPROVAL"  // the request asked for it
	ReasonUSDThreshold     Reason = "USD_THRESHOLD"     // above the organization's threshold
	ReasonPriceUnavailable Reason = "PRICE_UNAVAILABLE" // a threshold is set, and the price is missing or old
	ReasonRiskReview       Reason = "RISK_REVIEW"       // screening gave no answer, or one that is too severe now
	// ReasonDestinationAddress marks a destination that looks like a known one and is another. It
	// also marks one that cannot be paid now, or not with this amount.
	ReasonDestinationAddress Reason = "DESTINATION_ADDRESS"
	ReasonLowLiquidity       Reason = "LOW_LIQUIDITY" // the organization's wallets cannot pay it now
	// ReasonPolicyLimit marks a refusal by the signer's policy, or costs above the limit of the day.
	ReasonPolicyLimit  Reason = "POLICY_LIMIT"
	ReasonDuplicateKey Reason = "DUPLICATE_KEY" // the signer's journal has its key with another payment
	ReasonNetworkFee   Reason = "NETWORK_FEE"   // the network fee is above the caller's maxNetworkFee
	ReasonRestored     Reason = "RESTORED"      // restored from the signer's journal: admitted, never signed
	ReasonApprovalRule Reason = "APPROVAL_RULE" // by the organization's rule people sign it
)

type transition struct {
	From, To Status // From is "" for the request
	Cause    string
	Event    event.Type // the event for the organization, or ""
}

// transitions lists all transitions; states.md is generated from it. Rule WD-4.
var transitions = []transition{
	{"", AwaitingApproval, "requested, a rule holds it", event.CustomerWithdrawAwaitingApproval},
	{"", Processing, "requested, every rule passed", ""},
	{"", Blocked, "requested, risk screening refuses the destination", event.CustomerWithdrawBlocked},
	{AwaitingApproval, Processing, "approved", event.CustomerWithdrawApproved},
	{AwaitingApproval, Rejected, "removed", event.CustomerWithdrawRejected},
	{AwaitingApproval, Cancelled, "cancelled", event.CustomerWithdrawCancelled},
	{
		Processing, AwaitingApproval,
		"the signer refuses it, the chain would because of the destination or the amount, or the fee is above the " +
			"caller's limit",
		event.CustomerWithdrawAwaitingApproval,
	},
	{Processing, Rejected, "removed while it waits without a slot", event.CustomerWithdrawRejected},
	{Processing, Cancelled, "cancelled while it waits without a slot", event.CustomerWithdrawCancelled},
	{Processing, Broadcast, "a provider accepted it, or a block has it", event.CustomerWithdraw},
	{Processing, Failed, "final, the slot was used without a payment", event.CustomerWithdrawFailed},
	{Broadcast, Completed, "final, paid", event.CustomerWithdrawCompleted},
	{Broadcast, Failed, "final, the slot was used without a payment", event.CustomerWithdrawFailed},
}

// errLostRace says that a withdrawal was not in the state that a transition starts from.
var errLostRace = errors.New("withdrawal is in another state")

// findTransition returns a transition. It panics on a transition that is not in the table.
func findTransition(from, to Status) transition {
	i := slices.IndexFunc(transitions, func(t transition) bool { return t.From == from && t.To == to })
	if i < 0 {
		panic(fmt.Sprintf("withdrawal: no way from %q to %s", from, to))
	}
	return transitions[i]
}

// setStatus changes a status by compare-and-swap: of two concurrent changes of a row one wins and
// the other gets errLostRace. set continues the UPDATE with further columns; its parameters start
// at $5. Rule WD-6.
func setStatus(ctx context.Context, tx pg.Tx, org, id string, from, to Status, set string, args ...any) error {
	findTransition(from, to)
	if set != "" {
		set = ", " + set
	}
	tag, err := tx.Exec(ctx, `
		UPDATE withdrawals SET status = $4`+set+`
		WHERE org_id = $1 AND withdrawal_id = $2 AND status = $3`, append([]any{org, id, from, to}, args...)...)
	if err != nil {
		return fmt.Errorf("withdrawal %s from %s to %s: %w", id, from, to, err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("withdrawal %s from %s to %s: %w", id, from, to, errLostRace)
	}
	return nil
}
