// Package pgtest gives every test a PostgreSQL database of its own, migrated and empty.
//
// One server runs per test binary. The first test that asks starts it; tests that kill a server
// start their own (see StartCluster). The server is a copy of a cluster that was initialized and
// migrated once per state of the migrations, so a start costs a copy of files. Each test then
// clones a template database. The settings are the durable ones of a real server, which is why a
// test may also start the real program on its database. Speed comes from a directory in memory,
// where the machine has one.
//
// It never uses a mock, and two tests never share a database. A crash leaves no process: the server
// and its directory go away with the test binary, however that ends (see package local). The
// initialized cluster stays in the temporary directory for the next run and is removed when it is a
// day old.
package pgtest

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
	"github.com/cofferpay/coffer/migrations"
)

const (
	templateDatabase = "coffer_template"
	templateVersion  = "3" // raised when the content of the template changes
	templateAgeMax   = 24 * time.Hour
	memoryBytesMin   = 1 << 30 // below this a directory in memory is not used
	connsPerTest     = 8
	ownerConns       = 16 // as many sessions as one test holds at once, and more
	planSetting      = "plan_cache_mode"
	planOnce         = "force_generic_plan"
	// A world lives for minutes and has few rows. A worker that finds nothing to do in them reads
	// the catalogue of each database every minute.
	worldSettings = planSetting + " = " + planOnce + "\nautovacuum_naptime = 1h\n"
)

// Database describes a test's database, for tests that start a program on it.
type Database struct {
	Name     string
	URL      string // the login role's
	OwnerURL string // the owner's, for migrations
	SuperURL string // past all privileges and row level security
}

// NewDatabase clones a migrated database that is dropped at the end of the test.
func NewDatabase(t testing.TB) Database {
	t.Helper()
	s := sharedServer(t)
	name := "test_" + strconv.FormatInt(s.count.Add(1), 10)
	ctx := t.Context()
	if _, err := s.admin.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE "+templateDatabase+
		" STRATEGY file_copy OWNER "+local.Owner); err != nil {
		t.Fatalf("clone a database: %v", err)
	}
	return s.adoptDatabase(t, name)
}

