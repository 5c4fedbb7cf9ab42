// Package session has the sessions of people who sign in: rows with the hash of a token, the factors
// that were shown, and limits of time.
//
// The token is in the browser's cookie alone. It changes at every increase of rights. A session
// without a second factor never opens: a constraint of the table refuses it. An ended session never
// opens again. A crash leaves the session before the change or the one after it.
package session

import (
	"net/netip"
	"time"

	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// State is the state of a session.
type State string

// The states. Only an OPEN session shows anything but the pages of sign-in.
const (
	AwaitingFactor State = "AWAITING_FACTOR" // the password was right, a second factor is missing
	MustEnrol      State = "MUST_ENROL"      // the password was right, and the account has no second factor
	Open           State = "OPEN"
	Ended          State = "ENDED"
)

// Audience says for which pages a session was opened. It counts for nothing at others. Rule PAGE-119.
type Audience string

// The audiences.
const (
	ForPages     Audience = "PAGES"     // the dashboard, or the console
	ForApprovals Audience = "APPROVALS" // the pages of approvals at an address of their own
)

// EndReason says why a session ended.
type EndReason string

// The reasons.
const (
	SignedOut       EndReason = "SIGNED_OUT"
	EndedByPerson   EndReason = "ENDED_BY_PERSON" // from the list of sessions
	EndedByOther    EndReason = "ENDED_BY_OTHER"  // an owner, an administrator or another operator
	PasswordChanged EndReason = "PASSWORD_CHANGED"
	FactorsChanged  EndReason = "FACTORS_CHANGED"
	RolesChanged    EndReason = "ROLES_CHANGED"
	AccessEnded     EndReason = "ACCESS_ENDED"
	RecoveryUsed    EndReason = "RECOVERY_USED"
	TooManyCodes    EndReason = "TOO_MANY_CODES"
	Idle            EndReason = "IDLE"
	TooOld          EndReason = "TOO_OLD"
	Replaced        EndReason = "REPLACED" // the same browser signed in again
)

// Session is one session as of the moment when it was found.
type Session struct {
	ID       string // ses_…
	State    State
	Audience Audience
	Account  account.Account
	// OrgID and Member are the chosen organization and the person there. They are empty unless the
	// session is OPEN, belongs to a member and has an organization.
	OrgID   string
	OrgName string
	Member  member.Member
	// Operator is empty unless the session is OPEN and belongs to an operator.
	Operator operator.Person

	Device     string // the user agent's text, for people
	Addr       netip.Addr
	CreatedAt  time.Time
	LastSeenAt time.Time // to the minute
	IdleAt     time.Time // when it ends unless it is used
	ExpiresAt  time.Time // when it ends in any case

	HasTOTP, HasPasskey bool // which second factors the account has

	Factor   account.FactorKind // the last factor that was shown, or ""
	FactorAt time.Time          // when, or zero
	// SudoUntil is FactorAt and ten minutes, or zero. See IsSudo.
	SudoUntil time.Time

	EndedAt   time.Time // zero while it lives
	EndReason EndReason

	// Position is how far the primary was when the session was found by its token; zero if it was found otherwise.
	Position pg.Position

	tokenHash []byte // compare-and-swap of writes; a session that came from a list has none
}

// IsOpen reports whether the session shows anything but the pages of sign-in.
func (s Session) IsOpen() bool { return s.State == Open }

// IsRestricted reports whether a recovery code was used so recently that acts of money and security
// are refused.
func (s Session) IsRestricted(now time.Time) bool { return now.Before(s.Account.RestrictedUntil) }

// HasFreshFactor reports whether a factor was shown in the last ten minutes. It is enough for the
// person's own factors.
func (s Session) HasFreshFactor(now time.Time) bool { return s.IsOpen() && now.Before(s.SudoUntil) }

// IsSudo reports whether keys, secrets, team and settings may be changed without another factor.
// Rules SIGN-9 and SIGN-10.
func (s Session) IsSudo(now time.Time) bool { return s.HasFreshFactor(now) && !s.IsRestricted(now) }
