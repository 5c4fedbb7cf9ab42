package signinpages

import (
	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// The names of the acts of My security.
const (
	signOutAct             = "sign-out"
	endSessionAct          = "end-session"
	endOthersAct           = "end-others"
	endAllAct              = "end-all"
	profileAct             = "profile"
	passwordAct            = "password"
	addPasskeyAct          = "add-passkey"
	removePasskeyAct       = "remove-passkey"
	removeAuthenticatorAct = "remove-authenticator"
)

// securityPage shows a person's own sign-in and changes it: factors, password, profile and sessions. Rule
// PAGE-32.
func (s *signInPages) securityPage() pages.Page {
	return pages.Page{
		Path: securityPath, Title: "My security", Access: pages.SignedIn,
		Group: accountGroup, Icon: "shield", Shortcut: "s",
		Load: s.loadSecurity,
		Acts: append(s.sessionActs(), s.ownActs()...),
	}
}

// sessionActs are the acts that end sessions.
func (s *signInPages) sessionActs() []pages.Act {
	return []pages.Act{
		{Name: signOutAct, Run: s.signOut},
		{
			Name:   endSessionAct,
			Fields: []pages.Field{{Name: "session", BytesMax: tokenBytesMax, Missing: "Choose a session."}},
			Run: func(r *pages.Request) (string, error) {
				return s.path(securityPath), s.service.EndSession(r.Context(), *r.Session, r.Values["session"])
			},
		},
		{
			Name: endOthersAct,
			Run: func(r *pages.Request) (string, error) {
				_, err := s.service.EndOtherSessions(r.Context(), *r.Session)
				return s.path(securityPath), err
			},
		},
		{
			Name: endAllAct,
			Run: func(r *pages.Request) (string, error) {
				if _, err := s.service.EndOtherSessions(r.Context(), *r.Session); err != nil {
					return "", err
				}
				return s.signOut(r)
			},
		},
	}
}

// signOut ends the session of the request.
func (s *signInPages) signOut(r *pages.Request) (string, error) {
	if err := s.service.SignOut(r.Context(), *r.Session); err != nil {
		return "", err
	}
	r.ClearCookie(s.sessionCookie)
	r.ClearBrowser()
	return s.path(signInPath), nil
}

// ownActs are the acts that change the person's own sign-in.
func (s *signInPages) ownActs() []pages.Act {
	return []pages.Act{
		{
			Name: profileAct,
			Fields: []pages.Field{
				{Name: "name", BytesMax: nameBytesMax, Missing: "Enter your name."},
				{Name: "timeZone", BytesMax: zoneBytesMax, Optional: true},
			},
			Run: func(r *pages.Request) (string, error) {
				return s.path(securityPath), s.service.ChangeProfile(
					r.Context(), *r.Session, r.Values["name"], r.Values["timeZone"],
				)
			},
		},
		{
			Name: passwordAct, StepUp: pages.OwnStepUp,
			Fields: []pages.Field{
				{
					Name: "currentPassword", BytesMax: passwordBytesMax, Secret: true,
					Missing: "Enter your present password.",
				},
				{Name: "newPassword", BytesMax: passwordBytesMax, Secret: true, Missing: "Choose a new password."},
			},
			Run: s.changePassword,
		},
		{
			Name: addPasskeyAct, StepUp: pages.OwnStepUp,
			Fields: []pages.Field{passkeyNameField, newPasskeyField},
			Run: func(r *pages.Request) (string, error) {
				return s.path(securityPath), s.addPasskey(r)
			},
		},
		s.optionsAct(addPasskeyAct, s.enrolmentOptions),
		{
			Name: removePasskeyAct, StepUp: pages.OwnStepUp,
			Fields: []pages.Field{{Name: "passkeyId", BytesMax: tokenBytesMax, Missing: "Choose a passkey."}},
			Run: func(r *pages.Request) (string, error) {
				result, err := s.service.RemovePasskey(r.Context(), s.client(r), *r.Session, r.Values["passkeyId"])
				if err != nil {
					return "", err
				}
				s.keepTokens(r, result)
				return s.path(securityPath), nil
			},
		},
		{
			Name: removeAuthenticatorAct, StepUp: pages.OwnStepUp,
			Run: func(r *pages.Request) (string, error) {
				result, err := s.service.RemoveTOTP(r.Context(), s.client(r), *r.Session)
				if err != nil {
					return "", err
				}
				s.keepTokens(r, result)
				return s.path(securityPath), nil
			},
		},
	}
}

// changePassword replaces the password.
func (s *signInPages) changePassword(r *pages.Request) (string, error) {
	result, err := s.service.ChangePassword(
		r.Context(), s.client(r), *r.Session, seal.NewSecret(r.Values["currentPassword"]),
		seal.NewSecret(r.Values["newPassword"]),
	)
	if signin.IsRefused(err) {
		return "", fault.New(fault.Unauthorized, fault.CodeUnauthorized, fault.NothingWritten,
			"This is not your present password.").WithParam("currentPassword")
	}
	if err != nil {
		return "", err
	}
	s.keepTokens(r, result)
	return s.path(securityPath), nil
}

// securityView is what the page shows.
type securityView struct {
	Email, CodesText string
	HasTOTP          bool
	TOTPSince        ui.Moment
	Passkeys         []passkeyRow
	CanRemoveTOTP    bool // it is not the last second factor
	CanRemovePasskey bool
	IsFresh          bool // a factor was shown in the last ten minutes
	Sessions         []sessionRow
	HasOthers        bool
	// Name and TimeZone are those of the profile. ShownName is the name that colleagues see.
	Name, TimeZone, ShownName string
	Form                      ui.Form
}

// passkeyRow is one of the person's passkeys.
type passkeyRow struct {
	ID, Name        string
	Added, LastUsed ui.Moment
	IsUsed          bool
}

// sessionRow is one of the person's sessions.
type sessionRow struct {
	ID, Device, Address, Factor string
	Started, LastUsed           ui.Moment
	IsThis                      bool
}

func (s *signInPages) loadSecurity(r *pages.Request) (templ.Component, error) {
	factors, err := s.service.ListFactors(r.Context(), *r.Session)
	if err != nil {
		return nil, err
	}
	found, err := s.service.ListSessions(r.Context(), *r.Session)
	if err != nil {
		return nil, err
	}
	view := securityView{
		Email: r.Session.Account.Email, CodesText: ui.FormatCount(factors.RecoveryCodesLeft, "unused code"),
		HasTOTP: factors.HasTOTP, TOTPSince: r.Moment(factors.TOTPSince), Form: r.Form,
		CanRemoveTOTP:    factors.HasTOTP && len(factors.Passkeys) > 0,
		CanRemovePasskey: factors.HasTOTP && len(factors.Passkeys) > 0 || len(factors.Passkeys) > 1,
		IsFresh:          r.Session.HasFreshFactor(r.Now),
		Name:             r.Session.Account.Name,
		TimeZone:         r.Session.Account.TimeZone,
		ShownName:        r.Session.Member.Name,
	}
	if s.side == account.OperatorSide {
		view.ShownName = r.Session.Operator.Name
	}
	for _, key := range factors.Passkeys {
		view.Passkeys = append(view.Passkeys, passkeyRow{
			ID: key.ID, Name: key.Name, Added: r.Moment(key.CreatedAt), LastUsed: r.Moment(key.LastUsedAt),
			IsUsed: !key.LastUsedAt.IsZero(),
		})
	}
	for _, live := range found {
		row := sessionRow{
			ID: live.ID, Device: DescribeDevice(live.Device), Factor: factorText(live),
			Started: r.Moment(live.CreatedAt), LastUsed: r.Moment(live.LastSeenAt),
			IsThis: live.ID == r.Session.ID,
		}
		if live.Addr.IsValid() {
			row.Address = live.Addr.String()
		}
		view.HasOthers = view.HasOthers || !row.IsThis
		view.Sessions = append(view.Sessions, row)
	}
	return s.securityOverview(view), nil
}

// factorText says with which factor a session was confirmed last.
func factorText(live session.Session) string {
	if live.Audience == session.ForApprovals {
		live.Audience = session.ForPages
		return factorText(live) + ", on the pages of approvals"
	}
	switch live.Factor {
	case account.TOTPFactor:
		return "with an authenticator app"
	case account.PasskeyFactor:
		return "with a passkey"
	case account.RecoveryCodeFactor:
		return "with a recovery code"
	}
	return "waits for a second factor"
}

// profileForm fills the form of the profile with what is stored, unless the user typed something.
func (v securityView) profileForm() ui.Form {
	if v.Form.Act == profileAct {
		return v.Form
	}
	return ui.Form{Act: profileAct, Typed: map[string]string{"name": v.Name, "timeZone": v.TimeZone}}
}
