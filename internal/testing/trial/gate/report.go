package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	modulePath   = "github.com/cofferpay/coffer/"
	slowestCount = 20
)

func shortName(pkg string) string { return strings.TrimPrefix(pkg, modulePath) }

// report prints the slowest tests, what failed, and the verdict. It returns whether everything passed
// that was said, and every wanted test was heard of. Wanted are names of tests by import path.
func (r *record) report(out io.Writer, wanted map[string][]string, took time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	var failed []string
	tests, subtests, cached := 0, 0, 0
	tested, ended := map[string]bool{}, map[testID]bool{}
	for _, p := range r.sortedPackages() {
		failures := 0
		for _, t := range p.tests {
			if strings.Contains(t.id.test, "/") {
				subtests++
			} else {
				tests++
			}
			ended[t.id] = true
			if t.outcome != "pass" {
				failures++
				failed = append(failed, shortName(p.name)+" "+t.id.test+t.firstFinding())
			}
		}
		if p.outcome != "skip" {
			tested[p.name] = true
		}
		if p.cached {
			cached++
		}
		switch {
		case p.outcome == "":
			r.breakf("%s: has not ended", shortName(p.name))
		case p.outcome == "fail" && failures == 0:
			failed = append(failed, shortName(p.name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		for _, test := range wanted[name] {
			if !ended[testID{name, test}] {
				r.breakf("%s %s: did not run", shortName(name), test)
			}
		}
	}
	if tests == 0 {
		r.breakf("no test ran")
	}

	fmt.Fprintf(out, "\nthe slowest tests\n")
	for _, t := range r.slowest() {
		fmt.Fprintf(out, "%8.1f s  %-28s %s\n", t.seconds, shortName(t.id.pkg), t.id.test)
	}
	fmt.Fprintln(out)
	for _, text := range r.builds {
		fmt.Fprint(out, text)
	}
	for _, name := range failed {
		fmt.Fprintln(out, "FAIL ", name)
	}
	for _, reason := range r.broken {
		fmt.Fprintln(out, "FAIL ", reason)
	}
	fmt.Fprintf(
		out, "ran %d tests (%d subtests) in %d packages in %.0f s", tests, subtests, len(tested), took.Seconds(),
	)
	if cached > 0 {
		fmt.Fprintf(out, ", %d packages from the cache", cached)
	}
	passed := len(failed) == 0 && len(r.broken) == 0
	if passed {
		fmt.Fprintln(out, ": passed")
	} else {
		fmt.Fprintln(out, ": FAILED")
	}
	return passed
}

// findingPattern matches a line that a test itself has logged, with its place in a file of tests.
var findingPattern = regexp.MustCompile(`^\s+\S+_test\.go:\d+: `)

// firstFinding returns the first such line of a test, on a line of its own, or "". The logs of a
// test's processes may follow it by the thousand, and who reads the end of the output sees the
// verdict with its reason.
func (t *testState) firstFinding() string {
	for _, text := range t.output {
		if findingPattern.MatchString(text) {
			return "\n          " + strings.TrimSpace(text)
		}
	}
	return ""
}

// sortedPackages returns the runs of packages by name.
func (r *record) sortedPackages() []*packageState {
	return slices.SortedFunc(maps.Values(r.packages), func(a, b *packageState) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(raceOrder(a), raceOrder(b)))
	})
}

func raceOrder(p *packageState) int {
	if p.race {
		return 1
	}
	return 0
}

// slowest returns the tests with the longest times. The time of a test contains that of its
// subtests, except of the parallel ones. So a subtest is listed only if it took longer than its
// test.
func (r *record) slowest() []*testState {
	var listed []*testState
	for _, p := range r.sortedPackages() {
		for _, t := range p.tests {
			if !p.containsTime(t) {
				listed = append(listed, t)
			}
		}
	}
	slices.SortFunc(listed, func(a, b *testState) int {
		return cmp.Or(
			cmp.Compare(b.seconds, a.seconds), cmp.Compare(a.id.pkg, b.id.pkg), cmp.Compare(a.id.test, b.id.test),
		)
	})
	return listed[:min(len(listed), slowestCount)]
}

// containsTime reports whether the time of a test above t contains that of t.
func (p *packageState) containsTime(t *testState) bool {
	for name := t.id.test; ; {
		last := strings.LastIndexByte(name, '/')
		if last < 0 {
			return false
		}
		name = name[:last]
		if outer := p.byName[name]; outer != nil && outer.seconds >= t.seconds {
			return true
		}
	}
}
