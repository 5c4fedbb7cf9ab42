package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/report"
	"github.com/cofferpay/coffer/internal/scan"
)

type chainCmd struct {
	Breaks  chainBreaks  `cmd:"" help:"Show the finality breaks of a chain, and what is open and missing after them."`
	Traces  chainTraces  `cmd:"" help:"Show transactions of a chain whose calls still have to be traced, and why."`
	Repoint chainRepoint `cmd:"" help:"Continue on the chain that is final now. Without --yes it only shows what it would do."`
}

type chainBreaks struct {
	configFlags
	Chain chain.Name `arg:"" help:"Chain, such as ETHEREUM."`
}

func (c chainBreaks) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	var (
		breaks    []finality.Break
		missing   []finality.Shortfall
		open      string
		reversals report.Reversals
		reorged   []report.ReorgedOrder
		mints     mint.Catalogue
	)
	err = tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if breaks, err = finality.ListBreaks(ctx, tx, c.Chain); err != nil {
			return err
		}
		if missing, err = finality.ListShortfalls(ctx, tx, c.Chain); err != nil {
			return err
		}
		if open, err = finality.UnsettledReason(ctx, tx, c.Chain); err != nil {
			return err
		}
		if reversals, err = report.ListReversals(ctx, tx, c.Chain); err != nil {
			return err
		}
		if reorged, err = report.ListReorgedOrders(ctx, tx, c.Chain); err != nil {
			return err
		}
		mints, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	if len(breaks) == 0 {
		fmt.Fprintf(std.out, "%s has no finality break.\n", c.Chain)
	}
	for _, b := range breaks {
		fmt.Fprintf(std.out,
			"break %d  %s  decided by %s\n  above block %d %s; read before up to %d %s; settled at block %d\n",
			b.Fork, b.CreatedAt.UTC().Format("2006-01-02 15:04:05"), b.DecidedBy, b.Ancestor.Height, b.Ancestor.Hash,
			b.Tip.Height, b.Tip.Hash, b.SettleHeight)
	}
	for _, r := range reversals {
		fmt.Fprintf(std.out, "reversed  %s  %s  of %s: reversed %s, lost %s\n", r.DepositID, formatMintAmount(
			mints, r.MintID, r.Amount,
		), r.Owner,
			formatMintAmount(mints, r.MintID, r.TakenBack), formatMintAmount(mints, r.MintID, r.Lost))
	}
	for _, m := range missing {
		units, err := money.Parse(m.Open)
		if err != nil {
			return err
		}
		fmt.Fprintf(std.out, "missing   wallet %s of %s: fund TREASURY with %s\n", m.WalletID, m.OrgID,
			formatMintAmount(mints, m.MintID, units))
	}
	for _, q := range reorged {
		fmt.Fprintln(std.out, formatReorged(mints, q))
	}
	if open == "" {
		open = "nothing"
	}
	fmt.Fprintf(std.out, "open      %s\n", open)
	return nil
}

// formatReorged describes what an order waits for after its block was replaced.
func formatReorged(mints mint.Catalogue, q report.ReorgedOrder) string {
	state := "was not processed yet"
	if q.WaitsFor != "" {
		state = fmt.Sprintf("waits for %s: %s", q.WaitsFor, q.LastError)
	}
	return fmt.Sprintf("question  %s %s  %s  for %s, %s by %s\n  %s", q.Purpose, q.OrderID,
		formatMintAmount(mints, q.MintID, q.Amount), q.Owner, q.Status, q.TxHash, state)
}

// formatMintAmount formats an amount with its symbol; for an unknown mint it shows atomic units.
func formatMintAmount(mints mint.Catalogue, mintID int, amount money.Amount) string {
	m, ok := mints.ByID(mintID)
	if !ok {
		return fmt.Sprintf("%s units of mint %d", amount, mintID)
	}
	return amount.Decimal(m.Decimals) + " " + m.Symbol
}

type chainTraces struct {
	configFlags
	Chain chain.Name `arg:"" help:"Chain, such as ETHEREUM."`
}

func (c chainTraces) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	var untraced []scan.Untraced
	err = tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		untraced, err = scan.ListUntraced(ctx, tx, c.Chain)
		return err
	})
	if err != nil {
		return err
	}
	for _, u := range untraced {
		tx, recipients := string(u.Tx), strings.Join(u.Addresses, " ")
		if tx == "" {
			tx = "every transaction"
		}
		if u.Addresses == nil {
			recipients = "unknown addresses"
		}
		fmt.Fprintf(std.out, "block %d  %s  since %s, %d attempts, next at %s\n  to %s\n  %s\n", u.Height, tx,
			u.CreatedAt.UTC().Format(time.DateTime), u.Attempts, u.NextAttemptAt.UTC().Format(time.DateTime),
			recipients, u.LastError)
	}
	fmt.Fprintf(std.out, "%d still to be traced\n", len(untraced))
	return nil
}

type chainRepoint struct {
	configFlags
	Chain chain.Name `arg:"" help:"Chain, such as ETHEREUM."`
	Wait  uint64     `default:"64" help:"Number of blocks above the old tip after which a deposit that was not found again counts as lost."`
	Yes   bool       `help:"Write the change."`
}

func (c chainRepoint) Run(ctx context.Context, std streams) error {
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	w := tools.Walker(c.Chain)
	if w == nil {
		return fmt.Errorf("%s is not configured", c.Chain)
	}
	p, err := w.FindFork(ctx)
	if err != nil {
		return err
	}
	var affected report.Exposure
	var mints mint.Catalogue
	err = tools.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if affected, err = report.LoadExposure(ctx, tx, c.Chain, p.Ancestor.Height); err != nil {
			return err
		}
		mints, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out,
		"both chains have  block %d %s\nread before       block %d %s\nfinal now         block %d %s\n",
		p.Ancestor.Height, p.Ancestor.Hash, p.Tip.Height, p.Tip.Hash, p.Final.Height, p.Final.Hash)
	for _, d := range affected.Deposits {
		fmt.Fprintf(std.out, "deposit  %s  %s  of %s, block %d, %s\n", d.DepositID,
			formatMintAmount(mints, d.MintID, d.Amount), d.Owner, d.Height, d.Status)
	}
	for _, o := range affected.Orders {
		fmt.Fprintf(std.out, "%-8s %s  %s  block %d, %s\n", o.Purpose, o.OrderID,
			formatMintAmount(mints, o.MintID, o.Amount), o.Height, o.Status)
	}
	fmt.Fprintf(std.out, "%d deposits and %d payments, sweeps and top-ups are in blocks that the chain does not have "+
		"any more.\n",
		len(affected.Deposits), len(affected.Orders))
	if !c.Yes {
		fmt.Fprintln(std.out, "Nothing was changed. With --yes the service continues on the chain that is final now.")
		return nil
	}
	b, err := w.Repoint(ctx, p, c.Wait, audit.Operator("cli"))
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out,
		"Done. The service continues at block %d. Deposits that it does not find again up to block %d are reversed "+
			"then.\n%s stays frozen: coffer chain breaks %s shows what is open, and coffer freezes lift lifts the "+
			"freeze.\n",
		b.Ancestor.Height, b.SettleHeight, c.Chain, c.Chain)
	return nil
}
