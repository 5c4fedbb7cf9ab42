// Package customer keeps the customers of an organization by the ids that the organization chose.
//
// An e-mail decides whether a withdrawal needs approval, so Ensure writes one only where none is
// known.
//
// Invariants:
//
//   - A call that names another e-mail does not change the known one.
//   - Two ids are never taken for one.
//
// After a crash a customer exists or not; the next Ensure finds or creates it.
package customer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Customer is one of an organization's customers.
type Customer struct {
	OrgID          string
	ID             string
	Email          string // "" when none is known
	EmailChangedAt *time.Time
	Metadata       map[string]string
	Frozen         bool // a freeze of this customer is active
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// Status returns ACTIVE or FROZEN.
func (c Customer) Status() string {
	if c.Frozen {
		return statusFrozen
	}
	return statusActive
}

const (
	statusActive = "ACTIVE"
	statusFrozen = "FROZEN"
)

// Statuses lists the statuses of a customer.
var Statuses = []string{statusActive, statusFrozen}

// frozenCondition reads one row by an index for each customer. With EXISTS the planner could read
// all frozen customers.
const frozenCondition = `((SELECT true FROM freezes f
			WHERE f.scope = 'CUSTOMER' AND f.lifted_at IS NULL AND f.org_id = c.org_id AND f.customer_id = c.customer_id LIMIT 1) IS NOT NULL)`

const selectCustomers = `
	SELECT c.org_id, c.customer_id, coalesce(c.email, ''), c.email_changed_at, c.metadata,
		` + frozenCondition + `,
		c.created_at, c.updated_at
	FROM customers c`

func scanCustomer(row pgx.CollectableRow) (c Customer, err error) {
	var metadata []byte
	if err = row.Scan(
		&c.OrgID, &c.ID, &c.Email, &c.EmailChangedAt, &metadata, &c.Frozen, &c.CreatedAt, &c.UpdatedAt,
	); err != nil {
		return c, err
	}
	if err = json.Unmarshal(metadata, &c.Metadata); err != nil {
		return c, fmt.Errorf("read the metadata of customer %q: %w", c.ID, err)
	}
	return c, nil
}

// Ensure finds or creates a customer. An e-mail ("" for none) is written only where none is known.
// emailIgnored is true if another one is known and stays.
//
// Errors are those of CheckID and CheckEmail, and of CheckNewEmail if the e-mail is written. A call
// that writes no e-mail may repeat one that was accepted before e-mails had to be plain.
func Ensure(ctx context.Context, tx pg.Tx, org, id, email string) (c Customer, emailIgnored bool, err error) {
	return EnsureBy(ctx, tx, org, id, email, audit.APIKey(org), true)
}

// EnsureBy ensures a customer in the name of an actor, like Ensure. An e-mail from an untrusted
// source is trusted by no rule until the cooling-off ends, as if it were a change.
// Rules CUS-1, CUS-2 and KEY-10.
func EnsureBy(
	ctx context.Context, tx pg.Tx, org, id, email string, actor audit.Actor, trusted bool,
) (c Customer, emailIgnored bool, err error) {
	if err := CheckID(id); err != nil {
		return Customer{}, false, err
	}
	var emailArg *string
	if email != "" {
		if err := CheckEmail(email); err != nil {
			return Customer{}, false, err
		}
		emailArg = &email
	}

	c, found, err := findCustomer(ctx, tx, org, id)
	if err != nil {
		return Customer{}, false, err
	}
	if !found || c.Email == "" && emailArg != nil {
		if emailArg != nil && !PlainEmail(email) {
			return Customer{}, false, newNotPlain()
		}
		// A concurrent transaction may create the same customer. The second one waits here, and
		// adds the e-mail if the first had none.
		var isNew bool
		err := tx.QueryRow(ctx, `
			INSERT INTO customers AS c (org_id, customer_id, email, email_changed_at, created_at, updated_at)
			VALUES ($1, $2, $3, CASE WHEN $3::text IS NOT NULL AND NOT $5 THEN $4::timestamptz END, $4, $4)
			ON CONFLICT ON CONSTRAINT customers_pkey DO UPDATE SET email = excluded.email,
				updated_at = greatest(excluded.updated_at, c.email_changed_at + interval '1 microsecond'),
				email_changed_at = CASE WHEN c.email_changed_at IS NOT NULL OR NOT $5
					THEN greatest(excluded.updated_at, c.email_changed_at + interval '1 microsecond') END
				WHERE c.email IS NULL AND excluded.email IS NOT NULL
			RETURNING xmax = 0`, org, id, emailArg, tx.Now, trusted).Scan(&isNew)
		switch {
		case errors.Is(err, pgx.ErrNoRows): // a concurrent transaction created it, with all that is needed
		case pg.ViolatesConstraint(err, "customers_email_plain"):
			return Customer{}, false, newNotPlain()
		case err != nil:
			return Customer{}, false, fmt.Errorf("create customer %q: %w", id, err)
		default:
			action := "customer.email_added"
			if isNew {
				action = "customer.created"
			}
			err := audit.Record(ctx, tx, audit.Entry{
				OrgID: org, Actor: actor, Action: action,
				ResourceKind: "CUSTOMER", ResourceID: id, Detail: map[string]any{"email": emailArg},
			})
			if err != nil {
				return Customer{}, false, err
			}
		}
		if c, found, err = findCustomer(ctx, tx, org, id); err != nil {
			return Customer{}, false, err
		}
		if !found {
			return Customer{}, false, fmt.Errorf("customer %q does not exist after its creation", id)
		}
	}
	return c, emailArg != nil && !SameEmail(c.Email, email), nil
}

// EnsureAll creates the missing customers among these ids, without e-mails. The ids have passed
// CheckID. It waits for concurrent transactions that create one of them, in the order of the ids.
func EnsureAll(ctx context.Context, tx pg.Tx, org string, ids []string) error {
	actors := make(map[string]audit.Actor, len(ids))
	for _, id := range ids {
		actors[id] = audit.APIKey(org)
	}
	return EnsureAllBy(ctx, tx, org, actors)
}

// EnsureAllBy creates customers like EnsureAll, each in the name of an actor.
func EnsureAllBy(ctx context.Context, tx pg.Tx, org string, actors map[string]audit.Actor) error {
	ids := slices.Sorted(maps.Keys(actors))
	rows, err := tx.Query(ctx, `
		INSERT INTO customers (org_id, customer_id, created_at, updated_at)
		SELECT $1, w.customer_id, $3, $3
		FROM unnest($2::text[]) WITH ORDINALITY AS w (customer_id, nth) ORDER BY w.nth
		ON CONFLICT ON CONSTRAINT customers_pkey DO NOTHING
		RETURNING customer_id`, org, ids, tx.Now)
	if err != nil {
		return fmt.Errorf("create %d customers: %w", len(ids), err)
	}
	created, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("create %d customers: %w", len(ids), err)
	}
	var entries []audit.Entry
	for _, id := range created {
		entries = append(entries, audit.Entry{
			OrgID: org, Actor: actors[id], Action: "customer.created",
			ResourceKind: "CUSTOMER", ResourceID: id, Detail: map[string]any{"email": nil},
		})
	}
	return audit.Record(ctx, tx, entries...)
}

