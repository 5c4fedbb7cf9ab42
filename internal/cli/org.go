package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/apikey"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

type orgCmd struct {
	Create   orgCreate   `cmd:"" help:"Create an organization and show its API key, once."`
	Invite   orgInvite   `cmd:"" help:"Invite a person of an organization to its pages, and show the link, once."`
	List     orgList     `cmd:"" help:"Show the organizations."`
	Show     orgShow     `cmd:"" help:"Show an organization: its keys, its people, its settings, its freezes."`
	Freeze   orgFreeze   `cmd:"" help:"Freeze an organization: no payment leaves until the freeze is lifted."`
	Unfreeze orgUnfreeze `cmd:"" help:"Lift the operator's freeze of an organization."`
}

type orgCreate struct {
	configFlags
	Name  string   `arg:"" help:"Its name."`
	Owner []string `placeholder:"EMAIL" help:"People who own it and may approve; repeat it for several."`
}

func (c orgCreate) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	o, key, err := org.CreateBy(ctx, tools.DB(), operator, c.Name)
	if err != nil {
		return err
	}
	fmt.Fprintf(
		std.out,
		"organization  %s\nAPI key       %s\n\nThe key is shown once and moves money: store it so that only the "+
			"backend can read it.\n",
		o.ID, key.Reveal(),
	)
	err = tools.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		for _, email := range c.Owner {
			name, _, _ := strings.Cut(email, "@")
			if _, err := member.Add(ctx, tx, operator, o.ID, email, name, identity.Owner); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the organization exists, and has no people: %w", err)
	}
	for _, email := range c.Owner {
		if err := printInvitation(ctx, std, tools, o.ID, email); err != nil {
			return fmt.Errorf("the organization exists, with its people: coffer org invite %s %s: %w", email, o.ID, err)
		}
	}
	return nil
}

// printInvitation invites a person and prints the link, in an installation with pages. Rule ROLE-6.
func printInvitation(ctx context.Context, std streams, tools *app.App, orgID, email string) error {
	if tools.InvitationURL(seal.Secret{}) == "" {
		return nil
	}
	made, token, err := signin.InviteFromTerminal(ctx, tools.DB(), operator, orgID, email)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "\ninvitation    %s\n%s\n\nThe link works once, until %s. Give it to that person alone: who "+
		"opens it chooses the\npassword.\n", made.Email, tools.InvitationURL(token),
		made.ExpiresAt.UTC().Format(time.RFC3339))
	return nil
}

type orgInvite struct {
	configFlags
	Email string   `arg:"" help:"The person's e-mail."`
	Org   string   `arg:"" optional:"" help:"The organization, org_…; the one of the local world if left out."`
	Role  []string `enum:"OWNER,ADMIN,APPROVER,FINANCE,DEVELOPER,VIEWER" help:"A role of a new person; repeat it for several."`
}

func (c orgInvite) Run(ctx context.Context, std streams) error {
	id, tools, err := orgFlags{configFlags: c.configFlags, Org: c.Org}.openOrg(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	if tools.InvitationURL(seal.Secret{}) == "" {
		return errors.New("this installation has no pages, and no invitation was made: set dashboard.origin")
	}
	err = tools.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if _, err := org.LoadView(ctx, tx, id); err != nil {
			return err
		}
		p, exists, err := member.FindByOrgEmail(ctx, tx, id, customer.FoldEmail(c.Email))
		switch {
		case err != nil:
			return err
		case exists && len(c.Role) > 0:
			return fmt.Errorf("%s has the roles %v already: no invitation was made; leave out --role",
				p.Email, p.Roles)
		case exists:
			return nil
		}
		roles := make([]identity.Role, len(c.Role))
		for i, r := range c.Role {
			roles[i] = identity.Role(r)
		}
		name, _, _ := strings.Cut(c.Email, "@")
		_, err = member.Add(ctx, tx, operator, id, c.Email, name, roles...)
		return err
	})
	if err != nil {
		return err
	}
	return printInvitation(ctx, std, tools, id, c.Email)
}

type orgList struct{ configFlags }

func (c orgList) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	return forEachOrg(ctx, tools.DB(), func(o org.View) {
		frozen := ""
		if o.Frozen {
			frozen = "  FROZEN"
		}
		fmt.Fprintf(std.out, "%s  %s  since %s%s\n", o.ID, o.Name, o.CreatedAt.UTC().Format(time.DateOnly), frozen)
	})
}

