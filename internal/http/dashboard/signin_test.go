package dashboard

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// The pages of package signinpages.
const (
	signInPath        = Prefix + "/sign-in"
	factorPath        = signInPath + "/factor"
	authenticatorPath = signInPath + "/authenticator"
	codesPath         = Prefix + "/security/recovery-codes"
)

const goodPassword = "a long sentence that is hard to guess"

// person is a browser with its cookies.
type person struct {
	h       *testEnv
	cookies map[string]string
	secret  string // of the authenticator app
}

func (h *testEnv) newPerson() *person { return &person{h: h, cookies: map[string]string{}} }

func (p *person) send(method, path string, fields ...string) reply {
	p.h.t.Helper()
	var pairs []string
	for name, value := range p.cookies {
		pairs = append(pairs, name+"="+value)
	}
	var body *strings.Reader
	values := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		values.Add(fields[i], fields[i+1])
	}
	body = strings.NewReader(values.Encode())
	var got reply
	if method == http.MethodGet {
		got = p.h.send("", method, path, nil, "Cookie", strings.Join(pairs, "; "))
	} else {
		got = p.h.send("", method, path, body, "Cookie", strings.Join(pairs, "; "))
	}
	for _, line := range got.header["Set-Cookie"] {
		cookie, err := http.ParseSetCookie(line)
		if err != nil {
			p.h.t.Fatal(err)
		}
		if !strings.HasPrefix(cookie.Name, "__Host-") || !cookie.HttpOnly || !cookie.Secure || cookie.Path != "/" ||
			cookie.Domain != "" || cookie.SameSite != http.SameSiteLaxMode {
			p.h.t.Errorf("got the cookie %s, want one that only this host gets, over TLS and without scripts", line)
		}
		if cookie.MaxAge < 0 {
			delete(p.cookies, cookie.Name)
		} else {
			p.cookies[cookie.Name] = cookie.Value
		}
	}
	return got
}

func (p *person) get(path string) reply {
	p.h.t.Helper()
	return p.send(http.MethodGet, path)
}

func (p *person) post(path string, fields ...string) reply {
	p.h.t.Helper()
	return p.send(http.MethodPost, path, fields...)
}

// code returns a code that was not used: it lets the time of a code pass.
func (p *person) code() string {
	p.h.t.Helper()
	p.h.pass(30 * time.Second)
	text, err := totp.GenerateCode(p.secret, p.h.now())
	if err != nil {
		p.h.t.Fatal(err)
	}
	return text
}

var secretText = regexp.MustCompile(`<p class="secret" translate="no">([A-Z2-7]+)</p>`)

// join invites a person and leads through the pages until the first one that shows anything.
func (h *testEnv) join(who tenant, role identity.Role) *person {
	h.t.Helper()
	_, token, err := signin.InviteFromTerminal(
		h.t.Context(), h.db, audit.System("test"), who.id, who.people[role].Email,
	)
	if err != nil {
		h.t.Fatal(err)
	}
	p := h.newPerson()
	p.get(InvitationPath+token.Reveal()).want(h.t, http.StatusOK, "Accept the invitation")
	p.post(Prefix+"/invitation/accept", "token", token.Reveal(), "name", "Ada Lovelace", "password", goodPassword).
		want(h.t, http.StatusSeeOther)
	p.enrol()
	return p
}

// enrol sets the authenticator app up.
func (p *person) enrol() {
	p.h.t.Helper()
	shown := p.post(authenticatorPath+"/start", "next", "").want(p.h.t, http.StatusOK)
	found := secretText.FindStringSubmatch(shown.body)
	if found == nil {
		p.h.t.Fatal("got no secret")
	}
	p.secret = found[1]
	p.post(authenticatorPath+"/confirm", "next", "", "code", p.code()).want(p.h.t, http.StatusSeeOther)
}

