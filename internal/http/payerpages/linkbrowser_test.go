package payerpages

import (
	"path/filepath"
	"testing"

	"github.com/cofferpay/coffer/internal/testing/trial/browser"
)

// The page of a payment link in each of its states is accessible in both themes and from right to left, fits a narrow
// phone and asks no other host for anything, and its form works without scripts. make pages looks at each state in
// every look. Rules CO-42, CO-49 and CO-63.
func TestThePagesOfLinksInABrowserAreAccessibleAndQuiet(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	tab := browser.Open(t)
	for turn, c := range []struct {
		name    string
		state   LinkState
		problem *LinkProblem
	}{
		{"link-open", LinkOpen, nil},
		{"link-problem", LinkOpen, &LinkProblem{Kind: QuantityProblem, ProductID: "prod_1"}},
		{"link-paused", LinkPaused, nil},
		{"link-sold-out", LinkSoldOut, nil},
	} {
		for _, l := range looksInTurn(
			turn, look{"light", "en", phone}, look{"dark", "de", night}, look{"arabic", "ar", phone},
			look{"desk", "ja", desk},
		) {
			h.links.change(func(f *fakeLinks) {
				f.view, f.problem = newLinkView(), c.problem
				if f.view.State = c.state; c.state != LinkOpen {
					f.view.Nonce = ""
				}
			})
			name := c.name + "-" + l.name
			tab.OpenURL(h.base+LinkPrefix+slug+"?lang="+l.language, l.appearance)
			if c.problem != nil {
				tab.Type("#price-1", "5")
				tab.Click("main button")
				tab.WaitUntil("document.querySelector('[aria-invalid]') !== null")
			}
			if *screensFlag != "" {
				tab.SaveWholePage(filepath.Join(*screensFlag, name+".png"))
			}
			for _, problem := range listProblems(tab, l) {
				t.Errorf("%s: %s", name, problem)
			}
		}
	}
	if *screensFlag != "" {
		h.links.change(func(f *fakeLinks) { f.view = newLinkView(); f.view.Items = f.view.Items[:1] })
		tab.OpenURL(h.base+LinkPrefix+slug+"/poster.svg", desk)
		tab.SaveWholePage(filepath.Join(*screensFlag, "link-poster.png"))
		h.links.change(func(f *fakeLinks) { f.view = newLinkView() })
		tab.OpenURL(h.base+LinkPrefix+slug+"/poster.svg?lang=ar", desk)
		tab.SaveWholePage(filepath.Join(*screensFlag, "link-poster-ar.png"))
	}
	h.links.change(func(f *fakeLinks) { f.view, f.problem = newLinkView(), nil })
	tab.DisableScripts()
	tab.OpenURL(h.base+LinkPrefix+slug, phone)
	tab.Type("#price-1", "5")
	tab.Click("main button")
	tab.WaitUntil("location.pathname === '" + prefix + checkoutID + "'")
	wantText(t, tab, "How do you want to pay?")
}
