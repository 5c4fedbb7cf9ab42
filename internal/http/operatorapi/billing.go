package operatorapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/billing/document"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// OwnedInvoice is an invoice with its organization.
type OwnedInvoice struct {
	OrganizationID string `json:"organizationId" doc:"The organization."`
	webhook.Invoice
}

// OwnedCreditNote is a credit note with its organization.
type OwnedCreditNote struct {
	OrganizationID string `json:"organizationId" doc:"The organization."`
	webhook.CreditNote
}

// BillingRun is the body of POST /billing/run.
type BillingRun struct {
	Month          string  `json:"month" doc:"The month in UTC, which has to be over." pattern:"^[0-9]{4}-[0-9]{2}$" example:"2026-01"`
	OrganizationID *string `json:"organizationId,omitempty" doc:"Only this organization." example:"org_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
}

// BillingRunResult is what a run of a month did.
type BillingRunResult struct {
	Month    string         `json:"month" doc:"The month." example:"2026-01"`
	Issued   int            `json:"issued" doc:"How many invoices this run issued. The others were issued before." example:"1"`
	Invoices []OwnedInvoice `json:"invoices" doc:"The invoices of the month."`
	Skipped  []UnbilledOrg  `json:"skipped" doc:"The organizations without an invoice of the month."`
	Failed   []FailedOrg    `json:"failed" doc:"The organizations whose invoice could not be issued, or of which that is not known. The others have theirs. Repeat the call."`
}

// FailedOrg is an organization whose invoice of a month could not be issued.
type FailedOrg struct {
	OrganizationID string `json:"organizationId" doc:"The organization."`
	Reason         string `json:"reason" doc:"Why, in a sentence." example:"The series INV is of other documents."`
}

// UnbilledOrg is an organization without an invoice of a month.
type UnbilledOrg struct {
	OrganizationID string `json:"organizationId" doc:"The organization."`
	Reason         string `json:"reason" doc:"NO_TERMS: the installation or the organization has no billing terms. NOTHING_YET: it owes less than a cent. What it owes is on the next invoice. Reasons may be added without notice." example:"NO_TERMS"`
}

// InvoicePayment is the body of POST /billing/invoices/{invoiceId}/paid.
type InvoicePayment struct {
	Reference string `json:"reference" doc:"Your reference of the payment: 1 to 200 characters in one line." bounds:"minLength=1,maxLength=200" example:"bank 2026-02-11 4711"`
}

// CreditOrder is the body of POST /billing/invoices/{invoiceId}/credit.
type CreditOrder struct {
	IdempotencyKey string         `json:"idempotencyKey" doc:"Your name for this credit note: 1 to 255 printable ASCII characters without a space. It never expires." pattern:"^[!-~]{1,255}$" example:"credit-17"`
	Reason         string         `json:"reason" doc:"Why, for the audit log and the organization: 1 to 1000 characters in one line." bounds:"minLength=1,maxLength=1000" example:"A network fee was billed for a test."`
	Lines          []CreditedLine `json:"lines,omitempty" doc:"What to give back of which fees. Without it, all that is left of the invoice."`
}

// CreditedLine is what a credit note gives back of one fee.
type CreditedLine struct {
	FeeLineID string  `json:"feeLineId" doc:"The fee, see GET /billing/fees." example:"fee_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	Amount    *string `json:"amount,omitempty" doc:"How much of it, in atomic units. Without it, all that is left." form:"amount" example:"416666666666666"`
}

// BillingTerms are what invoices print about a party, and how they are made.
type BillingTerms struct {
	LegalName        string   `json:"legalName" doc:"The legal name." bounds:"minLength=1,maxLength=200" example:"Example Ltd"`
	Address          []string `json:"address" doc:"The lines of the address, 1 to 8."`
	TaxID            string   `json:"taxId,omitempty" doc:"The tax number; empty for none." bounds:"maxLength=100" example:"GB123456789"`
	Email            string   `json:"email,omitempty" doc:"The e-mail for questions; empty for none." bounds:"maxLength=254" example:"billing@example.com"`
	TaxRateBps       *int     `json:"taxRateBps,omitempty" doc:"The rate of the tax, in basis points. Without it, that of the installation; 0 there." bounds:"minimum=0,maximum=10000" example:"1900"`
	TaxNote          *string  `json:"taxNote,omitempty" doc:"What invoices say about the tax. Without it, what the installation says." bounds:"maxLength=1000" example:"VAT 19 %"`
	InvoiceSeries    *string  `json:"invoiceSeries,omitempty" doc:"The series of the numbers of invoices. Without it, that of the installation; INV there." pattern:"^[A-Z0-9]{1,12}$" example:"INV"`
	CreditNoteSeries *string  `json:"creditNoteSeries,omitempty" doc:"The series of the numbers of credit notes. Without it, that of the installation; CN there." pattern:"^[A-Z0-9]{1,12}$" example:"CN"`
	BillingDay       *int     `json:"billingDay,omitempty" doc:"The day of the month after on which invoices are issued, at 06:00 UTC. Without it, that of the installation; 3 there." bounds:"minimum=1,maximum=28" example:"3"`
	Language         *string  `json:"language,omitempty" doc:"The language of the documents. Without it, that of the installation; en there." example:"en"`
}

