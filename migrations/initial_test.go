package migrations_test

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/migrations"
	"github.com/cofferpay/coffer/schema"
)

// While it is the only SQL file, the first migration is generated from schema/: COFFER_UPDATE=1
// writes it (make generate does). With the first later migration it is frozen, and
// TestTheSchemaFilesAreWhatTheMigrationsMake compares the databases instead.
func TestTheFirstMigrationIsDrawnFromTheSchema(t *testing.T) {
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
	if len(names) > 1 {
		t.Logf("%s is frozen: there are later migrations", name)
		return
	}
	want, err := schema.Initial(schema.Files)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("COFFER_UPDATE") == "1" {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := fs.ReadFile(migrations.Files, name)
	if err != nil || string(got) != want {
		t.Errorf(
			"%s is not the concatenation of schema/*.sql (%v): run make generate, or COFFER_UPDATE=1 go test ./migrations -run Drawn",
			name, err,
		)
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
