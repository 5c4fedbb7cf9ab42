package lockorder_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/platform/pg/lockorder"
)

const (
	document = "../../../../docs/design/locks.md"
	drawnFor = "<!-- drawn from internal/platform/pg/lockorder/coffer.go -->\n"
	drawnEnd = "<!-- end -->\n"
)

// The page shows the list with which the tests compare transactions. COFFER_UPDATE=1 writes it.
func TestTheLockOrderIsDrawn(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(content), drawnFor)
	_, after, closed := strings.Cut(rest, drawnEnd)
	if !found || !closed {
		t.Fatalf("%s has no place for the lock order", document)
	}
	want := before + drawnFor + draw(lockorder.Coffer) + drawnEnd + after
	if want == string(content) {
		return
	}
	if os.Getenv("COFFER_UPDATE") == "" {
		t.Fatalf("%s does not show coffer.go: run COFFER_UPDATE=1 go test ./internal/platform/pg/lockorder -run Drawn",
			document)
	}
	if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func draw(o *lockorder.Order) string {
	var b strings.Builder
	names := func(locks []lockorder.Lock) string {
		var list []string
		for _, l := range locks {
			list = append(list, l.Name)
		}
		return quote(list)
	}
	b.WriteString("\n| Level | Locks, in their order |\n|---|---|\n")
	for i, level := range o.Levels {
		fmt.Fprintf(&b, "| %d %s | %s |\n", i+1, level.Title, names(level.Locks))
	}
	for _, group := range o.Groups {
		fmt.Fprintf(&b, "| apart: %s | %s |\n", group.Title, names(group.Locks))
	}
	fmt.Fprintf(&b, "| none: rows are only inserted, under new keys | %s |\n", names(o.Unlocked))
	b.WriteString("\n| Safe exception | Function | Has | Takes behind it |\n|---|---|---|---|\n")
	for _, e := range o.Exceptions {
		fmt.Fprintf(&b, "| %d | `%s` | %s | %s |\n", e.Number, e.Function, quote(e.Held), quote(e.Taken))
	}
	b.WriteString("\n")
	return b.String()
}

// quote shows names as code; no names mean any.
func quote(names []string) string {
	if names == nil {
		return "any"
	}
	var list []string
	for _, name := range names {
		list = append(list, "`"+strings.TrimSpace(name)+"`")
	}
	return strings.Join(list, ", ")
}

// The page gives a reason for every exception of the list. An exception that the list does not have
// is about rows of one table, which the check does not see, and says so.
func TestEveryExceptionHasItsReason(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(content), "\n## Safe exceptions\n")
	section, _, closed := strings.Cut(section, "\n## ")
	if !found || !closed {
		t.Fatalf("%s has no section about safe exceptions", document)
	}
	reasons := map[int]string{}
	number := 0
	for line := range strings.Lines(section) {
		var n int
		if scanned, _ := fmt.Sscanf(line, "%d. ", &n); scanned == 1 {
			number = n
		}
		reasons[number] += strings.TrimSpace(line) + " "
	}
	listed := map[int]bool{}
	for _, e := range lockorder.Coffer.Exceptions {
		listed[e.Number] = true
		for _, name := range slices.Concat(e.Held, e.Taken) {
			if l := lockorder.Coffer.Find(name); l == nil || l.Name != name {
				t.Errorf("exception %d names %q, which the order does not have", e.Number, name)
			}
		}
	}
	for number, reason := range reasons {
		if unseen := strings.Contains(reason, unseenByTheCheck); number > 0 && unseen == listed[number] {
			t.Errorf("exception %d is listed: %v, and the page says that the check does not see it: %v",
				number, listed[number], unseen)
		}
	}
	for number := range listed {
		if reasons[number] == "" {
			t.Errorf("%s has no reason for exception %d", document, number)
		}
	}
}

const unseenByTheCheck = "The check does not see this"

// Each exception has a test in which a transaction needs it. An exception that no path needs any
// more fails that test.
func TestEveryExceptionHasATestThatNeedsIt(t *testing.T) {
	t.Parallel()
	needed := map[string]bool{}
	err := filepath.WalkDir("../../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, call := range expectedException.FindAllStringSubmatch(string(source), -1) {
			needed[call[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range lockorder.Coffer.Exceptions {
		if !needed[e.Function] {
			t.Errorf("no test expects the exception of %s: call pgtest.ExpectLockException in one", e.Function)
		}
		delete(needed, e.Function)
	}
	for function := range needed {
		t.Errorf("a test expects an exception of %s, which the lock order does not have", function)
	}
}

var expectedException = regexp.MustCompile(`pgtest\.ExpectLockException\(\w+, [\w.]+, "([^"]+)"\)`)
