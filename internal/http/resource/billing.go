package resource

import (
	"context"
	"io"

	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/billing/document"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

// InvoiceStatusFilter narrows a list of invoices.
var InvoiceStatusFilter = kernel.Parameter{
	Name: "status", Kind: kernel.WordParameter, Enum: billing.Statuses, Text: "Only in this status.",
}

// InvoiceFilter narrows a list of credit notes.
var InvoiceFilter = kernel.Parameter{
	Name: "invoiceId", Kind: kernel.TextParameter, Max: 64, Text: "Only of this invoice.",
}

// InvoiceFilesText says which files an invoice is.
const InvoiceFilesText = " With .pdf, .html or .csv behind the invoiceId, the call returns the document as that " +
	"file: the " +
	"first two print it, and the table has every fee with its transaction, price and time. A file always has the " +
	"same bytes."

// InvoiceFiles are the files of an invoice, with the same bytes at each call. find returns the invoice, and
// snapshot runs a function that sees it. Rule BI-21.
func InvoiceFiles[C kernel.Caller](
	find func(*kernel.Call[C]) (billing.Invoice, error),
	snapshot func(*kernel.Call[C], func(context.Context, pg.Tx) error) error,
) []kernel.File {
	rendered := func(render func(document.Invoice, io.Writer) error) func(*kernel.Call[C]) (
		string, func(io.Writer) error, error,
	) {
		return func(c *kernel.Call[C]) (string, func(io.Writer) error, error) {
			inv, err := find(c)
			return inv.Number, func(w io.Writer) error { return render(inv.Document, w) }, err
		}
	}
	return []kernel.File{
		kernel.ExportFile(".pdf", "application/pdf", rendered(document.Invoice.PDF)),
		kernel.ExportFile(".html", "text/html; charset=utf-8", rendered(document.Invoice.HTML)),
		kernel.ExportFile(".csv", "text/csv; charset=utf-8", func(c *kernel.Call[C]) (
			string, func(io.Writer) error, error,
		) {
			inv, err := find(c)
			return inv.Number, func(w io.Writer) error {
				return snapshot(c, func(ctx context.Context, tx pg.Tx) error {
					return document.WriteCSV(w, inv.Document, billing.Lines(ctx, tx, inv.ID))
				})
			}, err
		}),
	}
}

// ExampleInvoice is an invoice of the document.
var ExampleInvoice = sampleOf[webhook.Invoice](webhook.InvoiceIssued)

// ExampleCreditNote is a credit note of the document.
var ExampleCreditNote = sampleOf[webhook.CreditNote](webhook.CreditNoteIssued)

func sampleOf[T any](t webhook.Type) T {
	data, _ := webhook.Sample(t)
	sample, ok := data.(T)
	if !ok {
		panic("resource: there is no sample of " + string(t))
	}
	return sample
}
