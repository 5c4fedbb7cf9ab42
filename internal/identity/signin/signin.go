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
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/password"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/platform/mail"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// Mailer puts a mail into the outbox, in the transaction of the change that it tells about.
type Mailer interface {
	Queue(ctx context.Context, tx pg.Tx, m mail.Message) error
}

// Config is what a Service is built from. There is one Service for each side, and one for the pages of approvals:
// they have separate hosts, and with that separate passkeys.
type Config struct {
	DB     *pg.DB
	Keys   *seal.Keyset
	Hasher *password.Hasher // shared by both sides, because its limit is that of the process
	Mailer Mailer
	Side   account.Side
	// Audience says for which pages it opens sessions, and which it finds; "" is session.ForPages.
	Audience session.Audience
	// Site is the RP id of passkeys: the host of Origin or a parent domain of it. Never an IP address.
	Site   string
	Origin string // scheme, host and port of the pages
	// Issuer names the installation in authenticator apps and in passkeys, such as "Coffer".
	Issuer string
	// InvitationURL and DeviceURL are the pages of mailed links. The token is appended. The pages of approvals have
	// none for invitations.
	InvitationURL string
	DeviceURL     string
	// Restriction is how long acts of money and security are refused after a recovery code was used.
	Restriction time.Duration
	Limits      Limits // zero fields have their defaults
}

// Service signs people of one side in. It is safe for concurrent use.
type Service struct {
	conf  Config
	party *account.RelyingParty
}

// Client is the browser that makes a request.
type Client struct {
	Addr      netip.Addr
	UserAgent string
	Device    seal.Secret // the value of the device cookie, or empty
}

func (s *Service) newBrowser(c Client) session.Browser {
	return session.Browser{UserAgent: c.UserAgent, Addr: c.Addr, Audience: s.conf.Audience}
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

// PasskeyOptions are the options that a page passes to navigator.credentials, as JSON:
// {"publicKey": {…}}. They hold for five minutes and for one answer.
type PasskeyOptions []byte

// NewService checks the configuration: an origin that is an IP address, a site that does not fit its
// origin, and http on a host other than localhost are errors that say the fix.
func NewService(conf Config) (*Service, error) {
	if conf.DB == nil || conf.Keys == nil || conf.Hasher == nil || conf.Mailer == nil {
		return nil, errors.New("sign-in needs a database, a key file, a hasher and a mailer")
	}
	if conf.Side != account.MemberSide && conf.Side != account.OperatorSide {
		return nil, fmt.Errorf("sign-in has no side %q", conf.Side)
	}
	if err := CheckOrigin(conf.Origin, conf.Site); err != nil {
		return nil, err
	}
	links := []string{conf.DeviceURL}
	if conf.Audience != session.ForApprovals {
		links = append(links, conf.InvitationURL)
	}
	for _, link := range links {
		if !strings.HasPrefix(link, conf.Origin+"/") {
			return nil, fmt.Errorf("the mailed link %q does not begin with the origin %s", link, conf.Origin)
		}
	}
	party, err := account.NewRelyingParty(conf.Side, conf.Site, conf.Origin, conf.Issuer)
	if err != nil {
		return nil, err
	}
	conf.Limits = conf.Limits.withDefaults()
	return &Service{conf: conf, party: party}, nil
}

// CheckOrigin refuses what a browser would refuse a passkey for, with the fix.
func CheckOrigin(origin, site string) error {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != origin {
		return fmt.Errorf("the origin %q is not of the form https://host or https://host:port", origin)
	}
	host := u.Hostname()
	if _, err := netip.ParseAddr(host); err == nil {
		return fmt.Errorf("the origin %s is an IP address, for which no browser makes a passkey: "+
			"give it a host name, or use http://localhost", origin)
	}
	isLocal := host == "localhost" || strings.HasSuffix(host, ".localhost")
	if u.Scheme != "https" && (u.Scheme != "http" || !isLocal) {
		return fmt.Errorf("the origin %s is not https, so its cookies and passkeys do not work: use https", origin)
	}
	if host != site && !strings.HasSuffix(host, "."+site) || site == "" || !isLocal && !strings.Contains(site, ".") {
		return fmt.Errorf("the site %q is neither the host of the origin %s nor a parent domain of it: use %q",
			site, origin, host)
	}
	return nil
}

// now returns the time of the clock that transactions take theirs from.
func (s *Service) now() time.Time { return s.conf.DB.Clock()().UTC() }

// Side returns whose sign-in this is.
func (s *Service) Side() account.Side { return s.conf.Side }

// Authenticate finds the session of a token and moves its idle limit, at most once a minute. The
// session may be in any state but ENDED; member and operator are set only when it is OPEN. Error:
// UNAUTHORIZED, also for a session that is idle or too old.
func (s *Service) Authenticate(ctx context.Context, token seal.Secret) (session.Session, error) {
	return session.Find(ctx, s.conf.DB, s.conf.Side, s.conf.Audience, token)
}

// LookAt finds the session of a token as Authenticate does, and does not move its idle limit.
func (s *Service) LookAt(ctx context.Context, token seal.Secret) (session.Session, error) {
	return session.Look(ctx, s.conf.DB, s.conf.Side, s.conf.Audience, token)
}

// Prune deletes rows that nothing needs any more: failures, challenges and links that are over, and
// sessions that ended 90 days ago. A loop calls it every hour.
func (s *Service) Prune(ctx context.Context) error {
	if err := s.conf.DB.InSystem(ctx, account.PruneChallenges); err != nil {
		return err
	}
	return s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		for _, row := range []struct {
			sql  string
			time time.Time
		}{
			{`DELETE FROM device_links WHERE expires_at <= $1`, tx.Now},
			{`DELETE FROM known_devices WHERE last_used_at <= $1`, tx.Now.Add(-DeviceLasts)},
			{`DELETE FROM sign_in_failures WHERE window_at <= $1`, tx.Now.Add(-accountWindow)},
		} {
			if _, err := tx.Exec(ctx, row.sql, row.time); err != nil {
				return fmt.Errorf("prune sign-in: %w", err)
			}
		}
		return session.Prune(ctx, tx)
	})
}

