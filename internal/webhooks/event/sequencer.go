package event

import (
	"bytes"
	"cmp"
	"context"
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

// Sequenced is an event that has its sequence number, or gets it in this transaction.
type Sequenced struct {
	EventID     string
	OrgID       string
	Type        Type
	ResourceID  string
	ResourceSeq int // 1, 2, … within the resource
	CustomerID  string
	Chain       string
	Sequence    int64 // 1, 2, … within the organization; 0 for a Listener
}

// Listener receives events in the transaction that numbers them, those of one resource in their
// order, just before they get their numbers. It reads what it needs and queues what it writes behind
// the numbers. It may be called again with the same events when the transaction is run again.
type Listener interface {
	QueueSequenced(ctx context.Context, tx pg.Tx, b *pgx.Batch, events []Sequenced) error
}

// Sequencer gives each organization's events their numbers: 1, 2, … without a gap.
//
// Numbers follow the order of commits only roughly, because an event with a smaller id may be
// committed later. The promise is that no number is missing and that the events of one resource are
// numbered in their order.
//
// Any number of processes may run a Sequencer. An advisory lock keeps them from doing the same
// work. Correctness comes from the lock of each counter until the COMMIT, from the compare-and-swap of
// each event's empty sequence, and from the unique key on (organization, sequence). Rule EVT-4.
//
// QueueNumberedFirst takes the same counters. A transaction that has one has sent its COMMIT, so no
// writer waits for a process.
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
	n, found := 0, false
	err := s.DB.InSystemPipelined(ctx, func(b *pgx.Batch) {
		b.Queue(`SELECT EXISTS (SELECT FROM events WHERE sequence IS NULL)`).
			QueryRow(func(row pgx.Row) error { return row.Scan(&found) })
	}, func(ctx context.Context, tx pg.Tx, b *pgx.Batch) error {
		n = 0
		if !found {
			return nil
		}
		failpoint.Hit("W20")
		if !s.skipLock {
			var locked bool
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
		if err := s.queueNumbers(b, batch); err != nil {
			return err
		}
		n = len(batch)
		events := make([]Sequenced, len(batch))
		for i := range batch {
			events[i] = batch[i].Sequenced
		}
		return s.Listener.QueueSequenced(ctx, tx, b, events)
	})
	if pg.ViolatesConstraint(err, "events_numbered_once") {
		return 0, nil // another sequencer was faster, and nothing was written
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
		       coalesce(e.customer_id, ''), coalesce(e.chain, ''), e.created_at
		FROM earlier JOIN events e USING (event_id)
		ORDER BY e.org_id, e.event_id`, limit)
	if err != nil {
		return nil, fmt.Errorf("read events without a sequence: %w", err)
	}
	batch, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (unnumbered, error) {
		var e unnumbered
		err := row.Scan(&e.EventID, &e.OrgID, &e.Type, &e.ResourceID, &e.ResourceSeq, &e.CustomerID, &e.Chain,
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

// queueNumbers queues the numbers of events, with the bodies that follow from them. The counters are
// locked from there to the COMMIT, which is sent with it. Rule EVT-2.
func (s *Sequencer) queueNumbers(b *pgx.Batch, batch []unnumbered) error {
	n := len(batch)
	ids, orgs, offsets, heads := make([]string, n), make([]string, n), make([]int64, n), make([][]byte, n)
	counts := map[string]int64{}
	for i, e := range batch {
		var err error
		if heads[i], err = envelopeHead(s.Environment, e.EventID, e.OrgID, e.Type, e.createdAt); err != nil {
			return err
		}
		counts[e.OrgID]++
		ids[i], orgs[i], offsets[i] = e.EventID, e.OrgID, counts[e.OrgID]
	}
	b.Queue(`SELECT events_number($1, $2, $3, $4)`, ids, orgs, offsets, heads)
	return nil
}

// envelopeHead returns an event's body up to its number. The database adds the number and the data,
// see event_body.
func envelopeHead(environment, eventID, org string, t Type, createdAt time.Time) ([]byte, error) {
	body, err := encodeJSON(webhook.Envelope{
		ID: eventID, Type: t, Timestamp: webhook.At(createdAt), APIVersion: APIVersion,
		Environment: environment, OrganizationID: org, Sequence: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("print event %s: %w", eventID, err)
	}
	head, ok := bytes.CutSuffix(body, []byte(`1,"data":null}`))
	if !ok {
		return nil, fmt.Errorf("print event %s: %s does not end with its number and its data", eventID, body)
	}
	return head, nil
}
