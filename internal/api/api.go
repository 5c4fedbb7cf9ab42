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

// pathPrefix is the prefix of every path. Another version would be another package.
const pathPrefix = "/v1"

// requestTimeout is how long a request may take. A caller that leaves does not stop
// what it asked for: it asks again and is told.
const requestTimeout = 60 * time.Second

// turnMaxDefault is as long as a statement waits for a lock: who waits for longer does so
// behind requests that are stuck.
const turnMaxDefault = 10 * time.Second

// Config is what the interface stands on. Every member is needed unless it says
// otherwise.
type Config struct {
	DB          *pg.DB
	Chains      chain.Chains
	Withdrawals *withdrawal.Service
	Transfers   *transfer.Service
	Flagged     *deposit.Resolutions // decides about flagged deposits
	Rescreens   *deposit.Rescreener  // asks again about their senders, for operators
	Wallets     withdrawal.AddressIssuer
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
	// caller's share of the database's connections; turnMaxDefault when it is zero.
	TurnMax time.Duration
	// Observe hears of every request: when it begins, which gives the context that it
	// runs with, and when it was answered, with the pattern of its route, "" for none.
	Observe func(ctx context.Context) (context.Context, func(method, route string, status int)) // nil: nobody does
	// KeyRolled hears of each new value of an organization's main key; nil: nothing does.
	KeyRolled func(ctx context.Context, org string, key seal.Secret)
	Log       *slog.Logger // nil: the default
}

type api struct {
	surface       *surface
	conf          Config
	log           *slog.Logger
	document      func() []byte // drawn when it is first asked for
	authenticator *org.Authenticator

	rates  limiterSet
	tables exportSlots

	fourEyes  foureyes.Rule // of the operators' listener
	whitelist *whitelist.Service

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
	handler := newAPI(&organizations, conf)
	handler.authenticator, handler.keyRolled = org.NewAuthenticator(conf.DB), conf.KeyRolled
	return handler.middleware(handler.newRouter())
}

// newAPI is one surface with what both of them need.
func newAPI(apiSurface *surface, conf Config) *api {
	handler := &api{surface: apiSurface, conf: conf, log: conf.Log}
	if handler.log == nil {
		handler.log = slog.Default()
	}
	handler.document = sync.OnceValue(func() []byte { return apiSurface.drawDocument(conf.BaseURL) })
	handler.rates = newLimiters(conf.Limits, conf.DB.Clock())
	return handler
}

// newRouter is the surface's table of routes and its pages for people, and nothing beside.
func (a *api) newRouter() http.Handler {
	mux := chi.NewRouter()
	for _, r := range slices.Concat(a.surface.routes, a.surface.forbidden) {
		paths := []string{pathPrefix + r.path}
		if r.needsNoKey {
			paths = append(paths, r.path)
		}
		for _, path := range paths {
			mux.Method(r.method, path, a.serveRoute(r))
		}
	}
	notFound := a.rejectUnrouted(func(_ http.ResponseWriter, r *http.Request) error {
		hint := ""
		if suggestion := a.surface.suggestPath(r.URL.EscapedPath()); suggestion != "" {
			hint = " Did you mean " + suggestion + "?"
		}
		return fault.New(fault.NotFound, fault.CodeNotFound, "There is nothing at this path."+nothingWritten+"%s /openapi.json lists every call.", hint)
	})
	mux.NotFound(notFound)
	mux.Get("/", redirectBrowser(notFound))
	mux.Head("/", redirectBrowser(notFound))
	mux.MethodNotAllowed(a.rejectUnrouted(func(w http.ResponseWriter, r *http.Request) error {
		methods := allowedMethods(mux, r)
		w.Header().Set("Allow", strings.Join(methods, ", "))
		return fault.New(fault.Invalid, fault.MethodNotAllowed, "This path does not take %s."+nothingWritten+" It takes %s.", clipText(r.Method), strings.Join(methods, ", "))
	}))
	a.serveDocs(mux)
	return mux
}

