// Package signinpages has the pages with which people sign in and look after their own sign-in: password
// and second factor, the links of mails, and My security. The dashboard of organizations and the console
// of operators both mount them, each with the sign-in service of its side.
//
// The package has no SQL and decides nothing: every step is a call of package signin. It never sends a
// secret back to the browser that the user typed, and shows a new one once. A crash leaves nothing behind.
package signinpages

import (
	"slices"

	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// The pages, below the prefix of their surface.
const (
	signInPath        = "/sign-in"
	factorPath        = "/sign-in/factor"
	devicePath        = "/sign-in/device"
	authenticatorPath = "/sign-in/authenticator"
	organizationPath  = "/sign-in/organization"
	invitationPath    = "/invitation"
	securityPath      = "/security"
	codesPath         = "/security/recovery-codes"
	stepUpPath        = "/security/step-up"

	ownAuthenticatorPath = "/security/authenticator"
)

// The links of mails, below the prefix of their surface. The token is appended.
const (
	InvitationLink = invitationPath + "?token="
	DeviceLink     = devicePath + "?token="
)

// The cookies that make a browser a known device, which has a budget of failures of its own. Cookies do
// not tell ports apart, so the two sides have different ones.
const (
	memberDeviceCookie   = "__Host-coffer_device"
	operatorDeviceCookie = "__Host-coffer_operator_device"
)

// SecurityPath is the page of a person's own sign-in, below the prefix of its surface.
const SecurityPath = securityPath

// accountGroup is the group of the menu with the page of a person's own sign-in.
const accountGroup = "Account"

// signInPages has the functions of the pages on one surface.
type signInPages struct {
	service                     *signin.Service
	side                        account.Side
	prefix, product             string
	sessionCookie, deviceCookie string
	// isForApprovals says that no passkey signs in here: each request for one is a signature.
	isForApprovals bool
	securityURL    string // of My security in the dashboard, for the pages of approvals; "" if unknown
}

// Mount adds the pages to a surface, and has it find sessions and check factors with a service. The
// service decides the side: its members choose an organization, its operators do not.
func Mount(surface pages.Surface, service *signin.Service) pages.Surface {
	s := newSignInPages(surface, service)
	surface = s.connect(surface)
	surface.Pages = append(slices.Clone(surface.Pages),
		s.securityPage(), s.authenticatorPage(), s.recoveryCodesPage(), s.stepUpPage(),
		s.signInPage(), s.factorPage(), s.devicePage(), s.firstFactorPage(), s.invitationPage(),
	)
	if s.side == account.MemberSide {
		surface.Pages = append(surface.Pages, s.organizationPage())
	}
	return surface
}

func newSignInPages(surface pages.Surface, service *signin.Service) *signInPages {
	s := &signInPages{
		service: service, side: service.Side(), prefix: surface.Prefix, product: surface.Name,
		sessionCookie: pages.SessionCookie, deviceCookie: memberDeviceCookie,
	}
	if s.side == account.OperatorSide {
		s.sessionCookie, s.deviceCookie = pages.OperatorSessionCookie, operatorDeviceCookie
	}
	return s
}

// connect has a surface find sessions and check factors with the service.
func (s *signInPages) connect(surface pages.Surface) pages.Surface {
	surface.SessionCookie = s.sessionCookie
	surface.SignInPath, surface.SecurityPath = s.path(signInPath), s.path(securityPath)
	surface.StepUpPath = s.path(stepUpPath)
	surface.SignOutPath = s.path(securityPath) + "/" + signOutAct
	surface.ContinuePath = s.continuePath
	surface.FindSession, surface.LookAtSession = s.service.Authenticate, s.service.LookAt
	surface.ConfirmAct, surface.StepUp, surface.PasskeyOptions = s.confirmAct, s.stepUp, s.passkeyOptions
	if !slices.Contains(surface.Groups, accountGroup) {
		surface.Groups = append(slices.Clone(surface.Groups), accountGroup)
	}
	return surface
}

// path returns the path of a page of the surface.
func (s *signInPages) path(page string) string { return s.prefix + page }

// client returns the browser of a request.
func (s *signInPages) client(r *pages.Request) signin.Client {
	return signin.Client{
		Addr: r.ClientAddr(), UserAgent: r.UserAgent(), Device: seal.NewSecret(r.ReadCookie(s.deviceCookie)),
	}
}
