package pg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cofferpay/coffer/internal/platform/trace"
)

// A streaming replica may answer the reads of a request that only reads: ReadOrg and ReadOrgBatch choose the
// server, and nothing else ever asks the replica. Two rules keep an answer from being older than what anyone
// was told before the request:
//
//   - The statement that authenticates the request on the primary also reads how far the log is on the
//     primary's disk (Position). A commit is visible, and acknowledged, only behind its flush, by whatever
//     process. The replica must have replayed as much. It gets what is flushed and nothing else, so it was
//     never ahead of a later request's position, and one page after another never goes back in time.
//   - Positions compare only within one history. CheckReplica writes a mark on the primary and looks for it
//     on the replica. A server that shows it replays the log of this primary, and the proof ends after
//     proofLasts, with a restart of either server, and with the first error.
//
// Whenever the replica is not proven, not there or not there yet, the primary answers.
const (
	replicaWaitMax  = 50 * time.Millisecond // how long a request waits for its position
	replicaPauseMin = 500 * time.Microsecond
	replicaPauseMax = 8 * time.Millisecond
	replicaReadMax  = 10 * time.Second // a replica that answers later is given up, and the primary is asked
	// replicaCheckInterval is the pause between two checks, and replicaCheckMax the longest one.
	replicaCheckInterval = time.Second
	replicaCheckMax      = 2 * time.Second
	// proofLasts bounds for how long a replica is asked that has begun to follow another server without a restart.
	proofLasts = 3 * time.Second
	// markLasts is the age at which the mark is written anew.
	markLasts = replicaCheckInterval / 2
)

// Position is how far the log of the primary was when a request was authenticated. The zero value is no position:
// the primary answers.
type Position struct {
	lsn     int64
	primary int64 // when the server started, in microseconds
}

// startSQL identifies the life of a server. A server that is promoted was in recovery before and gave no position,
// so it never gives positions of two timelines in one life.
const startSQL = `(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint`

// positionSQL reads a Position. The insert position would be ahead of what a replica can have: it includes
// what is not committed. A server in recovery has no position of its own.
const positionSQL = `
	SELECT CASE WHEN pg_is_in_recovery() THEN 0 ELSE (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint END,
		` + startSQL

// QueuePosition has the position read with the statements of a batch, if there is a replica. Whatever was committed
// before the batch was sent is before the position.
func (db *DB) QueuePosition(b *pgx.Batch, position *Position) {
	if db.replica == nil {
		return
	}
	b.Queue(positionSQL).QueryRow(func(row pgx.Row) error {
		*position = Position{}
		return row.Scan(&position.lsn, &position.primary)
	})
}

// readTurn is one request that only reads.
type readTurn struct {
	position atomic.Pointer[Position]
	// asksPrimary says that the request stays with the primary: it has written, or the replica did not answer it.
	// Going back to the replica could go back in time.
	asksPrimary atomic.Pointer[PrimaryReason]
}

type readTurnKey struct{}

// BeginReads returns a context for a request that only reads, before it is authenticated. Its reads may be answered by
// the replica once UsePosition is called. Whatever it writes nevertheless, such as the last use of its key, it reads
// from the primary.
func (db *DB) BeginReads(ctx context.Context) context.Context {
	if db.replica == nil {
		return ctx
	}
	return context.WithValue(ctx, readTurnKey{}, &readTurn{})
}

// UsePosition gives a request of BeginReads its position.
func UsePosition(ctx context.Context, position Position) {
	if t, _ := ctx.Value(readTurnKey{}).(*readTurn); t != nil && position.lsn > 0 {
		t.position.Store(&position)
	}
}

// noteWrite keeps a request that writes with the primary.
func noteWrite(ctx context.Context) {
	if t, _ := ctx.Value(readTurnKey{}).(*readTurn); t != nil {
		reason := ReasonWritten
		t.asksPrimary.Store(&reason)
	}
}

// PrimaryReason is why the primary answered a read that the replica could have answered.
type PrimaryReason string

// The reasons.
const (
	ReasonUnproven PrimaryReason = "unproven" // the replica has not shown that it follows this primary
	ReasonBehind   PrimaryReason = "behind"   // it did not reach the position in time
	ReasonConflict PrimaryReason = "conflict" // it cancelled the read to replay the log
	ReasonError    PrimaryReason = "error"    // it failed in another way, or not in time
	ReasonWritten  PrimaryReason = "written"  // the request itself has written
)

// PrimaryReasons are all reasons.
var PrimaryReasons = [...]PrimaryReason{ReasonUnproven, ReasonBehind, ReasonConflict, ReasonError, ReasonWritten}

// ReplicaState is what the last check found.
type ReplicaState string

