package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cofferpay/coffer/internal/platform/trace"
)

// The COMMIT that is sent with other statements is prepared under a name that ends in "commit", so
// that an observer of the connection can recognize it.
const (
	commitName = "write and commit"
	commitSQL  = "commit"
)

// keyPlansSQL makes plans generic and index-based, for two reasons. A session keeps the plans that it
// made while there was little data. A plan for just the arrays of this statement looks cheaper than one
// for ten of each, and making it costs more than the look-ups. Without sorts, the order that a statement
// asks for chooses the index: on small tables, another index and a sort of its rows cost as little.
const keyPlansSQL = `set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true),
	set_config('plan_cache_mode', 'force_generic_plan', true)`

// ByKey returns the end of a statement that looks for the rows with one value of a unique key: column is the last
// column of the key, after those that the statement compares with =. The statement asks in the order of the key. On
// an empty table any index with the same first column looks as good as that of the key, and a session keeps such a
// plan while the table fills. Only the key's index has this order, and the statement runs where plans are made by key:
// in InOrgPipelined, in ReadOrgBatch, or behind QueueKeyPlans.
func ByKey(column, value string) string {
	return column + " >= " + value + " AND " + column + " <= " + value + " ORDER BY " + column
}

// actAsSystemSQL follows the begin. Each statement gets a plan of its own, over indexes: a plan that was kept
// from small tables would be used while they grow.
const actAsSystemSQL = `SELECT set_config('role', '` + roleSystem + `', true),
	set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_custom_plan', true)`

// actAsOrgSQL follows the begin.
const actAsOrgSQL = `SELECT set_config('role', '` + roleApp + `', true), set_config('app.org', $1, true),
	` + keyPlansSQL

// InOrgPipelined does what InOrg does in two round trips. It is for small functions that are called
// often, whose statements use a key and are planned once per session. queueReads queues the reads,
// which are sent with the begin. decide runs once they are answered, decides, and queues the
// writes, which are sent with the COMMIT. If decide queues nothing, the transaction ends and
// nothing is written.
//
// Both functions may run more than once, as the function of InOrg may. The statements sent with the
// COMMIT must have no functions that receive their answers, because these might run after it. Once
// they are sent, the caller's context no longer ends the wait. A refusal of any of them, or of the
// COMMIT, proves that nothing was committed. If no answer comes, the error wraps ErrCommitUnknown
// and nothing is run again.
func (db *DB) InOrgPipelined(
	ctx context.Context, org string, queueReads func(b *pgx.Batch),
	decide func(ctx context.Context, tx Tx, b *pgx.Batch) error,
) (err error) {
	refuseNested(ctx)
	noteWrite(ctx)
	if !isOrgID(org) {
		panic(fmt.Sprintf("pg: %q cannot be the id of an organization", org))
	}
	ctx, span := trace.StartChild(ctx, "transaction")
	defer func() { span.End(err) }()
	act := func(b *pgx.Batch) { b.Queue(actAsOrgSQL, org) }
	return withReason(retryTx(ctx, func() (error, bool) { return db.runPipelined(ctx, act, queueReads, decide) }), true)
}

// InSystemPipelined does what InOrgPipelined does, across all organizations. Its statements are planned each time, over
// indexes.
func (db *DB) InSystemPipelined(
	ctx context.Context, queueReads func(b *pgx.Batch),
	decide func(ctx context.Context, tx Tx, b *pgx.Batch) error,
) (err error) {
	refuseNested(ctx)
	noteWrite(ctx)
	ctx, span := trace.StartChild(ctx, "transaction")
	defer func() { span.End(err) }()
	act := func(b *pgx.Batch) { b.Queue(actAsSystemSQL) }
	return withReason(retryTx(ctx, func() (error, bool) { return db.runPipelined(ctx, act, queueReads, decide) }), true)
}

// InOrgAtOnce does what InOrgPipelined does for writes that need no answer before them, in one round trip: begin, the
// statements that queue adds and COMMIT are sent together. A statement among them that finds its premises wrong raises
// an error, and nothing is written. now is the transaction's time. The rules and the errors are those of
// InOrgPipelined.
func (db *DB) InOrgAtOnce(ctx context.Context, org string, queue func(now time.Time, b *pgx.Batch) error) (err error) {
	refuseNested(ctx)
	noteWrite(ctx)
	if !isOrgID(org) {
		panic(fmt.Sprintf("pg: %q cannot be the id of an organization", org))
	}
	ctx, span := trace.StartChild(ctx, "transaction")
	defer func() { span.End(err) }()
	return withReason(retryTx(ctx, func() (error, bool) { return db.runAtOnce(ctx, org, queue) }), true)
}

