package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	operators "github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/signin"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/report"
)

type operatorCmd struct {
	Key    operatorKey    `cmd:"" help:"The keys of the operator's interface."`
	Invite operatorInvite `cmd:"" help:"Invite an operator to the console, and show the link, once."`
}

type operatorInvite struct {
	configFlags
	Email string   `arg:"" help:"The operator's e-mail."`
	Name  string   `help:"The operator's name; the part of the e-mail before the @ if left out."`
	Role  []string `enum:"OPERATOR,AUDITOR" help:"OPERATOR, or AUDITOR for one who only reads; OPERATOR if left out."`
}

// Run invites an operator, or makes another link for one who has not opened the first. Rule PAGE-41.
func (c operatorInvite) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	if tools.OperatorInvitationURL(seal.Secret{}) == "" {
		return errors.New("this installation has no console, and no invitation was made: set console.origin")
	}
	name := c.Name
	if name == "" {
		name, _, _ = strings.Cut(c.Email, "@")
	}
	roles := make([]operators.Role, len(c.Role))
	for i, r := range c.Role {
		roles[i] = operators.Role(r)
	}
	if len(roles) == 0 {
		roles = []operators.Role{operators.RoleOperator}
	}
	made, token, err := signin.InviteOperatorFromTerminal(ctx, tools.DB(), operator, c.Email, name, roles)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "invitation    %s\nroles         %v\n%s\n\nThe link works once, until %s. Give it to that "+
		"person alone: who opens it chooses the\npassword.\n", made.Email, made.OperatorRoles,
		tools.OperatorInvitationURL(token), made.ExpiresAt.UTC().Format(time.RFC3339))
	return nil
}

type operatorKey struct {
	Create operatorKeyCreate `cmd:"" help:"Make a key for a holder and show it, once."`
	Roll   operatorKeyRoll   `cmd:"" help:"Give a holder another key; the service refuses the old one from then on."`
	Revoke operatorKeyRevoke `cmd:"" help:"Revoke a key."`
	List   operatorKeyList   `cmd:"" help:"Show all keys and their holders, including revoked ones."`
}

type operatorKeyCreate struct {
	configFlags
	Name string `arg:"" help:"The holder, as the audit log shall show them: a person or a program."`
}

func (c operatorKeyCreate) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	k, secret, err := operators.CreateKey(ctx, tools.DB(), operator, c.Name)
	if err != nil {
		return err
	}
	printOperatorKey(std, k, secret)
	return nil
}

func printOperatorKey(std streams, k operators.Key, secret seal.Secret) {
	fmt.Fprintf(
		std.out,
		"key id        %s\noperator key  %s\n\nThe key of %s is shown once. Send it in the header x-operator-key. It "+
			"reads and changes every organization.\n",
		k.ID, secret.Reveal(), k.Name,
	)
}

// keyFlags names a key.
type keyFlags struct {
	configFlags
	Key string `arg:"" help:"The key's id, opk_…, or its holder."`
}

type operatorKeyRoll struct{ keyFlags }

func (c operatorKeyRoll) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	k, secret, err := operators.RollKey(ctx, tools.DB(), operator, c.Key)
	if err != nil {
		return err
	}
	printOperatorKey(std, k, secret)
	fmt.Fprintln(std.out, "Every process refuses the old one from now on.")
	return c.keepKey(std, func(config string) (bool, error) {
		return localworld.SaveOperatorKey(config, k.Name, secret)
	})
}

type operatorKeyRevoke struct{ keyFlags }

func (c operatorKeyRevoke) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	k, err := operators.RevokeKey(ctx, tools.DB(), operator, c.Key)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "Every process refuses key %s of %s from now on.\n", k.ID, k.Name)
	return nil
}

type operatorKeyList struct{ configFlags }

func (c operatorKeyList) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	var keys []operators.Key
	err = tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		keys, err = operators.ListKeys(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		fmt.Fprintln(std.out, "There is no operator's key. Make one: coffer operator key create NAME")
	}
	for _, k := range keys {
		ended := ""
		if k.RevokedAt != nil {
			ended = "  revoked " + k.RevokedAt.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(std.out, "%s  %s  since %s%s\n", k.ID, k.Name, k.CreatedAt.UTC().Format(time.RFC3339), ended)
	}
	return nil
}

type reservesCmd struct {
	configFlags
	Org string `help:"Only of this organization, org_…"`
}

// Run shows a snapshot: the holdings and the liabilities are of one moment.
func (c reservesCmd) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	var reserves []report.Reserve
	err = tools.DB().Snapshot(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		reserves, err = report.LoadReserves(ctx, tx, c.Org)
		return err
	})
	if err != nil {
		return err
	}
	if len(reserves) == 0 {
		fmt.Fprintln(std.out, "No address has held anything yet.")
	}
	for _, r := range reserves {
		held, err := r.HeldAmount()
		if err != nil {
			return err
		}
		owed, err := r.SumLiabilities()
		if err != nil {
			return err
		}
		position := "not read yet"
		if r.Block != nil {
			position = fmt.Sprintf("at block %d", r.Block.Height)
		}
		customers, err := r.Available.Add(r.Withdrawing)
		if err == nil {
			customers, err = customers.Add(r.InSwap)
		}
		if err != nil {
			return err
		}
		d := r.Mint.Decimals
		fmt.Fprintf(std.out,
			"%s on %s, %s\n  held %s: %s on deposit addresses, %s in treasuries\n  owed %s: %s to customers, %s of "+
				"it being withdrawn and %s in swaps; %s of organizations, %s of gas, %s in suspense, %s not credited "+
				"yet, %s below the minimum\n",
			r.Mint.Symbol, r.Mint.Chain, position, held.Decimal(d), r.DepositAddresses.Decimal(d),
			r.Treasuries.Decimal(d), owed.Decimal(d),
			customers.Decimal(d), r.Withdrawing.Decimal(d), r.InSwap.Decimal(d), r.Products.Decimal(d),
			r.Gas.Decimal(d), r.Suspense.Decimal(d), r.Waiting.Decimal(d), r.Dust.Decimal(d))
		for _, claim := range r.AtProviders {
			fmt.Fprintf(std.out, "  at %s: %s units", claim.Provider, claim.Amount)
			if claim.OldestAt != nil {
				fmt.Fprintf(std.out, ", the oldest claim from %s", claim.OldestAt.UTC().Format(time.RFC3339))
			}
			fmt.Fprintln(std.out)
		}
		if !r.Leaving.IsZero() || !r.Moving.IsZero() {
			fmt.Fprintf(std.out, "  in transactions that are not final, and still counted: %s to others, %s between "+
				"the service's own addresses\n",
				r.Leaving.Decimal(d), r.Moving.Decimal(d))
		}
		if r.Difference != "0" {
			fmt.Fprintf(std.out, "  !  DIFFERENCE of %s atomic units: coffer verify says more\n", r.Difference)
		} else {
			fmt.Fprintln(std.out, "  difference 0: the reserves are exactly the liabilities")
		}
	}
	return nil
}
