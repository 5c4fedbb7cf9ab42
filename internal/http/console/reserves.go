package console

import (
	"context"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/report"
)

// reservesPage compares what the addresses hold with what is owed.
func (c *console) reservesPage() pages.Page {
	return pages.Page{
		Path: "/reserves", Title: "Reserves", Action: identity.ReadInstallation, Group: moneyGroup, Icon: "shield",
		Shortcut: "r", Query: []kernel.Parameter{textFilter("organizationId")},
		Live: []string{"DEPOSIT", "WITHDRAWAL", "TRANSFER"}, Load: c.loadReserves, WriteCSV: c.writeReserves,
	}
}

// reserveRow is a token with holdings and liabilities.
type reserveRow struct {
	Symbol, Network string
	IsDifferent     bool
	Difference      string
	Facts           []ui.Fact
}

// listReserves reads a snapshot: holdings and liabilities are of one moment.
func (c *console) listReserves(r *pages.Request) (reserves []report.Reserve, err error) {
	err = c.conf.DB.Snapshot(r.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		reserves, err = report.LoadReserves(ctx, tx, r.Query["organizationId"])
		return err
	})
	return reserves, err
}

func (c *console) loadReserves(r *pages.Request) (templ.Component, error) {
	reserves, err := c.listReserves(r)
	if err != nil {
		return nil, err
	}
	view := listView{
		Path: r.Path("reserves"), CSVPath: r.CSVPath(),
		Filters: filtersOf(r, filter{Name: "organizationId", Label: "Organization"}),
	}
	list := make([]reserveRow, 0, len(reserves))
	for _, reserve := range reserves {
		row, err := newReserveRow(reserve)
		if err != nil {
			return nil, err
		}
		list = append(list, row)
	}
	return reservesOverview(view, list), nil
}

func newReserveRow(reserve report.Reserve) (reserveRow, error) {
	m := reserve.Mint
	held, err := reserve.HeldAmount()
	if err != nil {
		return reserveRow{}, err
	}
	owed, err := reserve.SumLiabilities()
	if err != nil {
		return reserveRow{}, err
	}
	row := reserveRow{
		Symbol: m.Symbol, Network: networkName(m.Chain), IsDifferent: reserve.Difference != "0",
		Difference: reserve.Difference,
	}
	add := func(name, figure string) {
		row.Facts = append(row.Facts, ui.Fact{Name: name, Value: ui.Amount(figure, m.Symbol)})
	}
	d := m.Decimals
	add("Held", held.Decimal(d))
	add("on deposit addresses", reserve.DepositAddresses.Decimal(d))
	add("in treasuries", reserve.Treasuries.Decimal(d))
	add("Liabilities", owed.Decimal(d))
	add("to customers, free", reserve.Available.Decimal(d))
	add("to customers, being withdrawn", reserve.Withdrawing.Decimal(d))
	add("to customers, in swaps", reserve.InSwap.Decimal(d))
	add("of organizations", reserve.Products.Decimal(d))
	add("gas of the operator", reserve.Gas.Decimal(d))
	add("in suspense", reserve.Suspense.Decimal(d))
	add("not credited yet", reserve.Waiting.Decimal(d))
	add("below the minimum", reserve.Dust.Decimal(d))
	for _, claim := range reserve.AtProviders {
		value := claim.Amount + " units"
		if claim.OldestAt != nil {
			value += ", the oldest claim from " + claim.OldestAt.UTC().Format(time.RFC3339)
		}
		row.Facts = append(row.Facts, ui.Fact{Name: "at " + claim.Provider, Value: ui.Text(value)})
	}
	return row, nil
}

var reserveColumns = []kernel.Column[report.Reserve]{
	{Name: "symbol", Cell: func(r report.Reserve) string { return r.Mint.Symbol }},
	{Name: "chain", Cell: func(r report.Reserve) string { return string(r.Mint.Chain) }},
	{Name: "depositAddresses", Cell: func(r report.Reserve) string { return r.DepositAddresses.String() }},
	{Name: "treasuries", Cell: func(r report.Reserve) string { return r.Treasuries.String() }},
	{Name: "available", Cell: func(r report.Reserve) string { return r.Available.String() }},
	{Name: "withdrawing", Cell: func(r report.Reserve) string { return r.Withdrawing.String() }},
	{Name: "inSwap", Cell: func(r report.Reserve) string { return r.InSwap.String() }},
	{Name: "products", Cell: func(r report.Reserve) string { return r.Products.String() }},
	{Name: "gas", Cell: func(r report.Reserve) string { return r.Gas.String() }},
	{Name: "suspense", Cell: func(r report.Reserve) string { return r.Suspense.String() }},
	{Name: "waiting", Cell: func(r report.Reserve) string { return r.Waiting.String() }},
	{Name: "dust", Cell: func(r report.Reserve) string { return r.Dust.String() }},
	{Name: "atProviders", Cell: func(r report.Reserve) string {
		claims := make([]string, len(r.AtProviders))
		for i, claim := range r.AtProviders {
			claims[i] = claim.Provider + " " + claim.Amount
		}
		return strings.Join(claims, ", ")
	}},
	{Name: "difference", Cell: func(r report.Reserve) string { return strings.TrimSpace(r.Difference) }},
}

func (c *console) writeReserves(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(r.Context(), w, false, reserveColumns,
		func(_ context.Context, _ bool, row func(report.Reserve) error) error {
			reserves, err := c.listReserves(r)
			if err != nil {
				return err
			}
			for _, reserve := range reserves {
				if err := row(reserve); err != nil {
					return err
				}
			}
			return nil
		})
}
