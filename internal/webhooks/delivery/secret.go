package delivery

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/webhook"
)

const (
	rotationPeriod = 24 * time.Hour // how long a secret still signs after it was replaced
	// Secrets that sign at the same time; with the installation's keys fewer than a verifier tries.
	secretsMax = 4
)

// secretBinding returns the binding of a sealed secret to its endpoint and version.
func secretBinding(org, endpoint string, version int) seal.Binding {
	return seal.Binding{Org: org, Kind: "webhook_secret", ID: endpoint, Version: version}
}

func (s *Endpoints) newSecret(ctx context.Context, tx pg.Tx, org, endpointID string, version int) (seal.Secret, error) {
	secret := webhook.NewSecret()
	sealed, err := s.Seal.Seal([]byte(secret), secretBinding(org, endpointID, version))
	if err != nil {
		return seal.Secret{}, err
	}
	_, err = tx.Exec(ctx,
		`INSERT INTO webhook_secrets (endpoint_id, version, org_id, sealed, created_at) VALUES ($1, $2, $3, $4, $5)`,
		endpointID, version, org, sealed, tx.Now)
	if err != nil {
		return seal.Secret{}, fmt.Errorf("write secret %d of endpoint %s: %w", version, endpointID, err)
	}
	return seal.NewSecret(secret), nil
}

