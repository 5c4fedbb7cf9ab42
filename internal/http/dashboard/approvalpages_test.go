package dashboard

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/password"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
	"github.com/cofferpay/coffer/internal/testing/trial/pagematrix"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// approvalsName is the host name of the pages of approvals.
const approvalsName = "approvals.localhost"

// approvalsEnv is the dashboard and the pages of approvals at an address of their own.
type approvalsEnv struct {
	*testEnv
	server *httptest.Server
	origin *url.URL
	here   Config // of the pages of approvals
}

func newApprovalsEnv(t *testing.T) *approvalsEnv {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	_, port, _ := strings.Cut(server.Listener.Addr().String(), ":")
	origin := &url.URL{Scheme: "http", Host: approvalsName + ":" + port}
	h := &approvalsEnv{testEnv: newTestEnvWith(t, origin.String()), server: server, origin: origin}
	file := filepath.Join(t.TempDir(), "seal")
	if err := seal.CreateKeyset(file); err != nil {
		t.Fatal(err)
	}
	keys, err := seal.OpenKeyset(file)
	if err != nil {
		t.Fatal(err)
	}
	people, err := signin.NewService(signin.Config{
		DB: h.db, Keys: keys, Hasher: password.NewHasher(password.Params{MemoryKiB: 64, Passes: 1}), Mailer: h.mails,
		Side: account.MemberSide, Audience: session.ForApprovals, Site: approvalsName, Origin: origin.String(),
		Issuer: "Coffer", DeviceURL: origin.String() + ApprovalsDevicePath,
	})
	if err != nil {
		t.Fatal(err)
	}
	conf := h.conf
	conf.SignIn, conf.Origin, conf.ApprovalsURL, conf.DashboardURL = people, origin, "", h.base()+Prefix
	h.here = conf
	server.Config.Handler = NewApprovals(conf)
	server.Start()
	t.Cleanup(server.Close)
	return h
}

// openSession makes an open session of a person for pages of one kind and returns its token.
func (h *approvalsEnv) openSession(who tenant, role identity.Role, audience session.Audience) string {
	h.t.Helper()
	var token seal.Secret
	m := who.people[role]
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		stored, isKnown, err := account.LoadByEmail(ctx, tx, account.MemberSide, m.Email)
		if err != nil {
			return err
		}
		owner := stored.Account
		if !isKnown {
			owner, err = account.Create(ctx, tx, account.MemberSide, m.Email, m.Name, "",
				"$argon2id$v=19$m=64,t=1,p=1$c2FsdA$aGFzaA")
			if err != nil {
				return err
			}
		}
		if _, err := member.JoinAccount(ctx, tx, m.ID, owner.ID); err != nil {
			return err
		}
		var sessionID string
		sessionID, token, err = session.Create(ctx, tx, owner, session.Open, account.TOTPFactor, session.Browser{
			UserAgent: "test", Addr: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Audience: audience,
		})
		if err != nil {
			return err
		}
		return session.SetMember(ctx, tx, sessionID, m.ID)
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return token.Reveal()
}

