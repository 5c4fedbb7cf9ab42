// Package changerequest implements change requests: one operator asks for a change and another one
// approves it. They apply to what loosens a control, if the installation requires dual control for
// it.
//
// An operator is identified by the name of the key's holder, which stays the same when the key is
// rolled. An operator who signs in has the e-mail as that name, so a key with that name belongs to the same
// operator.
//
// A request is never edited, decided twice, approved by its author, or approved after it expired. A crash
// leaves a pending request, or a decided one with all its changes.
package changerequest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const (
	// PendingPeriod is how long a request waits for its approval.
	PendingPeriod = 7 * 24 * time.Hour
	// pendingMax bounds the pending requests of one organization.
	pendingMax   = 50
	idPrefix     = "chg"
	operatorsMin = 2 // with fewer operators, none could approve
)

// Kind names what a request changes.
type Kind string

// The kinds.
const (
	Settings           Kind = "SETTINGS"
	WhitelistedAddress Kind = "WHITELISTED_ADDRESS"
	SwapWriteOff       Kind = "SWAP_WRITE_OFF"
	BillingTerms       Kind = "BILLING_TERMS"
)

// Kinds lists all kinds.
var Kinds = []string{string(Settings), string(WhitelistedAddress), string(SwapWriteOff), string(BillingTerms)}

// Status is the state of a request.
type Status string

// The statuses. All but Pending are final.
const (
	Pending   Status = "PENDING"
	Approved  Status = "APPROVED"
	Retracted Status = "WITHDRAWN"
	Expired   Status = "EXPIRED"
)

// Statuses lists all statuses.
var Statuses = []string{string(Pending), string(Approved), string(Retracted), string(Expired)}

// Values holds what a request changes: by name, in the interface's JSON.
type Values map[string]json.RawMessage

// Request is a change that needs, or had, the approval of a second operator.
type Request struct {
	ID           string // chg_…
	OrgID        string // "": the installation
	Kind         Kind
	Before       Values // the values when the change was requested
	Wanted       Values
	Author       string // the holder of the author's key, or the e-mail of an operator who signed in
	AuthorKey    string // opk_… or opr_…
	CreatedAt    time.Time
	ExpiresAt    time.Time
	Status       Status
	DecidedBy    string // "" while it is pending, and when it expired
	DecidedByKey string
	DecidedAt    *time.Time
}

// Rule says whether the installation requires dual control.
type Rule struct{ Enabled bool }

// IsActive reports whether the rule applies now to an action: it is on, the action needs a second
// operator, and there are two. Rule OP-7.
func (r Rule) IsActive(ctx context.Context, tx pg.Tx, action identity.Action) (bool, error) {
	if !r.Enabled || !identity.PermissionOf(action).SecondOperator {
		return false, nil
	}
	holders, err := operator.CountHolders(ctx, tx)
	return holders >= operatorsMin, err
}

