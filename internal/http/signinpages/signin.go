package signinpages

import (
	"net/url"

	"github.com/a-h/templ"

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
	zoneBytesMax     = 64
)

var (
	// nextField leads back to the page that needed a session.
	nextField = pages.Field{Name: pages.NextParameter.Name, BytesMax: nextBytesMax, Optional: true}
	// zoneField is the time zone of the browser.
	zoneField = pages.Field{Name: "timeZone", BytesMax: zoneBytesMax, Optional: true, Scripted: true}
)

// continuePath returns the page on which a sign-in continues.
func (s *signInPages) continuePath(found session.Session) string {
	switch {
	case found.State == session.AwaitingFactor, found.State == session.MustEnrol && s.isForApprovals:
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
	s.keepTokens(r, result)
	if result.Session.IsOpen() {
		// The sign-in stands without a time zone; the next one sets it.
		_ = s.service.AdoptTimeZone(r.Context(), result.Session, r.Values[zoneField.Name])
	}
	if path := s.continuePath(result.Session); path != "" {
		return withNext(path, r.ReturnPath(nextPath))
	}
	return r.ReturnPath(nextPath)
}

// keepTokens stores the tokens of a step in the browser.
func (s *signInPages) keepTokens(r *pages.Request, result signin.Result) {
	if !result.Token.IsEmpty() {
		r.SetCookie(s.sessionCookie, result.Token, 0)
	}
	if !result.Device.IsEmpty() {
		r.SetCookie(s.deviceCookie, result.Device, signin.DeviceLasts)
	}
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

// signInPage takes the e-mail and the password, or a passkey.
func (s *signInPages) signInPage() pages.Page {
	return pages.Page{
		Path: signInPath, Title: "Sign in", Access: pages.Everyone,
		Query: []kernel.Parameter{pages.NextParameter},
		Load: func(r *pages.Request) (templ.Component, error) {
			isOpen := r.Session != nil && r.Session.IsOpen()
			if nextPath := nextOf(r); nextPath != "" && r.Form.Act == "" && isOpen {
				return pages.RedirectTo(r.ReturnPath(nextPath)), nil // Another tab signed in meanwhile.
			}
			return s.signInForm(r.Form, nextOf(r)), nil
		},
		Acts: []pages.Act{
			{
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
			},
			{
				Name: passkeyAct, Fields: []pages.Field{nextField, zoneField, pages.PasskeyField},
				Run: func(r *pages.Request) (string, error) {
					result, err := s.service.FinishPasskey(r.Context(), s.client(r), r.TakeProof().Assertion)
					if err != nil {
						return "", err
					}
					return s.keepResult(r, result, nextOf(r)), nil
				},
			},
			s.optionsAct(passkeyAct, func(r *pages.Request) (signin.PasskeyOptions, error) {
				return s.service.StartPasskey(r.Context(), s.client(r))
			}),
		},
	}
}

// factorPage takes the second factor.
func (s *signInPages) factorPage() pages.Page {
	return pages.Page{
		Path: factorPath, Title: "Second factor", Access: pages.Everyone,
		Query: []kernel.Parameter{pages.NextParameter},
		Load: func(r *pages.Request) (templ.Component, error) {
			if r.Session == nil || s.continuePath(*r.Session) != s.path(factorPath) {
				return pages.RedirectTo(r.ReturnPath(nextOf(r))), nil
			}
			if s.isForApprovals && !r.Session.HasTOTP {
				return s.codeMissing(r.Session.Account.Email), nil
			}
			return s.factorForm(r.Form, nextOf(r), r.Session.Account.Email), nil
		},
		Acts: []pages.Act{
			{
				Name:   "confirm",
				Fields: []pages.Field{pages.CodeField, pages.PasskeyField, nextField, zoneField},
				Run: func(r *pages.Request) (string, error) {
					if r.Session == nil {
						return withNext(s.path(signInPath), r.ReturnPath(nextOf(r))), nil
					}
					proof, err := takeProof(r)
					if err != nil {
						return "", err
					}
					result, err := s.service.ConfirmFactor(r.Context(), s.client(r), *r.Session, proof)
					if err != nil {
						return "", atField(err, ui.CodeName)
					}
					return s.keepResult(r, result, nextOf(r)), nil
				},
			},
			s.optionsAct("confirm", s.stepUpOptions),
			{
				Name: "recover",
				Fields: []pages.Field{
					{
						Name: "recoveryCode", BytesMax: codeBytesMax, Secret: true,
						Missing: "Enter one of your recovery codes.",
					},
					nextField, zoneField,
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
		Path: devicePath, Title: "Confirm this browser", Access: pages.Everyone,
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
					s.keepTokens(r, result)
					return s.path(signInPath), nil
				},
			},
		},
	}
}

// organizationPage chooses the organization of a session.
func (s *signInPages) organizationPage() pages.Page {
	return pages.Page{
		Path: organizationPath, Title: "Choose an organization", Access: pages.Everyone,
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

// invitationPage shows an invitation and accepts it. Looking at it changes nothing, and accepting it needs
// a form alone: scanners of mail open links.
func (s *signInPages) invitationPage() pages.Page {
	token := func(r *pages.Request) seal.Secret {
		if text := r.Values["token"]; text != "" {
			return seal.NewSecret(text)
		}
		return seal.NewSecret(r.Query["token"])
	}
	tokenField := pages.Field{Name: "token", BytesMax: tokenBytesMax, Missing: "Open the link of the mail again."}
	return pages.Page{
		Path: invitationPath, Title: "Invitation", Access: pages.Everyone,
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
					zoneField,
				},
				Run: func(r *pages.Request) (string, error) {
					zone := r.Values[zoneField.Name]
					if account.CheckTimeZone(zone) != nil {
						zone = "" // The user did not type it and cannot correct it.
					}
					result, err := s.service.AcceptInvitation(
						r.Context(), s.client(r), token(r), r.Values["name"], zone,
						seal.NewSecret(r.Values["password"]),
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
					if s.side == account.OperatorSide {
						return r.ReturnPath(""), nil
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

// inviterOf names what an invitation leads into.
func (s *signInPages) inviterOf(found invitation.Invitation) string {
	if found.Side == account.OperatorSide {
		return "the operators of " + s.product
	}
	return found.OrgName
}
