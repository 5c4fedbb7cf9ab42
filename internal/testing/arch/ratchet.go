package arch

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// tally is how often a breach occurs, by the file or package that has it. A file in testdata lists
// the allowed tally: its numbers may only fall.
type tally map[string]int

const tallyHead = "# A number here may only fall. " +
	"COFFER_UPDATE=1 go test ./internal/testing/arch -run Ratchet writes this file.\n"

func parseTally(text string) (tally, error) {
	listed := tally{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		space := strings.LastIndex(line, " ")
		n, err := strconv.Atoi(line[space+1:])
		if space < 0 || err != nil {
			return nil, fmt.Errorf("%q is no subject with a number behind it", line)
		}
		listed[line[:space]] = n
	}
	return listed, nil
}

func (t tally) format() string {
	lines := violations{}
	for subject, n := range t {
		lines.addf("%s %d\n", subject, n)
	}
	return tallyHead + strings.Join(lines.sortedList(), "")
}

func (t tally) sum() int {
	sum := 0
	for _, n := range t {
		sum += n
	}
	return sum
}

// ratchet counts one kind of breach and compares it with what its file lists.
type ratchet struct {
	name  string // of the file in testdata
	rule  string // what to do instead of the breach
	count func(tree, library) tally
}

var ratchets = []ratchet{
	{"small_words.txt", "name the thing with a noun, or what is done with a verb", countSmallWords},
	{"long_lines.txt", "break lines over 120 columns, where a tab counts 4", countLongLines},
	{"vague_words.txt", "say who and how long, not nobody, somebody, anybody, whoever, for ever", countVagueWords},
}

// compare finds the subjects whose number is not the listed one.
func (r ratchet) compare(listed, found tally) []string {
	c := violations{}
	for subject, n := range found {
		if n > listed[subject] {
			c.addf("%s: got %d, testdata/%s allows %d: %s", subject, n, r.name, listed[subject], r.rule)
		}
	}
	for subject, n := range listed {
		switch now := found[subject]; {
		case now == 0:
			c.addf("%s: got none, testdata/%s lists %d: remove the line", subject, r.name, n)
		case now < n:
			c.addf("%s: got %d, testdata/%s lists %d: lower the number", subject, now, r.name, n)
		}
	}
	return c.sortedList()
}

// taggedField matches a line that is a field of a struct with tags. Go cannot break a tag over lines, and
// a tag has the whole description of its field.
var taggedField = regexp.MustCompile("^\\t+[A-Z]\\w* +[^ `].* `(?:[a-z]+:\"(?:[^\"\\\\`]|\\\\.)*\" ?)+`$")

// countLongLines counts by file.
func countLongLines(h tree, _ library) tally {
	found := tally{}
	for _, s := range h.sources {
		if ast.IsGenerated(s.file) {
			continue
		}
		for line := range strings.Lines(s.text) {
			line = strings.TrimRight(line, "\r\n")
			long := utf8.RuneCountInString(line)+3*strings.Count(line, "\t") > 120
			if long && !taggedField.MatchString(line) {
				found[s.name]++
			}
		}
	}
	return found
}

var vagueWord = regexp.MustCompile(`(?i)\b(?:nobody|somebody|anybody|whoever|for` + betweenWords + `ever)\b`)

// countVagueWords counts by package, in Go and SQL.
func countVagueWords(h tree, l library) tally {
	found := tally{}
	count := func(dir, text string) {
		if n := len(vagueWord.FindAllStringIndex(text, -1)); n > 0 && dir != "internal/testing/arch" {
			found[dir] += n
		}
	}
	for _, s := range h.sources {
		count(s.dir, s.text)
	}
	for name, text := range l {
		if strings.HasSuffix(name, ".sql") {
			count(path.Dir(name), text)
		}
	}
	return found
}
