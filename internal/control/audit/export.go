package audit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
)

// exportFormat names the layout of an export.
const exportFormat = "coffer-audit-export-1"

// Header is the first line of an export.
type Header struct {
	Format     string `json:"format"`
	Chain      string `json:"chain"`
	Position   int64  `json:"position"` // the end of the chain
	Hash       string `json:"hash"`
	ExportedAt string `json:"exportedAt"`
}

// trailer is the last line of an export. An export without it was truncated.
type trailer struct {
	End      bool  `json:"end"`
	Sealed   int64 `json:"sealed"`
	Unsealed int64 `json:"unsealed"` // rows without a position yet, which are not in the export
}

// Export writes the log as of one moment, one line of JSON per row in the order of the chain, with
// constant memory. A row that is not yet sealed is in the next export.
func Export(ctx context.Context, db *pg.DB, output io.Writer) (Header, error) {
	var h Header
	w := bufio.NewWriterSize(output, 1<<16)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	ran := false
	err := db.Snapshot(ctx, func(ctx context.Context, tx pg.Tx) error {
		if ran {
			return errors.New("the snapshot was lost during the read")
		}
		ran = true
		end, err := LoadEnd(ctx, tx)
		if err != nil {
			return err
		}
		h = Header{
			Format: exportFormat, Chain: end.Chain, Position: end.Position, Hash: end.Hash.String(),
			ExportedAt: formatTime(tx.Now),
		}
		if err := encoder.Encode(h); err != nil {
			return err
		}
		var t trailer
		last, err := loadLastSeal(ctx, tx)
		if err != nil {
			return err
		}
		err = forEachSeal(ctx, tx, 1, last, func(l Line) error {
			t.Sealed++
			return encoder.Encode(l)
		})
		if err != nil {
			return err
		}
		t.End = true
		err = tx.QueryRow(ctx, `
			SELECT count(*) FROM audit_log a WHERE `+Unsealed("(SELECT sealed_through FROM audit_chain)")).Scan(&t.Unsealed)
		if err != nil {
			return err
		}
		return encoder.Encode(t)
	})
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return h, fmt.Errorf("export the audit log: %w", err)
	}
	return h, nil
}

func scanSealed(row pgx.CollectableRow) (l Line, err error) {
	var hash []byte
	var recordedAt *time.Time
	err = row.Scan(&l.Position, &hash, &l.AuditID, &l.Missing, &l.OrgID, &recordedAt, &l.ActorKind, &l.ActorID,
		&l.Action, &l.ResourceKind, &l.ResourceID, &l.Detail)
	l.Hash = fmt.Sprintf("%x", hash)
	if recordedAt != nil {
		l.RecordedAt = formatTime(*recordedAt)
	}
	return l, err
}

const (
	sliceRows = 50_000 // positions that are recomputed in one range
	tailRows  = 2 * sliceRows
)

// RangesToExamine returns the ranges of positions, first and last included, that one examination
// recomputes. These are the end of the chain, and a part of the positions before it that changes
// each minute, so that every position is examined in turn. A chain of up to tailRows is examined
// completely.
func RangesToExamine(end End, now time.Time) [][2]int64 {
	tail := max(1, end.Position-tailRows+1)
	parts := [][2]int64{{tail, end.Position}}
	if tail > 1 {
		slices := (tail-1)/sliceRows + 1
		start := (now.Unix()/60%slices)*sliceRows + 1
		parts = append(parts, [2]int64{start, min(start+sliceRows, tail) - 1})
	}
	return parts
}

// breaksMax bounds the breaks that one examination reports.
const breaksMax = 20

// ExamineRange recomputes the positions from first to last. It compares them with the rows of the
// log and with every effective anchor in the range, and returns what is broken.
func ExamineRange(ctx context.Context, tx pg.Tx, chain string, first, last int64) (broken []string, err error) {
	if last < first {
		return nil, nil
	}
	add := func(format string, args ...any) {
		if len(broken) < breaksMax {
			broken = append(broken, fmt.Sprintf(format, args...))
		}
	}
	prevHash := genesisHash(chain)
	if first > 1 {
		if err := tx.QueryRow(
			ctx, `SELECT coalesce(`+HashAt("$1")+`, $2)`, first-1, make([]byte, len(prevHash)),
		).Scan(prevHash.scanner()); err != nil {
			return nil, fmt.Errorf("read position %d of the audit chain: %w", first-1, err)
		}
	}
	expected := first
	err = forEachSeal(ctx, tx, first, last, func(l Line) error {
		if l.Position > expected {
			add("positions %d to %d are missing", expected, l.Position-1)
		} else if problem := l.describeBreak(expected, prevHash); problem != "" {
			add("%s", problem)
		}
		expected = l.Position + 1
		prevHash, _ = parseHash(l.Hash)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if expected <= last {
		add("positions %d to %d are missing", expected, last)
	}
	rows, err := tx.Query(ctx, `
		SELECT a.position, a.at, a.hash, coalesce(encode(s.hash, 'hex'), 'nothing')
		FROM audit_anchors a CROSS JOIN LATERAL (SELECT `+HashAt("a.position")+` AS hash OFFSET 0) s
		WHERE a.position BETWEEN $1 AND $2 AND a.hash IS DISTINCT FROM encode(s.hash, 'hex')
			AND NOT EXISTS (SELECT FROM audit_anchors r WHERE r.because <> '' AND r.number > a.number
				AND (r.chain_id <> a.chain_id OR r.position < a.position OR r.position = a.position AND r.hash <> a.hash))
		ORDER BY a.number LIMIT $3`, first, last, breaksMax)
	if err != nil {
		return nil, fmt.Errorf("compare the anchors of the audit log: %w", err)
	}
	var position int64
	var signed, want, got string
	_, err = pgx.ForEachRow(rows, []any{&position, &signed, &want, &got}, func() error {
		add("position %d has the hash %s, and %s was signed at %s", position, got, want, signed)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("compare the anchors of the audit log: %w", err)
	}
	return broken, nil
}
