package wallet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/wallet"
)

// matchEnv is a database with a matcher on it.
type matchEnv struct {
	db         *pg.DB
	super      func(t *testing.T) *pgx.Conn
	matcher    *wallet.Matcher
	statements *statementLog
	logs       *bytes.Buffer
}

func newMatchEnv(t *testing.T) *matchEnv {
	t.Helper()
	return newMatchEnvOn(t, pgtest.NewDatabase(t))
}

func newMatchEnvOn(t *testing.T, d pgtest.Database) *matchEnv {
	t.Helper()
	e := &matchEnv{statements: &statementLog{}, logs: &bytes.Buffer{}}
	e.db = pgtest.OpenTraced(t, d, time.Now, e.statements)
	e.matcher = wallet.NewMatcher(e.db, slog.New(slog.NewTextHandler(e.logs, nil)))
	e.super = func(t *testing.T) *pgx.Conn { return connectTo(t, d.SuperURL) }
	e.exec(t, `
		INSERT INTO organizations (org_id, name, created_at) VALUES ('org_1', 'one', now()) ON CONFLICT DO NOTHING`)
	return e
}

func connectTo(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func (e *matchEnv) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	conn := e.super(t)
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	_ = conn.Close(t.Context())
}

func query[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) (answer T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return answer
}

const insertAddress = `
	INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
	VALUES ('adr_' || $1, 'org_1', $2, 'CUSTOMER_DEPOSIT', $1, '', $1, '', now())`

// addAddress commits an address.
func (e *matchEnv) addAddress(t *testing.T, f chain.Family, a chain.Address) {
	t.Helper()
	e.exec(t, insertAddress, string(a), string(f))
}

func (e *matchEnv) refresh(t *testing.T) {
	t.Helper()
	if err := e.matcher.Refresh(t.Context()); err != nil {
		t.Fatalf("refresh the filter: %v", err)
	}
	if _, ok := e.matcher.Stats(); !ok {
		t.Fatal("got no filter after a refresh")
	}
}

func (e *matchEnv) match(t *testing.T, f chain.Family, addresses ...chain.Address) wallet.Match {
	t.Helper()
	match, err := e.matcher.Match(t.Context(), f, addresses)
	if err != nil {
		t.Fatalf("match: %v", err)
	}
	return match
}

// checkMatch matches three addresses of strangers with those that are ours, several times: each match may move the
// filter's snapshot forward.
func (e *matchEnv) checkMatch(t *testing.T, f chain.Family, ours ...chain.Address) {
	t.Helper()
	for n := range 4 {
		match := e.match(t, f, slices.Concat(ours, []chain.Address{"stranger 1", "stranger 2", "stranger 3"})...)
		if len(match.Wallets) != len(ours) {
			t.Errorf("match %d: got %d wallets, want %d", n, len(match.Wallets), len(ours))
		}
		for _, a := range ours {
			if w, ok := match.Wallets[a]; !ok || w.Address != a || w.Family != f {
				t.Errorf("match %d: got %+v for %s, want its wallet", n, w, a)
			}
		}
	}
}

// checkFilter fails the test if there is no filter, or one where none is wanted.
func (e *matchEnv) checkFilter(t *testing.T, want bool) {
	t.Helper()
	if _, ok := e.matcher.Stats(); ok != want {
		t.Errorf("got a filter: %t, want %t; log: %s", ok, want, e.logs)
	}
}

// statementLog records statements, and calls a function before and after those that contain a text.
type statementLog struct {
	mu            sync.Mutex
	sent          []string
	text          string
	before, after func()
}

var (
	_ pgx.QueryTracer = (*statementLog)(nil)
	_ pgx.BatchTracer = (*statementLog)(nil)
)

type batchKey struct{}

// TraceQueryStart implements pgx.QueryTracer.
func (s *statementLog) TraceQueryStart(
	ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData,
) context.Context {
	s.record(data.SQL)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*statementLog) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (s *statementLog) TraceBatchStart(
	ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData,
) context.Context {
	for _, q := range data.Batch.QueuedQueries {
		s.record(q.SQL)
		if s.text != "" && strings.Contains(q.SQL, s.text) {
			if s.before != nil {
				s.before()
			}
			return context.WithValue(ctx, batchKey{}, true)
		}
	}
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (*statementLog) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (s *statementLog) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchEndData) {
	if ctx.Value(batchKey{}) != nil && s.after != nil {
		s.after()
	}
}

