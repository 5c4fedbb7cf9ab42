// Package kernel has what every HTTP surface of the service needs and no surface differs in: the
// middleware around a request, strict reading of bodies and queries, pages and their cursors, rates,
// the address of a client, tables as CSV, problems as answers, and the OpenAPI document with its
// pages. It knows no feature and no surface: its imports end below the features.
//
// A surface is a package beside the others, such as http/api. It has a Surface value: a table of
// Routes, the way in which it finds a caller, and its texts. New makes a handler of it. Handle,
// HandleBody and HandleEmpty turn a function with typed parameters and results into the Handler of a
// route. A further surface changes neither this package nor another surface.
//
// A request is checked in this order, and the first check that fails is the answer: key, scope,
// rate, query, then the body's type, size, syntax and fields.
//
// The package rules out:
//   - a value that is converted to another type
//   - a query parameter or field that is ignored
//   - an internal error shown to a caller
//   - an answer whose shape differs from the document, because both come from the same types
//
// A crash leaves nothing behind; every effect belongs to a transaction of a feature.
package kernel

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// PathPrefix is the prefix of every path. Another version would be another surface.
const PathPrefix = "/v1"

// requestTimeout is how long a request may take. A caller that disconnects does not stop its
// request: it repeats the request and gets the result.
const requestTimeout = 60 * time.Second

// turnMaxDefault is as long as a statement waits for a lock: a longer wait means that the requests
// before it are stuck.
const turnMaxDefault = 10 * time.Second

// Config holds what the handler of a surface depends on. Every field is required unless its comment
// says otherwise.
type Config struct {
	DB *pg.DB
	// CursorKey signs the cursors of lists: 32 random bytes that outlive the process.
	CursorKey []byte
	// BaseURL is the URL at which callers reach the surface, /v1 included, for the document.
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
	Log     *slog.Logger // nil means the default
}

// server serves one surface.
type server struct {
	surface  *Surface
	conf     Config
	log      *slog.Logger
	document func() []byte // drawn on its first use

	rates  limiterSet
	tables ExportSlots
}

// New builds the handler of a surface: its routes under /v1, its document at /openapi.json, and its
// documentation pages at /docs.
func New(surface *Surface, conf Config) http.Handler {
	for _, r := range slices.Concat(surface.Routes, surface.Forbidden) {
		if !r.NeedsNoKey && !surface.Admits(identity.PermissionOf(r.Action)) {
			panic("kernel: no caller of this listener may make its call " + r.Name)
		}
	}
	if len(conf.CursorKey) == 0 {
		panic("kernel: cursors need a key")
	}
	s := &server{surface: surface, conf: conf, log: conf.Log}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.document = sync.OnceValue(func() []byte { return surface.DrawDocument(conf.BaseURL) })
	s.rates = newLimiters(conf.Limits, conf.DB.Clock())
	return s.middleware(s.checkAddress(s.newRouter()))
}

// newRouter builds the router of the surface: its table of routes and its documentation pages.
func (s *server) newRouter() http.Handler {
	mux := chi.NewRouter()
	for _, r := range slices.Concat(s.surface.Routes, s.surface.Forbidden) {
		for _, path := range r.paths() {
			mux.Method(r.Method, PathPrefix+path, s.serveRoute(r))
			if r.NeedsNoKey {
				mux.Method(r.Method, path, s.serveRoute(r))
			}
		}
	}
	notFound := s.rejectUnrouted(func(_ http.ResponseWriter, r *http.Request) error {
		hint := ""
		if suggestion := s.surface.suggestPath(r.URL.EscapedPath()); suggestion != "" {
			hint = " Did you mean " + suggestion + "?"
		}
		return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
			"This path does not exist.").
			WithAdvice("%s /openapi.json lists every call.", hint)
	})
	mux.NotFound(notFound)
	mux.Get("/", redirectBrowser(notFound))
	mux.Head("/", redirectBrowser(notFound))
	mux.MethodNotAllowed(s.rejectUnrouted(func(w http.ResponseWriter, r *http.Request) error {
		methods := allowedMethods(mux, r)
		w.Header().Set("Allow", strings.Join(methods, ", "))
		return fault.New(fault.Invalid, fault.MethodNotAllowed, fault.NothingWritten,
			"This path does not take %s.", ClipText(r.Method)).
			WithAdvice("It takes %s.", strings.Join(methods, ", "))
	}))
	s.serveDocs(mux)
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

// RequestID returns the id of a request in the log.
func RequestID(r *http.Request) string {
	s, _ := r.Context().Value(requestIDKey).(string)
	return s
}

// servedRoute returns the route that serves a request, and an empty one before the router chose it.
func servedRoute(r *http.Request) Route {
	if served, ok := r.Context().Value(routeKey).(*Route); ok {
		return *served
	}
	return Route{}
}

// middleware wraps every request. It adds the request's id, a deadline, a recovery from panics, and
// the headers of every answer.
func (s *server) middleware(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A request is completed even if its caller has left. A half-decided payment would help
		// neither side, and a replay returns the outcome.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), requestTimeout)
		defer cancel()
		name := id.New("req", s.conf.DB.Clock()())
		ctx = context.WithValue(context.WithValue(ctx, requestIDKey, name), routeKey, &Route{})
		r = r.WithContext(ctx)
		// The router gets one form of path: escaped, so that a customer id may contain a slash.
		// Routes unescape their own parameters.
		r.URL.RawPath = r.URL.EscapedPath()

		if s.conf.Observe != nil {
			observed, answered := s.conf.Observe(r.Context())
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
				s.log.LogAttrs(ctx, slog.LevelError, "request panicked", slog.String("requestId", name),
					slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Any("panic", p),
					slog.String("stack", string(debug.Stack())))
				writeJSON(w, http.StatusInternalServerError, s.surface.problemBody(
					newInternalFault(r.Method, nil, s.surface.retryAdvice(servedRoute(r))), name))
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

// rejectUnrouted answers requests that no route matches. Under the prefix the key is checked first,
// as everywhere: a caller without one learns nothing about the paths.
func (s *server) rejectUnrouted(explain func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := explain(w, r)
		if strings.HasPrefix(r.URL.Path, PathPrefix+"/") {
			c := &Request{Request: r, server: s, AnswerHeader: w.Header()}
			refused := s.authenticate(w, c)
			if refused == nil && c.caller.Tenant() != "" {
				refused = s.checkRate(c)
			}
			if refused != nil {
				w.Header().Del("Allow")
				err = refused
			}
		}
		s.writeError(w, r, err)
	}
}

// suggestPath returns the path that was probably meant by an unknown one, or "" if none is near. It
// handles a missing /v1, an extra slash, and a misspelled word. It takes the values of parameters
// unchanged. Rule REQ-10.
func (s *Surface) suggestPath(path string) string {
	const pathBytesMax = 256
	if len(path) > pathBytesMax {
		return ""
	}
	words := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	if len(words) > 0 && "/"+strings.ToLower(words[0]) == PathPrefix {
		words = words[1:]
	}
	best, bestLetters := "", 0
	for _, rt := range s.Routes {
		candidate, letters := rt.similarPath(words)
		if candidate != "" && (best == "" || letters < bestLetters) {
			best, bestLetters = candidate, letters
		}
	}
	if best == "" || PathPrefix+best == path {
		return ""
	}
	return PathPrefix + best
}

// similarPath returns the route's path with the given words as its parameters, and the number of
// letters that differ in the other words. It returns "" if a word is a different one.
func (rt Route) similarPath(words []string) (path string, letters int) {
	parts := strings.Split(rt.Path[1:], "/")
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
