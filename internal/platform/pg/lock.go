package pg

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

const (
	lockProbeInterval = 2 * time.Second // how often the connection of a held lock is checked
	lockProbeMax      = 5 * time.Second // how long the check may take
)

// Lock is an advisory lock on a name, held by one session. It saves work and does not provide
// safety: it keeps two processes from doing the same work twice. A holder that was stopped and
// wakes up may go on for moments after another process took over. The rows themselves prevent what
// must not happen twice.
type Lock struct {
	heldCtx   context.Context
	cancel    context.CancelCauseFunc
	name      string
	watchDone chan struct{}
}

// ErrLockLost is the cause with which a Lock's context ends when its connection broke.
var ErrLockLost = errors.New("advisory lock lost with its connection")

// AdvisoryLock takes the lock of that name in this database; ok is false if another session holds
// it. The lock has a connection of its own. It ends with that connection, with Release, or with
// ctx.
func (db *DB) AdvisoryLock(ctx context.Context, name string) (lock *Lock, ok bool, err error) {
	poolConf, err := db.poolConfig(db.conf.URL, 1)
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

// Context returns the context of the lock. It ends with Release, with the context that AdvisoryLock
// was given, or with the connection (the cause is then ErrLockLost). The work that the lock
// protects runs under it.
func (l *Lock) Context() context.Context { return l.heldCtx }

// Release releases the lock and closes its connection. It may be called again.
func (l *Lock) Release() {
	l.cancel(context.Canceled)
	<-l.watchDone
}

// watchConnection notices the end of the connection. It waits for a notification that is never
// sent: that reads from the connection, so a closed one shows at once. The probe finds a connection
// that is dead without having been closed.
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

// LockShared takes the gate of that name in shared mode until the transaction ends. A gate is an
// advisory lock of PostgreSQL that any number of transactions may share.
//
// A transaction that acts on what it reads takes the gate with LockShared before it reads. A
// transaction that changes those rows takes it with LockExclusive. Every transaction that commits
// after a committed change has then seen it, and every one that has not seen it has committed
// before. A gate comes before every row that both sides lock.
func LockShared(ctx context.Context, tx Tx, name string) error {
	if _, err := tx.Exec(ctx, lockSharedSQL, gateKey(name)); err != nil {
		return fmt.Errorf("take the shared gate %s: %w", name, err)
	}
	return nil
}

// QueueLockShared adds LockShared to a batch. Statements queued after it read behind the gate,
// because each statement of a transaction sees what committed before it began.
func QueueLockShared(b *pgx.Batch, name string) { b.Queue(lockSharedSQL, gateKey(name)) }

const lockSharedSQL = `SELECT pg_advisory_xact_lock_shared($1)`

// LockExclusive takes a gate exclusively until the transaction ends. It waits for all transactions
// that share it.
func LockExclusive(ctx context.Context, tx Tx, name string) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, gateKey(name)); err != nil {
		return fmt.Errorf("take the gate %s exclusively: %w", name, err)
	}
	return nil
}

// gateKey is the argument of a statement that takes a gate. The server gets its number; a tracer
// gets its name.
type gateKey string

func (k gateKey) String() string { return "gate " + string(k) }

// Int64Value makes the driver send the number.
func (k gateKey) Int64Value() (pgtype.Int8, error) {
	return pgtype.Int8{Int64: lockKey(k.String()), Valid: true}, nil
}

// lockKey maps names to the 64 bits of PostgreSQL's advisory locks.
func lockKey(name string) int64 {
	sum := sha256.Sum256([]byte("coffer lock " + name))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
