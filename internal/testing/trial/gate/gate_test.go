package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/testing/part"
)

// The scripts are events in short: action, package, test, seconds or output, separated by spaces.
func scripted(t *testing.T, script string) string {
	t.Helper()
	var stream strings.Builder
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if raw, ok := strings.CutPrefix(line, "raw "); ok {
			stream.WriteString(raw + "\n")
			continue
		}
		fields := append(strings.SplitN(line, " ", 4), "", "", "")
		e := map[string]any{"Action": fields[0]}
		if strings.HasPrefix(fields[0], "build-") {
			e["ImportPath"] = fields[1]
		} else {
			e["Package"] = modulePath + fields[1]
		}
		if fields[2] != "" && fields[2] != "-" {
			e["Test"] = fields[2]
		}
		if strings.HasSuffix(fields[0], "output") {
			e["Output"] = fields[3] + "\n"
		} else if fields[3] != "" {
			e["Elapsed"] = json.Number(fields[3])
		}
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		stream.Write(append(text, '\n'))
	}
	return stream.String()
}

// play reads a scripted stream and returns the verdict and all that was printed.
func play(t *testing.T, script string, wanted map[string][]string) (passed bool, printed string) {
	t.Helper()
	var out strings.Builder
	r := newRecord(&out)
	if err := r.readStream(strings.NewReader(scripted(t, script)), false); err != nil {
		t.Fatal(err)
	}
	passed = r.report(&out, wanted, 90*time.Second)
	return passed, out.String()
}

const good = `
	start a
	run a TestOne
	output a TestOne === RUN   TestOne
	output a TestOne a word that a test that passes says
	pause a TestOne
	cont a TestOne
	run a TestOne/sub
	pass a TestOne/sub 1.5
	pass a TestOne 2.5
	output a - ok  	a	3.0s
	pass a - 3
	start b
	output b - ?   	b	[no test files]
	skip b - 0
`

func TestARunThatPassedIsSaidToHavePassed(t *testing.T) {
	t.Parallel()
	passed, printed := play(t, good, map[string][]string{modulePath + "a": {"TestOne"}})
	if !passed {
		t.Errorf("got it failed:\n%s", printed)
	}
	for _, want := range []string{
		"ok    a ", "     2.5 s  a                            TestOne\n",
		"ran 1 tests (1 subtests) in 1 packages in 90 s: passed",
	} {
		if !strings.Contains(printed, want) {
			t.Errorf("got %s\nwant %q in it", printed, want)
		}
	}
	if strings.Contains(printed, "a word") || strings.Contains(printed, "TestOne/sub") {
		t.Errorf("got %s\nwant neither what a passed test says nor a subtest inside its test's time", printed)
	}
}

