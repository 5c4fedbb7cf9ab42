package console

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oasdiff/yaml3"
)

// repositoryFile reads a file by its path from the root.
func repositoryFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// alertRule is what a rule of deploy/alerts.yaml says about its page.
type alertRule struct {
	Alert       string `yaml:"alert"`
	Annotations struct {
		Runbook string `yaml:"runbook"`
		Page    string `yaml:"page"`
		NoPage  string `yaml:"no_page"`
	} `yaml:"annotations"`
}

func listAlerts(t *testing.T) (list []alertRule) {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []alertRule `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal([]byte(repositoryFile(t, "deploy/alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		list = append(list, g.Rules...)
	}
	return list
}

// sectionsOf returns the sections of a page of the documentation by their headings. The text before the first
// one is that of "".
func sectionsOf(text string) map[string]string {
	sections, heading := map[string]string{}, ""
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			heading = strings.TrimSpace(name)
			continue
		}
		sections[heading] += line
	}
	return sections
}

const (
	inConsole    = "In the console: "
	notInConsole = "Not in the console: "
)

// pagesIn returns the paths of the console that a text names.
func pagesIn(text string) (paths []string) {
	for i, part := range strings.Split(text, "`") {
		if i%2 == 1 && strings.HasPrefix(part, Prefix) {
			paths = append(paths, part)
		}
	}
	return paths
}

// Each alert names a page that exists or says why there is none, its runbook says the same, and the page names the
// alert and the runbook. Each page that needs an operator is named. Rules PAGE-45 and PAGE-48.
func TestAlertsRunbooksAndPagesNameOneAnother(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	token := h.signInAs(h.ann)
	alerts := sectionsOf(repositoryFile(t, "docs/runbooks/alerts.md"))
	shown, named := map[string]string{}, map[string]bool{}
	look := func(who, path string) string {
		u, err := url.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		named[u.Path] = true
		if _, ok := shown[path]; !ok {
			got := h.get(token, path)
			if got.status != http.StatusOK {
				t.Errorf("%s names %s: got %d, want a page", who, path, got.status)
			}
			shown[path] = got.body
		}
		return shown[path]
	}
	leading := 0
	for _, a := range listAlerts(t) {
		page, reason := a.Annotations.Page, a.Annotations.NoPage
		if (page == "") == (reason == "") {
			t.Errorf("%s: got the page %q and the reason %q, want one of them", a.Alert, page, reason)
			continue
		}
		section, hasSection := alerts[a.Alert]
		if !hasSection && strings.Contains(a.Annotations.Runbook, "#") {
			t.Errorf("%s has no section", a.Alert)
		}
		if reason != "" {
			if !strings.Contains(section, notInConsole) || len(pagesIn(section)) > 0 {
				t.Errorf("%s has no page, and its section does not say why", a.Alert)
			}
			continue
		}
		leading++
		if hasSection && !strings.Contains(section, inConsole+"`"+page+"`") {
			t.Errorf("%s: its section does not name %s", a.Alert, page)
		}
		body := look(a.Alert, page)
		if !strings.Contains(body, a.Alert+"<") || !strings.Contains(body, a.Annotations.Runbook) {
			t.Errorf("%s: its page %s does not name it and %s", a.Alert, page, a.Annotations.Runbook)
		}
	}
	for path, notes := range alertsOf {
		leading -= len(notes)
		if !named[strings.TrimSuffix(Prefix+path, "/")] {
			t.Errorf("no alert leads to %s, which names %v", path, notes)
		}
	}
	if leading != 0 {
		t.Errorf("the pages name %d alerts fewer than lead to them", leading)
	}
	for _, text := range alerts {
		for _, path := range pagesIn(text) {
			look("alerts.md", path)
		}
	}
	for _, a := range attentions {
		if path := Prefix + a.Path; !named[path] {
			t.Errorf("no alert and no runbook names %s", path)
		}
	}
}

// Each section of a runbook names the page on which a person looks, or says why there is none. Sections that only
// say how to set something up tell no person to look. Rule PAGE-48.
func TestEachSectionOfARunbookNamesItsPage(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	token := h.signInAs(h.ann)
	setsUp := map[string]bool{
		"The certificates": true, "The signer's side": true, "The other side": true, "Renewing": true,
		"What to keep": true, "What has no alert": true, "": true,
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "docs", "runbooks", "*.md"))
	if err != nil || len(files) < 4 {
		t.Fatalf("got the runbooks %q, %v", files, err)
	}
	for _, file := range files {
		for heading, text := range sectionsOf(repositoryFile(t, "docs/runbooks/"+filepath.Base(file))) {
			says := strings.Contains(text, inConsole) || strings.Contains(text, notInConsole)
			if !says && !setsUp[heading] {
				t.Errorf("%s, %q: it names no page and no reason", filepath.Base(file), heading)
			}
			for _, path := range pagesIn(text) {
				if got := h.get(token, path); got.status != http.StatusOK {
					t.Errorf("%s, %q names %s: got %d, want a page", filepath.Base(file), heading, path, got.status)
				}
			}
		}
	}
}
