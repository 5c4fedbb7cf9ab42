// Package audit records which actor did what to which resource, in the transaction that did it, so
// that no change of state exists without its row.
//
// It is not the program's log. Rows are never edited or dropped, which the table itself enforces,
// and a detail never holds a secret. A crash leaves a row exactly if it leaves the change.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Actor names the author of an act.
type Actor struct {
	Kind string // API_KEY, USER, OPERATOR or SYSTEM
	// The organization of a main key, an additional key, the member, or the part of the program.
	ID string
}

// APIKey returns the actor for an organization's program that uses the main key.
func APIKey(org string) Actor { return Actor{"API_KEY", org} }

// AdditionalAPIKey returns the actor for an organization's program that uses an additional key, by
// its id.
func AdditionalAPIKey(key string) Actor { return Actor{"API_KEY", key} }

// User returns the actor for a member of an organization, by user id.
func User(id string) Actor { return Actor{"USER", id} }

// Operator returns the actor for an operator, by the id of the key, or "cli" for a command.
func Operator(id string) Actor { return Actor{"OPERATOR", id} }

// System returns the actor for a part of this program that acts by itself, such as "scan".
func System(part string) Actor { return Actor{"SYSTEM", part} }

// Entry is one act.
type Entry struct {
	OrgID        string // "" if it concerns no single organization
	Actor        Actor
	Action       string // resource and verb: "withdrawal.approved"
	ResourceKind string // such as WITHDRAWAL
	ResourceID   string
	Detail       any // encoded as JSON; nil for none; never a secret
}

// Record writes entries, in the given order. It is the last statement of a transaction. It takes no
// lock for which other transactions wait, and waits for none itself.
func Record(ctx context.Context, tx pg.Tx, entries ...Entry) error {
	b := &pgx.Batch{}
	if err := QueueEntries(b, tx.Now, entries...); err != nil {
		return err
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("record %d audit rows: %w", len(entries), err)
	}
	failpoint.Hit("O06")
	return nil
}

// QueueEntries adds the statement of Record to a batch, as its last; now is the time of the
// transaction. It fails if a detail cannot be encoded.
func QueueEntries(b *pgx.Batch, now time.Time, entries ...Entry) error {
	n := len(entries)
	orgs, kinds, actors := make([]*string, n), make([]string, n), make([]string, n)
	actions, resourceKinds, resources, details := make([]string, n), make([]string, n), make([]string, n),
		make([]string, n)
	for i, e := range entries {
		if e.OrgID != "" {
			orgs[i] = &e.OrgID
		}
		detail := []byte("{}")
		if e.Detail != nil {
			var err error
			if detail, err = json.Marshal(e.Detail); err != nil {
				return fmt.Errorf("write the detail of %s of %s: %w", e.Action, e.ResourceID, err)
			}
		}
		kinds[i], actors[i], actions[i] = e.Actor.Kind, e.Actor.ID, e.Action
		resourceKinds[i], resources[i], details[i] = e.ResourceKind, e.ResourceID, string(detail)
	}
	b.Queue(`
		INSERT INTO audit_log (org_id, at, actor_kind, actor_id, action, resource_kind, resource_id, detail)
		SELECT e.org_id, $1, e.actor_kind, e.actor_id, e.action, e.resource_kind, e.resource_id, e.detail::jsonb
		FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[]) WITH ORDINALITY
			AS e (org_id, actor_kind, actor_id, action, resource_kind, resource_id, detail, nth)
		ORDER BY e.nth`,
		now, orgs, kinds, actors, actions, resourceKinds, resources, details)
	return nil
}

// Row is an entry as it was recorded.
type Row struct {
	ID           int64
	OrgID        string
	RecordedAt   time.Time
	Actor        Actor
	Action       string
	ResourceKind string
	ResourceID   string
	Detail       json.RawMessage
}

// Filter narrows a list; zero fields do not.
type Filter struct {
	OrgID      string
	ResourceID string
	Action     string
	MemberID   string // the acts of one member of the organization
}

// ListNewest returns at most limit entries of all organizations before an entry, by their numbers, in a
// transaction of the system. beforeID 0 means from the newest on. Numbers are given when a transaction
// begins to record, so the order is not exactly that of the commits. With a resource it reads the
// resource's own entries alone.
func ListNewest(ctx context.Context, tx pg.Tx, resourceID string, beforeID int64, limit int) ([]Row, error) {
	rows, err := tx.Query(ctx, `
		SELECT audit_id, coalesce(org_id, ''), at, actor_kind, actor_id, action, resource_kind, resource_id, detail
		FROM audit_log WHERE ($1 = '' OR resource_id = $1) AND ($2 = 0 OR audit_id < $2)
		ORDER BY audit_id DESC LIMIT $3`, pg.Planned(true, []any{resourceID, beforeID, limit})...)
	if err != nil {
		return nil, fmt.Errorf("list the newest entries of the audit log: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanRow)
	if err != nil {
		return nil, fmt.Errorf("list the newest entries of the audit log: %w", err)
	}
	return found, nil
}

func (f Filter) query() *pagination.Query {
	q := pagination.NewQuery(`
		SELECT audit_id, coalesce(org_id, ''), at, actor_kind, actor_id, action, resource_kind, resource_id, detail
		FROM audit_log WHERE true`)
	if f.OrgID != "" {
		q.AddCondition(`org_id = ?`, f.OrgID)
	}
	if f.ResourceID != "" {
		q.AddCondition(`resource_id = ?`, f.ResourceID)
	}
	if f.Action != "" {
		q.AddCondition(`action = ?`, f.Action)
	}
	if f.MemberID != "" {
		// The literal is the condition of the index.
		q.AddCondition(`actor_kind = 'USER' AND actor_id = ?`, f.MemberID)
	}
	return q
}

func scanRow(row pgx.CollectableRow) (r Row, err error) {
	err = row.Scan(&r.ID, &r.OrgID, &r.RecordedAt, &r.Actor.Kind, &r.Actor.ID, &r.Action, &r.ResourceKind,
		&r.ResourceID, &r.Detail)
	return r, err
}

// List returns one page of the recorded entries, in the order of (at, id).
func List(ctx context.Context, tx pg.Tx, f Filter, p pagination.Page) (pagination.Result[Row], error) {
	sql, args := f.query().BuildPage(p, "at", "audit_id")
	rows, err := tx.Query(ctx, sql, pg.Planned(true, args)...)
	if err != nil {
		return pagination.Result[Row]{}, fmt.Errorf("list the audit log: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanRow)
	if err != nil {
		return pagination.Result[Row]{}, fmt.Errorf("read the audit log: %w", err)
	}
	return pagination.CutPage(p, found, func(r Row) pagination.Cursor {
		return pagination.Cursor{CreatedAt: r.RecordedAt, ID: fmt.Sprint(r.ID)}
	}), nil
}

// ForEach calls fn for all entries that match the filter, in the order of List. The first error of fn
// ends it.
func ForEach(ctx context.Context, tx pg.Tx, f Filter, desc bool, fn func(Row) error) error {
	sql, args := f.query().BuildAll(desc, "at", "audit_id")
	if err := pg.ForEachRow(ctx, tx, sql, pg.Planned(true, args), scanRow, fn); err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	return nil
}
