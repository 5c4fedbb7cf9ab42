package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// Remembered is an intent with what the signer made of it after the entry up to
// which the database was imported.
type Remembered struct {
	ID string
	// Intent and At are nil and zero for one that was admitted before that entry, or never.
	Intent *signer.Intent
	At     time.Time
	Signed []Signature // in the order of the journal
	// Voided is the entry by which people took it back; the zero Head when they did not.
	Voided signer.Head
	// Rides is the intent with which it was signed, whose transactions are its own too.
	Rides string
}

// Signature is a transaction that the signer signed, with the same bytes that it
// gave when it did.
type Signature struct {
	signer.SignBody
	At  time.Time
	Raw []byte
}

// Restorer makes again what the journal remembers and the database lacks. All its
// methods write in the one transaction of Restore and may run twice.
type Restorer interface {
	// Organizations makes those that are missing, so that their wallets can be kept.
	Organizations(ctx context.Context, tx pg.Tx, ids []string) error
	// Orders is told of every intent beyond the imported entries, known or not, in the
	// order of the journal, once the wallets are there.
	Orders(ctx context.Context, tx pg.Tx, all []Remembered) error
	// Reopen is called last, with the time of the journal's last entry.
	Reopen(ctx context.Context, tx pg.Tx, last time.Time) error
}

// Restored says what Restore found.
type Restored struct {
	From, To signer.Head
	Wallets  int // addresses that were issued
	Intents  int // payments, sweeps and top-ups that were admitted or signed
	Lacking  UnknownError
}

// ErrRehearsed is what a rehearsed Restore returns where it would have committed.
var ErrRehearsed = errors.New("rehearsed: nothing was written")

// Restore brings a database that was restored from a backup up to the signer's
// journal, in one transaction: all of it or nothing. It is Import for a database that
// Import refuses with *UnknownError, and an operator's deliberate act, because what
// the journal remembers is less than the database had: with the write-ahead log up to
// its end nothing has to be made again. A rehearsal does everything but the commit.
func Restore(ctx context.Context, db *pg.DB, s signer.Signer, keeper Keeper, restorer Restorer, rehearse bool) (Restored, error) {
	var done Restored
	head, err := s.Head(ctx)
	if err != nil {
		return done, fmt.Errorf("ask the signer where its journal stands: %w", err)
	}
	at, err := known(ctx, db, head)
	if err != nil {
		return done, err
	}
	if at.JournalID != head.JournalID {
		if at, err = adopted(ctx, db, s, at, head); err != nil {
			return done, err
		}
	}
	if err := verify(ctx, db, s, at, head); err != nil {
		return done, err
	}
	news, err := gather(ctx, s, at, head)
	if err != nil {
		return done, err
	}
	done = Restored{From: at, To: head, Wallets: len(news.wallets), Intents: len(news.intents)}
	err = db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		done.Lacking = UnknownError{}
		var lacking *UnknownError
		if err := missing(ctx, tx, news.wallets, news.admitted, news.voided, news.signs()); errors.As(err, &lacking) {
			done.Lacking = *lacking
		} else if err != nil {
			return err
		}
		if at.Seq < head.Seq {
			tag, err := tx.Exec(ctx, `
				UPDATE signer_identity SET imported_seq = $4, imported_hash = $5
				WHERE journal_id = $1 AND imported_seq = $2 AND imported_hash = $3`,
				at.JournalID, int64(at.Seq), at.Hash, int64(head.Seq), head.Hash)
			if err != nil {
				return fmt.Errorf("move the imported end of the signer's journal to %d: %w", head.Seq, err)
			}
			if tag.RowsAffected() != 1 {
				return errors.New("another process imports the signer's journal: stop every other process of this installation first")
			}
		}
		for _, e := range news.entries {
			if err := insert(ctx, tx, e); err != nil {
				return err
			}
		}
		if err := restorer.Organizations(ctx, tx, done.Lacking.Organizations); err != nil {
			return err
		}
		for _, w := range news.wallets {
			if err := keeper.Keep(ctx, tx, w); err != nil {
				return err
			}
		}
		if err := restorer.Orders(ctx, tx, news.intents); err != nil {
			return err
		}
		if err := restorer.Reopen(ctx, tx, news.last); err != nil {
			return err
		}
		if rehearse {
			return ErrRehearsed
		}
		return nil
	})
	return done, err
}

// beyond is what a journal has after the imported entries.
type beyond struct {
	entries  []signer.Entry
	wallets  []signer.Issued
	intents  []Remembered
	admitted []string
	voided   []string
	last     time.Time
}

