// Package pg gives access to PostgreSQL:
//   - a pool
//   - transactions that act for one organization or for the system
//   - row level security by role
//   - migrations
//   - advisory locks that end with their connection
//
// It never runs a statement outside a role (the login role may do nothing by itself), never repeats
// a COMMIT, and never starts on a server that forgets what it has acknowledged. A crash leaves
// exactly what was committed. A caller that gets ErrCommitUnknown does not know whether its
// transaction is, and must look.
package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cofferpay/coffer/migrations"
)

// The three roles as which a transaction may act. The first migration creates them.
const (
	roleApp    = "coffer_app"
	roleSystem = "coffer_system"
	roleReader = "coffer_reader"
)

const versionMin = 15

// Config names the database and limits its use. A zero value means the default named at the field.
type Config struct {
	// URL is a postgres:// URL of the login role, which is a NOINHERIT member of the
	// three roles and owns nothing.
	URL string
	// ReadURL is a postgres:// URL of the same role and database on a streaming replica; "" for none. WatchReplica
	// decides whether it is asked.
	ReadURL string
	// OwnerURL is a postgres:// URL of the owner of the database. Only Migrate uses it.
	OwnerURL string

	MaxConns         int           // connections in the pool; 16
	StatementTimeout time.Duration // longest statement; 30 s
	SnapshotTimeout  time.Duration // longest statement in Snapshot; 15 min
	LockTimeout      time.Duration // longest wait for a row or table; 10 s
	IdleTxTimeout    time.Duration // longest pause inside a transaction; 60 s

	// Tracer observes queries; nil means the one of SetTracer.
	Tracer pgx.QueryTracer
}

// tracer observes the queries of a Config without a Tracer.
var tracer atomic.Pointer[pgx.QueryTracer]

// SetTracer sets what observes the queries of every database that is opened afterwards, for tests:
// package pgtest compares the order of locks. A service has none.
func SetTracer(t pgx.QueryTracer) { tracer.Store(&t) }

func (c Config) withDefaults() Config {
	fill := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if c.MaxConns == 0 {
		c.MaxConns = 16
	}
	if t := tracer.Load(); t != nil && c.Tracer == nil {
		c.Tracer = *t
	}
	fill(&c.StatementTimeout, 30*time.Second)
	fill(&c.SnapshotTimeout, 15*time.Minute)
	fill(&c.LockTimeout, 10*time.Second)
	fill(&c.IdleTxTimeout, 60*time.Second)
	return c
}

// DB is one database. It is safe for concurrent use.
type DB struct {
	pool  *pgxpool.Pool
	conf  Config
	clock func() time.Time

	shares  callerShares
	replica *replica // nil without one

	deadlocks      atomic.Int64
	serializations atomic.Int64
	commitsUnknown atomic.Int64
}

// Counts holds totals since Open.
type Counts struct {
	Deadlocks      int64 // transactions re-run after 40P01; each one is a bug in a lock order
	Serializations int64 // transactions re-run after 40001
	CommitsUnknown int64 // commits whose outcome the caller had to look up
}

// Open connects as the login role. It refuses a database on which the program could not keep its
// promises:
//   - a server that is too old or not durable
//   - a proxy that pools transactions
//   - a login role with too many privileges
//   - a schema behind the program
//
// The clock gives Tx.Now; it is asked once per transaction.
func Open(ctx context.Context, conf Config, clock func() time.Time) (*DB, error) {
	conf = conf.withDefaults()
	db := &DB{conf: conf, clock: clock}
	poolConf, err := db.poolConfig(conf.URL, conf.MaxConns)
	if err != nil {
		return nil, err
	}

	if db.pool, err = pgxpool.NewWithConfig(ctx, poolConf); err != nil {
		return nil, fmt.Errorf("open the pool: %w", err)
	}
	if err := db.checkDatabase(ctx); err != nil {
		db.pool.Close()
		return nil, err
	}
	if conf.ReadURL != "" {
		if err := db.openReplica(ctx); err != nil {
			db.pool.Close()
			return nil, err
		}
	}
	return db, nil
}

