// Package api is the REST interface under /v1: it reads requests strictly, calls
// the features, and shows what they say. Every route stands in routes.go; the
// published document is drawn from that table and from the types that are
// answered, once, at the start.
//
// What never happens here: a decision about money, a value taken for another
// type, a query parameter or field that is passed over, an answer that tells
// one organization of another, an error of ours shown in words. What a crash
// leaves: nothing; every effect belongs to a transaction of a feature.
package api

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/delivery"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/foureyes"
	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/operator"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/seal"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/whitelist"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// base is the prefix of every path. Another version would be another package.
const base = "/v1"

// requestMax is how long a request may take. A caller that leaves does not stop
// what it asked for: it asks again and is told.
const requestMax = 60 * time.Second

// turnUsual is as long as a statement waits for a lock: who waits for longer does so
// behind requests that are stuck.
const turnUsual = 10 * time.Second

// Config is what the interface stands on. Every member is needed unless it says
// otherwise.
type Config struct {
	DB          *pg.DB
	Chains      chain.Chains
	Withdrawals *withdrawal.Service
	Transfers   *transfer.Service
	Flagged     *deposit.Resolutions // decides about flagged deposits
	Rescreens   *deposit.Rescreener  // asks again about their senders, for operators
	Wallets     withdrawal.Addresses
	Prices      price.Source // nil: nothing has a price
	// WebhookKeys are the public keys that sign webhooks, whpk_…, newest first.
	WebhookKeys []string
	// Endpoints register and list where webhooks go.
	Endpoints *delivery.Endpoints
	// CursorKey signs the cursors of lists; 32 random bytes that outlive the process.
	CursorKey []byte
	// BaseURL is where callers reach this interface, /v1 included, for the document.
	BaseURL string
	Limits  Limits  // the zero value sets none; see UsualLimits
	Proxies Proxies // none: who connects is who calls
	// TurnMax is how long a request waits while the other requests of its caller use the
	// caller's share of the database's connections; turnUsual when it is zero.
	TurnMax time.Duration
	// Observe hears of every request: when it begins, which gives the context that it
	// runs with, and when it was answered, with the pattern of its route, "" for none.
	Observe func(ctx context.Context) (context.Context, func(method, route string, status int)) // nil: nobody does
	// KeyRolled hears of each new value of an organization's main key; nil: nothing does.
	KeyRolled func(ctx context.Context, org string, key seal.Secret)
	Log       *slog.Logger // nil: the default
}

type api struct {
	face     *surface
	conf     Config
	log      *slog.Logger
	document func() []byte // drawn when it is first asked for
	door     *org.Door

	rates  limiters
	tables tables

	fourEyes  foureyes.Rule // of the operators' listener
	whitelist *whitelist.Book

	localRisk bool // of the operators' listener: the local list is asked
	keyRolled func(ctx context.Context, org string, key seal.Secret)
}

// New makes the handler of the public listener: the interface under /v1, the
// document at /openapi.json, the keys at /.well-known/webhook-keys, and the pages
// for people at /docs.
func New(conf Config) http.Handler {
	if len(conf.CursorKey) == 0 {
		panic("api: cursors need a key")
	}
	a := newAPI(&organizations, conf)
	a.door, a.keyRolled = org.NewDoor(conf.DB), conf.KeyRolled
	return a.shell(a.routed())
}

// newAPI is one surface with what both of them need.
func newAPI(face *surface, conf Config) *api {
	a := &api{face: face, conf: conf, log: conf.Log}
	if a.log == nil {
		a.log = slog.Default()
	}
	a.document = sync.OnceValue(func() []byte { return face.draw(conf.BaseURL) })
	a.rates = newLimiters(conf.Limits, conf.DB.Clock())
	return a
}

