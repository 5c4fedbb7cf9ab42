// Package signin is how people sign in and what they do with their own accounts: the steps from a
// password or a passkey to an open session, step-up, factors, invitations, the people of an
// organization and their sessions. It knows no HTTP: a surface keeps the tokens in cookies.
//
// Every failure of a sign-in has one answer and takes one path, so it does not say which e-mails have
// accounts. Failures never lock an account. No session opens without a second factor. Nothing here
// hashes a password inside a transaction, and mail goes through an outbox in the transaction of the
// change. A crash between two steps leaves a session that continues where it was, or none.
package signin

import (
	"context"
	"net/netip"
	"time"

	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/password"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// Message is a mail that the outbox sends.
type Message struct{ To, Subject, Text string }

// Mailer puts a mail into the outbox, in the transaction of the change that it tells about.
type Mailer interface {
	Queue(ctx context.Context, tx pg.Tx, m Message) error
}

// Config is what a Service is built from. There is one Service for each side: the two have separate
// hosts, and with that separate passkeys.
type Config struct {
	DB     *pg.DB
	Keys   *seal.Keyset
	Hasher *password.Hasher // shared by both sides, because its limit is that of the process
	Mailer Mailer
	Side   account.Side
	// Site is the RP id of passkeys: the host of Origin or a parent domain of it. Never an IP address.
	Site   string
	Origin string // scheme, host and port of the pages
	// Issuer names the installation in authenticator apps and in passkeys, such as "Coffer".
	Issuer string
	// InvitationURL and DeviceURL are the pages of mailed links. The token is appended.
	InvitationURL string
	DeviceURL     string
	// Restriction is how long acts of money and security are refused after a recovery code was used.
	Restriction time.Duration
	Limits      Limits // zero fields have their defaults
}

// Service signs people of one side in. It is safe for concurrent use.
type Service struct {
	conf Config
}

// Client is the browser that makes a request.
type Client struct {
	Addr      netip.Addr
	UserAgent string
	Device    seal.Secret // the value of the device cookie, or empty
}

// Result is what a step of the sign-in gives.
type Result struct {
	Session session.Session
	// Token is the new value of the session cookie. It is empty if the cookie stays as it is.
	Token seal.Secret
	// Device is the new value of the device cookie, which lasts for DeviceLasts. It is empty if the
	// cookie stays as it is.
	Device seal.Secret
}

// Proof is one factor that a person shows: a code of the authenticator app, or a passkey's answer.
// Exactly one field is set.
type Proof struct {
	Code      seal.Secret
	Assertion []byte // the JSON of PublicKeyCredential.toJSON()
}

// Act names the one act that a factor is shown for. Resource and Digest say what the person has seen;
// the digest may be nil.
type Act struct {
	Action   string // such as withdrawal.decide
	Resource string
	Digest   []byte
}

// Confirmation says that a factor was used up for an act.
type Confirmation struct {
	Act         Act
	Factor      account.FactorKind
	ConfirmedAt time.Time
}
