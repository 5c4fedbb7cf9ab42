package kernel

import (
	"cmp"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Caller is who holds the presented key.
type Caller interface {
	// CallerID names the caller against whose rate and share of connections a call counts.
	CallerID() string
	// Tenant is the organization whose data the caller sees, and "" for all of them. A cursor is
	// bound to it.
	Tenant() string
	// Authorize refuses an action that the key may not take. Rule KEY-2.
	Authorize(action identity.Action) *fault.Fault
}

// Request is a request that passed the checks that all routes share.
type Request struct {
	*http.Request
	Query        Query
	Body         []byte      // complete, and nil on a route without a body
	AnswerHeader http.Header // further headers of the answer

	server *server
	route  Route
	caller Caller // nil on a route without a key
	table  bool   // the caller asks for CSV, and the route supports it
	file   *File  // that the path asks for
	// counted says that the request was counted against its rate.
	counted bool
	allowed bool // and the rate allowed it
	status  int  // 0: the first one that the route has
	// The writer of the server, which closes a connection after a body that is too large.
	serverWriter http.ResponseWriter
}

// Call is a request with the caller that a surface has found.
type Call[C Caller] struct {
	*Request
	Caller C // the zero value on a route without a key
}

func callOf[C Caller](r *Request) *Call[C] {
	caller, _ := r.caller.(C)
	return &Call[C]{r, caller}
}

// PathParam returns a parameter of the path, or "" if it cannot be unescaped.
func (c *Request) PathParam(name string) string {
	s, err := url.PathUnescape(chi.URLParam(c.Request, name))
	if err != nil {
		return ""
	}
	if c.file != nil {
		return strings.TrimSuffix(s, c.file.Suffix)
	}
	return s
}

// HasTable reports whether the body is a table, on a route that takes one.
func (c *Request) HasTable() bool {
	return c.route.Handler.serveTable != nil && hasTableType(c.Request)
}

// AnswerWith chooses among the statuses that the route has.
func (c *Request) AnswerWith(status int) { c.status = status }

// ClientAddr returns the address from which the request came.
func (c *Request) ClientAddr() netip.Addr { return c.server.conf.Proxies.ClientAddr(c.Request) }

// answer is a success.
type answer struct {
	body any    // encoded as JSON; nil for none
	raw  []byte // already encoded, instead of body
	// stream writes a table instead of body and raw. An error before the first byte is answered like
	// any other. A later error cuts the connection, so that the reader notices that data is missing.
	stream      func(io.Writer) error
	contentType string // of stream; "" is a table
}

// serveRoute runs the checks that all routes share, in this order: key, known idempotency key where
// the route has Answered, scope, rate, query, and then the body's type, size, syntax and fields.
func (s *server) serveRoute(rt Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serverWriter := w
		if served, ok := r.Context().Value(routeKey).(*Route); ok {
			*served = rt
		}
		if recorder, observed := w.(*statusRecorder); observed {
			recorder.route, serverWriter = PathPrefix+rt.Path, recorder.ResponseWriter
		}
		c := &Request{
			Request: r, server: s, route: rt, serverWriter: serverWriter, AnswerHeader: w.Header(),
			table: rt.hasTable() && wantsCSV(r), file: rt.fileOf(r.URL.Path),
		}
		result, err := s.answerRoute(w, c)
		// An invalid request of a route that checks its rate itself counts like any other. Only the
		// answer to a known idempotency key is free.
		if f := fault.Find(err); rt.LimitsItself && c.caller != nil && f != nil && f.Kind == fault.Invalid {
			if limited := c.CheckScopeAndRate(); limited != nil {
				err = limited
			}
		}
		if rt.Answered != nil && c.caller != nil && isFinal(err) {
			// Another request may have used the key since it was looked up.
			if late, isKnown, lookErr := rt.Answered(c); lookErr == nil && isKnown {
				result, err = late, nil
			}
		}
		status := cmp.Or(c.status, rt.firstStatus())
		switch {
		case err != nil:
			s.writeError(w, r, err)
		case result.stream != nil:
			w.Header().Set("Content-Type", cmp.Or(result.contentType, "text/csv; charset=utf-8"))
			streamed := &StreamWriter{ResponseWriter: w, Status: status}
			if err := result.stream(streamed); err != nil && !streamed.Begun {
				w.Header().Del("Content-Disposition")
				s.writeError(w, r, err)
			} else if err != nil {
				s.log.LogAttrs(r.Context(), slog.LevelError, "answer ended early",
					slog.String("requestId", RequestID(r)), slog.Any("error", err))
				panic(http.ErrAbortHandler)
			}
		case result.raw != nil:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write(result.raw)
		case result.body == nil || !hasBody(status):
			w.WriteHeader(status)
		default:
			writeJSON(w, status, result.body)
		}
	})
}

// isFinal reports whether an error is a refusal that speaks of the request. One of its rate says nothing.
func isFinal(err error) bool {
	f := fault.Find(err)
	return f != nil && f.Kind != fault.Limited && HTTPStatus(f) < http.StatusInternalServerError
}

