package dashboard

import (
	"net/url"

	"github.com/a-h/templ"
	"rsc.io/qr"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// deviceCookie makes a browser a known device, which has a budget of failures of its own.
const deviceCookie = "__Host-coffer_device"

// The pages of mailed links. The token is appended.
const (
	InvitationPath = Prefix + "/invitation?token="
	DevicePath     = signInPath + "/device?token="
)

// The pages of a sign-in.
const (
	signInPath        = Prefix + "/sign-in"
	factorPath        = signInPath + "/factor"
	authenticatorPath = signInPath + "/authenticator"
	organizationPath  = signInPath + "/organization"
	codesPath         = Prefix + "/security/recovery-codes"
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
func continuePath(s session.Session) string {
	switch {
	case s.State == session.AwaitingFactor:
		return factorPath
	case s.State == session.MustEnrol:
		return authenticatorPath
	case s.OrgID == "":
		return organizationPath
	}
	return ""
}

// keepResult stores the tokens of a step in the browser and returns the page that comes next.
func keepResult(r *pages.Request, result signin.Result, nextPath string) string {
	if !result.Token.IsEmpty() {
		r.SetCookie(pages.SessionCookie, result.Token, 0)
	}
	if !result.Device.IsEmpty() {
		r.SetCookie(deviceCookie, result.Device, signin.DeviceLasts)
	}
	if path := continuePath(result.Session); path != "" {
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

// atField puts a refusal of a credential to the field that has it.
func atField(err error, field string) error {
	if f := fault.Find(err); f != nil && f.Code == fault.CodeUnauthorized {
		return f.WithParam(field)
	}
	return err
}

// signInPage takes the e-mail and the password.
func (d *dashboard) signInPage() pages.Page {
	return pages.Page{
		Path: "/sign-in", Title: "Sign in", Access: pages.Everyone,
		Query: []kernel.Parameter{pages.NextParameter},
		Load: func(r *pages.Request) (templ.Component, error) {
			return signInForm(r.Form, nextOf(r)), nil
		},
		Acts: []pages.Act{{
			Name: "password",
			Fields: []pages.Field{
				{Name: "email", BytesMax: emailBytesMax, Missing: "Enter your e-mail address."},
				{Name: "password", BytesMax: passwordBytesMax, Secret: true, Missing: "Enter your password."},
				nextField,
			},
			Run: func(r *pages.Request) (string, error) {
				result, err := d.conf.SignIn.StartWithPassword(
					r.Context(), client(r), r.Values["email"], seal.NewSecret(r.Values["password"]),
				)
				if signin.NeedsLink(err) {
					return signInPath + "/device?" + url.Values{"email": {r.Values["email"]}}.Encode(), nil
				}
				if err != nil {
					return "", err
				}
				return keepResult(r, result, nextOf(r)), nil
			},
		}},
	}
}

// factorPage takes the second factor.
func (d *dashboard) factorPage() pages.Page {
	return pages.Page{
		Path: "/sign-in/factor", Title: "Second factor", Access: pages.Everyone,
		Query: []kernel.Parameter{pages.NextParameter},
		Load: func(r *pages.Request) (templ.Component, error) {
			if r.Session == nil || r.Session.State != session.AwaitingFactor {
				return pages.RedirectTo(r.ReturnPath(nextOf(r))), nil
			}
			return factorForm(r.Form, nextOf(r), r.Session.Account.Email), nil
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
						return withNext(signInPath, r.ReturnPath(nextOf(r))), nil
					}
					result, err := d.conf.SignIn.ConfirmFactor(
						r.Context(), client(r), *r.Session, signin.Proof{Code: seal.NewSecret(r.Values[ui.CodeName])},
					)
					if err != nil {
						return "", atField(err, ui.CodeName)
					}
					return keepResult(r, result, nextOf(r)), nil
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
						return withNext(signInPath, r.ReturnPath(nextOf(r))), nil
					}
					result, err := d.conf.SignIn.UseRecoveryCode(
						r.Context(), client(r), *r.Session, seal.NewSecret(r.Values["recoveryCode"]),
					)
					if err != nil {
						return "", atField(err, "recoveryCode")
					}
					return keepResult(r, result, nextOf(r)), nil
				},
			},
		},
	}
}

// devicePage sends and takes the link that makes a browser a known device.
func (d *dashboard) devicePage() pages.Page {
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
			return deviceForm(r.Form, r.Query["email"], token, r.Query["sent"] == "true"), nil
		},
		Acts: []pages.Act{
			{
				Name:   "send",
				Fields: []pages.Field{{Name: "email", BytesMax: emailBytesMax, Missing: "Enter your e-mail address."}},
				Run: func(r *pages.Request) (string, error) {
					err := d.conf.SignIn.SendDeviceLink(r.Context(), client(r), r.Values["email"])
					return signInPath + "/device?sent=true", err
				},
			},
			{
				Name: "confirm",
				Fields: []pages.Field{
					{Name: "token", BytesMax: tokenBytesMax, Missing: "Open the link of the mail again."},
				},
				Run: func(r *pages.Request) (string, error) {
					link := seal.NewSecret(r.Values["token"])
					result, err := d.conf.SignIn.ConfirmDevice(r.Context(), client(r), link)
					if err != nil {
						return "", err
					}
					r.SetCookie(deviceCookie, result.Device, signin.DeviceLasts)
					return signInPath, nil
				},
			},
		},
	}
}