// checkDatabase runs the checks of Open.
func (db *DB) checkDatabase(ctx context.Context) error {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer conn.Release()
	if err := checkServer(ctx, conn.Conn()); err != nil {
		return err
	}
	if err := checkLogin(ctx, conn.Conn()); err != nil {
		return err
	}
	return checkSchema(ctx, conn.Conn())
}

// Close waits for running transactions and closes every connection of the pools.
func (db *DB) Close() {
	if db.replica != nil {
		db.replica.pool.Close()
	}
	db.pool.Close()
}

// Clock returns the clock that Open was given.
func (db *DB) Clock() func() time.Time { return db.clock }

// Ping proves that the pool has a connection and that the server answers.
func (db *DB) Ping(ctx context.Context) error { return db.pool.Ping(ctx) }

// Counts returns the counters.
func (db *DB) Counts() Counts {
	return Counts{
		Deadlocks:      db.deadlocks.Load(),
		Serializations: db.serializations.Load(),
		CommitsUnknown: db.commitsUnknown.Load(),
	}
}

// PoolStat returns the state of the connection pool.
func (db *DB) PoolStat() *pgxpool.Stat { return db.pool.Stat() }

// SystemPool opens another pool whose connections all act as coffer_system, for a library that
// wants a pool of its own. The caller closes it.
func (db *DB) SystemPool(ctx context.Context, maxConns int) (*pgxpool.Pool, error) {
	poolConf, err := db.poolConfig(db.conf.URL, maxConns)
	if err != nil {
		return nil, err
	}
	poolConf.ConnConfig.RuntimeParams["role"] = roleSystem
	if t := tracer.Load(); t != nil && db.conf.Tracer == *t {
		poolConf.ConnConfig.Tracer = nil // the library has locks of its own
	}
	pool, err := pgxpool.NewWithConfig(ctx, poolConf)
	if err != nil {
		return nil, fmt.Errorf("open the system pool: %w", err)
	}
	return pool, nil
}

func (db *DB) poolConfig(url string, maxConns int) (*pgxpool.Config, error) {
	if url == "" {
		return nil, errors.New("the database URL is empty: give a postgres:// URL of the login role")
	}
	conf, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the database URL: %w", err)
	}
	conf.MaxConns = int32(maxConns)
	conf.ConnConfig.Tracer = db.conf.Tracer
	params := conf.ConnConfig.RuntimeParams
	params["timezone"] = "UTC"
	params["statement_timeout"] = formatMilliseconds(db.conf.StatementTimeout)
	params["lock_timeout"] = formatMilliseconds(db.conf.LockTimeout)
	params["idle_in_transaction_session_timeout"] = formatMilliseconds(db.conf.IdleTxTimeout)
	// With few statistics, and through the policies of row level security, the planner
	// overestimates the cost of short statements and has them compiled. That takes tens to hundreds
	// of milliseconds of a processor, in every connection, for a statement that takes one. The same
	// happens where a plan may not scan a table and has no index to use instead.
	params["jit"] = "off"
	if params["application_name"] == "" {
		params["application_name"] = "coffer"
	}
	conf.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		useUTC(conn)
		return nil
	}
	return conf, nil
}

