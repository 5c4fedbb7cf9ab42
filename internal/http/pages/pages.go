// Package pages is the kit of the pages that people use in a browser: the table of pages, the checks of
// a request, forms, sessions in cookies, headers, assets, sentences about refusals, and CSV. Package
// kernel is the same for programs.
//
// A surface of pages is a Surface: a table of Page values and the way in which it finds the session of
// a request. Menu, rights, titles, headers and CSV of a page follow from its line in the table.
//
// The package rules out:
//   - a change by GET, or by a form of another origin
//   - a field of a form that is ignored, and a value that a refused form loses
//   - an act about money without its second factor
//   - a form about money that counts twice
//   - a person or a script that takes the service from others by asking without end
//   - markup, script or style from a value
//   - an error of ours whose text a user sees
//
// A crash leaves nothing behind; every effect belongs to a transaction of a feature.
package pages

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/go-chi/chi/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// requestTimeout is how long a request may take. A user who leaves does not stop it.
const requestTimeout = 60 * time.Second

// turnMax is how long a request waits while other requests of its organization use the organization's
// share of the database's connections.
const turnMax = 10 * time.Second

// Access says who may open a page.
type Access int

// Who may open a page.
const (
	Members  Access = iota // a person whose roles allow the action of the page
	SignedIn               // every person with an open session
	Everyone               // also a visitor without a session, or one whose sign-in is not complete
)

// Page is one line of the table of pages. From it follows what every page keeps: rules PAGE-60 and PAGE-63.
type Page struct {
	Path   string // below the prefix of the surface, such as /approvals/{withdrawalId}
	Title  string
	Access Access
	Action identity.Action // that opens the page; only for Members
	// OwnActs lets in the roles that may take the action for a person's own acts, of which the page then
	// shows no others.
	OwnActs bool

	// Group, Icon and Shortcut put the page into the menu. Without a group it is not there.
	Group, Icon, Shortcut string
	// MenuPath is the path of the page whose entry of the menu is the current one here, too, where the path of this
	// page does not begin with it.
	MenuPath string

	// Live names the kinds of resources in the audit log whose changes the page shows by itself. A page of
	// one resource follows that one alone.
	Live []string
	// LiveOfAll has a page of one resource follow every resource of the kinds.
	LiveOfAll bool

	Query []kernel.Parameter
	Load  func(*Request) (templ.Component, error)
	// WriteCSV writes the rows of the page as a table; nil: the page has no table.
	WriteCSV func(*Request, *kernel.StreamWriter) error
	// LoadImage returns an image that the page shows, and its media type; nil: the page has none. It is served below
	// the path of the page, to the people who may open the page.
	LoadImage func(*Request) (mediaType string, content []byte, err error)
	// Files are documents that the page offers, to the people who may open the page.
	Files []File
	Acts  []Act

	tableAction identity.Action // of the surface
}

// File is a document that a page offers. It is served at the path of the page with its suffix.
type File struct {
	Suffix, ContentType string
	// Policy has the browser show the document by this policy, in place of that of the pages; "" has it save the
	// document.
	Policy string
	// Load returns the name of the document without its suffix, and what writes it.
	Load func(*Request) (name string, write func(io.Writer) error, err error)
}

// StepUp says which proof of the person's presence an act needs.
type StepUp int

// Kinds of step-up.
const (
	NoStepUp   StepUp = iota
	ActStepUp         // a second factor with the act itself, which counts for this act alone
	SudoStepUp        // a second factor within the last ten minutes
	OwnStepUp         // like SudoStepUp, for the person's own sign-in: also after a recovery code
)

// Act is a form of a page. It is sent to the path of the page and its name.
type Act struct {
	Name   string
	Action identity.Action // in addition to that of the page; "" for none
	StepUp StepUp
	Fields []Field
	// Keyed says that the form carries an idempotency key, which Request.FormKey makes when the form is
	// shown. Run gives Request.Key to the feature, so the form counts once however often it is sent.
	Keyed bool
	// FindDone returns the path of the page that shows what was decided, and "" while nothing is. It is
	// asked before the second factor and after a refusal. It may be nil. For a key that was used with
	// other values it returns Request.NewKeyConflict.
	FindDone func(*Request) (path string, err error)
	// Run carries out the act and returns the path of the page that shows the result. An act whose result
	// is shown once calls Request.ShowOnce in place of that.
	Run func(*Request) (path string, err error)
	// BodyBytesMax bounds the body of a form with a file; 0 is the bound of every other form.
	BodyBytesMax int64
	// Data says that the script of the kit sends the form. Run calls Request.AnswerData, and a refusal is
	// JSON as well.
	Data bool
}

