package billing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/billing/document"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const (
	invoicePrefix    = "inv"
	creditNotePrefix = "crn"
)

// Status is the state of an invoice.
type Status string

// The statuses.
const (
	Issued Status = "ISSUED"
	Paid   Status = "PAID"
)

// Statuses are all statuses.
var Statuses = []string{string(Issued), string(Paid)}

// Invoice is what an organization owes for a month.
type Invoice struct {
	ID, OrgID            string
	Month, Number        string
	Status               Status
	Subtotal, Tax, Total money.USD // in whole cents
	Credited             money.USD // by credit notes, with tax
	Outstanding          money.USD // what is left to pay; zero once it is paid
	IssuedAt             time.Time
	PaidAt               *time.Time
	PaidReference        *string
	Document             document.Invoice
}

const selectInvoices = `
	SELECT i.invoice_id, i.org_id, i.month, i.number, i.status, i.subtotal, i.tax, i.total, n.credited,
		CASE i.status WHEN 'PAID' THEN 0 ELSE i.total - n.credited END, i.issued_at, i.paid_at, i.paid_reference,
			i.document
	FROM invoices i CROSS JOIN LATERAL (
		SELECT coalesce(sum(c.total), 0) AS credited FROM credit_notes c WHERE c.invoice_id = i.invoice_id) n`

func scanInvoice(row pgx.CollectableRow) (i Invoice, err error) {
	err = row.Scan(&i.ID, &i.OrgID, &i.Month, &i.Number, &i.Status, &i.Subtotal, &i.Tax, &i.Total, &i.Credited,
		&i.Outstanding, &i.IssuedAt, &i.PaidAt, &i.PaidReference, &i.Document)
	i.IssuedAt = i.IssuedAt.UTC()
	return i, err
}

func newNoInvoice() error {
	return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten, "This invoice does not exist.")
}

func findInvoice(ctx context.Context, tx pg.Tx, conditions string, args ...any) (Invoice, error) {
	rows, err := tx.Query(ctx, selectInvoices+conditions, args...)
	if err != nil {
		return Invoice{}, fmt.Errorf("read an invoice: %w", err)
	}
	i, err := pgx.CollectExactlyOneRow(rows, scanInvoice)
	if errors.Is(err, pgx.ErrNoRows) {
		return i, newNoInvoice()
	}
	if err != nil {
		return i, fmt.Errorf("read an invoice: %w", err)
	}
	return i, nil
}

// LoadInvoice returns an invoice, in a transaction that sees it. Error: fault NOT_FOUND, also for one of another
// organization. Rule BI-20.
func LoadInvoice(ctx context.Context, tx pg.Tx, invoiceID string) (Invoice, error) {
	if !id.IsValid(invoicePrefix, invoiceID) {
		return Invoice{}, newNoInvoice()
	}
	return findInvoice(ctx, tx, ` WHERE i.invoice_id = $1`, invoiceID)
}

// InvoiceIDByNumber returns the id of an invoice of any organization. Error: fault NOT_FOUND.
func (s *Service) InvoiceIDByNumber(ctx context.Context, number string) (invoiceID string, err error) {
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		i, err := findInvoice(ctx, tx, ` WHERE i.number = $1`, number)
		invoiceID = i.ID
		return err
	})
	return invoiceID, err
}

func findOfMonth(ctx context.Context, tx pg.Tx, org, month string) (Invoice, bool, error) {
	i, err := findInvoice(ctx, tx, ` WHERE i.org_id = $1 AND i.month = $2`, org, month)
	if fault.HasCode(err, fault.CodeNotFound) {
		return i, false, nil
	}
	return i, err == nil, err
}

// InvoiceByID returns an invoice of any organization. Error: fault NOT_FOUND.
func (s *Service) InvoiceByID(ctx context.Context, invoiceID string) (i Invoice, err error) {
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		i, err = LoadInvoice(ctx, tx, invoiceID)
		return err
	})
	return i, err
}

// InvoiceFilter narrows a list of invoices. A zero field does not narrow it.
type InvoiceFilter struct {
	OrgID  string
	Status Status
}

