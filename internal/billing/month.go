package billing

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// OrgMonth is a month of an organization: its invoice, or what a run would bill.
type OrgMonth struct {
	OrgID     string
	CreatedAt time.Time // of the organization
	// InvoiceID, Number, Status, Total and Outstanding are those of its invoice; InvoiceID is "" without one.
	InvoiceID, Number  string
	Status             Status
	Total, Outstanding money.USD
	HasTerms           bool      // also those of the installation
	DueAt              time.Time // when it is billed by itself; zero without terms
	Lines, Unpriced    int       // on no invoice, from before the end of the month
	Subtotal           string    // of those lines, in whole cents and without tax; below zero while credits are more
}

// CanBill reports whether a run would issue an invoice, once the month is over.
func (m OrgMonth) CanBill() bool {
	cents, err := parseCents(m.Subtotal)
	return m.InvoiceID == "" && m.HasTerms && err == nil && cents.Sign() > 0
}

// ListMonth returns a page of the organizations that have an invoice of a month, or lines at which a run of it would
// look, by their age. It reads the lines that are on no invoice.
func ListMonth(ctx context.Context, tx pg.Tx, m Month, p pagination.Page) (pagination.Result[OrgMonth], error) {
	q := pagination.NewQuery(`
		SELECT o.org_id, o.created_at, coalesce(i.invoice_id, ''), coalesce(i.number, ''), coalesce(i.status, ''),
			coalesce(i.total, 0),
			CASE i.status WHEN 'ISSUED' THEN i.total - coalesce(
				(SELECT sum(n.total) FROM credit_notes n WHERE n.invoice_id = i.invoice_id), 0) ELSE 0 END,
			CASE WHEN t.version IS NOT NULL THEN coalesce(t.billing_day, (
				SELECT s.billing_day FROM billing_terms s WHERE s.org_id IS NULL ORDER BY s.version DESC LIMIT 1)) END,
			EXISTS (SELECT FROM billing_terms s WHERE s.org_id IS NULL),
			coalesce(u.lines, 0), coalesce(u.unpriced, 0), coalesce(u.subtotal, 0)::numeric(60,2)::text
		FROM organizations o
		LEFT JOIN invoices i ON i.org_id = o.org_id AND i.month = ?
		LEFT JOIN LATERAL (
			SELECT t.version, t.billing_day FROM billing_terms t WHERE t.org_id = o.org_id
			ORDER BY t.version DESC LIMIT 1) t ON true
		CROSS JOIN LATERAL (
			SELECT sum(s.lines) AS lines, sum(s.unpriced) AS unpriced,
				sum(CASE WHEN s.is_credit THEN -s.usd ELSE s.usd END) AS subtotal
			FROM (SELECT l.is_credit, count(*) AS lines, count(*) FILTER (WHERE l.usd_value IS NULL) AS unpriced,
					coalesce(round(sum(l.usd_value), 2), 0) AS usd
				FROM fee_lines l WHERE l.org_id = o.org_id AND l.invoice_id IS NULL AND l.incurred_at < ?
				GROUP BY l.kind, l.is_credit, l.mint_id) s) u
		WHERE (i.invoice_id IS NOT NULL OR u.lines > 0)`, m.Name, m.End)
	sql, args := q.BuildPage(p, "o.created_at", "o.org_id")
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return pagination.Result[OrgMonth]{}, fmt.Errorf("list what is due for %s: %w", m.Name, err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o OrgMonth, err error) {
		var day *int
		var hasSeller bool
		err = row.Scan(&o.OrgID, &o.CreatedAt, &o.InvoiceID, &o.Number, &o.Status, &o.Total, &o.Outstanding, &day,
			&hasSeller, &o.Lines, &o.Unpriced, &o.Subtotal)
		if o.HasTerms = day != nil && hasSeller; o.HasTerms {
			o.DueAt = m.dueAt(*day)
		}
		return o, err
	})
	if err != nil {
		return pagination.Result[OrgMonth]{}, fmt.Errorf("list what is due for %s: %w", m.Name, err)
	}
	return pagination.CutPage(p, found, func(o OrgMonth) pagination.Cursor {
		return pagination.Cursor{CreatedAt: o.CreatedAt, ID: o.OrgID}
	}), nil
}