// Field is a field of a form.
type Field struct {
	Name     string
	BytesMax int
	Optional bool // it may be empty
	Secret   bool // it never comes back to the browser
	Checkbox bool // a browser leaves it out while it is not ticked
	Scripted bool // a script fills it in, so a form without it is complete; it is Optional
	// HasBoxes says that it is a box at each row of a list: a browser sends the value of each ticked one.
	// Request.ListTicked returns them. BytesMax holds for all together.
	HasBoxes bool
	// IsFile says that a browser sends the bytes of a file, so the form is multipart/form-data. They may be in any
	// character set, and they never come back to the browser.
	IsFile bool
	// IsVerbatim says that spaces and line ends around the value belong to it.
	IsVerbatim bool
	Missing    string
}

// Surface is a set of pages under one prefix.
type Surface struct {
	Name   string // that users see
	Prefix string // of all paths, such as /dashboard
	Groups []string
	Pages  []Page
	// TableAction is needed for the table of a page in addition to the page's Action; "" for none.
	TableAction identity.Action
	// Paths of pages that the kit links.
	SignInPath, SecurityPath, SignOutPath, StepUpPath string
	// SessionCookie holds the token of a session; "" means that of members.
	SessionCookie string
	// ElsewhereURL begins the addresses of pages that this surface lacks and another one has: links to them lead there.
	// "" for none.
	ElsewhereURL string

	// ReadsReplica says that the pages of members may be read from the replica. Sign-in never is.
	ReadsReplica bool

	// FindNotices returns what every page says to the person; nil: nothing.
	FindNotices func(r *Request) []ui.StandingNotice
	// ContinuePath returns the page on which a sign-in continues that is not complete, and "" for a session
	// that is.
	ContinuePath func(session.Session) string
	// FindSession finds the session of a token. Error: the fault UNAUTHORIZED for a session that is unknown
	// or has ended.
	FindSession func(ctx context.Context, token seal.Secret) (session.Session, error)
	// LookAtSession is FindSession without a sign of a person: it moves no limit of the session.
	LookAtSession func(ctx context.Context, token seal.Secret) (session.Session, error)
	// ConfirmAct checks the second factor of an act and uses it up. Error: the fault UNAUTHORIZED for a
	// factor that does not count.
	ConfirmAct func(r *Request, act Act, proof signin.Proof) error
	// StepUp checks a second factor that counts for ten minutes, gives the browser the new token, and
	// returns the session. Error: as of ConfirmAct.
	StepUp func(r *Request, proof signin.Proof) (session.Session, error)
	// PasskeyOptions makes the options with which a passkey confirms an act.
	PasskeyOptions func(r *Request, act Act) (signin.PasskeyOptions, error)
}

// Config is what the handler of a surface depends on. Every field is required unless its comment says
// otherwise.
type Config struct {
	DB *pg.DB
	// Origin is the scheme, host and port at which browsers reach the pages.
	Origin *url.URL
	// CursorKey signs the cursors of lists.
	CursorKey []byte
	Proxies   kernel.Proxies // may be empty: then the peer of the connection is the client
	// Limits are the rates of a person: Reads of pages, Writes of forms, Exports of tables. The zero value
	// sets none.
	Limits kernel.Limits
	// CountReport counts a report of the policy; it may be nil.
	CountReport func()
	// Changes tells open pages what changed. It may be nil: then no page changes by itself.
	Changes *audit.Follower
	// Observe is called when a request begins; see kernel.Config. It may be nil.
	Observe func(ctx context.Context) (context.Context, func(method, route string, status int))
	Log     *slog.Logger // nil means the default
}

type server struct {
	surface Surface
	conf    Config
	log     *slog.Logger
	assets  assets
	queues  sessionQueues
	streams streams
	tables  kernel.ExportSlots
	rates   personRates
	origins *http.CrossOriginProtection
	routes  chi.Routes
}

