package delivery

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
)

// EndpointHealth is how the deliveries to an endpoint go.
type EndpointHealth struct {
	OrgID, OrgName, EndpointID string
	URL                        string // as the organization wrote it
	Status                     string
	FailingSince               *time.Time // nil while nothing fails
	Pending                    int        // deliveries that are due or waiting
	OldestPendingAt            *time.Time
}

// ListHealth returns the endpoints of all organizations, those first that fail or are disabled, in a
// transaction of the system. It returns at most limit. Rule PAGE-73.
func ListHealth(ctx context.Context, tx pg.Tx, limit int) ([]EndpointHealth, error) {
	rows, err := tx.Query(ctx, `
		SELECT e.org_id, o.name, e.endpoint_id, e.url, e.status, e.failing_since, d.pending, d.oldest
		FROM (
			SELECT *, status NOT IN ('DISABLED_BY_FAILURE', 'DISABLED_GONE') AS is_enabled FROM webhook_endpoints
			WHERE deleted_at IS NULL
			ORDER BY is_enabled, failing_since IS NULL, failing_since, created_at, endpoint_id LIMIT $1
		) e JOIN organizations o USING (org_id)
		-- The deliveries that wait at an endpoint are one read of their index.
		CROSS JOIN LATERAL (
			SELECT count(*) AS pending, min(created_at) AS oldest FROM deliveries
			WHERE endpoint_id = e.endpoint_id AND status = 'PENDING') d
		ORDER BY e.is_enabled, e.failing_since IS NULL, e.failing_since, e.created_at, e.endpoint_id`, limit)
	if err != nil {
		return nil, fmt.Errorf("list the health of endpoints: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[EndpointHealth])
	if err != nil {
		return nil, fmt.Errorf("list the health of endpoints: %w", err)
	}
	return found, nil
}
