package wallet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Matcher finds the wallets among many addresses, such as the recipients of a block. It is the one way in
// which the walks do that.
//
// A filter in memory says of most addresses that they are not ours, so that the index of all addresses is
// asked about few. The filter never decides alone:
//
//   - What it calls ours, the index confirms.
//   - Addresses that were committed since its snapshot are read in every match.
//   - A filter of another database, or of an earlier state of it, is discarded.
//   - Without a filter, and after any error with it, the index is asked about all addresses.
//
// A Matcher without Run has no filter. Any number of walks may use one. Rule DEP-58.
type Matcher struct {
	db     *pg.DB
	log    *slog.Logger
	wanted chan struct{} // a match had to do without the filter, or it lags behind

	mu     sync.Mutex
	filter *filter // nil without one
}

const (
	// createdMax is how many addresses that were committed since the filter's snapshot a match reads. If
	// there are more, the index answers, and Run reads them.
	createdMax = 2_000
	// refreshInterval is how often Run moves the filter's snapshot forward where no match does.
	refreshInterval = 10 * time.Second
	// rebuildPause is how long Run waits after it could not build the filter.
	rebuildPause = time.Minute
	// awaitInterval is how often a build asks whether the write-ahead log is on disk up to its begin.
	awaitInterval = 50 * time.Millisecond
	// blocksAtOnce is how many pages of the table a statement of a build reads.
	blocksAtOnce = 512
)

// NewMatcher returns a Matcher without a filter. Run builds it after the first match.
func NewMatcher(db *pg.DB, log *slog.Logger) *Matcher {
	return &Matcher{db: db, log: log, wanted: make(chan struct{}, 1)}
}

// Match is the answer about addresses of a family.
type Match struct {
	Wallets map[chain.Address]Wallet // those that are wallets of ours, as their rows say

	family    chain.Family
	strangers []chain.Address // the others
	base      position        // what the answer contains; the zero value if the index answered alone
}

// ErrOutdated says that a match does not hold any more: an address became ours meanwhile, or the database
// was replaced.
var ErrOutdated = errors.New("the addresses have to be matched again")

// position is a point in the history of a database.
type position struct {
	source   string // the database with its server, as this start of it
	snapshot string // a pg_snapshot
}

// reading is what a statement saw of the database.
type reading struct {
	position
	inserted, flushed int64    // the ends of the write-ahead log, in memory and on disk
	created           []string // keys that were committed since the base of the statement, createdMax+1 at most
}

// readingSQL reads the position of the database and the keys of what was committed since a snapshot.
//
// The source changes with the cluster, the fork of its timeline, the start of the server, the database, the
// table and the trigger that stamps its rows. There is no row where that trigger does not always fire. The
// snapshot compares transactions, not times or ids: what it does not show is of a transaction that began
// later or that ran at the time.
const (
	readingSQL = `
		SELECT concat_ws(' ', (SELECT system_identifier FROM pg_control_system()),
				left(pg_walfile_name(pg_current_wal_lsn()), 8), extract(epoch FROM pg_postmaster_start_time()),
				(SELECT oid FROM pg_database WHERE datname = current_database()),
				t.tgrelid, pg_relation_filenode(t.tgrelid), t.oid, t.xmin),
			pg_current_snapshot()::text,
			pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint,
			pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint,
			ARRAY(SELECT family || ' ' || address FROM (` + createdSQL + `) AS created LIMIT $2)
		FROM pg_trigger t WHERE t.tgrelid = 'wallets'::regclass AND t.tgname = 'wallets_written' AND t.tgenabled = 'A'`
	createdSQL = `
		SELECT family, address FROM wallets WHERE written_xid >= pg_snapshot_xmax(nullif($1, '')::pg_snapshot)
		UNION ALL
		SELECT family, address FROM wallets
		WHERE written_xid = ANY (ARRAY(SELECT pg_snapshot_xip(nullif($1, '')::pg_snapshot)))`
)

// queueReading queues the statement that fills now.
func queueReading(batch *pgx.Batch, base position, now *reading) {
	queueByKeys(batch, readingSQL, base.snapshot, createdMax+1).QueryRow(func(row pgx.Row) error {
		*now = reading{}
		err := row.Scan(&now.source, &now.snapshot, &now.inserted, &now.flushed, &now.created)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // an answer: now has no source
		}
		return err
	})
	batch.Queue(`SELECT set_config('enable_seqscan', 'on', true)`)
}