// BillingTermsInForce are billing terms as they are, with a change that waits for another operator.
type BillingTermsInForce struct {
	Status          string        `json:"status" doc:"IN_FORCE: these are the terms. AWAITING_APPROVAL: another operator has to approve changeRequestId, and these are the terms until then." enum:"IN_FORCE,AWAITING_APPROVAL"`
	ChangeRequestID *string       `json:"changeRequestId"`
	Version         int           `json:"version" doc:"Counts the terms of this party; 0 without any." example:"1"`
	Terms           *BillingTerms `json:"terms" doc:"The terms in force; null without any."`
}

// InvoiceVerification is what an invoice is, computed again.
type InvoiceVerification struct {
	Number     string  `json:"number" doc:"The number of the invoice." example:"INV-000042"`
	Lines      int64   `json:"lines" doc:"How many fees were computed again; 0 if one of them differs." example:"4000"`
	Verified   bool    `json:"verified" doc:"Whether everything is what the ledger, the proven transactions and the prices say."`
	Difference *string `json:"difference" doc:"Where it first differs; null if nowhere." example:"line fee_01J9ZW3M8Q4S5T6V7W8X9YZABC: the ledger has no such fee"`
}

// UnpricedFees are fees that wait for a price.
type UnpricedFees struct {
	Data []OwnedFee `json:"data"`
}

// PriceMark is the body of POST /billing/marks.
type PriceMark struct {
	MintID int    `json:"mintId"`
	Price  string `json:"price" doc:"The price of a whole token in dollars." form:"decimal" example:"149.80"`
	Source string `json:"source" doc:"Where you have it from: 1 to 200 bytes." bounds:"minLength=1,maxLength=200" example:"the closing price of an exchange"`
	Moment string `json:"at" doc:"The moment of the price. Fees up to a quarter of an hour later take it." bounds:"minLength=1" example:"2026-01-10T12:00:00.000Z"`
}

// PriceMarkResult says what a stated price did.
type PriceMarkResult struct {
	PricedFees int64 `json:"pricedFees" doc:"How many fees have a value by it." example:"3"`
}

const unpricedMax = 1000

