package scan

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// handleParentMismatch handles a final block that does not continue the last walked block. Only an
// agreed final block with another hash at the same height proves that finality broke; providers
// that contradict one another do not. If it broke, outgoing payments of the chain are frozen, and
// the finality listeners learn how far back the fork goes. Rule DEP-11.
func (w *Walker) handleParentMismatch(ctx context.Context, cursor chain.Block) error {
	c, err := w.conf.Reader.Final(ctx, cursor.Height)
	if err != nil {
		return fmt.Errorf(
			"block %d does not continue the chain that the scan has read; read it again: %w",
			cursor.Height, err,
		)
	}
	provenHash, err := w.loadProvenHash(ctx, cursor)
	if err != nil {
		return err
	}
	if c.Hash == provenHash {
		return fmt.Errorf(
			"the block after block %d does not name it as its parent: %w", cursor.Height, chain.ErrDisagreement,
		)
	}
	detail := fmt.Sprintf("block %d was final as %s and is now final as %s", cursor.Height, provenHash, c.Hash)
	broken := fmt.Errorf("%s: %w", detail, ErrFinalityBroken)
	// The freeze comes first and alone: it needs nothing that could fail for another reason.
	err = w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := w.freezeChain(ctx, tx, detail); err != nil {
			return err
		}
		return recordFinding(ctx, tx, w.conf.Chain, c.Block, finding{kind: findingFinalityBroken, detail: detail})
	})
	if err != nil {
		return fmt.Errorf("freeze %s after its finality break: %w", w.conf.Chain, err)
	}
	if err := w.recordFork(ctx, detail); err != nil {
		return fmt.Errorf("%w; the fork's height is not known yet: %w", broken, err)
	}
	return broken
}

func (w *Walker) freezeChain(ctx context.Context, tx pg.Tx, reason string) error {
	return freeze.Create(
		ctx, tx,
		freeze.Freeze{Scope: freeze.ScopeChain, Chain: w.conf.Chain, Source: freeze.SourceFinality, Reason: reason},
	)
}

