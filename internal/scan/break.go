package scan

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/finality"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/pg"
)

// parted is called when the final chain does not continue the block that was
// walked. Only an agreed final block with another hash at that very height
// proves that finality broke: providers that contradict one another do not.
// Then nothing goes out on this chain any more, and who has built on what is
// gone is told how far back that goes.
func (w *Walker) parted(ctx context.Context, at chain.Block) error {
	c, err := w.conf.Reader.Final(ctx, at.Height)
	if err != nil {
		return fmt.Errorf("block %d does not continue the chain that was walked; read it again: %w", at.Height, err)
	}
	walked, err := w.walked(ctx, at)
	if err != nil {
		return err
	}
	if c.Hash == walked {
		return fmt.Errorf("what follows block %d does not name it as its parent: %w", at.Height, chain.ErrDisagreement)
	}
	detail := fmt.Sprintf("block %d was final as %s and is now final as %s", at.Height, walked, c.Hash)
	broken := fmt.Errorf("%s: %w", detail, ErrFinalityBroken)
	// First and alone: it needs nothing that could fail for another reason.
	err = w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := w.stop(ctx, tx, detail); err != nil {
			return err
		}
		return note(ctx, tx, w.conf.Chain, c.Block, finding{kind: finalityBroken, detail: detail})
	})
	if err != nil {
		return fmt.Errorf("freeze %s because its finality broke: %w", w.conf.Chain, err)
	}
	if err := w.mark(ctx, detail); err != nil {
		return fmt.Errorf("%w; how far back is not known yet: %w", broken, err)
	}
	return broken
}

func (w *Walker) stop(ctx context.Context, tx pg.Tx, why string) error {
	return freeze.Put(ctx, tx, freeze.Freeze{Scope: freeze.Chain, Chain: w.conf.Chain, Source: freeze.ByFinality, Reason: why})
}

// mark writes down above which block the chain has parted and tells who has
// built on it, once for each way in which it has.
func (w *Walker) mark(ctx context.Context, detail string) error {
	marked, err := w.marked(ctx)
	if err != nil {
		return err
	}
	if told := w.told.Load(); marked && told != nil && *told == detail {
		return nil
	}
	fork, err := w.Parting(ctx)
	if err != nil {
		return err
	}
	err = w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := w.hold(ctx, tx, fork.Cursor); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE scan_cursors SET parted_above = least(parted_above, $2) WHERE chain = $1`,
			w.conf.Chain, fork.Ancestor.Height)
		if err != nil {
			return fmt.Errorf("mark %s as parted above block %d: %w", w.conf.Chain, fork.Ancestor.Height, err)
		}
		for _, c := range w.conf.Concerned {
			if err := c.Parted(ctx, tx, w.conf.Chain, fork.Ancestor.Height); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		w.told.Store(&detail)
	}
	return err
}

func (w *Walker) marked(ctx context.Context) (marked bool, err error) {
	err = w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT parted_above IS NOT NULL FROM scan_cursors WHERE chain = $1`, w.conf.Chain).Scan(&marked)
	})
	if err != nil {
		return false, fmt.Errorf("ask whether %s is marked as parted: %w", w.conf.Chain, err)
	}
	return marked, nil
}

// hold locks the cursor against everybody, if it still stands where it was read.
func (w *Walker) hold(ctx context.Context, tx pg.Tx, at chain.Block) error {
	var now chain.Block
	err := tx.QueryRow(ctx, `SELECT height, hash FROM scan_cursors WHERE chain = $1 FOR UPDATE`, w.conf.Chain).Scan(&now.Height, &now.Hash)
	if err != nil {
		return fmt.Errorf("lock the cursor of %s: %w", w.conf.Chain, err)
	}
	if now.Height != at.Height || now.Hash != at.Hash {
		return errMoved
	}
	return nil
}

