package crashes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/cofferpay/coffer/webhook"
)

// bill is what the scenes of a cell bill: the network fees of a payment, as fees of a month of the past.
type bill struct {
	month    string // no other cell of the scenario bills it
	moment   time.Time
	orders   []string // whose network fees they are
	invoices []webhook.Invoice
}

// billingTerms are the terms of both parties.
var billingTerms = map[string]any{"legalName": "Example Ltd", "address": []string{"1 Example Street", "London"}}

// newBill makes a payment, whose network fee is billed later, and sets the terms of both parties. The month is one that
// no worker bills by itself.
func (s *cellRun) newBill(ctx context.Context) (*bill, error) {
	ofOrganization := "/organizations/" + s.world.Info.OrganizationID + "/billing-terms"
	for _, path := range []string{"/billing/terms", ofOrganization} {
		status, err := s.callOperator(ctx, http.MethodPut, path, billingTerms, nil)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("PUT %s: got %d, want 200", path, status)
		}
		if err != nil {
			return nil, err
		}
	}
	p := s.newPayment()
	err := errors.Join(s.startPayments(p)(ctx), s.waitPaymentEnd(ctx, p, paid))
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	b := &bill{moment: time.Date(now.Year(), now.Month()-time.Month(2+s.cells), 15, 12, 0, 0, 0, time.UTC)}
	b.month = b.moment.Format("2006-01")
	err = waitUntil(ctx, "the network fee of the payment is in the books", sceneMax,
		func(ctx context.Context) (isBooked bool, err error) {
			err = s.queryRow(ctx, `
				SELECT EXISTS (SELECT FROM ledger_transfers WHERE cause_kind = 'NETWORK_FEE' AND cause_id = $1)
					AND EXISTS (SELECT FROM price_marks)`, []any{p.created.WithdrawalID}, &isBooked)
			return isBooked, err
		})
	return b, err
}

// moveFees moves the network fees that are on no invoice into the month, with the prices of that time: the month is
// over, and no clock has to be moved. The coin was so dear then that a fee of a local chain is worth more than a cent.
// A worker that writes lines meanwhile comes before or after.
func (s *cellRun) moveFees(ctx context.Context, b *bill) error {
	moment := "'" + b.moment.Format(time.RFC3339) + "'"
	const waiting = `cause_kind IN ('NETWORK_FEE', 'FEE_CHANGE', 'FEE_PREPAID') AND NOT EXISTS (SELECT FROM fee_lines l
		WHERE l.source_kind = cause_kind AND l.source_id = cause_id COLLATE "default" AND l.invoice_id IS NOT NULL)`
	err := s.queryRow(ctx, `
		BEGIN;
		SET LOCAL session_replication_role = replica;
		LOCK TABLE fee_lines IN SHARE ROW EXCLUSIVE MODE;
		INSERT INTO price_marks (mint_id, price, source, quoted_at, created_at)
		SELECT DISTINCT ON (mint_id) mint_id, price * 100000, source, `+moment+`::timestamptz, `+moment+`::timestamptz
		FROM price_marks WHERE created_at > now() - interval '1 day' ORDER BY mint_id, created_at DESC;
		UPDATE ledger_transfers SET created_at = `+moment+` WHERE `+waiting+`;
		UPDATE fee_lines SET incurred_at = `+moment+`, usd_value = NULL, price_mark_id = NULL WHERE invoice_id IS NULL;
		COMMIT`, nil)
	if err != nil {
		return err
	}
	return s.queryRow(ctx, `
		SELECT coalesce(array_agg(cause_id), '{}') FROM ledger_transfers
		WHERE cause_kind = 'NETWORK_FEE' AND leg = 1 AND created_at = $1`, []any{b.moment}, &b.orders)
}

// runBilling bills the month until it is answered and nothing failed. A run that lost the answer to a commit names the
// organization, and is repeated.
func (s *cellRun) runBilling(ctx context.Context, b *bill) error {
	var result struct {
		Invoices []webhook.Invoice
		Failed   []struct{ Reason string }
	}
	err := waitUntil(ctx, b.month+" is billed", sceneMax, func(ctx context.Context) (bool, error) {
		status, err := s.callOperator(ctx, http.MethodPost, "/billing/run", map[string]any{"month": b.month}, &result)
		if err == nil && (status != http.StatusOK || len(result.Failed) > 0) {
			err = fmt.Errorf("got %d and %+v", status, result.Failed)
		}
		return err == nil, err
	})
	b.invoices = result.Invoices
	return err
}

