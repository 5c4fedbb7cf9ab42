package signinpages

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// location returns where a redirect leads.
func (r reply) location(t testing.TB) string {
	t.Helper()
	return r.want(t, http.StatusSeeOther).header.Get("Location")
}

// A code that was sent opens no second session, confirms no act and steps nothing up. Rules SIGN-4 and
// PAGE-30.
func TestACodeThatWasSentCountsNowhereAgain(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	p := h.join("ann@example.test", identity.Owner)
	other := h.members.newVisitor()
	start := func() {
		t.Helper()
		other.post(signInPath+"/password", "email", p.email, "password", goodPassword, "next", "").
			want(t, http.StatusSeeOther)
	}
	start()
	p.post("/things/x/decide", "digest", "ab12", "code", "000000").
		want(t, http.StatusUnauthorized, `aria-invalid="true"`)
	used := p.code()
	p.post("/things/x/decide", "digest", "ab12", "code", used).want(t, http.StatusSeeOther)
	h.members.wantCounts(t, 1, 0)
	p.post("/things/x/decide", "digest", "ab12", "code", used).want(t, http.StatusUnauthorized)
	other.post(factorPath+"/confirm", "code", used, "next", "").want(t, http.StatusUnauthorized, `aria-invalid="true"`)
	h.pass(10 * time.Minute)
	start()
	used = p.code()
	p.post("/things/x/change", "value", "v", "code", used).want(t, http.StatusSeeOther)
	h.members.wantCounts(t, 1, 1)
	other.post(factorPath+"/confirm", "code", used, "next", "").want(t, http.StatusUnauthorized)
	p.post("/things/x/decide", "digest", "ab12", "code", used).want(t, http.StatusUnauthorized)
	h.members.wantCounts(t, 1, 1)
}

// A scanner of mail opens links, and does not use them up. A link works once. Rules SIGN-7, SIGN-9 and
// PAGE-1.
func TestALinkOfAMailWorksOnceAndAScannerDoesNotUseIt(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	_, token := h.add("ann@example.test", identity.Owner)
	scan := func(page string) {
		t.Helper()
		scanner := h.members.newVisitor()
		for range 3 {
			scanner.get(page).want(t, http.StatusOK)
			scanner.send(http.MethodHead, memberPrefix+page, "").want(t, http.StatusOK)
		}
		if len(scanner.cookies) > 0 {
			t.Errorf("got the cookies %v of a look at %s, want none", scanner.cookies, page)
		}
	}
	scan(InvitationLink + token.Reveal())
	p := h.members.newVisitor().accept("ann@example.test", token)
	h.members.newVisitor().get(InvitationLink+token.Reveal()).want(t, http.StatusNotFound)
	h.members.newVisitor().post(invitationPath+"/accept", "token", token.Reveal(), "name", "Mallory", "password",
		goodPassword).want(t, http.StatusNotFound)

	fresh := h.members.newVisitor()
	fresh.post(devicePath+"/send", "email", p.email).want(t, http.StatusSeeOther)
	mails := h.mailsOf("DEVICE_LINK")
	if len(mails) != 1 {
		t.Fatalf("got %d mails, want 1", len(mails))
	}
	_, rest, _ := strings.Cut(mails[0].Text, h.members.base+memberPrefix)
	page, _, _ := strings.Cut(rest, "\n")
	scan(page)
	link := page[strings.IndexByte(page, '=')+1:]
	fresh.post(devicePath+"/confirm", "token", link).want(t, http.StatusSeeOther)
	if fresh.cookies[memberDeviceCookie] == "" || fresh.cookies[pages.SessionCookie] != "" {
		t.Errorf("got the cookies %v, want a known device and no session", fresh.cookies)
	}
	h.members.newVisitor().post(devicePath+"/confirm", "token", link).want(t, http.StatusNotFound)
}

