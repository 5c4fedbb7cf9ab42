// Package invitation has the links by which people get their accounts.
//
// A link works once, for 72 hours, and is consumed by a POST alone: looking at it changes nothing,
// because mail scanners open links. The table keeps the hash of its token. A crash leaves an
// invitation that is open or one that is accepted together with its account.
package invitation

import (
	"time"

	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/operator"
)

// Lasts is how long an invitation is open.
const Lasts = 72 * time.Hour

// Invitation is an open invitation of a member or an operator.
type Invitation struct {
	ID            string // inv_…
	Side          account.Side
	Email         string
	Name          string
	OrgID         string // of a member
	OrgName       string
	MemberID      string
	Roles         []identity.Role
	OperatorID    string // of an operator
	OperatorRoles []operator.Role
	CreatedAt     time.Time
	ExpiresAt     time.Time
	HasAccount    bool // an account with that e-mail exists on that side
}