// sendHere sends a request to the pages of approvals, as a browser does.
func (h *approvalsEnv) sendHere(token, method, path string, fields ...string) (reply, http.Header) {
	h.t.Helper()
	values := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		values.Add(fields[i], fields[i+1])
	}
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.server.URL+path, strings.NewReader(values.Encode()))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Host = h.origin.Host
	if token != "" {
		r.Header.Set("Cookie", pages.SessionCookie+"="+token)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	client := &http.Client{
		Timeout:       time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return reply{status: response.StatusCode, body: string(body)}, response.Header
}

// browseHere opens a browser in which a person is signed in at the pages of approvals.
func (h *approvalsEnv) browseHere(role identity.Role) *browser.Page {
	h.t.Helper()
	tab := browser.Open(h.t)
	tab.SetCookie(h.origin.String(), pages.SessionCookie, h.openSession(h.one, role, session.ForApprovals))
	return tab
}

var linkPattern = regexp.MustCompile(`<a [^>]*href="([^"]+)"`)

// The pages of approvals are those of their table and no others, and each link of theirs leads to a page: here, or in
// the dashboard. The dashboard takes no signature and leads there. Rules PAGE-118 and PAGE-120.
func TestThePagesOfApprovalsAreTheirOwnAndTheRestIsInTheDashboard(t *testing.T) {
	t.Parallel()
	h := newApprovalsEnv(t)
	h.fund(h.one, "alice", usdc, 50_000_000_000)
	w := h.request(h.one, "alice", usdc, "12500000000")
	h.fundProduct(h.one, "BATCH_PAYOUT", usdc, 1_000_000_000)
	b := h.submitPayout(h.one, identity.Finance, h.addPayout(h.one, identity.Finance, payList(3), contenthash.Strict))
	keyID := h.addApprover(h.one, identity.Owner, signer.RightEnrol)
	token := h.openSession(h.one, identity.Owner, session.ForApprovals)
	dashboardToken := h.openSession(h.one, identity.Owner, session.ForPages)

	visited := map[string]string{
		"/": "12 500", "/approvals": "12 500", "/approvals/payouts": "Payout",
		"/approvals/withdrawals/" + w.ID: "Remove",
		"/payouts/" + b.ID:               "Reject this payout", "/approvers": "Approvers and rule",
		"/approvers/new": "Make a passkey: Approve payments", "/approvers/rule": "Propose another rule",
		"/approvers/" + keyID: "Have it admitted", "/security": "Sign out",
	}
	dashboardURL, links := h.base()+Prefix, map[string]bool{}
	for path, text := range visited {
		got, headers := h.sendHere(token, http.MethodGet, path)
		body := strings.ReplaceAll(got.body, "\u202f", " ")
		if got.status != http.StatusOK || !strings.Contains(body, text) {
			t.Errorf("%s: got %d, want a page with %q\n%s", path, got.status, text, got.body)
		}
		if policy := headers.Get("Content-Security-Policy"); !strings.Contains(policy, "script-src 'self'") ||
			!strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%s: got the policy %q", path, policy)
		}
		for _, found := range linkPattern.FindAllStringSubmatch(got.body, -1) {
			links[html.UnescapeString(found[1])] = true
		}
	}
	inDashboard := 0
	for link := range links {
		status := 0
		if rest, isThere := strings.CutPrefix(link, dashboardURL); isThere {
			inDashboard++
			status = h.get(dashboardToken, Prefix+rest).status
		} else if strings.HasPrefix(link, "/") {
			got, _ := h.sendHere(token, http.MethodGet, link)
			status = got.status
		} else if !strings.HasPrefix(link, "#") {
			t.Errorf("got a link to %s", link)
			continue
		}
		if status != http.StatusOK && !strings.HasPrefix(link, "#") {
			t.Errorf("the link %s: got %d, want a page", link, status)
		}
	}
	if inDashboard == 0 {
		t.Error("got no link to the dashboard, want one to the timeline of the withdrawal")
	}

	var shown []string
	for _, p := range ListApprovalPages(h.conf) {
		shown = append(shown, p.Path)
	}
	for _, p := range ListPages(h.conf) {
		if slices.Contains(shown, p.Path) || strings.Contains(p.Path, "{") {
			continue
		}
		if got, _ := h.sendHere(token, http.MethodGet, p.Path); got.status != http.StatusNotFound {
			t.Errorf("%s: got %d, want no such page", p.Path, got.status)
		}
	}
	for _, path := range []string{
		"/payouts/" + b.ID + "/cancel", "/security/password", "/sign-in/passkey", "/invitation/accept",
		"/v1/withdrawals", "/.well-known/webauthn",
	} {
		if got, _ := h.sendHere(token, http.MethodPost, path); got.status != http.StatusNotFound {
			t.Errorf("POST %s: got %d, want no such form", path, got.status)
		}
	}
	if got, _ := h.sendHere(token, http.MethodGet, "/.well-known/webauthn"); got.status != http.StatusNotFound {
		t.Errorf("got %d for the list of related addresses, want none", got.status)
	}

	for path, want := range map[string]string{
		"/approvers": "/approvers/new", "/approvers/" + keyID: "/approvers/" + keyID,
		"/approvers/rule": "/approvers/rule",
	} {
		body := h.get(dashboardToken, Prefix+path).want(t, http.StatusOK, h.origin.String()+want).body
		if strings.Contains(body, "data-sign") || strings.Contains(body, "data-make-signer") {
			t.Errorf("%s: got a form for a passkey in the dashboard", path)
		}
	}
	for _, path := range []string{
		"/approvers/new/make", "/approvers/new/enrol", "/approvers/" + keyID + "/admit",
		"/approvers/" + keyID + "/retire",
		"/approvers/rule/propose", "/approvers/rule/sign", "/approvers/rule/withdraw", "/payouts/" + b.ID + "/sign",
		"/approvals/withdrawals/" + w.ID + "/sign",
	} {
		if got := h.post(dashboardToken, Prefix+path); got.status != http.StatusNotFound {
			t.Errorf("POST %s: got %d, want no such form in the dashboard", path, got.status)
		}
	}
}

