package scan

import (
	"cmp"
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
	return w.step(ctx, &ahead{still: true})
}

// Reach takes steps of the final walk until it has taken in the block at a height, and then
// traces what is due. It returns when ctx ends, or at once for what no waiting mends.
func (w *Walker) Reach(ctx context.Context, height uint64) error {
	for {
		at, ok, err := w.cursor(ctx)
		if err == nil && ok && at.Height >= height {
			break
		}
		moved := false
		if err == nil {
			moved, err = w.Final(ctx)
		}
		if ctx.Err() != nil || hopeless(err) {
			return cmp.Or(err, context.Cause(ctx))
		}
		if !moved {
			pause(ctx, w.conf.Poll)
		}
	}
	for {
		if moved, err := w.Traces(ctx); !moved {
			return err
		}
	}
}

// step is Final; what is ahead of the walk is got ready meanwhile.
func (w *Walker) step(ctx context.Context, ahead *ahead) (moved bool, err error) {
	w.reviewed(ctx)
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

	later := ctx // what is read ahead belongs to another walk
	ctx, span := trace.Start(ctx, "scan walk")
	span.Say("chain", string(w.conf.Chain))
	defer func() { span.End(err) }()
	b := ahead.wait()
	if b.err != nil || b.Height <= at.Height || b.Parent != at.Hash {
		b = w.weighed(ctx, at.Height+1)
	}
	switch {
	case errors.Is(b.err, chain.ErrNotYet):
		w.final.Store(at.Height) // ask for the heads again
		return false, nil
	case b.err != nil:
		return false, b.err
	case b.Parent != at.Hash:
		return false, w.parted(ctx, at)
	}
	if b.Height < w.final.Load() {
		ahead.begin(func() weighed { return w.weighed(later, b.Height+1) })
	}
	err = w.advance(ctx, at, b, w.listener.Observe(ctx, w.conf.Chain, b.Block, b.found))
	switch {
	case errors.Is(err, errMoved):
		return true, nil
	case errors.Is(err, ErrFinalityBroken):
		return false, w.parted(ctx, b.Block)
	case err != nil:
		return false, fmt.Errorf("take in final block %d: %w", b.Height, err)
	}
	if len(b.found) > 0 {
		crash.Point("D03")
	}
	for _, d := range b.due {
		w.log.Warn("scan: to be traced later", "height", b.Height, "hash", b.Hash, "tx", string(d.tx), "error", d.why)
	}
	for _, f := range b.findings {
		w.log.Warn("scan: finding", "kind", f.kind, "height", b.Height, "hash", b.Hash,
			"address", string(f.holding.Address), "contract", string(f.holding.Contract), "detail", f.detail)
	}
	return true, nil
}

// weighed is a final block that was read, with what of it came to us.
type weighed struct {
	chain.Contents
	found    []Found
	findings []finding
	due      []due          // what is to be traced of it yet
	unsound  map[int]string // mints that are no money any more, and why
	err      error          // then nothing of the rest holds; chain.ErrNotYet among others
}

// weighed reads the first final block at or above a height and compares it with the
// balances, unless it carries them. It writes nothing.
func (w *Walker) weighed(ctx context.Context, height uint64) (b weighed) {
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
		crash.Point("D01") // a block without movements has nothing to lose
	}
	var have balances
	if have, b.due, b.err = w.inside(ctx, &b.Contents); b.err != nil {
		return b
	}
	if b.found, b.err = w.match(ctx, b.Contents); b.err != nil {
		return b
	}
	if !b.Weighed {
		b.findings, b.err = w.weigh(ctx, b.Contents, b.found, have, b.due)
	}
	if b.err == nil {
		b.unsound, b.err = w.inspect(ctx, b.found)
	}
	return b
}

// ahead gets the next block ready while one is taken in: to read a block and its
// balances is waiting for providers, to take one in is work of the database. Whether
// it is the next one the step finds out that takes it.
type ahead struct {
	still bool // gets nothing ready
	next  chan weighed
}

func (a *ahead) begin(read func() weighed) {
	if a.still || a.next != nil {
		return
	}
	next := make(chan weighed, 1)
	a.next = next
	go func() { next <- read() }()
}

// wait ends what was begun: the zero value when nothing was.
func (a *ahead) wait() (b weighed) {
	if a.next != nil {
		b = <-a.next
		a.next = nil
	}
	return b
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
func (w *Walker) advance(ctx context.Context, at chain.Block, b weighed, take Taking) error {
	return w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		moved, err := tx.Exec(ctx, `
			UPDATE scan_cursors SET height = $4, hash = $5, updated_at = $6, parted_above = NULL
			WHERE chain = $1 AND height = $2 AND hash = $3`,
			w.conf.Chain, at.Height, at.Hash, b.Height, b.Hash, tx.Now)
		if err != nil {
			return fmt.Errorf("move the cursor: %w", err)
		}
		if moved.RowsAffected() == 0 {
			return errMoved
		}
		proof := Proof{Chain: w.conf.Chain, Block: b.Block}
		if proof.ID, err = prove(ctx, tx, w.conf.Chain, b.Contents); err != nil {
			return err
		}
		if err := keepDue(ctx, tx, proof.ID, b.due); err != nil {
			return err
		}
		for _, f := range b.findings {
			if f.doubtful {
				if err := mint.Quarantine(ctx, tx, f.mint, BalanceDelta); err != nil {
					return err
				}
			}
		}
		if err := quarantine(ctx, tx, b.unsound); err != nil {
			return err
		}
		if err := take(ctx, tx, proof); err != nil {
			return err
		}
		if len(b.found) > 0 {
			crash.Point("D02")
		}
		for _, f := range b.findings {
			if err := note(ctx, tx, w.conf.Chain, b.Block, f); err != nil {
				return err
			}
		}
		if len(b.found) > 0 {
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
		INSERT INTO finality_proofs (chain, height, hash, parent, block_time, providers, verified, created_at, depth, fork)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, (SELECT coalesce(max(fork), 0) FROM finality_breaks WHERE chain = $1))
		RETURNING proof_id`,
		ch, c.Height, c.Hash, c.Parent, c.Time, c.Providers, c.Verified, tx.Now, max(c.Depth, 1)).Scan(&proofID)
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