func (s *statementLog) record(sql string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, sql)
}

// countLookups returns how many statements asked the index of all addresses, and forgets them.
func (s *statementLog) countLookups() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sql := range s.sent {
		if strings.Contains(sql, "address = ANY") {
			n++
		}
	}
	s.sent = nil
	return n
}

// Rule DEP-58.
func TestABlockWithoutOurAddressesAsksTheIndexForNothing(t *testing.T) {
	t.Parallel()
	e := newMatchEnv(t)
	for n := range 50 {
		e.addAddress(t, chain.EVM, chain.Address(fmt.Sprint("0xours", n)))
	}
	block := make([]chain.Address, 1_000)
	for i := range block {
		block[i] = chain.Address(fmt.Sprintf("0xstranger%d", i))
	}
	e.match(t, chain.EVM, block...)
	if n := e.statements.countLookups(); n != 1 {
		t.Errorf("without a filter: got %d look-ups, want one", n)
	}
	e.refresh(t)
	scans := `SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'wallets_address_unique'`
	super := e.super(t)
	flush := func() { // the server's sessions report what they read when they end
		e.exec(t, `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
			WHERE datname = current_database() AND usename = 'coffer'`)
	}
	flush()
	e.refresh(t)
	before := query[int64](t, super, scans)
	e.statements.countLookups()
	for range 20 {
		if match := e.match(t, chain.EVM, block...); len(match.Wallets) != 0 {
			t.Errorf("got %d wallets, want none", len(match.Wallets))
		}
	}
	flush()
	if n, asked := query[int64](t, super, scans)-before, e.statements.countLookups(); n != 0 || asked != 0 {
		t.Errorf("got %d look-ups in the index and %d statements, want none", n, asked)
	}
	e.checkMatch(t, chain.EVM, "0xours7", "0xours49")
	if n := e.statements.countLookups(); n != 4 {
		t.Errorf("with addresses of ours: got %d look-ups in 4 matches, want one each", n)
	}
}