func formatMilliseconds(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

var errNotMigrated = errors.New("the database is not migrated: run the migrations with the owner's URL first")

func checkServer(ctx context.Context, conn *pgx.Conn) error {
	// A pooling proxy answers with a process id of its own invention. Session locks and the
	// timeouts set at connect would belong to the next client of the connection.
	var pid uint32
	if err := conn.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		return fmt.Errorf("read the backend's process id: %w", err)
	}
	if pid != conn.PgConn().PID() {
		return errors.New("the database URL leads through a connection pooler: " +
			"session locks need a direct connection, so give the address of PostgreSQL itself")
	}

	var version int
	if err := conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int`).Scan(&version); err != nil {
		return fmt.Errorf("read the server's version: %w", err)
	}
	if version/10000 < versionMin {
		return fmt.Errorf("PostgreSQL %d is too old: version %d or later is needed", version/10000, versionMin)
	}

	for _, setting := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		var value string
		if err := conn.QueryRow(ctx, `SELECT current_setting($1)`, setting).Scan(&value); err != nil {
			return fmt.Errorf("read the setting %s: %w", setting, err)
		}
		if value == "off" {
			return fmt.Errorf("the server has %s = off and can lose money that it has acknowledged: set %s = on "+
				"(postgresql.conf, ALTER SYSTEM, ALTER DATABASE or ALTER ROLE) and reload", setting,
				setting)
		}
	}
	return nil
}

// checkLogin refuses a login role that bypasses row level security, and one that cannot take the
// roles of a transaction.
func checkLogin(ctx context.Context, conn *pgx.Conn) error {
	var login string
	var bypasses bool
	err := conn.QueryRow(ctx, `
		SELECT rolname, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = session_user`).Scan(&login, &bypasses)
	if err != nil {
		return fmt.Errorf("read the login role: %w", err)
	}
	if bypasses {
		return fmt.Errorf("the role %s of the database URL bypasses row level security: "+
			"use a plain login role (CREATE ROLE coffer LOGIN NOINHERIT PASSWORD '...')", login)
	}
	// Since version 16 a membership may allow granting a role without allowing to take it.
	rows, err := conn.Query(ctx, `
		SELECT rolname,
			pg_has_role(session_user, oid, CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET' END),
			pg_has_role(session_user, oid, 'USAGE')
		FROM pg_roles WHERE rolname = ANY ($1)`, []string{roleApp, roleSystem, roleReader})
	if err != nil {
		return fmt.Errorf("read the memberships of %s: %w", login, err)
	}
	var name string
	var member, inherits bool
	found := 0
	_, err = pgx.ForEachRow(rows, []any{&name, &member, &inherits}, func() error {
		found++
		switch {
		case !member:
			return fmt.Errorf(
				"the role %s of the database URL is not a member of %s: run the migrations, or GRANT %s TO %s",
				login, name, name, login,
			)
		case inherits:
			return fmt.Errorf("the role %s of the database URL inherits %s and would act without choosing a role: "+
				"use a role of its own that is NOINHERIT and not the owner", login, name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if found < 3 {
		return errNotMigrated
	}
	return nil
}

// checkSchema refuses a schema older than this program. It accepts a newer one, as a rolling
// upgrade has it.
func checkSchema(ctx context.Context, conn *pgx.Conn) error {
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{BeginQuery: "begin read only; set local role " + roleReader},
		func(tx pgx.Tx) error {
			// It checks each step by itself. The numbers of two branches may cross, and then the
			// highest number does not prove that a step with a lower number, which came later, was
			// applied.
			var missing []int64
			err := tx.QueryRow(ctx, `
			SELECT coalesce(array_agg(n ORDER BY n), '{}') FROM unnest($1::bigint[]) AS n
			WHERE NOT EXISTS (SELECT FROM goose_db_version WHERE version_id = n AND is_applied)`, migrations.Versions()).Scan(&missing)
			if refused, ok := errors.AsType[*pgconn.PgError](err); ok &&
				(refused.Code == "42P01" || refused.Code == "42501") {
				return errNotMigrated // The table is missing or not yet granted.
			}
			if err != nil {
				return fmt.Errorf("read the schema's version: %w", err)
			}
			if len(missing) > 0 {
				return fmt.Errorf("the schema lacks steps that this program needs (%v): run the migrations", missing)
			}
			return nil
		})
}

// useUTC makes the driver return times in UTC, independent of the machine's time zone.
func useUTC(conn *pgx.Conn) {
	times := &pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	}
	conn.TypeMap().RegisterType(times)
	conn.TypeMap().RegisterType(&pgtype.Type{
		Name: "_timestamptz", OID: pgtype.TimestamptzArrayOID, Codec: &pgtype.ArrayCodec{ElementType: times},
	})
}

// isOrgID reports whether an organization's id is harmless inside the statement that opens a
// transaction. That statement is sent as text to save a round trip. Coffer makes the ids and they
// look like this; any other text is a mistake of the caller.
func isOrgID(org string) bool {
	if org == "" || len(org) > 64 {
		return false
	}
	return strings.IndexFunc(org, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	}) < 0
}
