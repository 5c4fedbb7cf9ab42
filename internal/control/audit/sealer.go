package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const (
	sealMax    = 2000                   // rows that get their position in one transaction
	idlePause  = 200 * time.Millisecond // between two polls when all is sealed
	errorPause = 2 * time.Second        // after an error
)

// Sealer gives the rows of the log their positions in the chain, after their commit, so that no
// writer waits for another.
//
// A row that is committed late has a smaller id than rows that are already sealed; it gets the next
// position all the same. Positions therefore follow commits and not ids. A row that was written
// after the commit of another one always stands behind it, since a snapshot that shows the later
// row shows the earlier.
//
// Any number of processes may run one. An advisory lock keeps them from doing the same work.
// Correctness comes from the compare-and-swap of the chain's end and from the unique keys on
// position and row. A crash leaves complete batches. Rule AUDIT-1.
type Sealer struct {
	DB  *pg.DB
	Log *slog.Logger // nil means the default

	lastProbe probe // the last look at the open writers

	skipLock bool // a test turns the lock off to check correctness without it
	batch    int  // a test makes batches small; 0 means sealMax
}

// probe holds the highest id given out at a moment, and the transactions that were writing to the
// log then. Every id up to maxID is committed, given up, or belongs to one of them.
type probe struct {
	maxID   int64
	writers []string
}

// errLostRace says that another sealer was quicker. Nothing was written.
var errLostRace = errors.New("another sealer was faster")

// Run seals until ctx ends.
func (s *Sealer) Run(ctx context.Context) error {
	log := s.Log
	if log == nil {
		log = slog.Default()
	}
	for {
		n, err := s.Step(ctx)
		pause := time.Duration(0)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			log.LogAttrs(ctx, slog.LevelError, "the audit log could not be sealed", slog.Any("error", err))
			pause = errorPause
		case n < cmp.Or(s.batch, sealMax):
			pause = idlePause
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// Step seals one batch and returns the number of its rows. It returns 0 when there is nothing to do
// or when another process holds the lock.
func (s *Sealer) Step(ctx context.Context) (int, error) {
	current, err := s.probeWriters(ctx)
	if err != nil {
		return 0, fmt.Errorf("look for writers of the audit log: %w", err)
	}
	// All writers of the last probe have ended since. An id up to its maxID that the next statement
	// does not see will therefore never appear.
	settled := int64(0)
	if !slices.ContainsFunc(s.lastProbe.writers, func(w string) bool { return slices.Contains(current.writers, w) }) {
		settled, s.lastProbe = s.lastProbe.maxID, current
	}
	n := 0
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		n, err = s.sealBatch(ctx, tx, settled)
		return err
	})
	if errors.Is(err, errLostRace) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("seal the audit log: %w", err)
	}
	if n > 0 {
		failpoint.Hit("O09")
	}
	return n, nil
}

// probeWriters runs in a transaction of its own, because the transaction that reads the rows has to
// begin after it.
func (s *Sealer) probeWriters(ctx context.Context) (p probe, err error) {
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		p = probe{}
		// The ids come first: a writer that gets an id later does not matter here.
		if err := tx.QueryRow(
			ctx, `SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END FROM audit_log_audit_id_seq`,
		).Scan(&p.maxID); err != nil {
			return err
		}
		// A statement locks the table before it takes an id, and until its transaction, prepared or
		// not, has ended.
		rows, err := tx.Query(ctx, `
			SELECT DISTINCT virtualtransaction FROM pg_locks
			WHERE locktype = 'relation' AND relation = 'audit_log'::regclass AND granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
				AND mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')`)
		if err != nil {
			return err
		}
		p.writers, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return p, err
}

