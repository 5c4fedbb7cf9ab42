package arch

import (
	"go/ast"
	"regexp"
	"strings"
)

var (
	// A rule is defined where its id opens a line of docs/rules.md, be it a
	// heading, a list entry, a table row or a paragraph.
	ruleDefined = regexp.MustCompile(`(?m)^[#|*\- \t]*` + "`?" + `([A-Z]{2,6}-[0-9]+)\b`)
	ruleID      = regexp.MustCompile(`\b([A-Z]{2,6})-([0-9]+)\b`)
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

// checkRules compares the rules of the interface with the code: every rule is
// named by at least one test, and every rule that is named exists.
func (h tree) checkRules(rules string) []string {
	c := violations{}
	defined, prefixes, proven := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, m := range ruleDefined.FindAllStringSubmatch(rules, -1) {
		if defined[m[1]] {
			c.addf("docs/rules.md: %s is defined twice", m[1])
		}
		defined[m[1]] = true
		prefixes[strings.Split(m[1], "-")[0]] = true
	}
	cite := func(s source, n ast.Node, text string) {
		found := map[string]bool{}
		for _, m := range ruleCited.FindAllStringSubmatch(text, -1) {
			for _, id := range ruleID.FindAllString(m[1], -1) {
				found[id] = true
			}
		}
		for _, m := range ruleID.FindAllStringSubmatch(text, -1) {
			if prefixes[m[1]] {
				found[m[0]] = true
			}
		}
		for id := range found {
			if !defined[id] {
				c.addf("%s: names rule %s, which docs/rules.md does not have", s.position(n), id)
			}
			if s.test {
				proven[id] = true
			}
		}
	}
	for _, s := range h.sources {
		if s.dir == "internal/arch" {
			continue // its examples are no citations
		}
		for _, group := range s.file.Comments {
			cite(s, group, group.Text())
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok {
				cite(s, lit, lit.Value)
			}
			return true
		})
	}
	for id := range defined {
		if !proven[id] {
			c.addf("docs/rules.md: %s: no test names it", id)
		}
	}
	if len(defined) == 0 {
		c.addf("docs/rules.md: defines no rule")
	}
	return c.sortedList()
}
