// Package journal keeps the database consistent with the signer's journal. It copies every entry
// together with the change that it belongs to. The database never runs ahead of its journal, with
// another journal, or without one.
//
// There is never:
//   - an entry that is changed or dropped
//   - a database that continues with another journal because its own is missing
//   - a reaction to a contradiction other than stopping
//
// A crash leaves entries in the journal that the copy lacks. Import fetches them.
package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

const (
	entriesPerBatch = 200
	namedIDsMax     = 5 // ids in one error
)

// Errors that stop everything outgoing until a person has investigated.
var (
	// ErrForeign says that the signer has another journal than this database, or the same one with
	// other contents.
	ErrForeign = errors.New("this is not the signer journal that the database belongs to: " +
		"give the signer the journal and key file of this installation, or this installation its own database")
	// ErrBehind says that the journal lacks entries that the database has.
	ErrBehind = errors.New("the signer's journal is older than the database: restore its latest copy, " +
		"or move it away and let `coffer signer adopt` rebuild it from the database")
	// ErrUnbound says that Import has never run on this database.
	ErrUnbound = errors.New("the database belongs to no signer journal yet: import the journal before using the signer")
)

// UnknownError says that the journal has entries for objects that the database lacks: the database
// is older than the journal, as after the restore of a backup. What was signed may have been paid,
// so nothing may be decided on this database.
type UnknownError struct {
	Intents       []string // orders that were admitted or signed
	Organizations []string // organizations of issued wallets
}

// Error names some of them and the remedy.
func (e *UnknownError) Error() string {
	var parts []string
	for _, group := range []struct {
		what string
		ids  []string
	}{{"orders", e.Intents}, {"organizations", e.Organizations}} {
		if len(group.ids) > 0 {
			parts = append(parts, fmt.Sprintf("%d %s (%s)", len(group.ids), group.what,
				strings.Join(group.ids[:min(len(group.ids), namedIDsMax)], ", ")))
		}
	}
	return "the signer's journal has " + strings.Join(parts, " and ") + " that the database does not have: the " +
		"database is older than the journal, so no payment is made. Restore a backup that is as recent as the " +
		"journal (replay the write-ahead log to its end) or, where there is none, run `coffer signer import` to " +
		"create again what the journal remembers. Do not move the journal away and do not rebuild it with `coffer " +
		"signer adopt`: it is the only record of these payments, and without it they would be made again"
}

// IsContradiction reports whether an error is a contradiction between database and signer, and not
// merely an unreachable signer or database.
func IsContradiction(err error) bool {
	var unknown *UnknownError
	return errors.Is(err, ErrForeign) || errors.Is(err, ErrBehind) || errors.Is(err, signer.ErrProof) ||
		errors.As(err, &unknown)
}

// RecordEntry copies an entry in the transaction of the change that it belongs to. A second copy of
// it changes nothing. Errors: ErrUnbound, ErrForeign.
func RecordEntry(ctx context.Context, tx pg.Tx, e signer.Entry) error {
	var b pgx.Batch
	check, err := QueueEntries(&b, tx.Now, e)
	if err != nil {
		return err
	}
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("mirror entry %d of the signer's journal: %w", e.Seq, err)
	}
	return check()
}

// QueueEntries queues RecordEntry for entries in the order of their numbers; now is the time of the
// transaction. Once the batch was sent, check returns why the transaction must not be committed, or nil.
func QueueEntries(b *pgx.Batch, now time.Time, entries ...signer.Entry) (check func() error, err error) {
	for _, e := range entries {
		if e.Hash != e.ComputeHash() {
			return nil, fmt.Errorf("%w: entry %d does not have its hash", ErrForeign, e.Seq)
		}
	}
	var bound signer.Head
	identityErr := errors.New("the journal of the database was not read")
	b.Queue(selectIdentity).QueryRow(func(row pgx.Row) error {
		bound, identityErr = scanIdentity(row)
		return nil
	})
	forks := make([]*bool, len(entries))
	for i, e := range entries {
		forks[i] = queueEntry(b, now, e)
	}
	return func() error {
		if identityErr != nil {
			return identityErr
		}
		for i, e := range entries {
			switch {
			case bound.JournalID != e.JournalID:
				return fmt.Errorf("%w: entry %d is of %s, the database belongs to %s", ErrForeign, e.Seq, e.JournalID,
					bound.JournalID)
			case bound.Seq == e.Seq && bound.Hash != e.Hash:
				return fmt.Errorf("%w: entry %d has another hash", ErrForeign, e.Seq)
			case *forks[i]:
				return newFork(e)
			}
		}
		return nil
	}, nil
}

