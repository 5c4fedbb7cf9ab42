package billing

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/billing/document"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/fee"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// SkipReason says why an organization has no invoice of a month.
type SkipReason string

// The reasons.
const (
	NoTerms    SkipReason = "NO_TERMS"    // the installation or the organization has no billing terms
	NothingYet SkipReason = "NOTHING_YET" // what it owes is less than a cent
)

// Skipped is an organization without an invoice of the month.
type Skipped struct {
	OrgID  string
	Reason SkipReason
}

// Failed is an organization whose invoice could not be issued.
type Failed struct {
	OrgID string
	Err   error
}

// RunResult is what a run of a month did.
type RunResult struct {
	Month    string
	Invoices []Invoice // of the month, also those that were issued before
	Issued   int       // by this run
	Skipped  []Skipped
	Failed   []Failed // a commit may have lost its answer, so a repeated run may find their invoices
}

// IssueInvoices issues the invoices of a month, for one organization or for all. What was issued before stays, so a run
// may be repeated, and two may run at once. An organization that fails keeps no other one waiting: the result names it.
// Errors: faults INVALID_REQUEST, INVALID_STATE if the month is not over, NOT_FOUND; of one organization, why it
// failed. Rules BI-6, BI-7, BI-8, BI-9 and BI-24.
func (s *Service) IssueInvoices(
	ctx context.Context, month, org string, requester audit.Actor,
) (result RunResult, err error) {
	m, err := ParseMonth(month)
	if err != nil {
		return result, err
	}
	if s.DB.Clock()().Before(m.End) {
		return result, newMonthNotOver(m)
	}
	return s.issueAll(ctx, m, false, org, requester)
}

// IssueEarly issues the invoices of the running month, with what became due until now, for one organization or for all.
// What becomes due afterwards is on the invoices of the next month. Only a local network has it, where no month ends
// while a person tries the service. Errors: faults INVALID_STATE on every other network, NOT_FOUND. Rule BI-25.
func (s *Service) IssueEarly(ctx context.Context, org string, requester audit.Actor) (RunResult, error) {
	if !s.IsLocal {
		return RunResult{}, newNotEarly()
	}
	return s.issueAll(ctx, monthOf(s.DB.Clock()()), true, org, requester)
}

func (s *Service) issueAll(
	ctx context.Context, m Month, isEarly bool, org string, requester audit.Actor,
) (result RunResult, err error) {
	result.Month = m.Name
	var orgs []string
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := CheckOrganization(ctx, tx, org); err != nil {
			return err
		}
		rows, err := tx.Query(ctx,
			`SELECT org_id FROM organizations WHERE $1 = '' OR org_id = $1 ORDER BY org_id`, org)
		if err != nil {
			return err
		}
		orgs, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return result, fmt.Errorf("list the organizations to bill: %w", err)
	}
	for _, orgID := range orgs {
		issued, err := s.issue(ctx, orgID, m, isEarly, requester)
		switch {
		case err != nil && (org != "" || ctx.Err() != nil):
			return result, fmt.Errorf("bill %s for %s: %w", orgID, m.Name, err)
		case err != nil:
			s.log().ErrorContext(ctx, "billing: an invoice was not issued", "org", orgID, "month", m.Name, "error", err)
			result.Failed = append(result.Failed, Failed{orgID, err})
		case issued.reason != "":
			result.Skipped = append(result.Skipped, Skipped{orgID, issued.reason})
		default:
			result.Invoices = append(result.Invoices, issued.invoice)
			if issued.isNew {
				result.Issued++
				failpoint.Hit("L03")
			}
		}
	}
	return result, nil
}

func newMonthNotOver(m Month) error {
	return refuseState("%s is not over: it ends at %s.", m.Name, m.End.Format(time.RFC3339)).
		WithAdvice("Bill it when it is over.")
}

func newNotEarly() error {
	return refuseState(
		"An invoice is issued before its month is over in a local world alone, where no coin has a value.").
		WithAdvice("Bill the month when it is over.")
}