func allowedMethods(mux chi.Routes, r *http.Request) []string {
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

// middleware is around everything: the request's id, a deadline, panics, and the
// headers that every answer has.
func (a *api) middleware(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// What was asked for is finished even if nobody waits any more: money that
		// is half decided helps neither side, and a replay tells the outcome.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), requestTimeout)
		defer cancel()
		name := id.New("req", a.conf.DB.Clock()())
		r = r.WithContext(context.WithValue(ctx, requestIDKey, name))
		// One form of path for the router: escaped, so that a customer id may hold
		// a slash. Routes unescape their own parameters.
		r.URL.RawPath = r.URL.EscapedPath()

		if a.conf.Observe != nil {
			observed, answered := a.conf.Observe(r.Context())
			recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
			w, r = recorder, r.WithContext(observed)
			defer func() { answered(r.Method, recorder.route, recorder.status) }()
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
				writeJSON(w, http.StatusInternalServerError, problemBody(newInternalFault(r.Method, nil, a.surface.retryAdvice), name))
			}
		}()
		inner.ServeHTTP(w, r)
	})
}

// statusRecorder is an answer that somebody observes.
type statusRecorder struct {
	http.ResponseWriter
	route  string
	status int
}

// WriteHeader remembers the status.
func (s *statusRecorder) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// call is a request that passed everything that is the same for all routes.
type call struct {
	*http.Request
	route    route
	org      string       // "" on an open route, and for an operator
	key      org.Caller   // of the organization; none where org is ""
	operator operator.Key // who calls as an operator
	table    bool         // the caller asks for CSV, and the route has it
	query    query
	// counted: it was counted against its rate.
	counted      bool
	body         []byte
	serverWriter http.ResponseWriter // of the server, which closes a connection after a body that is too large
	header       http.Header         // headers of the answer, beside the usual ones
}

// callerID is whose rate a call counts against.
func (c *call) callerID() string { return cmp.Or(c.org, c.operator.ID) }

// auditActor is the organization's key that calls, for the audit log.
func (c *call) auditActor() audit.Actor { return c.key.Actor() }

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

// pathParam is a parameter of the path. One that cannot be unescaped names nothing.
func (c *call) pathParam(name string) string {
	s, err := url.PathUnescape(chi.URLParam(c.Request, name))
	if err != nil {
		return ""
	}
	return s
}

// serveRoute is the order of checks that all routes share: key, then its scope, then the
// rate, then the query, then the body's type, size and syntax.
func (a *api) serveRoute(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serverWriter := w
		if s, observed := w.(*statusRecorder); observed {
			s.route, serverWriter = pathPrefix+rt.path, s.ResponseWriter
		}
		c := &call{Request: r, route: rt, serverWriter: serverWriter, header: w.Header(), table: rt.csv && wantsCSV(r)}
		result, err := func() (result answer, err error) {
			if !rt.needsNoKey {
				if err = a.surface.authenticate(a, w, c); err != nil {
					return result, err
				}
				// A replay is free of the rates, and still not everybody's connections.
				c.Request = c.WithContext(a.conf.DB.WithShare(c.Context(), c.callerID(), cmp.Or(a.conf.TurnMax, turnMaxDefault)))
				if !rt.limitsItself {
					if err = a.checkScopeAndRate(c); err != nil {
						return result, err
					}
				}
			}
			if a.surface.beforeRead != nil && !rt.needsNoKey {
				if err = a.surface.beforeRead(a, c, rt); err != nil {
					return result, err
				}
			}
			if rt.jsonOnly() && wantsCSV(r) {
				return result, fault.New(fault.Invalid, fault.NotAcceptable,
					"This call has no table, only JSON. You only read, so nothing was changed. Leave Accept out, or send Accept: application/json.")
			}
			if c.query, err = readQuery(r, rt.query); err != nil {
				return result, err
			}
			if rt.body != nil && c.body == nil {
				if c.body, err = readBody(serverWriter, r, rt.optional); err != nil {
					return result, err
				}
			}
			return rt.handle(a, c)
		}()
		// A request that asks for its rate itself and is wrong before it can counts
		// like any other. What a known key answers is free.
		if f := fault.Find(err); rt.limitsItself && c.org != "" && f != nil && f.Kind == fault.Invalid {
			if limited := a.checkScopeAndRate(c); limited != nil {
				err = limited
			}
		}
		switch {
		case err != nil:
			a.writeError(w, r, err)
		case result.stream != nil:
			w.Header().Set("Content-Type", result.kind)
			streamed := &streaming{ResponseWriter: w, status: result.status}
			if err := result.stream(streamed); err != nil && !streamed.begun {
				w.Header().Del("Content-Disposition")
				a.writeError(w, r, err)
			} else if err != nil {
				a.log.LogAttrs(r.Context(), slog.LevelError, "answer ended early", slog.String("requestId", requestID(r)), slog.Any("error", err))
				panic(http.ErrAbortHandler)
			}
		case result.raw != nil:
			if w.Header().Get("Content-Type") == "" {
				w.Header().Set("Content-Type", "application/json")
			}
			w.WriteHeader(result.status)
			_, _ = w.Write(result.raw)
		case result.body == nil:
			w.WriteHeader(result.status)
		default:
			writeJSON(w, result.status, result.body)
		}
	})
}