func newFork(e signer.Entry) error {
	return fmt.Errorf("%w: entry %d contradicts what was mirrored before", ErrForeign, e.Seq)
}

// queueEntry queues the insert of an entry, and the look whether it contradicts its neighbors.
func queueEntry(b *pgx.Batch, now time.Time, e signer.Entry) (isFork *bool) {
	b.Queue(`
		INSERT INTO signer_journal (journal_id, seq, prev, hash, body, stored_at) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT ON CONSTRAINT signer_journal_pkey DO NOTHING`,
		e.JournalID, int64(e.Seq), e.Prev, e.Hash, []byte(e.Body), now)
	isFork = new(bool)
	// The range is for the index: of the alternatives alone it would read the whole journal.
	b.Queue(`
		SELECT EXISTS (
			SELECT FROM signer_journal
			WHERE journal_id = $1 AND seq >= $2::bigint - 1 AND seq <= $2::bigint + 1 AND (
				seq = $2 AND hash <> $4 OR
				seq = $2 - 1 AND hash <> $3 OR
				seq = $2 + 1 AND prev <> $4))`,
		e.JournalID, int64(e.Seq), e.Prev, e.Hash).QueryRow(func(row pgx.Row) error { return row.Scan(isFork) })
	return isFork
}

func insertEntry(ctx context.Context, tx pg.Tx, e signer.Entry) error {
	var batch pgx.Batch
	isFork := queueEntry(&batch, tx.Now, e)
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("mirror entry %d of the signer's journal: %w", e.Seq, err)
	}
	if *isFork {
		return newFork(e)
	}
	return nil
}

const selectIdentity = `SELECT journal_id, imported_seq, imported_hash FROM signer_identity`

// loadIdentity returns the journal that the database belongs to and the position up to which it was
// imported. Error: ErrUnbound.
func loadIdentity(ctx context.Context, tx pg.Tx) (signer.Head, error) {
	return scanIdentity(tx.QueryRow(ctx, selectIdentity))
}

func scanIdentity(row pgx.Row) (signer.Head, error) {
	var h signer.Head
	var seq int64
	err := row.Scan(&h.JournalID, &seq, &h.Hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return h, ErrUnbound
	}
	if err != nil {
		return h, fmt.Errorf("read to which signer journal the database belongs: %w", err)
	}
	h.Seq = uint64(seq)
	return h, nil
}

// WalletKeeper stores wallets; package wallet implements it.
type WalletKeeper interface {
	// EnsureWallet inserts the wallet of an issued address if it is missing. An existing wallet
	// with another address is signer.ErrProof.
	EnsureWallet(ctx context.Context, tx pg.Tx, i signer.IssuedAddress) error
}

// Import brings the database up to the journal's end:
//   - It binds a database that has never seen a signer.
//   - It checks that what was imported is still in the journal.
//   - It imports every later entry.
//
// It may run in several processes at once and be interrupted at any point. Errors: ErrForeign,
// ErrBehind, *UnknownError (for all of them IsContradiction is true); any other error means
// unknown.
func Import(ctx context.Context, db *pg.DB, s signer.Signer, keeper WalletKeeper) error {
	head, err := s.Head(ctx)
	if err != nil {
		return fmt.Errorf("ask the signer for the end of its journal: %w", err)
	}
	imported, err := bindDatabase(ctx, db, head)
	if err != nil {
		return err
	}
	if imported.JournalID != head.JournalID {
		if imported, err = followAdoption(ctx, db, s, imported, head); err != nil {
			return err
		}
	}
	if err := verifyCopy(ctx, db, s, imported, head); err != nil {
		return err
	}
	for imported.Seq < head.Seq {
		advanced, err := importBatch(ctx, db, s, keeper, imported)
		if err != nil {
			return err
		}
		if advanced == imported {
			// The signer does not give this entry, although its head includes it.
			return fmt.Errorf("import the signer's journal: no entry after %d of %d", imported.Seq, head.Seq)
		}
		imported = advanced
	}
	return nil
}

