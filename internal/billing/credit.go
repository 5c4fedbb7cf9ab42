package billing

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/big"
	"regexp"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/billing/document"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

const (
	creditLinesMax = 1000
	reasonRunesMax = 1000
)

var keyPattern = regexp.MustCompile(`^[!-~]{1,255}$`)

// CreditLine is what a credit note gives back of one line.
type CreditLine struct {
	FeeLineID string        `json:"feeLineId"`
	Amount    *money.Amount `json:"amount"` // nil: all that is left of it
}

// CreditRequest asks for a credit note.
type CreditRequest struct {
	InvoiceID      string
	IdempotencyKey string
	Reason         string       // printed as the note of the document
	Lines          []CreditLine // none: all that is left of the invoice
}

// digest returns the hash of what a repeated request has to say again.
func (r CreditRequest) digest() []byte {
	encoded := jsonOf([]any{r.InvoiceID, r.Reason, r.Lines})
	sum := sha256.Sum256(encoded)
	return sum[:]
}

func (r CreditRequest) check() error {
	if !keyPattern.MatchString(r.IdempotencyKey) {
		return refuse("idempotencyKey", "idempotencyKey has to be 1 to 255 printable ASCII characters without a space.")
	}
	if n := len([]rune(r.Reason)); n < 1 || n > reasonRunesMax || !isPlain(r.Reason) {
		return refuse("reason", "reason has to be a text of 1 to %d characters in one line.", reasonRunesMax)
	}
	if len(r.Lines) > creditLinesMax {
		return refuse("lines", "lines has to have at most %d entries. Without any, all of the invoice is credited.",
			creditLinesMax)
	}
	named := map[string]bool{}
	for _, l := range r.Lines {
		if named[l.FeeLineID] {
			return refuse("lines", "The line %q comes twice.", l.FeeLineID)
		}
		named[l.FeeLineID] = true
		if l.Amount != nil && l.Amount.IsZero() {
			return refuse("lines", "An amount to give back is above zero.")
		}
	}
	return nil
}

// IssueCreditNote gives back parts of lines of one invoice: of a mistake, before or after it was paid. A known
// key returns its note. Errors: faults INVALID_REQUEST, INVALID_AMOUNT for more than is left of a line,
// NOT_FOUND, INVALID_STATE, IDEMPOTENCY_CONFLICT for a known key with another request. Rules BI-13 and BI-14.
func (s *Service) IssueCreditNote(
	ctx context.Context, r CreditRequest, requester audit.Actor,
) (note CreditNote, err error) {
	if err := r.check(); err != nil {
		return note, err
	}
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		note, err = s.issueCreditNote(ctx, tx, r, requester)
		failpoint.HitBeforeCommit("L04")
		return err
	})
	if err == nil {
		failpoint.Hit("L04")
	}
	return note, err
}

