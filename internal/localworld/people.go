package localworld

import (
	"context"
	"fmt"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// worldPassword is the password of every person of a local world. The world's own file has it, too.
const worldPassword = "a password of the local world"

// codePeriod is how long an authenticator app shows a code.
const codePeriod = 30 * time.Second

// codeTries is how many codes a person enters: on a busy machine, one may be out of date before it is checked.
const codeTries = 3

// people are the people of a local world, one for each role. The first is the owner.
var people = []struct {
	email, name string
	role        identity.Role
}{
	{"owner@example.test", "Olivia Owner", identity.Owner},
	{"admin@example.test", "Adam Admin", identity.Admin},
	{"approver@example.test", "Anna Approver", identity.Approver},
	{"finance@example.test", "Felix Finance", identity.Finance},
	{"developer@example.test", "Dana Developer", identity.Developer},
	{"viewer@example.test", "Victor Viewer", identity.Viewer},
}

// operators are the operators of a local world: two who act, so that one approves what the other requests,
// and a third who only reads.
var operators = []struct {
	email, name string
	role        operator.Role
}{
	{"operator@example.test", "Otto Operator", operator.RoleOperator},
	{"second@example.test", "Susan Second", operator.RoleOperator},
	{"auditor@example.test", "Alma Auditor", operator.RoleAuditor},
}

// makeOperators invites the operators of the world and accepts for them.
func (w *World) makeOperators(ctx context.Context) ([]User, error) {
	var users []User
	for _, p := range operators {
		_, token, err := signin.InviteOperatorFromTerminal(
			ctx, w.app.DB(), audit.Operator("local world"), p.email, p.name, []operator.Role{p.role})
		if err != nil {
			return nil, fmt.Errorf("invite %s: %w", p.email, err)
		}
		secret, err := acceptInvitation(ctx, w.app.OperatorSignIn, token, p.name)
		if err != nil {
			return nil, fmt.Errorf("accept the invitation of %s: %w", p.email, err)
		}
		users = append(users, User{
			Email: p.email, Password: worldPassword, TOTPSecret: secret, Roles: []string{string(p.role)},
		})
	}
	return users, nil
}

// makePeople invites the people of the world and accepts for them. A kept world of an earlier version
// has some of them.
func (w *World) makePeople(ctx context.Context, org string) ([]User, error) {
	actor := audit.Operator("local world")
	var users []User
	for _, p := range people {
		err := w.app.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			_, exists, err := member.FindByOrgEmail(ctx, tx, org, p.email)
			if err != nil || exists {
				return err
			}
			_, err = member.Add(ctx, tx, actor, org, p.email, p.name, p.role)
			return err
		})
		if err != nil {
			return nil, err
		}
		_, token, err := signin.InviteFromTerminal(ctx, w.app.DB(), actor, org, p.email)
		if err != nil {
			return nil, fmt.Errorf("invite %s: %w", p.email, err)
		}
		secret, err := acceptInvitation(ctx, w.app.SignIn, token, p.name)
		if err != nil {
			return nil, fmt.Errorf("accept the invitation of %s: %w", p.email, err)
		}
		users = append(users, User{
			Email: p.email, Password: worldPassword, TOTPSecret: secret, Roles: []string{string(p.role)},
		})
	}
	return users, nil
}

// acceptInvitation makes an account with an authenticator app and returns the secret of the app. It
// confirms the app with the code before the present one, so the present one can be used to sign in.
func acceptInvitation(ctx context.Context, people *signin.Service, token seal.Secret, name string) (string, error) {
	accepted, err := people.AcceptInvitation(ctx, signin.Client{}, token, name, "", seal.NewSecret(worldPassword))
	if err != nil {
		return "", err
	}
	enrolment, err := people.StartTOTP(ctx, accepted.Session)
	if err != nil {
		return "", err
	}
	secret := enrolment.Secret.Reveal()
	var opened signin.Result
	for range codeTries {
		var code string
		if code, err = totp.GenerateCode(secret, time.Now().Add(-codePeriod)); err != nil {
			return "", err
		}
		if opened, err = people.ConfirmTOTP(
			ctx, signin.Client{}, accepted.Session, seal.NewSecret(code),
		); err == nil {
			return secret, people.SignOut(ctx, opened.Session)
		}
	}
	return "", err
}
