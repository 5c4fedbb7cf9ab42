package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/wallet"
)

const org = "org_1"

// mirrorEnv is a signer with its files.
type mirrorEnv struct {
	conf local.Config
	seed keys.Seed
	s    *local.Signer
}

func newMirrorEnv(t *testing.T) *mirrorEnv {
	t.Helper()
	seed, err := keys.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	h := &mirrorEnv{seed: seed, conf: local.Config{
		Journal: filepath.Join(t.TempDir(), "journal"),
		Policy:  signertest.NewPolicy(),
	}}
	if err := local.CreateJournal(h.conf, seed); err != nil {
		t.Fatal(err)
	}
	h.open(t)
	t.Cleanup(func() { h.s.Close() })
	return h
}

func (h *mirrorEnv) open(t *testing.T) {
	t.Helper()
	var err error
	if h.s, err = local.Open(h.conf, h.seed); err != nil {
		t.Fatal(err)
	}
}

// swap closes the signer, replaces its journal by other contents and returns the former ones.
func (h *mirrorEnv) swap(t *testing.T, contents []byte) []byte {
	t.Helper()
	if err := h.s.Close(); err != nil {
		t.Fatal(err)
	}
	was, err := os.ReadFile(h.conf.Journal)
	if err != nil {
		t.Fatal(err)
	}
	if contents != nil {
		if err := os.WriteFile(h.conf.Journal, contents, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.open(t)
	return was
}

// admit has the signer admit a payment.
func (h *mirrorEnv) admit(t *testing.T, id string, units uint64) signer.Entry {
	t.Helper()
	signertest.IssueAddress(t, h.s, signertest.Treasury(org))
	e, err := h.s.AdmitIntent(t.Context(), signer.Intent{
		ID: id, Purpose: signer.Payment, Chain: signertest.Chain, From: signertest.Treasury(org),
		To:       signertest.Stranger,
		Contract: signertest.Token, Amount: money.Units(units), CustomerID: "alice",
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// database is a database with the service that stores its wallets.
type database struct {
	db    *pg.DB
	owner *pgxpool.Pool
	book  *wallet.Service
	h     *mirrorEnv
}

func (h *mirrorEnv) newDatabase(t *testing.T, orgs ...string) database {
	t.Helper()
	db := pgtest.New(t)
	b := database{db, pgtest.OwnerPool(t, db), wallet.New(db, h.s, h.seed.AttestKey().PublicKey()), h}
	for _, o := range orgs {
		b.exec(t, `INSERT INTO organizations (org_id, name, created_at) VALUES ($1, $1, now())`, o)
	}
	b.exec(t, `
		INSERT INTO mints (mint_id, chain, network, kind, contract, symbol, name, decimals, deposit_enabled, withdraw_enabled,
			min_deposit, min_withdraw, confirmations_required, finality)
		VALUES (2, 'ETHEREUM', 'LOCAL', 'TOKEN', '0xT', 'USDC', 'Dollar', 6, true, true, 1, 1, 1, 'FINALIZED')`)
	return b
}

func (b database) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	// This writes past the triggers that require the other rows of an order.
	tx, err := b.owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (b database) importing(t *testing.T) error {
	t.Helper()
	return mirror.ImportJournal(t.Context(), b.db, b.h.s, b.book)
}

func (b database) mustImport(t *testing.T) {
	t.Helper()
	if err := b.importing(t); err != nil {
		t.Fatal(err)
	}
	head, err := b.h.s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var at signer.Head
	var seq, rows, most int64
	if err := b.owner.QueryRow(t.Context(),
		`SELECT journal_id, imported_seq, imported_hash FROM signer_identity`).Scan(&at.JournalID, &seq,
		&at.Hash); err != nil {
		t.Fatal(err)
	}
	if at.Seq = uint64(seq); at != head {
		t.Errorf("imported: got %+v, want %+v", at, head)
	}
	if err := b.owner.QueryRow(t.Context(), `SELECT count(*), max(seq) FROM signer_journal`).Scan(&rows,
		&most); err != nil {
		t.Fatal(err)
	}
	if rows != most || uint64(most) != head.Seq {
		t.Errorf("copied: got %d rows up to %d, want %d without a gap", rows, most, head.Seq)
	}
}

func (b database) record(t *testing.T, e signer.Entry) error {
	t.Helper()
	return b.db.InOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
		return mirror.RecordEntry(ctx, tx, e)
	})
}

// order inserts an intent's order into the database.
func (b database) order(t *testing.T, id string) {
	t.Helper()
	w, err := b.book.Treasury(t.Context(), org, "EVM")
	if err != nil {
		t.Fatal(err)
	}
	b.exec(t, `
		INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, to_address, mint_id, contract, amount, status, attempt_after, created_at)
		VALUES ($1, $2, 'PAYMENT', 'ETHEREUM', $3, '0x', 2, '', 1, 'QUEUED', now(), now())`, id, org, w.ID)
}

// slot commits the unsigned transaction of a payment in a nonce, as dispatch does before it
// requests a signature.
func (b database) slot(t *testing.T, i signer.Intent, nonce uint64) {
	t.Helper()
	w, err := b.book.Treasury(t.Context(), org, "EVM")
	if err != nil {
		t.Fatal(err)
	}
	b.exec(t, `INSERT INTO dispatch_slots VALUES ($1, 'ETHEREUM', $2, $3, $4, 0, now())`, w.ID, int64(nonce), org, i.ID)
	b.exec(t, `
		INSERT INTO dispatch_attempts (order_id, version, org_id, act, gas_limit, tip_cap, fee_cap, payload, created_at)
		VALUES ($1, 1, $2, 'PAY', 1, 1, 1, $3, now())`,
		i.ID, org, signertest.IntentPayload(t, i, w.Address, nonce, signertest.UsualFees()))
}

func (b database) frozen(t *testing.T) *freeze.Freeze {
	t.Helper()
	var f *freeze.Freeze
	err := b.db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		f, err = freeze.Active(ctx, tx, freeze.Target{OrgID: org})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestDatabaseBelongsToTheFirstJournalItSees(t *testing.T) {
	t.Parallel()
	h := newMirrorEnv(t)
	b := h.newDatabase(t, org)
	e := h.admit(t, "wd_1", 1)
	if err := b.record(t, e); !errors.Is(err, mirror.ErrUnbound) {
		t.Errorf("before the first import: got %v, want ErrUnbound", err)
	}
	b = newMirrorEnv(t).newDatabase(t, org) // another signer, whose journal has only its beginning
	b.mustImport(t)
	if _, err := b.book.Address(t.Context(), signertest.Deposit(org, "alice")); err != nil {
		t.Fatal(err)
	}
	b.mustImport(t)
	b.order(t, "wd_1")
	for range 2 {
		if err := b.record(t, b.h.admit(t, "wd_1", 1)); err != nil {
			t.Fatal(err)
		}
	}
	b.mustImport(t)
	b.mustImport(t)
	if err := b.record(t, e); !errors.Is(err, mirror.ErrForeign) {
		t.Errorf("an entry of another journal: got %v, want ErrForeign", err)
	}
	if err := mirror.ImportJournal(t.Context(), b.db, h.s, b.book); !errors.Is(err, mirror.ErrForeign) ||
		!mirror.IsContradiction(err) {
		t.Errorf("another journal: got %v, want ErrForeign", err)
	}
	b.exec(t, `DELETE FROM signer_identity`)
	if err := b.importing(t); !errors.Is(err, mirror.ErrForeign) {
		t.Errorf("a database that forgot its journal: got %v, want ErrForeign", err)
	}
}

func TestOlderDatabaseStaysClosed(t *testing.T) {
	t.Parallel()
	h := newMirrorEnv(t)
	young := h.newDatabase(t, org)
	young.mustImport(t)
	for _, customer := range []string{"alice", "bob"} {
		if _, err := young.book.Address(t.Context(), signertest.Deposit(org, customer)); err != nil {
			t.Fatal(err)
		}
	}

	// A database that lacks the addresses gets them back with their proofs.
	old := h.newDatabase(t, org)
	old.mustImport(t)
	for _, customer := range []string{"alice", "bob"} {
		want, err := young.book.Address(t.Context(), signertest.Deposit(org, customer))
		if err != nil {
			t.Fatal(err)
		}
		var address string
		if err := old.owner.QueryRow(t.Context(), `SELECT address FROM wallets WHERE subject = $1`,
			customer).Scan(&address); err != nil || address != string(want.Address) {
			t.Errorf("%s: got %q, %v, want %s", customer, address, err, want.Address)
		}
		if got, err := old.book.Address(t.Context(), signertest.Deposit(org, customer)); err != nil ||
			got.Address != want.Address {
			t.Errorf("%s: got %v, %v, want %s", customer, got, err, want.Address)
		}
	}

	// A database that lacks a payment stays closed, and says which one.
	h.admit(t, "wd_1", 1)
	h.admit(t, "wd_2", 1)
	for range 2 {
		err := mirror.CheckJournal(t.Context(), old.db, h.s, old.book)
		var unknown *mirror.UnknownError
		if !errors.As(err, &unknown) || !slices.Equal(unknown.Intents, []string{"wd_1", "wd_2"}) ||
			!strings.Contains(err.Error(), "Restore a backup") ||
			!strings.Contains(err.Error(), "Do not move the journal away") {
			t.Errorf("got %v, want it to name wd_1 and wd_2 and what to do", err)
		}
	}
	if f := old.frozen(t); f == nil || f.Scope != freeze.ScopeAll || f.Source != freeze.SourceSigner ||
		!strings.Contains(f.Reason, "wd_1") {
		t.Errorf("got %+v, want everything frozen by the signer", f)
	}
	young.order(t, "wd_1")
	young.order(t, "wd_2")
	young.mustImport(t)

	// A database that has the payment queued, but not its signed transaction, is older too.
	i := limitedPayment("wd_3", 1)
	for _, b := range []database{young, old} {
		b.order(t, i.ID)
	}
	young.slot(t, i, 0)
	if _, err := h.s.AdmitIntent(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	if _, err := h.sign(t, i, 0); err != nil {
		t.Fatal(err)
	}
	young.mustImport(t)
	var lacking *mirror.UnknownError
	if err := old.importing(t); !errors.As(err, &lacking) ||
		!slices.Equal(lacking.Intents, []string{"wd_1", "wd_2", "wd_3"}) {
		t.Errorf("got %v, want it to name wd_3, whose signature the database lacks", err)
	}
	if f := young.frozen(t); f != nil {
		t.Errorf("the young database: got %+v, want no freeze", f)
	}

	// A database that also lacks the organization.
	empty := h.newDatabase(t)
	err := empty.importing(t)
	var unknown *mirror.UnknownError
	if !errors.As(err, &unknown) || !slices.Equal(unknown.Organizations, []string{org}) {
		t.Errorf("got %v, want it to name %s", err, org)
	}
}

func TestShorterOrForkedJournalHalts(t *testing.T) {
	t.Parallel()
	h := newMirrorEnv(t)
	b := h.newDatabase(t, org)
	b.mustImport(t)
	b.order(t, "wd_1")
	b.order(t, "wd_2")
	early := h.swap(t, nil)
	b.h.admit(t, "wd_1", 1)
	b.mustImport(t)
	late := h.swap(t, early)

	err := mirror.CheckJournal(t.Context(), b.db, h.s, b.book)
	if !errors.Is(err, mirror.ErrBehind) {
		t.Errorf("a journal from before the database: got %v, want ErrBehind", err)
	}
	if b.frozen(t) == nil {
		t.Error("got no freeze")
	}
	// The journal has grown to the same length and further, with other contents.
	fork := h.admit(t, "wd_2", 1)
	if err := b.importing(t); !errors.Is(err, mirror.ErrForeign) {
		t.Errorf("a forked journal: got %v, want ErrForeign", err)
	}
	if err := b.record(t, fork); !errors.Is(err, mirror.ErrForeign) {
		t.Errorf("an entry of a forked journal: got %v, want ErrForeign", err)
	}
	next, err := h.s.AdmitIntent(t.Context(), signer.Intent{
		ID: "wd_3", Purpose: signer.Payment, Chain: signertest.Chain, From: signertest.Treasury(org),
		To:       signertest.Stranger,
		Contract: signertest.Token, Amount: money.Units(1), CustomerID: "alice",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.record(t, next); !errors.Is(err, mirror.ErrForeign) {
		t.Errorf("an entry after the fork: got %v, want ErrForeign", err)
	}
	changed := next
	changed.Body = []byte(strings.Replace(string(next.Body), `"amount":"1"`, `"amount":"9"`, 1))
	if err := b.record(t, changed); !errors.Is(err, mirror.ErrForeign) {
		t.Errorf("an entry that was changed: got %v, want ErrForeign", err)
	}

	h.swap(t, late)
	b.mustImport(t)
	// An entry that was copied with its change, beyond what was imported, is missed as well.
	e := h.admit(t, "wd_2", 1)
	if err := b.record(t, e); err != nil {
		t.Fatal(err)
	}
	h.swap(t, late)
	if err := b.importing(t); !errors.Is(err, mirror.ErrBehind) {
		t.Errorf("a journal without a copied entry: got %v, want ErrBehind", err)
	}
	if b.frozen(t) == nil {
		t.Error("got no freeze, want the first one to stand until somebody lifts it")
	}
}

func TestForgedWalletRowStopsTheImport(t *testing.T) {
	t.Parallel()
	h := newMirrorEnv(t)
	b := h.newDatabase(t, org)
	b.mustImport(t)
	signertest.IssueAddress(t, h.s, signertest.Deposit(org, "alice"))
	b.exec(t, `
		INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
		VALUES ('adr_1', $1, 'EVM', 'CUSTOMER_DEPOSIT', 'alice', 'm', $2, '', now())`, org, string(signertest.Stranger))
	if err := mirror.CheckJournal(t.Context(), b.db, h.s, b.book); !errors.Is(err, wallet.ErrProof) ||
		b.frozen(t) == nil {
		t.Errorf("got %v, want ErrProof and a freeze", err)
	}
}

func TestManyProcessesImportOnce(t *testing.T) {
	t.Parallel()
	h := newMirrorEnv(t)
	b := h.newDatabase(t, org)
	for n := range 450 { // more than two batches
		signertest.IssueAddress(t, h.s, signertest.Deposit(org, fmt.Sprint("c", n)))
	}
	var intents sync.WaitGroup
	errs := make([]error, 6)
	for n := range errs {
		intents.Go(func() { errs[n] = b.importing(t) })
	}
	intents.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	b.mustImport(t)
	var wallets, audits int
	if err := b.owner.QueryRow(t.Context(),
		`SELECT (SELECT count(*) FROM wallets), (SELECT count(*) FROM audit_log)`).Scan(&wallets, &audits); err != nil {
		t.Fatal(err)
	}
	if wallets != 450 || audits != 450 {
		t.Errorf("got %d wallets, %d audit rows, want 450", wallets, audits)
	}
}

func TestWatchFreezesWhatItFinds(t *testing.T) {
	t.Parallel()
	h := newMirrorEnv(t)
	b := h.newDatabase(t, org)
	b.mustImport(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		mirror.WatchJournal(ctx, b.db, h.s, b.book, time.Millisecond)
	}()
	h.admit(t, "wd_1", 1)
	deadline := time.Now().Add(20 * time.Second)
	for b.frozen(t) == nil {
		if time.Now().After(deadline) {
			t.Fatal("got no freeze")
		}
	}
	cancel()
	<-ended
}
