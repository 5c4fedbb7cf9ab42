package checkout

import "slices"

type refundTransition struct {
	From, To RefundStatus // From is "" for the request
	Cause    string
	Event    string // the type of the organization's event, or ""
}

// refundTransitions lists all transitions of a refund; refund_states.md is drawn from it. Rule CO-83.
var refundTransitions = []refundTransition{
	{"", RefundAwaitingAddress, "requested without an address: its amount is owed, and a key claims it", ""},
	{"", RefundRequested, "requested with an address: its amount is owed", ""},
	{
		RefundAwaitingAddress, RefundRequested,
		"the payer claims it with its key, or the organization gives an address", "",
	},
	{RefundAwaitingAddress, RefundCancelled, "the organization takes it back: its amount is in the product again", ""},
	{RefundAwaitingAddress, RefundExpired, "thirty days are over: its amount is in the product again", ""},
	{RefundRequested, RefundSent, "a withdrawal pays it", ""},
	{RefundRequested, RefundAwaitingAddress, "the address or the amount is refused for good", ""},
	{RefundRequested, RefundCancelled, "the organization takes it back before a withdrawal pays it", ""},
	{RefundSent, RefundCompleted, "the withdrawal is final", "CHECKOUT_REFUNDED"},
	{RefundSent, RefundAwaitingAddress, "the withdrawal ended without paying: its amount is owed again", ""},
}

// isRefundTransition reports whether a refund may go from one status to another.
func isRefundTransition(before, after RefundStatus) bool {
	return slices.ContainsFunc(refundTransitions, func(t refundTransition) bool {
		return t.From == before && t.To == after
	})
}
