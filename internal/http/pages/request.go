package pages

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/go-chi/chi/v5"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/platform/pagination"
)

// Request is a request for a page or an act that passed the checks of the kit.
type Request struct {
	*http.Request
	Session *session.Session // nil without one; only where everyone has access
	Query   kernel.Query
	Values  map[string]string // the fields of an act, without the second factor
	Form    ui.Form           // the state of a refused form
	ID      string            // of the request, for the log
	// Now is the time at which the page is written.
	Now time.Time

	server *server
	page   Page
	answer http.Header
	// position is how far the changes were known before the page was loaded.
	position int64
	shown    templ.Component // the answer of an act that is shown once
	data     json.RawMessage // the answer of an act that the script sends
	zone     *time.Location  // of the reader; nil until it is asked for

	key       string // the idempotency key of the form; "" for a form without one
	firstPath string // the page of what the key made, after a conflict
}

// ShowOnce makes a content the answer of an act, in place of a redirect. It is for secrets: no page can
// show them again.
func (r *Request) ShowOnce(main templ.Component) { r.shown = main }

// AnswerData makes JSON the answer of an act that the script sends.
func (r *Request) AnswerData(data []byte) { r.data = data }

// Title returns the title of the page.
func (r *Request) Title() string { return r.page.Title }

// PathParam returns a parameter of the path, or "" if it cannot be unescaped.
func (r *Request) PathParam(name string) string {
	s, err := url.PathUnescape(chi.URLParam(r.Request, name))
	if err != nil {
		return ""
	}
	return s
}

// Path returns the path of a page of the surface, or the address of a page that another one has in its place.
func (r *Request) Path(parts ...string) string {
	var path string
	for _, part := range parts {
		path += "/" + url.PathEscape(part)
	}
	surface := r.server.surface
	if surface.ElsewhereURL != "" && !r.server.hasPath(rootOr(surface.Prefix+path)) {
		return surface.ElsewhereURL + path
	}
	return rootOr(surface.Prefix + path)
}

// ResourceID returns the id of the thing that the page is about: the last parameter of the path, and "" of
// a path without one.
func (r *Request) ResourceID() string {
	params := chi.RouteContext(r.Context()).URLParams
	if len(params.Keys) == 0 {
		return ""
	}
	return r.PathParam(params.Keys[len(params.Keys)-1])
}

// operatorsTenant stands for an organization in what all operators share.
const operatorsTenant = "operators"

// tenant returns whose share of the service the request uses: its organization's, or that of operators.
func (r *Request) tenant() string { return cmp.Or(r.Session.OrgID, operatorsTenant) }

// ClientAddr returns the address from which the request came.
func (r *Request) ClientAddr() netip.Addr { return r.server.conf.Proxies.ClientAddr(r.Request) }

// IsAllowed reports whether the visitor may take an action.
func (r *Request) IsAllowed(action identity.Action) bool { return isAllowed(r.Session, action) }

// Moment returns a time for a component, in the zone of the reader.
func (r *Request) Moment(t time.Time) ui.Moment {
	return ui.Moment{Time: t, Now: r.Now, Zone: r.readerZone()}
}

// readerZone returns the time zone of the reader's profile, and UTC without one.
func (r *Request) readerZone() *time.Location {
	if r.zone == nil {
		r.zone = time.UTC
		if r.Session != nil && r.Session.Account.TimeZone != "" {
			// A zone that this machine does not know any more is shown as UTC.
			if zone, err := time.LoadLocation(r.Session.Account.TimeZone); err == nil {
				r.zone = zone
			}
		}
	}
	return r.zone
}

// withoutEmpty leaves out parameters without a value: a browser sends every field of a filter.
func withoutEmpty(r *http.Request) *http.Request {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return r // ReadQuery refuses it.
	}
	for name, entries := range values {
		if len(entries) == 1 && entries[0] == "" {
			delete(values, name)
		}
	}
	copied := *r.URL
	copied.RawQuery = values.Encode()
	return &http.Request{URL: &copied}
}

// pageSize is the number of rows of a list.
const pageSize = 50

// CursorParameter is the query parameter of a list.
var CursorParameter = kernel.CursorParameter

// ReadPage returns which rows of a list the request asks for. A cursor is bound to the organization, the
// page and the filters.
func (r *Request) ReadPage() (pagination.Page, error) {
	p := pagination.Page{Desc: true, Limit: pageSize}
	text, present := r.Query[CursorParameter.Name]
	if !present {
		return p, nil
	}
	cursor, err := pagination.DecodeCursor(text, r.server.conf.CursorKey, r.cursorScope()...)
	if err != nil {
		return p, err
	}
	p.Cursor = &cursor
	return p, nil
}

func (r *Request) cursorScope() []string {
	scope := []string{r.tenant(), "page " + r.page.Path}
	for _, name := range kernel.SortedKeys(r.Query) {
		if name != CursorParameter.Name {
			scope = append(scope, name, r.Query[name])
		}
	}
	return scope
}

// PagePaths returns the paths of the first and of the next page of a list, and "" where there is none.
func (r *Request) PagePaths(nextCursor *pagination.Cursor) (first, following string) {
	query := url.Values{}
	for name, value := range r.Query {
		if name != CursorParameter.Name {
			query.Set(name, value)
		}
	}
	base := r.PagePath()
	if _, present := r.Query[CursorParameter.Name]; present {
		first = joinQuery(base, query)
	}
	if nextCursor != nil {
		text := pagination.EncodeCursor(*nextCursor, r.server.conf.CursorKey, r.cursorScope()...)
		query.Set(CursorParameter.Name, text)
		following = joinQuery(base, query)
	}
	return first, following
}

// CSVPath returns the path of the page's table with the same filters, and "" for a person who may not have
// the table, or for a page without one.
func (r *Request) CSVPath() string {
	if r.page.WriteCSV == nil || !r.page.allows(r.Session, r.page.tableAction) {
		return ""
	}
	query := url.Values{}
	for name, value := range r.Query {
		if name != CursorParameter.Name {
			query.Set(name, value)
		}
	}
	return joinQuery(r.PagePath()+csvSuffix, query)
}

// PagePath returns the path of the page, also in the answer to a refused form, which was sent to that of an act.
func (r *Request) PagePath() string { return r.server.lookPath(r) }

// FilterPath returns the path of the page with one filter and no other.
func (r *Request) FilterPath(name, value string) string {
	return joinQuery(r.PagePath(), url.Values{name: {value}})
}

// PathWithout returns the path of the list without one of its filters, from its first page.
func (r *Request) PathWithout(name string) string {
	query := url.Values{}
	for parameter, value := range r.Query {
		if parameter != CursorParameter.Name && parameter != name {
			query.Set(parameter, value)
		}
	}
	return joinQuery(r.PagePath(), query)
}

func joinQuery(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// returnPath returns the page to which sign-in leads back, if it is one of this surface.
func (s *server) returnPath(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || strings.Contains(text, `\`) ||
		text != s.homePath() && !strings.HasPrefix(text, s.surface.Prefix+"/") {
		return s.homePath()
	}
	return text
}

// ReturnPath returns the page to which sign-in leads back: the given path, if it is one of this surface,
// else the first page.
func (r *Request) ReturnPath(text string) string { return r.server.returnPath(text) }
