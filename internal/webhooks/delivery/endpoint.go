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
	"sync"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/outbound"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

const (
	endpointsMax        = 10 // per organization
	urlBytesMax         = 2048
	descriptionBytesMax = 500
)

// The states of an endpoint.
const (
	Enabled      = "ENABLED"
	Paused       = "PAUSED"        // its deliveries wait
	DisabledGone = "DISABLED_GONE" // it answered 410; its deliveries are cancelled
	// It did nothing but fail for days; its deliveries wait.
	DisabledByFailure = "DISABLED_BY_FAILURE"
)

// Endpoint is the URL at which an organization receives webhooks. It holds no secrets: each is
// shown once, by Create or Rotate.
type Endpoint struct {
	ID          string
	OrgID       string
	URL         string
	Description string
	// None means the events of the interface without extensions; event.EveryType alone means all.
	Events     []event.Type
	Filters    Filters
	Status     string
	APIVersion string
	// The first failed attempt since the last success; nil means that none failed.
	FailingSince *time.Time
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

// Filters exclude events that an endpoint would otherwise receive. An event that concerns no
// customer, or happened on no chain, does not pass a filter that names one. Rule EVT-8.
type Filters struct {
	// "" means any customer. In a transfer it is the payer, if that is a customer.
	CustomerID string
	Chain      chain.Name // "" means any chain
}

func (f Filters) matchEvent(e event.Sequenced) bool {
	return (f.CustomerID == "" || f.CustomerID == e.CustomerID) && (f.Chain == "" || string(f.Chain) == e.Chain)
}

// NewEndpoint describes the endpoint that a caller wants to create.
type NewEndpoint struct {
	// FormID is the id of the form of a page; the endpoint's id follows from it, so that one form makes one
	// endpoint. "" for a program.
	FormID      string
	URL         string
	Description string
	Events      []event.Type
	Filters     Filters
}

// Change describes what a caller changes; a nil field stays as it is.
type Change struct {
	URL         *string
	Description *string
	Events      *[]event.Type
	Filters     *Filters // both are replaced
	Status      *string  // Enabled or Paused
	// SeenAt is the UpdatedAt of the endpoint that the caller saw. A later change is not overwritten. nil: no
	// check.
	SeenAt *time.Time
}

// Endpoints manages the endpoints of organizations.
type Endpoints struct {
	Seal *seal.Keyset
	// Development also allows http to this machine's loopback addresses. It is for the local world.
	Development bool
	// Posts sends samples; nil where no samples are requested.
	Posts *Dispatcher

	openOnce        sync.Once
	samplesInFlight chan struct{} // one slot for each sample in flight
}

func checkDescription(description string) error {
	if len(description) > descriptionBytesMax || !utf8.ValidString(description) ||
		strings.ContainsRune(description, 0) {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"The description may be text of at most %d bytes.", descriptionBytesMax).
			WithAdvice("Shorten it.").WithParam("description")
	}
	return nil
}

// checkEvents sorts the types that an endpoint names and removes duplicates.
func checkEvents(named []event.Type) ([]event.Type, error) {
	events := slices.Clone(named)
	slices.Sort(events)
	events = slices.Compact(events)
	if slices.Contains(events, event.EveryType) {
		if len(events) > 1 {
			return nil, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
				"%s stands for all events.", event.EveryType).
				WithAdvice("Send it alone, or leave it out.").WithParam("events")
		}
		return events, nil
	}
	for _, t := range events {
		if !event.IsKnown(t) {
			return nil, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
				"There is no event %.64q.", t).
				WithAdvice("Leave events out to receive the seven events of the interface, send * to receive "+
					"all, or "+
					"name some of %s.", strings.Join(
					typeNames(event.AllTypes()), ", ",
				)).WithParam("events")
		}
	}
	return events, nil
}

// checkFilters refuses a filter that no event could ever pass. It accepts an unknown customer,
// because customers are created on first use.
func checkFilters(f Filters) error {
	if f.CustomerID != "" {
		if err := customer.CheckID(f.CustomerID); err != nil {
			return fault.Find(err).WithParam("filters.customerId")
		}
	}
	if f.Chain != "" && f.Chain.Family() == "" {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"There is no chain %.64q.", string(f.Chain)).
			WithAdvice("Give a chain such as ETHEREUM, or leave it out.").WithParam("filters.chain")
	}
	return nil
}

