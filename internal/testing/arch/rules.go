package arch

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
)

// uncitedRules are the rules that no code and no constraint keeps by itself, with the reason. A
// line whose rule is cited by code, or is not on the page, fails the test.
var uncitedRules = []uncitedRule{
	{"DOC-1", "a test compares the document with the released one, and only a person approves a break"},
	{"DOC-2", "a test compares the clients with the document; each call and field is a line of its own"},
}

type uncitedRule struct{ id, reason string }

var (
	// A rule is defined where its id opens a line of docs/rules.md, be it a
	// heading, a list entry, a table row or a paragraph.
	ruleDefined = regexp.MustCompile(`(?m)^[#|*\- \t]*` + "`?" + `([A-Z]{2,6}-[0-9]+)\b`)
	ruleID      = regexp.MustCompile(`(?:^|[^A-Za-z0-9-])(([A-Z]{2,6})-[0-9]+)\b`)
	// "Rule DEP-6" or "Rules DEP-6, DEP-7 and WDR-1" is always a citation, so
	// that a mistyped prefix is seen. A bare id counts when its prefix is one
	// of ours; ERC-20 and UTF-8 are not.
	ruleCited = regexp.MustCompile(`\b[Rr]ules? ((?:[A-Z]{2,6}-[0-9]+(?:, | and |, and )?)+)`)
)

var testNamed = regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")

// checkSafetyPage finds the tests that docs/SAFETY.md names and the code does not have.
func (h tree) checkSafetyPage(page string) []string {
	c := violations{}
	tests := map[string]bool{}
	for _, s := range h.sources {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && s.test {
				tests[f.Name.Name] = true
			}
		}
	}
	mentioned := testNamed.FindAllStringSubmatch(page, -1)
	for _, m := range mentioned {
		if !tests[m[1]] {
			c.addf("docs/SAFETY.md: names %s, which is no test", m[1])
		}
	}
	if len(mentioned) == 0 {
		c.addf("docs/SAFETY.md: names no test")
	}
	return c.sortedList()
}

// checkRules compares the rules of the interface with the code: a comment of code that is no test,
// or of the schema, cites every rule, and a test names it. Each rule that is named exists. schema
// holds the SQL by file name. Code of packages for tests keeps no rule.
func (h tree) checkRules(page string, schema map[string]string, uncited []uncitedRule) []string {
	c := violations{}
	defined, prefixes := map[string]bool{}, map[string]bool{}
	for _, m := range ruleDefined.FindAllStringSubmatch(page, -1) {
		if defined[m[1]] {
			c.addf("docs/rules.md: %s is defined twice", m[1])
		}
		defined[m[1]] = true
		prefixes[strings.Split(m[1], "-")[0]] = true
	}
	citedByCode, citedByTests := map[string]bool{}, map[string]bool{}
	cite := func(position, text string, cited map[string]bool) {
		for _, id := range citedRules(text, prefixes) {
			if !defined[id] {
				c.addf("%s: names rule %s, which docs/rules.md does not have", position, id)
			}
			cited[id] = true
		}
	}
	for _, s := range h.sources {
		if s.dir == "internal/testing/arch" {
			continue // its examples are no citations
		}
		p, _ := h.findPackage(s.dir)
		inComments, inTexts := citedByCode, map[string]bool{}
		if s.test {
			inComments, inTexts = citedByTests, citedByTests
		} else if p.capabilities&testOnly != 0 {
			inComments = map[string]bool{}
		}
		for _, group := range s.file.Comments {
			cite(s.position(group), group.Text(), inComments)
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok {
				cite(s.position(lit), lit.Value, inTexts)
			}
			return true
		})
	}
	for name, sql := range schema {
		for i, line := range strings.Split(sql, "\n") {
			if _, comment, ok := strings.Cut(line, "--"); ok {
				cite(fmt.Sprintf("%s:%d", name, i+1), comment, citedByCode)
			}
		}
	}
	for id := range defined {
		if !citedByTests[id] {
			c.addf("docs/rules.md: %s: no test names it", id)
		}
	}
	if len(defined) == 0 {
		c.addf("docs/rules.md: defines no rule")
	}
	for _, u := range uncited {
		switch {
		case !defined[u.id]:
			c.addf("uncitedRules: %s is not in docs/rules.md: take it out", u.id)
		case citedByCode[u.id]:
			c.addf("uncitedRules: code cites %s: take it out", u.id)
		case u.reason == "":
			c.addf("uncitedRules: %s: give the reason", u.id)
		}
		citedByCode[u.id] = true
	}
	for id := range defined {
		if !citedByCode[id] {
			c.addf("docs/rules.md: %s: no code cites it where it is kept", id)
		}
	}
	return c.sortedList()
}

// citedRules returns the ids of rules that a text cites.
func citedRules(text string, prefixes map[string]bool) (ids []string) {
	for _, m := range ruleCited.FindAllStringSubmatch(text, -1) {
		for _, id := range ruleID.FindAllStringSubmatch(m[1], -1) {
			ids = append(ids, id[1])
		}
	}
	for _, m := range ruleID.FindAllStringSubmatch(text, -1) {
		if prefixes[m[2]] {
			ids = append(ids, m[1])
		}
	}
	return ids
}
