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

	"github.com/cofferpay/coffer/internal/trace"
)

// The COMMIT that goes along with other statements is prepared under a name that ends
// in its word, so that whoever watches the wire sees it go by.
const (
	commitName = "write and commit"
	commitSQL  = "commit"
)

// actAsOrgSQL is what follows the begin. Plans are kept and go by the indexes: a session keeps
// the plans that it made when there was little, and a plan for just the arrays of this
// statement looks cheaper than one for ten of each, and making it costs more than the
// look-ups.
const actAsOrgSQL = `SELECT set_config('role', '` + roleApp + `', true), set_config('app.org', $1, true),
	set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)`

// InOrgPipelined is InOrg in two round trips, for what is called often and is small: its
// statements find what they need by a key and are planned once a session. look queues
// what is to be looked up, which is sent with the begin; write sees it answered,
// decides, and queues what is to be written, which is sent with the COMMIT. A write that
// queues nothing ends the transaction, and nothing was written.
//
// Both may run more than once, as fn of InOrg may. The statements that are sent with
// the COMMIT have no functions that hear their answers: these might come after it. Once
// they were sent the caller's impatience no longer counts. A refusal of any of them, or
// of the COMMIT, proves that nothing was committed; when no answer comes the error
// wraps ErrCommitUnknown and nothing is run again.
func (db *DB) InOrgPipelined(ctx context.Context, org string, queueReads func(b *pgx.Batch), decide func(ctx context.Context, tx Tx, b *pgx.Batch) error) (err error) {
	if ctx.Value(insideKey{}) != nil {
		panic("pg: a transaction was opened inside a transaction")
	}
	if !isOrgID(org) {
		panic(fmt.Sprintf("pg: %q cannot be the id of an organization", org))
	}
	ctx, span := trace.StartChild(ctx, "transaction")
	defer func() { span.End(err) }()
	return withReason(retryTx(ctx, func() (error, bool) { return db.runPipelined(ctx, org, queueReads, decide) }), true)
}

// runPipelined is one attempt; again says that nothing happened and another may be made.
func (db *DB) runPipelined(ctx context.Context, org string, queueReads func(b *pgx.Batch), decide func(ctx context.Context, tx Tx, b *pgx.Batch) error) (err error, canRetry bool) {
	release, err := acquireSlot(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err), false
	}
	defer release()
	conn, err := db.pool.Acquire(ctx)
	if err == nil {
		defer func() { db.releaseConn(ctx, conn) }()
		_, err = conn.Conn().Prepare(ctx, commitName, commitSQL)
	}
	if err != nil {
		return fmt.Errorf("begin: %w", markNoConnection(ctx, err)), isBeginRetryable(err)
	}
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{BeginQuery: "begin isolation level read committed read write"})
	b.Queue(actAsOrgSQL, org)
	queueReads(b)
	now := db.clock().UTC().Truncate(time.Microsecond)
	begun := conn.SendBatch(ctx, b)
	if err := begun.Close(); err != nil {
		refused, isPgErr := errors.AsType[*pgconn.PgError](err)
		return err, db.countRetry(err) || isPgErr && strings.HasPrefix(refused.Code, "57P") || !isPgErr && conn.Conn().IsClosed() && ctx.Err() == nil
	}

	rows := &pgx.Batch{}
	if err := decide(context.WithValue(ctx, insideKey{}, true), Tx{Tx: begun.Tx(), Now: now}, rows); err != nil {
		return err, db.countRetry(err)
	}
	if err := ctx.Err(); err != nil || rows.Len() == 0 {
		return err, false
	}
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

// releaseConn ends what is left of a transaction, so that the connection goes back clean
// or not at all.
func (db *DB) releaseConn(ctx context.Context, conn *pgxpool.Conn) {
	if c := conn.Conn(); !c.IsClosed() && c.PgConn().TxStatus() != 'I' {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackMax)
		defer cancel()
		_, _ = c.Exec(clean, "rollback")
	}
	conn.Release() // closes one that is still in a transaction
}
