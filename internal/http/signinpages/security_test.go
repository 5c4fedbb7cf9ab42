package signinpages

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/identity"
)

// A change of the password needs the present one and a factor, ends the other sessions and mails the
// person. Rules SIGN-3, SIGN-11 and PAGE-32.
func TestAPersonChangesTheirPassword(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	p := h.join("ann@example.test", identity.Viewer)
	other := p.signIn(h.members.newVisitor())
	const better = "another sentence that is hard to guess"
	change := func(present, chosen, code string) reply {
		return p.post(securityPath+"/"+passwordAct, "currentPassword", present, "newPassword", chosen, "code", code)
	}
	h.pass(10 * time.Minute)
	p.get(securityPath).want(t, http.StatusOK, `id="password-code"`)
	change(goodPassword, better, "").want(t, http.StatusForbidden, "Confirm that it is you")
	wrongCode := change(goodPassword, better, "000000").want(t, http.StatusUnauthorized, `id="password-code-error"`)
	if strings.Contains(wrongCode.body, better) || strings.Contains(wrongCode.body, goodPassword) {
		t.Error("the page has a password that was typed")
	}
	change("not the present password", better, p.code()).
		want(t, http.StatusUnauthorized, "This is not your present password.")
	p.get(securityPath).want(t, http.StatusOK, "Your second factor counts until")
	change(goodPassword, "short", "").want(t, http.StatusBadRequest, "12 to 128 characters")
	other.get("/").want(t, http.StatusOK)
	if to := change(goodPassword, better, "").location(t); to != memberPrefix+securityPath {
		t.Errorf("got a redirect to %q, want My security", to)
	}
	p.get("/").want(t, http.StatusOK)
	other.get("/").want(t, http.StatusSeeOther)
	if mails := h.mailsOf("PASSWORD_CHANGED"); len(mails) != 1 {
		t.Errorf("got %d mails, want 1", len(mails))
	}
	v := h.members.newVisitor()
	v.post(signInPath+"/password", "email", p.email, "password", goodPassword, "next", "").
		want(t, http.StatusUnauthorized)
	v.post(signInPath+"/password", "email", p.email, "password", better, "next", "").want(t, http.StatusSeeOther)
}

// An authenticator app is replaced with a factor of the last ten minutes, and the last factor stays. Rules
// SIGN-2, SIGN-11 and PAGE-32.
func TestAPersonReplacesTheirAuthenticatorApp(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	p := h.join("ann@example.test", identity.Viewer)
	other := p.signIn(h.members.newVisitor())
	h.pass(10 * time.Minute)
	before := p.secret
	p.get(ownAuthenticatorPath).want(t, http.StatusOK, "Your app is switched on.")
	p.post(ownAuthenticatorPath+"/start").want(t, http.StatusForbidden, "Confirm that it is you",
		`action="/dashboard/security/authenticator/start"`)
	p.readSecret(p.post(ownAuthenticatorPath+"/start", "code", p.code()).want(t, http.StatusOK).body)
	if p.secret == before {
		t.Fatal("got the key of before")
	}
	other.get("/").want(t, http.StatusOK) // the new key does not count yet
	p.post(ownAuthenticatorPath+"/confirm", "code", "000000").
		want(t, http.StatusUnauthorized, `aria-invalid="true"`, "2. Enter the code")
	p.post(ownAuthenticatorPath+"/confirm", "code", p.code()).want(t, http.StatusSeeOther)
	other.get("/").want(t, http.StatusSeeOther)
	v := h.members.newVisitor()
	v.email, v.secret = p.email, before
	v.post(signInPath+"/password", "email", p.email, "password", goodPassword, "next", "").want(t, http.StatusSeeOther)
	v.post(factorPath+"/confirm", "code", v.code(), "next", "").want(t, http.StatusUnauthorized)
	v.secret = p.secret
	v.post(factorPath+"/confirm", "code", v.code(), "next", "").want(t, http.StatusSeeOther)
	page := p.get(securityPath).want(t, http.StatusOK, "You have one second factor, so it cannot be removed.")
	if strings.Contains(page.body, removeAuthenticatorAct) {
		t.Error("the page offers to remove the last factor")
	}
	p.post(securityPath+"/"+removeAuthenticatorAct).want(t, http.StatusConflict, "last second factor")
}

var sessionInput = regexp.MustCompile(`name="session" value="(ses_[0-9A-Za-z]+)"`)

