package delivery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

const (
	jobWindowMax = 1000 // events that one transaction of a job reads
	// How long the same resend request returns the same job: a double click.
	resendDedupPeriod = 5 * time.Second
	// The same for a recovery, which may send thousands.
	recoverDedupPeriod = 10 * time.Minute
	// How far the times of events may deviate from the order of their numbers.
	skewMax = time.Hour
)

// The kinds and states of a job.
const (
	Resend    = "RESEND"
	Recover   = "RECOVER"
	Running   = "RUNNING"
	Completed = "COMPLETED"
)

// Job is an organization's request to send events again. It is completed when everything has been
// made due. Pending, Delivered and Failed count the deliveries since then. A delivery that a later
// job made due again counts only there.
type Job struct {
	ID         string
	Kind       string
	Status     string
	EndpointID string // "" for a resend to every endpoint that wants the event
	EventID    string // set for a resend
	Since      *time.Time
	Until      *time.Time
	OnlyFailed bool
	Examined   int64 // events that were read and are wanted
	Queued     int64 // how many of them were made due
	Pending    int64
	Delivered  int64
	Failed     int64 // failed finally, or cancelled with their endpoint
	CreatedAt  time.Time
	EndedAt    *time.Time
}

// Resend sends an event again: to one endpoint that wants it, or with "" to all of them. A delivery
// that waits for its next attempt is due at once, with a new schedule. The same request within five
// seconds returns the same job. Errors:
//   - NOT_FOUND
//   - INVALID_REQUEST for an endpoint that does not receive the event
//   - INVALID_STATE for a disabled endpoint, or for an event that is older than the feed
func (s *Endpoints) Resend(
	ctx context.Context, tx pg.Tx, org string, actor audit.Actor, eventID, endpointID string,
) (Job, error) {
	if !id.IsValid("evt", eventID) {
		return Job{}, newEventNotFound(eventID)
	}
	var e event.Sequenced
	var expired bool
	err := tx.QueryRow(ctx, `
		SELECT event_id, type, coalesce(customer_id, ''), coalesce(chain, ''), coalesce(sequence, 0), expired_at IS NOT NULL
		FROM events WHERE org_id = $1 AND event_id = $2`, org, eventID).Scan(&e.EventID, &e.Type, &e.CustomerID, &e.Chain, &e.Sequence, &expired)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Job{}, newEventNotFound(eventID)
	case err != nil:
		return Job{}, fmt.Errorf("read event %s: %w", eventID, err)
	case expired:
		return Job{}, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"This event is older than 90 days, so its bytes are deleted.").
			WithStep(fault.ShowSubjectOfEvent)
	case e.Sequence == 0:
		return Job{}, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"The first delivery of this event has not happened yet.").WithAdvice("The event will be sent " +
			"without this call.")
	}
	if endpointID != "" {
		endpoint, err := loadEndpoint(ctx, tx, org, endpointID, "")
		if err != nil {
			return Job{}, fault.Find(err).WithParam("endpointId")
		}
		if err := checkSendable(endpoint); err != nil {
			return Job{}, err
		}
		if !(subscription{endpoint.ID, endpoint.Events, endpoint.Filters}).wantsEvent(e) {
			return Job{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
				"This endpoint does not receive this event, by its events or its filters.").
				WithStep(fault.ChangeEndpointFilters).
				WithParam("endpointId")
		}
	}
	return s.createJob(ctx, tx, org, actor, Job{Kind: Resend, EventID: eventID, EndpointID: endpointID}, e.Sequence-1,
		e.Sequence)
}

// Recover sends the events since a time, and before until if that is given, to an endpoint. It
// sends events that the endpoint's types and filters want now. With onlyFailed it sends only what
// was never delivered to the endpoint: failed and cancelled deliveries, and events that happened
// while the endpoint was disabled or did not exist. Otherwise it sends everything once more.
//
// At most one recovery of an endpoint runs at a time. The same request within ten minutes returns
// the same job, whether it still runs or not. Errors:
//   - NOT_FOUND
//   - INVALID_REQUEST for invalid times
//   - INVALID_STATE for a disabled endpoint, or if another recovery runs
func (s *Endpoints) Recover(
	ctx context.Context, tx pg.Tx, org string, actor audit.Actor, endpointID string, since time.Time, until *time.Time,
	onlyFailed bool,
) (Job, error) {
	endpoint, err := s.ByID(ctx, tx, org, endpointID)
	if err != nil {
		return Job{}, err
	}
	switch {
	case since.After(tx.Now):
		return Job{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"since is in the future.").
			WithAdvice("Give a time in the past.").WithParam("since")
	case until != nil && !until.After(since):
		return Job{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"until has to be later than since.").
			WithAdvice("Give a later time, or leave it out.").WithParam("until")
	}
	if err := checkSendable(endpoint); err != nil {
		return Job{}, err
	}
	since = since.UTC().Truncate(time.Microsecond)
	if until != nil {
		truncated := until.UTC().Truncate(time.Microsecond)
		until = &truncated
	}
	afterSeq, lastSeq, err := findRange(ctx, tx, org, since)
	if err != nil {
		return Job{}, err
	}
	j, err := s.createJob(
		ctx, tx, org, actor,
		Job{Kind: Recover, EndpointID: endpointID, Since: &since, Until: until, OnlyFailed: onlyFailed}, afterSeq,
		lastSeq,
	)
	if err != nil {
		return Job{}, err
	}
	// A job's worker locks the job before its endpoint, so the endpoint is locked behind the job. It
	// may have been disabled or deleted since it was read.
	if endpoint, err = lockEndpoint(ctx, tx, org, endpointID); err != nil {
		return Job{}, err
	}
	return j, checkSendable(endpoint)
}

