package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/schema"
)

const root = "../../.."

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

func TestADefectOfTheSchemaIsPlantedInTheFirstMigration(t *testing.T) {
	t.Parallel()
	const lines = "CREATE TRIGGER transfers_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON transfers\n"
	found, err := parseDefects(
		"== it\nbreaks: a promise\nfirst: ./x\n@@ schema/19_transfers.sql\n-" + lines + "+" + strings.Replace(
			lines, "UPDATE OR ", "", 1,
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := found[0].plantFiles(root, dir); err != nil {
		t.Fatal(err)
	}
	was, err := os.ReadFile(filepath.Join(root, schema.InitialFile))
	if err != nil {
		t.Fatal(err)
	}
	is, err := os.ReadFile(filepath.Join(dir, "planted", schema.InitialFile))
	if err != nil {
		t.Fatal(err)
	}
	if string(is) != strings.Replace(string(was), lines, strings.Replace(lines, "UPDATE OR ", "", 1), 1) ||
		string(is) == string(was) {
		t.Errorf("got a planted %s with other changes than the defect's", schema.InitialFile)
	}
	if got := found[0].listPackages(); len(got) != 1 || got[0] != "./migrations" {
		t.Errorf("got %v, want the package that embeds the migration", got)
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