// routed is the surface's table of routes and its pages for people, and nothing beside.
func (a *api) routed() http.Handler {
	mux := chi.NewRouter()
	for _, r := range slices.Concat(a.face.routes, a.face.closed) {
		paths := []string{base + r.path}
		if r.open {
			paths = append(paths, r.path)
		}
		for _, path := range paths {
			mux.Method(r.method, path, a.serve(r))
		}
	}
	absent := a.unrouted(func(_ http.ResponseWriter, r *http.Request) error {
		hint := ""
		if near := a.face.nearPath(r.URL.EscapedPath()); near != "" {
			hint = " Did you mean " + near + "?"
		}
		return fault.New(fault.NotFound, fault.CodeNotFound, "There is nothing at this path."+untouched+"%s /openapi.json lists every call.", hint)
	})
	mux.NotFound(absent)
	mux.Get("/", front(absent))
	mux.Head("/", front(absent))
	mux.MethodNotAllowed(a.unrouted(func(w http.ResponseWriter, r *http.Request) error {
		methods := methodsAt(mux, r)
		w.Header().Set("Allow", strings.Join(methods, ", "))
		return fault.New(fault.Invalid, fault.MethodNotAllowed, "This path does not take %s."+untouched+" It takes %s.", clip(r.Method), strings.Join(methods, ", "))
	}))
	a.serveDocs(mux)
	return mux
}

func methodsAt(mux chi.Routes, r *http.Request) []string {
	var methods []string
	for _, method := range []string{http.MethodDelete, http.MethodGet, http.MethodPatch, http.MethodPost, http.MethodPut} {
		if mux.Match(chi.NewRouteContext(), method, r.URL.RawPath) {
			methods = append(methods, method)
		}
	}
	sort.Strings(methods)
	return methods
}

type contextKey int

const requestIDKey contextKey = iota

func requestID(r *http.Request) string {
	s, _ := r.Context().Value(requestIDKey).(string)
	return s
}

