// Package people are the persons of an organization and what their roles let
// them do.
//
// What never happens here: a right that no role gives. What a crash leaves: a
// person or none.
package people

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/jackc/pgx/v5"
)

// Role is what a person is to the organization. A person may have several.
type Role string

// The roles.
const (
	Owner     Role = "OWNER"
	Admin     Role = "ADMIN"
	Approver  Role = "APPROVER"
	Finance   Role = "FINANCE"
	Developer Role = "DEVELOPER"
	Viewer    Role = "VIEWER"
)

// Action is what a person wants to do.
type Action string

// The actions that need a role.
const (
	Approve  Action = "APPROVE"  // approve or remove a withdrawal that waits for approval
	Settings Action = "SETTINGS" // change thresholds
	Withdraw Action = "WITHDRAW" // ask for a withdrawal of the organization's own money
)

var allowed = map[Action][]Role{
	Approve:  {Owner, Admin, Approver},
	Settings: {Owner, Admin},
	Withdraw: {Owner, Admin, Finance},
}

// Person is somebody of one organization.
type Person struct {
	ID        string // usr_…
	OrgID     string
	Email     string // NFKC, lower case
	Name      string
	Roles     []Role
	CreatedAt time.Time
}

// May tells whether one of the person's roles allows the action.
func (p Person) May(a Action) bool {
	return slices.ContainsFunc(p.Roles, func(r Role) bool { return slices.Contains(allowed[a], r) })
}

// Actor is the person in the audit log.
func (p Person) Actor() audit.Actor { return audit.User(p.ID) }

// Add makes a person, in a transaction of the system. Errors: INVALID_REQUEST
// for an e-mail or roles that cannot be, INVALID_STATE when the organization
// has a person with that e-mail.
func Add(ctx context.Context, tx pg.Tx, by audit.Actor, org, email, name string, roles ...Role) (Person, error) {
	email = strings.TrimSpace(email)
	if !customer.PlainEmail(email) {
		return Person{}, fault.New(fault.Invalid, fault.InvalidRequest,
			"%+q has a character that looks like another one or is not shown. Nothing was written. Write the address in plain letters.", email).On("email")
	}
	p := Person{ID: id.New("usr", tx.Now), OrgID: org, Email: customer.FoldEmail(email), Name: name, Roles: roles, CreatedAt: tx.Now}
	if at := strings.IndexByte(p.Email, '@'); at < 1 || at == len(p.Email)-1 {
		return Person{}, fault.New(fault.Invalid, fault.InvalidRequest, "%q is not an e-mail address.", email).On("email")
	}
	texts := make([]string, len(roles))
	for i, r := range roles {
		texts[i] = string(r)
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO people (user_id, org_id, email, name, roles, created_at) VALUES ($1, $2, $3, $4, $5, $6)`,
		p.ID, p.OrgID, p.Email, p.Name, texts, p.CreatedAt)
	switch {
	case pg.Violates(err, "people_email_unique"):
		return Person{}, fault.New(fault.Conflict, fault.InvalidState, "The organization has a person with the e-mail %s.", p.Email).On("email")
	case pg.Violates(err, "people_roles_known"):
		return Person{}, fault.New(fault.Invalid, fault.InvalidRequest,
			"Give at least one role of OWNER, ADMIN, APPROVER, FINANCE, DEVELOPER and VIEWER.").On("roles")
	case err != nil:
		return Person{}, fmt.Errorf("add a person to %s: %w", org, err)
	}
	return p, audit.Record(ctx, tx, audit.Entry{
		OrgID: org, Actor: by, Action: "person.added", ResourceKind: "USER", ResourceID: p.ID,
		Detail: map[string]any{"email": p.Email, "roles": texts},
	})
}

// ByEmail finds a person of the transaction's organization. A transaction of
// the system sees several organizations, and finding two persons is an error.
// Error: NOT_FOUND.
func ByEmail(ctx context.Context, tx pg.Tx, email string) (Person, error) {
	absent := fault.New(fault.NotFound, fault.CodeNotFound, "Nobody here has the e-mail %s.", email)
	if email = strings.TrimSpace(email); !customer.PlainEmail(email) {
		return Person{}, absent
	}
	rows, err := tx.Query(ctx, `
		SELECT user_id, org_id, email, name, roles, created_at FROM people WHERE email = $1`, customer.FoldEmail(email))
	if err != nil {
		return Person{}, fmt.Errorf("look for a person by e-mail: %w", err)
	}
	p, err := pgx.CollectExactlyOneRow(rows, read)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Person{}, absent
	case err != nil:
		return Person{}, fmt.Errorf("look for a person by e-mail: %w", err)
	}
	return p, nil
}

func read(row pgx.CollectableRow) (p Person, err error) {
	var roles []string
	err = row.Scan(&p.ID, &p.OrgID, &p.Email, &p.Name, &roles, &p.CreatedAt)
	for _, r := range roles {
		p.Roles = append(p.Roles, Role(r))
	}
	return p, err
}

// Of are the people of an organization, by e-mail.
func Of(ctx context.Context, tx pg.Tx, org string) ([]Person, error) {
	rows, err := tx.Query(ctx, `SELECT user_id, org_id, email, name, roles, created_at FROM people WHERE org_id = $1 ORDER BY email`, org)
	if err != nil {
		return nil, fmt.Errorf("list the people of %s: %w", org, err)
	}
	found, err := pgx.CollectRows(rows, read)
	if err != nil {
		return nil, fmt.Errorf("list the people of %s: %w", org, err)
	}
	return found, nil
}
