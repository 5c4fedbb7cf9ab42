package operator

import (
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity"
)

// Role is the role of an operator who signs in.
type Role string

// The roles of operators.
const (
	RoleOperator Role = "OPERATOR"
	RoleAuditor  Role = "AUDITOR" // only reads
)

// Person is an operator who signs in to the console. A holder of a key without an account is none.
type Person struct {
	ID        string // opr_…
	AccountID string // "" until the invitation is accepted
	Email     string
	Name      string
	Roles     []Role
	CreatedAt time.Time
	EndedAt   time.Time // zero while the person has access
}

// Actor returns the operator as an actor of the audit log.
func (p Person) Actor() audit.Actor { return audit.Operator(p.ID) }

// IsAllowed reports whether one of the person's roles allows the action. An auditor only reads.
// Rule SIGN-15.
func (p Person) IsAllowed(action identity.Action) bool {
	return p.ID != "" && p.EndedAt.IsZero() && slices.ContainsFunc(p.Roles, func(r Role) bool {
		return identity.PermissionOf(action).AllowsOperator(identity.OperatorRole(r))
	})
}
