package signinpages

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
	"github.com/cofferpay/coffer/internal/testing/trial/pagematrix"
)

var desk = browser.Appearance{Width: 1280, Height: 900}

func wantText(t *testing.T, tab *browser.Page, texts ...string) {
	t.Helper()
	body := browser.Evaluate[string](tab, "document.body.innerText")
	for _, text := range texts {
		if !strings.Contains(body, text) {
			t.Errorf("got a page without %q:\n%s", text, body)
		}
	}
}

// wantProblem waits until the page says why a passkey did not work.
func wantProblem(tab *browser.Page, text string) {
	tab.WaitUntil(fmt.Sprintf(
		"[...document.querySelectorAll('.passkey-problem')].some((p) => p.textContent.includes(%q))", text,
	))
}

// press clicks on what stays on its page.
func press(tab *browser.Page, selector string) {
	tab.WaitUntil(fmt.Sprintf("document.querySelector(%q)?.checkVisibility() === true", selector))
	browser.Evaluate[bool](tab, fmt.Sprintf("(document.querySelector(%q).click(), true)", selector))
}

// wantQuiet checks that the browser complained about nothing but the statuses of refusals.
func wantQuiet(t *testing.T, tab *browser.Page) {
	t.Helper()
	for _, complaint := range tab.ListComplaints() {
		if !strings.Contains(complaint, "status of 401") && !strings.Contains(complaint, "status of 403") {
			t.Errorf("the browser complained: %s", complaint)
		}
	}
}

// A person enters with a passkey alone, and it confirms an act, steps up, and signs in: without a password,
// and as the second factor after one. The mistakes on the way do nothing. Rules SIGN-5, PAGE-30 and PAGE-34.
func TestAPersonLivesWithAPasskeyAlone(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	_, token := h.add("ann@example.test", identity.Owner)
	base := h.members.base + memberPrefix
	tab := browser.Open(t)
	device := tab.AddAuthenticator()
	tab.SetTimeZone("Europe/Berlin")
	tab.OpenURL(base+InvitationLink+token.Reveal(), desk)
	tab.Type("#accept-name", "Ann")
	tab.Type("#accept-password", goodPassword)
	tab.Click("main button.primary")

	// The screen lock does not confirm the person. Nothing is enrolled, and the page says so.
	device.SetVerified(false)
	tab.Type("#passkey-name", "Laptop")
	press(tab, "form[data-needs-passkey] button")
	wantProblem(tab, "The passkey did not answer. Nothing was done.")
	device.SetVerified(true)
	tab.Click("form[data-needs-passkey] button")
	wantText(t, tab, "You have no recovery codes.")
	tab.OpenURL(base, desk)
	wantText(t, tab, "First page", "6 Jan 2027, 00:30", "5 Jan, 23:30 UTC")

	// An act with its own factor.
	tab.OpenURL(base+"/things/x", desk)
	device.SetVerified(false)
	press(tab, "form[action$=decide] button.primary")
	wantProblem(tab, "The passkey did not answer. Nothing was done.")
	h.members.wantCounts(t, 0, 0)
	device.SetVerified(true)
	tab.Click("form[action$=decide] button.primary")
	wantText(t, tab, "decided 1, changed 0")

	// A factor of the last ten minutes.
	h.pass(10 * time.Minute)
	tab.Type("#change-value", "typed before")
	tab.Click("form[action$=change] button")
	wantText(t, tab, "Confirm that it is you", "Nothing was done yet.")
	h.members.wantCounts(t, 1, 0)
	tab.Click("main button.primary")
	wantText(t, tab, "decided 1, changed 1", "Your second factor counts until")
	if got := h.members.received.Load(); got[0] != "typed before" {
		t.Errorf("got the value %q, want what was typed", got[0])
	}

	// The same device makes no second passkey. Another device does, and takes the place of the first.
	tab.OpenURL(base+securityPath, desk)
	wantText(t, tab, "Passkey Laptop", "You have one second factor, so it cannot be removed.")
	tab.Type("#add-passkey-name", "Laptop again")
	press(tab, "form[action$=add-passkey] button")
	wantProblem(tab, "This device already has a passkey of your account.")
	device.Remove()
	device = tab.AddAuthenticator()
	// Ten minutes later the person is asked for a factor before the browser asks for the passkey. That
	// device is gone, so its user would be stuck here; the factor is still fresh.
	tab.Type("#add-passkey-name", "Key on my desk")
	tab.Click("form[action$=add-passkey] button")
	wantText(t, tab, "Passkey Laptop", "Passkey Key on my desk")
	tab.Click("form[action$=remove-passkey] button")
	wantText(t, tab, "Passkey Key on my desk", "You have one second factor")
	if len(h.mailsOf("SIGN_IN_CHANGED")) < 3 {
		t.Errorf("got %d mails, want one for each change", len(h.mailsOf("SIGN_IN_CHANGED")))
	}

	// Sign-in without a password. The page of sign-in offers the passkey at once, and a device that confirms
	// its user would sign in again before anyone looks.
	device.SetVerified(false)
	tab.Click("form[action$=sign-out] button")
	wantText(t, tab, "Sign in")
	tab.OpenURL(base+signInPath+"?next=/dashboard/things/x", desk)
	press(tab, "form[data-needs-passkey] button")
	wantProblem(tab, "The passkey did not answer. Nothing was done.")
	device.SetVerified(true)
	tab.Click("form[data-needs-passkey] button")
	wantText(t, tab, "A thing", "decided 1, changed 1")
	if !slices.ContainsFunc(tab.ListRequests(), func(url string) bool {
		return strings.HasSuffix(url, signInPath+"/passkey/options")
	}) {
		t.Error("the page asked for no passkey of autofill")
	}
	wantQuiet(t, tab)
}

