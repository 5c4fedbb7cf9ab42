package csvcell

import (
	"strings"
	"testing"
)

func TestCellsAreNoFormulas(t *testing.T) {
	t.Parallel()
	for cell, want := range map[string]string{
		"": "", "a": "a", "a=1": "a=1", "'=1": "'=1", "user@example.com": "user@example.com",
		"=1": "'=1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\t=1": "'\t=1", "\r=1": "'\r=1", "\n=1": "'\n=1",
		" =1": "' =1", "\u00a0=1": "'\u00a0=1", "＝1": "'＝1",
		"\ta": "'\ta", " a": " a",
	} {
		if got := EscapeFormula(cell); got != want {
			t.Errorf("%q: got %q, want %q", cell, got, want)
		}
	}
}

// FuzzEscapeFormula promises that no cell begins with what a spreadsheet calculates, and that nothing
// else in it is changed.
func FuzzEscapeFormula(f *testing.F) {
	for _, seed := range []string{"=1", " \t@x", "a", "", "＋", "\xff="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, cell string) {
		got := EscapeFormula(cell)
		if got != cell && got != "'"+cell {
			t.Errorf("%q became %q", cell, got)
		}
		if got != "" && strings.ContainsRune("=+-@\t\r\n", rune(got[0])) {
			t.Errorf("%q became %q, a formula", cell, got)
		}
	})
}
