package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cofferpay/coffer/migrations"
)

// Migrate brings the schema to what this program needs, as the owner (conf.OwnerURL),
// and makes the login role of conf.URL a member of the three roles. It may run in
// several processes at once and may be cut off anywhere; the next run continues.
func Migrate(ctx context.Context, conf Config) error {
	if conf.OwnerURL == "" {
		return errors.New("the owner's database URL is empty: migrations need a postgres:// URL of the owner of the database")
	}
	login, err := pgx.ParseConfig(conf.URL)
	if err != nil {
		return fmt.Errorf("read the database URL: %w", err)
	}
	poolConf, err := pgxpool.ParseConfig(conf.OwnerURL)
	if err != nil {
		return fmt.Errorf("read the owner's database URL: %w", err)
	}
	// The session lock, goose, and River's step hold one connection each.
	poolConf.MaxConns = 4
	poolConf.ConnConfig.RuntimeParams["application_name"] = "coffer migrate"
	// A step that waits for a table behind a long read would make every later reader
	// of that table wait as well; better to give up and be run again.
	poolConf.ConnConfig.RuntimeParams["lock_timeout"] = "30s"
	pool, err := pgxpool.NewWithConfig(ctx, poolConf)
	if err != nil {
		return fmt.Errorf("open the owner's pool: %w", err)
	}
	defer pool.Close()
	if err := migrations.Up(ctx, pool); err != nil {
		return err
	}
	return admit(ctx, pool, login.User)
}

// admit makes login a member of the roles without inheriting from them.
func admit(ctx context.Context, pool *pgxpool.Pool, login string) error {
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
