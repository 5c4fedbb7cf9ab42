package verify

// payoutChecks are those of batch payouts.
var payoutChecks = []Check{
	{
		ID: "I-87",
		Promise: "the payments of a batch are exactly its rows, each at most once, under a hash that enough people " +
			"approved",
		breachSQL: `
		SELECT b.org_id, 'batch ' || b.batch_id, format('has %s rows and names %s', i.rows, b.row_count)
		FROM payout_batches b LEFT JOIN LATERAL (
			SELECT count(*) AS rows, coalesce(max(row_no), 0) AS last FROM payout_items i
				WHERE i.batch_id = b.batch_id) i ON true
		WHERE (i.rows, i.last) IS DISTINCT FROM (b.row_count::bigint, b.row_count)
		UNION ALL
		SELECT b.org_id, 'batch ' || b.batch_id, format('leaves row %s out, and its mode is %s and its status %s',
			i.row_no, b.mode, b.status)
		FROM payout_items i JOIN payout_batches b USING (batch_id)
		WHERE NOT i.included AND (b.mode <> 'PARTIAL' OR b.status IN ('DRAFT', 'VALIDATING', 'INVALID'))
		UNION ALL
		SELECT b.org_id, 'batch ' || b.batch_id, format('is %s with %s approvals and needs %s', b.status, a.people,
			b.approvals_required)
		FROM payout_batches b CROSS JOIN LATERAL (
			SELECT count(*) AS people FROM payout_approvals a WHERE a.batch_id = b.batch_id AND a.nth = 0
				AND a.content_hash = b.content_hash
				AND (a.approver_kind, a.approver_id) NOT IN ((b.maker_kind, b.maker_id), (b.submitter_kind,
					b.submitter_id))) a
		WHERE b.approved_at IS NOT NULL AND (
			a.people < b.approvals_required OR b.approvals_required < 1 AND NOT EXISTS (
			SELECT FROM audit_log l WHERE l.resource_id = b.batch_id AND l.org_id = b.org_id
				AND l.action = 'payout.approved' AND l.detail ->> 'setting' = 'batchAutoApproveUsd'
				AND (l.detail ->> 'below')::numeric = b.auto_below AND (l.detail ->> 'value')::numeric = b.auto_value))
		UNION ALL
		SELECT a.org_id, 'batch ' || a.batch_id,
			format('is approved by %s %s, who made or submitted it, or over another hash',
			a.approver_kind, a.approver_id)
		FROM payout_approvals a LEFT JOIN payout_batches b USING (batch_id)
		WHERE (a.org_id, a.content_hash) IS DISTINCT FROM (b.org_id, b.content_hash)
			OR (a.approver_kind, a.approver_id) IN ((b.maker_kind, b.maker_id), (b.submitter_kind, b.submitter_id))
		UNION ALL
		SELECT w.org_id, 'withdrawal ' || w.withdrawal_id,
			format('pays %s of mint %s to %s as row %s of batch %s, which has %s of mint %s to %s',
			w.amount, w.mint_id, w.to_address, w.batch_row, w.batch_id, i.amount, i.mint_id, i.to_address)
		FROM withdrawals w LEFT JOIN payout_items i ON i.batch_id = w.batch_id AND i.row_no = w.batch_row
			LEFT JOIN payout_batches b ON b.batch_id = w.batch_id
		WHERE w.batch_id IS NOT NULL AND ((w.org_id, w.product, w.mint_id, w.amount, w.to_address)
				IS DISTINCT FROM (b.org_id, 'BATCH_PAYOUT', i.mint_id, i.amount, i.to_address)
			OR b.approved_at IS NULL OR i.refused IS NOT NULL AND w.status <> 'BLOCKED'
			OR NOT i.included)
		UNION ALL
		SELECT min(w.org_id), 'row ' || w.batch_row || ' of batch ' || w.batch_id, format('has %s withdrawals',
			count(*))
		FROM withdrawals w WHERE w.batch_id IS NOT NULL GROUP BY w.batch_id, w.batch_row HAVING count(*) > 1
		UNION ALL
		SELECT o.org_id, 'order ' || o.order_id, format('pays %s, and its withdrawal row %s of batch %s', o.batch,
			w.batch_row,
			w.batch_id)
		FROM dispatch_orders o LEFT JOIN withdrawals w ON w.withdrawal_id = o.order_id
			LEFT JOIN payout_batches b ON b.batch_id = w.batch_id
		WHERE (o.batch IS NOT NULL AND (w.batch_id IS NOT NULL OR w.restored_at IS NULL) OR w.batch_id IS NOT NULL)
			AND (o.batch->>'batchId', o.batch->>'row', o.batch->>'contentHash')
				IS DISTINCT FROM (w.batch_id, w.batch_row::text, 'sha256:' || encode(b.content_hash, 'hex'))`,
	},
	{
		ID:      "I-87-together",
		Promise: "payments that share a transaction are rows of one batch in one mint, except on Bitcoin",
		breachSQL: `
		SELECT o.org_id, 'order ' || o.order_id,
			format('pays %s in mint %s, and shares the transaction of %s, which pays %s in mint %s',
			coalesce(o.batch::text, 'no row'), o.mint_id, l.order_id, coalesce(l.batch::text, 'no row'), l.mint_id)
		FROM dispatch_orders o LEFT JOIN dispatch_orders l ON l.order_id = o.tx_lead_id
		WHERE o.tx_lead_id IS NOT NULL AND o.purpose = 'PAYMENT' AND NOT is_utxo(o.chain)
			AND ((l.purpose, l.mint_id, l.batch - 'row') = (o.purpose, o.mint_id, o.batch - 'row')) IS NOT TRUE`,
	},

	{
		ID:      "I-87-ended",
		Promise: "a batch has ended if all its rows have, and says how",
		breachSQL: `
		SELECT b.org_id, 'batch ' || b.batch_id, format('is %s, and of %s rows %s are paid and %s open', b.status,
			i.included, i.paid,
			i.open)
		FROM payout_batches b CROSS JOIN LATERAL (
			SELECT count(*) FILTER (WHERE i.included) AS included,
				count(*) FILTER (WHERE w.status = 'COMPLETED') AS paid,
				count(*) FILTER (WHERE i.refused IS NULL AND (w.status IN ('COMPLETED', 'FAILED', 'REJECTED',
					'CANCELLED')) IS NOT TRUE) AS open
			FROM payout_items i LEFT JOIN withdrawals w ON w.batch_id = i.batch_id AND w.batch_row = i.row_no
			WHERE i.batch_id = b.batch_id) i
		WHERE b.approved_at IS NOT NULL AND b.status <> 'PROCESSING' AND (i.open > 0
			OR b.status <> CASE i.paid WHEN i.included THEN 'COMPLETED'
				WHEN 0 THEN CASE WHEN b.stopped_at IS NULL THEN 'FAILED' ELSE 'CANCELLED' END
				ELSE 'PARTIALLY_COMPLETED' END)`,
	},

	{
		ID:      "I-88",
		Promise: "what is held for batches is the sum of the rows that no withdrawal and no refusal has taken out",
		breachSQL: `
		SELECT coalesce(h.org_id, r.org_id), 'mint ' || coalesce(h.mint_id, r.mint_id),
			format('%s are held by the books, and %s by rows', coalesce(h.balance, 0), coalesce(r.amount, 0))
		FROM (SELECT a.org_id, a.mint_id, b.balance
			FROM ledger_accounts a JOIN ledger_balances b USING (account_id) WHERE a.kind = 'BATCH_HELD') h
		FULL JOIN (SELECT i.org_id, i.mint_id, sum(i.amount) AS amount
			FROM payout_items i JOIN payout_batches b USING (batch_id)
			WHERE (b.status = 'VALIDATING' OR b.status = 'AWAITING_APPROVAL' AND i.included
					OR b.status = 'PROCESSING' AND i.refused IS NULL)
				AND NOT EXISTS (SELECT FROM withdrawals w WHERE w.batch_id = i.batch_id AND w.batch_row = i.row_no
					AND w.status <> 'BLOCKED')
			GROUP BY 1, 2) r ON r.org_id = h.org_id AND r.mint_id = h.mint_id
		WHERE coalesce(h.balance, 0) <> coalesce(r.amount, 0)`,
	},

	{
		ID: "I-88-posted",
		Promise: "every submitted batch was held once, and given back once if it ended before its approval, and of " +
			"others the rows that they leave out or that nothing pays",
		breachSQL: `
		WITH posted AS (
			SELECT t.cause_kind, t.cause_id, count(*) AS legs, sum(t.amount) AS amount, min(t.org_id) AS org_id,
				min(t.mint_id) AS mint_id,
				min(d.kind || ' ' || d.subject) AS debit, min(c.kind || ' ' || c.subject) AS credit
			FROM ledger_transfers t
			JOIN ledger_accounts d ON d.account_id = t.debit_account
			JOIN ledger_accounts c ON c.account_id = t.credit_account
			WHERE t.cause_kind IN ('BATCH_HOLD', 'BATCH_RELEASE') GROUP BY 1, 2),
		sums AS (
			SELECT b.batch_id, b.org_id, i.mint_id, sum(i.amount) AS amount,
				sum(i.amount) FILTER (WHERE i.included) AS included, sum(i.amount) FILTER (WHERE NOT i.included)
					AS excluded, b.status, b.approved_at
			FROM payout_batches b JOIN payout_items i USING (batch_id) WHERE b.submitted_at IS NOT NULL
				GROUP BY b.batch_id, i.mint_id),
		due AS (
			SELECT 'BATCH_HOLD' AS cause_kind, batch_id || '/' || mint_id AS cause_id, org_id, mint_id, amount,
				'PRODUCT BATCH_PAYOUT' AS debit, 'BATCH_HELD BATCH_PAYOUT' AS credit FROM sums
			UNION ALL
			SELECT 'BATCH_RELEASE', batch_id || '/' || mint_id, org_id, mint_id, included, 'BATCH_HELD BATCH_PAYOUT',
				'PRODUCT BATCH_PAYOUT'
			FROM sums WHERE status IN ('INVALID', 'CANCELLED', 'REJECTED') AND approved_at IS NULL AND included > 0
			UNION ALL
			SELECT 'BATCH_RELEASE', batch_id || '/excluded/' || mint_id, org_id, mint_id, excluded,
				'BATCH_HELD BATCH_PAYOUT', 'PRODUCT BATCH_PAYOUT'
			FROM sums WHERE excluded > 0
			UNION ALL
			SELECT 'BATCH_RELEASE', b.batch_id || '/row/' || i.row_no, b.org_id, i.mint_id, i.amount,
				'BATCH_HELD BATCH_PAYOUT',
				'PRODUCT BATCH_PAYOUT'
			FROM payout_batches b JOIN payout_items i USING (batch_id) WHERE b.approved_at IS NOT NULL AND i.included
				AND i.refused IS NOT NULL)
		SELECT coalesce(r.org_id, p.org_id), 'batch ' || coalesce(r.cause_id, p.cause_id),
			format('%s of %s of mint %s was posted as %s from %s to %s', coalesce(r.cause_kind, p.cause_kind),
				r.amount, r.mint_id, p.amount, p.debit, p.credit)
		FROM due r FULL JOIN posted p ON p.cause_kind = r.cause_kind AND p.cause_id = r.cause_id COLLATE "C"
		WHERE (p.legs, p.org_id, p.mint_id, p.amount, p.debit, p.credit)
			IS DISTINCT FROM (1::bigint, r.org_id, r.mint_id, r.amount, r.debit, r.credit)`,
	},
}