// bindDatabase returns the imported position of the database. It first binds a database that has no
// journal.
func bindDatabase(ctx context.Context, db *pg.DB, head signer.Head) (imported signer.Head, err error) {
	read := func(ctx context.Context, tx pg.Tx) error {
		imported, err = loadIdentity(ctx, tx)
		return err
	}
	if err := db.ReadSystem(ctx, read); !errors.Is(err, ErrUnbound) {
		return imported, err
	}
	err = db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		var used bool
		if err := tx.QueryRow(ctx,
			`SELECT EXISTS (SELECT FROM wallets) OR EXISTS (SELECT FROM dispatch_orders)`).Scan(&used); err != nil {
			return fmt.Errorf("check whether the database was ever used: %w", err)
		}
		if used {
			return fmt.Errorf("%w: it has wallets, and the row that names their journal is gone", ErrForeign)
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO signer_identity (one, journal_id, imported_seq, imported_hash) VALUES (true, $1, 0, '')
			ON CONFLICT DO NOTHING`, head.JournalID)
		if err != nil {
			return fmt.Errorf("bind the database to signer journal %s: %w", head.JournalID, err)
		}
		return nil
	})
	if err != nil {
		return imported, err
	}
	return imported, db.ReadSystem(ctx, read)
}

// followAdoption moves the database to a journal that continues its own. That journal is then
// imported from the beginning. Any other journal is ErrForeign.
func followAdoption(ctx context.Context, db *pg.DB, s signer.Signer, imported, head signer.Head) (signer.Head, error) {
	foreign := fmt.Errorf("%w: the signer has %s, the database belongs to %s", ErrForeign, head.JournalID,
		imported.JournalID)
	entries, err := s.EntriesAfter(ctx, 0, 1)
	if err != nil {
		return imported, fmt.Errorf("ask the signer for the beginning of its journal: %w", err)
	}
	if len(entries) == 0 || entries[0].JournalID != head.JournalID {
		return imported, foreign
	}
	genesis, err := entries[0].VerifyAfter(signer.Head{})
	if err != nil || genesis.Adopts == nil || genesis.Adopts.JournalID != imported.JournalID {
		return imported, errors.Join(foreign, err)
	}
	err = db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		last, err := lastCopied(ctx, tx, imported.JournalID)
		if err != nil {
			return err
		}
		if last != (signer.Head{
			JournalID: genesis.Adopts.JournalID, Seq: genesis.Adopts.Seq,
			Hash: genesis.Adopts.Hash,
		}) {
			return fmt.Errorf("%w: %s was adopted at entry %d, and the database has entries up to %d of it",
				ErrForeign, imported.JournalID, genesis.Adopts.Seq, last.Seq)
		}
		_, err = tx.Exec(ctx, `
			UPDATE signer_identity SET journal_id = $2, imported_seq = 0, imported_hash = ''
			WHERE journal_id = $1`, imported.JournalID, head.JournalID)
		if err != nil {
			return fmt.Errorf("move the database to signer journal %s: %w", head.JournalID, err)
		}
		imported, err = loadIdentity(ctx, tx)
		return err
	})
	return imported, err
}

// lastCopied returns the last entry of a journal that the database has, whether or not it was
// imported.
func lastCopied(ctx context.Context, tx pg.Tx, journalID string) (signer.Head, error) {
	h := signer.Head{JournalID: journalID}
	var seq int64
	err := tx.QueryRow(ctx, `SELECT seq, hash FROM signer_journal WHERE journal_id = $1 ORDER BY seq DESC LIMIT 1`,
		journalID).
		Scan(&seq, &h.Hash)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return h, fmt.Errorf("read the last mirrored entry of the signer's journal: %w", err)
	}
	h.Seq = uint64(seq)
	return h, nil
}

// CopiedEntries returns all entries that the database has of its journal, in order, to rebuild a
// lost one. There may be gaps after the imported part.
func CopiedEntries(ctx context.Context, db *pg.DB) (entries []signer.Entry, err error) {
	err = db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		imported, err := loadIdentity(ctx, tx)
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx,
			`SELECT seq, prev, hash, body FROM signer_journal WHERE journal_id = $1 ORDER BY seq`, imported.JournalID)
		if err != nil {
			return fmt.Errorf("read the mirror of the signer's journal: %w", err)
		}
		entries, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (signer.Entry, error) {
			e := signer.Entry{JournalID: imported.JournalID}
			var seq int64
			var body []byte
			err := row.Scan(&seq, &e.Prev, &e.Hash, &body)
			e.Seq, e.Body = uint64(seq), body
			return e, err
		})
		if err != nil {
			return fmt.Errorf("read the mirror of the signer's journal: %w", err)
		}
		return nil
	})
	return entries, err
}

// PayingWallet is a wallet that pays on a chain.
type PayingWallet struct {
	Wallet signer.WalletRef
	Chain  chain.Name // "": a treasury, which may pay on any chain of its family
}

// ListPayingWallets returns all wallets with orders in the database, each with each of its chains,
// and every treasury. The nonces of these have to be queried before a lost journal is rebuilt.
func ListPayingWallets(ctx context.Context, db *pg.DB) (payers []PayingWallet, err error) {
	err = db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT DISTINCT w.org_id, w.family, w.purpose, w.subject, o.chain FROM dispatch_orders o JOIN wallets w USING (wallet_id)
			UNION
			SELECT org_id, family, purpose, subject, '' FROM wallets WHERE purpose = 'TREASURY'
			ORDER BY 1, 2, 3, 4, 5`)
		if err != nil {
			return err
		}
		payers, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p PayingWallet, err error) {
			err = row.Scan(&p.Wallet.OrgID, &p.Wallet.Family, &p.Wallet.Purpose, &p.Wallet.Subject, &p.Chain)
			return p, err
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read which wallets pay: %w", err)
	}
	return payers, nil
}