func (a *api) billingRoutes() []kernel.Route {
	exampleInvoice := OwnedInvoice{resource.ExampleOrganizationID, resource.ExampleInvoice}
	exampleNote := OwnedCreditNote{resource.ExampleOrganizationID, resource.ExampleCreditNote}
	exampleTerms := BillingTerms{
		LegalName: "Example Ltd", Address: []string{"1 Example Street", "London"}, TaxRateBps: new(1900),
		TaxNote: new("VAT 19 %"),
	}
	exampleInForce := BillingTermsInForce{Status: "IN_FORCE", Version: 1, Terms: &exampleTerms}
	paidInvoice := exampleInvoice
	paidInvoice.Status, paidInvoice.Outstanding, paidInvoice.PaidAt = "PAID", "0.00", &resource.ExampleAt
	paidInvoice.PaidReference = new("bank 2026-02-11 4711")
	termsText := "If the installation requires four eyes, the terms in force stay until another operator approves " +
		"changeRequestId."
	return []kernel.Route{
		{
			Method: http.MethodGet, Path: "/billing/invoices", Name: "listInvoices",
			Action: identity.ReadInstallation, Group: "Billing",
			Summary: "List invoices",
			Text:    "The invoices of all organizations. With status=ISSUED, what is unpaid.",
			Query: []kernel.Parameter{
				organizationFilter, resource.InvoiceStatusFilter, kernel.OrderParameter, kernel.LimitParameter,
				kernel.CursorParameter,
			},
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of invoices."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listInvoices, kernel.ExamplePage(exampleInvoice)),
		},
		{
			Method: http.MethodGet, Path: "/billing/invoices/{invoiceId}", Name: "getInvoice",
			Action: identity.ReadInstallation, Group: "Billing",
			Summary: "Read an invoice", Text: "One invoice." + resource.InvoiceFilesText,
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The invoice."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getInvoice, exampleInvoice),
			Files: resource.InvoiceFiles(a.findInvoice, func(c *call, fn func(context.Context, pg.Tx) error) error {
				return a.conf.DB.Snapshot(c.Context(), fn)
			}),
		},
		{
			Method: http.MethodGet, Path: "/billing/invoices/{invoiceId}/verification", Name: "verifyInvoice",
			Action: identity.ReadInstallation, Group: "Billing",
			Summary: "Compute an invoice again",
			Text: "Computes each line from the ledger, the transaction that a final block proved and the price of " +
				"that time, " +
				"and then the sums and the document, and names the first line that differs.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The result."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.verifyInvoice, InvoiceVerification{
				Number: "INV-000042", Lines: 4000,
				Verified: true,
			}),
		},
		{
			Method: http.MethodPost, Path: "/billing/invoices/{invoiceId}/paid", Name: "markInvoicePaid",
			Action: identity.MarkInvoicePaid, Group: "Billing",
			Summary: "Mark an invoice as paid",
			Text: "Marks an invoice as paid with your reference, and takes what was left of it off the fees that " +
				"are due in " +
				"the ledger. A repeated call with the same reference does nothing.",
			Retryable: true,
			Answers:   []kernel.Success{{Status: http.StatusOK, Text: "The invoice, now PAID."}},
			Faults:    []fault.Code{fault.CodeNotFound, fault.InvalidState},
			Handler:   kernel.HandleBody(a.markInvoicePaid, InvoicePayment{"bank 2026-02-11 4711"}, paidInvoice),
		},
		{
			Method: http.MethodPost, Path: "/billing/invoices/{invoiceId}/credit", Name: "creditInvoice",
			Action: identity.CreditInvoice, Group: "Billing",
			Summary: "Issue a credit note",
			Text: "Gives back parts of fees of one invoice, never more than is left of them. CREDIT_NOTE_ISSUED " +
				"tells the " +
				"organization. The same key with the same request returns its credit note.",
			ResultAt: "/billing/credit-notes",
			Answers:  []kernel.Success{{Status: http.StatusOK, Text: "The credit note."}},
			Faults: []fault.Code{
				fault.CodeNotFound, fault.InvalidState, fault.InvalidAmount, fault.IdempotencyConflict,
			},
			Handler: kernel.HandleBody(a.creditInvoice, CreditOrder{
				IdempotencyKey: "credit-17", Reason: "A network fee was billed for a test.",
				Lines: []CreditedLine{{"fee_01J9ZW3M8Q4S5T6V7W8X9YZABC", new("416666666666666")}},
			}, exampleNote),
		},
		{
			Method: http.MethodGet, Path: "/billing/credit-notes", Name: "listCreditNotes",
			Action: identity.ReadInstallation, Group: "Billing",
			Summary: "List credit notes", Text: "The credit notes of all organizations.",
			Query: []kernel.Parameter{
				organizationFilter, resource.InvoiceFilter, kernel.OrderParameter, kernel.LimitParameter,
				kernel.CursorParameter,
			},
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "A page of credit notes."}},
			Faults:  []fault.Code{fault.InvalidCursor},
			Handler: kernel.Handle(a.listCreditNotes, kernel.ExamplePage(exampleNote)),
		},
		{
			Method: http.MethodPost, Path: "/billing/run", Name: "runBilling", Action: identity.IssueInvoices,
			Group:   "Billing",
			Summary: "Issue the invoices of a month",
			Text: "Issues the invoices of a month that is over, which the service does by itself on the day of " +
				"the terms. What " +
				"was issued before stays, so the call may be repeated. An organization that fails is named in " +
				"failed, and the others get their invoices.",
			Retryable: true, ResultAt: "/billing/invoices",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The invoices of the month."}},
			Faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState},
			Handler: kernel.HandleBody(a.runBilling, BillingRun{Month: "2026-01"}, BillingRunResult{
				Month: "2026-01", Issued: 1, Invoices: []OwnedInvoice{exampleInvoice},
				Skipped: []UnbilledOrg{{resource.ExampleOrganizationID, "NO_TERMS"}},
				Failed:  []FailedOrg{},
			}),
		},
		{
			Method: http.MethodGet, Path: "/billing/terms", Name: "getBillingTerms", Action: identity.ReadInstallation,
			Group:   "Billing",
			Summary: "Read the seller's billing terms",
			Text: "What all invoices print about the seller, and how they are made unless an organization has " +
				"terms of its own.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The terms."}},
			Handler: kernel.Handle(a.getBillingTerms, exampleInForce),
		},
		{
			Method: http.MethodPut, Path: "/billing/terms", Name: "setBillingTerms",
			Action: identity.ChangeBillingTerms, Group: "Billing",
			Summary: "Set the seller's billing terms",
			Text:    "They are on what is issued from now on. " + termsText,
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The terms in force."}},
			Faults:  []fault.Code{fault.InvalidState, fault.ApprovalRefused},
			Handler: kernel.HandleBody(a.setBillingTerms, exampleTerms, exampleInForce),
		},
		{
			Method: http.MethodGet, Path: "/organizations/{organizationId}/billing-terms",
			Name: "getOrganizationBillingTerms", Action: identity.ReadInstallation, Group: "Billing",
			Summary: "Read an organization's billing terms",
			Text:    "What its invoices print about it. An organization without terms is not billed.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The terms."}},
			Faults:  []fault.Code{fault.CodeNotFound},
			Handler: kernel.Handle(a.getOrganizationTerms, exampleInForce),
		},
		{
			Method: http.MethodPut, Path: "/organizations/{organizationId}/billing-terms",
			Name: "setOrganizationBillingTerms", Action: identity.ChangeBillingTerms, Group: "Billing",
			Summary: "Set an organization's billing terms",
			Text:    "They are on what is issued from now on. " + termsText,
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The terms in force."}},
			Faults:  []fault.Code{fault.CodeNotFound, fault.InvalidState, fault.ApprovalRefused},
			Handler: kernel.HandleBody(a.setOrganizationTerms, exampleTerms, exampleInForce),
		},
		{
			Method: http.MethodGet, Path: "/billing/unpriced", Name: "listUnpricedFees",
			Action: identity.ReadInstallation, Group: "Billing",
			Summary: "List fees without a price",
			Text: "The oldest fees, at most 1000, for which no price of the quarter of an hour before them is " +
				"known. They are " +
				"on no invoice until they have one: state it with POST /billing/marks.",
			Answers: []kernel.Success{{Status: http.StatusOK, Text: "The fees."}},
			Handler: kernel.Handle(a.listUnpriced,
				UnpricedFees{[]OwnedFee{{resource.ExampleOrganizationID, resource.ExampleFee}}}),
		},
		{
			Method: http.MethodPost, Path: "/billing/marks", Name: "addPriceMark", Action: identity.AddPriceMark,
			Group:   "Billing",
			Summary: "State a price for a moment without one",
			Text: "Stores a price for a moment at which no source had one, with where you have it from. Fees " +
				"without a price " +
				"take it if it is the newest one of the quarter of an hour before them. A price that a fee has " +
				"never changes.",
			ResultAt: "/billing/unpriced",
			Answers:  []kernel.Success{{Status: http.StatusOK, Text: "How many fees have a value by it."}},
			Faults:   []fault.Code{fault.MintNotFound},
			Handler: kernel.HandleBody(a.addPriceMark,
				PriceMark{1, "149.80", "the closing price of an exchange", "2026-01-10T12:00:00.000Z"},
				PriceMarkResult{3}),
		},
	}
}

