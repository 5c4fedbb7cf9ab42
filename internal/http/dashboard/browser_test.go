package dashboard

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
	arrived := h.seeDeposits(h.one, "<script>Аlice", evil, 1, firstHash)
	moved := h.transfer(h.one, "<script>Аlice", evil, "key-1", hostile)
	h.attempt(h.one, second.ID, hostile)
	token := h.signIn(h.one, identity.Approver)
	path, digest := h.open(token, first.ID)
	h.post(token, path+"/approve", "digest", digest, "code", rightCode)

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
		"deposits":        "/transactions",
		"withdrawals":     "/transactions?kind=WITHDRAWAL&customerId=alice",
		"transfers":       "/transactions?kind=TRANSFER",
		"search":          "/transactions/search?q=alice",
		"deposit":         "/transactions/deposits/" + arrived,
		"withdrawal":      "/transactions/withdrawals/" + second.ID,
		"transfer":        "/transactions/transfers/" + moved.ID,
		"sign-in":         "/sign-in",
		"device":          "/sign-in/device",
		"review":          "/approvals/withdrawals/" + second.ID,
		"review-own-vote": "/approvals/withdrawals/" + first.ID,
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
	for _, url := range tab.ListRequests() {
		if !strings.HasPrefix(url, base+"/") && url != "about:blank" {
			t.Errorf("a page asked %s", url)
		}
	}
}