// Each page of approvals, in a light theme on a desk and in a dark one on a phone, is free of errors in a real browser,
// is accessible, and is not wider than the screen. make pages looks at each in every theme and width. Rules PAGE-60 and
// PAGE-118.
func TestPagesOfApprovalsInABrowserAreAccessibleAndQuiet(t *testing.T) {
	t.Parallel()
	h := newApprovalsEnv(t)
	n := 2
	if pagematrix.IsWhole() {
		n = fullList
	}
	house := h.fill(n)
	house.Name, house.Surface, house.Base = "approvals", (&dashboard{h.here}).approvalsSurface(), h.origin.String()
	house.States, house.Tokens, house.Stranger, house.People = nil, nil, nil, nil
	for _, role := range roles {
		m := h.one.people[role]
		house.People = append(house.People, pagematrix.Person{
			Role: pages.RoleName(role), Token: h.openSession(h.one, role, session.ForApprovals), Allows: m.IsAllowed,
			AllowsOwn: m.IsAllowedForOwn,
		})
	}
	house.OwnToken = house.People[0].Token
	pagematrix.Browse(t, house)
}

// A session counts at the pages for which it was opened and at no others, also if its token is carried over, and no
// passkey signs in to the pages of approvals. Rule PAGE-119.
func TestASessionOfTheDashboardCountsForNothingAtThePagesOfApprovals(t *testing.T) {
	t.Parallel()
	h := newApprovalsEnv(t)
	here := h.openSession(h.one, identity.Owner, session.ForApprovals)
	there := h.openSession(h.one, identity.Owner, session.ForPages)
	for _, c := range []struct {
		token          string
		here, atMember int
	}{
		{here, http.StatusOK, http.StatusSeeOther},
		{there, http.StatusSeeOther, http.StatusOK},
	} {
		if got, _ := h.sendHere(c.token, http.MethodGet, "/approvers"); got.status != c.here {
			t.Errorf("at the pages of approvals: got %d, want %d", got.status, c.here)
		}
		if got := h.get(c.token, Prefix+"/approvers"); got.status != c.atMember {
			t.Errorf("in the dashboard: got %d, want %d", got.status, c.atMember)
		}
	}
	got, headers := h.sendHere("", http.MethodGet, "/sign-in")
	if strings.Contains(got.body, "data-passkey") || strings.Contains(got.body, "data-autofill") ||
		!strings.Contains(got.body, "No passkey signs in here") || headers.Get("Content-Security-Policy") == "" {
		t.Errorf("got %d %s, want a form without a passkey", got.status, got.body)
	}
	got, _ = h.sendHere(here, http.MethodPost, "/security/step-up/step-up/options")
	if got.status != http.StatusNotFound {
		t.Errorf("got %d for the options of a passkey, want no such form", got.status)
	}
	_, headers = h.sendHere(here, http.MethodPost, "/security/sign-out")
	if location := headers.Get("Location"); location != "/sign-in" {
		t.Errorf("got %q after the sign-out, want the form of sign-in", location)
	}
	if got, _ := h.sendHere(here, http.MethodGet, "/approvers"); got.status != http.StatusSeeOther {
		t.Errorf("got %d after the sign-out, want sign-in", got.status)
	}
}