// A person with an authenticator app adds a passkey, uses it in place of a code, and removes the app.
func TestAPasskeyTakesThePlaceOfCodes(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	p := h.join("ann@example.test", identity.Owner)
	base := h.members.base + memberPrefix
	tab := browser.Open(t)
	tab.SetCookie(h.members.base, pages.SessionCookie, p.cookies[pages.SessionCookie])

	// Too late for the enrolment: the person is asked for a factor first, and comes back.
	h.pass(10 * time.Minute)
	device := tab.AddAuthenticator()
	tab.OpenURL(base+securityPath, desk)
	tab.Type("#add-passkey-name", "Phone")
	tab.Click("form[action$=add-passkey] button")
	wantText(t, tab, "Confirm that it is you")
	tab.Type("#step-up-code", p.code())
	tab.Click("main button.primary")
	tab.Type("#add-passkey-name", "Phone")
	tab.Click("form[action$=add-passkey] button")
	wantText(t, tab, "Passkey Phone", "Never used")

	// An act takes the passkey in place of a code.
	tab.OpenURL(base+"/things/x", desk)
	device.SetVerified(false)
	press(tab, "form[action$=decide] [data-use-passkey]")
	wantProblem(tab, "Nothing was done.")
	h.members.wantCounts(t, 0, 0)
	device.SetVerified(true)
	tab.Click("form[action$=decide] [data-use-passkey]")
	wantText(t, tab, "decided 1, changed 0")

	// An answer for one thing decides no other one and serves no other act, and each attempt uses it up.
	browser.Evaluate[bool](tab, `(window.statuses = '', (async () => {
		const send = async (path, more) => fetch(path, {
			method: 'POST', body: new URLSearchParams({ digest: 'ab12', ...more }),
		});
		const found = [];
		for (const other of ['y/decide', 'x/refuse']) {
			const options = (await (await send('/dashboard/things/x/decide/options')).json()).publicKey;
			const answer = await navigator.credentials.get({
				publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options),
			});
			for (const act of [other, 'x/decide']) {
				const passkey = JSON.stringify(answer.toJSON());
				found.push((await send('/dashboard/things/' + act, { code: '', passkey })).status);
			}
		}
		window.statuses = found.join(' ');
	})(), true)`)
	tab.WaitUntil("window.statuses !== ''")
	if got := browser.Evaluate[string](tab, "window.statuses"); got != "401 401 401 401" {
		t.Errorf("got the statuses %s, want refusals of an answer for another thing or act", got)
	}
	h.members.wantCounts(t, 1, 0)

	// A second factor after the password.
	device.SetVerified(false) // so that autofill does not sign in, as soon as the page is there
	tab.Click("form[action$=sign-out] button")
	tab.OpenURL(base+signInPath, desk)
	tab.Type("#password-email", "ann@example.test")
	tab.Type("#password-password", goodPassword)
	tab.Click("form[action$=password] button")
	device.SetVerified(true)
	tab.Click("[data-use-passkey]")
	wantText(t, tab, "First page")

	// Without the app, each form that took a code takes the passkey.
	tab.OpenURL(base+securityPath, desk)
	tab.Click("form[action$=remove-authenticator] button")
	wantText(t, tab, "You have one second factor")
	tab.OpenURL(base+"/things/x", desk)
	if browser.Evaluate[bool](tab, "document.querySelector('#decide-code') !== null") {
		t.Error("the page still has a field for a code")
	}
	tab.Click("form[action$=decide] button.primary")
	wantText(t, tab, "decided 2, changed 0")
	wantQuiet(t, tab)
}