// adoptDatabase describes a new database of the server and drops it at the end of the test.
func (s *server) adoptDatabase(t testing.TB, name string) Database {
	t.Helper()
	d := Database{
		Name: name, URL: s.cluster.URL(name), OwnerURL: s.cluster.OwnerURL(name), SuperURL: s.cluster.SuperURL(name),
	}
	ctx := t.Context()
	owner := &ownerPool{}
	ownerPools.Store(d.SuperURL, owner)
	t.Cleanup(func() {
		ownerPools.Delete(d.SuperURL)
		owner.close()
		if _, err := s.admin.Exec(
			context.WithoutCancel(ctx), "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)",
		); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	watchLocks(t, name)
	return d
}

// CopyDatabase copies a database as it is now: a backup that the test restores later. The copy is
// dropped at the end of the test. Connections to the original are cut; pools of package pg open new
// ones by themselves.
func CopyDatabase(t testing.TB, original Database) Database {
	t.Helper()
	s := sharedServer(t)
	name := "test_" + strconv.FormatInt(s.count.Add(1), 10)
	ctx := t.Context()
	Eventually(t, func() bool {
		_, err := s.admin.Exec(ctx, `SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE datname = $1`,
			original.Name)
		if err == nil {
			_, err = s.admin.Exec(
				ctx, "CREATE DATABASE "+name+" TEMPLATE "+original.Name+" STRATEGY file_copy OWNER "+local.Owner,
			)
		}
		var busy *pgconn.PgError
		if err != nil && !(errors.As(err, &busy) && busy.Code == "55006") {
			t.Fatalf("copy the test's database: %v", err)
		}
		return err == nil
	}, "the database is in use and cannot be copied")
	return s.adoptDatabase(t, name)
}

// New opens a new database for the test, on the system's clock.
func New(t testing.TB) *pg.DB {
	t.Helper()
	return NewWithClock(t, time.Now)
}

// NewWithClock opens a new database for the test whose transactions take their time from clock.
func NewWithClock(t testing.TB, clock func() time.Time) *pg.DB {
	t.Helper()
	return Open(t, NewDatabase(t), clock)
}

// Open opens a database that NewDatabase made, once more or with another clock. The pool is closed
// at the end of the test.
func Open(t testing.TB, d Database, clock func() time.Time) *pg.DB {
	t.Helper()
	return OpenTraced(t, d, clock, nil)
}

// OpenTraced does what Open does, and lets tracer observe the statements in place of the order of locks.
func OpenTraced(t testing.TB, d Database, clock func() time.Time, tracer pgx.QueryTracer) *pg.DB {
	t.Helper()
	db, err := pg.Open(t.Context(), pg.Config{
		URL: d.URL, OwnerURL: d.OwnerURL, MaxConns: connsPerTest, Tracer: tracer,
	}, clock)
	if err != nil {
		t.Fatalf("open the test's database: %v", err)
	}
	t.Cleanup(db.Close)
	openDatabases.Store(db, d)
	t.Cleanup(func() { openDatabases.Delete(db) })
	return db
}

var openDatabases sync.Map // *pg.DB -> Database

// DatabaseOf returns the database behind a DB that this package opened.
func DatabaseOf(t testing.TB, db *pg.DB) Database {
	t.Helper()
	d, ok := openDatabases.Load(db)
	if !ok {
		t.Fatal("pgtest did not open this database")
	}
	return d.(Database)
}

// LoginURL returns the login role's URL of the database behind db.
func LoginURL(t testing.TB, db *pg.DB) string {
	t.Helper()
	return DatabaseOf(t, db).URL
}

// WrittenColumns returns the columns of a table that an INSERT may write, separated by commas.
func WrittenColumns(t testing.TB, db *pg.DB, table string) string {
	t.Helper()
	var columns string
	if err := OwnerPool(t, db).QueryRow(t.Context(), `
		SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
		WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`, table,
	).Scan(&columns); err != nil {
		t.Fatal(err)
	}
	return columns
}

// OwnerPool returns a pool on the database behind db that has every privilege and no row level
// security. It is for tests that tamper, and for reading what no role may see. A database has one such
// pool, because the start of a session costs the server more than most statements do. It is closed
// when the database is dropped.
func OwnerPool(t testing.TB, db *pg.DB) *pgxpool.Pool {
	t.Helper()
	d := DatabaseOf(t, db)
	owner, shared := ownerPools.Load(d.SuperURL)
	if !shared { // the database is on a server of the test's own
		single := &ownerPool{}
		t.Cleanup(single.close)
		owner = single
	}
	pool, err := owner.(*ownerPool).open(d.SuperURL)
	if err != nil {
		t.Fatalf("open the superuser's pool: %v", err)
	}
	return pool
}

var ownerPools sync.Map // SuperURL of a Database -> *ownerPool

// ownerPool is a pool that is opened when it is first needed.
type ownerPool struct {
	mu   sync.Mutex
	pool *pgxpool.Pool
}

func (o *ownerPool) open(url string) (*pgxpool.Pool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pool != nil {
		return o.pool, nil
	}
	conf, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	conf.MaxConns = ownerConns
	conf.ConnConfig.RuntimeParams["timezone"] = "UTC"
	// A test may have ended the sessions of its database.
	conf.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return true }
	o.pool, err = pgxpool.NewWithConfig(context.Background(), conf)
	return o.pool, err
}

func (o *ownerPool) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pool != nil {
		o.pool.Close()
	}
}

