package event

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/webhook"
)

// numbering records objects as they are, with their numbers.
var numbering = Recorder{ObjectOf: recorder.ObjectOf, Environment: webhook.Test}

// firstOf is the first event of a resource.
func firstOf(org, resource string, data any) Event {
	return Event{
		OrgID: org, Type: TransferCompleted, ResourceKind: "TRANSFER", ResourceID: resource, CustomerID: "user_42",
		Chain: "ETHEREUM", Data: data,
	}
}

// recordGroup writes events with their numbers in one round trip.
func recordGroup(ctx context.Context, db *pg.DB, org string, behind string, events ...Event) error {
	return db.InOrgAtOnce(ctx, org, func(now time.Time, b *pgx.Batch) error {
		if err := numbering.QueueNumberedFirst(b, now, org, events...); err != nil {
			return err
		}
		if behind != "" {
			b.Queue(behind)
		}
		return nil
	})
}

func lastNumber(t *testing.T, db *pg.DB, org string) (last int64) {
	t.Helper()
	err := db.ReadOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) (err error) {
		last, err = LastSequence(ctx, tx, org)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// Rules EVT-2 and EVT-17.
func TestAGroupHasItsNumbersAndItsBodiesFromTheBeginning(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 12, 0, 9, 412_345_000, time.UTC)
	db := pgtest.NewWithClock(t, func() time.Time { return at })
	seed(t, db, "org_1")
	data := []any{map[string]string{"note": "a<b&c é \u2028 \"\\"}, map[string]int{"n": 2}, []int{}}
	var events []Event
	for i, d := range data {
		events = append(events, firstOf("org_1", fmt.Sprint("tr_", i), d))
	}
	if err := recordGroup(t.Context(), db, "org_1", "", events...); err != nil {
		t.Fatal(err)
	}
	if err := record(t.Context(), db, "org_1", "res_1", data[0]); err != nil {
		t.Fatal(err)
	}
	s := &Sequencer{DB: db, Environment: webhook.Test, Listener: &ear{}}
	if n, err := s.Step(t.Context()); n != 1 || err != nil {
		t.Fatalf("the sequencer: got %v, %v, want the one event that had no number", n, err)
	}
	all := stored(t, db)
	checkWhole(t, all)
	if got := lastNumber(t, db, "org_1"); len(all) != 4 || got != 4 {
		t.Fatalf("got %d events and the counter at %d, want 4 and 4", len(all), got)
	}
	for i, r := range all {
		typ, object := TransferCompleted, data[min(i, 2)]
		if i == 3 {
			typ, object = CustomerDeposit, data[0]
		}
		frozen, err := encodeJSON(object)
		if err != nil {
			t.Fatal(err)
		}
		want, err := encodeJSON(webhook.Envelope{
			ID: r.EventID, Type: typ, Timestamp: webhook.At(at), APIVersion: APIVersion, Environment: webhook.Test,
			OrganizationID: "org_1", Sequence: int64(i + 1), Data: frozen,
		})
		if err != nil || string(r.Body) != string(want) {
			t.Errorf("event %d: got %s (%v), want %s", i+1, r.Body, err, want)
		}
		if i < 3 && len(r.Data) != 0 {
			t.Errorf("event %d: got the data %s a second time, want it in the body alone", i+1, r.Data)
		}
	}
}