func (s *server) answerRoute(w http.ResponseWriter, c *Request) (result answer, err error) {
	rt := c.route
	var bodyErr error // of a body that was read before it was checked
	if !rt.NeedsNoKey {
		if rt.Method == http.MethodGet {
			c.Request = c.WithContext(s.conf.DB.BeginReads(c.Context()))
		}
		if err = s.authenticate(w, c); err != nil {
			return result, err
		}
		if positioned, ok := c.caller.(interface{ Position() pg.Position }); ok {
			pg.UsePosition(c.Context(), positioned.Position())
		}
		// A replay does not count against the rates, but it too stays within the caller's
		// share of connections.
		c.Request = c.WithContext(s.conf.DB.WithShare(c.Context(), c.caller.CallerID(),
			cmp.Or(s.conf.TurnMax, turnMaxDefault)))
		if rt.Answered != nil {
			c.Body, bodyErr = rt.readBytes(c.serverWriter, c.Request)
			var isKnown bool
			if result, isKnown, err = rt.Answered(c); err != nil || isKnown {
				return result, err
			}
		}
		if !rt.LimitsItself {
			if err = c.CheckScopeAndRate(); err != nil {
				return result, err
			}
		}
		if rt.BeforeRead != nil {
			if err = rt.BeforeRead(c); err != nil {
				return result, err
			}
		}
		if s.surface.BeforeRead != nil {
			if err = s.surface.BeforeRead(c.Request, c.caller, rt); err != nil {
				return result, err
			}
		}
	}
	if rt.jsonOnly() && c.file == nil && wantsCSV(c.Request) {
		return result, fault.New(fault.Invalid, fault.NotAcceptable, fault.ReadOnly,
			"This call returns JSON only, not a table.").
			WithAdvice("Leave the header Accept out, or send Accept: application/json.")
	}
	if c.Query, err = ReadQuery(c.Request, rt.Query); err != nil {
		return result, err
	}
	switch {
	case rt.Answered == nil:
	case !rt.takesType(c.Request):
		return result, rt.newUnsupportedBody()
	case bodyErr != nil:
		return result, bodyErr
	}
	if rt.Handler.request != nil && c.Body == nil {
		if c.Body, err = rt.readBody(c.serverWriter, c.Request); err != nil {
			return result, err
		}
	}
	if rt.Before != nil {
		if err = rt.Before(c); err != nil {
			return result, err
		}
	}
	if c.file != nil {
		return c.file.open(c)
	}
	if c.table {
		return rt.Table(c)
	}
	if c.HasTable() {
		return rt.Handler.serveTable(c)
	}
	return rt.Handler.serve(c)
}

// authenticate finds the caller of a request or refuses it. Rule AUTH-1.
func (s *server) authenticate(w http.ResponseWriter, c *Request) error {
	// An absent key takes the same path, and the same time, as a wrong one.
	caller, err := s.surface.Authenticate(c, presentedKey(c.Request, s.surface.Header))
	if fault.HasCode(err, fault.CodeUnauthorized) {
		if limited := s.checkFailureRate(c.Request, w.Header()); limited != nil {
			return limited
		}
		err = s.surface.explainKeyRefusal(c.Request, err)
	}
	if err != nil {
		return err
	}
	c.caller = caller
	return nil
}

// CheckScopeAndRate checks the scope of the key, then the rate. It comes before everything else
// that can refuse an admitted request, and after the look-up of an idempotency key. A request
// without the scope is not counted, so it uses up the rate of no other key. Rule KEY-3.
func (c *Request) CheckScopeAndRate() error {
	err := c.checkScope()
	if fault.HasCode(err, fault.ScopeMissing) {
		return err
	}
	if limited := c.server.checkRate(c); limited != nil {
		return limited
	}
	return err
}

// checkScope refuses a key that may not take the action of the route, or of a field of the body. It
// reads the body only where its fields decide. Rule KEY-2.
func (c *Request) checkScope() (err error) {
	if f := c.caller.Authorize(c.route.Action); f != nil {
		return f
	}
	for _, field := range SortedKeys(c.route.FieldActions) {
		refused := c.caller.Authorize(c.route.FieldActions[field])
		if refused == nil {
			continue
		}
		if c.Body == nil {
			if c.Body, err = c.route.readBody(c.serverWriter, c.Request); err != nil {
				return err
			}
		}
		if c.HasMember(field) {
			return refused.WithParam(field)
		}
	}
	return nil
}

// checkAddress refuses callers from other addresses before it looks at a key. A caller from
// elsewhere therefore cannot find out whether a key is valid. Rule OP-1.
func (s *server) checkAddress(inner http.Handler) http.Handler {
	if s.surface.CheckAddress == nil {
		return inner
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		addr := peer.Addr().Unmap().WithZone("")
		if s.conf.Proxies.IsTrusted(addr) {
			addr = s.conf.Proxies.ClientAddr(r)
		}
		if err != nil {
			addr = netip.Addr{}
		}
		if err := s.surface.CheckAddress(addr); err != nil {
			s.writeError(w, r, err)
			return
		}
		inner.ServeHTTP(w, r)
	})
}
