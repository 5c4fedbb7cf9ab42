package verify

// networkFeesSQL are the network fees in the books, each with the line that it has.
const networkFeesSQL = `
		SELECT t.transfer_id, t.org_id, t.mint_id, t.amount, t.cause_kind, t.cause_id, t.created_at,
			a.kind = 'FEES_BILLED' AS is_credit
		FROM ledger_transfers t JOIN ledger_accounts a ON a.account_id = t.debit_account
		WHERE a.kind IN ('FEES_DUE', 'FEES_BILLED') AND t.cause_kind IN ('NETWORK_FEE', 'FEE_CHANGE', 'FEE_PREPAID')`

// billingChecks are those of lines, invoices and credit notes. Invariant I-90.
var billingChecks = []Check{
	{
		ID: "I-90",
		Promise: "every line of a network fee is one of the books, and no fee that is older than a day before " +
			"another " +
			"one with a line has none",
		breachSQL: `
		WITH fees AS (` + networkFeesSQL + `),
		newest AS (SELECT DISTINCT ON (f.org_id) f.org_id, f.transfer_id, f.created_at
			FROM fees f JOIN fee_lines l ON l.source_kind = f.cause_kind AND l.source_id = f.cause_id COLLATE "default"
			ORDER BY f.org_id, f.transfer_id DESC)
		SELECT coalesce(l.org_id, f.org_id), coalesce('line ' || l.fee_line_id, 'transfer ' || f.transfer_id),
			CASE WHEN l.fee_line_id IS NULL THEN format('%s of mint %s has no line', f.amount, f.mint_id)
				WHEN f.transfer_id IS NULL THEN 'is of no network fee in the books'
				ELSE format('is of %s of mint %s at %s, and the books say %s of mint %s at %s', l.amount, l.mint_id,
					l.incurred_at, f.amount, f.mint_id, f.created_at) END
		FROM (SELECT * FROM fee_lines WHERE kind = 'NETWORK_FEE') l
		FULL JOIN fees f ON l.source_kind = f.cause_kind AND l.source_id = f.cause_id COLLATE "default"
		LEFT JOIN newest n ON n.org_id = f.org_id
		WHERE CASE WHEN l.fee_line_id IS NULL
			THEN f.transfer_id < n.transfer_id AND f.created_at < n.created_at - interval '1 day'
			ELSE (l.org_id, l.mint_id, l.amount, l.incurred_at, l.is_credit)
				IS DISTINCT FROM (f.org_id, f.mint_id, f.amount, f.created_at, f.is_credit) END`,
	},

	{
		ID: "I-90-value",
		Promise: "a line is worth its amount at its price, which is of its mint and, for a network fee, of the " +
			"quarter " +
			"of an hour before it",
		breachSQL: `
		SELECT l.org_id, 'line ' || l.fee_line_id, format('is worth %s by a price of %s of mint %s at %s', l.usd_value,
			p.price, p.mint_id, p.created_at)
		FROM fee_lines l JOIN mints m ON m.mint_id = l.mint_id LEFT JOIN price_marks p USING (price_mark_id)
		WHERE l.usd_value IS NOT NULL AND (p.mint_id IS DISTINCT FROM l.mint_id
			OR abs(trunc(l.usd_value * 1e18) - div(l.amount * trunc(p.price * 1e18), ('1e' || m.decimals)::numeric))
				> CASE l.kind WHEN 'SWAP_FEE' THEN 1 ELSE 0 END
			OR l.kind = 'NETWORK_FEE'
				AND p.created_at NOT BETWEEN l.incurred_at - interval '15 minutes' AND l.incurred_at)`,
	},

	{
		ID: "I-90-sums",
		Promise: "the sections of an invoice are the sums of its lines, and its totals and its document what its " +
			"sections say",
		breachSQL: `
		SELECT coalesce(l.org_id, s.org_id), 'invoice ' || coalesce(l.invoice_id, s.invoice_id),
			format('%s in mint %s: %s lines of %s and %s dollars, and its section says %s, %s and %s',
				coalesce(l.kind, s.kind), coalesce(l.mint_id, s.mint_id), l.lines, l.amount, l.usd_exact, s.lines,
				s.amount, s.usd_exact)
		FROM (SELECT org_id, invoice_id, fee_section(kind, is_credit) AS kind, mint_id, count(*) AS lines,
				sum(amount) AS amount, sum(usd_value) AS usd_exact
			FROM fee_lines WHERE invoice_id IS NOT NULL GROUP BY 1, 2, 3, 4) l
		FULL JOIN invoice_sections s ON s.invoice_id = l.invoice_id AND s.org_id = l.org_id AND s.kind = l.kind
			AND s.mint_id = l.mint_id
		WHERE (l.lines, l.amount, l.usd_exact, round(l.usd_exact, 2))
			IS DISTINCT FROM (s.lines, s.amount, s.usd_exact, s.usd)
		UNION ALL
		SELECT i.org_id, 'invoice ' || i.invoice_id,
			format('has a subtotal of %s, a tax of %s and a total of %s, and its '
			|| 'sections make %s', i.subtotal, i.tax, i.total, s.usd)
		FROM invoices i LEFT JOIN (SELECT invoice_id, sum(CASE kind WHEN 'NETWORK_FEE_CREDITS' THEN -usd ELSE usd
			END) AS usd
			FROM invoice_sections GROUP BY 1) s USING (invoice_id)
		WHERE (i.subtotal, i.tax, i.total) IS DISTINCT FROM (s.usd, round(s.usd * i.tax_rate_bps / 10000, 2),
				s.usd + round(s.usd * i.tax_rate_bps / 10000, 2))
			OR ((i.document ->> 'subtotal')::numeric, (i.document ->> 'tax')::numeric, (i.document ->>
				'total')::numeric,
				i.document ->> 'number', i.document ->> 'month')
				IS DISTINCT FROM (i.subtotal, i.tax, i.total, i.number, i.month)`,
	},

	{
		ID: "I-90-numbers", Promise: "the numbers of a series have no gap, and follow each other in time",
		breachSQL: `
		WITH used AS (SELECT 'INVOICE' AS kind, series, sequence, issued_at FROM invoices
			UNION ALL SELECT 'CREDIT_NOTE', series, sequence, issued_at FROM credit_notes)
		SELECT NULL::text, 'series ' || coalesce(s.series, u.series),
			format('goes on with %s, and has %s documents up to %s', s.next_number, coalesce(u.n, 0),
				coalesce(u.last, 0))
		FROM invoice_series s FULL JOIN (SELECT series, kind, count(*) AS n, max(sequence) AS last FROM used GROUP BY
			1, 2) u
			ON u.series = s.series AND u.kind = s.kind
		WHERE (s.next_number - 1, s.next_number - 1) IS DISTINCT FROM (coalesce(u.n, 0), coalesce(u.last, 0))
		UNION ALL
		SELECT NULL, format('number %s of series %s', sequence, series),
			format('is dated %s, before %s of the number before',
			issued_at, before)
		FROM (SELECT *, lag(issued_at) OVER (PARTITION BY kind, series ORDER BY sequence) AS before FROM used) u
		WHERE issued_at < before`,
	},

	{
		ID:      "I-90-month",
		Promise: "a month is billed when it is over, and early where all mints are of a local network alone",
		breachSQL: `
		SELECT i.org_id, 'invoice ' || i.invoice_id, format('of %s is dated %s, before the month is over', i.month,
			i.issued_at)
		FROM invoices i
		WHERE i.issued_at < i.ends_at AND (EXISTS (SELECT FROM mints m WHERE m.network <> 'LOCAL')
			OR i.issued_at AT TIME ZONE 'UTC' < i.ends_at AT TIME ZONE 'UTC' - interval '1 month')`,
	},

	{
		ID: "I-90-credits", Promise: "credit notes give back parts of lines of their invoice, and never exceed it",
		breachSQL: `
		SELECT n.org_id, 'credit note ' || n.credit_note_id, format('gives back %s of line %s of invoice %s', c.amount,
			c.fee_line_id, coalesce(l.invoice_id, 'none'))
		FROM credit_notes n LEFT JOIN credit_note_lines c USING (credit_note_id) LEFT JOIN fee_lines l USING
			(fee_line_id)
		WHERE (l.invoice_id, l.is_credit) IS DISTINCT FROM (n.invoice_id, false)
		UNION ALL
		SELECT l.org_id, 'line ' || l.fee_line_id, format('of %s has %s given back, worth %s of %s', l.amount,
			sum(c.amount), sum(c.usd_value), l.usd_value)
		FROM fee_lines l JOIN credit_note_lines c USING (fee_line_id) GROUP BY l.fee_line_id
		HAVING sum(c.amount) > l.amount OR sum(c.usd_value) > l.usd_value
		UNION ALL
		SELECT i.org_id, 'invoice ' || i.invoice_id, format('of %s and %s tax has %s and %s credited', i.subtotal,
			i.tax,
			sum(n.subtotal), sum(n.tax))
		FROM invoices i JOIN credit_notes n USING (invoice_id) GROUP BY i.invoice_id
		HAVING sum(n.subtotal) > i.subtotal OR sum(n.tax) > i.tax`,
	},

	{
		ID: "I-90-due",
		Promise: "what was taken off the fees that are due is what paid invoices had left and what credit notes " +
			"gave back " +
			"of unpaid ones, by mint",
		breachSQL: `
		WITH credited AS (SELECT n.credit_note_id, n.invoice_id, n.org_id, l.kind = 'SWAP_FEE' AS is_swap, l.mint_id,
			c.amount
			FROM credit_notes n JOIN credit_note_lines c USING (credit_note_id) JOIN fee_lines l USING (fee_line_id)
			WHERE n.lowers_debt),
		due AS (
			SELECT cause_kind, cause_id, org_id, is_swap, mint_id, sum(amount) AS amount FROM (
				SELECT 'INVOICE_PAID' AS cause_kind, i.invoice_id AS cause_id, i.org_id, s.kind = 'SWAP_FEES' AS
					is_swap, s.mint_id,
					CASE s.kind WHEN 'NETWORK_FEE_CREDITS' THEN -s.amount ELSE s.amount END AS amount
				FROM invoices i JOIN invoice_sections s USING (invoice_id) WHERE i.status = 'PAID'
				UNION ALL
				SELECT 'INVOICE_PAID', i.invoice_id, c.org_id, c.is_swap, c.mint_id, -c.amount
				FROM credited c JOIN invoices i USING (invoice_id) WHERE i.status = 'PAID'
				UNION ALL
				SELECT 'CREDIT_NOTE', credit_note_id, org_id, is_swap, mint_id, amount FROM credited) x
			GROUP BY 1, 2, 3, 4, 5 HAVING sum(amount) <> 0),
		posted AS (
			SELECT t.cause_kind, t.cause_id, t.org_id, d.kind LIKE 'SWAP%' AS is_swap, t.mint_id,
				sum(CASE WHEN (d.kind, c.kind) IN (('FEES_BILLED', 'FEES_DUE'), ('SWAP_FEES_BILLED', 'SWAP_FEES_DUE'))
						THEN t.amount
					WHEN (d.kind, c.kind) IN (('FEES_DUE', 'FEES_BILLED'), ('SWAP_FEES_DUE', 'SWAP_FEES_BILLED'))
						THEN -t.amount END) AS amount
			FROM ledger_transfers t JOIN ledger_accounts d ON d.account_id = t.debit_account
				JOIN ledger_accounts c ON c.account_id = t.credit_account
			WHERE t.cause_kind IN ('INVOICE_PAID', 'CREDIT_NOTE') GROUP BY 1, 2, 3, 4, 5)
		SELECT coalesce(d.org_id, p.org_id), coalesce(d.cause_kind, p.cause_kind) || ' ' || coalesce(d.cause_id,
			p.cause_id),
			format('takes %s of mint %s off what is due, and the books say %s', coalesce(d.amount, 0),
				coalesce(d.mint_id, p.mint_id), coalesce(p.amount, 0))
		FROM due d FULL JOIN posted p ON p.cause_kind = d.cause_kind AND p.cause_id = d.cause_id COLLATE "C"
			AND p.org_id = d.org_id AND p.is_swap = d.is_swap AND p.mint_id = d.mint_id
		WHERE d.amount IS DISTINCT FROM p.amount`,
	},
}
