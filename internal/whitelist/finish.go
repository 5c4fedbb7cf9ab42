package whitelist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/mirror"
)

const (
	keepEvery   = 10 * time.Second
	recheckEach = 10 * time.Minute
	batchRows   = 200
	reasonMax   = 500
)

// Finish brings one address to what the signer says of it: endorsed, or revoked when it
// was removed. It owns its transactions and may be called again after any error; Keep
// does. A refusal is no error: it stands in the row.
func (b *Book) Finish(ctx context.Context, name string) error {
	var a Address
	err := b.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		a, err = read(ctx, tx, name, "")
		return err
	})
	if err != nil {
		return err
	}
	if a.RemovedAt != nil {
		return b.revoke(ctx, a)
	}
	return b.endorse(ctx, a)
}

func (b *Book) endorse(ctx context.Context, a Address) error {
	said, err := b.signer.Endorse(ctx, a.words())
	var no *signer.Refusal
	switch {
	case errors.As(err, &no) && no.Code != signer.RefusedClock: // that passes, and says nothing about the address
		return b.refused(ctx, a, no)
	case err != nil:
		return fmt.Errorf("ask the signer to endorse %s: %w", a.ID, err)
	}
	from, err := time.Parse(time.RFC3339Nano, said.UsableFrom)
	if err == nil {
		err = said.Check(b.conf.AttestKey)
	}
	if err != nil {
		return fmt.Errorf("ask the signer to endorse %s: %w", a.ID, err)
	}
	if !said.Same(a.words()) {
		return fmt.Errorf("ask the signer to endorse %s: it answered for another address", a.ID)
	}
	if a.Endorsed && a.Refusal == "" && bytes.Equal(a.proof, said.Proof) && a.UsableFrom.Equal(from) && a.journal.JournalID == said.Entry.JournalID && a.journal.Seq == said.Entry.Seq {
		return nil
	}
	return b.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := mirror.Record(ctx, tx, said.Entry); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			UPDATE whitelisted_addresses SET usable_from = $2, proof = $3, journal_id = $4, journal_seq = $5, refusal = NULL
			WHERE whitelisted_address_id = $1 AND removed_at IS NULL
				AND (usable_from, proof, journal_id, journal_seq, refusal) IS DISTINCT FROM ($2::timestamptz, $3::bytea, $4::text, $5::bigint, NULL::text)`,
			a.ID, from, said.Proof, said.Entry.JournalID, int64(said.Entry.Seq))
		if err != nil {
			return fmt.Errorf("keep the endorsement of %s: %w", a.ID, err)
		}
		if tag.RowsAffected() == 0 {
			return nil // somebody else wrote it, or it was removed meanwhile and the signer is told next
		}
		return audit.Record(ctx, tx, a.entry(audit.System("whitelist"), "whitelist.endorsed", map[string]any{"usableFrom": said.UsableFrom, "entry": said.Entry.Seq}))
	})
}

// refused writes down that the signer does not know the address as its row has it, which
// is told once.
func (b *Book) refused(ctx context.Context, a Address, no *signer.Refusal) error {
	why := no.Error()
	why = strings.ToValidUTF8(why[:min(len(why), reasonMax)], "") // the cut may go through a character
	if a.Refusal == why {
		return nil
	}
	b.log.Error("the signer refuses a whitelisted address", "whitelisted", a.ID, "org", a.OrgID, "code", no.Code, "why", no.Message)
	return b.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE whitelisted_addresses SET refusal = $2 WHERE whitelisted_address_id = $1 AND removed_at IS NULL AND refusal IS DISTINCT FROM $2`, a.ID, why)
		if err != nil {
			return fmt.Errorf("keep the refusal of %s: %w", a.ID, err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
		return audit.Record(ctx, tx, a.entry(audit.System("whitelist"), "whitelist.refused", map[string]any{"code": no.Code, "why": no.Message}))
	})
}

func (b *Book) revoke(ctx context.Context, a Address) error {
	if a.revokedSeq != nil {
		return nil
	}
	entry, err := b.signer.Revoke(ctx, signer.Revocation{OrgID: a.OrgID, ID: a.ID})
	if err != nil {
		return fmt.Errorf("ask the signer to revoke %s: %w", a.ID, err)
	}
	return b.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := mirror.Record(ctx, tx, entry); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE whitelisted_addresses SET revoked_seq = $2 WHERE whitelisted_address_id = $1 AND removed_at IS NOT NULL AND revoked_seq IS NULL`,
			a.ID, int64(entry.Seq))
		if err != nil {
			return fmt.Errorf("keep the revocation of %s: %w", a.ID, err)
		}
		return nil
	})
}

// Keep finishes what was cut off, and compares every address that is on a whitelist with
// the signer's own journal now and then: one that was removed there and is back, as after
// an old backup, is refused, and one that a lost journal does not have is endorsed again
// and cools off again.
func (b *Book) Keep(ctx context.Context) error {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	var last time.Time
	for {
		now := time.Now()
		whole := now.Sub(last) >= recheckEach
		if err := b.Pass(ctx, whole); err != nil && ctx.Err() == nil {
			b.log.Warn("the whitelist could not be compared with the signer", "err", err)
		} else if whole {
			last = now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Pass is one round of Keep; whole looks at every address that is on a whitelist.
func (b *Book) Pass(ctx context.Context, whole bool) error {
	which := unfinished
	if whole {
		which = `(removed_at IS NULL OR revoked_seq IS NULL)`
	}
	var failed error
	for after := ""; ; {
		var some []Address
		err := b.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			rows, err := tx.Query(ctx, `SELECT `+columns+` FROM whitelisted_addresses
				WHERE `+which+` AND whitelisted_address_id > $1 ORDER BY whitelisted_address_id LIMIT $2`, after, batchRows)
			if err != nil {
				return err
			}
			some, err = pgx.CollectRows(rows, scan)
			return err
		})
		if err != nil {
			return fmt.Errorf("read what the signer has to be asked about: %w", err)
		}
		for _, a := range some {
			after = a.ID
			_ = b.Prove(a) // said in the log; the signer refuses other words
			step := b.endorse
			if a.RemovedAt != nil {
				step = b.revoke
			}
			if err := step(ctx, a); err != nil {
				failed = errors.Join(failed, err)
			}
		}
		if len(some) < batchRows {
			return failed
		}
	}
}