// authenticatorPage switches the codes of an authenticator app on.
func (d *dashboard) authenticatorPage() pages.Page {
	return pages.Page{
		Path: "/sign-in/authenticator", Title: "Set up your authenticator app", Access: pages.Everyone,
		Query: []kernel.Parameter{pages.NextParameter},
		Load: func(r *pages.Request) (templ.Component, error) {
			if r.Session == nil || r.Session.State == session.AwaitingFactor {
				return pages.RedirectTo(signInPath), nil
			}
			return authenticatorForm(r.Form, nextOf(r)), nil
		},
		Acts: []pages.Act{
			{
				Name: "start", Fields: []pages.Field{nextField},
				Run: func(r *pages.Request) (string, error) {
					if r.Session == nil {
						return signInPath, nil
					}
					enrolment, err := d.conf.SignIn.StartTOTP(r.Context(), *r.Session)
					if err != nil {
						return "", err
					}
					code, err := qr.Encode(enrolment.URL.Reveal(), qr.M)
					if err != nil {
						return "", err
					}
					r.ShowOnce(authenticatorSecret(
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
						return signInPath, nil
					}
					result, err := d.conf.SignIn.ConfirmTOTP(
						r.Context(), client(r), *r.Session, seal.NewSecret(r.Values[ui.CodeName]),
					)
					if err != nil {
						return "", atField(err, ui.CodeName)
					}
					keepResult(r, result, nextOf(r))
					return withNext(codesPath, r.ReturnPath(nextOf(r))), nil
				},
			},
		},
	}
}

// recoveryCodesPage makes recovery codes, which are shown once.
func (d *dashboard) recoveryCodesPage() pages.Page {
	return pages.Page{
		Path: "/security/recovery-codes", Title: "Recovery codes", Access: pages.SignedIn,
		Query: []kernel.Parameter{pages.NextParameter},
		Load: func(r *pages.Request) (templ.Component, error) {
			factors, err := d.conf.SignIn.ListFactors(r.Context(), *r.Session)
			if err != nil {
				return nil, err
			}
			return recoveryCodesForm(r.Form, r.ReturnPath(nextOf(r)), factors.RecoveryCodesLeft), nil
		},
		Acts: []pages.Act{{
			Name: "make", Fields: []pages.Field{nextField},
			Run: func(r *pages.Request) (string, error) {
				secrets, err := d.conf.SignIn.MakeRecoveryCodes(r.Context(), *r.Session)
				if err != nil {
					return "", err
				}
				codes := make([]string, 0, len(secrets))
				for _, secret := range secrets {
					codes = append(codes, secret.Reveal())
				}
				r.ShowOnce(recoveryCodes(codes, r.ReturnPath(nextOf(r))))
				return "", nil
			},
		}},
	}
}

// organizationPage chooses the organization of a session.
func (d *dashboard) organizationPage() pages.Page {
	return pages.Page{
		Path: "/sign-in/organization", Title: "Choose an organization", Access: pages.Everyone,
		Query: []kernel.Parameter{pages.NextParameter},
		Load: func(r *pages.Request) (templ.Component, error) {
			if r.Session == nil || !r.Session.IsOpen() {
				return pages.RedirectTo(signInPath), nil
			}
			found, err := d.conf.SignIn.ListOrganizations(r.Context(), *r.Session)
			if err != nil {
				return nil, err
			}
			return organizationForm(r.Form, found, nextOf(r)), nil
		},
		Acts: []pages.Act{{
			Name: "choose",
			Fields: []pages.Field{
				{Name: "organization", BytesMax: tokenBytesMax, Missing: "Choose an organization."}, nextField,
			},
			Run: func(r *pages.Request) (string, error) {
				if r.Session == nil {
					return signInPath, nil
				}
				result, err := d.conf.SignIn.ChooseOrganization(
					r.Context(), client(r), *r.Session, r.Values["organization"],
				)
				if err != nil {
					return "", err
				}
				return keepResult(r, result, nextOf(r)), nil
			},
		}},
	}
}

// invitationPage shows an invitation, and accepts it by a form alone: scanners of mail open links.
func (d *dashboard) invitationPage() pages.Page {
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
			found, err := d.conf.SignIn.LookAtInvitation(r.Context(), token(r))
			if err != nil {
				return nil, err
			}
			isOpen := r.Session != nil && r.Session.IsOpen()
			return invitationForm(r.Form, found, pages.RoleNames(found.Roles), token(r).Reveal(), isOpen), nil
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
					result, err := d.conf.SignIn.AcceptInvitation(
						r.Context(), client(r), token(r), r.Values["name"], "", seal.NewSecret(r.Values["password"]),
					)
					if err != nil {
						return "", err
					}
					return keepResult(r, result, ""), nil
				},
			},
			{
				Name: "join", Fields: []pages.Field{tokenField},
				Run: func(r *pages.Request) (string, error) {
					if r.Session == nil {
						return signInPath, nil
					}
					if err := d.conf.SignIn.JoinInvitation(r.Context(), *r.Session, token(r)); err != nil {
						return "", err
					}
					return organizationPath, nil
				},
			},
		},
	}
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
