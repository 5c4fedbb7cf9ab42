package signinpages

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a-h/templ"
	"github.com/pquerna/otp/totp"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/identity/password"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/platform/mail"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

const (
	goodPassword = "a long sentence that is hard to guess"
	restriction  = 24 * time.Hour
	// memberPrefix is that of the members' pages; those of operators have none.
	memberPrefix = "/dashboard"
)

// testEnv is the sign-in of both sides on a real database, each with a page of its own.
type testEnv struct {
	t                  testing.TB
	db                 *pg.DB
	hasher             *password.Hasher
	org                org.Organization
	members, operators *side

	reports atomic.Int64 // of the browsers' policy

	mu    sync.Mutex
	ahead time.Duration // of the real time: codes of an authenticator app count once
	sent  []mail.Message
	logs  strings.Builder
}

// side is the pages of one side.
type side struct {
	h        *testEnv
	service  *signin.Service
	surface  pages.Surface // of the server
	server   *httptest.Server
	base     string // the origin
	prefix   string
	cookie   string                    // of sessions
	decided  atomic.Int64              // how often the act with its own factor ran
	changed  atomic.Int64              // how often the act with a factor of the last ten minutes ran
	received atomic.Pointer[[2]string] // what the last of these got
}

// Write keeps the log.
func (h *testEnv) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.logs.Write(p)
}

// Queue keeps a mail.
func (h *testEnv) Queue(_ context.Context, _ pg.Tx, message mail.Message) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent = append(h.sent, message)
	return nil
}

// mailsOf returns the mails of a kind.
func (h *testEnv) mailsOf(kind string) (found []mail.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.sent {
		if m.Kind == kind {
			found = append(found, m)
		}
	}
	return found
}

// now is the clock of the database and of sign-in.
func (h *testEnv) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Add(h.ahead)
}

// pass lets time pass.
func (h *testEnv) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ahead += d
}

func newTestEnv(t testing.TB) *testEnv {
	t.Helper()
	h := &testEnv{t: t, hasher: password.NewHasher(password.Params{MemoryKiB: 64, Passes: 1})}
	h.db = pgtest.NewWithClock(t, h.now)
	made, _, err := org.Create(t.Context(), h.db, "Example Marketplace")
	if err != nil {
		t.Fatal(err)
	}
	h.org = made
	file := filepath.Join(t.TempDir(), "seal")
	if err := seal.CreateKeyset(file); err != nil {
		t.Fatal(err)
	}
	keys, err := seal.OpenKeyset(file)
	if err != nil {
		t.Fatal(err)
	}
	h.members = h.newSide(keys, account.MemberSide, memberPrefix, identity.ReadOrganization, identity.DecideWithdrawal,
		identity.ManageKeys)
	h.operators = h.newSide(keys, account.OperatorSide, "", identity.ReadInstallation, identity.FreezePayments,
		identity.EditLocalRisk)
	return h
}

