package dashboard

import (
	"slices"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/http/signinpages"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/webhook"
)

// The names of the acts about people.
const (
	inviteAct           = "invite"
	resendInvitationAct = "resend"
	changeRolesAct      = "roles"
	endAccessAct        = "end-access"
	endPersonSessionAct = "end-session"
)

const (
	emailBytesMax      = 254
	personNameBytesMax = 400
)

// roleFields are a box for each role.
func roleFields(first ...pages.Field) []pages.Field {
	for _, role := range identity.Roles {
		first = append(first, pages.Field{Name: string(role), BytesMax: wordBytesMax, Optional: true, Checkbox: true})
	}
	return first
}

// teamPage lists the people of the organization and invites further ones.
func (d *dashboard) teamPage() pages.Page {
	return pages.Page{
		Path: "/team", Title: "Team", Action: identity.ReadOrganization,
		Group: "Organization", Icon: "team", Shortcut: "t", Load: d.loadTeam, WriteCSV: d.writeTeam,
		Acts: []pages.Act{{
			Name: inviteAct, Action: identity.InviteMember, StepUp: pages.SudoStepUp,
			Fields: roleFields(
				pages.Field{Name: "email", BytesMax: emailBytesMax, Missing: "Give the e-mail of the person."},
				pages.Field{Name: "name", BytesMax: personNameBytesMax, Missing: "Give the name of the person."},
			),
			FindDone: d.findInvited, Run: d.inviteMember,
		}},
	}
}

// personPage shows one person with what can be done about the person's access.
func (d *dashboard) personPage() pages.Page {
	return pages.Page{
		Path: "/team/{memberId}", Title: "Person", Action: identity.ReadOrganization, Load: d.loadPerson,
		Acts: []pages.Act{
			{
				Name: changeRolesAct, Action: identity.ChangeMemberRoles, StepUp: pages.SudoStepUp,
				Fields: roleFields(seenField), FindDone: d.findRoles, Run: d.changeRoles,
			},
			{
				Name: resendInvitationAct, Action: identity.InviteMember, StepUp: pages.SudoStepUp,
				Fields: []pages.Field{seenField}, FindDone: d.findResent, Run: d.resendInvitation,
			},
			{
				Name: inviteAct, Action: identity.InviteMember, StepUp: pages.SudoStepUp,
				Fields: roleFields(), FindDone: d.findRestored, Run: d.restoreMember,
			},
			{
				Name: endAccessAct, Action: identity.EndMemberAccess, StepUp: pages.SudoStepUp,
				FindDone: d.findEndedAccess, Run: d.endAccess,
			},
			{
				Name: endPersonSessionAct, Action: identity.EndMemberAccess, StepUp: pages.SudoStepUp,
				Fields: []pages.Field{{Name: "session", BytesMax: wordBytesMax, Missing: "Choose a session."}},
				Run:    d.endPersonSession,
			},
		},
	}
}

// personRow is a person in the list.
type personRow struct {
	Path, Name, Email, Roles string
	Chip                     ui.Chip
	IsSelf                   bool
	HasSeen                  bool
	LastSeen                 ui.Moment
}

// roleBox is the box of a role.
type roleBox struct {
	Name, Label string
	IsTicked    bool
}

// roleTexts say what each role is for.
var roleTexts = map[identity.Role]string{
	identity.Owner:     "Owner: everything, the team included",
	identity.Admin:     "Admin: everything except owners and admins",
	identity.Approver:  "Approver: approves and removes, decides about flagged deposits",
	identity.Finance:   "Finance: own withdrawals and transfers",
	identity.Developer: "Developer: webhooks and events",
	identity.Viewer:    "Viewer: looks, and changes nothing",
}

// teamView is what the list shows.
type teamView struct {
	Rows          []personRow
	Path, CSVPath string
	CanInvite     bool
	Roles         []roleBox
	Form          ui.Form
}

func (d *dashboard) loadTeam(r *pages.Request) (templ.Component, error) {
	team, err := d.conf.SignIn.ListTeam(r.Context(), *r.Session)
	if err != nil {
		return nil, err
	}
	view := teamView{
		Path: r.Path("team"), CSVPath: r.CSVPath(), CanInvite: r.IsAllowed(identity.InviteMember), Form: r.Form,
		Roles: roleBoxes(r, nil),
	}
	for _, ended := range []bool{false, true} { // Those with access come first.
		for _, p := range team {
			if !p.Member.EndedAt.IsZero() == ended {
				view.Rows = append(view.Rows, newPersonRow(r, p))
			}
		}
	}
	return teamList(view), nil
}

