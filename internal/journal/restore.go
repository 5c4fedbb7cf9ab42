package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// Intent is an intent with its journal entries after the imported position of the
// database.
type Intent struct {
	ID string
	// Intent and AdmittedAt are nil and zero for an intent that was admitted before that position,
	// or never.
	Intent     *signer.Intent
	AdmittedAt time.Time
	Signed     []Signature // in the order of the journal
	// Voided is the entry by which people recalled it; the zero Head if they did not.
	Voided signer.Head
	// TxLeadID is the intent with which it was signed; that intent's transactions are its own too.
	TxLeadID string
}

// Signature is a transaction that the signer signed, with the same bytes as at that time.
type Signature struct {
	signer.SignBody
	SignedAt time.Time
	Raw      []byte
}

// Restorer restores what the journal knows and the database lacks. All its methods write in the one
// transaction of RestoreDatabase and may run twice.
type Restorer interface {
	// RestoreOrganizations creates the missing organizations, so that their wallets can be stored.
	RestoreOrganizations(ctx context.Context, tx pg.Tx, ids []string) error
	// RestoreOrders gets every intent after the imported entries, known or not, in the order of the
	// journal. It runs after the wallets are restored.
	RestoreOrders(ctx context.Context, tx pg.Tx, intents []Intent) error
	// ResumeOperation runs last, with the time of the journal's last entry.
	ResumeOperation(ctx context.Context, tx pg.Tx, last time.Time) error
}

// RestoreReport says what RestoreDatabase found.
type RestoreReport struct {
	From, To signer.Head
	Wallets  int // issued addresses
	Intents  int // payments, sweeps and top-ups that were admitted or signed
	Missing  UnknownError
}

// ErrRehearsed is what a rehearsed RestoreDatabase returns where it would have committed.
var ErrRehearsed = errors.New("rehearsed: nothing was written")

// RestoreDatabase brings a database that was restored from a backup up to the signer's journal, in
// one transaction: all of it or nothing. It replaces Import for a database that
// Import refuses with *UnknownError. It is a deliberate act of an operator, because the
// journal remembers less than the database had. A replay of the write-ahead log to its end makes it
// unnecessary. A rehearsal does everything but the commit.
func RestoreDatabase(
	ctx context.Context, db *pg.DB, s signer.Signer, keeper WalletKeeper, restorer Restorer, rehearse bool,
) (RestoreReport, error) {
	var report RestoreReport
	head, err := s.Head(ctx)
	if err != nil {
		return report, fmt.Errorf("ask the signer for the end of its journal: %w", err)
	}
	imported, err := bindDatabase(ctx, db, head)
	if err != nil {
		return report, err
	}
	if imported.JournalID != head.JournalID {
		if imported, err = followAdoption(ctx, db, s, imported, head); err != nil {
			return report, err
		}
	}
	if err := verifyCopy(ctx, db, s, imported, head); err != nil {
		return report, err
	}
	entries, err := readNewEntries(ctx, s, imported, head)
	if err != nil {
		return report, err
	}
	report = RestoreReport{From: imported, To: head, Wallets: len(entries.wallets), Intents: len(entries.intents)}
	err = db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		report.Missing = UnknownError{}
		var unknown *UnknownError
		if err := findMissing(ctx, tx, entries.wallets, entries.admitted, entries.voided,
			entries.signBodies()); errors.As(err, &unknown) {
			report.Missing = *unknown
		} else if err != nil {
			return err
		}
		if imported.Seq < head.Seq {
			tag, err := tx.Exec(ctx, `
				UPDATE signer_identity SET imported_seq = $4, imported_hash = $5
				WHERE journal_id = $1 AND imported_seq = $2 AND imported_hash = $3`,
				imported.JournalID, int64(imported.Seq), imported.Hash, int64(head.Seq), head.Hash)
			if err != nil {
				return fmt.Errorf("move the imported end of the signer's journal to %d: %w", head.Seq, err)
			}
			if tag.RowsAffected() != 1 {
				return errors.New(
					"another process imports the signer's journal: stop every other process of this installation first",
				)
			}
		}
		for _, e := range entries.entries {
			if err := insertEntry(ctx, tx, e); err != nil {
				return err
			}
		}
		if err := restorer.RestoreOrganizations(ctx, tx, report.Missing.Organizations); err != nil {
			return err
		}
		for _, w := range entries.wallets {
			if err := keeper.EnsureWallet(ctx, tx, w); err != nil {
				return err
			}
		}
		if err := restorer.RestoreOrders(ctx, tx, entries.intents); err != nil {
			return err
		}
		if err := restorer.ResumeOperation(ctx, tx, entries.last); err != nil {
			return err
		}
		if rehearse {
			return ErrRehearsed
		}
		return nil
	})
	return report, err
}

// newEntries is what a journal has after the imported entries.
type newEntries struct {
	entries  []signer.Entry
	wallets  []signer.IssuedAddress
	intents  []Intent
	admitted []string
	voided   []string
	last     time.Time
}