// QueueExisting queues the look-up of which ids are customers. The result is set once the batch was
// sent.
func QueueExisting(b *pgx.Batch, org string, ids []string) map[string]bool {
	existing := make(map[string]bool, len(ids))
	// Only the key's index provides this order. On empty tables any index that begins with the
	// organization looks as good, and a session keeps its plans.
	b.Queue(`
		SELECT c.customer_id
		FROM unnest($2::text[]) AS w (customer_id)
		CROSS JOIN LATERAL (
			SELECT customer_id FROM customers WHERE org_id = $1 AND customer_id >= w.customer_id
			ORDER BY customer_id LIMIT 1) c
		WHERE c.customer_id = w.customer_id`, org, ids).Query(func(rows pgx.Rows) error {
		var id string
		_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
			existing[id] = true
			return nil
		})
		return err
	})
	return existing
}

// LoadEmails returns the e-mails of those customers that have one, in display form, by customer.
func LoadEmails(ctx context.Context, tx pg.Tx, org string, ids []string) (map[string]string, error) {
	// The order forces the key's index, as in QueueExisting.
	rows, err := tx.Query(ctx, `
		SELECT c.customer_id, c.email
		FROM unnest($2::text[]) AS w (customer_id)
		CROSS JOIN LATERAL (
			SELECT customer_id, email FROM customers WHERE org_id = $1 AND customer_id >= w.customer_id
			ORDER BY customer_id LIMIT 1) c
		WHERE c.customer_id = w.customer_id AND c.email IS NOT NULL`, org, ids)
	if err != nil {
		return nil, fmt.Errorf("read the e-mails of %d customers of %s: %w", len(ids), org, err)
	}
	emails := map[string]string{}
	var id, email string
	_, err = pgx.ForEachRow(rows, []any{&id, &email}, func() error {
		emails[id] = email
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the e-mails of %d customers of %s: %w", len(ids), org, err)
	}
	return emails, nil
}

// ListNotPlain returns at most limit customers with e-mails from before e-mails had to be plain. No
// rule trusts these e-mails.
func ListNotPlain(ctx context.Context, tx pg.Tx, org string, limit int) ([]Customer, error) {
	rows, err := tx.Query(
		ctx,
		selectCustomers+` WHERE c.org_id = $1 AND NOT email_is_plain(c.email) ORDER BY c.customer_id LIMIT $2`,
		org, limit,
	)
	if err != nil {
		return nil, fmt.Errorf("look for e-mails of %s that are not plain: %w", org, err)
	}
	return pgx.CollectRows(rows, scanCustomer)
}

func findCustomer(ctx context.Context, tx pg.Tx, org, id string) (Customer, bool, error) {
	rows, err := tx.Query(ctx, selectCustomers+` WHERE c.org_id = $1 AND c.customer_id = $2`, org, id)
	if err != nil {
		return Customer{}, false, fmt.Errorf("look for customer %q: %w", id, err)
	}
	c, err := pgx.CollectExactlyOneRow(rows, scanCustomer)
	if errors.Is(err, pgx.ErrNoRows) {
		return Customer{}, false, nil
	}
	if err != nil {
		return Customer{}, false, fmt.Errorf("look for customer %q: %w", id, err)
	}
	return c, true, nil
}

// ByID reads a customer. Error: NOT_FOUND, also for a string that is no valid id.
func ByID(ctx context.Context, tx pg.Tx, org, id string) (Customer, error) {
	notFound := fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"This customer does not exist.").
		WithStep(fault.CreateCustomer)
	if CheckID(id) != nil {
		return Customer{}, notFound
	}
	c, found, err := findCustomer(ctx, tx, org, id)
	if err == nil && !found {
		err = notFound
	}
	return c, err
}

