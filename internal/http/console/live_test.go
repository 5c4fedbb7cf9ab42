package console

import (
	"bufio"
	"context"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
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
	r.Header.Set("Cookie", pages.OperatorSessionCookie+"="+token)
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	out := make(chan string, 100)
	go func() {
		defer close(out)
		defer got.Body.Close()
		for scanner := bufio.NewScanner(got.Body); scanner.Scan(); {
			if line := scanner.Text(); strings.HasPrefix(line, "data: ") {
				out <- line
			}
		}
	}()
	return got.StatusCode, out
}

// readUntil returns the lines of a stream up to one.
func readUntil(t *testing.T, lines <-chan string, last string) (got []string) {
	t.Helper()
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("the stream ended without %q; it had %q", last, got)
			}
			if got = append(got, line); line == last {
				return got
			}
		case <-time.After(time.Minute):
			t.Fatalf("got no %q within a minute, but %q", last, got)
		}
	}
}

// note records an act about a thing of an organization.
func (h *testEnv) note(orgID, kind, id string) {
	h.t.Helper()
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: orgID, Actor: audit.System("test"), Action: "thing.done", ResourceKind: kind, ResourceID: id,
		})
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// An operator hears of all organizations, of the kinds that the page shows and of nothing else, and on the page
// of one thing of that one. A session of an organization hears of its own, and one of none of nothing, whatever
// the stream asks for. Rules PAGE-8 and PAGE-47.
func TestAnOperatorHearsOfAllOrganizations(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	other, _, err := org.Create(t.Context(), h.db, "Another Company")
	if err != nil {
		t.Fatal(err)
	}
	depositID := h.flag()
	h.startLive()
	ann := h.signInAs(h.ann)
	member := h.open(session.Session{OrgID: h.orgID, Member: h.memberOf})
	ownPath := h.streamOf(ann, Prefix+"/flagged")
	_, all := h.stream(h.signInAs(h.eve), ownPath)
	_, one := h.stream(ann, h.streamOf(ann, Prefix+"/flagged/"+depositID))
	status, own := h.stream(member, ownPath)
	if status != http.StatusOK {
		t.Fatalf("a member: got %d, want a stream of the own organization", status)
	}
	if status, _ := h.stream(h.open(session.Session{}), ownPath); status != http.StatusNoContent {
		t.Errorf("a session of no organization and no operator: got %d, want no stream", status)
	}
	if status, _ := h.stream("", ownPath); status != http.StatusNoContent {
		t.Errorf("a visitor: got %d, want no stream", status)
	}
	h.note(h.orgID, "FREEZE", "frz_1")
	h.note(other.ID, "DEPOSIT", "dep_other")
	h.note(h.orgID, "DEPOSIT", "dep_own")
	h.note(h.orgID, "DEPOSIT", depositID)
	last := "data: DEPOSIT " + depositID
	if got, want := readUntil(t, all, last), []string{
		"data: DEPOSIT dep_other", "data: DEPOSIT dep_own", last,
	}; !slices.Equal(got, want) {
		t.Errorf("an operator: got %q, want %q", got, want)
	}
	if got, want := readUntil(t, own, last), []string{"data: DEPOSIT dep_own", last}; !slices.Equal(got, want) {
		t.Errorf("a member: got %q, want %q", got, want)
	}
	if got := readUntil(t, one, last); len(got) != 1 {
		t.Errorf("the page of one deposit: got %q, want that one alone", got)
	}
}

// Each page that shows things of which the audit log has rows changes by itself, and each kind that a page names
// is one that the code records.
func TestEachPageNamesKindsThatAreRecorded(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	written := regexp.MustCompile(`(?:ResourceKind: |resourceKind = )"(\w+)"`)
	recorded := map[string]bool{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range written.FindAllStringSubmatch(string(text), -1) {
			recorded[found[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// The audit log and the signer change with everything, and are read as of one moment. A form for a passkey shows
	// nothing that changes.
	still := []string{"/audit", "/signer", "/approvers/new"}
	for _, p := range surface(h).Pages {
		if p.Access != pages.Members {
			continue
		}
		if (len(p.Live) == 0) != slices.Contains(still, p.Path) {
			t.Errorf("%s: got the kinds %q", p.Path, p.Live)
		}
		for _, kind := range p.Live {
			if !recorded[kind] {
				t.Errorf("%s: no code records the kind %s", p.Path, kind)
			}
		}
	}
}

// The first page and a list change without being loaded. A page on which an operator ticks a box or types does
// not, and one whose content is the same says nothing. Rule PAGE-9.
func TestThePagesOfAnOperatorChangeByThemselves(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.startLive()
	base := strings.Replace(h.server.URL, "127.0.0.1", "localhost", 1)
	first, list := browser.Open(t), browser.Open(t)
	token := h.signInAs(h.ann)
	for tab, path := range map[*browser.Page]string{first: Prefix, list: Prefix + "/freezes"} {
		tab.SetCookie(base, pages.OperatorSessionCookie, token)
		tab.OpenURL(base+path, looks["light"])
		browser.Evaluate[bool](tab, "window.notLoadedAgain = true")
	}
	made := h.freezeOrg()
	first.WaitUntil(`document.querySelector('main').textContent.includes('1 freeze by operators')`)
	list.WaitUntil(`document.querySelector('tr.changed a[href$="` + made + `"]') !== null`)
	list.WaitUntil(`document.querySelector('.announcement').textContent.startsWith('Updated.')`)

	// Nothing that this page shows has changed, so it says nothing although an operator types.
	list.Type("#create-reason", "A question of the pol")
	browser.Evaluate[bool](list, `(window.asked = 0, window.ask = window.fetch,
		window.fetch = (...args) => { window.asked += 1; return window.ask(...args); }, true)`)
	for _, asked := range []string{"1", "2"} { // the second question comes after the answer to the first
		h.note(h.orgID, "FREEZE", "frz_unknown_"+asked)
		list.WaitUntil(`window.asked >= ` + asked)
	}
	if browser.Evaluate[bool](list, "!document.querySelector('.outdated').hidden") {
		t.Error("the page says that something changed, and nothing did")
	}
	h.post(h.signInAs(h.bob), Prefix+"/freezes/"+made+"/lift", "code", rightCode).want(t, http.StatusSeeOther)
	list.WaitUntil(`!document.querySelector('.outdated').hidden`)
	if typed := browser.Evaluate[string](
		list, "document.querySelector('#create-reason').value",
	); typed != "A question of the pol" {
		t.Errorf("got %q in the field, want what the operator typed", typed)
	}
	for _, tab := range []*browser.Page{first, list} {
		if !browser.Evaluate[bool](tab, "window.notLoadedAgain === true") {
			t.Error("the page was loaded again as a whole")
		}
		for _, complaint := range tab.ListComplaints() {
			t.Errorf("the browser complained: %s", complaint)
		}
	}
	list.Click(".outdated a")
	wantText(t, list, "Lifted")
}