// rejectUnrouted answers what no route takes. Under the prefix the key comes first,
// as everywhere: who has none learns nothing about the paths.
func (a *api) rejectUnrouted(explain func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := explain(w, r)
		if strings.HasPrefix(r.URL.Path, pathPrefix+"/") {
			c := &call{Request: r, header: w.Header()}
			refused := a.surface.authenticate(a, w, c)
			if refused == nil && c.org != "" {
				refused = a.checkRate(c)
			}
			if refused != nil {
				w.Header().Del("Allow")
				err = refused
			}
		}
		a.writeError(w, r, err)
	}
}

// suggestPath is the path of a call that was probably meant by one that is none, "" when
// none is near: /v1 is missing, a slash is one too many, or a word is nearly right. What
// stands at a parameter's place is taken as it came.
func (s *surface) suggestPath(path string) string {
	const pathBytesMax = 256
	if len(path) > pathBytesMax {
		return ""
	}
	words := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	if len(words) > 0 && "/"+strings.ToLower(words[0]) == pathPrefix {
		words = words[1:]
	}
	best, bestLetters := "", 0
	for _, rt := range s.routes {
		candidate, letters := rt.similarPath(words)
		if candidate != "" && (best == "" || letters < bestLetters) {
			best, bestLetters = candidate, letters
		}
	}
	if best == "" || pathPrefix+best == path {
		return ""
	}
	return pathPrefix + best
}

// similarPath is the route's path with the words at its parameters' places, and how many letters
// differ at the others; "" when a word is another one.
func (rt route) similarPath(words []string) (path string, letters int) {
	parts := strings.Split(rt.path[1:], "/")
	if len(parts) != len(words) {
		return "", 0
	}
	for i, part := range parts {
		switch {
		case strings.HasPrefix(part, "{"):
			part = words[i]
		case nearestName(words[i], []string{part}) == "":
			return "", 0
		default:
			letters += editDistance(words[i], part)
		}
		path += "/" + part
	}
	return path, letters
}

const keyBytesMax = 256

// presentedKey is the key in a header of that name: read from there alone, and only
// when it is there once, for of two values nobody can say which counts.
func presentedKey(r *http.Request, header string) string {
	values := r.Header[header]
	if len(values) != 1 || len(values[0]) > keyBytesMax {
		return ""
	}
	return values[0]
}

