package member

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// MayGrant reports whether the member may give and take roles: an owner all of them, an administrator
// all but OWNER and ADMIN. Rule SIGN-14.
func (p Member) MayGrant(roles ...identity.Role) bool {
	return p.EndedAt.IsZero() && identity.CanManageMember(p.Roles, roles, nil)
}

// ByID finds a member of an organization, also one whose access ended, and locks the row. Error:
// NOT_FOUND, also for a member of another organization.
func ByID(ctx context.Context, tx pg.Tx, org, memberID string) (Member, error) {
	rows, err := tx.Query(ctx, selectMember+` WHERE org_id = $1 AND user_id = $2 FOR NO KEY UPDATE`, org, memberID)
	if err != nil {
		return Member{}, fmt.Errorf("look for person %s: %w", memberID, err)
	}
	p, err := pgx.CollectExactlyOneRow(rows, scanPerson)
	if errors.Is(err, pgx.ErrNoRows) {
		return Member{}, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
			"The organization has no person %s.", memberID)
	}
	if err != nil {
		return Member{}, fmt.Errorf("look for person %s: %w", memberID, err)
	}
	return p, nil
}

// FindByOrgEmail finds a member of an organization by folded e-mail, also one whose access ended, and
// locks the row.
func FindByOrgEmail(ctx context.Context, tx pg.Tx, org, email string) (p Member, exists bool, err error) {
	rows, err := tx.Query(ctx, selectMember+` WHERE org_id = $1 AND email = $2 FOR NO KEY UPDATE`, org, email)
	if err != nil {
		return Member{}, false, fmt.Errorf("look for a person of %s: %w", org, err)
	}
	p, err = pgx.CollectExactlyOneRow(rows, scanPerson)
	if errors.Is(err, pgx.ErrNoRows) {
		return Member{}, false, nil
	}
	if err != nil {
		return Member{}, false, fmt.Errorf("look for a person of %s: %w", org, err)
	}
	return p, true, nil
}

// ListByAccount returns the members with access of an account, by organization.
func ListByAccount(ctx context.Context, tx pg.Tx, accountID string) ([]Member, error) {
	rows, err := tx.Query(ctx, selectMember+` WHERE account_id = $1 AND ended_at IS NULL ORDER BY org_id`, accountID)
	if err != nil {
		return nil, fmt.Errorf("list the persons of %s: %w", accountID, err)
	}
	found, err := pgx.CollectRows(rows, scanPerson)
	if err != nil {
		return nil, fmt.Errorf("list the persons of %s: %w", accountID, err)
	}
	return found, nil
}

// CheckRight refuses a member who may not take an action any more, because the roles changed or the access
// ended after the session was read. It takes no lock. Error: SCOPE_MISSING.
func CheckRight(ctx context.Context, tx pg.Tx, p Member, action identity.Action) error {
	people, err := ListByOrg(ctx, tx, p.OrgID)
	if err != nil {
		return err
	}
	for _, found := range people {
		if found.ID == p.ID && found.IsAllowed(action) {
			return nil
		}
	}
	return fault.New(fault.Forbidden, fault.ScopeMissing, fault.NothingWritten,
		"Your roles do not allow this any more.").
		WithAdvice("Ask a person of your organization who has the role.")
}

// LockChosen locks a member with access of an account against a change of roles until the transaction
// ends. Error: NOT_FOUND.
func LockChosen(ctx context.Context, tx pg.Tx, accountID, org string) (Member, error) {
	rows, err := tx.Query(ctx, selectMember+`
		WHERE account_id = $1 AND org_id = $2 AND ended_at IS NULL FOR SHARE`, accountID, org)
	if err != nil {
		return Member{}, fmt.Errorf("look for the person of %s in %s: %w", accountID, org, err)
	}
	p, err := pgx.CollectExactlyOneRow(rows, scanPerson)
	if errors.Is(err, pgx.ErrNoRows) {
		return Member{}, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
			"The account has no organization %s.", org)
	}
	if err != nil {
		return Member{}, fmt.Errorf("look for the person of %s in %s: %w", accountID, org, err)
	}
	return p, nil
}

// SetRoles replaces the roles of a member. The caller ends the member's sessions in the same
// transaction, or its COMMIT is refused. Errors: INVALID_REQUEST, INVALID_STATE for the last owner.
func SetRoles(ctx context.Context, tx pg.Tx, actor audit.Actor, p Member, roles []identity.Role) (Member, error) {
	if err := checkRoles(roles); err != nil {
		return Member{}, err
	}
	if !slices.Contains(roles, identity.Owner) {
		if err := checkLastOwner(ctx, tx, p); err != nil {
			return Member{}, err
		}
	}
	texts := roleTexts(roles)
	if _, err := tx.Exec(ctx, `UPDATE people SET roles = $3 WHERE org_id = $1 AND user_id = $2`,
		p.OrgID, p.ID, texts); err != nil {
		return Member{}, fmt.Errorf("change the roles of %s: %w", p.ID, err)
	}
	before := roleTexts(p.Roles)
	p.Roles = roles
	return p, audit.Record(ctx, tx, audit.Entry{
		OrgID: p.OrgID, Actor: actor, Action: "person.roles_changed", ResourceKind: "USER", ResourceID: p.ID,
		Detail: map[string]any{"before": before, "roles": texts},
	})
}