// recordFork records above which block the chain parted and notifies the finality listeners. A
// process does so once for each detail.
func (w *Walker) recordFork(ctx context.Context, detail string) error {
	isRecorded, err := w.isForkRecorded(ctx)
	if err != nil {
		return err
	}
	if reported := w.reportedFork.Load(); isRecorded && reported != nil && *reported == detail {
		return nil
	}
	fork, err := w.FindFork(ctx)
	if err != nil {
		return err
	}
	err = w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		// A decision about a flagged deposit shares this lock before it holds the cursor.
		if err := freeze.LockExclusive(ctx, tx); err != nil {
			return err
		}
		if err := w.lockCursor(ctx, tx, fork.Cursor); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE scan_cursors SET forked_above = least(forked_above, $2) WHERE chain = $1`,
			w.conf.Chain, fork.Ancestor.Height)
		if err != nil {
			return fmt.Errorf("mark a fork of %s above block %d: %w", w.conf.Chain, fork.Ancestor.Height, err)
		}
		for _, c := range w.conf.FinalityListeners {
			if err := c.OnForked(ctx, tx, w.conf.Chain, fork.Ancestor.Height); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		w.reportedFork.Store(&detail)
	}
	return err
}

func (w *Walker) isForkRecorded(ctx context.Context) (isRecorded bool, err error) {
	err = w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(
			ctx, `SELECT forked_above IS NOT NULL FROM scan_cursors WHERE chain = $1`, w.conf.Chain,
		).Scan(&isRecorded)
	})
	if err != nil {
		return false, fmt.Errorf("read whether %s has a fork: %w", w.conf.Chain, err)
	}
	return isRecorded, nil
}

// lockCursor locks the cursor exclusively. It returns errCursorMoved if the cursor is not at the
// expected block.
func (w *Walker) lockCursor(ctx context.Context, tx pg.Tx, expected chain.Block) error {
	var current chain.Block
	err := tx.QueryRow(
		ctx, `SELECT height, hash FROM scan_cursors WHERE chain = $1 FOR UPDATE`, w.conf.Chain,
	).Scan(&current.Height, &current.Hash)
	if err != nil {
		return fmt.Errorf("lock the cursor of %s: %w", w.conf.Chain, err)
	}
	if current.Height != expected.Height || current.Hash != expected.Hash {
		return errCursorMoved
	}
	return nil
}

// loadProvenHash returns the hash with which a height was proven final.
func (w *Walker) loadProvenHash(ctx context.Context, block chain.Block) (hash string, err error) {
	hash = block.Hash
	err = w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		err := tx.QueryRow(
			ctx, `SELECT hash FROM finality_live WHERE chain = $1 AND height = $2`, w.conf.Chain, block.Height,
		).Scan(&hash)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // the block of the first start has no proof
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read the proof of block %d: %w", block.Height, err)
	}
	return hash, nil
}

// Fork describes where the final chain left the walked one.
type Fork struct {
	Cursor   chain.Block // where the cursor is
	Ancestor chain.Block // the last block that both chains have
	Tip      chain.Block // the last walked block; above the cursor if a person rewound the walk
	Final    chain.Block // the final block that the providers name now
}

// FindFork finds where the final chain leaves the walked one. Errors: an INVALID_STATE fault if it
// does not leave it, or leaves it below the block at which the first start began; the errors of
// Reader.
func (w *Walker) FindFork(ctx context.Context) (Fork, error) {
	var fork Fork
	var firstProven chain.Block // the first proof that is alive
	err := w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT c.height, c.hash, t.height, t.hash, l.height, l.hash, l.parent
			FROM scan_cursors c
			CROSS JOIN LATERAL (SELECT height, hash FROM finality_live WHERE chain = c.chain ORDER BY height DESC LIMIT 1) t
			CROSS JOIN LATERAL (SELECT height, hash, parent FROM finality_live WHERE chain = c.chain ORDER BY height LIMIT 1) l
			WHERE c.chain = $1`, w.conf.Chain).
			Scan(
				&fork.Cursor.Height, &fork.Cursor.Hash, &fork.Tip.Height, &fork.Tip.Hash, &firstProven.Height,
				&firstProven.Hash, &firstProven.Parent,
			)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return fork, fault.New(
			fault.Conflict, fault.InvalidState, fault.NothingWritten, "The scan has read no final block of %s "+
				"yet, so the chain cannot "+
				"have replaced any.",
			w.conf.Chain,
		)
	}
	if err != nil {
		return fork, fmt.Errorf("read the scanned blocks of %s: %w", w.conf.Chain, err)
	}
	heads, err := w.conf.Reader.Heads(ctx)
	if err != nil {
		return fork, fmt.Errorf("ask for the heads: %w", err)
	}
	fork.Final = heads.Final
	if fork.Final.Height+1 < firstProven.Height {
		return fork, fmt.Errorf(
			"the final head %d is below the first scanned block, %d: %w", fork.Final.Height,
			firstProven.Height, chain.ErrNotYet,
		)
	}

	// compareBlock reports whether the last walked block at or below a height is on the final
	// chain.
	compareBlock := func(height uint64) (b chain.Block, shared bool, err error) {
		b = chain.Block{Height: firstProven.Height - 1, Hash: firstProven.Parent} // below the first proof
		if height >= firstProven.Height {
			if b, err = w.provenBlockBelow(ctx, height); err != nil {
				return b, false, err
			}
		}
		c, err := w.conf.Reader.Final(ctx, b.Height)
		if err != nil {
			return b, false, fmt.Errorf("read final block %d: %w", b.Height, err)
		}
		return b, c.Hash == b.Hash || height < firstProven.Height && c.Parent == b.Hash, nil
	}
	// Search downwards in growing steps for a shared block, then bisect between that block and the
	// lowest one that is known to differ.
	differs := min(fork.Tip.Height, fork.Final.Height) + 1
	for step, height := uint64(1), differs-1; ; step *= 2 {
		b, shared, err := compareBlock(height)
		if err != nil {
			return fork, err
		}
		if shared {
			fork.Ancestor = b
			break
		}
		if height < firstProven.Height {
			return fork, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"The final chain of %s has another block %d than the one at which this installation began. It has "+
					"none of the scanned blocks: there is no block to return to.",
				w.conf.Chain, height)
		}
		differs = b.Height
		height = max(firstProven.Height-1, b.Height-min(b.Height, step))
	}
	if differs > min(fork.Tip.Height, fork.Final.Height) {
		return fork, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"The final chain of %s is the scanned one, up to block %d. There is nothing to decide.",
			w.conf.Chain, fork.Ancestor.Height)
	}
	for shared := fork.Ancestor.Height; differs-shared > 1; { // all walked blocks up to shared are on both chains
		height := shared + (differs-shared)/2
		b, matches, err := compareBlock(height)
		switch {
		case err != nil:
			return fork, err
		case matches:
			fork.Ancestor, shared = b, height
		default:
			differs = b.Height
		}
	}
	c, err := w.conf.Reader.Final(ctx, fork.Ancestor.Height+1)
	if err != nil {
		return fork, fmt.Errorf("read the final block after %d: %w", fork.Ancestor.Height, err)
	}
	if c.Parent != fork.Ancestor.Hash {
		return fork, fmt.Errorf(
			"block %d does not stand on block %d: %w", c.Height, fork.Ancestor.Height, chain.ErrDisagreement,
		)
	}
	return fork, nil
}

