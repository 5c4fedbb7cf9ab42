package api

import (
	"context"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/report"
)

// ProductBalance is an organization's balance of one mint in one product.
type ProductBalance struct {
	Product         string  `json:"product"`
	MintID          int     `json:"mintId"`
	Symbol          string  `json:"symbol"`
	Chain           string  `json:"chain"`
	Available       string  `json:"available" doc:"The amount that can be moved." form:"amount"`
	Pending         string  `json:"pending" doc:"Held for unfinished payments of the product." form:"amount"`
	PendingDeposit  string  `json:"pendingDeposit"`
	Total           string  `json:"total" doc:"available + pending." form:"amount"`
	USDValue        *string `json:"usdValue"`
	OwedToCustomers *string `json:"owedToCustomers,omitempty" doc:"What your customers have of the mint, including what they are withdrawing. Only CUSTODIAL has it. It belongs to the customers, and the total does not include it." form:"amount"`
}

// ProductBalances are an organization's own balances.
type ProductBalances struct {
	Data []ProductBalance `json:"data"`
}

func (a *api) listProductBalances(c *call) (ProductBalances, error) {
	var found []report.ProductBalance
	err := a.conf.DB.ReadOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = report.LoadProductBalances(ctx, tx, c.Caller.OrgID)
		return err
	})
	if err != nil {
		return ProductBalances{}, err
	}
	body := ProductBalances{Data: make([]ProductBalance, 0, len(found))}
	for _, b := range found {
		row := ProductBalance{
			Product: b.Product, MintID: b.Mint.ID, Symbol: b.Mint.Symbol, Chain: string(b.Mint.Chain),
			Available: b.Available.String(), Pending: b.Pending.String(), PendingDeposit: b.PendingDeposit.String(),
			Total: b.Total.String(),
		}
		if b.Product == "CUSTODIAL" {
			row.OwedToCustomers = new(b.Owed.String())
		}
		if v := report.USDValue(c.Context(), a.conf.Prices, b.Mint, b.Total); v != nil {
			row.USDValue = resource.OptionalText(v.Cents())
		}
		body.Data = append(body.Data, row)
	}
	return body, nil
}

// Entry is one movement of a balance.
type Entry = resource.Entry

func entryFilter(c *call) (ledger.Filter, error) {
	f := ledger.Filter{
		Kinds: []ledger.Kind{
			ledger.Customer, ledger.Withdrawing, ledger.InSwap, ledger.Product, ledger.ProductWithdrawing,
			ledger.ProductInSwap, ledger.RefundOwed, ledger.BatchHeld,
		},
	}
	customerID, ofCustomer := c.Query["customerId"]
	product, ofProduct := c.Query["product"]
	switch {
	case ofCustomer && ofProduct:
		return f, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"A balance belongs to a customer or to a product, not to both.").
			WithAdvice("Give customerId or product, or neither for all balances.").WithParam("product")
	case ofCustomer:
		f.Kinds, f.Subject = f.Kinds[:3], customerID
	case ofProduct:
		f.Kinds, f.Subject = f.Kinds[3:], product
	}
	if n := c.Query.NumberValue("mintId"); n != nil {
		f.MintID = *n
	}
	f.PostedAfter = c.Query.TimeOrZero("createdAfter")
	f.PostedBefore = c.Query.TimeOrZero("createdBefore")
	f.Chain = c.Query["chain"]
	return f, nil
}

func (a *api) listLedgerEntries(c *call) (kernel.Page[Entry], error) {
	f, err := entryFilter(c)
	if err != nil {
		return kernel.Page[Entry]{}, err
	}
	p, err := c.ReadPage("ledger entries")
	if err != nil {
		return kernel.Page[Entry]{}, err
	}
	found, mints, err := a.loadEntries(c, f, p)
	if err != nil {
		return kernel.Page[Entry]{}, err
	}
	return kernel.NewPage(c.Request, "ledger entries", found, resource.ShowEntry(mints)), nil
}

func (a *api) loadEntries(
	c *call, f ledger.Filter, p pagination.Page,
) (found pagination.Result[ledger.Entry], mints mint.Catalogue, err error) {
	err = a.conf.DB.ReadOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		if mints, err = mint.LoadCatalogue(ctx, tx); err != nil {
			return err
		}
		found, err = ledger.ListEntries(ctx, tx, c.Caller.OrgID, f, p)
		return err
	})
	return found, mints, err
}

func (a *api) exportEntries(c *call) (kernel.Rows[Entry], error) {
	f, err := entryFilter(c)
	if err != nil {
		return nil, err
	}
	return snapshotRows(a, c, func(ctx context.Context, tx pg.Tx, desc bool, row func(Entry) error) error {
		mints, err := mint.LoadCatalogue(ctx, tx)
		if err != nil {
			return err
		}
		show := resource.ShowEntry(mints)
		return ledger.ForEachEntry(ctx, tx, c.Caller.OrgID, f, desc, func(e ledger.Entry) error { return row(show(e)) })
	}), nil
}
