package stories

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"

	"github.com/cofferpay/coffer/internal/testing/trial/browser"
	"github.com/cofferpay/coffer/webhook"
)

// receiver keeps what is posted to it.
type receiver struct {
	mu    sync.Mutex
	posts []post
}

type post struct {
	body   []byte
	header http.Header
}

// ServeHTTP answers with markup, which the pages show as text.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.posts = append(r.posts, post{body, req.Header})
	_, _ = io.WriteString(w, "<script>alert(1)</script>") // The service is gone.
}

// listPosts returns what was posted after the first so many.
func (r *receiver) listPosts(after int) []post {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.posts[after:])
}

// playRotation lets a developer replace the secret of a webhook. What is sent next verifies under the new one.
func playRotation(s *story) {
	s.payIn("wendy", s.ether, wholeUnits(s.ether, 1))
	receiver := &receiver{}
	server := httptest.NewServer(receiver)
	s.Cleanup(server.Close)
	tab := browser.Open(s)
	s.signIn(tab, s.Info.DashboardURL+"/developers/webhooks", s.user("DEVELOPER"))
	s.wantText(tab, "No webhook is registered")
	tab.Type("#register-url", "ftp://receiver.example")
	tab.Press("form[action$=register] button.primary", 1)
	if typed := readField(tab, "#register-url"); typed != "ftp://receiver.example" {
		s.Errorf("got the URL %q, want what the developer typed", typed)
	}
	tab.Type("#register-url", server.URL)
	tab.Type("#register-customerId", "wendy")
	tab.Press("form[action$=register] button.primary", 2)
	s.wantText(tab, "This is shown once")
	old := browser.Evaluate[string](tab, "document.querySelector('.secret').textContent.trim()")
	tab.Click("main a.button")
	page := browser.Evaluate[string](tab, "location.href")
	path := browser.Evaluate[string](tab, "location.pathname")
	tab.Press("form[action$=test] button", 1)
	s.wantText(tab, "<script>alert(1)</script>")
	samples := receiver.listPosts(0)
	if len(samples) != 1 {
		s.Fatalf("got %d posts, want the sample", len(samples))
	}
	s.wantVerified(samples[0], old, true)

	tab.OpenURL(page, desk)
	seen := readField(tab, "form[action$=rotate] [name=seen]")
	tab.Press("form[action$=rotate] button", 2)
	s.wantText(tab, "The old secret signs, too, until")
	secret := browser.Evaluate[string](tab, "document.querySelector('.secret').textContent.trim()")
	if secret == "" || secret == old {
		s.Fatal("the page shows no new secret")
	}
	// The way back shows no secret, and a tab of before the rotation makes no third one.
	s.goBack(tab, "Replace the secret")
	if browser.Evaluate[bool](tab, "document.querySelector('.secret') !== null") {
		s.Error("the way back shows the secret again")
	}
	s.sendOldForm(tab, path+"/rotate", "seen", seen)
	s.wantText(tab, "replaced after this page was loaded")

	s.requestWithdrawal("wendy", "0.25", s.newAddress(), true)
	s.waitUntil("the next delivery arrives", func() bool { return len(receiver.listPosts(1)) > 0 })
	next := receiver.listPosts(1)[0]
	s.wantVerified(next, secret, true)
	s.wantVerified(next, old, true) // for 24 hours
	s.wantVerified(next, webhook.NewSecret(), false)
	s.wantVerified(samples[0], secret, false)
	s.wantQuiet(tab)
}

func (s *story) wantVerified(p post, secret string, want bool) {
	s.Helper()
	err := webhook.Verify(p.body, p.header, secret, webhook.DefaultTolerance)
	if (err == nil) != want {
		s.Errorf("a delivery under a secret: got %v, want it verified: %v", err, want)
	}
}
