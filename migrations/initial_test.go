package migrations_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/migrations"
	"github.com/cofferpay/coffer/schema"
)

// frozenDigest is the SHA-256 of the first migration. Databases have been made with it, so it never
// changes: a change of the schema is a later step.
const frozenDigest = "561ea0909244372ed76dc47a2d2e0cf36a6bcfa4ad64460eedc506c96925a492"

// The first migration is frozen, and every later step has a number that no database counts as
// applied. TestTheSchemaFilesAreWhatTheMigrationsMake compares what they make with schema/.
func TestTheFirstMigrationIsFrozen(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	_, name, _ := strings.Cut(schema.InitialFile, "/")
	if !slices.Contains(names, name) {
		t.Fatalf("got %v, want %s among them", names, name)
	}
	for _, version := range migrations.Versions() {
		if version > 2 && version < migrations.FirstLater {
			t.Errorf(
				"migration %d: got a number that older databases count as applied, want %d or a higher one", version,
				migrations.FirstLater,
			)
		}
	}
	// The file itself, so that a trial that plants a defect in the embedded one is not found here.
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(text)); got != frozenDigest {
		t.Errorf("%s: got the hash %s, want %s: undo the change and write a step from %d on", name, got, frozenDigest,
			migrations.FirstLater)
	}
}

// checksumsFile has the SHA-256 of every migration that was committed. A line is added with its migration, by a run of
// the test with COFFER_UPDATE=1, and never changes.
const checksumsFile = "checksums.txt"

// A database that applied a migration does not apply it again. A change of the file would reach new databases alone, and
// the schema check of the others would stop all payments.
func TestNoCommittedMigrationChanges(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(checksumsFile)
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]string{}
	for line := range strings.Lines(string(text)) {
		hash, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			t.Fatalf("%s: got the line %q, want a hash and a name", checksumsFile, line)
		}
		recorded[name] = hash
	}
	// The files themselves, so that a trial that plants a defect in an embedded one is not found here.
	names, err := filepath.Glob("*.sql")
	if err != nil || len(names) == 0 {
		t.Fatalf("got %v %v, want the migrations", names, err)
	}
	added := string(text)
	for _, name := range names {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		hash := fmt.Sprintf("%x", sha256.Sum256(file))
		switch recorded[name] {
		case hash:
		case "":
			added += hash + "  " + name + "\n"
		default:
			t.Errorf("%s: got the hash %s, want %s: undo the change and write a further migration", name, hash,
				recorded[name])
		}
		delete(recorded, name)
	}
	for name := range recorded {
		t.Errorf("%s: got no file, and databases have applied it", name)
	}
	if added == string(text) {
		return
	}
	if os.Getenv("COFFER_UPDATE") == "" {
		t.Fatalf("%s lacks a migration: run the test with COFFER_UPDATE=1 when the migration is final", checksumsFile)
	}
	if err := os.WriteFile(checksumsFile, []byte(added), 0o644); err != nil {
		t.Fatal(err)
	}
}

var readsDefinitions = regexp.MustCompile(
	`(?i)pg_get_(functiondef|function_sqlbody|constraintdef|triggerdef|viewdef|ruledef|indexdef|expr)|\bprosrc\b`,
)

// A migration contains the whole text of a function or check. One that patches the text of a live
// database cannot be read: its result depends on the migrations before it.
func TestNoMigrationReadsTheTextOfTheLiveSchema(t *testing.T) {
	t.Parallel()
	for where, files := range map[string]fs.FS{"migrations": migrations.Files, "schema": schema.Files} {
		names, err := fs.Glob(files, "*.sql")
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: got %v, %v, want files", where, names, err)
		}
		for _, name := range names {
			text, err := fs.ReadFile(files, name)
			if err != nil {
				t.Fatal(err)
			}
			if found := readsDefinitions.FindString(string(text)); found != "" {
				t.Errorf("%s/%s: got %s, want the whole text of what it replaces", where, name, found)
			}
		}
	}
	for sql, reads := range map[string]bool{
		"was text := pg_get_functiondef('a()'::regprocedure);": true,
		"SELECT pg_get_constraintdef(oid) FROM pg_constraint;": true,
		"SELECT PROSRC FROM pg_proc;":                          true,
		"CREATE FUNCTION a() RETURNS trigger;":                 false,
	} {
		if got := readsDefinitions.MatchString(sql); got != reads {
			t.Errorf("%s: got %v, want %v", sql, got, reads)
		}
	}
}
