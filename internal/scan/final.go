package scan

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/crash"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/trace"
)

// Final takes one step of the final walk: at most one block. moved is false
// when there is nothing new. Errors: chain.ErrUndecodable and
// chain.ErrDisagreement stop the walk where it is until they are gone;
// ErrFinalityBroken until a person has decided.
func (w *Walker) Final(ctx context.Context) (moved bool, err error) {
	at, ok, err := w.cursor(ctx)
	if err != nil {
		return false, err
	}
	if !ok {
		return w.open(ctx)
	}
	if w.final.Load() <= at.Height {
		heads, err := w.conf.Reader.Heads(ctx)
		switch {
		case errors.Is(err, chain.ErrNotYet):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("ask for the heads: %w", err)
		case heads.Final.Height == at.Height && heads.Final.Hash != at.Hash:
			return false, w.parted(ctx, at)
		case heads.Final.Height <= at.Height:
			// Nothing new, or providers that are behind what we have seen.
			return false, nil
		}
		w.final.Store(heads.Final.Height)
	}

	ctx, span := trace.Start(ctx, "scan walk")
	span.Say("chain", string(w.conf.Chain))
	defer func() { span.End(err) }()
	proving, proof := trace.Start(ctx, "scan prove")
	c, err := w.conf.Reader.Final(proving, at.Height+1)
	proof.End(err)
	switch {
	case errors.Is(err, chain.ErrNotYet):
		w.final.Store(at.Height) // ask for the heads again
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read final block %d: %w", at.Height+1, err)
	case c.Height != at.Height+1:
		return false, fmt.Errorf("read final block %d: got block %d", at.Height+1, c.Height)
	case c.Parent != at.Hash:
		return false, w.parted(ctx, at)
	}
	if len(c.Transfers) > 0 {
		crash.Point("D01") // a block without movements has nothing to lose
	}

	found, err := w.match(ctx, c)
	if err != nil {
		return false, err
	}
	findings, err := w.weigh(ctx, c, found)
	if err != nil {
		return false, err
	}
	err = w.advance(ctx, at, c, found, findings)
	switch {
	case errors.Is(err, errMoved):
		return true, nil
	case errors.Is(err, ErrFinalityBroken):
		return false, w.parted(ctx, c.Block)
	case err != nil:
		return false, fmt.Errorf("take in final block %d: %w", c.Height, err)
	}
	if len(found) > 0 {
		crash.Point("D03")
	}
	for _, f := range findings {
		w.log.Warn("scan: finding", "kind", f.kind, "height", c.Height, "hash", c.Hash,
			"address", string(f.holding.Address), "contract", string(f.holding.Contract), "detail", f.detail)
	}
	return true, nil
}