// queueByKeys queues a statement that is planned by its keys, whatever the session knows of the table. The
// caller ends the setting.
func queueByKeys(batch *pgx.Batch, sql string, args ...any) *pgx.QueuedQuery {
	batch.Queue(`SELECT set_config('enable_seqscan', 'off', true)`)
	return batch.Queue(sql, args...)
}

// Match returns those addresses that belong to wallets of Coffer. It sees every address that was committed
// before it is called.
func (m *Matcher) Match(ctx context.Context, f chain.Family, addresses []chain.Address) (Match, error) {
	if len(addresses) == 0 {
		return Match{}, nil
	}
	if current := m.currentFilter(); current != nil {
		match, err := m.matchFiltered(ctx, current, f, addresses)
		if err == nil || ctx.Err() != nil {
			return match, err
		}
		m.discardFilter(ctx, current, err)
	}
	m.requestFilter()
	return m.ask(ctx, f, addresses, addresses)
}

// matchFiltered asks the index about the addresses that may be ours.
func (m *Matcher) matchFiltered(
	ctx context.Context, current *filter, f chain.Family, addresses []chain.Address,
) (Match, error) {
	base := current.currentBase()
	var now reading
	err := m.db.ReadSystemBatch(ctx, func(batch *pgx.Batch) { queueReading(batch, base, &now) })
	if err != nil {
		return Match{}, fmt.Errorf("read the addresses since the snapshot: %w", err)
	}
	if err := current.checkSource(now); err != nil {
		return Match{}, err
	}
	if len(now.created) > createdMax {
		m.requestFilter()
		return m.ask(ctx, f, addresses, addresses)
	}
	current.advance(base, now)
	match, err := m.ask(ctx, f, addresses, current.sift(f, addresses))
	match.base = base
	return match, err
}

// ask asks the index about candidates. The other addresses are not ours.
func (m *Matcher) ask(
	ctx context.Context, f chain.Family, addresses, candidates []chain.Address,
) (Match, error) {
	match := Match{family: f}
	if len(candidates) > 0 {
		err := m.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			match.Wallets, err = ByAddresses(ctx, tx, f, candidates)
			return err
		})
		if err != nil {
			return Match{}, err
		}
	}
	match.strangers = make([]chain.Address, 0, len(addresses)-len(match.Wallets))
	for _, a := range addresses {
		if _, isOurs := match.Wallets[a]; !isOurs {
			match.strangers = append(match.strangers, a)
		}
	}
	return match, nil
}

// Recheck reads in a transaction which addresses were committed since the match. Error: ErrOutdated if the
// match took one of them for a stranger's, or if the transaction is on another database.
func (m Match) Recheck(ctx context.Context, tx pg.Tx) error {
	if m.base == (position{}) || len(m.strangers) == 0 {
		return nil
	}
	var now reading
	batch := &pgx.Batch{}
	queueReading(batch, m.base, &now)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("read the addresses since the match: %w", err)
	}
	if now.source != m.base.source || len(now.created) > createdMax {
		return ErrOutdated
	}
	if len(now.created) == 0 {
		return nil
	}
	created := make(map[string]bool, len(now.created))
	for _, key := range now.created {
		created[key] = true
	}
	for _, a := range m.strangers {
		if created[string(filterKey(nil, m.family, string(a)))] {
			return fmt.Errorf("%s was created meanwhile: %w", a, ErrOutdated)
		}
	}
	return nil
}

func (m *Matcher) currentFilter() *filter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.filter
}

func (m *Matcher) setFilter(f *filter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.filter = f
}

// discardFilter ends the use of a filter.
func (m *Matcher) discardFilter(ctx context.Context, f *filter, reason error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.filter == f {
		m.filter = nil
		m.log.WarnContext(ctx, "addresses: the filter is discarded, the index answers", "reason", reason)
	}
}

// requestFilter makes Run build the filter, or read what it lacks.
func (m *Matcher) requestFilter() {
	select {
	case m.wanted <- struct{}{}:
	default:
	}
}

// FilterStats describes a filter.
type FilterStats struct {
	Addresses int
	Bytes     int
	BuiltAt   time.Time
}

// Stats describes the filter. ok is false without one.
func (m *Matcher) Stats() (stats FilterStats, ok bool) {
	f := m.currentFilter()
	if f == nil {
		return FilterStats{}, false
	}
	return f.stats(), true
}

