package console

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/billing/document"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/fee"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/request"
	"github.com/cofferpay/coffer/webhook"
)

// The acts about an invoice, and fields of their forms.
const (
	paidAct         = "paid"
	creditAct       = "issue"
	arrivedField    = "arrived" // what is left to pay, ticked
	creditedField   = "lines"   // the ticked fees
	extentField     = "extent"  // how much is given back
	creditWhole     = "INVOICE"
	creditTicked    = "TICKED"
	referenceMax    = 200
	creditReasonMax = 1000
	notesShownMax   = 20
)

// verifyParameter has the page of an invoice compute it again.
var verifyParameter = kernel.Parameter{Name: "verify", Kind: kernel.FlagParameter}

// invoicesPage lists the invoices of all organizations with what is left to pay. Rule PAGE-98.
func (c *console) invoicesPage() pages.Page {
	return pages.Page{
		Path: "/billing/invoices", Title: "Invoices", Action: identity.ReadInstallation,
		Query: []kernel.Parameter{
			pages.CursorParameter,
			{Name: "status", Kind: kernel.WordParameter, Enum: billing.Statuses},
			textFilter("organizationId"),
		},
		Live: []string{invoiceKind, creditNoteKind}, Load: c.loadInvoices, WriteCSV: c.writeInvoices,
	}
}

// invoicePage shows an invoice, computes it again, and takes the mark that it is paid. Rules PAGE-97 and PAGE-98.
func (c *console) invoicePage() pages.Page {
	return pages.Page{
		Path: "/billing/invoices/{invoiceId}", Title: "Invoice", Action: identity.ReadInstallation,
		Query: []kernel.Parameter{pages.CursorParameter, verifyParameter},
		Live:  []string{invoiceKind, creditNoteKind}, LiveOfAll: true, Load: c.loadInvoice, WriteCSV: c.writeInvoice,
		Files: pages.DocumentFiles(document.PagePolicy, func(r *pages.Request) (string, pages.Document, error) {
			inv, err := c.conf.Billing.InvoiceByID(r.Context(), r.PathParam("invoiceId"))
			return inv.Number, inv.Document, err
		}),
		Acts: []pages.Act{{
			Name: paidAct, Action: identity.MarkInvoicePaid, StepUp: pages.ActStepUp,
			Fields: []pages.Field{
				{Name: "reference", BytesMax: 4 * referenceMax, Missing: "Enter which payment it was."},
				{
					Name: arrivedField, BytesMax: priceBytesMax, Checkbox: true,
					Missing: "Tick that the amount arrived.",
				},
			},
			FindDone: c.findPaid, Run: c.markPaid,
		}},
	}
}

// findPaid returns the page of an invoice that is paid already, with its reference.
func (c *console) findPaid(r *pages.Request) (string, error) {
	inv, err := c.conf.Billing.InvoiceByID(r.Context(), r.PathParam("invoiceId"))
	if err != nil || inv.Status != billing.Paid {
		return "", err
	}
	return invoicePath(r, inv.ID), nil
}

// markPaid marks an invoice as paid, if what is left to pay is still what the page showed.
func (c *console) markPaid(r *pages.Request) (string, error) {
	inv, err := c.conf.Billing.InvoiceByID(r.Context(), r.PathParam("invoiceId"))
	if err != nil {
		return "", err
	}
	if inv.Outstanding.Cents() != r.Values[arrivedField] {
		return "", fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"A credit note was issued after you opened the page, and less is left to pay.").
			WithAdvice("Look at what is left before you mark the invoice as paid.")
	}
	inv, err = c.conf.Billing.MarkPaid(r.Context(), inv.ID, r.Values["reference"], actor(r))
	if err != nil {
		return "", err
	}
	return invoicePath(r, inv.ID), nil
}

func invoicePath(r *pages.Request, invoiceID string) string {
	return r.Path("billing", "invoices", invoiceID)
}

func (c *console) listInvoices(
	r *pages.Request, p pagination.Page,
) (found pagination.Result[billing.Invoice], err error) {
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = billing.ListInvoices(ctx, tx, billing.InvoiceFilter{
			OrgID: r.Query["organizationId"], Status: billing.Status(r.Query["status"]),
		}, p)
		return err
	})
	return found, err
}

// billingListView is what the lists of billing show.
type billingListView struct {
	listView

	Tabs []ui.Tab
}