// verifyCopy compares the journal with the database's copy at two entries: the imported position
// and the last copied one.
func verifyCopy(ctx context.Context, db *pg.DB, s signer.Signer, imported, head signer.Head) error {
	if imported.JournalID != head.JournalID {
		return fmt.Errorf("%w: the signer has %s, the database belongs to %s", ErrForeign, head.JournalID,
			imported.JournalID)
	}
	var last signer.Head
	err := db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		last, err = lastCopied(ctx, tx, imported.JournalID)
		return err
	})
	if err != nil {
		return err
	}
	heads := []signer.Head{imported, last}
	for _, h := range heads {
		if h.Seq == 0 {
			continue
		}
		entries, err := s.EntriesAfter(ctx, h.Seq-1, 1)
		if err != nil {
			return fmt.Errorf("ask the signer for entry %d: %w", h.Seq, err)
		}
		switch {
		case len(entries) == 0:
			return fmt.Errorf("%w: it ends at %d, the database has seen %d", ErrBehind, head.Seq, h.Seq)
		case entries[0].Head() != h || entries[0].ComputeHash() != h.Hash:
			return fmt.Errorf("%w: entry %d differs", ErrForeign, h.Seq)
		}
	}
	return nil
}

// importBatch imports one batch and returns the new position of the database.
func importBatch(
	ctx context.Context, db *pg.DB, s signer.Signer, keeper WalletKeeper, imported signer.Head,
) (signer.Head, error) {
	entries, err := s.EntriesAfter(ctx, imported.Seq, entriesPerBatch)
	if err != nil {
		return imported, fmt.Errorf("ask the signer for the entries after %d: %w", imported.Seq, err)
	}
	var wallets []signer.IssuedAddress
	var intents, voids []string
	var signs []signer.SignBody
	end := imported
	for _, e := range entries {
		r, err := e.VerifyAfter(end)
		if err != nil {
			return imported, fmt.Errorf("%w: %w", ErrForeign, err)
		}
		end = e.Head()
		switch r.Kind {
		case signer.RecordIssue:
			issued, err := reissueAddress(ctx, s, e, *r.Issue)
			if err != nil {
				return imported, err
			}
			wallets = append(wallets, issued)
		case signer.RecordAdmit:
			intents = append(intents, r.Admit.ID)
		case signer.RecordSign:
			signs = append(signs, *r.Sign)
		case signer.RecordVoid:
			voids = append(voids, r.Void.ID)
		case signer.RecordGenesis, signer.RecordEndorse, signer.RecordRevoke, signer.RecordClock,
			signer.RecordEnrol, signer.RecordRetire, signer.RecordRule:
			// Package whitelist compares its rows with the signer's answers, and package approver does.
		}
	}
	newHead := end
	err = db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		newHead = end
		if err := findMissing(ctx, tx, wallets, intents, voids, signs); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			UPDATE signer_identity SET imported_seq = $4, imported_hash = $5
			WHERE journal_id = $1 AND imported_seq = $2 AND imported_hash = $3`,
			imported.JournalID, int64(imported.Seq), imported.Hash, int64(end.Seq), end.Hash)
		if err != nil {
			return fmt.Errorf("move the imported end of the signer's journal to %d: %w", end.Seq, err)
		}
		if tag.RowsAffected() == 0 {
			// Another process was faster; the next step begins at its position.
			newHead, err = loadIdentity(ctx, tx)
			return err
		}
		for _, e := range entries {
			if err := insertEntry(ctx, tx, e); err != nil {
				return err
			}
		}
		for _, w := range wallets {
			if err := keeper.EnsureWallet(ctx, tx, w); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return imported, err
	}
	return newHead, nil
}

// findMissing returns an *UnknownError with what the journal knows and the database lacks. An order
// satisfies a signature only with the slot and the bytes that were signed. Both are committed
// before the signer is asked, so a database without them is older. The same holds for a voided
// payment, whose order was recalled before.
func findMissing(
	ctx context.Context, tx pg.Tx, wallets []signer.IssuedAddress, intents, voids []string, signs []signer.SignBody,
) error {
	var unknown UnknownError
	if err := findUnsigned(ctx, tx, signs, &unknown.Intents); err != nil {
		return err
	}
	orgs := make([]string, 0, len(wallets))
	for _, w := range wallets {
		orgs = append(orgs, w.OrgID)
	}
	for _, q := range []struct {
		ids  []string
		sql  string
		into *[]string
	}{
		{
			intents,
			`SELECT DISTINCT id FROM unnest($1::text[]) AS id WHERE NOT EXISTS (SELECT FROM dispatch_orders WHERE order_id = id) ORDER BY id`,
			&unknown.Intents,
		},
		{
			voids,
			`SELECT DISTINCT id FROM unnest($1::text[]) AS id WHERE NOT EXISTS (SELECT FROM dispatch_orders WHERE order_id = id AND status = 'WITHDRAWN') ORDER BY id`,
			&unknown.Intents,
		},
		{
			orgs,
			`SELECT DISTINCT id FROM unnest($1::text[]) AS id WHERE NOT EXISTS (SELECT FROM organizations WHERE org_id = id) ORDER BY id`,
			&unknown.Organizations,
		},
	} {
		if len(q.ids) == 0 {
			continue
		}
		rows, err := tx.Query(ctx, q.sql, q.ids)
		if err != nil {
			return fmt.Errorf("look for what the signer's journal names: %w", err)
		}
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("look for what the signer's journal names: %w", err)
		}
		*q.into = append(*q.into, found...)
		slices.Sort(*q.into)
		*q.into = slices.Compact(*q.into)
	}
	if len(unknown.Intents)+len(unknown.Organizations) > 0 {
		return &unknown
	}
	return nil
}

// findUnsigned adds to unknownIDs the orders that lack a slot or bytes that were signed.
func findUnsigned(ctx context.Context, tx pg.Tx, signs []signer.SignBody, unknownIDs *[]string) error {
	if len(signs) == 0 {
		return nil
	}
	ids, nonces, payloads := make([]string, len(signs)), make([]int64, len(signs)), make([][]byte, len(signs))
	for n, s := range signs {
		ids[n], nonces[n], payloads[n] = s.IntentID, int64(s.Slot.Nonce), s.Payload
	}
	rows, err := tx.Query(ctx, `
		SELECT DISTINCT j.id FROM unnest($1::text[], $2::bigint[], $3::bytea[]) AS j (id, nonce, payload)
		WHERE NOT EXISTS (
			SELECT FROM dispatch_attempts a JOIN dispatch_slots s USING (order_id)
			WHERE a.order_id = j.id AND a.payload = j.payload AND s.nonce = j.nonce)`, ids, nonces, payloads)
	if err != nil {
		return fmt.Errorf("look for what the signer signed: %w", err)
	}
	if *unknownIDs, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return fmt.Errorf("look for what the signer signed: %w", err)
	}
	return nil
}
