package dashboard

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/deposit"
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

// ownerPages are the pages that an owner looks at: they have forms for managers.
var ownerPages = []string{
	"developers", "key", "webhooks", "webhook", "deliveries", "delivery", "events", "team", "person", "settings",
	"change", "settings-past",
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
	h.fundProduct(h.one, "CHECKOUT", usdc, 12_500_000_000)
	h.fundProduct(h.one, "BATCH_PAYOUT", evil, 7_000_000)
	entry := h.allow(h.one, recipient, "Cold wallet <b>")
	h.set(h.one, "twoFactorUsdThreshold", `"100"`)
	counter := &deposit.AddressService{DB: h.db, Chains: h.withdrawals.Chains, Wallets: h.book}
	if _, err := counter.IssueForProduct(t.Context(), h.one.id, usdc, "CHECKOUT"); err != nil {
		t.Fatal(err)
	}
	flagged := h.flagDeposits(h.one, 1, true)[0]
	finance := h.signIn(h.one, identity.Finance)
	confirm, fields := h.confirmWithdrawal(finance, Prefix+"/withdraw/CHECKOUT/1", entry, "5")
	h.post(finance, confirm+"/request", append(fields, "code", rightCode+"own")...)
	h.moveOwnMoney(finance)
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
	owner, endpointID := h.signIn(h.one, identity.Owner), h.register(h.one, h.receiver(http.StatusBadGateway, hostile))
	sample := h.post(owner, Prefix+"/developers/webhooks/"+endpointID+"/"+testEndpointAct, "type", "CUSTOMER_DEPOSIT").
		header.Get("Location")
	h.numberEvents()
	h.attempt(h.one, second.ID, hostile)
	seen := h.get(owner, Prefix+"/settings").hidden(t, seenName)
	change := h.post(owner, Prefix+"/settings/"+changeSettingsAct, settingValues(seen)...).header.Get("Location")
	tab := browser.Open(t)
	tab.SetCookie(base, pages.SessionCookie, token)
	for name, path := range map[string]string{
		"home":             "",
		"approvals":        "/approvals",
		"flagged":          "/approvals/flagged",
		"history":          "/approvals/history",
		"deposits":         "/transactions",
		"withdrawals":      "/transactions?kind=WITHDRAWAL&customerId=alice",
		"transfers-list":   "/transactions?kind=TRANSFER",
		"search":           "/transactions/search?q=alice",
		"deposit-steps":    "/transactions/deposits/" + arrived,
		"withdrawal-steps": "/transactions/withdrawals/" + second.ID,
		"transfer-steps":   "/transactions/transfers/" + moved.ID,
		"sign-in":          "/sign-in",
		"device":           "/sign-in/device",
		"review":           "/approvals/withdrawals/" + second.ID,
		"review-own-vote":  "/approvals/withdrawals/" + first.ID,
		"not-found":        "/approvals/withdrawals/wd_01J9ZW3M8Q4S5T6V7W8X9YZABC",
		"audit":            "/audit",
		"customers":        "/customers",
		"customers-none":   "/customers?search=zz",
		"customer":         "/customers/alice",
		"customer-frozen":  "/customers/" + url.PathEscape("<script>Аlice"),
		"statement":        "/customers/alice/statement",
		"audit-empty":      "/audit?action=none",

		"flagged-review":     "/approvals/deposits/" + flagged,
		"balances":           "/balances",
		"balance":            "/balances/CHECKOUT/1",
		"transfers":          "/balances/transfers",
		"transfer-confirm":   "/balances/CHECKOUT/1/transfer?to=CUSTODIAL&amount=12000.5",
		"withdraw":           "/withdraw",
		"withdraw-form":      "/withdraw/CHECKOUT/1?amount=12&to=" + entry,
		"withdraw-unusable":  "/withdraw/BATCH_PAYOUT/2",
		"withdraw-confirm":   "/withdraw/CHECKOUT/1/confirm?amount=12000.5&to=" + entry,
		"withdraw-forbidden": "/withdraw/CHECKOUT/1/confirm?amount=90000&to=" + entry,
		"developers":         "/developers",
		"key":                "/developers/keys/key_main",
		"webhooks":           "/developers/webhooks",
		"webhook":            "/developers/webhooks/" + endpointID,
		"deliveries":         "/developers/webhooks/" + endpointID + "/deliveries",
		"delivery":           strings.TrimPrefix(sample, Prefix),
		"events":             "/developers/events",
		"tokens":             "/developers/tokens",
		"team":               "/team",
		"person":             "/team/" + h.one.people[identity.Viewer].ID,
		"settings":           "/settings",
		"change":             strings.TrimPrefix(change, Prefix),
		"settings-past":      "/settings/history",
	} {
		switch {
		case strings.HasPrefix(path, "/withdraw") || strings.Contains(path, "/transfer?"):
			tab.SetCookie(base, pages.SessionCookie, finance)
		case slices.Contains(ownerPages, name):
			tab.SetCookie(base, pages.SessionCookie, owner)
		default:
			tab.SetCookie(base, pages.SessionCookie, token)
		}
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