// Two processes with two groups each, two sequencers and single steps race for the counter of one organization. Every
// fifth group fails behind its numbers, as in a crash before its COMMIT. A reader never sees a number before the one
// below it. Rules EVT-4 and EVT-17.
func TestGroupsSingleStepsAndSequencersLeaveNoGap(t *testing.T) {
	t.Parallel()
	first := pgtest.New(t)
	dbs := []*pg.DB{first, pgtest.Open(t, pgtest.DatabaseOf(t, first), time.Now)}
	seed(t, first, "org_1", "org_2")
	const groups, perGroup, steps = 40, 7, 30
	writing, done := context.WithCancel(t.Context())
	defer done()
	var writers, others errgroup.Group
	for process, db := range dbs {
		for lane := range 2 {
			writers.Go(func() error {
				for g := range groups {
					org := "org_1"
					if g%4 == 3 {
						org = "org_2"
					}
					var events []Event
					for n := range perGroup {
						events = append(events, firstOf(org, fmt.Sprintf("tr_%d_%d_%d_%d", process, lane, g, n), n))
					}
					if g%5 != 4 {
						if err := recordGroup(t.Context(), db, org, "", events...); err != nil {
							return err
						}
						continue
					}
					if err := recordGroup(t.Context(), db, org, "SELECT 1 / 0", events...); err == nil {
						return errors.New("the group that fails was written")
					}
				}
				return nil
			})
		}
		writers.Go(func() error {
			for n := range steps {
				if err := record(t.Context(), db, "org_1", fmt.Sprintf("res_%d", (process+n)%3), n); err != nil {
					return err
				}
			}
			return nil
		})
		others.Go(func() error {
			s := &Sequencer{DB: db, Environment: webhook.Test, Listener: &ear{}, skipLock: true, batch: 5}
			for {
				stopping := writing.Err() != nil
				n, err := s.Step(t.Context())
				if err != nil || stopping && n == 0 {
					return err
				}
			}
		})
		others.Go(func() error {
			for writing.Err() == nil {
				err := db.ReadOrg(t.Context(), "org_1", func(ctx context.Context, tx pg.Tx) error {
					var seen, highest, counter int64
					err := tx.QueryRow(ctx, `
						SELECT count(*), coalesce(max(sequence), 0),
							coalesce((SELECT last FROM event_sequences WHERE org_id = 'org_1'), 0)
						FROM events WHERE org_id = 'org_1' AND sequence IS NOT NULL`).Scan(&seen, &highest, &counter)
					if err == nil && (seen != highest || seen != counter) {
						err = fmt.Errorf("got %d numbers up to %d and the counter at %d", seen, highest, counter)
					}
					return err
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := writers.Wait(); err != nil {
		t.Error(err)
	}
	done()
	if err := others.Wait(); err != nil {
		t.Error(err)
	}
	for n := 1; n > 0; {
		var err error
		if n, err = (&Sequencer{DB: first, Environment: webhook.Test, Listener: &ear{}}).Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	all := stored(t, first)
	checkWhole(t, all)
	if want := 4*groups*4/5*perGroup + 2*steps; len(all) != want {
		t.Errorf("got %d events, want %d", len(all), want)
	}
	for i, db := range dbs {
		if n := db.Counts().Deadlocks; n != 0 {
			t.Errorf("process %d: got %d deadlocks, want none", i, n)
		}
	}
}

// A group gives up its numbers with everything else, whichever way it ends.
func TestAGroupThatEndsBeforeItsCommitLeavesNoGap(t *testing.T) {
	t.Parallel()
	first := pgtest.New(t)
	seed(t, first, "org_1")
	proxy := &pgtest.Proxy{}
	d := pgtest.DatabaseOf(t, first)
	d.URL = proxy.Start(t, d.URL)
	db := pgtest.Open(t, d, time.Now)
	for i, c := range []struct {
		loss   int32
		behind string
		made   bool
	}{
		{behind: "SELECT 1 / 0"},
		{loss: pgtest.CommitLost},
		{loss: pgtest.AnswerLost, made: true},
	} {
		before := lastNumber(t, first, "org_1")
		if c.behind == "" {
			// The COMMIT is lost of a connection that exists.
			warm := firstOf("org_1", fmt.Sprint("tr_warm_", i), i)
			if err := recordGroup(t.Context(), db, "org_1", "", warm); err != nil {
				t.Fatal(err)
			}
			before++
			proxy.LoseNext(pgtest.Loss{Action: c.loss, Nth: 1})
		}
		err := recordGroup(t.Context(), db, "org_1", c.behind, firstOf("org_1", fmt.Sprint("tr_", i), i))
		if err == nil {
			t.Fatalf("case %d: got no error, want one", i)
		}
		proxy.Restore()
		want := before
		if c.made {
			want++
		}
		pgtest.Eventually(t, func() bool { return lastNumber(t, first, "org_1") == want },
			"case %d: the counter does not come to %d", i, want)
		next := firstOf("org_1", fmt.Sprint("tr_after_", i), i)
		if err := recordGroup(t.Context(), first, "org_1", "", next); err != nil {
			t.Fatal(err)
		}
		if got := lastNumber(t, first, "org_1"); got != want+1 {
			t.Errorf("case %d: got the number %d behind it, want %d", i, got, want+1)
		}
	}
	checkWhole(t, stored(t, first))
}

// Only groups take the counter, so a withdrawal never waits for the fsync of another. Rule EVT-17.
func TestASingleStepWaitsForNoCounter(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	seed(t, db, "org_1")
	if err := recordGroup(t.Context(), db, "org_1", "", firstOf("org_1", "tr_0", 0)); err != nil {
		t.Fatal(err)
	}
	holder := pgtest.BeginOwner(t, db)
	if _, err := holder.Exec(t.Context(), `UPDATE event_sequences SET last = last WHERE org_id = 'org_1'`); err != nil {
		t.Fatal(err)
	}
	// A wait ends with an error after lock_timeout.
	if err := record(t.Context(), db, "org_1", "res_1", 1); err != nil {
		t.Errorf("a single step: got %v, want it written", err)
	}
	err := db.InOrgAtOnce(t.Context(), "org_1", func(now time.Time, b *pgx.Batch) error {
		return numbering.QueueFirst(b, now, firstOf("org_1", "wd_1", 1), firstOf("org_1", "wd_2", 1))
	})
	if err != nil {
		t.Errorf("withdrawals: got %v, want them written", err)
	}
	var waiting errgroup.Group
	waiting.Go(func() error { return recordGroup(t.Context(), db, "org_1", "", firstOf("org_1", "tr_1", 1)) })
	pgtest.Eventually(t, func() bool {
		var waits bool
		err := pgtest.OwnerPool(t, db).QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits)
		return err == nil && waits
	}, "the group does not wait for the counter")
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := waiting.Wait(); err != nil {
		t.Errorf("the group: got %v, want it written", err)
	}
	numbers := map[string]int64{}
	for _, r := range stored(t, db) {
		if r.Sequence != nil {
			numbers[r.ResourceID] = *r.Sequence
		}
	}
	if len(numbers) != 2 || numbers["tr_0"] != 1 || numbers["tr_1"] != 2 {
		t.Errorf("got the numbers %v, want those of the two groups", numbers)
	}
}

// lastOfBatches keeps the statement behind each one that takes a counter.
type lastOfBatches struct {
	mu    sync.Mutex
	after map[string][]string // function -> the last statement of its batch
}

func (l *lastOfBatches) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	l.see([]string{q.SQL})
	return ctx
}

func (l *lastOfBatches) TraceBatchStart(ctx context.Context, _ *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	var statements []string
	for _, q := range b.Batch.QueuedQueries {
		statements = append(statements, q.SQL)
	}
	l.see(statements)
	return ctx
}

func (l *lastOfBatches) see(statements []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, sql := range statements {
		for _, name := range []string{"events_number", "events_record_first"} {
			if strings.Contains(sql, name+"(") {
				l.after[name] = append(l.after[name], statements[len(statements)-1])
			}
		}
	}
}

func (l *lastOfBatches) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData)     {}
func (l *lastOfBatches) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (l *lastOfBatches) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// A transaction that has a counter has sent its COMMIT, so a process that stops holds up no other.
func TestACounterIsTakenWithTheCommit(t *testing.T) {
	t.Parallel()
	first := pgtest.New(t)
	seed(t, first, "org_1")
	seen := &lastOfBatches{after: map[string][]string{}}
	db := pgtest.OpenTraced(t, pgtest.DatabaseOf(t, first), time.Now, seen)
	if err := recordGroup(t.Context(), db, "org_1", "", firstOf("org_1", "tr_1", 1)); err != nil {
		t.Fatal(err)
	}
	if err := record(t.Context(), db, "org_1", "res_1", 1); err != nil {
		t.Fatal(err)
	}
	s := &Sequencer{DB: db, Environment: webhook.Test, Listener: &ear{}}
	if n, err := s.Step(t.Context()); n != 1 || err != nil {
		t.Fatalf("got %v, %v, want 1 event", n, err)
	}
	for _, name := range []string{"events_number", "events_record_first"} {
		if got := seen.after[name]; len(got) != 1 || !strings.HasSuffix(got[0], "commit") {
			t.Errorf("%s: got %q at the end of its round trip, want its COMMIT", name, got)
		}
	}
}

// The tables refuse what would break the sequence.
func TestTheNumbersOfGroupsAreGuardedByTheDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	seed(t, db, "org_1", "org_2")
	if err := record(t.Context(), db, "org_1", "res_1", 1); err != nil {
		t.Fatal(err)
	}
	code := func(err error) string {
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
			return refused.Code
		}
		return fmt.Sprint(err)
	}
	// The earlier event still waits for its number.
	err := recordGroup(t.Context(), db, "org_1", "", firstOf("org_1", "tr_1", 1), firstOf("org_1", "res_1", 2))
	if !pg.ViolatesConstraint(err, "events_resource_order") {
		t.Errorf("a second event of a resource: got %v, want a refusal", err)
	}
	err = db.InOrgAtOnce(t.Context(), "org_2", func(now time.Time, b *pgx.Batch) error {
		return numbering.QueueNumberedFirst(b, now, "org_1", firstOf("org_1", "tr_2", 1))
	})
	if code(err) != "42501" {
		t.Errorf("events of another organization: got %v, want a refusal", err)
	}
	err = db.InOrgAtOnce(t.Context(), "org_1", func(now time.Time, b *pgx.Batch) error {
		return numbering.QueueNumberedFirst(b, now, "org_1", firstOf("org_1", "tr_2", 1), firstOf("org_2", "tr_3", 1))
	})
	if err == nil {
		t.Error("events of two organizations: got no error, want one")
	}
	for name, sql := range map[string]string{
		"its counter": `UPDATE event_sequences SET last = 9 WHERE org_id = 'org_1'`,
		"the number of an event": `INSERT INTO events (event_id, org_id, type, resource_kind, resource_id, resource_seq,
				data, created_at, sequence, body)
			VALUES ('evt_x', 'org_1', 'X', 'X', 'x', 1, '', now(), 1, '')`,
		"numbers as the sequencer": `SELECT events_number('{}', '{}', '{}', '{}')`,
		"a delivery":               `INSERT INTO deliveries (org_id, endpoint_id) VALUES ('org_1', 'we_1')`,
	} {
		err := db.InOrg(t.Context(), "org_1", func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, sql)
			return err
		})
		if code(err) != "42501" {
			t.Errorf("an organization writes %s: got %v, want a refusal", name, err)
		}
	}
	if got := lastNumber(t, db, "org_1"); got != 0 || len(stored(t, db)) != 1 {
		t.Errorf("got the counter at %d and %d events, want nothing written", got, len(stored(t, db)))
	}
}