func (c *console) loadInvoices(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	found, err := c.listInvoices(r, p)
	if err != nil {
		return nil, err
	}
	names, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	view := billingListView{Tabs: billingTabs(r, invoicesTab), listView: listView{
		Path: r.Path("billing", "invoices"), CSVPath: r.CSVPath(),
		Filters: filtersOf(r,
			filter{Name: "status", Label: "State", Options: []option{
				{"", "All"}, {string(billing.Issued), "Unpaid"}, {string(billing.Paid), "Paid"},
			}},
			filter{Name: "organizationId", Label: "Organization"}),
		Table: table{Caption: "Invoices", Columns: []column{
			{Title: "Invoice"},
			{Title: "Organization"},
			{Title: "State"},
			{Title: "Total", IsNumber: true},
			{Title: "Credited", IsNumber: true},
			{Title: "Left to pay", IsNumber: true},
			{Title: "Issued"},
			{Title: "Open", IsUnseen: true},
		}},
	}}
	for _, inv := range found.Items {
		credited := nothing("nothing")
		if text := inv.Credited.Cents(); text != "0.00" {
			credited = ui.Dollars(text)
		}
		view.Table.addRow(
			pair(ui.Code(inv.Number), ui.Text(monthText(inv.Month))),
			link(r.Path("organizations", inv.OrgID), names.nameOf(inv.OrgID)), ui.StateChip(invoiceChip(inv)),
			ui.Dollars(inv.Total.Cents()), credited, ui.Dollars(inv.Outstanding.Cents()),
			ui.When(r.Moment(inv.IssuedAt)), openLink(invoicePath(r, inv.ID), "Open", inv.Number),
		)
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	return invoicesList(view), nil
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

var invoiceColumns = []kernel.Column[billing.Invoice]{
	{Name: "invoiceId", Cell: func(i billing.Invoice) string { return i.ID }},
	{Name: "organizationId", Cell: func(i billing.Invoice) string { return i.OrgID }},
	{Name: "number", Cell: func(i billing.Invoice) string { return i.Number }},
	{Name: "month", Cell: func(i billing.Invoice) string { return i.Month }},
	{Name: "status", Cell: func(i billing.Invoice) string { return string(i.Status) }},
	{Name: "subtotal", Cell: func(i billing.Invoice) string { return i.Subtotal.Cents() }},
	{Name: "tax", Cell: func(i billing.Invoice) string { return i.Tax.Cents() }},
	{Name: "total", Cell: func(i billing.Invoice) string { return i.Total.Cents() }},
	{Name: "credited", Cell: func(i billing.Invoice) string { return i.Credited.Cents() }},
	{Name: "outstanding", Cell: func(i billing.Invoice) string { return i.Outstanding.Cents() }},
	{Name: "issuedAt", Cell: func(i billing.Invoice) string { return webhook.At(i.IssuedAt).String() }},
	{Name: "paidAt", Cell: func(i billing.Invoice) string {
		if i.PaidAt == nil {
			return ""
		}
		return webhook.At(*i.PaidAt).String()
	}},
	{Name: "paidReference", Cell: func(i billing.Invoice) string { return textOrEmpty(i.PaidReference) }},
}

func (c *console) writeInvoices(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(r.Context(), w, true, invoiceColumns, eachOf(
		func(p pagination.Page) (pagination.Result[billing.Invoice], error) { return c.listInvoices(r, p) }))
}

// documentView is what the pages of documents share.
type documentView struct {
	Number, PDFPath, PrintPath, CSVPath string
	Sections                            table
	Sums                                []ui.Fact
	Facts                               []ui.Fact
	TaxNote                             string
}

func newDocumentView(r *pages.Request, d document.Invoice) documentView {
	path := r.PagePath()
	view := documentView{
		Number: d.Number, PDFPath: path + pages.PDFSuffix, PrintPath: path + pages.HTMLSuffix, TaxNote: d.TaxNote,
		Sections: table{Caption: "Sums of the fees", Columns: []column{
			{Title: "Section"},
			{Title: "Amount", IsNumber: true},
			{Title: "Exact", IsNumber: true},
			{Title: "In cents", IsNumber: true},
		}},
		Sums: []ui.Fact{
			{Name: "Subtotal", Value: ui.Dollars(d.Subtotal.Cents())},
			{Name: "Tax, " + taxText(d.TaxRateBps), Value: ui.Dollars(d.Tax.Cents())},
			{Name: "Total", Value: ui.Dollars(d.Total.Cents())},
		},
	}
	for _, x := range d.Sections {
		view.Sections.addRow(
			pair(ui.Text(sectionText(x.Kind)),
				ui.Text(networkName(chain.Name(x.Chain))+" · "+ui.FormatCount(x.Lines, "fee"))),
			ui.Amount(x.Amount.Decimal(x.Decimals), x.Symbol), exactDollars(x.USDExact), ui.Dollars(x.USD),
		)
	}
	return view
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

// taxText writes a rate of basis points in percent.
func taxText(bps int) string { return formatPercent(bps) + " %" }

// formatPercent writes basis points as percent, as a form takes them.
func formatPercent(bps int) string {
	text := strconv.Itoa(bps / 100)
	if rest := bps % 100; rest != 0 {
		text += "." + strings.TrimRight(strconv.Itoa(100 + rest)[1:], "0")
	}
	return text
}

// partyFacts are a party of a document. Operators entered them, in any language.
func partyFacts(role string, p document.Party) []ui.Fact {
	facts := []ui.Fact{
		{Name: role, Value: ownText(p.Name)},
		{Name: "Address of " + strings.ToLower(role), Value: ownLines(p.Address)},
	}
	if p.TaxID != "" {
		facts = append(facts, ui.Fact{Name: "Tax ID of " + strings.ToLower(role), Value: ownText(p.TaxID)})
	}
	if p.Email != "" {
		facts = append(facts, ui.Fact{Name: "E-mail of " + strings.ToLower(role), Value: ownText(p.Email)})
	}
	return facts
}

// invoiceView is what the page of an invoice shows.
type invoiceView struct {
	documentView

	Chip                ui.Chip
	Title               string
	Parties             []ui.Fact
	Notes               table
	Fees                table
	FirstPath, NextPath string
	VerifyPath          string
	IsVerified          bool
	Difference          string // where it differs, computed again; "" if nowhere
	Lines               string
	Paid                *actView
	WhyNotPaid          string
	CreditPath          string // "" for a person who may not issue a credit note
	Form                ui.Form
}

func (c *console) loadInvoice(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	inv, err := c.conf.Billing.InvoiceByID(r.Context(), r.PathParam("invoiceId"))
	if err != nil {
		return nil, err
	}
	names, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	var notes pagination.Result[billing.CreditNote]
	var fees pagination.Result[fee.Line]
	var mints mint.Catalogue
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		notes, err = billing.ListCreditNotes(ctx, tx, billing.CreditNoteFilter{InvoiceID: inv.ID},
			pagination.Page{Limit: notesShownMax, Desc: true})
		if err != nil {
			return err
		}
		if fees, err = fee.List(ctx, tx, fee.Filter{OrgID: inv.OrgID, InvoiceID: inv.ID}, p); err != nil {
			return err
		}
		mints, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	view := invoiceView{
		documentView: newDocumentView(r, inv.Document), Chip: invoiceChip(inv), Title: monthText(inv.Month),
		Form: r.Form,
		Notes: table{Caption: "Credit notes", Columns: []column{
			{Title: "Credit note"}, {Title: "Total", IsNumber: true}, {Title: "Reason"}, {Title: "Issued"},
		}},
		Fees:       newFeeTable(),
		Parties:    append(partyFacts("Seller", inv.Document.Seller), partyFacts("Buyer", inv.Document.Buyer)...),
		VerifyPath: r.PagePath() + "?" + url.Values{verifyParameter.Name: {"true"}}.Encode(),
	}
	view.CSVPath = r.CSVPath()
	view.Facts = append([]ui.Fact{
		{Name: "Organization", Value: link(r.Path("organizations", inv.OrgID), names.nameOf(inv.OrgID))},
		{Name: "Id", Value: ui.Code(inv.ID)},
		{Name: "Issued", Value: ui.When(r.Moment(inv.IssuedAt))},
	}, view.Sums...)
	view.Facts = append(view.Facts,
		ui.Fact{Name: "Credited", Value: ui.Dollars(inv.Credited.Cents())},
		ui.Fact{Name: "Left to pay", Value: ui.Dollars(inv.Outstanding.Cents())})
	if inv.PaidAt != nil {
		view.Facts = append(view.Facts,
			ui.Fact{Name: "Marked as paid", Value: ui.When(r.Moment(*inv.PaidAt))},
			ui.Fact{Name: "Reference", Value: ui.Foreign(textOrEmpty(inv.PaidReference))})
	}
	for _, note := range notes.Items {
		view.Notes.addRow(link(r.Path("billing", "credit-notes", note.ID), note.Number), ui.Dollars(note.Total.Cents()),
			ownText(note.Reason), ui.When(r.Moment(note.IssuedAt)))
	}
	for _, l := range fees.Items {
		view.Fees.addRow(feeCells(r, l, mints)...)
	}
	view.FirstPath, view.NextPath = r.PagePaths(fees.NextCursor)
	if isAsked := r.Query.FlagValue(verifyParameter.Name); isAsked != nil && *isAsked {
		verified, err := c.conf.Billing.Verify(r.Context(), inv.ID)
		if err != nil {
			return nil, err
		}
		view.IsVerified, view.Difference = true, verified.Difference
		view.Lines = ui.FormatCount(int(verified.Lines), "fee")
	}
	view.addActs(r, inv, names)
	return invoiceOverview(view), nil
}

// addActs adds what the operator can do about the invoice.
func (v *invoiceView) addActs(r *pages.Request, inv billing.Invoice, names orgNames) {
	if r.IsAllowed(identity.CreditInvoice) {
		v.CreditPath = r.Path("billing", "invoices", inv.ID, "credit")
	}
	left := inv.Outstanding.Cents()
	switch {
	case inv.Status == billing.Paid:
		v.WhyNotPaid = "It is paid. The mark stays, with its reference."
	case !r.IsAllowed(identity.MarkInvoicePaid):
		v.WhyNotPaid = "Your role shows this invoice and does not mark it as paid."
	default:
		v.Paid = &actView{
			Path: invoicePath(r, inv.ID), Act: paidAct, Form: r.Form, Button: "Mark as paid", TakesCode: true,
			IsPrimary: true,
			Text:      "What is left is taken off the fees that are due in the books. The mark cannot be taken back.",
			Shown: []ui.Fact{
				{Name: "Invoice", Value: ui.Code(inv.Number)},
				{Name: "Of", Value: ui.Text(names.nameOf(inv.OrgID))},
				{Name: "Left to pay", Value: ui.Dollars(left)},
			},
			Ticks: []tick{{Name: arrivedField, Value: left, Label: ui.FormatDollars(left) + " arrived"}},
			Inputs: []ui.Input{{
				Act: paidAct, Name: "reference", Label: "Reference of the payment", Type: "text",
				MaxLength: referenceMax, Autocomplete: "off", Hint: "The organization sees it.",
			}},
		}
	}
}

// writeInvoice writes the fees of an invoice, with the same bytes as the interface. Rule PAGE-97.
func (c *console) writeInvoice(r *pages.Request, w *kernel.StreamWriter) error {
	inv, err := c.conf.Billing.InvoiceByID(r.Context(), r.PathParam("invoiceId"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Disposition", `attachment; filename="`+inv.Number+`.csv"`)
	return c.conf.DB.Snapshot(r.Context(), func(ctx context.Context, tx pg.Tx) error {
		return document.WriteCSV(w, inv.Document, billing.Lines(ctx, tx, inv.ID))
	})
}

// newFeeTable is the table of the fees of an invoice.
func newFeeTable(first ...column) table {
	return table{Caption: "Each fee with its transaction, its price and its time", Columns: append(first,
		column{Title: "Due since"}, column{Title: "Fee"}, column{Title: "Transaction"},
		column{Title: "Amount", IsNumber: true}, column{Title: "Price"}, column{Title: "Exact value", IsNumber: true})}
}

// feeCells are the cells of a fee.
func feeCells(r *pages.Request, l fee.Line, mints mint.Catalogue) []templ.Component {
	network := nothing("unknown coin")
	figure, symbol := l.Amount.String(), "units"
	if m, isKnown := mints.ByID(l.MintID); isKnown {
		figure, symbol, network = l.Amount.Decimal(m.Decimals), m.Symbol, ui.Text(networkName(m.Chain))
	}
	price, value := nothing("no price yet"), nothing("none yet")
	sign := ""
	if l.IsCredit {
		sign = "-"
	}
	if l.USDValue != nil && l.Price != nil {
		price = pair(exactDollars(l.Price.Price.String()),
			join(ui.Foreign(l.Price.Source), ui.Text(" "), ui.When(r.Moment(l.Price.QuotedAt))))
		value = exactDollars(sign + l.USDValue.String())
	}
	tx := nothing("none of its own")
	if l.TxHash != "" {
		tx = feeTransaction(l.TxHash, "Copy the transaction of "+l.SourceID)
	}
	return []templ.Component{
		ui.When(r.Moment(l.IncurredAt)), pair(ui.Text(feeTitle(l)), ui.Code(l.SourceID)), tx,
		pair(ui.Amount(sign+figure, symbol), network), price, value,
	}
}

// creditPage issues a credit note for an invoice. Rule PAGE-99.
func (c *console) creditPage() pages.Page {
	return pages.Page{
		Path: "/billing/invoices/{invoiceId}/credit", Title: "Credit note", Action: identity.ReadInstallation,
		Query: []kernel.Parameter{pages.CursorParameter}, Live: []string{invoiceKind, creditNoteKind}, LiveOfAll: true,
		Load: c.loadCredit,
		Acts: []pages.Act{{
			Name: creditAct, Action: identity.CreditInvoice, StepUp: pages.ActStepUp, Keyed: true,
			Fields: []pages.Field{
				{Name: creditedField, BytesMax: valueBytesMax, HasBoxes: true, Optional: true},
				{Name: extentField, BytesMax: idBytesMax, Missing: "Choose how much is given back."},
				{Name: "amount", BytesMax: priceBytesMax, Optional: true},
				{Name: "reason", BytesMax: 4 * creditReasonMax, Missing: "Say why: the document prints it."},
			},
			FindDone: c.findCreditNote, Run: c.issueCreditNote,
		}},
	}
}

// readCredit reads the form of a credit note. Errors: faults INVALID_REQUEST, INVALID_AMOUNT.
func (c *console) readCredit(r *pages.Request) (req billing.CreditRequest, err error) {
	refuse := func(name, reason string) error {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, "%s", reason).WithParam(name)
	}
	req = billing.CreditRequest{
		InvoiceID: r.PathParam("invoiceId"), IdempotencyKey: r.Key(), Reason: r.Values["reason"],
	}
	ticked := r.ListTicked(creditedField)
	amount := strings.TrimSpace(r.Values["amount"])
	switch extent := r.Values[extentField]; {
	case extent == creditWhole && (len(ticked) > 0 || amount != ""):
		return req, refuse(extentField, "You chose all of the invoice, and named fees or an amount as well.")
	case extent == creditWhole:
		return req, nil
	case extent != creditTicked:
		return req, refuse(extentField, "Choose how much is given back.")
	case len(ticked) == 0:
		return req, refuse(creditedField, "Tick the fees that are given back.")
	case amount != "" && len(ticked) != 1:
		return req, refuse("amount", "An amount is of one fee. Tick one, or leave it empty.")
	}
	for _, feeLineID := range ticked {
		req.Lines = append(req.Lines, billing.CreditLine{FeeLineID: feeLineID})
	}
	if amount == "" {
		return req, nil
	}
	parsed, err := c.parseCredited(r, ticked[0], amount)
	req.Lines[0].Amount = &parsed
	return req, err
}

// parseCredited parses an amount of a fee in whole coins.
func (c *console) parseCredited(r *pages.Request, feeLineID, text string) (amount money.Amount, err error) {
	var mints mint.Catalogue
	var l fee.Line
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		if mints, err = mint.LoadCatalogue(ctx, tx); err == nil {
			l, err = fee.ByID(ctx, tx, feeLineID)
		}
		return err
	})
	if err != nil {
		return amount, err
	}
	m, _ := mints.ByID(l.MintID)
	return request.ParseAmount(text, true, m, fault.NothingWritten)
}

// findCreditNote returns the page of the credit note that the key of the form made. Rule PAGE-15.
func (c *console) findCreditNote(r *pages.Request) (string, error) {
	req, errForm := c.readCredit(r)
	note, isKnown, err := c.conf.Billing.FindCreditNote(r.Context(), req)
	switch {
	case fault.HasCode(err, fault.IdempotencyConflict), isKnown && errForm != nil:
		return "", r.NewKeyConflict("credit note "+note.Number, creditNotePath(r, note.ID))
	case err != nil || !isKnown:
		return "", err
	}
	return creditNotePath(r, note.ID), nil
}

func (c *console) issueCreditNote(r *pages.Request) (string, error) {
	req, err := c.readCredit(r)
	if err != nil {
		return "", err
	}
	note, err := c.conf.Billing.IssueCreditNote(r.Context(), req, actor(r))
	if err != nil {
		return "", err
	}
	return creditNotePath(r, note.ID), nil
}

// creditView is what the form of a credit note shows.
type creditView struct {
	InvoicePath, Number string
	Path, Act, Key      string
	Facts               []ui.Fact
	Fees                table
	FirstPath, NextPath string
	Form                ui.Form
	Extent              choice
	MayIssue            bool
}

func (c *console) loadCredit(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	inv, err := c.conf.Billing.InvoiceByID(r.Context(), r.PathParam("invoiceId"))
	if err != nil {
		return nil, err
	}
	names, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	var fees pagination.Result[fee.Line]
	var mints mint.Catalogue
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		if fees, err = fee.List(ctx, tx, fee.Filter{OrgID: inv.OrgID, InvoiceID: inv.ID}, p); err != nil {
			return err
		}
		mints, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	view := creditView{
		InvoicePath: invoicePath(r, inv.ID), Number: inv.Number, Path: r.PagePath(), Act: creditAct, Form: r.Form,
		Key: r.FormKey(creditAct), MayIssue: r.IsAllowed(identity.CreditInvoice),
		Facts: []ui.Fact{
			{Name: "Organization", Value: link(r.Path("organizations", inv.OrgID), names.nameOf(inv.OrgID))},
			{Name: "Total", Value: ui.Dollars(inv.Total.Cents())},
			{Name: "Credited before", Value: ui.Dollars(inv.Credited.Cents())},
		},
		Fees: newFeeTable(column{Title: "Give back"}),
		Extent: choice{Act: creditAct, Name: extentField, Label: "How much", Options: []option{
			{creditTicked, "what is left of the ticked fees"}, {creditWhole, "all that is left of the invoice"},
		}},
	}
	ticked := r.ListTicked(creditedField)
	for _, l := range fees.Items {
		box := nothing("is a credit")
		if !l.IsCredit && view.MayIssue {
			box = creditBox(l.ID, l.SourceID, slices.Contains(ticked, l.ID))
		}
		view.Fees.addRow(append([]templ.Component{box}, feeCells(r, l, mints)...)...)
	}
	view.FirstPath, view.NextPath = r.PagePaths(fees.NextCursor)
	return creditForm(view), nil
}

// creditNotesPage lists the credit notes of all organizations. Rule PAGE-98.
func (c *console) creditNotesPage() pages.Page {
	return pages.Page{
		Path: "/billing/credit-notes", Title: "Credit notes", Action: identity.ReadInstallation,
		Query: []kernel.Parameter{pages.CursorParameter, textFilter("organizationId")},
		Live:  []string{creditNoteKind}, Load: c.loadCreditNotes, WriteCSV: c.writeCreditNotes,
	}
}

// creditNotePage shows a credit note. Rules PAGE-97 and PAGE-98.
func (c *console) creditNotePage() pages.Page {
	return pages.Page{
		Path: "/billing/credit-notes/{creditNoteId}", Title: "Credit note", Action: identity.ReadInstallation,
		Live: []string{creditNoteKind}, Load: c.loadCreditNote,
		Files: pages.DocumentFiles(document.PagePolicy, func(r *pages.Request) (string, pages.Document, error) {
			note, err := c.creditNoteOf(r)
			return note.Number, note.Document, err
		}),
	}
}

func creditNotePath(r *pages.Request, creditNoteID string) string {
	return r.Path("billing", "credit-notes", creditNoteID)
}

func (c *console) creditNoteOf(r *pages.Request) (note billing.CreditNote, err error) {
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		note, err = billing.LoadCreditNote(ctx, tx, r.PathParam("creditNoteId"))
		return err
	})
	return note, err
}

