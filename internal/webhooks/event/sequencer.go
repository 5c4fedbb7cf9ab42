package event

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

const (
	batchMax  = 1000                  // events that one step starts from
	idlePause = 50 * time.Millisecond // Sequencer.IdlePause if that is 0
	// Pause after a step that was far from full, so that more events share its fixed cost.
	gatherPause = 20 * time.Millisecond
	errorPause  = 2 * time.Second // after an error
)

// Sequenced is an event with its sequence number and the body that is sent.
type Sequenced struct {
	EventID     string
	OrgID       string
	Type        Type
	ResourceID  string
	ResourceSeq int // 1, 2, … within the resource
	CustomerID  string
	Chain       string
	Sequence    int64 // 1, 2, … within the organization
	Body        []byte
}

// Listener receives events in the transaction that numbers them, those of one resource in their
// order. It writes to that transaction alone, and may be called again with the same events when the
// transaction is run again.
type Listener interface {
	OnSequenced(ctx context.Context, tx pg.Tx, events []Sequenced) error
}

// Sequencer gives each organization's events their numbers: 1, 2, … without a gap.
//
// Numbers follow the order of commits only roughly, because an event with a smaller id may be
// committed later. The promise is that no number is missing and that the events of one resource are
// numbered in their order.
//
// Any number of processes may run a Sequencer. An advisory lock keeps them from doing the same
// work. Correctness comes from the compare-and-swap of the counter and of each event's empty
// sequence, and from the unique key on (organization, sequence). Rule EVT-4.
type Sequencer struct {
	DB          *pg.DB
	Environment string // webhook.Live or webhook.Test
	Listener    Listener
	Log         *slog.Logger // nil means the default
	// OnNumbered is called after events were numbered; it may be nil. It only saves time: its
	// receiver polls by itself.
	OnNumbered func()
	// IdlePause is the time between two polls while there is nothing to do; 0 is 50 ms.
	IdlePause time.Duration

	skipLock bool // a test turns the lock off to check correctness without it
	batch    int  // a test makes batches small; 0 means batchMax
}

// errLostRace says that another sequencer was quicker. Nothing was written.
var errLostRace = errors.New("another sequencer was faster")

