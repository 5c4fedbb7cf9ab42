package kernel

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/fault"
)

func TestTablesAtATimeAreBounded(t *testing.T) {
	t.Parallel()
	var all ExportSlots
	var ends []func()
	take := func(org string, want bool) {
		t.Helper()
		done, err := all.Acquire(org)
		if (err == nil) != want || err != nil && !fault.HasCode(err, fault.CodeUnavailable) {
			t.Fatalf("%s: got %v, want a place: %v", org, err, want)
		}
		if err == nil {
			ends = append(ends, done)
		}
	}
	for range tablesPerOrgMax {
		take("one", true)
	}
	take("one", false)
	for i := range tablesMax - tablesPerOrgMax {
		take(fmt.Sprint("other", i), true)
	}
	take("late", false)
	for _, end := range ends {
		end()
		end() // again changes nothing
	}
	if all.total != 0 || len(all.perOrg) != 0 {
		t.Errorf("got %d and %v, want nothing left", all.total, all.perOrg)
	}
	take("late", true)
}

func TestCellsAreNoFormulas(t *testing.T) {
	t.Parallel()
	for cell, want := range map[string]string{
		"": "", "a": "a", "a=1": "a=1", "'=1": "'=1", "user@example.com": "user@example.com",
		"=1": "'=1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\t=1": "'\t=1", "\r=1": "'\r=1", "\n=1": "'\n=1",
		" =1": "' =1", "\u00a0=1": "'\u00a0=1", "＝1": "'＝1",
		"\ta": "'\ta", " a": " a",
	} {
		if got := escapeFormula(cell); got != want {
			t.Errorf("%q: got %q, want %q", cell, got, want)
		}
	}
}

// FuzzHarmless promises that no cell begins with what a spreadsheet calculates, and that nothing
// else in it is changed.
func FuzzHarmless(f *testing.F) {
	for _, seed := range []string{"=1", " \t@x", "a", "", "＋", "\xff="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, cell string) {
		got := escapeFormula(cell)
		if got != cell && got != "'"+cell {
			t.Errorf("%q became %q", cell, got)
		}
		if got != "" && strings.ContainsRune("=+-@\t\r\n", rune(got[0])) {
			t.Errorf("%q became %q, a formula", cell, got)
		}
	})
}
