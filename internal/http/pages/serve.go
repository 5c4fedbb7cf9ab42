package pages

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// csvSuffix makes the path of a page that of its table.
const csvSuffix = ".csv"

// ImageSuffix makes the path of a page that of its image.
const ImageSuffix = "/image"

// NextParameter is the query parameter that names the page to which sign-in leads back.
var NextParameter = kernel.Parameter{Name: "next", Kind: kernel.TextParameter, Max: 1024}

// middleware wraps every request: its id, its deadline, the headers of every answer, the recovery from
// panics, and the refusal of forms from other origins. Rule PAGE-1.
func (s *server) middleware(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == s.surface.Prefix+livePath && r.Method == http.MethodGet {
			s.setHeaders(w.Header())
			s.serveLive(w, r) // It has no deadline, and ends when the browser leaves.
			return
		}
		// An act is completed even if its user has left: the page shows what it did.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), requestTimeout)
		defer cancel()
		requestID := id.New("req", s.conf.DB.Clock()())
		ctx = context.WithValue(ctx, requestIDKey{}, requestID)
		recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		if s.conf.Observe != nil {
			observed, answered := s.conf.Observe(ctx)
			ctx = observed
			defer func() { answered(r.Method, recorder.route, recorder.status) }()
		}
		w, r = recorder, r.WithContext(ctx)
		r.URL.RawPath = r.URL.EscapedPath()
		s.setHeaders(w.Header())
		w.Header().Set("X-Request-Id", requestID)
		defer func() {
			if p := recover(); p == http.ErrAbortHandler {
				panic(p) // the server cuts the connection
			} else if p != nil {
				s.log.LogAttrs(ctx, slog.LevelError, "page panicked", slog.String("requestId", requestID),
					slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Any("panic", p),
					slog.String("stack", string(debug.Stack())))
				s.refuse(w, &Request{Request: r, ID: requestID, server: s}, newInternal(r.Method, nil))
			}
		}()
		if s.isByAddress(r) && isRead(r.Method) {
			http.Redirect(w, r, s.conf.Origin.Scheme+"://"+s.conf.Origin.Host+r.URL.RequestURI(),
				http.StatusTemporaryRedirect)
			return
		}
		if err := s.origins.Check(r); err != nil {
			s.refuse(w, s.newRequest(w, r, Page{}), fault.New(
				fault.Forbidden, fault.InvalidRequest, fault.NothingWritten,
				"Another page tried to send a form here in your name."))
			return
		}
		inner.ServeHTTP(w, r)
	})
}

type requestIDKey struct{}

func isRead(method string) bool { return method == http.MethodGet || method == http.MethodHead }

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

func (s *server) newRequest(w http.ResponseWriter, r *http.Request, p Page) *Request {
	requestID, _ := r.Context().Value(requestIDKey{}).(string)
	if recorder, ok := w.(*statusRecorder); ok && p.Load != nil {
		recorder.route = s.routePath(p)
	}
	return &Request{
		Request: r, ID: requestID, Now: s.conf.DB.Clock()(), server: s, page: p, answer: w.Header(),
	}
}

// open runs the checks that pages, tables and acts share. It answers itself and returns nil if one
// fails.
func (s *server) open(w http.ResponseWriter, r *http.Request, p Page) *Request {
	if s.surface.ReadsReplica && p.Access == Members && isRead(r.Method) {
		r = r.WithContext(s.conf.DB.BeginReads(r.Context()))
	}
	req := s.newRequest(w, r, p)
	// It comes before the position of the session: a change that it counts is then in what the page shows.
	req.position = s.position(p)
	if token := readCookie(r, s.surface.SessionCookie); token != "" {
		find := s.surface.FindSession
		if r.Header.Get(LiveHeader) != "" && isRead(r.Method) {
			find = s.surface.LookAtSession
		}
		found, err := find(r.Context(), seal.NewSecret(token))
		if err != nil && !fault.HasCode(err, fault.CodeUnauthorized) {
			s.refuse(w, req, err)
			return nil
		}
		if err == nil {
			pg.UsePosition(r.Context(), found.Position)
			req.Session = &found
			req.Form.HasPasskey, req.Form.IsCodeless = found.HasPasskey, found.HasPasskey && !found.HasTOTP
		}
	}
	if err := s.checkRate(req); err != nil {
		s.refuse(w, req, err)
		return nil
	}
	if p.Access != Everyone {
		switch {
		case req.Session == nil:
			s.leadToSignIn(w, req, s.surface.SignInPath)
			return nil
		case s.surface.ContinuePath(*req.Session) != "":
			s.leadToSignIn(w, req, s.surface.ContinuePath(*req.Session))
			return nil
		}
		req.Request = r.WithContext(s.conf.DB.WithShare(r.Context(), req.tenant(), turnMax))
	}
	if p.Access == Members && !p.allows(req.Session, p.Action) {
		s.refuse(w, req, newRoleMissing(req.Session, p.Action))
		return nil
	}
	query, err := kernel.ReadQuery(withoutEmpty(req.Request), p.Query)
	if err != nil {
		s.refuse(w, req, err)
		return nil
	}
	req.Query = query
	return req
}

// newRoleMissing refuses a person whose roles do not allow an action. It names the roles that do.
// Rule PAGE-6.
func newRoleMissing(found *session.Session, action identity.Action) *fault.Fault {
	advice := "Ask a person of your organization who has it."
	if found != nil && found.Operator.ID != "" {
		advice = "Ask an operator who has it."
	}
	return fault.New(fault.Forbidden, fault.ScopeMissing, fault.NothingWritten,
		"This needs the role %s, and you do not have it.", roleNames(found, action)).WithAdvice("%s", advice)
}

// leadToSignIn leads a visitor without a session to sign-in, which leads back to the page. The page of a
// form is shown again, and its form is not sent. Rule PAGE-7.
func (s *server) leadToSignIn(w http.ResponseWriter, r *Request, target string) {
	path := r.URL.RequestURI()
	if !isRead(r.Method) {
		path = rootOr(path[:strings.LastIndexByte(path, '/')])
	}
	http.Redirect(w, r.Request, target+"?"+url.Values{NextParameter.Name: {path}}.Encode(),
		http.StatusSeeOther)
}

func (s *server) handlePage(p Page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if req := s.open(w, r, p); req != nil {
			s.loadPage(w, req, http.StatusOK)
		}
	}
}

// loadPage loads a page and writes it.
func (s *server) loadPage(w http.ResponseWriter, r *Request, status int) {
	main, err := r.page.Load(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	if redirect, ok := main.(redirection); ok {
		http.Redirect(w, r.Request, string(redirect), http.StatusSeeOther)
		return
	}
	s.render(w, r, status, r.page.Title, main)
}

// redirection is a page that leads to another one.
type redirection string

// Render is never called: loadPage redirects.
func (redirection) Render(context.Context, io.Writer) error { return nil }

// RedirectTo returns the content of a page that leads to another path of the surface.
func RedirectTo(path string) templ.Component { return redirection(path) }

// render writes a page within its frame.
func (s *server) render(w http.ResponseWriter, r *Request, status int, title string, main templ.Component) {
	frame := ui.Frame{
		Product: s.surface.Name, Title: title, Prefix: s.homePath(), Assets: s.assets.paths,
		Menu: s.menuFor(r.Session, r.page), Main: main, LivePath: s.livePathOf(r, r.position),
	}
	if found := r.Session; found != nil && found.IsOpen() && r.page.Access != Everyone {
		frame.Person = &ui.Person{
			Name: found.Member.Name, Email: found.Member.Email, OrgName: found.OrgName,
			Roles:        RoleNames(found.Member.Roles),
			SecurityPath: s.surface.SecurityPath, SignOutPath: s.surface.SignOutPath,
		}
		if person := found.Operator; person.ID != "" {
			frame.Person.Name, frame.Person.Email = person.Name, person.Email
			frame.Person.OrgName, frame.Person.Roles = "All organizations", RoleNames(person.Roles)
		}
	}
	if found := r.Session; frame.Person != nil {
		s.describeStepUp(r, *found, &frame)
		if s.surface.FindNotices != nil {
			frame.Notices = s.surface.FindNotices(r)
		}
	}
	var body bytes.Buffer
	if err := ui.Page(frame).Render(r.Context(), &body); err != nil {
		panic("pages: cannot write a page: " + err.Error())
	}
	writeDocument(w, r.Request, status, body.Bytes())
}

// describeStepUp tells the frame of a page what holds for the second factors of its forms. Rules PAGE-30 and
// PAGE-31.
func (s *server) describeStepUp(r *Request, found session.Session, frame *ui.Frame) {
	if found.IsRestricted(r.Now) {
		endsAt := r.Moment(found.Account.RestrictedUntil)
		frame.RestrictedUntil = &endsAt
	}
	if slices.ContainsFunc(r.page.Acts, func(a Act) bool { return a.needsFresh() && r.IsAllowed(a.Action) }) {
		frame.StepUp = &ui.StepUp{IsFresh: found.HasFreshFactor(r.Now), EndsAt: r.Moment(found.SudoUntil)}
	}
}

// handleCSV writes the rows of a page as a table.
func (s *server) handleCSV(p Page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		req := s.open(w, r, p)
		if req == nil {
			return
		}
		if !p.allows(req.Session, p.tableAction) {
			s.refuse(w, req, newRoleMissing(req.Session, p.tableAction))
			return
		}
		release, err := s.tables.Acquire(req.tenant())
		if err != nil {
			s.refuse(w, req, err)
			return
		}
		defer release()
		name := strings.Trim(strings.NewReplacer("/", "-", "{", "", "}", "").Replace(p.Path), "-")
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		w.Header().Set("Content-Disposition", `attachment; filename="`+name+`.csv"`)
		stream := &kernel.StreamWriter{ResponseWriter: w, Status: http.StatusOK}
		if err := p.WriteCSV(req, stream); err != nil && !stream.Begun {
			w.Header().Del("Content-Disposition")
			s.refuse(w, req, err)
		} else if err != nil {
			s.log.LogAttrs(r.Context(), slog.LevelError, "table ended early", slog.String("requestId", req.ID),
				slog.Any("error", err))
			panic(http.ErrAbortHandler)
		}
	}
}

