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
// transaction of the system. It returns at most limit.
func ListHealth(ctx context.Context, tx pg.Tx, limit int) ([]EndpointHealth, error) {
	rows, err := tx.Query(ctx, `
		SELECT e.org_id, o.name, e.endpoint_id, e.url, e.status, e.failing_since, coalesce(d.pending, 0), d.oldest
		FROM webhook_endpoints e JOIN organizations o USING (org_id) LEFT JOIN (
			SELECT org_id, endpoint_id, count(*) AS pending, min(created_at) AS oldest FROM deliveries
			WHERE status = 'PENDING' GROUP BY 1, 2) d USING (org_id, endpoint_id)
		WHERE e.deleted_at IS NULL
		ORDER BY e.status NOT IN ('DISABLED_BY_FAILURE', 'DISABLED_GONE'), e.failing_since IS NULL, e.failing_since,
			e.created_at, e.endpoint_id LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("list the health of endpoints: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[EndpointHealth])
	if err != nil {
		return nil, fmt.Errorf("list the health of endpoints: %w", err)
	}
	return found, nil
}
