package scan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/internal/wallet"
)

// StepFinal takes one step of the final walk: at most one block. moved is false if there is no new
// block. The walk stays at its block
//   - on chain.ErrUndecodable and chain.ErrDisagreement, until they are gone
//   - on ErrFinalityBroken, until a person has decided
//
// Rule DEP-10.
func (w *Walker) StepFinal(ctx context.Context) (moved bool, err error) {
	return w.stepFinalAhead(ctx, &prefetcher{disabled: true})
}

// WalkTo takes steps of the final walk until it has written the block at a height. Then it traces
// what is due. It returns when ctx ends, or at once on a permanent error.
func (w *Walker) WalkTo(ctx context.Context, height uint64) error {
	for {
		cursor, ok, err := w.readCursor(ctx)
		if err == nil && ok && cursor.Height >= height {
			break
		}
		moved := false
		if err == nil {
			moved, err = w.StepFinal(ctx)
		}
		if ctx.Err() != nil || isPermanent(err) {
			return cmp.Or(err, context.Cause(ctx))
		}
		if !moved {
			waitFor(ctx, w.conf.PollInterval)
		}
	}
	for {
		if moved, err := w.StepTraces(ctx); !moved {
			return err
		}
	}
}

// stepFinalAhead does what StepFinal does, with a prefetcher, which reads the next block meanwhile.
func (w *Walker) stepFinalAhead(ctx context.Context, prefetch *prefetcher) (moved bool, err error) {
	w.reviewCatalogue(ctx)
	cursor, ok, err := w.readCursor(ctx)
	if err != nil {
		return false, err
	}
	if !ok {
		return w.openCursor(ctx)
	}
	if w.final.Load() <= cursor.Height {
		heads, err := w.conf.Reader.Heads(ctx)
		switch {
		case errors.Is(err, chain.ErrNotYet):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("ask for the heads: %w", err)
		case heads.Final.Height == cursor.Height && heads.Final.Hash != cursor.Hash:
			return false, w.handleParentMismatch(ctx, cursor)
		case heads.Final.Height <= cursor.Height:
			// There is no new block, or the providers are behind the cursor.
			return false, nil
		}
		w.final.Store(heads.Final.Height)
	}

	nextCtx := ctx // the block that is read ahead belongs to the next step
	ctx, span := trace.Start(ctx, "scan walk")
	span.SetAttribute("chain", string(w.conf.Chain))
	defer func() { span.End(err) }()
	b := prefetch.takeResult()
	if b.err != nil || b.Height <= cursor.Height || b.Parent != cursor.Hash {
		b = w.prepareBlock(ctx, cursor.Height+1)
	}
	switch {
	case errors.Is(b.err, chain.ErrNotYet):
		w.final.Store(cursor.Height) // ask for the heads again
		return false, nil
	case b.err != nil:
		return false, b.err
	case b.Parent != cursor.Hash:
		return false, w.handleParentMismatch(ctx, cursor)
	}
	if b.Height < w.final.Load() {
		prefetch.startReading(func() preparedBlock { return w.prepareBlock(nextCtx, b.Height+1) })
	}
	err = w.commitBlock(ctx, cursor, b, w.listener.OnFinal(ctx, w.conf.Chain, b.Block, b.arrivals))
	switch {
	case errors.Is(err, errCursorMoved):
		return true, nil
	case errors.Is(err, wallet.ErrOutdated):
		w.log.Info("scan: the block is read again", "height", b.Height, "reason", err)
		return true, nil
	case errors.Is(err, ErrFinalityBroken):
		return false, w.handleParentMismatch(ctx, b.Block)
	case err != nil:
		return false, fmt.Errorf("apply final block %d: %w", b.Height, err)
	}
	if len(b.arrivals) > 0 {
		failpoint.Hit("D03")
	}
	for _, d := range b.pending {
		w.log.Warn(
			"scan: to be traced later", "height", b.Height, "hash", b.Hash, "tx", string(d.tx), "error", d.reason,
		)
	}
	for _, f := range b.findings {
		w.log.Warn("scan: finding", "kind", f.kind, "height", b.Height, "hash", b.Hash,
			"address", string(f.holding.Address), "contract", string(f.holding.Contract), "detail", f.detail)
	}
	return true, nil
}

// preparedBlock is a final block that was read and checked, with its arrivals.
type preparedBlock struct {
	chain.Contents
	arrivals []Arrival
	match    wallet.Match // of its recipients
	findings []finding
	pending  []pendingTrace // transactions of the block that are still to be traced
	unusable map[int]string // mints that are no longer what the catalogue says, with the reason
	err      error          // then no other field is valid; chain.ErrNotYet among others
}

// quarantines returns the mints that the block quarantines, each with its first reason.
func (b preparedBlock) quarantines() map[int]string {
	reasons := map[int]string{}
	maps.Copy(reasons, b.unusable)
	for _, f := range b.findings {
		if f.isDoubtful {
			reasons[f.mint] = DoubtBalanceDelta
		}
	}
	return reasons
}

// prepareBlock reads the first final block at or above a height. It compares the block with the
// balances, unless the block proves them itself. It writes nothing.
func (w *Walker) prepareBlock(ctx context.Context, height uint64) (b preparedBlock) {
	proving, proof := trace.Start(ctx, "scan prove")
	b.Contents, b.err = w.conf.Reader.Final(proving, height)
	proof.End(b.err)
	switch {
	case b.err != nil && !errors.Is(b.err, chain.ErrNotYet):
		b.err = fmt.Errorf("read final block %d: %w", height, b.err)
	case b.err == nil && b.Height < height:
		b.err = fmt.Errorf("read the final block at %d or above: got block %d", height, b.Height)
	}
	if b.err != nil {
		return b
	}
	if len(b.Transfers) > 0 {
		failpoint.Hit("D01") // a block without movements has nothing to lose
	}
	var balances blockBalances
	if balances, b.pending, b.err = w.addInternalTransfers(ctx, &b.Contents); b.err != nil {
		return b
	}
	if b.arrivals, b.match, b.err = w.matchArrivals(ctx, b.Contents); b.err != nil {
		return b
	}
	if !b.BalancesProven {
		b.findings, b.err = w.reconcileBalances(ctx, b.Contents, b.arrivals, balances, b.pending)
	}
	if b.err == nil {
		b.unusable, b.err = w.inspectMints(ctx, b.arrivals)
	}
	return b
}