// handleFile serves a document of a page. Its slot is one of those of tables. Rule PAGE-97.
func (s *server) handleFile(p Page, file File) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		req := s.open(w, r, p)
		if req == nil {
			return
		}
		release, err := s.tables.Acquire(req.tenant())
		if err != nil {
			s.refuse(w, req, err)
			return
		}
		defer release()
		name, write, err := file.Load(req)
		if err != nil {
			s.refuse(w, req, err)
			return
		}
		disposition := "attachment"
		if file.Policy != "" {
			disposition = "inline"
			w.Header().Set("Content-Security-Policy", file.Policy+"; frame-ancestors 'none'")
		}
		w.Header().Set("Content-Type", file.ContentType)
		w.Header().Set("Content-Disposition", disposition+`; filename="`+name+file.Suffix+`"`)
		if err := write(w); err != nil {
			s.log.LogAttrs(r.Context(), slog.LevelError, "document ended early", slog.String("requestId", req.ID),
				slog.Any("error", err))
			panic(http.ErrAbortHandler)
		}
	}
}

// handleImage serves the image of a page. A browser takes it for nothing else than what its type says, and runs
// nothing of it. Rule PAGE-82.
func (s *server) handleImage(p Page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		req := s.open(w, r, p)
		if req == nil {
			return
		}
		mediaType, content, err := p.LoadImage(req)
		if err != nil {
			s.refuse(w, req, err)
			return
		}
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("Content-Security-Policy", imagePolicy)
		_, _ = w.Write(content) // The browser is gone.
	}
}

// handleUnrouted answers paths that no page has.
func (s *server) handleUnrouted() http.HandlerFunc {
	unknown := Page{Access: SignedIn}
	return func(w http.ResponseWriter, r *http.Request) {
		if req := s.open(w, r, unknown); req != nil {
			s.refuse(w, req, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
				"There is no page at this address."))
		}
	}
}

