package migrations

import (
	"database/sql"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3"
)

// Steps are the single steps, for tests that run one again.
func Steps(db *sql.DB, pool *pgxpool.Pool) (*goose.Provider, error) { return steps(db, pool, files) }

// StepsOf returns the steps of other files.
var StepsOf = steps

// Files are the embedded migrations.
var Files = files
