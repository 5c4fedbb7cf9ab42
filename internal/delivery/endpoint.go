package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/event"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/page"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/seal"
	"github.com/cofferpay/coffer/webhook"
)

const (
	endpointsMax        = 10 // of an organization
	urlBytesMax         = 2048
	descriptionBytesMax = 500
)

// The states of an endpoint.
const (
	Enabled           = "ENABLED"
	Paused            = "PAUSED"              // its deliveries wait
	DisabledGone      = "DISABLED_GONE"       // it answered 410; its deliveries are cancelled
	DisabledByFailure = "DISABLED_BY_FAILURE" // nothing but failures for days; its deliveries wait
)

// Endpoint is where an organization wants its events. The secret is not in it: it is
// shown once, by Create.
type Endpoint struct {
	ID          string
	OrgID       string
	URL         string
	Description string
	Events      []event.Type // none: the events of the interface, no extensions
	Status      string
	APIVersion  string
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// New is what a caller says of an endpoint that it wants.
type New struct {
	URL         string
	Description string
	Events      []event.Type
}

// Endpoints keeps the endpoints of organizations.
type Endpoints struct {
	Seal *seal.Keyset
	// Development also allows http to this machine's loopback addresses. It belongs
	// to the local world.
	Development bool
}

func secretPlace(org, endpoint string) seal.Place {
	return seal.Place{Org: org, Kind: "webhook_secret", ID: endpoint, Version: 1}
}

// Create makes an endpoint and returns its secret, which cannot be had again. Errors
// are faults INVALID_REQUEST for a URL or an event that cannot be, and INVALID_STATE for
// an organization that has ten.
func (s *Endpoints) Create(ctx context.Context, tx pg.Tx, org string, actor audit.Actor, n New) (Endpoint, seal.Secret, error) {
	none := seal.Secret{}
	if err := checkURL(n.URL, s.Development); err != nil {
		return Endpoint{}, none, err
	}
	if len(n.Description) > descriptionBytesMax || !utf8.ValidString(n.Description) || strings.ContainsRune(n.Description, 0) {
		return Endpoint{}, none, fault.New(fault.Invalid, fault.InvalidRequest,
			"The description must be text of at most %d bytes. Nothing was created.", descriptionBytesMax).On("description")
	}
	events := slices.Clone(n.Events)
	slices.Sort(events)
	events = slices.Compact(events)
	for _, t := range events {
		if !event.Known(t) {
			return Endpoint{}, none, fault.New(fault.Invalid, fault.InvalidRequest,
				"There is no event %.64q. Nothing was created. Leave events out to receive the seven of the interface, or name some of %s.", t, strings.Join(words(event.Types()), ", ")).On("events")
		}
	}

	// Two requests that each see nine endpoints must not make eleven.
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('coffer/delivery/endpoints/' || $1, 0))`, org); err != nil {
		return Endpoint{}, none, fmt.Errorf("lock the endpoints of %s: %w", org, err)
	}
	var count int
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM webhook_endpoints WHERE org_id = $1 AND deleted_at IS NULL`, org).Scan(&count); err != nil {
		return Endpoint{}, none, fmt.Errorf("count the endpoints of %s: %w", org, err)
	}
	if count >= endpointsMax {
		return Endpoint{}, none, fault.New(fault.Conflict, fault.InvalidState,
			"An organization has at most %d webhook endpoints. Delete one first. Nothing was created.", endpointsMax)
	}

	e := Endpoint{
		ID: id.New("we", tx.Now), OrgID: org, URL: n.URL, Description: n.Description, Events: events,
		Status: Enabled, APIVersion: event.APIVersion, CreatedAt: tx.Now, UpdatedAt: tx.Now,
	}
	secret := webhook.NewSecret()
	sealed, err := s.Seal.Seal([]byte(secret), secretPlace(org, e.ID))
	if err != nil {
		return Endpoint{}, none, err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO webhook_endpoints (endpoint_id, org_id, url, description, events, status, secret_sealed, api_version, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)`,
		e.ID, org, e.URL, e.Description, words(events), e.Status, sealed, e.APIVersion, tx.Now)
	if err != nil {
		return Endpoint{}, none, fmt.Errorf("create endpoint %s: %w", e.ID, err)
	}
	err = audit.Record(ctx, tx, audit.Entry{
		OrgID: org, Actor: actor, Action: "webhook_endpoint.created",
		ResourceKind: "WEBHOOK_ENDPOINT", ResourceID: e.ID, Detail: map[string]any{"url": e.URL, "events": words(events)},
	})
	if err != nil {
		return Endpoint{}, none, err
	}
	return e, seal.NewSecret(secret), nil
}

const endpointColumns = `endpoint_id, org_id, url, description, events, status, api_version, created_at, updated_at`

// List is a page of the endpoints that are not deleted.
func (s *Endpoints) List(ctx context.Context, tx pg.Tx, org string, p page.Page) (page.Result[Endpoint], error) {
	sql, args := page.Select(`SELECT `+endpointColumns+` FROM webhook_endpoints WHERE org_id = ? AND deleted_at IS NULL`, org).
		Sorted(p, "created_at", "endpoint_id")
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return page.Result[Endpoint]{}, fmt.Errorf("list the endpoints of %s: %w", org, err)
	}
	endpoints, err := pgx.CollectRows(rows, readEndpoint)
	if err != nil {
		return page.Result[Endpoint]{}, fmt.Errorf("list the endpoints of %s: %w", org, err)
	}
	return page.Cut(p, endpoints, func(e Endpoint) page.Cursor { return page.Cursor{At: e.CreatedAt, ID: e.ID} }), nil
}

// ByID is one endpoint, or the fault NOT_FOUND.
func (s *Endpoints) ByID(ctx context.Context, tx pg.Tx, org, endpointID string) (Endpoint, error) {
	if !id.Is("we", endpointID) {
		return Endpoint{}, notFound(endpointID)
	}
	rows, err := tx.Query(ctx, `SELECT `+endpointColumns+` FROM webhook_endpoints
		WHERE org_id = $1 AND endpoint_id = $2 AND deleted_at IS NULL`, org, endpointID)
	if err != nil {
		return Endpoint{}, fmt.Errorf("read endpoint %s: %w", endpointID, err)
	}
	e, err := pgx.CollectExactlyOneRow(rows, readEndpoint)
	if errors.Is(err, pgx.ErrNoRows) {
		return Endpoint{}, notFound(endpointID)
	}
	if err != nil {
		return Endpoint{}, fmt.Errorf("read endpoint %s: %w", endpointID, err)
	}
	return e, nil
}

// Delete ends an endpoint: nothing is sent to it from the commit on, except what is in
// flight at that moment. What it has not received stays in the feed. The fault is
// NOT_FOUND when there is none or it was deleted before.
func (s *Endpoints) Delete(ctx context.Context, tx pg.Tx, org string, actor audit.Actor, endpointID string) error {
	if !id.Is("we", endpointID) {
		return notFound(endpointID)
	}
	tag, err := tx.Exec(ctx, `
		UPDATE webhook_endpoints SET deleted_at = $3, updated_at = $3
		WHERE org_id = $1 AND endpoint_id = $2 AND deleted_at IS NULL`, org, endpointID, tx.Now)
	if err != nil {
		return fmt.Errorf("delete endpoint %s: %w", endpointID, err)
	}
	if tag.RowsAffected() == 0 {
		return notFound(endpointID)
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: org, Actor: actor, Action: "webhook_endpoint.deleted",
		ResourceKind: "WEBHOOK_ENDPOINT", ResourceID: endpointID,
	})
}

func notFound(endpointID string) error {
	return fault.New(fault.NotFound, fault.CodeNotFound, "Your organization has no webhook endpoint %.64q. Nothing was changed. GET /webhook-endpoints lists the ones there are.", endpointID)
}

func readEndpoint(row pgx.CollectableRow) (Endpoint, error) {
	var e Endpoint
	err := row.Scan(&e.ID, &e.OrgID, &e.URL, &e.Description, &e.Events, &e.Status, &e.APIVersion, &e.CreatedAt, &e.UpdatedAt)
	return e, err
}

// words is a list of types as PostgreSQL takes it, never NULL.
func words(types []event.Type) []string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = string(t)
	}
	return names
}

// checkURL refuses what could never be posted to. It is a courtesy to whoever mistypes:
// what protects is the guard, which sees every address that is dialled.
func checkURL(raw string, development bool) error {
	refuse := func(why string) error {
		return fault.New(fault.Invalid, fault.InvalidRequest, "The URL %s. Nothing was created.", why).On("url")
	}
	if raw == "" || len(raw) > urlBytesMax || !utf8.ValidString(raw) {
		return refuse(fmt.Sprintf("must have 1 to %d bytes", urlBytesMax))
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return refuse("must not contain spaces or control characters")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Opaque != "":
		return refuse("is not one: give something like https://example.com/webhooks")
	case u.User != nil:
		return refuse("must not contain a user name or password: requests are signed instead")
	case u.Fragment != "" || strings.HasSuffix(raw, "#"):
		return refuse("must not have a fragment, which is never sent")
	case u.Hostname() == "" || strings.Contains(u.Hostname(), "%"):
		return refuse("must name a host")
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return refuse("has a port that is no number from 1 to 65535")
		}
	}
	switch u.Scheme {
	case "https":
	case "http":
		if development && isLoopbackName(u.Hostname()) {
			return nil
		}
		if development {
			return refuse("must be https: http is allowed only to this machine, such as http://127.0.0.1:8090/webhooks")
		}
		return refuse("must be https")
	default:
		return refuse("must be https")
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if err == nil && public.SafeAddr(addr) != nil || isLoopbackName(u.Hostname()) {
		return refuse("must lead to a public address")
	}
	return nil
}

func isLoopbackName(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
