// Package policy has the pure rules about money that leaves a balance, for every feature that takes
// some. A rule returns its refusal, or nil. effect is what a request of the feature did when it is refused.
package policy

import (
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
)

// CheckFrozen refuses money that leaves the balance of a frozen customer or organization.
// customerParam is the field that names the customer. Other freezes suspend (IsStopped).
// Rule TR-8.
func CheckFrozen(active *freeze.Freeze, customerParam string, effect fault.Effect) *fault.Fault {
	switch {
	case active == nil:
		return nil
	case active.Scope == freeze.ScopeCustomer:
		return fault.New(fault.Forbidden, fault.CustomerFrozen, effect,
			"This customer is frozen, so no money can leave the balance.").
			WithAdvice("The party that froze the customer has to lift the freeze first.").
			WithParam(customerParam)
	case active.Scope == freeze.ScopeOrganization:
		return fault.New(fault.Forbidden, fault.OrganizationFrozen, effect,
			"Your organization is frozen, so no money can leave its balances.").
			WithAdvice("Ask the operator of this service.")
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
func NewSuspended(reason string, effect fault.Effect) *fault.Fault {
	return fault.New(fault.Unprocessable, fault.WithdrawalsSuspended, effect, "%s", reason).
		WithStep(fault.RepeatLaterWithSameKey).
		WithParam("mintId")
}
