package pagematrix

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/testing/part"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
)

// Look is a way in which a page is looked at.
type Look struct {
	Name       string
	Appearance browser.Appearance
}

// The widths of a phone, a tablet and a desk, each in two themes.
var (
	phone   = browser.Appearance{Width: 390, Height: 844}
	tablet  = browser.Appearance{Width: 820, Height: 1180}
	desktop = browser.Appearance{Width: 1440, Height: 900}
)

// listLooks returns the looks of a page that were asked for: all of them, those of pictures, or in the short
// form one, a light desk and a dark phone by turns.
func listLooks(turn int) []Look {
	wideLooks, narrowLooks := inBothThemes("desktop", desktop), inBothThemes("phone", phone)
	switch {
	case *screensFlag != "":
		return slices.Concat(wideLooks, narrowLooks)
	case *wholeFlag:
		return slices.Concat(wideLooks, inBothThemes("tablet", tablet), narrowLooks)
	case turn%2 == 0:
		return wideLooks[:1]
	}
	return narrowLooks[1:]
}

func inBothThemes(name string, light browser.Appearance) []Look {
	dark := light
	dark.Dark = true
	return []Look{{name + "-light", light}, {name + "-dark", dark}}
}

// visit is a page that a browser opens.
type visit struct {
	name, address, token string
	page                 *pages.Page // of the table; nil for a further state
	looks                []Look
	isMissing            bool
}

var notInFileName = regexp.MustCompile(`[^A-Za-z0-9]+`)

// listVisits returns the pages of the table and the further states.
func (h House) listVisits(t testing.TB) (visits []visit) {
	t.Helper()
	for _, p := range h.chosenPages() {
		name := strings.Trim(notInFileName.ReplaceAllString(p.Path, "-"), "-")
		if name == "" {
			name = "home"
		}
		visits = append(visits, visit{
			name: name, address: h.addQuery(p, h.fillPath(t, p, h.valuesOf(p))), token: h.tokenFor(p), page: &p,
		})
	}
	for _, s := range h.States {
		if strings.Contains(s.Path, *onlyFlag) {
			visits = append(visits, visit{
				name: s.Name, address: h.Surface.Prefix + s.Path, token: s.Token, isMissing: s.IsMissing,
			})
		}
	}
	for i := range visits {
		visits[i].looks = listLooks(i)
	}
	return visits
}

// pagesOfATab bounds what one browser looks at in the short form: a browser has a limited time.
const pagesOfATab = 30

// partsOfPages is in how many days the short form looks at every page.
const partsOfPages = 3

// Browse looks at each page in a browser, in the short form at a part of them a day. In the whole form it runs Check
// too, looks at each page with scripts off as well, and prints what it found.
func Browse(t *testing.T, h House) {
	t.Helper()
	visits := h.listVisits(t)
	r := &report{house: h.Name, total: len(visits), began: time.Now()}
	if !*wholeFlag && *screensFlag == "" {
		for group := range slices.Chunk(part.OfToday(t, visits, partsOfPages), pagesOfATab) {
			tab := browser.Open(t)
			for _, v := range group {
				for _, problem := range h.lookAt(tab, v) {
					t.Error(problem)
				}
			}
		}
		return
	}
	rows := map[string]*Row{}
	if *wholeFlag && len(visits) > 0 {
		rows = Check(t, h)
	}
	// Each page is a test of its own with a browser of its own: a page that fails or hangs ends no other.
	t.Run("pages", func(t *testing.T) {
		for _, v := range visits {
			t.Run(v.name, func(t *testing.T) {
				t.Parallel()
				h.lookAtAlone(t, r, rows, v)
			})
		}
	})
	r.print(os.Stdout)
}

// lookAtAlone looks at one page in a browser of its own and reports it.
func (h House) lookAtAlone(t *testing.T, r *report, rows map[string]*Row, v visit) {
	t.Helper()
	row := &Row{Path: v.name + " (a state)"}
	if v.page != nil {
		row.Path = v.page.Path
		if checked := rows[v.page.Path]; checked != nil {
			row = checked
		}
	}
	// A test that ends in the middle is reported as well.
	problems := []string{"the look ended before its end"}
	defer func() {
		row.Looks, row.Problems = len(v.looks), len(problems)
		r.add(row)
	}()
	found := h.lookAt(browser.Open(t), v)
	if v.page != nil && *wholeFlag {
		found = append(found, h.lookWithoutScripts(t, v)...)
	}
	for _, problem := range found {
		t.Error(problem)
		r.announce(problem) // at once: the other pages take long
	}
	problems = found
}

