package signinpages

import (
	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
)

// signOutAct is the name of the act that ends the session.
const signOutAct = "sign-out"

// securityPage shows a person's own factors and sessions, and ends sessions.
func (s *signInPages) securityPage() pages.Page {
	return pages.Page{
		Path: securityPath, Title: "My security", Access: pages.SignedIn,
		Group: accountGroup, Icon: "shield", Shortcut: "s",
		Load: s.loadSecurity,
		Acts: []pages.Act{
			{
				Name: signOutAct,
				Run: func(r *pages.Request) (string, error) {
					if err := s.service.SignOut(r.Context(), *r.Session); err != nil {
						return "", err
					}
					r.ClearCookie(s.sessionCookie)
					r.ClearBrowser()
					return s.path(signInPath), nil
				},
			},
			{
				Name:   "end-session",
				Fields: []pages.Field{{Name: "session", BytesMax: tokenBytesMax, Missing: "Choose a session."}},
				Run: func(r *pages.Request) (string, error) {
					return s.path(securityPath), s.service.EndSession(r.Context(), *r.Session, r.Values["session"])
				},
			},
			{
				Name: "end-others",
				Run: func(r *pages.Request) (string, error) {
					_, err := s.service.EndOtherSessions(r.Context(), *r.Session)
					return s.path(securityPath), err
				},
			},
		},
	}
}

// securityView is what the page shows.
type securityView struct {
	Email, CodesText string
	HasTOTP          bool
	TOTPSince        ui.Moment
	Sessions         []sessionRow
	HasOthers        bool
	Form             ui.Form
}

// sessionRow is one of the person's sessions.
type sessionRow struct {
	ID, Device, Address string
	Started, LastUsed   ui.Moment
	IsThis              bool
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
	}
	for _, live := range found {
		row := sessionRow{
			ID: live.ID, Device: describeDevice(live.Device), Started: r.Moment(live.CreatedAt),
			LastUsed: r.Moment(live.LastSeenAt),
			IsThis:   live.ID == r.Session.ID,
		}
		if live.Addr.IsValid() {
			row.Address = live.Addr.String()
		}
		view.HasOthers = view.HasOthers || !row.IsThis
		view.Sessions = append(view.Sessions, row)
	}
	return s.securityOverview(view), nil
}
