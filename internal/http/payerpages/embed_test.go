package payerpages

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/testing/trial/browser"
)

// The pages of an organization that lists origins can be in a frame of these and of no other page. Every other answer
// is in none: that of another organization, an error, an image, a poster and the messages for wallets. Rule CO-120.
func TestOnlyTheListedOriginsEmbedAPage(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.checkouts.receipt, _ = sampleReceipt(t)
	const listed = "https://shop.example https://b.example:8443"
	embed := func(origins ...string) {
		h.checkouts.change(func(v *View) { *v = paidView(Completed, newPayment(PaymentCredited, 0)) })
		h.checkouts.change(func(v *View) { v.EmbedOrigins = origins })
		h.links.view.EmbedOrigins = origins
	}
	pages := []string{
		prefix + checkoutID, prefix + checkoutID + "/find", prefix + checkoutID + "/receipt", LinkPrefix + slug,
	}
	others := []string{
		prefix + otherID, prefix + checkoutID + "/images/img_1", prefix + checkoutID + solanaPath,
		prefix + checkoutID + "/nothing", LinkPrefix + slug + "/poster.svg", prefix + checkoutID + "/receipt.json",
	}
	framesOf := func(path string) string {
		t.Helper()
		got := h.get(path)
		_, frames, ok := strings.Cut(got.header.Get("Content-Security-Policy"), "frame-ancestors ")
		if !ok {
			t.Fatalf("%s: got %d with the policy %q", path, got.status, got.header.Get("Content-Security-Policy"))
		}
		frames, _, _ = strings.Cut(frames, ";")
		return frames
	}
	embed("https://shop.example", "https://b.example:8443")
	for _, path := range pages {
		if got := h.get(path); got.status != http.StatusOK ||
			got.header.Get("Content-Security-Policy") != policyWithoutFrames+"frame-ancestors "+listed {
			t.Errorf("%s: got %d with %q, want the listed origins and nothing else changed", path, got.status,
				got.header.Get("Content-Security-Policy"))
		}
	}
	for _, path := range others {
		if got := framesOf(path); got != "'none'" {
			t.Errorf("%s: got frames of %q, want none", path, got)
		}
	}
	// A text that is no origin would be a directive, or allow everyone.
	embed("https://x.example; script-src *", "*", "http://shop.example", "https://a.example\r\nSet-Cookie: x=1",
		"'self'")
	for _, path := range pages {
		got := h.get(path)
		if got.header.Get("Content-Security-Policy") != policy || got.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: got %q, want frames of no one", path, got.header.Get("Content-Security-Policy"))
		}
	}
	embed()
	for _, path := range pages {
		if got := framesOf(path); got != "'none'" {
			t.Errorf("%s: got frames of %q without a list", path, got)
		}
	}
}

// A browser shows the page in a frame of a listed origin and not in one of another page, and it works there. Rule
// CO-120.
func TestABrowserShowsThePageInAListedFrame(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	frame := `<iframe width="360" height="700" src="` + h.base + prefix + checkoutID + `?mint=2"></iframe>`
	shop := newShop(t, "<title>shop</title>"+frame)
	h.checkouts.change(func(v *View) { v.IsLocal, v.EmbedOrigins = true, []string{shop} })
	tab := browser.Open(t)
	tab.OpenURL(shop, desk)
	asked := func() int {
		h.checkouts.mu.Lock()
		defer h.checkouts.mu.Unlock()
		return h.checkouts.versions
	}
	// Only a page that is shown runs its script, which opens a stream.
	h.waitFor("the page in the frame is live", func() bool { return asked() > 0 })
	tab.OpenURL(newShop(t, "<title>stranger</title>"+frame), desk)
	h.waitFor("the browser refuses the frame", func() bool {
		return strings.Contains(strings.Join(tab.ListComplaints(), " "), "frame-ancestors")
	})
}

// newShop serves a page of another origin.
func newShop(t *testing.T, page string) (origin string) {
	t.Helper()
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<!DOCTYPE html>"+page)
	}))
	t.Cleanup(served.Close)
	return served.URL
}
