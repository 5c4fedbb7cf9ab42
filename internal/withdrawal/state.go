package withdrawal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/webhook"
)

// Status is what the books say of a withdrawal.
type Status string

// The statuses.
const (
	AwaitingApproval Status = "AWAITING_APPROVAL" // held until a person decides
	Processing       Status = "PROCESSING"        // ordered, nothing known to be on the chain
	Broadcast        Status = "BROADCAST"         // a provider took the payment
	Completed        Status = "COMPLETED"         // final on the chain
	Failed           Status = "FAILED"            // proven never to pay; the money is back
	Rejected         Status = "REJECTED"          // removed by a person; the money is back
	Cancelled        Status = "CANCELLED"         // taken back by the organization; the money is back
	Blocked          Status = "BLOCKED"           // refused by risk screening: a record, and nothing was ever held
)

// Reason is why a withdrawal waits for a person.
type Reason string

// The reasons.
const (
	ReasonRequireApproval    Reason = "REQUIRE_APPROVAL"    // the request asked for it
	ReasonUSDThreshold       Reason = "USD_THRESHOLD"       // worth more than the organization's threshold
	ReasonPriceUnavailable   Reason = "PRICE_UNAVAILABLE"   // a threshold is set and its price is missing or old
	ReasonRiskReview         Reason = "RISK_REVIEW"         // nobody could say who is behind the destination, or what is said of it is too bad now
	ReasonDestinationAddress Reason = "DESTINATION_ADDRESS" // looks like a known destination and is another, or cannot be paid, or not this amount, as things stand
	ReasonLowLiquidity       Reason = "LOW_LIQUIDITY"       // our wallets cannot pay it now
	ReasonPolicyLimit        Reason = "POLICY_LIMIT"        // the signer's policy said no
	ReasonDuplicateKey       Reason = "DUPLICATE_KEY"       // the signer's journal has another payment with its idempotency key
	ReasonNetworkFee         Reason = "NETWORK_FEE"         // the network asks for more than the caller's maxNetworkFee
	ReasonRestored           Reason = "RESTORED"            // restored from the signer's journal, where it was admitted and never signed
)

type transition struct {
	From, To Status // From "" is the request
	Cause    string
	Event    webhook.Type // what the organization is told, or ""
}

// transitions are all the moves there are; states.md is drawn from them.
var transitions = []transition{
	{"", AwaitingApproval, "requested, a gate holds it", webhook.CustomerWithdrawAwaitingApproval},
	{"", Processing, "requested, every gate passed", ""},
	{"", Blocked, "requested, risk screening refuses the destination", webhook.CustomerWithdrawBlocked},
	{AwaitingApproval, Processing, "approved", webhook.CustomerWithdrawApproved},
	{AwaitingApproval, Rejected, "removed", webhook.CustomerWithdrawRejected},
	{AwaitingApproval, Cancelled, "cancelled", webhook.CustomerWithdrawCancelled},
	{Processing, AwaitingApproval, "the signer says no, the chain would because of the destination or the amount, or the fee is above the caller's limit", webhook.CustomerWithdrawAwaitingApproval},
	{Processing, Rejected, "removed while it waits without a slot", webhook.CustomerWithdrawRejected},
	{Processing, Cancelled, "cancelled while it waits without a slot", webhook.CustomerWithdrawCancelled},
	{Processing, Broadcast, "a provider took it, or a block has it", webhook.CustomerWithdraw},
	{Processing, Failed, "final, the slot was used without paying", webhook.CustomerWithdrawFailed},
	{Broadcast, Completed, "final, paid", webhook.CustomerWithdrawCompleted},
	{Broadcast, Failed, "final, the slot was used without paying", webhook.CustomerWithdrawFailed},
}

// errLostRace says that a withdrawal was not in the state that a move starts from.
var errLostRace = errors.New("withdrawal is in another state")

// findTransition finds a transition. A move that is not in the table is a bug.
func findTransition(from, to Status) transition {
	i := slices.IndexFunc(transitions, func(t transition) bool { return t.From == from && t.To == to })
	if i < 0 {
		panic(fmt.Sprintf("withdrawal: no way from %q to %s", from, to))
	}
	return transitions[i]
}

// setStatus is the compare-and-swap of a status: of two that move the same row one
// wins and the other gets errLostRace. set continues the UPDATE with further
// columns, its parameters from $5 on.
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
