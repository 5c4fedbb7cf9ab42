package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/testing/trial/commit"
	"github.com/cofferpay/coffer/schema"
)

const root = "../../../.."

func TestEveryDefectStillFitsTheCode(t *testing.T) {
	t.Parallel()
	all, err := loadDefects()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 25 {
		t.Errorf("got %d defects, want at least 25", len(all))
	}
	for _, d := range all {
		if _, err := d.applyEdits(root); err != nil {
			t.Error(err)
		}
		for _, pkg := range d.first {
			tests, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
			if err != nil || len(tests) == 0 {
				t.Errorf("%s: %s has no tests", d.name, pkg)
			}
		}
	}
}

func TestEveryDefectWasCaughtWhenItWasLastPlanted(t *testing.T) {
	t.Parallel()
	all, err := loadDefects()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := rowsOf(filepath.Join(root, resultsFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		switch row := rows[d.name]; {
		case row == "":
			t.Errorf("%s was never planted: run make mutants MUTANTS=%s", d.name, d.name)
		case strings.Contains(row, "NOT CAUGHT") || strings.Contains(row, "BROKEN"):
			t.Errorf("got %s, want a test that catches it", row)
		}
		delete(rows, d.name)
	}
	for name := range rows {
		t.Errorf("%s stands in the results and is no defect any more: run make mutants", name)
	}
}

var statedCount = regexp.MustCompile(`plants ([0-9]+) deliberate defects`)

func TestTheSafetyPageCountsTheDefects(t *testing.T) {
	t.Parallel()
	all, err := loadDefects()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "SAFETY.md"))
	if err != nil {
		t.Fatal(err)
	}
	m := statedCount.FindStringSubmatch(string(page))
	if m == nil || m[1] != strconv.Itoa(len(all)) {
		t.Errorf("docs/SAFETY.md says %q, want %d defects", m, len(all))
	}
}

func TestWhatFoundADefectBeforeIsAskedFirst(t *testing.T) {
	t.Parallel()
	known, err := loadFindings(filepath.Join(root, resultsFile))
	if err != nil {
		t.Fatal(err)
	}
	all, err := loadDefects()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		k, ok := known[d.name]
		if !ok {
			t.Errorf("%s: its row names no test", d.name)
			continue
		}
		if tests, err := filepath.Glob(filepath.Join(root, k.pkg, "*_test.go")); err != nil || len(tests) == 0 {
			t.Errorf("%s: %s has no tests", d.name, k.pkg)
		}
	}
}

func TestADefectThatTheCodeHasLeftBehindIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("one\ntwo\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, lines string
		fits        bool
	}{
		{"once", " one\n-two\n+three\n", true},
		{"only part of a line", "-ne\n+three\n", false},
		{"twice", "-two\n+three\n", false},
		{"nowhere", "-four\n+three\n", false},
		{"no change", "-one\n+one\n", false},
	} {
		found, err := parseDefects("== it\nbreaks: a promise\nfirst: ./x\n@@ a.go\n" + c.lines)
		if err != nil {
			t.Fatal(err)
		}
		files, err := found[0].applyEdits(dir)
		if (err == nil) != c.fits {
			t.Errorf("%s: got %v, want it to fit: %v", c.name, err, c.fits)
		}
		if c.fits && files["a.go"] != "one\nthree\ntwo\n" {
			t.Errorf("%s: got %q", c.name, files["a.go"])
		}
	}
}

func TestADefectOfTheSchemaIsPlantedInTheMigrationThatMadeIt(t *testing.T) {
	t.Parallel()
	for file, c := range map[string]struct{ lines, planted, migration string }{
		"schema/19_transfers.sql": {
			"CREATE TRIGGER transfers_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON transfers\n",
			"CREATE TRIGGER transfers_append_only BEFORE DELETE OR TRUNCATE ON transfers\n", schema.InitialFile,
		},
		"schema/22_sign_in.sql": {
			"       OR NEW.last_step <= OLD.last_step THEN\n", "       THEN\n", "migrations/0110_sign_in.sql",
		},
	} {
		found, err := parseDefects(
			"== it\nbreaks: a promise\nfirst: ./x\n@@ " + file + "\n-" + c.lines + "+" + c.planted)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if _, err := found[0].plantFiles(root, dir); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(filepath.Join(root, c.migration))
		if err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(filepath.Join(dir, "planted", c.migration))
		if err != nil {
			t.Fatal(err)
		}
		if string(after) != strings.Replace(string(before), c.lines, c.planted, 1) || string(after) == string(before) {
			t.Errorf("got a planted %s with other changes than the defect's", c.migration)
		}
		if got := found[0].listPackages(); len(got) != 1 || got[0] != "./migrations" {
			t.Errorf("got %v, want the package that embeds the migration", got)
		}
	}
}

