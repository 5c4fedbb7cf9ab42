package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cofferpay/coffer/internal/testing/trial/commit"
)

const moduleRoot = "../../../.."

// taskVariable makes the test program the runner of one scripted suite in the folder that it names.
const taskVariable = "COFFER_TRIALS_ROOT"

func TestMain(m *testing.M) {
	root := os.Getenv(taskVariable)
	if root == "" {
		os.Exit(m.Run())
	}
	ctx := context.Background()
	id, err := commit.Find(ctx, root)
	if err == nil {
		err = newRunner(root, id, os.Stdout).run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const emptyPage = "# Page\n\n" + tableBegin + "\n" + tableEnd + "\n\nThe rest.\n"

// newRepository makes a work tree with one commit: a page for the table and a script for each suite.
func newRepository(t *testing.T, scripts map[string]string) (root, id string) {
	t.Helper()
	root = t.TempDir()
	files := map[string]string{safetyPage: emptyPage, ".gitignore": "/.coffer/\n"}
	for _, name := range suiteNames {
		files[name+".sh"] = "echo trial: nothing to do\n"
	}
	for name, text := range scripts {
		files[name+".sh"] = text
	}
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git(t, root, "init", "-q")
	commitAll(t, root)
	return root, currentCommit(t, root)
}

func git(t *testing.T, root string, args ...string) string {
	t.Helper()
	output, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return strings.TrimSpace(string(output))
}

func commitAll(t *testing.T, root string) {
	t.Helper()
	git(t, root, "add", "-A")
	git(t, root, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "a: b")
}

func currentCommit(t *testing.T, root string) string {
	t.Helper()
	id, err := commit.Find(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func newRunner(root, id string, output io.Writer) runner {
	r := runner{root: root, commit: id, output: output, machine: "a machine", versions: "versions"}
	for _, name := range suiteNames {
		r.suites = append(r.suites, suite{name: name, command: []string{"sh", name + ".sh"}})
	}
	return r
}

// countRuns is how many lines a script has written into the log outside of the results.
func countRuns(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

func readPage(t *testing.T, root string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, safetyPage))
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// rowOf is the outcome and the work of a suite in the table of a work tree.
func rowOf(t *testing.T, root, name string) string {
	t.Helper()
	page := readPage(t, root)
	if _, err := checkTable(page); err != nil {
		t.Fatalf("%v\n%s", err, page)
	}
	for line := range strings.Lines(page) {
		if cells := strings.Split(line, "|"); len(cells) == 9 && strings.TrimSpace(cells[1]) == name {
			return strings.TrimSpace(cells[2]) + ": " + strings.TrimSpace(cells[3])
		}
	}
	t.Fatalf("no row of %s:\n%s", name, page)
	return ""
}

func TestASuitePassesOnlyWithItsSummaryAndExitStatusZero(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, script, want string }{
		{"passed", "echo trial: 3 of 5; echo trial: 5 of 5", "passed: 5 of 5"},
		{"summary on the other output", "echo trial: 5 of 5 >&2", "passed: 5 of 5"},
		{"failed", "echo trial: 4 of 5; exit 1", "FAILED: 4 of 5"},
		{"killed half-way", "echo at work; kill -9 $$", "broke off: ended without a summary (signal: killed)"},
		{"no summary", "echo at work", "broke off: ended without a summary (exit status 0)"},
		{"half a summary", "printf 'trial: 5 of 5'", "broke off: ended without a summary (exit status 0)"},
		{"a word like it", "echo ' trial: 5'; echo a trial: 5", "broke off: ended without a summary (exit status 0)"},
		{"failed early", "exit 2", "broke off: ended without a summary (exit status 2)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			root, id := newRepository(t, map[string]string{"drill": c.script})
			err := newRunner(root, id, io.Discard).run(t.Context())
			if got := rowOf(t, root, "drill"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if isPassed := strings.HasPrefix(c.want, passed); isPassed != (err == nil) {
				t.Errorf("got %v, want an error exactly when the suite did not pass", err)
			}
			if got := rowOf(t, root, "mutants"); got != "passed: nothing to do" {
				t.Errorf("got %q for the suite after it, want it run all the same", got)
			}
			page := readPage(t, root)
			if !strings.HasPrefix(page, "# Page\n") || !strings.HasSuffix(page, "\nThe rest.\n") {
				t.Errorf("got %q, want only the table changed", page)
			}
		})
	}
}

func TestASuiteThatHasAResultOfTheCommitIsNotRunAgain(t *testing.T) {
	t.Parallel()
	runs := filepath.Join(t.TempDir(), "runs")
	count := "echo run >>" + runs + "; "
	root, id := newRepository(t, map[string]string{
		"crash": count + "echo trial: ${AGAIN:-0}", "drill": count + "echo trial: 2; exit 1", "soak": count + "exit 1",
	})
	r := newRunner(root, id, io.Discard)
	r.selection = []string{"crash", "drill", "soak"}
	if err := r.run(t.Context()); err == nil || !strings.Contains(err.Error(), "drill, soak") {
		t.Errorf("got %v, want the suites that did not pass", err)
	}
	if got := rowOf(t, root, "race"); got != "not run: " {
		t.Errorf("got %q for a suite that was not asked for", got)
	}
	// The one that broke off runs again, also when the table was committed meanwhile or not.
	if err := r.run(t.Context()); err == nil || countRuns(t, runs) != 4 {
		t.Errorf("got %v and %d runs, want 4 in two goes: what broke off has no result", err, countRuns(t, runs))
	}
	r.suites[0].command = []string{"sh", "crash.sh", "more"}
	if err := r.run(t.Context()); err == nil || countRuns(t, runs) != 6 {
		t.Errorf("got %v and %d runs, want 6: other work is asked for", err, countRuns(t, runs))
	}
	r.rerun = true
	if err := r.run(t.Context()); err == nil || countRuns(t, runs) != 9 {
		t.Errorf("got %v and %d runs, want 9: all are asked for again", err, countRuns(t, runs))
	}
	if got := rowOf(t, root, "crash"); got != "passed: 1" {
		t.Errorf("got %q, want the suite told that all is asked for again", got)
	}
	commitAll(t, root)
	next := newRunner(root, currentCommit(t, root), io.Discard)
	next.selection = []string{"crash"}
	if err := next.run(t.Context()); err != nil || countRuns(t, runs) != 10 {
		t.Errorf("got %v and %d runs, want 10: another commit has no result", err, countRuns(t, runs))
	}
	if got := rowOf(t, root, "drill"); got != "not run: " {
		t.Errorf("got %q, want no row of the commit before", got)
	}
}

func TestAllOfTheWorkAnswersAlsoForAPartOfIt(t *testing.T) {
	t.Parallel()
	all := listSuites(options{mutants: allMutants, sample: 40})
	part := listSuites(options{sample: 40, seed: 7})
	last := len(suiteNames) - 1
	whole := result{Outcome: passed, Command: commandText(all[last]), IsWhole: all[last].isWhole}
	some := result{Outcome: passed, Command: commandText(part[last]), IsWhole: part[last].isWhole}
	if !whole.answers(part[last]) || some.answers(all[last]) || !some.answers(part[last]) {
		t.Error("want the whole list to answer for a sample, and a sample for itself alone")
	}
	for i, s := range part {
		if s.name != suiteNames[i] {
			t.Errorf("got suite %s, want %s", s.name, suiteNames[i])
		}
	}
}

// announce passes output on and says once when it has a word.
type announce struct {
	mu   sync.Mutex
	text strings.Builder
	word string
	seen chan struct{}
}

func (a *announce) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	had := strings.Contains(a.text.String(), a.word)
	a.text.Write(p)
	if !had && strings.Contains(a.text.String(), a.word) {
		close(a.seen)
	}
	return len(p), nil
}

// The script waits for a pipe that no process opens, so only a signal ends it.
const endless = "trap 'kill $!; echo trial: 5 of 5; exit 0' INT; mkfifo $FIFO; cat $FIFO & echo begun; wait\n"

func TestAnInterruptedSuiteHasNoResult(t *testing.T) {
	t.Parallel()
	root, id := newRepository(t, map[string]string{
		"drill": strings.ReplaceAll(endless, "$FIFO", filepath.Join(t.TempDir(), "fifo")),
	})
	ctx, cancel := context.WithCancel(t.Context())
	output := &announce{word: "begun", seen: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- newRunner(root, id, output).run(ctx) }()
	<-output.seen
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "drill has no result: interrupted") {
		t.Errorf("got %v, want it said that the suite was interrupted", err)
	}
	if got := rowOf(t, root, "crash"); got != "passed: nothing to do" {
		t.Errorf("got %q for what had ended before", got)
	}
	if got := rowOf(t, root, "drill"); got != "not run: " {
		t.Errorf("got %q for what was interrupted", got)
	}
}

func TestAKilledRunnerLeavesWhatHadEnded(t *testing.T) {
	t.Parallel()
	runs, gone := filepath.Join(t.TempDir(), "runs"), filepath.Join(t.TempDir(), "gone")
	if err := syscall.Mkfifo(gone, 0o600); err != nil {
		t.Fatal(err)
	}
	// The second time the suite ends: the file that the first one made tells it.
	root, id := newRepository(t, map[string]string{
		"crash": "echo run >>" + runs + "; echo trial: 1",
		"drill": "if [ -e " + runs + ".drill ]; then echo trial: 2; exit; fi; " +
			"touch " + runs + ".drill; echo begun; exec cat " + gone,
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	output := &announce{word: "begun", seen: make(chan struct{})}
	cmd := exec.Command(self)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), taskVariable+"="+root), output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-output.seen
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	release, err := os.OpenFile(gone, os.O_RDWR, 0) // ends the suite where the kernel has not
	if err != nil {
		t.Fatal(err)
	}
	_ = release.Close() // nothing was written
	_ = cmd.Wait()      // it was killed
	if got := rowOf(t, root, "drill"); got != "not run: " {
		t.Errorf("got %q for the suite that was cut", got)
	}
	if err := newRunner(root, id, io.Discard).run(t.Context()); err != nil {
		t.Error(err)
	}
	if got := rowOf(t, root, "drill"); got != "passed: 2" || countRuns(t, runs) != 1 {
		t.Errorf("got %q and %d runs of the first suite, want it once", got, countRuns(t, runs))
	}
}

func TestAWorkTreeWithChangesHasNoResult(t *testing.T) {
	t.Parallel()
	root, id := newRepository(t, map[string]string{"crash": "touch new.go; echo trial: 1"})
	r := newRunner(root, id, io.Discard)
	if err := r.run(t.Context()); err == nil || !strings.Contains(err.Error(), "changed while the suite ran") {
		t.Errorf("got %v, want no result of a tree that changed meanwhile", err)
	}
	if _, ok, err := loadResult(commit.Dir(root, id), id, "crash"); ok || err != nil {
		t.Errorf("got a result: %v, %v", ok, err)
	}
	if _, err := commit.Find(t.Context(), root); err == nil || !strings.Contains(err.Error(), "new.go") {
		t.Errorf("got %v, want the file that the commit does not have", err)
	}
	if err := os.Remove(filepath.Join(root, "new.go")); err != nil {
		t.Fatal(err)
	}
	// The table itself is no change.
	if err := os.WriteFile(filepath.Join(root, safetyPage), []byte("another"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := commit.Find(t.Context(), root); err != nil || got != id {
		t.Errorf("got %q, %v, want %s", got, err, id)
	}
}

func TestOnlyOneRunOfACommitAtATime(t *testing.T) {
	t.Parallel()
	root, id := newRepository(t, nil)
	dir := commit.Dir(root, id)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := newRunner(root, id, io.Discard).run(t.Context()); err == nil {
		t.Error("a second run of the commit began")
	}
	unlock()
	if err := newRunner(root, id, io.Discard).run(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestVariablesOfOtherTargetsDoNotReachASuite(t *testing.T) {
	t.Parallel()
	got := cleanEnvironment([]string{"PATH=/bin", "POINTS=W11", "MAKEFLAGS= -- POINTS=W11", "ONLY=soak", "POINTSX=1"})
	if strings.Join(got, " ") != "PATH=/bin POINTSX=1" {
		t.Errorf("got %v", got)
	}
}

func TestATableThatIsNotOfOneCommitIsRefused(t *testing.T) {
	t.Parallel()
	one, other := strings.Repeat("a", 40), strings.Repeat("b", 40)
	row := result{Suite: "soak", Commit: one, Outcome: passed, Summary: "3 runs", Seconds: 61}
	row.Machine, row.Versions = "m", "v"
	table := tableBegin + "\n" + formatTable(one, []result{row}) + tableEnd + "\n"
	if id, err := checkTable(table); err != nil || id != one {
		t.Errorf("got %q, %v for a table as it is written:\n%s", id, err, table)
	}
	for name, page := range map[string]string{
		"no table":             "# Page\n",
		"no commit":            strings.Replace(table, "Commit `", "Commits `", 1),
		"a row of another":     strings.Replace(table, one[:12]+" |", other[:12]+" |", 1),
		"a table of another":   strings.Replace(table, one, other, 1),
		"a suite left out":     strings.Replace(table, "| race | not run | | | | | |\n", "", 1),
		"a suite twice":        strings.Replace(table, "| race |", "| fuzz |", 1),
		"passed, no work":      strings.Replace(table, "| 3 runs |", "| |", 1),
		"passed, no duration":  strings.Replace(table, "| 1m1s |", "| |", 1),
		"another outcome":      strings.Replace(table, "| passed |", "| fine |", 1),
		"not run, but figures": strings.Replace(table, "| race | not run | |", "| race | not run | 5 runs |", 1),
	} {
		if page == table {
			t.Errorf("%s: the page is as it was", name)
		}
		if _, err := checkTable(page); err == nil {
			t.Errorf("%s: accepted:\n%s", name, page)
		}
	}
}

// The table of the page is of one commit of the history, and has every suite.
func TestTheTableOfTrialsIsOfOneCommitOfTheHistory(t *testing.T) {
	t.Parallel()
	id, err := checkTable(readPage(t, moduleRoot))
	if err != nil {
		t.Fatal(err)
	}
	inHistory := func(args ...string) (string, error) {
		output, err := exec.Command("git", append([]string{"-C", moduleRoot}, args...)...).Output()
		return strings.TrimSpace(string(output)), err
	}
	if shallow, err := inHistory("rev-parse", "--is-shallow-repository"); err != nil || shallow != "false" {
		return // sources without their history; the form was checked
	}
	if _, err := inHistory("merge-base", "--is-ancestor", id, "HEAD"); err != nil {
		t.Errorf("commit %s of the table is not in the history of HEAD: run make trials", id)
	}
}
