package event

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// RecordMany writes many events of as many resources in two round trips, independent of their
// number. A second event of one resource is an error.
func (r Recorder) RecordMany(ctx context.Context, tx pg.Tx, events ...Event) error {
	n := len(events)
	if n == 0 {
		return nil
	}
	ids, orgs, types, kinds, resources := make([]string, n), make([]string, n), make([]string, n), make([]string, n),
		make([]string, n)
	customers, chains, data := make([]string, n), make([]string, n), make([][]byte, n)
	for i, e := range events {
		var err error
		if data[i], err = r.freezeData(e); err != nil {
			return err
		}
		orgs[i], types[i], kinds[i], resources[i] = e.OrgID, string(e.Type), e.ResourceKind, e.ResourceID
		customers[i], chains[i] = e.CustomerID, e.Chain
	}
	sorted := slices.Clone(resources)
	slices.Sort(sorted)
	if len(slices.Compact(sorted)) != n {
		return fmt.Errorf("record %d events: two of them are of one resource", n)
	}
	// Reads how many events of the type each resource has, and its next position. The callers hold
	// the resources' locks, so neither changes until the commit. The index of the key alone gives
	// the order. On empty tables any index that begins with the organization looks as good, and a
	// session that keeps such a plan reads all the organization's events for each resource.
	rows, err := tx.Query(ctx, `
		SELECT (SELECT count(*) FROM (SELECT e.type FROM events e WHERE e.org_id = w.org_id AND e.resource_id = w.resource_id ORDER BY e.resource_seq) told WHERE told.type = w.type),
			coalesce((SELECT e.resource_seq FROM events e WHERE e.org_id = w.org_id AND e.resource_id = w.resource_id ORDER BY e.resource_seq DESC LIMIT 1), 0) + 1
		FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS w (org_id, resource_id, type, nth) ORDER BY w.nth`,
		orgs, resources, types)
	if err != nil {
		return fmt.Errorf("look up earlier events of %d resources: %w", n, err)
	}
	resourceSeqs := make([]int, 0, n)
	var recorded, resourceSeq int
	_, err = pgx.ForEachRow(rows, []any{&recorded, &resourceSeq}, func() error {
		e := events[len(resourceSeqs)]
		ids[len(resourceSeqs)] = id.New("evt", tx.Now)
		if e.FoundAgain {
			ids[len(resourceSeqs)] = id.Derive("evt", e.OrgID, e.ResourceID, string(e.Type), strconv.Itoa(recorded))
		}
		resourceSeqs = append(resourceSeqs, resourceSeq)
		return nil
	})
	if err != nil {
		return fmt.Errorf("look up earlier events of %d resources: %w", n, err)
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO events (event_id, org_id, type, resource_kind, resource_id, resource_seq,
		                    customer_id, chain, data, created_at)
		SELECT e.event_id, e.org_id, e.type, e.resource_kind, e.resource_id, e.resource_seq,
			nullif(e.customer_id, ''), nullif(e.chain, ''), e.data, $10
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::int[], $7::text[], $8::text[], $9::bytea[])
			AS e (event_id, org_id, type, resource_kind, resource_id, resource_seq, customer_id, chain, data)
		ORDER BY e.event_id`, ids, orgs, types, kinds, resources, resourceSeqs, customers, chains, data, tx.Now)
	if err != nil {
		return fmt.Errorf("record %d events from %s of %s on: %w", n, types[0], resources[0], err)
	}
	failpoint.Hit("K01")
	return nil
}

// SubscribedOrgs returns which of these organizations have an endpoint that names the type, or
// EveryType. It serves optional events, which no organization is owed and whose content later
// events repeat. They are written only where an endpoint asks for them.
func SubscribedOrgs(ctx context.Context, tx pg.Tx, t Type, orgs []string) (map[string]bool, error) {
	rows, err := tx.Query(ctx, `
		SELECT DISTINCT org_id FROM webhook_endpoints
		WHERE org_id = ANY ($1) AND events && $2 AND deleted_at IS NULL AND status IN ('ENABLED', 'PAUSED')`, orgs, []string{string(t), string(EveryType)})
	if err != nil {
		return nil, fmt.Errorf("read the subscriptions of %s: %w", t, err)
	}
	subscribed := map[string]bool{}
	var org string
	_, err = pgx.ForEachRow(rows, []any{&org}, func() error {
		subscribed[org] = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the subscriptions of %s: %w", t, err)
	}
	return subscribed, nil
}
