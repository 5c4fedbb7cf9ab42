package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/platform/pg/local"
)

// The table stands between these lines of docs/SAFETY.md.
const (
	tableBegin = "<!-- trials -->"
	tableEnd   = "<!-- end of trials -->"
)

const notRun = "not run"

const tableHead = `| Suite | Outcome | Work | Seed | Duration | Day | Commit |
|---|---|---|---|---|---|---|
`

// writeTable puts the table of the commit in its place in docs/SAFETY.md.
func (r runner) writeTable(dir string) error {
	var results []result
	for _, s := range r.suites {
		res, ok, err := loadResult(dir, r.commit, s.name)
		if err != nil {
			return err
		}
		if ok {
			results = append(results, res)
		}
	}
	page := filepath.Join(r.root, safetyPage)
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), tableBegin+"\n")
	_, after, okEnd := strings.Cut(rest, tableEnd+"\n")
	if !ok || !okEnd {
		return fmt.Errorf("%s has no place for the table, between %s and %s", safetyPage, tableBegin, tableEnd)
	}
	return writeWhole(dir, page, []byte(before+tableBegin+"\n"+formatTable(r.commit, results)+tableEnd+"\n"+after))
}

// formatTable is the table of one commit. A suite without a result has a row too.
func formatTable(commit string, results []result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Commit `%s`.\n", commit)
	for _, describe := range []func(result) string{
		func(r result) string { return r.Machine }, func(r result) string { return r.Versions },
	} {
		var texts []string
		for _, r := range results {
			texts = append(texts, describe(r))
		}
		slices.Sort(texts)
		if texts = slices.Compact(texts); len(texts) > 0 {
			b.WriteString(strings.Join(texts, "; or ") + ".\n")
		}
	}
	b.WriteString("\n" + tableHead)
	for _, name := range suiteNames {
		i := slices.IndexFunc(results, func(r result) bool { return r.Suite == name })
		if i < 0 {
			fmt.Fprintf(&b, "| %s | %s | | | | | |\n", name, notRun)
			continue
		}
		r := results[i]
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n",
			name, r.Outcome, strings.ReplaceAll(r.Summary, "|", "/"), r.Seed,
			formatSeconds(r.Seconds), formatDay(r.StartedAt), r.Commit[:shortCommit])
	}
	return b.String()
}

const shortCommit = 12

func formatDay(t time.Time) string { return t.UTC().Format(time.DateOnly) }

func formatSeconds(s int64) string {
	return (time.Duration(s) * time.Second).String()
}

var (
	commitLine = regexp.MustCompile("^Commit `([0-9a-f]{40})`\\.$")
	rowDay     = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`)
)

// checkTable returns the commit that the table on a page is of, and what is wrong with the table:
// a suite that is missing, a row of another commit, a row without the facts of a run.
func checkTable(page string) (commit string, wrong error) {
	_, rest, ok := strings.Cut(page, tableBegin+"\n")
	table, _, okEnd := strings.Cut(rest, tableEnd+"\n")
	if !ok || !okEnd {
		return "", errors.New("the page has no table of trials")
	}
	lines := strings.Split(table, "\n")
	m := commitLine.FindStringSubmatch(lines[0])
	if m == nil {
		return "", fmt.Errorf("got %q, want the commit of the table", lines[0])
	}
	commit = m[1]
	rows := map[string][]string{}
	var names []string
	for _, line := range lines {
		cells := strings.Split(line, "|")
		if len(cells) != 9 || strings.HasPrefix(cells[1], "-") || cells[1] == " Suite " {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		names = append(names, cells[1])
		rows[cells[1]] = cells[2:8]
	}
	if !slices.Equal(names, suiteNames) {
		return commit, fmt.Errorf("got rows of %v, want %v", names, suiteNames)
	}
	var problems []error
	for _, name := range names {
		row := rows[name]
		outcome, work, duration, day, rowCommit := row[0], row[1], row[3], row[4], row[5]
		switch {
		case outcome == notRun:
			if work+duration+day+rowCommit != "" {
				problems = append(problems, fmt.Errorf("%s was not run and has figures", name))
			}
		case outcome != passed && outcome != failed && outcome != brokeOff:
			problems = append(problems, fmt.Errorf("%s: %q is no outcome", name, outcome))
		case rowCommit != commit[:shortCommit]:
			problems = append(problems, fmt.Errorf("%s is of commit %q, the table of %s", name, rowCommit, commit))
		case work == "" || duration == "" || !rowDay.MatchString(day):
			problems = append(problems, fmt.Errorf("%s has no work, duration or day", name))
		}
	}
	return commit, errors.Join(problems...)
}

// describeMachine names the processor, the memory and the system.
func describeMachine() string {
	cpu := firstValue("/proc/cpuinfo", "model name")
	memory := "memory of unknown size"
	var kib int64
	if _, err := fmt.Sscan(firstValue("/proc/meminfo", "MemTotal"), &kib); err == nil {
		memory = fmt.Sprintf("%d GiB", (kib+1<<19)>>20)
	}
	if cpu == "" {
		cpu = "an unknown processor"
	}
	return fmt.Sprintf("%d cores of %s, %s, %s/%s", runtime.NumCPU(), cpu, memory, runtime.GOOS, runtime.GOARCH)
}

// firstValue reads the first line "name : value" of a file of the kernel; "" when it has none.
func firstValue(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

var versionNumber = regexp.MustCompile(`\d+\.\d+(\.\d+)?`)

// describeVersions names the versions of Go, PostgreSQL and the local chains that the suites use.
func describeVersions(ctx context.Context, root string) string {
	postgres := ""
	if bin, err := local.FindBinaries(); err == nil {
		postgres = askVersion(ctx, root, filepath.Join(bin, "postgres"), "--version")
	}
	modules := filepath.Join(root, "localchain", "node_modules")
	return fmt.Sprintf("Go %s, PostgreSQL %s, anvil %s, surfpool %s, btcd %s",
		askVersion(ctx, root, "go", "version"), orUnknown(postgres),
		packageVersion(modules, "@foundry-rs/anvil-*"), packageVersion(modules, "@solana/surfpool-*"),
		askVersion(ctx, root,
			"go", "list", "-modfile=tools/go.mod", "-m", "-f", "{{.Version}}", "github.com/btcsuite/btcd"))
}

func orUnknown(version string) string {
	if version == "" {
		return "unknown"
	}
	return version
}

func askVersion(ctx context.Context, root string, command ...string) string {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = root
	output, err := cmd.Output()
	if err != nil {
		return orUnknown("")
	}
	return orUnknown(versionNumber.FindString(string(output)))
}

// packageVersion reads the version of an installed package of npm.
func packageVersion(modules, pattern string) string {
	found, err := filepath.Glob(filepath.Join(modules, pattern, "package.json"))
	if err != nil || len(found) == 0 {
		return orUnknown("")
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		return orUnknown("")
	}
	m := regexp.MustCompile(`"version":\s*"([^"]+)"`).FindSubmatch(text)
	if m == nil {
		return orUnknown("")
	}
	return string(m[1])
}
