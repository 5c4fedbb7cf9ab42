// Package api serves the REST interface under /v1. It reads requests strictly, calls the features,
// and encodes their results. The table in routes.go has every route. The published document is
// drawn once from that table and from the types of the answers.
//
// The package rules out:
//   - a decision about money
//   - a value that is converted to another type
//   - a query parameter or field that is ignored
//   - an answer that tells one organization about another
//   - an internal error shown to a caller
//
// A crash leaves nothing behind; every effect belongs to a transaction of a feature.
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

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/apikey"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// pathPrefix is the prefix of every path. Another version would be another package.
const pathPrefix = "/v1"

// requestTimeout is how long a request may take. A caller that disconnects does not stop its
// request: it repeats the request and gets the result.
const requestTimeout = 60 * time.Second

// turnMaxDefault is as long as a statement waits for a lock: a longer wait means that the requests
// before it are stuck.
const turnMaxDefault = 10 * time.Second

// Config holds what the interface depends on. Every field is required unless its comment says
// otherwise.
type Config struct {
	DB          *pg.DB
	Chains      chain.Chains
	Withdrawals *withdrawal.Service
	Transfers   *transfer.Service
	Deposits    *deposit.Service    // decides about flagged deposits
	Rescreens   *deposit.Rescreener // screens their senders again, for operators
	Wallets     withdrawal.AddressIssuer
	Prices      price.Source // may be nil: then no mint has a price
	// WebhookKeys are the public keys that sign webhooks, whpk_…, newest first.
	WebhookKeys []string
	// Endpoints manages the webhook endpoints.
	Endpoints *delivery.Endpoints
	// CursorKey signs the cursors of lists: 32 random bytes that outlive the process.
	CursorKey []byte
	// BaseURL is the URL at which callers reach this interface, /v1 included, for the document.
	BaseURL string
	Limits  Limits  // the zero value sets no limits; see UsualLimits
	Proxies Proxies // may be empty: then the peer of the connection is the caller
	// TurnMax is how long a request waits while other requests of its caller use the caller's share
	// of the database's connections. Zero means turnMaxDefault.
	TurnMax time.Duration
	// Observe is called when a request begins and returns the context with which it runs. The
	// returned function is called once the request is answered, with the pattern of its route, or
	// "" if there is none. Observe may be nil.
	Observe func(ctx context.Context) (context.Context, func(method, route string, status int))
	// KeyRolled receives each new value of an organization's main key; it may be nil.
	KeyRolled func(ctx context.Context, org string, key seal.Secret)
	Log       *slog.Logger // nil means the default
}

type api struct {
	surface       *surface
	conf          Config
	log           *slog.Logger
	document      func() []byte // drawn on its first use
	authenticator *apikey.Authenticator

	rates  limiterSet
	tables exportSlots

	fourEyes  changerequest.Rule // only on the operators' listener
	whitelist *whitelist.Service

	localRisk bool // only on the operators' listener: screening uses the local list
	keyRolled func(ctx context.Context, org string, key seal.Secret)
}

// New builds the handler of the public listener: the interface under /v1, the document at
// /openapi.json, the keys at /.well-known/webhook-keys, and the documentation pages at /docs.
func New(conf Config) http.Handler {
	if len(conf.CursorKey) == 0 {
		panic("api: cursors need a key")
	}
	handler := newAPI(&organizations, conf)
	handler.authenticator, handler.keyRolled = apikey.NewAuthenticator(conf.DB), conf.KeyRolled
	return handler.middleware(handler.newRouter())
}

// newAPI builds the part that both surfaces need.
func newAPI(apiSurface *surface, conf Config) *api {
	for _, r := range slices.Concat(apiSurface.routes, apiSurface.forbidden) {
		if !r.needsNoKey && !apiSurface.admits(identity.PermissionOf(r.action)) {
			panic("api: no caller of this listener may make its call " + r.name)
		}
	}
	handler := &api{surface: apiSurface, conf: conf, log: conf.Log}
	if handler.log == nil {
		handler.log = slog.Default()
	}
	handler.document = sync.OnceValue(func() []byte { return apiSurface.drawDocument(conf.BaseURL) })
	handler.rates = newLimiters(conf.Limits, conf.DB.Clock())
	return handler
}

// newRouter builds the router of the surface: its table of routes and its documentation pages.
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
		return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
			"This path does not exist.").
			WithAdvice("%s /openapi.json lists every call.", hint)
	})
	mux.NotFound(notFound)
	mux.Get("/", redirectBrowser(notFound))
	mux.Head("/", redirectBrowser(notFound))
	mux.MethodNotAllowed(a.rejectUnrouted(func(w http.ResponseWriter, r *http.Request) error {
		methods := allowedMethods(mux, r)
		w.Header().Set("Allow", strings.Join(methods, ", "))
		return fault.New(fault.Invalid, fault.MethodNotAllowed, fault.NothingWritten,
			"This path does not take %s.", clipText(r.Method)).
			WithAdvice("It takes %s.", strings.Join(methods, ", "))
	}))
	a.serveDocs(mux)
	return mux
}