func (c *console) listCreditNotes(
	r *pages.Request, p pagination.Page,
) (found pagination.Result[billing.CreditNote], err error) {
	err = c.read(r, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = billing.ListCreditNotes(ctx, tx, billing.CreditNoteFilter{OrgID: r.Query["organizationId"]}, p)
		return err
	})
	return found, err
}

func (c *console) loadCreditNotes(r *pages.Request) (templ.Component, error) {
	p, err := r.ReadPage()
	if err != nil {
		return nil, err
	}
	found, err := c.listCreditNotes(r, p)
	if err != nil {
		return nil, err
	}
	names, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	view := billingListView{Tabs: billingTabs(r, creditNotesTab), listView: listView{
		Path: r.Path("billing", "credit-notes"), CSVPath: r.CSVPath(),
		Filters: filtersOf(r, filter{Name: "organizationId", Label: "Organization"}),
		Table: table{Caption: "Credit notes", Columns: []column{
			{Title: "Credit note"},
			{Title: "Corrects"},
			{Title: "Organization"},
			{Title: "Total", IsNumber: true},
			{Title: "Reason"},
			{Title: "Issued"},
			{Title: "Open", IsUnseen: true},
		}},
	}}
	for _, note := range found.Items {
		view.Table.addRow(
			ui.Code(note.Number), link(invoicePath(r, note.InvoiceID), note.InvoiceNumber),
			link(r.Path("organizations", note.OrgID), names.nameOf(note.OrgID)), ui.Dollars(note.Total.Cents()),
			ownText(note.Reason), ui.When(r.Moment(note.IssuedAt)),
			openLink(creditNotePath(r, note.ID), "Open", note.Number),
		)
	}
	view.FirstPath, view.NextPath = r.PagePaths(found.NextCursor)
	return creditNotesList(view), nil
}

