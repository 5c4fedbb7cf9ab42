package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// checkJournal walks the copied entries from the first to the last imported one and recomputes
// every hash.
func checkJournal(ctx context.Context, tx pg.Tx) (found []Breach, err error) {
	var head signer.Head
	var lastImported int64
	err = tx.QueryRow(ctx, `SELECT journal_id, imported_seq, imported_hash FROM signer_identity`).
		Scan(&head.JournalID, &lastImported, &head.Hash)
	if errors.Is(err, pgx.ErrNoRows) {
		var entries int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM signer_journal`).Scan(&entries); err != nil {
			return nil, err
		}
		if entries > 0 {
			found = append(found, Breach{
				Subject: "journal",
				Detail:  fmt.Sprintf("%d entries are mirrored and the database belongs to no journal", entries),
			})
		}
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, `
		SELECT seq, prev, hash, body FROM signer_journal WHERE journal_id = $1 AND seq <= $2 ORDER BY seq`,
		head.JournalID, lastImported)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	add := func(seq int64, format string, args ...any) {
		found = append(
			found,
			Breach{Subject: fmt.Sprintf("entry %d of %s", seq, head.JournalID), Detail: fmt.Sprintf(format, args...)},
		)
	}
	last, lastHash := int64(0), ""
	for rows.Next() {
		var seq int64
		var prev, hash string
		var body []byte
		if err := rows.Scan(&seq, &prev, &hash, &body); err != nil {
			return nil, err
		}
		if seq != last+1 {
			add(seq, "follows entry %d", last)
		} else if last > 0 && prev != lastHash {
			add(seq, "has the previous hash %s, and the entry before it has %s", prev, lastHash)
		}
		e := signer.Entry{JournalID: head.JournalID, Seq: uint64(seq), Prev: prev, Hash: hash, Body: body}
		if sum := e.ComputeHash(); sum != hash {
			add(seq, "has the hash %s and should have %s", hash, sum)
		}
		last, lastHash = seq, hash
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if last != lastImported || lastImported > 0 && lastHash != head.Hash {
		add(lastImported, "is the last imported one, %s; the mirror ends with %d, %s", head.Hash, last, lastHash)
	}
	return found, nil
}
