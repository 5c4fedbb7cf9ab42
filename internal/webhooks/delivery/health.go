package delivery

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const (
	// After this time of nothing but failures an endpoint is disabled.
	failingMax = 5 * 24 * time.Hour
	// A pause of the schedule is shorter than this. After a longer one without any attempt nothing
	// was due, so the time that passed proves no failure.
	quietGapMax = 60 * time.Hour
	// The resolution of failed_at, so that failures rarely write to the endpoint.
	failedAtStep = time.Hour
)

// endpointHealth summarizes the outcomes of one endpoint in a batch.
type endpointHealth struct {
	lastSuccess               *time.Time // the last success
	wasFailing                bool       // it failed before it succeeded
	firstFailure, lastFailure *time.Time // the failures after the last success
	url                       string
}

// summarizeHealth summarizes a batch. It ignores posts that a local fault prevented, and posts to a
// former URL.
func summarizeHealth(batch []outcome) map[string]*endpointHealth {
	byEndpoint := map[string]*endpointHealth{}
	healthOf := func(o outcome) *endpointHealth {
		s := byEndpoint[o.endpoint]
		if s == nil {
			s = &endpointHealth{url: o.url}
			byEndpoint[o.endpoint] = s
		}
		return s
	}
	for _, o := range batch {
		if !o.abandoned && o.isDelivered() {
			if s := healthOf(o); s.lastSuccess == nil || s.lastSuccess.Before(o.sentAt) {
				s.lastSuccess = &o.sentAt
			}
			healthOf(o).wasFailing = healthOf(o).wasFailing || o.failing
		}
	}
	for _, o := range batch {
		if o.abandoned || o.ownFault || o.isDelivered() || o.isGone() {
			continue
		}
		s := healthOf(o)
		if s.lastSuccess != nil && !o.sentAt.After(*s.lastSuccess) {
			continue
		}
		if s.firstFailure == nil || o.sentAt.Before(*s.firstFailure) {
			s.firstFailure = &o.sentAt
		}
		if s.lastFailure == nil || s.lastFailure.Before(o.sentAt) {
			s.lastFailure = &o.sentAt
		}
		s.url = o.url
	}
	return byEndpoint
}

// hasRecovered reports whether there is a failure to clear. An endpoint that was healthy when it was
// claimed has nothing to clear, unless another process was quicker; then the next success clears it.
func (s *endpointHealth) hasRecovered() bool { return s.lastSuccess != nil && s.wasFailing }

// lockEndpoints locks every endpoint that a batch may change, by id. Later statements lock them in
// groups. Without it two processes that see opposite results of two endpoints wait for each other.
func lockEndpoints(ctx context.Context, tx pg.Tx, health map[string]*endpointHealth, goneIDs []string) error {
	endpoints := slices.Clone(goneIDs)
	for endpoint, s := range health {
		if s.hasRecovered() || s.firstFailure != nil {
			endpoints = append(endpoints, endpoint)
		}
	}
	if len(endpoints) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `
		SELECT FROM webhook_endpoints WHERE endpoint_id = ANY ($1) ORDER BY endpoint_id FOR NO KEY UPDATE`, endpoints)
	if err != nil {
		return fmt.Errorf("lock the endpoints of %d outcomes: %w", len(endpoints), err)
	}
	return nil
}