// lookAt opens a page in each look and returns what is wrong with it. Rules PAGE-60 and PAGE-61.
func (h House) lookAt(tab *browser.Page, v visit) (problems []string) {
	addf := func(look, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("%s, %s: ", v.name, look)+fmt.Sprintf(format, args...))
	}
	reports := h.CountReports()
	tab.ClearCookies()
	if v.token != "" {
		tab.SetCookie(h.Base, h.Surface.SessionCookie, v.token)
	}
	for i, look := range v.looks {
		requests, complaints := len(tab.ListRequests()), len(tab.ListComplaints())
		tab.OpenURL(h.Base+v.address, look.Appearance)
		tab.WaitUntil("document.readyState === 'complete'")
		if *screensFlag != "" {
			tab.SaveWholePage(filepath.Join(*screensFlag, h.Name+"-"+v.name+"-"+look.Name+".png"))
		} else {
			for _, problem := range tab.ListAccessibilityProblems() {
				addf(look.Name, "not accessible: %s", problem)
			}
		}
		if wide := browser.Evaluate[[]string](tab, listWideScript); len(wide) > 0 {
			addf(look.Name, "wider than the screen: %q", wide)
		}
		if i == 0 {
			for _, problem := range h.checkForms(tab) {
				addf(look.Name, "%s", problem)
			}
		}
		for _, complaint := range tab.ListComplaints()[complaints:] {
			if !v.isMissing || !strings.Contains(complaint, "404") {
				addf(look.Name, "the browser complained: %s", complaint)
			}
		}
		for _, asked := range tab.ListRequests()[requests:] {
			if !strings.HasPrefix(asked, h.Base+"/") && asked != "about:blank" {
				addf(look.Name, "asked %s", asked)
			}
		}
	}
	if len(v.looks) == 1 { // The short form looks at the narrow width as well.
		tab.Resize(phone)
		if wide := browser.Evaluate[[]string](tab, listWideScript); len(wide) > 0 {
			addf("phone", "wider than the screen: %q", wide)
		}
	}
	// With several tabs at once, the report may be of another page; the complaints name the right one.
	if n := h.CountReports() - reports; n > 0 {
		addf("all looks", "%d reports of the policy while it was open", n)
	}
	return problems
}

// listWideScript lists what makes a page wider than the screen. What is wide inside of a box that scrolls by
// itself does not.
const listWideScript = `document.documentElement.scrollWidth <= innerWidth ? [] :
	[...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1)
		.filter((e) => {
			for (let box = e.parentElement; box; box = box.parentElement) {
				if (getComputedStyle(box).overflowX !== 'visible') return false;
			}
			return true;
		})
		.slice(0, 8).map((e) => e.tagName + '.' + e.className + ' ' + e.textContent.trim().slice(0, 30))`

// shownForm is a form of a page with one of the buttons that send it, as the browser has it.
type shownForm struct {
	Form         int      `json:"form"`
	Button       int      `json:"button"` // among those that send the form; -1 for none
	Action       string   `json:"action"`
	Method       string   `json:"method"`
	Names        []string `json:"names"`
	IsVisible    bool     `json:"isVisible"`
	NeedsPasskey bool     `json:"needsPasskey"`
}

const listFormsScript = `[...document.forms].flatMap((f, form) => {
	const buttons = [...f.elements].filter((e) => e.type === 'submit');
	return (buttons.length > 0 ? buttons : [null]).map((b, button) => ({
		form, button: b ? button : -1,
		action: new URL(b?.getAttribute('formaction') || f.getAttribute('action') || '', location.href).pathname,
		method: (f.getAttribute('method') || 'get').toLowerCase(),
		names: [...new Set([...f.elements].filter((e) => e.name && !e.disabled).map((e) => e.name))],
		isVisible: f.checkVisibility(),
		needsPasskey: f.hasAttribute('data-needs-passkey'),
	}));
})`

// checkForms checks that each form of a page is sent to an act of the table with exactly its fields, and each
// filter to a page with parameters of its line. Rule PAGE-63.
func (h House) checkForms(tab *browser.Page) (problems []string) {
	for _, f := range browser.Evaluate[[]shownForm](tab, listFormsScript) {
		if f.Button < 0 {
			problems = append(problems, fmt.Sprintf("the form %s has no button that sends it", f.Action))
		}
		if f.Method == "get" {
			p, ok := h.findPage(f.Action)
			if !ok {
				problems = append(problems, fmt.Sprintf("the filter %s leads to no page", f.Action))
			}
			for _, name := range f.Names {
				if ok && !hasParameter(p, name) {
					problems = append(problems, fmt.Sprintf("%s has no parameter %q of its filter", f.Action, name))
				}
			}
			continue
		}
		act, ok := h.findAct(f.Action)
		if !ok {
			problems = append(problems, fmt.Sprintf("the form %s is of no act", f.Action))
			continue
		}
		problems = append(problems, compareFields(act, f)...)
	}
	return problems
}