// Create creates an endpoint and returns its secret, which is never shown again. Errors:
// INVALID_REQUEST for invalid input, with its parameter, and INVALID_STATE for an organization that
// has ten endpoints, or if the form of a page made its endpoint before. Rule PAGE-21.
func (s *Endpoints) Create(
	ctx context.Context, tx pg.Tx, org string, actor audit.Actor, n NewEndpoint,
) (Endpoint, seal.Secret, error) {
	noSecret := seal.Secret{}
	events, err := checkEvents(n.Events)
	if err := errors.Join(
		err, checkURL(n.URL, s.Development), checkDescription(n.Description), checkFilters(n.Filters),
	); err != nil {
		return Endpoint{}, noSecret, err
	}

	// Two requests that each see nine endpoints must not create an eleventh.
	if _, err := tx.Exec(
		ctx, `SELECT pg_advisory_xact_lock(hashtextextended('coffer/delivery/endpoints/' || $1, 0))`, org,
	); err != nil {
		return Endpoint{}, noSecret, fmt.Errorf("lock the endpoints of %s: %w", org, err)
	}
	var count int
	if err := tx.QueryRow(
		ctx, `SELECT count(*) FROM webhook_endpoints WHERE org_id = $1 AND deleted_at IS NULL`, org,
	).Scan(&count); err != nil {
		return Endpoint{}, noSecret, fmt.Errorf("count the endpoints of %s: %w", org, err)
	}
	if count >= endpointsMax {
		return Endpoint{}, noSecret, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"An organization may have at most %d webhook endpoints.", endpointsMax).
			WithAdvice("Delete one first.")
	}

	e := Endpoint{
		ID: id.New("we", tx.Now), OrgID: org, URL: n.URL, Description: n.Description, Events: events,
		Filters: n.Filters, Status: Enabled, APIVersion: event.APIVersion, CreatedAt: tx.Now, UpdatedAt: tx.Now,
	}
	if n.FormID != "" {
		e.ID = id.Derive("we", org, n.FormID)
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO webhook_endpoints (endpoint_id, org_id, url, description, events, filter_customer_id, filter_chain, status, api_version, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, nullif($6, ''), nullif($7, ''), $8, $9, $10, $10)`,
		e.ID, org, e.URL, e.Description, typeNames(events), n.Filters.CustomerID, string(n.Filters.Chain), e.Status,
		e.APIVersion, tx.Now)
	if pg.ViolatesConstraint(err, "webhook_endpoints_pkey") {
		return Endpoint{}, noSecret, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"This form has registered its webhook already, and a secret is shown once.").
			WithAdvice("Look for the webhook in the list. If you did not see its secret, rotate it.")
	}
	if err != nil {
		return Endpoint{}, noSecret, fmt.Errorf("create endpoint %s: %w", e.ID, err)
	}
	secret, err := s.newSecret(ctx, tx, org, e.ID, 1)
	if err != nil {
		return Endpoint{}, noSecret, err
	}
	err = audit.Record(ctx, tx, audit.Entry{
		OrgID: org, Actor: actor, Action: "webhook_endpoint.created",
		ResourceKind: "WEBHOOK_ENDPOINT", ResourceID: e.ID, Detail: auditDetail(e),
	})
	if err != nil {
		return Endpoint{}, noSecret, err
	}
	return e, secret, nil
}

// auditDetail returns what the audit log stores of an endpoint.
func auditDetail(e Endpoint) map[string]any {
	return map[string]any{
		"url": e.URL, "description": e.Description, "events": typeNames(e.Events), "status": e.Status,
		"customerId": e.Filters.CustomerID, "chain": string(e.Filters.Chain),
	}
}

// Update changes an endpoint and returns its new state.
//
// A post in flight at that moment ends at the URL to which it was sent. Waiting deliveries go to
// the URL that the endpoint has when they are sent. Events and filters apply to events numbered
// from now on: waiting deliveries were wanted when they happened, and are still sent. A paused
// endpoint's deliveries wait.
//
// When the URL changes or the endpoint is enabled again, all waiting deliveries are due at once, in
// the order of each resource, with a complete new schedule. Errors: those of Create, NOT_FOUND, and
// INVALID_STATE if the endpoint changed after Change.SeenAt. Rules EVT-8, EVT-9 and PAGE-21.
func (s *Endpoints) Update(
	ctx context.Context, tx pg.Tx, org string, actor audit.Actor, endpointID string, c Change,
) (Endpoint, error) {
	before, err := lockEndpoint(ctx, tx, org, endpointID)
	if err != nil {
		return Endpoint{}, err
	}
	e := before
	if c.URL != nil {
		if e.URL = *c.URL; e.URL != before.URL {
			if err := checkURL(e.URL, s.Development); err != nil {
				return Endpoint{}, err
			}
		}
	}
	if c.Description != nil {
		e.Description = *c.Description
	}
	if c.Events != nil {
		if e.Events, err = checkEvents(*c.Events); err != nil {
			return Endpoint{}, err
		}
	}
	if c.Filters != nil {
		e.Filters = *c.Filters
	}
	if c.Status != nil {
		if e.Status = *c.Status; e.Status != Enabled && e.Status != Paused {
			return Endpoint{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
				"An endpoint can be set to %s or %s.", Enabled, Paused).
				WithStep(fault.SetOrDeleteEndpoint).WithParam("status")
		}
	}
	if err := errors.Join(checkDescription(e.Description), checkFilters(e.Filters)); err != nil {
		return Endpoint{}, err
	}
	if e.URL == before.URL && e.Description == before.Description && slices.Equal(e.Events, before.Events) &&
		e.Filters == before.Filters && e.Status == before.Status {
		return before, nil
	}
	if c.SeenAt != nil && !before.UpdatedAt.Equal(*c.SeenAt) {
		return Endpoint{}, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"The webhook was changed after this page was loaded.").
			WithAdvice("Look at its present state, and change it again if that is still needed.").
			WithExtra("currentStatus", before.Status)
	}
	restart := e.URL != before.URL || e.Status == Enabled && before.Status != Enabled
	if restart {
		e.FailingSince = nil // failures of the former URL prove nothing
	}
	e.UpdatedAt = tx.Now
	_, err = tx.Exec(ctx, `
		UPDATE webhook_endpoints
		SET url = $3, description = $4, events = $5, filter_customer_id = nullif($6, ''), filter_chain = nullif($7, ''), status = $8, updated_at = $9,
		    failing_since = CASE WHEN $10 THEN NULL ELSE failing_since END, failed_at = CASE WHEN $10 THEN NULL ELSE failed_at END,
		    restart_at = CASE WHEN $10 THEN $9 ELSE restart_at END, restart_after = CASE WHEN $10 THEN '-infinity' ELSE restart_after END,
		    restart_id = CASE WHEN $10 THEN 0 ELSE restart_id END
		WHERE org_id = $1 AND endpoint_id = $2`,
		org, endpointID, e.URL, e.Description, typeNames(e.Events), e.Filters.CustomerID, string(e.Filters.Chain),
		e.Status, tx.Now, restart)
	if err != nil {
		return Endpoint{}, fmt.Errorf("change endpoint %s: %w", endpointID, err)
	}
	err = audit.Record(ctx, tx, audit.Entry{
		OrgID: org, Actor: actor, Action: "webhook_endpoint.changed",
		ResourceKind: "WEBHOOK_ENDPOINT", ResourceID: endpointID,
		Detail: map[string]any{"from": auditDetail(before), "to": auditDetail(e)},
	})
	if err != nil {
		return Endpoint{}, err
	}
	return e, nil
}

const endpointColumns = `endpoint_id, org_id, url, description, events, coalesce(filter_customer_id, ''), coalesce(filter_chain, ''),
	status, api_version, failing_since, created_at, updated_at`

// List returns a page of the endpoints that are not deleted.
func (s *Endpoints) List(
	ctx context.Context, tx pg.Tx, org string, p pagination.Page,
) (pagination.Result[Endpoint], error) {
	sql, args := pagination.NewQuery(
		`SELECT `+endpointColumns+` FROM webhook_endpoints WHERE org_id = ? AND deleted_at IS NULL`, org,
	).
		BuildPage(p, "created_at", "endpoint_id")
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return pagination.Result[Endpoint]{}, fmt.Errorf("list the endpoints of %s: %w", org, err)
	}
	endpoints, err := pgx.CollectRows(rows, scanEndpoint)
	if err != nil {
		return pagination.Result[Endpoint]{}, fmt.Errorf("list the endpoints of %s: %w", org, err)
	}
	return pagination.CutPage(
		p, endpoints, func(e Endpoint) pagination.Cursor { return pagination.Cursor{CreatedAt: e.CreatedAt, ID: e.ID} },
	), nil
}

// ByID returns one endpoint. Error: NOT_FOUND.
func (s *Endpoints) ByID(ctx context.Context, tx pg.Tx, org, endpointID string) (Endpoint, error) {
	return loadEndpoint(ctx, tx, org, endpointID, "")
}

// lockEndpoint returns an endpoint with its row locked against changes by other transactions.
func lockEndpoint(ctx context.Context, tx pg.Tx, org, endpointID string) (Endpoint, error) {
	return loadEndpoint(ctx, tx, org, endpointID, " FOR NO KEY UPDATE")
}

func loadEndpoint(ctx context.Context, tx pg.Tx, org, endpointID, lock string) (Endpoint, error) {
	if !id.IsValid("we", endpointID) {
		return Endpoint{}, newNotFound(endpointID)
	}
	rows, err := tx.Query(ctx, `SELECT `+endpointColumns+` FROM webhook_endpoints
		WHERE org_id = $1 AND endpoint_id = $2 AND deleted_at IS NULL`+lock, org, endpointID)
	if err != nil {
		return Endpoint{}, fmt.Errorf("read endpoint %s: %w", endpointID, err)
	}
	e, err := pgx.CollectExactlyOneRow(rows, scanEndpoint)
	if errors.Is(err, pgx.ErrNoRows) {
		return Endpoint{}, newNotFound(endpointID)
	}
	if err != nil {
		return Endpoint{}, fmt.Errorf("read endpoint %s: %w", endpointID, err)
	}
	return e, nil
}

// Delete deletes an endpoint. From the commit on nothing is sent to it, except posts in flight at
// that moment. Events that it has not received stay in the feed. Error: NOT_FOUND if there is none
// or it was deleted before.
func (s *Endpoints) Delete(ctx context.Context, tx pg.Tx, org string, actor audit.Actor, endpointID string) error {
	if !id.IsValid("we", endpointID) {
		return newNotFound(endpointID)
	}
	tag, err := tx.Exec(ctx, `
		UPDATE webhook_endpoints SET deleted_at = $3, updated_at = $3
		WHERE org_id = $1 AND endpoint_id = $2 AND deleted_at IS NULL`, org, endpointID, tx.Now)
	if err != nil {
		return fmt.Errorf("delete endpoint %s: %w", endpointID, err)
	}
	if tag.RowsAffected() == 0 {
		return newNotFound(endpointID)
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: org, Actor: actor, Action: "webhook_endpoint.deleted",
		ResourceKind: "WEBHOOK_ENDPOINT", ResourceID: endpointID,
	})
}

func newNotFound(endpointID string) error {
	return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"Your organization has no webhook endpoint %.64q.", endpointID).
		WithStep(fault.ListEndpoints)
}

func scanEndpoint(row pgx.CollectableRow) (Endpoint, error) {
	var e Endpoint
	err := row.Scan(&e.ID, &e.OrgID, &e.URL, &e.Description, &e.Events, &e.Filters.CustomerID, &e.Filters.Chain,
		&e.Status, &e.APIVersion, &e.FailingSince, &e.CreatedAt, &e.UpdatedAt)
	return e, err
}

// typeNames converts types to a list for PostgreSQL, never NULL.
func typeNames(types []event.Type) []string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = string(t)
	}
	return names
}

// checkURL refuses a URL to which no post could ever succeed. It only helps against typing errors.
// The protection is the guard, which checks every address that is dialled.
func checkURL(raw string, development bool) error {
	refuse := func(problem string) error {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"The URL %s.", problem).
			WithParam("url")
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
		return refuse("is not a URL: give something like https://example.com/webhooks")
	case u.User != nil:
		return refuse("must not contain a user name or password: requests are signed instead")
	case u.Fragment != "" || strings.HasSuffix(raw, "#"):
		return refuse("must not have a fragment, which is never sent")
	case u.Hostname() == "" || strings.Contains(u.Hostname(), "%"):
		return refuse("must name a host")
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return refuse("has a port that is not a number from 1 to 65535")
		}
	}
	switch u.Scheme {
	case "https":
	case "http":
		if development && outbound.IsLoopbackName(u.Hostname()) {
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
	if err == nil && outbound.CheckPublic(addr) != nil || outbound.IsLoopbackName(u.Hostname()) {
		return refuse("must lead to a public address")
	}
	return nil
}