// checkSendable refuses an endpoint that is disabled.
func checkSendable(e Endpoint) error {
	if e.Status == Enabled || e.Status == Paused {
		return nil
	}
	return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
		"This endpoint is disabled.").
		WithStep(fault.EnableEndpoint).
		WithExtra("currentStatus", e.Status)
}

func newEventNotFound(eventID string) error {
	return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"Your organization has no event %.64q.", eventID).
		WithStep(fault.ListEvents)
}

// findRange returns the position in the feed before all events of that time or later, and the last
// event's number. Times follow the numbers except for a skew, so it finds the position by binary
// search and starts that much earlier.
func findRange(ctx context.Context, tx pg.Tx, org string, since time.Time) (afterSeq, lastSeq int64, err error) {
	err = tx.QueryRow(ctx, `SELECT expired, last FROM event_sequences WHERE org_id = $1`, org).Scan(&afterSeq, &lastSeq)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read the sequence of %s: %w", org, err)
	}
	earliest := since.Add(-skewMax)
	for high := lastSeq; afterSeq < high; {
		middle := afterSeq + (high-afterSeq)/2
		var nextSeq int64
		var createdAt time.Time
		err := tx.QueryRow(
			ctx,
			`SELECT sequence, created_at FROM events WHERE org_id = $1 AND sequence > $2 ORDER BY sequence LIMIT 1`,
			org, middle,
		).Scan(&nextSeq, &createdAt)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			high = middle
		case err != nil:
			return 0, 0, fmt.Errorf("find the events of %s since %v: %w", org, since, err)
		case createdAt.Before(earliest):
			afterSeq = nextSeq
		default:
			high = middle
		}
	}
	return min(afterSeq, lastSeq), lastSeq, nil
}

// createJob stores a job, unless the same was requested a moment ago. Rule EVT-14.
func (s *Endpoints) createJob(
	ctx context.Context, tx pg.Tx, org string, actor audit.Actor, j Job, afterSeq, lastSeq int64,
) (Job, error) {
	period := recoverDedupPeriod
	if j.Kind == Resend {
		period = resendDedupPeriod
	}
	// Two simultaneous requests must not both find no job.
	if _, err := tx.Exec(
		ctx, `SELECT pg_advisory_xact_lock(hashtextextended('coffer/delivery/jobs/' || $1, 0))`, org,
	); err != nil {
		return Job{}, fmt.Errorf("lock the jobs of %s: %w", org, err)
	}
	var existing string
	err := tx.QueryRow(ctx, `
		SELECT job_id FROM webhook_jobs
		WHERE org_id = $1 AND kind = $2 AND endpoint_id IS NOT DISTINCT FROM nullif($3, '') AND event_id IS NOT DISTINCT FROM nullif($4, '')
		  AND since IS NOT DISTINCT FROM $5 AND until IS NOT DISTINCT FROM $6 AND only_failed = $7
		  AND (created_at > $8 OR status = 'RUNNING')
		ORDER BY created_at DESC, job_id DESC LIMIT 1`,
		org, j.Kind, j.EndpointID, j.EventID, j.Since, j.Until, j.OnlyFailed, tx.Now.Add(-period)).Scan(&existing)
	if err == nil {
		return s.JobByID(ctx, tx, org, existing)
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return Job{}, fmt.Errorf("look for an equal job: %w", err)
	}
	j.ID, j.Status, j.CreatedAt = id.New("wj", tx.Now), Running, tx.Now
	_, err = tx.Exec(ctx, `
		INSERT INTO webhook_jobs (job_id, org_id, kind, endpoint_id, event_id, since, until, only_failed, status, after_sequence, last_sequence, created_at, updated_at)
		VALUES ($1, $2, $3, nullif($4, ''), nullif($5, ''), $6, $7, $8, $9, $10, $11, $12, $12)`,
		j.ID, org, j.Kind, j.EndpointID, j.EventID, j.Since, j.Until, j.OnlyFailed, j.Status, afterSeq, lastSeq, tx.Now)
	if pg.ViolatesConstraint(err, "webhook_jobs_one_recovery") {
		return Job{}, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"Another recovery of this endpoint is running.").
			WithAdvice("Ask again when it is completed.").
			WithExtra("currentStatus", Running)
	}
	if err != nil {
		return Job{}, fmt.Errorf("write job %s: %w", j.ID, err)
	}
	kind, resource := "WEBHOOK_ENDPOINT", j.EndpointID
	if j.Kind == Resend {
		kind, resource = "EVENT", j.EventID
	}
	err = audit.Record(ctx, tx, audit.Entry{
		OrgID: org, Actor: actor, Action: "webhook." + strings.ToLower(j.Kind), ResourceKind: kind,
		ResourceID: resource,
		Detail: map[string]any{
			"jobId": j.ID, "endpointId": j.EndpointID, "since": j.Since, "until": j.Until, "onlyFailed": j.OnlyFailed,
		},
	})
	return j, err
}

