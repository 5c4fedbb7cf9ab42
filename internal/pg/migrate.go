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
	// migrateLockMax is how long a step waits for a table. Whoever asks for the table
	// meanwhile waits behind it, so it is well below what a statement of the service
	// waits for a lock: a step that has to wait costs requests some seconds, never an
	// error.
	migrateLockMax = 3 * time.Second
	// migratePause is between a step that gave up waiting and its next try, in which
	// everybody else goes on.
	migratePause = 2 * time.Second
	// migrateWaitMax is how long a table may stay out of reach before the whole
	// migration is given up, to be run again.
	migrateWaitMax = 10 * time.Minute
)

// Migrate brings the schema to what this program needs, as the owner (conf.OwnerURL),
// and makes the login role of conf.URL a member of the three roles. It may run beside
// services and in several processes at once, and may be cut off anywhere; the next run
// continues.
func Migrate(ctx context.Context, conf Config) error {
	return MigrateTo(ctx, conf, migrations.Latest())
}

// MigrateTo is Migrate as far as a version, for looking at an upgrade.
func MigrateTo(ctx context.Context, conf Config, version int64) error {
	if conf.OwnerURL == "" {
		return errors.New("the owner's database URL is empty: migrations need a postgres:// URL of the owner of the database")
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

// ownerPool is what steps run on.
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

// resetLockTimeout gives every step the patience that a migration has, whatever the one before
// set for itself: a step that ends early leaves its settings with the connection, and a
// later one would hold up the whole house with them.
func resetLockTimeout(ctx context.Context, conn *pgx.Conn) (bool, error) {
	_, err := conn.Exec(ctx, "RESET lock_timeout")
	return err == nil, nil // a connection that cannot do that is replaced
}

// retryLocked runs steps again that could not get at a table in time. Each is a
// transaction, or says of itself that it may be run again.
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

// forbidTemporary takes away the right to make temporary tables, which nothing here needs
// and which PostgreSQL gives to everybody: such a table is found before one of ours by
// every function and query that names no schema. The right belongs to the database and is
// in no dump of it, so each migration takes it away again. An owner of the tables alone
// cannot; the functions of the schema say for themselves where they look.
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
			return fmt.Errorf("ask who may make temporary tables: %w", err)
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
			return fmt.Errorf("take the right to temporary tables away: %w", err)
		}
		// Another migration of this database did the same at this moment.
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
			return fmt.Errorf("ask for the memberships of %s: %w", login, err)
		}
		name := pgx.Identifier{login}.Sanitize()
		if !exists {
			return fmt.Errorf("the role %s of the database URL does not exist: CREATE ROLE %s LOGIN NOINHERIT PASSWORD '...'", login, name)
		}
		if !missing {
			return nil
		}
		grant := "GRANT " + roleApp + ", " + roleSystem + ", " + roleReader + " TO " + name
		if version >= 160000 {
			// Since 16 the grant, not the member, says whether privileges are inherited.
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
