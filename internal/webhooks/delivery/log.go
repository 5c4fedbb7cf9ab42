package delivery

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/webhook"
)

// The outcomes of an attempt.
const (
	Delivered = "DELIVERED"
	Failed    = "FAILED"
)

// Attempt is one post, with the answer.
type Attempt struct {
	EventID  string
	Type     event.Type
	Test     bool // a requested sample
	Number   int  // 1, 2, … of this event to this endpoint
	SentAt   time.Time
	URL      string
	Headers  map[string]string // what was sent, without the signature
	Body     []byte            // what was sent; nil once the event has expired
	Status   int               // of the answer; 0 when there was none
	Response string            // the beginning of the answer
	Error    string            // in plain words; "" when it was delivered
	Duration time.Duration

	// The state of the delivery: PENDING, DELIVERED, FAILED, CANCELLED.
	Delivery string
	// When it is tried again; nil if it is not, or if this was not the last attempt.
	NextAt *time.Time

	sortKey string // orders attempts of the same moment
}

// Outcome returns Delivered or Failed.
func (a Attempt) Outcome() string {
	if a.Status >= 200 && a.Status < 300 {
		return Delivered
	}
	return Failed
}

// AttemptFilter selects the attempts that a log shows; zero fields exclude nothing.
type AttemptFilter struct {
	Outcome   string // Delivered or Failed
	EventID   string
	Type      event.Type
	MadeSince *time.Time // made at this time or later
}

// Log returns a page of the attempts to reach an endpoint, in the order in which they were made,
// samples included. It covers the time for which attempts are kept. Error: NOT_FOUND if there is no
// such endpoint. Rule EVT-13.
func (s *Endpoints) Log(
	ctx context.Context, tx pg.Tx, org, endpointID string, filter AttemptFilter, p pagination.Page,
) (pagination.Result[Attempt], error) {
	if _, err := s.ByID(ctx, tx, org, endpointID); err != nil {
		return pagination.Result[Attempt]{}, err
	}
	attempts, err := readAttempts(ctx, tx, org, endpointID, filter, p)
	if err != nil {
		return pagination.Result[Attempt]{}, err
	}
	samples, err := readSamples(ctx, tx, org, endpointID, filter, p)
	if err != nil {
		return pagination.Result[Attempt]{}, err
	}
	combined := append(attempts, samples...)
	slices.SortFunc(combined, func(a, b Attempt) int {
		order := cmp.Or(a.SentAt.Compare(b.SentAt), strings.Compare(a.sortKey, b.sortKey))
		if p.Desc {
			return -order
		}
		return order
	})
	return pagination.CutPage(
		p, combined, func(a Attempt) pagination.Cursor { return pagination.Cursor{CreatedAt: a.SentAt, ID: a.sortKey} },
	), nil
}

// sortKeySQL orders attempts of one moment by delivery and number. These are numbers, so the text
// has all their digits.
const sortKeySQL = `(lpad(a.delivery_id::text, 19, '0') || lpad(a.attempt::text, 10, '0')) COLLATE "C"`

func (w AttemptFilter) applyTo(q *pagination.Query, p pagination.Page) {
	switch w.Outcome {
	case Delivered:
		q.AddCondition(`a.status_code BETWEEN 200 AND 299`)
	case Failed:
		q.AddCondition(`a.status_code IS NULL OR a.status_code < 200 OR a.status_code > 299`)
	}
	if w.MadeSince != nil {
		q.AddCondition(`a.at >= ?`, *w.MadeSince)
	}
	// No index has the sort key as a column, so the condition on the time alone uses the index.
	if p.Cursor != nil && p.Desc {
		q.AddCondition(`a.at <= ?`, p.Cursor.CreatedAt)
	} else if p.Cursor != nil {
		q.AddCondition(`a.at >= ?`, p.Cursor.CreatedAt)
	}
}

func readAttempts(
	ctx context.Context, tx pg.Tx, org, endpointID string, filter AttemptFilter, p pagination.Page,
) ([]Attempt, error) {
	q := pagination.NewQuery(`
		SELECT d.event_id, v.type, a.attempt, a.at, a.url, v.body, coalesce(a.status_code, 0), coalesce(a.response, ''), coalesce(a.error, ''), a.duration_ms,
		       d.status, CASE WHEN d.status = 'PENDING' AND d.attempts = a.attempt THEN d.attempt_after END, `+sortKeySQL+`
		FROM delivery_attempts a JOIN deliveries d USING (delivery_id) JOIN events v ON v.event_id = d.event_id
		WHERE a.org_id = ? AND a.endpoint_id = ?`, org, endpointID)
	if filter.EventID != "" {
		q.AddCondition(`d.endpoint_id = ? AND d.event_id = ?`, endpointID, filter.EventID)
	}
	if filter.Type != "" {
		q.AddCondition(`v.type = ?`, string(filter.Type))
	}
	filter.applyTo(q, p)
	sql, args := q.BuildPage(p, "a.at", sortKeySQL)
	rows, err := tx.Query(ctx, sql, pg.Planned(q.Filtered(), args)...)
	if err != nil {
		return nil, fmt.Errorf("read the log of endpoint %s: %w", endpointID, err)
	}
	attempts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Attempt, error) {
		var attempt Attempt
		var took int
		err := row.Scan(
			&attempt.EventID, &attempt.Type, &attempt.Number, &attempt.SentAt, &attempt.URL, &attempt.Body,
			&attempt.Status, &attempt.Response, &attempt.Error, &took, &attempt.Delivery, &attempt.NextAt,
			&attempt.sortKey,
		)
		return attempt.withDerived(took), err
	})
	if err != nil {
		return nil, fmt.Errorf("read the log of endpoint %s: %w", endpointID, err)
	}
	return attempts, nil
}