func newPersonRow(r *pages.Request, p signin.TeamMember) personRow {
	row := personRow{
		Path: r.Path("team", p.Member.ID), Name: p.Member.Name, Email: p.Member.Email,
		Roles: pages.RoleNames(p.Member.Roles), Chip: accessChip(p), IsSelf: p.Member.ID == r.Session.Member.ID,
	}
	if !p.LastSeenAt.IsZero() {
		row.HasSeen, row.LastSeen = true, r.Moment(p.LastSeenAt)
	}
	return row
}

// roleBoxes are the boxes of the roles that the person of the session may give to a person with some roles.
// Rule ROLE-3.
func roleBoxes(r *pages.Request, before []identity.Role) (boxes []roleBox) {
	for _, role := range identity.Roles {
		if identity.CanManageMember(r.Session.Member.Roles, before, []identity.Role{role}) {
			boxes = append(boxes, roleBox{string(role), roleTexts[role], slices.Contains(before, role)})
		}
	}
	return boxes
}

// readRoles returns the roles that are ticked.
func readRoles(r *pages.Request) (roles []identity.Role) {
	for _, role := range identity.Roles {
		if r.Values[string(role)] != "" {
			roles = append(roles, role)
		}
	}
	return roles
}

// accessChip writes the access of a person for people.
func accessChip(p signin.TeamMember) ui.Chip {
	switch {
	case !p.Member.EndedAt.IsZero():
		return ui.Chip{Kind: ui.Quiet, Word: "Access ended"}
	case p.Member.AccountID == "" && !p.InvitedUntil.IsZero():
		return ui.Chip{Kind: ui.Wait, Word: "Invited"}
	case p.Member.AccountID == "":
		return ui.Chip{Kind: ui.Bad, Word: "Invitation is over"}
	case !p.Factors.IsEnough():
		return ui.Chip{Kind: ui.Wait, Word: "Has no second factor yet"}
	}
	return ui.Chip{Kind: ui.Good, Word: "Has access"}
}

var teamColumns = []kernel.Column[signin.TeamMember]{
	{Name: "memberId", Cell: func(p signin.TeamMember) string { return p.Member.ID }},
	{Name: "email", Cell: func(p signin.TeamMember) string { return p.Member.Email }},
	{Name: "name", Cell: func(p signin.TeamMember) string { return p.Member.Name }},
	{Name: "roles", Cell: func(p signin.TeamMember) string { return joinRoles(p.Member.Roles) }},
	{Name: "createdAt", Cell: func(p signin.TeamMember) string { return webhook.At(p.Member.CreatedAt).String() }},
	{Name: "endedAt", Cell: func(p signin.TeamMember) string {
		if p.Member.EndedAt.IsZero() {
			return ""
		}
		return webhook.At(p.Member.EndedAt).String()
	}},
}

