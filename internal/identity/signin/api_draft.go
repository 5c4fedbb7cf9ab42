package signin

import (
	"context"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/invitation"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// Limits bound failures. Zero fields have their defaults.
type Limits struct {
	Window         time.Duration // 15 minutes: how long a failure counts
	AccountNetwork int           // 10 failures for one e-mail from one network (IPv4 /24, IPv6 /48)
	Network        int           // 100 failures from one network
	Account        int           // 30 failures for one e-mail from all unknown devices
	Device         int           // 10 failures of a known device, which nothing else uses up
	Codes          int           // 5 wrong codes, after which the session ends
}

// DeviceLasts is how long a device stays known after its last sign-in.
const DeviceLasts = 180 * 24 * time.Hour

// NewService checks the configuration: an origin that is an IP address, a site that does not fit its
// origin, and http on a host other than localhost are errors that say the fix.
func NewService(conf Config) (*Service, error) { panic("draft") }

// Authenticate finds the session of a token and moves its idle limit, at most once a minute. The
// session may be in any state but ENDED; member and operator are set only when it is OPEN. Error:
// UNAUTHORIZED, also for a session that is idle or too old.
func (s *Service) Authenticate(ctx context.Context, token seal.Secret) (session.Session, error) {
	panic("draft")
}

// StartWithPassword is the first step with e-mail and password. The session is then AWAITING_FACTOR,
// or MUST_ENROL if the account has no second factor. Errors: UNAUTHORIZED, the same for every reason
// (IsRefused); RATE_LIMITED if this unknown device needs a mailed link first (NeedsLink), which does
// not say whether the account exists; UNAVAILABLE if too many passwords are being checked.
func (s *Service) StartWithPassword(
	ctx context.Context, c Client, email string, pass seal.Secret,
) (Result, error) {
	panic("draft")
}

// SendDeviceLink mails a link that makes the browser which opens it a known device. It answers the
// same whether the e-mail has an account. Error: RATE_LIMITED.
func (s *Service) SendDeviceLink(ctx context.Context, c Client, email string) error { panic("draft") }

// ConfirmDevice consumes a mailed link, by POST alone. The result has the device cookie and no
// session; the person then signs in with the password. Error: NOT_FOUND for a link that is unknown,
// used or older than 30 minutes.
func (s *Service) ConfirmDevice(ctx context.Context, c Client, link seal.Secret) (Result, error) {
	panic("draft")
}

// ConfirmFactor is the second step: a TOTP code or a passkey's answer opens the session. Errors:
// UNAUTHORIZED for a wrong or used code (IsRefused); after too many the session has ended.
func (s *Service) ConfirmFactor(ctx context.Context, c Client, sess session.Session, p Proof) (Result, error) {
	panic("draft")
}

// UseRecoveryCode is the second step with a recovery code. It ends all other sessions of the account,
// mails the person and restricts the account for Config.Restriction.
func (s *Service) UseRecoveryCode(
	ctx context.Context, c Client, sess session.Session, code seal.Secret,
) (Result, error) {
	panic("draft")
}

// PasskeyOptions are the options that a page passes to navigator.credentials, as JSON:
// {"publicKey": {…}}. They hold for five minutes and for one answer.
type PasskeyOptions []byte

// StartPasskey makes the options of a sign-in with a passkey alone.
func (s *Service) StartPasskey(ctx context.Context, c Client) (PasskeyOptions, error) { panic("draft") }

// FinishPasskey signs in with a passkey alone; the session is OPEN. Error: UNAUTHORIZED (IsRefused).
func (s *Service) FinishPasskey(ctx context.Context, c Client, assertion []byte) (Result, error) {
	panic("draft")
}

// SignOut ends the session.
func (s *Service) SignOut(ctx context.Context, sess session.Session) error { panic("draft") }

// ListOrganizations returns the account's persons with access, by name of the organization.
func (s *Service) ListOrganizations(ctx context.Context, sess session.Session) ([]Membership, error) {
	panic("draft")
}

// Membership is one organization of an account.
type Membership struct {
	OrgName string
	Member  member.Member
}

// ChooseOrganization makes the session act in an organization of the account. A session with only one
// has chosen it when it opens. Error: NOT_FOUND.
func (s *Service) ChooseOrganization(
	ctx context.Context, c Client, sess session.Session, orgID string,
) (Result, error) {
	panic("draft")
}

// StepUpOptions makes the options with which a passkey confirms: a sign-in's second step, sudo (a
// zero Act), or one act.
func (s *Service) StepUpOptions(ctx context.Context, sess session.Session, act Act) (PasskeyOptions, error) {
	panic("draft")
}

// StepUp shows a factor again, which holds for ten minutes (Session.IsSudo). Errors: UNAUTHORIZED
// (IsRefused); 403 (Forbidden) while a recovery code restricts the account.
func (s *Service) StepUp(ctx context.Context, c Client, sess session.Session, p Proof) (Result, error) {
	panic("draft")
}

// ConfirmAct uses a factor up for one act. It commits before the act begins, so a crash between the
// two costs a code and never repeats an act. Errors as of StepUp.
func (s *Service) ConfirmAct(
	ctx context.Context, c Client, sess session.Session, act Act, p Proof,
) (Confirmation, error) {
	panic("draft")
}

// ListFactors returns which factors the account has.
func (s *Service) ListFactors(ctx context.Context, sess session.Session) (account.Factors, error) {
	panic("draft")
}

// TOTPEnrolment is a secret that counts only after ConfirmTOTP.
type TOTPEnrolment struct {
	Secret seal.Secret // base32, for typing
	URL    seal.Secret // otpauth://…, for a QR code
}

// StartTOTP makes a TOTP secret, in place of one that waits for its first code. It needs a session
// that is MUST_ENROL or has a fresh factor.
func (s *Service) StartTOTP(ctx context.Context, sess session.Session) (TOTPEnrolment, error) {
	panic("draft")
}

// ConfirmTOTP switches TOTP on, in place of the secret before. It ends the account's other sessions.
// A session that is MUST_ENROL opens.
func (s *Service) ConfirmTOTP(
	ctx context.Context, c Client, sess session.Session, code seal.Secret,
) (Result, error) {
	panic("draft")
}

// RemoveTOTP switches TOTP off and ends the other sessions. Error: INVALID_STATE if it is the last
// second factor.
func (s *Service) RemoveTOTP(ctx context.Context, c Client, sess session.Session) (Result, error) {
	panic("draft")
}

// StartPasskeyEnrolment makes the options of navigator.credentials.create. It needs a session that
// is MUST_ENROL or has a fresh factor.
func (s *Service) StartPasskeyEnrolment(ctx context.Context, sess session.Session) (PasskeyOptions, error) {
	panic("draft")
}

// FinishPasskeyEnrolment adds a passkey and ends the other sessions. A session that is MUST_ENROL
// opens.
func (s *Service) FinishPasskeyEnrolment(
	ctx context.Context, c Client, sess session.Session, name string, attestation []byte,
) (Result, error) {
	panic("draft")
}

// RemovePasskey removes a passkey and ends the other sessions. Errors: NOT_FOUND, INVALID_STATE if it
// is the last second factor.
func (s *Service) RemovePasskey(
	ctx context.Context, c Client, sess session.Session, passkeyID string,
) (Result, error) {
	panic("draft")
}

// MakeRecoveryCodes makes ten codes in place of those before. They are shown once.
func (s *Service) MakeRecoveryCodes(ctx context.Context, sess session.Session) ([]seal.Secret, error) {
	panic("draft")
}

// ChangePassword needs the present password and a fresh factor, and ends all other sessions. Errors:
// UNAUTHORIZED (IsRefused) for a wrong present password, INVALID_REQUEST with the parameter
// newPassword for a password that is too short, too long or among the commonest.
func (s *Service) ChangePassword(
	ctx context.Context, c Client, sess session.Session, currentPass, newPass seal.Secret,
) (Result, error) {
	panic("draft")
}

// ChangeProfile changes the name and the time zone, which shows times on pages. Error:
// INVALID_REQUEST.
func (s *Service) ChangeProfile(ctx context.Context, sess session.Session, name, timeZone string) error {
	panic("draft")
}

// ListSessions returns the live sessions of the account, latest first.
func (s *Service) ListSessions(ctx context.Context, sess session.Session) ([]session.Session, error) {
	panic("draft")
}

// EndSession ends one session of the account. Error: NOT_FOUND.
func (s *Service) EndSession(ctx context.Context, sess session.Session, sessionID string) error {
	panic("draft")
}

// EndOtherSessions ends all sessions of the account except this one, and returns how many.
func (s *Service) EndOtherSessions(ctx context.Context, sess session.Session) (int, error) {
	panic("draft")
}

// LookAtInvitation reads an invitation and changes nothing: mail scanners open links. Error:
// NOT_FOUND for one that is unknown, used, revoked or older than 72 hours.
func (s *Service) LookAtInvitation(ctx context.Context, token seal.Secret) (invitation.Invitation, error) {
	panic("draft")
}

// AcceptInvitation makes the account and consumes the invitation, by POST alone. The session is
// MUST_ENROL. Errors: NOT_FOUND as above, INVALID_REQUEST with the parameters password, name or
// timeZone, INVALID_STATE if an account with that e-mail exists: its owner signs in and calls
// JoinInvitation.
func (s *Service) AcceptInvitation(
	ctx context.Context, c Client, token seal.Secret, name, timeZone string, pass seal.Secret,
) (Result, error) {
	panic("draft")
}

// JoinInvitation accepts an invitation with an account that exists, in an OPEN session of that
// account. Errors: NOT_FOUND, 403 (Forbidden) if the invitation is for another e-mail.
func (s *Service) JoinInvitation(ctx context.Context, sess session.Session, token seal.Secret) error {
	panic("draft")
}

// TeamMember is a person of an organization as its team page shows them.
type TeamMember struct {
	Member       member.Member
	Factors      account.Factors // without an account: none
	LastSeenAt   time.Time       // zero: never
	InvitedUntil time.Time       // zero: no invitation is open
	Sessions     []session.Session
}

// ListTeam returns the people of the session's organization, those whose access has ended included.
func (s *Service) ListTeam(ctx context.Context, sess session.Session) ([]TeamMember, error) {
	panic("draft")
}

// InviteMember adds a person to the session's organization, or gives one whose access has ended a new
// one, and mails the invitation. It needs sudo. Errors: 403 (Forbidden) (the roles that the person may not
// give, or no sudo: NeedsSudo), INVALID_REQUEST, INVALID_STATE.
func (s *Service) InviteMember(
	ctx context.Context, sess session.Session, email, name string, roles []identity.Role,
) (member.Member, error) {
	panic("draft")
}

// ResendInvitation replaces a person's open invitation by a new one and mails it. It needs sudo.
func (s *Service) ResendInvitation(ctx context.Context, sess session.Session, memberID string) error {
	panic("draft")
}

// ChangeRoles replaces a person's roles and ends the person's sessions in the organization. It needs
// sudo. Errors: 403 (Forbidden), NOT_FOUND, INVALID_STATE for the last owner.
func (s *Service) ChangeRoles(
	ctx context.Context, sess session.Session, memberID string, roles []identity.Role,
) (member.Member, error) {
	panic("draft")
}

// EndAccess ends a person's access, invitations and sessions in the organization. The person's row
// stays, because approvals name it. It needs sudo. Errors as of ChangeRoles.
func (s *Service) EndAccess(ctx context.Context, sess session.Session, memberID string) error {
	panic("draft")
}

// EndSessionOf ends a session of another person of the organization, or of another operator. It needs
// sudo. Error: NOT_FOUND.
func (s *Service) EndSessionOf(ctx context.Context, sess session.Session, sessionID string) error {
	panic("draft")
}

// InviteForTerminal makes an invitation of a person that member.Add has added, for a command of the
// terminal: it is printed and not mailed.
func (s *Service) InviteForTerminal(
	ctx context.Context, actor audit.Actor, orgID, email string,
) (invitation.Invitation, seal.Secret, error) {
	panic("draft")
}

// InviteOperator adds an operator and makes the invitation, for a command of the terminal and for the
// console. It is mailed as well when mailed is true.
func (s *Service) InviteOperator(
	ctx context.Context, actor audit.Actor, email, name string, roles []operator.Role, mailed bool,
) (invitation.Invitation, seal.Secret, error) {
	panic("draft")
}

// ListOperators returns all operators, those whose access has ended included.
func (s *Service) ListOperators(ctx context.Context) ([]operator.Person, error) { panic("draft") }

// ChangeOperatorRoles replaces an operator's roles and ends the operator's sessions.
func (s *Service) ChangeOperatorRoles(
	ctx context.Context, actor audit.Actor, operatorID string, roles []operator.Role,
) (operator.Person, error) {
	panic("draft")
}

// EndOperator ends an operator's access and sessions.
func (s *Service) EndOperator(ctx context.Context, actor audit.Actor, operatorID string) error {
	panic("draft")
}

// Prune deletes rows that nothing needs any more: failures, challenges and links that are over, and
// sessions that ended 90 days ago. A loop calls it every hour.
func (s *Service) Prune(ctx context.Context) error { panic("draft") }

// IsRefused reports whether an error is the one answer to a failed sign-in, or to a wrong factor.
func IsRefused(err error) bool { panic("draft") }

// NeedsLink reports whether a mailed link is required from this device (SendDeviceLink).
func NeedsLink(err error) bool { panic("draft") }

// NeedsSudo reports whether the call needs StepUp first.
func NeedsSudo(err error) bool { panic("draft") }