// newSide serves the pages of a side: those of sign-in, a first page, and one page with acts.
func (h *testEnv) newSide(
	keys *seal.Keyset, which account.Side, prefix string, read, decide, change identity.Action,
) *side {
	s := &side{h: h, prefix: prefix, server: httptest.NewUnstartedServer(nil), cookie: pages.SessionCookie}
	if which == account.OperatorSide {
		s.cookie = pages.OperatorSessionCookie
	}
	s.base = "http://localhost:" + strings.Split(s.server.Listener.Addr().String(), ":")[1]
	var err error
	s.service, err = signin.NewService(signin.Config{
		DB: h.db, Keys: keys, Hasher: h.hasher, Mailer: h, Side: which, Site: "localhost", Origin: s.base,
		Issuer: "Coffer", InvitationURL: s.base + prefix + InvitationLink, DeviceURL: s.base + prefix + DeviceLink,
		Restriction: restriction,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	origin, err := url.Parse(s.base)
	if err != nil {
		h.t.Fatal(err)
	}
	s.surface = Mount(pages.Surface{
		Name: "Coffer", Prefix: prefix, Groups: []string{""},
		Pages: []pages.Page{s.firstPage(read), s.thingPage(read, decide, change)},
	}, s.service)
	s.server.Config.Handler = pages.New(s.surface, pages.Config{
		DB: h.db, Origin: origin, CursorKey: []byte("the key of the cursors of this test"),
		Proxies: kernel.Proxies{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
		Log:     slog.New(slog.NewTextHandler(h, nil)), CountReport: func() { h.reports.Add(1) },
	})
	s.server.Start()
	h.t.Cleanup(s.server.Close)
	return s
}

func (s *side) firstPage(read identity.Action) pages.Page {
	return pages.Page{
		Path: "/", Title: "First page", Action: read, Icon: "home",
		Load: func(r *pages.Request) (templ.Component, error) {
			return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
				if err := ui.Heading("First page", "").Render(ctx, w); err != nil {
					return err
				}
				return ui.When(r.Moment(time.Date(2027, 1, 5, 23, 30, 0, 0, time.UTC))).Render(ctx, w)
			}), nil
		},
		WriteCSV: func(r *pages.Request, w *kernel.StreamWriter) error {
			_, err := w.Write([]byte("name\r\n" + r.Title() + "\r\n"))
			return err
		},
	}
}

// thingPage has an act of each kind of step-up.
func (s *side) thingPage(read, decide, change identity.Action) pages.Page {
	value := pages.Field{Name: "value", BytesMax: 100, Missing: "Enter a value."}
	took := func(r *pages.Request) (string, error) {
		s.changed.Add(1)
		s.received.Store(&[2]string{r.Values["value"], r.Values["box"]})
		return r.Path("things", r.PathParam("thingId")), nil
	}
	digest := pages.Field{Name: "digest", BytesMax: 64, Missing: "Open the page again."}
	return pages.Page{
		Path: "/things/{thingId}", Title: "A thing", Action: read,
		Load: func(r *pages.Request) (templ.Component, error) {
			if strings.Contains(r.PathParam("thingId"), ".") {
				return nil, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten, "no such thing")
			}
			return s.thing(r), nil
		},
		Acts: []pages.Act{
			{
				Name: "decide", Action: decide, StepUp: pages.ActStepUp,
				Fields: []pages.Field{digest},
				Run: func(r *pages.Request) (string, error) {
					s.decided.Add(1)
					return r.Path("things", r.PathParam("thingId")), nil
				},
			},
			{
				Name: "refuse", Action: decide, StepUp: pages.ActStepUp, Fields: []pages.Field{digest}, Run: took,
			},
			{
				Name: "change", Action: change, StepUp: pages.SudoStepUp,
				Fields: []pages.Field{value, {Name: "box", BytesMax: 10, Optional: true, Checkbox: true}}, Run: took,
			},
			{
				Name: "hide", Action: change, StepUp: pages.SudoStepUp,
				Fields: []pages.Field{{Name: "value", BytesMax: 100, Secret: true, Missing: "Enter a value."}},
				Run:    took,
			},
		},
	}
}

// thing writes the forms of the page.
func (s *side) thing(r *pages.Request) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		path := r.Path("things", r.PathParam("thingId"))
		text := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
		text(`<h1>A thing</h1><p id="counts">decided %d, changed %d</p>`, s.decided.Load(), s.changed.Load())
		text(`<form class="stack" method="post" action="%s/decide">`, path)
		text(`<input type="hidden" name="digest" value="ab12">`)
		if err := ui.Summary(r.Form, "decide").Render(ctx, w); err != nil {
			return err
		}
		if err := ui.CodeField(r.Form, "decide").Render(ctx, w); err != nil {
			return err
		}
		text(`<button class="primary" type="submit">Decide</button></form>`)
		text(`<form class="stack" method="post" action="%s/change">`, path)
		if err := ui.Summary(r.Form, "change").Render(ctx, w); err != nil {
			return err
		}
		field := ui.Input{Act: "change", Name: "value", Label: "Value", Type: "text"}
		if err := ui.Field(r.Form, field).Render(ctx, w); err != nil {
			return err
		}
		text(`<button type="submit">Change</button></form>`)
		return nil
	})
}

// add adds a member with an invitation, and returns the member and the token of the link.
func (h *testEnv) add(email string, roles ...identity.Role) (member.Member, seal.Secret) {
	h.t.Helper()
	var added member.Member
	if err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		added, err = member.Add(ctx, tx, audit.System("test"), h.org.ID, email, "Person of the team", roles...)
		return err
	}); err != nil {
		h.t.Fatal(err)
	}
	_, token, err := signin.InviteFromTerminal(h.t.Context(), h.db, audit.System("test"), h.org.ID, email)
	if err != nil {
		h.t.Fatal(err)
	}
	return added, token
}

// addOperator invites an operator and returns the token of the link.
func (h *testEnv) addOperator(email string, roles ...operator.Role) seal.Secret {
	h.t.Helper()
	_, token, err := h.operators.service.InviteOperator(
		h.t.Context(), audit.System("test"), email, "Person of the console", roles, false,
	)
	if err != nil {
		h.t.Fatal(err)
	}
	return token
}

// reply is an answer that was read.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) want(t testing.TB, status int, texts ...string) reply {
	t.Helper()
	if r.status != status {
		t.Fatalf("got %d to %q, want %d: %s", r.status, r.header.Get("Location"), status, r.main())
	}
	for _, text := range texts {
		if !strings.Contains(r.body, text) {
			t.Errorf("got a page without %q:\n%s", text, r.main())
		}
	}
	return r
}

