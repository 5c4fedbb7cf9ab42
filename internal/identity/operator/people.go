package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const selectPerson = `
	SELECT operator_id, account_id, email, name, roles, created_at, ended_at FROM operators`

func scanPerson(row pgx.CollectableRow) (p Person, err error) {
	var accountID *string
	var endedAt *time.Time
	var roles []string
	err = row.Scan(&p.ID, &accountID, &p.Email, &p.Name, &roles, &p.CreatedAt, &endedAt)
	if accountID != nil {
		p.AccountID = *accountID
	}
	if endedAt != nil {
		p.EndedAt = *endedAt
	}
	for _, r := range roles {
		p.Roles = append(p.Roles, Role(r))
	}
	return p, err
}

// AddPerson adds an operator with a folded e-mail, or restores one whose access ended. Only an
// invitation lets the operator in. Errors: INVALID_REQUEST, INVALID_STATE if the operator has access.
func AddPerson(ctx context.Context, tx pg.Tx, actor audit.Actor, email, name string, roles []Role) (Person, error) {
	texts, err := checkRoles(roles)
	if err != nil {
		return Person{}, err
	}
	p := Person{ID: id.New("opr", tx.Now), Email: email, Name: name, Roles: roles, CreatedAt: tx.Now}
	action := "operator.added"
	err = tx.QueryRow(ctx, `
		INSERT INTO operators AS o (operator_id, email, name, roles, created_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (email) DO UPDATE SET ended_at = NULL, account_id = NULL, name = EXCLUDED.name, roles = EXCLUDED.roles
			WHERE o.ended_at IS NOT NULL
		RETURNING operator_id, created_at`, p.ID, p.Email, p.Name, texts, p.CreatedAt).Scan(&p.ID, &p.CreatedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return Person{}, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"There is an operator with the e-mail %s.", email).WithParam("email")
	}
	if err != nil {
		return Person{}, fmt.Errorf("add an operator: %w", err)
	}
	if !p.CreatedAt.Equal(tx.Now) {
		action = "operator.access_restored"
	}
	return p, recordPerson(ctx, tx, actor, action, p)
}

// PersonByID finds an operator, also one whose access ended, and locks the row. Error: NOT_FOUND.
func PersonByID(ctx context.Context, tx pg.Tx, operatorID string) (Person, error) {
	return onePerson(ctx, tx, operatorID, selectPerson+` WHERE operator_id = $1 FOR NO KEY UPDATE`, operatorID)
}

// PersonByEmail finds an operator by folded e-mail and locks the row. Error: NOT_FOUND.
func PersonByEmail(ctx context.Context, tx pg.Tx, email string) (Person, error) {
	return onePerson(ctx, tx, email, selectPerson+` WHERE email = $1 FOR NO KEY UPDATE`, email)
}

func onePerson(ctx context.Context, tx pg.Tx, name, sql string, args ...any) (Person, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return Person{}, fmt.Errorf("look for operator %s: %w", name, err)
	}
	p, err := pgx.CollectExactlyOneRow(rows, scanPerson)
	if errors.Is(err, pgx.ErrNoRows) {
		return Person{}, fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten, "There is no operator %s.", name)
	}
	if err != nil {
		return Person{}, fmt.Errorf("look for operator %s: %w", name, err)
	}
	return p, nil
}

// ListPeople returns all operators, those whose access ended included, by e-mail.
func ListPeople(ctx context.Context, tx pg.Tx) ([]Person, error) {
	rows, err := tx.Query(ctx, selectPerson+` ORDER BY email`)
	if err != nil {
		return nil, fmt.Errorf("list the operators: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanPerson)
	if err != nil {
		return nil, fmt.Errorf("list the operators: %w", err)
	}
	return found, nil
}

// SetRoles replaces the roles of an operator. The caller ends the operator's sessions in the same
// transaction, or its COMMIT is refused. Errors: INVALID_REQUEST, INVALID_STATE for the last operator.
func SetRoles(ctx context.Context, tx pg.Tx, actor audit.Actor, p Person, roles []Role) (Person, error) {
	texts, err := checkRoles(roles)
	if err != nil {
		return Person{}, err
	}
	if !slices.Contains(roles, RoleOperator) {
		if err := checkLastOperator(ctx, tx, p); err != nil {
			return Person{}, err
		}
	}
	if _, err := tx.Exec(ctx, `UPDATE operators SET roles = $2 WHERE operator_id = $1`, p.ID, texts); err != nil {
		return Person{}, fmt.Errorf("change the roles of %s: %w", p.ID, err)
	}
	p.Roles = roles
	return p, recordPerson(ctx, tx, actor, "operator.roles_changed", p)
}

// EndPerson ends the access of an operator and keeps the row. The caller ends the operator's sessions
// in the same transaction. Error: INVALID_STATE.
func EndPerson(ctx context.Context, tx pg.Tx, actor audit.Actor, p Person) error {
	if !p.EndedAt.IsZero() {
		return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"The access of %s has ended already.", p.Email)
	}
	if err := checkLastOperator(ctx, tx, p); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `UPDATE operators SET ended_at = $2 WHERE operator_id = $1`, p.ID, tx.Now); err != nil {
		return fmt.Errorf("end the access of %s: %w", p.ID, err)
	}
	return recordPerson(ctx, tx, actor, "operator.access_ended", p)
}

// JoinAccount gives an operator its account. The database checks the e-mail and the side. isJoined is
// false if the operator has an account or no access.
func JoinAccount(ctx context.Context, tx pg.Tx, operatorID, accountID string) (isJoined bool, err error) {
	tag, err := tx.Exec(ctx, `
		UPDATE operators SET account_id = $2 WHERE operator_id = $1 AND account_id IS NULL AND ended_at IS NULL`,
		operatorID, accountID)
	if err != nil {
		return false, fmt.Errorf("give operator %s the account %s: %w", operatorID, accountID, err)
	}
	return tag.RowsAffected() == 1, nil
}

// checkLastOperator refuses to take the last operator who can sign in and do more than read.
func checkLastOperator(ctx context.Context, tx pg.Tx, p Person) error {
	if !slices.Contains(p.Roles, RoleOperator) {
		return nil
	}
	rows, err := tx.Query(ctx, `
		SELECT operator_id FROM operators WHERE ended_at IS NULL AND account_id IS NOT NULL AND 'OPERATOR' = ANY (roles)
		ORDER BY operator_id FOR NO KEY UPDATE`)
	if err != nil {
		return fmt.Errorf("look for the operators: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("look for the operators: %w", err)
	}
	if len(all) == 1 && all[0] == p.ID {
		return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"%s is the only operator who can sign in.", p.Email).WithAdvice("Invite another operator first.")
	}
	return nil
}

func checkRoles(roles []Role) ([]string, error) {
	texts := make([]string, len(roles))
	for i, r := range roles {
		texts[i] = string(r)
		if r != RoleOperator && r != RoleAuditor {
			texts = nil
			break
		}
	}
	if len(texts) == 0 {
		return nil, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"Give at least one role of OPERATOR and AUDITOR.").WithParam("roles")
	}
	return texts, nil
}

func recordPerson(ctx context.Context, tx pg.Tx, actor audit.Actor, action string, p Person) error {
	return audit.Record(ctx, tx, audit.Entry{
		Actor: actor, Action: action, ResourceKind: "OPERATOR", ResourceID: p.ID,
		Detail: map[string]any{"email": p.Email, "roles": p.Roles},
	})
}