// BeginOwner begins a transaction of OwnerPool, for a test that blocks other transactions. It is
// rolled back however the test ends, because a pool waits for its connections before it closes.
func BeginOwner(t testing.TB, db *pg.DB) pgx.Tx {
	t.Helper()
	tx, err := OwnerPool(t, db).Begin(t.Context())
	if err != nil {
		t.Fatalf("begin as the superuser: %v", err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

const (
	eventuallyMax      = 3 * time.Minute // against a hang: a busy machine is slow, and that is no failure
	eventuallyInterval = 10 * time.Millisecond
)

// Eventually waits until holds returns true, asking again and again. It fails the test after
// eventuallyMax. The words name what was awaited.
func Eventually(t testing.TB, holds func() bool, words string, args ...any) {
	t.Helper()
	deadline := time.Now().Add(eventuallyMax)
	tick := time.NewTicker(eventuallyInterval)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("did not come true: "+words, args...)
		}
		<-tick.C
	}
}

// RaceBehindLock makes change run while act waits. It holds the rows that the statement lock locks,
// such as SELECT FROM t FOR UPDATE, until act waits for one of them. It then begins change, and
// releases the rows once change has ended or waits for an advisory lock. It returns when both have
// ended. A change that has to wait for act has therefore waited, independent of the machine's
// timing.
func RaceBehindLock(t testing.TB, db *pg.DB, lock string, act, change func()) {
	t.Helper()
	owner := OwnerPool(t, db)
	waiting := func(events ...string) bool {
		var n int
		err := owner.QueryRow(
			t.Context(),
			`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = ANY ($1)`,
			events,
		).Scan(&n)
		if err != nil {
			t.Fatalf("look who waits: %v", err)
		}
		return n > 0
	}
	holder, err := owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := holder.Exec(t.Context(), lock); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(act)
	Eventually(t, func() bool { return waiting("transactionid", "tuple") }, "what is to be amid waits for %s", lock)
	changed := make(chan struct{})
	group.Go(func() {
		defer close(changed)
		change()
	})
	Eventually(t, func() bool {
		select {
		case <-changed:
			return true
		default:
			return waiting("advisory")
		}
	}, "the change waits, or does not")
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	group.Wait()
}

type server struct {
	cluster *local.Cluster
	admin   *pgxpool.Pool
	count   atomic.Int64
}

var (
	startOnce sync.Once
	running   *server
	startErr  error
)

// sharedServer returns the one server of this test binary. Only the end of the process stops it,
// because a binary has no last test.
func sharedServer(t testing.TB) *server {
	t.Helper()
	startOnce.Do(func() { running, startErr = startServer() })
	if startErr != nil {
		t.Fatalf("start PostgreSQL for the tests: %v", startErr)
	}
	return running
}

func startServer() (*server, error) {
	cluster, err := launchCopy(func(opts *local.Options) {
		opts.TCP = false // a socket costs each statement less than a connection through the network's layers
		// The tests run many statements on few rows, so planning each anew would be most of the work. A
		// test of plans or of their cost starts a server of its own.
		opts.Settings[planSetting] = planOnce
	})
	if err != nil {
		return nil, err
	}
	admin, err := pgxpool.New(context.Background(), cluster.SuperURL("postgres"))
	if err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	return &server{cluster: cluster, admin: admin}, nil
}

// StartCluster starts a separate server for the test, for tests that kill it or need other
// settings. Its database local.Database is migrated and empty. It costs a copy of files and a
// start; New is cheaper.
func StartCluster(t testing.TB, settings map[string]string) *local.Cluster {
	t.Helper()
	cluster, err := launchCopy(func(opts *local.Options) { maps.Copy(opts.Settings, settings) })
	if err != nil {
		t.Fatalf("start a PostgreSQL for this test: %v", err)
	}
	watchLocks(t, local.Database)
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Errorf("stop the test's PostgreSQL: %v", err)
		}
	})
	return cluster
}

// PrimarySettings are the settings of a server that StartReplica copies.
var PrimarySettings = map[string]string{"wal_level": "replica", "max_wal_senders": "8"}

// StartReplica starts a streaming replica of a server that has PrimarySettings. It ends with the test.
func StartReplica(t testing.TB, primary *local.Cluster, settings map[string]string) *local.Cluster {
	t.Helper()
	home, err := workDir()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(home, "replica-")
	if err != nil {
		t.Fatal(err)
	}
	opts := clusterOptions(dir)
	opts.ReplicaOf = primary
	maps.Copy(opts.Settings, PrimarySettings)
	maps.Copy(opts.Settings, settings)
	replica, err := local.Start(t.Context(), opts)
	if err != nil {
		t.Fatalf("start a replica for this test: %v", errors.Join(err, os.RemoveAll(dir)))
	}
	t.Cleanup(func() {
		if err := replica.Stop(); err != nil {
			t.Errorf("stop the test's replica: %v", err)
		}
	})
	return replica
}