// The member of a fault's details that says what a page has to show.
const detailKey = "signIn"

func hasDetail(err error, value string) bool {
	f := fault.Find(err)
	return f != nil && f.Details[detailKey] == value
}

// IsRefused reports whether an error is the one answer to a failed sign-in, or to a wrong factor.
func IsRefused(err error) bool { return hasDetail(err, "REFUSED") }

// NeedsLink reports whether a mailed link is required from this device (SendDeviceLink).
func NeedsLink(err error) bool { return hasDetail(err, "LINK") }

// NeedsSudo reports whether the call needs StepUp first.
func NeedsSudo(err error) bool { return hasDetail(err, "SUDO") }

// IsRestricted reports whether the call is refused because a recovery code was used recently.
func IsRestricted(err error) bool { return hasDetail(err, "RESTRICTED") }

// refusal is the one answer to a failed sign-in. Rule SIGN-1.
func refusal() error {
	return fault.New(fault.Unauthorized, fault.CodeUnauthorized, fault.NothingWritten,
		"The e-mail, the password or the code is wrong.").WithAdvice("Try again.").WithDetail(detailKey, "REFUSED")
}

func linkNeeded() error {
	return fault.New(fault.Limited, fault.RateLimited, fault.NothingWritten,
		"Too many sign-ins have failed from this network or for this e-mail.").
		WithAdvice("Ask for a link by mail, which makes this device known, or use a passkey.").
		WithDetail(detailKey, "LINK")
}

func sudoNeeded() error {
	return fault.New(fault.Forbidden, fault.CodeUnauthorized, fault.NothingWritten,
		"A second factor of the last ten minutes is missing.").WithAdvice("Show a factor again.").
		WithDetail(detailKey, "SUDO")
}

func restricted(endsAt time.Time) error {
	return fault.New(fault.Forbidden, fault.CodeUnauthorized, fault.NothingWritten,
		"A recovery code was used. Acts of money and security are possible again at %s.",
		endsAt.Format(time.RFC3339)).WithDetail(detailKey, "RESTRICTED")
}

// NewRestriction returns the refusal of an act of money or security while a recovery code restricts the
// account (IsRestricted).
func NewRestriction(endsAt time.Time) error { return restricted(endsAt) }

func roleMissing(reason string, args ...any) error {
	return fault.New(fault.Forbidden, fault.CodeUnauthorized, fault.NothingWritten, reason, args...).
		WithDetail(detailKey, "ROLE")
}

// requireFresh refuses a session that may not change the person's own factors.
func (s *Service) requireFresh(sess session.Session) error {
	switch {
	case sess.State == session.AwaitingFactor || sess.State == session.Ended:
		return session.Refusal()
	case sess.State == session.Open && !sess.HasFreshFactor(s.now()):
		return sudoNeeded()
	}
	return nil
}

// requireSudo refuses a session that may not change team, keys, secrets and settings. Rule SIGN-10.
func (s *Service) requireSudo(sess session.Session) error {
	switch now := s.now(); {
	case !sess.IsOpen():
		return session.Refusal()
	case sess.IsRestricted(now):
		return restricted(sess.Account.RestrictedUntil)
	case !sess.IsSudo(now):
		return sudoNeeded()
	}
	return nil
}
