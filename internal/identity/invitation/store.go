package invitation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// CreateForMember makes the invitation of a member who has no account, in place of an open one. Error:
// INVALID_STATE.
func CreateForMember(ctx context.Context, tx pg.Tx, p member.Member) (Invitation, seal.Secret, error) {
	if p.AccountID != "" || !p.EndedAt.IsZero() {
		return Invitation{}, seal.Secret{}, notInvitable(p.Email)
	}
	return create(ctx, tx, Invitation{
		Side: account.MemberSide, Email: p.Email, Name: p.Name, OrgID: p.OrgID, MemberID: p.ID, Roles: p.Roles,
	})
}

// CreateForOperator makes the invitation of an operator who has no account, in place of an open one.
// Error: INVALID_STATE.
func CreateForOperator(ctx context.Context, tx pg.Tx, p operator.Person) (Invitation, seal.Secret, error) {
	if p.AccountID != "" || !p.EndedAt.IsZero() {
		return Invitation{}, seal.Secret{}, notInvitable(p.Email)
	}
	return create(ctx, tx, Invitation{
		Side: account.OperatorSide, Email: p.Email, Name: p.Name, OperatorID: p.ID, OperatorRoles: p.Roles,
	})
}

func notInvitable(email string) error {
	return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
		"%s has an account already, or the access has ended.", email)
}

func create(ctx context.Context, tx pg.Tx, i Invitation) (Invitation, seal.Secret, error) {
	token, hash := account.NewToken()
	i.ID, i.CreatedAt, i.ExpiresAt = id.New("inv", tx.Now), tx.Now, tx.Now.Add(Lasts)
	if _, err := End(ctx, tx, i, "REPLACED"); err != nil {
		return Invitation{}, seal.Secret{}, err
	}
	if _, err := tx.Exec(ctx, `
		INSERT INTO invitations (invitation_id, hash, org_id, member_id, operator_id, created_at, expires_at)
		VALUES ($1, $2, nullif($3, ''), nullif($4, ''), nullif($5, ''), $6, $7)`,
		i.ID, hash, i.OrgID, i.MemberID, i.OperatorID, i.CreatedAt, i.ExpiresAt); err != nil {
		return Invitation{}, seal.Secret{}, fmt.Errorf("make an invitation: %w", err)
	}
	return i, token, nil
}

// End ends the open invitation of the same person, as REPLACED or REVOKED; hasEnded is false if there
// is none.
func End(ctx context.Context, tx pg.Tx, i Invitation, reason string) (hasEnded bool, err error) {
	tag, err := tx.Exec(ctx, `
		UPDATE invitations SET ended_at = $3, end_reason = $4
		WHERE ended_at IS NULL AND (member_id = nullif($1, '') OR operator_id = nullif($2, ''))`,
		i.MemberID, i.OperatorID, tx.Now, reason)
	if err != nil {
		return false, fmt.Errorf("end an invitation: %w", err)
	}
	return tag.RowsAffected() > 0, nil
}

// ListOpen returns until when the persons of an organization have open invitations, by member id.
func ListOpen(ctx context.Context, tx pg.Tx, org string) (map[string]time.Time, error) {
	rows, err := tx.Query(ctx, `
		SELECT member_id, expires_at FROM invitations WHERE org_id = $1 AND ended_at IS NULL AND expires_at > $2`, org, tx.Now)
	if err != nil {
		return nil, fmt.Errorf("list the invitations of %s: %w", org, err)
	}
	open := map[string]time.Time{}
	var memberID string
	var expiresAt time.Time
	if _, err := pgx.ForEachRow(rows, []any{&memberID, &expiresAt}, func() error {
		open[memberID] = expiresAt
		return nil
	}); err != nil {
		return nil, fmt.Errorf("list the invitations of %s: %w", org, err)
	}
	return open, nil
}

// Find returns the open invitation of a token on one side and changes nothing. Error: NOT_FOUND, the
// same for one that is unknown, used, replaced, revoked or too old. Rule SIGN-7.
func Find(ctx context.Context, tx pg.Tx, side account.Side, token seal.Secret) (Invitation, error) {
	var i Invitation
	var roles []string
	err := tx.QueryRow(ctx, `
		SELECT i.invitation_id, coalesce(p.email, o.email), coalesce(p.name, o.name), coalesce(i.org_id, ''),
			coalesce(g.name, ''), coalesce(i.member_id, ''), coalesce(i.operator_id, ''), coalesce(p.roles, o.roles),
			i.created_at, i.expires_at,
			EXISTS (SELECT FROM accounts a WHERE a.side = $2 AND a.email = coalesce(p.email, o.email))
		FROM invitations i
		LEFT JOIN people p ON p.user_id = i.member_id
		LEFT JOIN organizations g ON g.org_id = i.org_id
		LEFT JOIN operators o ON o.operator_id = i.operator_id
		WHERE i.hash = $1 AND i.ended_at IS NULL AND i.expires_at > $3 AND (i.operator_id IS NOT NULL) = ($2 = 'OPERATOR')`,
		account.HashToken(token), side, tx.Now).
		Scan(&i.ID, &i.Email, &i.Name, &i.OrgID, &i.OrgName, &i.MemberID, &i.OperatorID, &roles, &i.CreatedAt,
			&i.ExpiresAt, &i.HasAccount)
	if errors.Is(err, pgx.ErrNoRows) {
		return Invitation{}, notOpen()
	}
	if err != nil {
		return Invitation{}, fmt.Errorf("look for an invitation: %w", err)
	}
	i.Side = side
	for _, r := range roles {
		if side == account.OperatorSide {
			i.OperatorRoles = append(i.OperatorRoles, operator.Role(r))
		} else {
			i.Roles = append(i.Roles, identity.Role(r))
		}
	}
	return i, nil
}

// Accept consumes an open invitation for an account of its e-mail. Of two that accept it at once, one
// gets NOT_FOUND. Rule SIGN-7.
func Accept(ctx context.Context, tx pg.Tx, i Invitation, accountID string) error {
	isJoined, err := false, error(nil)
	if i.Side == account.OperatorSide {
		isJoined, err = operator.JoinAccount(ctx, tx, i.OperatorID, accountID)
	} else {
		isJoined, err = member.JoinAccount(ctx, tx, i.MemberID, accountID)
	}
	if err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, `
		UPDATE invitations SET ended_at = $2, end_reason = 'ACCEPTED'
		WHERE invitation_id = $1 AND ended_at IS NULL AND expires_at > $2`, i.ID, tx.Now)
	if err != nil {
		return fmt.Errorf("accept invitation %s: %w", i.ID, err)
	}
	if !isJoined || tag.RowsAffected() == 0 {
		return notOpen()
	}
	return nil
}

func notOpen() error {
	return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
		"The invitation is not open: it was used or replaced, or it is older than 72 hours.").
		WithAdvice("Ask for a new one.")
}
