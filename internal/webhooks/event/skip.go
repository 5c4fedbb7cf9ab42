package event

import (
	"context"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/platform/pg"
)

// SkipSequences moves every organization's counter to resumedAt, in microseconds since 1970, unless
// it is past that. It marks the gap. It is called where a restored database continues: the lost one
// may have given the next numbers to other events, and no consumer may ever see a number again with
// another body.
//
// The clock is the anchor outside the database. At less than a million events a second since the
// last jump, no number that was ever given lies past it. It stays an integer that every JSON reader
// keeps exactly until the year 2255.
func SkipSequences(ctx context.Context, tx pg.Tx, resumedAt time.Time) error {
	sequence := resumedAt.UnixMicro()
	_, err := tx.Exec(ctx, `
		INSERT INTO event_gaps (org_id, after, resumed_at, created_at)
		SELECT o.org_id, coalesce(s.last, 0), $1, $2
		FROM organizations o LEFT JOIN event_sequences s USING (org_id)
		WHERE coalesce(s.last, 0) < $1`, sequence, tx.Now)
	if err != nil {
		return fmt.Errorf("mark the gaps of the sequences: %w", err)
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO event_sequences AS s (org_id, last) SELECT org_id, $1 FROM organizations ORDER BY org_id
		ON CONFLICT (org_id) DO UPDATE SET last = excluded.last WHERE s.last < excluded.last`, sequence)
	if err != nil {
		return fmt.Errorf("move the sequences past the lost events: %w", err)
	}
	return nil
}