// updateHealth stores since when an endpoint fails, in its row, and disables an endpoint that has
// only failed for five days (rule EVT-11).
//
// A success stops the clock, and a failure starts it. A failure after a silence starts it anew. Two
// processes may record in another order than they posted. Before it disables an endpoint,
// updateHealth therefore checks the log of attempts for a success.
func (d *Dispatcher) updateHealth(
	ctx context.Context, tx pg.Tx, health map[string]*endpointHealth,
) ([]audit.Entry, error) {
	var healthy, failing, urls []string
	var firsts, lasts []time.Time
	for endpoint, s := range health {
		if s.hasRecovered() {
			healthy = append(healthy, endpoint)
		}
		if s.firstFailure != nil {
			failing, urls, firsts, lasts = append(failing, endpoint), append(urls, s.url),
				append(firsts, *s.firstFailure), append(lasts, *s.lastFailure)
		}
	}
	if len(healthy) > 0 {
		_, err := tx.Exec(ctx, `
			WITH well AS MATERIALIZED (
				SELECT endpoint_id FROM webhook_endpoints WHERE endpoint_id = ANY ($1) AND failing_since IS NOT NULL
				ORDER BY endpoint_id FOR NO KEY UPDATE
			)
			UPDATE webhook_endpoints e SET failing_since = NULL, failed_at = NULL FROM well WHERE e.endpoint_id = well.endpoint_id`, healthy)
		if err != nil {
			return nil, fmt.Errorf("record that endpoints answer: %w", err)
		}
	}
	if len(failing) == 0 {
		return nil, nil
	}
	_, err := tx.Exec(ctx, `
		WITH ill AS MATERIALIZED (
			SELECT e.endpoint_id, f.first, f.last FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[]) AS f (endpoint_id, url, first, last)
			JOIN webhook_endpoints e ON e.endpoint_id = f.endpoint_id AND e.url = f.url
			WHERE e.failing_since IS NULL OR e.failed_at <= f.last - make_interval(secs => $5)
			ORDER BY e.endpoint_id FOR NO KEY UPDATE OF e
		)
		UPDATE webhook_endpoints e
		SET failed_at = ill.last,
		    failing_since = CASE WHEN e.failing_since IS NULL OR e.failed_at < ill.first - make_interval(secs => $6) THEN ill.first ELSE e.failing_since END
		FROM ill WHERE e.endpoint_id = ill.endpoint_id`, failing, urls, firsts, lasts, failedAtStep.Seconds(), quietGapMax.Seconds())
	if err != nil {
		return nil, fmt.Errorf("record that endpoints fail: %w", err)
	}
	rows, err := tx.Query(ctx, `
		UPDATE webhook_endpoints e SET status = 'DISABLED_BY_FAILURE', updated_at = $5
		FROM unnest($1::text[], $2::text[], $3::timestamptz[]) AS f (endpoint_id, url, last)
		WHERE e.endpoint_id = f.endpoint_id AND e.url = f.url AND e.status = 'ENABLED'
		  AND e.failing_since <= f.last - make_interval(secs => $4)
		  AND NOT EXISTS (SELECT FROM delivery_attempts a
		                  WHERE a.endpoint_id = e.endpoint_id AND a.at >= e.failing_since AND a.status_code BETWEEN 200 AND 299)
		RETURNING e.org_id, e.endpoint_id, e.url, e.failing_since`, failing, urls, lasts, failingMax.Seconds(), tx.Now)
	if err != nil {
		return nil, fmt.Errorf("disable endpoints that fail: %w", err)
	}
	var org, endpoint, url string
	var failingSince time.Time
	var entries []audit.Entry
	var disabled []disabledEndpoint
	_, err = pgx.ForEachRow(rows, []any{&org, &endpoint, &url, &failingSince}, func() error {
		disabled = append(disabled, disabledEndpoint{org, endpoint, url, failingSince})
		d.Log.LogAttrs(ctx, slog.LevelWarn,
			"an endpoint has failed for five days and is disabled: tell the organization",
			slog.String("organization", org), slog.String("endpoint", endpoint),
			slog.Time("failingSince", failingSince))
		entries = append(entries, newDisabledEntry(org, endpoint, DisabledByFailure,
			map[string]any{"url": url, "failingSince": failingSince}))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("disable endpoints that fail: %w", err)
	}
	for _, e := range disabled {
		if err := d.mailDisabled(ctx, tx, e); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// disableGone disables endpoints that answered 410 at their present URL. An answer of a former URL
// proves nothing about the present one. Rule EVT-5.
func (d *Dispatcher) disableGone(ctx context.Context, tx pg.Tx, endpoints, urls []string) ([]audit.Entry, error) {
	if len(endpoints) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, `
		UPDATE webhook_endpoints e SET status = 'DISABLED_GONE', updated_at = $3
		FROM unnest($1::text[], $2::text[]) AS g (endpoint_id, url)
		WHERE e.endpoint_id = g.endpoint_id AND e.url = g.url AND e.status IN ('ENABLED', 'PAUSED')
		RETURNING e.org_id, e.endpoint_id, e.url`, endpoints, urls, tx.Now)
	if err != nil {
		return nil, fmt.Errorf("disable endpoints that answered 410: %w", err)
	}
	var org, endpoint, url string
	var entries []audit.Entry
	_, err = pgx.ForEachRow(rows, []any{&org, &endpoint, &url}, func() error {
		d.Log.LogAttrs(ctx, slog.LevelWarn, "an endpoint answered 410 and is disabled",
			slog.String("organization", org), slog.String("endpoint", endpoint))
		entries = append(entries, newDisabledEntry(org, endpoint, DisabledGone, map[string]any{"url": url}))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("disable endpoints that answered 410: %w", err)
	}
	return entries, nil
}

// newDisabledEntry builds the audit entry of an endpoint that this package disabled by itself.
func newDisabledEntry(org, endpoint, status string, detail map[string]any) audit.Entry {
	detail["status"] = status
	return audit.Entry{
		OrgID: org, Actor: audit.System("delivery"), Action: "webhook_endpoint.disabled",
		ResourceKind: "WEBHOOK_ENDPOINT", ResourceID: endpoint, Detail: detail,
	}
}