// EndAccess ends the access of a member and keeps the row. The caller ends the member's sessions in
// the same transaction. Errors: INVALID_STATE for the last owner and for access that ended before.
func EndAccess(ctx context.Context, tx pg.Tx, actor audit.Actor, p Member) error {
	if !p.EndedAt.IsZero() {
		return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"The access of %s has ended already.", p.Email)
	}
	if err := checkLastOwner(ctx, tx, p); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `UPDATE people SET ended_at = $3 WHERE org_id = $1 AND user_id = $2`,
		p.OrgID, p.ID, tx.Now); err != nil {
		return fmt.Errorf("end the access of %s: %w", p.ID, err)
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: p.OrgID, Actor: actor, Action: "person.access_ended", ResourceKind: "USER", ResourceID: p.ID,
		Detail: map[string]any{"email": p.Email},
	})
}

// RestoreAccess gives a member whose access ended new roles and no account: only a new invitation
// lets the member in. Error: INVALID_REQUEST.
func RestoreAccess(
	ctx context.Context, tx pg.Tx, actor audit.Actor, p Member, name string, roles []identity.Role,
) (Member, error) {
	if err := checkRoles(roles); err != nil {
		return Member{}, err
	}
	if _, err := tx.Exec(ctx, `
		UPDATE people SET ended_at = NULL, account_id = NULL, name = $3, roles = $4
		WHERE org_id = $1 AND user_id = $2 AND ended_at IS NOT NULL`,
		p.OrgID, p.ID, name, roleTexts(roles)); err != nil {
		return Member{}, fmt.Errorf("restore the access of %s: %w", p.ID, err)
	}
	restored := Member{ID: p.ID, OrgID: p.OrgID, Email: p.Email, Name: name, Roles: roles, CreatedAt: p.CreatedAt}
	return restored, audit.Record(ctx, tx, audit.Entry{
		OrgID: p.OrgID, Actor: actor, Action: "person.access_restored", ResourceKind: "USER", ResourceID: p.ID,
		Detail: map[string]any{"email": p.Email, "roles": roleTexts(roles)},
	})
}

// JoinAccount gives a member its account. The database checks the e-mail and the side. isJoined is
// false if the member has an account or no access.
func JoinAccount(ctx context.Context, tx pg.Tx, memberID, accountID string) (isJoined bool, err error) {
	tag, err := tx.Exec(ctx, `
		UPDATE people SET account_id = $2 WHERE user_id = $1 AND account_id IS NULL AND ended_at IS NULL`,
		memberID, accountID)
	if err != nil {
		return false, fmt.Errorf("give person %s the account %s: %w", memberID, accountID, err)
	}
	return tag.RowsAffected() == 1, nil
}

// checkLastOwner refuses to take the last owner who can sign in. It locks the organization's owners.
func checkLastOwner(ctx context.Context, tx pg.Tx, p Member) error {
	if !slices.Contains(p.Roles, identity.Owner) {
		return nil
	}
	rows, err := tx.Query(ctx, `
		SELECT user_id FROM people
		WHERE org_id = $1 AND ended_at IS NULL AND account_id IS NOT NULL AND 'OWNER' = ANY (roles)
		ORDER BY user_id FOR NO KEY UPDATE`, p.OrgID)
	if err != nil {
		return fmt.Errorf("look for the owners of %s: %w", p.OrgID, err)
	}
	owners, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("look for the owners of %s: %w", p.OrgID, err)
	}
	if len(owners) == 1 && owners[0] == p.ID {
		return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"%s is the organization's only owner who can sign in.", p.Email).
			WithAdvice("Make another person an owner first.")
	}
	return nil
}

func checkRoles(roles []identity.Role) error {
	allRoles := []identity.Role{
		identity.Owner, identity.Admin, identity.Approver, identity.Finance, identity.Developer, identity.Viewer,
	}
	isUnknown := func(r identity.Role) bool { return !slices.Contains(allRoles, r) }
	if len(roles) == 0 || slices.ContainsFunc(roles, isUnknown) {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"Give at least one role of OWNER, ADMIN, APPROVER, FINANCE, DEVELOPER and VIEWER.").WithParam("roles")
	}
	return nil
}

func roleTexts(roles []identity.Role) []string {
	texts := make([]string, len(roles))
	for i, r := range roles {
		texts[i] = string(r)
	}
	return texts
}