// main returns the content of a page without its frame.
func (r reply) main() string {
	if _, content, ok := strings.Cut(r.body, "<main"); ok {
		return content
	}
	return r.body
}

// visitor is a browser with its cookies.
type visitor struct {
	*side
	cookies map[string]string
	email   string
	secret  string // of the authenticator app
	addr    string // of the network; "" is that of the test
}

func (s *side) newVisitor() *visitor { return &visitor{side: s, cookies: map[string]string{}} }

// send sends a request as a browser does. A pair of headers "", value adds nothing.
func (v *visitor) send(method, path, body string, headers ...string) reply {
	t := v.h.t
	t.Helper()
	var content io.Reader
	if method == http.MethodPost {
		content = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, v.server.URL+path, content)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = strings.TrimPrefix(v.base, "http://")
	r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) Chrome/150.0 Safari/537.36")
	for name, value := range v.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	if v.addr != "" {
		r.Header.Set("X-Forwarded-For", v.addr)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{
		Timeout:       time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	got, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	raw, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got.StatusCode >= http.StatusInternalServerError {
		v.h.mu.Lock()
		defer v.h.mu.Unlock()
		t.Errorf("%s %s: got %d, want no error of ours; log: %s", method, path, got.StatusCode, v.h.logs.String())
	}
	for _, cookie := range got.Cookies() {
		if cookie.MaxAge < 0 {
			delete(v.cookies, cookie.Name)
		} else {
			v.cookies[cookie.Name] = cookie.Value
		}
	}
	return reply{got.StatusCode, got.Header, string(raw)}
}

// get requests a page of the side.
func (v *visitor) get(page string) reply {
	v.h.t.Helper()
	if page == "/" && v.prefix != "" {
		page = "" // the first page has the path of the surface
	}
	return v.send(http.MethodGet, v.prefix+page, "")
}

// post sends a form of the side.
func (v *visitor) post(page string, fields ...string) reply {
	v.h.t.Helper()
	return v.send(http.MethodPost, v.prefix+page, form(fields...))
}

func form(fields ...string) string {
	values := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		values.Add(fields[i], fields[i+1])
	}
	return values.Encode()
}

// code returns a code that was not used: it lets the time of a code pass.
func (v *visitor) code() string {
	v.h.t.Helper()
	v.h.pass(30 * time.Second)
	text, err := totp.GenerateCode(v.secret, v.h.now())
	if err != nil {
		v.h.t.Fatal(err)
	}
	return text
}

var secretText = regexp.MustCompile(`<p class="secret" translate="no">([A-Z2-7]+)</p>`)

// readSecret keeps the secret of an authenticator app that a page shows.
func (v *visitor) readSecret(body string) {
	v.h.t.Helper()
	found := secretText.FindStringSubmatch(body)
	if found == nil {
		v.h.t.Fatalf("got no secret: %s", body)
	}
	v.secret = found[1]
}

// accept accepts an invitation, and sets the authenticator app up.
func (v *visitor) accept(email string, token seal.Secret) *visitor {
	t := v.h.t
	t.Helper()
	v.email = email
	v.post(invitationPath+"/accept", "token", token.Reveal(), "name", "Ada Lovelace", "password", goodPassword).
		want(t, http.StatusSeeOther)
	v.readSecret(v.post(authenticatorPath+"/start", "next", "").want(t, http.StatusOK).body)
	v.post(authenticatorPath+"/confirm", "next", "", "code", v.code()).want(t, http.StatusSeeOther)
	return v
}

// join adds a member and lets them in.
func (h *testEnv) join(email string, roles ...identity.Role) *visitor {
	h.t.Helper()
	_, token := h.add(email, roles...)
	return h.members.newVisitor().accept(email, token)
}

// again signs the person in with another browser, or with the same one.
func (v *visitor) signIn(with *visitor) *visitor {
	t := v.h.t
	t.Helper()
	with.email, with.secret = v.email, v.secret
	with.post(signInPath+"/password", "email", v.email, "password", goodPassword, "next", "").
		want(t, http.StatusSeeOther)
	with.post(factorPath+"/confirm", "code", with.code(), "next", "").want(t, http.StatusSeeOther)
	return with
}

// wantCounts checks how often the acts of the page with acts ran.
func (s *side) wantCounts(t testing.TB, decided, changed int64) {
	t.Helper()
	if s.decided.Load() != decided || s.changed.Load() != changed {
		t.Errorf("got %d decisions and %d changes, want %d and %d", s.decided.Load(), s.changed.Load(), decided,
			changed)
	}
}