// Run builds the filter after the first match, keeps it up to date and builds it again after it was discarded
// or when it is full. It returns nil when ctx ends.
func (m *Matcher) Run(ctx context.Context) error {
	refresh := time.NewTicker(refreshInterval)
	defer refresh.Stop()
	isWanted, lastError := false, ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.wanted:
			isWanted = true
		case <-refresh.C:
		}
		if !isWanted {
			continue
		}
		err := m.Refresh(ctx)
		if err == nil || ctx.Err() != nil {
			lastError = ""
			continue
		}
		if err.Error() != lastError { // a server that forbids the statement forbids it every time
			lastError = err.Error()
			m.log.WarnContext(ctx, "addresses: the filter cannot be built, the index answers", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(rebuildPause):
		}
	}
}

// Refresh brings the filter up to date. It builds one if there is none, or if it has more addresses than it was
// made for.
func (m *Matcher) Refresh(ctx context.Context) error {
	current := m.currentFilter()
	if current == nil || current.isFull() {
		return m.build(ctx)
	}
	if err := m.catchUp(ctx, current); err != nil {
		if ctx.Err() == nil {
			m.discardFilter(ctx, current, err)
		}
		return err
	}
	return nil
}

// catchUp adds what was committed since the filter's base, however much it is.
func (m *Matcher) catchUp(ctx context.Context, f *filter) error {
	base := f.currentBase()
	var now reading
	err := m.db.ReadSystemBatch(ctx, func(batch *pgx.Batch) {
		queueReading(batch, position{}, &now)
		queueByKeys(batch, createdSQL, base.snapshot).Query(f.addRows)
	})
	if err == nil {
		err = f.checkSource(now)
	}
	if err != nil {
		return fmt.Errorf("read the addresses since the snapshot: %w", err)
	}
	f.advance(base, now)
	return nil
}

// build reads all addresses into a new filter.
func (m *Matcher) build(ctx context.Context) error {
	began := time.Now()
	var start reading
	var blocks, estimate int64
	err := m.db.ReadSystemBatch(ctx, func(batch *pgx.Batch) {
		queueReading(batch, position{}, &start)
		batch.Queue(`
			SELECT pg_relation_size(oid) / current_setting('block_size')::bigint, greatest(reltuples, 0)::bigint
			FROM pg_class WHERE oid = 'wallets'::regclass`).
			QueryRow(func(row pgx.Row) error { return row.Scan(&blocks, &estimate) })
	})
	if err != nil {
		return fmt.Errorf("begin to build the filter of addresses: %w", err)
	}
	f := newFilter(int(estimate), start)
	err = m.fill(ctx, f, blocks)
	if err == nil && f.isFull() { // the estimate was too low
		f = newFilter(f.stats().Addresses, start)
		err = m.fill(ctx, f, blocks)
	}
	if err == nil {
		err = m.awaitBase(ctx, f)
	}
	if err != nil {
		return fmt.Errorf("build the filter of addresses: %w", err)
	}
	m.setFilter(f)
	stats := f.stats()
	m.log.InfoContext(ctx, "addresses: the filter is built", "addresses", stats.Addresses, "bytes", stats.Bytes,
		"took", time.Since(began).Round(time.Millisecond))
	return nil
}

// fill adds the addresses of the first pages of the table. It reads some pages at a time, each in a transaction
// of its own, so it needs the memory of the filter alone and holds back no vacuum. A row that moves meanwhile
// is written by a transaction that the filter's snapshot does not show.
func (m *Matcher) fill(ctx context.Context, f *filter, blocks int64) error {
	for first := int64(0); first < blocks; first += blocksAtOnce {
		var now reading
		err := m.db.ReadSystemBatch(ctx, func(batch *pgx.Batch) {
			queueReading(batch, position{}, &now)
			batch.Queue(`SELECT family, address FROM wallets WHERE ctid >= $1::text::tid AND ctid < $2::text::tid`,
				fmt.Sprintf("(%d,0)", first), fmt.Sprintf("(%d,0)", min(first+blocksAtOnce, blocks))).Query(f.addRows)
		})
		if err == nil {
			err = f.checkSource(now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitBase waits until the filter's snapshot may be its base.
func (m *Matcher) awaitBase(ctx context.Context, f *filter) error {
	for {
		if err := m.catchUp(ctx, f); err != nil {
			return err
		}
		if f.currentBase().snapshot != "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(awaitInterval):
		}
	}
}
