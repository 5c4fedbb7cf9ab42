package signinpages

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity"
)

// What needs a factor of the last ten minutes asks for one, and carries to the act what the user typed. The
// page shows until when the factor counts. Rule PAGE-30.
func TestAnActAsksForAFactorOfTheLastTenMinutes(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	p := h.join("ann@example.test", identity.Owner)
	p.get("/things/x").want(t, http.StatusOK, "Your second factor counts until")
	p.post("/things/x/change", "value", "first").want(t, http.StatusSeeOther)
	h.members.wantCounts(t, 0, 1)
	h.pass(10 * time.Minute)
	p.get("/things/x").want(t, http.StatusOK, "Changes on this page need your second factor.")
	// A typing error is found before the factor is asked for.
	p.post("/things/x/change", "value", "").want(t, http.StatusUnprocessableEntity, "Enter a value.")
	asked := p.post("/things/x/change", "value", `a "quoted" <b>value</b>`, "box", "yes").
		want(t, http.StatusForbidden, "Confirm that it is you", "Nothing was done yet.",
			`action="/dashboard/things/x/change"`, `href="/dashboard/things/x"`,
			`name="value" value="a &#34;quoted&#34; &lt;b&gt;value&lt;/b&gt;"`, `name="box" value="yes"`)
	if asked.header.Get("Set-Cookie") != "" {
		t.Error("got a cookie before a factor was shown")
	}
	p.post("/things/x/change", "value", "kept", "code", "000000").
		want(t, http.StatusUnauthorized, "Confirm that it is you", `name="value" value="kept"`, `aria-invalid="true"`)
	h.members.wantCounts(t, 0, 1)
	before := p.cookies[pages.SessionCookie]
	if to := p.post("/things/x/change", "value", "kept", "box", "yes", "code", p.code()).location(t); to !=
		memberPrefix+"/things/x" {
		t.Errorf("got a redirect to %q, want the page of the result", to)
	}
	h.members.wantCounts(t, 0, 2)
	if got := h.members.received.Load(); got[0] != "kept" || got[1] != "yes" {
		t.Errorf("got the values %q, want what was typed", *got)
	}
	if p.cookies[pages.SessionCookie] == before {
		t.Error("got the token of before, want a new one")
	}
	old := h.members.newVisitor()
	old.cookies[pages.SessionCookie] = before
	old.get("/things/x").want(t, http.StatusSeeOther)
	// It counts for ten minutes, for this session alone, and for no act with a factor of its own.
	h.pass(9 * time.Minute)
	p.post("/things/x/change", "value", "later").want(t, http.StatusSeeOther)
	p.post("/things/x/decide", "digest", "ab12", "code", "").
		want(t, http.StatusUnprocessableEntity, "Enter the code that your authenticator app shows now.")
	h.members.wantCounts(t, 0, 3)
	h.pass(time.Minute)
	p.post("/things/x/change", "value", "too late").want(t, http.StatusForbidden)
	h.members.wantCounts(t, 0, 3)
}

// A form with a secret is not carried: the factor is taken first, and the page says that the form has to be
// filled in again. Rules PAGE-2 and PAGE-30.
func TestAStepUpCarriesNoSecret(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	p := h.join("ann@example.test", identity.Owner)
	h.pass(10 * time.Minute)
	const secret = "whsec_a-secret-that-was-typed"
	asked := p.post("/things/x/hide", "value", secret).
		want(t, http.StatusForbidden, "fill in the form again", `action="/dashboard/security/step-up/step-up"`)
	if strings.Contains(asked.body, secret) {
		t.Error("the page has the secret that was typed")
	}
	next := memberPrefix + "/things/x"
	p.post(stepUpPath+"/step-up", "next", next, "code", "").want(t, http.StatusBadRequest, "Enter the code")
	p.post(stepUpPath+"/step-up", "next", next, "code", "000000").
		want(t, http.StatusUnauthorized, `aria-invalid="true"`)
	if to := p.post(stepUpPath+"/step-up", "next", next, "code", p.code()).location(t); to != next {
		t.Errorf("got a redirect to %q, want the page of the form", to)
	}
	p.post("/things/x/hide", "value", secret).want(t, http.StatusSeeOther)
	h.members.wantCounts(t, 0, 1)
	// Step-up leads to pages of the surface alone.
	for _, evil := range []string{"https://evil.example/", "//evil.example", "/v1/balances"} {
		if to := p.post(stepUpPath+"/step-up", "next", evil, "code", p.code()).location(t); to != memberPrefix {
			t.Errorf("%s: got a redirect to %q, want the first page", evil, to)
		}
	}
}