// The states of a replica. It is asked in the first one alone.
const (
	ReplicaFollows     ReplicaState = "FOLLOWS"
	ReplicaBehind      ReplicaState = "BEHIND"
	ReplicaUnreachable ReplicaState = "UNREACHABLE"
	ReplicaPromoted    ReplicaState = "NO_REPLICA"    // a server that takes writes: promoted, or the primary itself
	ReplicaForeign     ReplicaState = "OTHER_HISTORY" // it replays a log, but not that of this database
	ReplicaRefused     ReplicaState = "REFUSED"       // its login role may do too much or too little
	ReplicaUnchecked   ReplicaState = "UNCHECKED"
)

// ReplicaStates are all states.
var ReplicaStates = []ReplicaState{
	ReplicaFollows, ReplicaBehind, ReplicaUnreachable, ReplicaPromoted, ReplicaForeign, ReplicaRefused,
	ReplicaUnchecked,
}

// ReplicaStat holds totals since Open and what the last check found.
type ReplicaStat struct {
	State ReplicaState
	Lag   time.Duration // from the commit of the mark on the primary to its replay, in the last check that found it
	// Reads that the replica answered, and reads that the primary answered instead, by reason.
	Replica int64
	Primary map[PrimaryReason]int64
	Waited  time.Duration // of all reads, for their position
}

// replica is the second server of a DB.
type replica struct {
	pool  *pgxpool.Pool
	proof atomic.Pointer[replicaProof] // nil: not asked
	state atomic.Pointer[ReplicaState]
	login atomic.Int64 // the start of the server whose login role was checked

	lag     atomic.Int64
	reads   atomic.Int64
	waited  atomic.Int64
	primary [len(PrimaryReasons)]atomic.Int64
}

// replicaProof says that a replica follows a primary.
type replicaProof struct {
	primary, replica int64 // when the servers started
	endsAt           time.Time
}

// openReplica opens the pool of the replica. It needs no answer: a process starts without its replica.
func (db *DB) openReplica(ctx context.Context) error {
	poolConf, err := db.poolConfig(db.conf.ReadURL, db.conf.MaxConns)
	if err != nil {
		return fmt.Errorf("the replica: %w", err)
	}
	poolConf.ConnConfig.ConnectTimeout = replicaCheckMax
	poolConf.ConnConfig.Tracer = nil // it takes no lock
	db.replica = &replica{}
	db.replica.setState(ReplicaUnchecked)
	if db.replica.pool, err = pgxpool.NewWithConfig(ctx, poolConf); err != nil {
		return fmt.Errorf("open the pool of the replica: %w", err)
	}
	return nil
}

func (r *replica) setState(s ReplicaState) { r.state.Store(&s) }

// ReplicaStat returns the state of the replica; false without one.
func (db *DB) ReplicaStat() (ReplicaStat, bool) {
	r := db.replica
	if r == nil {
		return ReplicaStat{}, false
	}
	stat := ReplicaStat{
		State: *r.state.Load(), Lag: time.Duration(r.lag.Load()), Replica: r.reads.Load(),
		Primary: map[PrimaryReason]int64{}, Waited: time.Duration(r.waited.Load()),
	}
	for i, reason := range PrimaryReasons {
		stat.Primary[reason] = r.primary[i].Load()
	}
	return stat, true
}

func (r *replica) countPrimary(reason PrimaryReason) {
	r.primary[slices.Index(PrimaryReasons[:], reason)].Add(1)
}

// tryReplica answers a read by the replica, if the context's request may have it. isAnswered is false if the primary
// has to be asked. This is the only place that chooses.
func (db *DB) tryReplica(
	ctx context.Context, org string, fn func(context.Context, Tx) error,
) (isAnswered bool, err error) {
	t, _ := ctx.Value(readTurnKey{}).(*readTurn)
	if t == nil || db.replica == nil {
		return false, nil
	}
	r := db.replica
	if reason := t.asksPrimary.Load(); reason != nil {
		r.countPrimary(*reason)
		return false, nil
	}
	position, proof := t.position.Load(), r.proof.Load()
	reason := ReasonUnproven
	if position != nil && proof != nil && proof.primary == position.primary && time.Now().Before(proof.endsAt) {
		ctx, span := trace.StartChild(ctx, "replica transaction")
		err, reason = db.readReplica(ctx, *position, *proof, org, fn)
		span.End(err)
		if reason == "" {
			r.reads.Add(1)
			return true, err
		}
		// A caller who left says nothing about the replica.
		if reason != ReasonConflict && !isOwnRefusal(err) && ctx.Err() == nil {
			// The others need not find out by themselves. The next check proves it again.
			r.proof.CompareAndSwap(proof, nil)
		}
	}
	t.asksPrimary.Store(&reason)
	r.countPrimary(reason)
	return false, nil
}

