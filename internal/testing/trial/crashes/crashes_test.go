package crashes

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/testing/part"
	"github.com/cofferpay/coffer/internal/testing/trial/binary"
)

// root is the folder of the source tree.
const root = "../../../.."

// placed finds a failpoint where the code hits it, or in the table of the kinds of orders.
var placed = regexp.MustCompile(
	`(?:failpoint\.(Hit|HitBeforeCommit)\(|(?:before|after)(?:Sign|Store|Send|Proof|End): )"([A-Z]\d\d)"`,
)

// inSource finds the points in the source, and those after a commit.
func inSource(t *testing.T) (points, commits map[string]bool) {
	t.Helper()
	points, commits = map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range placed.FindAllStringSubmatch(string(text), -1) {
			if m[1] == "HitBeforeCommit" {
				commits[m[2]] = true
			} else {
				points[m[2]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return points, commits
}

// The list, the source and the table agree. A played point is in the source, or outside of the
// service; a point of the source is played or has a reason why not; so has every other point. Every cell
// checks that its point is reached.
func TestEveryPointStandsAndIsPlayed(t *testing.T) {
	t.Parallel()
	source, commits := inSource(t)
	played := map[string]bool{}
	for _, p := range points {
		if played[p.name] {
			t.Errorf("%s is played twice", p.name)
		}
		played[p.name] = true
		at, before := strings.CutSuffix(p.sourceName(), ".commit")
		if p.location != outsideService && (!source[at] || before && !commits[at]) {
			t.Errorf("%s does not stand in the source", p.name)
		}
		if p.location == outsideService && source[p.name] {
			t.Errorf("%s stands in the source and is played outside", p.name)
		}
		if want := commits[at] && !before; p.commit != want {
			t.Errorf("%s: got commit %v in the table, %v in the source", p.name, p.commit, want)
		}
		if p.play == nil || p.title == "" {
			t.Errorf("%s has no scene or no words", p.name)
		}
	}
	for _, s := range sites {
		for name, why := range s.excluded {
			is := slices.IndexFunc(points, func(p point) bool { return p.name == name })
			if is < 0 || why == "" || !strings.Contains(s.families, name[:1]) {
				t.Errorf("%s is listed as not played on %s and is no point there, or has no reason", name, s.chain)
			}
		}
		for name := range s.overrides {
			is := slices.IndexFunc(points, func(p point) bool { return p.name == name })
			if is < 0 || !s.playsPoint(points[is]) {
				t.Errorf("%s is to be played in another way on %s, and is no point there", name, s.chain)
				continue
			}
			p := s.adaptPoint(points[is])
			if !source[p.sourceName()] || p.commit != commits[p.sourceName()] && p.sourcePoint == "" ||
				p.play == nil || p.title == "" {
				t.Errorf(
					"%s on %s: its place is not in the source as the table has it, or it has no scene or no words",
					name, s.chain,
				)
			}
		}
	}
	for _, p := range points {
		isPlayed := func(s site) bool { return s.playsPoint(p) }
		if !isPlayed(sites[0]) && (sites[0].excluded[p.name] == "" || !slices.ContainsFunc(sites[1:], isPlayed)) {
			t.Errorf("%s is not played on %s", p.name, sites[0].chain)
		}
	}
	for _, u := range unplayed {
		if played[u.name] || u.why == "" {
			t.Errorf("%s is played and listed as not played, or has no reason", u.name)
		}
		played[u.name] = true
	}
	for name := range source {
		if !played[name] {
			t.Errorf("%s stands in the source, is not played and has no reason", name)
		}
	}
	for _, family := range []struct {
		letter      string
		first, last int
	}{
		{"W", 1, 30},
		{"A", 1, 6},
		{"D", 1, 14},
		{"F", 1, 12},
		{"S", 1, 10},
		{"K", 1, 8},
		{"O", 5, 8},
		{"T", 1, 2},
		{"V", 1, 7},
		{"Q", 1, 26},
		{"QW", 5, 29},
		{"C", 1, 16},
		{"B", 1, 7},
		{"B", 8, 11},
		{"B", 12, 14},
		{"L", 1, 4},
	} {
		for n := family.first; n <= family.last; n++ {
			name := family.letter + string(rune('0'+n/10)) + string(rune('0'+n%10))
			if !played[name] {
				t.Errorf("%s is neither played nor listed", name)
			}
		}
	}
}

func TestAChoiceThatMeansNothingIsRefused(t *testing.T) {
	t.Parallel()
	for _, opts := range []Options{
		{Points: []string{"W99"}},
		{Faults: []Fault{"flood"}},
		{Points: []string{"K08"}, Faults: []Fault{Kill}},
		{Chains: []chain.Name{chain.Tron}},
		{Points: []string{"W25", "K01"}, Chains: []chain.Name{chain.Solana}},
		{Points: []string{"S01", "F06"}, Chains: []chain.Name{chain.Bitcoin}},
	} {
		if got, err := chooseCells(opts); err == nil {
			t.Errorf("%+v: got %d cells, want an error", opts, len(got))
		}
	}
	all, err := chooseCells(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"W14 kill ETHEREUM", "W14 kill SOLANA", "D01 cut SOLANA", "S05 stop SOLANA", "W28 cut BITCOIN",
		"F12 postgres BITCOIN", "K08 stop ETHEREUM",
	} {
		if !slices.ContainsFunc(all, func(c cell) bool { return c.cellName() == want }) {
			t.Errorf("%s is not among all cells", want)
		}
	}
}

// Rules WD-7, WD-10, IDEM-1, TR-6, TR-9, DEP-30 and BP-50. The service, its signer or the database dies,
// or the answer to a commit is lost, at the steps where most is at stake, on each chain. The
// receiver gets the amount once, and the books agree with the chain. A day plays every other step; make crash
// plays all points with all faults.
func TestMoneyMovesOnceWhateverIsKilled(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "coffer")
	if err := binary.BuildProgram(t.Context(), ".", program, "crash"); err != nil {
		t.Fatal(err)
	}
	for name, all := range map[string][]string{
		"ethereum": {
			"W03 cut ETHEREUM", "W11 signer ETHEREUM", "W14 kill ETHEREUM", "W18 postgres ETHEREUM",
			"W27 cut ETHEREUM", "P13 cut ETHEREUM", "P25 kill ETHEREUM", "D08 cut ETHEREUM",
			"F01 cut ETHEREUM", "S04 kill ETHEREUM", "S07 kill ETHEREUM", "T01 kill ETHEREUM", "T02 kill ETHEREUM",
			"T02 cut ETHEREUM", "V05 cut ETHEREUM", "V06 kill ETHEREUM", "C06 cut ETHEREUM", "C08 kill ETHEREUM",
			"C12 cut ETHEREUM", "B04 cut ETHEREUM", "B07 kill ETHEREUM", "B09 kill ETHEREUM", "B11 kill ETHEREUM",
		},
		"solana":  {"W11 signer SOLANA", "W14 kill SOLANA", "S05 kill SOLANA", "V03 signer SOLANA"},
		"bitcoin": {"W08 cut BITCOIN", "W11 signer BITCOIN", "F12 kill BITCOIN"},
		"swaps":   {"Q05 cut ETHEREUM", "Q14 kill ETHEREUM", "Q24b cut ETHEREUM"},
	} {
		only := part.OfToday(t, all, 2)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			report, err := Run(t.Context(), Options{Program: program, Worlds: 1, Cells: only})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s\n%s", time.Since(began).Round(time.Second), report)
			if report.Failed > 0 || report.Cells != len(only) {
				t.Errorf(
					"%d of %d cells failed, want %d played:\n%s", report.Failed, report.Cells, len(only),
					report.Failures(),
				)
			}
		})
	}
}