// JobByID returns a job in its present state. Error: NOT_FOUND.
func (s *Endpoints) JobByID(ctx context.Context, tx pg.Tx, org, jobID string) (Job, error) {
	j := Job{ID: jobID}
	err := pgx.ErrNoRows
	if id.IsValid("wj", jobID) {
		err = tx.QueryRow(ctx, `
			SELECT j.kind, j.status, coalesce(j.endpoint_id, ''), coalesce(j.event_id, ''), j.since, j.until, j.only_failed,
			       j.examined, j.queued, j.created_at, j.ended_at, d.pending, d.delivered, d.failed
			FROM webhook_jobs j CROSS JOIN LATERAL (
				SELECT count(*) FILTER (WHERE status = 'PENDING') AS pending, count(*) FILTER (WHERE status = 'DELIVERED') AS delivered,
				       count(*) FILTER (WHERE status IN ('FAILED', 'CANCELLED')) AS failed
				FROM deliveries WHERE job_id = j.job_id
			) d
			WHERE j.org_id = $1 AND j.job_id = $2`, org, jobID).
			Scan(&j.Kind, &j.Status, &j.EndpointID, &j.EventID, &j.Since, &j.Until, &j.OnlyFailed,
				&j.Examined, &j.Queued, &j.CreatedAt, &j.EndedAt, &j.Pending, &j.Delivered, &j.Failed)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return Job{}, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
			"Your organization has no webhook job %.64q.", jobID).
			WithAdvice("Jobs are deleted after 90 days.")
	}
	if err != nil {
		return Job{}, fmt.Errorf("read job %s: %w", jobID, err)
	}
	return j, nil
}