func allowedMethods(mux chi.Routes, r *http.Request) []string {
	var methods []string
	for _, method := range []string{
		http.MethodDelete, http.MethodGet, http.MethodPatch, http.MethodPost, http.MethodPut,
	} {
		if mux.Match(chi.NewRouteContext(), method, r.URL.RawPath) {
			methods = append(methods, method)
		}
	}
	sort.Strings(methods)
	return methods
}

type contextKey int

const (
	requestIDKey contextKey = iota
	routeKey
)

func requestID(r *http.Request) string {
	s, _ := r.Context().Value(requestIDKey).(string)
	return s
}

// servedRoute returns the route that serves a request, and an empty one before the router chose it.
func servedRoute(r *http.Request) route {
	if served, ok := r.Context().Value(routeKey).(*route); ok {
		return *served
	}
	return route{}
}

// middleware wraps every request. It adds the request's id, a deadline, a recovery from panics, and
// the headers of every answer.
func (a *api) middleware(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A request is completed even if its caller has left. A half-decided payment would help
		// neither side, and a replay returns the outcome.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), requestTimeout)
		defer cancel()
		name := id.New("req", a.conf.DB.Clock()())
		ctx = context.WithValue(context.WithValue(ctx, requestIDKey, name), routeKey, &route{})
		r = r.WithContext(ctx)
		// The router gets one form of path: escaped, so that a customer id may contain a slash.
		// Routes unescape their own parameters.
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
					slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Any("panic", p),
					slog.String("stack", string(debug.Stack())))
				writeJSON(w, http.StatusInternalServerError,
					problemBody(newInternalFault(r.Method, nil, a.surface.retryAdvice(servedRoute(r))), name))
			}
		}()
		inner.ServeHTTP(w, r)
	})
}

// statusRecorder records the status and the route of an answer for Observe.
type statusRecorder struct {
	http.ResponseWriter
	route  string
	status int
}

// WriteHeader records the status.
func (s *statusRecorder) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap returns the inner writer, for http.ResponseController.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// call is a request that passed the checks that all routes share.
type call struct {
	*http.Request
	route    route
	org      string        // "" on a route without a key, and for an operator
	key      apikey.Caller // of the organization; empty if org is ""
	operator operator.Key  // the operator's key, on the operators' listener
	table    bool          // the caller asks for CSV, and the route supports it
	query    query
	// counted says that the request was counted against its rate.
	counted bool
	body    []byte
	// The writer of the server, which closes a connection after a body that is too large.
	serverWriter http.ResponseWriter
	header       http.Header // further headers of the answer
}

// callerID returns the caller against whose rate a call counts.
func (c *call) callerID() string { return cmp.Or(c.org, c.operator.ID) }

// auditActor returns the calling organization's key as an actor of the audit log.
func (c *call) auditActor() audit.Actor { return c.key.Actor() }

// answer is a success.
type answer struct {
	status int
	body   any    // encoded as JSON; nil for none
	raw    []byte // already encoded, instead of body
	// stream writes the body instead of body and raw; kind is its media type. An error before the
	// first byte is answered like any other. A later error cuts the connection, so that the reader
	// notices that data is missing.
	stream func(io.Writer) error
	kind   string
}

// pathParam returns a parameter of the path, or "" if it cannot be unescaped.
func (c *call) pathParam(name string) string {
	s, err := url.PathUnescape(chi.URLParam(c.Request, name))
	if err != nil {
		return ""
	}
	return s
}

