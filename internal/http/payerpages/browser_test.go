package payerpages

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/cofferpay/coffer/internal/testing/trial/browser"
)

var screensFlag = flag.String("payerpages.screens", "", "folder for pictures of each state")

var (
	phone = browser.Appearance{Width: 360, Height: 740}
	desk  = browser.Appearance{Width: 1280, Height: 900}
)

func TestPagesInABrowser(t *testing.T) {
	h := newTestEnv(t)
	tab := browser.Open(t)
	for _, s := range listStates() {
		h.checkouts.change(func(v *View) { *v = s.view })
		tab.OpenURL(h.base+prefix+checkoutID+s.query, phone)
		if *screensFlag != "" {
			tab.SaveWholePage(filepath.Join(*screensFlag, s.name+".png"))
		}
	}
	_ = desk
}
