package dashboard

import (
	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
)

const securityPath = Prefix + "/security"

// securityPage shows a person's own factors and sessions, and ends sessions.
func (d *dashboard) securityPage() pages.Page {
	return pages.Page{
		Path: "/security", Title: "My security", Access: pages.SignedIn,
		Group: "Account", Icon: "shield", Shortcut: "s",
		Load: d.loadSecurity,
		Acts: []pages.Act{
			{
				Name: "sign-out",
				Run: func(r *pages.Request) (string, error) {
					if err := d.conf.SignIn.SignOut(r.Context(), *r.Session); err != nil {
						return "", err
					}
					r.ClearCookie(pages.SessionCookie)
					r.ClearBrowser()
					return signInPath, nil
				},
			},
			{
				Name:   "end-session",
				Fields: []pages.Field{{Name: "session", BytesMax: tokenBytesMax, Missing: "Choose a session."}},
				Run: func(r *pages.Request) (string, error) {
					return securityPath, d.conf.SignIn.EndSession(r.Context(), *r.Session, r.Values["session"])
				},
			},
			{
				Name: "end-others",
				Run: func(r *pages.Request) (string, error) {
					_, err := d.conf.SignIn.EndOtherSessions(r.Context(), *r.Session)
					return securityPath, err
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

func (d *dashboard) loadSecurity(r *pages.Request) (templ.Component, error) {
	factors, err := d.conf.SignIn.ListFactors(r.Context(), *r.Session)
	if err != nil {
		return nil, err
	}
	found, err := d.conf.SignIn.ListSessions(r.Context(), *r.Session)
	if err != nil {
		return nil, err
	}
	view := securityView{
		Email: r.Session.Member.Email, CodesText: ui.FormatCount(factors.RecoveryCodesLeft, "unused code"),
		HasTOTP: factors.HasTOTP, TOTPSince: r.Moment(factors.TOTPSince), Form: r.Form,
	}
	for _, s := range found {
		row := sessionRow{
			ID: s.ID, Device: describeDevice(s.Device), Started: r.Moment(s.CreatedAt),
			LastUsed: r.Moment(s.LastSeenAt),
			IsThis:   s.ID == r.Session.ID,
		}
		if s.Addr.IsValid() {
			row.Address = s.Addr.String()
		}
		view.HasOthers = view.HasOthers || !row.IsThis
		view.Sessions = append(view.Sessions, row)
	}
	return securityOverview(view), nil
}