// forEachOrg calls fn for every organization, oldest first.
func forEachOrg(ctx context.Context, db *pg.DB, fn func(org.View)) error {
	p := pagination.Page{Limit: pagination.LimitMax}
	for {
		var found pagination.Result[org.View]
		err := db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			found, err = org.List(ctx, tx, org.Filter{}, p)
			return err
		})
		if err != nil {
			return err
		}
		for _, o := range found.Items {
			fn(o)
		}
		if p.Cursor = found.NextCursor; p.Cursor == nil {
			return nil
		}
	}
}

// orgFlags are the flags of the verbs on one organization.
type orgFlags struct {
	configFlags
	Org string `arg:"" optional:"" help:"The organization, org_…; the one of the local world if left out."`
}

// openOrg returns the id of the organization and opened tools, which the caller closes.
func (c orgFlags) openOrg(ctx context.Context) (id string, tools *app.App, err error) {
	if id, err = resolveOrg(c.Org); err != nil {
		return "", nil, err
	}
	tools, err = c.openTools(ctx)
	return id, tools, err
}

type orgShow struct{ orgFlags }

func (c orgShow) Run(ctx context.Context, std streams) error {
	id, tools, err := c.openOrg(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	return tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		o, err := org.LoadView(ctx, tx, id)
		if err != nil {
			return err
		}
		staff, err := member.ListByOrg(ctx, tx, id)
		if err != nil {
			return err
		}
		stopped, err := freeze.ListPage(ctx, tx, freeze.Filter{OrgID: id, IsActive: &onlyStanding},
			pagination.Page{Limit: pagination.LimitMax})
		if err != nil {
			return err
		}
		fmt.Fprintf(std.out, "%s  %s\n  since %s, %s\n", o.ID, o.Name, o.CreatedAt.UTC().Format(time.RFC3339),
			formatKeyState(o))
		for _, p := range staff {
			roles := make([]string, len(p.Roles))
			for i, r := range p.Roles {
				roles[i] = string(r)
			}
			fmt.Fprintf(std.out, "  %s  %s\n", p.Email, strings.Join(roles, " "))
		}
		if len(staff) == 0 {
			fmt.Fprintln(std.out, "  no person who may approve withdrawals")
		}
		for _, f := range stopped.Items {
			fmt.Fprintf(std.out, "  frozen: %s by %s since %s (%s) %s\n", freezeTarget(f), f.Source,
				f.CreatedAt.UTC().Format(time.RFC3339), f.ID, f.Reason)
		}
		return printSettings(ctx, std, tx, id)
	})
}

var onlyStanding = true

// formatKeyState describes an organization's key.
func formatKeyState(o org.View) string {
	if o.KeyCreatedAt == nil {
		return "no API key: coffer key roll " + o.ID + " makes one"
	}
	return "API key of " + o.KeyCreatedAt.UTC().Format(time.RFC3339)
}

type orgFreeze struct {
	orgFlags
	Because string `required:"" help:"The reason, for the person who decides about lifting it."`
}

func (c orgFreeze) Run(ctx context.Context, std streams) error {
	id, tools, err := c.openOrg(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	var f freeze.Freeze
	var added bool
	err = tools.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if _, err := org.LoadView(ctx, tx, id); err != nil {
			return err
		}
		f, added, err = freeze.CreateOrFind(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeOrganization, OrgID: id, Source: freeze.SourceOperator, Reason: c.Because,
			Actor: operator,
		})
		return err
	})
	if err != nil {
		return err
	}
	if !added {
		fmt.Fprintf(std.out, "%s has been frozen since %s (%s): %s\nNothing was changed; the first reason stays.\n",
			id, f.CreatedAt.UTC().Format(time.RFC3339), f.ID, f.Reason)
		return nil
	}
	fmt.Fprintf(
		std.out, "%s is frozen (%s). Deposits are credited as usual. To let payments leave again: coffer org "+
			"unfreeze %s\n",
		id, f.ID, id,
	)
	return nil
}

type orgUnfreeze struct{ orgFlags }

