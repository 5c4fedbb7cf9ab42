package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/page"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/whitelist"
)

type whiteCmd struct {
	List   whitelistList   `cmd:"" help:"Show every address that is or was on an organization's whitelist."`
	Add    whitelistAdd    `cmd:"" help:"Add an address. It cools off before it can be used."`
	Remove whitelistRemove `cmd:"" help:"Remove an address: from now on nobody can choose it."`
}

type whitelistList struct{ aboutOrg }

func (c whitelistList) Run(ctx context.Context, std streams) error {
	id, a, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	p := page.Page{Limit: page.LimitMax}
	for {
		var found page.Result[whitelist.Address]
		var now time.Time
		err := a.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			now = tx.Now
			if _, err := org.ByID(ctx, tx, id); err != nil {
				return err
			}
			found, err = a.Whitelist().List(ctx, tx, id, p)
			return err
		})
		if err != nil {
			return err
		}
		for _, one := range found.Items {
			tellWhitelisted(std, one, now)
		}
		if found.Next == nil {
			return nil
		}
		p.Cursor = found.Next
	}
}

func tellWhitelisted(std streams, a whitelist.Address, now time.Time) {
	fmt.Fprintf(std.out, "%s  %-11s  %s %s  %s  usable from %s\n", a.ID, a.Status(now), a.Chain, a.Address, a.Label, a.UsableFrom.UTC().Format(time.RFC3339))
	if a.Refusal != "" {
		fmt.Fprintf(std.out, "  %s\n", a.Refusal)
	}
}

type whitelistAdd struct {
	installation
	identity
	Org     string `help:"The organization, org_…; the one of the local world when it is not said."`
	Chain   string `arg:"" help:"The chain, such as ETHEREUM."`
	Address string `arg:"" help:"The address. Compare it with its owner over another way than it came."`
	Label   string `arg:"" help:"Whose it is, for people."`
}

func (c whitelistAdd) Run(ctx context.Context, std streams) error {
	id, a, err := aboutOrg{c.installation, c.Org}.open(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	by, err := c.who(ctx, a)
	if err != nil {
		return err
	}
	var out whitelist.Outcome
	var now time.Time
	err = a.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		now = tx.Now
		out, err = a.Whitelist().Ask(ctx, tx, by, a.FourEyes(), id, whitelist.Wanted{Chain: c.Chain, Address: c.Address, Label: c.Label})
		return err
	})
	if err != nil {
		return err
	}
	if out.Waits != nil {
		fmt.Fprintln(std.out, "This loosens a control: it waits until another operator agrees, with coffer changes approve.")
		tellChange(std, *out.Waits)
		return nil
	}
	fmt.Fprintln(std.out, "Added. The running service has the signer endorse it.")
	tellWhitelisted(std, *out.Address, now)
	return nil
}

type whitelistRemove struct {
	installation
	identity
	Org string `help:"The organization, org_…; the one of the local world when it is not said."`
	ID  string `arg:"" help:"The address, wla_…"`
}

func (c whitelistRemove) Run(ctx context.Context, std streams) error {
	id, a, err := aboutOrg{c.installation, c.Org}.open(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	by, err := c.who(ctx, a)
	if err != nil {
		return err
	}
	var gone whitelist.Address
	err = a.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		gone, err = a.Whitelist().Remove(ctx, tx, by, id, c.ID)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(std.out, "Removed. Nobody can choose it any more; the running service has the signer forget it.")
	tellWhitelisted(std, gone, time.Now())
	return nil
}
