package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/report"
)

type mintsCmd struct {
	List       mintsList       `cmd:"" default:"withargs" help:"Show every mint, its quarantine, and what of it cannot be moved (the default)."`
	Quarantine mintsQuarantine `cmd:"" help:"Stop a mint: nothing of it is credited, swept or paid until it is released."`
	Release    mintsRelease    `cmd:"" help:"End a quarantine: what only that stopped is credited and paid."`
}

type mintsList struct{ installation }

func (c mintsList) Run(ctx context.Context, std streams) error {
	a, err := c.tools(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	var all []report.MintStanding
	err = a.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		all, err = report.MintStandings(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	for _, s := range all {
		tellStanding(std, s)
	}
	return nil
}

func tellStanding(std streams, s report.MintStanding) {
	m := s.Mint
	fmt.Fprintf(std.out, "%d  %s on %s  %s\n", m.ID, m.Symbol, m.Chain, m.Contract)
	if s.Since != nil {
		fmt.Fprintf(std.out, "   under quarantine since %s: %s\n   %d deposits wait for its end\n", s.Since.UTC().Format(time.RFC3339), s.Reason, s.Waiting)
	}
	for _, i := range s.Illiquid {
		fmt.Fprintf(std.out, "   illiquid: %s %s of %s on %s: %s\n", i.Amount.Decimal(m.Decimals), m.Symbol, i.OrgID, i.WalletID, i.Why)
	}
	for _, o := range s.Stuck {
		fmt.Fprintf(std.out, "   stuck: %s of %s, %s %s in %s: %s\n", o.OrderID, o.OrgID, o.Amount.Decimal(m.Decimals), m.Symbol, o.TxHash, o.Why)
	}
}

// aboutMint is what both verbs take.
type aboutMint struct {
	installation
	ID      int    `arg:"" help:"The mint's id."`
	Because string `required:"" help:"Why, for the audit log."`
}

// change does something about a mint that the catalogue has.
func (c aboutMint) change(ctx context.Context, do func(ctx context.Context, tx pg.Tx, m mint.Mint) error) error {
	a, err := c.tools(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	return a.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		mints, err := mint.All(ctx, tx)
		if err != nil {
			return err
		}
		m, ok := mints.ByID(c.ID)
		if !ok {
			return fmt.Errorf("mint %d is not in the catalogue; see: coffer mints", c.ID)
		}
		return do(ctx, tx, m)
	})
}

type mintsQuarantine struct{ aboutMint }

func (c mintsQuarantine) Run(ctx context.Context, std streams) error {
	err := c.change(ctx, func(ctx context.Context, tx pg.Tx, m mint.Mint) error {
		if m.Quarantined {
			return fmt.Errorf("mint %d is under quarantine already; its first reason stays", m.ID)
		}
		return mint.QuarantineBy(ctx, tx, m.ID, audit.Operator("cli"), c.Because)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "Mint %d is under quarantine. What is signed already goes out; nothing else of it is credited, swept or paid.\n", c.ID)
	return nil
}

type mintsRelease struct{ aboutMint }

func (c mintsRelease) Run(ctx context.Context, std streams) error {
	err := c.change(ctx, func(ctx context.Context, tx pg.Tx, m mint.Mint) error {
		if !m.Quarantined {
			return fmt.Errorf("mint %d is not under quarantine", m.ID)
		}
		return mint.Release(ctx, tx, m.ID, audit.Operator("cli"), c.Because)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "Mint %d is released. Deposits that the balances of their own blocks confirmed are credited; the others stay UNSUPPORTED.\n", c.ID)
	return nil
}
