package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

type whitelistCmd struct {
	List   whitelistList   `cmd:"" help:"Show every entry of an organization's whitelist, including removed ones."`
	Add    whitelistAdd    `cmd:"" help:"Add an address. It is usable after a cooling-off."`
	Remove whitelistRemove `cmd:"" help:"Remove an address: from now on no withdrawal can choose it."`
}

type whitelistList struct{ orgFlags }

func (c whitelistList) Run(ctx context.Context, std streams) error {
	id, tools, err := c.openOrg(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	p := pagination.Page{Limit: pagination.LimitMax}
	for {
		var found pagination.Result[whitelist.Entry]
		var readAt time.Time
		err := tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			readAt = tx.Now
			if _, err := org.ByID(ctx, tx, id); err != nil {
				return err
			}
			found, err = tools.Whitelist.List(ctx, tx, id, p)
			return err
		})
		if err != nil {
			return err
		}
		for _, entry := range found.Items {
			printWhitelisted(std, entry, readAt)
		}
		if found.NextCursor == nil {
			return nil
		}
		p.Cursor = found.NextCursor
	}
}

func printWhitelisted(std streams, entry whitelist.Entry, readAt time.Time) {
	fmt.Fprintf(std.out, "%s  %-11s  %s %s  %s  usable from %s\n", entry.ID, entry.Status(readAt), entry.Chain,
		entry.Address, entry.Label, entry.UsableFrom.UTC().Format(time.RFC3339))
	for _, words := range []string{entry.Refusal, entry.WaitsFor} {
		if words != "" {
			fmt.Fprintf(std.out, "  %s\n", words)
		}
	}
}

type whitelistAdd struct {
	configFlags
	operatorFlags
	Org     string `help:"The organization, org_…; the one of the local world if left out."`
	Chain   string `arg:"" help:"The chain, such as ETHEREUM."`
	Address string `arg:"" help:"The address. Confirm it with its owner over another channel."`
	Label   string `arg:"" help:"The owner of the address, for people."`
}

func (c whitelistAdd) Run(ctx context.Context, std streams) error {
	id, tools, err := orgFlags{c.configFlags, c.Org}.openOrg(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	key, err := c.authenticate(ctx, tools)
	if err != nil {
		return err
	}
	var outcome whitelist.Outcome
	var readAt time.Time
	err = tools.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		readAt = tx.Now
		outcome, err = tools.Whitelist.RequestEntry(ctx, tx, key, tools.FourEyes(), id,
			whitelist.EntryRequest{Chain: c.Chain, Address: c.Address, Label: c.Label})
		return err
	})
	if err != nil {
		return err
	}
	if outcome.PendingChange != nil {
		fmt.Fprintln(
			std.out, "This loosens a control: it waits until another operator approves it, with coffer changes "+
				"approve.",
		)
		printChange(std, *outcome.PendingChange)
		return nil
	}
	fmt.Fprintln(std.out, "Added. The running service asks the signer to endorse it.")
	printWhitelisted(std, *outcome.Entry, readAt)
	return nil
}

type whitelistRemove struct {
	configFlags
	operatorFlags
	Org string `help:"The organization, org_…; the one of the local world if left out."`
	ID  string `arg:"" help:"The entry, wla_…"`
}

func (c whitelistRemove) Run(ctx context.Context, std streams) error {
	id, tools, err := orgFlags{c.configFlags, c.Org}.openOrg(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	key, err := c.authenticate(ctx, tools)
	if err != nil {
		return err
	}
	var removed whitelist.Entry
	err = tools.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		removed, err = tools.Whitelist.Remove(ctx, tx, key, id, c.ID)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(std.out, "Removed. No withdrawal can choose it any more; the running service has the signer remove "+
		"it.")
	printWhitelisted(std, removed, time.Now())
	return nil
}