func (c orgUnfreeze) Run(ctx context.Context, std streams) error {
	id, tools, err := c.openOrg(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	var lifted, left []freeze.Freeze
	err = tools.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		lifted, left = nil, nil
		if _, err := org.LoadView(ctx, tx, id); err != nil {
			return err
		}
		standing, err := freeze.ListPage(
			ctx, tx, freeze.Filter{Scope: freeze.ScopeOrganization, OrgID: id, IsActive: &onlyStanding},
			pagination.Page{Limit: pagination.LimitMax},
		)
		if err != nil {
			return err
		}
		for _, f := range standing.Items {
			if f.Source != freeze.SourceOperator {
				left = append(left, f)
				continue
			}
			if _, err := freeze.LiftByOperator(ctx, tx, f.ID, operator); err != nil {
				return err
			}
			lifted = append(lifted, f)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, f := range lifted {
		fmt.Fprintf(std.out, "Freeze %s of %s is lifted.\n", f.ID, id)
	}
	for _, f := range left {
		fmt.Fprintf(std.out, "Freeze %s by %s stays in force: %s\n", f.ID, f.Source, f.Reason)
	}
	if len(lifted) == 0 && len(left) == 0 {
		return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"%s is not frozen.", id).
			WithAdvice("Coffer freezes list shows the freezes.")
	}
	if len(lifted) == 0 {
		return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"%s has no freeze by an operator.", id)
	}
	return nil
}

type keyCmd struct {
	Roll   keyRoll   `cmd:"" help:"Make a new main API key for an organization and show it, once; the service refuses every earlier one from then on."`
	List   keyList   `cmd:"" help:"Show the API keys of an organization, or of all."`
	Revoke keyRevoke `cmd:"" help:"Revoke an API key of an organization permanently."`
}

type keyRoll struct {
	configFlags
	Org string `arg:"" help:"The organization, org_…"`
}

func (c keyRoll) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	key, err := org.RollKey(ctx, tools.DB(), operator, c.Org)
	if err != nil {
		return err
	}
	fmt.Fprintf(
		std.out,
		"API key  %s\n\nEvery process refuses the old key of %s from now on. This one is shown once and moves "+
			"money:\nstore it so that only the backend can read it.\n",
		key.Reveal(), c.Org,
	)
	return c.keepKey(std, func(config string) (bool, error) { return localworld.SaveAPIKey(config, c.Org, key) })
}

type keyList struct {
	configFlags
	Org string `arg:"" optional:"" help:"The organization, org_…; all of them if left out."`
}

func (c keyList) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	if c.Org != "" {
		return tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			o, err := org.LoadView(ctx, tx, c.Org)
			if err != nil {
				return err
			}
			return printKeys(ctx, std, tx, o)
		})
	}
	var orgs []org.View
	if err := forEachOrg(ctx, tools.DB(), func(o org.View) { orgs = append(orgs, o) }); err != nil {
		return err
	}
	for _, o := range orgs {
		if err := tools.DB().ReadSystem(
			ctx, func(ctx context.Context, tx pg.Tx) error { return printKeys(ctx, std, tx, o) },
		); err != nil {
			return err
		}
	}
	return nil
}

// printKeys prints an organization's keys, the main one first.
func printKeys(ctx context.Context, std streams, tx pg.Tx, o org.View) error {
	found, err := apikey.List(ctx, tx, o.ID, pagination.Page{Limit: pagination.LimitMax})
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "%s  %s  %s\n", o.ID, o.Name, formatKeyState(o))
	for _, k := range found.Items {
		fmt.Fprintf(std.out, "  %s  %s  %s  %s", k.ID, k.Scope, k.Status, k.Name)
		for _, moment := range []struct {
			word string
			at   *time.Time
		}{
			{"last used", k.LastUsedAt},
			{"expires", k.ExpiresAt},
			{"former value works until", k.FormerEndsAt},
			{"which was last used", k.FormerLastUsedAt},
		} {
			if moment.at != nil {
				fmt.Fprintf(std.out, "  %s %s", moment.word, moment.at.UTC().Format(time.RFC3339))
			}
		}
		fmt.Fprintln(std.out)
	}
	return nil
}

type keyRevoke struct {
	configFlags
	Org string `arg:"" help:"The organization, org_…"`
	Key string `arg:"" help:"The key's id, key_…; key_main is the main key."`
}

func (c keyRevoke) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	if err := org.RevokeKey(ctx, tools.DB(), operator, c.Org, c.Key); err != nil {
		return err
	}
	fmt.Fprintf(std.out, "Every process refuses key %s of %s from now on.\n", c.Key, c.Org)
	if c.Key == apikey.MainID {
		fmt.Fprintf(std.out, "The organization can make no calls until: coffer key roll %s\n", c.Org)
	}
	return nil
}