// open sets the cursor at the first start.
func (w *Walker) open(ctx context.Context) (moved bool, err error) {
	heads, err := w.conf.Reader.Heads(ctx)
	if errors.Is(err, chain.ErrNotYet) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask for the heads: %w", err)
	}
	at := heads.Final
	if w.conf.Start != nil {
		c, err := w.conf.Reader.Final(ctx, *w.conf.Start)
		if errors.Is(err, chain.ErrNotYet) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read the block to start at, %d: %w", *w.conf.Start, err)
		}
		at = c.Block
	}
	err = w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO scan_cursors (chain, height, hash, updated_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (chain) DO NOTHING`, w.conf.Chain, at.Height, at.Hash, tx.Now)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("open the cursor of %s: %w", w.conf.Chain, err)
	}
	w.log.Info("scan: first start", "height", at.Height, "hash", at.Hash)
	return true, nil
}

// advance moves the cursor over a block and tells the listener, all or nothing.
// The compare-and-swap lets one of several walkers take the block.
func (w *Walker) advance(ctx context.Context, at chain.Block, c chain.Contents, found []Found, findings []finding) error {
	return w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		moved, err := tx.Exec(ctx, `
			UPDATE scan_cursors SET height = $4, hash = $5, updated_at = $6, parted_above = NULL
			WHERE chain = $1 AND height = $2 AND hash = $3`,
			w.conf.Chain, at.Height, at.Hash, c.Height, c.Hash, tx.Now)
		if err != nil {
			return fmt.Errorf("move the cursor: %w", err)
		}
		if moved.RowsAffected() == 0 {
			return errMoved
		}
		proof := Proof{Chain: w.conf.Chain, Block: c.Block}
		if proof.ID, err = prove(ctx, tx, w.conf.Chain, c); err != nil {
			return err
		}
		for _, f := range findings {
			if f.doubtful {
				if err := mint.Quarantine(ctx, tx, f.mint, BalanceDelta); err != nil {
					return err
				}
			}
		}
		if err := w.listener.Observed(ctx, tx, proof, found); err != nil {
			return err
		}
		if len(found) > 0 {
			crash.Point("D02")
		}
		for _, f := range findings {
			if err := note(ctx, tx, w.conf.Chain, c.Block, f); err != nil {
				return err
			}
		}
		if len(found) > 0 {
			crash.Committing("D03")
		}
		return nil
	})
}

// prove writes the proof that a block is final, or finds the one of an earlier
// walk over the same height that is still alive. Another hash there is a broken
// finality. The cursor is locked, so nobody else proves or breaks meanwhile.
func prove(ctx context.Context, tx pg.Tx, ch chain.Name, c chain.Contents) (proofID int64, err error) {
	var hash string
	err = tx.QueryRow(ctx, `SELECT proof_id, hash FROM finality_live WHERE chain = $1 AND height = $2`, ch, c.Height).
		Scan(&proofID, &hash)
	switch {
	case err == nil && hash != c.Hash:
		return 0, fmt.Errorf("block %d was %s and is %s: %w", c.Height, hash, c.Hash, ErrFinalityBroken)
	case err == nil:
		return proofID, nil
	case !errors.Is(err, pgx.ErrNoRows):
		return 0, fmt.Errorf("read the proof of block %d: %w", c.Height, err)
	}
	err = tx.QueryRow(ctx, `
		INSERT INTO finality_proofs (chain, height, hash, parent, block_time, providers, verified, created_at, fork)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, (SELECT coalesce(max(fork), 0) FROM finality_breaks WHERE chain = $1))
		RETURNING proof_id`,
		ch, c.Height, c.Hash, c.Parent, c.Time, c.Providers, c.Verified, tx.Now).Scan(&proofID)
	if err != nil {
		return 0, fmt.Errorf("write the proof of block %d: %w", c.Height, err)
	}
	return proofID, nil
}

func note(ctx context.Context, tx pg.Tx, ch chain.Name, b chain.Block, f finding) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO scan_findings (chain, kind, height, hash, address, contract, detail, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (chain, height, kind, address, contract) DO NOTHING`,
		ch, f.kind, b.Height, b.Hash, f.holding.Address, f.holding.Contract, f.detail, tx.Now)
	if err != nil {
		return fmt.Errorf("write the finding %s at block %d: %w", f.kind, b.Height, err)
	}
	return nil
}

// Rewind sets the final walk back to a block that it has walked, so that it
// reads everything after it again. What is already known does not change.
func (w *Walker) Rewind(ctx context.Context, height uint64, by audit.Actor) error {
	err := w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		moved, err := tx.Exec(ctx, `
			UPDATE scan_cursors c SET height = p.height, hash = p.hash, updated_at = $3
			FROM finality_live p
			WHERE c.chain = $1 AND p.chain = $1 AND p.height = $2 AND p.height <= c.height`,
			w.conf.Chain, height, tx.Now)
		if err != nil {
			return err
		}
		if moved.RowsAffected() == 0 {
			return fmt.Errorf("block %d was not walked", height)
		}
		return audit.Record(ctx, tx, audit.Entry{
			Actor: by, Action: "scan.rewound", ResourceKind: "CHAIN", ResourceID: string(w.conf.Chain),
			Detail: map[string]uint64{"height": height},
		})
	})
	if err != nil {
		return fmt.Errorf("rewind %s to block %d: %w", w.conf.Chain, height, err)
	}
	w.log.Info("scan: rewound", "height", height, "by", by.ID)
	return nil
}