// IssueDue issues the invoices that are due by themselves: from 06:00 UTC on the day of the terms, for the
// month before. Rule BI-8.
func (s *Service) IssueDue(ctx context.Context) error {
	var orgs []string
	days := map[string]int{}
	var now time.Time
	err := s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		now = tx.Now
		rows, err := tx.Query(ctx, `
			SELECT o.org_id FROM organizations o
			WHERE EXISTS (SELECT FROM fee_lines l WHERE l.org_id = o.org_id AND l.invoice_id IS NULL)
				AND EXISTS (SELECT FROM billing_terms t WHERE t.org_id = o.org_id) ORDER BY 1`)
		if err != nil {
			return err
		}
		if orgs, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return err
		}
		for _, orgID := range orgs {
			terms, err := loadPrinted(ctx, tx, orgID)
			if fault.HasCode(err, fault.CodeNotFound) {
				orgs = nil // the installation has none yet
				return nil
			}
			if err != nil {
				return err
			}
			days[orgID] = terms.day
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for organizations to bill: %w", err)
	}
	var failed []error
	for _, orgID := range orgs {
		m := lastDue(now, days[orgID])
		if _, err := s.issue(ctx, orgID, m, false, audit.System("billing")); err != nil {
			failed = append(failed, fmt.Errorf("bill %s for %s: %w", orgID, m.Name, err))
		}
	}
	return errors.Join(failed...)
}

// outcome is what became of one organization's month.
type outcome struct {
	invoice Invoice
	isNew   bool
	reason  SkipReason
}

// issue issues an organization's invoice of a month, or returns the one that exists. Rules BI-6, BI-7 and BI-10.
func (s *Service) issue(
	ctx context.Context, org string, m Month, isEarly bool, requester audit.Actor,
) (o outcome, err error) {
	isBilled := false
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		o = outcome{}
		o.invoice, isBilled, err = findOfMonth(ctx, tx, org, m.Name)
		return err
	})
	if err != nil || isBilled {
		return o, err
	}
	// Most lines are there already. What remains is written in the transaction of the invoice.
	if err := s.collectFor(ctx, org); err != nil {
		return o, err
	}
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		o, err = s.issueIn(ctx, tx, org, m, isEarly, requester)
		failpoint.HitBeforeCommit("L02")
		return err
	})
	if err == nil && o.isNew {
		failpoint.Hit("L02")
	}
	return o, err
}

// collectFor writes and values all lines of an organization that are missing, in transactions of one batch.
func (s *Service) collectFor(ctx context.Context, org string) error {
	for {
		var collected int
		var priced int64
		err := s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			if collected, err = collectLines(ctx, tx, org, time.Time{}); err != nil {
				return err
			}
			priced, err = priceLines(ctx, tx, org, time.Time{})
			return err
		})
		if err != nil || collected < batchMax && priced < batchMax {
			return err
		}
	}
}

