package pg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cofferpay/coffer/internal/platform/trace"
)

const (
	attemptsMax = 6                    // runs of one transaction, the first included
	backoffMin  = 4 * time.Millisecond // doubled per attempt, then jittered
	commitMax   = 20 * time.Second     // how long a COMMIT may be waited for
	rollbackMax = 5 * time.Second      // how long a ROLLBACK may be waited for
)

// ErrCommitUnknown is returned when COMMIT was sent and its answer never came. The transaction is
// either completely applied or not at all, and was not run again. The caller looks at the rows, by
// the key that makes its request idempotent.
var ErrCommitUnknown = errors.New("commit: outcome unknown")

// Tx is a running transaction and its time. A function that receives a Tx never commits it, calls
// nothing but SQL, and may be run twice.
type Tx struct {
	pgx.Tx
	// Now is the time of this transaction, in UTC and whole microseconds, so that a value reads
	// back exactly as it was written.
	Now time.Time
}

// Commit panics: only the function that opened the transaction ends it.
func (Tx) Commit(context.Context) error {
	panic("pg: a function that was given a transaction must not commit it")
}

// Rollback panics: return an error instead.
func (Tx) Rollback(context.Context) error {
	panic("pg: a function that was given a transaction must not roll it back, it returns an error")
}

// InOrg runs fn in a transaction that sees and writes the rows of one organization.
//
// fn may run more than once: a deadlock or a serialization failure before COMMIT rolls back and
// starts again. An error or a panic of fn rolls back and reaches the caller. An error of COMMIT
// never runs fn again; unless the server said that it rolled back, the error wraps
// ErrCommitUnknown. Rule REQ-3.
func (db *DB) InOrg(ctx context.Context, org string, fn func(context.Context, Tx) error) error {
	return db.runTx(ctx, "begin isolation level read committed read write"+orgRoleSQL(org), true, fn)
}

// InSystem does what InOrg does, across all organizations.
func (db *DB) InSystem(ctx context.Context, fn func(context.Context, Tx) error) error {
	return db.runTx(ctx, "begin isolation level read committed read write; set local role "+roleSystem, true, fn)
}

// ReadOrg does what InOrg does, for reading only; a write is an error. The replica may answer; see BeginReads.
func (db *DB) ReadOrg(ctx context.Context, org string, fn func(context.Context, Tx) error) error {
	refuseNested(ctx)
	if !isOrgID(org) {
		panic(fmt.Sprintf("pg: %q cannot be the id of an organization", org))
	}
	if isAnswered, err := db.tryReplica(ctx, org, fn); isAnswered {
		return err
	}
	return db.runTx(ctx, "begin isolation level read committed read only"+orgRoleSQL(org), false, fn)
}

// ReadSystem does what InSystem does, for reading only; a write is an error.
func (db *DB) ReadSystem(ctx context.Context, fn func(context.Context, Tx) error) error {
	return db.runTx(ctx, "begin isolation level read committed read only; set local role "+roleSystem, false, fn)
}

// Snapshot reads across organizations as of one moment, so the rows are consistent with each other.
// It leaves time for long statements.
func (db *DB) Snapshot(ctx context.Context, fn func(context.Context, Tx) error) error {
	return db.runTx(ctx, "begin isolation level repeatable read read only; set local role "+roleReader+
		"; set local statement_timeout = '"+formatMilliseconds(db.conf.SnapshotTimeout)+"'", false, fn)
}

// SnapshotOrg reads an organization's rows as of one moment, with time for long statements. fn is
// never run again, because what it has passed on cannot be taken back. The caller gets the error
// that would otherwise cause a retry.
func (db *DB) SnapshotOrg(ctx context.Context, org string, fn func(context.Context, Tx) error) error {
	long := formatMilliseconds(db.conf.SnapshotTimeout)
	ran := false
	return db.runTx(ctx, "begin isolation level repeatable read read only"+orgRoleSQL(org)+
		"; set local statement_timeout = '"+long+"'; set local idle_in_transaction_session_timeout = '"+long+"'", false,
		func(ctx context.Context, tx Tx) error {
			if ran {
				return errors.New("the snapshot was lost during the read")
			}
			ran = true
			return fn(ctx, tx)
		})
}

// Planned returns the arguments of a statement. If forValues is true, PostgreSQL plans the
// statement for just these values, because they decide which index is the right one. PostgreSQL
// plans a statement that it has met several times for any values. By such a plan it would look for
// a chain on which an organization has nothing among all rows of the chains that it uses.
func Planned(forValues bool, args []any) []any {
	if !forValues {
		return args
	}
	return append([]any{pgx.QueryExecModeCacheDescribe}, args...)
}

