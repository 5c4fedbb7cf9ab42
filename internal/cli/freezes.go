package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

type freezesCmd struct {
	List freezesList `cmd:"" default:"withargs" help:"Show what is frozen, by whom and why (the default)."`
	Put  freezesPut  `cmd:"" help:"Freeze a customer, an organization, a chain or everything: no payment leaves until the freeze is lifted."`
	Lift freezesLift `cmd:"" help:"Lift one freeze."`
}

type freezesList struct{ configFlags }

func (c freezesList) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	var freezes []freeze.Freeze
	err = tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		freezes, err = freeze.List(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	if len(freezes) == 0 {
		fmt.Fprintln(std.out, "Nothing is frozen.")
	}
	for _, f := range freezes {
		fmt.Fprintf(std.out, "%s  %s  %s by %s since %s\n  %s\n", f.ID, f.Scope, freezeTarget(f), f.Source,
			f.CreatedAt.UTC().Format("2006-01-02 15:04:05"), f.Reason)
	}
	return nil
}

// freezeTarget returns the name of what a freeze stops.
func freezeTarget(f freeze.Freeze) string {
	switch f.Scope {
	case freeze.ScopeChain:
		return string(f.Chain)
	case freeze.ScopeOrganization:
		return f.OrgID
	case freeze.ScopeCustomer:
		return fmt.Sprintf("%s of %s", f.CustomerID, f.OrgID)
	case freeze.ScopeWallet:
		return fmt.Sprintf("%s on %s", f.WalletID, f.Chain)
	}
	return "everything"
}

type freezesPut struct {
	configFlags
	Everything bool   `help:"Freeze all outgoing payments."`
	Chain      string `help:"Freeze this chain."`
	Org        string `placeholder:"ORG" help:"Freeze this organization, or with --customer one customer of it."`
	Customer   string `help:"Freeze this customer of --org."`
	Because    string `required:"" help:"The reason, for the person who decides about lifting it."`
}

// readTarget returns the one target that the flags name.
func (c freezesPut) readTarget() (freeze.Freeze, error) {
	named := 0
	for _, isSet := range []bool{c.Everything, c.Chain != "", c.Org != ""} {
		if isSet {
			named++
		}
	}
	f := freeze.Freeze{
		Source: freeze.SourceOperator, Reason: c.Because, Actor: operator, OrgID: c.Org, CustomerID: c.Customer,
		Chain: chain.Name(c.Chain),
	}
	switch {
	case named != 1 || c.Customer != "" && c.Org == "":
		return f, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"Give --everything, --chain, --org, or --org with --customer.")
	case c.Everything:
		f.Scope = freeze.ScopeAll
	case c.Chain != "":
		f.Scope = freeze.ScopeChain
	case c.Customer != "":
		f.Scope = freeze.ScopeCustomer
	default:
		f.Scope = freeze.ScopeOrganization
	}
	return f, nil
}

func (c freezesPut) Run(ctx context.Context, std streams) error {
	wanted, err := c.readTarget()
	if err != nil {
		return err
	}
	conf, err := c.readConfig()
	if err != nil {
		return err
	}
	if _, runs := conf.Chains[wanted.Chain]; wanted.Scope == freeze.ScopeChain && !runs {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, "%q does not run here.", c.Chain)
	}
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	var f freeze.Freeze
	var added bool
	err = tools.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		// An unknown id would be reported as frozen, while the one that was meant would not be.
		if wanted.OrgID != "" {
			if _, err := org.LoadView(ctx, tx, wanted.OrgID); err != nil {
				return err
			}
		}
		if wanted.CustomerID != "" {
			if _, err := customer.ByID(ctx, tx, wanted.OrgID, wanted.CustomerID); err != nil {
				return err
			}
		}
		f, added, err = freeze.CreateOrFind(ctx, tx, wanted)
		return err
	})
	if err != nil {
		return err
	}
	if !added {
		fmt.Fprintf(std.out, "%s has been frozen since %s (%s): %s\nNothing was changed; the first reason stays.\n",
			freezeTarget(f), f.CreatedAt.UTC().Format(time.RFC3339), f.ID, f.Reason)
		return nil
	}
	fmt.Fprintf(
		std.out, "%s is frozen (%s). Deposits are credited as usual. To let payments leave again: coffer freezes "+
			"lift %s\n",
		freezeTarget(f), f.ID, f.ID,
	)
	return nil
}

type freezesLift struct {
	configFlags
	Freeze string `arg:"" help:"Id of the freeze, frz_…"`
}

func (c freezesLift) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	err = tools.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := freeze.LiftByOperator(ctx, tx, c.Freeze, operator)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "Freeze %s is lifted.\n", c.Freeze)
	return nil
}