// joinRoles writes roles as one text, for a table and a hidden field.
func joinRoles(roles []identity.Role) string {
	names := make([]string, 0, len(roles))
	for _, role := range roles {
		names = append(names, string(role))
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func splitRoles(text string) (roles []identity.Role) {
	for _, name := range strings.Fields(text) {
		roles = append(roles, identity.Role(name))
	}
	return roles
}

func (d *dashboard) writeTeam(r *pages.Request, w *kernel.StreamWriter) error {
	team, err := d.conf.SignIn.ListTeam(r.Context(), *r.Session)
	if err != nil {
		return err
	}
	return kernel.WriteTable(r.Context(), w, true, teamColumns, rowsOf(team))
}

// findPerson returns a person of the organization. Error: NOT_FOUND.
func (d *dashboard) findPerson(r *pages.Request) (signin.TeamMember, error) {
	team, err := d.conf.SignIn.ListTeam(r.Context(), *r.Session)
	if err != nil {
		return signin.TeamMember{}, err
	}
	for _, p := range team {
		if p.Member.ID == r.PathParam("memberId") {
			return p, nil
		}
	}
	return signin.TeamMember{}, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"Your organization has no such person.")
}

// findInvited returns the page of the person with the e-mail of the form who has access already.
func (d *dashboard) findInvited(r *pages.Request) (string, error) {
	email, err := account.FoldEmail(r.Values["email"])
	if err != nil {
		return "", nil // The act says what is wrong with it.
	}
	team, err := d.conf.SignIn.ListTeam(r.Context(), *r.Session)
	if err != nil {
		return "", err
	}
	for _, p := range team {
		if p.Member.Email == email && p.Member.EndedAt.IsZero() {
			return r.Path("team", p.Member.ID), nil
		}
	}
	return "", nil
}

func (d *dashboard) inviteMember(r *pages.Request) (string, error) {
	added, err := d.conf.SignIn.InviteMember(
		r.Context(), *r.Session, r.Values["email"], r.Values["name"], readRoles(r),
	)
	if err != nil {
		return "", inTeamWords(err)
	}
	return r.Path("team", added.ID), nil
}

// inTeamWords says in the words of the pages why an act about a person was refused. The roles are several
// fields, so what is wrong with them stands above the form.
func inTeamWords(err error) error {
	f := fault.Find(err)
	switch {
	case f == nil:
		return err
	case f.Param == "roles":
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, "Tick at least one role.")
	case f.Kind == fault.Forbidden && !signin.NeedsSudo(err) && !signin.IsRestricted(err):
		return fault.New(fault.Forbidden, fault.ScopeMissing, fault.NothingWritten, "%s", f.Reason)
	}
	return err
}

// sessionRow is a session of a person.
type sessionRow struct {
	ID, Device, Address string
	LastUsed            ui.Moment
	IsThis              bool
}

// personView is what the page of a person shows.
type personView struct {
	ListPath, Path, Name      string
	Chip                      ui.Chip
	Facts                     []ui.Fact
	Sessions                  []sessionRow
	IsSelf                    bool
	CanManage                 bool
	IsInvited, HasEnded       bool
	SeenInvitation, SeenRoles string
	Roles                     []roleBox
	Form                      ui.Form
}

func (d *dashboard) loadPerson(r *pages.Request) (templ.Component, error) {
	p, err := d.findPerson(r)
	if err != nil {
		return nil, err
	}
	m := p.Member
	view := personView{
		ListPath: r.Path("team"), Path: r.Path("team", m.ID), Name: m.Name, Chip: accessChip(p), Form: r.Form,
		IsSelf: m.ID == r.Session.Member.ID, HasEnded: !m.EndedAt.IsZero(),
		IsInvited:      m.AccountID == "" && m.EndedAt.IsZero(),
		CanManage:      r.Session.Member.MayGrant(m.Roles...) && m.ID != r.Session.Member.ID,
		SeenInvitation: seenInvitation(p), SeenRoles: joinRoles(m.Roles), Roles: roleBoxes(r, m.Roles),
		Facts: aboutPerson(r, p),
	}
	for _, s := range p.Sessions {
		row := sessionRow{
			ID: s.ID, Device: signinpages.DescribeDevice(s.Device), LastUsed: r.Moment(s.LastSeenAt),
			IsThis: s.ID == r.Session.ID,
		}
		if s.Addr.IsValid() {
			row.Address = s.Addr.String()
		}
		view.Sessions = append(view.Sessions, row)
	}
	return personDetail(view), nil
}

// seenInvitation identifies the open invitation of a person.
func seenInvitation(p signin.TeamMember) string {
	if p.InvitedUntil.IsZero() {
		return ""
	}
	return writeSeen(&p.InvitedUntil)
}

func aboutPerson(r *pages.Request, p signin.TeamMember) []ui.Fact {
	m := p.Member
	facts := []ui.Fact{
		{Name: "E-mail", Value: ui.Foreign(m.Email)},
		{Name: "Roles", Value: ui.Text(pages.RoleNames(m.Roles))},
		{Name: "Added", Value: ui.When(r.Moment(m.CreatedAt))},
	}
	switch {
	case !m.EndedAt.IsZero():
		return append(facts, ui.Fact{Name: "Access ended", Value: ui.When(r.Moment(m.EndedAt))})
	case m.AccountID == "" && !p.InvitedUntil.IsZero():
		return append(facts, ui.Fact{Name: "Invitation until", Value: ui.When(r.Moment(p.InvitedUntil))})
	case m.AccountID == "":
		return facts
	}
	lastSeen := ui.Text("not signed in now")
	if !p.LastSeenAt.IsZero() {
		lastSeen = ui.When(r.Moment(p.LastSeenAt))
	}
	return append(facts,
		ui.Fact{Name: "Last seen", Value: lastSeen},
		ui.Fact{Name: "Authenticator app", Value: ui.Text(onOff(p.Factors.HasTOTP))},
		ui.Fact{Name: "Passkeys", Value: ui.Text(ui.FormatCount(len(p.Factors.Passkeys), "passkey"))},
	)
}

