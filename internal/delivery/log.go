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

	"github.com/cofferpay/coffer/internal/event"
	"github.com/cofferpay/coffer/internal/page"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/webhook"
)

// What an attempt came to.
const (
	Delivered = "DELIVERED"
	Failed    = "FAILED"
)

// Attempt is one post that was made, with what came back.
type Attempt struct {
	EventID  string
	Type     event.Type
	Test     bool // a sample that was asked for
	Number   int  // 1, 2, … of this event to this endpoint
	At       time.Time
	URL      string
	Headers  map[string]string // what was sent, without the signature
	Body     []byte            // what was sent; nil once the event has expired
	Status   int               // of the answer; 0 when there was none
	Response string            // the beginning of the answer
	Error    string            // in plain words; "" when it was delivered
	Took     time.Duration

	Delivery string     // what became of the delivery: PENDING, DELIVERED, FAILED, CANCELLED
	NextAt   *time.Time // when it is tried again; nil when it is not, or this was not the last attempt

	place string // among attempts of the same moment
}

// Outcome is Delivered or Failed.
func (a Attempt) Outcome() string {
	if a.Status >= 200 && a.Status < 300 {
		return Delivered
	}
	return Failed
}

// Which says which attempts a log shows; zero members leave out nothing.
type Which struct {
	Outcome string // Delivered or Failed
	EventID string
	Type    event.Type
	Since   *time.Time // made at this time or later
}

// Log is a page of the attempts to reach an endpoint, in the order in which they were
// made, samples among them. It reaches back for as long as attempts are kept. The fault
// is NOT_FOUND when there is no such endpoint.
func (s *Endpoints) Log(ctx context.Context, tx pg.Tx, org, endpointID string, which Which, p page.Page) (page.Result[Attempt], error) {
	if _, err := s.ByID(ctx, tx, org, endpointID); err != nil {
		return page.Result[Attempt]{}, err
	}
	attempts, err := logged(ctx, tx, org, endpointID, which, p)
	if err != nil {
		return page.Result[Attempt]{}, err
	}
	samples, err := sampled(ctx, tx, org, endpointID, which, p)
	if err != nil {
		return page.Result[Attempt]{}, err
	}
	all := append(attempts, samples...)
	slices.SortFunc(all, func(a, b Attempt) int {
		order := cmp.Or(a.At.Compare(b.At), strings.Compare(a.place, b.place))
		if p.Desc {
			return -order
		}
		return order
	})
	return page.Cut(p, all, func(a Attempt) page.Cursor { return page.Cursor{At: a.At, ID: a.place} }), nil
}

// placeOf orders attempts of one moment: by delivery and number, which are numbers, and
// as text with all their digits.
const placeOf = `(lpad(a.delivery_id::text, 19, '0') || lpad(a.attempt::text, 10, '0')) COLLATE "C"`

func (w Which) narrow(q *page.Query, p page.Page) {
	switch w.Outcome {
	case Delivered:
		q.And(`a.status_code BETWEEN 200 AND 299`)
	case Failed:
		q.And(`a.status_code IS NULL OR a.status_code < 200 OR a.status_code > 299`)
	}
	if w.Since != nil {
		q.And(`a.at >= ?`, *w.Since)
	}
	// The place is no column of an index, so the index is entered by the time alone.
	if p.Cursor != nil && p.Desc {
		q.And(`a.at <= ?`, p.Cursor.At)
	} else if p.Cursor != nil {
		q.And(`a.at >= ?`, p.Cursor.At)
	}
}

func logged(ctx context.Context, tx pg.Tx, org, endpointID string, which Which, p page.Page) ([]Attempt, error) {
	q := page.Select(`
		SELECT d.event_id, v.type, a.attempt, a.at, a.url, v.body, coalesce(a.status_code, 0), coalesce(a.response, ''), coalesce(a.error, ''), a.duration_ms,
		       d.status, CASE WHEN d.status = 'PENDING' AND d.attempts = a.attempt THEN d.attempt_after END, `+placeOf+`
		FROM delivery_attempts a JOIN deliveries d USING (delivery_id) JOIN events v ON v.event_id = d.event_id
		WHERE a.org_id = ? AND a.endpoint_id = ?`, org, endpointID)
	if which.EventID != "" {
		q.And(`d.endpoint_id = ? AND d.event_id = ?`, endpointID, which.EventID)
	}
	if which.Type != "" {
		q.And(`v.type = ?`, string(which.Type))
	}
	which.narrow(q, p)
	sql, args := q.Sorted(p, "a.at", placeOf)
	rows, err := tx.Query(ctx, sql, pg.Planned(q.Filtered(), args)...)
	if err != nil {
		return nil, fmt.Errorf("read the log of endpoint %s: %w", endpointID, err)
	}
	attempts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Attempt, error) {
		var a Attempt
		var took int
		err := row.Scan(&a.EventID, &a.Type, &a.Number, &a.At, &a.URL, &a.Body, &a.Status, &a.Response, &a.Error, &took, &a.Delivery, &a.NextAt, &a.place)
		return a.whole(took), err
	})
	if err != nil {
		return nil, fmt.Errorf("read the log of endpoint %s: %w", endpointID, err)
	}
	return attempts, nil
}

func sampled(ctx context.Context, tx pg.Tx, org, endpointID string, which Which, p page.Page) ([]Attempt, error) {
	const place = `a.event_id COLLATE "C"`
	q := page.Select(`
		SELECT a.event_id, a.type, a.at, a.url, a.body, coalesce(a.status_code, 0), coalesce(a.response, ''), coalesce(a.error, ''), a.duration_ms, `+place+`
		FROM webhook_tests a WHERE a.org_id = ? AND a.endpoint_id = ?`, org, endpointID)
	if which.EventID != "" {
		q.And(`a.event_id = ?`, which.EventID)
	}
	if which.Type != "" {
		q.And(`a.type = ?`, string(which.Type))
	}
	which.narrow(q, p)
	sql, args := q.Sorted(p, "a.at", place)
	rows, err := tx.Query(ctx, sql, pg.Planned(q.Filtered(), args)...)
	if err != nil {
		return nil, fmt.Errorf("read the samples of endpoint %s: %w", endpointID, err)
	}
	attempts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Attempt, error) {
		a := Attempt{Test: true, Number: 1}
		var took int
		err := row.Scan(&a.EventID, &a.Type, &a.At, &a.URL, &a.Body, &a.Status, &a.Response, &a.Error, &took, &a.place)
		a.Delivery = a.Outcome()
		return a.whole(took), err
	})
	if err != nil {
		return nil, fmt.Errorf("read the samples of endpoint %s: %w", endpointID, err)
	}
	return attempts, nil
}

// whole adds what follows from the columns: the headers, which are always the same but
// for the attempt, and words for what the receiver said.
func (a Attempt) whole(took int) Attempt {
	a.Took = time.Duration(took) * time.Millisecond
	a.Headers = headers(a.EventID, a.At, a.Number)
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
		a.Error = fmt.Sprintf("the receiver answered %d %s: only 2xx is success", a.Status, strings.ToLower(http.StatusText(a.Status)))
	}
	return a
}

// headers are what every attempt carries, beside its signature.
func headers(eventID string, at time.Time, number int) map[string]string {
	return map[string]string{
		"content-type":          "application/json",
		"user-agent":            userAgent,
		webhook.HeaderID:        eventID,
		webhook.HeaderTimestamp: strconv.FormatInt(at.Unix(), 10),
		webhook.HeaderAttempt:   strconv.Itoa(number),
	}
}
