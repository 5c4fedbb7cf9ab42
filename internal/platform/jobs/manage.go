package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/rivertype"

	"github.com/cofferpay/coffer/internal/platform/pg"
)

// State is the state of a job.
type State string

// The states of jobs, as River names them.
const (
	Available State = "available"
	Cancelled State = "cancelled"
	Completed State = "completed"
	Discarded State = "discarded" // it failed too often and is not repeated
	Pending   State = "pending"
	Retryable State = "retryable" // it failed and is repeated later
	Running   State = "running"
	Scheduled State = "scheduled"
)

// States are all states, those first that a person has to look at.
var States = []State{Discarded, Retryable, Running, Available, Scheduled, Pending, Cancelled, Completed}

// CanRetry reports whether a job that ended can be made due again.
func (s State) CanRetry() bool {
	return s == Discarded || s == Cancelled || s == Retryable || s == Scheduled
}

// CanCancel reports whether a job has not ended.
func (s State) CanCancel() bool {
	return slices.Contains([]State{Available, Pending, Retryable, Running, Scheduled}, s)
}

// Job is a job as an operator sees it. Its arguments are not shown, because they may name people.
type Job struct {
	ID          int64
	Kind        string
	State       State
	Attempt     int
	AttemptsMax int
	LastError   string // "" while none failed
	CreatedAt   time.Time
	ScheduledAt time.Time
	FinalizedAt *time.Time // nil while it has not ended
}

const selectJobs = `
	SELECT id, kind, state::text, attempt, max_attempts,
		coalesce(errors[array_upper(errors, 1)]->>'error', ''), created_at, scheduled_at, finalized_at
	FROM river_job`

// ErrUnknownJob says that there is no such job: it is pruned some time after its end.
var ErrUnknownJob = errors.New("there is no such job")

// List returns at most limit jobs with a state, or with any, before a job, the newest first. beforeID 0
// means from the newest on. It needs a transaction of the system. Rule PAGE-73.
func List(ctx context.Context, tx pg.Tx, state State, beforeID int64, limit int) ([]Job, error) {
	condition := ` WHERE $1 = ''`
	if state != "" {
		condition = ` WHERE state = $1::river_job_state` // of a type that the indexes have
	}
	rows, err := tx.Query(ctx, selectJobs+condition+` AND ($2 = 0 OR id < $2) ORDER BY id DESC LIMIT $3`,
		pg.Planned(true, []any{string(state), beforeID, limit})...)
	if err != nil {
		return nil, fmt.Errorf("list the jobs: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Job])
	if err != nil {
		return nil, fmt.Errorf("list the jobs: %w", err)
	}
	return found, nil
}

// CountMax is the number of jobs of a state beyond which CountByState does not count.
const CountMax = 10_000

// CountByState returns how many jobs have each state, at most CountMax. It needs a transaction of the
// system.
func CountByState(ctx context.Context, tx pg.Tx) (map[State]int, error) {
	var parts []string
	for _, state := range States {
		// A literal has PostgreSQL plan each count for its state: few rows are found by the index.
		parts = append(parts, fmt.Sprintf(`SELECT '%[1]s', count(*) FROM (
			SELECT FROM river_job WHERE state = '%[1]s' LIMIT %[2]d) counted`, state, CountMax))
	}
	rows, err := tx.Query(ctx, strings.Join(parts, ` UNION ALL `))
	if err != nil {
		return nil, fmt.Errorf("count the jobs: %w", err)
	}
	counts := map[State]int{}
	var state State
	var count int
	_, err = pgx.ForEachRow(rows, []any{&state, &count}, func() error {
		counts[state] = count
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count the jobs: %w", err)
	}
	return counts, nil
}

// LastCompleted returns when the newest completed job of a kind ended; nil: none is known. It needs a
// transaction of the system.
func LastCompleted(ctx context.Context, tx pg.Tx, kind string) (endedAt *time.Time, err error) {
	err = tx.QueryRow(ctx, `SELECT max(finalized_at) FROM river_job WHERE kind = $1 AND state = 'completed'`, kind).
		Scan(&endedAt)
	if err != nil {
		return nil, fmt.Errorf("look for the last job %s: %w", kind, err)
	}
	return endedAt, nil
}

// ByID reads a job, in a transaction of the system. Error: ErrUnknownJob.
func ByID(ctx context.Context, tx pg.Tx, jobID int64) (Job, error) {
	rows, err := tx.Query(ctx, selectJobs+` WHERE id = $1`, jobID)
	if err != nil {
		return Job{}, fmt.Errorf("read job %d: %w", jobID, err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Job])
	if errors.Is(err, pgx.ErrNoRows) {
		return Job{}, ErrUnknownJob
	}
	if err != nil {
		return Job{}, fmt.Errorf("read job %d: %w", jobID, err)
	}
	return found, nil
}

// Retry makes a job due at once, in a transaction of the system. A running job is not changed. Error:
// ErrUnknownJob.
func Retry(ctx context.Context, tx pg.Tx, jobID int64) error {
	_, err := inserter().JobRetryTx(ctx, tx, jobID)
	return describeJobError(err, "retry", jobID)
}

// Cancel cancels a job, in a transaction of the system. A running one is asked to stop and is cancelled if
// it fails. A job that ended is not changed. Error: ErrUnknownJob.
func Cancel(ctx context.Context, tx pg.Tx, jobID int64) error {
	_, err := inserter().JobCancelTx(ctx, tx, jobID)
	return describeJobError(err, "cancel", jobID)
}

func describeJobError(err error, verb string, jobID int64) error {
	switch {
	case errors.Is(err, rivertype.ErrNotFound):
		return ErrUnknownJob
	case err != nil:
		return fmt.Errorf("%s job %d: %w", verb, jobID, err)
	}
	return nil
}