// OpenReplicated opens the database of a server with a replica of it, which may be down. Nothing checks the replica but
// the test. The pools are closed at the end of the test.
func OpenReplicated(t testing.TB, primary *local.Cluster, readURL string, clock func() time.Time) *pg.DB {
	t.Helper()
	d := Database{
		Name: local.Database, URL: primary.URL(""), OwnerURL: primary.OwnerURL(""),
		SuperURL: primary.SuperURL(local.Database),
	}
	db, err := pg.Open(t.Context(), pg.Config{
		URL: d.URL, OwnerURL: d.OwnerURL, ReadURL: readURL, MaxConns: connsPerTest,
	}, clock)
	if err != nil {
		t.Fatalf("open the test's database: %v", err)
	}
	t.Cleanup(db.Close)
	openDatabases.Store(db, d)
	t.Cleanup(func() { openDatabases.Delete(db) })
	return db
}

// FillDataDir fills the missing or empty directory of a cluster that another program starts. The
// database local.Database in it is migrated and empty. The server plans a statement once in a
// session, as for NewForTrial.
func FillDataDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := copyTemplate(context.Background(), dir); err != nil {
		return err
	}
	// The file belongs to the server's user and keeps its owner.
	file, err := os.OpenFile(filepath.Join(dir, "data", "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(worldSettings)
	return errors.Join(err, file.Close())
}

// launchCopy starts a copy of the template whose options are changed.
func launchCopy(change func(*local.Options)) (*local.Cluster, error) {
	ctx := context.Background()
	home, err := workDir()
	if err != nil {
		return nil, err
	}
	discardOld(home)
	dir, err := os.MkdirTemp(home, "run-")
	if err != nil {
		return nil, err
	}
	if err := copyTemplate(ctx, dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	opts := clusterOptions(dir)
	change(&opts)
	cluster, err := local.Start(ctx, opts)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := compareLocks(ctx, cluster); err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	return cluster, nil
}

func copyTemplate(ctx context.Context, dir string) error {
	template, err := lockTemplate(ctx)
	if err != nil {
		return fmt.Errorf("prepare the template: %w", err)
	}
	defer template.unlock()
	// The copy keeps owners and modes: the files belong to the server's user.
	if output, err := exec.Command("cp", "-Rp", template.dir+"/.", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the template: %w: %s", err, output)
	}
	return nil
}

func clusterOptions(dir string) local.Options {
	return local.Options{
		Dir: dir, Ephemeral: true, TCP: true, Log: slog.New(slog.DiscardHandler),
		Settings: map[string]string{
			"max_connections": "400",
			"shared_buffers":  "64MB",
			// In memory the log should stay small; it is never read again.
			"wal_level":            "minimal",
			"max_wal_senders":      "0",
			"min_wal_size":         "32MB",
			"max_wal_size":         "256MB",
			"autovacuum_naptime":   "1h",
			"deadlock_timeout":     "200ms",
			"max_worker_processes": "2",
			// Statements of the tests are as short as those of the program; see pg.Open.
			"jit": "off",
		},
	}
}

// workDir returns the directory in which servers run.
func workDir() (string, error) {
	return ownDir(filepath.Join(baseDir(), fmt.Sprintf("coffer-pgtest-%d", os.Getuid())))
}

// baseDir returns the directory of everything here: in memory if there is enough of it.
func baseDir() string {
	if runtime.GOOS == "linux" {
		var stat syscall.Statfs_t
		const memory = "/dev/shm"
		if err := syscall.Statfs(memory, &stat); err == nil && int64(stat.Bavail)*int64(stat.Bsize) >= memoryBytesMin {
			return memory
		}
	}
	return os.TempDir()
}

// ownDir creates a directory that other users may pass through but not write to. It refuses a
// directory of another user.
func ownDir(dir string) (string, error) {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(stat.Uid) != os.Getuid() {
		return "", fmt.Errorf("%s is not a directory of ours", dir)
	}
	return dir, os.Chmod(dir, 0o755)
}

// lockedTemplate is an initialized, migrated and stopped cluster. The lock keeps it from being
// removed during the copy.
type lockedTemplate struct {
	dir    string
	unlock func()
}

// lockTemplate finds or creates the cluster for this state of the migrations and this version of
// PostgreSQL. The first process creates it while the others wait.
func lockTemplate(ctx context.Context) (lockedTemplate, error) {
	cache, err := ownDir(filepath.Join(baseDir(), fmt.Sprintf("coffer-pgtest-cache-%d", os.Getuid())))
	if err != nil {
		return lockedTemplate{}, err
	}
	bin, err := local.FindBinaries()
	if err != nil {
		return lockedTemplate{}, err
	}
	output, err := exec.Command(filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil {
		return lockedTemplate{}, fmt.Errorf("ask for PostgreSQL's version: %w", err)
	}
	version := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r == '.' {
			return r
		}
		return -1
	}, strings.SplitN(string(output), "(Debian", 2)[0])
	name := "template-" + templateVersion + "-" + migrations.Digest() + "-" + version

	file, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return lockedTemplate{}, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return lockedTemplate{}, errors.Join(err, file.Close())
	}
	unlock := func() { file.Close() } // The lock ends with its file.

	dir := filepath.Join(cache, name)
	if _, err := os.Stat(dir); err == nil {
		now := time.Now()
		_ = os.Chtimes(dir, now, now) // Use keeps it young.
		return lockedTemplate{dir, unlock}, nil
	}
	discardOld(cache)
	if err := buildTemplate(ctx, cache, dir); err != nil {
		unlock()
		return lockedTemplate{}, err
	}
	return lockedTemplate{dir, unlock}, nil
}