// Rotate gives an endpoint a new secret and returns it, once. The replaced secret signs every
// message too for 24 hours, until the returned time. A receiver that knows either secret therefore
// accepts the messages.
//
// A rotation whose answer was lost may be repeated: every secret signs for 24 hours from its own
// replacement, up to four in all. Errors:
//   - INVALID_STATE for a fifth within a day, because a secret on which a receiver may still rely
//     would have to end early
//   - NOT_FOUND if there is no such endpoint
//
// Rule EVT-10.
func (s *Endpoints) Rotate(
	ctx context.Context, tx pg.Tx, org string, actor audit.Actor, endpointID string,
) (e Endpoint, secret seal.Secret, formerUntil time.Time, err error) {
	if e, err = lockEndpoint(ctx, tx, org, endpointID); err != nil {
		return e, secret, formerUntil, err
	}
	var signing, version int
	var oldestRetires *time.Time
	err = tx.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE retires_at IS NULL OR retires_at > $3), coalesce(max(version), 0), min(retires_at) FILTER (WHERE retires_at > $3)
		FROM webhook_secrets WHERE org_id = $1 AND endpoint_id = $2`, org, endpointID, tx.Now).Scan(&signing, &version, &oldestRetires)
	if err != nil {
		return e, secret, formerUntil, fmt.Errorf("read the secrets of endpoint %s: %w", endpointID, err)
	}
	if signing >= secretsMax {
		return e, secret, formerUntil, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"This endpoint got %d secrets within a day, and all of them still sign.", secretsMax).
			WithAdvice("The next secret can be made after %s, when the oldest one ends.",
				oldestRetires.UTC().Format(time.RFC3339)).
			WithExtra("currentStatus", e.Status)
	}
	formerUntil = tx.Now.Add(rotationPeriod)
	_, err = tx.Exec(
		ctx, `UPDATE webhook_secrets SET retires_at = $3 WHERE org_id = $1 AND endpoint_id = $2 AND retires_at IS NULL`,
		org, endpointID, formerUntil,
	)
	if err != nil {
		return e, secret, formerUntil, fmt.Errorf("retire secret %d of endpoint %s: %w", version, endpointID, err)
	}
	if secret, err = s.newSecret(ctx, tx, org, endpointID, version+1); err != nil {
		return e, secret, formerUntil, err
	}
	err = audit.Record(ctx, tx, audit.Entry{
		OrgID: org, Actor: actor, Action: "webhook_endpoint.secret_rotated",
		ResourceKind: "WEBHOOK_ENDPOINT", ResourceID: endpointID,
		Detail: map[string]any{"version": version + 1, "formerUntil": formerUntil},
	})
	return e, secret, formerUntil, err
}

// SecretVersion returns the number of the present secret of an endpoint, 0 for none.
func (s *Endpoints) SecretVersion(ctx context.Context, tx pg.Tx, org, endpointID string) (version int, err error) {
	err = tx.QueryRow(ctx, `
		SELECT coalesce(max(version), 0) FROM webhook_secrets WHERE org_id = $1 AND endpoint_id = $2`,
		org, endpointID).Scan(&version)
	if err != nil {
		return 0, fmt.Errorf("read the secrets of endpoint %s: %w", endpointID, err)
	}
	return version, nil
}

// RotateAsSeen does what Rotate does, if the present secret is the one that the caller saw. So an old page, a
// second click and a colleague rotate once. Error: INVALID_STATE in addition. Rule PAGE-21.
func (s *Endpoints) RotateAsSeen(
	ctx context.Context, tx pg.Tx, org string, actor audit.Actor, endpointID string, seenVersion int,
) (e Endpoint, secret seal.Secret, formerUntil time.Time, err error) {
	if e, err = lockEndpoint(ctx, tx, org, endpointID); err != nil {
		return e, secret, formerUntil, err
	}
	version, err := s.SecretVersion(ctx, tx, org, endpointID)
	if err != nil {
		return e, secret, formerUntil, err
	}
	if version != seenVersion {
		return e, secret, formerUntil, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"The secret was replaced after this page was loaded, and a secret is shown once.").
			WithAdvice("If you did not see the new secret, replace it again.").
			WithExtra("currentStatus", e.Status)
	}
	return s.Rotate(ctx, tx, org, actor, endpointID)
}

// sealedSecret is a secret that signs now.
type sealedSecret struct {
	version int
	sealed  []byte
}

// target is an endpoint's URL and the secrets that sign for it.
type target struct {
	url     string
	secrets []sealedSecret // the present one first
	failing bool           // its last attempts failed
}

// readTargets reads, for each endpoint, its URL and the secrets that sign now.
func readTargets(ctx context.Context, tx pg.Tx, endpoints []string) (map[string]target, error) {
	rows, err := tx.Query(ctx, `
		SELECT e.endpoint_id, e.url, e.failing_since IS NOT NULL, coalesce(s.version, 0), s.sealed
		FROM webhook_endpoints e
		LEFT JOIN webhook_secrets s ON s.endpoint_id = e.endpoint_id AND (s.retires_at IS NULL OR s.retires_at > $2)
		WHERE e.endpoint_id = ANY ($1)
		ORDER BY e.endpoint_id, s.version DESC`, endpoints, tx.Now)
	if err != nil {
		return nil, fmt.Errorf("read the destinations of deliveries: %w", err)
	}
	defer rows.Close()
	byEndpoint := map[string]target{}
	for rows.Next() {
		var endpoint string
		var endpointTarget target
		var s sealedSecret
		if err := rows.Scan(
			&endpoint, &endpointTarget.url, &endpointTarget.failing, &s.version, &s.sealed,
		); err != nil {
			return nil, fmt.Errorf("read the destinations of deliveries: %w", err)
		}
		endpointTarget.secrets = append(byEndpoint[endpoint].secrets, s)
		byEndpoint[endpoint] = endpointTarget
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the destinations of deliveries: %w", err)
	}
	return byEndpoint, nil
}

type openedSecret struct {
	sealed []byte
	key    webhook.Key
}

type secretKey struct {
	endpoint string
	version  int
}

// openKeys decrypts the keys that sign a message: the endpoint's secrets, newest first, then the
// installation's keys.
func (d *Dispatcher) openKeys(org, endpoint string, secrets []sealedSecret) ([]webhook.Key, error) {
	keys := make([]webhook.Key, 0, len(secrets)+1+len(d.FormerKeys))
	for _, s := range secrets {
		name := secretKey{endpoint, s.version}
		if cached, ok := d.secrets.Load(name); ok && bytes.Equal(cached.(openedSecret).sealed, s.sealed) {
			keys = append(keys, cached.(openedSecret).key)
			continue
		}
		plain, err := d.Seal.Unseal(s.sealed, secretBinding(org, endpoint, s.version))
		if err != nil {
			return nil, err
		}
		key, err := webhook.ParseKey(string(plain))
		if err != nil {
			return nil, err
		}
		d.secrets.Store(name, openedSecret{s.sealed, key})
		keys = append(keys, key)
	}
	return append(append(keys, d.Key), d.FormerKeys...), nil
}
