package pg

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	lockProbeInterval = 2 * time.Second // how often the connection of a held lock is asked whether it lives
	lockProbeMax      = 5 * time.Second // how long its answer may take
)

// Lock is a session's hold on a name. It is economy, not safety: it keeps two processes
// from doing the same work twice, and a holder that was stopped and wakes up may go on
// for moments after somebody else took over. What must not happen twice is prevented by
// the rows themselves.
type Lock struct {
	heldCtx   context.Context
	cancel    context.CancelCauseFunc
	name      string
	watchDone chan struct{}
}

// ErrLockLost is the cause of the end of a Lock's context when its connection broke.
var ErrLockLost = errors.New("advisory lock lost with its connection")

// AdvisoryLock takes the lock of that name in this database if nobody holds it; ok is
// false when somebody does. The lock lives on a connection of its own and ends with
// it, with Release, or with ctx.
func (db *DB) AdvisoryLock(ctx context.Context, name string) (lock *Lock, ok bool, err error) {
	poolConf, err := db.poolConfig(1)
	if err != nil {
		return nil, false, err
	}
	conf := poolConf.ConnConfig
	conf.RuntimeParams["application_name"] = "coffer lock " + name
	conn, err := pgx.ConnectConfig(ctx, conf)
	if err != nil {
		return nil, false, fmt.Errorf("connect for the lock %s: %w", name, err)
	}
	defer func() {
		if !ok {
			closeConn(conn)
		}
	}()
	if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, lockKey(name)).Scan(&ok); err != nil {
		return nil, false, fmt.Errorf("take the lock %s: %w", name, err)
	}
	if !ok {
		return nil, false, nil
	}
	held, lose := context.WithCancelCause(ctx)
	lock = &Lock{heldCtx: held, cancel: lose, name: name, watchDone: make(chan struct{})}
	go lock.watchConnection(held, conn)
	return lock, true, nil
}

// Context ends when the lock does: with Release, with the context that AdvisoryLock was
// given, or with the connection (the cause is then ErrLockLost). Work that the lock is
// for runs under it.
func (l *Lock) Context() context.Context { return l.heldCtx }

// Release gives the lock back and closes its connection. It may be called again.
func (l *Lock) Release() {
	l.cancel(context.Canceled)
	<-l.watchDone
}

// watchConnection notices the end of the connection. Waiting for a notification that nobody sends
// reads from it, so a closed one is seen at once; the probe finds one that is dead
// without having been closed.
func (l *Lock) watchConnection(ctx context.Context, conn *pgx.Conn) {
	defer close(l.watchDone)
	defer closeConn(conn)
	for {
		wait, cancel := context.WithTimeout(ctx, lockProbeInterval)
		_, err := conn.WaitForNotification(wait)
		expired := wait.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil && expired && !conn.IsClosed() {
			probe, cancel := context.WithTimeout(ctx, lockProbeMax)
			err = conn.Ping(probe)
			cancel()
		}
		if err != nil && ctx.Err() == nil {
			l.cancel(fmt.Errorf("%w: %s: %w", ErrLockLost, l.name, err))
			return
		}
	}
}

func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), rollbackMax)
	defer cancel()
	_ = conn.Close(ctx) // The server drops the session either way.
}

// LockShared holds a gate of that name open until the transaction ends, with any number of
// others. Whoever acts on what he reads shares, before he reads; whoever changes it
// takes it alone, with Exclude: then a change that has committed was seen by all that
// commit after it, and what had not seen it has committed before. A gate comes before
// every row that both sides lock.
func LockShared(ctx context.Context, tx Tx, name string) error {
	if _, err := tx.Exec(ctx, lockSharedSQL, lockKey("gate "+name)); err != nil {
		return fmt.Errorf("share the gate %s: %w", name, err)
	}
	return nil
}

// QueueLockShared is Share as part of a batch: what is queued after it reads behind the
// gate, for each statement of a transaction sees what committed before it began.
func QueueLockShared(b *pgx.Batch, name string) { b.Queue(lockSharedSQL, lockKey("gate "+name)) }

const lockSharedSQL = `SELECT pg_advisory_xact_lock_shared($1)`

// LockExclusive takes a gate alone until the transaction ends: it waits for all who share it.
func LockExclusive(ctx context.Context, tx Tx, name string) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, lockKey("gate "+name)); err != nil {
		return fmt.Errorf("take the gate %s alone: %w", name, err)
	}
	return nil
}

// lockKey spreads names over the 64 bits that PostgreSQL has for them.
func lockKey(name string) int64 {
	sum := sha256.Sum256([]byte("coffer lock " + name))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