// A change of roles ends the person's sessions: a page leads to sign-in and back, and an old form does
// nothing, before the sign-in and after it. Rules SIGN-11 and PAGE-7.
func TestAChangeOfRolesEndsTheSession(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	owner := h.join("owner@example.test", identity.Owner)
	added, token := h.add("ann@example.test", identity.Approver)
	p := h.members.newVisitor().accept("ann@example.test", token)
	p.get("/things/x").want(t, http.StatusOK)
	boss, err := h.members.service.Authenticate(t.Context(), seal.NewSecret(owner.cookies[pages.SessionCookie]))
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.members.service.ChangeRoles(t.Context(), boss, added.ID, []identity.Role{identity.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	want := memberPrefix + signInPath + "?next=" + url.QueryEscape(memberPrefix+"/things/x")
	if to := p.get("/things/x").location(t); to != want {
		t.Errorf("got a redirect to %q, want %q", to, want)
	}
	if to := p.post("/things/x/decide", "digest", "ab12", "code", p.code()).location(t); to != want {
		t.Errorf("a form: got a redirect to %q, want %q", to, want)
	}
	h.members.wantCounts(t, 0, 0)
	next := memberPrefix + "/things/x"
	p.post(signInPath+"/password", "email", p.email, "password", goodPassword, "next", next).
		want(t, http.StatusSeeOther)
	if to := p.post(factorPath+"/confirm", "code", p.code(), "next", next).location(t); to != next {
		t.Errorf("got a redirect to %q, want the page of the form", to)
	}
	h.members.wantCounts(t, 0, 0)
	p.post("/things/x/decide", "digest", "ab12", "code", p.code()).
		want(t, http.StatusForbidden, "This needs the role Owner, Admin or Approver")
	h.members.wantCounts(t, 0, 0)
}

var requestID = regexp.MustCompile(`req_[0-9A-Za-z]+`)

// A failed sign-in has the same answer for every reason, and costs one hash. Rule SIGN-1.
func TestAnAnswerDoesNotSayWhoHasAnAccount(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	p := h.join("ann@example.test", identity.Owner)
	ask := func(number int, page string, fields ...string) reply {
		t.Helper()
		v := h.members.newVisitor()
		v.addr = fmt.Sprintf("10.9.%d.1", number)
		got := v.post(page, fields...)
		if len(v.cookies) > 0 {
			t.Errorf("got the cookies %v, want none", v.cookies)
		}
		got.body = strings.ReplaceAll(got.body, `value="`+fields[1]+`"`, `value="typed"`)
		got.body = requestID.ReplaceAllString(got.body, "req")
		for _, name := range []string{"X-Request-Id", "Date", "Content-Length"} {
			got.header.Del(name)
		}
		return got
	}
	var first reply
	for i, attempt := range [][2]string{
		{p.email, "wrong wrong wrong"},
		{"unknown@example.test", goodPassword},
		{"unknown@example.test", "short"},
		{"no e-mail", goodPassword},
	} {
		before := h.hasher.Count()
		got := ask(i, signInPath+"/password", "email", attempt[0], "password", attempt[1], "next", "")
		if computed := h.hasher.Count() - before; computed != 1 {
			t.Errorf("%q: got %d hashes, want 1", attempt, computed)
		}
		if i == 0 {
			first = got.want(t, http.StatusUnauthorized, "The e-mail, the password or the code is wrong.")
		}
		if got.status != first.status || got.body != first.body || fmt.Sprint(got.header) != fmt.Sprint(first.header) {
			t.Errorf("%q: got another answer than for a wrong password:\n%s\n%v\nwant\n%s\n%v", attempt, got.main(),
				got.header, first.main(), first.header)
		}
	}
	known := ask(20, devicePath+"/send", "email", p.email)
	unknown := ask(21, devicePath+"/send", "email", "unknown@example.test")
	if known.status != unknown.status || known.body != unknown.body ||
		known.header.Get("Location") != unknown.header.Get("Location") {
		t.Errorf("got %v for an account and %v for none, want the same answer", known, unknown)
	}
}

// Wrong passwords from elsewhere keep the owner's browser out of nothing: its budget is its own. Package
// signin proves it with ten thousand. Rule SIGN-9.
func TestWrongPasswordsFromElsewhereLockNoOwnerOut(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	p := h.join("ann@example.test", identity.Owner)
	p.post(securityPath+"/"+signOutAct).want(t, http.StatusSeeOther)
	stranger := h.members.newVisitor()
	asked := 0
	for i := range 60 {
		stranger.addr = fmt.Sprintf("10.%d.7.1", i%20)
		got := stranger.post(signInPath+"/password", "email", p.email, "password", fmt.Sprint("guess number ", i),
			"next", "")
		if got.status == http.StatusSeeOther {
			asked++
			if !strings.Contains(got.location(t), devicePath) {
				t.Fatalf("got a redirect to %q, want the page that sends a link", got.location(t))
			}
		}
	}
	if asked < 20 {
		t.Errorf("got %d answers that ask for a link, want most of them", asked)
	}
	p.signIn(p).get("/").want(t, http.StatusOK, "First page")
}

// Every form of sign-in refuses another origin, so no page signs a visitor in to an account of its own, and
// no page shows them in a frame. Rules PAGE-1 and PAGE-5.
func TestNoOtherOriginSendsOrFramesTheForms(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	p := h.join("ann@example.test", identity.Owner)
	p.code()
	before := fmt.Sprint(p.cookies)
	for page, fields := range map[string][]string{
		signInPath + "/password":               {"email", p.email, "password", goodPassword, "next", ""},
		signInPath + "/passkey":                {"next", "", "passkey", "{}"},
		signInPath + "/passkey/options":        {"next", ""},
		factorPath + "/confirm":                {"code", "123456", "next", ""},
		devicePath + "/send":                   {"email", p.email},
		authenticatorPath + "/start":           {"next", ""},
		invitationPath + "/accept":             {"token", "x", "name", "x", "password", goodPassword},
		securityPath + "/" + signOutAct:        {},
		securityPath + "/" + endAllAct:         {},
		stepUpPath + "/step-up":                {"code", "123456", "next", ""},
		"/things/x/change":                     {"value", "v"},
		"/things/x/decide":                     {"digest", "ab12", "code", "123456"},
		securityPath + "/" + profileAct:        {"name", "Mallory", "timeZone", ""},
		securityPath + "/add-passkey/options":  {},
		"/things/x/decide/options":             {"digest", "ab12"},
		ownAuthenticatorPath + "/start":        {},
		organizationPath + "/choose":           {"organization", h.org.ID, "next", ""},
		securityPath + "/" + passwordAct:       {"currentPassword", goodPassword, "newPassword", "another sentence"},
		securityPath + "/" + removePasskeyAct:  {"passkeyId", "x"},
		codesPath + "/make":                    {"next", ""},
		securityPath + "/" + endSessionAct:     {"session", "x"},
		factorPath + "/recover":                {"recoveryCode", "x", "next", ""},
		devicePath + "/confirm":                {"token", "x"},
		authenticatorPath + "/passkey/options": {"next", ""},
	} {
		for name, headers := range map[string][]string{
			"another site":   {"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"},
			"a sibling site": {"Sec-Fetch-Site", "same-site", "Origin", "https://sub.localhost"},
			"an old browser": {"Sec-Fetch-Site", "", "Origin", "https://evil.example"},
			"a framed page":  {"Sec-Fetch-Site", "cross-site", "Origin", "null"},
		} {
			got := p.send(http.MethodPost, memberPrefix+page, form(fields...), headers...)
			if got.status != http.StatusForbidden {
				t.Errorf("%s from %s: got %d, want 403", page, name, got.status)
			}
		}
	}
	if after := fmt.Sprint(p.cookies); after != before {
		t.Errorf("got the cookies %v, want those of before", after)
	}
	h.members.wantCounts(t, 0, 0)
	for _, page := range []string{
		signInPath, factorPath, devicePath, invitationPath, securityPath, codesPath, stepUpPath,
	} {
		got := p.get(page)
		if !strings.Contains(got.header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s: got no policy against frames", page)
		}
	}
}

// Operators sign in by the same pages with cookies of their own, and their roles decide. Rules SIGN-15 and
// PAGE-6.
func TestOperatorsSignInByTheSamePages(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	member := h.join("ann@example.test", identity.Owner)
	token := h.addOperator("ann@example.test", operator.RoleOperator)
	v := h.operators.newVisitor()
	v.get(InvitationLink+token.Reveal()).
		want(t, http.StatusOK, "Join the operators of Coffer", "is invited as Operator")
	first := v.accept("ann@example.test", token)
	first.get("/").want(t, http.StatusOK, "First page", "Person of the console", "All organizations")
	first.get("/.csv").want(t, http.StatusOK, "First page")
	first.get(securityPath).want(t, http.StatusOK, "This browser")
	first.post("/things/x/decide", "digest", "ab12", "code", first.code()).want(t, http.StatusSeeOther)
	h.pass(10 * time.Minute)
	first.post("/things/x/change", "value", "v").want(t, http.StatusForbidden, "Confirm that it is you")
	first.post("/things/x/change", "value", "v", "code", first.code()).want(t, http.StatusSeeOther)
	h.operators.wantCounts(t, 1, 1)

	token = h.addOperator("eve@example.test", operator.RoleAuditor)
	auditor := h.operators.newVisitor().accept("eve@example.test", token)
	auditor.get("/").want(t, http.StatusOK, "Auditor")
	for _, act := range []string{"/things/x/decide", "/things/x/change"} {
		auditor.post(act, "digest", "ab12", "value", "v", "code", auditor.code()).
			want(t, http.StatusForbidden, "This needs the role Operator", "Ask an operator who has it.")
	}
	h.operators.wantCounts(t, 1, 1)

	// The sessions of the two sides do not open each other, not even under the other's name.
	if _, ok := first.cookies[pages.SessionCookie]; ok || first.cookies[pages.OperatorSessionCookie] == "" {
		t.Errorf("got the cookies %v, want those of operators alone", first.cookies)
	}
	stranger := h.operators.newVisitor()
	stranger.cookies[pages.OperatorSessionCookie] = member.cookies[pages.SessionCookie]
	stranger.get("/").want(t, http.StatusSeeOther)
	stranger = h.members.newVisitor()
	stranger.cookies[pages.SessionCookie] = first.cookies[pages.OperatorSessionCookie]
	stranger.get("/").want(t, http.StatusSeeOther)

	// The last page leads back, also below no prefix, and nowhere else.
	first.post(securityPath+"/"+signOutAct).want(t, http.StatusSeeOther)
	if to := first.get("/things/x").location(t); to != signInPath+"?next=%2Fthings%2Fx" {
		t.Errorf("got a redirect to %q, want sign-in", to)
	}
	for next, want := range map[string]string{
		"/things/x": "/things/x", "//evil.example/": "/", `/\evil.example`: "/", "https://evil.example": "/", "": "/",
	} {
		first.post(signInPath+"/password", "email", first.email, "password", goodPassword, "next", next).
			want(t, http.StatusSeeOther)
		if to := first.post(factorPath+"/confirm", "code", first.code(), "next", next).location(t); to != want {
			t.Errorf("%q: got a redirect to %q, want %q", next, to, want)
		}
		first.post(securityPath+"/"+signOutAct).want(t, http.StatusSeeOther)
	}
}

// A visitor with a session who opens sign-in goes on to the page that led there.
func TestSignInOfAnotherTabLeadsOn(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	p := h.join("ann@example.test", identity.Owner)
	next := signInPath + "?next=" + url.QueryEscape(memberPrefix+"/things/x")
	if to := p.get(next).location(t); to != memberPrefix+"/things/x" {
		t.Errorf("got a redirect to %q, want the page", to)
	}
	h.members.newVisitor().get(next).want(t, http.StatusOK, "Continue")
}

// The menu has the pages that a person's roles open, and My security for each.
func TestEveryPersonHasTheirOwnSecurity(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for i, role := range identity.Roles {
		p := h.join(fmt.Sprintf("person%d@example.test", i), role)
		p.get("/").want(t, http.StatusOK, "My security")
		p.get(securityPath).want(t, http.StatusOK, "Second factors", "Password", "Time zone")
	}
}
