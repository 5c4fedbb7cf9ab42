package whitelist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

const (
	maintenanceInterval = 10 * time.Second
	recheckInterval     = 10 * time.Minute
	batchRows           = 200
	reasonMax           = 500
)

// FinishEntry brings one entry to the signer's state: endorsed, or revoked when it was removed. It
// runs its own transactions, and the call may be repeated after any error, as RunMaintenance does.
// A refusal is no error: it is stored in the row.
func (b *Service) FinishEntry(ctx context.Context, name string) error {
	var e Entry
	err := b.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		e, err = readEntry(ctx, tx, name, "")
		return err
	})
	if err != nil {
		return err
	}
	if e.RemovedAt != nil {
		return b.revokeEntry(ctx, e)
	}
	return b.endorseEntry(ctx, e)
}

func (b *Service) endorseEntry(ctx context.Context, e Entry) error {
	request, err := b.makeRequest(ctx, e)
	if err != nil {
		return err
	}
	endorsed, err := b.signer.EndorseAddress(ctx, request)
	var refusal *signer.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Code == signer.RefusedSignature: // operators may sign it yet
		return b.recordWait(ctx, e, refusal)
	// a clock error passes and says nothing about the address
	case errors.As(err, &refusal) && refusal.Code != signer.RefusedClock:
		return b.recordRefusal(ctx, e, refusal)
	case err != nil:
		return fmt.Errorf("ask the signer to endorse %s: %w", e.ID, err)
	}
	usableFrom, err := time.Parse(time.RFC3339Nano, endorsed.UsableFrom)
	if err == nil {
		err = endorsed.VerifyProof(b.conf.AttestKey)
	}
	if err != nil {
		return fmt.Errorf("ask the signer to endorse %s: %w", e.ID, err)
	}
	if !endorsed.HasSameWords(e.endorsement()) {
		return fmt.Errorf("ask the signer to endorse %s: it answered for another address", e.ID)
	}
	if e.Endorsed && e.Refusal == "" && e.WaitsFor == "" && bytes.Equal(e.proof, endorsed.Proof) &&
		e.UsableFrom.Equal(usableFrom) && e.journalHead.JournalID == endorsed.Entry.JournalID &&
		e.journalHead.Seq == endorsed.Entry.Seq {
		return nil
	}
	return b.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE whitelisted_addresses SET usable_from = $2, proof = $3, journal_id = $4, journal_seq = $5,
				refusal = NULL, waits_for = NULL
			WHERE whitelisted_address_id = $1 AND removed_at IS NULL
				AND (usable_from, proof, journal_id, journal_seq, refusal, waits_for)
					IS DISTINCT FROM ($2::timestamptz, $3::bytea, $4::text, $5::bigint, NULL::text, NULL::text)`,
			e.ID, usableFrom, endorsed.Proof, endorsed.Entry.JournalID, int64(endorsed.Entry.Seq))
		if err != nil {
			return fmt.Errorf("write the endorsement of %s: %w", e.ID, err)
		}
		if err := journal.RecordEntry(ctx, tx, endorsed.Entry); err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return nil // a concurrent call wrote it, or it was removed and the signer is told next
		}
		return audit.Record(
			ctx, tx,
			e.auditEntry(
				audit.System("whitelist"), "whitelist.endorsed",
				map[string]any{"usableFrom": endorsed.UsableFrom, "entry": endorsed.Entry.Seq},
			),
		)
	})
}

// recordRefusal stores that the signer refuses the entry as its row has it. The same refusal is
// stored and logged once.
func (b *Service) recordRefusal(ctx context.Context, e Entry, refusal *signer.Refusal) error {
	reason := cutReason(refusal)
	if e.Refusal == reason {
		return nil
	}
	b.log.Error(
		"the signer refuses a whitelisted address", "whitelisted", e.ID, "org", e.OrgID, "code", refusal.Code,
		"why", refusal.Message,
	)
	return b.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		tag, err := tx.Exec(
			ctx,
			`UPDATE whitelisted_addresses SET refusal = $2, waits_for = NULL
			WHERE whitelisted_address_id = $1 AND removed_at IS NULL AND refusal IS DISTINCT FROM $2`,
			e.ID, reason,
		)
		if err != nil {
			return fmt.Errorf("write the refusal of %s: %w", e.ID, err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
		return audit.Record(
			ctx, tx,
			e.auditEntry(
				audit.System("whitelist"), "whitelist.refused",
				map[string]any{"code": refusal.Code, "why": refusal.Message},
			),
		)
	})
}

// cutReason returns the words of a refusal as a row has them.
func cutReason(refusal *signer.Refusal) string {
	reason := refusal.Error()
	return strings.ToValidUTF8(reason[:min(len(reason), reasonMax)], "") // the cut may split a character
}

// recordWait stores which signatures the signer waits for. The same words are stored once.
func (b *Service) recordWait(ctx context.Context, e Entry, refusal *signer.Refusal) error {
	reason := cutReason(refusal)
	if e.WaitsFor == reason {
		return nil
	}
	return b.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE whitelisted_addresses SET waits_for = $2, refusal = NULL
			WHERE whitelisted_address_id = $1 AND removed_at IS NULL`, e.ID, reason)
		if err != nil {
			return fmt.Errorf("write what %s waits for: %w", e.ID, err)
		}
		return nil
	})
}

