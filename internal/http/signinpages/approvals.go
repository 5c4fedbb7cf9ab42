package signinpages

import (
	"context"
	"slices"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// MountForApprovals adds the pages of sign-in alone to the pages of approvals at an address of their own. The second
// factor there is a code: every request for a passkey is a signature. Factors, password and invitations stay in the
// dashboard, whose My security is at securityURL. Rule PAGE-119.
func MountForApprovals(surface pages.Surface, service *signin.Service, securityURL string) pages.Surface {
	s := newSignInPages(surface, service)
	s.isForApprovals, s.securityURL = true, securityURL
	surface = s.connect(surface)
	surface.FindSession = withoutPasskey(service.Authenticate)
	surface.LookAtSession = withoutPasskey(service.LookAt)
	surface.PasskeyOptions = func(*pages.Request, pages.Act) (signin.PasskeyOptions, error) {
		return nil, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"The second factor of these pages is a code.").WithAdvice("Enter the code of your authenticator app.")
	}
	surface.Pages = slices.Clone(surface.Pages)
	for _, p := range []pages.Page{
		s.sessionPage(), s.stepUpPage(), s.signInPage(), s.factorPage(), s.devicePage(), s.organizationPage(),
	} {
		p.Acts = slices.DeleteFunc(p.Acts, func(a pages.Act) bool {
			return a.Name == passkeyAct || strings.HasSuffix(a.Name, optionsSuffix)
		})
		surface.Pages = append(surface.Pages, p)
	}
	return surface
}

// withoutPasskey has no form of the surface offer a passkey as its second factor.
func withoutPasskey(
	find func(context.Context, seal.Secret) (session.Session, error),
) func(context.Context, seal.Secret) (session.Session, error) {
	return func(ctx context.Context, token seal.Secret) (session.Session, error) {
		found, err := find(ctx, token)
		found.HasPasskey = false
		return found, err
	}
}

// sessionPage shows the session and ends it.
func (s *signInPages) sessionPage() pages.Page {
	return pages.Page{
		Path: securityPath, Title: "This session", Access: pages.SignedIn, Group: accountGroup, Icon: "shield",
		Load: func(r *pages.Request) (templ.Component, error) {
			return s.ownSession(r.Form, r.Session.Account.Email, r.Moment(r.Session.CreatedAt)), nil
		},
		Acts: []pages.Act{{Name: signOutAct, Run: s.signOut}},
	}
}