// askForPasskey asks the browser for a passkey of a relying party, and returns the name of what it answers.
func askForPasskey(tab *browser.Page, relyingParty, credentials string) string {
	browser.Evaluate[bool](tab, fmt.Sprintf(`(() => {
		window.cofferAnswer = '';
		const ids = %q.split(' ').map((text) => Uint8Array.from(
			atob(text.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0)));
		navigator.credentials.get({publicKey: {
			challenge: new Uint8Array(32), rpId: %q, userVerification: 'required', timeout: 2000,
			allowCredentials: ids.map((id) => ({type: 'public-key', id})),
		}}).then(() => { window.cofferAnswer = 'signed'; }, (error) => { window.cofferAnswer = error.name; });
		return true;
	})()`, credentials, relyingParty))
	tab.WaitUntil("window.cofferAnswer !== ''")
	return browser.Evaluate[string](tab, "window.cofferAnswer")
}

// A person enrols and signs at the pages of approvals. The dashboard shows the same withdrawal with a link in place of
// the form, and cannot have the browser ask for the passkey. Rules PAGE-118, PAGE-119 and PAGE-120.
func TestAPasskeyOfThePagesOfApprovalsSignsThereAndNotForTheDashboard(t *testing.T) {
	t.Parallel()
	h := newApprovalsEnv(t)
	tab := h.browseHere(identity.Approver)
	tab.AddAuthenticator()
	enroller := h.addPasskey(h.one, identity.Owner, signer.RightEnrol)
	h.foundByHost(enroller)
	tab.OpenURL(h.origin.String()+"/approvers/new", desk)
	tab.Click(fmt.Sprintf("form[data-display=%q] button", approverWords.Approve))
	wantText(t, tab, approvalsName)
	tab.Click("form[data-sign] button[type=submit]")
	wantText(t, tab, "Waits to be admitted", h.origin.String())
	h.found(tab)
	h.pass(25 * time.Hour)
	h.setRule(h.one, signer.ApprovalRule{Quorum: 1}, enroller)
	h.fund(h.one, "alice", usdc, 50_000_000_000)
	w := h.request(h.one, "alice", usdc, "12500000000")
	path := "/approvals/withdrawals/" + w.ID

	// In the same browser, the dashboard has a session of its own.
	tab.SetCookie(h.base(), pages.SessionCookie, h.signIn(h.one, identity.Approver))
	tab.SetCookie(h.origin.String(), pages.SessionCookie, h.openSession(h.one, identity.Approver, session.ForApprovals))
	tab.OpenURL(h.origin.String()+path, desk)
	credentials := browser.Evaluate[string](tab, "document.querySelector('form[data-sign]').dataset.credentials")
	if got := askForPasskey(tab, approvalsName, credentials); got != "signed" {
		t.Errorf("at the pages of approvals: the browser answered %q, want a signature", got)
	}
	if got := askForPasskey(tab, "localhost", credentials); got == "signed" {
		t.Error("the pages of approvals obtained a signature for the dashboard")
	}

	tab.OpenURL(h.base()+Prefix+path, desk)
	wantText(t, tab, "asks for the signatures of one person", "Your passkeys for approvals belong to "+h.origin.Host)
	if browser.Evaluate[bool](tab, "document.querySelector('form[data-sign]') !== null") {
		t.Error("the dashboard has a form for a signature")
	}
	for _, relyingParty := range []string{approvalsName, "localhost"} {
		want := "NotAllowedError" // The device has no such passkey for the dashboard.
		if relyingParty == approvalsName {
			want = "SecurityError"
		}
		if got := askForPasskey(tab, relyingParty, credentials); got != want {
			t.Errorf("in the dashboard, for %s: the browser answered %q, want %s", relyingParty, got, want)
		}
	}
	h.wantWithdrawal(h.one, w.ID, withdrawal.AwaitingApproval, 0)

	tab.Click(fmt.Sprintf("a.primary[href=%q]", h.origin.String()+path))
	wantText(t, tab, "Coffer approvals")
	if problems := tab.ListAccessibilityProblems(); len(problems) > 0 {
		t.Errorf("the page of the withdrawal: %q", problems)
	}
	tab.Click("form[action$=sign] button[type=submit]")
	wantText(t, tab, "Approved and let go by You")
	h.wantWithdrawal(h.one, w.ID, withdrawal.Processing, 1)
}