func readSamples(
	ctx context.Context, tx pg.Tx, org, endpointID string, filter AttemptFilter, p pagination.Page,
) ([]Attempt, error) {
	const place = `a.event_id COLLATE "C"`
	q := pagination.NewQuery(`
		SELECT a.event_id, a.type, a.at, a.url, a.body, coalesce(a.status_code, 0), coalesce(a.response, ''), coalesce(a.error, ''), a.duration_ms, `+place+`
		FROM webhook_tests a WHERE a.org_id = ? AND a.endpoint_id = ?`, org, endpointID)
	if filter.EventID != "" {
		q.AddCondition(`a.event_id = ?`, filter.EventID)
	}
	if filter.Type != "" {
		q.AddCondition(`a.type = ?`, string(filter.Type))
	}
	filter.applyTo(q, p)
	sql, args := q.BuildPage(p, "a.at", place)
	rows, err := tx.Query(ctx, sql, pg.Planned(q.Filtered(), args)...)
	if err != nil {
		return nil, fmt.Errorf("read the samples of endpoint %s: %w", endpointID, err)
	}
	attempts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Attempt, error) {
		attempt := Attempt{Test: true, Number: 1}
		var took int
		err := row.Scan(&attempt.EventID, &attempt.Type, &attempt.SentAt, &attempt.URL, &attempt.Body, &attempt.Status,
			&attempt.Response, &attempt.Error, &took, &attempt.sortKey)
		attempt.Delivery = attempt.Outcome()
		return attempt.withDerived(took), err
	})
	if err != nil {
		return nil, fmt.Errorf("read the samples of endpoint %s: %w", endpointID, err)
	}
	return attempts, nil
}

// withDerived adds what follows from the columns: the headers, which differ only in the attempt,
// and a text for the receiver's answer.
func (a Attempt) withDerived(took int) Attempt {
	a.Duration = time.Duration(took) * time.Millisecond
	a.Headers = attemptHeaders(a.EventID, a.SentAt, a.Number)
	if len(a.Body) == 0 {
		a.Body = nil
	}
	switch {
	case a.Status == 0 || a.Outcome() == Delivered:
	case a.Status == http.StatusGone:
		a.Error = "the receiver answered 410, which disables the endpoint"
	case a.Status >= 300 && a.Status < 400:
		a.Error = fmt.Sprintf("the receiver answered %d: redirects are not followed, register the final URL", a.Status)
	default:
		a.Error = fmt.Sprintf("the receiver answered %d %s: only 2xx is success", a.Status,
			strings.ToLower(http.StatusText(a.Status)))
	}
	return a
}

// attemptHeaders returns the headers of an attempt, without its signature.
func attemptHeaders(eventID string, sentAt time.Time, number int) map[string]string {
	return map[string]string{
		"content-type":          "application/json",
		"user-agent":            userAgent,
		webhook.HeaderID:        eventID,
		webhook.HeaderTimestamp: strconv.FormatInt(sentAt.Unix(), 10),
		webhook.HeaderAttempt:   strconv.Itoa(number),
	}
}

// ResourceAttempt is an attempt to deliver an event of a resource.
type ResourceAttempt struct {
	EndpointID, EventID string
	Type                event.Type
	Number              int
	SentAt              time.Time
	URL                 string
	Status              int    // of the answer; 0 when there was none
	Response            string // the beginning of the answer
	Error               string // in plain words; "" when it was delivered
}

// IsDelivered reports whether the receiver took the event.
func (a ResourceAttempt) IsDelivered() bool { return a.Status >= 200 && a.Status < 300 }

// resourceAttemptsMax bounds the attempts that ListResourceAttempts returns: the newest ones.
const resourceAttemptsMax = 200

// ListResourceAttempts returns the attempts to deliver the events of a resource of an organization to all
// of its endpoints, oldest first, at most the newest 200. It covers the time for which attempts are kept.
func ListResourceAttempts(ctx context.Context, tx pg.Tx, org, resourceID string) ([]ResourceAttempt, error) {
	// A resource has few events and an organization few endpoints: each pair is one read of an index.
	rows, err := tx.Query(ctx, `
		SELECT * FROM (
			SELECT d.endpoint_id, v.event_id, v.type, a.attempt, a.at, coalesce(a.url, ''), coalesce(a.status_code, 0),
				coalesce(a.response, ''), coalesce(a.error, '')
			FROM events v
			CROSS JOIN webhook_endpoints e
			JOIN deliveries d ON d.endpoint_id = e.endpoint_id AND d.event_id = v.event_id
			JOIN delivery_attempts a ON a.delivery_id = d.delivery_id
			WHERE v.org_id = $1 AND v.resource_id = $2 AND e.org_id = $1
			ORDER BY a.at DESC, d.delivery_id DESC, a.attempt DESC LIMIT $3
		) newest ORDER BY at, endpoint_id, attempt`, org, resourceID, resourceAttemptsMax)
	if err != nil {
		return nil, fmt.Errorf("list the deliveries of %s: %w", resourceID, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ResourceAttempt])
	if err != nil {
		return nil, fmt.Errorf("list the deliveries of %s: %w", resourceID, err)
	}
	return found, nil
}
