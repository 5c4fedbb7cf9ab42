package delivery

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// FanOut creates the deliveries of events in the transaction that numbers them: one for each
// endpoint of the organization that wants the event. The deliveries of a paused endpoint wait for
// it. A disabled or deleted endpoint gets none, but the feed has the event.
type FanOut struct{}

var _ event.Listener = FanOut{}

// subscription says which events an endpoint wants.
type subscription struct {
	endpoint   string
	eventTypes []event.Type
	filters    Filters
}

func (s subscription) wantsEvent(e event.Sequenced) bool {
	return event.IsWanted(s.eventTypes, e.Type) && s.filters.matchEvent(e)
}

// QueueSequenced queues the deliveries. events_record_first chooses them in the same way. Rule EVT-8.
func (FanOut) QueueSequenced(ctx context.Context, tx pg.Tx, b *pgx.Batch, events []event.Sequenced) error {
	orgs := map[string]bool{}
	var names []string
	for _, e := range events {
		if !orgs[e.OrgID] {
			orgs[e.OrgID] = true
			names = append(names, e.OrgID)
		}
	}
	rows, err := tx.Query(ctx, `
		SELECT org_id, endpoint_id, events, coalesce(filter_customer_id, ''), coalesce(filter_chain, '') FROM webhook_endpoints
		WHERE org_id = ANY ($1) AND deleted_at IS NULL AND status IN ('ENABLED', 'PAUSED')
		ORDER BY org_id, created_at, endpoint_id`, names)
	if err != nil {
		return fmt.Errorf("read the endpoints of sequenced events: %w", err)
	}
	byOrg := map[string][]subscription{}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var org string
		var e subscription
		err := row.Scan(&org, &e.endpoint, &e.eventTypes, &e.filters.CustomerID, &e.filters.Chain)
		byOrg[org] = append(byOrg[org], e)
		return struct{}{}, err
	})
	if err != nil {
		return fmt.Errorf("read the endpoints of sequenced events: %w", err)
	}

	var orgIDs, endpoints, eventIDs, resources []string
	var resourceSeqs []int32
	for _, e := range events {
		for _, subscriber := range byOrg[e.OrgID] {
			if subscriber.wantsEvent(e) {
				orgIDs, endpoints, eventIDs = append(orgIDs, e.OrgID), append(endpoints, subscriber.endpoint),
					append(eventIDs, e.EventID)
				resources, resourceSeqs = append(resources, e.ResourceID), append(resourceSeqs, int32(e.ResourceSeq))
			}
		}
	}
	if len(eventIDs) == 0 {
		return nil
	}
	b.Queue(`
		INSERT INTO deliveries (org_id, endpoint_id, event_id, resource_id, resource_seq, status, created_at, attempt_after)
		SELECT n.org_id, n.endpoint_id, n.event_id, n.resource_id, n.resource_seq, 'PENDING', $1, $1
		FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::int[])
			AS n (org_id, endpoint_id, event_id, resource_id, resource_seq)`,
		tx.Now, orgIDs, endpoints, eventIDs, resources, resourceSeqs)
	return nil
}
