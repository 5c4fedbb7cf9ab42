package delivery

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/pg"
)

const (
	failingMax = 5 * 24 * time.Hour // of nothing but failures, then an endpoint is disabled
	// A pause of the schedule is shorter than this, so after a longer one without any
	// attempt nothing was due meanwhile, and the time that passed says nothing.
	silenceMax = 60 * time.Hour
	failedStep = time.Hour // how fine failed_at is, so that failures rarely write to the endpoint
)

// showing is what a batch of outcomes showed of an endpoint.
type showing struct {
	succeeded   *time.Time // the last success
	known       bool       // that it failed before it succeeded
	first, last *time.Time // of the failures after it
	url         string
}

// shown sums a batch up. What was not sent because of something here says nothing about
// the endpoint, and neither does what went to a former URL.
func shown(batch []outcome) map[string]*showing {
	of := map[string]*showing{}
	at := func(o outcome) *showing {
		s := of[o.endpoint]
		if s == nil {
			s = &showing{url: o.url}
			of[o.endpoint] = s
		}
		return s
	}
	for _, o := range batch {
		if !o.abandoned && o.delivered() {
			if s := at(o); s.succeeded == nil || s.succeeded.Before(o.at) {
				s.succeeded = &o.at
			}
			at(o).known = at(o).known || o.failing
		}
	}
	for _, o := range batch {
		if o.abandoned || o.ours || o.delivered() || o.gone() {
			continue
		}
		s := at(o)
		if s.succeeded != nil && !o.at.After(*s.succeeded) {
			continue
		}
		if s.first == nil || o.at.Before(*s.first) {
			s.first = &o.at
		}
		if s.last == nil || s.last.Before(o.at) {
			s.last = &o.at
		}
		s.url = o.url
	}
	return of
}

// judge keeps the clock of endpoints that fail, in their rows, and disables one that has
// done nothing else for five days. Rule EVT-11.
//
// A success stops the clock, and a failure starts it; one that comes after a silence
// starts it anew. Two processes may record in another order than they posted, so before
// an endpoint is disabled the log of attempts is asked whether anything succeeded.
func (d *Dispatcher) judge(ctx context.Context, tx pg.Tx, batch []outcome) ([]audit.Entry, error) {
	var well, ill, urls []string
	var firsts, lasts []time.Time
	for endpoint, s := range shown(batch) {
		// One that was well when it was claimed has nothing to clear, unless another process
		// was quicker; then the next success does it.
		if s.succeeded != nil && s.known {
			well = append(well, endpoint)
		}
		if s.first != nil {
			ill, urls, firsts, lasts = append(ill, endpoint), append(urls, s.url), append(firsts, *s.first), append(lasts, *s.last)
		}
	}
	if len(well) > 0 {
		_, err := tx.Exec(ctx, `
			WITH well AS MATERIALIZED (
				SELECT endpoint_id FROM webhook_endpoints WHERE endpoint_id = ANY ($1) AND failing_since IS NOT NULL
				ORDER BY endpoint_id FOR NO KEY UPDATE
			)
			UPDATE webhook_endpoints e SET failing_since = NULL, failed_at = NULL FROM well WHERE e.endpoint_id = well.endpoint_id`, well)
		if err != nil {
			return nil, fmt.Errorf("note that endpoints answer: %w", err)
		}
	}
	if len(ill) == 0 {
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
		FROM ill WHERE e.endpoint_id = ill.endpoint_id`, ill, urls, firsts, lasts, failedStep.Seconds(), silenceMax.Seconds())
	if err != nil {
		return nil, fmt.Errorf("note that endpoints fail: %w", err)
	}
	rows, err := tx.Query(ctx, `
		UPDATE webhook_endpoints e SET status = 'DISABLED_BY_FAILURE', updated_at = $5
		FROM unnest($1::text[], $2::text[], $3::timestamptz[]) AS f (endpoint_id, url, last)
		WHERE e.endpoint_id = f.endpoint_id AND e.url = f.url AND e.status = 'ENABLED'
		  AND e.failing_since <= f.last - make_interval(secs => $4)
		  AND NOT EXISTS (SELECT FROM delivery_attempts a
		                  WHERE a.endpoint_id = e.endpoint_id AND a.at >= e.failing_since AND a.status_code BETWEEN 200 AND 299)
		RETURNING e.org_id, e.endpoint_id, e.url, e.failing_since`, ill, urls, lasts, failingMax.Seconds(), tx.Now)
	if err != nil {
		return nil, fmt.Errorf("disable endpoints that fail: %w", err)
	}
	var org, endpoint, url string
	var since time.Time
	var entries []audit.Entry
	_, err = pgx.ForEachRow(rows, []any{&org, &endpoint, &url, &since}, func() error {
		// There is no mail yet: this line is what tells whoever runs the service, and the
		// organization reads the status of its endpoint.
		d.Log.LogAttrs(ctx, slog.LevelWarn, "an endpoint has failed for five days and is disabled: tell the organization",
			slog.String("organization", org), slog.String("endpoint", endpoint), slog.Time("failingSince", since))
		entries = append(entries, disabled(org, endpoint, DisabledByFailure, map[string]any{"url": url, "failingSince": since}))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("disable endpoints that fail: %w", err)
	}
	return entries, nil
}

// disableGone disables endpoints that answered 410 at the URL that they still have: from
// a former one it says nothing about the present.
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
		return nil, fmt.Errorf("disable endpoints that are gone: %w", err)
	}
	var org, endpoint, url string
	var entries []audit.Entry
	_, err = pgx.ForEachRow(rows, []any{&org, &endpoint, &url}, func() error {
		d.Log.LogAttrs(ctx, slog.LevelWarn, "an endpoint answered 410 and is disabled",
			slog.String("organization", org), slog.String("endpoint", endpoint))
		entries = append(entries, disabled(org, endpoint, DisabledGone, map[string]any{"url": url}))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("disable endpoints that are gone: %w", err)
	}
	return entries, nil
}

// disabled is the entry of an endpoint that this package disabled by itself.
func disabled(org, endpoint, status string, detail map[string]any) audit.Entry {
	detail["status"] = status
	return audit.Entry{
		OrgID: org, Actor: audit.System("delivery"), Action: "webhook_endpoint.disabled",
		ResourceKind: "WEBHOOK_ENDPOINT", ResourceID: endpoint, Detail: detail,
	}
}