// compareFields compares the fields of a form with those of its act.
func compareFields(act pages.Act, f shownForm) (problems []string) {
	var fieldNames []string
	for _, field := range act.Fields {
		fieldNames = append(fieldNames, field.Name)
		if !slices.Contains(f.Names, field.Name) && !field.Scripted && !field.Checkbox && !field.HasBoxes {
			problems = append(problems, fmt.Sprintf("the form %s has no field %q", f.Action, field.Name))
		}
	}
	if act.Keyed {
		fieldNames = append(fieldNames, ui.KeyName)
		if !slices.Contains(f.Names, ui.KeyName) {
			problems = append(problems, fmt.Sprintf("the form %s has no key", f.Action))
		}
	}
	if act.StepUp != pages.NoStepUp {
		fieldNames = append(fieldNames, ui.CodeName, ui.PasskeyName)
	}
	if act.StepUp == pages.ActStepUp && !slices.Contains(f.Names, ui.CodeName) {
		problems = append(problems, fmt.Sprintf("the form %s has no field for the factor", f.Action))
	}
	for _, name := range f.Names {
		if !slices.Contains(fieldNames, name) {
			problems = append(problems, fmt.Sprintf("the form %s has the field %q, which its act does not know",
				f.Action, name))
		}
	}
	return problems
}

// hasParameter reports whether a page has a parameter of its query.
func hasParameter(p pages.Page, name string) bool {
	for _, parameter := range p.Query {
		if parameter.Name == name {
			return true
		}
	}
	return false
}

// matchPath reports whether a path is one of a page.
func (h House) matchPath(p pages.Page, path string) bool {
	pattern := regexp.QuoteMeta(strings.TrimSuffix(h.Surface.Prefix+p.Path, "/"))
	pattern = regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(pattern, `[^/]+`)
	return regexp.MustCompile("^" + pattern + "/?$").MatchString(path)
}

// findPage finds the page of a path. A page without parameters takes precedence, as in the router.
func (h House) findPage(path string) (found pages.Page, ok bool) {
	for _, p := range h.Surface.Pages {
		if h.matchPath(p, path) && (!ok || len(h.parameterNames(p)) < len(h.parameterNames(found))) {
			found, ok = p, true
		}
	}
	return found, ok
}

func (h House) parameterNames(p pages.Page) []string { return pathParameter.FindAllString(p.Path, -1) }

// findAct finds the act of the path to which its form is sent.
func (h House) findAct(path string) (found pages.Act, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return pages.Act{}, false
	}
	parameters := -1
	for _, p := range h.Surface.Pages {
		for _, act := range p.Acts {
			n := len(h.parameterNames(p))
			if act.Name == path[i+1:] && h.matchPath(p, path[:i]) && (parameters < 0 || n < parameters) {
				found, ok, parameters = act, true, n
			}
		}
	}
	return found, ok
}

// lookWithoutScripts opens a page in a browser whose user has switched scripts off. The page has its content
// and its forms there. Each form that needs a second factor is sent without one, which does nothing.
func (h House) lookWithoutScripts(t *testing.T, v visit) (problems []string) {
	t.Helper()
	addf := func(format string, args ...any) {
		problems = append(problems, fmt.Sprintf("%s, scripts off: ", v.name)+fmt.Sprintf(format, args...))
	}
	tab := browser.Open(t)
	tab.DisableScripts()
	token := v.token
	if v.page.Access == pages.Members && token == h.People[0].Token {
		token = h.OldToken
	}
	if token != "" {
		tab.SetCookie(h.Base, h.Surface.SessionCookie, token)
	}
	open := func() {
		tab.OpenURL(h.Base+v.address, desktop)
		tab.WaitUntil("document.readyState === 'complete'")
	}
	open()
	if !browser.Evaluate[bool](tab, "document.querySelector('main h1')?.checkVisibility() === true") {
		addf("no visible heading")
	}
	if n := browser.Evaluate[int](tab, "document.querySelector('main').innerText.length"); n < 20 {
		addf("%d characters of content", n)
	}
	for _, problem := range h.checkForms(tab) {
		addf("%s", problem)
	}
	if token != h.OldToken {
		return problems
	}
	for _, f := range browser.Evaluate[[]shownForm](tab, listFormsScript) {
		act, ok := h.findAct(f.Action)
		if f.Method == "get" || !ok || f.Button < 0 || act.StepUp == pages.NoStepUp || f.NeedsPasskey {
			continue
		}
		if !f.IsVisible && browser.Evaluate[bool](tab, fmt.Sprintf("!document.forms[%d].closest('details')", f.Form)) {
			addf("the form %s is not visible", f.Action)
			continue
		}
		open()
		tab.SubmitForm(f.Form, f.Button)
		status := browser.Evaluate[int](tab, "performance.getEntriesByType('navigation')[0].responseStatus")
		if status == http.StatusNotFound || status == http.StatusMethodNotAllowed ||
			status >= http.StatusInternalServerError {
			addf("the form %s was answered %d", f.Action, status)
		}
		text := browser.Evaluate[string](tab, "document.querySelector('main')?.innerText ?? ''")
		if strings.Contains(text, "This form is not one of this page") || len(text) < 20 {
			addf("the form %s was answered %q", f.Action, text)
		}
	}
	return problems
}

// report collects what was found of a house and says how far it is.
type report struct {
	house string
	total int
	began time.Time

	mu   sync.Mutex
	rows []*Row
}