// shell is around everything: the request's id, a deadline, panics, and the
// headers that every answer has.
func (a *api) shell(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// What was asked for is finished even if nobody waits any more: money that
		// is half decided helps neither side, and a replay tells the outcome.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), requestMax)
		defer cancel()
		name := id.New("req", a.conf.DB.Clock()())
		r = r.WithContext(context.WithValue(ctx, requestIDKey, name))
		// One form of path for the router: escaped, so that a customer id may hold
		// a slash. Routes unescape their own parameters.
		r.URL.RawPath = r.URL.EscapedPath()

		if a.conf.Observe != nil {
			observed, answered := a.conf.Observe(r.Context())
			seen := &seen{ResponseWriter: w, status: http.StatusOK}
			w, r = seen, r.WithContext(observed)
			defer func() { answered(r.Method, seen.route, seen.status) }()
		}
		h := w.Header()
		h.Set("X-Request-Id", name)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		defer func() {
			if p := recover(); p == http.ErrAbortHandler {
				panic(p) // the server cuts the connection
			} else if p != nil {
				a.log.LogAttrs(ctx, slog.LevelError, "request panicked", slog.String("requestId", name),
					slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
				writeJSON(w, http.StatusInternalServerError, problem(ours(r.Method, nil, a.face.repeat), name))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// seen is an answer that somebody observes.
type seen struct {
	http.ResponseWriter
	route  string
	status int
}

// WriteHeader remembers the status.
func (s *seen) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (s *seen) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// call is a request that passed everything that is the same for all routes.
type call struct {
	*http.Request
	route route
	org   string       // "" on an open route, and for an operator
	key   org.Caller   // of the organization; none where org is ""
	who   operator.Key // who calls as an operator
	table bool         // the caller asks for CSV, and the route has it
	query query
	// counted: it was counted against its rate.
	counted bool
	body    []byte
	own     http.ResponseWriter // of the server, which closes a connection after a body that is too large
	warn    http.Header         // headers of the answer, beside the usual ones
}

// caller is whose rate a call counts against.
func (c *call) caller() string { return cmp.Or(c.org, c.who.ID) }

// actor is the organization's key that calls, for the audit log.
func (c *call) actor() audit.Actor { return c.key.Actor() }

// answer is a success.
type answer struct {
	status int
	body   any    // encoded as JSON; nil for none
	raw    []byte // already encoded, instead of body
	// stream writes the body, of the media type kind, instead of either. An error
	// before its first byte is answered as any is; a later one cuts the connection,
	// so that whoever reads sees that something is missing.
	stream func(io.Writer) error
	kind   string
}

// param is a parameter of the path. One that cannot be unescaped names nothing.
func (c *call) param(name string) string {
	s, err := url.PathUnescape(chi.URLParam(c.Request, name))
	if err != nil {
		return ""
	}
	return s
}

// serve is the order of checks that all routes share: key, then its scope, then the
// rate, then the query, then the body's type, size and syntax.
func (a *api) serve(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own := w
		if s, observed := w.(*seen); observed {
			s.route, own = base+rt.path, s.ResponseWriter
		}
		c := &call{Request: r, route: rt, own: own, warn: w.Header(), table: rt.csv && wantsCSV(r)}
		got, err := func() (got answer, err error) {
			if !rt.open {
				if err = a.face.admit(a, w, c); err != nil {
					return got, err
				}
				// A replay is free of the rates, and still not everybody's connections.
				c.Request = c.WithContext(a.conf.DB.Shared(c.Context(), c.caller(), cmp.Or(a.conf.TurnMax, turnUsual)))
				if !rt.limits {
					if err = a.pass(c); err != nil {
						return got, err
					}
				}
			}
			if a.face.begin != nil && !rt.open {
				if err = a.face.begin(a, c, rt); err != nil {
					return got, err
				}
			}
			if rt.jsonOnly() && wantsCSV(r) {
				return got, fault.New(fault.Invalid, fault.NotAcceptable,
					"This call has no table, only JSON. You only read, so nothing was changed. Leave Accept out, or send Accept: application/json.")
			}
			if c.query, err = readQuery(r, rt.query); err != nil {
				return got, err
			}
			if rt.body != nil && c.body == nil {
				if c.body, err = readBody(own, r, rt.optional); err != nil {
					return got, err
				}
			}
			return rt.handle(a, c)
		}()
		// A request that asks for its rate itself and is wrong before it can counts
		// like any other. What a known key answers is free.
		if f := fault.Of(err); rt.limits && c.org != "" && f != nil && f.Kind == fault.Invalid {
			if before := a.pass(c); before != nil {
				err = before
			}
		}
		switch {
		case err != nil:
			a.refuse(w, r, err)
		case got.stream != nil:
			w.Header().Set("Content-Type", got.kind)
			out := &streaming{ResponseWriter: w, status: got.status}
			if err := got.stream(out); err != nil && !out.begun {
				w.Header().Del("Content-Disposition")
				a.refuse(w, r, err)
			} else if err != nil {
				a.log.LogAttrs(r.Context(), slog.LevelError, "answer ended early", slog.String("requestId", requestID(r)), slog.Any("error", err))
				panic(http.ErrAbortHandler)
			}
		case got.raw != nil:
			if w.Header().Get("Content-Type") == "" {
				w.Header().Set("Content-Type", "application/json")
			}
			w.WriteHeader(got.status)
			_, _ = w.Write(got.raw)
		case got.body == nil:
			w.WriteHeader(got.status)
		default:
			writeJSON(w, got.status, got.body)
		}
	})
}

// unrouted answers what no route takes. Under the prefix the key comes first,
// as everywhere: who has none learns nothing about the paths.
func (a *api) unrouted(why func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := why(w, r)
		if strings.HasPrefix(r.URL.Path, base+"/") {
			c := &call{Request: r, warn: w.Header()}
			refused := a.face.admit(a, w, c)
			if refused == nil && c.org != "" {
				refused = a.limit(c)
			}
			if refused != nil {
				w.Header().Del("Allow")
				err = refused
			}
		}
		a.refuse(w, r, err)
	}
}

// nearPath is the path of a call that was probably meant by one that is none, "" when
// none is near: /v1 is missing, a slash is one too many, or a word is nearly right. What
// stands at a parameter's place is taken as it came.
func (s *surface) nearPath(path string) string {
	const pathBytesMax = 256
	if len(path) > pathBytesMax {
		return ""
	}
	words := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	if len(words) > 0 && "/"+strings.ToLower(words[0]) == base {
		words = words[1:]
	}
	best, bestAt := "", 0
	for _, rt := range s.routes {
		near, at := rt.near(words)
		if near != "" && (best == "" || at < bestAt) {
			best, bestAt = near, at
		}
	}
	if best == "" || base+best == path {
		return ""
	}
	return base + best
}

// near is the route's path with the words at its parameters' places, and how many letters
// differ at the others; "" when a word is another one.
func (rt route) near(words []string) (path string, letters int) {
	parts := strings.Split(rt.path[1:], "/")
	if len(parts) != len(words) {
		return "", 0
	}
	for i, part := range parts {
		switch {
		case strings.HasPrefix(part, "{"):
			part = words[i]
		case nearest(words[i], []string{part}) == "":
			return "", 0
		default:
			letters += distance(words[i], part)
		}
		path += "/" + part
	}
	return path, letters
}

const keyBytesMax = 256

// presented is the key in a header of that name: read from there alone, and only
// when it is there once, for of two values nobody can say which counts.
func presented(r *http.Request, header string) string {
	values := r.Header[header]
	if len(values) != 1 || len(values[0]) > keyBytesMax {
		return ""
	}
	return values[0]
}

// keyRefusal says what is wrong with a credential where the request shows it openly: its
// header is absent, or the key is one of the other listener. Whether a key is malformed,
// unknown or rolled is not told apart: refused is then the one answer.
func (s *surface) keyRefusal(r *http.Request, refused error) error {
	header, values := strings.ToLower(s.header), r.Header[s.header]
	why := ""
	switch {
	case len(values) == 0 && len(r.Header["Authorization"]) > 0:
		why = fmt.Sprintf("The header %s is missing, and Authorization is not read. Send the key alone in %s, without Bearer.", header, header)
	case len(values) == 0 && keyInQuery(r):
		why = fmt.Sprintf("The header %s is missing, and a key in the query is not read: URLs stand in logs. Roll that key, and send the new one in %s.", header, header)
	case len(values) == 0:
		why = fmt.Sprintf("The header %s is missing. Send your key in it.", header)
	case len(values) == 1 && strings.HasPrefix(values[0], s.foreignPrefix):
		why = s.foreign
	default:
		return refused
	}
	return fault.New(fault.Unauthorized, fault.CodeUnauthorized, "%s Nothing was done by this request, and this answer says nothing about any other.", why)
}

// keyInQuery tells whether a query has a parameter by the name of a key.
func keyInQuery(r *http.Request) bool {
	if len(r.URL.RawQuery) > queryBytesMax {
		return false
	}
	for name := range r.URL.Query() {
		switch strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name)) {
		case "xapikey", "apikey", "xoperatorkey", "operatorkey", "key", "token", "accesstoken":
			return true
		}
	}
	return false
}

