package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cofferpay/coffer/migrations"
)

const (
	// migrateLockMax is how long a step waits for a table. Other transactions that want the table
	// wait behind the step. The limit is therefore well below the lock timeout of the service's
	// statements: a waiting step delays requests by some seconds and never makes them fail.
	migrateLockMax = 3 * time.Second
	// migratePause is the pause between a step that gave up waiting and its next try. Other
	// transactions proceed in it.
	migratePause = 2 * time.Second
	// migrateWaitMax is how long a table may stay locked before the whole migration gives up, to be
	// run again.
	migrateWaitMax = 10 * time.Minute
)

// Migrate brings the schema to the version that this program needs, as the owner (conf.OwnerURL).
// It makes the login role of conf.URL a member of the three roles. It may run while services run
// and in several processes at once. It may be cut off anywhere; the next run continues.
func Migrate(ctx context.Context, conf Config) error {
	return MigrateTo(ctx, conf, migrations.Latest())
}

// MigrateTo migrates to the given version, for tests of an upgrade.
func MigrateTo(ctx context.Context, conf Config, version int64) error {
	if conf.OwnerURL == "" {
		return errors.New(
			"the owner's database URL is empty: migrations need a postgres:// URL of the owner of the database",
		)
	}
	login, err := pgx.ParseConfig(conf.URL)
	if err != nil {
		return fmt.Errorf("read the database URL: %w", err)
	}
	pool, err := ownerPool(ctx, conf)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := retryLocked(ctx, func() error { return migrations.UpTo(ctx, pool, version) }); err != nil {
		return err
	}
	if err := grantRoles(ctx, pool, login.User); err != nil {
		return err
	}
	return forbidTemporary(ctx, pool, login.User)
}

// ownerPool opens the pool on which the steps run.
func ownerPool(ctx context.Context, conf Config) (*pgxpool.Pool, error) {
	poolConf, err := pgxpool.ParseConfig(conf.OwnerURL)
	if err != nil {
		return nil, fmt.Errorf("read the owner's database URL: %w", err)
	}
	// The session lock, goose, and River's step hold one connection each.
	poolConf.MaxConns = 4
	poolConf.ConnConfig.RuntimeParams["application_name"] = "coffer migrate"
	poolConf.ConnConfig.RuntimeParams["lock_timeout"] = formatMilliseconds(migrateLockMax)
	poolConf.PrepareConn = resetLockTimeout
	pool, err := pgxpool.NewWithConfig(ctx, poolConf)
	if err != nil {
		return nil, fmt.Errorf("open the owner's pool: %w", err)
	}
	return pool, nil
}

// resetLockTimeout gives every step the lock timeout of a migration, even if the step before set
// another. A step that ends early leaves its settings on the connection, and a later step would
// block the whole service with them.
func resetLockTimeout(ctx context.Context, conn *pgx.Conn) (bool, error) {
	_, err := conn.Exec(ctx, "RESET lock_timeout")
	return err == nil, nil // a connection that cannot do that is replaced
}

// retryLocked repeats a step that could not lock a table in time. Each step is a transaction, or
// declares itself that it may be run again.
func retryLocked(ctx context.Context, step func() error) error {
	deadline := time.Now().Add(migrateWaitMax)
	for {
		err := step()
		busy, refused := errors.AsType[*pgconn.PgError](err)
		if !refused || busy.Code != "55P03" && busy.Code != "40P01" || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(migratePause):
		}
	}
}

// forbidTemporary revokes the right to create temporary tables. Coffer needs none, and PostgreSQL
// gives the right to every role. A function or query that names no schema finds a temporary table
// before one of Coffer's. The right belongs to the database and is in no dump of it, so each
// migration revokes it again. The owner of the tables alone cannot revoke it; the functions of the
// schema therefore set their own search path.
func forbidTemporary(ctx context.Context, pool *pgxpool.Pool, login string) error {
	const tries = 5
	roles := []string{"public", roleApp, roleSystem, roleReader, login}
	for try := 1; ; try++ {
		var database string
		var mayCreate, owns bool
		err := pool.QueryRow(ctx, `
			SELECT datname, pg_has_role(datdba, 'USAGE'),
				EXISTS (SELECT FROM unnest($1::text[]) AS role (name) WHERE has_database_privilege(role.name, d.oid, 'TEMPORARY'))
			FROM pg_database d WHERE datname = current_database()`, roles).Scan(&database, &owns, &mayCreate)
		if err != nil {
			return fmt.Errorf("read who may create temporary tables: %w", err)
		}
		if !mayCreate || !owns {
			return nil
		}
		grantees := "PUBLIC"
		for _, role := range roles[1:] {
			grantees += ", " + pgx.Identifier{role}.Sanitize()
		}
		_, err = pool.Exec(ctx, "REVOKE TEMPORARY ON DATABASE "+pgx.Identifier{database}.Sanitize()+" FROM "+grantees)
		if err == nil {
			return nil
		}
		if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "XX000" || try == tries {
			return fmt.Errorf("revoke the right to create temporary tables: %w", err)
		}
		// Another migration of this database revoked it at the same moment.
	}
}

// grantRoles makes login a member of the roles without inheriting from them.
func grantRoles(ctx context.Context, pool *pgxpool.Pool, login string) error {
	const tries = 5
	for try := 1; ; try++ {
		var version int
		var exists, missing bool
		err := pool.QueryRow(ctx, `
			SELECT current_setting('server_version_num')::int,
				EXISTS (SELECT FROM pg_roles WHERE rolname = $1),
				EXISTS (
					SELECT FROM pg_roles AS r
					WHERE r.rolname = ANY ($2) AND NOT EXISTS (
						SELECT FROM pg_auth_members AS m JOIN pg_roles AS l ON l.oid = m.member
						WHERE m.roleid = r.oid AND l.rolname = $1))`,
			login, []string{roleApp, roleSystem, roleReader}).Scan(&version, &exists, &missing)
		if err != nil {
			return fmt.Errorf("read the memberships of %s: %w", login, err)
		}
		name := pgx.Identifier{login}.Sanitize()
		if !exists {
			return fmt.Errorf(
				"the role %s of the database URL does not exist: CREATE ROLE %s LOGIN NOINHERIT PASSWORD '...'",
				login, name,
			)
		}
		if !missing {
			return nil
		}
		grant := "GRANT " + roleApp + ", " + roleSystem + ", " + roleReader + " TO " + name
		if version >= 160000 {
			// Since version 16 the grant, not the member, decides whether privileges are inherited.
			grant += " WITH INHERIT FALSE, SET TRUE"
		}
		_, err = pool.Exec(ctx, grant)
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && try < tries &&
			(refused.Code == "XX000" || refused.Code == "23505") {
			continue // Another database of the cluster granted the same at this moment.
		}
		if err != nil {
			return fmt.Errorf("grant the roles to %s: %w", login, err)
		}
		return nil
	}
}
