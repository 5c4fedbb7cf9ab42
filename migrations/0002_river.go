package migrations

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverStep is the only step without a file.
const riverStep = 2

// riverVersion is the version of River's own schema after step 2. It is a constant so that an
// upgrade of the library cannot change what an old step does: a newer schema is a newer step.
const riverVersion = 8

// river is step 2.
//
// Why: the tables of the job queue belong to the same linear history as Coffer's, so that one
// number identifies the state of a database. The step runs outside goose's transaction, because
// River adds a value to an enum and uses it in a later version. PostgreSQL before 17 refuses that
// within one transaction. The step may be interrupted anywhere: River records each of its versions
// in the transaction that makes it, and continues there.
func river(pool *pgxpool.Pool) *goose.Migration {
	return goose.NewGoMigration(riverStep, &goose.GoFunc{RunDB: func(ctx context.Context, _ *sql.DB) error {
		migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
		if err != nil {
			return fmt.Errorf("prepare river's migrations: %w", err)
		}
		if _, err := migrator.Migrate(
			ctx, rivermigrate.DirectionUp, &rivermigrate.MigrateOpts{TargetVersion: riverVersion},
		); err != nil {
			return fmt.Errorf("migrate river to version %d: %w", riverVersion, err)
		}
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			// Only the system role uses jobs: their arguments span organizations.
			_, err := tx.Exec(ctx, `
				GRANT SELECT, INSERT, UPDATE, DELETE ON river_job, river_leader, river_queue, river_notification TO coffer_system;
				GRANT SELECT ON river_migration TO coffer_system;
				GRANT USAGE ON SEQUENCE river_job_id_seq, river_notification_id_seq TO coffer_system;
				GRANT SELECT ON river_job, river_leader, river_queue TO coffer_reader;`)
			return err
		})
	}}, nil)
}