var creditNoteColumns = []kernel.Column[billing.CreditNote]{
	{Name: "creditNoteId", Cell: func(n billing.CreditNote) string { return n.ID }},
	{Name: "organizationId", Cell: func(n billing.CreditNote) string { return n.OrgID }},
	{Name: "number", Cell: func(n billing.CreditNote) string { return n.Number }},
	{Name: "invoiceId", Cell: func(n billing.CreditNote) string { return n.InvoiceID }},
	{Name: "invoiceNumber", Cell: func(n billing.CreditNote) string { return n.InvoiceNumber }},
	{Name: "subtotal", Cell: func(n billing.CreditNote) string { return n.Subtotal.Cents() }},
	{Name: "tax", Cell: func(n billing.CreditNote) string { return n.Tax.Cents() }},
	{Name: "total", Cell: func(n billing.CreditNote) string { return n.Total.Cents() }},
	{Name: "reason", Cell: func(n billing.CreditNote) string { return n.Reason }},
	{Name: "issuedAt", Cell: func(n billing.CreditNote) string { return webhook.At(n.IssuedAt).String() }},
}

func (c *console) writeCreditNotes(r *pages.Request, w *kernel.StreamWriter) error {
	return kernel.WriteTable(r.Context(), w, true, creditNoteColumns, eachOf(
		func(p pagination.Page) (pagination.Result[billing.CreditNote], error) { return c.listCreditNotes(r, p) }))
}