// provenBlockBelow returns the last block at or below a height whose proof is alive.
func (w *Walker) provenBlockBelow(ctx context.Context, height uint64) (b chain.Block, err error) {
	err = w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(
			ctx,
			`SELECT height, hash FROM finality_live WHERE chain = $1 AND height <= $2 ORDER BY height DESC LIMIT 1`,
			w.conf.Chain, height,
		).
			Scan(&b.Height, &b.Hash)
	})
	if err != nil {
		return b, fmt.Errorf("read the proof of block %d or the one below: %w", height, err)
	}
	return b, nil
}

// Repoint continues the final walk on the chain that is final now. Every proof above the ancestor
// is dead, and the finality listeners are notified. What the new fork does not show up to
// settleBlocks above the old tip counts as gone. The chain stays frozen. Error: an INVALID_STATE
// fault if the cursor has moved since the fork was found; nothing was changed then. Rule DEP-20.
func (w *Walker) Repoint(
	ctx context.Context, fork Fork, settleBlocks uint64, actor audit.Actor,
) (b finality.Break, err error) {
	reason := fmt.Sprintf(
		"block %d was final as %s, and the final chain has a fork above block %d", fork.Tip.Height, fork.Tip.Hash,
		fork.Ancestor.Height,
	)
	err = w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		// The lock of the freeze comes before the cursor, as where a fork is recorded.
		if err := freeze.LockExclusive(ctx, tx); err != nil {
			return err
		}
		if err := w.lockCursor(ctx, tx, fork.Cursor); err != nil {
			return err
		}
		if err := w.freezeChain(ctx, tx, reason); err != nil {
			return err
		}
		b, err = finality.RecordBreak(ctx, tx, finality.Break{
			Chain: w.conf.Chain, Ancestor: fork.Ancestor, Tip: fork.Tip, SettleHeight: fork.Tip.Height + settleBlocks,
			Reason: reason, DecidedBy: actor.Kind + " " + actor.ID,
		})
		if err != nil {
			return err
		}
		target := fork.Ancestor
		if fork.Cursor.Height < target.Height {
			target = fork.Cursor // a person rewound the cursor to read blocks again
		}
		_, err := tx.Exec(ctx,
			`UPDATE scan_cursors SET height = $2, hash = $3, updated_at = $4, forked_above = NULL WHERE chain = $1`,
			w.conf.Chain, target.Height, target.Hash, tx.Now)
		if err != nil {
			return fmt.Errorf("set the cursor to block %d: %w", target.Height, err)
		}
		for _, c := range w.conf.FinalityListeners {
			if err := c.OnBroken(ctx, tx, b); err != nil {
				return err
			}
		}
		return audit.Record(ctx, tx, audit.Entry{
			Actor: actor, Action: "chain.repointed", ResourceKind: "CHAIN", ResourceID: string(w.conf.Chain),
			Detail: map[string]any{
				"fork": b.Fork, "ancestor": b.Ancestor.Height, "ancestorHash": b.Ancestor.Hash,
				"tip": b.Tip.Height, "tipHash": b.Tip.Hash, "settle": b.SettleHeight,
			},
		})
	})
	if errors.Is(err, errCursorMoved) {
		return b, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"Another process moved the scan of %s.", w.conf.Chain).WithAdvice("Look again.")
	}
	if err != nil {
		return b, fmt.Errorf("repoint %s to block %d: %w", w.conf.Chain, fork.Ancestor.Height, err)
	}
	w.log.Warn(
		"scan: repointed", "ancestor", b.Ancestor.Height, "tip", b.Tip.Height, "settle", b.SettleHeight, "by", actor.ID,
	)
	return b, nil
}