// discardOld removes what is out of use: templates of older migrations, and directories whose
// janitor was killed together with everything else. A directory that cannot be removed stays; it
// only takes space.
func discardOld(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && entry.IsDir() && time.Since(info.ModTime()) > templateAgeMax {
			_ = os.RemoveAll(filepath.Join(dir, entry.Name()))
		}
	}
}

// buildTemplate builds the template under another name and renames it when it is complete.
func buildTemplate(ctx context.Context, cache, dir string) (err error) {
	fresh := filepath.Join(cache, "making")
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	opts := clusterOptions(fresh)
	opts.Ephemeral = false
	cluster, err := local.Start(ctx, opts)
	if err != nil {
		return err
	}
	if err := migrateTemplate(ctx, cluster); err != nil {
		return errors.Join(err, cluster.Stop(), os.RemoveAll(fresh))
	}
	if err := cluster.Stop(); err != nil {
		return err
	}
	return os.Rename(fresh, dir)
}

func migrateTemplate(ctx context.Context, cluster *local.Cluster) error {
	admin, err := pgx.Connect(ctx, cluster.SuperURL("postgres"))
	if err != nil {
		return err
	}
	defer admin.Close(ctx)
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+templateDatabase+" OWNER "+local.Owner); err != nil {
		return fmt.Errorf("create the template database: %w", err)
	}
	for _, name := range []string{templateDatabase, local.Database} {
		if err := pg.Migrate(ctx, pg.Config{URL: cluster.URL(name), OwnerURL: cluster.OwnerURL(name)}); err != nil {
			return err
		}
	}
	if _, err := admin.Exec(ctx, "ALTER DATABASE "+templateDatabase+" ALLOW_CONNECTIONS false"); err != nil {
		return fmt.Errorf("close the template database: %w", err)
	}
	for _, address := range []string{cluster.URL(""), cluster.OwnerURL(""), cluster.SuperURL("")} {
		if err := cheapenPassword(ctx, admin, address); err != nil {
			return err
		}
	}
	return nil
}

// cheapenPassword stores the password of a URL's role as a SCRAM verifier of one round. A server's
// own verifiers have 4096 rounds, against guessing, and each connection computes them. With the
// race detector that was most of a test's cost, and our passwords have 128 random bits.
func cheapenPassword(ctx context.Context, admin *pgx.Conn, address string) error {
	parsed, err := url.Parse(address)
	if err != nil {
		return err
	}
	password, _ := parsed.User.Password()
	salt := []byte(rand.Text())
	salted, err := pbkdf2.Key(sha256.New, password, salt, 1, sha256.Size)
	if err != nil {
		return err
	}
	keyed := func(word string) []byte {
		mac := hmac.New(sha256.New, salted)
		mac.Write([]byte(word))
		return mac.Sum(nil)
	}
	stored, text := sha256.Sum256(keyed("Client Key")), base64.StdEncoding.EncodeToString
	verifier := "SCRAM-SHA-256$1:" + text(salt) + "$" + text(stored[:]) + ":" + text(keyed("Server Key"))
	// Neither the name nor the verifier needs quoting.
	if _, err := admin.Exec(ctx, "ALTER ROLE "+parsed.User.Username()+" PASSWORD '"+verifier+"'"); err != nil {
		return fmt.Errorf("shorten the password of %s: %w", parsed.User.Username(), err)
	}
	return nil
}
