package delivery_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/testing/trial/population"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
)

const manyDeliveries = 3_000

func newReadsEnv(t *testing.T) (db *pg.DB, super *pgx.Conn, one, two string) {
	t.Helper()
	db = pgtest.New(t)
	for _, id := range []*string{&one, &two} {
		made, _, err := org.Create(t.Context(), db, "Example Marketplace")
		if err != nil {
			t.Fatal(err)
		}
		*id = made.ID
	}
	return db, pgtest.Superuser(t, db), one, two
}

func writeAll(t *testing.T, super *pgx.Conn, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := super.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%v\n%s", err, sql)
		}
	}
}

// The endpoints of all organizations are listed with what waits at each: first those that are disabled, then
// those that fail, the longest first. Rule PAGE-73.
func TestTheHealthOfEndpointsBeginsWithThoseThatFail(t *testing.T) {
	t.Parallel()
	db, super, one, two := newReadsEnv(t)
	for i, e := range []struct{ id, orgID, status, failing, deleted string }{
		{"we_good", one, "ENABLED", "NULL", "NULL"},
		{"we_paused", two, "PAUSED", "NULL", "NULL"},
		{"we_failing", two, "ENABLED", "'2026-02-02Z'", "NULL"},
		{"we_longer", one, "ENABLED", "'2026-02-01Z'", "NULL"},
		{"we_gone", one, "DISABLED_GONE", "NULL", "NULL"},
		{"we_disabled", two, "DISABLED_BY_FAILURE", "'2026-01-20Z'", "NULL"},
		{"we_deleted", one, "DISABLED_GONE", "NULL", "now()"},
	} {
		writeAll(t, super, fmt.Sprintf(`
			INSERT INTO webhook_endpoints (endpoint_id, org_id, url, events, status, api_version, created_at,
				updated_at, failing_since, failed_at, deleted_at)
			VALUES ('%[1]s', '%[2]s', 'https://%[1]s.example', '{*}', '%[3]s', '2026-01-01', '2026-01-0%[4]dZ',
				'2026-01-01Z', %[5]s, %[5]s, %[6]s)`, e.id, e.orgID, e.status, i+1, e.failing, e.deleted))
	}
	writeAll(t, super, fmt.Sprintf(`
		INSERT INTO deliveries (org_id, endpoint_id, event_id, resource_id, resource_seq, status, created_at,
			attempt_after, ended_at)
		SELECT '%s', 'we_failing', 'evt_' || n, 'r', n, CASE WHEN n > 3 THEN 'DELIVERED' ELSE 'PENDING' END,
			'2026-02-03Z'::timestamptz + n * interval '1 hour', now(), CASE WHEN n > 3 THEN now() END
		FROM generate_series(1, 5) n`, two))
	list := func(limit int) (found []delivery.EndpointHealth, reads *pgtest.Reads) {
		err := db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
			tx, reads = pgtest.WatchReads(tx)
			found, err = delivery.ListHealth(ctx, tx, limit)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return found, reads
	}
	compare := func(found []delivery.EndpointHealth, want ...string) {
		t.Helper()
		var ids []string
		for _, h := range found {
			ids = append(ids, h.EndpointID)
			pending, oldest := 0, time.Time{}
			if h.EndpointID == "we_failing" {
				pending, oldest = 3, time.Date(2026, 2, 3, 1, 0, 0, 0, time.UTC)
			}
			if h.Pending != pending || h.OldestPendingAt != nil != !oldest.IsZero() ||
				h.OldestPendingAt != nil && !h.OldestPendingAt.Equal(oldest) ||
				h.URL != "https://"+h.EndpointID+".example" || h.OrgName != "Example Marketplace" {
				t.Errorf("got %+v, want %d that wait since %v", h, pending, oldest)
			}
		}
		if !slices.Equal(ids, want) {
			t.Errorf("got %v, want %v", ids, want)
		}
	}
	order := []string{"we_disabled", "we_gone", "we_longer", "we_failing", "we_good", "we_paused"}
	found, _ := list(10)
	compare(found, order...)
	found, _ = list(2)
	compare(found, order[:2]...)
	if err := population.Seed(t.Context(), super, one, 0, manyDeliveries); err != nil {
		t.Fatal(err)
	}
	writeAll(t, super, `VACUUM ANALYZE`)
	found, reads := list(4)
	compare(found, order[:4]...)
	reads.CheckRows(t, "health of endpoints", 60)
}