// Each script differs from one that passes by what its name says.
func TestWhatIsNoPassFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, want string }{
		"a failed test": {`
			start a
			run a TestOne
			output a TestOne     one_test.go:1: got 1, want 2
			fail a TestOne 0.1
			output a - FAIL
			fail a - 0.2`, "one_test.go:1: got 1, want 2"},
		"a failed test whose processes have said much": {`
			start a
			run a TestOne
			output a TestOne     one_test.go:1: got 1, want 2
			output a TestOne     one_test.go:2: the log of a process
			fail a TestOne 0.1
			output a - FAIL
			fail a - 0.2`, "FAIL  a TestOne\n          one_test.go:1: got 1, want 2\nran 1 tests"},
		"a failed subtest": {`
			run a TestOne
			run a TestOne/sub
			output a TestOne/sub the reason
			fail a TestOne/sub 0.1
			fail a TestOne 0.1
			fail a - 0.2`, "FAIL  a TestOne/sub"},
		"a package that is not built": {`
			build-output a # a
			build-output a a.go:1:1: undefined: x
			build-fail a
			start a
			output a - FAIL	a [build failed]
			fail a - 0`, "undefined: x"},
		"a build that fails without a word of its package": {good + `build-fail c`, "c was not built"},
		"a panic": {`
			run a TestOne
			output a TestOne panic: assignment to entry in nil map
			fail a TestOne 0
			output a - FAIL	a	0.1s
			fail a - 0.1`, "assignment to entry in nil map"},
		"a panic outside of the tests": {`
			run a TestOne
			pass a TestOne 0
			output a - panic: in a goroutine
			fail a - 0.1`, "panic: in a goroutine"},
		"a time that ran out": {`
			run a TestOne
			pass a TestOne 1
			run a TestTwo
			output a TestTwo panic: test timed out after 15m0s
			fail a - 900`, "TestTwo did not end"},
		"a race after the tests": {`
			run a TestOne
			pass a TestOne 0
			output a - WARNING: DATA RACE
			output a - exit status 66
			fail a - 0.1`, "DATA RACE"},
		"a race whose report stands with a test that passes": {`
			run a TestOne
			run a TestTwo
			output a TestTwo WARNING: DATA RACE
			pass a TestTwo 1
			output a TestOne     testing.go:1712: race detected during execution of test
			fail a TestOne 1
			output a - FAIL
			fail a - 1`, "DATA RACE"},
		"a stream that ends early": {"start a\nrun a TestOne\npass a TestOne 0", "a: has not ended"},
		"a test that ends in no way": {
			"run a TestOne\npass a - 0.1", "TestOne: has not ended, and its package passed",
		},
		"a failed test in a passed package": {
			"run a TestOne\nfail a TestOne 0\npass a - 0.1", "TestOne: failed, and its package passed",
		},
		"a skipped test": {"run a TestOne\nskip a TestOne 0\npass a - 0.1", "TestOne: skipped"},
		"a skipped package with tests": {
			"run a TestOne\npass a TestOne 0\nskip a - 0.1", "skipped, and has run 1 tests",
		},
		"an unknown event of a test": {
			"run a TestOne\nexplode a TestOne 0\npass a TestOne 0\npass a - 0", `unknown event "explode"`,
		},
		"an unknown event of a package": {good + "start c\nexplode c\npass c - 0", `unknown event "explode"`},
		"an event of nothing":           {good + `raw {"Action":"pass"}`, "without a package"},
		"a line that is no event":       {good + "raw exit status 2", "no event"},
		"half an event":                 {good + `raw {"Action":"fail","Pack`, "no event"},
		"an event after the end":        {good + "run a TestTwo", "run after the package had ended"},
		"a test that begins twice":      {"run a TestOne\nrun a TestOne\npass a TestOne 0\npass a - 0", "begins twice"},
		"a test that ends twice": {
			"run a TestOne\nfail a TestOne 0\npass a TestOne 0\npass a - 0", "ends twice",
		},
		"a test that ends unbegun": {good + "start c\npass c TestOne 0\npass c - 0", "before it has begun"},
		"nothing":                  {"", "no test ran"},
		"packages without tests":   {"start b\nskip b - 0", "no test ran"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			passed, printed := play(t, c.script, nil)
			if passed {
				t.Errorf("got it passed:\n%s", printed)
			}
			if !strings.Contains(printed, c.want) || !strings.Contains(printed, ": FAILED") {
				t.Errorf("got %s\nwant %q and the verdict in it", printed, c.want)
			}
		})
	}
}

func TestATestOfTheSourcesThatDidNotRunFails(t *testing.T) {
	t.Parallel()
	for _, wanted := range []map[string][]string{
		{modulePath + "a": {"TestOne", "TestTwo"}}, {modulePath + "c": {"TestOne"}},
	} {
		if passed, printed := play(t, good, wanted); passed || !strings.Contains(printed, "did not run") {
			t.Errorf("%v: got %s\nwant it to fail", wanted, printed)
		}
	}
}

func TestSlowTestsAreListedOnceAndSlowestFirst(t *testing.T) {
	t.Parallel()
	_, printed := play(t, `
		run a TestFast
		pass a TestFast 0.1
		run a TestSlow
		run a TestSlow/inside
		pass a TestSlow/inside 4
		pass a TestSlow 5
		run a TestParallel
		run a TestParallel/beside
		pass a TestParallel/beside 9
		pass a TestParallel 0
		pass a - 20`, nil)
	var listed []string
	for _, m := range regexp.MustCompile(`(?m)^ +[\d.]+ s  a +(\S+)$`).FindAllStringSubmatch(printed, -1) {
		listed = append(listed, m[1])
	}
	if want := []string{"TestParallel/beside", "TestSlow", "TestFast", "TestParallel"}; !slices.Equal(listed, want) {
		t.Errorf("got %q, want %q", listed, want)
	}
}

func parsed(t *testing.T, text string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+text, 0)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestSharedMemoryIsFoundInTheSources(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`func f() { go f() }`:                                   true,
		"import \"sync\"\nvar mu sync.Mutex":                    true,
		"import \"sync/atomic\"\nvar n atomic.Int32":            true,
		`func f(c <-chan int) {}`:                               true,
		`var c = make(chan int)`:                                true,
		`func f(g interface{ Go(func()) }) { g.Go(func() {}) }`: true,
		`func f(gopher int) {}`:                                 false,
	} {
		if got := sharesMemory(parsed(t, text)); got != want {
			t.Errorf("%s: got %t, want %t", text, got, want)
		}
	}
}

