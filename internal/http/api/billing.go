package api

import (
	"context"
	"net/http"

	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// CurrentBill is what the next invoice would have, as of now.
type CurrentBill struct {
	Month    string                               `json:"month" doc:"The current month in UTC." example:"2026-01"`
	Sections webhook.List[webhook.InvoiceSection] `json:"sections" doc:"The sums of the fees that are on no invoice, by kind and mint."`
	Subtotal string                               `json:"subtotal" doc:"The sum of the sections in dollars, without tax. With a minus sign while credits are more." example:"374.50"`
	Unpriced int                                  `json:"unpriced" doc:"How many fees have no price yet, and are in no sum." example:"0"`
	EndsAt   webhook.Time                         `json:"endsAt" doc:"When the month ends."`
}

func (a *api) billingRoutes() []kernel.Route {
	return []kernel.Route{
		{
			Method: http.MethodGet, Path: "/billing/current", Name: "getCurrentBill",
			Action: identity.ReadOrganization, Group: "Billing",
			Summary: "Read what the next invoice would have",
			Text: "The fees of the current month, and of months before that no invoice has, with their " +
				"provisional sum. " +
				"GET /billing/fees?month= lists them.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The provisional sums."}},
			Handler: kernel.Handle(a.getCurrentBill, CurrentBill{
				Month: "2026-01", Sections: resource.ExampleInvoice.Sections, Subtotal: "374.50",
				EndsAt: resource.ExampleAt,
			}),
		},
		{
			Method: http.MethodGet, Path: "/billing/invoices", Name: "listInvoices",
			Action: identity.ReadOrganization, Group: "Billing",
			Summary: "List your invoices",
			Text:    "The invoices of the organization, one for each month with at least a cent of fees.",
			Query: []kernel.Parameter{
				resource.InvoiceStatusFilter, kernel.OrderParameter, kernel.LimitParameter, kernel.CursorParameter,
			},
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of invoices."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listInvoices, kernel.ExamplePage(resource.ExampleInvoice)),
		},
		{
			Method: http.MethodGet, Path: "/billing/invoices/{invoiceId}", Name: "getInvoice",
			Action: identity.ReadOrganization, Group: "Billing",
			Summary: "Read an invoice",
			Text:    "One invoice." + resource.InvoiceFilesText,
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The invoice."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getInvoice, resource.ExampleInvoice),
			Files: resource.InvoiceFiles(a.findInvoice, func(c *call, fn func(context.Context, pg.Tx) error) error {
				return a.conf.DB.SnapshotOrg(c.Context(), c.Caller.OrgID, fn)
			}),
		},
		{
			Method: http.MethodGet, Path: "/billing/credit-notes", Name: "listCreditNotes",
			Action: identity.ReadOrganization, Group: "Billing",
			Summary: "List your credit notes",
			Text:    "The credit notes of the organization. Each gives back a part of one invoice.",
			Query: []kernel.Parameter{
				resource.InvoiceFilter, kernel.OrderParameter, kernel.LimitParameter, kernel.CursorParameter,
			},
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of credit notes."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listCreditNotes, kernel.ExamplePage(resource.ExampleCreditNote)),
		},
	}
}

func (a *api) getCurrentBill(c *call) (CurrentBill, error) {
	var p billing.Provisional
	err := a.conf.DB.ReadOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		p, err = billing.LoadProvisional(ctx, tx, c.Caller.OrgID)
		return err
	})
	return CurrentBill{
		p.Month.Name, wire.InvoiceSections(p.Sections), p.Subtotal, p.Unpriced, webhook.At(p.Month.End),
	}, err
}

func (a *api) listInvoices(c *call) (kernel.Page[webhook.Invoice], error) {
	p, err := c.ReadPage("invoices")
	if err != nil {
		return kernel.Page[webhook.Invoice]{}, err
	}
	var found pagination.Result[billing.Invoice]
	err = a.conf.DB.ReadOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = billing.ListInvoices(ctx, tx, billing.InvoiceFilter{
			OrgID: c.Caller.OrgID, Status: billing.Status(c.Query["status"]),
		}, p)
		return err
	})
	if err != nil {
		return kernel.Page[webhook.Invoice]{}, err
	}
	return kernel.NewPage(c.Request, "invoices", found, wire.Invoice), nil
}

// findInvoice returns the invoice that the path names. Rule BI-20.
func (a *api) findInvoice(c *call) (inv billing.Invoice, err error) {
	err = a.conf.DB.ReadOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) error {
		inv, err = billing.LoadInvoice(ctx, tx, c.PathParam("invoiceId"))
		return err
	})
	return inv, err
}

func (a *api) getInvoice(c *call) (webhook.Invoice, error) {
	inv, err := a.findInvoice(c)
	if err != nil {
		return webhook.Invoice{}, err
	}
	return wire.Invoice(inv), nil
}

func (a *api) listCreditNotes(c *call) (kernel.Page[webhook.CreditNote], error) {
	p, err := c.ReadPage("credit notes")
	if err != nil {
		return kernel.Page[webhook.CreditNote]{}, err
	}
	var found pagination.Result[billing.CreditNote]
	err = a.conf.DB.ReadOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = billing.ListCreditNotes(ctx, tx, billing.CreditNoteFilter{
			OrgID: c.Caller.OrgID, InvoiceID: c.Query["invoiceId"],
		}, p)
		return err
	})
	if err != nil {
		return kernel.Page[webhook.CreditNote]{}, err
	}
	return kernel.NewPage(c.Request, "credit notes", found, wire.CreditNote), nil
}
