package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// event is a line of go test -json: go doc test2json for tests, go help buildjson for builds.
type event struct {
	Action     string
	Package    string
	Test       string
	ImportPath string
	Output     string
	Elapsed    float64 // seconds
}

// testID names a test or a subtest.
type testID struct{ pkg, test string }

// testState is what is known of a test that has begun.
type testState struct {
	id      testID
	output  []string // kept until the test passes
	outcome string   // pass, fail or skip; empty while it runs
	seconds float64
}

// packageKey names one run of a package. Some packages have two: with the race detector and without.
type packageKey struct {
	name string
	race bool
}

// packageState is what is known of a package that has begun.
type packageState struct {
	name    string
	tests   []*testState
	byName  map[string]*testState
	output  []string // of no test
	outcome string
	seconds float64
	cached  bool
	race    bool
}

// record collects the events of one or more runs of go test. It is safe for concurrent use.
type record struct {
	out io.Writer // gets the outcome of each package as it ends

	mu       sync.Mutex
	packages map[packageKey]*packageState
	builds   []string // what the compiler said
	broken   []string // why the streams cannot be trusted
}

func newRecord(out io.Writer) *record {
	return &record{out: out, packages: map[packageKey]*packageState{}}
}

// readStream reads the events of one go test. A line that is no event, or an event that this command
// does not know, breaks the run: a test that fails might stand in it. The stream is read to its end,
// because go test would block otherwise.
func (r *record) readStream(stream io.Reader, race bool) error {
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadString('\n')
		if strings.TrimSpace(line) != "" {
			r.addLine(line, race)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read what go test says: %w", err)
		}
	}
}

func (r *record) addLine(line string, race bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e event
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		r.breakf("no event: %q", strings.TrimSpace(line))
		return
	}
	switch e.Action {
	case "build-output":
		r.builds = append(r.builds, e.Output)
		return
	case "build-fail":
		r.breakf("%s was not built", e.ImportPath)
		return
	}
	if e.Package == "" {
		r.breakf("an event without a package: %q", strings.TrimSpace(line))
		return
	}
	key := packageKey{e.Package, race}
	p := r.packages[key]
	if p == nil {
		p = &packageState{name: e.Package, byName: map[string]*testState{}, race: race}
		r.packages[key] = p
	}
	if p.outcome != "" {
		r.breakf("%s: %s after the package had ended", e.Package, e.Action)
		return
	}
	if e.Test == "" {
		r.addPackageEvent(p, e)
	} else {
		r.addTestEvent(p, e)
	}
}

func (r *record) addPackageEvent(p *packageState, e event) {
	switch e.Action {
	case "start":
	case "output":
		p.cached = p.cached || strings.HasPrefix(e.Output, "ok ") && strings.Contains(e.Output, "(cached)")
		p.output = append(p.output, e.Output)
	case "pass", "fail", "skip":
		p.outcome, p.seconds = e.Action, e.Elapsed
		r.closePackage(p)
	default:
		r.breakf("%s: an unknown event %q", p.name, e.Action)
	}
}

func (r *record) addTestEvent(p *packageState, e event) {
	t := p.byName[e.Test]
	if e.Action == "run" {
		if t != nil {
			r.breakf("%s %s: begins twice", p.name, e.Test)
			return
		}
		t = &testState{id: testID{p.name, e.Test}}
		p.byName[e.Test] = t
		p.tests = append(p.tests, t)
		return
	}
	if t == nil {
		r.breakf("%s %s: %s before it has begun", p.name, e.Test, e.Action)
		return
	}
	switch e.Action {
	case "pause", "cont", "attr":
	case "output":
		t.output = append(t.output, e.Output)
	case "pass", "fail", "skip":
		if t.outcome != "" {
			r.breakf("%s %s: ends twice", p.name, e.Test)
			return
		}
		t.outcome, t.seconds = e.Action, e.Elapsed
		if e.Action == "pass" {
			// The race detector speaks while any test runs: its report may stand with one that passes.
			if slices.ContainsFunc(t.output, isRaceReport) {
				p.output = append(p.output, t.output...)
			}
			t.output = nil
		}
	default:
		r.breakf("%s %s: an unknown event %q", p.name, e.Test, e.Action)
	}
}

// closePackage compares what a package says of itself with its tests and prints how it ended.
func (r *record) closePackage(p *packageState) {
	if p.outcome == "skip" && len(p.tests) > 0 {
		r.breakf("%s: skipped, and has run %d tests", p.name, len(p.tests))
	}
	for _, t := range p.tests {
		switch {
		case p.outcome == "pass" && t.outcome == "":
			r.breakf("%s %s: has not ended, and its package passed", p.name, t.id.test)
		case p.outcome == "pass" && t.outcome == "fail":
			r.breakf("%s %s: failed, and its package passed", p.name, t.id.test)
		case t.outcome == "skip":
			r.breakf("%s %s: skipped; a test that cannot run fails", p.name, t.id.test)
		}
	}
	if p.outcome == "skip" { // It has no tests.
		return
	}
	mark := ""
	if p.race {
		mark += "  race"
	}
	if p.cached {
		mark += "  (cached)"
	}
	if p.outcome == "fail" {
		fmt.Fprintf(r.out, "FAIL  %s\n", shortName(p.name))
		for _, text := range p.failureOutput() {
			fmt.Fprint(r.out, text)
		}
		return
	}
	fmt.Fprintf(r.out, "ok    %-42s %7.1f s%s\n", shortName(p.name), p.seconds, mark)
	p.output = nil
}

// failureOutput returns the output of the tests that failed or did not end, and of the package, which
// is where a panic or the race detector may be heard.
func (p *packageState) failureOutput() []string {
	var output []string
	for _, t := range p.tests {
		if t.outcome == "pass" {
			continue
		}
		for _, text := range t.output {
			if !isProgress(text) {
				output = append(output, text)
			}
		}
		if t.outcome == "" {
			output = append(output, fmt.Sprintf("--- FAIL: %s did not end\n", t.id.test))
		}
	}
	return append(output, p.output...)
}

// isRaceReport reports whether a line begins a report of the race detector.
func isRaceReport(text string) bool { return strings.HasPrefix(text, "WARNING: DATA RACE") }

// isProgress reports whether a line only says that a test begins, waits or goes on.
func isProgress(text string) bool {
	return slices.ContainsFunc([]string{"=== RUN ", "=== PAUSE ", "=== CONT ", "=== NAME "}, func(mark string) bool {
		return strings.HasPrefix(text, mark)
	})
}

func (r *record) breakf(format string, args ...any) {
	r.broken = append(r.broken, fmt.Sprintf(format, args...))
}
