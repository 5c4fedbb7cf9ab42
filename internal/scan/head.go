package scan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// StepHead takes one step of the head walk: one block forward, one rewind, or one restart. moved is
// false if there is no new block. There is no head walk until the final cursor exists.
func (w *Walker) StepHead(ctx context.Context) (moved bool, err error) {
	final, ok, err := w.readCursor(ctx)
	if err != nil || !ok {
		return false, err
	}
	rows, err := w.loadRecentBlocks(ctx)
	if err != nil {
		return false, err
	}
	askedAt := w.db.Clock()()
	heads, err := w.conf.Reader.Heads(ctx)
	if errors.Is(err, chain.ErrNotYet) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask for the heads: %w", err)
	}
	latest := heads.Latest

	base := final.Height
	if latest.Height > w.conf.HeadDepth {
		base = max(base, latest.Height-w.conf.HeadDepth)
	}
	if len(rows) == 0 || rows[0].Height < base {
		if latest.Height < final.Height {
			// The provider is behind the final block. A provider that is stuck would hide all new
			// blocks.
			w.conf.Reader.Demote()
			return false, nil
		}
		return w.restartHead(ctx, rows, final, base)
	}
	top := rows[0]
	if stored := blockAtHeight(rows, final.Height); stored != nil && stored.Hash != final.Hash {
		// The final block is not the one that the head walk followed.
		return w.rewindHead(ctx, top, final.Height)
	}
	if latest.Height <= top.Height {
		shown := blockAtHeight(rows, latest.Height)
		if shown == nil || shown.Hash == latest.Hash {
			if latest.Height < top.Height {
				return false, nil // a provider that is behind
			}
			return false, w.storeCaughtUp(ctx, askedAt)
		}
		return w.followFork(ctx, rows, final, latest)
	}

	c, err := w.conf.Reader.Recent(ctx, top.Height+1)
	switch {
	case errors.Is(err, chain.ErrNotYet):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read recent block %d: %w", top.Height+1, err)
	case c.Parent != top.Hash:
		return w.followFork(ctx, rows, final, latest)
	}
	w.addRecentTransfers(ctx, &c)
	arrivals, _, err := w.matchArrivals(ctx, c)
	if err != nil {
		return false, err
	}
	moved, err = w.changeHead(ctx, &top, fmt.Sprintf("apply recent block %d", c.Height),
		func(ctx context.Context, tx pg.Tx) error {
			if err := w.storeRecentBlock(ctx, tx, c.Block); err != nil {
				return err
			}
			keep := final.Height
			if c.Height > w.conf.HeadDepth {
				keep = max(keep, c.Height-w.conf.HeadDepth)
			}
			if _, err := tx.Exec(
				ctx, `DELETE FROM scan_heads WHERE chain = $1 AND height < $2`, w.conf.Chain, keep,
			); err != nil {
				return err
			}
			return w.listener.OnRecent(ctx, tx, w.conf.Chain, c.Block, arrivals)
		})
	if err == nil && moved && c.Height == latest.Height {
		err = w.storeCaughtUp(ctx, askedAt)
	}
	return moved, err
}

// caughtUpInterval is how often the head walk stores that it has the newest block.
const caughtUpInterval = 5 * time.Second