// keyHeader carries the organization's key.
const keyHeader = "X-Api-Key"

// authenticate finds the organization whose key was presented.
func (a *api) authenticate(w http.ResponseWriter, c *call) (err error) {
	// An absent key takes the same way, and the same time, as a wrong one.
	c.key, err = a.door.Admit(c.Context(), presented(c.Request, keyHeader), a.from(c.Request))
	if fault.Is(err, fault.CodeUnauthorized) {
		if many := a.failed(c.Request, w.Header()); many != nil {
			return many
		}
		err = a.face.keyRefusal(c.Request, err)
	}
	if err != nil {
		return fmt.Errorf("authenticate: %w", err)
	}
	c.org = c.key.OrgID
	if err := a.door.NoteUse(c.Context(), c.key); err != nil {
		a.log.LogAttrs(c.Context(), slog.LevelWarn, "last use of an API key not written", slog.String("requestId", requestID(c.Request)), slog.Any("error", err))
	}
	return nil
}

// pass asks what comes before everything else that can refuse an admitted request, and
// after the look-up of an idempotency key: whether the key has the scope, then the rate.
// A request without the scope is not counted: it uses up the rate of no other key.
func (a *api) pass(c *call) error {
	err := c.scoped()
	if fault.Is(err, fault.ScopeMissing) {
		return err
	}
	if many := a.limit(c); many != nil {
		return many
	}
	return err
}

// scoped refuses a key without the scope of the route, or of a field that the body has. An
// operator has none. The body is read here only where its fields decide.
func (c *call) scoped() (err error) {
	if c.org == "" {
		return nil
	}
	if !c.key.May(c.route.scope) {
		return scopeMissing(c.key, c.route.scope)
	}
	for _, field := range sortedKeys(c.route.fieldScopes) {
		needed := c.route.fieldScopes[field]
		if c.key.May(needed) {
			continue
		}
		if c.body == nil {
			if c.body, err = readBody(c.own, c.Request, c.route.optional); err != nil {
				return err
			}
		}
		if mentions(c.body, field) {
			return scopeMissing(c.key, needed).On(field)
		}
	}
	return nil
}

func scopeMissing(key org.Caller, needed org.Scope) *fault.Fault {
	if needed == org.ScopeMainKey {
		return fault.New(fault.Forbidden, fault.ScopeMissing,
			"Only the main API key of your organization manages API keys."+untouched+" Call with the main key.")
	}
	return fault.New(fault.Forbidden, fault.ScopeMissing,
		"This API key has the scope %s, and this call needs %s. Nothing was done by this request, and no money moved. Call with a key that has the scope.", key.Scope, needed)
}
