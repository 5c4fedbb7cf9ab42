package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/finality"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/report"
	"github.com/cofferpay/coffer/internal/scan"
)

type chainCmd struct {
	Breaks  chainBreaks  `cmd:"" help:"Show where the finality of a chain broke, what is open and what is missing."`
	Traces  chainTraces  `cmd:"" help:"Show transactions of a chain whose calls are to be traced yet, and why."`
	Repoint chainRepoint `cmd:"" help:"Go on along the chain that is final now. Without --yes it only says what it would do."`
}

type chainBreaks struct {
	installation
	Chain chain.Name `arg:"" help:"Chain, such as ETHEREUM."`
}

func (c chainBreaks) Run(ctx context.Context, std streams) error {
	a, err := c.tools(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	var (
		breaks  []finality.Break
		missing []finality.Shortfall
		open    string
		gone    report.Reversals
		asked   []report.Question
		mints   mint.Catalogue
	)
	err = a.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if breaks, err = finality.Breaks(ctx, tx, c.Chain); err != nil {
			return err
		}
		if missing, err = finality.Shortfalls(ctx, tx, c.Chain); err != nil {
			return err
		}
		if open, err = finality.Unsettled(ctx, tx, c.Chain); err != nil {
			return err
		}
		if gone, err = report.Reversed(ctx, tx, c.Chain); err != nil {
			return err
		}
		if asked, err = report.Questions(ctx, tx, c.Chain); err != nil {
			return err
		}
		mints, err = mint.All(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	if len(breaks) == 0 {
		fmt.Fprintf(std.out, "Nothing was ever decided about the finality of %s.\n", c.Chain)
	}
	for _, b := range breaks {
		fmt.Fprintf(std.out, "break %d  %s  decided by %s\n  above block %d %s; walked before to %d %s; settled at block %d\n",
			b.Fork, b.CreatedAt.UTC().Format("2006-01-02 15:04:05"), b.DecidedBy, b.Ancestor.Height, b.Ancestor.Hash, b.Tip.Height, b.Tip.Hash, b.Settle)
	}
	for _, r := range gone {
		fmt.Fprintf(std.out, "reversed  %s  %s  of %s: taken back %s, lost %s\n", r.DepositID, amountOf(mints, r.MintID, r.Amount), r.Owner,
			amountOf(mints, r.MintID, r.TakenBack), amountOf(mints, r.MintID, r.Lost))
	}
	for _, m := range missing {
		units, err := money.Parse(m.Open)
		if err != nil {
			return err
		}
		fmt.Fprintf(std.out, "missing   wallet %s of %s: fund TREASURY with %s\n", m.WalletID, m.OrgID, amountOf(mints, m.MintID, units))
	}
	for _, q := range asked {
		fmt.Fprintln(std.out, inQuestion(mints, q))
	}
	if open == "" {
		open = "nothing"
	}
	fmt.Fprintf(std.out, "open      %s\n", open)
	return nil
}

// inQuestion tells what an order waits for whose block is gone.
func inQuestion(mints mint.Catalogue, q report.Question) string {
	waits := "was not looked at yet"
	if q.WaitsFor != "" {
		waits = fmt.Sprintf("waits for %s: %s", q.WaitsFor, q.Why)
	}
	return fmt.Sprintf("question  %s %s  %s  for %s, %s by %s\n  %s", q.Purpose, q.OrderID, amountOf(mints, q.MintID, q.Amount), q.Owner, q.Status, q.TxHash, waits)
}

// amountOf is an amount with its symbol; an unknown mint shows atomic units.
func amountOf(mints mint.Catalogue, mintID int, a money.Amount) string {
	m, ok := mints.ByID(mintID)
	if !ok {
		return fmt.Sprintf("%s units of mint %d", a, mintID)
	}
	return a.Decimal(m.Decimals) + " " + m.Symbol
}

type chainTraces struct {
	installation
	Chain chain.Name `arg:"" help:"Chain, such as ETHEREUM."`
}

func (c chainTraces) Run(ctx context.Context, std streams) error {
	a, err := c.tools(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	var all []scan.Untraced
	err = a.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		all, err = scan.UntracedOf(ctx, tx, c.Chain)
		return err
	})
	if err != nil {
		return err
	}
	for _, u := range all {
		tx, of := string(u.Tx), strings.Join(u.Addresses, " ")
		if tx == "" {
			tx = "every transaction"
		}
		if u.Addresses == nil {
			of = "unknown addresses"
		}
		fmt.Fprintf(std.out, "block %d  %s  since %s, %d attempts, next at %s\n  to %s\n  %s\n", u.Height, tx,
			u.Since.UTC().Format(time.DateTime), u.Attempts, u.Next.UTC().Format(time.DateTime), of, u.Why)
	}
	fmt.Fprintf(std.out, "%d to be traced\n", len(all))
	return nil
}

type chainRepoint struct {
	installation
	Chain chain.Name `arg:"" help:"Chain, such as ETHEREUM."`
	Wait  uint64     `default:"64" help:"Blocks above the old tip after which what was not found again is gone for good."`
	Yes   bool       `help:"Do it."`
}

func (c chainRepoint) Run(ctx context.Context, std streams) error {
	a, err := c.tools(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	w := a.Walker(c.Chain)
	if w == nil {
		return fmt.Errorf("%s is not configured", c.Chain)
	}
	p, err := w.Parting(ctx)
	if err != nil {
		return err
	}
	var on report.Standing
	var mints mint.Catalogue
	err = a.DB().ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if on, err = report.StandingAbove(ctx, tx, c.Chain, p.Ancestor.Height); err != nil {
			return err
		}
		mints, err = mint.All(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "both chains have  block %d %s\nwalked before     block %d %s\nfinal now         block %d %s\n",
		p.Ancestor.Height, p.Ancestor.Hash, p.Tip.Height, p.Tip.Hash, p.Final.Height, p.Final.Hash)
	for _, d := range on.Deposits {
		fmt.Fprintf(std.out, "deposit  %s  %s  of %s, block %d, %s\n", d.DepositID, amountOf(mints, d.MintID, d.Amount), d.Owner, d.Height, d.Status)
	}
	for _, o := range on.Orders {
		fmt.Fprintf(std.out, "%-8s %s  %s  block %d, %s\n", o.Purpose, o.OrderID, amountOf(mints, o.MintID, o.Amount), o.Height, o.Status)
	}
	fmt.Fprintf(std.out, "%d deposits and %d payments, sweeps and top-ups stand on blocks that are gone.\n", len(on.Deposits), len(on.Orders))
	if !c.Yes {
		fmt.Fprintln(std.out, "Nothing was changed. With --yes the walk goes on along the chain that is final now.")
		return nil
	}
	b, err := w.Repoint(ctx, p, c.Wait, audit.Operator("cli"))
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "Done. The walk goes on from block %d; what is not found again up to block %d is taken back then.\n"+
		"%s stays frozen: coffer chain breaks %s says what is open, coffer freezes lift lets it go.\n", b.Ancestor.Height, b.Settle, c.Chain, c.Chain)
	return nil
}