func showInvoice(i billing.Invoice) OwnedInvoice { return OwnedInvoice{i.OrgID, wire.Invoice(i)} }

func showCreditNote(n billing.CreditNote) OwnedCreditNote {
	return OwnedCreditNote{n.OrgID, wire.CreditNote(n)}
}

func (a *api) listInvoices(c *call) (kernel.Page[OwnedInvoice], error) {
	const list = "invoices of all"
	p, err := c.ReadPage(list)
	if err != nil {
		return kernel.Page[OwnedInvoice]{}, err
	}
	var found pagination.Result[billing.Invoice]
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = billing.ListInvoices(ctx, tx, billing.InvoiceFilter{
			OrgID: c.Query["organizationId"], Status: billing.Status(c.Query["status"]),
		}, p)
		return err
	})
	if err != nil {
		return kernel.Page[OwnedInvoice]{}, err
	}
	return kernel.NewPage(c.Request, list, found, showInvoice), nil
}

func (a *api) findInvoice(c *call) (billing.Invoice, error) {
	return a.conf.Billing.InvoiceByID(c.Context(), c.PathParam("invoiceId"))
}

func (a *api) getInvoice(c *call) (OwnedInvoice, error) {
	inv, err := a.findInvoice(c)
	if err != nil {
		return OwnedInvoice{}, err
	}
	return showInvoice(inv), nil
}