// advanceJob does one step of the job that has waited longest. A step is a window of events in
// their order, so that the earlier event of a resource is due before the later.
func (d *Dispatcher) advanceJob(ctx context.Context) (hasMore bool, err error) {
	err = d.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		hasMore = false
		if err := setPlanner(ctx, tx); err != nil {
			return err
		}
		var j Job
		var org string
		var afterSeq, lastSeq int64
		err := tx.QueryRow(ctx, `
			SELECT job_id, org_id, kind, coalesce(endpoint_id, ''), since, until, only_failed, after_sequence,
				last_sequence
			FROM webhook_jobs WHERE status = 'RUNNING' ORDER BY updated_at, job_id LIMIT 1 FOR UPDATE SKIP LOCKED`).
			Scan(&j.ID, &org, &j.Kind, &j.EndpointID, &j.Since, &j.Until, &j.OnlyFailed, &afterSeq, &lastSeq)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look for jobs: %w", err)
		}
		hasMore = true
		subscriptions, err := readSubscriptions(ctx, tx, org, j.EndpointID)
		if err != nil {
			return err
		}
		window, err := readEvents(ctx, tx, org, afterSeq, lastSeq)
		if err != nil {
			return err
		}
		isDone := len(window) < jobWindowMax
		if n := len(window); n > 0 {
			afterSeq = window[n-1].Sequence
		}
		wanted := window[:0]
		for _, e := range window {
			if (j.Since == nil || !e.createdAt.Before(*j.Since)) && (j.Until == nil || e.createdAt.Before(*j.Until)) {
				wanted = append(wanted, e)
			}
		}
		if n := len(window); n > 0 && j.Until != nil && len(wanted) == 0 &&
			window[0].createdAt.After(j.Until.Add(skewMax)) {
			isDone = true // all further events are later still
		}
		examined, queued, err := queueDeliveries(ctx, tx, org, j, subscriptions, wanted)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			UPDATE webhook_jobs
			SET after_sequence = $2, examined = examined + $3, queued = queued + $4, updated_at = $5,
			    status = CASE WHEN $6 THEN 'COMPLETED' ELSE status END, ended_at = CASE WHEN $6 THEN $5 ELSE ended_at END
			WHERE job_id = $1`, j.ID, afterSeq, examined, queued, tx.Now, isDone)
		if err != nil {
			return fmt.Errorf("move job %s: %w", j.ID, err)
		}
		return nil
	})
	return hasMore, err
}

// readSubscriptions returns the endpoints of an organization, or the given one, to which events may
// be sent.
func readSubscriptions(ctx context.Context, tx pg.Tx, org, endpointID string) ([]subscription, error) {
	rows, err := tx.Query(ctx, `
		SELECT endpoint_id, events, coalesce(filter_customer_id, ''), coalesce(filter_chain, '') FROM webhook_endpoints
		WHERE org_id = $1 AND deleted_at IS NULL AND status IN ('ENABLED', 'PAUSED') AND ($2 = '' OR endpoint_id = $2)
		ORDER BY created_at, endpoint_id`, org, endpointID)
	if err != nil {
		return nil, fmt.Errorf("read the endpoints of %s: %w", org, err)
	}
	subscriptions, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (subscription, error) {
		var s subscription
		err := row.Scan(&s.endpoint, &s.eventTypes, &s.filters.CustomerID, &s.filters.Chain)
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the endpoints of %s: %w", org, err)
	}
	return subscriptions, nil
}

type recordedEvent struct {
	event.Sequenced
	createdAt time.Time
}

// readEvents reads the next events after a position, in their order, without their bytes.
func readEvents(ctx context.Context, tx pg.Tx, org string, afterSeq, lastSeq int64) ([]recordedEvent, error) {
	rows, err := tx.Query(ctx, `
		SELECT event_id, type, resource_id, resource_seq, coalesce(customer_id, ''), coalesce(chain, ''), sequence, created_at
		FROM events WHERE org_id = $1 AND sequence > $2 AND sequence <= $3 AND expired_at IS NULL
		ORDER BY sequence LIMIT $4`, org, afterSeq, lastSeq, jobWindowMax)
	if err != nil {
		return nil, fmt.Errorf("read the events of %s after %d: %w", org, afterSeq, err)
	}
	window, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (recordedEvent, error) {
		var e recordedEvent
		err := row.Scan(&e.EventID, &e.Type, &e.ResourceID, &e.ResourceSeq, &e.CustomerID, &e.Chain, &e.Sequence,
			&e.createdAt)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the events of %s after %d: %w", org, afterSeq, err)
	}
	return window, nil
}

// queueDeliveries makes deliveries due. It creates missing ones, and gives a new schedule to those
// that ended or wait for a further attempt. It skips deliveries in flight and those already due, so
// that a repeated request sends once. Rule EVT-14.
func queueDeliveries(
	ctx context.Context, tx pg.Tx, org string, j Job, subscriptions []subscription, events []recordedEvent,
) (examined, queued int64, err error) {
	var endpoints, ids, resources []string
	var resourceSeqs []int32
	for _, e := range events {
		for _, s := range subscriptions {
			if s.wantsEvent(e.Sequenced) {
				endpoints, ids = append(endpoints, s.endpoint), append(ids, e.EventID)
				resources, resourceSeqs = append(resources, e.ResourceID), append(resourceSeqs, int32(e.ResourceSeq))
			}
		}
	}
	if len(ids) == 0 {
		return 0, 0, nil
	}
	tag, err := tx.Exec(ctx, `
		INSERT INTO deliveries AS d (org_id, endpoint_id, event_id, resource_id, resource_seq, status, created_at, attempt_after, job_id)
		SELECT $1, n.endpoint_id, n.event_id, n.resource_id, n.resource_seq, 'PENDING', $2, $2, $3
		FROM unnest($4::text[], $5::text[], $6::text[], $7::int[]) WITH ORDINALITY
			AS n (endpoint_id, event_id, resource_id, resource_seq, nth)
		ORDER BY n.nth
		ON CONFLICT ON CONSTRAINT deliveries_once DO UPDATE
		SET status = 'PENDING', ended_at = NULL, schedule_base = d.attempts, first_attempt_at = NULL, attempt_after = $2, job_id = excluded.job_id
		WHERE d.lease IS NULL AND CASE d.status
			WHEN 'PENDING' THEN d.first_attempt_at IS NOT NULL OR d.attempt_after > $2
			WHEN 'DELIVERED' THEN NOT $8
			ELSE true END`,
		org, tx.Now, j.ID, endpoints, ids, resources, resourceSeqs, j.OnlyFailed)
	if err != nil {
		return 0, 0, fmt.Errorf("make %d deliveries of job %s due: %w", len(ids), j.ID, err)
	}
	return int64(len(ids)), tag.RowsAffected(), nil
}
