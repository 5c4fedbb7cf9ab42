package verify

import (
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
)

// billing adds an invoice of one network fee, of which a credit note gave back a part before it was paid.
func (h *testEnv) billing() {
	h.t.Helper()
	h.exec(`UPDATE fee_lines SET usd_value = 0.000001`) // one unit of a dollar token
	h.exec(`INSERT INTO price_marks (mint_id, price, source, quoted_at, created_at)
		SELECT 2, 1e16, 'test', created_at, created_at FROM ledger_transfers
		WHERE cause_kind = 'NETWORK_FEE' AND cause_id = 'sw_done' AND leg = 1`)
	h.exec(`INSERT INTO fee_lines (fee_line_id, org_id, kind, source_kind, source_id, mint_id, amount, fee_bps,
		usd_value,
			price_mark_id, incurred_at, tx_hash, invoice_id)
		SELECT 'fee_net', t.org_id, 'NETWORK_FEE', 'NETWORK_FEE', t.cause_id, t.mint_id, t.amount, 0,
			div(t.amount * 1e34, ('1e' || m.decimals)::numeric) / 1e18, p.price_mark_id, t.created_at,
				'hash_sw_done', 'inv_1'
		FROM ledger_transfers t JOIN mints m USING (mint_id) JOIN price_marks p ON p.mint_id = 2
		WHERE t.cause_kind = 'NETWORK_FEE' AND t.cause_id = 'sw_done' AND t.leg = 1`)
	h.exec(`INSERT INTO invoice_series VALUES ('INV', 'INVOICE', 2, now()), ('CN', 'CREDIT_NOTE', 2, now())`)
	h.exec(`INSERT INTO invoice_sections SELECT 'inv_1', 'NETWORK_FEES', mint_id, org_id, 1, amount, usd_value,
		round(usd_value, 2) FROM fee_lines WHERE fee_line_id = 'fee_net'`)
	h.exec(`INSERT INTO invoices (invoice_id, org_id, month, ends_at, series, sequence, tax_rate_bps, subtotal, tax,
		total,
			document, document_hash, status, issued_at, paid_at, paid_reference, paid_by)
		SELECT 'inv_1', org_id, '2026-01', '2026-02-01Z', 'INV', 1, 0, usd, 0, usd, jsonb_build_object('subtotal',
			usd, 'tax', 0,
			'total', usd, 'number', 'INV-000001', 'month', '2026-01'), sha256(''), 'PAID', '2026-02-03Z', now(),
				'bank', 'OPERATOR x'
		FROM invoice_sections`)
	h.exec(`INSERT INTO credit_note_lines SELECT 'crn_1', fee_line_id, org_id, 1, usd_value / 10 FROM fee_lines
		WHERE fee_line_id = 'fee_net'`)
	h.exec(`INSERT INTO credit_notes (credit_note_id, org_id, invoice_id, idempotency_key, request_digest, series,
		sequence,
			reason, lowers_debt, subtotal, tax, total, document, document_hash, issued_at, issued_by)
		SELECT 'crn_1', org_id, 'inv_1', 'k', sha256(''), 'CN', 1, 'x', true, 0.01, 0, 0.01, '{}', sha256(''), now(),
			'OPERATOR x'
		FROM invoices`)
	h.exec(`INSERT INTO billing_terms (org_id, version, legal_name, address, tax_id, email, created_at, changed_by)
		VALUES ($1, 1, 'Acme', '{x}', '', '', now(), 'OPERATOR x')`, h.org)
	for _, act := range [][2]string{
		{"invoice.issued", "inv_1"}, {"invoice.paid", "inv_1"}, {"credit_note.issued", "crn_1"},
	} {
		h.recordAudit(act[0], act[1])
	}
	due, billed := h.account(2, ledger.FeesDue, ""), h.account(2, ledger.FeesBilled, "")
	h.post(ledger.CreditNote, "crn_1", ledger.Leg{Debit: billed, Credit: due, Amount: money.Units(1)})
	h.post(ledger.InvoicePaid, "inv_1", ledger.Leg{Debit: billed, Credit: due, Amount: money.Units(4)})
}

