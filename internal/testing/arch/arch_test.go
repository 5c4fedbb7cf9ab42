package arch

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"
)

const root = "../../.."

// asBuilt is the module as it stands, parsed once.
var asBuilt = sync.OnceValues(func() (tree, error) {
	planned, err := os.ReadFile("planned.txt")
	if err != nil {
		return tree{}, err
	}
	sources, err := loadSources(os.DirFS(root))
	if err != nil {
		return tree{}, err
	}
	return tree{packages, plannedDirs(string(planned)), exceptions, importers, sources}, nil
})

// plannedDirs reads planned.txt: the lines after its introduction that name a
// folder.
func plannedDirs(text string) []string {
	_, text, _ = strings.Cut(text, "- - -\n")
	var out []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "-") {
			out = append(out, line)
		}
	}
	return out
}

func check(t *testing.T, what func(tree) []string) {
	t.Helper()
	h, err := asBuilt()
	if err != nil {
		t.Fatal(err)
	}
	for _, complaint := range what(h) {
		t.Error(complaint)
	}
}

func TestEveryPackageStandsOnAFloor(t *testing.T)  { t.Parallel(); check(t, tree.checkListed) }
func TestImportsPointDown(t *testing.T)            { t.Parallel(); check(t, tree.checkImports) }
func TestMoneyIsNeverAFloat(t *testing.T)          { t.Parallel(); check(t, tree.checkFloats) }
func TestFeaturesDoNotKnowHTTP(t *testing.T)       { t.Parallel(); check(t, tree.checkHTTP) }
func TestFaultsHaveNoTermsOfASurface(t *testing.T) { t.Parallel(); check(t, tree.checkFaultTexts) }
func TestKeysStayWithTheSigner(t *testing.T)       { t.Parallel(); check(t, tree.checkKeys) }
func TestIDsCannotBeGuessed(t *testing.T)          { t.Parallel(); check(t, tree.checkRandom) }
func TestTestsNeitherSkipNorSleep(t *testing.T)    { t.Parallel(); check(t, tree.checkTests) }
func TestNothingIsPutOff(t *testing.T)             { t.Parallel(); check(t, tree.checkUnfinished) }
func TestEveryPackageSaysWhatItIs(t *testing.T)    { t.Parallel(); check(t, tree.checkDocumented) }

// Every rule is cited where it is kept and where it is proven, and every rule that is cited exists.
func TestRulesAndCodeNameEachOther(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(root + "/docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	names, err := fs.Glob(os.DirFS(root), "schema/*.sql")
	if err != nil || len(names) == 0 {
		t.Fatalf("got %d files in schema, %v", len(names), err)
	}
	schema := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(root + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		schema[name] = string(text)
	}
	check(t, func(h tree) []string { return h.checkRules(string(page), schema, uncitedRules) })
}

// A promise whose test was renamed or removed is shown by nothing.
func TestThePageOfPromisesNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(root + "/docs/SAFETY.md")
	if err != nil {
		t.Fatal(err)
	}
	check(t, func(h tree) []string { return h.checkSafetyPage(string(page)) })
}

func TestEveryDependencyHasAReason(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(root + "/docs/adr/0002-dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	check(t, func(h tree) []string { return h.checkDependencies(string(page)) })
}

// written is every text of the repository, read once.
var written = sync.OnceValues(func() (library, error) { return loadTexts(os.DirFS(root)) })

func checkTexts(t *testing.T, what func(library) []string) {
	t.Helper()
	l, err := written()
	if err != nil {
		t.Fatal(err)
	}
	for _, complaint := range what(l) {
		t.Error(complaint)
	}
}

// Comments and pages cite decisions by number, and the table says where each of them is.
func TestEveryCitedDecisionIsInTheTable(t *testing.T) {
	t.Parallel()
	checkTexts(t, library.citedDecisions)
}

func TestEveryLinkedPageAndHeadingExists(t *testing.T) { t.Parallel(); checkTexts(t, library.links) }

// The terms of the glossary are the ones that the code uses.
func TestNamesUseTheTermsOfTheGlossary(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(root + "/" + glossaryPage)
	if err != nil {
		t.Fatal(err)
	}
	check(t, func(h tree) []string { return h.checkGlossary(string(page), allowedWords) })
}

// With COFFER_UPDATE=1 it writes the lists, whose sums may not grow. A list that is not there is
// written whatever its sum.
func TestRatchetsOnlyFall(t *testing.T) {
	t.Parallel()
	h, err := asBuilt()
	if err != nil {
		t.Fatal(err)
	}
	l, err := written()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range ratchets {
		found := r.count(h, l)
		text, err := os.ReadFile("testdata/" + r.name)
		isNew := errors.Is(err, fs.ErrNotExist)
		if err != nil && !isNew {
			t.Fatal(err)
		}
		listed, err := parseTally(string(text))
		if err != nil {
			t.Fatalf("testdata/%s: %v", r.name, err)
		}
		if os.Getenv("COFFER_UPDATE") == "1" && (isNew || found.sum() <= listed.sum()) {
			if err := os.WriteFile("testdata/"+r.name, []byte(found.format()), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for _, complaint := range r.compare(listed, found) {
			t.Error(complaint)
		}
	}
}

// Each migration opens with its reason, and each table has one writer.
func TestTablesHaveAReasonAndOneWriter(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(os.DirFS(root), "migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(root + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "-- Why: ") {
			t.Errorf("%s: got a first line without the reason, want it to open with %q", name, "-- Why: ")
		}
		all.Write(text)
	}
	check(t, func(h tree) []string { return h.checkTableWriters(all.String()) })
}