// serveRoute runs the checks that all routes share, in this order: key, scope, rate, query, and
// then the body's type, size and syntax.
func (a *api) serveRoute(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serverWriter := w
		if served, ok := r.Context().Value(routeKey).(*route); ok {
			*served = rt
		}
		if s, observed := w.(*statusRecorder); observed {
			s.route, serverWriter = pathPrefix+rt.path, s.ResponseWriter
		}
		c := &call{Request: r, route: rt, serverWriter: serverWriter, header: w.Header(), table: rt.csv && wantsCSV(r)}
		result, err := func() (result answer, err error) {
			if !rt.needsNoKey {
				if err = a.surface.authenticate(a, w, c); err != nil {
					return result, err
				}
				// A replay does not count against the rates, but it too stays within the caller's
				// share of connections.
				c.Request = c.WithContext(a.conf.DB.WithShare(c.Context(), c.callerID(),
					cmp.Or(a.conf.TurnMax, turnMaxDefault)))
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
				return result, fault.New(fault.Invalid, fault.NotAcceptable, fault.ReadOnly,
					"This call returns JSON only, not a table.").
					WithAdvice("Leave the header Accept out, or send Accept: application/json.")
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
		// An invalid request of a route that checks its rate itself counts like any other. Only the
		// answer to a known idempotency key is free.
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
				a.log.LogAttrs(r.Context(), slog.LevelError, "answer ended early",
					slog.String("requestId", requestID(r)), slog.Any("error", err))
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

// rejectUnrouted answers requests that no route matches. Under the prefix the key is checked first,
// as everywhere: a caller without one learns nothing about the paths.
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

// suggestPath returns the path that was probably meant by an unknown one, or "" if none is near. It
// handles a missing /v1, an extra slash, and a misspelled word. It takes the values of parameters
// unchanged. Rule REQ-10.
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

// similarPath returns the route's path with the given words as its parameters, and the number of
// letters that differ in the other words. It returns "" if a word is a different one.
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

// presentedKey returns the key in the header of that name. It reads no other place, and refuses a
// header that is there twice, because it would be unclear which value counts. Rule AUTH-1.
func presentedKey(r *http.Request, header string) string {
	values := r.Header[header]
	if len(values) != 1 || len(values[0]) > keyBytesMax {
		return ""
	}
	return values[0]
}

// explainKeyRefusal explains a refused credential where the request itself shows the mistake: the
// header is absent, or the key belongs to the other listener. It does not distinguish malformed,
// unknown and rolled keys; for these it returns refused. Rule AUTH-1.
func (s *surface) explainKeyRefusal(r *http.Request, refused error) error {
	header, values := strings.ToLower(s.header), r.Header[s.header]
	reason := ""
	switch {
	case len(values) == 0 && len(r.Header["Authorization"]) > 0:
		reason = fmt.Sprintf(
			"The header %s is missing, and Authorization is not read. Send the key alone in %s, without Bearer.",
			header, header,
		)
	case len(values) == 0 && keyInQuery(r):
		reason = fmt.Sprintf(
			"The header %s is missing, and a key in the query is not read: logs contain URLs. Roll that key, and "+
				"send the new one in %s.",
			header, header,
		)
	case len(values) == 0:
		reason = fmt.Sprintf("The header %s is missing. Send your key in it.", header)
	case len(values) == 1 && strings.HasPrefix(values[0], string(s.foreignKeyPrefix)):
		reason = s.foreignKeyText
	default:
		return refused
	}
	return fault.New(fault.Unauthorized, fault.CodeUnauthorized, fault.Unprocessed,
		"%s", reason)
}

// keyInQuery reports whether a query has a parameter with the name of a key.
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

// keyHeader is the header of the organization's key.
const keyHeader = "X-Api-Key"

// authenticateOrg finds the organization of the presented key.
func (a *api) authenticateOrg(w http.ResponseWriter, c *call) (err error) {
	// An absent key takes the same path, and the same time, as a wrong one.
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
		a.log.LogAttrs(c.Context(), slog.LevelWarn, "cannot write the last use of an API key",
			slog.String("requestId", requestID(c.Request)), slog.Any("error", err))
	}
	return nil
}

// checkScopeAndRate checks the scope of the key, then the rate. It comes before everything else
// that can refuse an admitted request, and after the look-up of an idempotency key. A request
// without the scope is not counted, so it uses up the rate of no other key. Rule KEY-3.
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

// checkScope refuses a key that may not take the action of the route, or of a field of the body. An
// operator's key may make every call of the operators' listener: newAPI checks that. It reads the
// body only where its fields decide. Rule KEY-2.
func (c *call) checkScope() (err error) {
	if c.org == "" {
		return nil
	}
	if !c.key.IsAllowed(c.route.action) {
		return newScopeMissing(c.key, c.route.action)
	}
	for _, field := range sortedKeys(c.route.fieldActions) {
		action := c.route.fieldActions[field]
		if c.key.IsAllowed(action) {
			continue
		}
		if c.body == nil {
			if c.body, err = readBody(c.serverWriter, c.Request, c.route.optional); err != nil {
				return err
			}
		}
		if mentionsMember(c.body, field) {
			return newScopeMissing(c.key, action).WithParam(field)
		}
	}
	return nil
}

func newScopeMissing(key apikey.Caller, action identity.Action) *fault.Fault {
	needed := identity.PermissionOf(action).Key
	if needed == identity.ScopeMainKey {
		return fault.New(fault.Forbidden, fault.ScopeMissing, fault.NothingWritten,
			"Only the main API key of your organization manages API keys.").
			WithAdvice("Call with the main key.")
	}
	return fault.New(fault.Forbidden, fault.ScopeMissing, fault.NothingWritten,
		"This API key has the scope %s, and this call needs %s.", key.Scope, needed).
		WithAdvice("Call with a key that has the scope.")
}
