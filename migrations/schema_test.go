package migrations_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/cofferpay/coffer/internal/platform/pg/local"
	"github.com/cofferpay/coffer/migrations"
	"github.com/cofferpay/coffer/schema"
)

// The files of schema/ describe the database that the migrations make: roles, tables,
// columns in their order, constraints, functions, triggers, policies, grants and seed rows.
//
// COFFER_BEFORE compares with the migrations of another folder instead of the embedded ones:
// scripts/compare-schema does that with those of another commit.
func TestTheSchemaFilesAreWhatTheMigrationsMake(t *testing.T) {
	t.Parallel()
	bin, err := local.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(bin, "pg_dump")); err != nil {
		t.Logf("%s has no pg_dump: nothing is compared with this PostgreSQL", bin)
		return
	}
	initial, err := schema.Initial(schema.Files)
	if err != nil {
		t.Fatal(err)
	}
	var before fs.FS = migrations.Files
	if dir := os.Getenv("COFFER_BEFORE"); dir != "" {
		before = os.DirFS(dir)
	}
	migrated := dumped(t, bin, before)
	described := dumped(t, bin, fstest.MapFS{"0001_initial.sql": &fstest.MapFile{Data: []byte(initial)}})
	if lines := difference(t, migrated, described); lines != "" {
		t.Errorf(
			"the migrations make (-) another database than schema/ describes (+); the same change belongs in both:\n%s",
			lines,
		)
	}
}

// dumped returns the text of a database that the files migrated, in its own cluster, with the roles
// of that cluster.
func dumped(t *testing.T, bin string, files fs.FS) string {
	t.Helper()
	ctx := t.Context()
	cluster, err := local.Start(ctx, local.Options{
		Dir: filepath.Join(t.TempDir(), "pg"), TCP: true, Ephemeral: true, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	}()
	conf, err := pgxpool.ParseConfig(cluster.OwnerURL(local.Database))
	if err != nil {
		t.Fatal(err)
	}
	conf.MaxConns = 4
	owner, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	db := stdlib.OpenDBFromPool(owner)
	defer db.Close()
	provider, err := migrations.StepsOf(db, owner, files)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.Up(ctx); err != nil {
		t.Fatal(err)
	}
	settle(ctx, t, owner)
	super := cluster.SuperURL(local.Database)
	roles := run(t, bin, "pg_dumpall", "--roles-only", "--no-role-passwords", "--dbname", super)
	// The list of the migrations themselves differs, and River records when it created its tables.
	database := run(t, bin, "pg_dump", "--create", "--inserts", "--exclude-table-data", "goose_db_version*",
		"--exclude-table-data", "river_migration", "--dbname", super)
	return withoutChance(ctx, t, owner, roles+database)
}

// settle validates the constraints that a migration left NOT VALID so that it need not read the
// rows of a live table. Every row of a new database meets them.
func settle(ctx context.Context, t *testing.T, owner *pgxpool.Pool) {
	t.Helper()
	rows, err := owner.Query(ctx, `SELECT format('ALTER TABLE %s VALIDATE CONSTRAINT %I', conrelid::regclass, conname)
		FROM pg_constraint WHERE NOT convalidated ORDER BY conrelid::regclass::text, conname`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range all {
		if _, err := owner.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	if len(all) > 0 {
		t.Logf("%d constraints were NOT VALID and were validated before the comparison", len(all))
	}
}

var (
	// restricted matches pg_dump's own protection against psql's backslash commands.
	restricted = regexp.MustCompile(`(?m)^\\(un)?restrict .*\n`)
	chainRow   = regexp.MustCompile(
		`(?m)^(INSERT INTO public\.audit_chain VALUES \(true, )` +
			`'aud_[0-9a-f]{32}', 0, '\\x[0-9a-f]{64}', 0, '-infinity'\);$`,
	)
)

// withoutChance removes from a dump what differs between two runs: the name of the audit chain, and
// its first hash, which is computed from that.
func withoutChance(ctx context.Context, t *testing.T, owner *pgxpool.Pool, dump string) string {
	t.Helper()
	var sound bool
	if err := owner.QueryRow(
		ctx, `SELECT hash = sha256(convert_to('coffer-audit-1' || chr(10) || chain_id, 'UTF8')) FROM audit_chain`,
	).Scan(&sound); err != nil || !sound {
		t.Errorf("the seed of the audit chain: got %v, %v, want a hash of its name", sound, err)
	}
	if n := len(chainRow.FindAllString(dump, -1)); n != 1 {
		t.Errorf("the seed of the audit chain stands %d times in the dump, want once", n)
	}
	return chainRow.ReplaceAllString(restricted.ReplaceAllString(dump, ""), "$1...);")
}

func run(t *testing.T, bin, tool string, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, tool), args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", tool, err, stderr.String())
	}
	return string(out)
}

// difference returns the output of diff for two texts, cut after a hundred lines.
func difference(t *testing.T, before, after string) string {
	t.Helper()
	if before == after {
		return ""
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"before": before, "after": after} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(
		t.Context(), "diff", "-U", "2", filepath.Join(dir, "before"), filepath.Join(dir, "after"),
	).Output()
	if len(out) == 0 {
		return fmt.Sprintf("they differ, and diff says %v", err)
	}
	lines := strings.SplitAfter(string(out), "\n")
	return strings.Join(lines[:min(len(lines), 100)], "")
}
