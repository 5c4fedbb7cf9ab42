// Package schema is the database schema as text: a file for each domain, with its tables,
// constraints, triggers, policies and grants, and the reason for each.
//
// The files are applied in the order of their names. Migration 1 is their concatenation
// (Initial), so these files describe a new database exactly. A later migration makes the same
// change in both places, and a test compares the results.
//
// No statement reads or patches an existing schema: the files describe a database that is empty
// before.
package schema

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

// Files are the files of the schema.
//
//go:embed *.sql
var Files embed.FS

// InitialFile is the migration that Initial makes, as its path in the module.
const InitialFile = "migrations/0001_initial.sql"

const initialHead = `-- Why: the schema of a new database. Generated from schema/*.sql by make generate: edit those
-- files, which say the reason for each table and guard.

-- +goose Up
-- +goose StatementBegin
`

const initialTail = `
-- The service compares the version of the schema with its own before it serves.
GRANT SELECT ON goose_db_version TO coffer_reader;
-- +goose StatementEnd
`

// Initial is the text of migration 1, made of the files of a folder.
func Initial(files fs.FS) (string, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(initialHead)
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return "", fmt.Errorf("read the schema: %w", err)
		}
		fmt.Fprintf(&b, "\n---- %s\n\n%s", name, text)
	}
	b.WriteString(initialTail)
	return b.String(), nil
}