// Filter narrows a list. A zero field does not narrow it.
type Filter struct {
	CustomerID    string
	Status        string    // ACTIVE or FROZEN
	CreatedAfter  time.Time // exclusive
	CreatedBefore time.Time // exclusive
}

func (f Filter) orgQuery(org string) *pagination.Query {
	q := pagination.NewQuery(selectCustomers+` WHERE c.org_id = ?`, org)
	if f.CustomerID != "" {
		q.AddCondition(`c.customer_id = ?`, f.CustomerID)
	}
	q.SetTimeRange(f.CreatedAfter, f.CreatedBefore)
	switch f.Status {
	case "":
	case statusFrozen:
		q.AddCondition(frozenCondition)
	default:
		q.AddCondition(`NOT ` + frozenCondition)
	}
	return q
}

// frozen returns the query for one page of frozen customers. The freezes have the order of the
// list, so it reads only the frozen customers of the page.
func (f Filter) frozen(org string, p pagination.Page) *pagination.Query {
	query := pagination.NewQuery(`
		SELECT DISTINCT f.customer_created_at, f.customer_id FROM freezes f
		WHERE f.scope = 'CUSTOMER' AND f.lifted_at IS NULL AND f.org_id = ?`, org)
	query.SetTimeRange(f.CreatedAfter, f.CreatedBefore)
	sql, args := query.BuildPage(p, "f.customer_created_at", "f.customer_id")
	return pagination.Of(
		selectCustomers+` JOIN (`+sql+`) AS frozen ON c.org_id = $1 AND c.customer_id = frozen.customer_id WHERE true`,
		args,
	)
}