func (b newEntries) signBodies() []signer.SignBody {
	var bodies []signer.SignBody
	for _, intent := range b.intents {
		for _, s := range intent.Signed {
			bodies = append(bodies, s.SignBody)
		}
	}
	return bodies
}

// redateEntries dates later times back to the time of the last entry, because the clock was wrong.
func (b *newEntries) redateEntries() {
	for n := range b.intents {
		intent := &b.intents[n]
		if intent.AdmittedAt.After(b.last) {
			intent.AdmittedAt = b.last
		}
		for m := range intent.Signed {
			if intent.Signed[m].SignedAt.After(b.last) {
				intent.Signed[m].SignedAt = b.last
			}
		}
	}
}

// readNewEntries reads the journal's entries after a position. It asks the signer again for what
// they do not contain: the proofs of its addresses and the bytes that it signed.
func readNewEntries(ctx context.Context, s signer.Signer, position, head signer.Head) (newEntries, error) {
	var b newEntries
	positions := map[string]int{}
	intentFor := func(id string) *Intent {
		i, ok := positions[id]
		if !ok {
			i = len(b.intents)
			positions[id] = i
			b.intents = append(b.intents, Intent{ID: id})
		}
		return &b.intents[i]
	}
	for position.Seq < head.Seq {
		entries, err := s.EntriesAfter(ctx, position.Seq, entriesPerBatch)
		if err != nil {
			return b, fmt.Errorf("ask the signer for the entries after %d: %w", position.Seq, err)
		}
		if len(entries) == 0 {
			return b, fmt.Errorf("import the signer's journal: no entry after %d of %d", position.Seq, head.Seq)
		}
		for _, e := range entries {
			if position.Seq == head.Seq {
				return b, errors.New("the signer is in use: stop every other process of this installation first")
			}
			r, err := e.VerifyAfter(position)
			if err != nil {
				return b, fmt.Errorf("%w: %w", ErrForeign, err)
			}
			position = e.Head()
			b.entries = append(b.entries, e)
			if b.last, err = time.Parse(time.RFC3339Nano, r.RecordedAt); err != nil {
				return b, fmt.Errorf("%w: entry %d has no time: %w", ErrForeign, e.Seq, err)
			}
			switch r.Kind {
			case signer.RecordIssue:
				issued, err := reissueAddress(ctx, s, e, *r.Issue)
				if err != nil {
					return b, err
				}
				b.wallets = append(b.wallets, issued)
			case signer.RecordAdmit:
				i := intentFor(r.Admit.ID)
				i.Intent, i.AdmittedAt = r.Admit, b.last
				b.admitted = append(b.admitted, r.Admit.ID)
			case signer.RecordSign:
				signed, err := s.Sign(ctx, signer.SignRequest{
					IntentID: r.Sign.IntentID, TxMemberIDs: r.Sign.TxMemberIDs, Slot: r.Sign.Slot, Act: r.Sign.Act,
					Payload: r.Sign.Payload, Proof: r.Sign.Proof,
				})
				if err != nil {
					return b, fmt.Errorf("ask the signer for the bytes of entry %d: %w", e.Seq, err)
				}
				if signed.Entry.Hash != e.Hash || signed.Hash != r.Sign.Hash {
					return b, fmt.Errorf("%w: the transaction of entry %d has another hash now", ErrForeign, e.Seq)
				}
				i := intentFor(r.Sign.IntentID)
				i.Signed = append(i.Signed, Signature{SignBody: *r.Sign, SignedAt: b.last, Raw: signed.Raw})
				for _, id := range r.Sign.TxMemberIDs {
					intentFor(id).TxLeadID = r.Sign.IntentID
				}
			case signer.RecordVoid:
				intentFor(r.Void.ID).Voided = position
				b.voided = append(b.voided, r.Void.ID)
			case signer.RecordClock:
				b.redateEntries()
			case signer.RecordGenesis, signer.RecordEndorse, signer.RecordRevoke, signer.RecordEnrol,
				signer.RecordRetire, signer.RecordRule:
			}
		}
	}
	if position != head {
		return b, fmt.Errorf("%w: it ends at another entry %d than it said", ErrForeign, head.Seq)
	}
	b.admitted = slices.Compact(b.admitted)
	return b, nil
}

// reissueAddress returns an issued address with its proof, which is not in the journal: the signer
// makes the same proof again.
func reissueAddress(
	ctx context.Context, s signer.Signer, e signer.Entry, body signer.IssueBody,
) (signer.IssuedAddress, error) {
	issued, err := s.IssueAddress(ctx, body.WalletRef)
	if err != nil {
		return issued, fmt.Errorf("ask the signer for the proof of entry %d: %w", e.Seq, err)
	}
	if issued.Address != body.Address || issued.Path != body.Path || issued.Entry.Hash != e.Hash {
		return issued, fmt.Errorf("%w: the wallet of entry %d has another address now", ErrForeign, e.Seq)
	}
	return issued, nil
}
