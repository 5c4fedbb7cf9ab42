package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/report"
)

type mintsCmd struct {
	List       mintsList       `cmd:"" default:"withargs" help:"Show every mint, its quarantine, and its amounts that cannot be moved (the default)."`
	Quarantine mintsQuarantine `cmd:"" help:"Quarantine a mint: the service credits, sweeps and pays nothing of it until it is released."`
	Release    mintsRelease    `cmd:"" help:"End a quarantine: the service credits and pays what only the quarantine stopped."`
}

type mintsList struct{ configFlags }

func (c mintsList) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	var standings []report.MintState
	err = tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		standings, err = report.ListMintStates(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	for _, s := range standings {
		printMintStanding(std, s)
	}
	return nil
}

func printMintStanding(std streams, s report.MintState) {
	m := s.Mint
	fmt.Fprintf(std.out, "%d  %s on %s  %s\n", m.ID, m.Symbol, m.Chain, m.Contract)
	if s.QuarantinedAt != nil {
		fmt.Fprintf(std.out, "   quarantined since %s: %s\n   %d deposits wait for its end\n",
			s.QuarantinedAt.UTC().Format(time.RFC3339), s.Reason, s.Waiting)
	}
	for _, i := range s.Immovable {
		fmt.Fprintf(std.out, "   illiquid: %s %s of %s on %s: %s\n", i.Amount.Decimal(m.Decimals), m.Symbol, i.OrgID,
			i.WalletID, i.LastError)
	}
	for _, o := range s.Stuck {
		fmt.Fprintf(std.out, "   stuck: %s of %s, %s %s in %s: %s\n", o.OrderID, o.OrgID, o.Amount.Decimal(m.Decimals),
			m.Symbol, o.TxHash, o.LastError)
	}
}

// mintFlags are the flags of both verbs.
type mintFlags struct {
	configFlags
	ID      int    `arg:"" help:"The mint's id."`
	Because string `required:"" help:"The reason, for the audit log."`
}

// changeMint changes a mint of the catalogue.
func (c mintFlags) changeMint(
	ctx context.Context, change func(ctx context.Context, tx pg.Tx, m mint.Mint) error,
) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	return tools.DB().InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		mints, err := mint.LoadCatalogue(ctx, tx)
		if err != nil {
			return err
		}
		m, ok := mints.ByID(c.ID)
		if !ok {
			return fmt.Errorf("mint %d is not in the catalogue; see: coffer mints", c.ID)
		}
		return change(ctx, tx, m)
	})
}

type mintsQuarantine struct{ mintFlags }

func (c mintsQuarantine) Run(ctx context.Context, std streams) error {
	err := c.changeMint(ctx, func(ctx context.Context, tx pg.Tx, m mint.Mint) error {
		if m.Quarantined {
			return fmt.Errorf("mint %d is already quarantined; the first reason stays", m.ID)
		}
		return mint.QuarantineBy(ctx, tx, m.ID, audit.Operator("cli"), c.Because)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(
		std.out,
		"Mint %d is quarantined. Signed transactions are still sent; otherwise the service credits, sweeps and pays "+
			"nothing of it.\n",
		c.ID,
	)
	return nil
}

type mintsRelease struct{ mintFlags }

func (c mintsRelease) Run(ctx context.Context, std streams) error {
	err := c.changeMint(ctx, func(ctx context.Context, tx pg.Tx, m mint.Mint) error {
		if !m.Quarantined {
			return fmt.Errorf("mint %d is not quarantined", m.ID)
		}
		return mint.ReleaseQuarantine(ctx, tx, m.ID, audit.Operator("cli"), c.Because)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(
		std.out,
		"Mint %d is released. The service credits deposits that the balances of their blocks confirm; the others "+
			"stay UNSUPPORTED.\n",
		c.ID,
	)
	return nil
}