// The attempts of a resource are those of its events at all endpoints of its organization, oldest first and at
// most the newest 200. Rules PAGE-14 and PAGE-73.
func TestTheAttemptsOfAResourceAreItsOwn(t *testing.T) {
	t.Parallel()
	db, super, one, two := newReadsEnv(t)
	if err := population.Seed(t.Context(), super, one, 0, manyDeliveries); err != nil {
		t.Fatal(err)
	}
	resource := population.ID("dep", 7)
	for _, orgID := range []string{one, two} {
		writeAll(t, super, fmt.Sprintf(`
			INSERT INTO webhook_endpoints (endpoint_id, org_id, url, events, status, api_version, created_at,
				updated_at)
			VALUES ('we_%[1]s', '%[1]s', 'https://second.example', '{*}', 'ENABLED', '2026-01-01', '2026-01-01Z',
				'2026-01-01Z')`,
			orgID), fmt.Sprintf(`
			INSERT INTO events (event_id, org_id, type, resource_kind, resource_id, resource_seq, data, created_at)
			VALUES ('evt_%[1]s', '%[1]s', 'CUSTOMER_DEPOSIT', 'DEPOSIT', '%[2]s', 2, '{}',
				'2026-01-01Z')`, orgID, resource),
			fmt.Sprintf(`
			INSERT INTO deliveries (delivery_id, org_id, endpoint_id, event_id, resource_id, resource_seq, status,
				created_at, attempt_after, ended_at) OVERRIDING SYSTEM VALUE
			VALUES (%[3]d, '%[1]s', 'we_%[1]s', 'evt_%[1]s', '%[2]s', 2, 'FAILED', now(), now(),
				now())`, orgID, resource,
				map[string]int{one: 1, two: 2}[orgID]), fmt.Sprintf(`
			INSERT INTO delivery_attempts (delivery_id, attempt, org_id, at, status_code, error, response, duration_ms,
				endpoint_id, url)
			SELECT %[2]d, n, '%[1]s', '2026-02-01Z'::timestamptz + n * interval '1 second', CASE n WHEN 1 THEN 500 END,
				CASE n WHEN 1 THEN NULL ELSE 'no answer' END, CASE n WHEN 1 THEN 'sorry' END, 1, 'we_%[1]s',
				'https://second.example' FROM generate_series(1, 2) n`, orgID, map[string]int{one: 1, two: 2}[orgID]))
	}
	writeAll(t, super, `VACUUM ANALYZE`)
	list := func(orgID, of string) (found []delivery.ResourceAttempt, reads *pgtest.Reads) {
		err := db.ReadOrg(t.Context(), orgID, func(ctx context.Context, tx pg.Tx) (err error) {
			tx, reads = pgtest.WatchReads(tx)
			found, err = delivery.ListResourceAttempts(ctx, tx, orgID, of)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return found, reads
	}
	found, reads := list(one, resource)
	var got []string
	for _, a := range found {
		got = append(got, fmt.Sprintf("%s %s %d %d %q %q %v", strings.TrimSuffix(a.EndpointID, one), a.EventID,
			a.Number, a.Status, a.Response, a.Error, a.IsDelivered()))
	}
	want := []string{
		fmt.Sprintf(`%s %s 1 200 "" "" true`, population.Endpoint, population.ID("evt", 7)),
		fmt.Sprintf(`we_ evt_%s 1 500 "sorry" "" false`, one), fmt.Sprintf(`we_ evt_%s 2 0 "" "no answer" false`, one),
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	reads.CheckRows(t, "attempts of a resource", 40)
	if found, _ := list(two, resource); len(found) != 2 || found[0].EndpointID != "we_"+two {
		t.Errorf("got %+v, want those of the other organization alone", found)
	}
	err := db.ReadOrg(t.Context(), two, func(ctx context.Context, tx pg.Tx) error {
		found, err := delivery.ListResourceAttempts(ctx, tx, one, resource)
		if len(found) != 0 {
			t.Errorf("got %+v in the name of another organization, want nothing", found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	writeAll(t, super, fmt.Sprintf(`
		INSERT INTO delivery_attempts (delivery_id, attempt, org_id, at, duration_ms, endpoint_id, url)
		SELECT 1, n, '%[1]s', '2026-02-01Z'::timestamptz + n * interval '1 second', 1, 'we_%[1]s',
			'' FROM generate_series(3, 300) n`,
		one))
	if found, _ := list(one, resource); len(found) != 200 || found[0].Number != 101 || found[199].Number != 300 {
		t.Errorf("got %d attempts, want the newest 200, oldest first", len(found))
	}
}