// explainKeyRefusal says what is wrong with a credential where the request shows it openly: its
// header is absent, or the key is one of the other listener. Whether a key is malformed,
// unknown or rolled is not told apart: refused is then the one answer.
func (s *surface) explainKeyRefusal(r *http.Request, refused error) error {
	header, values := strings.ToLower(s.header), r.Header[s.header]
	reason := ""
	switch {
	case len(values) == 0 && len(r.Header["Authorization"]) > 0:
		reason = fmt.Sprintf("The header %s is missing, and Authorization is not read. Send the key alone in %s, without Bearer.", header, header)
	case len(values) == 0 && keyInQuery(r):
		reason = fmt.Sprintf("The header %s is missing, and a key in the query is not read: URLs stand in logs. Roll that key, and send the new one in %s.", header, header)
	case len(values) == 0:
		reason = fmt.Sprintf("The header %s is missing. Send your key in it.", header)
	case len(values) == 1 && strings.HasPrefix(values[0], s.foreignKeyPrefix):
		reason = s.foreignKeyText
	default:
		return refused
	}
	return fault.New(fault.Unauthorized, fault.CodeUnauthorized, "%s Nothing was done by this request, and this answer says nothing about any other.", reason)
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

// authenticateOrg finds the organization whose key was presented.
func (a *api) authenticateOrg(w http.ResponseWriter, c *call) (err error) {
	// An absent key takes the same way, and the same time, as a wrong one.
	c.key, err = a.authenticator.Authenticate(c.Context(), presentedKey(c.Request, keyHeader), a.clientAddr(c.Request))
	if fault.HasCode(err, fault.CodeUnauthorized) {
		if limited := a.checkFailureRate(c.Request, w.Header()); limited != nil {
			return limited
		}
		err = a.surface.explainKeyRefusal(c.Request, err)
	}
	if err != nil {
		return fmt.Errorf("authenticate: %w", err)
	}
	c.org = c.key.OrgID
	if err := a.authenticator.RecordUse(c.Context(), c.key); err != nil {
		a.log.LogAttrs(c.Context(), slog.LevelWarn, "last use of an API key not written", slog.String("requestId", requestID(c.Request)), slog.Any("error", err))
	}
	return nil
}

// checkScopeAndRate asks what comes before everything else that can refuse an admitted request, and
// after the look-up of an idempotency key: whether the key has the scope, then the rate.
// A request without the scope is not counted: it uses up the rate of no other key.
func (a *api) checkScopeAndRate(c *call) error {
	err := c.checkScope()
	if fault.HasCode(err, fault.ScopeMissing) {
		return err
	}
	if limited := a.checkRate(c); limited != nil {
		return limited
	}
	return err
}

// checkScope refuses a key without the scope of the route, or of a field that the body has. An
// operator has none. The body is read here only where its fields decide.
func (c *call) checkScope() (err error) {
	if c.org == "" {
		return nil
	}
	if !c.key.HasScope(c.route.scope) {
		return newScopeMissing(c.key, c.route.scope)
	}
	for _, field := range sortedKeys(c.route.fieldScopes) {
		needed := c.route.fieldScopes[field]
		if c.key.HasScope(needed) {
			continue
		}
		if c.body == nil {
			if c.body, err = readBody(c.serverWriter, c.Request, c.route.optional); err != nil {
				return err
			}
		}
		if mentionsMember(c.body, field) {
			return newScopeMissing(c.key, needed).WithParam(field)
		}
	}
	return nil
}

func newScopeMissing(key org.Caller, needed org.Scope) *fault.Fault {
	if needed == org.ScopeMainKey {
		return fault.New(fault.Forbidden, fault.ScopeMissing,
			"Only the main API key of your organization manages API keys."+nothingWritten+" Call with the main key.")
	}
	return fault.New(fault.Forbidden, fault.ScopeMissing,
		"This API key has the scope %s, and this call needs %s. Nothing was done by this request, and no money moved. Call with a key that has the scope.", key.Scope, needed)
}