// A person sees their sessions with browser and address, and ends one, the others, or all. Rules SIGN-12 and
// PAGE-32.
func TestAPersonEndsTheirSessions(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	p := h.join("ann@example.test", identity.Viewer)
	away := h.members.newVisitor()
	away.addr = "203.0.113.9"
	p.signIn(away)
	third := p.signIn(h.members.newVisitor())
	page := p.get(securityPath).want(t, http.StatusOK, "203.0.113.9", "Chrome on Linux", "with an authenticator app",
		"This browser")
	found := sessionInput.FindAllStringSubmatch(page.body, -1)
	if len(found) != 2 {
		t.Fatalf("got %d other sessions, want 2", len(found))
	}
	// Another person's session is none of theirs.
	stranger := h.join("bob@example.test", identity.Owner)
	stranger.post(securityPath+"/"+endSessionAct, "session", found[1][1]).want(t, http.StatusNotFound)
	away.get("/").want(t, http.StatusOK)
	p.post(securityPath+"/"+endSessionAct, "session", found[1][1]).want(t, http.StatusSeeOther)
	away.get("/").want(t, http.StatusSeeOther)
	third.get("/").want(t, http.StatusOK)
	p.post(securityPath+"/"+endSessionAct, "session", found[1][1]).want(t, http.StatusNotFound)
	p.post(securityPath+"/"+endOthersAct).want(t, http.StatusSeeOther)
	third.get("/").want(t, http.StatusSeeOther)
	p.get("/").want(t, http.StatusOK)
	p.signIn(third)
	if to := p.post(securityPath + "/" + endAllAct).location(t); to != memberPrefix+signInPath {
		t.Errorf("got a redirect to %q, want sign-in", to)
	}
	p.get("/").want(t, http.StatusSeeOther)
	third.get("/").want(t, http.StatusSeeOther)
	stranger.get("/").want(t, http.StatusOK)
}

// The time zone comes from the browser first and from the profile then, and times stand in it with UTC next
// to them. Rule PAGE-33.
func TestTimesStandInThePersonsZone(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	p := h.join("ann@example.test", identity.Viewer)
	p.get("/").want(t, http.StatusOK, "<span>5 Jan 2027, 23:30 UTC</span>")
	v := h.members.newVisitor()
	v.email, v.secret = p.email, p.secret
	signIn := func(zone string) {
		t.Helper()
		v.post(signInPath+"/password", "email", p.email, "password", goodPassword, "next", "").
			want(t, http.StatusSeeOther)
		v.post(factorPath+"/confirm", "code", v.code(), "next", "", "timeZone", zone).want(t, http.StatusSeeOther)
	}
	signIn("Mars/Olympus_Mons") // what a browser says is no reason to refuse a sign-in
	v.get("/").want(t, http.StatusOK, "<span>5 Jan 2027, 23:30 UTC</span>")
	signIn("Europe/Berlin")
	v.get("/").want(t, http.StatusOK, "<span>6 Jan 2027, 00:30 CET</span> <span>5 Jan, 23:30 UTC</span>")
	signIn("America/New_York") // a journey changes nothing
	v.get("/").want(t, http.StatusOK, "00:30 CET")
	v.post(securityPath+"/"+profileAct, "name", "Ada", "timeZone", "Berlin").
		want(t, http.StatusBadRequest, "is not a time zone", `value="Berlin"`)
	v.post(securityPath+"/"+profileAct, "name", "", "timeZone", "").
		want(t, http.StatusUnprocessableEntity, "Enter your name.")
	v.post(securityPath+"/"+profileAct, "name", "Ada", "timeZone", "America/New_York").want(t, http.StatusSeeOther)
	v.get("/").want(t, http.StatusOK, "<span>5 Jan 2027, 18:30 EST</span> <span>23:30 UTC</span>")
	v.get(securityPath).want(t, http.StatusOK, `value="Ada"`, `value="America/New_York"`, "Person of the team")

	// An invitation takes the zone of the browser.
	_, token := h.add("bob@example.test", identity.Viewer)
	b := h.members.newVisitor()
	b.post(invitationPath+"/accept", "token", token.Reveal(), "name", "Bob", "password", goodPassword, "timeZone",
		"Europe/Berlin").want(t, http.StatusSeeOther)
	b.readSecret(b.post(authenticatorPath+"/start", "next", "").want(t, http.StatusOK).body)
	b.post(authenticatorPath+"/confirm", "next", "", "code", b.code()).want(t, http.StatusSeeOther)
	b.get("/").want(t, http.StatusOK, "00:30 CET")
}