func (b beyond) signs() []signer.SignBody {
	var all []signer.SignBody
	for _, i := range b.intents {
		for _, s := range i.Signed {
			all = append(all, s.SignBody)
		}
	}
	return all
}

// redate takes the time of the last entry for what is dated later: the clock was wrong then.
func (b *beyond) redate() {
	for n := range b.intents {
		i := &b.intents[n]
		if i.At.After(b.last) {
			i.At = b.last
		}
		for m := range i.Signed {
			if i.Signed[m].At.After(b.last) {
				i.Signed[m].At = b.last
			}
		}
	}
}

// gather reads the journal's entries after at, and has the signer say again what is
// not in them: the proofs of its addresses and the bytes that it signed.
func gather(ctx context.Context, s signer.Signer, at, head signer.Head) (beyond, error) {
	var b beyond
	places := map[string]int{}
	place := func(id string) *Remembered {
		i, ok := places[id]
		if !ok {
			i = len(b.intents)
			places[id] = i
			b.intents = append(b.intents, Remembered{ID: id})
		}
		return &b.intents[i]
	}
	for at.Seq < head.Seq {
		entries, err := s.Entries(ctx, at.Seq, batchEntries)
		if err != nil {
			return b, fmt.Errorf("ask the signer for the entries after %d: %w", at.Seq, err)
		}
		if len(entries) == 0 {
			return b, fmt.Errorf("import the signer's journal: no entry after %d of %d", at.Seq, head.Seq)
		}
		for _, e := range entries {
			if at.Seq == head.Seq {
				return b, errors.New("the signer is at work: stop every other process of this installation first")
			}
			r, err := e.Follow(at)
			if err != nil {
				return b, fmt.Errorf("%w: %w", ErrForeign, err)
			}
			at = e.Head()
			b.entries = append(b.entries, e)
			if b.last, err = time.Parse(time.RFC3339Nano, r.At); err != nil {
				return b, fmt.Errorf("%w: entry %d has no time: %w", ErrForeign, e.Seq, err)
			}
			switch r.Kind {
			case signer.RecordIssue:
				issued, err := again(ctx, s, e, *r.Issue)
				if err != nil {
					return b, err
				}
				b.wallets = append(b.wallets, issued)
			case signer.RecordAdmit:
				i := place(r.Admit.ID)
				i.Intent, i.At = r.Admit, b.last
				b.admitted = append(b.admitted, r.Admit.ID)
			case signer.RecordSign:
				signed, err := s.Sign(ctx, signer.SignRequest{
					IntentID: r.Sign.IntentID, With: r.Sign.With, Slot: r.Sign.Slot, Act: r.Sign.Act, Payload: r.Sign.Payload, Proof: r.Sign.Proof,
				})
				if err != nil {
					return b, fmt.Errorf("ask the signer for the bytes of entry %d: %w", e.Seq, err)
				}
				if signed.Entry.Hash != e.Hash || signed.Hash != r.Sign.Hash {
					return b, fmt.Errorf("%w: the transaction of entry %d has another hash now", ErrForeign, e.Seq)
				}
				i := place(r.Sign.IntentID)
				i.Signed = append(i.Signed, Signature{SignBody: *r.Sign, At: b.last, Raw: signed.Raw})
				for _, id := range r.Sign.With {
					place(id).Rides = r.Sign.IntentID
				}
			case signer.RecordVoid:
				place(r.Void.ID).Voided = at
				b.voided = append(b.voided, r.Void.ID)
			case signer.RecordClock:
				b.redate()
			case signer.RecordGenesis, signer.RecordEndorse, signer.RecordRevoke:
			}
		}
	}
	if at != head {
		return b, fmt.Errorf("%w: it ends at another entry %d than it said", ErrForeign, head.Seq)
	}
	b.admitted = slices.Compact(b.admitted)
	return b, nil
}

// again is an address that was issued, with its proof, which is not in the journal:
// the signer makes the same one again.
func again(ctx context.Context, s signer.Signer, e signer.Entry, body signer.IssueBody) (signer.Issued, error) {
	issued, err := s.Issue(ctx, body.WalletRef)
	if err != nil {
		return issued, fmt.Errorf("ask the signer for the proof of entry %d: %w", e.Seq, err)
	}
	if issued.Address != body.Address || issued.Path != body.Path || issued.Entry.Hash != e.Hash {
		return issued, fmt.Errorf("%w: the wallet of entry %d has another address now", ErrForeign, e.Seq)
	}
	return issued, nil
}
