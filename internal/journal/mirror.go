package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Mirror is how far this database has copied the signer's journal.
type Mirror struct {
	JournalID    string // "" before the first copy
	ImportedSeq  int64
	LastStoredAt *time.Time // when the last entry was copied; nil without one
}

// LoadMirror reads how far the journal is copied, in a transaction of the system.
func LoadMirror(ctx context.Context, tx pg.Tx) (m Mirror, err error) {
	err = tx.QueryRow(ctx, `
		SELECT i.journal_id, i.imported_seq,
			(SELECT j.stored_at FROM signer_journal j WHERE j.journal_id = i.journal_id ORDER BY j.seq DESC LIMIT 1)
		FROM signer_identity i`).Scan(&m.JournalID, &m.ImportedSeq, &m.LastStoredAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return Mirror{}, nil
	}
	if err != nil {
		return Mirror{}, fmt.Errorf("read how far the signer's journal is copied: %w", err)
	}
	return m, nil
}
