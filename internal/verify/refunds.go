package verify

// An open refund, of which the payer has not yet everything.
const openRefunds = `('AWAITING_ADDRESS', 'REQUESTED', 'SENT')`

// refundChecks are those of refunds of checkouts.
var refundChecks = []Check{
	{
		ID: "I-83",
		Promise: "a refund takes what its parts say of credited payments, and no payment gives back more than " +
			"arrived",
		breachSQL: `
		SELECT p.org_id, 'payment ' || p.deposit_id,
			format('of %s, %s are being refunded and %s are refunded, and its refunds take %s and %s',
			p.amount, p.refunding, p.refunded, coalesce(t.refunding, 0), coalesce(t.refunded, 0))
		FROM checkout_payments p LEFT JOIN (
			SELECT t.deposit_id, sum(t.amount) FILTER (WHERE r.status IN ` + openRefunds + `) AS refunding,
				sum(t.amount) FILTER (WHERE r.status = 'COMPLETED') AS refunded
			FROM refund_parts t JOIN refunds r USING (refund_id) GROUP BY 1) t USING (deposit_id)
		WHERE (p.refunding, p.refunded) IS DISTINCT FROM (coalesce(t.refunding, 0), coalesce(t.refunded, 0))
			OR p.refunding + p.refunded > p.amount
		UNION ALL
		SELECT r.org_id, 'refund ' || r.refund_id, format('is of %s of mint %s, and its parts are %s of mints %s',
			r.amount, r.mint_id, t.amount, t.mints)
		FROM refunds r LEFT JOIN (
			SELECT t.refund_id, sum(t.amount) AS amount, array_agg(DISTINCT p.mint_id) AS mints, array_agg(DISTINCT
				p.checkout_id) AS checkouts
			FROM refund_parts t JOIN checkout_payments p USING (deposit_id) GROUP BY 1) t USING (refund_id)
		WHERE (t.amount, t.mints, t.checkouts) IS DISTINCT FROM (r.amount, ARRAY[r.mint_id], ARRAY[r.checkout_id])`,
	},

	{
		ID: "I-83-owed",
		Promise: "what is owed to payers is the sum of the open refunds that no withdrawal pays, by organization and " +
			"mint",
		breachSQL: `
		SELECT coalesce(h.org_id, r.org_id), 'mint ' || coalesce(h.mint_id, r.mint_id),
			format('%s are owed by the books, and %s by open refunds', coalesce(h.balance, 0), coalesce(r.amount, 0))
		FROM (SELECT a.org_id, a.mint_id, b.balance
			FROM ledger_accounts a JOIN ledger_balances b USING (account_id) WHERE a.kind = 'REFUND_OWED') h
		FULL JOIN (SELECT r.org_id, r.mint_id, sum(r.amount) AS amount FROM refunds r
			WHERE r.status IN ` + openRefunds + ` AND NOT EXISTS (
				SELECT FROM withdrawals w WHERE w.refund_id = r.refund_id AND (w.status = 'COMPLETED' OR w.status IN
					` + openWithdrawals + `))
			GROUP BY 1, 2) r ON r.org_id = h.org_id AND r.mint_id = h.mint_id
		WHERE coalesce(h.balance, 0) <> coalesce(r.amount, 0)`,
	},

	{
		ID: "I-83-posted",
		Promise: "every refund was taken from the balance of the product once, and given back to it only if it was " +
			"cancelled or expired",
		breachSQL: `
		WITH posted AS (
			SELECT t.cause_kind, t.cause_id, count(*) AS legs, sum(t.amount) AS amount, min(t.org_id) AS org_id,
				min(t.mint_id) AS mint_id,
				min(d.kind || ' ' || d.subject) AS debit, min(c.kind || ' ' || c.subject) AS credit
			FROM ledger_transfers t
			JOIN ledger_accounts d ON d.account_id = t.debit_account
			JOIN ledger_accounts c ON c.account_id = t.credit_account
			WHERE t.cause_kind IN ('REFUND_HOLD', 'REFUND_RELEASE') GROUP BY 1, 2),
		due AS (
			SELECT 'REFUND_HOLD' AS cause_kind, refund_id, org_id, mint_id, amount, 'PRODUCT CHECKOUT' AS debit,
				'REFUND_OWED CHECKOUT' AS credit
			FROM refunds
			UNION ALL
			SELECT 'REFUND_RELEASE', refund_id, org_id, mint_id, amount, 'REFUND_OWED CHECKOUT', 'PRODUCT CHECKOUT'
			FROM refunds WHERE status IN ('CANCELLED', 'EXPIRED'))
		SELECT coalesce(r.org_id, p.org_id), 'refund ' || coalesce(r.refund_id, p.cause_id),
			format('%s of %s of mint %s was posted as %s from %s to %s', coalesce(r.cause_kind, p.cause_kind),
				r.amount, r.mint_id, p.amount, p.debit, p.credit)
		FROM due r FULL JOIN posted p ON p.cause_kind = r.cause_kind AND p.cause_id = r.refund_id
		WHERE (p.legs, p.org_id, p.mint_id, p.amount, p.debit, p.credit)
			IS DISTINCT FROM (1::bigint, r.org_id, r.mint_id, r.amount, r.debit, r.credit)`,
	},

	{
		ID:      "I-84",
		Promise: "a refund is paid once, to the address of its attempt, and the signer's journal pays the same refund",
		breachSQL: `
		SELECT r.org_id, 'refund ' || r.refund_id, format('is %s, and %s withdrawals pay it, of which %s are paid',
			r.status, w.live, w.paid)
		FROM refunds r CROSS JOIN LATERAL (
			SELECT count(*) FILTER (WHERE w.status NOT IN ('FAILED', 'REJECTED', 'CANCELLED', 'BLOCKED')) AS live,
				count(*) FILTER (WHERE w.status = 'COMPLETED') AS paid
			FROM withdrawals w WHERE w.refund_id = r.refund_id) w
		WHERE w.live > 1 OR w.live > 0 AND r.status NOT IN ('REQUESTED', 'SENT', 'COMPLETED')
			OR (r.status = 'COMPLETED') AND w.paid <> 1
		UNION ALL
		SELECT w.org_id, 'withdrawal ' || w.withdrawal_id,
			format('pays %s of mint %s to %s for refund %s, which is of %s of mint %s to %s',
			w.amount, w.mint_id, w.to_address, w.refund_id, r.amount, r.mint_id, coalesce(r.to_address,
				'no address yet'))
		FROM withdrawals w LEFT JOIN refunds r USING (refund_id)
		WHERE w.refund_id IS NOT NULL AND ((w.org_id, w.product, w.mint_id, w.amount) IS DISTINCT FROM (r.org_id,
			'CHECKOUT', r.mint_id, r.amount)
			OR r.withdrawal_id = w.withdrawal_id AND w.to_address <> r.to_address
			OR w.status NOT IN ('FAILED', 'REJECTED', 'CANCELLED', 'BLOCKED') AND w.to_address IS DISTINCT FROM
				r.to_address)
		UNION ALL
		SELECT o.org_id, 'order ' || o.order_id, format('pays refund %s, and its withdrawal refund %s', o.refund,
			w.refund_id)
		FROM dispatch_orders o LEFT JOIN withdrawals w ON w.withdrawal_id = o.order_id LEFT JOIN refunds r ON
			r.refund_id = w.refund_id
		WHERE (o.refund IS NOT NULL AND (w.refund_id IS NOT NULL OR w.restored_at IS NULL) OR w.refund_id IS NOT NULL)
			AND (o.refund->>'refundId', o.refund->>'checkoutId') IS DISTINCT FROM (w.refund_id, r.checkout_id)`,
	},
}
