package pg_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// twoServers is a primary with a streaming replica, and a process on them.
type twoServers struct {
	t                *testing.T
	primary, replica *local.Cluster
	db               *pg.DB
}

func newTwoServers(t *testing.T, replicaSettings map[string]string) *twoServers {
	t.Helper()
	primary := pgtest.StartCluster(t, pgtest.PrimarySettings)
	replica := pgtest.StartReplica(t, primary, replicaSettings)
	s := &twoServers{t: t, primary: primary, replica: replica}
	s.db = pgtest.OpenReplicated(t, primary, replica.URL(""), time.Now)
	notes(t, s.db)
	s.mustFollow(s.db)
	return s
}

// mustFollow checks the replica until it follows.
func (s *twoServers) mustFollow(db *pg.DB) {
	s.t.Helper()
	mustBecome(s.t, db, pg.ReplicaFollows)
}

func mustBecome(t *testing.T, db *pg.DB, want pg.ReplicaState) {
	t.Helper()
	pgtest.Eventually(t, func() bool {
		state, _ := db.CheckReplica(t.Context())
		return state == want
	}, "the replica is %s", want)
	if stat, ok := db.ReplicaStat(); !ok || stat.State != want {
		t.Errorf("got %v, want the state %s", stat, want)
	}
}

// onReplica runs a statement as the superuser of the replica.
func (s *twoServers) onReplica(sql string) {
	s.t.Helper()
	if _, err := connect(s.t, s.replica.SuperURL(local.Database)).Exec(s.t.Context(), sql); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

// request authenticates a request that only reads, as the surfaces do.
func request(t testing.TB, db *pg.DB) context.Context {
	t.Helper()
	ctx := db.BeginReads(t.Context())
	var at pg.Position
	if err := db.ReadSystemBatch(ctx, func(b *pgx.Batch) { db.QueuePosition(b, &at) }); err != nil {
		t.Fatal(err)
	}
	pg.UsePosition(ctx, at)
	return ctx
}

// find returns the ids of an organization's notes, and whether the replica answered.
func find(t testing.TB, ctx context.Context, db *pg.DB, org string) (ids []string, byReplica bool) {
	t.Helper()
	err := db.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		if err := tx.QueryRow(ctx, `SELECT pg_is_in_recovery()`).Scan(&byReplica); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT id FROM notes ORDER BY id`)
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		t.Fatalf("read the notes of %s: %v", org, err)
	}
	return ids, byReplica
}

// wantNotes reads as a new request and compares.
func wantNotes(t testing.TB, db *pg.DB, wantByReplica bool, want ...string) {
	t.Helper()
	ids, byReplica := find(t, request(t, db), db, "org_a")
	if fmt.Sprint(ids) != fmt.Sprint(want) || byReplica != wantByReplica {
		t.Errorf("got %v by the replica: %v, want %v by the replica: %v", ids, byReplica, want, wantByReplica)
	}
}

func (s *twoServers) wantPrimary(reason pg.PrimaryReason, want int64) {
	s.t.Helper()
	stat, _ := s.db.ReplicaStat()
	if stat.Primary[reason] != want {
		s.t.Errorf("got %v, want %d reads of the primary because it is %s", stat.Primary, want, reason)
	}
}

func TestAReplicaAnswersTheReadsOfARequestThatOnlyReads(t *testing.T) {
	t.Parallel()
	s := newTwoServers(t, nil)
	insert(t, s.db, "org_a", "1")
	insert(t, s.db, "org_b", "2")
	s.mustFollow(s.db)
	ctx := request(t, s.db)
	if ids, byReplica := find(t, ctx, s.db, "org_b"); fmt.Sprint(ids) != "[2]" || !byReplica {
		t.Errorf("got %v by the replica: %v, want the note of the organization by the replica", ids, byReplica)
	}
	// Row level security holds there too, and for statements that are sent together.
	var role, org string
	var found []string
	byReplica := false
	if err := s.db.ReadOrgBatch(ctx, "org_a", func(b *pgx.Batch) {
		b.Queue(`SELECT pg_is_in_recovery(), current_user::text, current_setting('app.org')`).QueryRow(
			func(row pgx.Row) error { return row.Scan(&byReplica, &role, &org) })
		b.Queue(`SELECT id FROM notes`).Query(func(rows pgx.Rows) (err error) {
			found, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
	}); err != nil || !byReplica || role != "coffer_app" || org != "org_a" || fmt.Sprint(found) != "[1]" {
		t.Errorf("got %v, %v, %s, %s, %v, want the note of the organization by the replica", err, byReplica, role, org,
			found)
	}
	// An error of the function is the answer.
	mine := errors.New("mine")
	calls := 0
	if err := s.db.ReadOrg(ctx, "org_a", func(context.Context, pg.Tx) error { calls++; return mine }); err != mine ||
		calls != 1 {
		t.Errorf("got %v after %d calls, want the function's own error after one", err, calls)
	}
	if err := s.db.ReadOrg(ctx, "org_a", func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, insertNote, "org_a", "3", "x")
		return err
	}); err == nil {
		t.Error("a write was taken")
	}
	wantNotes(t, s.db, true, "1") // The mistake of one read says nothing about the server.
	stat, _ := s.db.ReplicaStat()
	if stat.Replica != 4 {
		t.Errorf("got %d reads of the replica, want 4", stat.Replica)
	}

	// Everything else is read from the primary.
	for name, ctx := range map[string]context.Context{
		"no request": t.Context(), "a request without a position": s.db.BeginReads(t.Context()),
	} {
		if _, byReplica := find(t, ctx, s.db, "org_a"); byReplica {
			t.Errorf("%s: the replica answered", name)
		}
	}
	for name, read := range map[string]func(context.Context, func(context.Context, pg.Tx) error) error{
		"ReadSystem": s.db.ReadSystem, "Snapshot": s.db.Snapshot, "InSystem": s.db.InSystem,
		"SnapshotOrg": func(ctx context.Context, fn func(context.Context, pg.Tx) error) error {
			return s.db.SnapshotOrg(ctx, "org_a", fn)
		},
		"InOrg": func(ctx context.Context, fn func(context.Context, pg.Tx) error) error {
			return s.db.InOrg(ctx, "org_a", fn)
		},
	} {
		byReplica := true
		if err := read(request(t, s.db), func(ctx context.Context, tx pg.Tx) error {
			return tx.QueryRow(ctx, `SELECT pg_is_in_recovery()`).Scan(&byReplica)
		}); err != nil || byReplica {
			t.Errorf("%s: got %v, by the replica: %v, want the primary", name, err, byReplica)
		}
	}
}

func TestAnAnswerIsNeverOlderThanWhatWasWrittenBeforeTheRequest(t *testing.T) {
	t.Parallel()
	s := newTwoServers(t, nil)
	// Another process of the installation writes.
	other := pgtest.OpenReplicated(t, s.primary, "", time.Now)
	early := request(t, s.db)
	s.onReplica(`SELECT pg_wal_replay_pause()`)
	insert(t, other, "org_a", "1")
	ctx := request(t, s.db)
	if ids, byReplica := find(t, ctx, s.db, "org_a"); fmt.Sprint(ids) != "[1]" || byReplica {
		t.Errorf("got %v by the replica: %v, want the new note by the primary", ids, byReplica)
	}
	s.wantPrimary(pg.ReasonBehind, 1)
	if _, byReplica := find(t, ctx, s.db, "org_a"); byReplica {
		t.Error("the request went back to the replica")
	}
	s.wantPrimary(pg.ReasonBehind, 2)
	// The next request does not wait in vain.
	wantNotes(t, s.db, false, "1")
	s.wantPrimary(pg.ReasonUnproven, 1)
	if state, err := s.db.CheckReplica(t.Context()); state != pg.ReplicaBehind || err == nil {
		t.Errorf("got %s, %v, want that it is behind", state, err)
	}
	s.onReplica(`SELECT pg_wal_replay_resume()`)
	s.mustFollow(s.db)
	wantNotes(t, s.db, true, "1")
	// A request that began before the write may be answered by the replica as well: it is ahead of it.
	if ids, byReplica := find(t, early, s.db, "org_a"); fmt.Sprint(ids) != "[1]" || !byReplica {
		t.Errorf("got %v by the replica: %v, want the note by the replica", ids, byReplica)
	}
}

func TestARequestWaitsForItsPosition(t *testing.T) {
	t.Parallel()
	s := newTwoServers(t, nil)
	// Whether the replica gets there in time depends on the machine, so it is tried until it does.
	tries := 0
	pgtest.Eventually(t, func() bool {
		s.onReplica(`SELECT pg_wal_replay_resume()`)
		s.mustFollow(s.db)
		before, _ := s.db.ReplicaStat()
		super := connect(t, s.replica.SuperURL(local.Database))
		if _, err := super.Exec(t.Context(), `SELECT pg_wal_replay_pause()`); err != nil {
			t.Fatal(err)
		}
		tries++
		insert(t, s.db, "org_a", strconv.Itoa(tries))
		ctx := request(t, s.db)
		var resumed sync.WaitGroup
		resumed.Go(func() {
			if _, err := super.Exec(t.Context(), `SELECT pg_sleep(0.005), pg_wal_replay_resume()`); err != nil {
				t.Error(err)
			}
		})
		ids, byReplica := find(t, ctx, s.db, "org_a")
		resumed.Wait()
		if len(ids) != tries {
			t.Fatalf("got %v, want %d notes", ids, tries)
		}
		after, _ := s.db.ReplicaStat()
		return byReplica && after.Waited > before.Waited
	}, "a read waits for the replica")
}

func TestARequestThatWritesReadsItsOwnWrites(t *testing.T) {
	t.Parallel()
	s := newTwoServers(t, nil)
	ctx := request(t, s.db)
	if _, byReplica := find(t, ctx, s.db, "org_a"); !byReplica {
		t.Error("the primary answered before the write")
	}
	s.onReplica(`SELECT pg_wal_replay_pause()`)
	if err := s.db.InOrg(ctx, "org_a", func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, insertNote, "org_a", "1", "x")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if ids, byReplica := find(t, ctx, s.db, "org_a"); fmt.Sprint(ids) != "[1]" || byReplica {
		t.Errorf("got %v by the replica: %v, want the own note by the primary", ids, byReplica)
	}
	s.wantPrimary(pg.ReasonWritten, 1)

	// The same holds for a write before the position is known, such as that of the key's use.
	ctx = s.db.BeginReads(t.Context())
	var at pg.Position
	if err := s.db.ReadSystemBatch(ctx, func(b *pgx.Batch) { s.db.QueuePosition(b, &at) }); err != nil {
		t.Fatal(err)
	}
	insertSecond := func(_ context.Context, _ pg.Tx, b *pgx.Batch) error {
		b.Queue(insertNote, "org_a", "2", "x")
		return nil
	}
	if err := s.db.InOrgPipelined(ctx, "org_a", func(*pgx.Batch) {}, insertSecond); err != nil {
		t.Fatal(err)
	}
	pg.UsePosition(ctx, at)
	if ids, byReplica := find(t, ctx, s.db, "org_a"); fmt.Sprint(ids) != "[1 2]" || byReplica {
		t.Errorf("got %v by the replica: %v, want both notes by the primary", ids, byReplica)
	}
	s.wantPrimary(pg.ReasonWritten, 2)
}

// One page after another never goes back in time, whichever server answers.
func TestReadsOnlyGoForward(t *testing.T) {
	t.Parallel()
	s := newTwoServers(t, nil)
	other := pgtest.OpenReplicated(t, s.primary, "", time.Now)
	if err := s.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, insertNote, "org_a", "1", "0")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	defer workers.Wait()
	defer stop()
	workers.Go(func() { s.db.WatchReplica(ctx, slog.New(slog.DiscardHandler)) })
	var written atomic.Int64
	workers.Go(func() {
		for ctx.Err() == nil {
			next := written.Load() + 1
			err := other.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
				_, err := tx.Exec(ctx, `UPDATE notes SET body = $1 WHERE id = '1'`, strconv.FormatInt(next, 10))
				return err
			})
			if err == nil {
				written.Store(next)
			} else if ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
	for range 4 {
		workers.Go(func() {
			var last int64
			for ctx.Err() == nil {
				least := max(last, written.Load())
				req := request(t, s.db)
				for range 2 { // two reads of one request
					var body int64
					if err := s.db.ReadOrg(req, "org_a", func(ctx context.Context, tx pg.Tx) error {
						return tx.QueryRow(ctx, `SELECT body::bigint FROM notes`).Scan(&body)
					}); err != nil {
						t.Error(err)
						return
					}
					if body < least {
						t.Errorf("got %d after %d was written and %d was read", body, written.Load(), last)
						return
					}
					last, least = body, body
				}
			}
		})
	}
	super := connect(t, s.replica.SuperURL(local.Database))
	for range 3 {
		for _, sql := range []string{`SELECT pg_wal_replay_pause()`, `SELECT pg_wal_replay_resume()`} {
			before, _ := s.db.ReplicaStat()
			if _, err := super.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
			pgtest.Eventually(t, func() bool {
				now, _ := s.db.ReplicaStat()
				var primary int64
				for reason := range maps.Keys(now.Primary) {
					primary += now.Primary[reason] - before.Primary[reason]
				}
				return t.Failed() || primary > 20 && sql == `SELECT pg_wal_replay_pause()` ||
					now.Replica > before.Replica+20 && sql != `SELECT pg_wal_replay_pause()`
			}, "reads are answered after %s", sql)
		}
	}
}

func TestAReplicaThatIsGoneIsNotMissed(t *testing.T) {
	t.Parallel()
	s := newTwoServers(t, nil)
	insert(t, s.db, "org_a", "1")
	s.mustFollow(s.db)
	wantNotes(t, s.db, true, "1")
	if err := s.replica.Kill(); err != nil {
		t.Fatal(err)
	}
	wantNotes(t, s.db, false, "1")
	s.wantPrimary(pg.ReasonError, 1)
	wantNotes(t, s.db, false, "1")
	s.wantPrimary(pg.ReasonUnproven, 1)
	mustBecome(t, s.db, pg.ReplicaUnreachable)
	// A process starts without it.
	late := pgtest.OpenReplicated(t, s.primary, s.replica.URL(""), time.Now)
	wantNotes(t, late, false, "1")
	if err := s.replica.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, db := range []*pg.DB{s.db, late} {
		s.mustFollow(db)
		wantNotes(t, db, true, "1")
	}
}

// A promoted server has a history of its own from then on, and so has what follows it.
func TestAPromotedReplicaIsNotAsked(t *testing.T) {
	t.Parallel()
	s := newTwoServers(t, nil)
	second := pgtest.StartReplica(t, s.primary, nil)
	insert(t, s.db, "org_a", "1")
	s.mustFollow(s.db)
	s.onReplica(`SELECT pg_promote()`)
	s.onReplica(`INSERT INTO notes (org_id, id) VALUES ('org_a', 'of the other history')`)
	// The proof of the last check is still valid here.
	wantNotes(t, s.db, false, "1")
	s.wantPrimary(pg.ReasonUnproven, 1)
	if state, err := s.db.CheckReplica(t.Context()); state != pg.ReplicaPromoted || err == nil {
		t.Errorf("got %s, %v, want that it is no replica", state, err)
	}

	// The program moves to the promoted server. The servers of the other timeline are ahead of it.
	insert(t, s.db, "org_a", "2", "3", "4")
	if _, err := connect(t, s.primary.SuperURL(local.Database)).Exec(t.Context(),
		`SELECT pg_logical_emit_message(false, 'ahead', repeat('x', 1000000))`); err != nil {
		t.Fatal(err)
	}
	for readURL, want := range map[string]pg.ReplicaState{
		s.primary.URL(""): pg.ReplicaPromoted, second.URL(""): pg.ReplicaForeign, s.replica.URL(""): pg.ReplicaPromoted,
	} {
		moved := pgtest.OpenReplicated(t, s.replica, readURL, time.Now)
		mustBecome(t, moved, want)
		wantNotes(t, moved, false, "1", "of the other history")
	}
}

// A process whose connections lead to the new primary has no proof for it, and a position of one server says nothing
// about the other.
func TestAProofEndsWithThePrimary(t *testing.T) {
	t.Parallel()
	s := newTwoServers(t, nil)
	insert(t, s.db, "org_a", "1")
	s.mustFollow(s.db)
	wantNotes(t, s.db, true, "1")
	if err := s.primary.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantNotes(t, s.db, false, "1")
	s.wantPrimary(pg.ReasonUnproven, 1)
	s.mustFollow(s.db)
	wantNotes(t, s.db, true, "1")
}

// A primary that was restored has its former timeline, and its former replica is ahead of it with what is lost.
func TestTheReplicaOfARestoredPrimaryIsNotAsked(t *testing.T) {
	t.Parallel()
	s := newTwoServers(t, nil)
	insert(t, s.db, "org_a", "1")
	s.mustFollow(s.db)
	data := filepath.Join(s.primary.Dir(), "data")
	run := func(name string, args ...string) {
		t.Helper()
		if output, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, output)
		}
	}
	again := func() {
		t.Helper()
		if err := s.primary.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.primary.Kill(); err != nil {
		t.Fatal(err)
	}
	run("cp", "-Rp", data, data+".saved")
	again()
	insert(t, s.db, "org_a", "lost")
	if _, err := connect(t, s.primary.SuperURL(local.Database)).Exec(t.Context(),
		`SELECT pg_logical_emit_message(true, 'ahead', repeat('x', 1000000))`); err != nil {
		t.Fatal(err)
	}
	s.mustFollow(s.db)
	wantNotes(t, s.db, true, "1", "lost")
	if err := s.primary.Kill(); err != nil {
		t.Fatal(err)
	}
	run("mv", data, data+".lost")
	run("mv", data+".saved", data)
	again()
	wantNotes(t, s.db, false, "1")
	mustBecome(t, s.db, pg.ReplicaForeign)
	insert(t, s.db, "org_a", "2")
	wantNotes(t, s.db, false, "1", "2")
}

func TestAForeignServerIsNotAsked(t *testing.T) {
	t.Parallel()
	s := newTwoServers(t, nil)
	insert(t, s.db, "org_a", "1")
	// The replica of another installation, which has the same schema and is ahead.
	foreign := pgtest.StartCluster(t, pgtest.PrimarySettings)
	ahead := pgtest.OpenReplicated(t, foreign, "", time.Now)
	notes(t, ahead)
	insert(t, ahead, "org_a", "foreign")
	super := connect(t, foreign.SuperURL(local.Database))
	for range 3 {
		if _, err := super.Exec(t.Context(),
			`SELECT pg_switch_wal() FROM pg_logical_emit_message(false, 'ahead', 'x')`); err != nil {
			t.Fatal(err)
		}
	}
	replica := pgtest.StartReplica(t, foreign, nil)
	wrong, err := url.Parse(s.replica.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	wrong.User = url.UserPassword(wrong.User.Username(), "wrong")
	for name, c := range map[string]struct {
		url  string
		want pg.ReplicaState
	}{
		"another installation": {replica.URL(""), pg.ReplicaForeign},
		"another database":     {s.replica.URL("postgres"), pg.ReplicaForeign},
		"no such database":     {s.replica.URL("none"), pg.ReplicaForeign},
		"the primary itself":   {s.primary.URL(""), pg.ReplicaPromoted},
		"a superuser":          {s.replica.SuperURL(local.Database), pg.ReplicaRefused},
		"a wrong password":     {wrong.String(), pg.ReplicaUnreachable},
	} {
		db := pgtest.OpenReplicated(t, s.primary, c.url, time.Now)
		mustBecome(t, db, c.want)
		ids, byReplica := find(t, request(t, db), db, "org_a")
		if fmt.Sprint(ids) != "[1]" || byReplica {
			t.Errorf("%s: got %v by the replica: %v, want the note by the primary", name, ids, byReplica)
		}
	}
}

func TestAReadThatRecoveryCancelsIsAnsweredByThePrimary(t *testing.T) {
	t.Parallel()
	s := newTwoServers(t, map[string]string{"max_standby_streaming_delay": "0"})
	insert(t, s.db, "org_a", "1")
	s.mustFollow(s.db)
	owner := connect(t, pgtest.DatabaseOf(t, s.db).OwnerURL)
	var answeredBy []bool
	var count int
	err := s.db.ReadOrg(request(t, s.db), "org_a", func(ctx context.Context, tx pg.Tx) error {
		var byReplica bool
		err := tx.QueryRow(ctx, `SELECT count(*), pg_is_in_recovery() FROM notes`).Scan(&count, &byReplica)
		if err != nil {
			return err
		}
		answeredBy = append(answeredBy, byReplica)
		if !byReplica {
			return nil
		}
		// The replay of this lock waits for no read.
		if _, err := owner.Exec(ctx, `ALTER TABLE notes ADD COLUMN more text`); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `SELECT pg_sleep(8)`)
		if err == nil {
			t.Error("the read was not cancelled")
		}
		return err
	})
	if err != nil || count != 1 || fmt.Sprint(answeredBy) != "[true false]" {
		t.Errorf("got %v, %d, by the replica: %v, want the note by the replica and again by the primary", err, count,
			answeredBy)
	}
	s.wantPrimary(pg.ReasonConflict, 1)
	// It says nothing against the replica.
	pgtest.Eventually(t, func() bool {
		_, byReplica := find(t, request(t, s.db), s.db, "org_a")
		return byReplica
	}, "the replica is asked again")
}

// A standby that the program is given as its primary answers what it can, as without a replica.
func TestAServerInRecoveryGivesNoPosition(t *testing.T) {
	t.Parallel()
	s := newTwoServers(t, nil)
	insert(t, s.db, "org_a", "1")
	s.mustFollow(s.db)
	db := pgtest.OpenReplicated(t, s.replica, s.replica.URL(""), time.Now)
	ids, _ := find(t, request(t, db), db, "org_a")
	if fmt.Sprint(ids) != "[1]" {
		t.Errorf("got %v, want the note", ids)
	}
	if stat, _ := db.ReplicaStat(); stat.Replica != 0 || stat.Primary[pg.ReasonUnproven] != 1 {
		t.Errorf("got %v, want one read of the server that stands for the primary", stat)
	}
	if _, err := db.CheckReplica(t.Context()); err == nil {
		t.Error("the check found a primary")
	}
}
