package dashboard

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
)

// look is a way in which a page is looked at.
type look struct {
	name string
	look browser.Appearance
}

// looks are the ways in which each page is looked at.
var looks = []look{
	{"light", browser.Appearance{Width: 1280, Height: 900}},
	{"phone-dark", browser.Appearance{Width: 390, Height: 844, Dark: true}},
}

// Each page, in a light theme on a desk and in a dark one on a phone, is free of errors in a real
// browser, asks no other host for anything, is accessible, and is not wider than the screen. COFFER_SCREENS
// names a folder for pictures, in both themes for both.
func TestPagesInABrowserAreAccessibleAndQuiet(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.setQuorum(h.one, "2")
	h.fund(h.one, "alice", usdc, 500_000_000_000)
	h.fund(h.one, "<script>Аlice", evil, 50_000_000_000)
	first := h.request(h.one, "alice", usdc, "12500000000")
	h.request(h.one, "alice", usdc, "1000000")
	second := h.request(h.one, "<script>Аlice", evil, "999999999")
	token := h.signIn(h.one, identity.Approver)
	path, digest := h.open(token, first.ID)
	h.post(token, path+"/approve", "digest", digest, "code", rightCode)

	h.freeze(h.one, "<script>Аlice", freeze.SourceOrganization, h.one.people[identity.Owner].Actor(), "<b>odd</b>")

	base := "http://localhost:" + strings.Split(h.server.Listener.Addr().String(), ":")[1]
	chosen := slices.Clone(looks)
	if os.Getenv("COFFER_SCREENS") != "" {
		chosen = append(
			chosen, look{"dark", browser.Appearance{Width: 1280, Height: 900, Dark: true}},
			look{"phone", browser.Appearance{Width: 390, Height: 844}},
		)
	}
	tab := browser.Open(t)
	tab.SetCookie(base, pages.SessionCookie, token)
	for name, path := range map[string]string{
		"home":            "",
		"approvals":       "/approvals",
		"flagged":         "/approvals/flagged",
		"history":         "/approvals/history",
		"sign-in":         "/sign-in",
		"device":          "/sign-in/device",
		"review":          "/approvals/withdrawals/" + second.ID,
		"review-own-vote": "/approvals/withdrawals/" + first.ID,
		"audit":           "/audit",
		"customers":       "/customers",
		"customers-none":  "/customers?search=zz",
		"customer":        "/customers/alice",
		"customer-frozen": "/customers/" + url.PathEscape("<script>Аlice"),
		"statement":       "/customers/alice/statement",
		"audit-empty":     "/audit?action=none",
		"not-found":       "/approvals/withdrawals/wd_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	} {
		for _, l := range chosen {
			tab.OpenURL(base+Prefix+path, l.look)
			tab.WaitUntil("document.readyState === 'complete'")
			if problems := tab.ListAccessibilityProblems(); len(problems) > 0 {
				t.Errorf("%s, %s: got %q, want an accessible page", name, l.name, problems)
			}
			if browser.Evaluate[bool](tab, "document.documentElement.scrollWidth > innerWidth") {
				t.Errorf("%s, %s: the page is wider than the screen", name, l.name)
			}
			if folder := os.Getenv("COFFER_SCREENS"); folder != "" {
				tab.SaveWholePage(filepath.Join(folder, name+"-"+l.name+".png"))
			}
		}
	}
	for _, complaint := range tab.ListComplaints() {
		if !strings.Contains(complaint, "404") {
			t.Errorf("the browser complained: %s", complaint)
		}
	}
	for _, asked := range tab.ListRequests() {
		if !strings.HasPrefix(asked, base+"/") && asked != "about:blank" {
			t.Errorf("a page asked %s", asked)
		}
	}
}
