// Package policy has the pure rules about money that leaves a balance, for every feature that takes
// some. A rule returns its refusal, or nil. untouched is the sentence of a feature that says what a
// refused request has not done, with a space before it.
package policy

import (
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/freeze"
)

// CheckFrozen refuses money that leaves the balance of a frozen customer or organization.
// customerParam is the field that names the customer. Other freezes suspend (IsStopped).
// Rule TR-8.
func CheckFrozen(active *freeze.Freeze, customerParam string, untouched string) *fault.Fault {
	switch {
	case active == nil:
		return nil
	case active.Scope == freeze.ScopeCustomer:
		return fault.New(fault.Forbidden, fault.CustomerFrozen,
			"This customer is frozen, so no money can leave the balance.%s The party that froze the customer has to "+
				"lift the freeze first.", untouched).
			WithParam(customerParam)
	case active.Scope == freeze.ScopeOrganization:
		return fault.New(fault.Forbidden, fault.OrganizationFrozen,
			"Your organization is frozen, so no money can leave its balances.%s Ask the operator of this service.",
			untouched)
	}
	return nil
}

// Quarantined is the reason of a suspension while the mint is in quarantine.
const Quarantined = "The balances of this token contradict its transfers, so it is quarantined."

// IsStopped reports whether a freeze stops more than one customer or organization, such as a chain.
func IsStopped(active *freeze.Freeze) bool {
	return active != nil && active.Scope != freeze.ScopeCustomer && active.Scope != freeze.ScopeOrganization
}

// NewSuspended returns the answer while nothing leaves a balance of the mint.
func NewSuspended(reason string, untouched string) *fault.Fault {
	return fault.New(fault.Unprocessable, fault.WithdrawalsSuspended,
		"%s%s Try again later with the same idempotencyKey, or ask the operator of this service.", reason, untouched).
		WithParam("mintId")
}