// handleAct carries out an act: it reads the form strictly, verifies the second factor last, and
// redirects to the page that shows the result.
func (s *server) handleAct(p Page, act Act) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		req := s.open(w, r, p)
		if req == nil {
			return
		}
		if !req.IsAllowed(act.Action) {
			s.refuseAct(w, req, act, newRoleMissing(req.Session, act.Action))
			return
		}
		proof, err := s.readForm(w, req, act)
		if err != nil {
			s.refuseAct(w, req, act, err)
			return
		}
		if req.Session != nil {
			defer s.queues.enter(req.Session.ID)()
		}
		path, err := s.runAct(req, act, proof)
		var refused proofError
		switch {
		case err == nil && req.data != nil:
			writeData(w, http.StatusOK, req.data)
			return
		case err != nil && act.Data:
			s.refuseData(w, req, err)
			return
		case errors.Is(err, errStepUp):
			s.askFactor(w, req, act, nil)
			return
		case errors.As(err, &refused) && session.IsRefusal(err) && !signin.IsRefused(err):
			s.leadToSignIn(w, req, s.surface.SignInPath) // The session ended meanwhile.
			return
		case errors.As(err, &refused) && !act.hasSecret():
			s.askFactor(w, req, act, refused.cause)
			return
		case errors.As(err, &refused):
			err = atCode(refused.cause) // The form has the field itself.
		case err == nil && req.shown != nil:
			s.render(w, req, http.StatusOK, p.Title, req.shown)
			return
		case err == nil:
			http.Redirect(w, r, path, http.StatusSeeOther)
			return
		}
		path, err = s.findDone(req, act, err)
		switch {
		case path != "":
			http.Redirect(w, r, path, http.StatusSeeOther)
		case fault.HasCode(err, fault.IdempotencyConflict):
			s.refuse(w, req, err) // The form is used up, so it does not come back.
		default:
			s.returnForm(w, req, act, err)
		}
	}
}

// atCode puts a refusal of a second factor to its field.
func atCode(err error) error {
	if f := fault.Find(err); f != nil && signin.IsRefused(err) {
		return f.WithParam(ui.CodeName)
	}
	return err
}

// refuseAct refuses a form that is not read or not allowed.
func (s *server) refuseAct(w http.ResponseWriter, r *Request, act Act, err error) {
	if act.Data {
		s.refuseData(w, r, err)
		return
	}
	s.refuse(w, r, err)
}

// findDone returns the page that shows the decision that stands already, and "" with the refusal of the
// act without one. Rules PAGE-3 and PAGE-15.
func (s *server) findDone(r *Request, act Act, refusal error) (path string, err error) {
	if act.FindDone == nil {
		return "", refusal
	}
	path, err = act.FindDone(r)
	if fault.HasCode(err, fault.IdempotencyConflict) {
		return "", err // It says more than that of the feature: it knows the page of the first request.
	}
	if err != nil {
		return "", refusal
	}
	return path, refusal
}

func (s *server) runAct(r *Request, act Act, proof signin.Proof) (path string, err error) {
	if act.FindDone != nil {
		if path, err = act.FindDone(r); path != "" || err != nil {
			return path, err
		}
	}
	if len(r.Form.Errors) > 0 {
		return "", errFields
	}
	if err := s.confirm(r, act, proof); err != nil {
		return "", err
	}
	return act.Run(r)
}

// returnForm shows the page again with what the user typed and with what was wrong.
func (s *server) returnForm(w http.ResponseWriter, r *Request, act Act, err error) {
	refusal, status := s.describe(r, err)
	r.Form.Act = act.Name
	if refusal.LinkPath == s.lookPath(r) && status < http.StatusInternalServerError {
		refusal.LinkPath = "" // The page is shown below.
	}
	if status < http.StatusInternalServerError {
		if f := fault.Find(err); f != nil && hasField(act, f.Param) {
			r.Form.Errors[f.Param] = fieldError(f)
		} else if err != errFields {
			r.Form.Refusal = &refusal
		}
	} else {
		r.Form.Refusal = &refusal
	}
	main, loadErr := r.page.Load(r)
	if loadErr != nil {
		s.render(w, r, status, refusal.Heading, ui.Refused(refusal))
		return
	}
	s.render(w, r, status, r.page.Title, main)
}

// refuse answers with a page that only says why.
func (s *server) refuse(w http.ResponseWriter, r *Request, err error) {
	refusal, status := s.describe(r, err)
	if r.answer != nil && r.answer.Get("Retry-After") == "" && status == http.StatusServiceUnavailable {
		r.answer.Set("Retry-After", "1")
	}
	s.render(w, r, status, refusal.Heading, ui.Refused(refusal))
}
