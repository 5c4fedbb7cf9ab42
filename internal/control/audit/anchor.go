package audit

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

const (
	// AnchorInterval is how often the signer signs the end of the chain. A change behind the
	// chain's back is detected within it.
	AnchorInterval = time.Minute
	anchorsMax     = 500 // anchors per request
)

// ErrContradicted says that the log differs from what the signer signed: the database is older than
// its anchors, or the log was tampered with.
var ErrContradicted = errors.New("the audit log differs from what the signer signed")

// Anchorer has the end of the chain signed by a key outside the database, into a file outside the
// database. It copies the signed anchors and compares them with the chain.
//
// An answer that was lost is read again: the signer's anchors are copied before a new one is
// requested. Any number of processes may run one. Rule AUDIT-3.
type Anchorer struct {
	DB       *pg.DB
	Signer   signer.Signer
	Key      ed25519.PublicKey // the attestation key
	Log      *slog.Logger      // nil means the default
	Interval time.Duration     // 0 means AnchorInterval
	// OnContradicted receives each ErrContradicted; if it is nil, the error is only logged.
	OnContradicted func(ctx context.Context, err error) error
}

// Run anchors until ctx ends.
func (a *Anchorer) Run(ctx context.Context) error {
	log, interval := a.Log, a.Interval
	if log == nil {
		log = slog.Default()
	}
	if interval == 0 {
		interval = AnchorInterval
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		err := a.Step(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrContradicted):
			log.LogAttrs(ctx, slog.LevelError,
				"the audit log differs from what the signer signed: see the runbook of the audit log",
				slog.Any("error", err))
			if a.OnContradicted != nil {
				if err := a.OnContradicted(ctx, err); err != nil {
					log.LogAttrs(ctx, slog.LevelError,
						"the audit log differs from what the signer signed and nothing was frozen",
						slog.Any("error", err))
				}
			}
		case err != nil:
			log.LogAttrs(ctx, slog.LevelWarn, "the audit log could not be anchored", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Step copies the signer's anchors, compares them with the chain, and has the end of the chain
// signed if the chain grew. Error: ErrContradicted.
func (a *Anchorer) Step(ctx context.Context) error {
	last, err := a.copyAnchors(ctx)
	if err != nil {
		return err
	}
	var end End
	if err := a.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if err = CompareAnchor(ctx, tx); err == nil {
			end, err = LoadEnd(ctx, tx)
		}
		return err
	}); err != nil {
		return err
	}
	request := signer.AnchorRequest{
		AuditHead: signer.AuditHead{Chain: end.Chain, Position: uint64(end.Position), Hash: end.Hash.String()},
	}
	if last.Number > 0 {
		request.Previous = &last.AuditHead
		if request.AuditHead == last.AuditHead {
			return nil
		}
	} else if end.Position == 0 {
		return nil
	}
	made, err := a.Signer.SignAnchor(ctx, request)
	failpoint.Hit("O10")
	var refusal *signer.Refusal
	if errors.As(err, &refusal) && refusal.Code == signer.RefusedAnchor {
		// Another process may have had a later end signed; its anchor is then read next time.
		if latest, copyErr := a.copyAnchors(ctx); copyErr == nil && latest.Number > last.Number {
			return nil
		}
		return fmt.Errorf("%w: %s", ErrContradicted, refusal.Message)
	}
	if err != nil {
		return fmt.Errorf("ask the signer to anchor the audit log: %w", err)
	}
	_, err = a.storeAnchors(ctx, last, []signer.Anchor{made})
	return err
}

// copyAnchors copies the signer's anchors that the database does not have, and returns the last
// one.
func (a *Anchorer) copyAnchors(ctx context.Context) (last signer.Anchor, err error) {
	if err = a.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		last, err = loadLastAnchor(ctx, tx)
		return err
	}); err != nil {
		return last, err
	}
	for {
		batch, err := a.Signer.AnchorsAfter(ctx, last.Number, anchorsMax)
		if err != nil {
			return last, fmt.Errorf("ask the signer for the anchors of the audit log: %w", err)
		}
		if len(batch) == 0 {
			return last, nil
		}
		if last, err = a.storeAnchors(ctx, last, batch); err != nil {
			return last, err
		}
	}
}

// storeAnchors stores anchors that follow the last one.
func (a *Anchorer) storeAnchors(
	ctx context.Context, last signer.Anchor, anchors []signer.Anchor,
) (signer.Anchor, error) {
	for _, anchor := range anchors {
		err := anchor.VerifySignature(a.Key)
		if err == nil {
			err = anchor.VerifyAfter(last)
		}
		if err != nil {
			return last, fmt.Errorf("%w: the copy of the signer's anchors ends with %d and does not continue: %w",
				ErrContradicted, last.Number, err)
		}
		last = anchor
	}
	err := a.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		b := &pgx.Batch{}
		for _, anchor := range anchors {
			b.Queue(`
				INSERT INTO audit_anchors (number, chain_id, position, hash, at, prev, because, signature, copied_at)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT ON CONSTRAINT audit_anchors_pkey DO NOTHING`,
				anchor.Number, anchor.Chain, anchor.Position, anchor.Hash, anchor.SignedAt, anchor.Prev, anchor.Reason,
				anchor.Signature, tx.Now)
		}
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return last, fmt.Errorf("copy %d anchors of the audit log: %w", len(anchors), err)
	}
	return last, nil
}

const selectAnchors = `SELECT number, chain_id, position, hash, at, prev, because, signature FROM audit_anchors`

func scanAnchor(row pgx.CollectableRow) (anchor signer.Anchor, err error) {
	err = row.Scan(&anchor.Number, &anchor.Chain, &anchor.Position, &anchor.Hash, &anchor.SignedAt, &anchor.Prev,
		&anchor.Reason, &anchor.Signature)
	return anchor, err
}

