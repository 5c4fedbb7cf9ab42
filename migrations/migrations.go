// Package migrations has the history of the schema: numbered steps in one line, which only grows.
// They are embedded in the program that needs them.
//
// Step 1 makes the whole schema of a new database, as it was in schema/ at the baseline. Step 2 adds
// the tables of River. A later step has the number FirstLater or a higher one and changes a live
// database. The same change is made in schema/, which describes what all steps together make.
//
// No step is edited once it has left a developer's machine, none goes backward, and none deletes
// what a running older program still reads. A crash leaves the last complete step: each SQL file is
// one transaction, and Up continues after it. A file that builds indexes concurrently is no
// transaction; it may be run again from its beginning.
package migrations

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed *.sql
var files embed.FS

// FirstLater is the lowest number of a step after the first two. The numbers between were
// those of the steps that step 1 replaced: a database from that time counts them as applied.
const FirstLater = 100

// lastReplaced is the last step that step 1 replaced. A database that has it has the schema of
// step 1.
const lastReplaced = 80

// Up migrates the database behind pool to Latest. The pool's role must own the database and may
// create roles. A session lock makes a second caller wait for the first, so the pool needs at least
// three connections.
func Up(ctx context.Context, pool *pgxpool.Pool) error { return UpTo(ctx, pool, Latest()) }

// UpTo is Up to a given version: the state that an older program would have left. The service
// always migrates to the end; UpTo serves tests of the way there.
func UpTo(ctx context.Context, pool *pgxpool.Pool, version int64) error {
	// It tries once per second for ten minutes: another process may be running a long step.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 600))
	if err != nil {
		return fmt.Errorf("prepare the migration lock: %w", err)
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	if err := refuseReplaced(ctx, pool); err != nil {
		return err
	}
	provider, err := steps(db, pool, files, goose.WithSessionLocker(locker))
	if err != nil {
		return err
	}
	all, err := provider.Status(ctx)
	if err != nil {
		return fmt.Errorf("ask which steps are missing: %w", err)
	}
	for _, step := range all {
		if step.State != goose.StatePending || step.Source.Version > version {
			continue
		}
		// Each step takes a connection of the pool for itself, so that the pool can undo the
		// settings of another step.
		if _, err := provider.UpTo(ctx, step.Source.Version); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
	}
	return nil
}

// refuseReplaced refuses a database to which only a part of the steps that step 1 replaced was
// applied. Step 1 counts as applied there, and the missing steps no longer exist.
func refuseReplaced(ctx context.Context, pool *pgxpool.Pool) error {
	var exists bool
	if err := pool.QueryRow(ctx, `SELECT to_regclass('goose_db_version') IS NOT NULL`).Scan(&exists); err != nil ||
		!exists {
		return err
	}
	var last int64
	err := pool.QueryRow(ctx,
		`SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied AND version_id > $1 AND version_id < $2`,
		riverStep, FirstLater).Scan(&last)
	if err != nil {
		return fmt.Errorf("ask which steps were applied: %w", err)
	}
	if last != 0 && last != lastReplaced {
		return fmt.Errorf("the database was made by an unreleased version of the program (step %d), and this one cannot bring it further: "+
			"nothing was changed; use a new database, or the program that made this one", last)
	}
	return nil
}

func steps(db *sql.DB, pool *pgxpool.Pool, files fs.FS, options ...goose.ProviderOption) (*goose.Provider, error) {
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, append(options,
		goose.WithGoMigrations(river(pool)),
		goose.WithAllowOutofOrder(true), // the numbers of two branches may interleave
		goose.WithDisableGlobalRegistry(true))...)
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	return provider, nil
}

// Versions returns the numbers of all steps, in their order.
func Versions() []int64 {
	all := []int64{riverStep}
	for _, name := range names() {
		version, err := goose.NumericComponent(name)
		if err != nil {
			panic("migrations: file without a number: " + name)
		}
		all = append(all, version)
	}
	slices.Sort(all)
	return all
}

// Latest returns the version that Up reaches.
func Latest() int64 {
	all := Versions()
	return all[len(all)-1]
}

// Digest identifies the content of the whole history, for caches of migrated databases.
func Digest() string {
	sum := sha256.New()
	fmt.Fprintf(sum, "river %d\n", riverVersion)
	for _, name := range names() {
		content, err := files.ReadFile(name)
		if err != nil {
			panic("migrations: embedded file unreadable: " + name)
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(content), content)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

func names() []string {
	found, err := fs.Glob(files, "*.sql")
	if err != nil {
		panic("migrations: malformed pattern")
	}
	return found
}
