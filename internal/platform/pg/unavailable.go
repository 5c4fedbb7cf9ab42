package pg

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// UnavailableError says that the database refused its work for a reason that passes: no connection
// was free, the disk is full, or the server takes no writes. The transaction did not commit.
type UnavailableError struct {
	Reason string // for a caller: the end of a sentence that begins with "The database"
	err    error
}

// Error returns the text of the wrapped error.
func (e *UnavailableError) Error() string { return e.err.Error() }

// Unwrap returns the wrapped error.
func (e *UnavailableError) Unwrap() error { return e.err }

// withReason wraps an error of a transaction in an UnavailableError if its reason passes. It leaves
// ErrCommitUnknown as it is.
func withReason(err error, writes bool) error {
	if err == nil || errors.Is(err, ErrCommitUnknown) {
		return err
	}
	if text := transientReason(err, writes); text != "" {
		return &UnavailableError{Reason: text, err: err}
	}
	return err
}

// reasons lists the reasons that pass, by SQLSTATE or by its class.
// https://www.postgresql.org/docs/current/errcodes-appendix.html
var reasons = map[string]string{
	"53100": "has no space left on its disk",
	"53200": "is out of memory",
	"53300": "accepts no more connections",
	"53":    "lacks a resource",
	"25006": "accepts no writes now",
	"0A000": "accepts no writes now", // a standby's answer to BEGIN READ WRITE
	"40001": "had too many conflicting transactions",
	"40P01": "had too many conflicting transactions",
	"55P03": "had a conflicting transaction for too long",
	"57014": "took too long to answer",
	"25P03": "took too long to answer",
	"57P":   "is stopping or starting",
	"58030": "cannot read or write its disk",
}

func transientReason(err error, writes bool) string {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && len(refused.Code) == 5 {
		if (refused.Code == "25006" || refused.Code == "0A000") && !writes {
			return "" // A mistake of the program: it writes where it only reads.
		}
		for _, prefix := range []int{5, 3, 2} {
			if text := reasons[refused.Code[:prefix]]; text != "" {
				return text
			}
		}
		return ""
	}
	if _, unconnected := errors.AsType[*pgconn.ConnectError](err); unconnected {
		return "cannot be reached"
	}
	if errors.Is(err, errNoConnection) {
		return "had no free connection in time"
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "took too long to answer"
	}
	return ""
}

// errNoConnection marks an error of the pool if the caller's time ended before it had a working
// connection.
var errNoConnection = errors.New("no connection in time")

// markNoConnection marks err with errNoConnection if the caller's time ended.
func markNoConnection(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return errors.Join(errNoConnection, err)
}

// spilledRows is more than a function's rows may hold in the smallest work_mem, so that they need
// space on the disk.
const spilledRows = 10_000

// CheckWrites proves that the database takes writes. It runs a transaction that writes to the log,
// which COMMIT flushes to the disk and to the standbys that it waits for, and rows that need
// temporary disk space. It leaves no row and waits for none.
//
// A statement that changes a row would prove less: a full disk accepts it as long as a page and the
// log have room.
func (db *DB) CheckWrites(ctx context.Context) error {
	return db.InSystem(ctx, func(ctx context.Context, tx Tx) error {
		b := &pgx.Batch{}
		b.Queue(`SELECT set_config('work_mem', '64kB', true)`)
		b.Queue(`SELECT count(*) FROM generate_series(1, $1::int)`, spilledRows)
		b.Queue(`SELECT pg_logical_emit_message(true, 'coffer', 'are writes taken')`)
		return tx.SendBatch(ctx, b).Close()
	})
}

// checkWritesMax is how long CheckWrites may take in WritableCheck.
const checkWritesMax = 3 * time.Second

// WritableCheck returns a function that runs CheckWrites at most once per interval. Concurrent
// callers share one check. It is safe for concurrent use.
func (db *DB) WritableCheck(interval time.Duration) func(ctx context.Context) error {
	var (
		turn      = make(chan struct{}, 1) // its holder may run the check
		checkedAt time.Time
		lastErr   error
	)
	return func(ctx context.Context) error {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return errors.New("the database has not answered a write in time")
		}
		if checkedAt.IsZero() || time.Since(checkedAt) >= interval {
			// The result serves other callers too, so the check goes on if this caller leaves.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkWritesMax)
			lastErr = db.CheckWrites(ctx)
			cancel()
			checkedAt = time.Now()
		}
		return lastErr
	}
}

// UnavailableReason returns the reason of an UnavailableError in err, or "".
func UnavailableReason(err error) string {
	var passing *UnavailableError
	if errors.Is(err, ErrCommitUnknown) || !errors.As(err, &passing) {
		return ""
	}
	return passing.Reason
}