// readReplica runs fn on the replica. reason is "" if its result is the answer, whether an error or not.
func (db *DB) readReplica(
	ctx context.Context, position Position, proof replicaProof, org string, fn func(context.Context, Tx) error,
) (err error, reason PrimaryReason) {
	release, err := acquireSlot(ctx)
	if err != nil {
		return withReason(fmt.Errorf("begin: %w", err), false), ""
	}
	defer release()
	attempt, cancel := context.WithTimeout(ctx, replicaReadMax)
	defer cancel()
	conn, err := db.replica.pool.Acquire(attempt)
	if err != nil {
		return err, ReasonError
	}
	defer db.releaseConn(ctx, conn)

	var s replicaStatus
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{BeginQuery: "begin isolation level read committed read only"})
	b.Queue(`SELECT set_config('role', '`+roleApp+`', true), set_config('app.org', $1, true)`, org)
	b.Queue(statusSQL).QueryRow(s.scan)
	begun := conn.SendBatch(attempt, b)
	if err := begun.Close(); err != nil {
		return err, reasonOf(err)
	}
	began := time.Now()
	for pause := replicaPauseMin; ; pause = min(2*pause, replicaPauseMax) {
		if !s.inRecovery || s.start != proof.replica {
			return errors.New("the replica is another server"), ReasonUnproven
		}
		if s.replayed >= position.lsn {
			break
		}
		if time.Since(began) > replicaWaitMax {
			db.replica.setState(ReplicaBehind)
			return errors.New("the replica is behind"), ReasonBehind
		}
		// Each statement has its own snapshot, so the ones that follow see what was replayed by then.
		select {
		case <-time.After(pause):
		case <-attempt.Done():
			return attempt.Err(), ReasonError
		}
		err := s.scan(conn.QueryRow(attempt, statusSQL))
		db.replica.waited.Add(int64(pause))
		if err != nil {
			return err, reasonOf(err)
		}
	}

	now := db.clock().UTC().Truncate(time.Microsecond)
	err = fn(context.WithValue(attempt, insideKey{}, true), Tx{Tx: begun.Tx(), Now: now})
	_, isPgErr := errors.AsType[*pgconn.PgError](err)
	switch {
	case err == nil:
		if _, err = conn.Exec(attempt, "commit"); err != nil {
			return err, reasonOf(err)
		}
		return nil, ""
	case ctx.Err() != nil:
		return withReason(err, false), "" // The caller's time is over, and the primary could not answer either.
	case isPgErr || attempt.Err() != nil || conn.Conn().IsClosed():
		return err, reasonOf(err)
	}
	return err, "" // fn's own
}

// reasonOf tells a read that recovery cancelled from a server that fails.
func reasonOf(err error) PrimaryReason {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if ok && (refused.Code == "40001" || refused.Code == "40P01" ||
		strings.Contains(refused.Message, "conflict with recovery")) {
		return ReasonConflict
	}
	return ReasonError
}

// isOwnRefusal reports whether a server refused the statements of one read, and says nothing about itself.
func isOwnRefusal(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.SeverityUnlocalized == "ERROR" && transientReason(err, false) == "" && refused.Code[:2] != "XX"
}

// replicaStatus is what a replica says about itself.
type replicaStatus struct {
	inRecovery bool
	start      int64
	replayed   int64
}

// statusSQL reads a replicaStatus. What a later statement sees is at least as new.
const statusSQL = `
	SELECT pg_is_in_recovery(), ` + startSQL + `, coalesce((pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::bigint, 0)`

func (s *replicaStatus) scan(row pgx.Row) error {
	return row.Scan(&s.inRecovery, &s.start, &s.replayed)
}