// With scripts switched off, everything works except passkeys: invitation, authenticator app, recovery codes,
// acts, step-up, profile, sessions, and sign-in. Rule PAGE-34.
func TestEverythingButPasskeysWorksWithoutScripts(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	_, token := h.add("ann@example.test", identity.Owner)
	base := h.members.base + memberPrefix
	p := h.members.newVisitor()
	tab := browser.Open(t)
	tab.DisableScripts()
	tab.OpenURL(base+InvitationLink+token.Reveal(), desk)
	tab.Type("#accept-name", "Ann")
	tab.Type("#accept-password", goodPassword)
	tab.Click("main button.primary")
	if browser.Evaluate[bool](tab, "document.querySelector('form[data-needs-passkey]').checkVisibility()") {
		t.Error("the page shows a form that needs scripts")
	}
	tab.Click("form[action$=start] button")
	p.readSecret(browser.Evaluate[string](tab, "document.body.innerHTML"))
	tab.Type("#confirm-code", "000000")
	tab.Click("form[action$=confirm] button")
	tab.Type("#confirm-code", p.code())
	tab.Click("form[action$=confirm] button")
	tab.Click("form[action$=make] button")
	wantText(t, tab, "They are shown now and never again.")

	tab.OpenURL(base+"/things/x", desk)
	tab.Type("#decide-code", p.code())
	tab.Click("form[action$=decide] button")
	wantText(t, tab, "decided 1, changed 0")
	h.pass(10 * time.Minute)
	tab.Type("#change-value", "typed")
	tab.Click("form[action$=change] button")
	tab.Type("#step-up-code", p.code())
	tab.Click("main button.primary")
	wantText(t, tab, "decided 1, changed 1")

	tab.OpenURL(base+securityPath, desk)
	wantText(t, tab, "A passkey needs scripts.")
	tab.Type("#profile-timeZone", "Europe/Berlin")
	tab.Click("form[action$=profile] button")
	const better = "another sentence that is hard to guess"
	tab.Type("#password-currentPassword", goodPassword)
	tab.Type("#password-newPassword", better)
	tab.Click("form[action$=password] button")
	wantText(t, tab, "This browser")
	tab.Click("form[action$=end-all] button")
	tab.OpenURL(base+"/things/x", desk)
	tab.Type("#password-email", "ann@example.test")
	tab.Type("#password-password", better)
	tab.Click("main button.primary")
	tab.Type("#confirm-code", p.code())
	tab.Click("main button.primary")
	wantText(t, tab, "A thing", "decided 1, changed 1")
	for _, url := range tab.ListRequests() {
		if strings.HasSuffix(url, "/options") {
			t.Errorf("a script asked for %s, although scripts are off", url)
		}
	}
	wantQuiet(t, tab)
}

// The pages of sign-in are accessible and not wider than the screen, and a frame of another page stays empty.
// Rules PAGE-5, PAGE-60 and PAGE-63.
func TestPagesInABrowserSignPeopleIn(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	p := h.join("ann@example.test", identity.Owner)
	again := p.signIn(h.members.newVisitor())
	_, token := h.add("bob@example.test", identity.Viewer)
	_, unused := h.add("cleo@example.test", identity.Viewer)
	base := h.members.base + memberPrefix
	b := h.members.newVisitor()
	b.post(invitationPath+"/accept", "token", token.Reveal(), "name", "Bob", "password", goodPassword)
	waiting := h.members.newVisitor()
	waiting.post(signInPath+"/password", "email", p.email, "password", goodPassword, "next", "")
	own := p.cookies[pages.SessionCookie]
	pagematrix.Browse(t, pagematrix.House{
		Name: "sign-in", Surface: h.members.surface, Base: h.members.base, OwnToken: own,
		OldToken: again.cookies[pages.SessionCookie],
		People: []pagematrix.Person{
			{Role: "Owner", Token: own, Allows: func(identity.Action) bool { return true }},
		},
		Tokens: map[string]string{
			factorPath:        waiting.cookies[pages.SessionCookie],
			authenticatorPath: b.cookies[pages.SessionCookie],
			organizationPath:  own,
		},
		Values: map[string]string{"thingId": "x"}, Shared: []string{"thingId"},
		Queries:      map[string]string{invitationPath: "token=" + unused.Reveal()},
		CountReports: h.reports.Load,
	})

	tab := browser.Open(t)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<iframe src="%s"></iframe>`, base+signInPath)
	}))
	t.Cleanup(evil.Close)
	tab.OpenURL(strings.Replace(evil.URL, "127.0.0.1", "localhost", 1), desk)
	tab.WaitUntil("document.readyState === 'complete'")
	if !slices.ContainsFunc(tab.ListComplaints(), func(complaint string) bool {
		return strings.Contains(complaint, "frame-ancestors")
	}) {
		t.Errorf("got the complaints %q, want a refused frame", tab.ListComplaints())
	}
}