// New builds the handler of a surface.
func New(surface Surface, conf Config) http.Handler {
	surface.SessionCookie = cmp.Or(surface.SessionCookie, SessionCookie)
	s := &server{
		surface: surface, conf: conf, log: conf.Log, assets: newAssets(surface.Prefix + assetsPath),
		origins: http.NewCrossOriginProtection(), rates: newPersonRates(conf.Limits, conf.DB.Clock()),
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if err := s.origins.AddTrustedOrigin(conf.Origin.Scheme + "://" + conf.Origin.Host); err != nil {
		panic("pages: the origin is checked at the start: " + err.Error())
	}
	mux := chi.NewRouter()
	s.routes = mux
	for _, p := range surface.Pages {
		s.checkPage(p)
		p.tableAction = surface.TableAction
		mux.Get(s.routePath(p), s.handlePage(p))
		mux.Head(s.routePath(p), s.handlePage(p))
		if p.WriteCSV != nil {
			mux.Get(s.routePath(p)+csvSuffix, s.handleCSV(p))
		}
		if p.LoadImage != nil {
			mux.Get(s.routePath(p)+ImageSuffix, s.handleImage(p))
		}
		for _, file := range p.Files {
			mux.Get(s.routePath(p)+file.Suffix, s.handleFile(p, file))
		}
		for _, act := range p.Acts {
			mux.Post(s.actPath(p, act), s.handleAct(p, act))
			if act.StepUp != NoStepUp {
				mux.Post(s.actPath(p, act)+optionsSuffix, s.handleOptions(p, act))
			}
		}
	}
	mux.Get(surface.Prefix+assetsPath+"{name}", s.assets.serve)
	mux.Post(surface.Prefix+reportsPath, s.serveReport)
	unrouted := s.handleUnrouted()
	mux.NotFound(unrouted)
	mux.MethodNotAllowed(unrouted)
	return s.middleware(mux)
}

// checkPage ends the program if a line of the table is wrong, which is a bug.
func (s *server) checkPage(p Page) {
	if p.Access == Members && !hasRoles(p.Action) {
		panic("pages: no role opens the page " + p.Path)
	}
	for _, act := range p.Acts {
		if act.Action != "" && !hasRoles(act.Action) {
			panic("pages: no role may do " + act.Name + " on the page " + p.Path)
		}
		if act.StepUp != NoStepUp && p.Access == Everyone {
			panic("pages: an act without a session has no second factor: " + act.Name)
		}
		if act.Keyed && (p.Access == Everyone || act.FindDone == nil) {
			panic("pages: a form with a key belongs to a person and finds what its key made: " + act.Name)
		}
	}
}

// routePath returns the path of a page. The first page has that of the surface.
func (s *server) routePath(p Page) string {
	return rootOr(strings.TrimSuffix(s.surface.Prefix+p.Path, "/"))
}

// actPath returns the path to which the form of an act is sent.
func (s *server) actPath(p Page, act Act) string {
	return strings.TrimSuffix(s.routePath(p), "/") + "/" + act.Name
}

// hasPath reports whether the surface has a page or an act at a path.
func (s *server) hasPath(path string) bool {
	return s.routes.Match(chi.NewRouteContext(), http.MethodGet, path) ||
		s.routes.Match(chi.NewRouteContext(), http.MethodPost, path)
}

// homePath returns the path of the first page of the surface.
func (s *server) homePath() string { return rootOr(s.surface.Prefix) }

// rootOr returns a path, and that of the root for an empty one: a surface without a prefix has it.
func rootOr(path string) string { return cmp.Or(path, "/") }

// hasRoles reports whether a member or an operator may take an action.
func hasRoles(action identity.Action) bool {
	permission := identity.PermissionOf(action)
	return len(permission.Roles) > 0 || permission.Operator
}

// isAllowed reports whether the person of a session may take an action. A session has a member or an
// operator, and the other one, which is empty, may do nothing.
func isAllowed(found *session.Session, action identity.Action) bool {
	return action == "" || found != nil && found.IsOpen() &&
		(found.Member.IsAllowed(action) || found.Operator.IsAllowed(action))
}

// allows reports whether the page shows the person of a session what an action lets people see.
func (p Page) allows(found *session.Session, action identity.Action) bool {
	return isAllowed(found, action) ||
		p.OwnActs && found != nil && found.IsOpen() && found.Member.IsAllowedForOwn(action)
}

// menuFor returns the menu of a session: the pages that its person may open.
func (s *server) menuFor(found *session.Session, current Page) (menu []ui.MenuGroup) {
	if found == nil || !found.IsOpen() {
		return nil
	}
	for _, name := range s.surface.Groups {
		group := ui.MenuGroup{Name: name}
		for _, p := range s.surface.Pages {
			if p.Group != name || p.Icon == "" || p.Access == Members && !p.allows(found, p.Action) {
				continue
			}
			group.Entries = append(group.Entries, ui.MenuEntry{
				Title: p.Title, Path: s.routePath(p), Icon: p.Icon, Shortcut: p.Shortcut,
				Current: p.Path == current.Path || p.Path == current.MenuPath ||
					current.Icon == "" && strings.HasPrefix(current.Path, p.Path+"/"),
			})
		}
		if len(group.Entries) > 0 {
			menu = append(menu, group)
		}
	}
	return menu
}

// roleNames returns the roles of a person's side that allow an action, for a sentence.
func roleNames(found *session.Session, action identity.Action) string {
	var names []string
	if found != nil && found.Operator.ID != "" {
		for _, role := range []identity.OperatorRole{identity.FullOperator, identity.Auditor} {
			if identity.PermissionOf(action).AllowsOperator(role) {
				names = append(names, RoleName(role))
			}
		}
		return strings.Join(names, " or ")
	}
	for _, role := range identity.PermissionOf(action).Roles {
		names = append(names, RoleName(role))
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// RoleName writes a role for people.
func RoleName[R ~string](role R) string {
	text := string(role)
	return text[:1] + strings.ToLower(text[1:])
}

// RoleNames writes the roles of a person.
func RoleNames[R ~string](roles []R) string {
	names := make([]string, 0, len(roles))
	for _, role := range roles {
		names = append(names, RoleName(role))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