// A restart and a later release send what an earlier one wrote: the bytes are in the row.
func TestAFeedHasTheEventsOfGroupsAndOfTheSequencer(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	seed(t, db, "org_1")
	s := &Sequencer{DB: db, Environment: webhook.Test, Listener: &ear{}}
	for i := range 3 {
		if err := recordGroup(t.Context(), db, "org_1", "", firstOf("org_1", fmt.Sprint("tr_", i), i)); err != nil {
			t.Fatal(err)
		}
		if err := record(t.Context(), db, "org_1", "res_1", i); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	err := db.ReadOrg(t.Context(), "org_1", func(ctx context.Context, tx pg.Tx) error {
		page, err := ReadFeed(ctx, tx, "org_1", 0, nil, 10)
		if err != nil {
			return err
		}
		var got []string
		for _, body := range page.Bodies {
			var e webhook.Envelope
			if err := json.Unmarshal(body, &e); err != nil {
				return err
			}
			got = append(got, fmt.Sprintf("%d %s %s", e.Sequence, e.Type, e.Data))
		}
		const want = "1 TRANSFER_COMPLETED 0, 2 CUSTOMER_DEPOSIT 0, 3 TRANSFER_COMPLETED 1, 4 CUSTOMER_DEPOSIT 1, " +
			"5 TRANSFER_COMPLETED 2, 6 CUSTOMER_DEPOSIT 2"
		if strings.Join(got, ", ") != want {
			t.Errorf("got %v, want %s", got, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
