package dashboard

import (
	"context"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// firstOfList is the page with the first row of a list.
var firstOfList = pagination.Page{Limit: 1, Desc: true}

// productParameter narrows a list to a product.
var productParameter = kernel.Parameter{Name: "product", Kind: kernel.WordParameter, Enum: ledger.Products}

// transfersPage lists the transfers between balances, those of customers included.
func (d *dashboard) transfersPage() pages.Page {
	return pages.Page{
		Path: "/balances/transfers", Title: "Transfers", Action: identity.ReadOrganization, Live: []string{"TRANSFER"},
		Query: []kernel.Parameter{
			pages.CursorParameter, productParameter, resource.CustomerFilter, resource.MintFilter, resource.ChainFilter,
		},
		Load: d.loadTransfers, WriteCSV: d.writeTransfers,
	}
}

// transferRow is a transfer in a list.
type transferRow struct {
	Path                       string
	Figure, Symbol, Network    string
	From, FromKind, To, ToKind string
	Made                       ui.Moment
}

// transfersView is what the list shows.
type transfersView struct {
	Tabs, Filters                []ui.Tab
	Rows                         []transferRow
	FirstPath, NextPath, CSVPath string
	BalancesPath                 string
}

func transferFilter(r *pages.Request) transfer.Filter {
	return transfer.Filter{
		CustomerID: r.Query[resource.CustomerFilter.Name], Product: r.Query[productParameter.Name],
		MintID: r.Query.NumberValue(resource.MintFilter.Name), Chain: r.Query[resource.ChainFilter.Name],
	}
}

func (d *dashboard) loadTransfers(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	found, err := d.conf.Transfers.List(r.Context(), r.Session.OrgID, transferFilter(r), p)
	if err != nil {
		return nil, err
	}
	view := transfersView{
		Tabs: balanceTabs(r, "Transfers"), CSVPath: r.CSVPath(), BalancesPath: r.Path("balances"),
	}
	for _, product := range append([]string{""}, ledger.Products...) {
		title := productName(product)
		if product == "" {
			title = "All"
		}
		view.Filters = append(view.Filters, ui.Tab{
			Title: title, Path: transferQuery(r, product), Current: r.Query[productParameter.Name] == product,
		})
	}
	for _, t := range found.Items {
		view.Rows = append(view.Rows, newTransferRow(r, t))
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	return transfersList(view), nil
}

func newTransferRow(r *pages.Request, t transfer.Transfer) transferRow {
	return transferRow{
		Path: transactionPath(r, transferKind, t.ID), Figure: t.Amount.Decimal(t.Mint.Decimals), Symbol: t.Mint.Symbol,
		Network: networkName(t.Mint.Chain), From: partyName(t.From), FromKind: partyKind(t.From),
		To: partyName(t.To), ToKind: partyKind(t.To), Made: r.Moment(t.CreatedAt),
	}
}

// partyName names one side of a transfer. A customer's id is a text of strangers.
func partyName(p transfer.Party) string {
	if p.Product != nil {
		return productName(*p.Product)
	}
	return textOrEmpty(p.CustomerID)
}

func partyKind(p transfer.Party) string {
	if p.Product != nil {
		return "Your own balance"
	}
	return "Customer"
}

func (d *dashboard) writeTransfers(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(r.Context(), w, true, resource.TransferColumns,
		func(ctx context.Context, desc bool, row func(webhook.Transfer) error) error {
			return d.conf.Transfers.ForEach(
				ctx, r.Session.OrgID, transferFilter(r), desc,
				func(t transfer.Transfer) error { return row(wire.Transfer(t)) },
			)
		})
}