// startBilling moves the fees into the month and bills it, and does not wait for the answer.
func (s *cellRun) startBilling(b *bill) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := s.moveFees(ctx, b); err != nil {
			return err
		}
		s.startAsync(func() error { return s.runBilling(ctx, b) })
		return nil
	}
}

// playLines plays the worker that writes the line of a network fee and gives it its value.
func playLines(ctx context.Context, s *cellRun) error {
	p := s.newPayment()
	if err := s.playThrough(ctx, s.point.sourceName(), s.startPayments(p)); err != nil {
		return err
	}
	if err := s.waitPaymentEnd(ctx, p, paid); err != nil {
		return err
	}
	return waitUntil(ctx, "each network fee has a line with a value", sceneMax,
		func(ctx context.Context) (bool, error) {
			var fees, lines int
			err := s.queryRow(ctx, `
				SELECT (SELECT count(*) FROM ledger_transfers
						WHERE cause_kind = 'NETWORK_FEE' AND leg = 1 AND cause_id = $1),
					(SELECT count(*) FROM fee_lines
						WHERE source_kind = 'NETWORK_FEE' AND source_id = $1 AND usd_value > 0)`,
				[]any{p.created.WithdrawalID}, &fees, &lines)
			if err == nil && (fees != 1 || lines != 1) {
				err = fmt.Errorf("the books have %d network fees, and %d have a line with a value", fees, lines)
			}
			return err == nil, err
		})
}

// playBilling plays the operator's run of a month through the point.
func playBilling(ctx context.Context, s *cellRun) error {
	b, err := s.newBill(ctx)
	if err != nil {
		return err
	}
	if err := s.playThrough(ctx, s.point.sourceName(), s.startBilling(b)); err != nil {
		return errors.Join(err, s.waitAsync(ctx))
	}
	if err := s.waitAsync(ctx); err != nil {
		return err
	}
	return s.checkBilled(ctx, b)
}

// playTwoRuns plays two runs of a month at once. The second one waits for the first, or comes after its invoice, and
// finds it.
func playTwoRuns(ctx context.Context, s *cellRun) error {
	b, err := s.newBill(ctx)
	if err != nil {
		return err
	}
	second := *b
	result := make(chan error, 1)
	isStarted := false
	s.atPoint = func(ctx context.Context) error {
		isStarted = true
		go func() { result <- s.runBilling(ctx, &second) }()
		if s.point.sourceName() == s.point.name {
			return nil
		}
		return s.waitLockWaiter(ctx)
	}
	err = s.playThrough(ctx, s.point.sourceName(), s.startBilling(b))
	if isStarted {
		err = errors.Join(err, <-result)
	}
	if err := errors.Join(err, s.waitAsync(ctx)); err != nil {
		return err
	}
	// A service that starts again bills what is due by itself, and may have taken the fees for the month before.
	if len(b.invoices) != len(second.invoices) ||
		len(b.invoices) > 0 && b.invoices[0].InvoiceID != second.invoices[0].InvoiceID {
		return fmt.Errorf("two runs of %s have the invoices %+v and %+v, want the same", b.month, b.invoices,
			second.invoices)
	}
	return s.checkBilled(ctx, b)
}

// playCredit plays a credit note of half of a line through the point. Its key returns it.
func playCredit(ctx context.Context, s *cellRun) error {
	b, err := s.newBill(ctx)
	if err != nil {
		return err
	}
	if err := s.startBilling(b)(ctx); err != nil {
		return err
	}
	if err := s.waitAsync(ctx); err != nil {
		return err
	}
	var invoiceID, line, half string
	err = s.queryRow(ctx, `
		SELECT invoice_id, fee_line_id, div(amount, 2)::text FROM fee_lines
		WHERE source_id = ANY ($1) AND invoice_id IS NOT NULL ORDER BY usd_value DESC LIMIT 1`, []any{b.orders},
		&invoiceID, &line, &half)
	if err != nil {
		return err
	}
	body := map[string]any{
		"idempotencyKey": s.name, "reason": "A network fee was billed for a test.",
		"lines": []map[string]string{{"feeLineId": line, "amount": half}},
	}
	var made webhook.CreditNote
	credit := func(ctx context.Context) error {
		earlier := made.CreditNoteID
		status, err := s.callOperator(ctx, http.MethodPost, "/billing/invoices/"+invoiceID+"/credit", body, &made)
		switch {
		case err == nil && status != http.StatusOK:
			err = fmt.Errorf("credit invoice %s: got %d, want 200", invoiceID, status)
		case err == nil && earlier != "" && earlier != made.CreditNoteID:
			err = fmt.Errorf("the same key got the credit notes %s and then %s", earlier, made.CreditNoteID)
		}
		return err
	}
	err = s.playThrough(ctx, s.point.sourceName(), func(ctx context.Context) error {
		s.startAsync(func() error { return credit(ctx) })
		return nil
	})
	if err := errors.Join(err, s.waitAsync(ctx), credit(ctx)); err != nil {
		return err
	}
	var notes, postings, events int
	var credited string
	err = s.queryRow(ctx, `
		SELECT (SELECT count(*) FROM credit_notes WHERE idempotency_key = $1),
			(SELECT count(*) FROM ledger_transfers WHERE cause_kind = 'CREDIT_NOTE' AND cause_id = $2),
			(SELECT count(*) FROM events WHERE type = 'CREDIT_NOTE_ISSUED' AND resource_id = $2),
			(SELECT coalesce(sum(amount), 0)::text FROM credit_note_lines WHERE fee_line_id = $3)`,
		[]any{s.name, made.CreditNoteID, line}, &notes, &postings, &events, &credited)
	if err == nil && (notes != 1 || postings != 1 || events != 1 || credited != half) {
		err = fmt.Errorf("the key has %d credit notes with %d postings and %d events, and %s of %s was given back",
			notes, postings, events, credited, half)
	}
	return errors.Join(err, s.checkBilled(ctx, b))
}

