package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// row is one line of the table.
type row struct{ figure, result, compared, target string }

// table is the printed table, with the limits that later rows are compared with.
type table struct {
	rows []row

	syncMedian time.Duration // of fdatasync
	tpcb8      float64       // transactions a second, 8 clients
	bareWriter float64       // transfers a second, spread
	spread     float64       // POST /transfers a second, spread
}

func (t *table) addRow(r row) {
	t.rows = append(t.rows, r)
	printProgress("      %s: %s %s", r.figure, r.result, r.compared)
}

func (t *table) addMissing(title string) { t.addRow(row{figure: title, result: "not measured yet"}) }

// formatRatio formats the ratio of two figures; it is empty if the other figure was not taken.
func formatRatio(a, b float64, reference string) string {
	if b == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f of %s", a/b, reference)
}

// joinParts joins the parts of a cell that are not empty.
func joinParts(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "; ")
}

// formatTarget says whether a figure is on the right side of its target.
func formatTarget(ok bool, target string) string {
	if ok {
		return target + ": reached"
	}
	return target + ": **missed**"
}

func (t *table) formatMarkdown(machine string) string {
	var b strings.Builder
	fmt.Fprintf(
		&b, "%s, %s.\n\n| Figure | Here | Compared | Target |\n|---|---|---|---|\n", machine,
		time.Now().UTC().Format(time.DateOnly),
	)
	for _, r := range t.rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.figure, r.result, r.compared, r.target)
	}
	return b.String()
}

// thisMachine describes the machine to a reader of the table.
func thisMachine(postgres string, settings map[string]string) string {
	cpu := "an unknown processor"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				cpu = strings.TrimSpace(value)
				break
			}
		}
	}
	serverSettings := "its defaults"
	if len(settings) > 0 {
		serverSettings = strings.Trim(fmt.Sprint(settings), "map[]")
	}
	return fmt.Sprintf("%d cores of %s, %s/%s, %s, PostgreSQL %s with %s, service, database and callers together",
		runtime.NumCPU(), cpu, runtime.GOOS, runtime.GOARCH, runtime.Version(), postgres,
		serverSettings)
}

// durations lists how long each of many operations took.
type durations []time.Duration

// percentile returns the time that this part of the operations, 0.5 or 0.99, stayed under.
func (s durations) percentile(p float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	slices.Sort(s)
	return s[min(len(s)-1, int(p*float64(len(s))))]
}

func formatDuration(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(time.Microsecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

func perSecond(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }
