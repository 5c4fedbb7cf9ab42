package arch

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// decisionTable is the page that maps the number of each decision to a page and a heading.
const decisionTable = "docs/design/README.md"

// formerFolder had a page for each decision. Its numbers are in decisionTable.
const formerFolder = "docs/" + "decisions"

// indexedFolders have a README.md that links each of their pages.
var indexedFolders = []string{"docs/adr", "docs/design", "docs/howto"}

// textBytesMax excludes test programs and profiles in the folder.
const textBytesMax = 8 << 20

// library has the text files of the repository by name, and its folders with "" as text.
type library map[string]string

// loadTexts reads every text file in fsys, except programs of third parties.
func loadTexts(fsys fs.FS) (library, error) {
	texts := library{}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		hidden := name != "." && strings.HasPrefix(base, ".")
		if d.IsDir() {
			if hidden || base == "node_modules" || base == "dist" || name == "bin" {
				return fs.SkipDir
			}
			texts[name] = ""
			return nil
		}
		if hidden || !d.Type().IsRegular() {
			return nil
		}
		texts[name] = ""
		if info, err := d.Info(); err != nil || info.Size() > textBytesMax {
			return err
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		if !utf8.Valid(text) || slices.Contains(text, 0) {
			text = nil // a picture or an archive: it exists, and cites nothing
		}
		texts[name] = string(text)
		return nil
	})
	return texts, err
}

// names returns the names of all files and folders, sorted.
func (l library) names() []string {
	names := make([]string, 0, len(l))
	for name := range l {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// at returns a position in a text, for a message.
func (l library) at(name string, offset int) string {
	return fmt.Sprintf("%s:%d", name, 1+strings.Count(l[name][:offset], "\n"))
}

const betweenWords = `(?:\s|//|--|#|\*|>)+` // a space, or the end of a line in a comment

var (
	tableRow       = regexp.MustCompile(`(?m)^\| (0\d{3}) \| (.*) \|$`)
	decisionNumber = regexp.MustCompile(`\b0\d{3}\b`)
	// citedDecision finds "decision" with a number, and "decisions" with several.
	citedDecision = regexp.MustCompile(
		`\b[Dd]ecisions?` + betweenWords + `0\d{3}\b(?:(?:,|` + betweenWords + `(?:and|or|to))` + betweenWords + `0\d{3}\b)*`,
	)
	formerPage = regexp.MustCompile(formerFolder + `|\]\([^)\s]*\bdecisions/0\d{3}[^)\s]*\)`)
)

// citedDecisions compares the table of decisions with what the repository cites.
func (l library) citedDecisions() []string {
	c := violations{}
	known := map[string]bool{}
	last := ""
	for _, at := range tableRow.FindAllStringSubmatchIndex(l[decisionTable], -1) {
		number, pages := l[decisionTable][at[2]:at[3]], l[decisionTable][at[4]:at[5]]
		where := l.at(decisionTable, at[0])
		if number <= last {
			c.addf("%s: %s does not follow %s: the table is sorted, and each number is in it once", where, number, last)
		}
		last, known[number] = number, true
		links := markdownLink.FindAllStringSubmatch(pages, -1)
		if len(links) == 0 {
			c.addf("%s: %s names no page", where, number)
		}
		for _, link := range links {
			if !strings.HasPrefix(link[1], "../adr/") && !strings.Contains(link[1], "#") {
				c.addf("%s: %s names %s without a heading", where, number, link[1])
			}
		}
	}
	if len(known) == 0 {
		c.addf("%s: has no table of decisions", decisionTable)
	}
	for _, name := range l.names() {
		if path.Dir(name) == formerFolder {
			c.addf("%s: decisions stand in docs/design and docs/adr", name)
		}
		if !strings.Contains(l[name], "ecision") {
			continue // the patterns are slow
		}
		for _, at := range citedDecision.FindAllStringIndex(l[name], -1) {
			for _, number := range decisionNumber.FindAllString(l[name][at[0]:at[1]], -1) {
				if !known[number] {
					c.addf(
						"%s: cites decision %s, which is not in the table of %s", l.at(name, at[0]), number,
						decisionTable,
					)
				}
			}
		}
		for _, at := range formerPage.FindAllStringIndex(l[name], -1) {
			c.addf(
				"%s: %s is no page any more: name the page in docs/design or docs/adr, or cite the number",
				l.at(name, at[0]), l[name][at[0]:at[1]],
			)
		}
	}
	return c.sortedList()
}

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// namedPage matches pages that a comment or a text names from the root.
	namedPage  = regexp.MustCompile(`docs/(?:adr|design|howto)/[\w.-]+\.md(?:#[\w-]+)?`)
	linkScheme = regexp.MustCompile(`^[a-z]+:`)
)

// links finds links to pages and headings that do not exist, and pages without an index.
func (l library) links() []string {
	c := violations{}
	headings := map[string]map[string]bool{}
	follow := func(where, link, target, heading string) {
		text, exists := l[target]
		if !exists {
			c.addf("%s: %s leads nowhere: there is no %s", where, link, target)
			return
		}
		if heading == "" || !strings.HasSuffix(target, ".md") {
			return
		}
		if headings[target] == nil {
			headings[target] = anchors(text)
		}
		if !headings[target][heading] {
			c.addf("%s: %s leads nowhere: %s has no heading %s", where, link, target, heading)
		}
	}
	for _, name := range l.names() {
		for _, at := range namedPage.FindAllStringIndex(l[name], -1) {
			link := l[name][at[0]:at[1]]
			target, heading, _ := strings.Cut(link, "#")
			follow(l.at(name, at[0]), link, target, heading)
		}
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, at := range markdownLink.FindAllStringSubmatchIndex(l[name], -1) {
			link := l[name][at[2]:at[3]]
			if linkScheme.MatchString(link) {
				continue
			}
			target, heading, _ := strings.Cut(link, "#")
			if target == "" {
				target = name
			} else {
				target = path.Join(path.Dir(name), target)
			}
			follow(l.at(name, at[0]), link, target, heading)
		}
	}
	for _, folder := range indexedFolders {
		index := folder + "/README.md"
		for _, name := range l.names() {
			if path.Dir(name) == folder && strings.HasSuffix(name, ".md") && name != index &&
				!strings.Contains(l[index], "]("+path.Base(name)+")") {
				c.addf("%s: is not linked in %s", name, index)
			}
		}
	}
	return c.sortedList()
}

// anchors are the names by which links reach the headings of a page. A heading that occurs
// again has a number behind its name.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	code := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		level := len(line) - len(strings.TrimLeft(line, "#"))
		if code || level == 0 || level > 6 || !strings.HasPrefix(line[level:], " ") {
			continue
		}
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(line[level:]))
		base := name
		for n := 1; all[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		all[name] = true
	}
	return all
}