func (s *Service) issueCreditNote(
	ctx context.Context, tx pg.Tx, r CreditRequest, requester audit.Actor,
) (note CreditNote, err error) {
	inv, err := lockInvoice(ctx, tx, r.InvoiceID)
	if err != nil {
		return note, err
	}
	note, isKnown, err := findByKey(ctx, tx, r)
	if err != nil || isKnown {
		note.IsKnown = isKnown
		return note, err
	}
	note = CreditNote{
		ID: id.New(creditNotePrefix, tx.Now), OrgID: inv.OrgID, InvoiceID: inv.ID, InvoiceNumber: inv.Number,
		Reason: r.Reason,
	}
	if err := checkLeft(ctx, tx, r); err != nil {
		return note, err
	}
	parts, err := writeParts(ctx, tx, note, r)
	if err != nil {
		return note, err
	}
	tax, err := boundByInvoice(ctx, tx, inv, &parts)
	if err != nil {
		return note, err
	}
	terms, err := loadPrinted(ctx, tx, inv.OrgID)
	if err != nil {
		return note, err
	}
	sequence, issuedAt, number, err := takeNumber(ctx, tx, terms.creditNoteSeries, document.KindCreditNote)
	if err != nil {
		return note, err
	}
	if note.Document, err = newDocument(document.KindCreditNote, parts, parts.subtotal, tax); err != nil {
		return note, err
	}
	// The parties, the rate and the language are those of the invoice, which it corrects.
	d := &note.Document
	d.Number, d.Corrects, d.Issued, d.Month = number, inv.Number, issuedAt, inv.Month
	d.Seller, d.Buyer, d.Language = inv.Document.Seller, inv.Document.Buyer, inv.Document.Language
	d.TaxRateBps, d.TaxNote = inv.Document.TaxRateBps, inv.Document.TaxNote
	note.Number, note.IssuedAt, note.Subtotal, note.Tax, note.Total = number, issuedAt, d.Subtotal, d.Tax, d.Total
	encoded, hash, err := freeze(*d)
	if err != nil {
		return note, err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO credit_notes (credit_note_id, org_id, invoice_id, idempotency_key, request_digest, series, sequence,
			reason, lowers_debt, subtotal, tax, total, document, document_hash, issued_at, issued_by)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
		note.ID, note.OrgID, note.InvoiceID, r.IdempotencyKey, r.digest(), terms.creditNoteSeries, sequence,
		note.Reason,
		inv.Status == Issued, note.Subtotal, note.Tax, note.Total, encoded, hash, issuedAt,
		requester.Kind+" "+requester.ID)
	if pg.ViolatesConstraint(err, "credit_notes_key_once") {
		return note, fault.New(fault.Conflict, fault.IdempotencyConflict, fault.NothingWritten,
			"This key was just used for a credit note of another invoice.").WithAdvice("Use a new key for each " +
			"credit note.")
	}
	if err != nil {
		return note, fmt.Errorf("write credit note %s: %w", number, err)
	}
	if inv.Status == Issued {
		legs, err := loadLegs(ctx, tx, note.OrgID, netOfCreditNote, note.ID)
		if err != nil {
			return note, err
		}
		if err := post(ctx, tx, ledger.Cause{Kind: ledger.CreditNote, ID: note.ID}, legs); err != nil {
			return note, err
		}
	}
	if _, err := s.Events.Record(ctx, tx, event.Event{
		OrgID: note.OrgID, Type: event.CreditNoteIssued, ResourceKind: "credit_note", ResourceID: note.ID, Data: note,
	}); err != nil {
		return note, err
	}
	return note, audit.Record(ctx, tx, audit.Entry{
		OrgID: note.OrgID, Actor: requester, Action: "credit_note.issued", ResourceKind: "CREDIT_NOTE",
		ResourceID: note.ID,
		Detail: map[string]any{
			"number": number, "invoice": inv.Number, "reason": note.Reason, "total": note.Total.Cents(),
		},
	})
}

// findByKey returns the credit note that a key made. Error: fault IDEMPOTENCY_CONFLICT, with that note, for another
// request. Rule BI-14.
func findByKey(ctx context.Context, tx pg.Tx, r CreditRequest) (note CreditNote, isKnown bool, err error) {
	var knownID, digest string
	err = tx.QueryRow(ctx, `
		SELECT coalesce(min(credit_note_id), ''), coalesce(min(encode(request_digest, 'hex')), '')
		FROM credit_notes WHERE idempotency_key = $1`, r.IdempotencyKey).Scan(&knownID, &digest)
	if err != nil {
		return note, false, fmt.Errorf("look for the key of a credit note: %w", err)
	}
	if knownID == "" {
		return note, false, nil
	}
	if note, err = LoadCreditNote(ctx, tx, knownID); err != nil {
		return note, false, err
	}
	if digest != fmt.Sprintf("%x", r.digest()) {
		return note, false, fault.New(fault.Conflict, fault.IdempotencyConflict, fault.NothingWritten,
			"This key is of another credit note.").WithAdvice("Use a new key for each credit note.")
	}
	return note, true, nil
}