// prefetcher prepares the next block while one is written. Reading a block and its balances waits
// for providers; writing one is work of the database. The step that takes the result checks that it
// is the next block.
type prefetcher struct {
	disabled bool // prepares nothing
	result   chan preparedBlock
}

func (a *prefetcher) startReading(read func() preparedBlock) {
	if a.disabled || a.result != nil {
		return
	}
	result := make(chan preparedBlock, 1)
	a.result = result
	go func() { result <- read() }()
}

// takeResult waits for the prepared block. It returns the zero value if none was started.
func (a *prefetcher) takeResult() (b preparedBlock) {
	if a.result != nil {
		b = <-a.result
		a.result = nil
	}
	return b
}

// openCursor inserts the cursor at the first start.
func (w *Walker) openCursor(ctx context.Context) (moved bool, err error) {
	heads, err := w.conf.Reader.Heads(ctx)
	if errors.Is(err, chain.ErrNotYet) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask for the heads: %w", err)
	}
	start := heads.Final
	if w.conf.Start != nil {
		c, err := w.conf.Reader.Final(ctx, *w.conf.Start)
		if errors.Is(err, chain.ErrNotYet) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read the block to start at, %d: %w", *w.conf.Start, err)
		}
		start = c.Block
	}
	err = w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO scan_cursors (chain, height, hash, updated_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (chain) DO NOTHING`, w.conf.Chain, start.Height, start.Hash, tx.Now)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("open the cursor of %s: %w", w.conf.Chain, err)
	}
	w.log.Info("scan: first start", "height", start.Height, "hash", start.Hash)
	return true, nil
}

// commitBlock moves the cursor over a block and runs apply, all or nothing. The compare-and-swap
// lets one of several walkers write the block.
func (w *Walker) commitBlock(ctx context.Context, cursor chain.Block, b preparedBlock, apply Apply) error {
	return w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		moved, err := tx.Exec(ctx, `
			UPDATE scan_cursors SET height = $4, hash = $5, updated_at = $6, forked_above = NULL
			WHERE chain = $1 AND height = $2 AND hash = $3`,
			w.conf.Chain, cursor.Height, cursor.Hash, b.Height, b.Hash, tx.Now)
		if err != nil {
			return fmt.Errorf("move the cursor: %w", err)
		}
		if moved.RowsAffected() == 0 {
			return errCursorMoved
		}
		if err := b.match.Recheck(ctx, tx); err != nil {
			return err
		}
		proof := Proof{Chain: w.conf.Chain, Block: b.Block}
		if proof.ID, err = ensureProof(ctx, tx, w.conf.Chain, b.Contents); err != nil {
			return err
		}
		if err := storePending(ctx, tx, proof.ID, b.pending); err != nil {
			return err
		}
		if err := quarantineMints(ctx, tx, b.quarantines()); err != nil {
			return err
		}
		if err := apply(ctx, tx, proof); err != nil {
			return err
		}
		if len(b.arrivals) > 0 {
			failpoint.Hit("D02")
		}
		for _, f := range b.findings {
			if err := recordFinding(ctx, tx, w.conf.Chain, b.Block, f); err != nil {
				return err
			}
		}
		if len(b.arrivals) > 0 {
			failpoint.HitBeforeCommit("D03")
		}
		return nil
	})
}

// ensureProof inserts the proof that a block is final. If an earlier walk proved the height and
// that proof is alive, it returns that one. Another hash there is a broken finality. The cursor is
// locked, so no other process proves or breaks meanwhile.
func ensureProof(ctx context.Context, tx pg.Tx, ch chain.Name, c chain.Contents) (proofID int64, err error) {
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
		INSERT INTO finality_proofs (chain, height, hash, parent, block_time, providers, verified, created_at, depth, fork)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, (SELECT coalesce(max(fork), 0) FROM finality_breaks WHERE chain = $1))
		RETURNING proof_id`,
		ch, c.Height, c.Hash, c.Parent, c.Time, c.Providers, c.Verified, tx.Now, max(c.Depth, 1)).Scan(&proofID)
	if err != nil {
		return 0, fmt.Errorf("write the proof of block %d: %w", c.Height, err)
	}
	return proofID, nil
}

func recordFinding(ctx context.Context, tx pg.Tx, ch chain.Name, b chain.Block, f finding) error {
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

// Rewind sets the final walk back to a walked block, so that it reads all later blocks again. What
// is already recorded does not change.
func (w *Walker) Rewind(ctx context.Context, height uint64, actor audit.Actor) error {
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
			return fmt.Errorf("block %d was not read", height)
		}
		return audit.Record(ctx, tx, audit.Entry{
			Actor: actor, Action: "scan.rewound", ResourceKind: "CHAIN", ResourceID: string(w.conf.Chain),
			Detail: map[string]uint64{"height": height},
		})
	})
	if err != nil {
		return fmt.Errorf("rewind %s to block %d: %w", w.conf.Chain, height, err)
	}
	w.log.Info("scan: rewound", "height", height, "by", actor.ID)
	return nil
}
