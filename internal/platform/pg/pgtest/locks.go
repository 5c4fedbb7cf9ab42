package pgtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
	"github.com/cofferpay/coffer/internal/platform/pg/lockorder"
)

// locks compares every transaction of a test with the order of docs/design/locks.md.
var locks = lockorder.NewTracer(lockorder.Coffer)

// catalogueReader reads once what the migrated databases lock by themselves.
var catalogueReader struct {
	read sync.Once
	err  error
}

// compareLocks makes every database that is opened from now on pass its statements to locks.
func compareLocks(ctx context.Context, cluster *local.Cluster) error {
	catalogueReader.read.Do(func() { catalogueReader.err = setCatalogue(ctx, cluster) })
	return catalogueReader.err
}

func setCatalogue(ctx context.Context, cluster *local.Cluster) (err error) {
	conn, err := pgx.Connect(ctx, cluster.SuperURL(local.Database))
	if err != nil {
		return fmt.Errorf("connect to read what the database locks: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	catalogue, err := lockorder.ReadCatalogue(ctx, conn)
	if err != nil {
		return fmt.Errorf("read what the database locks: %w", err)
	}
	locks.SetCatalogue(catalogue)
	pg.SetTracer(locks)
	return nil
}

// watchLocks fails the test at its end if a transaction in the database took locks in another
// order.
func watchLocks(t testing.TB, database string) {
	record := locks.Watch(database)
	t.Cleanup(func() {
		for _, violation := range record.Drain() {
			t.Errorf("lock order (docs/design/locks.md): %s", violation)
		}
	})
}

// ExpectLockException fails the test unless one of its transactions has needed the safe exception of
// that function. Each exception has a test that calls this, so that none stays in the list in vain.
func ExpectLockException(t testing.TB, db *pg.DB, function string) {
	t.Helper()
	if !locks.Watch(DatabaseOf(t, db).Name).HasUsed(function) {
		t.Errorf("no transaction needed the exception of %s in the lock order", function)
	}
}
