package arch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	signerCore        = "internal/signer/rules"
	signerKinds       = "internal/signer/kind.go"
	signerJournalFile = "internal/signer/journalfile"
	coreLinesMax      = 1550 // what one person reads in one sitting, comments included
)

// What decides whether something is signed can be read in one sitting.
func TestTheCoreOfTheSignerIsReadInOneSitting(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, signerCore, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, path := range append(files, filepath.Join(root, signerKinds)) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		total += strings.Count(string(text), "\n")
	}
	if len(files) < 2 || total > coreLinesMax {
		t.Errorf("%s and %s: got %d lines in %d files, want at most %d: move what supports a decision to a package of "+
			"its own", signerCore, signerKinds, total, len(files)+1, coreLinesMax)
	}
}

// The core decides and does nothing else, so what journals its decisions is in one place.
func TestTheCoreOfTheSignerDoesNoIO(t *testing.T) {
	t.Parallel()
	h, err := asBuilt()
	if err != nil {
		t.Fatal(err)
	}
	forbidden := []string{
		"bufio", "context", "database/sql", "io", "io/fs", "log/slog", "net", "net/http", "os", "sync", "syscall",
	}
	found := 0
	for _, s := range h.sources {
		if s.dir != signerCore || s.test {
			continue
		}
		found++
		for _, imp := range s.listImports() {
			if slices.Contains(forbidden, imp.path) || strings.HasSuffix(imp.path, signerJournalFile) {
				t.Errorf("%s: imports %s: package local locks, waits and writes", s.position(imp.spec), imp.path)
			}
		}
	}
	if found == 0 {
		t.Errorf("%s: got no file, want the core of the signer", signerCore)
	}
}
