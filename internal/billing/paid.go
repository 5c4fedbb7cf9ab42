package billing

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const referenceRunesMax = 200

// MarkPaid marks an invoice as paid with a reference, and takes what was left of it off the fees that are due.
// A paid one keeps its reference: repeated with the same one, the call does nothing. Errors: faults
// INVALID_REQUEST, NOT_FOUND, INVALID_STATE. Rules BI-11 and BI-12.
func (s *Service) MarkPaid(
	ctx context.Context, invoiceID, reference string, requester audit.Actor,
) (inv Invoice, err error) {
	if n := len([]rune(reference)); n < 1 || n > referenceRunesMax || !isPlain(reference) {
		return inv, refuse("reference", "A reference of 1 to %d characters says which payment it was.",
			referenceRunesMax)
	}
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if inv, err = lockInvoice(ctx, tx, invoiceID); err != nil {
			return err
		}
		if inv.Status == Paid {
			if *inv.PaidReference == reference {
				return nil
			}
			return refuseState("This invoice is paid, by the reference %s.", *inv.PaidReference).
				WithExtra("currentStatus", string(inv.Status))
		}
		outstanding := inv.Outstanding
		tag, err := tx.Exec(ctx, `
			UPDATE invoices SET status = 'PAID', paid_at = $2, paid_reference = $3, paid_by = $4
			WHERE invoice_id = $1 AND status = 'ISSUED'`,
			invoiceID, tx.Now, reference, requester.Kind+" "+requester.ID)
		if err == nil && tag.RowsAffected() != 1 {
			err = fmt.Errorf("%d rows changed", tag.RowsAffected())
		}
		if err != nil {
			return fmt.Errorf("mark invoice %s as paid: %w", invoiceID, err)
		}
		legs, err := loadLegs(ctx, tx, inv.OrgID, netOfInvoice, invoiceID)
		if err != nil {
			return err
		}
		if err := post(ctx, tx, ledger.Cause{Kind: ledger.InvoicePaid, ID: invoiceID}, legs); err != nil {
			return err
		}
		if inv, err = LoadInvoice(ctx, tx, invoiceID); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: inv.OrgID, Actor: requester, Action: "invoice.paid", ResourceKind: "INVOICE", ResourceID: inv.ID,
			Detail: map[string]any{"number": inv.Number, "reference": reference, "outstanding": outstanding.Cents()},
		})
	})
	return inv, err
}

// lockInvoice locks an invoice, which puts what happens to it in an order. Error: fault NOT_FOUND.
func lockInvoice(ctx context.Context, tx pg.Tx, invoiceID string) (Invoice, error) {
	if !id.IsValid(invoicePrefix, invoiceID) {
		return Invoice{}, newNoInvoice()
	}
	if _, err := tx.Exec(ctx,
		`SELECT 1 FROM invoices WHERE invoice_id = $1 FOR NO KEY UPDATE`, invoiceID); err != nil {
		return Invoice{}, fmt.Errorf("lock invoice %s: %w", invoiceID, err)
	}
	return LoadInvoice(ctx, tx, invoiceID)
}

// What is left of an invoice, and what a credit note gives back, by kind of fee and mint. Credits of network
// fees make a sum of a mint go the other way.
const (
	netOfInvoice = `
		SELECT k.is_swap, k.mint_id, sum(k.amount) < 0, abs(sum(k.amount))
		FROM (SELECT kind = 'SWAP_FEES' AS is_swap, mint_id,
				CASE kind WHEN 'NETWORK_FEE_CREDITS' THEN -amount ELSE amount END AS amount
			FROM invoice_sections WHERE invoice_id = $1
			UNION ALL
			SELECT l.kind = 'SWAP_FEE', l.mint_id, -c.amount
			FROM credit_notes n JOIN credit_note_lines c USING (credit_note_id) JOIN fee_lines l USING (fee_line_id)
			WHERE n.invoice_id = $1 AND n.lowers_debt) k
		GROUP BY 1, 2 HAVING sum(k.amount) <> 0 ORDER BY 1, 2`
	netOfCreditNote = `
		SELECT l.kind = 'SWAP_FEE', l.mint_id, false, sum(c.amount)
		FROM credit_note_lines c JOIN fee_lines l USING (fee_line_id) WHERE c.credit_note_id = $1
		GROUP BY 1, 2 ORDER BY 1, 2`
)

// loadLegs returns what takes fees off those that are due.
func loadLegs(ctx context.Context, tx pg.Tx, org, sql, documentID string) ([]ledger.Leg, error) {
	rows, err := tx.Query(ctx, sql, documentID)
	if err != nil {
		return nil, fmt.Errorf("sum up %s by mint: %w", documentID, err)
	}
	legs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (ledger.Leg, error) {
		var isSwap, isReverse bool
		var mintID int
		var amount money.Amount
		err := row.Scan(&isSwap, &mintID, &isReverse, &amount)
		unpaid := ledger.Account{OrgID: org, MintID: mintID, Kind: ledger.FeesDue}
		billed := ledger.Account{OrgID: org, MintID: mintID, Kind: ledger.FeesBilled}
		if isSwap {
			unpaid.Kind, billed.Kind = ledger.SwapFeesDue, ledger.SwapFeesBilled
		}
		if isReverse {
			return ledger.Leg{Debit: unpaid, Credit: billed, Amount: amount}, err
		}
		return ledger.Leg{Debit: billed, Credit: unpaid, Amount: amount}, err
	})
	if err != nil {
		return nil, fmt.Errorf("sum up %s by mint: %w", documentID, err)
	}
	return legs, nil
}

// post posts legs, of which there may be none: all of an invoice may have been credited.
func post(ctx context.Context, tx pg.Tx, cause ledger.Cause, legs []ledger.Leg) error {
	if len(legs) == 0 {
		return nil
	}
	return ledger.Post(ctx, tx, ledger.Posting{Cause: cause, Legs: legs})
}
