package dashboard

import (
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/billing/document"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fee"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// Kinds of documents among the resources of the audit log.
const (
	invoiceKind    = "INVOICE"
	creditNoteKind = "CREDIT_NOTE"
)

// The tabs of Billing.
const (
	currentMonthTab    = "Current month"
	invoicesTab        = "Invoices"
	creditNotesTab     = "Credit notes"
	billingDescription = "What you owe the operator of this service: the cost of networks, and the fees of swaps."
)

// notesOfInvoiceMax is how many credit notes the page of an invoice names. The list has all.
const notesOfInvoiceMax = 20

var invoiceStatusParameter = kernel.Parameter{Name: "status", Kind: kernel.WordParameter, Enum: billing.Statuses}

// billingPage shows what the next invoice would have, as of now. Rule PAGE-96.
func (d *dashboard) billingPage() pages.Page {
	return pages.Page{
		Path: "/billing", Title: "Billing", Action: identity.ReadOrganization, Group: "Organization", Icon: "invoice",
		Shortcut: "i", Live: []string{invoiceKind}, Query: []kernel.Parameter{pages.CursorParameter},
		Load: d.loadBilling, WriteCSV: d.writeCurrentFees,
	}
}

// invoicesPage lists the invoices of the organization. Rule PAGE-96.
func (d *dashboard) invoicesPage() pages.Page {
	return pages.Page{
		Path: "/billing/invoices", Title: "Invoices", Action: identity.ReadOrganization,
		Live:  []string{invoiceKind, creditNoteKind},
		Query: []kernel.Parameter{pages.CursorParameter, invoiceStatusParameter},
		Load:  d.loadInvoices, WriteCSV: d.writeInvoices,
	}
}

// invoicePage shows an invoice with each of its fees. Rules PAGE-96 and PAGE-97.
func (d *dashboard) invoicePage() pages.Page {
	return pages.Page{
		Path: "/billing/invoices/{invoiceId}", Title: "Invoice", Action: identity.ReadOrganization,
		Live: []string{invoiceKind, creditNoteKind}, LiveOfAll: true,
		Query: []kernel.Parameter{pages.CursorParameter}, Load: d.loadInvoice, WriteCSV: d.writeInvoice,
		Files: pages.DocumentFiles(document.PagePolicy, func(r *pages.Request) (string, pages.Document, error) {
			inv, err := d.invoiceOf(r)
			return inv.Number, inv.Document, err
		}),
	}
}

// creditNotesPage lists the credit notes of the organization. Rule PAGE-96.
func (d *dashboard) creditNotesPage() pages.Page {
	return pages.Page{
		Path: "/billing/credit-notes", Title: "Credit notes", Action: identity.ReadOrganization,
		Live: []string{creditNoteKind}, Query: []kernel.Parameter{pages.CursorParameter}, Load: d.loadCreditNotes,
		WriteCSV: d.writeCreditNotes,
	}
}

// creditNotePage shows a credit note. Rules PAGE-96 and PAGE-97.
func (d *dashboard) creditNotePage() pages.Page {
	return pages.Page{
		Path: "/billing/credit-notes/{creditNoteId}", Title: "Credit note", Action: identity.ReadOrganization,
		Live: []string{creditNoteKind}, Load: d.loadCreditNote,
		Files: pages.DocumentFiles(document.PagePolicy, func(r *pages.Request) (string, pages.Document, error) {
			note, err := d.creditNoteOf(r)
			return note.Number, note.Document, err
		}),
	}
}

func billingTabs(r *pages.Request, current string) []ui.Tab {
	tabs := []ui.Tab{
		{Title: currentMonthTab, Path: r.Path("billing")},
		{Title: invoicesTab, Path: r.Path("billing", "invoices")},
		{Title: creditNotesTab, Path: r.Path("billing", "credit-notes")},
	}
	for i := range tabs {
		tabs[i].Current = tabs[i].Title == current
	}
	return tabs
}

func invoicePath(r *pages.Request, invoiceID string) string {
	return r.Path("billing", "invoices", invoiceID)
}

// readBilling runs a read of the organization of a request.
func (d *dashboard) readBilling(r *pages.Request, work func(ctx context.Context, tx pg.Tx) error) error {
	return d.conf.DB.ReadOrg(r.Context(), r.Session.OrgID, work)
}

// invoiceOf returns the invoice that the path names. Error: fault NOT_FOUND. Rule BI-20.
func (d *dashboard) invoiceOf(r *pages.Request) (inv billing.Invoice, err error) {
	err = d.readBilling(r, func(ctx context.Context, tx pg.Tx) error {
		inv, err = billing.LoadInvoice(ctx, tx, r.PathParam("invoiceId"))
		return err
	})
	return inv, err
}

func (d *dashboard) creditNoteOf(r *pages.Request) (note billing.CreditNote, err error) {
	err = d.readBilling(r, func(ctx context.Context, tx pg.Tx) error {
		note, err = billing.LoadCreditNote(ctx, tx, r.PathParam("creditNoteId"))
		return err
	})
	return note, err
}

// monthText writes a month such as 2026-01 for people.
func monthText(month string) string {
	first, err := time.Parse(fee.MonthLayout, month)
	if err != nil {
		return month
	}
	return first.Format("January 2006")
}

// taxText writes a rate of basis points in percent.
func taxText(bps int) string {
	text := strconv.Itoa(bps / 100)
	if rest := bps % 100; rest != 0 {
		text += "." + strings.TrimRight(strconv.Itoa(100 + rest)[1:], "0")
	}
	return text + " %"
}

// invoiceChip says whether an invoice is paid.
func invoiceChip(inv billing.Invoice) ui.Chip {
	switch {
	case inv.Status == billing.Paid:
		return ui.Chip{Kind: ui.Good, Word: "Paid"}
	case inv.Outstanding.Cents() == "0.00":
		return ui.Chip{Kind: ui.Quiet, Word: "Nothing left to pay"}
	}
	return ui.Chip{Kind: ui.Wait, Word: "Unpaid"}
}

// invoiceStatusText writes a status of the filter for people.
func invoiceStatusText(status string) string {
	if billing.Status(status) == billing.Paid {
		return "Paid"
	}
	return "Unpaid"
}

// sectionText names the fees of a section.
func sectionText(kind string) string {
	switch kind {
	case document.NetworkFees:
		return "Network fees"
	case document.NetworkFeeCredits:
		return "Prepaid or reduced network fees"
	case document.SwapFees:
		return "Swap fees"
	}
	return kind
}

// feeTitle says what a fee is of.
func feeTitle(l fee.Line) string {
	switch {
	case l.Kind == fee.SwapFee:
		return "Fee of a swap"
	case l.SourceKind == fee.SourceKind(ledger.FeePrepaid):
		return "Network fee that its withdrawal paid"
	case l.SourceKind == fee.SourceKind(ledger.FeeChange) && l.IsCredit:
		return "Network fee that became lower"
	case l.SourceKind == fee.SourceKind(ledger.FeeChange):
		return "Network fee that became higher"
	}
	return "Network fee"
}

// sectionRow is the sum of fees of a kind in one coin.
type sectionRow struct {
	Title, Network, Symbol string
	Figure, Exact, Dollars string
	Count                  string
}

func newSectionRows(sections []document.Section) (rows []sectionRow) {
	for _, x := range sections {
		rows = append(rows, sectionRow{
			Title: sectionText(x.Kind), Network: networkName(chain.Name(x.Chain)), Symbol: x.Symbol,
			Figure: x.Amount.Decimal(x.Decimals), Exact: x.USDExact, Dollars: x.USD,
			Count: ui.FormatCount(x.Lines, "fee"),
		})
	}
	return rows
}

// sumRow is a line below sections.
type sumRow struct {
	Name, Dollars string
	IsTotal       bool
}

// newSumRows are the sums of a document.
func newSumRows(d document.Invoice) []sumRow {
	tax := "Tax, " + taxText(d.TaxRateBps)
	return []sumRow{
		{"Subtotal", d.Subtotal.Cents(), false}, {tax, d.Tax.Cents(), false}, {"Total", d.Total.Cents(), true},
	}
}

// feeRow is one fee.
type feeRow struct {
	ID, Title            string
	SourcePath, SourceID string // SourcePath is "" for a source without a page
	Hash, ExplorerURL    string // "" for a fee without a transaction of its own
	Figure, Symbol       string
	Network              string
	Dollars              string // exact; "" without a price
	Price, PriceSource   string
	PricedAt, IncurredAt ui.Moment
}

func (d *dashboard) newFeeRow(r *pages.Request, l fee.Line, mints mint.Catalogue) feeRow {
	row := feeRow{
		ID: l.ID, Title: feeTitle(l), SourceID: l.SourceID, Hash: l.TxHash, Figure: l.Amount.String(), Symbol: "units",
		IncurredAt: r.Moment(l.IncurredAt),
	}
	if m, isKnown := mints.ByID(l.MintID); isKnown {
		row.Figure, row.Symbol, row.Network = l.Amount.Decimal(m.Decimals), m.Symbol, networkName(m.Chain)
		row.ExplorerURL = d.explorerURL(m.Chain, chain.TxHash(l.TxHash))
	}
	if l.USDValue != nil && l.Price != nil {
		row.Dollars, row.Price, row.PriceSource = l.USDValue.String(), l.Price.Price.String(), l.Price.Source
		row.PricedAt = r.Moment(l.Price.QuotedAt)
	}
	if l.IsCredit {
		row.Figure = "-" + row.Figure
		if row.Dollars != "" {
			row.Dollars = "-" + row.Dollars
		}
	}
	// The order of a withdrawal has its id. A change of its cost names which one it is after a slash.
	switch sourceID, _, _ := strings.Cut(l.SourceID, "/"); {
	case l.Kind == fee.SwapFee:
		row.SourcePath = r.Path("swaps", sourceID)
	case strings.HasPrefix(sourceID, "wd_"):
		row.SourcePath = transactionPath(r, withdrawalKind, sourceID)
	}
	return row
}

// listFeeRows reads a page of fees.
func (d *dashboard) listFeeRows(
	ctx context.Context, tx pg.Tx, r *pages.Request, f fee.Filter, p pagination.Page,
) (rows []feeRow, cursor *pagination.Cursor, err error) {
	found, err := fee.List(ctx, tx, f, p)
	if err != nil {
		return nil, nil, err
	}
	mints, err := mint.LoadCatalogue(ctx, tx)
	for _, l := range found.Items {
		rows = append(rows, d.newFeeRow(r, l, mints))
	}
	return rows, found.NextCursor, err
}

// billingView is what the page of the current month shows.
type billingView struct {
	CSVPath             string
	Tabs                []ui.Tab
	Month, Subtotal     string
	EndsAt              ui.Moment
	Unpriced            string // how many fees have no price; "" for none
	Sections            []sectionRow
	Fees                []feeRow
	FirstPath, NextPath string
	Calls               []string
}

// currentFees selects the fees of the next invoice.
func currentFees(orgID string, m billing.Month) fee.Filter {
	return fee.Filter{OrgID: orgID, IsUnbilled: true, End: m.End}
}

func (d *dashboard) loadBilling(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	view := billingView{
		CSVPath: r.CSVPath(), Tabs: billingTabs(r, currentMonthTab),
		Calls: []string{d.callText("GET", "/billing/current", ""), d.callText("GET", "/billing/fees", "")},
	}
	err = d.readBilling(r, func(ctx context.Context, tx pg.Tx) error {
		now, err := billing.LoadProvisional(ctx, tx, r.Session.OrgID)
		if err != nil {
			return err
		}
		view.Month, view.Subtotal, view.EndsAt = monthText(now.Month.Name), now.Subtotal, r.Moment(now.Month.End)
		if view.Unpriced = ""; now.Unpriced > 0 {
			view.Unpriced = ui.FormatCount(now.Unpriced, "fee")
		}
		view.Sections = newSectionRows(now.Sections)
		var cursor *pagination.Cursor
		view.Fees, cursor, err = d.listFeeRows(ctx, tx, r, currentFees(r.Session.OrgID, now.Month), p)
		view.FirstPath, view.NextPath = r.PagePaths(cursor)
		return err
	})
	if err != nil {
		return nil, err
	}
	return billingOverview(view), nil
}

func (d *dashboard) writeCurrentFees(r *pages.Request, w *kernel.StreamWriter) error {
	now, err := billing.ParseMonth(r.Now.UTC().Format(fee.MonthLayout))
	if err != nil {
		return err
	}
	return kernel.WriteTable(r.Context(), w, true, resource.FeeColumns,
		func(ctx context.Context, desc bool, row func(resource.FeeLine) error) error {
			return d.conf.DB.SnapshotOrg(ctx, r.Session.OrgID, func(ctx context.Context, tx pg.Tx) error {
				return fee.ForEach(ctx, tx, currentFees(r.Session.OrgID, now), desc,
					func(l fee.Line) error { return row(resource.ShowFee(l)) })
			})
		})
}

// invoiceRow is an invoice in a list.
type invoiceRow struct {
	Path, Number, Month          string
	Chip                         ui.Chip
	Total, Credited, Outstanding string // Credited is "" for nothing
	Issued                       ui.Moment
}

func newInvoiceRow(r *pages.Request, inv billing.Invoice) invoiceRow {
	row := invoiceRow{
		Path: invoicePath(r, inv.ID), Number: inv.Number, Month: monthText(inv.Month), Chip: invoiceChip(inv),
		Total: inv.Total.Cents(), Outstanding: inv.Outstanding.Cents(), Issued: r.Moment(inv.IssuedAt),
	}
	if text := inv.Credited.Cents(); text != "0.00" {
		row.Credited = text
	}
	return row
}

// invoicesView is what the list of invoices shows.
type invoicesView struct {
	ListPath, CSVPath   string
	Tabs                []ui.Tab
	Statuses            []choice
	IsFiltered          bool
	Rows                []invoiceRow
	FirstPath, NextPath string
	Calls               []string
}

func (d *dashboard) listInvoices(
	r *pages.Request, p pagination.Page,
) (found pagination.Result[billing.Invoice], err error) {
	err = d.readBilling(r, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = billing.ListInvoices(ctx, tx, billing.InvoiceFilter{
			OrgID: r.Session.OrgID, Status: billing.Status(r.Query[invoiceStatusParameter.Name]),
		}, p)
		return err
	})
	return found, err
}