// runAtOnce makes one attempt. canRetry says that nothing happened and that another attempt may be made.
func (db *DB) runAtOnce(
	ctx context.Context, org string, queue func(now time.Time, b *pgx.Batch) error,
) (err error, canRetry bool) {
	conn, release, err := db.acquireToCommit(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err), !errors.Is(err, ErrShareExhausted) && isBeginRetryable(err)
	}
	defer release()
	if c := conn.Conn(); !isQuiet(c.PgConn().Conn()) {
		_ = c.Close(ctx)
		return errors.New("begin: the connection was lost before"), ctx.Err() == nil
	}
	b := &pgx.Batch{}
	b.Queue("begin isolation level read committed read write")
	b.Queue(actAsOrgSQL, org)
	if err := queue(db.clock().UTC().Truncate(time.Microsecond), b); err != nil {
		return err, false
	}
	return db.sendCommit(ctx, conn, b)
}

// acquireToCommit takes a connection on which a COMMIT can be sent with other statements.
func (db *DB) acquireToCommit(ctx context.Context) (conn *pgxpool.Conn, release func(), err error) {
	releaseSlot, err := acquireSlot(ctx)
	if err != nil {
		return nil, nil, err
	}
	conn, err = db.pool.Acquire(ctx)
	if err != nil {
		releaseSlot()
		return nil, nil, markNoConnection(ctx, err)
	}
	release = func() {
		db.releaseConn(ctx, conn)
		releaseSlot()
	}
	if _, err = conn.Conn().Prepare(ctx, commitName, commitSQL); err != nil {
		release()
		return nil, nil, markNoConnection(ctx, err)
	}
	return conn, release, nil
}

// runPipelined makes one attempt. canRetry says that nothing happened and that another attempt may
// be made.
func (db *DB) runPipelined(
	ctx context.Context, act, queueReads func(b *pgx.Batch),
	decide func(ctx context.Context, tx Tx, b *pgx.Batch) error,
) (err error, canRetry bool) {
	conn, release, err := db.acquireToCommit(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err), !errors.Is(err, ErrShareExhausted) && isBeginRetryable(err)
	}
	defer release()
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{BeginQuery: "begin isolation level read committed read write"})
	act(b)
	queueReads(b)
	now := db.clock().UTC().Truncate(time.Microsecond)
	begun := conn.SendBatch(ctx, b)
	if err := begun.Close(); err != nil {
		refused, isPgErr := errors.AsType[*pgconn.PgError](err)
		return err, db.countRetry(err) || isPgErr && strings.HasPrefix(refused.Code, "57P") ||
			!isPgErr && conn.Conn().IsClosed() && ctx.Err() == nil
	}

	rows := &pgx.Batch{}
	if err := decide(context.WithValue(ctx, insideKey{}, true), Tx{Tx: begun.Tx(), Now: now}, rows); err != nil {
		return err, db.countRetry(err)
	}
	if err := ctx.Err(); err != nil || rows.Len() == 0 {
		return err, false
	}
	return db.sendCommit(ctx, conn, rows)
}

// sendCommit sends statements with the COMMIT of their transaction and waits for the outcome, whatever becomes of the
// caller.
func (db *DB) sendCommit(ctx context.Context, conn *pgxpool.Conn, rows *pgx.Batch) (err error, canRetry bool) {
	if conn.Conn().IsClosed() {
		return errors.New("commit: the connection was lost before"), false
	}
	var answer string
	rows.Queue(commitName).Exec(func(tag pgconn.CommandTag) error { answer = tag.String(); return nil })
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), db.conf.StatementTimeout+commitMax)
	defer cancel()
	err = conn.SendBatch(patient, rows).Close()
	_, unsent := errors.AsType[pgx.ErrPreprocessingBatch](err)
	switch {
	case err == nil && answer == "ROLLBACK":
		return fmt.Errorf("commit: %w", pgx.ErrTxCommitRollback), false
	case err == nil:
		return nil, false
	case unsent || isRolledBack(err):
		return err, db.countRetry(err)
	default:
		db.commitsUnknown.Add(1)
		return fmt.Errorf("%w: %w", ErrCommitUnknown, err), false
	}
}

// releaseConn ends a transaction that is still open, so that the connection returns to the pool
// clean or not at all.
func (db *DB) releaseConn(ctx context.Context, conn *pgxpool.Conn) {
	if c := conn.Conn(); !c.IsClosed() && c.PgConn().TxStatus() != 'I' {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackMax)
		defer cancel()
		_, _ = c.Exec(clean, "rollback")
	}
	conn.Release() // closes a connection that is still in a transaction
}
