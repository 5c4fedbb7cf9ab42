// Package turn lets one caller in all processes make a swap or a deposit swap at a time: the caller that is in the
// turn of its id. A caller that is refused in its turn therefore knows that no other one is making it.
//
// The transaction that writes what was asked for ends the turn, so a caller that lost its turn writes nothing. A crash
// leaves a turn, which another caller takes over once its time is over, and which Prune deletes.
package turn

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const (
	// holdDefault is the default of Queue.Hold.
	holdDefault = 10 * time.Second
	// renewals is how often a process prolongs a turn that it works in before the turn would be over.
	renewals = 3
	// endMax bounds the end of a turn, also after the caller has gone.
	endMax = 5 * time.Second
	// A caller that waits for another process looks after lookFirst, and then less and less often.
	lookFirst = 20 * time.Millisecond
	lookMax   = 400 * time.Millisecond
)

// Queue gives turns. It is safe for concurrent use, and is made anew for each call.
type Queue struct {
	DB   *pg.DB
	Gate *Gate // of the process
	// Hold is for how long a turn waits whose process died; 0: ten seconds.
	Hold time.Duration
	// Noun names what a request makes, for its caller, such as swap.
	Noun string
	Log  *slog.Logger
	// QueueReads queues what create reads first, in the transaction that takes the turn; nil: nothing.
	QueueReads func(b *pgx.Batch)
}

// Find looks up what a request makes, in a transaction of the organization.
type Find[T any] func(ctx context.Context, tx pg.Tx) (made T, isKnown bool, err error)

// Turn is the right to make what has an id, which one caller in all processes has at a time.
type Turn struct{ orgID, madeID, holder, noun string }

// MakeOnce makes what has an id in the turn of that id, unless it is known. find looks it up. create makes it, and
// calls End in the transaction that writes the row. A fault that MakeOnce returns, other than one that says "not now",
// means that neither this caller nor one before it has made it.
func MakeOnce[T any](
	ctx context.Context, q Queue, orgID, madeID string, find Find[T], create func(context.Context, Turn) (T, error),
) (made T, isReplayed bool, err error) {
	if q.Hold == 0 {
		q.Hold = holdDefault
	}
	// The callers of this process queue here, so that one of them at a time looks at the database.
	leave, err := q.Gate.enter(ctx, orgID, madeID)
	if err != nil {
		return made, false, err
	}
	defer leave()
	t := Turn{orgID: orgID, madeID: madeID, holder: id.New("turn", q.DB.Clock()()), noun: q.Noun}
	if made, isReplayed, err = wait(ctx, q, t, find); err != nil || isReplayed {
		return made, isReplayed, err
	}
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go q.keep(working, t, stop)
	made, err = create(working, t)
	if err == nil {
		return made, false, nil
	}
	return endRefused(ctx, q, t, err, find)
}

// wait takes the turn, or finds what another caller has made. While it waits it fails only with the error of the
// context or of the database.
func wait[T any](ctx context.Context, q Queue, t Turn, find Find[T]) (made T, isKnown bool, err error) {
	for pause := lookFirst; ; pause = min(2*pause, lookMax) {
		var isMine *bool
		err = q.DB.InOrgPipelined(ctx, t.orgID,
			func(b *pgx.Batch) {
				isMine = t.queueTake(b, q.Hold)
				if q.QueueReads != nil {
					q.QueueReads(b)
				}
			},
			func(ctx context.Context, tx pg.Tx, b *pgx.Batch) (err error) {
				isKnown = false
				if !*isMine {
					return nil
				}
				// What was committed before the turn was taken is seen here.
				if made, isKnown, err = find(ctx, tx); err != nil || isKnown {
					return err // nothing is committed, and the turn is not taken
				}
				// The commit waits for no disk: a server that forgets the turn in a crash makes its holder
				// lose it.
				b.Queue(`SELECT set_config('synchronous_commit', 'off', true)`)
				return nil
			})
		switch {
		case err != nil:
			return made, false, fmt.Errorf("take the turn of %s %s: %w", t.noun, t.madeID, err)
		case *isMine:
			return made, isKnown, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return made, false, context.Cause(ctx)
		}
	}
}

