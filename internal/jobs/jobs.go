// Package jobs does the chores: what is neither money nor ordered, and may be late.
// Clean-up, periodic checks, mail, exports. It is a thin cover of River, whose table
// lies in our database, so that a chore is written down in the transaction that wants
// it done.
//
// What never happens here: the movement of money, the delivery of events, anything
// whose safety rests on running once. A chore may run twice, and at the same time in
// two processes. What a crash leaves: a row that another process takes up once
// stuckAfter has passed.
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

	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/trace"
)

const (
	workersMax  = 4                // chores at once in one process
	connsMax    = workersMax + 4   // listening, fetching, electing, keeping house
	jobTimeout  = 10 * time.Minute // longest run of one chore
	stuckAfter  = 15 * time.Minute // then its process is taken for dead
	stopMax     = 15 * time.Second // how long a chore may go on after the order to stop
	attemptsMax = 12               // of an inserted chore; with River's spacing, half a day
)

// Args are the arguments of one kind of chore: a struct that marshals to JSON, with a
// method Kind that names it for ever.
type Args = river.JobArgs

// Runner works on chores in this process. Register everything with Handle and Every,
// then Run once.
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

// Handle says how a kind of chore is done. An error makes River try again later, at
// growing intervals; the arguments are those of the insert. It panics on a kind that is
// handled already.
func Handle[A Args](r *Runner, work func(context.Context, A) error) {
	river.AddWorker(r.workers, river.WorkFunc(func(ctx context.Context, job *river.Job[A]) error {
		ctx, span := trace.Start(ctx, "job "+job.Kind)
		err := work(ctx, job.Args)
		span.End(err)
		return err
	}))
}

// HandlePeriodic does a chore at the start of the first process and then at each interval, in
// one of the processes. A run that failed is not repeated: the next one is coming. A
// run that finds the former still going in its process leaves at once. It panics on a
// kind that is handled already.
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

// Run works until ctx ends, then lets running chores finish for a while, cancels the
// rest and returns. The error is nil unless it could not start.
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

// warningHandler drops what is below a warning: River tells of its every step.
type warningHandler struct{ slog.Handler }

// Enabled lets warnings and errors through.
func (w warningHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

// WithAttrs keeps the filter.
func (w warningHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warningHandler{w.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the filter.
func (w warningHandler) WithGroup(name string) slog.Handler {
	return warningHandler{w.Handler.WithGroup(name)}
}

// jobErrorLogger logs what went wrong in a chore; River's own log is for its inner life.
type jobErrorLogger struct{ log *slog.Logger }

// HandleError logs, and lets River decide.
func (c jobErrorLogger) HandleError(_ context.Context, job *rivertype.JobRow, err error) *river.ErrorHandlerResult {
	c.log.Warn(
		"chore failed", "kind", job.Kind, "job", job.ID, "attempt", job.Attempt, "of", job.MaxAttempts, "error", err,
	)
	return nil
}

// HandlePanic logs, and lets River decide.
func (c jobErrorLogger) HandlePanic(
	_ context.Context, job *rivertype.JobRow, value any, trace string,
) *river.ErrorHandlerResult {
	c.log.Error("chore panicked", "kind", job.Kind, "job", job.ID, "panic", value, "trace", trace)
	return nil
}

// inserter writes rows and does nothing else: it has no pool of its own.
var inserter = sync.OnceValue(func() *river.Client[pgx.Tx] {
	client, err := river.NewClient(riverpgxv5.New(nil), &river.Config{MaxAttempts: attemptsMax})
	if err != nil {
		panic("jobs: a client that only inserts is refused: " + err.Error())
	}
	return client
})

// Insert writes a chore down in the caller's transaction: it will be done if that
// commits, and not otherwise.
func Insert(ctx context.Context, tx pg.Tx, args Args) (err error) {
	// The table spans organizations, so it belongs to the system's role alone. The
	// caller's role comes back before anything else is said in its transaction.
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
