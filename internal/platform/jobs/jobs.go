// Package jobs runs background jobs that move no money, need no order and may be late: clean-up,
// periodic checks, mail, exports. It is a thin layer over River. River's table is in Coffer's
// database, so a transaction that needs a job inserts it.
//
// The package moves no money and delivers no events, and nothing here may depend for its safety on
// running once. A job may run twice, also at the same time in two processes. After a crash, a row
// remains that another process takes over once stuckAfter has passed.
package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/trace"
)

const (
	workersMax  = 4                // jobs at the same time in one process
	connsMax    = workersMax + 4   // listening, fetching, electing, maintenance
	jobTimeout  = 10 * time.Minute // longest run of one job
	stuckAfter  = 15 * time.Minute // then its process counts as dead
	stopMax     = 15 * time.Second // how long a job may run on after the order to stop
	attemptsMax = 12               // of an inserted job; with River's spacing, half a day
)

// Args are the arguments of one kind of job: a struct that marshals to JSON. Its method Kind
// returns the kind's name, which must never change.
type Args = river.JobArgs

// Runner works on jobs in this process. Register everything with Handle and HandlePeriodic, then
// call Run once.
type Runner struct {
	db       *pg.DB
	log      *slog.Logger
	workers  *river.Workers
	periodic []*river.PeriodicJob
}

// New prepares a runner.
func New(db *pg.DB, log *slog.Logger) *Runner {
	return &Runner{db: db, log: log, workers: river.NewWorkers()}
}

// Handle registers the function for a kind of job. If it returns an error, River tries the job
// again later, at growing intervals, with the arguments of the insert. Handle panics on a kind that
// is registered already.
func Handle[A Args](r *Runner, work func(context.Context, A) error) {
	river.AddWorker(r.workers, river.WorkFunc(func(ctx context.Context, job *river.Job[A]) error {
		ctx, span := trace.Start(ctx, "job "+job.Kind)
		err := work(ctx, job.Args)
		span.End(err)
		return err
	}))
}

// HandlePeriodic runs a job when the first process starts and then at each interval, in one of the
// processes. A failed run is not repeated, since the next one follows. A run returns at once if the
// previous one is still active in its process. HandlePeriodic panics on a kind that is registered
// already.
func HandlePeriodic[A Args](r *Runner, interval time.Duration, args A, work func(context.Context) error) {
	var going atomic.Bool
	Handle(r, func(ctx context.Context, _ A) error {
		if !going.CompareAndSwap(false, true) {
			return nil
		}
		defer going.Store(false)
		return work(ctx)
	})
	r.periodic = append(r.periodic, river.NewPeriodicJob(river.PeriodicInterval(interval),
		func() (river.JobArgs, *river.InsertOpts) { return args, &river.InsertOpts{MaxAttempts: 1} },
		&river.PeriodicJobOpts{ID: args.Kind(), RunOnStart: true}))
}

// Run works until ctx ends. Then it lets active jobs finish for a while, cancels the remaining ones
// and returns. It returns an error only if it could not start.
func (r *Runner) Run(ctx context.Context) error {
	pool, err := r.db.SystemPool(context.WithoutCancel(ctx), connsMax)
	if err != nil {
		return err
	}
	defer pool.Close()
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:               map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workersMax}},
		Workers:              r.workers,
		PeriodicJobs:         r.periodic,
		Logger:               slog.New(warningHandler{r.log.Handler()}),
		ErrorHandler:         jobErrorLogger{r.log},
		JobTimeout:           jobTimeout,
		RescueStuckJobsAfter: stuckAfter,
		MaxAttempts:          attemptsMax,
		SoftStopTimeout:      stopMax,
		ReindexerIndexNames:  []string{}, // Only the owner of an index may rebuild it.
	})
	if err != nil {
		return fmt.Errorf("prepare the job queue: %w", err)
	}
	if err := client.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("start the job queue: %w", err)
	}
	<-client.Stopped()
	return nil
}

// warningHandler drops entries below a warning: River logs each of its steps.
type warningHandler struct{ slog.Handler }

// Enabled lets warnings and errors through.
func (w warningHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

// WithAttrs preserves the filter.
func (w warningHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warningHandler{w.Handler.WithAttrs(attrs)}
}

// WithGroup preserves the filter.
func (w warningHandler) WithGroup(name string) slog.Handler {
	return warningHandler{w.Handler.WithGroup(name)}
}

// jobErrorLogger logs the errors of jobs; River's own log covers its internals.
type jobErrorLogger struct{ log *slog.Logger }

// HandleError logs the error. River decides about the retry.
func (c jobErrorLogger) HandleError(_ context.Context, job *rivertype.JobRow, err error) *river.ErrorHandlerResult {
	c.log.Warn(
		"job failed", "kind", job.Kind, "job", job.ID, "attempt", job.Attempt, "of", job.MaxAttempts, "error", err,
	)
	return nil
}

// HandlePanic logs the panic. River decides about the retry.
func (c jobErrorLogger) HandlePanic(
	_ context.Context, job *rivertype.JobRow, value any, trace string,
) *river.ErrorHandlerResult {
	c.log.Error("job panicked", "kind", job.Kind, "job", job.ID, "panic", value, "trace", trace)
	return nil
}

// inserter inserts rows and does nothing else: it has no pool of its own.
var inserter = sync.OnceValue(func() *river.Client[pgx.Tx] {
	client, err := river.NewClient(riverpgxv5.New(nil), &river.Config{MaxAttempts: attemptsMax})
	if err != nil {
		panic("jobs: the insert-only client is invalid: " + err.Error())
	}
	return client
})

// Insert inserts a job in the caller's transaction: the job runs if and only if that commits.
func Insert(ctx context.Context, tx pg.Tx, args Args) (err error) {
	// The table spans organizations, so only the system's role may use it. Insert restores the
	// caller's role before the transaction runs another statement.
	var role string
	if err := tx.QueryRow(
		ctx, `SELECT current_user, set_config('role', 'coffer_system', true)`,
	).Scan(&role, nil); err != nil {
		return fmt.Errorf("insert a %s job: %w", args.Kind(), err)
	}
	defer func() {
		_, restoreErr := tx.Exec(ctx, `SELECT set_config('role', $1, true)`, role)
		if err == nil && restoreErr != nil {
			err = fmt.Errorf("return to the role %s: %w", role, restoreErr)
		}
	}()
	if _, err := inserter().InsertTx(ctx, tx, args, nil); err != nil {
		return fmt.Errorf("insert a %s job: %w", args.Kind(), err)
	}
	return nil
}
