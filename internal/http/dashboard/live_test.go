package dashboard

import (
	"bufio"
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// startLive lets pages change by themselves until the test ends.
func (h *testEnv) startLive() {
	h.t.Helper()
	ctx, stop := context.WithCancel(h.t.Context())
	ended := make(chan error, 2)
	go func() { ended <- h.changes.Run(ctx) }()
	go func() { ended <- (&audit.Sealer{DB: h.db}).Run(ctx) }()
	h.t.Cleanup(func() {
		stop()
		for range 2 {
			if err := <-ended; err != nil {
				h.t.Error(err)
			}
		}
	})
	pgtest.Eventually(h.t, func() bool { return h.changes.Position() > 0 }, "the follower reads")
}

var liveAttribute = regexp.MustCompile(`data-live="([^"]+)"`)

// streamOf returns the path of the stream of a page.
func (h *testEnv) streamOf(token, path string) string {
	h.t.Helper()
	found := liveAttribute.FindStringSubmatch(h.get(token, path).want(h.t, http.StatusOK).body)
	if found == nil {
		h.t.Fatalf("the page %s has no stream", path)
	}
	return strings.ReplaceAll(found[1], "&amp;", "&")
}

// stream opens a stream and returns its lines, until the test ends or it does.
func (h *testEnv) stream(token, path string) (status int, lines <-chan string) {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.server.URL+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Host = "localhost:" + strings.Split(h.server.Listener.Addr().String(), ":")[1]
	r.Header.Set("Cookie", pages.SessionCookie+"="+token)
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	out := make(chan string, 100)
	go func() {
		defer close(out)
		defer got.Body.Close()
		for scanner := bufio.NewScanner(got.Body); scanner.Scan(); {
			if line := scanner.Text(); line != "" && line != ": " {
				out <- line
			}
		}
	}()
	return got.StatusCode, out
}

func wantLine(t *testing.T, lines <-chan string, want string) {
	t.Helper()
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("the stream ended without %q", want)
			}
			if line == want {
				return
			}
		case <-time.After(time.Minute):
			t.Fatalf("got no %q within a minute", want)
		}
	}
}

// A stream names what changed in its organization, of the kinds that its page shows, and says nothing of
// what it is. Rule PAGE-8.
func TestAStreamNamesWhatChanged(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, "alice", usdc, 50_000_000_000)
	h.fund(h.two, "bob", usdc, 50_000_000_000)
	first := h.request(h.one, "alice", usdc, "12500000")
	h.startLive()
	token := h.signIn(h.one, identity.Viewer)
	_, list := h.stream(token, h.streamOf(token, Prefix+"/approvals"))
	_, one := h.stream(token, h.streamOf(token, Prefix+"/approvals/withdrawals/"+first.ID))
	strange := h.request(h.two, "bob", usdc, "1000000")
	second := h.request(h.one, "alice", usdc, "2000000")
	approver := h.signIn(h.one, identity.Approver)
	path, _ := h.open(approver, first.ID)
	h.post(approver, path+"/remove", "reason", "", "code", rightCode).want(t, http.StatusSeeOther)
	last := "data: WITHDRAWAL " + first.ID
	var got []string
	for line := range list {
		got = append(got, line)
		if line == last {
			break
		}
	}
	text := strings.Join(got, "\n")
	if strings.Contains(text, strange.ID) || !strings.Contains(text, "data: WITHDRAWAL "+second.ID) {
		t.Errorf("got %q, want the withdrawal of the organization alone", got)
	}
	for _, line := range got {
		if !regexp.MustCompile(`^(id: \d+|event: change|data: WITHDRAWAL wd_\w+)$`).MatchString(line) {
			t.Errorf("got the line %q, want a name and nothing else", line)
		}
	}
	// The page of one withdrawal hears of that one alone.
	for line := range one {
		if strings.Contains(line, second.ID) {
			t.Errorf("got %q on the page of %s", line, first.ID)
		}
		if line == last {
			break
		}
	}
}