func TestAPersonIsInvitedAndSignsIn(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	_, token, err := signin.InviteFromTerminal(
		t.Context(), h.db, audit.System("test"), h.one.id, "approver@example.test",
	)
	if err != nil {
		t.Fatal(err)
	}
	p := h.newPerson()
	link := InvitationPath + token.Reveal()
	// A scanner of mail opens the link and changes nothing.
	for range 3 {
		p.get(link).want(t, http.StatusOK, "Join Example Marketplace", "approver@example.test", "Approver")
	}
	accept := Prefix + "/invitation/accept"
	p.post(accept, "token", token.Reveal(), "name", "Ada Lovelace", "password", "short").
		want(t, http.StatusBadRequest, "12 to 128 characters", `value="Ada Lovelace"`)
	p.post(accept, "token", token.Reveal(), "name", "", "password", goodPassword).
		want(t, http.StatusUnprocessableEntity, "Enter your name.")
	first := p.post(accept, "token", token.Reveal(), "name", "Ada Lovelace", "password", goodPassword).
		want(t, http.StatusSeeOther)
	if to := first.header.Get("Location"); !strings.HasPrefix(to, authenticatorPath) {
		t.Errorf("got a redirect to %q, want the page of the authenticator app", to)
	}
	// Without a second factor a person sees nothing.
	blocked := p.get(Prefix+"/approvals").want(t, http.StatusSeeOther)
	if to := blocked.header.Get("Location"); !strings.HasPrefix(to, authenticatorPath) {
		t.Errorf("got a redirect to %q, want the page of the authenticator app", to)
	}
	// A link works once.
	h.newPerson().get(link).want(t, http.StatusNotFound)
	p.enrol()
	if body := p.post(codesPath+"/make", "next", "").want(t, http.StatusOK).body; strings.Count(body, "<li>") < 10 {
		t.Error("got no ten recovery codes")
	}
	p.get(Prefix+"/approvals").want(t, http.StatusOK, "No withdrawal waits", "Approver Person")

	out := p.post(Prefix+"/security/sign-out").want(t, http.StatusSeeOther)
	if out.header.Get("Clear-Site-Data") == "" {
		t.Error("got no Clear-Site-Data at sign-out")
	}
	back := p.get(Prefix+"/approvals?cursor=x").want(t, http.StatusSeeOther).header.Get("Location")
	if back != signInPath+"?next=%2Fdashboard%2Fapprovals%3Fcursor%3Dx" {
		t.Errorf("got a redirect to %q, want sign-in, which leads back", back)
	}
	p.post(signInPath+"/password", "email", "approver@example.test", "password", "wrong password", "next", "").
		want(t, http.StatusUnauthorized, `value="approver@example.test"`)
	p.post(signInPath+"/password", "email", "Approver@Example.test", "password", goodPassword,
		"next", "/dashboard/approvals").want(t, http.StatusSeeOther)
	used := p.code()
	if to := p.post(factorPath+"/confirm", "code", used, "next", "/dashboard/approvals").
		want(t, http.StatusSeeOther).header.Get("Location"); to != "/dashboard/approvals" {
		t.Errorf("got a redirect to %q, want the page that led to sign-in", to)
	}
	p.get(Prefix+"/security").want(t, http.StatusOK, "This browser")

	// The code does not open another session.
	other := h.newPerson()
	other.post(signInPath+"/password", "email", "approver@example.test", "password", goodPassword, "next", "").
		want(t, http.StatusSeeOther)
	other.post(factorPath+"/confirm", "code", used, "next", "").want(t, http.StatusUnauthorized, `aria-invalid="true"`)
	other.secret = p.secret
	other.post(factorPath+"/confirm", "code", other.code(), "next", "https://evil.example/").
		want(t, http.StatusSeeOther)
	other.get(Prefix+"/security").want(t, http.StatusOK, "End all other sessions")
	other.post(Prefix+"/security/end-others").want(t, http.StatusSeeOther)
	p.get(Prefix+"/security").want(t, http.StatusSeeOther)
}

// Sign-in leads back to a page of the dashboard and nowhere else.
func TestSignInLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	p := h.join(h.one, identity.Viewer)
	for _, next := range []string{
		"https://evil.example/", "//evil.example/", `/dashboard\..\`, "/dashboardevil", "/v1/balances", "javascript:x",
	} {
		p.post(Prefix + "/security/sign-out")
		p.post(signInPath+"/password", "email", "viewer@example.test", "password", goodPassword, "next", next).
			want(t, http.StatusSeeOther)
		if to := p.post(factorPath+"/confirm", "code", p.code(), "next", next).want(t, http.StatusSeeOther).
			header.Get("Location"); to != Prefix {
			t.Errorf("%s: got a redirect to %q, want %q", next, to, Prefix)
		}
	}
}

// A code of a sign-in is used up, and each act needs another one.
func TestAnActNeedsACodeOfItsOwn(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.realFactors = true
	h.fund(h.one, "alice", usdc, 50_000_000)
	w := h.request(h.one, "alice", usdc, "1000000")
	p := h.join(h.one, identity.Approver)
	path := Prefix + "/approvals/withdrawals/" + w.ID
	found := digestInput.FindStringSubmatch(p.get(path).want(t, http.StatusOK).body)
	p.post(path+"/approve", "digest", found[1], "code", "000000").
		want(t, http.StatusUnauthorized, `aria-invalid="true"`)
	code := p.code()
	p.post(path+"/approve", "digest", found[1], "code", code).want(t, http.StatusSeeOther)
	second := h.request(h.one, "alice", usdc, "1000000")
	path = Prefix + "/approvals/withdrawals/" + second.ID
	p.post(path+"/remove", "reason", "", "code", code).want(t, http.StatusUnauthorized)
	p.post(path+"/remove", "reason", "", "code", p.code()).want(t, http.StatusSeeOther)
}

// The cookie of a session is not taken where it is there twice.
func TestASessionOfTwoCookiesIsNone(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	token := seal.NewSecret(h.signIn(h.one, identity.Viewer)).Reveal()
	h.get(token, Prefix+"/approvals").want(t, http.StatusOK)
	h.get(token+"; "+pages.SessionCookie+"=other", Prefix+"/approvals").want(t, http.StatusSeeOther)
}
