package migrations_test

import (
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/cofferpay/coffer/internal/pg/pgtest"
	"github.com/cofferpay/coffer/migrations"
)

// A house that has endpoints, events and deliveries keeps all of them: its secrets move to
// the table of versions, and nothing else changes.
func TestWebhooksOfAHouseThatIsUpgradedGoOn(t *testing.T) {
	t.Parallel()
	d, ctx := pgtest.Fresh(t), t.Context()
	super, err := pgxpool.New(ctx, d.SuperURL)
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close()
	owner, err := pgxpool.New(ctx, d.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	// Back to what it was before: an empty schema, and every step up to the one before.
	at, err := url.Parse(d.OwnerURL)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`DROP SCHEMA public CASCADE`, `CREATE SCHEMA public AUTHORIZATION ` + at.User.Username(),
	} {
		if _, err := super.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	db := stdlib.OpenDBFromPool(owner)
	defer db.Close()
	provider, err := migrations.Steps(db, owner)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(ctx, 22); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`INSERT INTO organizations (org_id, name, created_at) VALUES ('org_a', 'A', now()), ('org_b', 'B', now())`,
		`INSERT INTO webhook_endpoints (endpoint_id, org_id, url, events, status, secret_sealed, api_version, created_at, updated_at, deleted_at) VALUES
			('we_a', 'org_a', 'https://a.example', '{}', 'ENABLED', '\x01', '', now(), now(), NULL),
			('we_b', 'org_b', 'https://b.example', '{}', 'PAUSED', '\x02', '', now(), now(), NULL),
			('we_c', 'org_b', 'https://c.example', '{}', 'ENABLED', '\x03', '', now(), now(), now())`,
		`INSERT INTO events (event_id, org_id, type, resource_kind, resource_id, resource_seq, data, created_at, sequence, body)
			SELECT 'evt_' || n, 'org_a', 'CUSTOMER_DEPOSIT', 'deposit', 'dep_' || n, 1, '{}', now(), n, '{}' FROM generate_series(1, 5) n`,
		`INSERT INTO event_sequences (org_id, last) VALUES ('org_a', 5)`,
		`INSERT INTO deliveries (org_id, endpoint_id, event_id, resource_id, resource_seq, status, attempts, created_at, attempt_after, ended_at)
			SELECT 'org_a', 'we_a', event_id, resource_id, 1, CASE sequence WHEN 1 THEN 'DELIVERED' ELSE 'PENDING' END, 1, now(), now(), CASE sequence WHEN 1 THEN now() END FROM events`,
		`INSERT INTO delivery_attempts (delivery_id, attempt, org_id, at, status_code, duration_ms) SELECT delivery_id, 1, org_id, now(), 200, 5 FROM deliveries`,
	} {
		if _, err := super.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	if _, err := provider.Up(ctx); err != nil {
		t.Fatal(err)
	}
	var got string
	err = super.QueryRow(ctx, `SELECT
		(SELECT string_agg(format('%s/%s/%s', endpoint_id, version, sealed), ' ' ORDER BY endpoint_id) FROM webhook_secrets WHERE retires_at IS NULL)
		|| format(' %s %s %s', (SELECT count(*) FROM deliveries WHERE schedule_base = 0), (SELECT count(*) FROM delivery_attempts), (SELECT sum(expired) FROM event_sequences))`).Scan(&got)
	if want := `we_a/1/\x01 we_b/1/\x02 5 5 0`; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	// Row level security stands as before: the owner sees nobody's endpoints.
	var seen int
	if err := owner.QueryRow(ctx, `SELECT (SELECT count(*) FROM webhook_endpoints) + (SELECT count(*) FROM webhook_secrets)`).Scan(&seen); err != nil || seen != 0 {
		t.Errorf("the owner sees %v rows, %v, want none", seen, err)
	}
}