func (a *api) verifyInvoice(c *call) (InvoiceVerification, error) {
	v, err := a.conf.Billing.Verify(c.Context(), c.PathParam("invoiceId"))
	if err != nil {
		return InvoiceVerification{}, err
	}
	return InvoiceVerification{
		v.Invoice.Number, v.Lines, v.Difference == "", resource.OptionalText(v.Difference),
	}, nil
}

func (a *api) markInvoicePaid(c *call, body InvoicePayment) (OwnedInvoice, error) {
	inv, err := a.conf.Billing.MarkPaid(c.Context(), c.PathParam("invoiceId"), body.Reference, c.Caller.Actor())
	if err != nil {
		return OwnedInvoice{}, err
	}
	return showInvoice(inv), nil
}

func (a *api) creditInvoice(c *call, body CreditOrder) (OwnedCreditNote, error) {
	r := billing.CreditRequest{
		InvoiceID: c.PathParam("invoiceId"), IdempotencyKey: body.IdempotencyKey, Reason: body.Reason,
	}
	for _, l := range body.Lines {
		line := billing.CreditLine{FeeLineID: l.FeeLineID}
		if l.Amount != nil {
			amount, err := money.Parse(*l.Amount)
			if err != nil {
				return OwnedCreditNote{}, fault.New(fault.Invalid, fault.InvalidAmount, fault.NothingWritten,
					"amount has to be a whole number of atomic units.").WithAdvice("Correct it.").WithParam("lines")
			}
			line.Amount = &amount
		}
		r.Lines = append(r.Lines, line)
	}
	note, err := a.conf.Billing.IssueCreditNote(c.Context(), r, c.Caller.Actor())
	if err != nil {
		return OwnedCreditNote{}, err
	}
	return showCreditNote(note), nil
}

func (a *api) listCreditNotes(c *call) (kernel.Page[OwnedCreditNote], error) {
	const list = "credit notes of all"
	p, err := c.ReadPage(list)
	if err != nil {
		return kernel.Page[OwnedCreditNote]{}, err
	}
	var found pagination.Result[billing.CreditNote]
	err = a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = billing.ListCreditNotes(ctx, tx, billing.CreditNoteFilter{
			OrgID: c.Query["organizationId"], InvoiceID: c.Query["invoiceId"],
		}, p)
		return err
	})
	if err != nil {
		return kernel.Page[OwnedCreditNote]{}, err
	}
	return kernel.NewPage(c.Request, list, found, showCreditNote), nil
}

func (a *api) runBilling(c *call, body BillingRun) (BillingRunResult, error) {
	org := ""
	if body.OrganizationID != nil {
		org = *body.OrganizationID
	}
	r, err := a.conf.Billing.IssueInvoices(c.Context(), body.Month, org, c.Caller.Actor())
	if err != nil {
		return BillingRunResult{}, err
	}
	shown := BillingRunResult{
		Month: r.Month, Issued: r.Issued, Invoices: []OwnedInvoice{}, Skipped: []UnbilledOrg{}, Failed: []FailedOrg{},
	}
	for _, inv := range r.Invoices {
		shown.Invoices = append(shown.Invoices, showInvoice(inv))
	}
	for _, s := range r.Skipped {
		shown.Skipped = append(shown.Skipped, UnbilledOrg{s.OrgID, string(s.Reason)})
	}
	for _, f := range r.Failed {
		reason := "An internal error, which the log of the service has."
		if refusal := fault.Find(f.Err); refusal != nil {
			reason = refusal.Reason
		} else if errors.Is(f.Err, pg.ErrCommitUnknown) {
			reason = "The answer of the database was lost, so the invoice may have been issued."
		}
		shown.Failed = append(shown.Failed, FailedOrg{f.OrgID, reason})
	}
	return shown, nil
}

