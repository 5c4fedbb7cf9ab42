package signinpages

import (
	"net/url"

	"github.com/a-h/templ"
	"rsc.io/qr"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/invitation"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

const (
	emailBytesMax    = 254
	passwordBytesMax = 1024
	nameBytesMax     = 400
	tokenBytesMax    = 256
	nextBytesMax     = 1024
	codeBytesMax     = 64
)

// nextField leads back to the page that needed a session.
var nextField = pages.Field{Name: pages.NextParameter.Name, BytesMax: nextBytesMax, Optional: true}

// continuePath returns the page on which a sign-in continues.
func (s *signInPages) continuePath(found session.Session) string {
	switch {
	case found.State == session.AwaitingFactor:
		return s.path(factorPath)
	case found.State == session.MustEnrol:
		return s.path(authenticatorPath)
	case s.side == account.MemberSide && found.OrgID == "":
		return s.path(organizationPath)
	}
	return ""
}

// keepResult stores the tokens of a step in the browser and returns the page that comes next.
func (s *signInPages) keepResult(r *pages.Request, result signin.Result, nextPath string) string {
	if !result.Token.IsEmpty() {
		r.SetCookie(s.sessionCookie, result.Token, 0)
	}
	if !result.Device.IsEmpty() {
		r.SetCookie(s.deviceCookie, result.Device, signin.DeviceLasts)
	}
	if path := s.continuePath(result.Session); path != "" {
		return withNext(path, r.ReturnPath(nextPath))
	}
	return r.ReturnPath(nextPath)
}

func withNext(path, nextPath string) string {
	return path + "?" + url.Values{pages.NextParameter.Name: {nextPath}}.Encode()
}

// nextOf returns where a sign-in leads back to: as the user's form or the link says.
func nextOf(r *pages.Request) string {
	if typed := r.Values[pages.NextParameter.Name]; typed != "" {
		return typed
	}
	return r.Query[pages.NextParameter.Name]
}

// signInPage takes the e-mail and the password.
func (s *signInPages) signInPage() pages.Page {
	return pages.Page{
		Path: "/sign-in", Title: "Sign in", Access: pages.Everyone,
		Query: []kernel.Parameter{pages.NextParameter},
		Load: func(r *pages.Request) (templ.Component, error) {
			return s.signInForm(r.Form, nextOf(r)), nil
		},
		Acts: []pages.Act{{
			Name: "password",
			Fields: []pages.Field{
				{Name: "email", BytesMax: emailBytesMax, Missing: "Enter your e-mail address."},
				{Name: "password", BytesMax: passwordBytesMax, Secret: true, Missing: "Enter your password."},
				nextField,
			},
			Run: func(r *pages.Request) (string, error) {
				result, err := s.service.StartWithPassword(
					r.Context(), s.client(r), r.Values["email"], seal.NewSecret(r.Values["password"]),
				)
				if signin.NeedsLink(err) {
					return s.path(devicePath) + "?" + url.Values{"email": {r.Values["email"]}}.Encode(), nil
				}
				if err != nil {
					return "", err
				}
				return s.keepResult(r, result, nextOf(r)), nil
			},
		}},
	}
}

// factorPage takes the second factor.
func (s *signInPages) factorPage() pages.Page {
	return pages.Page{
		Path: "/sign-in/factor", Title: "Second factor", Access: pages.Everyone,
		Query: []kernel.Parameter{pages.NextParameter},
		Load: func(r *pages.Request) (templ.Component, error) {
			if r.Session == nil || r.Session.State != session.AwaitingFactor {
				return pages.RedirectTo(r.ReturnPath(nextOf(r))), nil
			}
			return s.factorForm(r.Form, nextOf(r), r.Session.Account.Email), nil
		},
		Acts: []pages.Act{
			{
				Name: "confirm",
				Fields: []pages.Field{
					{
						Name: ui.CodeName, BytesMax: codeBytesMax, Secret: true,
						Missing: "Enter the code that your app shows now.",
					},
					nextField,
				},
				Run: func(r *pages.Request) (string, error) {
					if r.Session == nil {
						return withNext(s.path(signInPath), r.ReturnPath(nextOf(r))), nil
					}
					result, err := s.service.ConfirmFactor(
						r.Context(), s.client(r), *r.Session, signin.Proof{Code: seal.NewSecret(r.Values[ui.CodeName])},
					)
					if err != nil {
						return "", atField(err, ui.CodeName)
					}
					return s.keepResult(r, result, nextOf(r)), nil
				},
			},
			{
				Name: "recover",
				Fields: []pages.Field{
					{
						Name: "recoveryCode", BytesMax: codeBytesMax, Secret: true,
						Missing: "Enter one of your recovery codes.",
					},
					nextField,
				},
				Run: func(r *pages.Request) (string, error) {
					if r.Session == nil {
						return withNext(s.path(signInPath), r.ReturnPath(nextOf(r))), nil
					}
					result, err := s.service.UseRecoveryCode(
						r.Context(), s.client(r), *r.Session, seal.NewSecret(r.Values["recoveryCode"]),
					)
					if err != nil {
						return "", atField(err, "recoveryCode")
					}
					return s.keepResult(r, result, nextOf(r)), nil
				},
			},
		},
	}
}

// devicePage sends and takes the link that makes a browser a known device.
func (s *signInPages) devicePage() pages.Page {
	return pages.Page{
		Path: "/sign-in/device", Title: "Confirm this browser", Access: pages.Everyone,
		Query: []kernel.Parameter{
			{Name: "email", Kind: kernel.TextParameter, Max: emailBytesMax},
			{Name: "token", Kind: kernel.TextParameter, Max: tokenBytesMax},
			{Name: "sent", Kind: kernel.FlagParameter},
		},
		Load: func(r *pages.Request) (templ.Component, error) {
			token := r.Query["token"]
			if typed := r.Values["token"]; typed != "" {
				token = typed
			}
			return s.deviceForm(r.Form, r.Query["email"], token, r.Query["sent"] == "true"), nil
		},
		Acts: []pages.Act{
			{
				Name:   "send",
				Fields: []pages.Field{{Name: "email", BytesMax: emailBytesMax, Missing: "Enter your e-mail address."}},
				Run: func(r *pages.Request) (string, error) {
					err := s.service.SendDeviceLink(r.Context(), s.client(r), r.Values["email"])
					return s.path(devicePath) + "?sent=true", err
				},
			},
			{
				Name: "confirm",
				Fields: []pages.Field{
					{Name: "token", BytesMax: tokenBytesMax, Missing: "Open the link of the mail again."},
				},
				Run: func(r *pages.Request) (string, error) {
					link := seal.NewSecret(r.Values["token"])
					result, err := s.service.ConfirmDevice(r.Context(), s.client(r), link)
					if err != nil {
						return "", err
					}
					r.SetCookie(s.deviceCookie, result.Device, signin.DeviceLasts)
					return s.path(signInPath), nil
				},
			},
		},
	}
}

// authenticatorPage switches the codes of an authenticator app on.
func (s *signInPages) authenticatorPage() pages.Page {
	return pages.Page{
		Path: "/sign-in/authenticator", Title: "Set up your authenticator app", Access: pages.Everyone,
		Query: []kernel.Parameter{pages.NextParameter},
		Load: func(r *pages.Request) (templ.Component, error) {
			if r.Session == nil || r.Session.State == session.AwaitingFactor {
				return pages.RedirectTo(s.path(signInPath)), nil
			}
			return s.authenticatorForm(r.Form, nextOf(r)), nil
		},
		Acts: []pages.Act{
			{
				Name: "start", Fields: []pages.Field{nextField},
				Run: func(r *pages.Request) (string, error) {
					if r.Session == nil {
						return s.path(signInPath), nil
					}
					enrolment, err := s.service.StartTOTP(r.Context(), *r.Session)
					if err != nil {
						return "", err
					}
					code, err := qr.Encode(enrolment.URL.Reveal(), qr.M)
					if err != nil {
						return "", err
					}
					r.ShowOnce(s.authenticatorSecret(
						r.Form, nextOf(r), enrolment.Secret.Reveal(), drawQR(code), qrSide(code),
					))
					return "", nil
				},
			},
			{
				Name: "confirm",
				Fields: []pages.Field{
					{
						Name: ui.CodeName, BytesMax: codeBytesMax, Secret: true,
						Missing: "Enter the code that your app shows now.",
					},
					nextField,
				},
				Run: func(r *pages.Request) (string, error) {
					if r.Session == nil {
						return s.path(signInPath), nil
					}
					result, err := s.service.ConfirmTOTP(
						r.Context(), s.client(r), *r.Session, seal.NewSecret(r.Values[ui.CodeName]),
					)
					if err != nil {
						return "", atField(err, ui.CodeName)
					}
					s.keepResult(r, result, nextOf(r))
					return withNext(s.path(codesPath), r.ReturnPath(nextOf(r))), nil
				},
			},
		},
	}
}

// recoveryCodesPage makes recovery codes, which are shown once.
func (s *signInPages) recoveryCodesPage() pages.Page {
	return pages.Page{
		Path: "/security/recovery-codes", Title: "Recovery codes", Access: pages.SignedIn,
		Query: []kernel.Parameter{pages.NextParameter},
		Load: func(r *pages.Request) (templ.Component, error) {
			factors, err := s.service.ListFactors(r.Context(), *r.Session)
			if err != nil {
				return nil, err
			}
			return s.recoveryCodesForm(r.Form, r.ReturnPath(nextOf(r)), factors.RecoveryCodesLeft), nil
		},
		Acts: []pages.Act{{
			Name: "make", Fields: []pages.Field{nextField},
			Run: func(r *pages.Request) (string, error) {
				secrets, err := s.service.MakeRecoveryCodes(r.Context(), *r.Session)
				if err != nil {
					return "", err
				}
				codes := make([]string, 0, len(secrets))
				for _, secret := range secrets {
					codes = append(codes, secret.Reveal())
				}
				r.ShowOnce(s.recoveryCodes(codes, r.ReturnPath(nextOf(r))))
				return "", nil
			},
		}},
	}
}

// organizationPage chooses the organization of a session.
func (s *signInPages) organizationPage() pages.Page {
	return pages.Page{
		Path: "/sign-in/organization", Title: "Choose an organization", Access: pages.Everyone,
		Query: []kernel.Parameter{pages.NextParameter},
		Load: func(r *pages.Request) (templ.Component, error) {
			if r.Session == nil || !r.Session.IsOpen() {
				return pages.RedirectTo(s.path(signInPath)), nil
			}
			found, err := s.service.ListOrganizations(r.Context(), *r.Session)
			if err != nil {
				return nil, err
			}
			return s.organizationForm(r.Form, found, nextOf(r)), nil
		},
		Acts: []pages.Act{{
			Name: "choose",
			Fields: []pages.Field{
				{Name: "organization", BytesMax: tokenBytesMax, Missing: "Choose an organization."}, nextField,
			},
			Run: func(r *pages.Request) (string, error) {
				if r.Session == nil {
					return s.path(signInPath), nil
				}
				result, err := s.service.ChooseOrganization(
					r.Context(), s.client(r), *r.Session, r.Values["organization"],
				)
				if err != nil {
					return "", err
				}
				return s.keepResult(r, result, nextOf(r)), nil
			},
		}},
	}
}

// invitationPage shows an invitation, and accepts it by a form alone: scanners of mail open links.
func (s *signInPages) invitationPage() pages.Page {
	token := func(r *pages.Request) seal.Secret {
		if text := r.Values["token"]; text != "" {
			return seal.NewSecret(text)
		}
		return seal.NewSecret(r.Query["token"])
	}
	tokenField := pages.Field{Name: "token", BytesMax: tokenBytesMax, Missing: "Open the link of the mail again."}
	return pages.Page{
		Path: "/invitation", Title: "Invitation", Access: pages.Everyone,
		Query: []kernel.Parameter{{Name: "token", Kind: kernel.TextParameter, Max: tokenBytesMax}},
		Load: func(r *pages.Request) (templ.Component, error) {
			found, err := s.service.LookAtInvitation(r.Context(), token(r))
			if err != nil {
				return nil, err
			}
			isOpen := r.Session != nil && r.Session.IsOpen()
			return s.invitationForm(r.Form, found, rolesOf(found), token(r).Reveal(), isOpen), nil
		},
		Acts: []pages.Act{
			{
				Name: "accept",
				Fields: []pages.Field{
					tokenField,
					{Name: "name", BytesMax: nameBytesMax, Missing: "Enter your name."},
					{Name: "password", BytesMax: passwordBytesMax, Secret: true, Missing: "Choose a password."},
				},
				Run: func(r *pages.Request) (string, error) {
					result, err := s.service.AcceptInvitation(
						r.Context(), s.client(r), token(r), r.Values["name"], "", seal.NewSecret(r.Values["password"]),
					)
					if err != nil {
						return "", err
					}
					return s.keepResult(r, result, ""), nil
				},
			},
			{
				Name: "join", Fields: []pages.Field{tokenField},
				Run: func(r *pages.Request) (string, error) {
					if r.Session == nil {
						return s.path(signInPath), nil
					}
					if err := s.service.JoinInvitation(r.Context(), *r.Session, token(r)); err != nil {
						return "", err
					}
					return s.path(organizationPath), nil
				},
			},
		},
	}
}

// rolesOf writes the roles for which a person is invited.
func rolesOf(found invitation.Invitation) string {
	if found.Side == account.OperatorSide {
		return pages.RoleNames(found.OperatorRoles)
	}
	return pages.RoleNames(found.Roles)
}

// drawQR draws a QR code as one path of squares. It is part of the page: the policy loads no image that
// the page itself brings.
func drawQR(code *qr.Code) string {
	var path []byte
	for y := range code.Size {
		for x := range code.Size {
			if code.Black(x, y) {
				path = appendSquare(path, x+qrMargin, y+qrMargin)
			}
		}
	}
	return string(path)
}