// ForEachRow passes the rows of a query to fn one by one, so that a result of any length takes the
// memory of one row. The first error of fn ends the query and is returned. The connection is then
// closed instead of read to the end.
func ForEachRow[T any](
	ctx context.Context, tx Tx, sql string, args []any, scan pgx.RowToFunc[T], fn func(T) error,
) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	rows, err := tx.Query(reading, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		v, err := scan(rows)
		if err == nil {
			err = fn(v)
		}
		if err != nil {
			stop()
			return err
		}
	}
	return rows.Err()
}

func orgRoleSQL(org string) string {
	if !isOrgID(org) {
		panic(fmt.Sprintf("pg: %q cannot be the id of an organization", org))
	}
	return "; set local role " + roleApp + "; set local app.org = '" + org + "'"
}

type insideKey struct{}

// refuseNested panics inside a transaction. The inner transaction would wait for a second connection while holding the
// first, and the two could wait for each other's rows without end.
func refuseNested(ctx context.Context) {
	if ctx.Value(insideKey{}) != nil {
		panic("pg: a transaction was opened inside a transaction")
	}
}

func (db *DB) runTx(ctx context.Context, begin string, writes bool, fn func(context.Context, Tx) error) (err error) {
	refuseNested(ctx)
	if writes {
		noteWrite(ctx)
	}
	ctx, span := trace.StartChild(ctx, "transaction")
	defer func() { span.End(err) }()
	return withReason(retryTx(ctx, func() (error, bool) { return db.runAttempt(ctx, begin, writes, fn) }), writes)
}

// retryTx repeats runOnce until it succeeds or says that another attempt is useless.
func retryTx(ctx context.Context, runOnce func() (err error, canRetry bool)) error {
	for attempt := 1; ; attempt++ {
		err, canRetry := runOnce()
		if err == nil || !canRetry || attempt == attemptsMax || ctx.Err() != nil {
			return err
		}
		backoff := backoffMin << (attempt - 1)
		select {
		case <-time.After(backoff/2 + rand.N(backoff)):
		case <-ctx.Done():
			return err
		}
	}
}

// runAttempt makes one attempt. canRetry says that nothing happened and that another attempt may be
// made.
func (db *DB) runAttempt(
	ctx context.Context, begin string, writes bool, fn func(context.Context, Tx) error,
) (err error, canRetry bool) {
	release, err := acquireSlot(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err), false
	}
	defer release()
	tx, err := db.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
	if err != nil {
		return fmt.Errorf("begin: %w", markNoConnection(ctx, err)), isBeginRetryable(err)
	}
	ended := false
	defer func() {
		if ended {
			return
		}
		// fn failed, panicked or ended its goroutine. The connection returns to the pool clean or
		// not at all.
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackMax)
		defer cancel()
		_ = tx.Rollback(clean)
	}()

	now := db.clock().UTC().Truncate(time.Microsecond)
	if err := fn(context.WithValue(ctx, insideKey{}, true), Tx{Tx: tx, Now: now}); err != nil {
		return err, db.countRetry(err)
	}
	if err := ctx.Err(); err != nil {
		return err, false
	}

	if tx.Conn().IsClosed() {
		return errors.New("commit: the connection was lost before"), false
	}

	// From here on, the end of the caller's context must not make the outcome of the commit
	// unknown.
	ended = true
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitMax)
	defer cancel()
	err = tx.Commit(patient)
	switch {
	case err == nil:
		return nil, false
	case !writes || isRolledBack(err):
		return fmt.Errorf("commit: %w", err), false
	default:
		db.commitsUnknown.Add(1)
		return fmt.Errorf("%w: %w", ErrCommitUnknown, err), false
	}
}

// isBeginRetryable reports whether another attempt may follow an error before the first statement.
// No statement ran yet, so a connection that a restarting server has closed (57P) is no reason to
// fail. Any other refusal of the server would come again.
func isBeginRetryable(err error) bool {
	refused, isPgErr := errors.AsType[*pgconn.PgError](err)
	return !isPgErr || strings.HasPrefix(refused.Code, "57P")
}

func (db *DB) countRetry(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	switch refused.Code {
	case "40P01":
		db.deadlocks.Add(1)
		return true
	case "40001":
		db.serializations.Add(1)
		return true
	}
	return false
}

// isRolledBack reports whether an error of COMMIT proves that nothing was committed: the server
// answered ROLLBACK, or it refused with an ordinary ERROR. A FATAL may come after the commit record
// was written (a shutdown while waiting for a standby), so it proves nothing. Nor does
// pgconn.SafeToRetry: pgx 5.12 answers true when the connection closed after the statement was
// sent, because it notices on the second read.
func isRolledBack(err error) bool {
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return true
	}
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.SeverityUnlocalized == "ERROR"
}

// ViolatesConstraint reports whether err is the refusal of the named constraint or unique index.
func ViolatesConstraint(err error, constraint string) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && len(refused.Code) == 5 && refused.Code[:2] == "23" && refused.ConstraintName == constraint
}
