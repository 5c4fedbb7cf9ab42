package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// resultsFile keeps the last result of every defect, under the module's root.
const resultsFile = "internal/testing/trial/mutants/RESULTS.md"

const resultsHead = `# Planted defects, and the test that finds each

Written by ` + "`make mutants`" + `: each row is the last time that its defect was planted.
Seconds include compiling, and say as much about what else the machine did.

| Defect | Breaks | Caught by | Seconds | When | Where |
|---|---|---|---|---|---|
`

// saveResults writes results into their rows. The rows of other defects stay; rows of deleted
// defects are removed. Two runs at once keep each other's rows.
func saveResults(file string, results []result) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", file, err)
	}
	rows, err := rowsOf(file)
	if err != nil {
		return err
	}
	machineText := describeMachine()
	for _, r := range results {
		verdict, _, _ := strings.Cut(strings.TrimPrefix(r.formatVerdict(), "caught by "), "\n")
		rows[r.name] = fmt.Sprintf("| %s | %s | %s | %d | %s | %s |", r.name, r.breaks, verdict,
			int(r.took.Seconds()+1), r.plantedAt.UTC().Format(time.DateOnly), machineText)
	}
	defects, err := loadDefects()
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(resultsHead)
	for _, d := range defects {
		if row := rows[d.name]; row != "" {
			b.WriteString(row + "\n")
		}
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(b.String()), 0)
	return err
}

// rowsOf reads the rows by their defect.
func rowsOf(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) == 8 && !strings.HasPrefix(cells[1], "-") &&
			strings.TrimSpace(cells[1]) != "Defect" {
			rows[strings.TrimSpace(cells[1])] = strings.TrimSpace(line)
		}
	}
	return rows, nil
}

// finding is a test that has found a defect.
type finding struct{ pkg, test string }

var caughtBy = regexp.MustCompile(`\| (internal/[\w/]+|client|migrations|webhook) ((?:Test|Fuzz)\w+)[^|]* \| \d+ \|`)

// loadFindings returns the tests that found the defects when they were last planted.
func loadFindings(file string) (map[string]finding, error) {
	rows, err := rowsOf(file)
	if err != nil {
		return nil, err
	}
	findings := map[string]finding{}
	for name, row := range rows {
		if m := caughtBy.FindStringSubmatch(row); m != nil {
			findings[name] = finding{"./" + m[1], m[2]}
		}
	}
	return findings, nil
}

// describeMachine describes the machine of the measurements.
func describeMachine() string {
	version := runtime.Version()
	if output, err := exec.Command("go", "env", "GOVERSION").Output(); err == nil {
		version = strings.TrimSpace(string(output))
	}
	return fmt.Sprintf("%d cores, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, version)
}
