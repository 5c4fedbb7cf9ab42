// Package account has the accounts with which people sign in, and their factors: a password, a TOTP
// secret, passkeys and recovery codes.
//
// An account belongs to one side, the members of organizations or the operators, and its e-mail is
// unique there. It carries no right: rights belong to the persons that name the account (package
// member, package operator). No password, code or secret is stored in a form that a copy of the
// database opens, none is logged, and a TOTP code or recovery code never counts twice. A crash leaves
// a complete factor or none.
package account

import (
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
)

// Side says whose account it is. The two sides have separate accounts, sessions and listeners.
type Side string

// The sides.
const (
	MemberSide   Side = "MEMBER"   // people of organizations
	OperatorSide Side = "OPERATOR" // people who run the installation
)

// Account is the account of one person on one side.
type Account struct {
	ID        string // acc_…
	Side      Side
	Email     string // as member folds it
	Name      string
	TimeZone  string // IANA name, such as Europe/Berlin; "" until the browser said it
	CreatedAt time.Time
	// RestrictedUntil is when acts of money and security are possible again after a recovery code was
	// used. The zero time means that nothing is restricted.
	RestrictedUntil time.Time
}

// Actor returns the account as an actor of the audit log, for acts that concern the account itself and
// no organization.
func (a Account) Actor() audit.Actor {
	if a.Side == OperatorSide {
		return audit.Operator(a.ID)
	}
	return audit.User(a.ID)
}

// FactorKind is the kind of a second factor.
type FactorKind string

// The kinds of second factors.
const (
	TOTPFactor         FactorKind = "TOTP"
	PasskeyFactor      FactorKind = "PASSKEY"
	RecoveryCodeFactor FactorKind = "RECOVERY_CODE"
)

// Passkey describes a passkey without its key.
type Passkey struct {
	ID         string // pky_…
	Name       string
	CreatedAt  time.Time
	LastUsedAt time.Time // zero: never
}

// Factors are the second factors of an account.
type Factors struct {
	HasTOTP           bool
	TOTPSince         time.Time // zero without TOTP
	Passkeys          []Passkey // oldest first
	RecoveryCodesLeft int       // unused ones; they count as no second factor of their own
}

// IsEnough reports whether the account has a second factor. Rule SIGN-2.
func (f Factors) IsEnough() bool { return f.HasTOTP || len(f.Passkeys) > 0 }
