// Package finality is what holds when a block that was proven final is on its
// chain no more: which proofs still count, what a person decided, and what is
// open until then.
//
// A proof is never edited or deleted. A Break says from which block on the proofs
// of a chain's earlier forks are dead; the view finality_live has the others, and
// whoever asks whether a block is final asks there. What stands on a proof Holds
// the chain in its transaction, and a break waits for all of them.
//
// What never happens here: a decision, a network call, a break that is taken
// back. What a crash leaves: a break whole, with all that its Concerned wrote, or
// none.
package finality

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/pg"
)

// Break is a person's decision about a chain whose finality broke.
type Break struct {
	ID           int64
	Chain        chain.Name
	Fork         int         // of the proofs from here on
	Ancestor     chain.Block // the last block that both forks have; height and hash
	Tip          chain.Block // the last block that was walked of the fork that is gone; height and hash
	SettleHeight uint64      // what the new fork does not have up to this height is gone
	Reason       string
	DecidedBy    string
	CreatedAt    time.Time
}

// Listener is who has built on final blocks. Its methods write in the caller's
// transaction, which has the chain's cursor locked against everybody who Holds
// it, and may be run again.
type Listener interface {
	// OnParted tells that the final chain has other blocks above this height than
	// those that were walked. Nothing is decided; what must not wait for that is
	// stopped.
	OnParted(ctx context.Context, tx pg.Tx, ch chain.Name, ancestorHeight uint64) error
	// OnBroken tells of a decision: every proof above the break's ancestor is dead.
	OnBroken(ctx context.Context, tx pg.Tx, b Break) error
}

// LockShared keeps a chain from breaking until the transaction ends, and tells whether
// it is broken already: it has parted, or the freeze of that is not lifted. Then
// nothing is credited or ended on its proofs. Call it before any other lock. The
// walk goes on meanwhile.
func LockShared(ctx context.Context, tx pg.Tx, ch chain.Name) (isBroken bool, err error) {
	isParted, err := LockParted(ctx, tx, ch)
	if err != nil || isParted {
		return isParted, err
	}
	return freeze.IsFinalityBroken(ctx, tx, ch)
}

// LockParted is Hold for what ended before and is only proven anew: that needs a
// decision and not the end of the freeze.
func LockParted(ctx context.Context, tx pg.Tx, ch chain.Name) (isParted bool, err error) {
	err = tx.QueryRow(ctx, `SELECT parted_above IS NOT NULL FROM scan_cursors WHERE chain = $1 FOR KEY SHARE`, ch).Scan(&isParted)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return false, fmt.Errorf("hold the finality of %s: %w", ch, err)
	}
	return isParted, nil
}

// LiveProofID is the proof that counts of a block, or 0 when there is none.
func LiveProofID(ctx context.Context, tx pg.Tx, ch chain.Name, height uint64, hash string) (proofID int64, err error) {
	err = tx.QueryRow(ctx, `SELECT proof_id FROM finality_live WHERE chain = $1 AND height = $2 AND hash = $3`, ch, height, hash).Scan(&proofID)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("look for the proof of block %d of %s: %w", height, ch, err)
	}
	return proofID, nil
}

// RecordBreak writes a break down and returns it whole. The caller has locked the
// chain's cursor, moves it and tells the Concerned.
func RecordBreak(ctx context.Context, tx pg.Tx, b Break) (Break, error) {
	b.CreatedAt = tx.Now
	err := tx.QueryRow(ctx, `
		INSERT INTO finality_breaks (chain, fork, ancestor_height, ancestor_hash, tip_height, tip_hash, settle_height, reason, decided_by, created_at)
		SELECT $1, coalesce(max(fork), 0) + 1, $2, $3, $4, $5, $6, $7, $8, $9 FROM finality_breaks WHERE chain = $1
		RETURNING break_id, fork`,
		b.Chain, b.Ancestor.Height, b.Ancestor.Hash, b.Tip.Height, b.Tip.Hash, b.SettleHeight, b.Reason, b.DecidedBy, b.CreatedAt).
		Scan(&b.ID, &b.Fork)
	if err != nil {
		return Break{}, fmt.Errorf("record the break of %s above block %d: %w", b.Chain, b.Ancestor.Height, err)
	}
	return b, nil
}

// ListBreaks are all decisions about a chain, oldest first.
func ListBreaks(ctx context.Context, tx pg.Tx, ch chain.Name) ([]Break, error) {
	rows, err := tx.Query(ctx, `
		SELECT break_id, chain, fork, ancestor_height, ancestor_hash, tip_height, tip_hash, settle_height, reason, decided_by, created_at
		FROM finality_breaks WHERE chain = $1 ORDER BY fork`, ch)
	if err != nil {
		return nil, fmt.Errorf("read the breaks of %s: %w", ch, err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b Break, err error) {
		err = row.Scan(&b.ID, &b.Chain, &b.Fork, &b.Ancestor.Height, &b.Ancestor.Hash, &b.Tip.Height, &b.Tip.Hash, &b.SettleHeight,
			&b.Reason, &b.DecidedBy, &b.CreatedAt)
		return b, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the breaks of %s: %w", ch, err)
	}
	return found, nil
}

// UnsettledReason is why a chain's broken finality is not settled yet, or "".
func UnsettledReason(ctx context.Context, tx pg.Tx, ch chain.Name) (string, error) {
	var reason *string
	if err := tx.QueryRow(ctx, `SELECT finality_unsettled($1)`, ch).Scan(&reason); err != nil {
		return "", fmt.Errorf("ask what is open about the finality of %s: %w", ch, err)
	}
	if reason == nil {
		return "", nil
	}
	return *reason, nil
}

// Shortfall is what of a mint is missing on a wallet, because the chain took
// something back that had been promised or moved on since.
type Shortfall struct {
	OrgID    string
	Chain    chain.Name
	WalletID string
	MintID   int
	Part     string // CREDITED, or GAS for the operator's own coin
	Open     string // atomic units
}

// ListShortfalls are all that is missing, by organization, wallet and mint. They
// close by themselves as money arrives.
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