// Two clicks at once step up once and act once. The slower one is led to sign-in, whose page leads on with
// the new token. Rule PAGE-7.
func TestTwoClicksStepUpOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	p := h.join("ann@example.test", identity.Owner)
	h.pass(10 * time.Minute)
	code := p.code()
	type answer struct {
		status int
		to     string
	}
	answers := make(chan answer, 2)
	for range 2 {
		second := h.members.newVisitor()
		second.cookies[pages.SessionCookie] = p.cookies[pages.SessionCookie]
		go func() {
			got := second.post("/things/x/change", "value", "v", "code", code)
			if second.cookies[pages.SessionCookie] != p.cookies[pages.SessionCookie] {
				answers <- answer{got.status, "changed"}
				return
			}
			answers <- answer{got.status, got.header.Get("Location")}
		}()
	}
	first, second := <-answers, <-answers
	h.members.wantCounts(t, 0, 1)
	if first.to != "changed" {
		first, second = second, first
	}
	if first.to != "changed" || second.status != http.StatusSeeOther ||
		!strings.HasPrefix(second.to, memberPrefix+signInPath+"?next=") {
		t.Errorf("got %v and %v, want one change and one that leads to sign-in", first, second)
	}
}

var codeItem = regexp.MustCompile(`<li>([0-9a-z-]{19})</li>`)

// A recovery code bars acts of money and security for a day, which every page says; the person's own sign-in
// can be set up again. Rules SIGN-6 and PAGE-31.
func TestARecoveryCodeBarsActsForADay(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	p := h.join("ann@example.test", identity.Owner)
	codes := codeItem.FindAllStringSubmatch(p.post(codesPath+"/make", "next", "").want(t, http.StatusOK).body, -1)
	if len(codes) != 10 {
		t.Fatalf("got %d recovery codes, want 10", len(codes))
	}
	v := h.members.newVisitor()
	v.post(signInPath+"/password", "email", p.email, "password", goodPassword, "next", "").want(t, http.StatusSeeOther)
	v.post(factorPath+"/recover", "recoveryCode", "0000-0000-0000-0000", "next", "").
		want(t, http.StatusUnauthorized, `aria-invalid="true"`)
	v.post(factorPath+"/recover", "recoveryCode", codes[3][1], "next", "").want(t, http.StatusSeeOther)
	p.get("/").want(t, http.StatusSeeOther) // the other session has ended
	v.get("/").want(t, http.StatusOK, "You used a recovery code", "you cannot decide about money")
	const refused = "This has to wait: a recovery code was used."
	v.email, v.secret = p.email, p.secret
	v.post("/things/x/change", "value", "v").want(t, http.StatusForbidden, refused, "It is possible again from")
	v.post("/things/x/change", "value", "v", "code", v.code()).want(t, http.StatusForbidden, refused)
	v.post("/things/x/decide", "digest", "ab12", "code", v.code()).want(t, http.StatusForbidden, refused)
	h.members.wantCounts(t, 0, 0)
	v.get(securityPath).want(t, http.StatusOK, "with a recovery code", "9 unused codes")
	// A new authenticator app replaces the lost one.
	v.readSecret(v.post(ownAuthenticatorPath+"/start").want(t, http.StatusOK).body)
	v.post(ownAuthenticatorPath+"/confirm", "code", v.code()).want(t, http.StatusSeeOther)
	v.post(securityPath+"/"+removeAuthenticatorAct).want(t, http.StatusForbidden, refused)
	// The code works once, and after a day everything is possible again.
	again := h.members.newVisitor()
	again.post(signInPath+"/password", "email", p.email, "password", goodPassword, "next", "").
		want(t, http.StatusSeeOther)
	again.post(factorPath+"/recover", "recoveryCode", codes[3][1], "next", "").want(t, http.StatusUnauthorized)
	h.pass(restriction)
	v.signIn(v)
	if body := v.get("/things/x").want(t, http.StatusOK).body; strings.Contains(body, "recovery code") {
		t.Error("the page still speaks of the recovery code")
	}
	v.post("/things/x/change", "value", "v").want(t, http.StatusSeeOther)
	v.post("/things/x/decide", "digest", "ab12", "code", v.code()).want(t, http.StatusSeeOther)
	h.members.wantCounts(t, 1, 1)
}