func (s *Sealer) sealBatch(ctx context.Context, tx pg.Tx, safe int64) (int, error) {
	// A plan cached while the tables were small would be used while they grow.
	_, err := tx.Exec(
		ctx,
		`SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_seqscan', 'off', true)`,
	)
	if err != nil {
		return 0, fmt.Errorf("set the planner: %w", err)
	}
	if !s.skipLock {
		var locked bool
		if err := tx.QueryRow(
			ctx, `SELECT pg_try_advisory_xact_lock(hashtextextended('coffer/audit/sealer', 0))`,
		).Scan(&locked); err != nil {
			return 0, fmt.Errorf("ask for the sealer's lock: %w", err)
		}
		if !locked {
			return 0, nil
		}
	}
	var position, settled int64
	var end Hash
	var writesRuns bool
	if err := tx.QueryRow(
		ctx, `
		SELECT position, hash, sealed_through, runs_from <= now() OR EXISTS (SELECT FROM audit_runs) FROM audit_chain`,
	).Scan(&position, end.scanner(), &settled, &writesRuns); err != nil {
		return 0, fmt.Errorf("read the end of the chain: %w", err)
	}
	limit := cmp.Or(s.batch, sealMax)
	rows, err := tx.Query(ctx, `
		SELECT `+columns+` FROM audit_log a
		WHERE `+Unsealed("$1")+`
		ORDER BY a.audit_id LIMIT $2`, settled, limit)
	if err != nil {
		return 0, fmt.Errorf("read the unsealed rows: %w", err)
	}
	lines, err := pgx.CollectRows(rows, scanLine)
	if err != nil {
		return 0, fmt.Errorf("read the unsealed rows: %w", err)
	}
	if len(lines) == limit {
		safe = min(safe, lines[limit-1].AuditID) // there may be further rows, which were not read
	}
	safe = max(safe, settled)
	if len(lines) == 0 && safe == settled {
		return 0, nil
	}
	head, hashes := end, make([]byte, 0, len(end)*len(lines))
	for i := range lines {
		lines[i].Position = position + int64(i) + 1
		head = lines[i].chainHash(head)
		hashes = append(hashes, head[:]...)
	}
	tag, err := tx.Exec(ctx,
		`UPDATE audit_chain SET position = $3, hash = $4, sealed_through = $5 WHERE position = $1 AND hash = $2 AND sealed_through <= $5`,
		position, end[:], position+int64(len(lines)), head[:], safe)
	if err != nil {
		return 0, fmt.Errorf("move the end of the chain: %w", err)
	}
	if tag.RowsAffected() != 1 {
		return 0, errLostRace
	}
	switch {
	case len(lines) == 0:
	case writesRuns:
		_, err = tx.Exec(ctx,
			`INSERT INTO audit_runs (first, last, ids, hashes) VALUES ($1, $2, $3::text::int8multirange, $4)`,
			position+1, position+int64(len(lines)), formatIDs(lines), hashes)
	default:
		err = writeSeals(ctx, tx, lines, hashes)
	}
	if err != nil {
		return 0, fmt.Errorf("seal %d rows from %d on: %w", len(lines), position+1, err)
	}
	failpoint.HitBeforeCommit("O09")
	return len(lines), nil
}

// writeSeals seals each row by itself, as the program of the version before reads it.
func writeSeals(ctx context.Context, tx pg.Tx, lines []Line, hashes []byte) error {
	positions, ids := make([]int64, len(lines)), make([]int64, len(lines))
	for i, l := range lines {
		positions[i], ids[i] = l.Position, l.AuditID
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO audit_seal (position, audit_id, hash)
		SELECT s.position, s.audit_id, s.hash FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS s (position, audit_id, hash)`,
		positions, ids, slices.Collect(slices.Chunk(hashes, len(Hash{}))))
	return err
}

// hashScan scans a hash from the database.
type hashScan struct{ h *Hash }

func (h *Hash) scanner() *hashScan { return &hashScan{h} }

// ScanBytes implements pgtype.BytesScanner.
func (s *hashScan) ScanBytes(b []byte) error {
	if len(b) != len(s.h) {
		return fmt.Errorf("a hash has %d bytes, not %d", len(s.h), len(b))
	}
	copy(s.h[:], b)
	return nil
}

// End is the end of the chain.
type End struct {
	Chain    string
	Position int64
	Hash     Hash
}

// LoadEnd reads the end of the chain, in a transaction of the system or of a reader.
func LoadEnd(ctx context.Context, tx pg.Tx) (e End, err error) {
	if err := tx.QueryRow(
		ctx, `SELECT chain_id, position, hash FROM audit_chain`,
	).Scan(&e.Chain, &e.Position, e.Hash.scanner()); err != nil {
		return e, fmt.Errorf("read the end of the audit chain: %w", err)
	}
	return e, nil
}
