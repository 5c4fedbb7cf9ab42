package pagematrix

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/http/pages"
)

// BytesMax is what a first visit of a page may have: its document, the style sheet, the script and the
// pictures, as they are sent.
const BytesMax = 60_000

// csvSuffix makes the path of a page that of its table.
const csvSuffix = ".csv"

// Check checks of each page, without a browser, who may open it and its table, that another organization
// opens nothing of it, and the bytes of a first visit. It returns what it found by the path of the page.
func Check(t testing.TB, h House) map[string]*Row {
	t.Helper()
	rows := map[string]*Row{}
	for _, p := range h.chosenPages() {
		row := &Row{Path: p.Path}
		rows[p.Path] = row
		path := h.fillPath(t, p, h.valuesOf(p))
		row.Openers = h.checkRoles(t, p, path)
		h.checkTable(t, p, path)
		h.checkUnknown(t, p)
		h.checkStranger(t, p, path)
		var plain int
		row.Bytes, plain = h.countBytes(t, h.tokenFor(p), h.addQuery(p, path))
		t.Logf("a first visit has %d bytes, the document alone %d before it is sent: %s", row.Bytes, plain, p.Path)
		if row.Bytes > BytesMax {
			t.Errorf("%s: a first visit has %d bytes, want at most %d", p.Path, row.Bytes, BytesMax)
		}
	}
	if len(rows) == 0 && *onlyFlag == "" {
		t.Error("looked at no page")
	}
	return rows
}

// formValue finds what the fields of a form have.
var formValue = regexp.MustCompile(`value="[^"]*"|<textarea[^>]*>[^<]*</textarea>`)

// checkRoles checks who may open a page, and returns their roles.
func (h House) checkRoles(t testing.TB, p pages.Page, path string) (openers []string) {
	t.Helper()
	address := h.addQuery(p, path)
	visitor := h.fetchPath(t, "", address)
	leadsToSignIn := visitor.status == http.StatusSeeOther && strings.HasPrefix(visitor.location, h.Surface.SignInPath)
	switch p.Access {
	case pages.Everyone:
		// Without the session that it is about, a page of sign-in leads to another one.
		leadsOn := visitor.status == http.StatusSeeOther && strings.HasPrefix(visitor.location, h.Surface.Prefix)
		if visitor.status != http.StatusOK && !leadsOn {
			t.Errorf("%s: a visitor got %d to %q, want a page", address, visitor.status, visitor.location)
		}
		return []string{"everyone"}
	case pages.SignedIn:
		got := h.fetchPath(t, h.OwnToken, address)
		if !leadsToSignIn || got.status != http.StatusOK {
			t.Errorf("%s: got %d for a visitor and %d for a person, want sign-in and the page", address, visitor.status,
				got.status)
		}
		return []string{"signed in"}
	}
	if !leadsToSignIn {
		t.Errorf("%s: a visitor got %d to %q, want sign-in", address, visitor.status, visitor.location)
	}
	for _, person := range h.People {
		got := h.fetchPath(t, person.Token, address)
		if person.mayOpen(p) {
			openers = append(openers, person.Role)
		}
		h.checkAccess(t, address, person, got, person.mayOpen(p), func(o Person) bool { return o.Allows(p.Action) })
		shown := formValue.ReplaceAllString(got.body, "") // A form has what it will send.
		for _, bad := range []string{"<script>alert", "\u202e"} {
			if strings.Contains(shown, bad) {
				t.Errorf("%s: got a page with %q, which a stranger chose", address, bad)
			}
		}
	}
	if len(openers) == len(h.People) {
		return []string{"all roles"}
	}
	return openers
}

// checkAccess checks that a person gets what it may have, and otherwise a refusal with the roles that may.
func (h House) checkAccess(
	t testing.TB, address string, person Person, got answer, isAllowed bool, mayOther func(Person) bool,
) {
	t.Helper()
	if isAllowed {
		if got.status != http.StatusOK {
			t.Errorf("%s as %s: got %d, want 200", address, person.Role, got.status)
		}
		return
	}
	if got.status != http.StatusForbidden {
		t.Errorf("%s as %s: got %d, want 403", address, person.Role, got.status)
	}
	for _, o := range h.People {
		if mayOther(o) && !strings.Contains(got.body, o.Role) {
			t.Errorf("%s as %s: got a refusal that does not name %s", address, person.Role, o.Role)
		}
	}
}

