package console

import (
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
	"github.com/cofferpay/coffer/internal/testing/trial/pagematrix"
)

// looks are the ways in which the stories look at their pages.
var looks = map[string]browser.Appearance{
	"light":      {Width: 1280, Height: 900},
	"phone-dark": {Width: 390, Height: 844, Dark: true},
}

// Each page of the table, in a light theme on a desk and in a dark one on a phone, is free of errors in a real
// browser, asks no other host for anything, is accessible, and is not wider than the screen. Each of its forms
// is sent to an act with exactly its fields. make pages looks at each page in every theme and width, and with
// scripts off. Rules PAGE-60 and PAGE-63.
func TestPagesInABrowserAreAccessibleAndQuiet(t *testing.T) {
	t.Parallel()
	n := 2
	if pagematrix.IsWhole() {
		n = fullList
	}
	pagematrix.Browse(t, newTestEnv(t).fill(n))
}

// joinOperator makes an operator with an account and an authenticator app, and returns the secret of the app.
func (h *testEnv) joinOperator(email, name string) (secret string) {
	h.t.Helper()
	ctx := h.t.Context()
	_, token, err := signin.InviteOperatorFromTerminal(
		ctx, h.db, audit.System("test"), email, name, []operator.Role{operator.RoleOperator})
	if err != nil {
		h.t.Fatal(err)
	}
	accepted, err := h.signIn.AcceptInvitation(ctx, signin.Client{}, token, name, "", seal.NewSecret(goodPassword))
	if err != nil {
		h.t.Fatal(err)
	}
	enrolment, err := h.signIn.StartTOTP(ctx, accepted.Session)
	if err != nil {
		h.t.Fatal(err)
	}
	secret = enrolment.Secret.Reveal()
	if _, err := h.signIn.ConfirmTOTP(
		ctx, signin.Client{}, accepted.Session, seal.NewSecret(h.code(secret)),
	); err != nil {
		h.t.Fatal(err)
	}
	return secret
}

// code returns a code that was not used: it lets the time of a code pass.
func (h *testEnv) code(secret string) string {
	h.t.Helper()
	h.pass(30 * time.Second)
	text, err := totp.GenerateCode(secret, h.now())
	if err != nil {
		h.t.Fatal(err)
	}
	return text
}

func wantText(t *testing.T, tab *browser.Page, texts ...string) {
	t.Helper()
	body := browser.Evaluate[string](tab, "document.body.innerText")
	for _, text := range texts {
		if !strings.Contains(body, text) {
			t.Errorf("got a page without %q:\n%s", text, body)
		}
	}
}

// An operator signs in, redirects a flagged deposit with a mistake on the way, creates a freeze and lifts it.
func TestAnOperatorActsInABrowser(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.realFactors = true
	id := h.flag()
	secret := h.joinOperator("carl@example.test", "Carl Operator")
	base := strings.Replace(h.server.URL, "127.0.0.1", "localhost", 1)
	tab := browser.Open(t)
	tab.OpenURL(base+Prefix+"/flagged/"+id, looks["light"])
	tab.Type("#password-email", "carl@example.test")
	tab.Type("#password-password", goodPassword)
	tab.Click("main button.primary")
	tab.Type("#confirm-code", h.code(secret))
	tab.Click("main button.primary")
	wantText(t, tab, "Waits for a decision", "Redirect 1 USDC")

	tab.Type("#redirect-toAddress", "0x1")
	tab.Type("#redirect-reference", "case 77")
	tab.Type("#redirect-code", h.code(secret))
	tab.Click("form[action$=redirect] button[type=submit]")
	wantText(t, tab, "Waits for a decision")
	if typed := browser.Evaluate[string](
		tab, "document.querySelector('#redirect-reference').value",
	); typed != "case 77" {
		t.Errorf("got the reference %q, want what the operator typed", typed)
	}
	browser.Evaluate[bool](tab, "(document.querySelector('#redirect-toAddress').value = '', true)")
	tab.Type("#redirect-toAddress", elsewhere)
	tab.Type("#redirect-code", h.code(secret))
	tab.DoubleClick("form[action$=redirect] button[type=submit]")
	wantText(t, tab, "Being redirected", "Carl Operator", "case 77")

	tab.OpenURL(base+Prefix+"/freezes", looks["light"])
	tab.Type("#create-organizationId", h.orgID)
	tab.Type("#create-reason", "A question of the police")
	tab.Type("#create-code", h.code(secret))
	tab.Click("form[action$=create] button[type=submit]")
	wantText(t, tab, "In force", "A question of the police")
	tab.OpenURL(base+Prefix, looks["light"])
	wantText(t, tab, "1 freeze by operators")
	tab.Click(`a[href*="/freezes?active=true"]`)
	tab.Click(`main td a[href*="/freezes/frz_"]`)
	tab.Type("#lift-code", h.code(secret))
	tab.Click("form[action$=lift] button[type=submit]")
	wantText(t, tab, "Lifted", "It was lifted and stops nothing any more.")
	if n := h.count(`SELECT count(*) FROM freezes WHERE lifted_at IS NULL`); n != 0 {
		t.Errorf("got %d freezes in force, want none", n)
	}
	for _, complaint := range tab.ListComplaints() {
		if !strings.Contains(complaint, "status of 400") {
			t.Errorf("the browser complained: %s", complaint)
		}
	}
}

// Of three jobs two are ticked and cancelled. The page is accessible and fits a phone.
func TestJobsAreTickedInABrowser(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.addJobs(3)
	base := strings.Replace(h.server.URL, "127.0.0.1", "localhost", 1)
	tab := browser.Open(t)
	tab.SetCookie(base, pages.OperatorSessionCookie, h.signInAs(h.ann))
	for name, look := range looks {
		tab.OpenURL(base+Prefix+"/jobs", look)
		if problems := tab.ListAccessibilityProblems(); len(problems) > 0 {
			t.Errorf("%s: got %q, want an accessible page", name, problems)
		}
		if browser.Evaluate[bool](tab, "document.documentElement.scrollWidth > innerWidth") {
			t.Errorf("%s: the page is wider than the screen", name)
		}
	}
	for _, number := range []string{"1", "3"} {
		browser.Evaluate[bool](tab, `(document.querySelector('input[name=jobs][value="`+number+`"]').click(), true)`)
	}
	tab.Click("button[formaction]")
	wantText(t, tab, "Cancelled")
	if n := h.count(`SELECT count(*) FROM river_job WHERE state = 'cancelled' AND id IN (1, 3)`); n != 2 {
		t.Errorf("got %d cancelled jobs, want the two that were ticked", n)
	}
	if n := h.count(`SELECT count(*) FROM river_job WHERE state = 'cancelled'`); n != 2 {
		t.Errorf("got %d cancelled jobs, want no other", n)
	}
	for _, complaint := range tab.ListComplaints() {
		t.Errorf("the browser complained: %s", complaint)
	}
}
