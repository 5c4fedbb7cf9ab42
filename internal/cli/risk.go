package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/risk"
)

// localRisk manages the list that screening reads on networks without real money.
type localRisk struct {
	List  localRiskList  `cmd:"" help:"Show what screening answers, by address."`
	Set   localRiskSet   `cmd:"" help:"Set what screening answers for an address from now on."`
	Clear localRiskClear `cmd:"" help:"Remove an address from the list; it is LOW then."`
}

type localRiskList struct{ configFlags }

func (c localRiskList) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	shown := 0
	for p := (pagination.Page{Limit: pagination.LimitMax}); ; {
		var found pagination.Result[risk.LocalListEntry]
		err := tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			found, err = risk.ListLocalEntries(ctx, tx, p)
			return err
		})
		if err != nil {
			return err
		}
		for _, e := range found.Items {
			fmt.Fprintln(std.out, formatRiskEntry(e))
			shown++
		}
		if found.NextCursor == nil {
			break
		}
		p.Cursor = found.NextCursor
	}
	if shown == 0 {
		fmt.Fprintln(std.out, "The list is empty: every address is LOW.")
	}
	return nil
}

func formatRiskEntry(e risk.LocalListEntry) string {
	if e.Outage {
		return e.Address + "  OUTAGE"
	}
	words := []string{e.Address, string(e.Severity)}
	if e.Score != nil {
		words = append(words, fmt.Sprintf("score %d", *e.Score))
	}
	if e.Entity != "" {
		words = append(words, fmt.Sprintf("%q", e.Entity))
	}
	if len(e.Categories) > 0 {
		words = append(words, strings.Join(e.Categories, ","))
	}
	return strings.Join(words, "  ")
}

type localRiskSet struct {
	configFlags
	Address    string   `arg:"" help:"The address."`
	Severity   string   `arg:"" optional:"" help:"NONE, LOW, MEDIUM, HIGH, SEVERE, or UNKNOWN to the provider."`
	Score      *int     `help:"From 0 to 100."`
	Entity     string   `help:"The owner of the address."`
	Categories []string `help:"The categories of the address, separated by commas."`
	Outage     bool     `help:"Screening has no answer for the address, as when the provider is down."`
}

func (c localRiskSet) Run(ctx context.Context, std streams) error {
	if c.Severity == "" && !c.Outage {
		return errors.New("give a severity, or --outage; nothing was changed")
	}
	conf, err := c.readConfig()
	if err != nil {
		return err
	}
	if !slices.Contains(conf.Risk.Providers, "local") {
		return errors.New(
			"this installation does not use the local list, so an entry would have no effect; nothing was changed. " +
				"Add the list to risk.providers, which a main network refuses",
		)
	}
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	var set risk.LocalListEntry
	err = tools.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		set, err = risk.SetLocalEntry(ctx, tx, tools.Chains, operator, risk.LocalListEntry{
			Address: c.Address, Severity: risk.Severity(c.Severity), Score: c.Score, Entity: c.Entity,
			Categories: c.Categories, Outage: c.Outage,
		})
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(std.out, formatRiskEntry(set))
	return nil
}

type localRiskClear struct {
	configFlags
	Address string `arg:"" help:"The address."`
}

func (c localRiskClear) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	err = tools.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := risk.DeleteLocalEntry(ctx, tx, operator, c.Address)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "%s is LOW from now on.\n", c.Address)
	return nil
}

// riskCmd manages the data of screening that a person maintains.
type riskCmd struct {
	Import  riskImport  `cmd:"" help:"Import the Treasury's sanctions list from its file, SDN advanced XML."`
	Show    riskShow    `cmd:"" help:"Show the risk providers, and how old the imported list is."`
	Senders riskSenders `cmd:"" help:"Show the senders of credited deposits that are above the threshold since."`
}

type riskImport struct {
	configFlags
	File   string `arg:"" type:"existingfile" help:"The file: https://www.treasury.gov/ofac/downloads/sanctions/1.0/sdn_advanced.xml"`
	Shrunk bool   `help:"Import a list that has less than half of the addresses of the present one."`
}

func (c riskImport) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	imported, odd, err := tools.ImportSanctions(ctx, operator, c.File, c.Shrunk)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "The list of %s is in use from now on: %d addresses, %s.\n",
		imported.Published.Format(time.DateOnly), len(imported.Entries), imported.ID)
	for _, text := range odd {
		fmt.Fprintf(std.out, "  !  %q is listed as an address and is none: it matches nothing\n", text)
	}
	return nil
}

type riskShow struct{ configFlags }

func (c riskShow) Run(ctx context.Context, std streams) error {
	conf, err := c.readConfig()
	if err != nil {
		return err
	}
	if len(conf.Risk.Providers) == 0 {
		fmt.Fprintln(std.out, "There is no screening: risk.providers is empty.")
	} else {
		fmt.Fprintf(std.out, "asked     %s\n", strings.Join(conf.Risk.Providers, ", "))
	}
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	p := tools.ScreeningPolicy()
	fmt.Fprintf(std.out, "unknown   %s\nfloor     %t\nwaits     %s\n", p.UnknownAs, p.SanctionsFloor, p.Grace)
	list, ageMax, err := tools.SanctionsList(ctx)
	if err != nil {
		fmt.Fprintf(std.out, "SDN list  %v\n", err)
		return nil
	}
	age := time.Since(list.Published)
	fmt.Fprintf(
		std.out, "SDN list  of %s, %d days old, %d addresses, imported %s\n", list.Published.Format(time.DateOnly),
		int(age/(24*time.Hour)), len(list.Entries), list.Imported.UTC().Format(time.RFC3339),
	)
	if age > ageMax {
		fmt.Fprintf(std.out, "  !  older than %s: it gives no answer for an address that it does not list\n", ageMax)
	}
	return nil
}

type riskSenders struct {
	configFlags
	Days int `default:"30" help:"Those that were found in this many days."`
}

func (c riskSenders) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	var found []deposit.SenderAlert
	err = tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = deposit.ListSenderAlerts(ctx, tx, tx.Now.AddDate(0, 0, -c.Days))
		return err
	})
	if err != nil {
		return err
	}
	for _, s := range found {
		fmt.Fprintf(
			std.out, "%s  %s  %s  %s, above %s, by %s  %d credited deposits of %s\n",
			s.FoundAt.UTC().Format(time.RFC3339), s.Chain, s.Address, s.Severity, s.Threshold, s.Provider, s.Deposits,
			s.OrgID,
		)
	}
	if len(found) == 0 {
		fmt.Fprintf(std.out, "No sender was found to be above the threshold in %d days.\n", c.Days)
	}
	return nil
}