// walked is the hash under which a height was final for us.
func (w *Walker) walked(ctx context.Context, at chain.Block) (hash string, err error) {
	hash = at.Hash
	err = w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		err := tx.QueryRow(ctx, `SELECT hash FROM finality_live WHERE chain = $1 AND height = $2`, w.conf.Chain, at.Height).Scan(&hash)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // the block of the first start has no proof
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read the proof of block %d: %w", at.Height, err)
	}
	return hash, nil
}

// Parting is where the final chain left the one that was walked.
type Parting struct {
	Cursor   chain.Block // where the walk stands
	Ancestor chain.Block // the last block that both have
	Tip      chain.Block // the last block that was walked; not below the cursor unless a person set that back
	Final    chain.Block // the final head that the providers name now
}

// Parting looks where the final chain leaves the one that was walked. Errors: an
// INVALID_STATE fault when it does not, or when it does so below the block that
// the first start began at; what Reader gives.
func (w *Walker) Parting(ctx context.Context) (Parting, error) {
	var p Parting
	var low chain.Block // of the first proof that counts
	err := w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT c.height, c.hash, t.height, t.hash, l.height, l.hash, l.parent
			FROM scan_cursors c
			CROSS JOIN LATERAL (SELECT height, hash FROM finality_live WHERE chain = c.chain ORDER BY height DESC LIMIT 1) t
			CROSS JOIN LATERAL (SELECT height, hash, parent FROM finality_live WHERE chain = c.chain ORDER BY height LIMIT 1) l
			WHERE c.chain = $1`, w.conf.Chain).
			Scan(&p.Cursor.Height, &p.Cursor.Hash, &p.Tip.Height, &p.Tip.Hash, &low.Height, &low.Hash, &low.Parent)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return p, fault.New(fault.Conflict, fault.InvalidState, "No final block of %s was walked yet, so none can be gone.", w.conf.Chain)
	}
	if err != nil {
		return p, fmt.Errorf("read what was walked of %s: %w", w.conf.Chain, err)
	}
	heads, err := w.conf.Reader.Heads(ctx)
	if err != nil {
		return p, fmt.Errorf("ask for the heads: %w", err)
	}
	p.Final = heads.Final
	if p.Final.Height+1 < low.Height {
		return p, fmt.Errorf("the final head %d is below the first block that was walked, %d: %w", p.Final.Height, low.Height, chain.ErrNotYet)
	}

	// both tells whether the last block that was walked at or below a height is on the
	// final chain.
	both := func(height uint64) (b chain.Block, same bool, err error) {
		b = chain.Block{Height: low.Height - 1, Hash: low.Parent} // below the first proof
		if height >= low.Height {
			if b, err = w.below(ctx, height); err != nil {
				return b, false, err
			}
		}
		c, err := w.conf.Reader.Final(ctx, b.Height)
		if err != nil {
			return b, false, fmt.Errorf("read final block %d: %w", b.Height, err)
		}
		return b, c.Hash == b.Hash || height < low.Height && c.Parent == b.Hash, nil
	}
	// Downwards in growing steps to a block that both have, then between that and
	// the lowest one that is known to differ.
	differs := min(p.Tip.Height, p.Final.Height) + 1
	for step, height := uint64(1), differs-1; ; step *= 2 {
		b, same, err := both(height)
		if err != nil {
			return p, err
		}
		if same {
			p.Ancestor = b
			break
		}
		if height < low.Height {
			return p, fault.New(fault.Conflict, fault.InvalidState,
				"The final chain of %s has another block %d than the one that this installation began at. Nothing that was walked is on it: there is nothing to return to.",
				w.conf.Chain, height)
		}
		differs = b.Height
		height = max(low.Height-1, b.Height-min(b.Height, step))
	}
	if differs > min(p.Tip.Height, p.Final.Height) {
		return p, fault.New(fault.Conflict, fault.InvalidState,
			"The final chain of %s is the one that was walked, up to block %d. Nothing has to be decided.", w.conf.Chain, p.Ancestor.Height)
	}
	for same := p.Ancestor.Height; differs-same > 1; { // nothing that was walked up to same differs
		height := same + (differs-same)/2
		b, on, err := both(height)
		switch {
		case err != nil:
			return p, err
		case on:
			p.Ancestor, same = b, height
		default:
			differs = b.Height
		}
	}
	c, err := w.conf.Reader.Final(ctx, p.Ancestor.Height+1)
	if err != nil {
		return p, fmt.Errorf("read the final block after %d: %w", p.Ancestor.Height, err)
	}
	if c.Parent != p.Ancestor.Hash {
		return p, fmt.Errorf("block %d does not stand on block %d: %w", c.Height, p.Ancestor.Height, chain.ErrDisagreement)
	}
	return p, nil
}

// below is the last block at or below a height that was walked and still counts.
func (w *Walker) below(ctx context.Context, height uint64) (b chain.Block, err error) {
	err = w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT height, hash FROM finality_live WHERE chain = $1 AND height <= $2 ORDER BY height DESC LIMIT 1`, w.conf.Chain, height).
			Scan(&b.Height, &b.Hash)
	})
	if err != nil {
		return b, fmt.Errorf("read the proof of block %d or the one below: %w", height, err)
	}
	return b, nil
}

