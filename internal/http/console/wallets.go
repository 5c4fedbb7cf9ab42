package console

import (
	"context"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/webhook"
)

// walletsPage lists the wallets of an organization.
func (c *console) walletsPage() pages.Page {
	return pages.Page{
		Path: "/wallets", Title: "Wallets", Action: identity.ReadInstallation, Group: networkGroup, Icon: "quiet",
		Query: []kernel.Parameter{pages.CursorParameter, textFilter("organizationId")},
		Live:  []string{"WALLET"},
		Load:  c.loadWallets, WriteCSV: c.writeWallets,
	}
}

func (c *console) listWallets(
	r *pages.Request, orgID string, p pagination.Page,
) (found pagination.Result[wallet.Wallet], err error) {
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = wallet.List(ctx, tx, orgID, p)
		return err
	})
	return found, err
}

func (c *console) loadWallets(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	var organizations []org.Organization
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		organizations, err = org.ListAll(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	view := listView{
		Path: r.Path("wallets"), CSVPath: r.CSVPath(),
		Table: table{Caption: "Wallets", Columns: textColumns("Address", "Purpose", "Family", "Issued")},
	}
	options := []option{{"", "Choose an organization"}}
	for _, o := range organizations {
		options = append(options, option{o.ID, ui.EscapeForeign(o.Name)})
	}
	view.Filters = filtersOf(r, filter{Name: "organizationId", Label: "Organization", Options: options})
	if orgID := r.Query["organizationId"]; orgID != "" {
		found, err := c.listWallets(r, orgID, p)
		if err != nil {
			return nil, err
		}
		for _, w := range found.Items {
			view.Table.addRow(
				pair(ui.Address(string(w.Address)), ui.Code(w.ID)),
				pair(ui.Text(wordOf(w.Purpose)), foreignOrNothing(w.Subject, "no customer")), ui.Text(wordOf(w.Family)),
				ui.When(r.Moment(w.CreatedAt)),
			)
		}
		view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	}
	return walletsList(view, r.Query["organizationId"] != ""), nil
}

var walletColumns = []kernel.Column[wallet.Wallet]{
	{Name: "walletId", Cell: func(w wallet.Wallet) string { return w.ID }},
	{Name: "organizationId", Cell: func(w wallet.Wallet) string { return w.OrgID }},
	{Name: "family", Cell: func(w wallet.Wallet) string { return string(w.Family) }},
	{Name: "purpose", Cell: func(w wallet.Wallet) string { return w.Purpose }},
	{Name: "subject", Cell: func(w wallet.Wallet) string { return w.Subject }},
	{Name: "address", Cell: func(w wallet.Wallet) string { return string(w.Address) }},
	{Name: "createdAt", Cell: func(w wallet.Wallet) string { return webhook.At(w.CreatedAt).String() }},
}

func (c *console) writeWallets(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(r.Context(), w, true, walletColumns, eachOf(
		func(p pagination.Page) (pagination.Result[wallet.Wallet], error) {
			return c.listWallets(r, r.Query["organizationId"], p)
		}))
}
