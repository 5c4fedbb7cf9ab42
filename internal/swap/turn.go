package swap

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const (
	// turnRenewals is how often a process prolongs a turn that it works in before the turn would be over.
	turnRenewals = 3
	// turnEndMax bounds the end of a turn, also after the caller has gone.
	turnEndMax = 5 * time.Second
	// A caller that waits for another process looks after turnLookFirst, and then less and less often.
	turnLookFirst = 20 * time.Millisecond
	turnLookMax   = 400 * time.Millisecond
	// turnPruning is how often a process deletes the turns that crashes left.
	turnPruning = time.Hour
)

// turn is the right to make one swap, which one caller in all processes has at a time. A caller that is
// refused in its turn therefore knows that no other one is making the swap. The transaction that writes
// the swap ends the turn, so a caller that lost its turn writes nothing.
type turn struct{ orgID, swapID, holder string }

// makeOnce makes a swap in the turn of its id, unless the key with this hash has it. queueReads queues what
// create reads first. create makes the swap, and ends the turn in the transaction that writes the row. A fault
// that makeOnce returns, other than one that says "not now", means that neither this caller nor one before it
// has made the swap.
func (s *Service) makeOnce(
	ctx context.Context, orgID, swapID, hash string, queueReads func(*pgx.Batch),
	create func(context.Context, turn) (Swap, error),
) (w Swap, isReplayed bool, err error) {
	// The callers of this process queue here, so that one of them at a time looks at the database.
	leave, err := s.keys.enter(ctx, orgID, swapID)
	if err != nil {
		return w, false, err
	}
	defer leave()
	t := turn{orgID: orgID, swapID: swapID, holder: id.New("turn", s.DB.Clock()())}
	isReplayed, err = s.waitTurn(ctx, t, hash, queueReads)
	if err != nil {
		return w, false, err
	}
	if isReplayed {
		w, err = s.loadByHash(ctx, orgID, hash)
		return w, err == nil, err
	}
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go s.keepTurn(working, t, stop)
	w, err = create(working, t)
	if err == nil {
		return w, false, nil
	}
	return s.endTurn(ctx, t, err, hash)
}

// waitTurn takes the turn, or reports that another caller has made the swap. While it waits it fails only
// with the error of the context or of the database.
func (s *Service) waitTurn(
	ctx context.Context, t turn, hash string, queueReads func(*pgx.Batch),
) (isKnown bool, err error) {
	for pause := turnLookFirst; ; pause = min(2*pause, turnLookMax) {
		var isMine, isMade *bool
		err = s.DB.InOrgPipelined(ctx, t.orgID,
			func(b *pgx.Batch) {
				isMine = t.queueTake(b, s.conf.TurnHold)
				// A swap that was committed before the turn was taken is seen here.
				isMade = queueIsKnown(b, t.orgID, hash)
				queueReads(b)
			},
			func(_ context.Context, _ pg.Tx, b *pgx.Batch) error {
				if *isMine && !*isMade {
					// The commit waits for no disk: a server that forgets the turn in a crash makes its
					// holder lose it.
					b.Queue(`SELECT set_config('synchronous_commit', 'off', true)`)
				} // else nothing is committed, and the turn is not taken
				return nil
			})
		switch {
		case err != nil:
			return false, fmt.Errorf("take the turn of swap %s: %w", t.swapID, err)
		case *isMine:
			return *isMade, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// queueTake queues the statement that takes a turn that no living process has. The time is PostgreSQL's,
// which all processes share.
func (t turn) queueTake(b *pgx.Batch, hold time.Duration) (isMine *bool) {
	isMine = new(bool)
	b.Queue(`
		INSERT INTO swap_turns AS t (org_id, swap_id, holder, ends_at) VALUES ($1, $2, $3, now() + $4)
		ON CONFLICT (org_id, swap_id) DO UPDATE SET holder = excluded.holder, ends_at = excluded.ends_at
		WHERE t.ends_at <= now()`, t.orgID, t.swapID, t.holder, hold).Exec(func(tag pgconn.CommandTag) error {
		*isMine = tag.RowsAffected() == 1
		return nil
	})
	return isMine
}

// queueEnd queues the statement that ends a turn. wasMine tells whether the turn was still this caller's.
func (t turn) queueEnd(b *pgx.Batch) (wasMine *bool) {
	wasMine = new(bool)
	b.Queue(`DELETE FROM swap_turns WHERE org_id = $1 AND swap_id = $2 AND holder = $3`,
		t.orgID, t.swapID, t.holder).Exec(func(tag pgconn.CommandTag) error {
		*wasMine = tag.RowsAffected() == 1
		return nil
	})
	return wasMine
}

// endTurn ends the turn of a caller that made no swap, for a cause, and returns its answer. If another
// caller made the swap meanwhile, that swap is the answer.
func (s *Service) endTurn(
	ctx context.Context, t turn, cause error, hash string,
) (w Swap, isKnown bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), turnEndMax)
	defer cancel()
	var wasMine, isMade *bool
	err = s.DB.InOrg(ctx, t.orgID, func(ctx context.Context, tx pg.Tx) error {
		var b pgx.Batch
		wasMine, isMade = t.queueEnd(&b), queueIsKnown(&b, t.orgID, hash)
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return fmt.Errorf("end the turn of swap %s: %w", t.swapID, err)
		}
		return nil
	})
	if err == nil && *isMade {
		w, err = s.loadByHash(ctx, t.orgID, hash)
	}
	switch {
	case err != nil && fault.Find(cause) == nil:
		// It may be a commit of which no one knows whether it happened.
		return Swap{}, false, fmt.Errorf("%w, and the end of its turn: %v", cause, err)
	case err != nil:
		// The cause may be a refusal, which would say that there is no swap.
		return Swap{}, false, fmt.Errorf("after %v: %w", cause, err)
	case *isMade:
		return w, true, nil
	case !*wasMine:
		return Swap{}, false, fmt.Errorf("%w, after %w", newTurnLost(), cause)
	}
	return Swap{}, false, cause
}

// newTurnLost is the answer of a caller whose turn another one may have taken: the swap may exist or not.
func newTurnLost() error {
	return fault.New(fault.Unavailable, fault.CodeUnavailable, fault.Unknown,
		"The request took too long, and another one with its idempotencyKey may have made the swap.").
		WithStep(fault.RepeatWithSameKey)
}

// keepTurn prolongs a turn until ctx ends. It stops the work if the turn is lost.
func (s *Service) keepTurn(ctx context.Context, t turn, stop context.CancelCauseFunc) {
	tick := time.NewTicker(s.conf.TurnHold / turnRenewals)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		isMine := false
		err := s.DB.InOrg(ctx, t.orgID, func(ctx context.Context, tx pg.Tx) error {
			tag, err := tx.Exec(ctx, `
				UPDATE swap_turns SET ends_at = now() + $4 WHERE org_id = $1 AND swap_id = $2 AND holder = $3`,
				t.orgID, t.swapID, t.holder, s.conf.TurnHold)
			isMine = tag.RowsAffected() == 1
			return err
		})
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.Log.WarnContext(ctx, "swap: a turn is not prolonged", "swap", t.swapID, "error", err)
		case !isMine:
			stop(newTurnLost())
			return
		}
	}
}

// pruneTurns deletes the turns that crashes left.
func (s *Service) pruneTurns(ctx context.Context) error {
	return s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM swap_turns WHERE ends_at <= now()`); err != nil {
			return fmt.Errorf("delete the turns that are over: %w", err)
		}
		return nil
	})
}