// List returns one page of an organization's customers in the order of (creation time, id).
func List(ctx context.Context, tx pg.Tx, org string, f Filter, p pagination.Page) (pagination.Result[Customer], error) {
	q := f.orgQuery(org)
	if f.Status == statusFrozen && f.CustomerID == "" {
		q = f.frozen(org, p)
	}
	sql, args := q.BuildPage(p, "c.created_at", "c.customer_id")
	rows, err := tx.Query(ctx, sql, pg.Planned(q.Filtered(), args)...)
	if err != nil {
		return pagination.Result[Customer]{}, fmt.Errorf("list the customers of %s: %w", org, err)
	}
	found, err := pgx.CollectRows(rows, scanCustomer)
	if err != nil {
		return pagination.Result[Customer]{}, fmt.Errorf("list the customers of %s: %w", org, err)
	}
	return pagination.CutPage(
		p, found, func(c Customer) pagination.Cursor { return pagination.Cursor{CreatedAt: c.CreatedAt, ID: c.ID} },
	), nil
}

// ForEach calls fn for all of an organization's customers that match the filter, in list order. The
// first error of fn ends it.
func ForEach(ctx context.Context, tx pg.Tx, org string, f Filter, desc bool, fn func(Customer) error) error {
	sql, args := f.orgQuery(org).BuildAll(desc, "c.created_at", "c.customer_id")
	if err := pg.ForEachRow(ctx, tx, sql, args, scanCustomer, fn); err != nil {
		return fmt.Errorf("read the customers of %s: %w", org, err)
	}
	return nil
}

// endOfPrefix follows every text that begins with a prefix, in the order of bytes.
const endOfPrefix = "\U0010FFFF"

// prefixCondition selects the customers whose ids begin with a prefix, by the index of the key.
const prefixCondition = ` WHERE c.org_id = $1 AND c.customer_id >= $2 AND c.customer_id < $3`

// ListByPrefix returns a page of the customers whose ids begin with a prefix, in the order of their ids, so
// that the one with exactly this id comes first. The time of the cursor means nothing. A page reads its own
// rows and no more, however many customers match.
func ListByPrefix(
	ctx context.Context, tx pg.Tx, org, prefix string, p pagination.Page,
) (pagination.Result[Customer], error) {
	after := ""
	if p.Cursor != nil {
		after = p.Cursor.ID
	}
	rows, err := tx.Query(ctx, selectCustomers+prefixCondition+` AND c.customer_id > $4 ORDER BY c.customer_id LIMIT `+
		p.LimitSQL(), pg.Planned(true, []any{org, prefix, prefix + endOfPrefix, after})...)
	if err != nil {
		return pagination.Result[Customer]{}, fmt.Errorf("look for customers of %s: %w", org, err)
	}
	found, err := pgx.CollectRows(rows, scanCustomer)
	if err != nil {
		return pagination.Result[Customer]{}, fmt.Errorf("look for customers of %s: %w", org, err)
	}
	return pagination.CutPage(
		p, found, func(c Customer) pagination.Cursor { return pagination.Cursor{CreatedAt: c.CreatedAt, ID: c.ID} },
	), nil
}

// ForEachByPrefix calls fn for all customers of ListByPrefix. The first error of fn ends it.
func ForEachByPrefix(ctx context.Context, tx pg.Tx, org, prefix string, fn func(Customer) error) error {
	err := pg.ForEachRow(ctx, tx, selectCustomers+prefixCondition+` ORDER BY c.customer_id`,
		[]any{org, prefix, prefix + endOfPrefix}, scanCustomer, fn)
	if err != nil {
		return fmt.Errorf("read customers of %s: %w", org, err)
	}
	return nil
}