// checkTable checks that a page has a table where its line says so, for those who may have it.
func (h House) checkTable(t testing.TB, p pages.Page, path string) {
	t.Helper()
	if p.WriteCSV == nil {
		if got := h.fetchPath(t, h.tokenFor(p), path+csvSuffix); got.status == http.StatusOK {
			t.Errorf("%s%s: got a table that the line of the page does not have", path, csvSuffix)
		}
		return
	}
	action := h.Surface.TableAction
	for _, person := range h.People {
		got := h.fetchPath(t, person.Token, path+csvSuffix)
		h.checkAccess(t, path+csvSuffix, person, got, person.mayExport(p, action), func(o Person) bool {
			return o.Allows(p.Action) && (action == "" || o.Allows(action))
		})
		if got.status == http.StatusOK && !strings.HasPrefix(got.kind, "text/csv") {
			t.Errorf("%s%s: got %s, want a table", path, csvSuffix, got.kind)
		}
	}
}

const unknownID = "01J9ZW3M8Q4S5T6V7W8X9YZABC"

// checkUnknown checks that an id that does not exist is 404, whichever parameter has it.
func (h House) checkUnknown(t testing.TB, p pages.Page) {
	t.Helper()
	for _, name := range h.foreignParameters(p) {
		values := h.valuesOf(p)
		if kind, _, ok := strings.Cut(values[name], "_"); ok {
			values[name] = kind + "_" + unknownID
		} else {
			values[name] = unknownID
		}
		path := h.fillPath(t, p, values)
		if got := h.fetchPath(t, h.tokenFor(p), h.addQuery(p, path)); got.status != http.StatusNotFound {
			t.Errorf("%s: got %d for an unknown %s, want 404", path, got.status, name)
		}
	}
}

// checkStranger checks that a person of another organization opens no thing of the first one, and sees nothing
// of it in a list or a table. Rule PAGE-6.
func (h House) checkStranger(t testing.TB, p pages.Page, path string) {
	t.Helper()
	if h.Stranger == nil || p.Access != pages.Members {
		return
	}
	addresses := []string{h.addQuery(p, path)}
	if p.WriteCSV != nil {
		addresses = append(addresses, path+csvSuffix)
	}
	for _, file := range p.Files {
		addresses = append(addresses, path+file.Suffix)
	}
	isOfOne := len(h.foreignParameters(p)) > 0
	for _, address := range addresses {
		got := h.fetchPath(t, h.Stranger.Token, address)
		if isOfOne && got.status != http.StatusNotFound {
			t.Errorf("%s: another organization got %d, want 404", address, got.status)
		}
		if got.status >= http.StatusInternalServerError {
			t.Errorf("%s: another organization got %d", address, got.status)
		}
		for _, mark := range h.Marks {
			// A refusal may repeat the address, which the person knows.
			if strings.Contains(got.body, mark) && !strings.Contains(address, mark) {
				t.Errorf("%s: another organization sees %q", address, mark)
			}
		}
	}
}

var loadedFile = regexp.MustCompile(`<(?:link|script|img)\b[^>]*?\b(?:href|src)="([^"]+)"`)

// countBytes returns the bytes of a first visit, which are the document and every file that it loads, as they
// are sent, and those of the document before it is compressed.
func (h House) countBytes(t testing.TB, token, address string) (sent, plain int) {
	t.Helper()
	got := h.fetchPath(t, token, address)
	sent = got.wireBytes
	files := map[string]bool{}
	for _, found := range loadedFile.FindAllStringSubmatch(got.body, -1) {
		files[found[1]] = true
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		loaded := h.fetchPath(t, token, file)
		if loaded.status != http.StatusOK {
			t.Errorf("%s loads %s: got %d", address, file, loaded.status)
		}
		sent += loaded.wireBytes
	}
	if got.status == http.StatusOK && len(files) < 3 {
		t.Errorf("%s loads %d files, want a style sheet, a script and a picture at least", address, len(files))
	}
	return sent, len(got.body)
}