func (b *Service) revokeEntry(ctx context.Context, e Entry) error {
	if e.revokedSeq != nil {
		return nil
	}
	entry, err := b.signer.RevokeEndorsement(ctx, signer.Revocation{OrgID: e.OrgID, ID: e.ID})
	if err != nil {
		return fmt.Errorf("ask the signer to revoke %s: %w", e.ID, err)
	}
	return b.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx,
			`UPDATE whitelisted_addresses SET revoked_seq = $2 WHERE whitelisted_address_id = $1 AND removed_at IS NOT NULL AND revoked_seq IS NULL`,
			e.ID, int64(entry.Seq))
		if err != nil {
			return fmt.Errorf("write the revocation of %s: %w", e.ID, err)
		}
		return journal.RecordEntry(ctx, tx, entry)
	})
}

// RunMaintenance finishes interrupted entries, and compares every whitelisted entry with the
// signer's journal every ten minutes. An entry that was revoked there and is back, as after an old
// backup, is refused. An entry that a lost journal lacks is endorsed again and cools off again.
func (b *Service) RunMaintenance(ctx context.Context) error {
	tick := time.NewTicker(maintenanceInterval)
	defer tick.Stop()
	var last time.Time
	for {
		now := time.Now()
		isFull := now.Sub(last) >= recheckInterval
		if err := b.RunPass(ctx, isFull); err != nil && ctx.Err() == nil {
			b.log.Warn("cannot compare the whitelist with the signer", "err", err)
		} else if isFull {
			last = now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// RunPass runs one round of RunMaintenance; with isFull it checks every entry on a whitelist.
func (b *Service) RunPass(ctx context.Context, isFull bool) error {
	condition := unfinishedCondition
	if isFull {
		condition = `(removed_at IS NULL OR revoked_seq IS NULL)`
	}
	var entryErrs error
	for afterID := ""; ; {
		var entries []Entry
		err := b.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			rows, err := tx.Query(ctx, `SELECT `+columns+` FROM whitelisted_addresses
				WHERE `+condition+` AND whitelisted_address_id > $1 ORDER BY whitelisted_address_id LIMIT $2`, afterID, batchRows)
			if err != nil {
				return err
			}
			entries, err = pgx.CollectRows(rows, scanEntry)
			return err
		})
		if err != nil {
			return fmt.Errorf("read the entries about which to ask the signer: %w", err)
		}
		for _, e := range entries {
			afterID = e.ID
			_ = b.VerifyEndorsement(e) // it logs the error; the signer refuses other values
			step := b.endorseEntry
			if e.RemovedAt != nil {
				step = b.revokeEntry
			}
			if err := step(ctx, e); err != nil {
				entryErrs = errors.Join(entryErrs, err)
			}
		}
		if len(entries) < batchRows {
			return entryErrs
		}
	}
}