// FindCreditNote returns the credit note that the key of a request made. Error: fault IDEMPOTENCY_CONFLICT, with that
// note, for another request.
func (s *Service) FindCreditNote(ctx context.Context, r CreditRequest) (note CreditNote, isKnown bool, err error) {
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		note, isKnown, err = findByKey(ctx, tx, r)
		return err
	})
	return note, isKnown, err
}

// checkLeft refuses lines that the invoice does not have, and more than is left of a line. The invoice is locked, so
// nothing else is credited meanwhile. The database says the same at the commit.
func checkLeft(ctx context.Context, tx pg.Tx, r CreditRequest) error {
	ids := make([]string, len(r.Lines))
	for i, l := range r.Lines {
		ids[i] = l.FeeLineID
	}
	type leftOfLine struct {
		ID       string
		IsCredit bool
		Left     money.Amount
	}
	rows, err := tx.Query(ctx, `
		SELECT l.fee_line_id, l.is_credit, l.amount - coalesce((SELECT sum(c.amount) FROM credit_note_lines c
			WHERE c.fee_line_id = l.fee_line_id), 0)
		FROM fee_lines l WHERE l.invoice_id = $1 AND l.fee_line_id = ANY ($2)`, r.InvoiceID, ids)
	if err != nil {
		return fmt.Errorf("read what is left of lines of %s: %w", r.InvoiceID, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[leftOfLine])
	if err != nil {
		return fmt.Errorf("read what is left of lines of %s: %w", r.InvoiceID, err)
	}
	for _, l := range r.Lines {
		i := slices.IndexFunc(found, func(f leftOfLine) bool { return f.ID == l.FeeLineID })
		switch {
		case i < 0:
			return refuse("lines", "The invoice has no line %q.", l.FeeLineID)
		case found[i].IsCredit:
			return refuse("lines", "The line %s is a credit already.", l.FeeLineID)
		case found[i].Left.IsZero():
			return refuseState("All of the line %s was credited before.", l.FeeLineID)
		case l.Amount != nil && found[i].Left.Less(*l.Amount):
			return fault.New(fault.Unprocessable, fault.InvalidAmount, fault.NothingWritten,
				"%s is left of the line %s, and %s was to be credited.", found[i].Left, l.FeeLineID, l.Amount).
				WithAdvice("Credit what is left of it.").WithParam("lines")
		}
	}
	return nil
}

// writeParts writes what a note gives back of which lines, and returns the sums. What is left of a line is
// worth what is left of its value; a part is worth its share, rounded down at 18 digits.
func writeParts(ctx context.Context, tx pg.Tx, note CreditNote, r CreditRequest) (sections, error) {
	ids, amounts := make([]string, len(r.Lines)), make([]*money.Amount, len(r.Lines))
	for i, l := range r.Lines {
		ids[i], amounts[i] = l.FeeLineID, l.Amount
	}
	return loadSections(ctx, tx, `
		WITH asked AS (
			SELECT l.fee_line_id, w.amount FROM unnest($3::text[], $4::numeric[]) AS w (fee_line_id, amount)
				JOIN fee_lines l ON l.fee_line_id = w.fee_line_id WHERE l.invoice_id = $5
			UNION ALL
			SELECT l.fee_line_id, NULL FROM fee_lines l WHERE $6 AND l.invoice_id = $5 AND NOT l.is_credit),
		rest AS (
			SELECT a.fee_line_id, a.amount AS wanted, l.amount, l.usd_value, l.amount - coalesce(c.amount, 0) AS
				left_amount,
				l.usd_value - coalesce(c.usd_value, 0) AS left_usd
			FROM asked a JOIN fee_lines l USING (fee_line_id)
			LEFT JOIN (SELECT c.fee_line_id, sum(c.amount) AS amount, sum(c.usd_value) AS usd_value
				FROM credit_note_lines c JOIN credit_notes n USING (credit_note_id)
				WHERE n.invoice_id = $5 GROUP BY 1) c USING (fee_line_id)),
		given AS (
			INSERT INTO credit_note_lines (credit_note_id, fee_line_id, org_id, amount, usd_value)
			SELECT $1, fee_line_id, $2, coalesce(wanted, left_amount),
				CASE WHEN coalesce(wanted, left_amount) = left_amount THEN left_usd
					ELSE div(trunc(usd_value * 1e18) * wanted, amount) * 0.000000000000000001 END
			FROM rest WHERE left_amount > 0
			RETURNING fee_line_id, amount, usd_value),
		bound AS (SELECT l.kind, l.is_credit, l.mint_id, g.amount, g.usd_value FROM given g JOIN fee_lines l USING
			(fee_line_id))`+
		selectSections, note.ID, note.OrgID, ids, amounts, r.InvoiceID, len(r.Lines) == 0)
}

// boundByInvoice lowers the sections and the tax of a note to what its invoice has left of them, because each
// is rounded for itself, and returns the tax. Error: fault INVALID_STATE if nothing is left, or more would be
// given back than the invoice has in all.
func boundByInvoice(ctx context.Context, tx pg.Tx, inv Invoice, parts *sections) (tax *big.Int, err error) {
	rows, err := tx.Query(ctx, `SELECT document FROM credit_notes WHERE invoice_id = $1`, inv.ID)
	if err != nil {
		return nil, fmt.Errorf("read the credit notes of %s: %w", inv.ID, err)
	}
	earlier, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d document.Invoice, err error) {
		err = row.Scan(&d)
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the credit notes of %s: %w", inv.ID, err)
	}
	// By kind and coin, in cents. Two mints may have one name, such as a token and its bridged form; then they share
	// what is left of both.
	left := map[string]*big.Int{}
	leftSubtotal, leftTax := usdToCents(inv.Subtotal), usdToCents(inv.Tax)
	for _, x := range inv.Document.Sections {
		billed, err := parseCents(x.USD)
		if err != nil {
			return nil, err
		}
		if ofAnother := left[x.Kind+x.Chain+x.Symbol]; ofAnother != nil {
			billed.Add(billed, ofAnother)
		}
		left[x.Kind+x.Chain+x.Symbol] = billed
	}
	for _, note := range earlier {
		leftSubtotal.Sub(leftSubtotal, usdToCents(note.Subtotal))
		leftTax.Sub(leftTax, usdToCents(note.Tax))
		for _, x := range note.Sections {
			credited, err := parseCents(x.USD)
			if err != nil {
				return nil, err
			}
			rest := left[x.Kind+x.Chain+x.Symbol]
			rest.Sub(rest, credited)
		}
	}
	for i, x := range parts.list {
		rest := left[x.kind+x.chain+x.symbol]
		if rest == nil {
			continue
		}
		if rest.Cmp(x.cents) < 0 {
			parts.list[i].cents = new(big.Int).Set(rest)
		}
		rest.Sub(rest, parts.list[i].cents)
	}
	parts.subtotal = sumCents(parts.list)
	switch {
	case parts.subtotal.Sign() <= 0:
		return nil, refuseState("What is to be credited is worth less than a cent.")
	case parts.subtotal.Cmp(leftSubtotal) > 0:
		return nil, refuseState("The credit note would exceed its invoice, of which %s dollars are left without tax.",
			formatCents(leftSubtotal)).WithAdvice("Credit less of it.")
	}
	tax = taxOn(parts.subtotal, inv.Document.TaxRateBps)
	if tax.Cmp(leftTax) > 0 || parts.subtotal.Cmp(leftSubtotal) == 0 {
		tax = leftTax // no tax is left on nothing
	}
	return tax, nil
}