func (a *api) getBillingTerms(c *call) (BillingTermsInForce, error) { return a.readTerms(c, "") }

func (a *api) getOrganizationTerms(c *call) (BillingTermsInForce, error) {
	name, err := organizationID(c)
	if err != nil {
		return BillingTermsInForce{}, err
	}
	return a.readTerms(c, name)
}

// readTerms returns the terms of a party. One without terms has version 0.
func (a *api) readTerms(c *call, org string) (BillingTermsInForce, error) {
	err := a.conf.DB.ReadSystem(c.Context(), func(ctx context.Context, tx pg.Tx) error {
		return billing.CheckOrganization(ctx, tx, org)
	})
	if err != nil {
		return BillingTermsInForce{}, err
	}
	t, err := a.conf.Billing.TermsByOrg(c.Context(), org)
	if fault.HasCode(err, fault.CodeNotFound) {
		return BillingTermsInForce{Status: "IN_FORCE"}, nil
	}
	if err != nil {
		return BillingTermsInForce{}, err
	}
	return showTerms(t), nil
}

func showTerms(t billing.Terms) BillingTermsInForce {
	shown := BillingTermsInForce{Status: "IN_FORCE", Version: t.Version}
	if t.Version > 0 {
		shown.Terms = &BillingTerms{
			LegalName: t.Party.Name, Address: t.Party.Address, TaxID: t.Party.TaxID, Email: t.Party.Email,
			TaxRateBps: t.TaxRateBps, TaxNote: t.TaxNote, InvoiceSeries: t.InvoiceSeries,
			CreditNoteSeries: t.CreditNoteSeries, BillingDay: t.BillingDay, Language: t.Language,
		}
	}
	return shown
}

func (a *api) setBillingTerms(c *call, body BillingTerms) (BillingTermsInForce, error) {
	return a.saveTerms(c, "", body)
}

func (a *api) setOrganizationTerms(c *call, body BillingTerms) (BillingTermsInForce, error) {
	name, err := organizationID(c)
	if err != nil {
		return BillingTermsInForce{}, err
	}
	return a.saveTerms(c, name, body)
}

func (a *api) saveTerms(c *call, org string, body BillingTerms) (BillingTermsInForce, error) {
	var outcome billing.TermsOutcome
	err := a.conf.DB.InSystem(c.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		outcome, err = a.conf.Billing.SaveTerms(ctx, tx, c.Caller.Key, a.conf.FourEyes, billing.Terms{
			OrgID: org,
			Party: document.Party{
				Name: body.LegalName, Address: body.Address, TaxID: body.TaxID,
				Email: body.Email,
			},
			TaxRateBps: body.TaxRateBps, TaxNote: body.TaxNote, InvoiceSeries: body.InvoiceSeries,
			CreditNoteSeries: body.CreditNoteSeries, BillingDay: body.BillingDay, Language: body.Language,
		})
		return err
	})
	if err != nil {
		return BillingTermsInForce{}, err
	}
	shown := showTerms(outcome.Terms)
	if outcome.PendingChange != nil {
		shown.Status, shown.ChangeRequestID = awaitingApproval, &outcome.PendingChange.ID
	}
	return shown, nil
}

func (a *api) listUnpriced(c *call) (UnpricedFees, error) {
	lines, err := a.conf.Billing.UnpricedLines(c.Context(), unpricedMax)
	shown := UnpricedFees{Data: []OwnedFee{}}
	for _, l := range lines {
		shown.Data = append(shown.Data, showFee(l))
	}
	return shown, err
}

func (a *api) addPriceMark(c *call, body PriceMark) (PriceMarkResult, error) {
	price, err := money.ParseUSD(body.Price)
	if err != nil {
		return PriceMarkResult{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"price has to be a number of dollars such as 149.80.").WithAdvice("Correct it.").WithParam("price")
	}
	moment, err := time.Parse(time.RFC3339, body.Moment)
	if err != nil {
		return PriceMarkResult{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"at has to be a time such as 2026-01-10T12:00:00Z.").WithAdvice("Correct it.").WithParam("at")
	}
	n, err := a.conf.Billing.AddMark(c.Context(), billing.AddedMark{
		MintID: body.MintID, Price: price, Source: body.Source, Moment: moment,
	}, c.Caller.Actor())
	return PriceMarkResult{n}, err
}
