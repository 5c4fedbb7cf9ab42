// Package schema is the database schema as text: a file for each domain, with its tables,
// constraints, triggers, policies and grants, and the reason for each.
//
// The files are applied in the order of their names, and their concatenation (Initial) describes a
// new database exactly. Migration 1 was such a concatenation and is frozen. A change is made in a
// later migration and here, and a test compares the results.
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

// CutInitial cuts the text of a migration that Initial made around the part of one file. A file that
// it does not have leaves everything before.
func CutInitial(text, file string) (before, part, after string) {
	head := "\n---- " + file + "\n\n"
	i := strings.Index(text, head)
	if i < 0 {
		return text, "", ""
	}
	start := i + len(head)
	end := len(text)
	if n := strings.Index(text[start:], "\n---- "); n >= 0 {
		end = start + n
	}
	return text[:start], text[start:end], text[end:]
}

const initialTail = `
-- The service compares the version of the schema with its own before it serves.
GRANT SELECT ON goose_db_version TO coffer_reader;
-- +goose StatementEnd
`

// Initial is one migration that makes the whole schema, made of the files of a folder.
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
