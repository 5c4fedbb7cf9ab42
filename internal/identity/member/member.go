// Package member stores the members of an organization.
//
// It never grants a right that the table of permissions gives to none of a member's roles. A crash
// leaves a complete member or none.
package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/jackc/pgx/v5"
)

// Member is a member of one organization.
type Member struct {
	ID        string // usr_…
	OrgID     string
	Email     string // NFKC, lower case
	Name      string
	Roles     []identity.Role
	CreatedAt time.Time
	AccountID string    // "" until the invitation is accepted
	EndedAt   time.Time // zero while the member has access
}

// IsAllowed reports whether one of the member's roles allows the action. A member whose access ended
// may do nothing. Rules WD-56 and OW-7.
func (p Member) IsAllowed(action identity.Action) bool {
	allowed := identity.PermissionOf(action).Roles
	return p.EndedAt.IsZero() && slices.ContainsFunc(p.Roles,
		func(r identity.Role) bool { return slices.Contains(allowed, r) })
}

// IsAllowedForOwn reports whether one of the member's roles allows the action for what concerns the member's
// own acts alone. A member whose access ended may do nothing. Rule PAGE-12.
func (p Member) IsAllowedForOwn(action identity.Action) bool {
	allowed := identity.PermissionOf(action).OwnRoles
	return p.EndedAt.IsZero() && slices.ContainsFunc(p.Roles,
		func(r identity.Role) bool { return slices.Contains(allowed, r) })
}

// Actor returns the member as an actor of the audit log.
func (p Member) Actor() audit.Actor { return audit.User(p.ID) }

// Add creates a member, in a transaction of the system. Errors: INVALID_REQUEST for an
// invalid e-mail or invalid roles, INVALID_STATE if the organization has a member with that e-mail.
func Add(
	ctx context.Context, tx pg.Tx, actor audit.Actor, org, email, name string, roles ...identity.Role,
) (Member, error) {
	email = strings.TrimSpace(email)
	if !customer.PlainEmail(email) {
		return Member{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"%+q has a character that looks like another one or is not shown.", email).
			WithAdvice("Write the address in plain letters.").
			WithParam("email")
	}
	p := Member{
		ID: id.New("usr", tx.Now), OrgID: org, Email: customer.FoldEmail(email), Name: name, Roles: roles,
		CreatedAt: tx.Now,
	}
	if atSign := strings.IndexByte(p.Email, '@'); atSign < 1 || atSign == len(p.Email)-1 {
		return Member{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"%q is not an e-mail address.", email).
			WithParam("email")
	}
	texts := make([]string, len(roles))
	for i, r := range roles {
		texts[i] = string(r)
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO people (user_id, org_id, email, name, roles, created_at) VALUES ($1, $2, $3, $4, $5, $6)`,
		p.ID, p.OrgID, p.Email, p.Name, texts, p.CreatedAt)
	switch {
	case pg.ViolatesConstraint(err, "people_email_unique"):
		return Member{}, fault.New(
			fault.Conflict, fault.InvalidState, fault.NothingWritten, "The organization already has a person "+
				"with the e-mail %s.", p.Email,
		).WithParam("email")
	case pg.ViolatesConstraint(err, "people_roles_known"):
		return Member{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"Give at least one role of OWNER, ADMIN, APPROVER, FINANCE, DEVELOPER and VIEWER.").WithParam("roles")
	case err != nil:
		return Member{}, fmt.Errorf("add a person to %s: %w", org, err)
	}
	return p, audit.Record(ctx, tx, audit.Entry{
		OrgID: org, Actor: actor, Action: "person.added", ResourceKind: "USER", ResourceID: p.ID,
		Detail: map[string]any{"email": p.Email, "roles": texts},
	})
}

// ByEmail finds a member with access of the transaction's organization. A transaction of the system sees
// several organizations, and finding two members is an error. Error: NOT_FOUND.
func ByEmail(ctx context.Context, tx pg.Tx, email string) (Member, error) {
	notFound := fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"No person of this organization has the e-mail %s.", email)
	if email = strings.TrimSpace(email); !customer.PlainEmail(email) {
		return Member{}, notFound
	}
	rows, err := tx.Query(ctx, `
		SELECT user_id, org_id, email, name, roles, created_at, account_id, ended_at FROM people
		WHERE email = $1 AND ended_at IS NULL`, customer.FoldEmail(email))
	if err != nil {
		return Member{}, fmt.Errorf("look for a person by e-mail: %w", err)
	}
	p, err := pgx.CollectExactlyOneRow(rows, scanPerson)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Member{}, notFound
	case err != nil:
		return Member{}, fmt.Errorf("look for a person by e-mail: %w", err)
	}
	return p, nil
}

const selectMember = `
	SELECT user_id, org_id, email, name, roles, created_at, account_id, ended_at FROM people`

func scanPerson(row pgx.CollectableRow) (p Member, err error) {
	var roles []string
	var accountID *string
	var endedAt *time.Time
	err = row.Scan(&p.ID, &p.OrgID, &p.Email, &p.Name, &roles, &p.CreatedAt, &accountID, &endedAt)
	if accountID != nil {
		p.AccountID = *accountID
	}
	if endedAt != nil {
		p.EndedAt = *endedAt
	}
	for _, r := range roles {
		p.Roles = append(p.Roles, identity.Role(r))
	}
	return p, err
}

// ListByOrg returns the members of an organization, ordered by e-mail. Members whose access ended
// have their row.
func ListByOrg(ctx context.Context, tx pg.Tx, org string) ([]Member, error) {
	rows, err := tx.Query(
		ctx, selectMember+` WHERE org_id = $1 ORDER BY email`, org,
	)
	if err != nil {
		return nil, fmt.Errorf("list the people of %s: %w", org, err)
	}
	found, err := pgx.CollectRows(rows, scanPerson)
	if err != nil {
		return nil, fmt.Errorf("list the people of %s: %w", org, err)
	}
	return found, nil
}