// A page that loads itself again does not keep its session alive, and a stream ends with its session.
func TestAPageThatChangesByItselfKeepsNoSessionAlive(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.realFactors = true
	h.startLive()
	p := h.join(h.one, identity.Viewer)
	token := p.cookies[pages.SessionCookie]
	path := h.streamOf(token, Prefix+"/approvals")
	status, lines := h.stream(token, path)
	if status != http.StatusOK {
		t.Fatalf("got %d, want a stream", status)
	}
	for range 2 {
		h.pass(16 * time.Minute)
		h.send(token, http.MethodGet, Prefix+"/approvals", nil, pages.LiveHeader, "1")
	}
	got := h.send(token, http.MethodGet, Prefix+"/approvals", nil, pages.LiveHeader, "1").
		want(t, http.StatusSeeOther)
	if to := got.header.Get("Location"); !strings.HasPrefix(to, signInPath) {
		t.Errorf("got a redirect to %q, want sign-in after the idle limit", to)
	}
	signs := h.signs.Load()
	wantLine(t, lines, "event: ended")
	if got := h.signs.Load(); got != signs {
		t.Error("the stream looked for its session as for the sign of a person, and would keep it awake")
	}
	for range lines {
		continue
	}
	if status, _ := h.stream(token, path); status != http.StatusNoContent {
		t.Errorf("got %d, want no stream without a session", status)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.startLive()
	token := h.signIn(h.one, identity.Viewer)
	path := h.streamOf(token, Prefix+"/approvals")
	for i := range 4 {
		want := http.StatusOK
		if i == 3 {
			want = http.StatusTooManyRequests
		}
		if status, _ := h.stream(token, path); status != want {
			t.Errorf("stream %d of a session: got %d, want %d", i+1, status, want)
		}
	}
	other := h.signIn(h.one, identity.Viewer)
	if status, _ := h.stream(other, path); status != http.StatusOK {
		t.Errorf("got %d, want a stream for another session", status)
	}
	strange := path + "&" + url.Values{"data": {"1"}}.Encode()
	if status, _ := h.stream(other, strange); status != http.StatusNoContent {
		t.Errorf("got %d, want no stream for an unknown parameter", status)
	}
}

// A list changes without being loaded, and a page on which a person works does not. Rule PAGE-9.
func TestAPageInABrowserChangesByItself(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.setQuorum(h.one, "2")
	h.fund(h.one, "alice", usdc, 50_000_000_000)
	first := h.request(h.one, "alice", usdc, "12500000000")
	h.startLive()
	base := "http://localhost:" + strings.Split(h.server.Listener.Addr().String(), ":")[1]
	list, review := browser.Open(t), browser.Open(t)
	token := h.signIn(h.one, identity.Approver)
	list.SetCookie(base, pages.SessionCookie, token)
	review.SetCookie(base, pages.SessionCookie, token)
	list.OpenURL(base+Prefix+"/approvals", desk)
	review.OpenURL(base+Prefix+"/approvals/withdrawals/"+first.ID, desk)
	browser.Evaluate[bool](list, "window.notLoadedAgain = true")
	browser.Evaluate[bool](review, "window.notLoadedAgain = true")

	second := h.request(h.one, "alice", usdc, "7000000")
	list.WaitUntil(`document.querySelector('main a[href$="` + second.ID + `"]') !== null`)
	list.WaitUntil(`document.querySelector('tr.changed a[href$="` + second.ID + `"]') !== null`)
	list.WaitUntil(`document.querySelector('.announcement').textContent.startsWith('Updated.')`)

	// A colleague approves while the person types a reason: nothing moves, and a line says so.
	review.Type("#remove-reason", "Not a cust")
	colleague := h.signIn(h.one, identity.Admin)
	path, digest := h.open(colleague, first.ID)
	h.post(colleague, path+"/approve", "digest", digest, "code", rightCode).want(t, http.StatusSeeOther)
	h.wantWithdrawal(h.one, first.ID, withdrawal.AwaitingApproval, 1)
	review.WaitUntil(`!document.querySelector('.outdated').hidden`)
	wantText(t, review, "Something on this page changed since you opened it.")
	typed := browser.Evaluate[string](review, "document.querySelector('#remove-reason').value")
	if typed != "Not a cust" {
		t.Errorf("got %q in the field, want what the person typed", typed)
	}
	for _, tab := range []*browser.Page{list, review} {
		if !browser.Evaluate[bool](tab, "window.notLoadedAgain === true") {
			t.Error("the page was loaded again as a whole")
		}
		for _, complaint := range tab.ListComplaints() {
			t.Errorf("the browser complained: %s", complaint)
		}
	}
	review.Click(".outdated a")
	wantText(t, review, "Admin Person")
}