func onOff(isOn bool) string {
	if isOn {
		return "on"
	}
	return "off"
}

// requireOther refuses an act about the own access: another person manages it. Rule ROLE-3.
func requireOther(r *pages.Request) error {
	if r.PathParam("memberId") == r.Session.Member.ID {
		return fault.New(fault.Forbidden, fault.ScopeMissing, fault.NothingWritten,
			"This is your own access, which another person of your organization manages.")
	}
	return nil
}

// findRoles returns the page of a person who has the wanted roles already.
func (d *dashboard) findRoles(r *pages.Request) (string, error) {
	p, err := d.findPerson(r)
	if err != nil || joinRoles(p.Member.Roles) != joinRoles(readRoles(r)) {
		return "", err
	}
	return r.Path("team", p.Member.ID), nil
}

func (d *dashboard) changeRoles(r *pages.Request) (string, error) {
	if err := requireOther(r); err != nil {
		return "", err
	}
	changed, err := d.conf.SignIn.ChangeRolesAsSeen(
		r.Context(), *r.Session, r.PathParam("memberId"), splitRoles(r.Values[seenName]), readRoles(r),
	)
	if err != nil {
		return "", inTeamWords(err)
	}
	return r.Path("team", changed.ID), nil
}

// findResent returns the page of a person who got another invitation after the page was loaded.
func (d *dashboard) findResent(r *pages.Request) (string, error) {
	p, err := d.findPerson(r)
	if err != nil || !p.Member.EndedAt.IsZero() || seenInvitation(p) == r.Values[seenName] {
		return "", err
	}
	return r.Path("team", p.Member.ID), nil
}

func (d *dashboard) resendInvitation(r *pages.Request) (string, error) {
	memberID := r.PathParam("memberId")
	if err := d.conf.SignIn.ResendInvitation(r.Context(), *r.Session, memberID); err != nil {
		return "", inTeamWords(err)
	}
	return r.Path("team", memberID), nil
}

// findRestored returns the page of a person whose access has not ended.
func (d *dashboard) findRestored(r *pages.Request) (string, error) {
	p, err := d.findPerson(r)
	if err != nil || !p.Member.EndedAt.IsZero() {
		return "", err
	}
	return r.Path("team", p.Member.ID), nil
}

// restoreMember invites a person whose access ended again.
func (d *dashboard) restoreMember(r *pages.Request) (string, error) {
	p, err := d.findPerson(r)
	if err != nil {
		return "", err
	}
	restored, err := d.conf.SignIn.InviteMember(
		r.Context(), *r.Session, p.Member.Email, p.Member.Name, readRoles(r),
	)
	if err != nil {
		return "", inTeamWords(err)
	}
	return r.Path("team", restored.ID), nil
}

// findEndedAccess returns the page of a person whose access has ended.
func (d *dashboard) findEndedAccess(r *pages.Request) (string, error) {
	p, err := d.findPerson(r)
	if err != nil || p.Member.EndedAt.IsZero() {
		return "", err
	}
	return r.Path("team", p.Member.ID), nil
}

func (d *dashboard) endAccess(r *pages.Request) (string, error) {
	if err := requireOther(r); err != nil {
		return "", err
	}
	memberID := r.PathParam("memberId")
	if err := d.conf.SignIn.EndAccess(r.Context(), *r.Session, memberID); err != nil {
		return "", inTeamWords(err)
	}
	return r.Path("team", memberID), nil
}

func (d *dashboard) endPersonSession(r *pages.Request) (string, error) {
	if err := d.conf.SignIn.EndSessionOf(r.Context(), *r.Session, r.Values["session"]); err != nil {
		return "", inTeamWords(err)
	}
	return r.Path("team", r.PathParam("memberId")), nil
}