// CreateRequest writes a request, in a transaction of the system. Errors: APPROVAL_REFUSED without
// a key, INVALID_STATE if too many requests are pending.
func CreateRequest(
	ctx context.Context, tx pg.Tx, key operator.Key, org string, kind Kind, before, wanted Values,
) (Request, error) {
	if err := requireKey(key, identity.RequestChange); err != nil {
		return Request{}, err
	}
	r := Request{
		ID: id.New(idPrefix, tx.Now), OrgID: org, Kind: kind, Before: before, Wanted: wanted,
		Author: key.Name, AuthorKey: key.ID, CreatedAt: tx.Now, ExpiresAt: tx.Now.Add(PendingPeriod), Status: Pending,
	}
	var pending int
	err := tx.QueryRow(
		ctx, `SELECT count(*) FROM change_requests
			WHERE org_id IS NOT DISTINCT FROM nullif($1, '') AND status = 'PENDING' AND expires_at > $2`, org,
		tx.Now,
	).Scan(&pending)
	if err != nil {
		return r, fmt.Errorf("count the change requests of %s: %w", org, err)
	}
	if pending >= pendingMax {
		return r, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"%d changes of this organization already wait for a second operator.", pending).
			WithAdvice("Approve or withdraw some of them.")
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO change_requests (change_id, org_id, kind, before, wanted, author, author_key, created_at,
			expires_at)
		VALUES ($1, nullif($2, ''), $3, $4, $5, $6, $7, $8, $9)`, r.ID, r.OrgID, r.Kind, r.Before, r.Wanted, r.Author, r.AuthorKey, r.CreatedAt, r.ExpiresAt)
	if err != nil {
		return r, fmt.Errorf("request a change of %s: %w", org, err)
	}
	return r, audit.Record(ctx, tx, r.auditEntry(key.Actor(), "change.requested"))
}

func (r Request) auditEntry(actor audit.Actor, action string) audit.Entry {
	return audit.Entry{
		OrgID: r.OrgID, Actor: actor, Action: action, ResourceKind: "CHANGE_REQUEST", ResourceID: r.ID,
		Detail: map[string]any{"kind": r.Kind, "from": r.Before, "to": r.Wanted, "author": r.Author},
	}
}

// requireKey refuses an operator who may not take the action, such as a terminal without a key.
// Rule OP-9.
func requireKey(key operator.Key, action identity.Action) error {
	if !key.IsAllowed(action) {
		return fault.New(fault.Conflict, fault.ApprovalRefused, fault.NothingWritten,
			"This loosens a control, and this installation requires two operators for it.").
			WithStep(fault.SendOperatorKey)
	}
	return nil
}

const selectRequests = `
	SELECT change_id, coalesce(org_id, ''), kind, before, wanted, author, author_key, created_at, expires_at,
		CASE WHEN status = 'PENDING' AND expires_at <= $1 THEN 'EXPIRED' ELSE status END,
		coalesce(decided_by, ''), coalesce(decided_key, ''), CASE WHEN status = 'PENDING' AND expires_at <= $1 THEN expires_at ELSE decided_at END
	FROM change_requests`

func scanRequest(row pgx.CollectableRow) (r Request, err error) {
	err = row.Scan(&r.ID, &r.OrgID, &r.Kind, &r.Before, &r.Wanted, &r.Author, &r.AuthorKey, &r.CreatedAt, &r.ExpiresAt,
		&r.Status, &r.DecidedBy, &r.DecidedByKey, &r.DecidedAt)
	return r, err
}

// ByID reads a request, in a transaction of the system. A request whose time is over is EXPIRED,
// even before Expire has written that down. Error: NOT_FOUND.
func ByID(ctx context.Context, tx pg.Tx, name string) (Request, error) {
	return loadRequest(ctx, tx, name, "")
}

func loadRequest(ctx context.Context, tx pg.Tx, name, lock string) (Request, error) {
	if !id.IsValid(idPrefix, name) {
		return Request{}, newNotFound()
	}
	rows, err := tx.Query(ctx, selectRequests+` WHERE change_id = $2`+lock, tx.Now, name)
	if err != nil {
		return Request{}, fmt.Errorf("read change request %s: %w", name, err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, scanRequest)
	if errors.Is(err, pgx.ErrNoRows) {
		return r, newNotFound()
	}
	if err != nil {
		return r, fmt.Errorf("read change request %s: %w", name, err)
	}
	return r, nil
}

func newNotFound() error {
	return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"This change request does not exist.")
}

// Approve approves the request of another operator and applies it in the same transaction, by the
// function of its kind. Errors: NOT_FOUND, INVALID_STATE if it is decided or expired,
// APPROVAL_REFUSED for its author, and those of apply. Rule OP-9.
func Approve(
	ctx context.Context, tx pg.Tx, key operator.Key, name string,
	apply map[Kind]func(context.Context, pg.Tx, Request) error,
) (Request, error) {
	if err := requireKey(key, identity.ApproveChange); err != nil {
		return Request{}, err
	}
	r, err := loadRequest(ctx, tx, name, " FOR UPDATE")
	if err != nil {
		return r, err
	}
	if operator.IsSameHolder(r.Author, key.Name) || r.AuthorKey == key.ID {
		return r, fault.New(fault.Conflict, fault.ApprovalRefused, fault.NothingWritten,
			"The operator who requests a change cannot approve it: another operator has to.").
			WithAdvice("You can withdraw your request.")
	}
	if r, err = r.decideRequest(ctx, tx, key, Approved); err != nil {
		return r, err
	}
	applyKind := apply[r.Kind]
	if applyKind == nil {
		return r, fmt.Errorf("approve %s: no handler applies a change of %s", name, r.Kind)
	}
	if err := applyKind(ctx, tx, r); err != nil {
		return r, err
	}
	return r, audit.Record(ctx, tx, r.auditEntry(key.Actor(), "change.approved"))
}

// Retract ends the operator's own request. Errors: NOT_FOUND, INVALID_STATE, APPROVAL_REFUSED for
// any other operator. Rule OP-9.
func Retract(ctx context.Context, tx pg.Tx, key operator.Key, name string) (Request, error) {
	if err := requireKey(key, identity.RetractChange); err != nil {
		return Request{}, err
	}
	r, err := loadRequest(ctx, tx, name, " FOR UPDATE")
	if err != nil {
		return r, err
	}
	if r.Author != key.Name {
		return r, fault.New(fault.Conflict, fault.ApprovalRefused, fault.NothingWritten,
			"Only its requester, %s, can withdraw this change request.", r.Author).
			WithAdvice("A request without approval ends by itself.")
	}
	if r, err = r.decideRequest(ctx, tx, key, Retracted); err != nil {
		return r, err
	}
	return r, audit.Record(ctx, tx, r.auditEntry(key.Actor(), "change.withdrawn"))
}

// decideRequest moves a request out of PENDING, once.
func (r Request) decideRequest(ctx context.Context, tx pg.Tx, key operator.Key, decision Status) (Request, error) {
	newEnded := func(status Status) error {
		return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"Change request %s is %s.", r.ID, status).WithExtra("currentStatus", string(status))
	}
	if r.Status != Pending {
		return r, newEnded(r.Status)
	}
	tag, err := tx.Exec(ctx, `
		UPDATE change_requests SET status = $2, decided_by = $3, decided_key = $4, decided_at = $5
		WHERE change_id = $1 AND status = 'PENDING' AND expires_at > $5`, r.ID, decision, key.Name, key.ID, tx.Now)
	if err != nil {
		return r, fmt.Errorf("end change request %s as %s: %w", r.ID, decision, err)
	}
	if tag.RowsAffected() != 1 {
		return r, newEnded(Expired)
	}
	r.Status, r.DecidedBy, r.DecidedByKey, r.DecidedAt = decision, key.Name, key.ID, &tx.Now
	return r, nil
}

// Expire marks as EXPIRED the requests that were not approved in time.
func Expire(ctx context.Context, db *pg.DB) error {
	return db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(
			ctx,
			selectRequests+` WHERE status = 'PENDING' AND expires_at <= $1 ORDER BY change_id LIMIT 1000 FOR UPDATE SKIP LOCKED`,
			tx.Now,
		)
		if err != nil {
			return fmt.Errorf("look for expired change requests: %w", err)
		}
		expired, err := pgx.CollectRows(rows, scanRequest)
		if err != nil || len(expired) == 0 {
			return err
		}
		var ids []string
		var entries []audit.Entry
		for _, r := range expired {
			ids, entries = append(ids, r.ID), append(entries, r.auditEntry(audit.System("foureyes"), "change.expired"))
		}
		tag, err := tx.Exec(
			ctx,
			`UPDATE change_requests SET status = 'EXPIRED', decided_at = $2 WHERE change_id = ANY ($1) AND status = 'PENDING'`,
			ids, tx.Now,
		)
		if err != nil {
			return fmt.Errorf("end %d change requests: %w", len(ids), err)
		}
		if tag.RowsAffected() != int64(len(ids)) {
			return fmt.Errorf("end %d change requests: %d ended", len(ids), tag.RowsAffected())
		}
		return audit.Record(ctx, tx, entries...)
	})
}

// Filter narrows a list; zero fields do not.
type Filter struct {
	OrgID         string
	Status        Status
	CreatedAfter  time.Time // exclusive
	CreatedBefore time.Time // exclusive
}

// List returns a page of requests, in a transaction of the system.
func List(ctx context.Context, tx pg.Tx, f Filter, p pagination.Page) (pagination.Result[Request], error) {
	q := pagination.NewQuery(`SELECT * FROM (`+strings.ReplaceAll(selectRequests, "$1", "?")+`) AS r
		(change_id, org_id, kind, before, wanted, author, author_key, created_at, expires_at, status, decided_by, decided_key, decided_at) WHERE true`, tx.Now, tx.Now)
	if f.OrgID != "" {
		q.AddCondition(`org_id = ?`, f.OrgID)
	}
	if f.Status != "" {
		q.AddCondition(`status = ?`, string(f.Status))
	}
	q.SetTimeRange(f.CreatedAfter, f.CreatedBefore)
	sql, args := q.BuildPage(p, "created_at", "change_id")
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return pagination.Result[Request]{}, fmt.Errorf("list the change requests: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanRequest)
	if err != nil {
		return pagination.Result[Request]{}, fmt.Errorf("list the change requests: %w", err)
	}
	return pagination.CutPage(
		p, found, func(r Request) pagination.Cursor { return pagination.Cursor{CreatedAt: r.CreatedAt, ID: r.ID} },
	), nil
}

// ListPending returns the pending requests of an organization, oldest first. There are never many.
func ListPending(ctx context.Context, tx pg.Tx, org string) ([]Request, error) {
	found, err := List(ctx, tx, Filter{OrgID: org, Status: Pending}, pagination.Page{Limit: pagination.LimitMax})
	return found.Items, err
}

// ChangedNames returns the names of what a request changes, sorted.
func (r Request) ChangedNames() []string { return slices.Sorted(maps.Keys(r.Wanted)) }