// WatchReplica checks the replica until the context ends. It returns at once without one.
func (db *DB) WatchReplica(ctx context.Context, log *slog.Logger) {
	if db.replica == nil {
		return
	}
	tick := time.NewTicker(replicaCheckInterval)
	defer tick.Stop()
	for former := ReplicaUnchecked; ; {
		state, err := db.CheckReplica(ctx)
		if ctx.Err() != nil {
			return
		}
		switch {
		case state == former:
		case state == ReplicaFollows:
			log.LogAttrs(ctx, slog.LevelInfo, "the replica answers reads")
		default:
			log.LogAttrs(ctx, slog.LevelWarn, "the replica is not asked, the primary answers all reads",
				slog.String("state", string(state)), slog.Any("error", err))
		}
		former = state
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// CheckReplica finds out whether the replica follows the primary, and has it asked if so. The error explains a state
// in which it is not asked. An error of the primary leaves what is known: the proof ends by itself.
func (db *DB) CheckReplica(ctx context.Context) (ReplicaState, error) {
	r := db.replica
	ctx, cancel := context.WithTimeout(ctx, replicaCheckMax)
	defer cancel()
	began := time.Now()
	mark, position, err := db.renewMark(ctx)
	if err != nil {
		return *r.state.Load(), fmt.Errorf("mark the primary: %w", err)
	}
	state, s, err := db.findMark(ctx, mark, position)
	if state == ReplicaFollows {
		if err = db.checkReplicaLogin(ctx, s.start); err != nil {
			state = ReplicaRefused
		}
	}
	r.setState(state)
	if state != ReplicaFollows {
		r.proof.Store(nil)
		if state == ReplicaUnreachable {
			r.pool.Reset()
		}
		return state, err
	}
	r.proof.Store(&replicaProof{primary: position.primary, replica: s.start, endsAt: began.Add(proofLasts)})
	return state, nil
}

// renewMark returns a mark that the primary has written within markLasts, by any process, and a position behind it.
func (db *DB) renewMark(ctx context.Context) (mark string, position Position, err error) {
	err = db.InSystem(ctx, func(ctx context.Context, tx Tx) error {
		// A clock that was set back would keep a mark for long.
		_, err := tx.Exec(ctx, `
			INSERT INTO replica_mark AS m (mark, marked_at) VALUES ($1, now())
			ON CONFLICT (one) DO UPDATE SET mark = excluded.mark, marked_at = excluded.marked_at
			WHERE m.marked_at NOT BETWEEN excluded.marked_at - $2::interval AND excluded.marked_at`,
			rand.Text(), markLasts)
		return err
	})
	if err != nil {
		return "", Position{}, err
	}
	return db.readMark(ctx)
}

func (db *DB) readMark(ctx context.Context) (mark string, position Position, err error) {
	err = db.ReadSystemBatch(ctx, func(b *pgx.Batch) {
		b.Queue(`SELECT mark FROM replica_mark`).QueryRow(func(row pgx.Row) error { return row.Scan(&mark) })
		db.QueuePosition(b, &position)
	})
	return mark, position, err
}

// findMark waits until the replica has replayed a position of the primary, and looks whether it shows the mark there.
func (db *DB) findMark(ctx context.Context, mark string, position Position) (ReplicaState, replicaStatus, error) {
	began := time.Now()
	for pause := replicaPauseMin; ; pause = min(2*pause, replicaPauseMax) {
		var s replicaStatus
		var shown string
		b := &pgx.Batch{}
		b.Queue("begin isolation level read committed read only")
		b.Queue("set local role " + roleSystem)
		b.Queue(statusSQL).QueryRow(s.scan)
		b.Queue(`SELECT coalesce((SELECT mark FROM replica_mark), '')`).
			QueryRow(func(row pgx.Row) error { return row.Scan(&shown) })
		b.Queue("commit")
		err := db.replica.pool.SendBatch(ctx, b).Close()
		waited := time.Since(began)
		refused, isPgErr := errors.AsType[*pgconn.PgError](err)
		switch {
		case isPgErr && (refused.Code[:2] == "42" || refused.Code[:2] == "3D" || refused.Code[:2] == "22"):
			return ReplicaForeign, s, err // it has not the roles, the database or the table
		case err != nil:
			return ReplicaUnreachable, s, err
		case !s.inRecovery:
			return ReplicaPromoted, s, errors.New("the server is no replica: it takes writes")
		case s.replayed >= position.lsn && shown == mark && position.lsn > 0:
			db.replica.lag.Store(int64(waited))
			return ReplicaFollows, s, nil
		case s.replayed < position.lsn && waited > replicaWaitMax:
			return ReplicaBehind, s, fmt.Errorf("it has not replayed %d bytes of the log within %v",
				position.lsn-s.replayed, replicaWaitMax)
		case s.replayed >= position.lsn && waited > replicaWaitMax:
			return ReplicaForeign, s, errors.New("it does not show what was written on the primary")
		case s.replayed >= position.lsn:
			// Another process may have renewed the mark since it was read.
			if mark, position, err = db.readMark(ctx); err != nil {
				return ReplicaUnreachable, s, err
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ReplicaUnreachable, s, ctx.Err()
		}
	}
}

// checkReplicaLogin refuses a login role of the replica's URL that Open would refuse, once for each start of a server.
func (db *DB) checkReplicaLogin(ctx context.Context, start int64) error {
	if db.replica.login.Load() == start {
		return nil
	}
	conn, err := db.replica.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err := checkLogin(ctx, conn.Conn()); err != nil {
		return err
	}
	db.replica.login.Store(start)
	return nil
}