func loadLastAnchor(ctx context.Context, tx pg.Tx) (signer.Anchor, error) {
	rows, err := tx.Query(ctx, selectAnchors+` ORDER BY number DESC LIMIT 1`)
	if err != nil {
		return signer.Anchor{}, fmt.Errorf("read the last anchor of the audit log: %w", err)
	}
	last, err := pgx.CollectExactlyOneRow(rows, scanAnchor)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return last, fmt.Errorf("read the last anchor of the audit log: %w", err)
	}
	return last, nil
}

// CompareAnchor compares the last effective anchor of the copy with the chain, which covers all
// rows before it. Error: ErrContradicted. Rule AUDIT-4.
func CompareAnchor(ctx context.Context, tx pg.Tx) error {
	last, err := loadLastAnchor(ctx, tx)
	if err != nil || last.Number == 0 {
		return err
	}
	end, err := LoadEnd(ctx, tx)
	if err != nil {
		return err
	}
	if last.Chain != end.Chain {
		return fmt.Errorf("%w: the chain is %s, and anchor %d of %s is of %s", ErrContradicted, end.Chain, last.Number,
			last.SignedAt, last.Chain)
	}
	if int64(last.Position) > end.Position {
		return fmt.Errorf(
			"%w: it had %d rows at %s and has %d: rows were removed, or the database was restored from an older backup",
			ErrContradicted, last.Position, last.SignedAt, end.Position,
		)
	}
	hash := genesisHash(end.Chain)
	if last.Position > 0 {
		found, exists, err := loadHash(ctx, tx, last.Position)
		if err != nil {
			return err
		}
		if !exists {
			return fmt.Errorf("%w: position %d was signed at %s and does not exist any more", ErrContradicted, last.Position,
				last.SignedAt)
		}
		hash = found
	}
	if hash.String() != last.Hash {
		return fmt.Errorf("%w: position %d has the hash %s, and %s was signed at %s: rows up to there were changed",
			ErrContradicted, last.Position, hash, last.Hash, last.SignedAt)
	}
	return nil
}

// loadHash reads the hash at a position of the chain.
func loadHash(ctx context.Context, tx pg.Tx, position uint64) (h Hash, exists bool, err error) {
	var found []byte
	if err := tx.QueryRow(ctx, `SELECT `+HashAt("$1::bigint"), position).Scan(&found); err != nil {
		return h, false, fmt.Errorf("read position %d of the audit chain: %w", position, err)
	}
	copy(h[:], found)
	return h, found != nil, nil
}

// CopiedAnchors returns the anchors that the database has, in their order.
func CopiedAnchors(ctx context.Context, tx pg.Tx) ([]signer.Anchor, error) {
	rows, err := tx.Query(ctx, selectAnchors+` ORDER BY number`)
	if err != nil {
		return nil, fmt.Errorf("read the anchors of the audit log: %w", err)
	}
	anchors, err := pgx.CollectRows(rows, scanAnchor)
	if err != nil {
		return nil, fmt.Errorf("read the anchors of the audit log: %w", err)
	}
	return anchors, nil
}

// LastAgreedMark returns the head of the last effective anchor with which the chain agrees, or the
// beginning of the chain. A chain whose end was lost continues from there.
func LastAgreedMark(ctx context.Context, tx pg.Tx, anchors []signer.Anchor) (signer.AuditHead, error) {
	end, err := LoadEnd(ctx, tx)
	if err != nil {
		return signer.AuditHead{}, err
	}
	agreed := signer.AuditHead{Chain: end.Chain, Hash: genesisHash(end.Chain).String()}
	for _, anchor := range signer.EffectiveAnchors(anchors) {
		if anchor.Chain != end.Chain || anchor.Position <= agreed.Position {
			continue
		}
		hash, exists, err := loadHash(ctx, tx, anchor.Position)
		if err != nil {
			return agreed, err
		}
		if exists && hash.String() == anchor.Hash {
			agreed = anchor.AuditHead
		}
	}
	return agreed, nil
}

// State is the state of the audit log.
type State struct {
	End End
	// When the oldest row without a position was written; nil if all rows have one.
	OldestUnsealedAt *time.Time
	// The last anchor that was copied; its Number is 0 if there is none.
	LastAnchor signer.Anchor
}

// LoadState reads the state of the log, in a transaction of the system.
func LoadState(ctx context.Context, tx pg.Tx) (s State, err error) {
	if s.End, err = LoadEnd(ctx, tx); err != nil {
		return s, err
	}
	if s.LastAnchor, err = loadLastAnchor(ctx, tx); err != nil {
		return s, err
	}
	err = tx.QueryRow(ctx, OldestUnsealed).Scan(&s.OldestUnsealedAt)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return s, fmt.Errorf("look for unsealed rows: %w", err)
	}
	return s, nil
}

// OldestUnsealed reads when the row with the smallest id among those without a position was
// written. It returns no row if all have a position.
var OldestUnsealed = `
	SELECT a.at FROM audit_log a WHERE ` + Unsealed("(SELECT sealed_through FROM audit_chain)") + `
	ORDER BY a.audit_id LIMIT 1`

// OldestUnanchored reads when the first row behind the last anchor was written. It returns no row
// if all rows are anchored.
var OldestUnanchored = `
	SELECT a.at
	FROM (SELECT coalesce((SELECT position FROM audit_anchors ORDER BY number DESC LIMIT 1), 0) + 1 AS position) n
	CROSS JOIN LATERAL ` + sealsBetween("n.position", "n.position") + ` s
	JOIN audit_log a USING (audit_id)
	ORDER BY s.position LIMIT 1`