func TestTheAddressesSinceTheSnapshotAreReadByTheirIndex(t *testing.T) {
	t.Parallel()
	e := newMatchEnv(t)
	e.exec(t, `
		INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
		SELECT 'adr_' || n, 'org_1', 'EVM', 'CUSTOMER_DEPOSIT', 'c' || n, '', '0x' || n, '', now()
		FROM generate_series(1, 5000) AS n`)
	e.refresh(t)
	e.checkMatch(t, chain.EVM, "0x1", "0x5000")
	e.statements.mu.Lock()
	var reading string
	for _, sql := range e.statements.sent {
		if strings.Contains(sql, "pg_current_snapshot") {
			reading = sql
		}
	}
	e.statements.mu.Unlock()
	err := e.db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL enable_seqscan = off`); err != nil {
			return err
		}
		watched, reads := pgtest.WatchReads(tx)
		rows, err := watched.Query(ctx, reading, e.matcher.Snapshot(), wallet.CreatedMax)
		if err != nil {
			return err
		}
		rows.Close()
		reads.CheckRows(t, "the reading", 50)
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Rule DEP-58.
func TestAnAddressThatCommitsLateIsFound(t *testing.T) {
	t.Parallel()
	e := newMatchEnv(t)
	e.addAddress(t, chain.EVM, "0xearly")
	late, err := e.super(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := late.Exec(t.Context(), insertAddress, "0xlate", string(chain.EVM)); err != nil {
		t.Fatal(err)
	}
	for n := range 5 { // transactions that begin later and commit before
		e.addAddress(t, chain.EVM, chain.Address(fmt.Sprint("0xquick", n)))
	}
	e.refresh(t)
	e.checkMatch(t, chain.EVM, "0xearly", "0xquick4")
	e.addAddress(t, chain.EVM, "0xlater")
	e.checkMatch(t, chain.EVM, "0xlater")
	if match := e.match(t, chain.EVM, "0xlate"); len(match.Wallets) != 0 {
		t.Error("got an address that is not committed")
	}
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.checkMatch(t, chain.EVM, "0xlate", "0xlater", "0xearly", "0xquick0")
	e.refresh(t)
	e.checkMatch(t, chain.EVM, "0xlate", "0xlater", "0xearly", "0xquick0")
	e.checkFilter(t, true)
}

// Rule DEP-58.
func TestAnAddressOfAnotherProcessIsFound(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	matcher := wallet.NewMatcher(w.db, slog.New(slog.DiscardHandler))
	first := w.issueAddress(t, "alice")
	if err := matcher.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	elsewhere := pgtest.Open(t, pgtest.DatabaseOf(t, w.db), time.Now)
	other := testEnv{db: elsewhere, owner: w.owner, signer: w.signer, book: wallet.New(elsewhere, w.signer, w.attest)}
	for n := range 10 {
		a := other.issueAddress(t, fmt.Sprint("customer ", n))
		match, err := matcher.Match(t.Context(), chain.EVM, []chain.Address{a.Address, first.Address, "0xstranger"})
		if err != nil || len(match.Wallets) != 2 || match.Wallets[a.Address].ID != a.ID {
			t.Errorf("got %v, %v, want %s and %s", match.Wallets, err, a.ID, first.ID)
		}
	}
}

func TestAddressesOfEveryFamilyAndPurposeAreFound(t *testing.T) {
	t.Parallel()
	e := newMatchEnv(t)
	families := []chain.Family{chain.EVM, chain.SolanaFamily, chain.BitcoinFamily}
	subjects := map[string]string{
		wallet.OrganizationDeposit: "CHECKOUT", wallet.Treasury: "", wallet.CheckoutShared: "CHECKOUT",
	}
	for n, purpose := range wallet.Purposes {
		for _, f := range families {
			subject, isFixed := subjects[purpose]
			if !isFixed {
				subject = fmt.Sprint(n + 1)
			}
			a := fmt.Sprint("old ", purpose)
			e.exec(t, `
				INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
				VALUES ($1, 'org_1', $2, $3, $4, '', $5, '', now())`, fmt.Sprint("adr_", f, n), f, purpose, subject, a)
		}
	}
	// An address of one family is a stranger's in another one.
	e.addAddress(t, chain.BitcoinFamily, "bitcoin alone")
	check := func() {
		for _, f := range families {
			var ours []chain.Address
			for _, purpose := range wallet.Purposes {
				ours = append(ours, chain.Address("old "+purpose))
			}
			e.checkMatch(t, f, ours...)
		}
		if match := e.match(t, chain.EVM, "bitcoin alone"); len(match.Wallets) != 0 {
			t.Error("got an address of Bitcoin on EVM")
		}
	}
	check()
	e.refresh(t)
	check()
	e.checkFilter(t, true)
}

// Rule DEP-58.
func TestAddressesThatCommitDuringTheBuildAreFound(t *testing.T) {
	t.Parallel()
	e := newMatchEnv(t)
	e.addAddress(t, chain.EVM, "0xbefore")
	var before, after int
	e.statements.text = "ctid >="
	e.statements.before = func() { before++; e.addAddress(t, chain.EVM, chain.Address(fmt.Sprint("0xat", before))) }
	e.statements.after = func() { after++; e.addAddress(t, chain.EVM, chain.Address(fmt.Sprint("0xpast", after))) }
	e.refresh(t)
	e.statements.text = ""
	if before == 0 || after == 0 {
		t.Fatal("the build read no part of the table")
	}
	e.checkMatch(t, chain.EVM, "0xbefore", "0xat1", "0xpast1")
	e.refresh(t)
	e.checkMatch(t, chain.EVM, "0xbefore", "0xat1", "0xpast1")
	e.checkFilter(t, true)
}

func TestMoreNewAddressesThanAMatchReadsAreFound(t *testing.T) {
	t.Parallel()
	e := newMatchEnv(t)
	e.addAddress(t, chain.EVM, "0xours")
	e.refresh(t)
	e.exec(t, `
		INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
		SELECT 'adr_' || n, 'org_1', 'EVM', 'CUSTOMER_DEPOSIT', 'c' || n, '', '0xnew' || n, '', now()
		FROM generate_series(1, $1::int) AS n`, 2*wallet.CreatedMax)
	e.statements.countLookups()
	e.match(t, chain.EVM, "stranger")
	if n := e.statements.countLookups(); n != 1 {
		t.Errorf("behind: got %d look-ups for a stranger, want one", n)
	}
	e.checkMatch(t, chain.EVM, "0xours", "0xnew1", chain.Address(fmt.Sprint("0xnew", 2*wallet.CreatedMax)))
	e.refresh(t)
	e.refresh(t) // the log is on disk
	e.statements.countLookups()
	pgtest.Eventually(t, func() bool {
		e.refresh(t)
		e.match(t, chain.EVM, "stranger")
		return e.statements.countLookups() == 0
	}, "the filter does not catch up")
	e.checkMatch(t, chain.EVM, "0xours", "0xnew1", chain.Address(fmt.Sprint("0xnew", 2*wallet.CreatedMax)))
	if stats, _ := e.matcher.Stats(); stats.Addresses != 2*wallet.CreatedMax+1 {
		t.Errorf("got %d addresses, want %d", stats.Addresses, 2*wallet.CreatedMax+1)
	}
}

func TestAFullFilterIsBuiltAgainLarger(t *testing.T) {
	t.Parallel()
	e := newMatchEnv(t)
	e.refresh(t)
	small, _ := e.matcher.Stats()
	e.exec(t, `
		INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
		SELECT 'adr_' || n, 'org_1', 'EVM', 'CUSTOMER_DEPOSIT', 'c' || n, '', '0xnew' || n, '', now()
		FROM generate_series(1, 15000) AS n`)
	e.refresh(t)
	e.refresh(t)
	large, _ := e.matcher.Stats()
	if large.Bytes <= small.Bytes || large.Addresses < 14_900 || large.Addresses > 15_000 {
		t.Errorf("got %+v after %+v, want a larger filter with 15000 addresses", large, small)
	}
	e.checkMatch(t, chain.EVM, "0xnew1", "0xnew15000")
}

// Rule DEP-58.
func TestWhatTheFilterTakesForOursTheIndexDecides(t *testing.T) {
	t.Parallel()
	e := newMatchEnv(t)
	e.addAddress(t, chain.EVM, "0xours")
	e.refresh(t)
	e.matcher.AddToFilter(chain.EVM, "stranger 2")
	e.statements.countLookups()
	e.checkMatch(t, chain.EVM)
	if n := e.statements.countLookups(); n != 4 {
		t.Errorf("got %d look-ups in 4 matches, want one each", n)
	}
	e.checkMatch(t, chain.EVM, "0xours")
}

// Rule DEP-58.
func TestAFilterThatCannotBeTrustedIsDiscardedAndTheIndexAnswers(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]string{
		"without the trigger":         `DROP TRIGGER wallets_written ON wallets`,
		"the trigger is off":          `ALTER TABLE wallets DISABLE TRIGGER wallets_written`,
		"the trigger sometimes fires": `ALTER TABLE wallets ENABLE TRIGGER wallets_written`,
		"the trigger was off": `
			ALTER TABLE wallets DISABLE TRIGGER wallets_written;
			ALTER TABLE wallets ENABLE ALWAYS TRIGGER wallets_written`,
		"the position cannot be read": `REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC`,
		"the table was emptied":       `SET session_replication_role = replica; TRUNCATE wallets CASCADE`,
		"the table was written anew":  `VACUUM FULL wallets`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newMatchEnv(t)
			e.addAddress(t, chain.EVM, "0xold")
			e.refresh(t)
			e.checkMatch(t, chain.EVM, "0xold")
			e.exec(t, spoil)
			e.addAddress(t, chain.EVM, "0xnew")
			e.checkMatch(t, chain.EVM, "0xnew")
			e.checkFilter(t, false)
			if !strings.Contains(e.logs.String(), "the filter is discarded") {
				t.Errorf("got %q, want a line about the discarded filter", e.logs)
			}
		})
	}
}

// Rule DEP-58.
func TestWithoutABuiltFilterTheIndexAnswers(t *testing.T) {
	t.Parallel()
	e := newMatchEnv(t)
	e.addAddress(t, chain.EVM, "0xours")
	e.exec(t, `ALTER TABLE wallets DISABLE TRIGGER wallets_written`)
	if err := e.matcher.Refresh(t.Context()); err == nil {
		t.Error("got a filter of a table whose rows are not stamped")
	}
	e.checkMatch(t, chain.EVM, "0xours")
	e.checkFilter(t, false)
	e.exec(t, `ALTER TABLE wallets ENABLE ALWAYS TRIGGER wallets_written`)
	e.refresh(t)
	e.checkMatch(t, chain.EVM, "0xours")
	e.checkFilter(t, true)
}

// Rule DEP-58.
func TestNoWriterChoosesTheTransactionOfARow(t *testing.T) {
	t.Parallel()
	e := newMatchEnv(t)
	super := e.super(t)
	stamped := func() bool {
		return query[bool](t, super, `
			SELECT bool_and(written_xid < pg_current_xact_id() AND written_xid::text <> '3') FROM wallets`)
	}
	e.addAddress(t, chain.EVM, "0xfirst")
	e.refresh(t)
	for n, before := range []string{
		"", "SET session_replication_role = replica", // as a restore of the rows alone, and a replica's writer
	} {
		a := fmt.Sprint("0xcopied", n)
		if _, err := super.Exec(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		if _, err := super.Exec(t.Context(), `
			INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at,
				written_xid)
			VALUES ($1, 'org_1', 'EVM', 'CUSTOMER_DEPOSIT', $1, '', $1, '', now(), '3')`, a); err != nil {
			t.Fatal(err)
		}
		e.checkMatch(t, chain.EVM, chain.Address(a))
	}
	if _, err := super.Exec(
		t.Context(), `UPDATE wallets SET address = '0xrepaired' WHERE address = '0xfirst'`,
	); err != nil {
		t.Fatal(err)
	}
	e.checkMatch(t, chain.EVM, "0xrepaired")
	e.checkFilter(t, true)
	if !stamped() {
		t.Error("got rows that name another transaction, want their own")
	}
}

// Rule DEP-58.
func TestAMatchIsRecheckedInALaterTransaction(t *testing.T) {
	t.Parallel()
	e := newMatchEnv(t)
	e.addAddress(t, chain.EVM, "0xours")
	e.refresh(t)
	match := e.match(t, chain.EVM, "0xours", "0xsoon", "stranger")
	recheck := func() error {
		return e.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error { return match.Recheck(ctx, tx) })
	}
	e.addAddress(t, chain.EVM, "0xunrelated")
	if err := recheck(); err != nil {
		t.Errorf("got %v, want a match that holds", err)
	}
	e.addAddress(t, chain.EVM, "0xsoon")
	if err := recheck(); !errors.Is(err, wallet.ErrOutdated) {
		t.Errorf("got %v, want ErrOutdated", err)
	}
	match = e.match(t, chain.EVM, "0xours", "0xsoon", "stranger")
	if err := recheck(); err != nil || len(match.Wallets) != 2 {
		t.Errorf("got %v with %d wallets, want two", err, len(match.Wallets))
	}
	e.exec(t, `VACUUM FULL wallets`)
	if err := recheck(); !errors.Is(err, wallet.ErrOutdated) {
		t.Errorf("another table: got %v, want ErrOutdated", err)
	}
}

// Rule DEP-58.
func TestAReplacedDatabaseDiscardsTheFilter(t *testing.T) {
	t.Parallel()
	d := pgtest.NewDatabase(t)
	e := newMatchEnvOn(t, d)
	e.addAddress(t, chain.EVM, "0xboth")
	backup := pgtest.CopyDatabase(t, d)
	e.addAddress(t, chain.EVM, "0xlost")
	e.refresh(t)
	e.checkMatch(t, chain.EVM, "0xboth", "0xlost")
	match := e.match(t, chain.EVM, "stranger 1")
	// Between them are more transactions than the lost database had after the backup.
	conn := connectTo(t, backup.SuperURL)
	if _, err := conn.Exec(t.Context(), insertAddress, "0xrestored", string(chain.EVM)); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close(t.Context())
	admin := connectTo(t, strings.Replace(d.SuperURL, "/"+d.Name, "/postgres", 1))
	for _, sql := range []string{
		`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '` + d.Name + `'`,
		`ALTER DATABASE ` + d.Name + ` RENAME TO ` + d.Name + `_lost`,
		`ALTER DATABASE ` + backup.Name + ` RENAME TO ` + d.Name,
	} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		_, _ = admin.Exec(context.WithoutCancel(t.Context()), `DROP DATABASE IF EXISTS `+d.Name+`_lost WITH (FORCE)`)
	})
	err := e.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error { return match.Recheck(ctx, tx) })
	if !errors.Is(err, wallet.ErrOutdated) {
		t.Errorf("got %v for a match of the lost database, want ErrOutdated", err)
	}
	e.checkMatch(t, chain.EVM, "0xboth", "0xrestored")
	e.checkFilter(t, false)
	if match := e.match(t, chain.EVM, "0xlost"); len(match.Wallets) != 0 {
		t.Error("got a wallet that the restored database lacks")
	}
	e.refresh(t)
	e.checkMatch(t, chain.EVM, "0xboth", "0xrestored")
	e.checkFilter(t, true)
}

func TestRunBuildsTheFilterAfterTheFirstMatchAndAgainAfterItWasDiscarded(t *testing.T) {
	t.Parallel()
	e := newMatchEnv(t)
	e.addAddress(t, chain.EVM, "0xours")
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var running sync.WaitGroup
	running.Go(func() {
		if err := e.matcher.Run(ctx); err != nil {
			t.Errorf("got %v, want nil at the end", err)
		}
	})
	hasFilter := func() bool { _, ok := e.matcher.Stats(); return ok }
	if hasFilter() {
		t.Error("got a filter before the first match")
	}
	for range 2 {
		e.checkMatch(t, chain.EVM, "0xours")
		pgtest.Eventually(t, hasFilter, "Run builds no filter")
		first := e.matcher.Source()
		e.exec(t, `VACUUM FULL wallets`)
		e.checkMatch(t, chain.EVM, "0xours")
		pgtest.Eventually(t, func() bool {
			return hasFilter() && e.matcher.Source() != first
		}, "Run builds no other filter")
	}
	end()
	running.Wait()
}

// newClusterEnv starts a server of the test's own.
func newClusterEnv(t *testing.T, settings map[string]string) (*matchEnv, *local.Cluster) {
	t.Helper()
	cluster := pgtest.StartCluster(t, settings)
	return newMatchEnvOn(t, pgtest.Database{
		Name: local.Database, URL: cluster.URL(""), SuperURL: cluster.SuperURL(local.Database),
	}), cluster
}

func restart(t *testing.T, cluster *local.Cluster, whileStopped func(data string)) {
	t.Helper()
	if err := cluster.Kill(); err != nil {
		t.Fatal(err)
	}
	whileStopped(filepath.Join(cluster.Dir(), "data"))
	if err := cluster.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if output, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, output)
	}
}

// A copy of the files goes back to numbers of transactions that were given out already, on the same timeline.
// Rule DEP-58.
func TestARestoreOfTheFilesDiscardsTheFilter(t *testing.T) {
	t.Parallel()
	e, cluster := newClusterEnv(t, nil)
	e.addAddress(t, chain.EVM, "0xboth")
	backup := filepath.Join(cluster.Dir(), "backup")
	restart(t, cluster, func(data string) { run(t, "cp", "-Rp", data, backup) })
	for n := range 50 {
		e.addAddress(t, chain.EVM, chain.Address(fmt.Sprint("0xlost", n)))
	}
	e.refresh(t)
	e.checkMatch(t, chain.EVM, "0xboth", "0xlost1", "0xlost49")
	lost := query[int64](t, e.super(t), `SELECT pg_current_xact_id()::text::bigint`)
	restart(t, cluster, func(data string) { run(t, "rm", "-r", data); run(t, "mv", backup, data) })
	e.addAddress(t, chain.EVM, "0xrestored")
	if given := query[int64](t, e.super(t), `SELECT pg_current_xact_id()::text::bigint`); given >= lost {
		t.Fatalf("got transaction %d after the restore, want numbers before %d again", given, lost)
	}
	e.checkMatch(t, chain.EVM, "0xboth", "0xrestored")
	if match := e.match(t, chain.EVM, "0xlost7"); len(match.Wallets) != 0 {
		t.Error("got a wallet that the restored database lacks")
	}
	e.checkFilter(t, false)
	e.refresh(t)
	e.checkMatch(t, chain.EVM, "0xboth", "0xrestored")
}

// Rule DEP-58.
func TestAForkOfTheTimelineDiscardsTheFilter(t *testing.T) {
	t.Parallel()
	e, cluster := newClusterEnv(t, map[string]string{"wal_level": "replica", "restore_command": "false"})
	e.addAddress(t, chain.EVM, "0xold")
	e.refresh(t)
	e.checkMatch(t, chain.EVM, "0xold")
	before := strings.Fields(e.matcher.Source())
	restart(t, cluster, func(data string) {
		signal := filepath.Join(data, "recovery.signal")
		if err := os.WriteFile(signal, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, "chown", "--reference="+data, signal)
	})
	pgtest.Eventually(t, func() bool {
		conn, err := pgx.Connect(t.Context(), cluster.SuperURL(local.Database))
		if err != nil {
			return false
		}
		defer func() { _ = conn.Close(t.Context()) }()
		inRecovery := true
		err = conn.QueryRow(t.Context(), `SELECT pg_is_in_recovery()`).Scan(&inRecovery)
		return err == nil && !inRecovery
	}, "the server stays in recovery")
	e.addAddress(t, chain.EVM, "0xnew")
	e.checkMatch(t, chain.EVM, "0xold", "0xnew")
	e.checkFilter(t, false)
	e.refresh(t)
	after := strings.Fields(e.matcher.Source())
	if before[0] != after[0] || before[1] == after[1] {
		t.Errorf("got %v after %v, want another timeline of the same cluster", after, before)
	}
	e.checkMatch(t, chain.EVM, "0xold", "0xnew")
}

// A server that restarts its sessions after a crash, and not itself, gives out the numbers again of transactions
// whose end was not on disk. Rule DEP-58.
func TestACrashOfASessionHidesNoAddress(t *testing.T) {
	t.Parallel()
	e, _ := newClusterEnv(t, map[string]string{"wal_writer_delay": "10s", "autovacuum": "off"})
	e.addAddress(t, chain.EVM, "0xold") // its commit writes the log to disk
	e.refresh(t)
	source := e.matcher.Source()
	crash := e.super(t)
	pid := query[int](t, crash, `SELECT pg_backend_pid()`)
	start := query[int64](t, crash, `SELECT pg_current_xact_id()::text::bigint`)
	burn := func() (last int64) {
		for range 30 { // they end, and the end of none is on disk
			tx, err := crash.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := tx.QueryRow(t.Context(), `SELECT pg_current_xact_id()::text::bigint`).Scan(&last); err != nil {
				t.Fatal(err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return last
	}
	burn()
	for range 3 {
		e.match(t, chain.EVM, "stranger")
	}
	last := burn()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	url := crash.Config().ConnString()
	pgtest.Eventually(t, func() bool {
		conn, err := pgx.Connect(t.Context(), url)
		if err == nil {
			_ = conn.Close(t.Context())
		}
		return err == nil
	}, "the server does not recover")
	e.addAddress(t, chain.EVM, "0xnew")
	given, err := strconv.ParseInt(query[string](t, e.super(t), `
		SELECT written_xid::text FROM wallets WHERE address = '0xnew'`), 10, 64)
	if err != nil || given > last || given < start {
		t.Fatalf("got transaction %d, %v, want one of %d to %d again", given, err, start, last)
	}
	e.checkMatch(t, chain.EVM, "0xold", "0xnew")
	e.refresh(t)
	e.checkMatch(t, chain.EVM, "0xold", "0xnew")
	if now := e.matcher.Source(); now != source {
		t.Errorf("got %s after %s, want the same start of the server", now, source)
	}
}

// Rule DEP-58.
func TestTheFilterIsSmallAndMissesNothing(t *testing.T) {
	t.Parallel()
	if size := wallet.NewSyntheticFilter(10_000_000).Bytes(); size > 30_000_000 {
		t.Errorf("got %d bytes for ten million addresses, want at most 30 MB", size)
	}
	const addresses = 1_000_000
	f := wallet.NewSyntheticFilter(addresses)
	if perAddress := float64(f.Bytes()) / addresses; perAddress > 3 {
		t.Errorf("got %.2f bytes for each address, want at most 3", perAddress)
	}
	block := make([]chain.Address, addresses)
	for n := range block {
		block[n] = chain.Address(fmt.Sprintf("0x%040x", n))
		f.Add(chain.EVM, string(block[n]))
	}
	if n := len(f.Sift(chain.EVM, block)); n != addresses {
		t.Errorf("got %d of %d addresses", n, addresses)
	}
	if n := len(f.Sift(chain.SolanaFamily, block)); n > addresses/500 {
		t.Errorf("got %d of %d strangers for ours, want one in 1,000", n, addresses)
	}
}
