package delivery

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/webhook"
)

// samplesMax is how many samples this process posts at once. Each holds a caller for as long as its
// receiver takes.
const samplesMax = 16

// Test posts a realistic sample of an event to one endpoint, independent of its status, events and
// filters, and returns the answer. A sample is no event: its environment is TEST, it has no
// sequence, it is not retried, and it does not count for the health of the endpoint. The rules of
// every attempt apply to it, and it is in the log.
//
// Test opens its own transactions, because it waits for the receiver between them. If the process
// stops meanwhile, the sample may have arrived and is not in the log. Errors: NOT_FOUND;
// INVALID_REQUEST for an unknown type; UNAVAILABLE if too many samples are in flight. Rule EVT-12.
func (s *Endpoints) Test(
	ctx context.Context, db *pg.DB, org string, actor audit.Actor, endpointID string, t event.Type,
) (Attempt, error) {
	if s.Posts == nil {
		return Attempt{}, fault.New(fault.Unavailable, fault.CodeUnavailable, fault.NothingWritten,
			"This installation sends no samples: the process that answers has no key to sign them.").
			WithAdvice("Real events are not affected.")
	}
	data, ok := webhook.Sample(t)
	if !ok || !event.IsKnown(t) {
		return Attempt{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"There is no event %.64q.", string(t)).
			WithStep(fault.ListEventTypes).WithParam("type")
	}
	c := claimedDelivery{orgID: org, endpoint: endpointID}
	err := db.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		e, err := s.ByID(ctx, tx, org, endpointID)
		if err != nil {
			return err
		}
		targetsByID, err := readTargets(ctx, tx, []string{e.ID})
		if err != nil {
			return err
		}
		c.target, c.eventID, c.leasedUntil = targetsByID[e.ID], id.New("evt", tx.Now), tx.Now.Add(leaseLength)
		c.body, err = buildSample(c.eventID, org, t, webhook.At(tx.Now), data)
		return err
	})
	if err != nil {
		return Attempt{}, err
	}
	select {
	case s.sampleSlots() <- struct{}{}:
		defer func() { <-s.sampleSlots() }()
	default:
		return Attempt{}, fault.New(fault.Unavailable, fault.CodeUnavailable, fault.NothingWritten,
			"Too many samples are being sent.").
			WithAdvice("Try again shortly.")
	}
	s.Posts.ensureOpen()
	o := s.Posts.postDelivery(ctx, c)
	if o.abandoned {
		return Attempt{}, fault.New(fault.Unavailable, fault.CodeUnavailable, fault.NothingWritten,
			"The sample could not be sent in time, and nothing more is sent of it.").WithAdvice("Try again.")
	}
	attempt := Attempt{
		EventID: c.eventID, Type: t, Test: true, Number: 1, SentAt: o.sentAt, URL: c.url, Body: c.body,
		Status: o.status, Response: o.response, Error: o.err,
	}.withDerived(int(o.took.Milliseconds()))
	attempt.Delivery = attempt.Outcome()
	err = db.InOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO webhook_tests (event_id, org_id, endpoint_id, type, body, url, at, status_code, error, response, duration_ms)
			VALUES ($1, $2, $3, $4, $5, $6, $7, nullif($8, 0), nullif($9, ''), nullif($10, ''), $11)`,
			c.eventID, org, endpointID, string(t), c.body, c.url, o.sentAt, o.status, o.err, o.response,
			o.took.Milliseconds())
		if err != nil {
			return fmt.Errorf("log sample %s: %w", c.eventID, err)
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: org, Actor: actor, Action: "webhook_endpoint.tested",
			ResourceKind: "WEBHOOK_ENDPOINT", ResourceID: endpointID,
			Detail: map[string]any{"eventId": c.eventID, "type": string(t)},
		})
	})
	return attempt, err
}

func (s *Endpoints) sampleSlots() chan struct{} {
	s.openOnce.Do(func() { s.samplesInFlight = make(chan struct{}, samplesMax) })
	return s.samplesInFlight
}

// buildSample encodes the body of a sample: an envelope without a sequence.
func buildSample(eventID, org string, t event.Type, sentAt webhook.Time, data any) ([]byte, error) {
	raw, err := json.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("print a sample of %s: %w", t, err)
	}
	body, err := json.Marshal(webhook.Envelope{
		ID: eventID, Type: t, Timestamp: sentAt, APIVersion: event.APIVersion, Environment: webhook.Test,
		OrganizationID: org, Data: raw,
	})
	if err != nil {
		return nil, fmt.Errorf("print a sample of %s: %w", t, err)
	}
	return body, nil
}