func (d *dashboard) loadInvoices(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	found, err := d.listInvoices(r, p)
	if err != nil {
		return nil, err
	}
	chosen := r.Query[invoiceStatusParameter.Name]
	view := invoicesView{
		ListPath: r.PagePath(), CSVPath: r.CSVPath(), Tabs: billingTabs(r, invoicesTab), IsFiltered: chosen != "",
		Calls: []string{d.callText("GET", "/billing/invoices", "")},
	}
	for _, status := range billing.Statuses {
		view.Statuses = append(view.Statuses, choice{
			Value: status, Text: invoiceStatusText(status), IsChosen: chosen == status,
		})
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	for _, inv := range found.Items {
		view.Rows = append(view.Rows, newInvoiceRow(r, inv))
	}
	return invoiceList(view), nil
}

// invoiceColumns are the columns of the table of invoices, by the names of the interface.
var invoiceColumns = []kernel.Column[webhook.Invoice]{
	{Name: "invoiceId", Cell: func(i webhook.Invoice) string { return i.InvoiceID }},
	{Name: "number", Cell: func(i webhook.Invoice) string { return i.Number }},
	{Name: "month", Cell: func(i webhook.Invoice) string { return i.Month }},
	{Name: "status", Cell: func(i webhook.Invoice) string { return i.Status }},
	{Name: "subtotal", Cell: func(i webhook.Invoice) string { return i.Subtotal }},
	{Name: "tax", Cell: func(i webhook.Invoice) string { return i.Tax }},
	{Name: "total", Cell: func(i webhook.Invoice) string { return i.Total }},
	{Name: "credited", Cell: func(i webhook.Invoice) string { return i.Credited }},
	{Name: "outstanding", Cell: func(i webhook.Invoice) string { return i.Outstanding }},
	{Name: "issuedAt", Cell: func(i webhook.Invoice) string { return i.IssuedAt.String() }},
	{Name: "paidAt", Cell: func(i webhook.Invoice) string { return resource.TimeOrEmpty(i.PaidAt) }},
	{Name: "paidReference", Cell: func(i webhook.Invoice) string { return resource.TextOrEmpty(i.PaidReference) }},
}

func (d *dashboard) writeInvoices(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(r.Context(), w, true, invoiceColumns, eachPage(
		func(p pagination.Page) (pagination.Result[billing.Invoice], error) { return d.listInvoices(r, p) },
		wire.Invoice))
}

// eachPage reads all pages of a list, and shows each item as the interface does.
func eachPage[T, S any](
	list func(pagination.Page) (pagination.Result[T], error), show func(T) S,
) func(ctx context.Context, desc bool, row func(S) error) error {
	return func(_ context.Context, desc bool, row func(S) error) error {
		p := pagination.Page{Limit: pagination.LimitMax, Desc: desc}
		for {
			found, err := list(p)
			if err != nil {
				return err
			}
			for _, item := range found.Items {
				if err := row(show(item)); err != nil {
					return err
				}
			}
			if found.NextCursor == nil {
				return nil
			}
			p.Cursor = found.NextCursor
		}
	}
}

// partyView is a party of a document.
type partyView struct {
	Title, Name  string
	Address      []string
	TaxID, Email string
}

func newPartyViews(d document.Invoice) []partyView {
	return []partyView{
		{"From", d.Seller.Name, d.Seller.Address, d.Seller.TaxID, d.Seller.Email},
		{"To", d.Buyer.Name, d.Buyer.Address, d.Buyer.TaxID, d.Buyer.Email},
	}
}

// documentView is what the pages of documents share.
type documentView struct {
	Number, Path string
	Sections     []sectionRow
	Sums         []sumRow
	TaxNote      string
	Parties      []partyView
	Facts        []ui.Fact
	PDFPath      string
	PrintPath    string
	Calls        []string
}

func newDocumentView(r *pages.Request, d document.Invoice) documentView {
	path := r.PagePath()
	return documentView{
		Number: d.Number, Path: path, Sections: newSectionRows(d.Sections), Sums: newSumRows(d), TaxNote: d.TaxNote,
		Parties: newPartyViews(d), PDFPath: path + pages.PDFSuffix, PrintPath: path + pages.HTMLSuffix,
	}
}

// invoiceView is what the page of an invoice shows.
type invoiceView struct {
	documentView

	Month, CSVPath      string
	Chip                ui.Chip
	Notes               []creditNoteRow
	NotesPath           string // the list, where there are more; "" otherwise
	Fees                []feeRow
	FirstPath, NextPath string
}

func (d *dashboard) loadInvoice(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	var inv billing.Invoice
	var notes pagination.Result[billing.CreditNote]
	var fees []feeRow
	var cursor *pagination.Cursor
	err = d.readBilling(r, func(ctx context.Context, tx pg.Tx) (err error) {
		if inv, err = billing.LoadInvoice(ctx, tx, r.PathParam("invoiceId")); err != nil {
			return err
		}
		notes, err = billing.ListCreditNotes(ctx, tx, billing.CreditNoteFilter{InvoiceID: inv.ID},
			pagination.Page{Limit: notesOfInvoiceMax, Desc: true})
		if err != nil {
			return err
		}
		fees, cursor, err = d.listFeeRows(ctx, tx, r, fee.Filter{OrgID: r.Session.OrgID, InvoiceID: inv.ID}, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	view := invoiceView{
		documentView: newDocumentView(r, inv.Document), Month: monthText(inv.Month), Chip: invoiceChip(inv),
		CSVPath: r.CSVPath(), Fees: fees,
	}
	view.FirstPath, view.NextPath = r.PagePaths(cursor)
	view.Facts = []ui.Fact{
		{Name: "Invoice", Value: copiedText(inv.ID)},
		{Name: "Issued", Value: ui.When(r.Moment(inv.IssuedAt))},
	}
	if text := inv.Credited.Cents(); text != "0.00" {
		view.Facts = append(view.Facts, ui.Fact{Name: "Credited", Value: ui.Dollars(text)})
	}
	view.Facts = append(view.Facts, ui.Fact{Name: "Left to pay", Value: ui.Dollars(inv.Outstanding.Cents())})
	if inv.PaidAt != nil {
		view.Facts = append(view.Facts,
			ui.Fact{Name: "Marked as paid", Value: ui.When(r.Moment(*inv.PaidAt))},
			ui.Fact{Name: "Reference of the payment", Value: ui.Foreign(textOrEmpty(inv.PaidReference))})
	}
	for _, note := range notes.Items {
		view.Notes = append(view.Notes, newCreditNoteRow(r, note))
	}
	if notes.NextCursor != nil {
		view.NotesPath = r.Path("billing", "credit-notes")
	}
	view.Calls = []string{
		d.callText("GET", "/billing/invoices/"+inv.ID, ""), d.callText("GET", "/billing/invoices/"+inv.ID+".pdf", ""),
	}
	return invoiceOverview(view), nil
}

// writeInvoice writes the fees of an invoice, with the same bytes as the interface. Rule PAGE-97.
func (d *dashboard) writeInvoice(r *pages.Request, w *kernel.StreamWriter) error {
	inv, err := d.invoiceOf(r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Disposition", `attachment; filename="`+inv.Number+`.csv"`)
	return d.conf.DB.SnapshotOrg(r.Context(), r.Session.OrgID, func(ctx context.Context, tx pg.Tx) error {
		return document.WriteCSV(io.Writer(w), inv.Document, billing.Lines(ctx, tx, inv.ID))
	})
}

// creditNoteRow is a credit note in a list.
type creditNoteRow struct {
	Path, Number               string
	InvoicePath, InvoiceNumber string
	Total, Reason              string
	Issued                     ui.Moment
}

func newCreditNoteRow(r *pages.Request, note billing.CreditNote) creditNoteRow {
	return creditNoteRow{
		Path: r.Path("billing", "credit-notes", note.ID), Number: note.Number, Total: note.Total.Cents(),
		InvoicePath: invoicePath(r, note.InvoiceID), InvoiceNumber: note.InvoiceNumber, Reason: note.Reason,
		Issued: r.Moment(note.IssuedAt),
	}
}

// creditNotesView is what the list of credit notes shows.
type creditNotesView struct {
	CSVPath             string
	Tabs                []ui.Tab
	Rows                []creditNoteRow
	FirstPath, NextPath string
	Calls               []string
}

func (d *dashboard) listCreditNotes(
	r *pages.Request, p pagination.Page,
) (found pagination.Result[billing.CreditNote], err error) {
	err = d.readBilling(r, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = billing.ListCreditNotes(ctx, tx, billing.CreditNoteFilter{OrgID: r.Session.OrgID}, p)
		return err
	})
	return found, err
}

func (d *dashboard) loadCreditNotes(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	found, err := d.listCreditNotes(r, p)
	if err != nil {
		return nil, err
	}
	view := creditNotesView{
		CSVPath: r.CSVPath(), Tabs: billingTabs(r, creditNotesTab),
		Calls: []string{d.callText("GET", "/billing/credit-notes", "")},
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	for _, note := range found.Items {
		view.Rows = append(view.Rows, newCreditNoteRow(r, note))
	}
	return creditNoteList(view), nil
}

// creditNoteColumns are the columns of the table of credit notes, by the names of the interface.
var creditNoteColumns = []kernel.Column[webhook.CreditNote]{
	{Name: "creditNoteId", Cell: func(n webhook.CreditNote) string { return n.CreditNoteID }},
	{Name: "number", Cell: func(n webhook.CreditNote) string { return n.Number }},
	{Name: "invoiceId", Cell: func(n webhook.CreditNote) string { return n.InvoiceID }},
	{Name: "invoiceNumber", Cell: func(n webhook.CreditNote) string { return n.InvoiceNumber }},
	{Name: "subtotal", Cell: func(n webhook.CreditNote) string { return n.Subtotal }},
	{Name: "tax", Cell: func(n webhook.CreditNote) string { return n.Tax }},
	{Name: "total", Cell: func(n webhook.CreditNote) string { return n.Total }},
	{Name: "reason", Cell: func(n webhook.CreditNote) string { return n.Reason }},
	{Name: "issuedAt", Cell: func(n webhook.CreditNote) string { return n.IssuedAt.String() }},
}

func (d *dashboard) writeCreditNotes(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(r.Context(), w, true, creditNoteColumns, eachPage(
		func(p pagination.Page) (pagination.Result[billing.CreditNote], error) { return d.listCreditNotes(r, p) },
		wire.CreditNote))
}

// creditNoteView is what the page of a credit note shows.
type creditNoteView struct {
	documentView

	ListPath                   string
	InvoicePath, InvoiceNumber string
	Reason                     string
}

func (d *dashboard) loadCreditNote(r *pages.Request) (templ.Component, error) {
	note, err := d.creditNoteOf(r)
	if err != nil {
		return nil, err
	}
	view := creditNoteView{
		documentView: newDocumentView(r, note.Document), ListPath: r.Path("billing", "credit-notes"),
		InvoicePath: invoicePath(r, note.InvoiceID), InvoiceNumber: note.InvoiceNumber, Reason: note.Reason,
	}
	view.Facts = []ui.Fact{
		{Name: "Credit note", Value: copiedText(note.ID)},
		{Name: "Corrects", Value: pathLink(view.InvoicePath, "Invoice "+note.InvoiceNumber)},
		{Name: "Issued", Value: ui.When(r.Moment(note.IssuedAt))},
	}
	view.Calls = []string{d.callText("GET", "/billing/credit-notes", "")}
	return creditNoteOverview(view), nil
}