// billingTamperings are the tamperings of billing, see tamperings.
var billingTamperings = []tampering{
	{"I-90", "a line of another amount", []string{`UPDATE fee_lines SET amount = amount + 1 WHERE fee_line_id =
		'fee_net'`}},
	{"I-90", "a line of no fee", []string{`UPDATE fee_lines SET source_id = 'sw_none' WHERE fee_line_id = 'fee_net'`}},
	{"I-90", "a line of the other side", []string{
		`ALTER TABLE fee_lines DROP CONSTRAINT fee_lines_kind_known`,
		`UPDATE fee_lines SET is_credit = true WHERE fee_line_id = 'fee_net'`,
	}},
	{"I-90", "a line of another time", []string{
		`UPDATE fee_lines SET incurred_at = incurred_at - interval '1 minute' WHERE fee_line_id = 'fee_net'`,
	}},
	{"I-90", "an old fee without a line", []string{
		`UPDATE ledger_transfers SET created_at = created_at - interval '2 days' WHERE cause_kind = 'NETWORK_FEE'
			AND transfer_id < (SELECT max(transfer_id) FROM ledger_transfers WHERE cause_id = 'sw_done' AND leg = 1)`,
	}},
	{"I-90-value", "a line that is worth more", []string{
		`UPDATE fee_lines SET usd_value = usd_value + 0.000000000000000001 WHERE fee_line_id = 'fee_net'`,
	}},
	{"I-90-value", "a price of another mint", []string{`UPDATE price_marks SET mint_id = 1 WHERE mint_id = 2`}},
	{"I-90-value", "a price of another time", []string{
		`UPDATE price_marks SET created_at = created_at - interval '16 minutes' WHERE mint_id = 2`,
	}},
	{"I-90-value", "a price from after the fee", []string{
		`UPDATE price_marks SET created_at = created_at + interval '1 second' WHERE mint_id = 2`,
	}},
	{"I-90-sums", "a line taken off an invoice", []string{
		`UPDATE fee_lines SET invoice_id = NULL WHERE fee_line_id = 'fee_net'`,
	}},
	{"I-90-sums", "a line added to an invoice", []string{
		`UPDATE fee_lines SET invoice_id = 'inv_1' WHERE fee_line_id = 'fee_1'`,
	}},
	{"I-90-sums", "a section of another sum", []string{`UPDATE invoice_sections SET amount = amount + 1`}},
	{"I-90-sums", "a total of another sum", []string{
		`ALTER TABLE invoices DROP CONSTRAINT invoices_totals`, `UPDATE invoices SET total = total + 1`,
	}},
	{"I-90-sums", "a document that says something else", []string{
		`UPDATE invoices SET document = document || '{"total": "1"}'`,
	}},
	{"I-90-numbers", "a number left out", []string{`UPDATE invoices SET sequence = 2`}},
	{"I-90-numbers", "a document without its number", []string{`UPDATE invoice_series SET next_number = 3 WHERE
		series = 'CN'`}},
	{"I-90-numbers", "a removed document", []string{`DELETE FROM credit_notes`}},
	{"I-90-numbers", "a number before its time", []string{
		`UPDATE invoice_series SET next_number = 3 WHERE series = 'INV'`,
		`INSERT INTO invoices (invoice_id, org_id, month, ends_at, series, sequence, tax_rate_bps, subtotal, tax,
			total, document,
			document_hash, status, issued_at)
		 SELECT 'inv_2', org_id, '2025-12', '2026-01-01Z', 'INV', 2, tax_rate_bps, subtotal, tax, total, document,
			document_hash,
			'ISSUED', issued_at - interval '1 day' FROM invoices`,
	}},
	{"I-90-month", "an invoice of a month that has not begun", []string{
		`ALTER TABLE invoices DROP CONSTRAINT invoices_month_begun`,
		`UPDATE invoices SET issued_at = ends_at - interval '40 days'`,
		`UPDATE invoice_series SET last_issued_at = now()`,
	}},
	{"I-90-month", "an early invoice where money has a value", []string{
		`UPDATE mints SET network = 'MAINNET' WHERE mint_id = 2`,
		`UPDATE invoices SET issued_at = ends_at - interval '1 hour'`,
	}},
	{"I-90-credits", "more than the line", []string{`UPDATE credit_note_lines SET amount = 6`}},
	{"I-90-credits", "worth more than the line", []string{`UPDATE credit_note_lines SET usd_value = 1e6`}},
	{"I-90-credits", "more than the invoice", []string{
		`UPDATE credit_notes SET subtotal = 1000000, total = 1000000`,
	}},
	{"I-90-credits", "a line of another invoice", []string{`UPDATE credit_note_lines SET fee_line_id = 'fee_1'`}},
	{"I-90-credits", "a note without lines", []string{`DELETE FROM credit_note_lines`}},
	{"I-90-due", "a payment that was not posted", []string{`DELETE FROM ledger_transfers WHERE cause_kind =
		'INVOICE_PAID'`}},
	{"I-90-due", "a payment of an unpaid invoice", []string{
		`UPDATE invoices SET status = 'ISSUED', paid_at = NULL, paid_reference = NULL, paid_by = NULL`,
	}},
	{"I-90-due", "a credit note that was not posted", []string{`DELETE FROM ledger_transfers WHERE cause_kind =
		'CREDIT_NOTE'`}},
	{"I-90-due", "a payment of another amount", []string{
		`UPDATE ledger_transfers SET amount = amount + 1 WHERE cause_kind = 'INVOICE_PAID'`,
	}},
	{"I-40", "an invoice that no one recorded", []string{`DELETE FROM audit_log WHERE resource_id = 'inv_1'`}},
	{"I-40", "a credit note that no one recorded", []string{`DELETE FROM audit_log WHERE resource_id = 'crn_1'`}},
}