func (s *Service) issueIn(
	ctx context.Context, tx pg.Tx, org string, m Month, isEarly bool, requester audit.Actor,
) (o outcome, err error) {
	if err := pg.LockExclusive(ctx, tx, "billing of "+org); err != nil {
		return o, err
	}
	var isBilled bool
	if o.invoice, isBilled, err = findOfMonth(ctx, tx, org, m.Name); err != nil || isBilled {
		return o, err
	}
	if tx.Now.Before(m.End) && (!isEarly || tx.Now.Before(m.Start)) {
		return o, newMonthNotOver(m)
	}
	terms, err := loadPrinted(ctx, tx, org)
	if fault.HasCode(err, fault.CodeNotFound) {
		o.reason = NoTerms
		return o, nil
	}
	if err != nil {
		return o, err
	}
	if _, err := collectLines(ctx, tx, org, time.Time{}); err != nil {
		return o, err
	}
	if _, err := priceLines(ctx, tx, org, time.Time{}); err != nil {
		return o, err
	}
	// The sums come first: an organization that owes less than a cent keeps its lines.
	unbilled, err := loadSections(ctx, tx, sumUnbilled, org, m.End)
	if err != nil {
		return o, err
	}
	if unbilled.subtotal.Sign() <= 0 {
		o.reason = NothingYet
		return o, nil
	}
	inv := Invoice{ID: id.New(invoicePrefix, tx.Now), OrgID: org, Month: m.Name, Status: Issued}
	bound, err := loadSections(ctx, tx, bindLines, org, m.End, inv.ID)
	if err != nil {
		return o, err
	}
	sequence, issuedAt, number, err := takeNumber(ctx, tx, terms.invoiceSeries, document.KindInvoice)
	if err != nil {
		return o, err
	}
	inv.Number, inv.IssuedAt = number, issuedAt
	inv.Document, err = newDocument(document.KindInvoice, bound, bound.subtotal, taxOn(bound.subtotal,
		terms.taxRateBps))
	if err != nil {
		return o, err
	}
	d := &inv.Document
	d.Number, d.Issued, d.Month, d.Seller, d.Buyer = number, issuedAt, m.Name, terms.seller, terms.buyer
	d.TaxRateBps, d.TaxNote, d.Language = terms.taxRateBps, terms.taxNote, terms.language
	inv.Subtotal, inv.Tax, inv.Total = d.Subtotal, d.Tax, d.Total
	inv.Outstanding = d.Total
	encoded, hash, err := freeze(inv.Document)
	if err != nil {
		return o, err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO invoices (invoice_id, org_id, month, ends_at, series, sequence, tax_rate_bps, subtotal, tax, total,
			document, document_hash, status, issued_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 'ISSUED', $13)`,
		inv.ID, org, m.Name, m.End, terms.invoiceSeries, sequence, terms.taxRateBps, inv.Subtotal, inv.Tax, inv.Total,
		encoded, hash, issuedAt)
	if pg.ViolatesConstraint(err, "invoices_month_over") {
		return o, newNotEarly()
	}
	if err != nil {
		return o, fmt.Errorf("write invoice %s: %w", number, err)
	}
	if _, err := s.Events.Record(ctx, tx, event.Event{
		OrgID: org, Type: event.InvoiceIssued, ResourceKind: "invoice", ResourceID: inv.ID, Data: inv,
	}); err != nil {
		return o, err
	}
	o.invoice, o.isNew = inv, true
	return o, audit.Record(ctx, tx, audit.Entry{
		OrgID: org, Actor: requester, Action: "invoice.issued", ResourceKind: "INVOICE", ResourceID: inv.ID,
		Detail: map[string]any{"number": number, "month": m.Name, "total": inv.Total.Cents(), "lines": bound.lines()},
	})
}

// takeNumber takes the next number of a series, which stays locked until the transaction ends. The time of the
// document is not before that of the number before. Rule BI-9.
func takeNumber(
	ctx context.Context, tx pg.Tx, series, kind string,
) (sequence int64, issuedAt time.Time, number string, err error) {
	_, err = tx.Exec(ctx, `
		INSERT INTO invoice_series (series, kind) SELECT $1, $2
		WHERE NOT EXISTS (SELECT FROM invoice_series WHERE series = $1)
		ON CONFLICT ON CONSTRAINT invoice_series_pkey DO NOTHING`, series, kind)
	if err != nil {
		return 0, issuedAt, "", fmt.Errorf("open the series %s: %w", series, err)
	}
	err = tx.QueryRow(ctx, `
		UPDATE invoice_series SET next_number = next_number + 1, last_issued_at = greatest(last_issued_at, $3)
		WHERE series = $1 AND kind = $2 RETURNING next_number - 1, last_issued_at`,
		series, kind, tx.Now).Scan(&sequence, &issuedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, issuedAt, "", refuseState("The series %s is of other documents.", series).
			WithAdvice("Name another series in the billing terms.")
	}
	if err != nil {
		return 0, issuedAt, "", fmt.Errorf("take a number of the series %s: %w", series, err)
	}
	return sequence, issuedAt.UTC(), fmt.Sprintf("%s-%06d", series, sequence), nil
}

// The statements that sum lines up by section. The second one binds them to an invoice, whatever their number, and the
// database writes the sections of the invoice with it.
const (
	selectSections = `
		SELECT fee_section(b.kind, b.is_credit), b.mint_id, m.chain, m.symbol, m.decimals, b.lines, b.amount,
			b.usd_exact,
			round(b.usd_exact, 2)
		FROM (SELECT kind, is_credit, mint_id, count(*) AS lines, sum(amount) AS amount, sum(usd_value) AS usd_exact
			FROM bound GROUP BY 1, 2, 3) b JOIN mints m USING (mint_id)
		ORDER BY 1, m.chain, m.symbol, b.mint_id`
	sumUnbilled = `
		WITH bound AS (SELECT kind, is_credit, mint_id, amount, usd_value FROM fee_lines
			WHERE org_id = $1 AND invoice_id IS NULL AND incurred_at < $2 AND usd_value IS NOT NULL)` + selectSections
	bindLines = `WITH bound AS (` + fee.BindSQL + `)` + selectSections
)

// section is the sum of lines of a kind in one mint.
type section struct {
	kind, chain, symbol string
	mintID, decimals    int
	lines               int64
	amount              money.Amount
	usdExact            money.USD
	cents               *big.Int // what is printed, never below zero here
}

// isCredit reports whether the section lowers what is owed.
func (x section) isCredit() bool { return x.kind == document.NetworkFeeCredits }

// sections are the sums of a document. Rule BI-6.
type sections struct {
	list     []section
	subtotal *big.Int // in cents
}

func (x sections) lines() (n int64) {
	for _, entry := range x.list {
		n += entry.lines
	}
	return n
}

func loadSections(ctx context.Context, tx pg.Tx, sql string, args ...any) (sections, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return sections{}, fmt.Errorf("sum up lines: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (x section, err error) {
		var rounded money.USD
		err = row.Scan(&x.kind, &x.mintID, &x.chain, &x.symbol, &x.decimals, &x.lines, &x.amount, &x.usdExact, &rounded)
		x.cents = usdToCents(rounded)
		return x, err
	})
	if err != nil {
		return sections{}, fmt.Errorf("sum up lines: %w", err)
	}
	return sections{list, sumCents(list)}, nil
}

func sumCents(list []section) *big.Int {
	sum := new(big.Int)
	for _, x := range list {
		if x.isCredit() {
			sum.Sub(sum, x.cents)
		} else {
			sum.Add(sum, x.cents)
		}
	}
	return sum
}

// printed returns the sections as a document has them.
func (x sections) printed() []document.Section {
	shown := []document.Section{}
	for _, entry := range x.list {
		cents := entry.cents
		if entry.isCredit() {
			cents = new(big.Int).Neg(cents)
		}
		shown = append(shown, document.Section{
			Kind: entry.kind, Chain: entry.chain, Symbol: entry.symbol, Lines: int(entry.lines), Amount: entry.amount,
			Decimals: entry.decimals, USDExact: signed(entry.isCredit(), entry.usdExact.String()),
			USD: formatCents(cents),
		})
	}
	return shown
}

// newDocument returns a document with sections and totals, and without what names it.
func newDocument(kind string, x sections, subtotal, tax *big.Int) (d document.Invoice, err error) {
	d.Kind, d.Sections = kind, x.printed()
	if d.Subtotal, err = centsToUSD(subtotal); err != nil {
		return d, fmt.Errorf("subtotal of a document: %w", err)
	}
	if d.Tax, err = centsToUSD(tax); err != nil {
		return d, fmt.Errorf("tax of a document: %w", err)
	}
	if d.Total, err = centsToUSD(new(big.Int).Add(subtotal, tax)); err != nil {
		return d, fmt.Errorf("total of a document: %w", err)
	}
	return d, nil
}

// freeze returns the bytes of a document and their hash.
func freeze(d document.Invoice) (encoded, hash []byte, err error) {
	if encoded, err = json.Marshal(d); err != nil {
		return nil, nil, fmt.Errorf("freeze %s: %w", d.Number, err)
	}
	sum := sha256.Sum256(encoded)
	return encoded, sum[:], nil
}
