package arch

import (
	"regexp"
	"slices"
	"strings"
)

// glossaryPage defines the terms of the project.
const glossaryPage = "docs/glossary.md"

// glossaryEntry is one paragraph of the page: a term, and the words that it retires.
type glossaryEntry struct {
	term    string
	retired []string
}

var entryForm = regexp.MustCompile(`^\*\*(.+?)\.\*\* [^.]+\. \*Source:\* .+?\.(?: \*Avoid:\* (.+)\.)?$`)

// parseGlossary parses the entries, and finds those that are malformed or out of order.
func parseGlossary(page string) ([]glossaryEntry, []string) {
	c := violations{}
	var entries []glossaryEntry
	defined := map[string]bool{}
	last := ""
	for paragraph := range strings.SplitSeq(page, "\n\n") {
		paragraph = strings.Join(strings.Fields(paragraph), " ")
		if strings.HasPrefix(paragraph, "## ") {
			last = ""
		}
		if !strings.HasPrefix(paragraph, "**") {
			continue
		}
		m := entryForm.FindStringSubmatch(paragraph)
		if m == nil {
			c.addf("%s: %q is no term with a sentence and its source", glossaryPage, paragraph)
			continue
		}
		term := strings.ToLower(m[1])
		if defined[term] {
			c.addf("%s: %s is defined twice", glossaryPage, m[1])
		}
		if term < last {
			c.addf("%s: %s stands after %s: the terms of a section are sorted", glossaryPage, m[1], last)
		}
		last, defined[term] = term, true
		entry := glossaryEntry{term: m[1]}
		if m[2] != "" {
			entry.retired = strings.Split(strings.ToLower(m[2]), ", ")
		}
		entries = append(entries, entry)
	}
	for _, entry := range entries {
		for _, word := range entry.retired {
			if defined[word] {
				c.addf("%s: %s retires %s, which is a term", glossaryPage, entry.term, word)
			}
		}
	}
	if len(entries) == 0 {
		c.addf("%s: defines no term", glossaryPage)
	}
	return entries, c.sortedList()
}

// allowedWord allows a retired word in a name. An entry that no code uses any more fails the test.
type allowedWord struct {
	word   string
	dir    string // empty: everywhere
	name   string // empty: every name that has the word
	reason string
}

func (a allowedWord) covers(word, dir, name string) bool {
	return a.word == word && (a.dir == "" || a.dir == dir) && (a.name == "" || a.name == name)
}

var allowedWords = []allowedWord{
	// The word has its plain meaning.
	{"lease", "internal/webhooks/delivery", "", "the time for which a dispatcher has a delivery"},
	{"lease", "internal/deposit", "", "the time for which a process rescreens a deposit"},
	{"lease", "internal/platform/mail", "", "the time for which a process has a mail"},
	{"lease", "internal/testing/trial/crashes", "", "the lease of a delivery"},
	{"merge", "internal/chain/evm", "mergeWith", "the answers of two nodes become one"},
	{"merge", "internal/app", "", "the settings merge_from and merge_rate"},
	{"place", "internal/webhooks/delivery", "place", "a position in a list"},
	{"place", "internal/verify", "place", "the position of an entry in a journal"},
	{"place", "internal/testing/trial/bench", "place", "a placeholder in a path"},
	{"place", "internal/localworld/surfpool", "", "puts an account into the local chain"},
	{"rest", "", "rest", "the remainder of a text or a list"},
	{"rest", "internal/testing/trial/soak", "restartAtRest", "a restart while the service is idle"},
	{"site", "internal/testing/trial/crashes", "", "a chain on which a failpoint is played"},
	{"site", "internal/identity/signin", "", "the RP id of WebAuthn, a registrable domain"},
	{"want", "", "want", "what a check compares with, beside got"},
	{"want", "internal/chain/chaintest", "wantRefused", "a helper of tests"},
	{"want", "internal/signer/signertest", "wantRefusal", "a helper of tests"},
	{"want", "internal/withdrawal", "wantDigest", "what a check compares with"},
}

// checkGlossary compares the names that the code declares with the words that the page retires.
func (h tree) checkGlossary(page string, allowed []allowedWord) []string {
	entries, complaints := parseGlossary(page)
	c := violations{}
	used := map[allowedWord]bool{}
	for _, s := range h.sources {
		if !s.hasCheckedNames() {
			continue
		}
		for _, name := range declaredNames(s.file) {
			words := " " + strings.Join(splitName(name.Name), " ") + " "
			for _, entry := range entries {
				for _, word := range entry.retired {
					if !strings.Contains(words, " "+word+" ") {
						continue
					}
					i := slices.IndexFunc(allowed, func(a allowedWord) bool { return a.covers(word, s.dir, name.Name) })
					if i >= 0 {
						used[allowed[i]] = true
						continue
					}
					c.addf("%s: %s: the glossary retires %q: the term is %s",
						s.position(name), name.Name, word, entry.term)
				}
			}
		}
	}
	for _, a := range allowed {
		if !used[a] {
			c.addf("%q in %s %s: no name needs it: remove it from allowedWords", a.word, a.dir, a.name)
		}
		if a.reason == "" {
			c.addf("%q in %s %s: give the reason", a.word, a.dir, a.name)
		}
	}
	return slices.Concat(complaints, c.sortedList())
}