// Every defect of the schema reaches a database, whichever migration made the lines.
func TestEveryDefectOfTheSchemaReachesADatabase(t *testing.T) {
	t.Parallel()
	all, err := loadDefects()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		files, err := d.applyEdits(root)
		if err != nil {
			t.Error(err)
			continue
		}
		if err := d.plantInMigrations(root, files); err != nil {
			t.Errorf("%s: %v", d.name, err)
		}
	}
}

func TestTheTestThatFoundADefectIsNamedAlsoWhenTheProgramDies(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"panic: test timed out after 5m\n\trunning tests:\n\t\tx\n\tTestSlow (5m)\n":            "TestSlow (the program died)",
		"panic: no\n\ngoroutine 7:\ngithub.com/cofferpay/coffer/x.TestBroken(0xc0)\n\tx.go:1\n": "TestBroken (the program died)",
		"fatal error: all goroutines are asleep\n":                                              "(the test program died)",
	} {
		if got := nameDeadTest(words); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestASampleIsDrawnByItsSeed(t *testing.T) {
	t.Parallel()
	all, err := loadDefects()
	if err != nil {
		t.Fatal(err)
	}
	names := func(defects []defect) string {
		var b strings.Builder
		for _, d := range defects {
			b.WriteString(d.name + " ")
		}
		return b.String()
	}
	one, again, other := drawSample(all, 20, 7), drawSample(all, 20, 7), drawSample(all, 20, 8)
	if len(one) != 20 || names(one) != names(again) || names(one) == names(other) {
		t.Errorf("got %s, then %s, and %s by another seed", names(one), names(again), names(other))
	}
}

// newCommit makes a work tree of one file with one commit.
func newCommit(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("/.coffer/\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "-q"},
		{"add", "-A"},
		{"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "a: b"},
	} {
		if output, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args[0], err, output)
		}
	}
}

func openResults(t *testing.T, dir string) *keptResults {
	t.Helper()
	k, err := openKept(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.close)
	return k
}

func TestARunThatWasCutGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	newCommit(t, dir, "")
	all, err := loadDefects()
	if err != nil {
		t.Fatal(err)
	}
	caught := result{defect: all[0], finder: "internal/x TestX", took: 3 * time.Second}
	caught.plantedAt = time.Unix(1_700_000_000, 0)
	k := openResults(t, dir)
	for _, r := range []result{caught, {defect: all[1]}, {defect: all[2], finder: "x", err: os.ErrInvalid}} {
		if err := k.add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(commit.Dir(dir, k.commit), "mutants.jsonl")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// What a crash leaves of the last line is no result, and the next line is one.
	if err := os.WriteFile(file, append(whole, whole[:len(whole)/2]...), 0o600); err != nil {
		t.Fatal(err)
	}
	later := caught
	later.defect = all[3]
	if err := openResults(t, dir).add(t.Context(), later); err != nil {
		t.Fatal(err)
	}

	k = openResults(t, dir)
	got, ok := k.find(all[0])
	if !ok || got.finder != caught.finder || got.took != caught.took ||
		!got.plantedAt.Equal(caught.plantedAt) || got.name != all[0].name {
		t.Errorf("got %+v, %v, want what caught it", got, ok)
	}
	if _, ok := k.find(all[3]); !ok {
		t.Error("the line after a part of one is lost")
	}
	for _, d := range all[1:3] {
		if _, ok := k.find(d); ok {
			t.Errorf("%s was not caught and is not planted again", d.name)
		}
	}
	changed := all[0]
	changed.edits = []edit{{changed.edits[0].file, changed.edits[0].old, changed.edits[0].new + "\n"}}
	if _, ok := k.find(changed); ok {
		t.Error("a defect that was changed is not planted again")
	}

	newCommit(t, dir, "# another\n")
	if _, ok := openResults(t, dir).find(all[0]); ok {
		t.Error("a result counts at another commit")
	}
	if err := k.add(t.Context(), caught); err == nil {
		t.Error("a result is kept for a commit that is not there any more")
	}
}

func TestNothingIsKeptOfAWorkTreeWithChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	newCommit(t, dir, "")
	if err := os.WriteFile(filepath.Join(dir, "new.go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := loadDefects()
	if err != nil {
		t.Fatal(err)
	}
	k := openResults(t, dir)
	if err := k.add(t.Context(), result{defect: all[0], finder: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, ".coffer")); !os.IsNotExist(err) {
		t.Errorf("got %v, want no results", err)
	}
}
