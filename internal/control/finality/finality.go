// Package finality handles chains on which a proven final block is no longer on the chain: which
// proofs are alive, what a person decided, and what is open until then.
//
// A proof is never edited or deleted. A Break says from which block on the proofs of a chain's
// earlier forks are dead. The view finality_live has the live proofs, and every check for a final
// block reads that view. A transaction that relies on a proof calls LockShared for the chain, and a
// break waits for all of them.
//
// The package never decides, calls the network, or takes a break back. A crash leaves a break with
// everything that its Listeners wrote, or no break.
package finality

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Break is a person's decision about a chain whose finality broke.
type Break struct {
	ID           int64
	Chain        chain.Name
	Fork         int         // of the proofs from here on
	Ancestor     chain.Block // the last block that both forks have; height and hash
	Tip          chain.Block // the last walked block of the dead fork; height and hash
	SettleHeight uint64      // what the new fork does not show up to this height is gone
	Reason       string
	DecidedBy    string
	CreatedAt    time.Time
}

// Listener reacts to a broken finality, for a package that relies on final blocks. Its methods
// write in the caller's transaction, which has locked the chain's cursor against LockShared. They
// may run again.
type Listener interface {
	// OnForked reports that the final chain has other blocks above this height than the walked
	// ones. Nothing is decided yet; the listener stops what must not wait for the decision.
	OnForked(ctx context.Context, tx pg.Tx, ch chain.Name, ancestorHeight uint64) error
	// OnBroken reports a decision: every proof above the break's ancestor is dead.
	OnBroken(ctx context.Context, tx pg.Tx, b Break) error
}

// LockShared prevents a break of the chain until the transaction ends, and reports whether it is
// broken already: it has parted, or the freeze of a break is not lifted. Then nothing may be
// credited or settled by its proofs. Call it before any other lock. The walks continue meanwhile.
func LockShared(ctx context.Context, tx pg.Tx, ch chain.Name) (isBroken bool, err error) {
	isForked, err := LockForked(ctx, tx, ch)
	if err != nil || isForked {
		return isForked, err
	}
	return freeze.IsFinalityBroken(ctx, tx, ch)
}

// LockForked does what LockShared does, for work that was settled before and is only proven again.
// That needs the decision, but not the end of the freeze.
func LockForked(ctx context.Context, tx pg.Tx, ch chain.Name) (isForked bool, err error) {
	err = tx.QueryRow(
		ctx, `SELECT forked_above IS NOT NULL FROM scan_cursors WHERE chain = $1 FOR KEY SHARE`, ch,
	).Scan(&isForked)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return false, fmt.Errorf("lock the finality of %s: %w", ch, err)
	}
	return isForked, nil
}

// LiveProofID returns the id of the live proof of a block, or 0 if there is none.
func LiveProofID(ctx context.Context, tx pg.Tx, ch chain.Name, height uint64, hash string) (proofID int64, err error) {
	err = tx.QueryRow(
		ctx, `SELECT proof_id FROM finality_live WHERE chain = $1 AND height = $2 AND hash = $3`, ch, height, hash,
	).Scan(&proofID)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("look for the proof of block %d of %s: %w", height, ch, err)
	}
	return proofID, nil
}

// RecordBreak inserts a break and returns it with ID, Fork and CreatedAt. The caller has locked the
// chain's cursor, moves it and notifies the Listeners.
func RecordBreak(ctx context.Context, tx pg.Tx, b Break) (Break, error) {
	b.CreatedAt = tx.Now
	err := tx.QueryRow(ctx, `
		INSERT INTO finality_breaks (chain, fork, ancestor_height, ancestor_hash, tip_height, tip_hash, settle_height, reason, decided_by, created_at)
		SELECT $1, coalesce(max(fork), 0) + 1, $2, $3, $4, $5, $6, $7, $8, $9 FROM finality_breaks WHERE chain = $1
		RETURNING break_id, fork`,
		b.Chain, b.Ancestor.Height, b.Ancestor.Hash, b.Tip.Height, b.Tip.Hash, b.SettleHeight, b.Reason, b.DecidedBy,
		b.CreatedAt).
		Scan(&b.ID, &b.Fork)
	if err != nil {
		return Break{}, fmt.Errorf("record the break of %s above block %d: %w", b.Chain, b.Ancestor.Height, err)
	}
	return b, nil
}

// ListBreaks returns all breaks of a chain, oldest first.
func ListBreaks(ctx context.Context, tx pg.Tx, ch chain.Name) ([]Break, error) {
	rows, err := tx.Query(ctx, `
		SELECT break_id, chain, fork, ancestor_height, ancestor_hash, tip_height, tip_hash, settle_height, reason, decided_by, created_at
		FROM finality_breaks WHERE chain = $1 ORDER BY fork`, ch)
	if err != nil {
		return nil, fmt.Errorf("read the breaks of %s: %w", ch, err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b Break, err error) {
		err = row.Scan(&b.ID, &b.Chain, &b.Fork, &b.Ancestor.Height, &b.Ancestor.Hash, &b.Tip.Height, &b.Tip.Hash,
			&b.SettleHeight, &b.Reason, &b.DecidedBy, &b.CreatedAt)
		return b, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the breaks of %s: %w", ch, err)
	}
	return found, nil
}

// UnsettledReason returns why a chain's broken finality is not settled yet, or "".
func UnsettledReason(ctx context.Context, tx pg.Tx, ch chain.Name) (string, error) {
	var reason *string
	if err := tx.QueryRow(ctx, `SELECT finality_unsettled($1)`, ch).Scan(&reason); err != nil {
		return "", fmt.Errorf("read what is open about the finality of %s: %w", ch, err)
	}
	if reason == nil {
		return "", nil
	}
	return *reason, nil
}

// Shortfall is the amount of a mint that a wallet lacks because the chain took back what had been
// promised or moved on.
type Shortfall struct {
	OrgID    string
	Chain    chain.Name
	WalletID string
	MintID   int
	Part     string // CREDITED, or GAS for the operator's own coin
	Open     string // atomic units
}

// ListShortfalls returns all shortfalls of a chain, by organization, wallet and mint. A shortfall
// closes by itself when money arrives.
func ListShortfalls(ctx context.Context, tx pg.Tx, ch chain.Name) ([]Shortfall, error) {
	rows, err := tx.Query(ctx, `
		SELECT org_id, chain, wallet_id, mint_id, part, open::text FROM reorg_shortfalls
		WHERE chain = $1 ORDER BY org_id, wallet_id, mint_id, part`, ch)
	if err != nil {
		return nil, fmt.Errorf("read what is missing on %s: %w", ch, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Shortfall])
	if err != nil {
		return nil, fmt.Errorf("read what is missing on %s: %w", ch, err)
	}
	return found, nil
}
