package cli

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/cofferpay/coffer/internal/fee"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

type billingCmd struct {
	Fees   billingFees   `cmd:"" help:"Show the fees that organizations owe for completed swaps and networks, oldest first."`
	Run    billingRun    `cmd:"" help:"Issue the invoices of a month that is over, or of the running one in a local world. What was issued before stays."`
	Verify billingVerify `cmd:"" help:"Compute an invoice again from the ledger, proven transactions, prices and chains. It names the first line that differs."`
	Paid   billingPaid   `cmd:"" help:"Mark an invoice as paid, with a reference."`
	Credit billingCredit `cmd:"" help:"Issue a credit note for fees of one invoice, or for all that is left of it."`
	Terms  billingTerms  `cmd:"" help:"Show the billing terms of the installation or an organization, or set them. A second operator may have to approve."`
	Marks  billingMarks  `cmd:"" help:"Show the fees without a price, or state the price of a moment."`
}

type billingFees struct {
	configFlags
	Month string `placeholder:"2026-01" help:"Only of this month, in UTC."`
	Org   string `help:"Only of this organization, org_…"`
	CSV   bool   `name:"csv" help:"Write a CSV table, as the operator's interface does."`
}

// Run shows the fees as of one moment.
func (c billingFees) Run(ctx context.Context, std streams) error {
	f := fee.Filter{OrgID: c.Org}
	if c.Month != "" && !f.SetMonth(c.Month) {
		return errors.New("--month is a month such as 2026-01")
	}
	tools, err := c.openTools(ctx)
	if err != nil {
		return err
	}
	defer tools.Close()
	var mints mint.Catalogue
	var lines []fee.Line
	err = tools.DB().Snapshot(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		lines = nil
		if mints, err = mint.LoadCatalogue(ctx, tx); err != nil {
			return err
		}
		return fee.ForEach(ctx, tx, f, false, func(l fee.Line) error {
			lines = append(lines, l)
			return nil
		})
	})
	if err != nil {
		return err
	}
	if c.CSV {
		return kernel.WriteTable(ctx, std.out, false, orgFeeColumns, func(
			_ context.Context, _ bool, row func(fee.Line) error,
		) error {
			for _, l := range lines {
				if err := row(l); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if len(lines) == 0 {
		fmt.Fprintln(std.out, "There is no such fee.")
		return nil
	}
	w := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DUE SINCE\tORGANIZATION\tSOURCE\tFEE\tRATE\tVALUE\tPRICE\tSOURCE")
	total, credited, unpriced := money.USD{}, money.USD{}, 0
	for _, l := range lines {
		amount := l.Amount.String() + " units"
		if m, ok := mints.ByID(l.MintID); ok {
			amount = formatUnits(l.Amount, m)
		}
		if l.IsCredit {
			amount = "-" + amount
		}
		value, price, source := "no price", "-", "-"
		if l.USDValue != nil {
			value = "$" + l.USDValue.String()
			if l.IsCredit {
				credited, err = credited.Add(*l.USDValue)
			} else {
				total, err = total.Add(*l.USDValue)
			}
			if err != nil {
				return err
			}
		} else {
			unpriced++
		}
		if l.Price != nil {
			price, source = "$"+l.Price.Price.String(), l.Price.Source
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d bps\t%s\t%s\t%s\n", formatTime(l.IncurredAt), l.OrgID, l.SourceID, amount,
			l.FeeBps, value, price, source)
	}
	fmt.Fprintf(w, "%d fees, $%s in all", len(lines), total)
	if credited != (money.USD{}) {
		fmt.Fprintf(w, ", less $%s that were prepaid or became lower", credited)
	}
	if unpriced > 0 {
		fmt.Fprintf(w, ", without the %d that have no price", unpriced)
	}
	fmt.Fprintln(w, ".")
	return w.Flush()
}

// orgFeeColumns are the columns of the table, with the organization first.
var orgFeeColumns = func() []kernel.Column[fee.Line] {
	columns := []kernel.Column[fee.Line]{{Name: "organizationId", Cell: func(l fee.Line) string { return l.OrgID }}}
	for _, column := range resource.FeeColumns {
		columns = append(columns, kernel.Column[fee.Line]{
			Name: column.Name, Cell: func(l fee.Line) string { return column.Cell(resource.ShowFee(l)) },
		})
	}
	return columns
}()