// storeCaughtUp stores that the head walk had the newest block at a time: the one at which it asked for it. What is
// awaited until a time is given up only once a walk has looked after that time.
func (w *Walker) storeCaughtUp(ctx context.Context, askedAt time.Time) error {
	last := w.caughtUpAt.Load()
	if last != 0 && askedAt.Sub(time.UnixMilli(last)) < caughtUpInterval {
		return nil
	}
	err := w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO scan_head_times (chain, caught_up_at) VALUES ($1, $2)
			ON CONFLICT (chain) DO UPDATE
			SET caught_up_at = greatest(scan_head_times.caught_up_at, excluded.caught_up_at)`,
			w.conf.Chain, askedAt)
		return err
	})
	if err != nil {
		return fmt.Errorf("store that the recent blocks of %s are known: %w", w.conf.Chain, err)
	}
	w.caughtUpAt.Store(askedAt.UnixMilli())
	return nil
}

// loadRecentBlocks returns the recent blocks, newest first. There are at most HeadDepth+1 of them.
func (w *Walker) loadRecentBlocks(ctx context.Context) (rows []chain.Block, err error) {
	err = w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		result, err := tx.Query(
			ctx, `SELECT height, hash, parent FROM scan_heads WHERE chain = $1 ORDER BY height DESC`, w.conf.Chain,
		)
		if err != nil {
			return err
		}
		rows, err = pgx.CollectRows(result, func(row pgx.CollectableRow) (b chain.Block, err error) {
			err = row.Scan(&b.Height, &b.Hash, &b.Parent)
			return b, err
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the recent blocks of %s: %w", w.conf.Chain, err)
	}
	return rows, nil
}

func (w *Walker) storeRecentBlock(ctx context.Context, tx pg.Tx, b chain.Block) error {
	_, err := tx.Exec(ctx, `INSERT INTO scan_heads (chain, height, hash, parent) VALUES ($1, $2, $3, $4)`,
		w.conf.Chain, b.Height, b.Hash, b.Parent)
	return err
}

// blockAtHeight returns the stored block of a height, or nil.
func blockAtHeight(rows []chain.Block, height uint64) *chain.Block {
	i := slices.IndexFunc(rows, func(b chain.Block) bool { return b.Height == height })
	if i < 0 {
		return nil
	}
	return &rows[i]
}

// restartHead restarts the head walk at the final cursor. If the cursor is far behind, it starts
// HeadDepth blocks below the latest block.
func (w *Walker) restartHead(ctx context.Context, rows []chain.Block, final chain.Block, base uint64) (bool, error) {
	c := chain.Contents{Block: final}
	var arrivals []Arrival
	if base > final.Height {
		var err error
		if c, err = w.conf.Reader.Recent(ctx, base); errors.Is(err, chain.ErrNotYet) {
			return false, nil
		} else if err != nil {
			return false, fmt.Errorf("read recent block %d: %w", base, err)
		}
		w.addRecentTransfers(ctx, &c)
		if arrivals, _, err = w.matchArrivals(ctx, c); err != nil {
			return false, err
		}
	}
	var top *chain.Block
	if len(rows) > 0 {
		top = &rows[0]
	}
	return w.changeHead(ctx, top, fmt.Sprintf("begin the head scan at block %d", base),
		func(ctx context.Context, tx pg.Tx) error {
			if _, err := tx.Exec(ctx, `DELETE FROM scan_heads WHERE chain = $1`, w.conf.Chain); err != nil {
				return err
			}
			if err := w.storeRecentBlock(ctx, tx, c.Block); err != nil {
				return err
			}
			if len(arrivals) == 0 {
				return nil
			}
			return w.listener.OnRecent(ctx, tx, w.conf.Chain, c.Block, arrivals)
		})
}

// followFork finds the newest stored block that is still on the chain and rewinds to it.
func (w *Walker) followFork(ctx context.Context, rows []chain.Block, final, latest chain.Block) (bool, error) {
	for _, row := range rows {
		if row.Height > latest.Height {
			continue
		}
		if row.Height == final.Height && row.Hash == final.Hash {
			return w.rewindHead(ctx, rows[0], row.Height+1) // no fork goes below the final block
		}
		c, err := w.conf.Reader.Recent(ctx, row.Height)
		if errors.Is(err, chain.ErrNotYet) {
			return false, nil // the chain changes meanwhile: try again
		}
		if err != nil {
			return false, fmt.Errorf("read recent block %d: %w", row.Height, err)
		}
		if c.Hash == row.Hash {
			return w.rewindHead(ctx, rows[0], row.Height+1)
		}
	}
	return w.rewindHead(ctx, rows[0], rows[len(rows)-1].Height)
}

// errContradicted says that a provider's recent blocks contradict each other or the final block.
// Nothing depends on them; another provider is asked next.
var errContradicted = errors.New("recent blocks do not continue those of the same provider, or the final ones")

// rewindHead removes the recent blocks from a height on. If there is nothing to remove, the
// provider contradicts itself, and a retry at once would loop endlessly.
func (w *Walker) rewindHead(ctx context.Context, top chain.Block, from uint64) (bool, error) {
	if from > top.Height {
		w.conf.Reader.Demote()
		return false, fmt.Errorf("after block %d: %w", top.Height, errContradicted)
	}
	failpoint.Hit("D12")
	moved, err := w.changeHead(ctx, &top, fmt.Sprintf("rewind the head scan below block %d", from),
		func(ctx context.Context, tx pg.Tx) error {
			if _, err := tx.Exec(
				ctx, `DELETE FROM scan_heads WHERE chain = $1 AND height >= $2`, w.conf.Chain, from,
			); err != nil {
				return err
			}
			return w.listener.OnOrphaned(ctx, tx, w.conf.Chain, from)
		})
	if err == nil {
		w.forked.Store(true)
		w.log.Info("scan: fork", "from", from, "blocks", top.Height+1-from)
	}
	return moved, err
}

// changeHead runs one change of the head walk, if top is still its newest block. It locks the
// cursor's row before anything else, as the final walk does. So both walks and all walkers wait for
// one another and do not deadlock.
func (w *Walker) changeHead(
	ctx context.Context, top *chain.Block, act string, fn func(context.Context, pg.Tx) error,
) (bool, error) {
	err := w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if _, err := tx.Exec(
			ctx, `SELECT FROM scan_cursors WHERE chain = $1 FOR NO KEY UPDATE`, w.conf.Chain,
		); err != nil {
			return err
		}
		var height uint64
		var hash string
		err := tx.QueryRow(
			ctx, `SELECT height, hash FROM scan_heads WHERE chain = $1 ORDER BY height DESC LIMIT 1`, w.conf.Chain,
		).
			Scan(&height, &hash)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			if top != nil {
				return errCursorMoved
			}
		case err != nil:
			return err
		case top == nil || height != top.Height || hash != top.Hash:
			return errCursorMoved
		}
		return fn(ctx, tx)
	})
	if err != nil && !errors.Is(err, errCursorMoved) {
		return false, fmt.Errorf("%s: %w", act, err)
	}
	return true, nil
}