// Repoint makes the final walk go on along the chain that is final now: every
// proof above the ancestor is dead, and whoever has built on one is told. What
// the new fork does not have wait blocks above the old tip is gone for good. The
// chain stays frozen. Error: an INVALID_STATE fault when the walk does not stand
// where the parting was seen; nothing was changed then.
func (w *Walker) Repoint(ctx context.Context, p Parting, wait uint64, by audit.Actor) (b finality.Break, err error) {
	reason := fmt.Sprintf("block %d was final as %s, and the final chain leaves it above block %d", p.Tip.Height, p.Tip.Hash, p.Ancestor.Height)
	err = w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := w.hold(ctx, tx, p.Cursor); err != nil {
			return err
		}
		if err := w.stop(ctx, tx, reason); err != nil {
			return err
		}
		b, err = finality.Record(ctx, tx, finality.Break{
			Chain: w.conf.Chain, Ancestor: p.Ancestor, Tip: p.Tip, Settle: p.Tip.Height + wait,
			Reason: reason, DecidedBy: by.Kind + " " + by.ID,
		})
		if err != nil {
			return err
		}
		to := p.Ancestor
		if p.Cursor.Height < to.Height {
			to = p.Cursor // a person has set it back to read blocks again
		}
		_, err := tx.Exec(ctx, `UPDATE scan_cursors SET height = $2, hash = $3, updated_at = $4, parted_above = NULL WHERE chain = $1`,
			w.conf.Chain, to.Height, to.Hash, tx.Now)
		if err != nil {
			return fmt.Errorf("set the cursor to block %d: %w", to.Height, err)
		}
		for _, c := range w.conf.Concerned {
			if err := c.Broken(ctx, tx, b); err != nil {
				return err
			}
		}
		return audit.Record(ctx, tx, audit.Entry{
			Actor: by, Action: "chain.repointed", ResourceKind: "CHAIN", ResourceID: string(w.conf.Chain),
			Detail: map[string]any{
				"fork": b.Fork, "ancestor": b.Ancestor.Height, "ancestorHash": b.Ancestor.Hash,
				"tip": b.Tip.Height, "tipHash": b.Tip.Hash, "settle": b.Settle,
			},
		})
	})
	if errors.Is(err, errMoved) {
		return b, fault.New(fault.Conflict, fault.InvalidState, "The walk of %s was moved meanwhile; nothing was changed. Look again.", w.conf.Chain)
	}
	if err != nil {
		return b, fmt.Errorf("repoint %s to block %d: %w", w.conf.Chain, p.Ancestor.Height, err)
	}
	w.log.Warn("scan: repointed", "ancestor", b.Ancestor.Height, "tip", b.Tip.Height, "settle", b.Settle, "by", by.ID)
	return b, nil
}