// ListInvoices returns a page of the invoices that the transaction sees, by the time of issue.
func ListInvoices(
	ctx context.Context, tx pg.Tx, f InvoiceFilter, p pagination.Page,
) (pagination.Result[Invoice], error) {
	q := pagination.NewQuery(selectInvoices + ` WHERE true`)
	if f.OrgID != "" {
		q.AddCondition("i.org_id = ?", f.OrgID)
	}
	if f.Status != "" {
		q.AddCondition("i.status = ?", string(f.Status))
	}
	sql, args := q.BuildPage(p, "i.issued_at", "i.invoice_id")
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return pagination.Result[Invoice]{}, fmt.Errorf("list invoices: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanInvoice)
	if err != nil {
		return pagination.Result[Invoice]{}, fmt.Errorf("list invoices: %w", err)
	}
	return pagination.CutPage(p, found, func(i Invoice) pagination.Cursor {
		return pagination.Cursor{CreatedAt: i.IssuedAt, ID: i.ID}
	}), nil
}

// CreditNote gives back a part of an invoice.
type CreditNote struct {
	ID, OrgID, InvoiceID  string
	InvoiceNumber, Number string
	Reason                string
	Subtotal, Tax, Total  money.USD // in whole cents
	IssuedAt              time.Time
	Document              document.Invoice
	// IsKnown says that the idempotency key was known: the call did nothing.
	IsKnown bool
}

const selectCreditNotes = `
	SELECT n.credit_note_id, n.org_id, n.invoice_id, i.number, n.number, n.reason, n.subtotal, n.tax, n.total,
		n.issued_at,
		n.document
	FROM credit_notes n JOIN invoices i USING (invoice_id)`

func scanCreditNote(row pgx.CollectableRow) (n CreditNote, err error) {
	err = row.Scan(&n.ID, &n.OrgID, &n.InvoiceID, &n.InvoiceNumber, &n.Number, &n.Reason, &n.Subtotal, &n.Tax, &n.Total,
		&n.IssuedAt, &n.Document)
	n.IssuedAt = n.IssuedAt.UTC()
	return n, err
}

// CreditNoteFilter narrows a list of credit notes. A zero field does not narrow it.
type CreditNoteFilter struct{ OrgID, InvoiceID string }

// ListCreditNotes returns a page of the credit notes that the transaction sees, by the time of issue.
func ListCreditNotes(
	ctx context.Context, tx pg.Tx, f CreditNoteFilter, p pagination.Page,
) (pagination.Result[CreditNote], error) {
	q := pagination.NewQuery(selectCreditNotes + ` WHERE true`)
	if f.OrgID != "" {
		q.AddCondition("n.org_id = ?", f.OrgID)
	}
	if f.InvoiceID != "" {
		q.AddCondition("n.invoice_id = ?", f.InvoiceID)
	}
	sql, args := q.BuildPage(p, "n.issued_at", "n.credit_note_id")
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return pagination.Result[CreditNote]{}, fmt.Errorf("list credit notes: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanCreditNote)
	if err != nil {
		return pagination.Result[CreditNote]{}, fmt.Errorf("list credit notes: %w", err)
	}
	return pagination.CutPage(p, found, func(n CreditNote) pagination.Cursor {
		return pagination.Cursor{CreatedAt: n.IssuedAt, ID: n.ID}
	}), nil
}

// LoadCreditNote returns a credit note, in a transaction that sees it. Error: fault NOT_FOUND, also for one of another
// organization.
func LoadCreditNote(ctx context.Context, tx pg.Tx, creditNoteID string) (n CreditNote, err error) {
	notFound := fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten, "This credit note does not exist.")
	if !id.IsValid(creditNotePrefix, creditNoteID) {
		return n, notFound
	}
	rows, err := tx.Query(ctx, selectCreditNotes+` WHERE n.credit_note_id = $1`, creditNoteID)
	if err == nil {
		n, err = pgx.CollectExactlyOneRow(rows, scanCreditNote)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return n, notFound
	}
	if err != nil {
		return n, fmt.Errorf("read credit note %s: %w", creditNoteID, err)
	}
	return n, nil
}

// Provisional is what the next invoice of an organization would have, as of now.
type Provisional struct {
	Month    Month // of that invoice: the running one, or the one after it if the running one is billed
	Sections []document.Section
	Subtotal string // in whole cents, without tax; below zero while credits are more
	Unpriced int    // lines without a value, which are in no sum
}

// LoadProvisional returns what an organization owes for the month of now and for lines of months before that are on no
// invoice, in a transaction that sees it. Rule BI-22.
func LoadProvisional(ctx context.Context, tx pg.Tx, org string) (p Provisional, err error) {
	p.Month = monthOf(tx.Now)
	var isBilled bool
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM invoices WHERE org_id = $1 AND month = $2)`, org,
		p.Month.Name).Scan(&isBilled)
	if err != nil {
		return p, fmt.Errorf("look for an invoice of the running month of %s: %w", org, err)
	}
	if isBilled { // early, in a local world
		p.Month = monthOf(p.Month.End)
	}
	x, err := loadSections(ctx, tx, sumUnbilled, org, p.Month.End)
	if err != nil {
		return p, err
	}
	p.Sections, p.Subtotal = x.printed(), formatCents(x.subtotal)
	err = tx.QueryRow(ctx, `SELECT count(*) FROM fee_lines WHERE org_id = $1 AND invoice_id IS NULL AND usd_value IS
		NULL
		AND incurred_at < $2`, org, p.Month.End).Scan(&p.Unpriced)
	if err != nil {
		return p, fmt.Errorf("count the lines of %s without a value: %w", org, err)
	}
	return p, nil
}