// creditNoteView is what the page of a credit note shows.
type creditNoteView struct {
	documentView

	Reason, InvoicePath, InvoiceNumber string
	Parties                            []ui.Fact
}

func (c *console) loadCreditNote(r *pages.Request) (templ.Component, error) {
	note, err := c.creditNoteOf(r)
	if err != nil {
		return nil, err
	}
	names, err := c.loadOrgNames(r)
	if err != nil {
		return nil, err
	}
	view := creditNoteView{
		documentView: newDocumentView(r, note.Document), Reason: note.Reason,
		InvoicePath: invoicePath(r, note.InvoiceID), InvoiceNumber: note.InvoiceNumber,
		Parties: append(partyFacts("Seller", note.Document.Seller), partyFacts("Buyer", note.Document.Buyer)...),
	}
	view.Facts = append([]ui.Fact{
		{Name: "Organization", Value: link(r.Path("organizations", note.OrgID), names.nameOf(note.OrgID))},
		{Name: "Corrects", Value: link(view.InvoicePath, "Invoice "+note.InvoiceNumber)},
		{Name: "Id", Value: ui.Code(note.ID)},
		{Name: "Issued", Value: ui.When(r.Moment(note.IssuedAt))},
	}, view.Sums...)
	return creditNoteOverview(view), nil
}
