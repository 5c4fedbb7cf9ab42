package payerpages

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/testing/trial/browser"
)

// caseNames are the ways in which the local world plays payers. A test of the command line compares them.
var caseNames = []string{
	"exact", "under", "over", "twice", "late", "wrong-token", "other-network", "below-minimum", "flagged", "reorged",
}

// fakeCases plays payers as a test says.
type fakeCases struct {
	mu     sync.Mutex
	played []string
	err    error
	hold   chan struct{} // a case lasts until it is closed; nil: it ends at once
	begun  chan struct{}
}

// List implements Cases.
func (f *fakeCases) List() []string { return caseNames }

// Play implements Cases.
func (f *fakeCases) Play(ctx context.Context, id string, _ int, name string) error {
	f.mu.Lock()
	f.played = append(f.played, id+" "+name)
	f.mu.Unlock()
	if f.hold != nil {
		f.begun <- struct{}{}
		select {
		case <-f.hold:
		case <-ctx.Done():
		}
	}
	return f.err
}

// In the local world every case is a button that plays a payer, one of a checkout at a time, and a case that cannot be
// played says why. Rule CO-124.
func TestTheLocalWorldPlaysPayersByButtons(t *testing.T) {
	t.Parallel()
	cases := &fakeCases{}
	h := newTestEnv(t, func(c *Config) { c.Cases = cases })
	h.checkouts.change(func(v *View) { v.IsLocal = true })
	for _, l := range languages {
		body := h.get(prefix + checkoutID + "?mint=2&lang=" + l.tag).body
		for _, name := range caseNames {
			if !strings.Contains(body, `name="case" value="`+name+`"`) ||
				!strings.Contains(body, l.texts["cases."+name]) {
				t.Errorf("%s: got no button for %s", l.tag, name)
			}
		}
	}
	path := prefix + checkoutID + casesPath
	for _, name := range caseNames {
		got := h.post(path, "mint", "2", "case", name)
		if got.status != http.StatusSeeOther || got.header.Get("Location") != prefix+checkoutID+"?mint=2" {
			t.Errorf("%s: got %d to %q", name, got.status, got.header.Get("Location"))
		}
	}
	if len(cases.played) != len(caseNames) || !slices.Contains(cases.played, checkoutID+" reorged") {
		t.Errorf("got the cases %q", cases.played)
	}
	for _, values := range [][]string{{"mint", "2"}, {"case", "exact"}, {"mint", "2", "case", "steal"}, {"mint", "x"}} {
		if got := h.post(path, values...); got.status != http.StatusBadRequest {
			t.Errorf("%q: got %d, want 400", values, got.status)
		}
	}
	if got := h.post(prefix+otherID+casesPath, "mint", "2", "case", "exact"); got.status != http.StatusNotFound {
		t.Errorf("got %d for an absent checkout, want 404", got.status)
	}
	cases.err = errors.New("only the local Ethereum replaces blocks. Nothing was sent")
	got := h.post(path, "mint", "2", "case", "reorged")
	if got.status != http.StatusUnprocessableEntity || !strings.Contains(readText(got.body), cases.err.Error()) {
		t.Errorf("got %d: %s", got.status, readText(got.body))
	}
	cases.err, cases.hold, cases.begun = nil, make(chan struct{}), make(chan struct{}, 1)
	ended := make(chan answer)
	go func() { ended <- h.post(path, "mint", "2", "case", "late") }()
	<-cases.begun
	if got := h.post(path, "mint", "2", "case", "exact"); got.status != http.StatusConflict ||
		!strings.Contains(readText(got.body), "A payer is already at work") {
		t.Errorf("got %d while a payer is at work, want 409", got.status)
	}
	close(cases.hold)
	if got := <-ended; got.status != http.StatusSeeOther {
		t.Errorf("got %d, want the page of the checkout", got.status)
	}
}

// The buttons are accessible, fit a narrow phone in every language, and play a payer without scripts, too. Rules CO-49
// and CO-124.
func TestTheCasesInABrowser(t *testing.T) {
	t.Parallel()
	cases := &fakeCases{}
	h := newTestEnv(t, func(c *Config) { c.Cases = cases })
	h.checkouts.change(func(v *View) { v.IsLocal = true })
	tab := browser.Open(t)
	for _, l := range languages {
		h.open(tab, "?mint=2&lang="+l.tag, browser.Appearance{Width: 320, Height: 640, Dark: l.tag == "de"})
		browser.Evaluate[bool](tab, "document.querySelector('#cases').open = true")
		if browser.Evaluate[bool](tab, "document.documentElement.scrollWidth > innerWidth") {
			t.Errorf("%s: the page is wider than the screen", l.tag)
		}
		problems := append(tab.ListAccessibilityProblems(), browser.Evaluate[[]string](tab, smallTargets)...)
		for _, problem := range problems {
			t.Errorf("%s: %s", l.tag, problem)
		}
	}
	tab.DisableScripts()
	h.open(tab, "?mint=2", phone)
	browser.Evaluate[bool](tab, "document.querySelector('#cases').open = true")
	tab.Click("#cases button[value=over]")
	wantText(t, tab, "Pay with ETH on Ethereum")
	cases.mu.Lock()
	defer cases.mu.Unlock()
	if want := []string{checkoutID + " over"}; !slices.Equal(cases.played, want) {
		t.Errorf("got the cases %q, want %q", cases.played, want)
	}
	h.wantQuiet(tab)
}

// Without a world that plays payers no path plays one, and no page says that it could. Rule CO-124.
func TestNoOtherNetworkPlaysPayers(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for _, name := range caseNames {
		if got := h.post(prefix+checkoutID+casesPath, "mint", "2", "case", name); got.status != http.StatusNotFound {
			t.Errorf("%s: got %d, want 404", name, got.status)
		}
	}
	for _, s := range listStates() {
		h.checkouts.change(func(v *View) { *v = s.view })
		if body := h.get(prefix + checkoutID + s.query).body; strings.Contains(body, "cases") {
			t.Errorf("%s: got a page that plays payers", s.name)
		}
	}
}