// Run numbers events until ctx ends.
func (s *Sequencer) Run(ctx context.Context) error {
	log := s.Log
	if log == nil {
		log = slog.Default()
	}
	for {
		n, err := s.Step(ctx)
		pause := time.Duration(0)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			log.LogAttrs(ctx, slog.LevelError, "cannot sequence events", slog.Any("error", err))
			pause = errorPause
		case n == 0:
			pause = cmp.Or(s.IdlePause, idlePause)
		default:
			if s.OnNumbered != nil {
				s.OnNumbered()
			}
			if n < batchMax/2 {
				pause = gatherPause
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// Step numbers one batch and returns the number of its events. It returns 0 when there is nothing
// to do or when another process holds the lock.
func (s *Sequencer) Step(ctx context.Context) (int, error) {
	n := 0
	err := s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		n = 0
		// A plan cached while the tables were small would be used, until the next ANALYZE, while
		// they grow. Each batch therefore gets a plan of its own, over indexes.
		var found, locked bool
		look := &pgx.Batch{}
		look.Queue(
			`SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_seqscan', 'off', true)`,
		)
		look.Queue(`SELECT EXISTS (SELECT FROM events WHERE sequence IS NULL)`).
			QueryRow(func(row pgx.Row) error { return row.Scan(&found) })
		if err := tx.SendBatch(ctx, look).Close(); err != nil {
			return fmt.Errorf("look for events without a sequence: %w", err)
		}
		if !found {
			return nil
		}
		failpoint.Hit("W20")
		if !s.skipLock {
			err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(hashtextextended('coffer/event/sequencer', 0))`).
				Scan(&locked)
			if err != nil {
				return fmt.Errorf("ask for the sequencer's lock: %w", err)
			}
			if !locked {
				return nil
			}
		}
		batch, err := readUnnumbered(ctx, tx, cmp.Or(s.batch, batchMax))
		if err != nil || len(batch) == 0 {
			return err
		}
		for _, e := range batch {
			if e.Type == CustomerDeposit {
				failpoint.Hit("D09")
			}
		}
		if err := s.assignSequences(ctx, tx, batch); err != nil {
			return err
		}
		n = len(batch)
		events := make([]Sequenced, len(batch))
		for i := range batch {
			events[i] = batch[i].Sequenced
		}
		return s.Listener.OnSequenced(ctx, tx, events)
	})
	if errors.Is(err, errLostRace) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("sequence events: %w", err)
	}
	if n > 0 {
		failpoint.Hit("W21")
	}
	return n, nil
}

type unnumbered struct {
	Sequenced
	data      []byte
	createdAt time.Time
}

// readUnnumbered reads events without a number in the order in which they are to be numbered. If a
// resource is in the batch, so are all its waiting events. A snapshot that shows an event shows the
// earlier ones of its resource, since each was written under the lock of the resource's row after
// the one before it was committed. The batch therefore never numbers an event ahead of an earlier
// one.
func readUnnumbered(ctx context.Context, tx pg.Tx, limit int) ([]unnumbered, error) {
	rows, err := tx.Query(ctx, `
		WITH picked AS MATERIALIZED (
			SELECT event_id, org_id, resource_id, resource_seq FROM events
			WHERE sequence IS NULL ORDER BY event_id LIMIT $1
		), earlier AS MATERIALIZED (
			SELECT e.event_id
			FROM (SELECT org_id, resource_id, max(resource_seq) AS last FROM picked GROUP BY 1, 2) p
			JOIN events e ON e.org_id = p.org_id AND e.resource_id = p.resource_id AND e.resource_seq < p.last
			WHERE e.sequence IS NULL
			UNION SELECT event_id FROM picked
		)
		SELECT e.event_id, e.org_id, e.type, e.resource_id, e.resource_seq,
		       coalesce(e.customer_id, ''), coalesce(e.chain, ''), e.data, e.created_at
		FROM earlier JOIN events e USING (event_id)
		ORDER BY e.org_id, e.event_id`, limit)
	if err != nil {
		return nil, fmt.Errorf("read events without a sequence: %w", err)
	}
	batch, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (unnumbered, error) {
		var e unnumbered
		err := row.Scan(&e.EventID, &e.OrgID, &e.Type, &e.ResourceID, &e.ResourceSeq, &e.CustomerID, &e.Chain, &e.data,
			&e.createdAt)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("read events without a sequence: %w", err)
	}
	return restoreResourceOrder(batch), nil
}

// restoreResourceOrder keeps the positions that a resource's events have by id and fills them in
// the order of the resource. Ids carry the writer's clock, and two writers' clocks differ.
func restoreResourceOrder(batch []unnumbered) []unnumbered {
	type resource struct{ org, id string }
	byResource := map[resource][]unnumbered{}
	for _, e := range batch {
		r := resource{e.OrgID, e.ResourceID}
		byResource[r] = append(byResource[r], e)
	}
	for _, events := range byResource {
		slices.SortFunc(events, func(a, b unnumbered) int { return cmp.Compare(a.ResourceSeq, b.ResourceSeq) })
	}
	ordered := make([]unnumbered, len(batch))
	for i, e := range batch {
		r := resource{e.OrgID, e.ResourceID}
		ordered[i], byResource[r] = byResource[r][0], byResource[r][1:]
	}
	return ordered
}

// assignSequences takes the next numbers of each organization and freezes the bodies. Rule EVT-2.
func (s *Sequencer) assignSequences(ctx context.Context, tx pg.Tx, batch []unnumbered) error {
	counts := map[string]int64{}
	for _, e := range batch {
		counts[e.OrgID]++
	}
	orgs := make([]string, 0, len(counts))
	for org := range counts {
		orgs = append(orgs, org)
	}
	slices.Sort(orgs)

	if _, err := tx.Exec(ctx, `
		INSERT INTO event_sequences (org_id, last) SELECT unnest($1::text[]), 0
		ON CONFLICT (org_id) DO NOTHING`, orgs); err != nil {
		return fmt.Errorf("open sequences: %w", err)
	}
	rows, err := tx.Query(ctx, `SELECT org_id, last FROM event_sequences WHERE org_id = ANY ($1)`, orgs)
	if err != nil {
		return fmt.Errorf("read sequences: %w", err)
	}
	last := map[string]int64{}
	var org string
	var current int64
	if _, err := pgx.ForEachRow(
		rows, []any{&org, &current}, func() error { last[org] = current; return nil },
	); err != nil {
		return fmt.Errorf("read sequences: %w", err)
	}
	oldLast, newLast := make([]int64, len(orgs)), make([]int64, len(orgs))
	for i, org := range orgs {
		oldLast[i], newLast[i] = last[org], last[org]+counts[org]
	}

	ids, numbers, bodies := make([]string, len(batch)), make([]int64, len(batch)), make([][]byte, len(batch))
	for i := range batch {
		e := &batch[i]
		last[e.OrgID]++
		e.Sequence = last[e.OrgID]
		e.Body, err = encodeJSON(webhook.Envelope{
			ID: e.EventID, Type: e.Type, Timestamp: webhook.At(e.createdAt), APIVersion: APIVersion,
			Environment: s.Environment, OrganizationID: e.OrgID, Sequence: e.Sequence, Data: e.data,
		})
		if err != nil {
			return fmt.Errorf("print event %s: %w", e.EventID, err)
		}
		ids[i], numbers[i], bodies[i] = e.EventID, e.Sequence, e.Body
	}

	// One statement moves all counters, in the order of ids, so that two sequencers that do meet
	// cannot deadlock.
	tag, err := tx.Exec(ctx, `
		UPDATE event_sequences s SET last = n.to_last
		FROM (SELECT l.org_id, w.from_last, w.to_last
		      FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS w (org_id, from_last, to_last)
		      JOIN event_sequences l USING (org_id)
		      ORDER BY l.org_id FOR UPDATE OF l) n
		WHERE s.org_id = n.org_id AND s.last = n.from_last`, orgs, oldLast, newLast)
	if err != nil {
		return fmt.Errorf("move sequences: %w", err)
	}
	if tag.RowsAffected() != int64(len(orgs)) {
		return errLostRace
	}
	tag, err = tx.Exec(ctx, `
		UPDATE events e SET sequence = n.sequence, body = n.body
		FROM unnest($1::text[], $2::bigint[], $3::bytea[]) AS n (event_id, sequence, body)
		WHERE e.event_id = n.event_id AND e.sequence IS NULL`, ids, numbers, bodies)
	if pg.ViolatesConstraint(err, "events_sequence_unique") {
		return errLostRace
	}
	if err != nil {
		return fmt.Errorf("number events: %w", err)
	}
	if tag.RowsAffected() != int64(len(batch)) {
		return errLostRace
	}
	return nil
}