// checkBilled bills the month again, which changes nothing, and checks that each network fee of it is on one invoice,
// that the month has at most one, that the numbers of all documents have no gap, and that the chain says the same.
func (s *cellRun) checkBilled(ctx context.Context, b *bill) error {
	first := b.invoices
	if err := s.runBilling(ctx, b); err != nil {
		return err
	}
	if len(first) != len(b.invoices) || len(first) > 0 && first[0].InvoiceID != b.invoices[0].InvoiceID {
		return fmt.Errorf("a run of %s has the invoices %+v, and repeated %+v", b.month, first, b.invoices)
	}
	var fees, lines, billed, ofMonth, gaps, silent int
	err := s.queryRow(ctx, `
		SELECT (SELECT count(*) FROM ledger_transfers
				WHERE cause_kind = 'NETWORK_FEE' AND leg = 1 AND cause_id = ANY ($1)),
			(SELECT count(*) FROM fee_lines WHERE source_kind = 'NETWORK_FEE' AND source_id = ANY ($1)),
			(SELECT count(*) FROM fee_lines JOIN invoices USING (org_id, invoice_id)
				WHERE source_kind = 'NETWORK_FEE' AND source_id = ANY ($1)),
			(SELECT count(*) FROM invoices WHERE month = $2),
			(SELECT count(*) FROM invoice_series s WHERE next_number - 1 <>
				(SELECT count(*) FROM invoices i WHERE i.series = s.series AND i.sequence < s.next_number)
				+ (SELECT count(*) FROM credit_notes n WHERE n.series = s.series AND n.sequence < s.next_number)),
			(SELECT count(*) FROM invoices i WHERE 1 <>
				(SELECT count(*) FROM events e WHERE e.type = 'INVOICE_ISSUED' AND e.resource_id = i.invoice_id))`,
		[]any{b.orders, b.month}, &fees, &lines, &billed, &ofMonth, &gaps, &silent)
	switch {
	case err != nil:
		return err
	case fees == 0 || fees != lines || lines != billed:
		return fmt.Errorf("%d network fees have %d lines, of which %d are on an invoice", fees, lines, billed)
	case ofMonth != len(b.invoices):
		return fmt.Errorf("%s has %d invoices, and the run names %d", b.month, ofMonth, len(b.invoices))
	case gaps > 0 || silent > 0:
		return fmt.Errorf("%d series have a gap, and %d invoices have not one event", gaps, silent)
	}
	return s.verifyOnChain(ctx, b)
}

// verifyOnChain computes the invoice of the month again, from the ledger, the prices and the chain.
func (s *cellRun) verifyOnChain(ctx context.Context, b *bill) error {
	for _, inv := range b.invoices {
		err := s.retryUntilDone(ctx, "the invoice is what the chain says", func(ctx context.Context) error {
			v, err := s.tools.Billing.VerifyOnChain(ctx, inv.InvoiceID)
			if err == nil && (v.Difference != "" || len(v.Unread) > 0 || v.ChainFees == 0) {
				err = fmt.Errorf("%s: %d of %d fees are read, and it differs: %q", inv.Number, v.ChainFees,
					v.ChainFees+int64(len(v.Unread)), v.Difference)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