// queueTake queues the statement that takes a turn that no living process has. The time is PostgreSQL's, which all
// processes share. The turn lasts from the moment when it is taken, which may be after a wait for the transaction of
// the former holder: the row is locked first, and the end is computed behind the lock.
func (t Turn) queueTake(b *pgx.Batch, hold time.Duration) (isMine *bool) {
	isMine = new(bool)
	b.Queue(`
		WITH former AS MATERIALIZED (SELECT FROM swap_turns WHERE org_id = $1 AND swap_id = $2 FOR UPDATE),
			waited AS MATERIALIZED (SELECT count(*) AS rows FROM former)
		INSERT INTO swap_turns AS t (org_id, swap_id, holder, ends_at)
		SELECT $1, $2, $3, clock_timestamp() + $4 FROM waited
		ON CONFLICT (org_id, swap_id) DO UPDATE SET holder = excluded.holder, ends_at = clock_timestamp() + $4
		WHERE t.ends_at <= now()`, t.orgID, t.madeID, t.holder, hold).Exec(func(tag pgconn.CommandTag) error {
		*isMine = tag.RowsAffected() == 1
		return nil
	})
	return isMine
}

const removeSQL = `DELETE FROM swap_turns WHERE org_id = $1 AND swap_id = $2 AND holder = $3`

// remove ends a turn. It reports whether the turn was still this caller's.
func (t Turn) remove(ctx context.Context, tx pg.Tx) (wasMine bool, err error) {
	tag, err := tx.Exec(ctx, removeSQL, t.orgID, t.madeID, t.holder)
	if err != nil {
		return false, fmt.Errorf("end the turn of %s %s: %w", t.noun, t.madeID, err)
	}
	return tag.RowsAffected() == 1, nil
}

// End ends the turn in the transaction that writes what was asked for. Error: fault UNAVAILABLE if the turn was lost.
func (t Turn) End(ctx context.Context, tx pg.Tx) error {
	wasMine, err := t.remove(ctx, tx)
	if err == nil && !wasMine {
		return t.newLost()
	}
	return err
}

// QueueEnd adds End to a batch. The function that it returns gives the error once the batch was sent.
func (t Turn) QueueEnd(b *pgx.Batch) func() error {
	wasMine := false
	b.Queue(removeSQL, t.orgID, t.madeID, t.holder).Exec(func(tag pgconn.CommandTag) error {
		wasMine = tag.RowsAffected() == 1
		return nil
	})
	return func() error {
		if !wasMine {
			return t.newLost()
		}
		return nil
	}
}

// endRefused ends the turn of a caller that made nothing, for a cause, and returns its answer. If another caller made
// it meanwhile, that is the answer.
func endRefused[T any](
	ctx context.Context, q Queue, t Turn, cause error, find Find[T],
) (made T, isKnown bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endMax)
	defer cancel()
	var wasMine bool
	err = q.DB.InOrg(ctx, t.orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		if wasMine, err = t.remove(ctx, tx); err != nil {
			return err
		}
		made, isKnown, err = find(ctx, tx)
		return err
	})
	var empty T
	switch {
	case err != nil && fault.Find(cause) == nil:
		// It may be a commit of which no one knows whether it happened.
		return empty, false, fmt.Errorf("%w, and the end of its turn: %v", cause, err)
	case err != nil:
		// The cause may be a refusal, which would say that nothing was made.
		return empty, false, fmt.Errorf("after %v: %w", cause, err)
	case isKnown:
		return made, true, nil
	case !wasMine:
		return empty, false, fmt.Errorf("%w, after %w", t.newLost(), cause)
	}
	return empty, false, cause
}

// newLost is the answer of a caller whose turn another one may have taken: what it asked for may exist or not.
func (t Turn) newLost() error {
	return fault.New(fault.Unavailable, fault.CodeUnavailable, fault.Unknown,
		"The request took too long, and another one with its idempotencyKey may have made the %s.", t.noun).
		WithStep(fault.RepeatWithSameKey)
}

// keep prolongs a turn until ctx ends. It stops the work if the turn is lost. The turn lasts from the moment when it is
// prolonged, which may be after a wait for a caller that looks at the row.
func (q Queue) keep(ctx context.Context, t Turn, stop context.CancelCauseFunc) {
	tick := time.NewTicker(q.Hold / renewals)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		isMine := false
		err := q.DB.InOrg(ctx, t.orgID, func(ctx context.Context, tx pg.Tx) error {
			tag, err := tx.Exec(ctx, `
				UPDATE swap_turns SET ends_at = clock_timestamp() + $4
				WHERE org_id = $1 AND swap_id = $2 AND holder = $3`,
				t.orgID, t.madeID, t.holder, q.Hold)
			isMine = tag.RowsAffected() == 1
			return err
		})
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			q.Log.WarnContext(ctx, "turn: a turn is not prolonged", "of", t.madeID, "error", err)
		case !isMine:
			stop(t.newLost())
			return
		}
	}
}

// Prune deletes the turns that crashes left, of every kind.
func Prune(ctx context.Context, db *pg.DB) error {
	return db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM swap_turns WHERE ends_at <= now()`); err != nil {
			return fmt.Errorf("delete the turns that are over: %w", err)
		}
		return nil
	})
}