func TestTestsAreFoundByWhatTheyDo(t *testing.T) {
	t.Parallel()
	got := findTests([]*ast.File{parsed(t, `
		import "testing"
		func TestAlone(t *testing.T) {}
		func TestBeside(t *testing.T) { go func() {}() }
		func TestByAHelper(t *testing.T) { house{}.crowd() }
		func TestByALock(t *testing.T) { pgtest.RaceBehindLock() }
		func FuzzAlone(f *testing.F) {}
		func TestMain(m *testing.M) {}
		func Testimony() {}
		type house struct{}
		func (house) crowd() { many() }
	`), parsed(t, `
		import "`+modulePath+`internal/localworld/anvil/anviltest"
		import here "`+modulePath+`internal/localworld"
		func many() { g.Go(func() {}) }
		func TestWithAChain(t *testing.T) { start() }
		func TestWithAWorld(t *testing.T) { here.Start() }
		func start() { anviltest.Start() }
	`)})
	want := map[string]testFacts{
		"TestAlone": {}, "FuzzAlone": {}, "TestBeside": {startsGoroutines: true},
		"TestByAHelper": {startsGoroutines: true},
		"TestByALock":   {startsGoroutines: true}, "TestWithAChain": {needsChain: true},
		"TestWithAWorld": {needsChain: true},
	}
	for name, facts := range want {
		if found, ok := got[name]; !ok || found != facts {
			t.Errorf("%s: got %+v %t, want %+v", name, found, ok, facts)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Every test of a plan is in exactly one of its runs, whatever is raced.
func TestEveryTestRunsOnce(t *testing.T) {
	t.Parallel()
	shared := map[string]testFacts{"TestShared": {startsGoroutines: true}, "TestElse": {}}
	packages := []packageFacts{
		{dir: "plain", hasTestFiles: true, tests: map[string]testFacts{"TestA": {}, "TestB": {}}},
		{dir: "raced", hasTestFiles: true, sharesMemory: true, tests: map[string]testFacts{"TestC": {}, "TestD": {}}},
		{dir: "mixed", hasTestFiles: true, tests: shared},
		{dir: "alike", hasTestFiles: true, tests: map[string]testFacts{"TestShared": {}, "TestF": {}}},
		{dir: "both", hasTestFiles: true, tests: map[string]testFacts{
			"TestShared": {}, "TestI": {startsGoroutines: true}, "TestJ": {},
		}},
		{dir: "crowd", hasTestFiles: true, tests: map[string]testFacts{"TestG": {startsGoroutines: true}}},
		{dir: "examples", hasTestFiles: true, tests: map[string]testFacts{}},
		{dir: "none"},
		{dir: "left/out", hasTestFiles: true, tests: map[string]testFacts{"TestH": {}}},
	}
	p, err := newPlan(packages, options{leftOutDirs: []string{"left/out"}})
	if err != nil {
		t.Fatal(err)
	}
	modes := map[testID][]bool{}
	packagesRun := map[string]bool{}
	for _, lane := range p.lanes {
		for _, run := range lane {
			only, skip := regexp.MustCompile(""), regexp.MustCompile(`^\b$`)
			for _, f := range run.flags {
				if text, ok := strings.CutPrefix(f, "-run="); ok {
					only = regexp.MustCompile(text)
				}
				if text, ok := strings.CutPrefix(f, "-skip="); ok {
					skip = regexp.MustCompile(text)
				}
			}
			if slices.Contains(run.flags, "-race") != run.race {
				t.Errorf("got flags %q of a run with race %t", run.flags, run.race)
			}
			for _, name := range run.packages {
				packagesRun[shortName(name)] = true
				for _, f := range packages {
					for test := range f.tests {
						if modulePath+f.dir == name && only.MatchString(test) && !skip.MatchString(test) {
							modes[testID{f.dir, test}] = append(modes[testID{f.dir, test}], run.race)
						}
					}
				}
			}
		}
	}
	want := map[testID]bool{
		{"plain", "TestA"}: false, {"plain", "TestB"}: false, {"raced", "TestC"}: true, {"raced", "TestD"}: true,
		{"mixed", "TestShared"}: true, {"mixed", "TestElse"}: false, {"alike", "TestShared"}: false,
		{"alike", "TestF"}: false, {"both", "TestShared"}: true, {"both", "TestI"}: true, {"both", "TestJ"}: false,
		{"crowd", "TestG"}: true,
	}
	for id, race := range want {
		if !slices.Equal(modes[id], []bool{race}) {
			t.Errorf("%v: got runs with race %v, want one with %t", id, modes[id], race)
		}
	}
	if len(modes) != len(want) || !packagesRun["examples"] || packagesRun["none"] {
		t.Errorf("got %v in %v", modes, packagesRun)
	}
	if _, err := newPlan(packages, options{onlyDirs: []string{"nowhere"}}); err == nil {
		t.Error("got no error for a package that there is not")
	}
}

func TestAShortPlanLeavesOutChainsTrialsAndLongTests(t *testing.T) {
	t.Parallel()
	p, err := newPlan([]packageFacts{
		{dir: "internal/verify", hasTestFiles: true, tests: map[string]testFacts{
			longTests[0].name: {}, "TestQuick": {startsGoroutines: true}, "TestWithAChain": {needsChain: true},
		}},
		{dir: "internal/chain", hasTestFiles: true, tests: map[string]testFacts{"TestOfAChain": {needsChain: true}}},
		{dir: "internal/testing/trial/soak", hasTestFiles: true, tests: map[string]testFacts{"TestDays": {}}},
	}, options{short: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.lanes) != 1 || len(p.lanes[0]) != 1 || p.lanes[0][0].race {
		t.Fatalf("got %+v, want one run without the race detector", p.lanes)
	}
	name := modulePath + "internal/verify"
	got := p.lanes[0][0].packages
	if !slices.Equal(got, []string{name}) || !slices.Equal(p.tests[name], []string{"TestQuick"}) {
		t.Errorf("got %v of %v, want the quick test", p.tests, got)
	}
}

func TestTheTurnsOfAFewDaysRunEveryPackage(t *testing.T) {
	t.Setenv(part.AllEnv, "all")
	if got := leftForAnotherDay(); len(got) > 0 {
		t.Errorf("got %v left out of a run of all", got)
	}
	t.Setenv(part.AllEnv, "")
	today, _ := part.Today(len(turns))
	var want []string
	for day, list := range turns {
		if day != today {
			want = append(want, list...)
		}
	}
	if got := leftForAnotherDay(); !slices.Equal(got, want) || len(got) == 0 || slices.Contains(got, turns[today][0]) {
		t.Errorf("got %v left for another day, want %v", got, want)
	}
}

// The lists of plan.go name what there is, and a selection is needed.
func TestListsNameWhatThereIs(t *testing.T) {
	t.Parallel()
	const root = "../../../.."
	read := func(dir string) (packageFacts, bool) {
		entries, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil {
			return packageFacts{}, false
		}
		p := sourcePackage{ImportPath: modulePath + dir, Dir: filepath.Join(root, dir)}
		for _, e := range entries {
			switch {
			case strings.HasSuffix(e.Name(), "_test.go"):
				p.TestGoFiles = append(p.TestGoFiles, e.Name())
			case strings.HasSuffix(e.Name(), ".go"):
				p.GoFiles = append(p.GoFiles, e.Name())
			}
		}
		f, err := readFacts(p)
		if err != nil {
			t.Fatal(err)
		}
		return f, true
	}
	for _, dir := range slices.Concat(turns...) {
		if f, ok := read(dir); !ok || len(f.tests) == 0 {
			t.Errorf("turns name %s, which has no test", dir)
		}
	}
	for _, s := range selections {
		f, ok := read(s.dir)
		if !ok || !f.sharesMemory {
			t.Errorf("%s: is no package that shares memory, so its selection has no effect", s.dir)
			continue
		}
		if s.reason == "" {
			t.Errorf("%s: the selection has no reason", s.dir)
		}
		if len(s.raced) > 0 && len(s.plain) > 0 {
			t.Errorf("%s: the selection says what is raced, and what is not", s.dir)
		}
		for _, name := range slices.Concat(s.raced, s.plain) {
			if facts, ok := f.tests[name]; !ok || facts.startsGoroutines {
				t.Errorf("%s: %s is no test there, or starts goroutines and is raced in any case", s.dir, name)
			}
		}
	}
	for _, dir := range racedWhole {
		f, ok := read(dir)
		startsGoroutines := func(test string) bool { return f.tests[test].startsGoroutines }
		if !ok || f.sharesMemory || !slices.ContainsFunc(slices.Collect(maps.Keys(f.tests)), startsGoroutines) {
			t.Errorf("%s: is no package that shares no memory and of which some tests are raced in any case", dir)
		}
	}
	for _, dir := range longFirst {
		if _, ok := read(dir); !ok {
			t.Errorf("%s: there is no such package", dir)
		}
	}
	for _, l := range longTests {
		f, ok := read(l.dir)
		if facts, found := f.tests[l.name]; !ok || !found || facts.needsChain {
			t.Errorf("%s %s: is no test, or is not in a short run in any case", l.dir, l.name)
		}
	}
}
